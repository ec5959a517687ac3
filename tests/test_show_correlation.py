"""Figures of agreement."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from course_utils.errors import ShowError
from course_utils.show import correlation

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_undefined_taus_are_counted():
    tau = [0.5, 0.3, np.nan, -0.2]
    frame = pd.DataFrame({"comparison": "a and b", "tau": tau, "predicted_class": [0, 1, 0, 1]})
    fig = correlation.taus(frame, ("no", "yes"))
    assert fig.axes[0].get_title(loc="left") == "a and b\nmean 0.20, 1 undefined"
    assert {text.get_text() for text in fig.axes[0].get_legend().get_texts()} == {"no", "yes"}
    with pytest.raises(ShowError, match="defined"):
        correlation.taus(frame.assign(tau=np.nan), ("no", "yes"))


def test_agreement_draws_each_model_once_with_its_interval():
    table = pd.DataFrame(
        {
            "model": ["x", "y", "x"],
            "comparison": ["1", "1", "2"],
            "mean": [0.1, 0.5, 0.2],
            "low": [0.0, np.nan, 0.1],
            "high": [0.2, np.nan, 0.3],
        }
    )
    fig = correlation.agreement(table, title="y agrees more")
    assert [label.get_text() for label in fig.axes[0].get_yticklabels()] == ["y", "x"]
    with pytest.raises(ShowError, match="model"):
        correlation.agreement(table.drop(columns="model"), title="t")
