"""Every exercise of every lesson: the reference is right, the stub is no attempt, each listed mistake gets its own message."""

import __future__

import pytest

from course_utils.exercises import Outcome, available, load

EXERCISES = [
    pytest.param(exercise, id=f"{lesson}-{exercise.key}")
    for lesson in [*available(), "made_lesson"]
    for exercise in load(lesson).exercises
]


def run(code):
    """The names that a piece of code defines; annotations are left alone, so they need no imports."""
    names = {}
    exec(compile(code, "stub", "exec", flags=__future__.annotations.compiler_flag), names)
    return names


@pytest.mark.parametrize("exercise", EXERCISES)
def test_reference_is_right(exercise):
    result = exercise.evaluate(exercise.answer.expected)
    assert result.outcome is Outcome.RIGHT, result.message


@pytest.mark.parametrize("exercise", EXERCISES)
def test_stub_is_not_tried_yet(exercise):
    assert exercise.evaluate(run(exercise.stub)[exercise.name]).outcome is Outcome.NOT_TRIED


@pytest.mark.parametrize("exercise", EXERCISES)
def test_each_mistake_is_refused_with_its_own_message(exercise):
    for mistake in exercise.mistakes:
        result = exercise.evaluate(mistake.answer)
        assert (result.outcome, result.message) == (Outcome.WRONG, mistake.message)
    assert len({mistake.message for mistake in exercise.mistakes}) == len(exercise.mistakes)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_solution_adds_something_to_the_stub(exercise):
    assert exercise.solution != exercise.stub
