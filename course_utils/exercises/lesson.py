"""What a notebook works with: the exercises of one lesson, what has been solved and which hints were shown."""

import html
import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from IPython.display import display

from course_utils.errors import ExerciseError
from course_utils.exercises.exercise import Exercise, Outcome, Result
from course_utils.exercises.panel import Panel


class Task:
    """One exercise in a notebook. As the last line of a cell it shows its title, time and prompt."""

    def __init__(self, exercise: Exercise):
        self.exercise = exercise
        self.outcome = Outcome.NOT_TRIED
        self._hints_shown = 0

    def check(self, answer: Any) -> Result:
        """Displays whether the answer is right, wrong (and why) or not tried yet, and returns the result.

        `check(my_key).value` is what the lesson goes on with: the student's answer when it is right, otherwise the reference.
        """
        result = self.exercise.evaluate(answer)
        self.outcome = result.outcome
        display(result.panel)
        return result

    def hint(self) -> None:
        """Displays the next hint; after the last one, all of them again."""
        hints = self.exercise.hints
        self._hints_shown = min(self._hints_shown + 1, len(hints))
        items = "".join(f"<li>{html.escape(hint)}</li>" for hint in hints[: self._hints_shown])
        heading = f"Hint {self._hints_shown} of {len(hints)} · {self.exercise.title}"
        display(Panel("info", heading, f"<ol>{items}</ol>", f"{heading}: {hints[self._hints_shown - 1]}"))

    def solution(self) -> None:
        """Displays code that solves the exercise."""
        code = self.exercise.solution
        heading = f"Solution · {self.exercise.title}"
        display(Panel("info", heading, f"<pre><code>{html.escape(code)}</code></pre>", f"{heading}\n{code}"))

    def __repr__(self) -> str:
        return f"Exercise: {self._heading()}"

    def _repr_markdown_(self) -> str:
        return f"**Exercise · {self._heading()}**\n\n{self.exercise.prompt}"

    def _heading(self) -> str:
        return f"{self.exercise.title} ({self.exercise.minutes} min, difficulty {self.exercise.difficulty} of 3)"


class Lesson:
    """The exercises of a lesson, each an attribute named by its key: `ex.bound.check(my_bound)`."""

    def __init__(self, name: str, exercises: tuple[Exercise, ...]):
        keys = [exercise.key for exercise in exercises]
        if not keys or len(set(keys)) != len(keys):
            raise ExerciseError(f"lesson {name}: EXERCISES must hold at least one exercise, each key once; keys: {keys}")
        self.name = name
        self._tasks = {exercise.key: Task(exercise) for exercise in exercises}

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        return tuple(task.exercise for task in self)

    def progress(self) -> None:
        """Displays how many exercises are solved, and the state of each."""
        solved = sum(task.outcome is Outcome.RIGHT for task in self)
        heading = f"{solved} of {len(self._tasks)} exercises solved"
        states = [f"{task.exercise.title}: {task.outcome}" for task in self]
        items = "".join(f"<li>{html.escape(state)}</li>" for state in states)
        display(Panel("right" if solved == len(states) else "info", heading, f"<ul>{items}</ul>", "\n".join([heading, *states])))

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())

    def __getattr__(self, key: str) -> Task:
        tasks = self.__dict__.get("_tasks", {})
        if key in tasks:
            return tasks[key]
        raise AttributeError(f"lesson {self.__dict__.get('name')} has no exercise {key!r}; it has: {', '.join(tasks)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._tasks]

    def __repr__(self) -> str:
        return f"Lesson({self.name!r}, exercises: {', '.join(self._tasks)})"


def available() -> list[str]:
    """Numbers of the lessons that have exercises: "05", "08", ..."""
    names = (re.fullmatch(r"lesson_(\d\d)", module.name) for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(match[1] for match in names if match)


@cache
def load(lesson: str) -> Lesson:
    """The exercises of a lesson.

    Args:
        lesson: its number ("08"), or the dotted name of any importable module with a tuple `EXERCISES`, for exercises of your own.
    Raises:
        ExerciseError: there is no such lesson, or the module has no exercises.
    """
    if re.fullmatch(r"\d\d", lesson) and lesson not in available():
        raise ExerciseError(f"lesson {lesson!r} has no exercises; these have: {', '.join(available()) or 'none yet'}")
    name = f"course_utils.exercises.lesson_{lesson}" if lesson.isdigit() else lesson
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and not name.startswith(error.name):
            raise
        raise ExerciseError(
            f"lesson {lesson!r} is unknown; write the number with two digits, as in '08', or a module's name"
        ) from error
    if not isinstance(getattr(module, "EXERCISES", None), tuple):
        raise ExerciseError(f"{name} has no tuple named EXERCISES")
    return Lesson(lesson, module.EXERCISES)
