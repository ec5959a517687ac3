"""What is measured on one trained model: every figure that a claim of the lessons compares with a paper's."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import f1_score

from course_utils.analysis import adversary, correlation, faithfulness, flips, gold, permutation
from course_utils.analysis.rankings import rankings
from course_utils.analysis.running import over
from course_utils.data import Dataset, Example, make_batches
from course_utils.models import AttentionClassifier
from course_utils.models.decoders import LinearDecoder

ALL = "all"
EPSILON = 0.05  # the allowed change of the paper's plots
LOW_JSD = 0.2  # an adversary that gets no further proves that the prediction depends on where the model attends
_TEXTS_SEED = 0

Row = tuple[str, str, float, int]  # measure, group, value, number of texts


def measure(model: AttentionClassifier, vocabulary, dataset: Dataset, *, n_texts: int = 200) -> pd.DataFrame:
    """All measures of one model.

    Accuracy is that of the whole test split; the others are of `n_texts` test texts, the same for every model.

    Args:
        model: with a linear decoder, or with another one: then only what needs no linear decoder is measured.
    Returns:
        one row a measure and group of texts: `measure`, `group` ("all", or the name of the predicted class, or the method of an
        importance), `value`, `n` texts.
    """
    rows = _quality(model, vocabulary, dataset)
    texts = sample(dataset.test, n_texts)
    batches = [batch.to(model.device) for batch in make_batches(texts, vocabulary, token_budget=4096)]
    if isinstance(model.decoder, LinearDecoder):
        scores = over(rankings, model, batches)
        experiments: list[Callable[[], list[Row]]] = [
            lambda: _correlations(scores, dataset.classes),
            lambda: _permutations(model, batches, dataset.classes),
            lambda: _adversaries(model, batches),
            lambda: _removals(model, batches, scores),
            lambda: _gold(scores, texts),
        ]
        for experiment in experiments:
            rows += experiment()
    return pd.DataFrame(rows, columns=["measure", "group", "value", "n"])


def sample(texts: Sequence[Example], n_texts: int) -> list[Example]:
    """The same texts for every model: drawn without replacement, in the order of the split."""
    chosen = np.random.default_rng(_TEXTS_SEED).permutation(len(texts))[:n_texts]
    return [texts[position] for position in sorted(chosen)]


def _quality(model: AttentionClassifier, vocabulary, dataset: Dataset) -> list[Row]:
    labels, predicted = [], []
    for batch in make_batches(dataset.test, vocabulary):
        batch = batch.to(model.device)
        labels += batch.labels.tolist()
        predicted += model(batch).predicted.tolist()
    average = "binary" if len(dataset.classes) == 2 else "macro"
    accuracy = float(np.mean(np.equal(labels, predicted)))
    return [("accuracy", ALL, accuracy, len(labels)), ("f1", ALL, float(f1_score(labels, predicted, average=average)), len(labels))]


def _correlations(scores: pd.DataFrame, classes: Sequence[str]) -> list[Row]:
    pairs = {
        "tau_gradient": ("attention", "gradient"),
        "tau_leave_one_out": ("attention", "leave_one_out"),
        "tau_gradient_leave_one_out": ("gradient", "leave_one_out"),
    }
    rows = []
    for name, pair in pairs.items():
        taus = correlation.kendall(scores, *pair)
        for group, part in [(ALL, taus), *((classes[label], part) for label, part in taus.groupby("predicted_class"))]:
            defined = part[part["tau"].notna()]
            rows.append((name, group, defined["tau"].mean(), len(defined)))
            rows.append((f"{name}_significant", group, defined["significant"].mean(), len(defined)))
            rows.append((f"{name}_undefined", group, float(part["tau"].isna().sum()), len(part)))
    return rows


def _permutations(model, batches, classes: Sequence[str]) -> list[Row]:
    frame = over(permutation.permute, model, batches)
    frame = frame[frame["n_tokens"] > 1]
    groups = [(ALL, frame), *((classes[label], part) for label, part in frame.groupby("predicted_class"))]
    rows = [("permutation_change", group, part["median_change"].median(), len(part)) for group, part in groups]
    strong = frame[frame["max_attention"] >= 0.5]
    if len(strong):
        rows.append(("permutation_change", "largest weight at least .5", strong["median_change"].median(), len(strong)))
    return [*rows, ("max_attention", ALL, frame["max_attention"].median(), len(frame))]


def _adversaries(model, batches) -> list[Row]:
    if model.config.n_classes == 2:
        frame = over(adversary.exact, model, batches, eps=EPSILON)
    else:  # no closed form: seconds an input
        frame = over(adversary.search, model, [batch.select(torch.arange(0, len(batch), 5)) for batch in batches], eps=EPSILON)
    frame = frame[frame["n_tokens"] > 1]
    return [
        ("adversary_max_jsd", ALL, frame["max_jsd"].median(), len(frame)),
        ("adversary_low", ALL, (frame["max_jsd"] < LOW_JSD).mean(), len(frame)),
    ]


def _removals(model, batches, scores: pd.DataFrame) -> list[Row]:
    scores = scores.drop(columns="convergence_delta").assign(
        integrated_gradients_size=scores["integrated_gradients"].abs(), attention_gradient_size=scores["attention_gradient"].abs()
    )
    erased = faithfulness.aopc(over(faithfulness.eraser, model, batches, scores=scores))
    rows = []
    for name in ("comprehensiveness", "sufficiency"):
        means = faithfulness.intervals(erased, name)
        rows += [(name, row.method, row.mean, row.n) for row in means.itertuples()]
    flipped = flips.outcomes(over(flips.decision_flips, model, batches))
    flipped = flipped[flipped["method"].isin(["top", "random"])]
    return rows + [("decision_flips", row.method, row.mean, row.n) for row in flipped.itertuples()]


def _gold(scores: pd.DataFrame, texts: Sequence[Example]) -> list[Row]:
    """How often the token that a measure ranks first belongs to what decides, where that is known."""
    if not any(text.gold is not None and any(text.gold) for text in texts):
        return []
    found = gold.precision(scores, texts).groupby("method", sort=False)
    return [
        (measure, method, part[column].mean(), len(part))
        for measure, column in (("gold_first", "first"), ("gold_precision", "r_precision"))
        for method, part in found
    ]
