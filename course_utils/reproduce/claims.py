"""Claims as data, and the verdict on each: does what we measured, over seeds, say the same?"""

import math
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

from course_utils.errors import CourseError
from course_utils.paths import data_file

AGREES, DIFFERS, OPEN, UNTESTED = "agrees", "differs", "open", "not testable here"
RELATIONS = ("greater", "less")
Quantity = tuple[str, str, str]  # recipe, measure, group


@dataclass(frozen=True)
class Claim:
    """A row of data/claims.toml.

    Attributes:
        key: its name in the file.
        lesson, paper, claim, published: text. certainty: "P", "S" or "M".
        left: the quantity that is compared; None where the claim cannot be tested here.
        relation: "greater" or "less".
        right: another quantity, or a number.
        why: why it cannot be tested.
    """

    key: str
    lesson: str
    paper: str
    claim: str
    published: str
    certainty: str
    left: Quantity | None = None
    relation: str = "greater"
    right: Quantity | float = 0.0
    why: str = ""


def claims(path: Path | None = None) -> list[Claim]:
    """All claims, in the order of the file.

    Raises:
        CourseError: an entry lacks a field or has one that is unknown, or its relation or certainty is none.
    """
    path = path or data_file("claims.toml")
    found = []
    for key, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
        sides = {side: tuple(value) for side in ("left", "right") if isinstance(value := entry.get(side), list)}
        try:
            claim = Claim(key, **(entry | sides))
        except TypeError as error:
            raise CourseError(f"{path.name}, [{key}]: {error}") from error
        if claim.relation not in RELATIONS or claim.certainty not in tuple("PSM"):
            raise CourseError(f"{path.name}, [{key}]: relation is one of {RELATIONS}, certainty one of P, S, M")
        found.append(claim)
    return found


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Mean over seeds and the 95 % interval by Student's t; the interval of one value is unknown, NaN."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, math.nan, math.nan
    half = float(student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5)
    return mean, mean - half, mean + half


def over_seeds(results: pd.DataFrame, quantity: Quantity) -> pd.Series:
    """One value a seed of a recipe, measure and group; empty where nothing was measured."""
    recipe, measure, group = quantity
    chosen = (results["recipe"] == recipe) & (results["measure"] == measure) & (results["group"] == group)
    return results[chosen].set_index("seed")["value"].dropna()


def table(results: pd.DataFrame) -> pd.DataFrame:
    """Mean and interval over seeds of every recipe, measure and group.

    Returns:
        `recipe`, `measure`, `group`, `mean`, `low`, `high` (NaN for one seed), `seeds`.
    """
    keys = ["recipe", "measure", "group"]
    groups = results.dropna(subset="value").groupby(keys, sort=False)["value"]
    rows = [(*key, *interval(values.to_numpy()), len(values)) for key, values in groups]
    return pd.DataFrame(rows, columns=[*keys, "mean", "low", "high", "seeds"])


def verdict(claim: Claim, results: pd.DataFrame) -> dict:
    """What our runs say of a claim.

    It agrees if the whole interval of the difference lies on the claim's side of 0, differs if it lies on the other, and is open if
    the interval holds 0. The two sides are compared seed by seed where both have several seeds in common, else by their means. One
    seed gives a verdict without an interval; the table says so by its count.

    Returns:
        `verdict`, `left`, `right` (means), `difference`, `low`, `high` (of the difference), `seeds`.
    """
    unknown = {"left": math.nan, "right": math.nan, "difference": math.nan, "low": math.nan, "high": math.nan, "seeds": 0}
    if claim.left is None:
        return {"verdict": UNTESTED} | unknown
    left = over_seeds(results, claim.left)
    right = over_seeds(results, claim.right) if isinstance(claim.right, tuple) else pd.Series(float(claim.right), left.index)
    shared = left.index.intersection(right.index)
    if shared.empty:
        return {"verdict": UNTESTED} | unknown
    difference, low, high = interval((left[shared] - right[shared]).to_numpy())
    sides = (difference,) if math.isnan(low) else (low, high)
    sign = 1 if claim.relation == "greater" else -1
    holds = [sign * side > 0 for side in sides]
    word = AGREES if all(holds) else OPEN if any(holds) else DIFFERS
    means = {"left": left[shared].mean(), "right": right[shared].mean()}
    return {"verdict": word} | means | {"difference": difference, "low": low, "high": high, "seeds": len(shared)}


def verdicts(results: pd.DataFrame, path: Path | None = None) -> pd.DataFrame:
    """Every claim beside what we measured, one row a claim: its fields (two as `left_of`, `right_of`) and `verdict`'s."""
    rows = []
    for claim in claims(path):
        fields = {f"{name}_of" if name in ("left", "right") else name: value for name, value in vars(claim).items()}
        rows.append(fields | verdict(claim, results))
    return pd.DataFrame(rows)
