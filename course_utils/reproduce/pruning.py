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
STEP = 16  # heads removed between two scorings


def _sample(sample: int) -> pd.DataFrame:
    dataset = load("rotten_tomatoes")
    return measured(load_finetuned(), drawn(dataset.dev, sample)[:SCORED], drawn(dataset.test, sample), sample)


def measured(
    classifier: EncoderClassifier,
    dev: Sequence[Example],
    test: Sequence[Example],
    sample: int,
    *,
    counts: Sequence[int] = COUNTS,
    compared: int = COMPARED,
    step: int = STEP,
) -> pd.DataFrame:
    """Rows `pruning_accuracy` and `pruning_loss` against the whole model, group "PLAN COUNT", on `test` by scores on `dev`.

    Args:
        sample: its number, and the seed of the random order.
        counts: how many heads are removed by importance; the last also at random.
        compared: how many are removed in each other order.
        step: heads between two scorings where they are scored anew.
    """
    removed = _removed(classifier, dev, sample, counts, compared, step)
    texts, labels = _read(test)
    logits = pruning.gated_logits(classifier, texts, [pruning.gates_without(classifier, heads) for heads in removed.values()])
    accuracy = dict(zip(removed, (logits.argmax(-1).numpy() == labels).mean(1), strict=True))
    whole = accuracy["whole"]
    values = {("pruning_accuracy", group): value for group, value in accuracy.items()}
    values |= {("pruning_loss", group): whole - value for group, value in accuracy.items() if group != "whole"}
    return rows(RECIPE, sample, values, len(test))


def _removed(
    classifier: EncoderClassifier, dev: Sequence[Example], sample: int, counts: Sequence[int], compared: int, step: int
) -> dict[str, Sequence[Head]]:
    """The heads to remove, by group."""
    texts, labels = _read(dev)
    scores = pruning.importance(pruning.gate_gradients(classifier, texts, labels))
    by_score, at_random = pruning.order_by(scores), pruning.random_order(classifier, sample)
    distances = clustering.head_distances(classifier.encoder, texts, leave_out_special=True)
    removed = {"whole": [], f"random {counts[-1]}": at_random[: counts[-1]]}
    removed |= {f"importance {count}": by_score[:count] for count in counts}
    plans = {
        "random": at_random,
        "reverse": by_score[::-1],
        "raw importance": pruning.order_by(scores, "raw"),
        "importance, scored anew": pruning.iterative_order(classifier, texts, labels, step=step, until=compared),
        "function": pruning.redundant(distances, compared),
    }
    return removed | {f"{plan} {compared}": order[:compared] for plan, order in plans.items()}


def _read(examples: Sequence[Example]) -> tuple[list[str], list[int]]:
    return [example.text for example in examples], [example.label for example in examples]


STUDY = Study("pruning", _sample)
