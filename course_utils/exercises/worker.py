"""Runs one student notebook and reports on its answers: `python -m course_utils.exercises.worker CELLS LESSON REPORT`.

Its own process, started by `submission` with a file of code cells: [[number, source], ...] in JSON. It takes the course's
exercises before the student's code runs, then forgets the modules, so that what the student's code imports (and perhaps changes)
is another copy. Reports are lines of JSON, written as things happen: whatever ends the process, what was found before is known.
"""

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from course_utils.exercises.compare import described
from course_utils.exercises.exercise import Exercise, Outcome, assigned_names
from course_utils.exercises.lesson import load


class _Shell(InteractiveShell):
    def enable_gui(self, gui: str | None = None) -> None:
        """Nothing: no windows here; `%matplotlib inline` asks for none."""


class _Session:
    """The student's Python, and the last answer given to each exercise."""

    report: TextIO

    def __init__(self, lesson: str):
        self.exercises = load(lesson).exercises
        self.seen: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        self.outcomes: dict[str, Outcome] = {}
        _forget_exercises(lesson)
        config = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}})
        self.shell = _Shell.instance(config=config)

    def run(self, number: int, source: str) -> None:
        """One code cell. An exception is reported; the notebook goes on."""
        self.say(event="cell", number=number)
        result = self.shell.run_cell(source)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            self.say(event="error", number=number, text=described(error))
        handed_out = self._names_bound_by_a_check(source)
        for exercise in self.exercises:
            value = self.shell.user_ns.get(exercise.name, ...)
            changed = value is not self.seen.get(exercise.key, ...)
            self.seen[exercise.key] = value
            if changed and exercise.name in self.shell.user_ns and exercise.name not in handed_out:
                self.evaluate(exercise, value)

    def finish(self) -> None:
        """Answers that were not right are looked at again: a list may have been filled, a helper defined, in a later cell."""
        for exercise in self.exercises:
            if self.outcomes.get(exercise.key) is not Outcome.RIGHT:
                self.evaluate(exercise, self.answers.get(exercise.key, ...))
        self.say(event="end")

    def evaluate(self, exercise: Exercise, answer: Any) -> None:
        self.say(event="evaluate", key=exercise.key)
        result = exercise.evaluate(answer)
        self.answers[exercise.key], self.outcomes[exercise.key] = answer, result.outcome
        self.say(event="outcome", key=exercise.key, outcome=result.outcome, message=result.message)

    def say(self, **event: Any) -> None:
        self.report.write(json.dumps(event) + "\n")
        self.report.flush()

    def _names_bound_by_a_check(self, source: str) -> set[str]:
        """Names set from what `.check(...)` returned: that may be the reference, which is nobody's answer."""
        try:
            statements = ast.parse(self.shell.transform_cell(source)).body
        except SyntaxError:
            return set()
        return {name for line in statements if _calls_check(line) for name in assigned_names(ast.unparse(line))}


def _calls_check(statement: ast.stmt) -> bool:
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Attribute) and function.attr == "check" for function in calls)


def _forget_exercises(lesson: str) -> None:
    import course_utils

    for name in [name for name in sys.modules if name == lesson or name.startswith("course_utils.exercises")]:
        del sys.modules[name]
    if hasattr(course_utils, "exercises"):
        del course_utils.exercises


def main(cells: str, lesson: str, report: str) -> None:
    sources = json.loads(Path(cells).read_text(encoding="utf-8"))
    session = _Session(lesson)
    with Path(report).open("a", encoding="utf-8") as session.report:
        for number, source in sources:
            session.run(number, source)
        session.finish()


if __name__ == "__main__":
    arguments, sys.argv = sys.argv[1:], [""]
    main(*arguments)
    sys.stdout.flush()
    os._exit(0)
