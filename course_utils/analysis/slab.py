"""The exact adversary for two classes: the best attention is a corner of a simplex cut by a slab.

Attention weights that keep the probability within eps are those of the simplex with `lo <= sum_t q_t v_t <= hi`. The
Jensen-Shannon divergence from a given attention is convex in q, so over this polytope it is largest at a corner, and a corner
uses one token (inside the slab) or two (one on either side of a bounding plane, mixed so that they land on it). Scoring all of
them gives the global maximum: no iteration, no seed.
"""

import math
from dataclasses import dataclass

import torch

from course_utils.analysis.distances import jsd, overlap, xlogx
from course_utils.analysis.reading import as_float64, normalised
from course_utils.errors import AnalysisError

CELLS_AT_ONCE = 1 << 17
ROUNDING = 1e-12


@dataclass(frozen=True)
class Adversary:
    """For each of B inputs, the attention that is furthest from the model's own among those found with the same prediction.

    Attributes:
        attention: (B, T) float64, each row sums to 1, 0 at padding.
        jsd: (B,) in [0, log 2], its Jensen-Shannon divergence from the model's attention.
        change: (B,) in [0, 1], the total variation distance between the two outputs.
    """

    attention: torch.Tensor
    jsd: torch.Tensor
    change: torch.Tensor


def check_eps(eps: float) -> None:
    """Refuse a tolerance that is no probability."""
    if not 0 <= eps <= 1:
        raise AnalysisError(f"eps is the allowed change of a probability, in [0, 1], not {eps}")


