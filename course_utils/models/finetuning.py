"""Fine-tuning an encoder to classify: one loop, read from top to bottom; it can be interrupted and resumed at any step."""

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as tensors_to_bytes
from torch.nn import functional
from tqdm.auto import tqdm

from course_utils.data import Example, load
from course_utils.errors import ModelError
from course_utils.models.checkpoints import FOLDER, hash_of, write_atomically
from course_utils.models.finetuned import EncoderClassifier, load_finetuned, logits_of, save_finetuned
from course_utils.models.recipes import checkpoint_name
from course_utils.models.transformer import load_encoder


@dataclass(frozen=True)
class FinetuningConfig:
    """How to fine-tune: AdamW, the learning rate rising from 0 and falling back to 0 (Devlin et al. 2019, appendix A.2 and A.3).

    Attributes:
        epochs: passes over the training texts.
        batch_size: texts in a batch; texts of similar length come together.
        warm_up: share of the steps in which the learning rate rises, in [0, 1).
        clip: longest gradient; longer ones are shortened to it.
        seed: decides the order of the texts and the dropout, step by step.
    Raises:
        ModelError: a value outside its range.
    """

    epochs: int = 2
    batch_size: int = 32
    learning_rate: float = 5e-5
    weight_decay: float = 0.01
    warm_up: float = 0.1
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self):
        ranges = {
            "epochs": self.epochs >= 0,
            "batch_size": self.batch_size >= 1,
            "learning_rate": 0 < self.learning_rate < math.inf,
            "weight_decay": 0 <= self.weight_decay < math.inf,
            "warm_up": 0 <= self.warm_up < 1,
            "clip": self.clip > 0,
            "seed": self.seed >= 0,
        }
        wrong = ", ".join(f"{name}={getattr(self, name)!r}" for name, fits in ranges.items() if not fits)
        if wrong:
            raise ModelError(f"{wrong} cannot be; see the ranges in help(FinetuningConfig)")


@dataclass(frozen=True)
class Finetuning:
    """A data set, the encoder to start from, how to train it, and the rank in which its change is stored."""

    dataset: str
    base: str = "minilm"
    training: FinetuningConfig = field(default_factory=FinetuningConfig)
    rank: int = 16


FINETUNED = {"rotten_tomatoes-minilm": Finetuning("rotten_tomatoes", training=FinetuningConfig(epochs=3, learning_rate=1.5e-4))}


