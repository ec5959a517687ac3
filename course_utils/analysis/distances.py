"""How far apart two distributions are. All functions compare along the last dimension and broadcast over the others."""

import math

import torch


def xlogx(x: torch.Tensor) -> torch.Tensor:
    """`x log x`, 0 at 0, with a finite gradient there."""
    return x * x.clamp_min(torch.finfo(x.dtype).tiny).log()


def tvd(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Total variation distance `(1/2) sum |p - q|`, in [0, 1]; for two classes, the change of the positive probability.

    Args:
        p, q: (..., N), each row not negative with sum 1; positions where both are 0 (padding) do not count.
    Returns:
        (...).
    """
    return (p - q).abs().sum(-1) / 2


def kl(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Kullback-Leibler divergence of `q` from `p` in nats (Kullback & Leibler 1951), 0 or more: 0 if equal.

    Args:
        p, q: (..., N), each row not negative with sum 1; positions where p is 0 (padding) do not count.
    Returns:
        (...), never NaN or infinite, with finite gradients: a weight of `q` counts as at least the smallest normal number (1.2e-38
        in single precision), so that a `q` of 0 where `p` is 1 costs about 87 nats.
    """
    least = torch.finfo(p.dtype).tiny
    return (p * (p.clamp_min(least).log() - q.clamp_min(least).log())).sum(-1)


def jsd(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Jensen-Shannon divergence with natural logarithms (Lin 1991), in [0, log 2]: 0 if equal, log 2 if disjoint.

    Args:
        p, q: (..., N), each row not negative with sum 1; positions where both are 0 (padding) do not count.
    Returns:
        (...), never NaN, and differentiable also where a weight is 0.
    """
    terms = (xlogx(p) + xlogx(q)) / 2 - xlogx((p + q) / 2)
    return terms.sum(-1).clamp(0, math.log(2))


def overlap(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """What two weights on the same token cost: `jsd(p, q) = log 2 - overlap(p, q).sum(-1) / 2`, term by term.

    It is 0 where either weight is 0, so a distribution on few tokens is scored by looking at those tokens only.

    Args:
        p, q: (...), weights in [0, 1].
    Returns:
        (...), in [0, 2 log 2], growing with both weights.
    """
    total = p + q
    return torch.xlogy(total, total) - torch.xlogy(p, p) - torch.xlogy(q, q)
