"""How far a head's attention moves when the words change: a head that goes by position stays, one that goes by content moves."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from course_utils.analysis.distances import jsd
from course_utils.errors import AnalysisError
from course_utils.models.transformer import Encoder


def movement(encoder: Encoder, texts: Sequence[str], *, token_budget: int = 2048) -> pd.DataFrame:
    """Distance between a head's maps of two different texts with the same number of tokens, query by query.

    Texts of one length are paired in the order they come in, the first with the second, the third with the fourth; one without a
    partner is left out. The distance is the Jensen-Shannon divergence between what the head attends to from the same position,
    averaged over the positions that are text. Position is all that two such texts share, so 0 means that it decides alone, or that
    the head looks at the same place (or everywhere alike) whatever is said.

    Returns:
        one row a pair and head: `input` and `other` (positions in `texts`), `layer`, `head`, `movement` in [0, log 2].
    Raises:
        AnalysisError: no two texts have the same number of tokens.
    """
    pairs = _pairs(encoder, texts)
    if not pairs:
        raise AnalysisError(f"no two of the {len(texts)} texts have the same number of tokens; give more texts")
    sides = [encoder.stream([texts[pair[side]] for pair in pairs], token_budget=token_budget) for side in (0, 1)]
    frames = []
    for one, other in zip(*sides, strict=True):
        queries = (one.mask & ~one.special & ~other.special).to(one.attention)
        weights = queries / queries.sum(-1, keepdim=True).clamp(min=1)
        moved = (jsd(one.attention, other.attention) * weights[:, None, None]).sum(-1)
        rows, layers, heads = np.indices(moved.shape).reshape(3, -1)
        inputs = np.asarray(pairs)[one.index.cpu().numpy()][rows]
        frames.append(
            pd.DataFrame(
                {
                    "input": inputs[:, 0],
                    "other": inputs[:, 1],
                    "layer": layers,
                    "head": heads,
                    "movement": moved.flatten().cpu().numpy(),
                }
            )
        )
    return pd.concat(frames).sort_values(["input", "layer", "head"], ignore_index=True)


def _pairs(encoder: Encoder, texts: Sequence[str]) -> list[tuple[int, int]]:
    lengths: dict[int, list[int]] = {}
    for pieces in encoder.batches(texts):
        for position, length in zip(pieces.index.tolist(), pieces.lengths.tolist(), strict=True):
            lengths.setdefault(length, []).append(position)
    return [pair for group in lengths.values() for pair in zip(sorted(group)[::2], sorted(group)[1::2], strict=False)]
