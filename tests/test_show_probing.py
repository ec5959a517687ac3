"""Figures of probes: what stands where, and what is refused."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from course_utils.errors import ShowError
from course_utils.show.probing import confusion, confusion_table, explore_probes, removal, trees

TITLE = "What it shows"


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def frame(task, layer, label, predicted):
    rows = pd.DataFrame({"label": list(label), "predicted": list(predicted)})
    return rows.assign(task=task, layer=layer, sentence=np.arange(len(rows)) // 2, correct=rows["label"] == rows["predicted"])


def test_a_row_of_the_confusion_is_a_label_and_sums_to_one():
    table = confusion_table(frame("pos", 0, "NNNVVD", "NNVVDD"), 2)
    assert table.index.tolist() == ["N", "V"] and table.columns.tolist() == ["N", "V", "other"]
    np.testing.assert_allclose(table, [[2 / 3, 1 / 3, 0], [0, 0.5, 0.5]])
    axes = confusion(frame("pos", 0, "NNNVVD", "NNVVDD"), title=TITLE, n_labels=2).axes[0]
    assert axes.get_title(loc="left") == TITLE and {text.get_text() for text in axes.texts} == {"0.67", "0.33", "0.50"}
    with pytest.raises(ShowError, match="no column label, predicted"):
        confusion(pd.DataFrame({"x": [1]}), title=TITLE)


def test_the_parsers_tree_is_above_and_shared_edges_are_solid():
    axes = trees(["a", "b", "c"], np.array([[0, 1], [1, 2]]), np.array([[0, 1], [0, 2]]), title=TITLE).axes[0]
    arcs = {
        (line.get_xdata()[0], line.get_xdata()[-1], bool(line.get_ydata()[20] > 0)): line.get_linestyle() for line in axes.lines
    }
    assert arcs == {(0, 1, True): "-", (0, 1, False): "-", (1, 2, True): "--", (0, 2, False): "--"}
    with pytest.raises(ShowError, match="beyond the 2 words"):
        trees(["a", "b"], np.array([[0, 2]]), np.array([[0, 1]]), title=TITLE)


def test_removals_stand_from_top_to_bottom_with_their_intervals():
    table = pd.DataFrame({"removed": ["x", "y"], "mean": [0.2, 0.5], "low": [0.1, 0.3], "high": [0.4, 0.6]})
    axes = removal(table, title=TITLE, label="change").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y"] and axes.get_yticks().tolist() == [1, 0]
    segments = sorted(segment[:, 0].tolist() for segment in axes.collections[0].get_segments())
    np.testing.assert_allclose(segments, [[0.1, 0.4], [0.3, 0.6]])
    with pytest.raises(ShowError, match="no column high"):
        removal(table.drop(columns="high"), title=TITLE, label="change")


def test_the_explorer_follows_its_menus_and_escapes_labels():
    table = pd.concat([
        frame("pos", 0, "NNVV", "NNNN"), frame("ctrl", 0, "abab", "abab"),
        frame("pos", 1, ["<b>", "<b>", "V", "V"], ["<b>", "<b>", "V", "V"]), frame("ctrl", 1, "abab", "aaaa"),
    ])  # fmt: skip
    explorer = explore_probes(table, {"pos": "ctrl"})
    assert "accuracy 0.50" in explorer.status.value and "selectivity <b>-0.50</b>" in explorer.status.value
    explorer.layer.value = 1
    assert "accuracy 1.00" in explorer.status.value and "control 0.50" in explorer.status.value
    assert "&lt;b&gt;" in explorer.picture.value and "<b>" not in explorer.picture.value
    with pytest.raises(ShowError, match="no task 'other'"):
        explore_probes(table, {"pos": "other"})
