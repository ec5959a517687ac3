"""The adversary for any number of classes: a search over attention on few tokens.

Fix the logits of an optimum: the attention weights that give them form a polytope cut by C - 1 equalities, the divergence is convex
on it, so some optimum uses at most C tokens. Which logits, is not known: the allowed outputs are no polytope in logit space. So the
search takes the best single tokens and pairs, and supports of C tokens that give the model's own logits, slid to the edge of what
is allowed. What it finds is a lower bound; `max_i JSD(attention, e_i)` is an upper one.
"""

import math
from itertools import combinations, permutations, product

import numpy as np
import torch
from torch.nn.functional import one_hot, pad

from course_utils.analysis.distances import jsd, overlap, tvd
from course_utils.analysis.reading import as_float64, normalised
from course_utils.analysis.slab import Adversary, check_eps

POOL = 256
SUPPORTS = 2000
STARTS = 8
WIDTHS = (1.0, 0.2, 0.04, 0.008, 0.0016)
STEPS = 33
MOVES_AT_ONCE = 32
HALVINGS = 45
NEAR = 4
ROUNDING = 1e-12


def search_attention(
    attention: torch.Tensor, contributions: torch.Tensor, mask: torch.Tensor, eps: float = 0.01, *, seed: int = 0
) -> tuple[Adversary, torch.Tensor]:
    """Attention far from the model's own that changes the output by at most eps, for two or more classes.

    Args:
        attention: (B, T), the model's own.
        contributions: (B, T, C), the logits at each token alone.
        mask: (B, T) bool, True at real tokens.
        eps: in [0, 1], largest total variation distance between the two outputs.
        seed: decides which supports are tried where there are more than 2000 of them. Of longer inputs the 256 least
            attended tokens are considered.
    Returns:
        the best attention found, on at most C tokens unless none such keeps the output (then the model's own, divergence 0),
        and the bound (B,) on the divergence that no attention with any output exceeds.
    Raises:
        AnalysisError: eps is not in [0, 1].
    """
    check_eps(eps)
    attention, contributions = normalised(attention), as_float64(contributions)
    mask = mask.to(attention.device)
    rows = zip(attention, contributions, mask, strict=True)
    found = torch.stack([_furthest(weights[real], values[real], eps, seed, real) for weights, values, real in rows])
    outputs = [(weights[..., None] * contributions).sum(1).softmax(-1) for weights in (attention, found)]
    least_attended = attention.masked_fill(~mask, math.inf).amin(1)
    bound = (math.log(2) - overlap(least_attended, torch.ones_like(least_attended)) / 2).clamp(0, math.log(2))
    return Adversary(found, jsd(attention, found), tvd(*outputs)), bound


def _furthest(attention: torch.Tensor, values: torch.Tensor, eps: float, seed: int, real: torch.Tensor) -> torch.Tensor:
    """The search for one input without padding: (n,) and (n, C) to weights (T,), spread over the positions `real` (T,)."""
    output = (attention @ values).softmax(-1)
    pool = attention.argsort(stable=True)[:POOL].sort().values
    pairs, shares = _pairs(attention, values, output, eps, pool)
    starts = _supports(attention, values, output, eps, pool, seed)
    if min(values.shape[1], len(pool)) > 2:
        starts = (torch.cat(both) for both in zip(starts, _filled(attention, pool, values.shape[1], pairs, shares), strict=True))
        starts = _slide(attention, values, output, eps, *starts)
    candidates = [_tokens(attention, values, output, eps, pool), (pairs, shares), starts]
    width = max(support.shape[1] for support, _ in candidates)
    support, weights = (
        torch.cat([pad(part, (0, width - part.shape[1])) for part in parts]) for parts in zip(*candidates, strict=True)
    )
    cost, best = _cost(attention, support, weights).min(0)
    spread = torch.zeros_like(attention).scatter_add_(0, support[best], weights[best]) if cost.isfinite() else attention
    return attention.new_zeros(len(real)).masked_scatter_(real, spread)


def _tokens(attention, values, output, eps, pool) -> tuple[torch.Tensor, torch.Tensor]:
    """Every token of the pool alone: supports (M, 1) and weights (M, 1), NaN where it does not keep the output."""
    kept = _keeps(values[pool], output, eps)
    return pool[:, None], torch.where(kept, 1.0, math.nan).to(attention)[:, None]


