"""Training an attention classifier: one loop, read from top to bottom; it can be interrupted and resumed."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
import torch
from torch.nn import functional
from tqdm.auto import tqdm

from course_utils.data import Batch, Example, Vocabulary, make_batches
from course_utils.errors import ModelError
from course_utils.models.classifier import AttentionClassifier
from course_utils.models.resuming import resume, suspend


def check_ranges(config: object, fits: Mapping[str, bool]) -> None:
    """Refuse a configuration whose named values do not all fit their ranges."""
    wrong = ", ".join(f"{name}={getattr(config, name)!r}" for name, fit in fits.items() if not fit)
    if wrong:
        raise ModelError(f"{wrong} cannot be; see the ranges in help({type(config).__name__})")


@dataclass(frozen=True)
class TrainingConfig:
    """How to train. The optimiser is the one of Jain & Wallace (2019): Adam with amsgrad, no weight decay on attention.

    Attributes:
        epochs: passes over the training texts, at most; 0 leaves the model as it is.
        patience: stop after this many epochs without a better development accuracy, 1 or more.
        batch_tokens: padded tokens in a batch; 768 is about 32 review sentences.
        word_dropout: share of the word vectors' entries set to 0 in training, in [0, 1); the paper uses none.
        seed: decides the order of the batches and the dropout, epoch by epoch; 0 or more.
    Raises:
        ModelError: a value outside these ranges.
    """

    epochs: int = 8
    patience: int = 3
    batch_tokens: int = 768
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    word_dropout: float = 0.5
    seed: int = 0

    def __post_init__(self):
        ranges = {
            "epochs": self.epochs >= 0,
            "patience": self.patience >= 1,
            "batch_tokens": self.batch_tokens >= 1,
            "learning_rate": 0 < self.learning_rate < math.inf,
            "weight_decay": 0 <= self.weight_decay < math.inf,
            "word_dropout": 0 <= self.word_dropout < 1,
            "seed": self.seed >= 0,
        }
        check_ranges(self, ranges)


def fit(
    model: AttentionClassifier,
    train: Sequence[Example],
    dev: Sequence[Example],
    vocabulary: Vocabulary,
    config: TrainingConfig = TrainingConfig(),
    *,
    resume_file: str | Path | None = None,
) -> pd.DataFrame:
    """Train `model` in place; it ends with the weights of the epoch that was best on `dev`, in evaluation mode.

    An interrupt (Ctrl-C, or the stop button of a notebook) ends training early and keeps the best epoch so far.

    Args:
        resume_file: after each epoch everything needed to go on is written there; when the file exists, training goes on
            from it, with the same result as without the pause. Deleted when training is complete.
    Returns:
        one row an epoch: epoch, train_loss (nats a text), dev_loss, dev_accuracy in [0, 1]; `attrs["interrupted"]` says
        whether training was stopped before its end.
    Raises:
        ModelError: no training or development text, a text without label or with a label the model does not have, or a
            resume file that is damaged or of another run (configuration, texts or shapes).
    """
    check_examples(train, dev, model.config.n_classes)
    resume_file = None if resume_file is None else Path(resume_file)
    optimiser = _optimiser(model, config)
    best = _trained_state(model)
    history, interrupted = [], False
    run = {"config": json.dumps(asdict(config)), "texts": fingerprint(train, dev)}
    if resume_file is not None and resume_file.is_file():
        parts, note = resume(resume_file, best, optimiser, run)
        model.load_state_dict(parts["model"], strict=False)
        history, best = json.loads(note["history"]), parts["best"]
    dev_batches = [batch.to(model.device) for batch in make_batches(dev, vocabulary)]
    try:
        for epoch in range(len(history), config.epochs):
            if _out_of_patience(history, config.patience):
                break
            generator = torch.Generator().manual_seed(1000 * config.seed + epoch)
            batches = make_batches(train, vocabulary, token_budget=config.batch_tokens, generator=generator)
            train_loss = _train_epoch(
                model, batches, optimiser, config.word_dropout, generator, f"epoch {epoch + 1}/{config.epochs}"
            )
            row = {"epoch": epoch + 1, "train_loss": train_loss} | {f"dev_{k}": v for k, v in evaluate(model, dev_batches).items()}
            if all(row["dev_accuracy"] > earlier["dev_accuracy"] for earlier in history):
                best = _trained_state(model)
            history.append(row)
            if resume_file is not None:
                parts = {"model": _trained_state(model), "best": best}
                suspend(resume_file, parts, optimiser, run | {"history": json.dumps(history)})
    except KeyboardInterrupt:
        interrupted = True
        print(f"interrupted after {len(history)} complete epochs; the best of them is kept")
    if resume_file is not None and not interrupted:
        resume_file.unlink(missing_ok=True)
    model.load_state_dict(best, strict=False)
    model.eval()
    frame = pd.DataFrame(history)
    frame.attrs["interrupted"] = interrupted
    return frame


def evaluate(model: AttentionClassifier, batches: Sequence[Batch]) -> dict[str, float]:
    """Mean cross-entropy (nats) and accuracy over labelled batches; the model is left in evaluation mode.

    Raises:
        ModelError: there is no batch, or one without labels.
    """
    if not batches or any(batch.labels is None for batch in batches):
        raise ModelError("accuracy needs at least one batch, and a label for every text in it")
    model.eval()
    loss = correct = texts = 0
    with torch.no_grad():
        for batch in batches:
            output = model(batch)
            loss += functional.cross_entropy(output.logits, batch.labels, reduction="sum").item()
            correct += (output.predicted == batch.labels).sum().item()
            texts += len(batch)
    return {"loss": loss / texts, "accuracy": correct / texts}


def _train_epoch(model, batches, optimiser, word_dropout, generator, title) -> float:
    model.train()
    total = texts = 0
    for batch in tqdm(batches, desc=title, leave=False):
        batch = batch.to(model.device)
        embedded = model.embedding(batch.ids)
        if word_dropout:
            kept = (torch.rand(embedded.shape, generator=generator) >= word_dropout).to(embedded.device)
            embedded = embedded * kept / (1 - word_dropout)
        logits = model(batch, embedded=embedded).logits
        loss = functional.cross_entropy(logits, batch.labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.item() * len(batch)
        texts += len(batch)
    return total / texts


def _optimiser(model: AttentionClassifier, config: TrainingConfig) -> torch.optim.Optimizer:
    attention = list(model.attention.parameters())
    in_attention = {id(parameter) for parameter in attention}
    others = [p for p in model.parameters() if p.requires_grad and id(p) not in in_attention]
    groups = [{"params": others, "weight_decay": config.weight_decay}, {"params": attention, "weight_decay": 0.0}]
    return torch.optim.Adam(groups, lr=config.learning_rate, amsgrad=True)


def _trained_state(model: AttentionClassifier) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters() if parameter.requires_grad}


def _out_of_patience(history: list[dict], patience: int) -> bool:
    scores = [row["dev_accuracy"] for row in history]
    return len(scores) > patience and max(scores[-patience:]) <= max(scores[:-patience])


def fingerprint(*splits: Sequence[Example]) -> str:
    """Changes with any text, label or order of the data, so that a run is not continued on other data."""
    digest = hashlib.sha256()
    for split in splits:
        digest.update(json.dumps([(example.text, *example.content, example.label) for example in split]).encode())
    return digest.hexdigest()


def check_examples(train: Sequence[Example], dev: Sequence[Example], n_classes: int) -> None:
    """Refuse a run without texts, or with a label that the model does not have."""
    for name, examples in (("training", train), ("development", dev)):
        if not examples:
            raise ModelError(f"there is no {name} text")
        for example in examples:
            if example.label not in range(n_classes):
                raise ModelError(f"a {name} text has label {example.label!r}; this model has classes 0..{n_classes - 1}")
