"""Does a measure of importance find the tokens that are known to decide? Where the answer is known, precision can be counted."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from course_utils.analysis.erasure import methods_of
from course_utils.data import Example
from course_utils.errors import AnalysisError


def precision(scores: pd.DataFrame, texts: Sequence[Example], methods: Sequence[str] | None = None) -> pd.DataFrame:
    """How many of the most important tokens belong to what decides.

    Args:
        scores: one row a token, as from `rankings`; `input` is a text's position in `texts`.
        texts: with `gold` marks; texts without a mark (nothing in them decides) are left out.
        methods: columns of `scores`; all its measures unless told.
    Returns:
        one row an input and method: `input`, `n_tokens`, `n_gold`, `method`, `first`, 1 if the most important token is gold, else 0
        (the share among tokens that tie), and `r_precision` in [0, 1]: the share of gold among the `n_gold` most important tokens.
        Chance is `n_gold / n_tokens` for both. Of equally important tokens each counts with the share that fits in.
    Raises:
        AnalysisError: no text has a mark, an input is not in `texts`, or a measure is missing or undefined.
    """
    methods = methods_of(scores, methods)
    rows = []
    for number, tokens in scores.sort_values(["input", "position"]).groupby("input"):
        if number >= len(texts) or len(texts[number].tokens) != len(tokens):
            raise AnalysisError(f"input {number} of the table is not that of the texts; give the list that was batched")
        gold = np.array(texts[number].gold or (), dtype=float)
        if not gold.any():
            continue
        for method in methods:
            values = tokens[method].to_numpy()
            found = {"first": _share(values, gold, 1), "r_precision": _share(values, gold, int(gold.sum()))}
            rows.append({"input": number, "n_tokens": len(gold), "n_gold": int(gold.sum()), "method": method} | found)
    if not rows:
        raise AnalysisError("no text has a token that is known to decide; use a task with gold marks, such as load('stories-1')")
    return pd.DataFrame(rows)


def _share(values: np.ndarray, gold: np.ndarray, count: int) -> float:
    """Share of gold among the `count` largest values; those that tie at the border share the places that are left."""
    if np.isnan(values).any():
        return float(gold.mean())  # a text of one token, whose importance is undefined
    border = np.sort(values)[-count]
    above, at = values > border, values == border
    return float((gold[above].sum() + gold[at].mean() * (count - above.sum())) / count)
