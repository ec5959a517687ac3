"""Attention: how much weight each token's state gets in the context vector.

Both kinds first project a state linearly, then turn the projection into a score. An experiment that changes a part of the state
can so change the same part of the projection (`linear`, `score_of`) instead of projecting anew. Where a second text asks, its state
takes part in the scores, as in Jain & Wallace (2019, section 3).
"""

import torch
from torch import nn


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension with exactly 0 where `mask` is False; each row needs one True."""
    return scores.masked_fill(~mask, float("-inf")).softmax(-1)


class AdditiveAttention(nn.Module):
    """`score_t = v . tanh(W h_t + b)` (Bahdanau et al. 2015), W from H to H/2; with a query q, `v . tanh(W h_t + W_q q + b)`."""

    def __init__(self, size: int, query_size: int | None = None):
        super().__init__()
        self.project = nn.Linear(size, size // 2)
        if query_size:
            self.project_query = nn.Linear(query_size, size // 2, bias=False)
        self.score = nn.Linear(size // 2, 1, bias=False)

    def linear(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight (H/2, H) and bias (H/2,) of the projection."""
        return self.project.weight, self.project.bias

    def score_of(self, projected: torch.Tensor) -> torch.Tensor:
        """(..., H/2) to scores (...)."""
        return self.score(projected.tanh()).squeeze(-1)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor, query: torch.Tensor | None = None) -> torch.Tensor:
        """(B, T, H), (B, T) and (B, Q) to weights (B, T)."""
        projected = self.project(hidden)
        if query is not None:
            projected = projected + self.project_query(query)[:, None]
        return masked_softmax(self.score_of(projected), mask)


class DotAttention(nn.Module):
    """`score_t = q . h_t / sqrt(H)`: the scaled dot product of Vaswani et al. (2017); q is learned, or a second text's state."""

    def __init__(self, size: int, query_size: int | None = None):
        super().__init__()
        if query_size is None:
            self.query = nn.Parameter(torch.randn(size))

    def linear(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight (1, H) and bias (1,) of the projection."""
        return self.query[None] / self.query.numel() ** 0.5, self.query.new_zeros(1)

    def score_of(self, projected: torch.Tensor) -> torch.Tensor:
        """(..., 1) to scores (...)."""
        return projected.squeeze(-1)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor, query: torch.Tensor | None = None) -> torch.Tensor:
        """(B, T, H), (B, T) and (B, H) to weights (B, T)."""
        scores = hidden @ self.query if query is None else (hidden @ query[..., None]).squeeze(-1)
        return masked_softmax(scores / hidden.shape[-1] ** 0.5, mask)


class UniformAttention(nn.Module):
    """The same weight for every token, 1/T: the baseline without attention (Wiegreffe & Pinter 2019, section 3.2)."""

    def __init__(self, size: int, query_size: int | None = None):
        super().__init__()
        self.size = size

    def linear(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight (1, H) and bias (1,) of the projection: 0, so that all scores are equal."""
        return torch.zeros(1, self.size), torch.zeros(1)

    def score_of(self, projected: torch.Tensor) -> torch.Tensor:
        """(..., 1) to scores (...)."""
        return projected.squeeze(-1)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor, query: torch.Tensor | None = None) -> torch.Tensor:
        """(B, T, H) and (B, T) to weights (B, T)."""
        return (mask / mask.sum(1, keepdim=True)).to(hidden.dtype)


ATTENTIONS = {"additive": AdditiveAttention, "dot": DotAttention, "uniform": UniformAttention}
