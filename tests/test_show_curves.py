"""Lines of a sweep: a line a group, and what is refused."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from course_utils.errors import ShowError
from course_utils.show import curves

NAMED = {"group": "model", "title": "Found", "xlabel": "size", "ylabel": "entropy"}


def frame(groups=2):
    return pd.DataFrame(
        [(size, 0.1 * size, f"model {number}") for size in (1, 2, 4) for number in range(groups)], columns=["x", "y", "model"]
    )


def test_a_line_a_group_with_its_means():
    fig = curves(frame(), "x", "y", log=True, **NAMED)
    axes = fig.axes[0]
    lines = [line for line in axes.lines if len(line.get_xdata()) == 3]
    assert [list(line.get_ydata()) for line in lines] == [pytest.approx([0.1, 0.2, 0.4])] * 2
    assert (axes.get_title(loc="left"), axes.get_xscale()) == ("Found", "log")
    plt.close(fig)


@pytest.mark.parametrize(("rows", "said"), [(frame(), ""), (pd.concat([frame(), frame()]), "band: 95 % interval")])
def test_the_legend_speaks_of_a_band_only_where_there_is_one(rows, said):
    fig = curves(rows, "x", "y", **NAMED)
    assert fig.axes[0].get_legend().get_title().get_text() == said
    plt.close(fig)


@pytest.mark.parametrize(
    ("table", "match"), [(frame(9), "too many lines"), (frame().drop(columns="y"), "no column y"), (frame()[:0], "no rows")]
)
def test_what_cannot_be_drawn_is_refused(table, match):
    with pytest.raises(ShowError, match=match):
        curves(table, "x", "y", **NAMED)
