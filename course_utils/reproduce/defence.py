"""Lesson 09's study: one model's attention against other seeds, trained adversaries, and readers with somebody else's weights."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from course_utils.analysis import adversary
from course_utils.analysis.defence import between, train_adversary
from course_utils.analysis.running import over
from course_utils.data import load, make_batches
from course_utils.errors import CourseError
from course_utils.models import load_checkpoint
from course_utils.models.checkpoints import FOLDER, write_atomically
from course_utils.models.frozen import FrozenAttentionClassifier, weights_of
from course_utils.models.recipes import checkpoint_name, new_classifier, recipe_of
from course_utils.models.training import TrainingConfig, evaluate, fit
from course_utils.paths import ROOT
from course_utils.reproduce.measures import EPSILON, sample
from course_utils.reproduce.runs import WORK, Run, complete

RESULTS = ROOT / "data" / "results" / "defence.csv"
RECIPE = "rotten_tomatoes-bilstm-additive"
STRENGTHS = (0.0, 0.001, 0.01, 0.1)
LENT = 0.01  # the adversary whose weights are given to a reader without context
READER_TRAINING = TrainingConfig(epochs=8, patience=3, batch_tokens=1536)


def study(
    work: Path = WORK,
    *,
    seeds: int = 8,
    adversary_seeds: Sequence[int] = (0, 1),
    reader_seeds: Sequence[int] = (0, 1, 2),
    n_texts: int = 200,
    device: str = "cpu",
) -> pd.DataFrame:
    """Everything lesson 09 shows, on the review sentences; models of other seeds that are not there yet are trained.

    Returns:
        one row a part, variant, seed, text and measure, as kept in data/results/defence.csv: `part` ("seeds", "exact", "adversary"
        or "reader"), `variant` (lambda, or whose weights a reader was given), `seed`, `input` (-1 for a figure of the whole test
        split), `measure` ("jsd", "change" or "accuracy"), `value`. Distances are from the model of seed 0, that of the lessons.
    """
    dataset = load(recipe_of(RECIPE).dataset)
    base, vocabulary = load_checkpoint(FOLDER / RECIPE, device=device)
    texts = sample(dataset.test, n_texts)
    batches = [batch.to(device) for batch in make_batches(texts, vocabulary)]
    test = [batch.to(device) for batch in make_batches(dataset.test, vocabulary)]
    parts = []

    def against_base(model, part, variant, seed):
        found = pd.concat([between([base, model], batch) for batch in batches])
        for measure in ("jsd", "change"):
            rows = found[["input"]].assign(part=part, variant=variant, seed=seed, measure=measure, value=found[measure])
            parts.append(rows)
        parts.append(_figure(part, variant, seed, evaluate(model, test)["accuracy"]))

    for seed in range(1, seeds):
        complete(Run(RECIPE, seed), work, device=device, n_texts=n_texts)
        model, _ = load_checkpoint(work / checkpoint_name(RECIPE, seed), device=device)
        against_base(model, "seeds", "another seed", seed)
    exact = over(adversary.exact, base, batches, eps=EPSILON)
    for measure, column in (("jsd", "max_jsd"), ("change", "change")):
        rows = exact[["input"]].assign(part="exact", variant="exact", seed=0, measure=measure, value=exact[column])
        parts.append(rows)
    lent = None
    for strength in STRENGTHS:
        for seed in adversary_seeds:
            model = new_classifier(base.config, vocabulary, seed=100 + seed).to(device)
            train_adversary(model, base, vocabulary, dataset.train, strength, seed=seed)
            against_base(model, "adversary", f"{strength:g}", seed)
            lent = model if (strength, seed) == (LENT, adversary_seeds[0]) else lent
    everything = [*make_batches([*dataset.train, *dataset.dev, *dataset.test], vocabulary)]
    uniform = {tokens: torch.full((len(tokens),), 1 / len(tokens)) for batch in everything for tokens in batch.tokens}
    owners = {"uniform": uniform, "BiLSTM": weights_of(base, everything), "adversary": weights_of(lent, everything)}
    for seed in reader_seeds:
        for owner, weights in owners.items():
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                reader = FrozenAttentionClassifier(base.embedding.weight.detach(), weights).to(device)
            training = TrainingConfig(**(vars(READER_TRAINING) | {"seed": seed}))
            fit(reader, dataset.train, dataset.dev, vocabulary, training)
            parts.append(_figure("reader", owner, seed, evaluate(reader, test)["accuracy"]))
    columns = ["part", "variant", "seed", "input", "measure", "value"]
    return pd.concat(parts, ignore_index=True)[columns].round(4)


def _figure(part: str, variant: str, seed: int, accuracy: float) -> pd.DataFrame:
    row = {"part": part, "variant": variant, "seed": seed, "input": -1, "measure": "accuracy", "value": accuracy}
    return pd.DataFrame([row])


def write(found: pd.DataFrame, path: Path = RESULTS) -> None:
    """Keep the study; the lesson and the page read it."""
    write_atomically(path, found.to_csv(index=False).encode())


def kept(path: Path = RESULTS) -> pd.DataFrame:
    """The study as committed, `variant` as text.

    Raises:
        CourseError: the file is missing.
    """
    if not path.is_file():
        raise CourseError(f"{path} is missing; restore it with git, or make it: python -m course_utils reproduce --defence")
    return pd.read_csv(path, dtype={"variant": str})


def as_runs(found: pd.DataFrame) -> pd.DataFrame:
    """The study's figures as rows of the runs' table: the mean over texts of each part, variant, seed and measure."""
    means = found.groupby(["part", "variant", "seed", "measure"], sort=False)["value"].agg(["mean", "size"]).reset_index()
    means["measure"] = np.where(means["measure"] == "accuracy", "accuracy", "defence_" + means["measure"])
    recipe = "rotten_tomatoes-" + means["part"] + "-" + means["variant"]
    columns = {"recipe": recipe, "seed": means["seed"], "measure": means["measure"], "group": "all"}
    return pd.DataFrame(columns | {"value": means["mean"], "n": means["size"]})
