"""Execute every lesson headless and say for each whether it passed, its seconds and its peak memory: `make run`.

Nothing is written. A lesson passes when no cell fails and it stays within its budget on two cores without a GPU.
"""

import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from nbclient.exceptions import CellExecutionError, DeadKernelError

from tools import lessons
from tools.build_lessons import execute

BUDGET_SECONDS = 120
BUDGET_MB = 1500
SAMPLE_SECONDS = 0.2


@dataclass(frozen=True)
class Result:
    """One lesson's run: wall seconds with the kernel's start, peak resident megabytes of the kernel and its children."""

    name: str
    seconds: float
    peak_mb: float
    error: str = ""

    @property
    def verdict(self) -> str:
        if self.error:
            return "FAILED"
        return "OVER BUDGET" if self.seconds > BUDGET_SECONDS or self.peak_mb > BUDGET_MB else "passed"

    def __str__(self) -> str:
        return f"{self.name:<40} {self.verdict:<12} {self.seconds:6.1f} s {self.peak_mb:7.0f} MB"


class PeakMemory:
    """Context manager that samples the resident memory of all processes started inside it."""

    def __enter__(self) -> "PeakMemory":
        self.megabytes = 0.0
        self._own = psutil.Process()
        self._before = set(self._own.children(recursive=True))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self.megabytes = max(self.megabytes, sum(map(resident_mb, set(self._own.children(recursive=True)) - self._before)))


def resident_mb(process: psutil.Process) -> float:
    """Resident memory, 0 for a process that has just ended."""
    try:
        return process.memory_info().rss / 1e6
    except psutil.Error:
        return 0.0


def measure(notebook: Path) -> Result:
    """Run one notebook in a fresh kernel."""
    error = ""
    started = time.perf_counter()
    with PeakMemory() as peak:
        try:
            execute(lessons.read(notebook), notebook.parent)
        except (CellExecutionError, DeadKernelError, TimeoutError, FileNotFoundError) as problem:
            error = str(problem) or type(problem).__name__
    return Result(notebook.stem, time.perf_counter() - started, peak.megabytes, error)


def main(names: list[str]) -> int:
    results = []
    for source in lessons.sources(names):
        results.append(measure(lessons.notebook_path(source)))
        print(results[-1], flush=True)
        if results[-1].error:
            print(results[-1].error, file=sys.stderr)
    return int(any(result.verdict != "passed" for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
