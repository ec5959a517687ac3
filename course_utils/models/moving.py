"""The weights of single heads: read, exchanged and replaced, and put back as they were.

Head h of a layer is four slices of its matrices: the rows h of query, key and value, and the columns h of the output projection.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn

from course_utils.errors import ModelError
from course_utils.models.heads import Head, attention_modules

_PARTS = {"query": "query", "key": "key", "value": "value", "output": "projection"}


@dataclass(frozen=True)
class HeadWeights:
    """One head of a model of width H, D = H / heads. It attends by `(x Q' + q)(x K' + k)'`, reads `x V' + v`, writes `read @ O'`.

    Attributes:
        query, key, value: (D, H), with their biases `query_bias`, `key_bias`, `value_bias` (D,).
        output: (H, D). The projection's bias belongs to the layer, not to a head.
    """

    query: torch.Tensor
    query_bias: torch.Tensor
    key: torch.Tensor
    key_bias: torch.Tensor
    value: torch.Tensor
    value_bias: torch.Tensor
    output: torch.Tensor

    def attending_like(self, other: "HeadWeights") -> "HeadWeights":
        """These values and outputs behind the query and key of another head."""
        return replace(self, query=other.query, query_bias=other.query_bias, key=other.key, key_bias=other.key_bias)

    def attending_evenly(self) -> "HeadWeights":
        """These values and outputs behind a query and key of 0: every token gets the same weight."""
        return self.attending_like(HeadWeights(*(torch.zeros_like(getattr(self, name)) for name in self.__dataclass_fields__)))

    def writing_nothing(self) -> "HeadWeights":
        """These weights with an output of 0: the head is removed."""
        return replace(self, output=torch.zeros_like(self.output))


def read_head(model: nn.Module, layer: int, head: int) -> HeadWeights:
    """A copy of a head's weights.

    Raises:
        ModelError: no such layer or head, or a family whose query, key and value are no modules of their own (GPT-2).
    """
    modules, rows = _slices(model, layer, head)
    parts = {name: modules[name].weight.detach()[rows].clone() for name in ("query", "key", "value")}
    biases = {f"{name}_bias": modules[name].bias.detach()[rows].clone() for name in ("query", "key", "value")}
    return HeadWeights(**parts, **biases, output=modules["output"].weight.detach()[:, rows].clone())


def replaced(model: nn.Module, changes: Mapping[Head, HeadWeights]) -> dict[str, torch.Tensor]:
    """The parameters of `model` that differ once these heads have these weights: for `torch.func.functional_call`.

    Nothing in the model changes, and gradients reach the new weights.

    Args:
        changes: (layer, head) to the weights it gets.
    Raises:
        ModelError: as in `read_head`, or weights of another shape.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found: dict[str, torch.Tensor] = {}

    def put(parameter: nn.Parameter, rows: slice, new: torch.Tensor, columns: bool) -> None:
        name = names[id(parameter)]
        full = found.get(name, parameter.detach())
        place = (slice(None), rows) if columns else rows
        if full[place].shape != new.shape:
            raise ModelError(f"a head's part of {name} has shape {tuple(full[place].shape)}, not {tuple(new.shape)}")
        full = full.clone()
        full[place] = new
        found[name] = full

    for (layer, head), weights in changes.items():
        modules, rows = _slices(model, layer, head)
        for part in _PARTS:
            put(modules[part].weight, rows, getattr(weights, part), columns=part == "output")
            if part != "output":
                put(modules[part].bias, rows, getattr(weights, f"{part}_bias"), columns=False)
    return found


@contextmanager
def use_heads(model: nn.Module, changes: Mapping[Head, HeadWeights]) -> Iterator[None]:
    """Give heads other weights while the context lasts; afterwards, also after an exception, the model is the same to the bit.

    Arguments and errors as in `replaced`.
    """
    new = replaced(model, changes)
    parameters = dict(model.named_parameters())
    before = {name: parameters[name].detach().clone() for name in new}
    with torch.no_grad():
        try:
            for name, values in new.items():
                parameters[name].copy_(values)
            with torch.enable_grad():
                yield
        finally:
            for name, values in before.items():
                parameters[name].copy_(values)


def exchanged(model: nn.Module, layer: int, one: int, other: int) -> dict[Head, HeadWeights]:
    """Two heads of a layer in each other's place: other names, the same function.

    Raises:
        ModelError: as in `read_head`, or a head with itself.
    """
    if one == other:
        raise ModelError(f"head {one} of layer {layer} cannot change places with itself; choose two heads")
    return {(layer, one): read_head(model, layer, other), (layer, other): read_head(model, layer, one)}


def _slices(model: nn.Module, layer: int, head: int) -> tuple[dict[str, nn.Module], slice]:
    layers = {part: attention_modules(model, place) for part, place in _PARTS.items()}
    n_layers, n_heads = len(layers["query"]), model.config.num_attention_heads
    if not (0 <= layer < n_layers and 0 <= head < n_heads):
        raise ModelError(f"there is no head {head} in layer {layer}; this model has {n_layers} layers of {n_heads} heads, from 0")
    modules = {part: found[layer] for part, found in layers.items()}
    size = modules["query"].weight.shape[0] // n_heads
    return modules, slice(head * size, (head + 1) * size)
