"""Does a head follow positions or words? Put the words of a text into another order and see what its map does.

A head that looks at a place ("the token before") has the same map as before the shuffle. A head that looks for words has the same
map once rows and columns are moved along with the words. Most heads lie between.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from course_utils.errors import AnalysisError
from course_utils.models.pieces import Pieces
from course_utils.models.transformer import Encoder


def shuffled_order(pieces: Pieces, *, generator: torch.Generator) -> torch.Tensor:
    """(B, T), for each place the place its piece comes from when whole words are shuffled; special tokens and padding stay."""
    text = pieces.mask & ~pieces.special
    draws = torch.rand(len(pieces), int(pieces.word_ids.max()) + 1, generator=generator).to(pieces.ids.device)
    rank = draws.gather(1, pieces.word_ids.clamp(min=0))  # the pieces of a word share a draw, so they stay together
    rank = torch.where(text, rank, torch.where(text.cumsum(1) == 0, -1.0, 2.0))
    return rank.argsort(dim=1, stable=True)


def follow(
    encoder: Encoder, texts: Sequence[str], *, generator: torch.Generator, token_budget: int = 2048, progress: bool = False
) -> pd.DataFrame:
    """How far each head's map stays in place, and how far it goes with the words, when words are shuffled once.

    Agreement is 1 - TVD between the row of a query before and after, averaged over the queries that are text. Attention to [CLS]
    and [SEP], which stay in place, is dropped and the rest made to sum to 1 again.

    Args:
        generator: draws the orders; batches are made by length, so the draw of a text depends on the corpus.
    Returns:
        one row a text and head: `input`, `layer`, `head`, `same_place` (agreement of the query and keys at the same places) and
        `same_words` (of the same words, wherever they stand now), both in [0, 1]. A text of one word gives 1 and 1.
    Raises:
        AnalysisError: the model is causal, so a map cannot go with words that change sides.
    """
    parts = []
    for pieces in encoder.batches(texts, token_budget=token_budget, progress=progress):
        order = shuffled_order(pieces, generator=generator)
        rows = torch.arange(len(pieces), device=order.device)
        before = encoder.attend(pieces)
        if before.causal and before.attention.shape[-1] > 1:
            raise AnalysisError("a causal model looks back only, so its maps cannot follow words that change sides; use an encoder")
        after = encoder.attend(pieces.take(rows, pieces.ids.gather(1, order)))
        text = pieces.mask & ~pieces.special
        place, moved = _text_only(before.attention, text), _text_only(after.attention, text)
        with_words = place.gather(3, order[:, None, None, :, None].expand_as(place))
        with_words = with_words.gather(4, order[:, None, None, None].expand_as(place))
        inputs, layers, heads = np.indices(place.shape[:3]).reshape(3, -1)
        columns = {"same_place": _agreement(moved, place, text), "same_words": _agreement(moved, with_words, text)}
        columns = {name: values.flatten().cpu().numpy() for name, values in columns.items()}
        parts.append(pd.DataFrame({"input": pieces.index.cpu().numpy()[inputs], "layer": layers, "head": heads} | columns))
    return pd.concat(parts).sort_values(["input", "layer", "head"], ignore_index=True)


def _text_only(attention: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
    """(B, L, N, T, T) with the keys that are text only, rows summing to 1."""
    kept = (attention + torch.finfo(attention.dtype).tiny) * text[:, None, None, None]
    return kept / kept.sum(-1, keepdim=True)


def _agreement(one: torch.Tensor, other: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
    """(B, L, N), 1 - TVD of rows, averaged over the queries that are text."""
    overlap = torch.minimum(one, other).sum(-1)
    queries = text.to(overlap) / text.sum(-1, keepdim=True)
    return (overlap * queries[:, None, None]).sum(-1).clamp(max=1)
