"""Which shapes attention heads have: diagonals, vertical stripes, sparse and uniform maps, each with a score.

The shapes are those of Clark et al. (2019, section 3) and Kovaleva et al. (2019, section 4.1). Every score is a mean over the
queries that are text; [CLS] and [SEP] are keys, but no queries, since what they look at is not what a word looks at.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.resampling import draws
from course_utils.errors import AnalysisError
from course_utils.models.maps import AttentionMaps
from course_utils.models.transformer import Encoder

WEIGHTS = ("previous", "next", "self", "diagonal", "first", "separator", "punctuation", "vertical")
SCORES = (*WEIGHTS, "sparse", "uniform", "relative_distance")
MEASURES = (*SCORES, "mean_distance", "entropy")


def score(maps: AttentionMaps) -> dict[str, torch.Tensor]:
    """The scores of every head on every text.

    A score is nan where a text has no query to judge it by: "previous" and "first" need a token before, "next" one after, "sparse",
    "uniform" and "relative_distance" a choice of two keys or more.

    Returns:
        (B, L, N) each. In [0, 1]:
        `previous`, `next`, `self`: weight on the token before, after, itself; `diagonal`: on the three together;
        `first`: on the first token ([CLS], if there is one), by later ones; `separator`: on [SEP]; `punctuation`: on punctuation;
        `vertical`: on first token, separators and punctuation together;
        `sparse`: 1 - entropy / log(number of visible keys), 1 for a single key;
        `uniform`: 1 - TVD from uniform / the largest possible TVD, 1 for equal weights, 0 for a single key;
        `relative_distance`: mean distance / the distance of the farthest visible key.
        `mean_distance` in tokens, and `entropy` in nats.
    """
    attention, visible = maps.attention, maps.visible
    size = attention.shape[-1]
    query = maps.mask & ~maps.special
    keys = visible.sum(-1)
    position = torch.arange(size, device=attention.device)
    distance = (position[:, None] - position).abs().to(attention.dtype)
    first = (position == 0).expand(len(maps), size)
    stripes = first | maps.separator | maps.punctuation
    has_next = maps.mask.roll(-1, 1) & (position < size - 1)
    farthest = (distance * visible).amax(-1)

    targets = {
        "previous": (position[:, None] - 1 == position, query & (position > 0)),
        "next": (position[:, None] + 1 == position, query & has_next),
        "self": (position[:, None] == position, query),
        "diagonal": (distance <= 1, query),
        "first": (first[:, None], query & (position > 0)),
        "separator": (maps.separator[:, None], query),
        "punctuation": (maps.punctuation[:, None], query),
        "vertical": (stripes[:, None], query & (position > 0)),
        "mean_distance": (distance, query),
        "relative_distance": (distance / farthest.clamp(min=1)[..., None], query & (farthest > 0)),
    }
    weights = torch.stack(
        [_mean_over(judges, distance)[..., None] * target.to(distance) for target, judges in targets.values()], -1
    )
    linear = attention.flatten(3).flatten(1, 2) @ weights.flatten(1, 2)  # (B, L x N, scores): every weighted sum in one product
    scores = dict(zip(targets, linear.unflatten(1, attention.shape[1:3]).unbind(-1), strict=True))

    def mean(per_query: torch.Tensor, judges: torch.Tensor) -> torch.Tensor:
        return (per_query * _mean_over(judges, distance)[:, None, None]).sum(-1)

    choice = query & (keys > 1)
    options = keys.clamp(min=2).to(attention.dtype)[:, None, None]
    entropy = torch.special.entr(attention).sum(-1)
    overlap = torch.minimum(attention, 1 / options[..., None]).sum(-1)
    scores["entropy"] = mean(entropy, query)
    scores["sparse"] = mean((1 - entropy / options.log()).clamp(0, 1), choice)
    scores["uniform"] = mean(((overlap - 1 / options) / (1 - 1 / options)).clamp(0, 1), choice)
    return {name: scores[name] for name in MEASURES}


def _mean_over(judges: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """(B, T), the weight of each query in a mean over those chosen, in the type of `like`; nan for a text without any."""
    judges = judges.to(like)
    return judges / judges.sum(-1, keepdim=True)


def patterns(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    leave_out_special: bool = False,
    token_budget: int = 2048,
    max_tokens: int = 512,
    progress: bool = False,
) -> pd.DataFrame:
    """The scores of every head on every text of a corpus; maps are scored batch by batch and dropped.

    Args:
        leave_out_special: attention to [CLS] and [SEP] is dropped and the rest of each row made to sum to 1 again, before it is
            scored; `first` is then the text's first token.
    Returns:
        one row a text and head: `input`, `layer`, `head` (from 0), and the columns of `score`.
    """
    parts = []
    for maps in encoder.stream(texts, token_budget=token_budget, max_tokens=max_tokens, progress=progress):
        maps = maps.without_special() if leave_out_special else maps
        scores = {name: values.flatten().cpu().numpy() for name, values in score(maps).items()}
        inputs, layers, heads = np.indices(maps.attention.shape[:3]).reshape(3, -1)
        parts.append(pd.DataFrame({"input": maps.index.cpu().numpy()[inputs], "layer": layers, "head": heads} | scores))
    return pd.concat(parts).sort_values(["input", "layer", "head"], ignore_index=True)


def by_head(frame: pd.DataFrame) -> pd.DataFrame:
    """The mean of each head over texts, and the pattern's name: `layer`, `head`, the scores, `pattern`."""
    table = frame.groupby(["layer", "head"], as_index=False)[list(MEASURES)].mean()
    table["pattern"] = table.apply(name_pattern, axis=1)
    return table


