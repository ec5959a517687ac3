"""One student notebook, run in a process and a temporary folder of its own under limits of time, memory and output."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import psutil

from course_utils.exercises.compare import described
from course_utils.exercises.exercise import Exercise
from course_utils.exercises.lesson import available, load

_CELLS, _REPORT, _OUTPUT = "cells.json", "report.jsonl", "output.txt"
_POLL_SECONDS = 0.05
_STARTUP_SECONDS = 120


@dataclass(frozen=True)
class Limits:
    """What one notebook may use: seconds, megabytes of memory (with all processes it starts), kilobytes of printed output."""

    seconds: float = 300
    memory_mb: float = 3000
    output_kb: float = 5000


@dataclass
class Graded:
    """One notebook's run.

    `status`: "finished"; "errors" (cells raised, the rest ran); "time", "memory" or "output" (a limit ended it); "ended early"
    (the process died); "unreadable" (no notebook); "lesson unknown". `outcomes` and `messages` by exercise key; an exercise that
    the run did not come to is "not reached".
    """

    student: str
    status: str
    lesson: str = ""
    exercises: Sequence[Exercise] = ()
    outcomes: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    peak_mb: float = 0.0

    @property
    def solved(self) -> int:
        return sum(outcome == "right" for outcome in self.outcomes.values())

    def row(self) -> dict:
        """The notebook's line in the table."""
        outcomes = {f"{self.lesson}_{key}": outcome for key, outcome in self.outcomes.items()}
        return {
            "student": self.student,
            "lesson": self.lesson,
            "status": self.status,
            "solved": self.solved,
            "exercises": len(self.exercises),
            **outcomes,
            "seconds": round(self.seconds, 1),
            "peak_mb": round(self.peak_mb),
            "first_error": self.errors[0] if self.errors else "",
        }


def grade_notebook(path: str | Path, lesson: str | None = None, limits: Limits | None = None, student: str = "") -> Graded:
    """Runs one notebook in a process and a temporary folder of its own. It never raises for what the notebook does."""
    path = Path(path)
    student = student or path.stem
    try:
        cells = enumerate(nbformat.read(path, as_version=4).cells, start=1)
        sources = [(number, str(cell.source)) for number, cell in cells if cell.cell_type == "code"]
    except Exception as error:
        return Graded(student, "unreadable", lesson or "", errors=[described(error).partition("\n")[0]])
    lesson = lesson or _lesson_of(path, "\n".join(source for _, source in sources))
    if lesson is None:
        return Graded(student, "lesson unknown", errors=["the notebook loads no lesson that has exercises; name it with --lesson"])
    graded = Graded(student, "finished", lesson, load(lesson).exercises)
    with _folder() as private, _folder() as home:
        (private / _CELLS).write_text(json.dumps(sources), encoding="utf-8")
        ended = _run(private, home, limits or Limits(), graded)
        _read(private, ended, graded)
    return graded


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _run(private: Path, home: Path, limits: Limits, graded: Graded) -> str:
    """Runs the worker in the folder `home` until it ends ("") or a limit ends it (its name). Fills in seconds and peak memory."""
    report, output = private / _REPORT, private / _OUTPUT
    command = [sys.executable, "-m", "course_utils.exercises.worker", str(private / _CELLS), graded.lesson, str(report)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "IPYTHONDIR": str(private / "ipython"),
        "MPLBACKEND": "Agg",
        "PYTHONIOENCODING": "utf-8",
    }
    start = time.monotonic()
    with output.open("wb") as printed:
        process = psutil.Popen(
            command,
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        ended = started = None
        try:
            while ended is None:
                try:
                    process.wait(timeout=_POLL_SECONDS)
                    ended = ""
                except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
                    if not started and report.exists():
                        started = time.monotonic()
                    graded.peak_mb = max(graded.peak_mb, _megabytes(process))
                    ended = _exceeded(started or start + _STARTUP_SECONDS, graded.peak_mb, output, limits)
        finally:
            _end(process)
    graded.seconds = time.monotonic() - (started or start)
    return ended


def _exceeded(start: float, peak_mb: float, output: Path, limits: Limits) -> str | None:
    if time.monotonic() - start > limits.seconds:
        return "time"
    if peak_mb > limits.memory_mb:
        return "memory"
    return "output" if output.stat().st_size > limits.output_kb * 1024 else None


def _family(process: psutil.Popen) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _megabytes(process: psutil.Popen) -> float:
    """Resident memory of a process and its descendants."""
    total = 0
    for member in _family(process):
        try:
            total += member.memory_info().rss
        except psutil.Error:
            continue
    return total / 2**20


def _end(process: psutil.Popen) -> None:
    """Ends the worker, before it notices that its children end, and what it started, also what outlived it in its process group."""
    for member in _family(process):
        try:
            member.kill()
        except psutil.Error:
            continue
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(private: Path, ended: str, graded: Graded) -> None:
    """Fills in outcomes, messages, errors and status from the worker's report."""
    report, output = private / _REPORT, private / _OUTPUT
    graded.outcomes = {exercise.key: "not reached" for exercise in graded.exercises}
    lines = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
    events = [_readable(json.loads(line)) for line in lines if line.endswith("}")]
    for event in events:
        if event["event"] == "outcome":
            graded.outcomes[event["key"]], graded.messages[event["key"]] = event["outcome"], event["message"]
        elif event["event"] == "error":
            graded.errors.append(f"cell {event['number']}: {event['text']}")
    if events and events[-1]["event"] == "end":
        graded.status = "errors" if graded.errors else "finished"
        return
    graded.status = ended or "ended early"
    where = _where(events)
    if ended:
        graded.errors.append(f"the limit of {ended} was reached {where}")
    else:
        last = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        graded.errors.append(f"Python ended {where}" + "".join(f": {line[:200]}" for line in last))


def _readable(event: dict) -> dict:
    """Half characters (lone surrogates), which no file can hold, as question marks."""
    return {key: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value for key, value in event.items()}


def _where(events: list[dict]) -> str:
    last = next((event for event in reversed(events) if event["event"] in ("cell", "evaluate")), None)
    if last is None:
        return "before the first cell"
    return f"in cell {last['number']}" if last["event"] == "cell" else f"while the answer to {last['key']} was checked"


def _lesson_of(path: Path, code: str) -> str | None:
    """The lesson that a notebook loads, or the number its file name starts with."""
    loaded = re.search(r"""\bload\(\s*["'](\d\d)["']""", code) or re.match(r"(\d\d)(?!\d)", path.name)
    return loaded[1] if loaded and loaded[1] in available() else None
