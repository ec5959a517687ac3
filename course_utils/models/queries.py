"""The query and key vectors that an encoder's attention is made of."""

from typing import NamedTuple

import torch
from torch import nn

from course_utils.errors import ModelError
from course_utils.models.heads import attention_modules
from course_utils.models.maps import AttentionMaps
from course_utils.models.transformer import Encoder


class Neurons(NamedTuple):
    """One text with the vectors behind its attention.

    Attributes:
        maps: B = 1, the attention of T tokens.
        queries, keys: (L, N, T, D); `softmax(queries @ keys.T / sqrt(D))` is the attention.
    """

    maps: AttentionMaps
    queries: torch.Tensor
    keys: torch.Tensor


def neurons(encoder: Encoder, text: str) -> Neurons:
    """The attention over one text with the queries and keys it comes from, by hooks that are removed in any case.

    Args:
        encoder: of the BERT, RoBERTa, ELECTRA or DistilBERT family.
    Raises:
        ModelError: the model has no separate modules for queries and keys, as GPT-2 has none.
        DataError: as in `Encoder.pieces`.
    """
    queries, keys = _modules(encoder.model)
    found: dict[nn.Module, torch.Tensor] = {}

    def store(module, inputs, output):
        found[module] = output.detach()

    handles = []
    try:
        for module in (*queries, *keys):
            handles.append(module.register_forward_hook(store))
        maps = encoder.attend([text])
    finally:
        for handle in handles:
            handle.remove()

    def by_head(modules: list[nn.Module]) -> torch.Tensor:
        return torch.cat([found[module] for module in modules]).unflatten(-1, (encoder.n_heads, -1)).transpose(1, 2)

    return Neurons(maps, by_head(queries), by_head(keys))


def _modules(model: nn.Module) -> tuple[list[nn.Module], list[nn.Module]]:
    try:
        return attention_modules(model, "query"), attention_modules(model, "key")
    except ModelError as error:
        name = type(getattr(model, "base_model", model)).__name__
        raise ModelError(
            f"{name} has no separate modules for queries and keys (GPT-2 makes query, key and value in one), so its neurons cannot "
            "be shown; use a BERT, RoBERTa, ELECTRA or DistilBERT encoder such as load_encoder('minilm'), or head_view"
        ) from error
