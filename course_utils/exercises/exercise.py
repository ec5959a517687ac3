"""An exercise is data; evaluating an answer is a pure function of the exercise and the answer."""

import ast
import html
import inspect
import keyword
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from course_utils.errors import ExerciseError
from course_utils.exercises.answers import Function, Value
from course_utils.exercises.compare import copied, described, is_number
from course_utils.exercises.panel import Panel


class Outcome(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    NOT_TRIED = "not tried yet"


@dataclass(frozen=True)
class Mistake:
    """A usual wrong answer and what a teacher says to it.

    Args:
        answer: an answer of this kind (for a function exercise: a wrong function).
        message: what went wrong and where to look, without giving the answer away.
        when: recognises the mistake in a student's answer; without it, an answer makes the mistake when it equals `answer`.
    """

    answer: Any
    message: str
    when: Callable[[Any], bool] | None = None


@dataclass(frozen=True)
class Exercise:
    """One exercise. The student's answer is bound to the name `my_` + key.

    Args:
        key: a Python name, the exercise's name within its lesson.
        prompt: the task, in Markdown.
        minutes: time a student needs.
        difficulty: 1 (read off), 2 (think), 3 (work).
        answer: `Number`, `Choice`, `Value` or `Function`, with the reference answer.
        mistakes: the first that fits gives the message.
        hints: shown one after the other, each saying more.
        stub: code that the lesson shows; by default the reference function without its body, or `my_key = ...`.
        solution: code that defines `my_key` and may use the lesson's variables; by default the source of the reference function or
            its plain value.

    Raises:
        ExerciseError: something does not fit together; the message names it.
    """

    key: str
    title: str
    prompt: str
    minutes: int
    difficulty: int
    answer: Value | Function = field(repr=False)
    mistakes: tuple[Mistake, ...] = field(repr=False)
    hints: tuple[str, ...] = field(repr=False)
    stub: str = field(default="", repr=False)
    solution: str = field(default="", repr=False)

    def __post_init__(self):
        if not self.key.isidentifier() or keyword.iskeyword(self.key):
            raise ExerciseError(f"the key {self.key!r} must be a Python name")
        if self.difficulty not in (1, 2, 3):
            raise ExerciseError(f"{self.key}: difficulty must be 1, 2 or 3, not {self.difficulty!r}")
        if not self.mistakes or not self.hints:
            raise ExerciseError(f"{self.key}: list at least one usual mistake and one hint")
        if isinstance(self.answer, Function):
            self._fill_from_function()
        else:
            self._fill_from_value()
        for text in ("stub", "solution"):
            if self.name not in assigned_names(getattr(self, text)):
                raise ExerciseError(f"{self.key}: the {text} does not define {self.name}")

    @property
    def name(self) -> str:
        """What the student calls the answer."""
        return f"my_{self.key}"

    def evaluate(self, answer: Any) -> "Result":
        """The outcome for an answer. Nothing is displayed or remembered; no exception of the student's code gets out."""
        try:
            if not self.answer.tried(answer):
                return Result(self, answer, Outcome.NOT_TRIED, f"{self.name} is still empty.")
            reason = self.answer.difference(answer, self.answer.expected)
            if reason is None:
                return Result(self, answer, Outcome.RIGHT, "")
            known = next((mistake.message for mistake in self.mistakes if self._makes(answer, mistake)), None)
        except Exception as error:
            return Result(self, answer, Outcome.WRONG, f"{self.name} cannot be compared: {described(error)}")
        subject = "" if reason.startswith(self.name) else f"{self.name}: "
        return Result(self, answer, Outcome.WRONG, known or f"{subject}{reason}.")

    def _makes(self, answer: Any, mistake: Mistake) -> bool:
        if mistake.when is None:
            return self.answer.difference(answer, mistake.answer) is None
        try:
            return bool(mistake.when(answer))
        except Exception:
            return False

    def _fill_from_function(self):
        reference = self.answer.reference
        if reference.__name__ != self.name:
            raise ExerciseError(f"{self.key}: call the reference function {self.name}, not {reference.__name__}")
        source = textwrap.dedent(inspect.getsource(reference)).strip()
        object.__setattr__(self, "solution", (self.solution or source).strip())
        object.__setattr__(self, "stub", (self.stub or _without_body(source)).strip())

    def _fill_from_value(self):
        reference = self.answer.reference
        if not self.solution and not (isinstance(reference, str) or (is_number(reference) and not hasattr(reference, "dtype"))):
            raise ExerciseError(f"{self.key}: the reference is not a plain number or text, so say in `solution` how to get it")
        object.__setattr__(self, "solution", (self.solution or f"{self.name} = {reference!r}").strip())
        object.__setattr__(self, "stub", (self.stub or f"{self.name} = ...").strip())


@dataclass(frozen=True)
class Result:
    """What came of an answer: `outcome` with a `message` that says why."""

    exercise: Exercise
    answer: Any
    outcome: Outcome
    message: str

    @property
    def right(self) -> bool:
        return self.outcome is Outcome.RIGHT

    @property
    def value(self) -> Any:
        """What the lesson goes on with: the student's answer when it is right, otherwise (a copy of) the reference."""
        expected = self.exercise.answer.expected
        return self.answer if self.right else expected if isinstance(self.exercise.answer, Function) else copied(expected)

    @property
    def panel(self) -> Panel:
        """The result as HTML and as text."""
        word = self.outcome.capitalize()
        after = "" if self.right else " The lesson goes on with the reference answer."
        body = html.escape(f"{self.message}{after}".strip())
        return Panel(
            self.outcome, f"{word} · {self.exercise.title}", body, f"[{word}] {self.exercise.title}. {self.message}".strip()
        )

    def __repr__(self) -> str:
        return self.panel.text

    def _ipython_display_(self) -> None:
        """Nothing: `check` has displayed it already, and a cell that ends in a check must not show it twice."""


def assigned_names(code: str) -> set[str]:
    """Names that a piece of code binds at its top level (assignments, functions, classes, imports, loops)."""
    nodes, names = [*ast.parse(code).body], set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        nodes.extend(ast.iter_child_nodes(node))
    return names


def _without_body(source: str) -> str:
    """A function's signature and docstring, with `...` for its body."""
    lines, function = source.splitlines(), ast.parse(source).body[0]
    first = function.body[0]
    end = first.lineno - 1 if ast.get_docstring(function) is None else first.end_lineno
    return "\n".join([*lines[:end], "    ..."])
