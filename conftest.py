"""For every pytest run, nbval's over the lessons included: the environment in which lessons are built, their budget of memory."""

import os
import sys

import pytest

from tools.lessons import ENVIRONMENT
from tools.run_lessons import BUDGET_MB

os.environ.update(ENVIRONMENT)
_peak_mb = 0.0


def peak_of_children() -> float:
    """Largest resident memory, in megabytes, of a process that this one started and that has ended; 0 where nothing tells."""
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit / 1e6


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None):
    """After a lesson's last cell its kernel ends: the lesson over the budget is the one by which the peak of all grew over it."""
    global _peak_mb
    result = yield
    if item.path.suffix == ".ipynb" and (nextitem is None or nextitem.path != item.path):
        before, _peak_mb = _peak_mb, peak_of_children()
        assert _peak_mb <= max(BUDGET_MB, before), f"{item.path.name} takes {_peak_mb:.0f} MB, its budget is {BUDGET_MB} MB"
    return result
