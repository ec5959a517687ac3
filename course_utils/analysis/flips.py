"""Taking attention away from items, with the states left as they are, until the decision flips (Serrano & Smith 2019)."""

import math
from collections.abc import Sequence

import pandas as pd
import torch

from course_utils.analysis.erasure import average_draws, methods_of, ranks
from course_utils.analysis.faithfulness import intervals
from course_utils.analysis.reading import Reading, read
from course_utils.data import Batch
from course_utils.models import AttentionClassifier

OUTCOMES = ("top_only", "random_only", "both", "neither")


def decision_flips(model: AttentionClassifier, batch: Batch) -> pd.DataFrame:
    """Does the decision flip without the most attended item, or without another one (Serrano & Smith 2019, section 4)?

    An item's weight is set to 0 and the others are renormalised; nothing is encoded again. The paper draws one of the other items
    at random; here all are tried, which gives the chance that a random one flips the decision exactly and without a seed.

    Args:
        batch: B inputs.
    Returns:
        one row an input: `input`, `n_tokens`, `max_attention`, `predicted_class`, `top` (1 if removing the most attended item, the
        first if several are, flips the decision, else 0), `random` in [0, 1], and the chances of the four outcomes of the paper's
        table 2: `top_only`, `random_only`, `both`, `neither`, which sum to 1. NaN for a text of one token: it has no other item.
    Raises:
        NotLinearError: the decoder is not linear in the context vector.
    """
    reading = read(model, batch)
    margins = _margins(reading)  # what stays if token t goes: everything before it and everything after it, without cancellation
    before = torch.nn.functional.pad(margins.cumsum(1)[:, :-1], (0, 0, 1, 0))
    after = torch.nn.functional.pad(margins.flip(1).cumsum(1).flip(1)[:, 1:], (0, 0, 0, 1))
    flips = ((before + after).amin(-1) < 0) & batch.mask
    lengths = batch.lengths.to(flips.device)
    top = flips.gather(1, reading.attention.argmax(1, keepdim=True)).squeeze(1).double()
    others = (flips.sum(1) - top) / (lengths - 1)
    top = top.where(lengths > 1, math.nan)
    outcomes = (top * (1 - others), (1 - top) * others, top * others, (1 - top) * (1 - others))
    columns = {"top": top, "random": others} | dict(zip(OUTCOMES, outcomes, strict=True))
    return pd.DataFrame(reading.columns | {name: values.cpu().numpy() for name, values in columns.items()})


def outcomes(frame: pd.DataFrame, *, n_resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Shares of inputs by what flips the decision, with 95 % bootstrap intervals.

    Args:
        frame: as from `decision_flips`.
    Returns:
        one row for each of "top", "random" and the four outcomes, named in `method`, as from `faithfulness.intervals`; `difference`
        is that from "random".
    """
    tidy = frame.melt("input", ["top", "random", *OUTCOMES], var_name="method", value_name="flips")
    return intervals(tidy, "flips", n_resamples=n_resamples, seed=seed)


def items_to_flip(
    model: AttentionClassifier,
    batch: Batch,
    scores: pd.DataFrame,
    *,
    methods: Sequence[str] | None = None,
    n_random: int = 10,
    seed: int = 0,
) -> pd.DataFrame:
    """How much of a text must lose its attention, most important first, until the decision flips (Serrano & Smith 2019, section 5).

    The fewer items, the better the ranking. Weights are set to 0 one after the other and the rest is renormalised; the states stay.
    With two classes and a linear decoder no ranking needs fewer items than `attention_gradient`, which removes the largest terms of
    the logit's sum first: its result is the floor, not a discovery.

    Args:
        batch: B inputs.
        scores, methods, n_random, seed: as in `faithfulness.removal`.
    Returns:
        one row an input and method: `input`, `n_tokens`, `max_attention`, `predicted_class`, `method`, `fraction` in (0, 1] of the
        items, 1 where the decision stays even with one item left, and `flipped`, 1 if it flips at all, else 0 (for "random" means
        over the draws). NaN for a text of one token.
    Raises:
        NotLinearError: the decoder is not linear in the context vector.
        AnalysisError: a measure that is missing or undefined, other texts in `scores`.
    """
    methods = methods_of(scores, methods)
    reading = read(model, batch)
    margins = _margins(reading).cpu()
    order = ranks(batch, scores, methods, n_random=n_random, seed=seed).argsort(dim=-1)
    queue = margins[torch.arange(len(batch))[:, None, None], order]  # (B, n, T, C), padding last
    left = queue.flip(2).cumsum(2).flip(2)[:, :, 1:]  # after 1, 2, ... items are gone
    flips = torch.nn.functional.pad((left.amin(-1) < 0).to(torch.uint8), (0, 1))
    flipped, first = flips.max(-1)
    lengths = batch.lengths.cpu()[:, None]
    fraction = ((first + 1) / lengths.double()).where(flipped > 0, 1)
    columns = {"fraction": fraction, "flipped": flipped.double()}
    described = pd.DataFrame(reading.columns).loc[lambda table: table.index.repeat(len(methods))].reset_index(drop=True)
    columns = {name: average_draws(values.where(lengths > 1, math.nan), methods, n_random) for name, values in columns.items()}
    return described.assign(method=methods * len(batch), **{name: values.flatten().numpy() for name, values in columns.items()})


def _margins(reading: Reading) -> torch.Tensor:
    """(B, T, C), weight times how far the token's own logit of the predicted class lies above that of each class.

    Summed over the tokens that stay, they are negative for some class exactly if the decision flips: renormalising changes no sign.
    """
    predicted = torch.as_tensor(reading.columns["predicted_class"], device=reading.attention.device)[:, None, None]
    of_predicted = reading.contributions.gather(2, predicted.expand(-1, reading.attention.shape[1], 1))
    return reading.attention[..., None] * (of_predicted - reading.contributions)
