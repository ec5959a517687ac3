"""Marks a folder of student notebooks: `python -m course_utils grade FOLDER`.

Each notebook runs in a process and a temporary folder of its own, under limits of time, memory and output. What counts is the
course's own check of the student's answers, found by their names (`my_...`); what the notebook prints, and what became of its
check cells, does not matter.

The limits protect a class from an accident: a loop without end, a table too large. They are no protection from malice. Students'
code runs with your rights: it can read your files and use the network. Grade strangers' notebooks inside a container.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

from course_utils.errors import ExerciseError
from course_utils.exercises.lesson import load
from course_utils.exercises.report import write_report
from course_utils.exercises.submission import Limits, grade_notebook


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
