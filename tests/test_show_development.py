"""Figures and the slider of lesson 15: what stands where, and what is refused."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from course_utils.analysis.development import follow, knock_out
from course_utils.data.repeats import make_repeats
from course_utils.errors import ShowError
from course_utils.models.attention_only import AttentionOnlyConfig, Training
from course_utils.show.development import divided, explore_checkpoints, knocked_out, roles_and_loss, stages, windows

SMALL = AttentionOnlyConfig(vocabulary=7, length=12, width=8, heads=2)


@pytest.fixture(scope="module")
def training():
    return Training(SMALL, periods=(2, 5), every=5, batch=4).run(15, progress=False)


@pytest.fixture(scope="module")
def repeats():
    return make_repeats(6, 12, 7, periods=(2, 5), generator=torch.Generator().manual_seed(5))


@pytest.fixture(scope="module")
def found(training, repeats):
    return follow(training, repeats)


@pytest.fixture(scope="module")
def maps(training):
    one = make_repeats(1, 8, 7, periods=(3, 3), generator=torch.Generator().manual_seed(1))
    return {step: training.model(step).attend(one) for step in (0, 10, 15)}


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_roles_and_loss_share_their_steps(found):
    fig = roles_and_loss(found, window=(5, 10), title="What it shows")
    loss, previous, back = fig.axes
    assert loss.get_title(loc="left") == "What it shows" and back.get_xlabel() == "training step"
    np.testing.assert_allclose(loss.lines[1].get_ydata(), found.losses["repeated"])
    for axes, layer, score in ((previous, 0, "previous"), (back, 1, "induction")):
        rows = found.heads[(found.heads["layer"] == layer) & (found.heads["head"] == 1)]
        np.testing.assert_allclose(axes.lines[1].get_ydata(), rows[score])
        assert axes.lines[0].get_marker() != axes.lines[1].get_marker()
    many = found._replace(heads=pd.concat([found.heads.assign(head=number) for number in range(9)]))
    with pytest.raises(ShowError, match="9 values of head are too many"):
        roles_and_loss(many, title="x")


def test_division_has_distance_above_and_movement_below(found):
    fig = divided(found, title="What it shows")
    rows = found.layers[found.layers["layer"] == 1]
    np.testing.assert_allclose(fig.axes[0].lines[1].get_ydata(), rows["distance"])
    np.testing.assert_allclose(fig.axes[1].lines[1].get_ydata(), rows["moved"].dropna())


def test_stages_put_heads_below_each_other_and_steps_side_by_side(maps):
    fig = stages(maps, [(0, 1), (1, 0)], title="What it shows")
    grid = [axes for axes in fig.axes if axes.get_images()][:6]
    np.testing.assert_allclose(grid[1].get_images()[0].get_array(), maps[10].attention[0, 0, 1].detach(), atol=1e-6)
    np.testing.assert_allclose(grid[5].get_images()[0].get_array(), maps[15].attention[0, 1, 0].detach(), atol=1e-6)
    assert [axes.get_title(loc="left") for axes in grid[:3]] == ["step 0", "step 10", "step 15"]
    with pytest.raises(ShowError, match="0 checkpoints"):
        stages({}, [(0, 0)], title="x")
    with pytest.raises(ShowError, match="head 2 does not exist"):
        stages(maps, [(0, 2)], title="x")


def test_knocked_out_heads_stand_beside_the_whole_model(training, repeats):
    table = knock_out(training.model(), repeats)
    axes = knocked_out(table, title="What it shows").axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [
        "taken from everything",
        "taken from keys only",
        "taken from queries only",
        "taken from values only",
        "whole model",
    ]
    everything = table[table["part"] == "everything"]["repeated"]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), everything)
    assert axes.lines[-1].get_xdata()[0] == pytest.approx(table["repeated"].iloc[0])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0-0", "0-1", "1-0", "1-1"]
    with pytest.raises(ShowError, match="no row with part 'none'"):
        knocked_out(table[1:], title="x")


def test_windows_are_a_bar_a_seed():
    rows = [(seed, name, "a", value + seed) for seed in (0, 1) for name, value in (("begin", 1), ("middle", 5), ("end", 9))]
    results = pd.DataFrame(rows, columns=["seed", "measure", "group", "value"])
    axes = windows(results, title="What it shows").axes[0]
    assert list(axes.lines[0].get_xdata()) == [1, 9] and list(axes.lines[3].get_xdata()) == [6]
    with pytest.raises(ShowError, match="no row has the measure"):
        windows(results.assign(measure="x"), title="x")


def test_the_slider_and_the_menu_change_the_map_and_what_is_said(maps):
    explorer = explore_checkpoints(maps, layer=1, head=0)
    assert explorer.slider.value == 15 and explorer.menu.value == (1, 0)
    first = explorer.picture.value
    assert 'alt="Map of head 1-0 after 15 steps' in first
    explorer.slider.value = 0
    assert "head 1-0 after 0 steps" in explorer.picture.value and explorer.picture.value != first
    explorer.menu.value = (0, 1)
    assert "head 0-1 after 0 steps" in explorer.picture.value and 'role="status"' in explorer.picture.value
    assert not plt.get_fignums()
    with pytest.raises(ShowError, match="no checkpoint"):
        explore_checkpoints({})
    with pytest.raises(ShowError, match="layer 2 does not exist"):
        explore_checkpoints(maps, layer=2)