def name_pattern(row: pd.Series) -> str:
    """The pattern of a head, or "mixed".

    In this order: more than .5 of the weight on the previous token, the next or the word itself; more than .5 on the first token,
    on separators or on punctuation, or "vertical" if only together; "uniform" if sparse is below .1 (entropy above .9 of the
    largest possible); "sparse" if it is above .5.
    """
    for names in (("previous", "next", "self"), ("first", "separator", "punctuation")):
        best = max(names, key=lambda name: np.nan_to_num(row[name]))
        if row[best] > 0.5:
            return best
    for name, named in (("vertical", row["vertical"] > 0.5), ("uniform", row["sparse"] < 0.1), ("sparse", row["sparse"] > 0.5)):
        if named:
            return name
    return "mixed"


def by_layer(frame: pd.DataFrame, *, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """The mean over a layer's heads, with a 95 % bootstrap interval over texts.

    Returns:
        one row a layer and measure: `layer`, `score`, `mean`, `low`, `high`.
    """
    means, counts = _layer_means(frame), _resample(frame, n_resamples, seed)
    rows = []
    for name in MEASURES:
        values = means[name].unstack("layer")
        low, high = np.nanpercentile(_weighted_mean(counts, values.to_numpy()), [2.5, 97.5], axis=0)
        rows.append(
            pd.DataFrame({"layer": values.columns, "score": name, "mean": values.mean().to_numpy(), "low": low, "high": high})
        )
    return pd.concat(rows, ignore_index=True)


def claims(frame: pd.DataFrame, *, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Two claims of popular summaries, tested: "diagonal in low layers" and "sparse in high layers".

    Each is the difference between the lower and the upper half of the layers (the middle one of an odd number is in neither), with
    a 95 % bootstrap interval over texts: the claim holds if the interval lies on its side of 0.

    Returns:
        one row a claim: `claim`, `lower`, `upper` (mean scores), `difference` (lower - upper), `low`, `high`, `holds`
        ("yes", "no": the opposite is true, "open": the interval contains 0).
    Raises:
        AnalysisError: the model has one layer.
    """
    n_layers = frame["layer"].nunique()
    if n_layers < 2:
        raise AnalysisError("a model of one layer has no low and high layers to compare")
    means, counts, half = _layer_means(frame), _resample(frame, n_resamples, seed), n_layers // 2
    rows = []
    for claim, name, sign in (("diagonal in low layers", "diagonal", 1), ("sparse in high layers", "sparse", -1)):
        values = means[name].unstack("layer").to_numpy()
        lower, upper = values[:, :half].mean(1), values[:, -half:].mean(1)
        low, high = np.nanpercentile(_weighted_mean(counts, (lower - upper)[:, None]), [2.5, 97.5])
        holds = "open" if low <= 0 <= high else "yes" if sign * low > 0 else "no"
        lower, upper = np.nanmean(lower), np.nanmean(upper)
        rows.append((claim, lower, upper, lower - upper, low, high, holds))
    return pd.DataFrame(rows, columns=["claim", "lower", "upper", "difference", "low", "high", "holds"])


def _layer_means(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby(["input", "layer"])[list(MEASURES)].mean()


def _resample(frame: pd.DataFrame, n_resamples: int, seed: int) -> np.ndarray:
    """(resamples, texts), how often each text is drawn."""
    return draws(frame["input"].nunique(), n_resamples, seed)


def _weighted_mean(counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(R, S) counts and (S, K) values to means (R, K), over the values that are there; nan where none is."""
    with np.errstate(invalid="ignore"):
        return (counts @ np.nan_to_num(values)) / (counts @ ~np.isnan(values))
