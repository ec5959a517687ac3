"""Figures of pruning: what they draw, and what they refuse."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from course_utils.errors import ShowError
from course_utils.show.pruning import losses, pruning_curves, single_heads

TABLE = pd.DataFrame(
    [(plan, removed, 0.8 - removed / 100, 0.7, 0.9) for plan in ("a", "b") for removed in (0, 4, 2)],
    columns=["plan", "removed", "accuracy", "lowest", "highest"],
)
LOST = pd.DataFrame({"removed": [0, 8, 4], "loss": [0.0, 3.0, 1.0], "low": [0.0, 1.0, 0.5], "high": [0.0, 4.0, 2.0]})
COMPARED = LOST.assign(plan=["a", "b", "c"], removed=4)
HEADS = pd.DataFrame({"raw": [0.1, 0.2, 0.3], "margin": [-1.0, 0.0, 1.0], "accuracy": [0.0, 0.5, 0.0]})


def test_a_line_a_plan_in_order_of_removal():
    fig = pruning_curves(TABLE, title="Found", n_heads=6, chance=0.5, names={"a": "first"})
    axes = fig.axes[0]
    lines = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert [list(line.get_xdata()) for line in lines] == [[0, 2, 4]] * 2
    assert list(lines[0].get_ydata()) == pytest.approx([0.8, 0.78, 0.76])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["first", "b"]
    assert axes.get_title(loc="left") == "Found" and lines[0].get_marker() != lines[1].get_marker()
    plt.close(fig)


def test_a_panel_a_change():
    fig = single_heads(HEADS, "raw", {"accuracy": "points", "margin": "logits"}, title="Found", label="importance")
    assert [axes.get_ylabel() for axes in fig.axes] == ["points", "logits"]
    assert fig.axes[1].collections[0].get_offsets().tolist() == [[0.1, -1.0], [0.2, 0.0], [0.3, 1.0]]
    plt.close(fig)


def test_what_removal_costs():
    fig = losses(LOST, COMPARED, title="Found", allowed=2.0)
    left, right = fig.axes
    line, _, (bars,) = left.containers[0]
    assert line.get_xydata().tolist() == [[0, 0], [4, 1], [8, 3]]
    assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [[0, 0], [0.5, 2], [1, 4]]
    assert [text.get_text() for text in right.get_yticklabels()] == ["b", "c", "a"]
    assert right.get_xlabel() == "points of accuracy lost, 4 heads removed"
    assert right.containers[0][2][0].get_segments()[0][:, 0].tolist() == [1, 4]
    assert left.texts[0].get_text() == "2 points" and left.lines[-1].get_ydata()[0] == 2
    plt.close(fig)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ShowError, match="no column accuracy"):
        pruning_curves(TABLE.drop(columns="accuracy"), title="x", n_heads=6)
    with pytest.raises(ShowError, match="no rows"):
        pruning_curves(TABLE[:0], title="x", n_heads=6)
    with pytest.raises(ShowError, match="too many lines"):
        pruning_curves(pd.concat(TABLE.assign(plan=str(number)) for number in range(9)), title="x", n_heads=6)
    with pytest.raises(ShowError, match="no column lost"):
        single_heads(HEADS, "raw", {"lost": "x"}, title="x", label="x")
    with pytest.raises(ShowError, match="no column high"):
        losses(LOST, COMPARED.drop(columns="high"), title="x")
    with pytest.raises(ShowError, match="no rows"):
        losses(LOST[:0], COMPARED, title="x")
    with pytest.raises(ShowError, match="panels"):
        single_heads(HEADS, "raw", {}, title="x", label="x")
