"""The claims of part 1 on the pretrained encoder: the same measures on several disjoint samples of sentences, one row a sample.

The encoder is one model and is not trained again, so the samples take the place of the seeds: their intervals say what other
sentences would show, not what another model would.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from course_utils.analysis import clustering, flow, patterns
from course_utils.data import load
from course_utils.models import Encoder, load_encoder
from course_utils.reproduce.study import Study, Values, drawn, rows

RECIPE = "minilm"
SENTENCES, SHORT_SENTENCES = 60, 12  # of a sample; the second for blank-out, whose cost grows with the length's square and more


def _sample(sample: int) -> pd.DataFrame:
    """All measures on one of the disjoint samples of review sentences."""
    chosen = drawn([example.text for example in load("rotten_tomatoes").test], sample)
    short = [text for text in chosen if 8 <= len(text.split()) <= 16][:SHORT_SENTENCES]
    return _measured(load_encoder(), chosen[:SENTENCES], short, sample)


def _measured(encoder: Encoder, texts: list[str], short: list[str], sample: int) -> pd.DataFrame:
    parts: list[tuple[Callable[[Encoder, list[str]], Values], list[str]]] = [
        (_shapes, texts),
        (_likeness, texts),
        (_agreement, short),
    ]
    return pd.concat([rows(RECIPE, sample, measure(encoder, read), len(read)) for measure, read in parts], ignore_index=True)


def _shapes(encoder: Encoder, texts: list[str]) -> Values:
    """Scores of lesson 02, lower and upper half of the layers."""
    table = patterns.by_layer(patterns.patterns(encoder, texts), n_resamples=1).set_index(["score", "layer"])["mean"]
    found = {}
    for score in ("diagonal", "sparse", "first", "separator"):
        means = table[score].to_numpy()
        half = len(means) // 2
        found |= {(score, "lower layers"): means[:half].mean(), (score, "upper layers"): means[half:].mean()}
        found[score, "all"] = means.mean()
    return found


def _likeness(encoder: Encoder, texts: list[str]) -> Values:
    """Mean distance of two heads of one layer, and of two layers (lesson 03)."""
    found = clustering.head_distances(encoder, texts)
    layer = np.array([number for number, _ in found.heads])
    first, second = np.triu_indices(len(layer), 1)
    same = layer[first] == layer[second]
    return {
        ("head_distance", "same layer"): found.condensed[same].mean(),
        ("head_distance", "other"): found.condensed[~same].mean(),
    }


def _agreement(encoder: Encoder, texts: list[str]) -> Values:
    """Rank correlation with blank-out in the last layer (lesson 04)."""
    table = flow.agreement_with_blank_out(encoder, texts)
    last = table[table["layer"] == table["layer"].max()].groupby("method")["spearman"].mean()
    return {("blank_out", method): value for method, value in last.items()}


STUDY = Study("encoder", _sample)
