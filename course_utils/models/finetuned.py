"""A pretrained encoder fine-tuned to classify, and its checkpoint: a low-rank change to the encoder that is already there."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import nn

from course_utils.errors import ModelError
from course_utils.models.checkpoints import find_checkpoint, hash_of, read_card, read_checked, write_atomically
from course_utils.models.lowrank import apply_change, change_of
from course_utils.models.pieces import Pieces
from course_utils.models.transformer import Encoder, load_encoder

_UNTRAINED = ("embeddings.", "pooler.")


class EncoderClassifier(nn.Module):
    """A linear decision on the last state of the first token, [CLS] (Devlin et al. 2019, section 4.1).

    Args:
        encoder: what reads; it is changed by training, not copied.
        n_classes: 2 or more. The head starts with zeros: every class is as likely as another.
    Raises:
        ModelError: fewer than two classes, or a model that reads from left to right, whose first token sees nothing.
    """

    def __init__(self, encoder: Encoder, n_classes: int = 2):
        super().__init__()
        if n_classes < 2:
            raise ModelError(f"a classifier needs 2 classes or more, not {n_classes}")
        if encoder.tokenizer.cls_token_id is None:
            raise ModelError(f"{type(encoder.model).__name__} has no [CLS] token to decide at; use an encoder such as 'minilm'")
        self.encoder = encoder
        self.body = encoder.model.base_model
        self.head = nn.Linear(self.body.config.hidden_size, n_classes, device=encoder.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def forward(self, pieces: Pieces) -> torch.Tensor:
        """(B, C) logits of the texts, in the order of the batch. Gates, hooks and gradients work as on the encoder."""
        states = self.body(input_ids=pieces.ids, attention_mask=pieces.mask.long()).last_hidden_state
        return self.head(states[:, 0])

    def trained(self) -> dict[str, nn.Parameter]:
        """The weights that fine-tuning moves: all but the encoder's embeddings, and its pooler, which the decision does not use."""
        body = {name: weight for name, weight in self.body.named_parameters() if not name.startswith(_UNTRAINED)}
        return body | {f"head.{name}": weight for name, weight in self.head.named_parameters()}


@torch.no_grad()
def logits_of(
    classifier: EncoderClassifier, texts: Sequence[str], *, token_budget: int = 2048, progress: bool = False
) -> torch.Tensor:
    """(N, C) logits of the texts, in their order, on the CPU; no gradient.

    Args:
        token_budget, progress: as in `Encoder.batches`. The result does not depend on the budget.
    Raises:
        DataError: no text, or one that cannot be read.
        ModelError: the classifier is in training mode.
    """
    if classifier.training:
        raise ModelError("the classifier is in training mode: dropout makes its logits random; call classifier.eval() first")
    logits = torch.empty(len(texts), classifier.head.out_features)
    for pieces in classifier.encoder.batches(texts, token_budget=token_budget, progress=progress):
        logits[pieces.index.cpu()] = classifier(pieces).float().cpu()
    return logits


def save_finetuned(path: str | Path, classifier: EncoderClassifier, base: str | Path, card: dict, *, rank: int = 64) -> None:
    """Write `path`.safetensors (the change to the encoder, and the head) and `path`.json (the card).

    Args:
        base: the encoder's name for `load_encoder`, as it was before fine-tuning.
        card: what to record beside the configuration and the hashes: command, data, seed, metrics, versions.
        rank: singular values kept of each matrix's change; 64 cost 2.7 MB for MiniLM.
    """
    path = Path(path)
    before = load_encoder(base).model.base_model.state_dict()
    head = {f"head.{name}": tensor for name, tensor in classifier.head.state_dict().items()}
    body = {name: weight.detach().cpu() for name, weight in classifier.trained().items() if name not in head}
    parts = change_of(before, body, rank) | {name: tensor.half().contiguous().cpu() for name, tensor in head.items()}
    content = tensors_to_bytes(parts)
    config = {"base": str(base), "n_classes": classifier.head.out_features, "rank": rank}
    card = card | {"config": config, "sha256": hash_of(content), "base_sha256": weights_hash(before)}
    write_atomically(path.with_name(path.name + ".safetensors"), content)
    write_atomically(path.with_name(path.name + ".json"), (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode())


def load_finetuned(name: str | Path = "rotten_tomatoes-minilm", *, device: str | torch.device = "cpu") -> EncoderClassifier:
    """A fine-tuned encoder in evaluation mode. Its weights ask for no gradients; gates and embeddings given to it may.

    Args:
        name: a name below `data/checkpoints`, or a path without its ending.
    Raises:
        ModelError: no such checkpoint, a damaged file, a checkpoint of another kind or architecture, or another encoder on this
            machine than the one that was fine-tuned.
    """
    path = find_checkpoint(name)
    card = read_card(path)
    if "base_sha256" not in card:
        raise ModelError(f"checkpoint {path.name!r} is no fine-tuned encoder; load it by load_checkpoint")
    content = read_checked(path.with_name(path.name + ".safetensors"), card["sha256"])
    try:
        base, n_classes = card["config"]["base"], card["config"]["n_classes"]
        parts = tensors_from_bytes(content)
        head = {key: parts.pop(f"head.{key}").float() for key in ("weight", "bias")}
    except (TypeError, KeyError, SafetensorError) as error:
        raise ModelError(f"checkpoint {path.name!r} is of another architecture: {error!r}") from error
    classifier = EncoderClassifier(load_encoder(base), n_classes)
    before = classifier.body.state_dict()
    if weights_hash(before) != card["base_sha256"]:
        raise ModelError(
            f"checkpoint {path.name!r} is a change to another version of the encoder {base!r} than the one on this machine; "
            f"install the one of requirements.lock, or train it again: {card.get('command', 'python -m course_utils train')}"
        )
    try:
        classifier.body.load_state_dict(apply_change(before, parts), strict=False)
        classifier.head.load_state_dict(head)
    except (ModelError, RuntimeError) as error:
        raise ModelError(f"checkpoint {path.name!r} is of another architecture: {error}") from error
    return classifier.eval().requires_grad_(False).to(device)


def weights_hash(state: Mapping[str, torch.Tensor]) -> str:
    """The sha256 of tensors with their names and shapes, whatever file they came from."""
    digest = hashlib.sha256()
    for name in sorted(state):
        digest.update(f"{name} {tuple(state[name].shape)}".encode())
        digest.update(state[name].detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
