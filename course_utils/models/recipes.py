"""How each checkpoint of the course is made: `python -m course_utils train NAME` follows one of these."""

import platform
from dataclasses import asdict, dataclass, field
from importlib import metadata

import pandas as pd
import torch

from course_utils.data import Vocabulary, load, make_batches
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

RECIPES = {
    "rotten_tomatoes-bilstm-additive": Recipe("rotten_tomatoes", ClassifierConfig("bilstm", "additive"), _REVIEWS),
    "rotten_tomatoes-bilstm-dot": Recipe("rotten_tomatoes", ClassifierConfig("bilstm", "dot"), _REVIEWS),
    "rotten_tomatoes-cnn-additive": Recipe("rotten_tomatoes", ClassifierConfig("cnn", "additive"), _REVIEWS),
    "rotten_tomatoes-average-additive": Recipe("rotten_tomatoes", ClassifierConfig("average", "additive"), _REVIEWS),
    "imdb-bilstm-additive": Recipe("imdb", ClassifierConfig("bilstm", "additive"), _LONG_REVIEWS, min_documents=10),
}


def new_classifier(config: ClassifierConfig, vocabulary: Vocabulary, *, seed: int = 0) -> AttentionClassifier:
    """An untrained classifier whose word vectors come from the packaged encoder; the other weights are drawn from `seed`."""
    embeddings = wordpiece_embeddings(vocabulary)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AttentionClassifier(config, embeddings)


def train_checkpoint(name: str, *, device: str = "cpu", folder=FOLDER) -> pd.DataFrame:
    """Train a recipe and write its checkpoint; an interrupted call goes on where it stopped when made again.

    Returns:
        the history of `training.fit`. The card holds the test accuracy of the checkpoint as loaded back from disk.
    Raises:
        ModelError: there is no such recipe.
    """
    if name not in RECIPES:
        raise ModelError(f"there is no recipe {name!r}; choose one of {', '.join(RECIPES)}")
    recipe = RECIPES[name]
    dataset = load(recipe.dataset)
    vocabulary = Vocabulary.build((example.tokens for example in dataset.train), recipe.min_documents)
    model = new_classifier(recipe.model, vocabulary, seed=recipe.training.seed).to(device)
    resume_file = folder / f"{name}.resume.safetensors"
    history = fit(model, dataset.train, dataset.dev, vocabulary, recipe.training, resume_file=resume_file)
    if history.attrs["interrupted"]:
        return history
    card = {
        "command": f"python -m course_utils train {name}",
        "data": {"name": dataset.name, "classes": dataset.classes}
        | {s: len(getattr(dataset, s)) for s in ("train", "dev", "test")},
        "training": asdict(recipe.training),
        "min_documents": recipe.min_documents,
        "versions": {"python": platform.python_version()} | {p: metadata.version(p) for p in ("torch", "transformers", "numpy")},
    }
    save_checkpoint(folder / name, model, vocabulary, card)
    saved, _ = load_checkpoint(folder / name, device=device)
    metrics = {}
    for split in ("dev", "test"):
        batches = [batch.to(device) for batch in make_batches(getattr(dataset, split), vocabulary)]
        metrics |= {f"{split}_{key}": round(value, 4) for key, value in evaluate(saved, batches).items()}
    save_checkpoint(folder / name, model, vocabulary, card | {"metrics": metrics, "history": history.round(4).to_dict("records")})
    return history
