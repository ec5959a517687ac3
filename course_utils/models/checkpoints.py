"""Trained classifiers on disk: tensors in half precision beside a JSON card that says how they came to be."""

import hashlib
import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes

from course_utils.data import Vocabulary
from course_utils.errors import ModelError
from course_utils.models.classifier import AttentionClassifier, ClassifierConfig
from course_utils.models.embeddings import wordpiece_embeddings
from course_utils.paths import ROOT

FOLDER = ROOT / "data" / "checkpoints"
FROZEN = "embedding.weight"
_NEEDED = ("config", "sha256")


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary name and move into place, so that a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def save_checkpoint(path: str | Path, model: AttentionClassifier, vocabulary: Vocabulary, card: dict) -> None:
    """Write `path`.safetensors (half precision), `path`.json (the card) and `path`.vocabulary.txt.

    Frozen word vectors are not stored: they come from the packaged encoder again when the checkpoint is loaded.

    Args:
        card: what to record beside the configuration and the hash: command, data, seed, metrics, versions.
    """
    path = Path(path)
    state = {name: tensor.half().contiguous().cpu() for name, tensor in model.state_dict().items()}
    if not model.config.train_embeddings:
        del state[FROZEN]
    content = tensors_to_bytes(state)
    words = "\n".join(vocabulary.words).encode()
    card = card | {"config": model.config.as_dict(), "sha256": hash_of(content), "vocabulary_sha256": hash_of(words)}
    write_atomically(path.with_name(path.name + ".vocabulary.txt"), words)
    write_atomically(path.with_name(path.name + ".safetensors"), content)
    write_atomically(path.with_name(path.name + ".json"), (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode())


def load_checkpoint(name: str | Path, *, device: str | torch.device = "cpu") -> tuple[AttentionClassifier, Vocabulary]:
    """A trained classifier in evaluation mode, and its vocabulary.

    Args:
        name: a name below `data/checkpoints`, such as "rotten_tomatoes-bilstm-additive", or a path without its ending.
    Raises:
        ModelError: no such checkpoint, a damaged card, a file that does not match its hash, or another architecture.
    """
    path = find_checkpoint(name)
    card = read_card(path)
    if "vocabulary_sha256" not in card:
        raise ModelError(
            f"the card {path.name}.json names no vocabulary; it is damaged, or of a fine-tuned encoder: load_finetuned"
        )
    content = read_checked(path.with_name(path.name + ".safetensors"), card["sha256"])
    words = read_checked(path.with_name(path.name + ".vocabulary.txt"), card["vocabulary_sha256"]).decode()
    vocabulary = Vocabulary(tuple(words.split("\n")))
    try:
        config = ClassifierConfig(**card["config"])
        state = {key: tensor.float() for key, tensor in tensors_from_bytes(content).items()}
        embeddings = state.pop(FROZEN) if FROZEN in state else wordpiece_embeddings(vocabulary)
        model = AttentionClassifier(config, embeddings)
        model.load_state_dict(state | {FROZEN: embeddings})
    except (TypeError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"checkpoint {path.name!r} is of another architecture: {error}") from error
    return model.eval().to(device), vocabulary


def read_card(name: str | Path) -> dict:
    """The card of a checkpoint: command, data, seed, metrics, library versions, hash.

    Raises:
        ModelError: no such checkpoint, or its card is no JSON object with the configuration and the hash.
    """
    path = find_checkpoint(name)
    try:
        card = json.loads(path.with_name(path.name + ".json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"the card {path.name}.json is damaged ({error}); restore it with git, or train it again") from error
    missing = [key for key in _NEEDED if not isinstance(card, dict) or key not in card]
    if missing:
        raise ModelError(f"the card {path.name}.json lacks {', '.join(missing)}; restore it with git, or train it again")
    return card


def checkpoint_names() -> list[str]:
    """The names of the checkpoints that come with the course."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def find_checkpoint(name: str | Path) -> Path:
    """The path, without its ending, of a checkpoint of the course or of one anywhere else.

    Raises:
        ModelError: there is none.
    """
    for path in (FOLDER / name, Path(name)):
        if path.name and path.with_name(path.name + ".json").is_file():
            return path
    known = ", ".join(checkpoint_names()) or "none yet"
    raise ModelError(f"there is no checkpoint {str(name)!r}; there are: {known}. Train one: python -m course_utils train NAME")


def read_checked(path: Path, expected: str) -> bytes:
    """The content of a file.

    Raises:
        ModelError: it is missing, or its hash is not `expected`.
    """
    content = path.read_bytes() if path.is_file() else b""
    if hash_of(content) != expected:
        raise ModelError(f"{path.name} does not match the hash on its card; restore both with git, or train it again")
    return content


def hash_of(content: bytes) -> str:
    """The sha256 of a file's content."""
    return hashlib.sha256(content).hexdigest()
