"""Experiments: one module each, `(model, batch) -> table`, one row an input or a token."""

from course_utils.analysis import adversary, correlation, distances, faithfulness, flips, importance, permutation, rankings
from course_utils.analysis.running import over

__all__ = [
    "adversary",
    "correlation",
    "distances",
    "faithfulness",
    "flips",
    "importance",
    "over",
    "permutation",
    "rankings",
]
