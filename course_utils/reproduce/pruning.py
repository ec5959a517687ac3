"""Lesson 13: accuracy of the fine-tuned encoder when heads are removed, on disjoint samples of short test sentences.

Each sample scores its heads on development sentences of its own, so its interval holds the choice of heads as well.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from course_utils.analysis import clustering, pruning
from course_utils.data import Example, load
from course_utils.models import load_finetuned, logits_of
from course_utils.models.distillation import distil
from course_utils.models.pruned import remove_heads
from course_utils.reproduce.study import Study

RECIPE = "rotten_tomatoes-minilm"
SAMPLES, LONGEST = 5, 16
SCORED, MEASURED, TAUGHT = 46, 72, 320  # sentences of the development, test and training splits
COUNTS = (12, 24, 36, 48, 60)
DISTILLED = 48


def _sample(sample: int) -> pd.DataFrame:
    """Rows `pruning_accuracy` (group "PLAN COUNT"), `pruning_loss` against the whole model, and `distilled_loss`."""
    classifier, dataset = load_finetuned(), load("rotten_tomatoes")
    dev, test, train = (
        _drawn(split, sample, size) for split, size in ((dataset.dev, SCORED), (dataset.test, MEASURED), (dataset.train, TAUGHT))
    )
    scores = pruning.importance(pruning.gate_gradients(classifier, *_read(dev)))
    distances = clustering.head_distances(classifier.encoder, _read(dev)[0], leave_out_special=True)
    by_score = pruning.order_by(scores)
    plans = {
        "importance": [by_score],
        "importance, scored anew": [pruning.iterative_order(classifier, *_read(dev), step=12, until=60)],
        "raw importance": [pruning.order_by(scores, "raw")],
        "random": [pruning.random_order(classifier, sample)],
        "reverse": [by_score[::-1]],
    }
    plans |= {f"function {count}": [pruning.redundant(distances, count)] for count in COUNTS}
    texts, labels = _read(test)
    table = pruning.curve(classifier, texts, labels, plans, COUNTS)
    found = pruning.accuracies(table, n_resamples=1)
    found = found[~found["plan"].str.startswith("function") | (found["plan"] == "function " + found["removed"].astype(str))]
    found["plan"] = found["plan"].where(~found["plan"].str.startswith("function"), "function")
    rows = [("pruning_accuracy", "whole", table[table["removed"] == 0]["correct"].mean())]
    for row in found[found["removed"] > 0].itertuples():
        rows.append(("pruning_accuracy", f"{row.plan} {row.removed}", row.accuracy))
        rows.append(("pruning_loss", f"{row.plan} {row.removed}", row.loss))
    student = remove_heads(classifier, pruning.gates_without(classifier, by_score[:DISTILLED]))
    distil(student, classifier, _read(train)[0], seed=sample)
    taught = (logits_of(student, texts).argmax(1).numpy() == labels).mean()
    rows.append(("distilled_loss", f"importance {DISTILLED}", rows[0][2] - taught))
    frame = pd.DataFrame(rows, columns=["measure", "group", "value"]).assign(recipe=RECIPE, seed=sample, n=len(test))
    return frame[["recipe", "seed", "measure", "group", "value", "n"]]


def _drawn(split: Sequence[Example], sample: int, size: int) -> list[Example]:
    short = [example for example in split if len(example.tokens) <= LONGEST]
    order = np.random.default_rng(0).permutation(len(short))
    return [short[place] for place in order[sample::SAMPLES][:size]]


def _read(examples: Sequence[Example]) -> tuple[list[str], list[int]]:
    return [example.text for example in examples], [example.label for example in examples]


STUDY = Study("pruning", _sample, SAMPLES)