def fine_tune(
    classifier: EncoderClassifier,
    train: Sequence[Example],
    dev: Sequence[Example],
    config: FinetuningConfig = FinetuningConfig(),
    *,
    resume_file: str | Path | None = None,
    save_every: int = 50,
) -> pd.DataFrame:
    """Train `classifier` in place; it ends with the weights of the last step, in evaluation mode.

    An interrupt (Ctrl-C, or the stop button of a notebook) ends training early; the resume file keeps the last step written.

    Args:
        resume_file: every `save_every` steps and after each epoch everything needed to go on is written there; when the file
            exists, training goes on from it, with the same result as without the pause. Deleted when training is complete.
    Returns:
        one row a complete epoch: epoch, train_loss (nats a text), dev_loss, dev_accuracy in [0, 1]; `attrs["interrupted"]` says
        whether training was stopped before its end.
    Raises:
        ModelError: no text, a label the model does not have, or a resume file that is damaged or of another run.
    """
    _check_examples(classifier, train, dev)
    resume_file = None if resume_file is None else Path(resume_file)
    weights = classifier.trained()
    classifier.requires_grad_(False)
    for weight in weights.values():
        weight.requires_grad_(True)
    optimiser = torch.optim.AdamW(_groups(weights, config.weight_decay), lr=config.learning_rate)
    run = {"config": json.dumps(asdict(config)), "texts": _fingerprint(train, dev)}
    step, losses, history, interrupted = 0, [], [], False
    if resume_file is not None and resume_file.is_file():
        step, losses, history = _resume(resume_file, weights, optimiser, run)
    per_epoch = math.ceil(len(train) / config.batch_size)
    bar = tqdm(total=config.epochs * per_epoch, initial=step, desc="fine-tuning", unit="step", leave=False)
    try:
        while step < config.epochs * per_epoch:
            epoch, position = divmod(step, per_epoch)
            batch = _groups_by_length(train, config, epoch)[position]
            optimiser.param_groups[0]["lr"] = optimiser.param_groups[1]["lr"] = _learning_rate(config, step, per_epoch)
            losses.append(_train_step(classifier, [train[number] for number in batch], optimiser, config, step))
            step += 1
            bar.update()
            if position + 1 == per_epoch:
                history.append({"epoch": epoch + 1, "train_loss": float(np.mean(losses))} | _prefixed(evaluate(classifier, dev)))
                losses = []
            if resume_file is not None and (not losses or step % save_every == 0):
                _suspend(resume_file, weights, optimiser, run | {"progress": json.dumps([step, losses, history])})
    except KeyboardInterrupt:
        interrupted = True
        print(f"interrupted after {step} of {config.epochs * per_epoch} steps")
    finally:
        bar.close()
        classifier.eval()
    if resume_file is not None and not interrupted:
        resume_file.unlink(missing_ok=True)
    frame = pd.DataFrame(history, columns=["epoch", "train_loss", "dev_loss", "dev_accuracy"])
    frame.attrs["interrupted"] = interrupted
    return frame


def evaluate(classifier: EncoderClassifier, examples: Sequence[Example]) -> dict[str, float]:
    """Mean cross-entropy (nats) and accuracy over labelled texts; the classifier is left in evaluation mode."""
    logits = logits_of(classifier.eval(), [example.text for example in examples])
    labels = torch.tensor([example.label for example in examples])
    return {
        "loss": functional.cross_entropy(logits, labels).item(),
        "accuracy": (logits.argmax(1) == labels).float().mean().item(),
    }


def train_finetuned(name: str, *, seed: int = 0, device: str = "cpu", folder: Path = FOLDER) -> pd.DataFrame:
    """Fine-tune by one of `FINETUNED` and write its checkpoint; an interrupted call goes on where it stopped when made again.

    Returns:
        the history of `fine_tune`. The card holds the accuracy of the checkpoint as loaded back from disk.
    Raises:
        ModelError: there is no such recipe.
    """
    if name not in FINETUNED:
        raise ModelError(f"there is no recipe {name!r}; choose one of {', '.join(FINETUNED)}")
    recipe = FINETUNED[name]
    dataset = load(recipe.dataset)
    classifier = EncoderClassifier(load_encoder(recipe.base), len(dataset.classes)).to(device)
    training = replace(recipe.training, seed=seed)
    path = folder / checkpoint_name(name, seed)
    history = fine_tune(
        classifier, dataset.train, dataset.dev, training, resume_file=path.with_name(f"{path.name}.resume.safetensors")
    )
    if history.attrs["interrupted"]:
        return history
    card = {
        "command": f"python -m course_utils train {name}" + (f" --seed {seed}" if seed else ""),
        "data": {"name": dataset.name, "classes": dataset.classes}
        | {s: len(getattr(dataset, s)) for s in ("train", "dev", "test")},
        "training": asdict(training),
        "versions": {"python": platform.python_version()} | {p: metadata.version(p) for p in ("torch", "transformers", "numpy")},
    }
    save_finetuned(path, classifier, recipe.base, card, rank=recipe.rank)
    saved, metrics = load_finetuned(path, device=device), {}
    for split in ("dev", "test"):
        found = evaluate(saved, getattr(dataset, split))
        metrics |= {f"{split}_{key}": round(value, 4) for key, value in found.items()}
    card |= {"metrics": metrics, "history": history.round(4).to_dict("records")}
    save_finetuned(path, classifier, recipe.base, card, rank=recipe.rank)
    return history


