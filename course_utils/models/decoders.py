"""Decoders: the context vector, and the state of a second text where there is one, to logits."""

import torch
from torch import nn


class LinearDecoder(nn.Linear):
    """`W c + b`; with a query q, `W (c * tanh(G q)) + U q + b`.

    Given the query it is linear in the context, so every token has logits of its own, and the experiments on attention have their
    short forms. The product lets the query decide what a state speaks for: without it, two texts meet in the attention scores only.
    """

    def __init__(self, size: int, n_classes: int, query_size: int | None = None):
        super().__init__(size, n_classes)
        if query_size:
            self.gate = nn.Linear(query_size, size)
            self.from_query = nn.Linear(query_size, n_classes, bias=False)

    def forward(self, context: torch.Tensor, query: torch.Tensor | None = None) -> torch.Tensor:
        """(B, ..., H) and (B, Q) to (B, ..., C)."""
        if query is None:
            return super().forward(context)
        between = [1] * (context.dim() - 2)
        gate, offset = (part(query).unflatten(0, (-1, *between)) for part in (lambda q: self.gate(q).tanh(), self.from_query))
        return super().forward(context * gate) + offset


class TanhDecoder(nn.Module):
    """`W tanh(P c + Q q + a) + b`, by which Jain & Wallace (2019) answer questions and infer. Not linear in the context."""

    def __init__(self, size: int, n_classes: int, query_size: int | None = None):
        super().__init__()
        self.project = nn.Linear(size, size // 2)
        if query_size:
            self.project_query = nn.Linear(query_size, size // 2, bias=False)
        self.output = nn.Linear(size // 2, n_classes)

    def forward(self, context: torch.Tensor, query: torch.Tensor | None = None) -> torch.Tensor:
        """(B, ..., H) and (B, Q) to (B, ..., C)."""
        projected = self.project(context)
        if query is not None:
            projected = projected + self.project_query(query).unflatten(0, (-1, *[1] * (context.dim() - 2)))
        return self.output(projected.tanh())


DECODERS = {"linear": LinearDecoder, "tanh": TanhDecoder}
