"""The paper's figures: what stands in them, and which tables they refuse."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from course_utils.errors import AnalysisError, ShowError
from course_utils.show import plots, slab
from course_utils.show.geometry import slab_corners

mpl.use("Agg")
CLASSES = ("negative", "positive")
DRAWINGS = (plots.permutation, plots.max_jsd, plots.max_jsd_by_attention)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def table(n: int = 60) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    columns = {"max_attention": generator.uniform(0.01, 1, n), "median_change": generator.uniform(0, 0.4, n)}
    return pd.DataFrame(columns | {"max_jsd": generator.uniform(0.3, 0.69, n), "predicted_class": generator.integers(0, 2, n)})


def test_tasks_are_compared_by_their_medians():
    frame = pd.concat([table().assign(task=name, median_change=value) for name, value in (("reviews", 0.1), ("stories", 0.9))])
    fig = plots.permutation_by_task(frame)
    assert "0.10 (reviews) to 0.90 (stories)" in fig.axes[0].get_title(loc="left")
    assert [label.get_text() for label in fig.axes[0].get_yticklabels()] == ["reviews", "stories"]
    with pytest.raises(ShowError, match="task"):
        plots.permutation_by_task(table())


@pytest.mark.parametrize("draw", DRAWINGS)
def test_figures_have_a_title_labels_and_the_classes(draw):
    fig = draw(table(), CLASSES)
    axes = fig.axes[0]
    titles = [axes.get_title(loc="left"), fig.get_suptitle()]
    assert any("0." in title for title in titles)
    assert axes.get_xlabel() and axes.get_ylabel()
    assert {text.get_text() for text in fig.axes[-1].get_legend().get_texts()} == set(CLASSES)
    assert draw(table(), CLASSES, title="My words")
    fig.canvas.draw()


@pytest.mark.parametrize("draw", DRAWINGS)
def test_drawing_leaves_the_table_and_the_settings_alone(draw):
    frame, before = table(), dict(mpl.rcParams)
    draw(frame)
    pd.testing.assert_frame_equal(frame, table())
    assert dict(mpl.rcParams) == before


def test_bins_are_those_of_the_paper_and_say_how_many_they_hold():
    frame = pd.DataFrame(
        {"max_attention": [0.1, 0.25, 0.4999, 0.75, 1.0], "median_change": 0.1, "predicted_class": [0, 1, 0, 1, 0]}
    )
    labels = [label.get_text() for label in plots.permutation(frame).axes[0].get_yticklabels()]
    assert labels == ["[0, .25)\nn = 1", "[.25, .5)\nn = 2", "[.5, .75)\nn = 0", "[.75, 1]\nn = 2"]


def test_every_input_is_a_point_under_its_own_bin():
    clouds = [shape for shape in plots.permutation(table()).axes[0].collections if isinstance(shape, PathCollection)]
    points = np.concatenate([cloud.get_offsets() for cloud in clouds])
    wanted = table()
    assert sorted(points[:, 0]) == pytest.approx(sorted(wanted["median_change"]))
    bins = dict(zip(wanted["median_change"].round(9), np.minimum(wanted["max_attention"] // 0.25, 3), strict=True))
    assert all(abs(y - bins[round(float(x), 9)]) < 0.5 for x, y in points)


def test_titles_state_the_medians_and_the_ceiling_is_drawn():
    both = pd.concat([table().assign(method="exact", max_jsd=0.66), table().assign(method="published optimiser", max_jsd=0.35)])
    fig = plots.max_jsd(both, CLASSES)
    assert "exact 0.66, published optimiser 0.35" in fig.get_suptitle()
    assert [axes.get_title(loc="left") for axes in fig.axes] == ["exact", "published optimiser"]
    for axes in fig.axes:
        assert any(line.get_xdata()[0] == pytest.approx(np.log(2)) for line in axes.lines)


def test_the_histogram_of_a_class_is_in_percent_of_that_class():
    frame = table(100).assign(predicted_class=[0] * 90 + [1] * 10, max_jsd=[0.6] * 45 + [0.3] * 45 + [0.5] * 10)
    heights = [shape.get_paths()[0].vertices[:, 1].max() for shape in plots.max_jsd(frame, CLASSES).axes[0].collections]
    assert heights == pytest.approx([50, 100])


@pytest.mark.parametrize("draw", DRAWINGS)
def test_one_row_one_class_and_many_classes_can_be_drawn(draw):
    draw(table(1)).canvas.draw()
    draw(table().assign(predicted_class=1), CLASSES).canvas.draw()
    draw(table().assign(predicted_class=np.arange(60) % 4)).canvas.draw()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="predicted_class"), "predicted_class"),
        (lambda frame: frame.drop(columns="max_jsd"), "max_jsd"),
        (lambda frame: frame.iloc[:0], "no rows"),
        (lambda frame: frame.assign(max_jsd=np.nan), "60 values"),
        (lambda frame: frame.assign(max_attention=1.5), "1.5"),
        (lambda frame: frame.assign(predicted_class=2), "2 class names|only 2"),
    ],
)
def test_tables_that_cannot_be_drawn_are_refused(change, message):
    with pytest.raises(ShowError, match=message):
        plots.max_jsd_by_attention(change(table()), CLASSES)


def test_slab_corners_lie_on_a_wall_or_a_token_and_hold_the_slab():
    values, low, high = np.array([3.0, 0.2, -2.5]), 0.4, 1.1
    corners = slab_corners(values, low, high)
    assert len(corners) == 4
    for corner in corners:
        assert corner.min() >= 0 and corner.sum() == pytest.approx(1)
        assert min(abs(corner @ values - low), abs(corner @ values - high)) < 1e-12
    assert len(slab_corners(values, -np.inf, np.inf)) == 3


def test_the_star_is_the_corner_furthest_away_and_the_title_names_its_tokens():
    fig = slab(["great", "film", "boring"], [0.55, 0.3, 0.15], [3.0, 0.2, -2.5], 0.1)
    title = fig.axes[0].get_title(loc="left")
    assert "on 'great'" in title and "on 'film'" in title and "boring" not in title
    corners, _, star = (np.column_stack(line.get_data()) for line in fig.axes[0].lines)
    assert np.isclose(corners, star).all(1).any()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((["a", "b"], [0.5, 0.5], [1.0, 2.0]), ShowError),
        ((list("abc"), [0.5, 0.5, 0.5], [1.0, 2.0, 3.0]), ShowError),
        ((list("abc"), [0.5, 0.3, 0.2], [1.0, 2.0, 3.0], 2), AnalysisError),
    ],
)
def test_slab_refuses_what_is_no_triangle(arguments, error):
    with pytest.raises(error):
        slab(*arguments)
