"""Figures of moved attention, and the widget without a browser."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import tiny
import torch

from course_utils.analysis.freedom import Furthest
from course_utils.errors import ShowError
from course_utils.show import moving


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return tiny.classifier(tmp_path_factory.mktemp("models") / "bert")


def test_freedom_draws_the_rule_and_the_measured():
    frame = pd.DataFrame({"n_tokens": [3, 6, 6], "free_sum": [0, 1, 1], "hidden": [0.0, 0.2, 0.4]})
    left, right = moving.freedom(frame, head_size=4, title="Found").axes[:2]
    assert left.lines[0].get_ydata().tolist() == [0, 1]
    assert right.collections[1].get_offsets()[:, 1].tolist() == pytest.approx([0.0, 0.3])
    with pytest.raises(ShowError):
        moving.freedom(frame[:0], head_size=4, title="Found")


def test_a_row_is_drawn_with_its_range():
    found = Furthest(np.array([0.1, 0.2]), np.array([0.6, 0.9]), np.array([0.6, 0.4]), 0.1, 0.2)
    axes = moving.row_range(["a", "b"], torch.tensor([0.5, 0.5]), found, title="Found").axes[0]
    assert [line[:, 1].tolist() for line in axes.collections[0].get_segments()] == [[0.1, 0.6], [0.2, 0.9]]
    assert axes.collections[2].get_offsets()[:, 1].tolist() == [0.6, 0.4]
    with pytest.raises(ShowError):
        moving.row_range(["a"], torch.tensor([0.5, 0.5]), found, title="Found")


def test_changes_mark_the_median_of_each_group():
    frame = pd.DataFrame({"way": ["x", "x", "x", "y"], "change": [0.1, 0.2, 0.6, 0.3]})
    axes = moving.changes(frame, title="Found").axes[0]
    assert [float(line.get_xdata()[0]) for line in axes.lines] == [0.2, 0.3]
    with pytest.raises(ShowError, match="no column way"):
        moving.changes(frame[["change"]], title="Found")


def test_maps_stand_above_each_other():
    maps = {"A": torch.eye(2), "B": torch.full((2, 2), 0.5)}
    fig = moving.before_and_after(maps, {"A": maps["B"], "B": maps["A"]}, ["x", "y"], title="Found")
    drawn = [np.asarray(axes.get_images()[0].get_array()).tolist() for axes in fig.axes[:4]]
    assert drawn[0] == drawn[3] == maps["A"].tolist() and drawn[1] == drawn[2] == maps["B"].tolist()
    with pytest.raises(ShowError):
        moving.before_and_after(maps, {"A": maps["A"]}, ["x", "y"], title="Found")


def test_the_widget_follows_its_menus(classifier):
    mover = moving.move_between_heads(classifier, tiny.TEXTS[0], tiny.TEXTS, start=(1, 0, 2))
    assert "change of 0.000" in mover.status.value and "<img" in mover.picture.value
    mover.menus["way"].value = moving.WAYS[3]
    assert "before" in mover.status.value
    mover.menus["target"].value = 0
    assert "choose two" in mover.status.value
    mover.refresh = lambda: None  # the other ways without their figures
    mover.menus["target"].value = 2
    for way in moving.WAYS[1:]:
        mover.menus["way"].value = way
        assert list(mover.changes()) == [(1, 2)]
    with pytest.raises(ShowError, match="at most 40"):
        moving.move_between_heads(classifier, "good " * 50, tiny.TEXTS)
