"""Every claim of the lessons put to the test: runs over seeds, the papers' figures beside ours, a verdict."""

from course_utils.reproduce.report import everything
from course_utils.reproduce.runs import Run, complete, complete_all, plan, results

__all__ = ["Run", "complete", "complete_all", "everything", "plan", "results"]
