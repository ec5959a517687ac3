"""The heads of a Transformer as parts that can be read and turned down, by hooks that leave no trace."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from course_utils.errors import ModelError

Head = tuple[int, int]  # layer, head, both from 0


class _Family(NamedTuple):
    """Where a family of models keeps the parts of its attention: the list of layers, then, in each, paths of modules.

    `query` and `key` are empty where they have no module of their own.
    """

    layers: str
    projection: str
    value: str
    query: str = ""
    key: str = ""


_FAMILIES = (
    _Family(  # BERT, RoBERTa, ELECTRA
        "encoder.layer", "attention.output.dense", "attention.self.value", "attention.self.query", "attention.self.key"
    ),
    _Family("transformer.layer", "attention.out_lin", "attention.v_lin", "attention.q_lin", "attention.k_lin"),  # DistilBERT
    _Family("h", "attn.c_proj", "attn.c_attn"),  # GPT-2: query, key and value come out of one module, value last
)


@contextmanager
def gate_heads(model: nn.Module, gates: torch.Tensor) -> Iterator[None]:
    """Multiply the output of every head by its gate, while the context lasts.

    The input of a layer's output projection is the concatenation of its heads; a hook scales it. Gate 1 leaves a head as it is,
    bit for bit; gate 0 removes what it contributes. Gates may require gradients: a head's importance (Michel et al. 2019,
    section 4.1) is the gradient of the loss with respect to its gate. The hooks are removed in any case, also after an exception.

    Args:
        model: a BERT, RoBERTa, DistilBERT or GPT-2 model, with or without a task's head.
        gates: (L, N), or (B, L, N) for gates of each input.
    Raises:
        ModelError: the shape does not fit, or the family is unknown.
    """
    projections = attention_modules(model, "projection")
    expected = (len(projections), model.config.num_attention_heads)
    if gates.shape[-2:] != expected or gates.dim() not in (2, 3):
        raise ModelError(f"gates have shape {tuple(gates.shape)}; this model needs (layers, heads) = {expected}")

    def gate(layer: int):
        def scale(module, inputs):
            heads = inputs[0].unflatten(-1, (expected[1], -1))  # (B, T, N, D)
            gate = gates[..., layer, :].to(heads)
            if gate.dim() == 2 and len(gate) != len(heads):
                raise ModelError(f"there are gates for {len(gate)} inputs, and this batch has {len(heads)}; give one set an input")
            return ((heads * (gate if gates.dim() == 2 else gate[:, None])[..., None]).flatten(-2), *inputs[1:])

        return scale

    handles = []
    try:
        for layer, projection in enumerate(projections):
            handles.append(projection.register_forward_pre_hook(gate(layer)))
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def capture_values(model: nn.Module, *, keep: bool = True) -> Iterator[list[torch.Tensor]]:
    """A list that fills, in each forward pass, with every layer's value vectors (B, N, T, D); stays empty without `keep`."""
    captured: list[torch.Tensor] = []
    heads, size = model.config.num_attention_heads, model.config.hidden_size

    def store(module, inputs, output):
        captured.append(output[..., -size:].unflatten(-1, (heads, -1)).transpose(1, 2))

    handles = []
    try:
        if keep:
            for module in attention_modules(model, "value"):
                handles.append(module.register_forward_hook(store))
        yield captured
    finally:
        for handle in handles:
            handle.remove()


def output_weights(model: nn.Module) -> torch.Tensor:
    """(L, N, D, H): the part of each layer's output projection that belongs to each head; `value @ weight` is what it writes."""
    layers = []
    for module in attention_modules(model, "projection"):
        weight = module.weight.detach().T if isinstance(module, nn.Linear) else module.weight.detach()
        layers.append(weight.unflatten(0, (model.config.num_attention_heads, -1)))
    return torch.stack(layers)


def attention_modules(model: nn.Module, part: str) -> list[nn.Module]:
    """A part of every layer's attention ("projection", "value", "query" or "key"), in order of layers.

    Raises:
        ModelError: the family is unknown, or has no module for this part.
    """
    base = getattr(model, "base_model", model)
    for family in _FAMILIES:
        path = getattr(family, part)
        if not path:
            continue
        try:
            return [layer.get_submodule(path) for layer in base.get_submodule(family.layers)]
        except AttributeError:
            continue
    raise ModelError(
        f"{type(base).__name__} keeps its attention at a place the course does not know, so its heads cannot be reached; "
        "use a BERT, RoBERTa, DistilBERT or GPT-2 model"
    )
