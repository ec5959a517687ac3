"""Marks a folder of student notebooks: `python -m course_utils grade FOLDER`.

Each notebook runs in a process and a temporary folder of its own, under limits of time, memory and output. What counts is the
course's own check of the student's answers, found by their names (`my_...`); what the notebook prints, and what became of its
check cells, does not matter.

The limits protect a class from an accident: a loop without end, a table too large. They are no protection from malice. Students'
code runs with your rights: it can read your files and use the network. Grade strangers' notebooks inside a container.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pandas as pd
import psutil

from course_utils.errors import ExerciseError
from course_utils.exercises.exercise import Exercise
from course_utils.exercises.lesson import available, load
from course_utils.exercises.report import write_report

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


def grade(
    folder: str | Path,
    lesson: str | None = None,
    timeout: float = 300,
    memory_mb: float = 3000,
    *,
    output_kb: float = 5000,
    jobs: int = 1,
    out: str | Path | None = None,
) -> pd.DataFrame:
    """Marks every notebook below a folder and writes `grades.csv` and one HTML report a notebook.

    Args:
        folder: holds the notebooks, at any depth; a student is named by the notebook's path below it.
        lesson: "08", or the name of a module with exercises of your own; by default each notebook is asked which lesson it loads,
            and failing that its file name (`08_adversarial_attention.ipynb`).
        timeout: seconds for one notebook, from its first cell on.
        memory_mb: megabytes for one notebook and the processes that it starts.
        output_kb: kilobytes that one notebook may print.
        jobs: notebooks run at the same time.
        out: folder for the results, by default `grades` in `folder`.
    Returns:
        one row a notebook: `student`, `lesson`, `status` (see `Graded`), `solved` of `exercises`, a column `LESSON_KEY` an
        exercise ("right", "wrong", "not tried yet", "not reached"; empty for other lessons), `seconds`, `peak_mb`, `first_error`.
    Raises:
        ExerciseError: the folder is missing or holds no notebook, or the lesson is unknown.
    """
    folder = Path(folder)
    notebooks = sorted(path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    if not notebooks:
        raise ExerciseError(
            f"{folder} {'holds no notebook (.ipynb)' if folder.is_dir() else 'is not a folder'}; give the folder of submissions"
        )
    if lesson:
        load(lesson)
    limits = Limits(timeout, memory_mb, output_kb)
    out = folder / "grades" if out is None else Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        graded = list(
            pool.map(
                lambda path: grade_notebook(path, lesson, limits, path.relative_to(folder).with_suffix("").as_posix()), notebooks
            )
        )
    for one in graded:
        write_report(one, out / f"{one.student.replace('/', '__')}.html")
    rows = pd.DataFrame([one.row() for one in graded])
    last = ["seconds", "peak_mb", "first_error"]
    frame = rows[[name for name in rows.columns if name not in last] + last]
    frame.map(_safe_for_spreadsheets).to_csv(out / "grades.csv", index=False)
    return frame


def grade_notebook(path: str | Path, lesson: str | None = None, limits: Limits | None = None, student: str = "") -> Graded:
    """Runs one notebook in a process and a temporary folder of its own. It never raises for what the notebook does."""
    path = Path(path)
    student = student or path.stem
    try:
        cells = nbformat.read(path, as_version=4).cells
    except Exception as error:
        return Graded(student, "unreadable", lesson or "", errors=[f"{type(error).__name__}: {str(error).splitlines()[0]}"])
    lesson = lesson or _lesson_of(path, "\n".join(cell.source for cell in cells if cell.cell_type == "code"))
    if lesson is None:
        return Graded(student, "lesson unknown", errors=["the notebook loads no lesson that has exercises; name it with --lesson"])
    graded = Graded(student, "finished", lesson, load(lesson).exercises)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as private,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
    ):
        report, output = Path(private, "report.jsonl"), Path(private, "output.txt")
        shutil.copyfile(path, Path(home, path.name))
        ended = _run(Path(home, path.name), lesson, report, output, limits or Limits(), graded)
        _read(report, ended, output, graded)
    return graded


def _run(notebook: Path, lesson: str, report: Path, output: Path, limits: Limits, graded: Graded) -> str:
    """Runs the worker until it ends ("") or a limit ends it (its name). Fills in seconds and peak memory."""
    command = [sys.executable, "-m", "course_utils.exercises.worker", notebook.name, lesson, str(report)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "IPYTHONDIR": str(notebook.parent / ".ipython"),
        "MPLBACKEND": "Agg",
        "PYTHONIOENCODING": "utf-8",
    }
    start = time.monotonic()
    with output.open("wb") as printed:
        process = psutil.Popen(
            command,
            cwd=notebook.parent,
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
        return [*process.children(recursive=True), process]
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
    """Ends the worker and what it started, also what outlived it in its process group."""
    for member in _family(process):
        try:
            member.kill()
        except psutil.Error:
            continue
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(report: Path, ended: str, output: Path, graded: Graded) -> None:
    """Fills in outcomes, messages, errors and status from the worker's report."""
    graded.outcomes = {exercise.key: "not reached" for exercise in graded.exercises}
    lines = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("}")]
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


def _where(events: list[dict]) -> str:
    last = next((event for event in reversed(events) if event["event"] in ("cell", "evaluate")), None)
    if last is None:
        return "before the first cell"
    return f"in cell {last['number']}" if last["event"] == "cell" else f"while the answer to {last['key']} was checked"


def _lesson_of(path: Path, code: str) -> str | None:
    """The lesson that a notebook loads, or the number its file name starts with."""
    loaded = re.search(r"""\bload\(\s*["'](\d\d)["']""", code) or re.match(r"(\d\d)(?!\d)", path.name)
    return loaded[1] if loaded and loaded[1] in available() else None


def _safe_for_spreadsheets(value: object) -> object:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `grade`, for a command line of your own; `run_from(parser.parse_args())` does the rest."""
    parser.add_argument("folder", help="folder of student notebooks")
    parser.add_argument("--lesson", help="lesson number (08) or a module with exercises; default: what each notebook loads")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a notebook (%(default)s)")
    parser.add_argument("--memory-mb", type=float, default=3000, help="megabytes a notebook (%(default)s)")
    parser.add_argument("--output-kb", type=float, default=5000, help="kilobytes of printed output a notebook (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="notebooks at the same time (%(default)s)")
    parser.add_argument("--out", help="folder for grades.csv and the reports (default: FOLDER/grades)")


def run_from(arguments: argparse.Namespace) -> int:
    """Grades as the parsed options say and prints the table. Exit status 2 when nothing could be graded, otherwise 0."""
    try:
        frame = grade(
            arguments.folder,
            arguments.lesson,
            arguments.timeout,
            arguments.memory_mb,
            output_kb=arguments.output_kb,
            jobs=arguments.jobs,
            out=arguments.out,
        )
    except ExerciseError as error:
        print(error, file=sys.stderr)
        return 2
    print(frame[["student", "lesson", "status", "solved", "exercises", "seconds", "peak_mb"]].to_string(index=False))
    print(f"written to {arguments.out or Path(arguments.folder, 'grades')}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """`grade FOLDER [options]`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m course_utils grade", description="Marks a folder of student notebooks.")
    add_arguments(parser)
    return run_from(parser.parse_args(argv))
