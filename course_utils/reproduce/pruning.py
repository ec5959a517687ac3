"""Lesson 13: accuracy of the fine-tuned encoder when heads are removed, on all test sentences in five disjoint samples.

Sentences are drawn at random, for the splits are ordered by class. Each sample scores its heads on development sentences of its own
and has a random order of its own, so its interval holds the choice of heads as well.
"""

from collections.abc import Sequence

import pandas as pd

from course_utils.analysis import clustering, pruning
from course_utils.data import Example, load
from course_utils.models import EncoderClassifier, load_finetuned
from course_utils.models.heads import Head
from course_utils.reproduce.study import Study, drawn, rows

RECIPE = "rotten_tomatoes-minilm"
SCORED = 80  # development sentences of a sample
COUNTS = (24, 36, 42, 48, 54, 60)
COMPARED = 48  # heads removed where all orders are compared


def _sample(sample: int) -> pd.DataFrame:
    """Rows `pruning_accuracy` and `pruning_loss` against the whole model (group "PLAN COUNT")."""
    classifier, dataset = load_finetuned(), load("rotten_tomatoes")
    dev, test = drawn(dataset.dev, sample)[:SCORED], drawn(dataset.test, sample)
    removed = _removed(classifier, dev, sample)
    texts, labels = _read(test)
    logits = pruning.gated_logits(classifier, texts, [pruning.gates_without(classifier, heads) for heads in removed.values()])
    accuracy = dict(zip(removed, (logits.argmax(-1).numpy() == labels).mean(1), strict=True))
    whole = accuracy["whole"]
    values = {("pruning_accuracy", group): value for group, value in accuracy.items()}
    values |= {("pruning_loss", group): whole - value for group, value in accuracy.items() if group != "whole"}
    return rows(RECIPE, sample, values, len(test))


def _removed(classifier: EncoderClassifier, dev: Sequence[Example], sample: int) -> dict[str, Sequence[Head]]:
    """The heads to remove, by group."""
    texts, labels = _read(dev)
    scores = pruning.importance(pruning.gate_gradients(classifier, texts, labels))
    by_score, drawn = pruning.order_by(scores), pruning.random_order(classifier, sample)
    distances = clustering.head_distances(classifier.encoder, texts, leave_out_special=True)
    removed = {"whole": [], f"random {COUNTS[-1]}": drawn[: COUNTS[-1]]}
    removed |= {f"importance {count}": by_score[:count] for count in COUNTS}
    compared = {
        "random": drawn,
        "reverse": by_score[::-1],
        "raw importance": pruning.order_by(scores, "raw"),
        "importance, scored anew": pruning.iterative_order(classifier, texts, labels, step=16, until=COMPARED),
        "function": pruning.redundant(distances, COMPARED),
    }
    return removed | {f"{plan} {COMPARED}": order[:COMPARED] for plan, order in compared.items()}


def _read(examples: Sequence[Example]) -> tuple[list[str], list[int]]:
    return [example.text for example in examples], [example.label for example in examples]


STUDY = Study("pruning", _sample)
