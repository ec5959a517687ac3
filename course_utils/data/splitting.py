"""Splits fixed by the text itself, and what is done to texts before.

Duplicates are removed first, then each text goes to train, dev or test by a hash of its tokens (and those of its query). So a
text's split never depends on the others, and no text is in two of them.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

from course_utils.data.examples import Dataset, Example
from course_utils.errors import DataError

DEV_SHARE, TEST_SHARE = 0.1, 0.15


def split_by_hash(name: str, classes: Sequence[str], examples: Iterable[Example]) -> Dataset:
    """Train, dev and test by a hash of the content: about 75, 10 and 15 per cent.

    Raises:
        DataError: a split would be empty or train lacks a class.
    """
    parts = {"train": [], "dev": [], "test": []}
    for example in examples:
        words = "\n".join(" ".join(tokens) for tokens in example.content if tokens)
        digest = hashlib.sha256(words.encode()).digest()
        share = int.from_bytes(digest[:8], "big") / 2**64
        parts["test" if share < TEST_SHARE else "dev" if share < TEST_SHARE + DEV_SHARE else "train"].append(example)
    missing = set(range(len(classes))) - {example.label for example in parts["train"]}
    if missing or not all(parts.values()):
        sizes = ", ".join(f"{part} {len(rows)}" for part, rows in parts.items())
        raise DataError(f"{name!r} is too small to split ({sizes}); give at least some dozens of different texts of each class")
    return Dataset(name, tuple(classes), *(tuple(parts[part]) for part in ("train", "dev", "test")))


def without_duplicates(examples: Iterable[Example]) -> list[Example]:
    """One example for each different content; one that occurs with two labels is dropped altogether."""
    found = defaultdict(list)
    for example in examples:
        found[example.content].append(example)
    return [group[0] for group in found.values() if len({example.label for example in group}) == 1]


def keep_lengths(examples: Iterable[Example], shortest: int, longest: float) -> list[Example]:
    """Those of `shortest` to `longest` tokens."""
    return [example for example in examples if shortest <= len(example.tokens) <= longest]


def sorted_classes(values: set[str]) -> tuple[str, ...]:
    """Names of classes in order, as numbers where all of them are."""
    try:
        return tuple(sorted(values, key=float))
    except ValueError:
        return tuple(sorted(values))
