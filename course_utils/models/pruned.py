"""A classifier whose heads are really gone: their rows and columns are cut out of the weights."""

import copy
from collections.abc import Sequence

import torch
from torch import nn

from course_utils.errors import ModelError
from course_utils.models.finetuned import EncoderClassifier
from course_utils.models.heads import attention_modules
from course_utils.models.maps import AttentionMaps
from course_utils.models.pieces import Pieces
from course_utils.models.transformer import Encoder


class PrunedEncoder(Encoder):
    """An encoder whose layers have different numbers of heads.

    Attributes:
        kept: for each layer, the numbers its heads had before.
    """

    def __init__(self, model: nn.Module, tokenizer, kept: tuple[tuple[int, ...], ...]):
        super().__init__(model, tokenizer)
        self.kept = kept

    @property
    def n_heads(self) -> int:
        counts = [len(heads) for heads in self.kept]
        raise ModelError(f"the layers of a pruned encoder have different numbers of heads: {counts}; see `kept`")

    def attend(self, texts: Sequence[str] | Pieces, *, max_tokens: int = 512, states: bool = False) -> AttentionMaps:
        """Refused: there is no one array of maps.

        Raises:
            ModelError: always.
        """
        raise ModelError(
            "the layers of a pruned encoder have different numbers of heads, so their maps do not fit one array; "
            "look at the model before pruning, with gate_heads in place of the removal"
        )


class _NoHeads(nn.Module):
    """A self-attention without any head: nothing is read; the output projection still adds its bias."""

    def forward(self, hidden_states: torch.Tensor, *arguments, **named) -> tuple[torch.Tensor, None]:
        return hidden_states[..., :0], None


def remove_heads(classifier: EncoderClassifier, gates: torch.Tensor) -> EncoderClassifier:
    """A copy without the heads whose gate is 0; its logits are those of the gated model, up to rounding.

    The rows of query, key and value and the columns of the output projection that belong to the heads are cut out. A layer may
    lose all its heads; its feed-forward part and the connection around it stay.

    Args:
        classifier: of the BERT family; it is not changed.
        gates: (L, N), every value 0 or 1. All 1 gives a plain copy.
    Raises:
        ModelError: another shape, a gate between 0 and 1, a model of another family, or one that is pruned already.
    """
    if isinstance(classifier.encoder, PrunedEncoder):
        raise ModelError("this classifier is pruned already; remove all heads at once, from the model they are numbered in")
    expected = (classifier.encoder.n_layers, classifier.encoder.n_heads)
    if tuple(gates.shape) != expected:
        raise ModelError(f"gates have shape {tuple(gates.shape)}; this model needs (layers, heads) = {expected}")
    if not ((gates == 0) | (gates == 1)).all():
        raise ModelError("a gate between 0 and 1 scales a head and cannot be cut out; use gate_heads, or round the gates")
    if any(not hasattr(layer, "attention") or not hasattr(layer.attention, "self") for layer in _layers(classifier.body)):
        raise ModelError(f"{type(classifier.body).__name__} is not of the BERT family; use gate_heads instead")
    kept = tuple(tuple(row.nonzero()[:, 0].tolist()) for row in gates)
    body = copy.deepcopy(classifier.body)
    size = body.config.hidden_size // expected[1]
    for layer, heads in zip(_layers(body), kept, strict=True):
        rows = torch.tensor([head * size + place for head in heads for place in range(size)], dtype=torch.int64)
        attention = layer.attention
        attention.output.dense = _cut(attention.output.dense, rows, 1)
        if not heads:
            attention.self = _NoHeads()
            continue
        for part in ("query", "key", "value"):
            setattr(attention.self, part, _cut(getattr(attention.self, part), rows, 0))
        attention.self.num_attention_heads, attention.self.all_head_size = len(heads), len(rows)
    pruned = EncoderClassifier(PrunedEncoder(body, classifier.encoder.tokenizer, kept), classifier.head.out_features)
    pruned.head.load_state_dict(classifier.head.state_dict())
    if len(set(kept)) > 1 or len(kept[0]) != expected[1]:
        body.config.num_attention_heads = 0  # gates made for the whole model are refused, not applied to other heads
    return pruned.train(classifier.training).requires_grad_(False)


def n_parameters(classifier: EncoderClassifier) -> int:
    """Numbers in the encoder's layers and the head; embeddings and pooler, which pruning does not touch, are not counted."""
    return sum(weight.numel() for weight in classifier.trained().values())


def _layers(body: nn.Module) -> list[nn.Module]:
    attention_modules(body, "projection")  # refuses families that are unknown
    return list(body.encoder.layer) if hasattr(body, "encoder") else [nn.Identity()]


def _cut(linear: nn.Linear, places: torch.Tensor, dimension: int) -> nn.Linear:
    """The same projection with only these rows (0: outputs) or columns (1: inputs) of its weight."""
    weight = linear.weight.detach().index_select(dimension, places.to(linear.weight.device)).clone()
    bias = linear.bias.detach()[places] if dimension == 0 else linear.bias.detach()
    cut = nn.Linear(1, 1, device=weight.device, dtype=weight.dtype)
    cut.out_features, cut.in_features = weight.shape
    cut.weight, cut.bias = nn.Parameter(weight), nn.Parameter(bias.clone())
    return cut