def logit_bounds(logit: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The two logits at which the probability `sigmoid(logit)` has moved by exactly eps: the walls of the slab.

    Args:
        logit: (...), any float64; the tails are exact also where the sigmoid is 1 to machine precision.
        eps: in [0, 1].
    Returns:
        lo <= logit <= hi, (...) each; a wall that no logit reaches is infinite.
    """
    check_eps(eps)
    tail = torch.sigmoid(-logit.abs())
    away = torch.where(tail > eps, torch.logit((tail - eps).clamp_min(0)), -math.inf)
    back = torch.where(tail + eps < 1, torch.logit((tail + eps).clamp_max(1)), math.inf)
    lo, hi = torch.where(logit > 0, -back, away), torch.where(logit > 0, -away, back)
    return torch.minimum(lo, logit), torch.maximum(hi, logit)


def exact_attention(attention: torch.Tensor, token_logits: torch.Tensor, mask: torch.Tensor, eps: float = 0.01) -> Adversary:
    """The attention of maximum Jensen-Shannon divergence among all that change the probability by at most eps.

    Args:
        attention: (B, T), the model's own.
        token_logits: (B, T), the log odds at each token alone: `p = sigmoid((attention * token_logits).sum(1))`.
        mask: (B, T) bool, True at real tokens.
        eps: in [0, 1]; 0 asks for the same probability, 1 for any.
    Returns:
        the global maximum, on at most two tokens; the change exceeds eps by rounding only. One token alone has divergence 0.
    Raises:
        AnalysisError: eps is not in [0, 1].
    """
    attention, values = normalised(attention), as_float64(token_logits)
    mask = mask.to(values.device)
    logit = (attention * values).sum(1)
    bounds = torch.stack(logit_bounds(logit, eps), 1)
    token_cost, token = _best_token(attention, values, mask, bounds)
    pair_cost, pair, weights = _best_pair(attention, values.masked_fill(~mask, math.inf), bounds)
    one_is_enough = (token_cost <= pair_cost)[:, None]
    positions = torch.where(one_is_enough, token[:, None], pair)
    weights = torch.where(one_is_enough, weights.new_tensor([1.0, 0.0]), weights)
    adversarial = torch.zeros_like(attention).scatter_add_(1, positions, weights)
    change = (torch.sigmoid((adversarial * values).sum(1)) - torch.sigmoid(logit)).abs()
    return Adversary(adversarial, jsd(attention, adversarial), change)


def _best_token(
    attention: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, bounds: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Overlap and position, (B,) each, of the best single token within the slab (B, 2); infinite where there is none."""
    slack = ROUNDING * (1 + values.abs().amax(1, keepdim=True))
    inside = mask & (values >= bounds[:, :1] - slack) & (values <= bounds[:, 1:] + slack)
    cost = overlap(attention, attention.new_ones(())).masked_fill(~inside, math.inf)
    return cost.min(1)


def _best_pair(
    attention: torch.Tensor, values: torch.Tensor, bounds: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Overlap (B,), positions (B, 2) and weights (B, 2) of the best pair that lands on either wall; infinite where there is none.

    `values` are infinite at padding.
    """
    values, order = values.sort(1)
    attention = attention.gather(1, order)
    walls = bounds.flatten()
    inputs = torch.arange(len(values), device=walls.device).repeat_interleave(2)
    below = (values[inputs] < walls[:, None]).sum(1)
    first_above = (values[inputs] <= walls[:, None]).sum(1)
    above = values.isfinite().sum(1)[inputs] - first_above
    cost = torch.full_like(walls, math.inf)
    ranks, weights = below.new_zeros(len(walls), 2), values.new_zeros(len(walls), 2)
    crossed = ((below > 0) & (above > 0)).nonzero().squeeze(1)
    groups = crossed.split(max(1, CELLS_AT_ONCE // values.shape[1] ** 2)) if len(crossed) else ()
    for rows in groups:
        cost[rows], ranks[rows], weights[rows] = _best_cell(
            attention[inputs[rows]], values[inputs[rows]], walls[rows, None], below[rows], first_above[rows], above[rows]
        )
    cost, wall = cost.view(-1, 2).min(1)
    chosen = 2 * torch.arange(len(values), device=walls.device) + wall
    return cost, order.gather(1, ranks[chosen]), weights[chosen]


def _best_cell(
    attention: torch.Tensor,
    values: torch.Tensor,
    wall: torch.Tensor,
    below: torch.Tensor,
    first_above: torch.Tensor,
    above: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The best (token below, token above) of R walls (R, 1) whose tokens (R, T) are sorted by value.

    Returns overlap (R,), ranks (R, 2) in sorted order, and weights (R, 2).
    """
    steps = torch.arange(values.shape[1], device=values.device)
    low, high = steps[: int(below.max())], (first_above[:, None] + steps[: int(above.max())]).clamp_max(len(steps) - 1)
    no_low, no_high = low >= below[:, None], steps[: high.shape[1]] >= above[:, None]
    depth = (wall - values[:, : len(low)]).masked_fill(no_low, 1)
    height = (values.gather(1, high) - wall).masked_fill(no_high, 1)
    attention_high = attention.gather(1, high)[:, None]
    best = None
    for part in low.split(max(1, CELLS_AT_ONCE // high.numel())):
        cost = _pair_overlap(attention[:, part, None], depth[:, part, None], attention_high, height[:, None])
        cost.masked_fill_(no_low[:, part, None] | no_high[:, None], math.inf)
        least, cell = cost.flatten(1).min(1)
        found = (least, part[0] + cell // high.shape[1], cell % high.shape[1])
        best = found if best is None else [torch.where(least < best[0], new, old) for new, old in zip(found, best, strict=True)]
    least, row, column = best
    depth, height = depth.gather(1, row[:, None]), height.gather(1, column[:, None])
    ranks = torch.cat([row[:, None], high.gather(1, column[:, None])], 1)
    return least, ranks, torch.cat([height, depth], 1) / (depth + height)


def _pair_overlap(low: torch.Tensor, depth: torch.Tensor, high: torch.Tensor, height: torch.Tensor) -> torch.Tensor:
    """`overlap(low, w) + overlap(high, 1 - w)` for the pair's weights w = height / (depth + height), by three logarithms a pair.

    All others are of single tokens: `w log w + (1 - w) log(1 - w) = (h log h + d log d) / (d + h) - log(d + h)`.

    Args:
        low, depth: (R, N, 1), attention and distance from the wall of the tokens below it; distances are above 0.
        high, height: (R, 1, M), those of the tokens above it.
    Returns:
        (R, N, M).
    """
    total = depth + height
    share = total.reciprocal()
    cost = total.log_().addcmul_(xlogx(depth) + xlogx(height), share, value=-1)
    for attention, opposite in ((low, height), (high, depth)):
        both = torch.addcmul(attention, opposite, share)
        cost.addcmul_(both, both.log()).sub_(xlogx(attention))
    return cost
