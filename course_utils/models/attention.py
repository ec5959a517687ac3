"""Attention: how much weight each token's state gets in the context vector.

Both kinds first project a state linearly, then turn the projection into a score. An experiment that changes a part of the state
can so change the same part of the projection (`linear`, `score_of`) instead of projecting anew.
"""

import torch
from torch import nn


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension with exactly 0 where `mask` is False; each row needs one True."""
    return scores.masked_fill(~mask, float("-inf")).softmax(-1)


class AdditiveAttention(nn.Module):
    """`score_t = v . tanh(W h_t + b)` (Bahdanau et al. 2015), W from H to H/2 as in Jain & Wallace (2019)."""

    def __init__(self, size: int):
        super().__init__()
        self.project = nn.Linear(size, size // 2)
        self.score = nn.Linear(size // 2, 1, bias=False)

    def linear(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight (H/2, H) and bias (H/2,) of the projection."""
        return self.project.weight, self.project.bias

    def score_of(self, projected: torch.Tensor) -> torch.Tensor:
        """(..., H/2) to scores (...)."""
        return self.score(projected.tanh()).squeeze(-1)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, T, H) and (B, T) to weights (B, T)."""
        return masked_softmax(self.score_of(self.project(hidden)), mask)


class DotAttention(nn.Module):
    """`score_t = q . h_t / sqrt(H)` with a learned query q: the scaled dot product of Vaswani et al. (2017)."""

    def __init__(self, size: int):
        super().__init__()
        self.query = nn.Parameter(torch.randn(size))

    def linear(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight (1, H) and bias (1,) of the projection."""
        return self.query[None] / self.query.numel() ** 0.5, self.query.new_zeros(1)

    def score_of(self, projected: torch.Tensor) -> torch.Tensor:
        """(..., 1) to scores (...)."""
        return projected.squeeze(-1)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, T, H) and (B, T) to weights (B, T)."""
        return masked_softmax(hidden @ self.query / hidden.shape[-1] ** 0.5, mask)


ATTENTIONS = {"additive": AdditiveAttention, "dot": DotAttention}
