"""The claims of lesson 14: attention that moves between heads, on disjoint samples of reviews; each fits its own move."""

import pandas as pd

from course_utils.analysis import moving, patterns, relocation
from course_utils.data import load
from course_utils.models.finetuned import EncoderClassifier, load_finetuned
from course_utils.models.heads import Head
from course_utils.models.moving import read_head, use_heads
from course_utils.reproduce.study import Study, Values, drawn, rows

RECIPE = "minilm-finetuned"
FIT, HELD_OUT, SCORED = 60, 48, 16  # training and test reviews of a sample; of the latter, for the scores of heads
LAYER, SOURCE, ONE = 1, 5, 8  # whose map the other heads of the layer get; the one head of the fit to single texts
GIVER, TAKER = (0, 2), (2, 4)  # of the move to another layer


def _sample(sample: int) -> pd.DataFrame:
    """All measures on one of the disjoint samples."""
    reviews, classifier = load("rotten_tomatoes"), load_finetuned()
    sides = [
        [example.text for example in drawn(split, sample)[:size]]
        for split, size in ((reviews.train, FIT), (reviews.test, HELD_OUT))
    ]
    return measured(classifier, *sides, sample, layer=LAYER, source=SOURCE, one=ONE, giver=GIVER, taker=TAKER)


def measured(
    classifier: EncoderClassifier,
    texts: list[str],
    held_out: list[str],
    sample: int,
    *,
    layer: int,
    source: int,
    one: int,
    giver: Head,
    taker: Head,
) -> pd.DataFrame:
    """The rows of a sample: what is fitted on `texts` and measured on `held_out`, for the heads named as in this module."""
    values = _within(classifier, texts, held_out, layer, source, one) | _across(classifier, texts, held_out, giver, taker)
    return rows(RECIPE, sample, values, len(held_out))


def _within(classifier: EncoderClassifier, texts: list[str], held_out: list[str], layer: int, source: int, one: int) -> Values:
    """One change of the values for one text and for all; all other heads of a layer with one head's map, and the controls."""
    encoder, found = classifier.encoder, {}
    for number in (1, len(texts)):
        changes = moving.refitted(encoder, texts[:number], layer, source, [one])
        found["moved_layer_change", f"{number} texts"] = moving.layer_change(encoder, held_out, changes)["change"].median()
    others = [head for head in range(encoder.n_heads) if head != source]
    table = moving.ways(classifier, texts, held_out, layer, source, others).groupby("way")["change"].mean()
    return found | {("moved_map_change", way): value for way, value in table.items()}


def _across(classifier: EncoderClassifier, texts: list[str], held_out: list[str], giver: Head, taker: Head) -> Values:
    """The mean change of the probability after the move and after its controls, and the previous-token scores of the two heads."""
    model = classifier.encoder.model
    moved = relocation.relocate(classifier.encoder, texts, giver, taker)
    old = {head: read_head(model, *head) for head in (giver, taker)}
    removed = {head: weights.writing_nothing() for head, weights in old.items()}
    ways = {"moved": moved, "giver even": {giver: old[giver].attending_evenly()}, "both removed": removed}
    table = moving.compare(classifier, held_out, ways).groupby("way")
    found = {("relocated_change", way): value for way, value in table["change"].mean().items()}
    found |= {("relocated_flipped", way): value for way, value in table["flipped"].mean().items()}
    for when, changes in (("before", {}), ("after", moved)):
        with use_heads(model, changes):
            scores = patterns.by_head(patterns.patterns(classifier.encoder, held_out[:SCORED])).set_index(["layer", "head"])[
                "previous"
            ]
        for role, head in (("giver", giver), ("taker", taker)):
            found["relocated_previous", f"{role} {when}"] = scores[head]
    return found


STUDY = Study("moving", _sample)
