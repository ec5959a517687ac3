"""Fine-tuning an encoder to classify: one loop, read from top to bottom; it can be interrupted and resumed at any step."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.nn import functional
from tqdm.auto import tqdm

from course_utils.data import Example, load
from course_utils.errors import ModelError
from course_utils.models.checkpoints import FOLDER
from course_utils.models.finetuned import EncoderClassifier, load_finetuned, logits_of, save_finetuned
from course_utils.models.recipes import checkpoint_name, training_card
from course_utils.models.resuming import resume, suspend
from course_utils.models.training import check_examples, check_ranges, fingerprint
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
        check_ranges(self, ranges)


@dataclass(frozen=True)
class Finetuning:
    """A data set, the encoder to start from, the trainings whose mean is kept, and the rank in which its change is stored.

    The mean of the weights of models fine-tuned from one start, by other settings and in another order of the texts, predicts
    better than most of them alone (Wortsman et al. 2022).
    """

    dataset: str
    base: str = "minilm"
    trainings: tuple[FinetuningConfig, ...] = (FinetuningConfig(),)
    rank: int = 64


FINETUNED = {
    "rotten_tomatoes-minilm": Finetuning(
        "rotten_tomatoes",
        trainings=(
            FinetuningConfig(epochs=3, batch_size=16, learning_rate=1e-4, seed=0),
            FinetuningConfig(epochs=3, batch_size=32, learning_rate=1.5e-4, seed=1),
        ),
    )
}


def fine_tune(
    classifier: EncoderClassifier,
    train: Sequence[Example],
    dev: Sequence[Example],
    config: FinetuningConfig = FinetuningConfig(),
    *,
    resume_file: str | Path | None = None,
    save_every: int = 50,
    keep_file: bool = False,
) -> pd.DataFrame:
    """Train `classifier` in place; it ends with the weights of the last step, in evaluation mode.

    An interrupt (Ctrl-C, or the stop button of a notebook) ends training early; the resume file keeps the last step written.

    Args:
        resume_file: every `save_every` steps and after each epoch everything needed to go on is written there; when the file
            exists, training goes on from it, with the same result as without the pause. Deleted when training is complete.
        keep_file: whether the resume file stays all the same, so that the next call has the result at once.
    Returns:
        one row a complete epoch: epoch, train_loss (nats a text), dev_loss, dev_accuracy in [0, 1]; `attrs["interrupted"]` says
        whether training was stopped before its end.
    Raises:
        ModelError: no text, a label the model does not have, or a resume file that is damaged or of another run.
    """
    check_examples(train, dev, classifier.head.out_features)
    resume_file = None if resume_file is None else Path(resume_file)
    weights = classifier.trained()
    classifier.requires_grad_(False)
    for weight in weights.values():
        weight.requires_grad_(True)
    optimiser = torch.optim.AdamW(_groups(weights, config.weight_decay), lr=config.learning_rate)
    run = {"config": json.dumps(asdict(config)), "texts": fingerprint(train, dev)}
    step, losses, history, interrupted = 0, [], [], False
    if resume_file is not None and resume_file.is_file():
        parts, note = resume(resume_file, weights, optimiser, run)
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(parts["model"][name])
        step, losses, history = json.loads(note["progress"])
    per_epoch = math.ceil(len(train) / config.batch_size)
    bar = tqdm(total=config.epochs * per_epoch, initial=step, desc="fine-tuning", unit="step", leave=False)
    try:
        for epoch in range(step // per_epoch, config.epochs):
            for batch in _groups_by_length(train, config, epoch)[step % per_epoch :]:
                optimiser.param_groups[0]["lr"] = optimiser.param_groups[1]["lr"] = _learning_rate(config, step, per_epoch)
                losses.append(_train_step(classifier, [train[number] for number in batch], optimiser, config, step))
                step += 1
                bar.update()
                if step % per_epoch == 0:
                    row = {"epoch": epoch + 1, "train_loss": float(np.mean(losses))}
                    history.append(row | {f"dev_{key}": value for key, value in evaluate(classifier, dev).items()})
                    losses = []
                if resume_file is not None and (not losses or step % save_every == 0):
                    note = run | {"progress": json.dumps([step, losses, history])}
                    suspend(resume_file, {"model": weights}, optimiser, note)
    except KeyboardInterrupt:
        interrupted = True
        print(f"interrupted after {step} of {config.epochs * per_epoch} steps")
    finally:
        bar.close()
        classifier.eval()
    if resume_file is not None and not interrupted and not keep_file:
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

    Args:
        seed: moves the seeds of the recipe's trainings; 0 is the checkpoint of the lessons.
    Returns:
        the histories of `fine_tune` with the column `training`, the number of each. The card holds the accuracy of the checkpoint
        as loaded back from disk.
    Raises:
        ModelError: there is no such recipe.
    """
    if name not in FINETUNED:
        raise ModelError(f"there is no recipe {name!r}; choose one of {', '.join(FINETUNED)}")
    recipe = FINETUNED[name]
    dataset = load(recipe.dataset)
    trainings = [replace(training, seed=training.seed + seed * len(recipe.trainings)) for training in recipe.trainings]
    path = folder / checkpoint_name(name, seed)
    files = [path.with_name(f"{path.name}.{number}.resume.safetensors") for number in range(len(trainings))]
    histories, found = [], []
    for number, (training, file) in enumerate(zip(trainings, files, strict=True)):
        classifier = EncoderClassifier(load_encoder(recipe.base), len(dataset.classes)).to(device)
        history = fine_tune(classifier, dataset.train, dataset.dev, training, resume_file=file, keep_file=True)
        histories.append(history.assign(training=number))
        found.append({key: weight.detach() for key, weight in classifier.trained().items()})
        if history.attrs["interrupted"]:
            return _together(histories)
    with torch.no_grad():
        for key, weight in classifier.trained().items():
            weight.copy_(sum(weights[key] for weights in found) / len(found))
    card = training_card(name, seed, dataset, trainings)
    save_finetuned(path, classifier, recipe.base, card, rank=recipe.rank)
    saved, metrics = load_finetuned(path, device=device), {}
    for split in ("dev", "test"):
        measured = evaluate(saved, getattr(dataset, split))
        metrics |= {f"{split}_{key}": round(value, 4) for key, value in measured.items()}
    history = _together(histories)
    card |= {"metrics": metrics, "history": history.round(4).to_dict("records")}
    save_finetuned(path, classifier, recipe.base, card, rank=recipe.rank)
    for file in files:
        file.unlink(missing_ok=True)
    return history


