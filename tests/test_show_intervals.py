import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from course_utils.errors import ShowError
from course_utils.show.intervals import intervals

TABLE = pd.DataFrame(
    [("whole", "1-3", 0.9, 0.8, 0.95), ("shuffled", "1-3", 0.7, 0.6, 0.8), ("whole", "rule", 0.6, np.nan, np.nan)],
    columns=["condition", "series", "accuracy", "low", "high"],
)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_each_value_stands_in_its_row_with_its_interval():
    axes = intervals(TABLE, title="A finding").axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["whole", "shuffled"]
    assert axes.get_title(loc="left") == "A finding"
    drawn = {container.get_label(): container for container in axes.containers}
    points = drawn["1-3"].lines[0]
    np.testing.assert_allclose(points.get_xdata(orig=False), [0.9, 0.7])
    np.testing.assert_allclose(np.round(points.get_ydata(orig=False)), [0, 1])
    segments = drawn["1-3"].lines[2][0].get_segments()
    np.testing.assert_allclose([(one[0][0], one[1][0]) for one in segments], [(0.8, 0.95), (0.6, 0.8)])
    (bare,) = drawn["rule"].lines[2][0].get_segments()
    assert bare[0][0] == bare[1][0] == 0.6
    assert drawn["rule"].lines[0].get_marker() != points.get_marker()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["chance", "1-3", "rule"]


def test_other_columns_and_another_reference():
    table = TABLE.rename(columns={"condition": "head", "accuracy": "mean"})
    axes = intervals(table, title="x", value="mean", rows="head", reference=0.1, reference_label="nothing", label="change").axes[0]
    assert axes.get_xlabel() == "change"
    assert any(line.get_label() == "nothing" and line.get_xdata()[0] == 0.1 for line in axes.get_lines())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE[:0], "no row"),
        (TABLE.drop(columns="low"), "no column low"),
        (pd.concat([TABLE, TABLE]), "twice"),
        (pd.concat([TABLE.assign(series=str(n)) for n in range(9)]).drop_duplicates(["condition", "series"]), "8 fit"),
    ],
)
def test_tables_that_cannot_be_drawn(table, message):
    with pytest.raises(ShowError, match=message):
        intervals(table, title="x")