def _pairs(attention, values, output, eps, pool) -> tuple[torch.Tensor, torch.Tensor]:
    """The best pairs at an end of what keeps the output, best first: supports (M, 2), weights (M, 2), NaN where none does."""
    pairs = pool[torch.triu_indices(len(pool), len(pool), 1, device=pool.device)].T
    shares = _ends(values[pairs[:, 0]], values[pairs[:, 1]], output, eps)
    weights = torch.stack([1 - shares, shares], -1).flatten(0, 1)
    pairs = pairs.repeat(2, 1)
    best = _cost(attention, pairs, weights).argsort(stable=True)[:STARTS]
    return pairs[best], weights[best]


def _filled(attention, pool, size, pairs, shares) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs as supports of up to `size` tokens: the least attended others join with weight 0."""
    others = attention[pool].masked_fill((pool == pairs[..., None]).any(1), math.inf)
    joined = pool[others.argsort(stable=True)[:, : min(size, len(pool)) - 2]]
    return torch.cat([pairs, joined], 1), torch.cat([shares, torch.zeros_like(joined, dtype=shares.dtype)], 1)


def _targets(output: torch.Tensor, eps: float) -> torch.Tensor:
    """(G, C) log-probabilities to aim at: the output itself, and eps of it moved from any class to any other."""
    n_classes = len(output)
    moved = [output]
    for source, sink in permutations(range(n_classes), 2):
        amount = torch.minimum(0.9 * output[source], output.new_tensor(eps))
        moved.append(output.index_add(0, torch.tensor([source, sink], device=output.device), torch.stack([-amount, amount])))
    return torch.stack(moved).clamp_min(torch.finfo(output.dtype).tiny).log()


def _supports(attention, values, output, eps, pool, seed) -> tuple[torch.Tensor, torch.Tensor]:
    """Supports (M, C) and the weights (M, C) on them that hit one of `_targets`, M <= 8, the furthest first, NaN where none does.

    All supports within the pool are tried, or 2000 random ones. An input of at most C tokens has one: itself.
    """
    n_classes = values.shape[1]
    if len(attention) <= n_classes:
        return pool[None], attention[pool][None]
    if math.comb(len(pool), n_classes) <= SUPPORTS:
        rank = torch.tensor(list(combinations(range(len(pool)), n_classes)), device=pool.device)
    else:
        keys = np.random.default_rng([seed, len(attention)]).random((SUPPORTS, len(pool)))
        rank = torch.from_numpy(keys.argpartition(n_classes, axis=1)[:, :n_classes].copy()).to(pool.device)
    support = pool[rank]
    odds = values[:, :-1] - values[:, -1:]
    equations = torch.cat([odds[support], odds.new_ones(*support.shape, 1)], -1).transpose(1, 2)
    targets = _targets(output, eps)
    targets = torch.cat([targets[:, :-1] - targets[:, -1:], targets.new_ones(len(targets), 1)], 1).T
    weights = torch.linalg.solve_ex(equations, targets.expand(len(support), -1, -1))[0]
    missed = (equations @ weights - targets).abs().amax(1)
    valid = (missed <= 1e-9 * (1 + odds.abs().max())) & (weights >= -ROUNDING).all(1)
    weights = torch.where(valid[:, None], weights.clamp_min(0), math.nan).transpose(1, 2)
    cost, target = _cost(attention, support[:, None], weights).min(1)
    nearest = cost.argsort(stable=True)[:STARTS]
    return support[nearest], weights[nearest, target[nearest]]


def _slide(attention, values, output, eps, support, weights) -> tuple[torch.Tensor, torch.Tensor]:
    """Move the weights (M, K) of each support (M, K) to the edge of what keeps the output.

    A move gives one token another share u of the weight, and divides what two others hold between them as unevenly as the output
    allows. Each move is tried with 33 values of u, in 5 rounds of narrowing u. Weights that are NaN start even.
    """
    size = support.shape[1]
    triples = torch.tensor([t for t in permutations(range(size), 3) if t[1] < t[2]], device=support.device)
    weights = torch.where(weights.isnan().any(1, keepdim=True), 1 / size, weights)
    kept = _keeps((weights[:, None] @ values[support]).squeeze(1), output, eps)
    cost = _cost(attention, support, weights).masked_fill(~kept, math.inf)
    for width, part in product(WIDTHS, triples.split(MOVES_AT_ONCE)):
        moved = torch.stack([_moved(weights, triple, width) for triple in part], 1)  # (M, moves, u, K)
        i, j = (one_hot(part[:, side], size).to(moved)[:, None] for side in (1, 2))
        held = (moved * (i + j)).sum(-1, keepdim=True)
        fixed = moved * (1 - i - j)
        start, stop = ((fixed + held * side) @ values[support][:, None] for side in (i, j))
        shares = _ends(start, stop, output, eps)[..., None]  # (2, M, moves, u, 1)
        options = (fixed + held * (i * (1 - shares) + j * shares)).movedim(0, 1).flatten(1, 3)
        least, best = _cost(attention, support[:, None], options).min(1)
        better = least < cost
        cost = torch.where(better, least, cost)
        weights = torch.where(better[:, None], options[torch.arange(len(best)), best], weights)
    return support, weights.masked_fill(cost.isinf()[:, None], math.nan)


def _moved(weights: torch.Tensor, triple: torch.Tensor, width: float) -> torch.Tensor:
    """(M, K) to (M, u, K): token `triple[0]` with shares u around its own, the others scaled to fill the rest."""
    token = int(triple[0])
    u = (weights[:, token, None] + width * torch.linspace(-1, 1, STEPS).to(weights)).clamp(0, 1)
    others = weights.clone()
    others[:, token] = 0
    rest = others.sum(1, keepdim=True)
    even = torch.zeros_like(others).scatter_(1, triple[1:].expand(len(others), 2), 0.5)
    others = torch.where(rest > 0, others / rest.clamp_min(torch.finfo(rest.dtype).tiny), even)
    moved = (1 - u)[..., None] * others[:, None]
    moved[..., token] = u
    return moved


def _ends(start: torch.Tensor, stop: torch.Tensor, output: torch.Tensor, eps: float) -> torch.Tensor:
    """Ends of the part of the segment between two logits on which the output stays within eps.

    The divergence KL(output || .) is convex along the segment, so bisecting its slope finds where the output is closest; where that
    is near but not within eps, the distance itself is narrowed down. From there, bisecting towards each end finds the last point
    that keeps the output.

    Args:
        start, stop: (..., C).
        output: (C,), the probabilities to keep.
    Returns:
        (2, ...) positions in [0, 1]; NaN where no point keeps the output.
    """
    shape, (start, direction) = start.shape[:-1], (part.flatten(0, -2) for part in (start, stop - start))
    closest = _closest(start, direction, output, eps)
    keeping = _keeps(start + closest[:, None] * direction, output, eps).nonzero().squeeze(1)
    start, direction = start[keeping], direction[keeping]
    ends = torch.full((2, len(closest)), math.nan).to(closest)
    for end in (0, 1):
        inside, outside = closest[keeping], start.new_full((len(keeping),), end)
        reached = _keeps(start + end * direction, output, eps)
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            kept = _keeps(start + middle[:, None] * direction, output, eps)
            inside, outside = torch.where(kept, middle, inside), torch.where(kept, outside, middle)
        ends[end, keeping] = torch.where(reached, outside.new_tensor(end), inside)
    return ends.view(2, *shape)


def _closest(start: torch.Tensor, direction: torch.Tensor, output: torch.Tensor, eps: float) -> torch.Tensor:
    """(M, C) twice to (M,) in [0, 1]: where on each segment the output is closest, by divergence or, in doubt, by distance."""
    low, high = start.new_zeros(len(start)), start.new_ones(len(start))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        falling = (((start + middle[:, None] * direction).softmax(-1) - output) * direction).sum(-1) < 0
        low, high = torch.where(falling, middle, low), torch.where(falling, high, middle)
    closest = (low + high) / 2
    distance = tvd((start + closest[:, None] * direction).softmax(-1), output)
    doubtful = ((distance > eps + ROUNDING) & (distance <= NEAR * eps)).nonzero().squeeze(1)
    start, direction = start[doubtful], direction[doubtful]
    reach = 1 / (direction.amax(-1) - direction.amin(-1)).clamp_min(1)
    low, high = (closest[doubtful] - reach).clamp_min(0), (closest[doubtful] + reach).clamp_max(1)
    for _ in range(HALVINGS):
        first, second = low + (high - low) * 0.4, low + (high - low) * 0.6
        left, right = (tvd((start + share[:, None] * direction).softmax(-1), output) for share in (first, second))
        low, high = torch.where(left > right, first, low), torch.where(left > right, high, second)
    return closest.index_copy(0, doubtful, (low + high) / 2)


def _keeps(logits: torch.Tensor, output: torch.Tensor, eps: float) -> torch.Tensor:
    """(..., C) and (C,) to (...) bool."""
    return tvd(logits.softmax(-1), output) <= eps + ROUNDING


def _cost(attention: torch.Tensor, support: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """(n,), positions (..., K) and weights (..., K) to the overlap (...) that the divergence falls short by; infinite for NaN."""
    return overlap(attention[support], weights).sum(-1).nan_to_num(nan=math.inf)
