"""Experiments: one module each, `(model, batch) -> table`, one row an input or a token."""

from course_utils.analysis import adversary, correlation, distances, importance, permutation
from course_utils.analysis.running import over

__all__ = ["adversary", "correlation", "distances", "importance", "over", "permutation"]
