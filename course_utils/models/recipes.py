"""How each checkpoint of the course is made: `python -m course_utils train NAME` follows one of these."""

import platform
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path

import pandas as pd
import torch

from course_utils.data import Dataset, Vocabulary, load, make_batches
from course_utils.errors import ModelError
from course_utils.models.checkpoints import FOLDER, load_checkpoint, save_checkpoint
from course_utils.models.classifier import AttentionClassifier, ClassifierConfig
from course_utils.models.embeddings import wordpiece_embeddings
from course_utils.models.training import TrainingConfig, evaluate, fit


@dataclass(frozen=True)
class Recipe:
    """A data set, the words to keep, a model, and how to train it. Words in fewer than `min_documents` texts are unknown."""

    dataset: str
    model: ClassifierConfig
    training: TrainingConfig = field(default_factory=TrainingConfig)
    min_documents: int = 1


_REVIEWS = TrainingConfig(epochs=12, patience=4, batch_tokens=768)
_LONG_REVIEWS = TrainingConfig(epochs=4, patience=2, batch_tokens=6144)
_STORIES = TrainingConfig(epochs=15, patience=4, batch_tokens=1536, learning_rate=3e-3, word_dropout=0.0)
_PAIRS = TrainingConfig(epochs=40, patience=8, batch_tokens=768, learning_rate=2e-3, word_dropout=0.0)

RECIPES = {
    "rotten_tomatoes-bilstm-additive": Recipe("rotten_tomatoes", ClassifierConfig("bilstm", "additive"), _REVIEWS),
    "rotten_tomatoes-bilstm-dot": Recipe("rotten_tomatoes", ClassifierConfig("bilstm", "dot"), _REVIEWS),
    "rotten_tomatoes-cnn-additive": Recipe("rotten_tomatoes", ClassifierConfig("cnn", "additive"), _REVIEWS),
    "rotten_tomatoes-average-additive": Recipe("rotten_tomatoes", ClassifierConfig("average", "additive"), _REVIEWS),
    "rotten_tomatoes-bilstm-uniform": Recipe("rotten_tomatoes", ClassifierConfig("bilstm", "uniform"), _REVIEWS),
    "imdb-bilstm-additive": Recipe("imdb", ClassifierConfig("bilstm", "additive"), _LONG_REVIEWS, min_documents=10),
    "stories-1-bilstm-additive": Recipe("stories-1", ClassifierConfig("bilstm", n_classes=6, hidden=32, query=True), _STORIES),
    "entailment-bilstm-additive": Recipe("entailment", ClassifierConfig("bilstm", n_classes=3, hidden=64, query=True), _PAIRS),
    "entailment-bilstm-additive-tanh": Recipe(
        "entailment", ClassifierConfig("bilstm", n_classes=3, hidden=64, query=True, decoder="tanh"), _PAIRS
    ),
}


def new_classifier(config: ClassifierConfig, vocabulary: Vocabulary, *, seed: int = 0) -> AttentionClassifier:
    """An untrained classifier whose word vectors come from the packaged encoder; the other weights are drawn from `seed`."""
    embeddings = wordpiece_embeddings(vocabulary)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AttentionClassifier(config, embeddings)


def recipe_of(name: str) -> Recipe:
    """The recipe of this name.

    Raises:
        ModelError: there is none.
    """
    if name not in RECIPES:
        raise ModelError(f"there is no recipe {name!r}; choose one of {', '.join(RECIPES)}")
    return RECIPES[name]


def checkpoint_name(name: str, seed: int = 0) -> str:
    """The name of a recipe's checkpoint: that of the recipe for seed 0, which the lessons use, else `NAME-seed1`."""
    return f"{name}-seed{seed}" if seed else name


def training_card(name: str, seed: int, dataset: Dataset, training: object) -> dict:
    """What the card of every checkpoint says of its making: command, data, training (a dataclass or a list of them), versions."""
    return {
        "command": f"python -m course_utils train {name}" + (f" --seed {seed}" if seed else ""),
        "data": {"name": dataset.name, "classes": dataset.classes}
        | {split: len(getattr(dataset, split)) for split in ("train", "dev", "test")},
        "training": [asdict(one) for one in training] if isinstance(training, list) else asdict(training),
        "versions": {"python": platform.python_version()} | {p: metadata.version(p) for p in ("torch", "transformers", "numpy")},
    }


def train_checkpoint(name: str, *, seed: int = 0, device: str = "cpu", folder: Path = FOLDER) -> pd.DataFrame:
    """Train a recipe and write its checkpoint; an interrupted call goes on where it stopped when made again.

    Args:
        seed: decides the initial weights, the order of the texts and the dropout; see `checkpoint_name`.
        folder: where to write; the course's own unless told.
    Returns:
        the history of `training.fit`. The card holds the accuracy of the checkpoint as loaded back from disk.
    Raises:
        ModelError: there is no such recipe.
    """
    recipe = recipe_of(name)
    dataset = load(recipe.dataset)
    texts = (tokens for example in dataset.train for tokens in (example.tokens, example.query_tokens))
    vocabulary = Vocabulary.build(texts, recipe.min_documents)
    model = new_classifier(recipe.model, vocabulary, seed=seed).to(device)
    training = replace(recipe.training, seed=seed)
    path = folder / checkpoint_name(name, seed)
    resume_file = path.with_name(f"{path.name}.resume.safetensors")
    history = fit(model, dataset.train, dataset.dev, vocabulary, training, resume_file=resume_file)
    if history.attrs["interrupted"]:
        return history
    card = training_card(name, seed, dataset, training) | {"min_documents": recipe.min_documents}
    save_checkpoint(path, model, vocabulary, card)
    saved, _ = load_checkpoint(path, device=device)
    metrics = {}
    for split in ("dev", "test"):
        batches = [batch.to(device) for batch in make_batches(getattr(dataset, split), vocabulary)]
        metrics |= {f"{split}_{key}": round(value, 4) for key, value in evaluate(saved, batches).items()}
    save_checkpoint(path, model, vocabulary, card | {"metrics": metrics, "history": history.round(4).to_dict("records")})
    return history
