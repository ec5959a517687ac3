"""Experiments: one module each, `(model, batch) -> table`, one row an input or a token."""

from course_utils.analysis import adversary, distances, permutation
from course_utils.analysis.running import over

__all__ = ["adversary", "distances", "over", "permutation"]
