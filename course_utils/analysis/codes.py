"""How many bits the labels cost somebody who has the states: the online code of Voita & Titov (2020, section 2.2.2).

Sender and receiver share the states and train the same probe. The labels are sent in growing blocks, each encoded with the probe
trained on the blocks before. Labels that are easy to learn, with few examples and without memory, cost little.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from course_utils.analysis.probing import STRENGTH, checked_labels, train_probe
from course_utils.errors import AnalysisError

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
_LEAST = 2  # sentences in the first block


def online_code(
    features: np.ndarray,
    labels: Sequence,
    sentence: np.ndarray,
    *,
    classes: Sequence | None = None,
    strength: float = STRENGTH,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
) -> pd.DataFrame:
    """The length of the labels, block by block. Sentences go in a random order and are never cut.

    The probability of a label is (n p + 1) / (n + K), where n labels were sent before, p is the probe's probability and K the
    number of classes: a label that did not occur so far can still be sent. With no probe yet (one class so far) a block costs
    log2 K a label, as in the uniform code.

    Args:
        features: (n, F). labels: n of them. sentence: (n,), which sentence a word belongs to.
        classes: all K labels that may occur, known to both sides; those of `labels` unless told.
        fractions: of the sentences, where blocks end; rising to 1.
    Returns:
        one row a block: `start` and `n_words` (labels sent before, and in the block), `bits` and `uniform_bits` of the block. Sums
        over the blocks are the online and the uniform code; uniform over online is the compression.
    Raises:
        AnalysisError: lengths differ, one class only, a label outside `classes`, or fractions that do not rise to 1.
    """
    labels = checked_labels(labels, len(features))
    classes = np.unique(labels if classes is None else np.asarray(classes, dtype=object))
    if len(classes) < 2:
        raise AnalysisError(f"there is one class only, {classes[0]!r}: its labels cost nothing; give two or more")
    if not np.isin(labels, classes).all():
        raise AnalysisError(f"the label {labels[~np.isin(labels, classes)][0]!r} is not among the classes")
    if not all(a < b for a, b in zip(fractions, fractions[1:], strict=False)) or fractions[0] <= 0 or fractions[-1] != 1:
        raise AnalysisError(f"the fractions are {tuple(fractions)}; they have to rise from above 0 to 1")
    names, inverse = np.unique(sentence, return_inverse=True)
    rank = np.random.default_rng(seed).permutation(len(names))[inverse]  # (n,): the sentence's turn
    ends = np.unique(np.maximum(np.round(np.array(fractions) * len(names)), min(_LEAST, len(names))).astype(int))
    rows, start = [], 0
    for end in ends.tolist():
        before, block = rank < start, (rank >= start) & (rank < end)
        probability = _probabilities(features, labels, before, block, classes, strength)
        sent = probability[np.arange(block.sum()), np.searchsorted(classes, labels[block])]
        rows.append((int(before.sum()), int(block.sum()), -np.log2(sent).sum(), block.sum() * np.log2(len(classes))))
        start = end
    return pd.DataFrame(rows, columns=["start", "n_words", "bits", "uniform_bits"])


def compression(code: pd.DataFrame) -> float:
    """Uniform over online code length: 1 means that the states were of no help, 4 that the labels take a quarter."""
    return float(code["uniform_bits"].sum() / code["bits"].sum())


def _probabilities(features, labels, before, block, classes, strength) -> np.ndarray:
    """(n_block, K), rows sum to 1."""
    found = np.full((int(block.sum()), len(classes)), 1 / len(classes))
    if len(set(labels[before])) < 2:
        return found
    probe = train_probe(features[before], labels[before], strength=strength)
    found[:] = 0
    found[:, np.searchsorted(classes, probe.classes_)] = probe.predict_proba(features[block])
    sent = before.sum()
    return (sent * found + 1) / (sent + len(classes))
