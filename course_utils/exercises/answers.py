"""The kinds of answers. Each knows its reference, when an answer is no attempt, and why an answer is not (as good as) another."""

import dis
import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from course_utils.errors import ExerciseError
from course_utils.exercises.compare import copied, described, difference, is_empty, is_number, kind, shown


@dataclass(frozen=True)
class Value:
    """A text, list, set, tensor, array or frame; `difference` of `compare` says when two are equal.

    Args:
        reference: the right answer, or a function without arguments that makes it: it is called when it is first needed.
        tolerance: absolute, for every number in it.
    """

    reference: Any
    tolerance: float = 1e-6

    @cached_property
    def expected(self) -> Any:
        return self.reference() if callable(self.reference) else self.reference

    def tried(self, answer: Any) -> bool:
        return not is_empty(answer)

    def difference(self, answer: Any, other: Any) -> str | None:
        """Why `answer` is not `other`; None when it is."""
        return difference(answer, other, self.tolerance)


@dataclass(frozen=True)
class Number(Value):
    """One number, right within `tolerance`.

    Args:
        unit: what is counted and in which range, for instance "a share between 0 and 1"; shown when an answer is 100 times too
            large or small.
    """

    unit: str = ""

    def difference(self, answer: Any, other: Any) -> str | None:
        reason = difference(answer, other, self.tolerance)
        if reason and is_number(answer) and self.unit:
            for factor, words in ((100, "100 times"), (0.01, "a hundredth of")):
                if other and difference(answer, other * factor, self.tolerance * factor) is None:
                    return f"{shown(answer)} is {words} what it should be; asked for is {self.unit}"
        return reason


@dataclass(frozen=True)
class Choice(Value):
    """One of several options, given as text; upper and lower case do not matter."""

    options: Sequence[str] = ()

    def __post_init__(self):
        if self.reference not in self.options:
            raise ExerciseError(f"the right choice {self.reference!r} is not among the options {list(self.options)}")

    def difference(self, answer: Any, other: Any) -> str | None:
        chosen = str(answer).strip().casefold() if isinstance(answer, str) else None
        if chosen not in [option.casefold() for option in self.options]:
            return f"it is {kind(answer)}, and should be one of: {', '.join(map(repr, self.options))}"
        return None if chosen == other.casefold() else f"{answer!r} is not the best choice"


@dataclass(frozen=True)
class Function:
    """A function, right when it gives what the reference gives on every case.

    Args:
        reference: a plain function named like the student's.
        cases: one tuple of arguments a case, or a function without arguments that makes them. Every call gets a copy of its own.
        tolerance: absolute, for every number in what is returned.
    """

    reference: Callable
    cases: Sequence[tuple] | Callable[[], Sequence[tuple]] = field(repr=False)
    tolerance: float = 1e-6

    @property
    def expected(self) -> Callable:
        return self.reference

    @cached_property
    def _cases(self) -> Sequence[tuple]:
        return self.cases() if callable(self.cases) else self.cases

    def tried(self, answer: Any) -> bool:
        """No attempt: `...`, a function without a body, or one that on every case returns `...` or raises NotImplementedError."""
        if not callable(answer):
            return not is_empty(answer)
        if _does_nothing(answer):
            return False
        outcomes = (_outcome(answer, case) for case in self._cases)
        return not all(got is ... or (isinstance(got, _Raised) and got.type is NotImplementedError) for got in outcomes)

    def difference(self, answer: Any, other: Callable) -> str | None:
        if not callable(answer):
            return f"it is {kind(answer)}, and should be a function; pass the function itself, not what it returns"
        for case in self._cases:
            call = f"{self.reference.__name__}({', '.join(shown(argument) for argument in case)})"
            wanted = _outcome(other, case)
            got = _outcome(answer, case)
            if isinstance(got, _Raised):
                if isinstance(wanted, _Raised) and wanted.type is got.type:
                    continue
                return f"{call} raised {got}"
            if isinstance(wanted, _Raised):
                return f"{call} returned {shown(got)}, and should raise {wanted.type.__name__}"
            if is_empty(got) and not is_empty(wanted):
                return f"{call} returned nothing; is a 'return' missing?"
            reason = difference(got, wanted, self.tolerance)
            if reason:
                return f"{call} returned {shown(got)}, expected {shown(wanted)}: {reason}"
        return None


def _does_nothing(function: Callable) -> bool:
    """Whether a function's body is empty: a docstring, `...` or `pass`, which compile to "return None" and no more."""
    if not inspect.isfunction(function):
        return False
    steps = [step for step in dis.get_instructions(function) if step.opname not in ("RESUME", "NOP")]
    return all(step.opname in ("LOAD_CONST", "RETURN_CONST", "RETURN_VALUE") and step.argval is None for step in steps)


@dataclass(frozen=True)
class _Raised:
    type: type
    text: str

    def __str__(self) -> str:
        return self.text


def _outcome(function: Callable, case: tuple) -> Any:
    """What a function returns on copies of the arguments, or the exception it raised, with the line of its own code."""
    try:
        return function(*copied(case))
    except (Exception, SystemExit, GeneratorExit) as error:
        text = described(error)
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        if frames:
            text += f" (line {frames[-1].lineno}: {frames[-1].line})"
        return _Raised(type(error), text)
