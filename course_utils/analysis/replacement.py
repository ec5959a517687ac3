"""What another word does to the state that attention weighs: replaced one at a time, all but one, or all.

An attention weight multiplies an encoder's state, not a word. These experiments measure how much of the state is the word's own.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.reading import as_float64, describe, generators
from course_utils.data import Batch
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier, AttentionOutput

_ROWS = 512


@torch.no_grad()
def one_word(model: AttentionClassifier, batch: Batch, pool: torch.Tensor, *, seed: int = 0) -> pd.DataFrame:
    """Every token of every input replaced by a word drawn from `pool`, the others left as they are.

    Changes at the most attended token are of its state (relative to the length of the original state) and of its own log odds
    `v` (`AttentionOutput.token_logits`). With the weights held at the original ones the log odds of the prediction change by
    `sum_t a_t (v'_t - v_t)`, which is split into the replaced token's own term and the terms of all other tokens.

    Args:
        batch: B inputs.
        pool: (N,) vocabulary numbers to draw from; repeated words are drawn more often.
        seed: with an input's own tokens it fixes what is drawn.
    Returns:
        one row a token, without those that drew their own word: `input`, `position`, `token`, `attention` in [0, 1], `distance`
        (signed, from the most attended token), `state_change` and `logit_change` at the most attended token, `change` of the
        probability of class 1 and `change_fixed`, the same with the original weights, both in [0, 1]; `own_term` and
        `other_terms` of the log odds, absolute.
    Raises:
        AnalysisError: the pool is empty.
        NotLinearError: the model has no log odds of single tokens.
    """
    before = model(batch)
    rows, places = batch.mask.nonzero(as_tuple=True)
    drawn = _draw(batch, pool, seed)[rows, places]
    kept = drawn != batch.ids[rows, places]
    rows, places, drawn = rows[kept], places[kept], drawn[kept]
    top = before.attention.argmax(1)
    frames = []
    for chunk in torch.arange(len(rows), device=rows.device).split(_ROWS):
        row, place = rows[chunk], places[chunk]
        ids = batch.ids[row].scatter(1, place[:, None], drawn[chunk, None])
        variants = _variants(batch, row, ids)
        weights = before.attention[row]
        after = model(variants)
        state, logit = _at_top(before, after, row, top[row])
        terms = as_float64(weights) * as_float64(after.token_logits - before.token_logits[row])
        own = terms.gather(1, place[:, None]).squeeze(1)
        original = before.probabilities[row, 1]
        fixed = (as_float64(weights) * as_float64(after.token_logits)).sum(1).sigmoid()
        columns = {
            "input": batch.index[row],
            "position": place,
            "attention": weights.gather(1, place[:, None]).squeeze(1),
            "distance": place - top[row],
            "state_change": state,
            "logit_change": logit,
            "change": (after.probabilities[:, 1] - original).abs(),
            "change_fixed": (fixed - original).abs(),
            "own_term": own.abs(),
            "other_terms": (terms.sum(1) - own).abs(),
        }
        frames.append(pd.DataFrame({name: values.cpu().numpy() for name, values in columns.items()}))
    frame = pd.concat(frames, ignore_index=True)
    tokens = [batch.tokens[row][place] for row, place in zip(rows.tolist(), places.tolist(), strict=True)]
    frame.insert(2, "token", tokens)
    return frame.sort_values(["input", "position"], ignore_index=True)


@torch.no_grad()
def own_or_others(model: AttentionClassifier, batch: Batch, pool: torch.Tensor, *, seed: int = 0) -> pd.DataFrame:
    """What the most attended token's state owes to its word: only that word replaced, all words but that one, or all.

    Args:
        batch, pool, seed: as in `one_word`.
    Returns:
        one row an input and case: `input`, `n_tokens`, `max_attention`, `predicted_class`, `replaced` ("that word", "all other
        words" or "all words"), `state_change` and `logit_change` at the most attended token.
    Raises:
        AnalysisError: the pool is empty.
        NotLinearError: the model has no log odds of single tokens.
    """
    before = model(batch)
    rows = torch.arange(len(batch), device=batch.ids.device)
    top = before.attention.argmax(1)
    drawn = _draw(batch, pool, seed)
    at_top = torch.zeros_like(batch.mask).scatter(1, top[:, None], True)
    frames = []
    for name, where in (("that word", at_top), ("all other words", batch.mask & ~at_top), ("all words", batch.mask)):
        after = model(_variants(batch, rows, torch.where(where, drawn, batch.ids)))
        state, logit = (values.cpu().numpy() for values in _at_top(before, after, rows, top))
        frames.append(pd.DataFrame({**describe(batch, before), "replaced": name, "state_change": state, "logit_change": logit}))
    return pd.concat(frames, ignore_index=True)


def _draw(batch: Batch, pool: torch.Tensor, seed: int) -> torch.Tensor:
    """(B, T) words from the pool, 0 at padding."""
    if not len(pool):
        raise AnalysisError("there is no word to draw from: pool is empty; give vocabulary numbers such as those of a batch")
    drawn = torch.zeros_like(batch.ids, device="cpu")
    for row, (random, length) in enumerate(zip(generators(batch, seed), batch.lengths.tolist(), strict=True)):
        drawn[row, :length] = pool.cpu()[torch.from_numpy(random.integers(len(pool), size=length).astype(np.int64))]
    return drawn.to(batch.ids)


def _variants(batch: Batch, rows: torch.Tensor, ids: torch.Tensor) -> Batch:
    """The chosen inputs with other words."""
    query = None if batch.query is None else batch.query.select(rows)
    return replace(batch, ids=ids, mask=batch.mask[rows], lengths=batch.lengths[rows], labels=None, query=query, gold=None)


def _at_top(
    before: AttentionOutput, after: AttentionOutput, rows: torch.Tensor, top: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Relative change of the state, and change of the log odds, at each input's most attended token."""
    numbers = torch.arange(len(rows), device=rows.device)
    old, new = as_float64(before.hidden[rows, top]), as_float64(after.hidden[numbers, top])
    state = (new - old).norm(dim=-1) / old.norm(dim=-1)
    logit = as_float64(after.token_logits[numbers, top] - before.token_logits[rows, top]).abs()
    return state, logit
