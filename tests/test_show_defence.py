"""Figures of the defence."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest

from course_utils.errors import ShowError
from course_utils.show.defence import distances, trade_off

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_kinds_come_in_their_order_with_their_medians():
    frame = pd.DataFrame({"kind": ["seeds"] * 3 + ["adversary"] * 3, "jsd": [0.1, 0.2, 0.3, 0.5, 0.6, 0.69]})
    axes = distances(frame).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["seeds", "adversary"]
    assert "0.20 (seeds), 0.60 (adversary)" in axes.get_title(loc="left")
    with pytest.raises(ShowError, match="kind"):
        distances(frame.drop(columns="kind"))


def test_each_lambda_is_named():
    frame = pd.DataFrame({"strength": ["0", "0", "0.1"], "jsd": [0.1, 0.12, 0.6], "change": [0.02, 0.03, 0.3]})
    axes = trade_off(frame, title="t", others=[("another seed", 0.2, 0.1)]).axes[0]
    assert {"0", "0.1"} <= {text.get_text() for text in axes.texts}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["trained adversary, by lambda", "another seed"]
    with pytest.raises(ShowError, match="no row"):
        trade_off(frame[:0], title="t")
