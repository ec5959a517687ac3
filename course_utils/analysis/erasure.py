"""Taking tokens out of texts, in the order that a measure of importance says, and predicting from what is left."""

import math
from collections.abc import Sequence
from itertools import compress

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.reading import as_float64, generators
from course_utils.data import Batch
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier

RANDOM = "random"
_NO_METHOD = ("input", "position", "token", "predicted_class", "convergence_delta")
_TOKENS_AT_ONCE = 8192


@torch.no_grad()
def predict_kept(model: AttentionClassifier, batch: Batch, keep: torch.Tensor) -> torch.Tensor:
    """The predictions for texts of which only some tokens are kept: the others are deleted and what is left is encoded anew.

    Versions of a text that keep the same tokens are encoded once.

    Args:
        batch: B texts of at most T tokens.
        keep: (B, K, T) bool, K versions of each text; padding does not count.
    Returns:
        (B, K, C) float64, each row sums to 1; NaN where nothing is kept.
    """
    count, versions, length = keep.shape
    kept = (keep.cpu() & batch.mask.cpu()[:, None]).flatten(0, 1).numpy()
    texts = np.arange(count).repeat(versions)
    keys = np.hstack([texts[:, None].astype("<i4").view(np.uint8), np.packbits(kept, axis=1)])
    _, first, inverse = np.unique(keys.view(f"V{keys.shape[1]}")[:, 0], return_index=True, return_inverse=True)
    kept, texts = kept[first], texts[first]
    lengths = kept.sum(1)
    found = torch.full((len(first), model.config.n_classes), math.nan, dtype=torch.float64)
    order = lengths.argsort(kind="stable")[::-1]
    order, start = order[lengths[order] > 0], 0
    while start < len(order):
        rows = order[start : start + max(1, _TOKENS_AT_ONCE // lengths[order[start]])]
        logits = model(_shortened(batch, texts[rows], kept[rows]).to(model.device)).logits
        found[rows] = as_float64(logits).softmax(-1).cpu()
        start += len(rows)
    return found[inverse.reshape(count, versions)]


def _shortened(batch: Batch, texts: np.ndarray, kept: np.ndarray) -> Batch:
    """(N,) numbers of texts in the batch and (N, T) what to keep of each, as a batch of its own."""
    kept_here = torch.from_numpy(kept)
    lengths = kept_here.sum(1)
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    ids = torch.zeros(mask.shape, dtype=torch.int64)
    ids[mask] = batch.ids.cpu()[texts][kept_here]
    tokens = tuple(tuple(compress(batch.tokens[text], row)) for text, row in zip(texts, kept, strict=True))
    query = None if batch.query is None else batch.query.select(torch.from_numpy(texts))
    return Batch(ids, mask, lengths, labels=None, tokens=tokens, index=batch.index.cpu()[texts], query=query)


def methods_of(scores: pd.DataFrame, methods: Sequence[str] | None = None) -> list[str]:
    """The measures of a token table: those asked for, or all its columns but the ones that only describe tokens.

    Raises:
        AnalysisError: one asked for is not there, or is NaN in a text of more than one token.
    """
    known = [str(column) for column in scores if column not in _NO_METHOD]
    methods = known if methods is None else list(methods)
    missing = [method for method in methods if method not in known]
    if missing:
        raise AnalysisError(f"the table has no measure {missing[0]!r}; it has {', '.join(known)}")
    undefined = scores[methods].isna().any(axis=1) & (scores.groupby("input")["input"].transform("size") > 1)
    if undefined.any():
        raise AnalysisError(
            f"input {scores.loc[undefined, 'input'].iloc[0]} has a token whose importance is NaN; it cannot be ranked, leave it out"
        )
    return methods


def ranks(batch: Batch, scores: pd.DataFrame, methods: Sequence[str], *, n_random: int, seed: int) -> torch.Tensor:
    """When each token's turn comes if the most important goes first.

    Args:
        batch: B inputs of at most T tokens.
        scores: one row a token of these inputs (others may be there too), as from `rankings`.
        methods: M columns. "random" stands for `n_random` draws, of which the first is that of `rankings` with the same seed.
        seed: with the input's own tokens, decides the draws and the order of tokens of equal importance.
    Returns:
        (B, n, T) int64, 0 for the first to go; n is M, with `n_random` in place of 1 for "random"; padding comes last.
    Raises:
        AnalysisError: the table does not have the tokens of the batch, or there is no draw.
    """
    if n_random < 1:
        raise AnalysisError(f"at least 1 random draw is needed, not {n_random}")
    draws = random_scores(batch, seed, n_random)
    real = batch.mask.cpu()
    rows = _rows_of(batch, scores)
    values = []
    for method in methods:
        if method == RANDOM:
            values.append(draws)
        else:
            column = torch.zeros(real.shape, dtype=torch.float64)
            column[real] = torch.tensor(rows[method].to_numpy(), dtype=torch.float64)
            values.append(column.nan_to_num()[:, None])
    values = torch.cat(values, dim=1).masked_fill(~real[:, None], -math.inf)
    shuffle = draws[:, :1].masked_fill(~real[:, None], -math.inf).argsort(dim=-1, descending=True).expand_as(values)
    turns = values.gather(-1, shuffle).argsort(dim=-1, descending=True, stable=True)
    return shuffle.gather(-1, turns).argsort(dim=-1)


def random_scores(batch: Batch, seed: int, n_draws: int) -> torch.Tensor:
    """(B, n_draws, T) uniform in [0, 1), 0 at padding; more draws do not change the first ones."""
    scores = np.zeros((len(batch), n_draws, batch.ids.shape[1]))
    for row, (generator, length) in enumerate(zip(generators(batch, seed), batch.lengths.tolist(), strict=True)):
        scores[row, :, :length] = generator.random((n_draws, length))
    return torch.from_numpy(scores)


def average_draws(values: torch.Tensor, methods: Sequence[str], n_random: int) -> torch.Tensor:
    """(B, n, ...) with n as in `ranks` to (B, M, ...): the random draws become their mean."""
    sizes = [n_random if method == RANDOM else 1 for method in methods]
    return torch.stack([part.mean(1) for part in values.split(sizes, dim=1)], dim=1)


def _rows_of(batch: Batch, scores: pd.DataFrame) -> pd.DataFrame:
    """The rows of this batch, text by text and token by token in its order."""
    places = pd.Series(range(len(batch)), index=batch.index.cpu().numpy())
    rows = scores[scores["input"].isin(places.index)]
    rows = rows.iloc[np.lexsort([rows["position"], rows["input"].map(places)])]
    if rows["token"].tolist() != [token for tokens in batch.tokens for token in tokens]:
        raise AnalysisError(
            f"the table of importances has {len(rows)} rows for this batch of {int(batch.lengths.sum())} tokens, or other tokens; "
            "make it from the same texts, with rankings(model, batch) or over(rankings, model, batches)"
        )
    return rows
