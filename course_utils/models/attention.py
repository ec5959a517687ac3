"""Attention: how much weight each token's state gets in the context vector."""

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

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, T, H) and (B, T) to weights (B, T)."""
        return masked_softmax(self.score(self.project(hidden).tanh()).squeeze(-1), mask)


class DotAttention(nn.Module):
    """`score_t = q . h_t / sqrt(H)` with a learned query q: the scaled dot product of Vaswani et al. (2017)."""

    def __init__(self, size: int):
        super().__init__()
        self.query = nn.Parameter(torch.randn(size))

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, T, H) and (B, T) to weights (B, T)."""
        return masked_softmax(hidden @ self.query / hidden.shape[-1] ** 0.5, mask)


ATTENTIONS = {"additive": AdditiveAttention, "dot": DotAttention}