def _together(histories: Sequence[pd.DataFrame]) -> pd.DataFrame:
    history = pd.concat(histories, ignore_index=True)
    history.attrs["interrupted"] = histories[-1].attrs["interrupted"]
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


def batches_by_length(lengths: Sequence[int], batch_size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """The numbers of the texts of each batch: of nearly equal length, mixed anew at each call, in random order.

    Args:
        lengths: of the texts, in any unit.
        batch_size: most texts in a batch.
    """
    lengths = np.asarray(lengths)
    order = np.argsort(lengths * (1 + 0.3 * generator.random(len(lengths))), kind="stable")
    batches = np.array_split(order, math.ceil(len(order) / batch_size))
    return [batches[number] for number in generator.permutation(len(batches))]


def _groups_by_length(train: Sequence[Example], config: FinetuningConfig, epoch: int) -> list[np.ndarray]:
    """The batches of an epoch."""
    return batches_by_length(
        [len(example.tokens) for example in train], config.batch_size, np.random.default_rng([config.seed, epoch])
    )


def _learning_rate(config: FinetuningConfig, step: int, per_epoch: int) -> float:
    share = (step + 1) / (config.epochs * per_epoch + 1)
    rising = share / config.warm_up if config.warm_up else 1.0
    return config.learning_rate * min(rising, (1 - share) / (1 - config.warm_up))


def _groups(weights, decay: float) -> list[dict]:
    """Matrices decay, biases and layer normalisation do not."""
    matrices = [weight for weight in weights.values() if weight.dim() > 1]
    vectors = [weight for weight in weights.values() if weight.dim() == 1]
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
