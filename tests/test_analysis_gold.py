"""Precision at finding known answers."""

import pandas as pd
import pytest

from course_utils.analysis.gold import precision
from course_utils.data import Example
from course_utils.errors import AnalysisError

TEXTS = [Example("a b c d", 0, "q", (False, True, True, False)), Example("e f", 1, "q", (False, False))]


def scores(*values):
    rows = [(0, place, word, value) for place, (word, value) in enumerate(zip("abcd", values, strict=True))]
    return pd.DataFrame([*rows, (1, 0, "e", 1.0), (1, 1, "f", 0.0)], columns=["input", "position", "token", "m"])


@pytest.mark.parametrize(
    ("values", "first", "r_precision"),
    [
        ((0, 3, 2, 1), 1, 1),
        ((3, 0, 1, 2), 0, 0),
        ((3, 2, 1, 0), 0, 0.5),
        ((1, 1, 1, 1), 0.5, 0.5),
        ((0, 2, 1, 1), 1, 0.75),
    ],
)
def test_by_hand(values, first, r_precision):
    row = precision(scores(*values), TEXTS).iloc[0]
    assert (row["first"], row["r_precision"]) == (first, r_precision)
    assert (row["n_gold"], row["n_tokens"]) == (2, 4)


def test_texts_in_which_nothing_decides_are_left_out():
    assert precision(scores(1, 2, 3, 4), TEXTS)["input"].tolist() == [0]
    with pytest.raises(AnalysisError, match="gold"):
        precision(scores(1, 2, 3, 4), [Example("a b c d"), Example("e f")])


def test_another_list_of_texts_is_refused():
    with pytest.raises(AnalysisError, match="input 0"):
        precision(scores(1, 2, 3, 4), TEXTS[::-1])
