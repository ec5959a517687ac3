"""The exact adversary for two classes: the best attention is a corner of a simplex cut by a slab.

Attention weights that keep the probability within eps are those of the simplex with `lo <= sum_t q_t v_t <= hi`. The
Jensen-Shannon divergence from a given attention is convex in q, so over this polytope it is largest at a corner, and a corner
uses one token (inside the slab) or two (one on either side of a bounding plane, a wall, mixed so that they land on it). The best
of them is the global maximum: no iteration, no seed.

T tokens have up to T^2 / 4 pairs at a wall, and nearly all can be ruled out unscored. A pair costs `overlap(a, w) +
overlap(b, 1 - w)`: a and b are what the model gives to its two tokens, w is the weight that lands them on the wall. This grows with
b, and it is concave in w. So a token's best pair costs at least as much as one with a partner that has the least attention on the
other side and stands at the nearest or the furthest distance there: a concave function is smallest at an end. A token whose bound
exceeds the cost of a corner known already is in no better one. What is left is scored.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

from course_utils.analysis.distances import jsd, overlap
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
    walls = torch.stack(logit_bounds(logit, eps), 1)
    best = _best_pair(attention, values, mask, walls, _best_token(attention, values, mask, walls))
    adversarial = torch.zeros_like(attention).scatter_add_(1, best.tokens, best.weights)
    change = (torch.sigmoid((adversarial * values).sum(1)) - torch.sigmoid(logit)).abs()
    return Adversary(adversarial, jsd(attention, adversarial), change)


class _Corners(NamedTuple):
    """N corners: cost, the summed overlap, (N,); the two tokens of each, which may be the same, and their weights, (N, 2) both."""

    cost: torch.Tensor
    tokens: torch.Tensor
    weights: torch.Tensor

    def improved(self, others: "_Corners", inputs: torch.Tensor) -> "_Corners":
        """One corner an input, with others in place of those that cost more; `inputs` says whose they are, (len(others.cost),)."""
        cost = self.cost.scatter_reduce(0, inputs, others.cost, "amin")
        cheapest = ((others.cost == cost[inputs]) & (others.cost < self.cost[inputs])).nonzero().squeeze(1)
        first = torch.full_like(self.tokens[:, 0], len(inputs)).scatter_reduce(0, inputs[cheapest], cheapest, "amin")
        better = first < len(inputs)
        tokens, weights = self.tokens.clone(), self.weights.clone()
        tokens[better], weights[better] = others.tokens[first[better]], others.weights[first[better]]
        return _Corners(cost, tokens, weights)


def _best_token(attention: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, walls: torch.Tensor) -> _Corners:
    """The single token between the walls (B, 2) that costs least: the least attended; of infinite cost where there is none."""
    slack = ROUNDING * (1 + values.abs().amax(1, keepdim=True))
    inside = mask & (values >= walls[:, :1] - slack) & (values <= walls[:, 1:] + slack)
    least, token = attention.where(inside, math.inf).min(1, keepdim=True)
    weights = least.new_tensor([1.0, 0.0]).expand(len(least), 2)
    cost = overlap(least, weights[:, :1]).where(least.isfinite(), math.inf)
    return _Corners(cost.squeeze(1), token.expand(-1, 2), weights)


def _best_pair(attention: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, walls: torch.Tensor, best: _Corners) -> _Corners:
    """The pair that lands on a wall and costs least, in place of `best` where it costs less."""
    gap = values[:, None] - walls[:, :, None]
    below, above = mask[:, None] & (gap < 0), mask[:, None] & (gap > 0)
    gap = gap.abs()
    kept = _not_ruled_out(attention, gap, below, above, best.cost)
    inputs, wall, first = (below & kept).nonzero(as_tuple=True)
    partners = above & kept
    for part in torch.arange(len(inputs), device=inputs.device).split(max(1, CELLS_AT_ONCE // values.shape[1])):
        row, second = partners[inputs[part], wall[part]].nonzero(as_tuple=True)
        row = part[row]
        owner, tokens = inputs[row], torch.stack([first[row], second], 1)
        gaps = gap[owner[:, None], wall[row, None], tokens]
        weights = gaps.flip(1) / gaps.sum(1, keepdim=True)
        cost = overlap(attention[owner[:, None], tokens], weights).sum(1)
        best = best.improved(_Corners(cost, tokens, weights), owner)
    return best


def _not_ruled_out(
    attention: torch.Tensor, gap: torch.Tensor, below: torch.Tensor, above: torch.Tensor, cost: torch.Tensor
) -> torch.Tensor:
    """The tokens, (B, 2, T) bool, whose bound is not above what is known: `cost` (B,), and the least attended pair of each wall."""
    attention = attention[:, None]
    low, low_at, *low_ends = _extremes(attention, gap, below)
    high, high_at, *high_ends = _extremes(attention, gap, above)
    pair = _pair_overlap(low, gap.gather(2, low_at), high, gap.gather(2, high_at))
    pair = pair.where(low.isfinite() & high.isfinite(), math.inf)
    known = torch.minimum(pair.amin(1, keepdim=True), cost[:, None, None]) + ROUNDING
    partner = torch.where(above, low, high)
    nearest_and_furthest = torch.where(above, torch.stack(low_ends), torch.stack(high_ends))
    return (_pair_overlap(attention, gap, partner, nearest_and_furthest) <= known).any(0)


def _extremes(attention: torch.Tensor, gap: torch.Tensor, side: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Of the tokens on one side of each wall: the least attention, whose it is, the least and the largest gap, (B, 2, 1) each.

    Where there is no token, the least attention is infinite, and no bound made from it is a number.
    """
    least, token = attention.where(side, math.inf).min(2, keepdim=True)
    return least, token, gap.where(side, math.inf).amin(2, keepdim=True), gap.where(side, 0).amax(2, keepdim=True)


def _pair_overlap(low: torch.Tensor, depth: torch.Tensor, high: torch.Tensor, height: torch.Tensor) -> torch.Tensor:
    """What a pair costs that is mixed so that it lands on the wall.

    Args:
        low, depth: (...), attention and distance from the wall of a token on one side.
        high, height: (...), those of its partner on the other.
    """
    total = depth + height
    return overlap(low, height / total) + overlap(high, depth / total)
