"""A study: figures that take part of the claims, measured once a sample or seed, kept as they finish, committed as one file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from course_utils.errors import CourseError
from course_utils.models.checkpoints import write_atomically
from course_utils.paths import ROOT
from course_utils.reproduce.runs import KEYS, WORK, read_results

RESULTS = ROOT / "data" / "results"
SAMPLES = 5
Values = dict[tuple[str, str], float]  # measure and group to value


@dataclass(frozen=True)
class Study:
    """What to measure on a model that `python -m course_utils reproduce` does not train from every seed.

    Attributes:
        name: of its file, data/results/NAME.csv.
        measure: the number of a sample (or seed) to rows of `recipe`, `seed`, `measure`, `group`, `value`, `n`. Samples are
            disjoint and independent: a claim's interval is over them.
        samples: how many.
    """

    name: str
    measure: Callable[[int], pd.DataFrame]
    samples: int = SAMPLES

    @property
    def path(self) -> Path:
        return RESULTS / f"{self.name}.csv"

    def complete(self, work: Path = WORK) -> pd.DataFrame:
        """All samples; one that is done is read again from `work`, so a study that was stopped goes on."""
        frames = []
        for sample in tqdm(range(self.samples), desc=self.name, unit="sample"):
            kept = work / f"{self.name}-{sample}.csv"
            if not kept.is_file():
                write_atomically(kept, self.measure(sample).round(4).to_csv(index=False).encode())
            frames.append(read_results(kept))
        return pd.concat(frames).sort_values(KEYS, kind="stable", ignore_index=True)

    def write(self, found: pd.DataFrame) -> None:
        """Keep the study where the page and the lessons read it."""
        write_atomically(self.path, found.to_csv(index=False).encode())

    def results(self) -> pd.DataFrame:
        """The study as committed.

        Raises:
            CourseError: the file is missing.
        """
        if not self.path.is_file():
            raise CourseError(
                f"{self.path} is missing; restore it with git, or make it: python -m course_utils reproduce --study {self.name}"
            )
        return read_results(self.path)


def drawn(items: Sequence, sample: int) -> list:
    """A fifth of the items, drawn at random, for splits are ordered by class; the fifths of the five samples are disjoint."""
    return [items[place] for place in np.random.default_rng(0).permutation(len(items))[sample::SAMPLES]]


def rows(recipe: str, sample: int, values: Values, n: int) -> pd.DataFrame:
    """What a sample's measures, taken on `n` texts each, are kept as."""
    table = [(recipe, sample, *key, value, n) for key, value in values.items()]
    return pd.DataFrame(table, columns=["recipe", "seed", "measure", "group", "value", "n"])
