"""Drawing for the generators, by `random()` alone: the only method whose sequence Python promises to keep over its versions."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def pick(rng: random.Random, options: Sequence[T]) -> T:
    """One of the options, each with the same chance."""
    return options[int(rng.random() * len(options))]


def shuffled(rng: random.Random, options: Sequence[T]) -> list[T]:
    """All of the options in random order."""
    return sorted(options, key=lambda _: rng.random())
