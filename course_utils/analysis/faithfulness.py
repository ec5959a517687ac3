"""Does a measure of importance name the tokens that a prediction needs? Take them out, or all the others, and predict again."""

import math
from collections.abc import Sequence
from numbers import Integral

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.erasure import RANDOM, average_draws, methods_of, predict_kept, ranks
from course_utils.analysis.resampling import draws, interval
from course_utils.data import Batch
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)


def removal(
    model: AttentionClassifier,
    batch: Batch,
    scores: pd.DataFrame,
    amounts: Sequence[int] | Sequence[float] = (1, 2, 3, 5, 10),
    *,
    methods: Sequence[str] | None = None,
    n_random: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """What deleting the most important tokens does to the prediction, by each measure of importance.

    The tokens are deleted and the shorter text is encoded again. Deleting all tokens leaves no text: NaN.

    Args:
        batch: B inputs.
        scores: one row a token, as from `rankings`; further columns are further measures.
        amounts: numbers of tokens, or shares of the text in (0, 1), rounded up to whole tokens.
        methods: columns of `scores`; all its measures unless told. "random" is the mean over `n_random` draws.
        n_random: draws for each input.
        seed: with the input's own tokens, decides the draws and the order among equally important tokens.
    Returns:
        one row an input, method and amount: `input`, `n_tokens`, `predicted_class`, `method`, `amount`, `n_removed`, `change` in
        [-1, 1] (probability of the predicted class with the tokens minus without: above 0, they spoke for it) and `flipped`, 1 if
        another class is predicted then, else 0 (for "random" the share of the draws).
    Raises:
        AnalysisError: an amount that is neither a count nor a share, a measure that is missing or undefined, `scores` of other
            texts.
    """
    methods = methods_of(scores, methods)
    counts = _counts(batch, amounts)
    turn = ranks(batch, scores, methods, n_random=n_random, seed=seed)
    whole, predicted = _whole(model, batch)
    without = predict_kept(model, batch, (turn[:, :, None] >= counts[:, None, :, None]).flatten(1, 2))
    without = without.unflatten(1, (turn.shape[1], counts.shape[1]))
    at_predicted = _at(without, predicted)
    flipped = (without.argmax(-1) != predicted[:, None, None]).double().where(at_predicted.isfinite(), math.nan)
    columns = {"change": whole[:, None, None] - at_predicted, "flipped": flipped}
    columns = {name: average_draws(values, methods, n_random) for name, values in columns.items()}
    return _long(batch, predicted, methods, amounts, counts, columns).rename(columns={"count": "n_removed"})


def eraser(
    model: AttentionClassifier,
    batch: Batch,
    scores: pd.DataFrame,
    shares: Sequence[float] = SHARES,
    *,
    methods: Sequence[str] | None = None,
    n_random: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """Comprehensiveness and sufficiency of rationales (DeYoung et al. 2020, ERASER, section 4).

    The rationale r is the most important share of the tokens of a text x, rounded up; y is the class predicted for x.
    - `comprehensiveness = p_y(x) - p_y(x without r)`: **high** is good, what the prediction needs is in the rationale.
    - `sufficiency = p_y(x) - p_y(r alone)`: **low** is good (0, or below), the rationale is enough for the prediction.
    Both lie in [-1, 1]. Tokens are deleted, and what is left is encoded again.

    Args:
        shares: in (0, 1); the published ones unless told.
        others: as in `removal`.
    Returns:
        one row an input, method and share: `input`, `n_tokens`, `predicted_class`, `method`, `share`, `n_rationale`,
        `comprehensiveness` (NaN where the rationale is the whole text, that is for a text of one token), `sufficiency`.
    Raises:
        AnalysisError: as `removal`.
    """
    methods = methods_of(scores, methods)
    counts = _counts(batch, [float(share) for share in shares])
    turn = ranks(batch, scores, methods, n_random=n_random, seed=seed)
    whole, predicted = _whole(model, batch)
    rationale = turn[:, :, None] < counts[:, None, :, None]
    both = predict_kept(model, batch, torch.cat([~rationale, rationale], dim=1).flatten(1, 2))
    change = whole[:, None, None] - _at(both.unflatten(1, (2 * turn.shape[1], counts.shape[1])), predicted)
    columns = dict(zip(("comprehensiveness", "sufficiency"), change.chunk(2, dim=1), strict=True))
    columns = {name: average_draws(values, methods, n_random) for name, values in columns.items()}
    table = _long(batch, predicted, methods, shares, counts, columns)
    return table.rename(columns={"amount": "share", "count": "n_rationale"})


def aopc(frame: pd.DataFrame) -> pd.DataFrame:
    """Area over the perturbation curve: the mean over the shares, as ERASER's own code computes it.

    Args:
        frame: as from `eraser`.
    Returns:
        one row an input and method: `input`, `method`, `comprehensiveness`, `sufficiency`; NaN where one of the shares is.
    """
    measures = ["comprehensiveness", "sufficiency"]
    return frame.groupby(["input", "method"], sort=False)[measures].agg(lambda values: values.mean(skipna=False)).reset_index()


def intervals(
    frame: pd.DataFrame,
    column: str,
    by: str | None = None,
    *,
    baseline: str = RANDOM,
    n_resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Means over inputs by method, and their differences from a baseline input by input, with 95 % bootstrap intervals.

    Only inputs whose values are all defined count, so that all points of a curve describe the same inputs. An interval of the
    difference that holds 0 leaves open which of the two is better.

    Args:
        frame: one row an input and method (and amount): `input`, `method`, `column`, and `by` if given.
        by: the column with the points of a curve, such as "amount" or "share".
        baseline: a method; where it is absent the differences are NaN.
        n_resamples: bootstrap samples of inputs.
    Returns:
        one row a method (and `by`), methods in their order: `method`, `by`, `measure` (the column's name), `mean`, `low`, `high`,
        `difference`, `difference_low`, `difference_high`, `n` inputs, `n_undefined` inputs left out.
    Raises:
        AnalysisError: a column is missing, there is no row, or several for the same point, or no input is defined throughout.
    """
    keys = ["method", *([by] if by else [])]
    missing = [name for name in ("input", column, *keys) if name not in frame]
    if missing or frame.empty:
        problem = f"has no column {missing[0]!r}" if missing else "has no row"
        raise AnalysisError(f"the table {problem}; it has the columns {', '.join(map(str, frame.columns))}")
    if frame.duplicated(["input", *keys]).any():
        raise AnalysisError("an input and method has several rows; name the column that tells them apart, such as by='amount'")
    order = pd.MultiIndex.from_frame(frame[keys].drop_duplicates())
    wide = frame.set_index(["input", *keys])[column].astype(float).unstack(keys)
    wide = wide[order if by else order.get_level_values(0)]
    values = wide.dropna().to_numpy()
    if not len(values):
        raise AnalysisError(f"no input has a value of {column} for every method and amount; drop short texts or large amounts")
    base = frame[frame["method"] == baseline]
    places = {key: place for place, key in enumerate(order)}
    partners = [places.get((baseline, *key[1:])) for key in order]
    difference = values - values[:, partners] if len(base) else np.full(values.shape, math.nan)
    weights = draws(len(values), n_resamples, seed) / len(values)
    columns = {"measure": column, "mean": values.mean(0)}
    columns["low"], columns["high"] = interval(weights @ values)
    columns["difference"] = difference.mean(0)
    columns["difference_low"], columns["difference_high"] = interval(weights @ difference)
    return order.to_frame(index=False).assign(**columns, n=len(values), n_undefined=len(wide) - len(values))


def _counts(batch: Batch, amounts: Sequence[int] | Sequence[float]) -> torch.Tensor:
    """(B, A) numbers of tokens."""
    whole = [isinstance(amount, Integral) for amount in amounts]
    in_range = [amount >= 1 if is_count else 0 < amount < 1 for amount, is_count in zip(amounts, whole, strict=True)]
    if not whole or not all(in_range) or any(whole) != all(whole):
        raise AnalysisError(
            f"amounts are {list(amounts)}; give numbers of tokens such as [1, 2, 5], or shares between 0 and 1 such as [0.1, 0.5]"
        )
    amounts, lengths = torch.tensor(amounts), batch.lengths.cpu()[:, None]
    if all(whole):
        return amounts.expand(len(lengths), -1)
    return (amounts.double() * lengths - 1e-6).ceil().long().clamp(min=1)  # 0.1 of 30 tokens is 3, whatever the last digit says


def _whole(model: AttentionClassifier, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """(B,) probability of the predicted class of each whole text, and the class."""
    probability, predicted = predict_kept(model, batch, batch.mask[:, None])[:, 0].max(-1)
    return probability, predicted


def _at(probabilities: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
    """(B, M, A, C) to (B, M, A): the probability of the class predicted for the whole text."""
    return probabilities.gather(-1, predicted.view(-1, 1, 1, 1).expand(*probabilities.shape[:-1], 1)).squeeze(-1)


def _long(
    batch: Batch,
    predicted: torch.Tensor,
    methods: Sequence[str],
    amounts: Sequence[float],
    counts: torch.Tensor,
    columns: dict[str, torch.Tensor],
) -> pd.DataFrame:
    """(B, M, A) values as one row each."""
    shape = (len(batch), len(methods), len(amounts))
    inputs, method, amount = (axis.ravel() for axis in np.indices(shape))
    described = {
        "input": batch.index.cpu().numpy()[inputs],
        "n_tokens": batch.lengths.cpu().numpy()[inputs],
        "predicted_class": predicted.numpy()[inputs],
        "method": np.array(methods, dtype=object)[method],
        "amount": np.array(amounts)[amount],
        "count": counts.numpy()[inputs, amount],
    }
    return pd.DataFrame(described | {name: values.flatten().numpy() for name, values in columns.items()})
