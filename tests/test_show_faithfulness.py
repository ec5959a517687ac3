"""Figures of faithfulness: what stands in them, and which tables they refuse."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from course_utils.analysis.faithfulness import intervals
from course_utils.errors import ShowError
from course_utils.show.faithfulness import by_task, curves, points

mpl.use("Agg")
METHODS = ("random", "attention", "attention_gradient")


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def values(n: int = 30) -> pd.DataFrame:
    """Method number m of input i at amount a has a change of m (a + 1) / 10 and some noise, and the opposite sufficiency."""
    rows = pd.MultiIndex.from_product([range(n), METHODS, [1, 3]], names=["input", "method", "amount"]).to_frame(index=False)
    place = rows["method"].map(METHODS.index)
    change = place * (rows["amount"] + 1) / 10 + np.random.default_rng(0).normal(0, 0.01, len(rows))
    return rows.assign(change=change, sufficiency=-change)


def curve_table() -> pd.DataFrame:
    return pd.concat([intervals(values(), column, "amount") for column in ("change", "sufficiency")])


def point_table(column: str) -> pd.DataFrame:
    return intervals(values().query("amount == 3"), column)


def test_curves_show_each_method_in_each_panel_with_its_interval():
    fig = curves(curve_table())
    assert len(fig.axes) == 2
    for axes, column in zip(fig.axes, ("change", "sufficiency"), strict=True):
        drawn = {container.get_label(): container for container in axes.containers}
        assert list(drawn) == ["random", "attention", "attention x gradient"]
        rows = intervals(values(), column, "amount").query("method == 'attention'")
        line, _, (bars,) = drawn["attention"]
        assert line.get_ydata() == pytest.approx(rows["mean"].to_numpy())
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends, rows[["low", "high"]].to_numpy())
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "3"]
        assert axes.get_xlabel() == "tokens deleted" and axes.get_ylabel()
        assert drawn["random"][0].get_linestyle() == "--"
    fig.canvas.draw()


def test_titles_name_the_best_which_is_the_lowest_where_low_is_good():
    assert "falls most by attention x gradient, 0.80 (random 0.00)" in curves(curve_table()).get_suptitle()
    assert "sufficient: attention x gradient, -0.80" in curves(curve_table()).get_suptitle()
    assert points(point_table("change")).axes[0].get_title(loc="left").endswith("attention x gradient, 0.80 (random 0.00)")
    assert curves(curve_table(), title="My words").get_suptitle() == "My words"
    lonely = point_table("change").query("method == 'attention'")
    assert points(lonely).axes[0].get_title(loc="left") == "The probability falls most by attention, 0.40"


@pytest.mark.parametrize("column", ["change", "sufficiency"])
def test_points_have_the_best_on_top(column):
    axes = points(point_table(column)).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["random", "attention", "attention x gradient"]
    assert "30 inputs" in axes.get_xlabel()
    assert {text.get_text() for text in axes.texts} >= ({"0.80", "0.40"} if column == "change" else {"-0.80", "-0.40"})


def test_tasks_stand_side_by_side_with_the_same_rows():
    both = pd.concat([point_table("change").assign(task=task) for task in ("reviews", "stories")])
    both = both[(both["task"] == "reviews") | (both["method"] != "attention")]
    fig = by_task(both.assign(mean=both["mean"] + (both["task"] == "stories"), high=both["high"] + 1), title="A finding")
    assert fig.get_suptitle() == "A finding"
    assert [label.get_text() for label in fig.axes[0].get_yticklabels()] == ["attention x gradient", "attention", "random"]
    assert fig.axes[0].get_ylim() == fig.axes[1].get_ylim()
    assert {text.get_text() for text in fig.axes[0].texts} == {"0.80", "0.40", "0.00"}
    assert [(text.get_text(), text.xy[1]) for text in fig.axes[1].texts] == [("1.80", 0), ("1.00", 2)]
    fig.canvas.draw()
    with pytest.raises(ShowError, match="several rows in a task"):
        by_task(both.assign(task="reviews"), title="")
    with pytest.raises(ShowError, match="mixes the measures change, sufficiency"):
        by_task(pd.concat([both, point_table("sufficiency").assign(task="reviews")]), title="")
    with pytest.raises(ShowError, match="no column task"):
        by_task(point_table("change"), title="")


def test_shares_are_written_in_per_cent():
    table = curve_table().assign(amount=lambda rows: rows["amount"] / 10).rename(columns={"amount": "share"})
    axes = curves(table).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["10 %", "30 %"]
    assert axes.get_xlabel() == "share of the text"
    flips = pd.DataFrame({"method": ["top", "random", "neither"], "measure": "flips", "mean": [0.145, 0.006, 0.85], "n": 200})
    axes = points(flips.assign(low=flips["mean"] / 2, high=flips["mean"])).axes[0]
    assert axes.get_title(loc="left") == "Without the top item 14.5 % of decisions flip, without a random other one 0.6 %"


def test_drawing_leaves_the_table_and_the_settings_alone():
    table, before = curve_table(), dict(mpl.rcParams)
    curves(table)
    points(point_table("change"))
    pd.testing.assert_frame_equal(table, curve_table())
    assert dict(mpl.rcParams) == before


def test_tables_that_cannot_be_drawn_are_refused_in_words():
    with pytest.raises(ShowError, match="no column amount"):
        curves(point_table("change"))
    with pytest.raises(ShowError, match="has several rows"):
        points(curve_table())
    with pytest.raises(ShowError, match="no rows"):
        points(point_table("change").iloc[:0])
    with pytest.raises(ShowError, match="not finite"):
        points(point_table("change").assign(low=np.nan))
    many = pd.concat([curve_table().query("method == 'attention'").assign(method=f"method {n}") for n in range(8)])
    with pytest.raises(ShowError, match="8 methods are too many"):
        curves(many)
