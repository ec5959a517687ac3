"""Kendall's tau an input, and its summary."""

import itertools
import math

import pandas as pd
import pytest
from classifiers import VOCABULARY, small_model

from course_utils.analysis.correlation import kendall, summary
from course_utils.analysis.importance import gradient, leave_one_out
from course_utils.data import make_batch
from course_utils.errors import AnalysisError


def table(inputs: dict[int, tuple[list[float], list[float]]], predicted_class: int = 0) -> pd.DataFrame:
    rows = [
        (number, predicted_class, a, b) for number, (first, second) in inputs.items() for a, b in zip(first, second, strict=True)
    ]
    return pd.DataFrame(rows, columns=["input", "predicted_class", "attention", "gradient"])


def tau_b(first: list[float], second: list[float]) -> float:
    """The definition: concordant less discordant pairs, over the geometric mean of the pairs not tied in each."""
    signs = [
        (math.copysign(1, a - b) if a != b else 0, math.copysign(1, c - d) if c != d else 0)
        for (a, c), (b, d) in itertools.combinations(zip(first, second, strict=True), 2)
    ]
    return sum(a * b for a, b in signs) / math.sqrt(sum(a * a for a, _ in signs) * sum(b * b for _, b in signs))


def test_tau_by_hand():
    inputs = {
        3: ([0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0]),
        1: ([0.4, 0.3, 0.2, 0.1], [1.0, 2.0, 3.0, 4.0]),
        2: ([0.1, 0.1, 0.3, 0.5], [2.0, 1.0, 1.0, 3.0]),
    }
    frame = kendall(table(inputs))
    assert frame["input"].tolist() == [1, 2, 3]
    assert frame["tau"].tolist() == pytest.approx([-1, 0.4, 1])
    assert [tau_b(*inputs[number]) for number in (1, 2, 3)] == pytest.approx([-1, 0.4, 1])
    assert frame["p_value"].tolist()[0] == pytest.approx(2 / math.factorial(4))
    assert frame["n_tokens"].tolist() == [4, 4, 4]
    assert not frame["significant"].any()


def test_significance_is_at_five_percent():
    ascending = [float(place) for place in range(5)]
    frame = kendall(table({0: (ascending, ascending), 1: (ascending, [0.0, 1.0, 2.0, 4.0, 3.0])}))
    assert frame["p_value"].tolist() == pytest.approx([2 / 120, 10 / 120])
    assert frame["significant"].tolist() == [True, False]


def test_undefined_tau_is_counted_and_left_out_of_the_mean():
    ascending = [float(place) for place in range(6)]
    inputs = {0: (ascending, ascending), 1: ([1.0], [0.5]), 2: ([0.5, 0.5], [0.1, 0.2]), 3: (ascending[:2], [0.3, math.nan])}
    frame = kendall(table(inputs))
    assert frame["tau"].isna().tolist() == [False, True, True, True]
    assert frame["significant"].tolist() == [True, False, False, False]
    alone = kendall(table({4: ([1.0], [1.0])}, predicted_class=1))
    result = summary(pd.concat([frame, alone])).set_index("predicted_class")
    assert result.loc[0, ["tau_mean", "tau_std", "significant_fraction", "n", "n_undefined"]].tolist() == pytest.approx(
        [1, 0, 1, 1, 3]
    )
    assert result.loc[1, ["n", "n_undefined"]].tolist() == [0, 1]
    assert math.isnan(result.loc[1, "tau_mean"])


def test_works_on_the_tables_of_importance():
    texts = ["a b c d e f g", "h", "b i", "j i h a c"]
    model, batch = small_model(), make_batch(texts, VOCABULARY)
    slopes, removed = gradient(model, batch), leave_one_out(model, batch)
    joined = slopes.merge(removed[["input", "position", "leave_one_out"]], on=["input", "position"])
    for columns in (("attention", "gradient"), ("attention", "leave_one_out"), ("gradient", "leave_one_out")):
        frame = kendall(joined, *columns)
        assert frame["tau"].isna().tolist() == [" " not in text for text in texts]
        assert frame["n_tokens"].tolist() == [len(text.split()) for text in texts]
        assert summary(frame)[["n", "n_undefined"]].sum().tolist() == [3, 1]


def test_says_which_column_is_missing():
    with pytest.raises(AnalysisError, match="'leave_one_out'; it has input, predicted_class, attention, gradient"):
        kendall(table({0: ([0.5, 0.5], [0.1, 0.2])}), "attention", "leave_one_out")
    with pytest.raises(AnalysisError, match="no row"):
        kendall(table({}))
    with pytest.raises(AnalysisError, match="'tau'"):
        summary(table({0: ([0.5, 0.5], [0.1, 0.2])}))
