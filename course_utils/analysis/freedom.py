"""How free is attention? The other weights that give a head the same output, and how far they can go.

A head writes `a V`, with `a` a row of its attention and `V` (T, H) what it would write from each token alone (value, then output
projection). V has rank at most D, the size of a head, so `a` may move in the left null space of V, which has at least T - D
dimensions, and at least T - D - 1 if the row is to sum to 1 (Brunner et al. 2020). That says in how many directions a row may
move. Weights are not negative either; how far it may move is a linear programme.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.optimize import linprog

from course_utils.errors import AnalysisError
from course_utils.models.heads import output_weights
from course_utils.models.maps import AttentionMaps
from course_utils.models.transformer import Encoder

RANK_TOLERANCE = 1e-5


class Furthest(NamedTuple):
    """How far a row of attention can move.

    Attributes:
        low, high: (T,), the smallest and the largest weight of each token, exact.
        attention: (T,), the furthest row that was found.
        tvd: its total variation distance from the row: what is reached at least.
        bound: of that distance: what no row exceeds.
    """

    low: np.ndarray
    high: np.ndarray
    attention: np.ndarray
    tvd: float
    bound: float


def written(encoder: Encoder, maps: AttentionMaps, layer: int, head: int) -> torch.Tensor:
    """(B, T, H), what the head writes into the layer's sum when it attends to one token alone.

    Args:
        maps: made with `states=True`.
    Raises:
        AnalysisError: the maps have no value vectors, or there is no such head.
    """
    if maps.values is None:
        raise AnalysisError("these maps have no value vectors; make them with encoder.attend(texts, states=True)")
    if not (0 <= layer < maps.n_layers and 0 <= head < maps.n_heads):
        raise AnalysisError(f"there is no head {layer}-{head}; this model has {maps.n_layers} layers of {maps.n_heads} heads")
    return maps.values[:, layer, head] @ output_weights(encoder.model)[layer, head]


def null_space(values: torch.Tensor, *, sum_to_one: bool = False) -> torch.Tensor:
    """An orthonormal basis of the directions in which a row of attention moves without changing `row @ values`.

    Args:
        values: (T, D), one row a token.
        sum_to_one: whether the row is to keep its sum as well.
    Returns:
        (K, T), K = T - rank; a singular value below 1e-5 of the largest counts as 0.
    """
    values = values.double()
    if sum_to_one:
        ones = values.new_ones(len(values), 1) / len(values) ** 0.5
        values = torch.cat([values - values.mean(0), ones * torch.linalg.matrix_norm(values, 2)], 1)
    left, sizes, _ = torch.linalg.svd(values)
    return left[:, int((sizes > RANK_TOLERANCE * sizes.max()).sum()) :].T


def effective_attention(attention: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """What is left of attention without its part in the null space (Brunner et al. 2020): the least one with the same output.

    Args:
        attention: (..., T), rows.
        values: (T, D), as in `null_space`.
    Returns:
        (..., T), double; `effective @ values == attention @ values`, and no row with this output has a smaller norm. Its weights
        may be negative and need not sum to 1.
    """
    basis = null_space(values)
    attention = attention.double()
    return attention - attention @ basis.T @ basis


def freedom(encoder: Encoder, texts: Sequence[str]) -> pd.DataFrame:
    """In how many directions the attention of each head is free, text by text.

    Returns:
        one row a text and head: `input`, `layer`, `head`, `n_tokens`; `rank` of what the head can write; `free` = n_tokens - rank;
        `free_sum`, the same for rows that keep their sum; `hidden` in [0, 1], the share of the attention's norm in the null space.
    """
    frames = []
    for maps in encoder.stream(texts, states=True):
        for row, position in enumerate(maps.index.tolist()):
            one = maps.one(row)
            values, attention = one.values[0].double(), one.attention[0].double()  # (L, N, T, D), (L, N, T, T)
            length = attention.shape[-1]
            sizes, turned = torch.linalg.eigh(values.mT @ values)  # squares of the singular values, and the right singular vectors
            smallest = RANK_TOLERANCE**2 * sizes[..., -1:]
            kept = sizes > smallest
            output = attention @ values @ turned
            seen = (output.square() / sizes.where(kept, torch.inf)[..., None, :]).sum((-2, -1))  # of the effective attention
            hidden = (1 - seen / attention.square().sum((-2, -1))).clamp(min=0).sqrt()
            centred = values - values.mean(-2, keepdim=True)
            spread = (torch.linalg.eigvalsh(centred.mT @ centred) > smallest).sum(-1)
            layers, heads = np.indices(hidden.shape).reshape(2, -1)
            rank = kept.sum(-1).flatten().numpy()
            columns = {"input": position, "layer": layers, "head": heads, "n_tokens": length, "rank": rank, "free": length - rank}
            columns |= {"free_sum": length - 1 - spread.flatten().numpy(), "hidden": hidden.flatten().numpy()}
            frames.append(pd.DataFrame(columns))
    return pd.concat(frames).sort_values(["input", "layer", "head"], ignore_index=True)


def furthest(attention: torch.Tensor, values: torch.Tensor, *, tolerance: float = 0.0) -> Furthest:
    """How far one row of attention can move, not negative and with sum 1, while the head's output stays.

    The range of each weight is exact: two linear programmes a token. The largest distance of the whole row is a convex
    maximisation; it is enclosed between the best corner that the programmes and an ascent from there meet, and the sum of ranges.

    Args:
        attention: (T,), a row.
        values: (T, D), what each token alone would write; see `written`.
        tolerance: the output may change by this share of its norm at most (0: not at all). The change is held below in each
            principal direction by its part, which is stricter: the ranges are then at least this wide.
    Raises:
        AnalysisError: shapes do not fit, the row is none, or the tolerance is negative.
    """
    row, matrix = np.asarray(attention.detach().cpu().double()), np.asarray(values.detach().cpu().double())
    if row.ndim != 1 or matrix.ndim != 2 or len(row) != len(matrix):
        raise AnalysisError(f"a row of T weights needs T values; got shapes {row.shape} and {matrix.shape}")
    if (row < 0).any() or abs(row.sum() - 1) > 1e-4 or tolerance < 0:
        raise AnalysisError(
            f"a row is not negative and sums to 1, and the tolerance is 0 or more; got sum {row.sum():.4f}, {tolerance}"
        )
    directions, reach = _directions(row, matrix, tolerance)
    if directions.shape[1] == 0:
        return Furthest(row, row, row, 0.0, 0.0)
    limits = [(-most, most) if np.isfinite(most) else (None, None) for most in reach]

    def corner(direction: np.ndarray) -> np.ndarray:
        """The allowed row that goes furthest in a direction."""
        found = linprog(-direction @ directions, A_ub=-directions, b_ub=row, bounds=limits, method="highs")
        return np.clip(row + directions @ found.x, 0, None) if found.status == 0 else row

    units = np.eye(len(row))
    corners = [(corner(-unit), corner(unit)) for unit in units]
    low = np.array([min(least[i], row[i]) for i, (least, _) in enumerate(corners)])
    high = np.array([max(most[i], row[i]) for i, (_, most) in enumerate(corners)])
    best = max((one for pair in corners for one in pair), key=lambda one: np.abs(one - row).sum())
    while True:  # a linear function that touches the distance at `best` leads to a corner at least as far away
        after = corner(np.sign(best - row))
        if np.abs(after - row).sum() <= np.abs(best - row).sum() + 1e-7:
            break
        best = after
    bound = min((high - row).sum(), (row - low).sum())
    return Furthest(low, high, best, float(np.abs(best - row).sum() / 2), float(bound))


def _directions(row: np.ndarray, matrix: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal directions (T, K) that keep a row's sum, and how far (K,) each may go: in the null space without limit."""
    length = len(row)
    centred = matrix - matrix.mean(0)
    left, sizes, _ = np.linalg.svd(np.c_[centred, np.zeros((length, max(0, length - centred.shape[1])))], full_matrices=True)
    sizes = sizes[:length]
    kept = sizes > RANK_TOLERANCE * max(sizes.max(), np.finfo(float).tiny)
    rank = int(kept.sum())
    free = left[:, rank:]
    free = free - np.full((length, length), 1 / length) @ free  # without the direction of all ones
    basis, strength, _ = np.linalg.svd(free, full_matrices=False)
    basis = basis[:, strength > 0.5]
    reach = np.full(basis.shape[1], np.inf)
    if tolerance > 0 and rank:
        allowed = tolerance * np.linalg.norm(row @ matrix) / rank**0.5
        basis, reach = np.c_[left[:, :rank], basis], np.r_[allowed / sizes[:rank], reach]
    return basis, reach