def _train_step(classifier, examples, optimiser, config, step) -> float:
    pieces = classifier.encoder.pieces([example.text for example in examples])
    labels = torch.tensor([example.label for example in examples], device=classifier.device)
    classifier.train()
    with torch.random.fork_rng(devices=[classifier.device] if classifier.device.type == "cuda" else []):
        torch.manual_seed(config.seed * 1_000_003 + step)  # the dropout of a step does not depend on where training was resumed
        loss = functional.cross_entropy(classifier(pieces), labels)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([weight for group in optimiser.param_groups for weight in group["params"]], config.clip)
    optimiser.step()
    return loss.item()


def _groups_by_length(train: Sequence[Example], config: FinetuningConfig, epoch: int) -> list[np.ndarray]:
    """The numbers of the texts of each batch of an epoch: of nearly equal length, mixed anew, in random order."""
    generator = np.random.default_rng([config.seed, epoch])
    lengths = np.array([len(example.tokens) for example in train])
    order = np.argsort(lengths * (1 + 0.3 * generator.random(len(train))), kind="stable")
    batches = np.array_split(order, math.ceil(len(order) / config.batch_size))
    return [batches[number] for number in generator.permutation(len(batches))]


def _learning_rate(config: FinetuningConfig, step: int, per_epoch: int) -> float:
    share = (step + 1) / (config.epochs * per_epoch + 1)
    rising = share / config.warm_up if config.warm_up else 1.0
    return config.learning_rate * min(rising, (1 - share) / (1 - config.warm_up))


def _groups(weights, decay: float) -> list[dict]:
    """Matrices decay, biases and layer normalisation do not."""
    matrices = [weight for weight in weights.values() if weight.dim() > 1]
    vectors = [weight for weight in weights.values() if weight.dim() == 1]
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]


def _prefixed(scores: dict[str, float]) -> dict[str, float]:
    return {f"dev_{key}": value for key, value in scores.items()}


def _suspend(path: Path, weights, optimiser, note: dict[str, str]) -> None:
    tensors = {f"model.{name}": weight.detach() for name, weight in weights.items()}
    for number, entry in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{key}": tensor for key, tensor in entry.items()}
    tensors = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
    write_atomically(path, tensors_to_bytes(tensors, metadata=note))


def _resume(path: Path, weights, optimiser, run) -> tuple[int, list[float], list[dict]]:
    try:
        with safe_open(path, framework="pt") as file:
            note = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ModelError(f"{path} is damaged ({error}); delete it to start again") from error
    stored = {name.removeprefix("model."): tensor for name, tensor in tensors.items() if name.startswith("model.")}
    same_shapes = {name: tensor.shape for name, tensor in stored.items()} == {name: w.shape for name, w in weights.items()}
    if any(note.get(key) != value for key, value in run.items()) or not same_shapes:
        raise ModelError(f"{path} belongs to another run ({note.get('config')}); delete it or give another resume_file")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(stored[name])
    entries: dict[int, dict] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser."):
            _, number, key = name.split(".")
            entries.setdefault(int(number), {})[key] = tensor
    optimiser.load_state_dict(optimiser.state_dict() | {"state": entries})
    return tuple(json.loads(note["progress"]))


def _fingerprint(*splits: Sequence[Example]) -> str:
    return hash_of(json.dumps([[(example.text, example.label) for example in split] for split in splits]).encode())


def _check_examples(classifier: EncoderClassifier, train: Sequence[Example], dev: Sequence[Example]) -> None:
    n_classes = classifier.head.out_features
    for name, examples in (("training", train), ("development", dev)):
        if not examples:
            raise ModelError(f"there is no {name} text")
        for example in examples:
            if example.label not in range(n_classes):
                raise ModelError(f"a {name} text has label {example.label!r}; this model has classes 0..{n_classes - 1}")
