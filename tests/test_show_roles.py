import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from course_utils.errors import ShowError
from course_utils.show.roles import relations

TABLE = pd.DataFrame(
    {
        "relation": ["dobj", "case"],
        "layer": [2, 0],
        "head": [0, 2],
        "score": [0.67, 1.0],
        "low": [0.6, 1.0],
        "high": [0.73, 1.0],
        "fixed": [0.32, 1.0],
        "near": [0.8, 1.0],
        "far": [0.6, np.nan],
    }
)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def marks(axes):
    return {line.get_label(): list(line.get_xdata()) for line in axes.lines if not line.get_label().startswith("_")}


def test_every_relation_has_its_marks_in_the_order_of_the_table():
    left, right = relations(TABLE, TABLE[:1].assign(score=0.05), title="What it shows").axes
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["dobj  2-0", "case  0-2"]
    assert left.get_yticks()[0] > left.get_yticks()[1]
    assert marks(left)["best fixed offset"] == [0.32, 1]
    untrained = marks(left)["best head, untrained"]
    assert untrained[0] == 0.05 and np.isnan(untrained[1])
    assert marks(right)["at that offset"] == [0.8, 1]
    assert marks(right)["elsewhere"][0] == 0.6 and np.isnan(marks(right)["elsewhere"][1])


def test_the_interval_is_drawn_where_it_lies():
    left = relations(TABLE, title="What it shows").axes[0]
    (bars,) = (container for container in left.containers if container.get_label().startswith("best head"))
    segments = bars.lines[2][0].get_segments()
    assert np.allclose([segment[:, 0] for segment in segments], TABLE[["low", "high"]])
    assert "best head, untrained" not in marks(left)


@pytest.mark.parametrize(("table", "message"), [(TABLE[:0], "no row"), (TABLE.drop(columns="far"), "no column far")])
def test_what_cannot_be_drawn_is_refused(table, message):
    with pytest.raises(ShowError, match=message):
        relations(table, title="What it shows")
