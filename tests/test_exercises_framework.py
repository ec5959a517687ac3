"""The exercise framework on made-up exercises: outcomes, feedback, what is displayed, what is refused."""

import math
import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import course_utils.exercises as room
from course_utils.errors import ExerciseError
from course_utils.exercises import Choice, Exercise, Function, Lesson, Mistake, Number, Outcome, Value, load
from course_utils.exercises.compare import copied, difference

RIGHT, WRONG, NOT_TRIED = Outcome.RIGHT, Outcome.WRONG, Outcome.NOT_TRIED


def make(answer):
    return Exercise("x", "Title", "Do it.", 1, 1, answer, (Mistake(-1.0, "no"),), ("a hint",))


def made(key):
    return next(exercise for exercise in load("made_lesson").exercises if exercise.key == key)


@pytest.fixture
def lesson():
    return Lesson("made", load("made_lesson").exercises)


@pytest.fixture
def displayed(monkeypatch):
    panels = []
    monkeypatch.setattr("course_utils.exercises.lesson.display", panels.append)
    return panels


@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        (0.6931, RIGHT, ""),
        (torch.tensor(0.6931, requires_grad=True), RIGHT, ""),
        (np.float32(0.6931), RIGHT, ""),
        (..., NOT_TRIED, "still empty"),
        (None, NOT_TRIED, "still empty"),
        (1, WRONG, "in bits"),
        (69.31, WRONG, "100 times"),
        (0.8, WRONG, "too large"),
        (-0.2, WRONG, "too small"),
        (math.nan, WRONG, "nan"),
        ("0.69", WRONG, "should be one number"),
        (True, WRONG, "should be one number"),
        (torch.ones(2), WRONG, "shape (2,)"),
        (pd.DataFrame({"a": [1]}), WRONG, "DataFrame of shape (1, 1)"),
    ],
)
def test_number(answer, outcome, words):
    result = made("ceiling").evaluate(answer)
    assert result.outcome is outcome
    assert words in result.message


@given(st.floats(-1e6, 1e6), st.floats(-1, 1))
@settings(deadline=None)
def test_a_number_is_right_exactly_within_its_tolerance(reference, error):
    answer = reference + error
    expected = abs(answer - reference) <= 0.1
    assert (difference(answer, reference, 0.1) is None) == expected


def test_choice_ignores_case_and_names_the_options():
    assert made("control").evaluate(" Average ").outcome is RIGHT
    assert "one of: 'bilstm', 'cnn', 'average'" in made("control").evaluate("lstm").message
    assert "not the best choice" in made("control").evaluate("bilstm").message
    assert made("control").evaluate(3).outcome is WRONG


@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        ([0.25] * 4, RIGHT, ""),
        (np.full(4, 0.25), RIGHT, ""),
        (torch.full((4,), 0.25, dtype=torch.bfloat16), RIGHT, ""),
        ([..., ..., ..., ...], NOT_TRIED, ""),
        (torch.full((1, 4), 0.25), WRONG, "shape is (1, 4), and should be (4,)"),
        ([0.5, 0.5, 0, 0], WRONG, "4 of 4 entries differ, the first at [0]: 0.5"),
        ([0.5, 0.5], WRONG, "shape"),
        ([2.0, 0, 0, 0], WRONG, "sum to 1"),
        ([[0.5], [0.5, 0]], WRONG, "different lengths"),
        (["a", "b", "c", "d"], WRONG, "should hold numbers"),
        ("uniform", WRONG, "the text 'uniform'"),
    ],
)
def test_tensor(answer, outcome, words):
    result = made("weights").evaluate(answer)
    assert result.outcome is outcome, result
    assert words in result.message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (pd.DataFrame({"n_tokens": [3.0, 5.0], "more": [0, 0]}, index=[7, 9]), None),
        (pd.DataFrame({"tokens": [3, 5]}), "lacks the column n_tokens"),
        (pd.DataFrame({"n_tokens": [3]}), "1 rows, and should have 2"),
        (pd.DataFrame({"n_tokens": [3, 6]}), "column n_tokens: 1 of 2"),
        (pd.DataFrame({"n_tokens": ["3", "5"]}), "should hold numbers"),
        ([3, 5], "should be a DataFrame"),
    ],
)
def test_frame(answer, words):
    result = made("table").evaluate(answer)
    assert result.right if words is None else words in result.message


@pytest.mark.parametrize(
    ("answer", "expected", "words"),
    [
        ({"a": 1.0}, {"a": 1}, None),
        ({"b": 1}, {"a": 1}, "'b' does not belong there"),
        ({"a": 2}, {"a": 1}, "entry 'a': 2 is too large"),
        (("x", 1), ["x", 1], None),
        (["x", 2], ["x", 1], "item 1: 2 is too large"),
        (["x"], ["x", 1], "1 items, and should have 2"),
        (["b", "a"], {"a", "b"}, None),
        (["a"], {"a", "b"}, "1 of 2 missing"),
        (True, True, None),
        (1, True, "should be a bool"),
        (pd.Series(["a", "c"]), pd.Series(["a", "b"]), "1 of 2 rows differ, the first is row 1"),
        (torch.tensor([True, False]), torch.tensor([True, True]), "1 of 2 entries"),
    ],
)
def test_difference(answer, expected, words):
    reason = difference(answer, expected)
    assert reason is None if words is None else words in reason


def unfinished(scores, mask): ...


def unfinished_with_a_docstring(scores, mask):
    """Weights."""
    pass


def raises_not_implemented(scores, mask):
    raise NotImplementedError


def returns_dots(scores, mask):
    return ...


@pytest.mark.parametrize("function", [..., None, unfinished, unfinished_with_a_docstring, raises_not_implemented, returns_dots])
def test_an_unwritten_function_is_not_tried_yet(function):
    assert made("softmax").evaluate(function).outcome is NOT_TRIED


def forgets_return(scores, mask):
    scores.softmax(-1)


def divides_by_zero(scores, mask):
    total = 0
    return scores / (1 / total)


def leaves_python(scores, mask):
    raise SystemExit


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (forgets_return, "is a 'return' missing?"),
        (divides_by_zero, r"raised ZeroDivisionError: division by zero \(line \d+: return scores / \(1 / total\)\)"),
        (leaves_python, "raised SystemExit"),
        (lambda scores: scores, "raised TypeError: .*takes 1 positional argument"),
        (
            lambda scores, mask: mask.float(),
            r"my_softmax\(\[1.0, 2.0, 3.0\], \[True, True, False\]\) returned .* expected \[0.2689",
        ),
        (torch.tensor([0.3, 0.7, 0]), "should be a function; pass the function itself"),
        (0.5, "the number 0.5, and should be a function"),
    ],
)
def test_a_wrong_function_hears_why(function, words):
    result = made("softmax").evaluate(function)
    assert result.outcome is WRONG
    assert re.search(words, result.message), result.message


def test_each_call_gets_its_own_copy_of_the_arguments():
    def greedy(scores, mask):
        weights = scores.masked_fill_(~mask, -math.inf).softmax(-1)
        scores.zero_()
        return weights

    exercise = made("softmax")
    assert exercise.evaluate(greedy).right
    assert exercise.evaluate(greedy).right


def test_copies_keep_values_and_share_nothing():
    tensor = torch.ones(2, requires_grad=True)
    generator = torch.Generator().manual_seed(3)
    original = {"a": [tensor * 2, torch.zeros(2)], "g": generator, "f": pd.DataFrame({"x": [1]})}
    copy = copied(original)
    copy["a"][1] += 1
    assert torch.equal(original["a"][1], torch.zeros(2))
    assert torch.equal(copy["a"][0], original["a"][0])
    assert torch.equal(torch.rand(3, generator=copy["g"]), torch.rand(3, generator=generator))


def my_root(number):
    """The square root."""
    if number < 0:
        raise ValueError("negative")
    return number**0.5


def test_a_function_may_have_to_raise():
    exercise = Exercise("root", "R", "R", 1, 1, Function(my_root, [(4.0,), (-1.0,)]), (Mistake(abs, "no"),), ("h",))
    assert exercise.evaluate(my_root).right
    assert "should raise ValueError" in exercise.evaluate(lambda number: abs(number) ** 0.5).message
    assert "raised KeyError" in exercise.evaluate(lambda number: number**0.5 if number > 0 else {}[number]).message
    assert exercise.stub == 'def my_root(number):\n    """The square root."""\n    ...'
    assert exercise.solution.endswith("return number**0.5")


def test_an_answer_that_cannot_be_compared_is_wrong_not_an_exception():
    class Odd:
        def __eq__(self, other):
            raise RuntimeError("no")

        def __repr__(self):
            raise RuntimeError("no repr")

    assert make(Value("a")).evaluate(Odd()).outcome is WRONG
    assert made("ceiling").evaluate(Odd()).outcome is WRONG
    assert made("control").evaluate(Odd()).outcome is WRONG


def test_the_lesson_goes_on_with_the_right_answer_or_a_copy_of_the_reference():
    exercise = made("weights")
    answer = [0.25] * 4
    assert exercise.evaluate(answer).value is answer
    exercise.evaluate(...).value.zero_()
    assert torch.equal(exercise.evaluate([1, 0, 0, 0]).value, torch.full((4,), 0.25))
    assert made("softmax").evaluate(...).value.__name__ == "my_softmax"


def test_check_displays_once_and_escapes(lesson, displayed):
    result = lesson.control.check("<b>lstm</b>")
    assert len(displayed) == 1
    html = displayed[0]._repr_html_()
    assert "<b>lstm</b>" not in html
    assert "&lt;b&gt;lstm&lt;/b&gt;" in html
    assert "Wrong" in html
    assert "✘" in html
    assert repr(displayed[0]) == repr(result)
    assert repr(result).startswith("[Wrong] Which control?. my_control: it is the text '<b>lstm</b>'")


def test_a_result_that_ends_a_cell_is_not_displayed_a_second_time(capsys):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.run_cell("from course_utils.exercises import load")
    capsys.readouterr()
    shell.run_cell('load("made_lesson").control.check(...)')
    assert capsys.readouterr().out.count("[Not tried yet] Which control?") == 1


def test_hints_come_one_after_the_other(lesson, displayed):
    for _ in range(3):
        lesson.ceiling.hint()
    assert [repr(panel).split(" · ")[0] for panel in displayed] == ["Hint 1 of 2", "Hint 2 of 2", "Hint 2 of 2"]
    assert "share no token" in displayed[1]._repr_html_()
    assert "Write out" not in displayed[0]._repr_html_()


def test_the_solution_is_shown_only_when_asked_for(lesson, displayed):
    assert "math.log" not in repr(lesson.ceiling) + lesson.ceiling._repr_markdown_()
    lesson.ceiling.solution()
    assert "my_ceiling = math.log(2)" in repr(displayed[0])


def test_progress_counts_what_is_solved(lesson, displayed):
    lesson.ceiling.check(math.log(2))
    lesson.control.check("cnn")
    lesson.progress()
    text = repr(displayed[-1])
    assert text.startswith("1 of 5 exercises solved")
    assert "The ceiling: right\nWhich control?: wrong\nUniform weights: not tried yet" in text


def test_a_lesson_knows_its_exercises(lesson):
    assert "ceiling" in dir(lesson)
    with pytest.raises(AttributeError, match="no exercise 'cieling'; it has: ceiling"):
        _ = lesson.cieling


@pytest.mark.parametrize("name", ["8", "99", "no_such_module"])
def test_an_unknown_lesson(name):
    with pytest.raises(ExerciseError, match="lesson"):
        load(name)


def test_a_module_without_exercises():
    with pytest.raises(ExerciseError, match="no tuple named EXERCISES"):
        load("math")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key": "two words"}, "Python name"),
        ({"difficulty": 4}, "difficulty"),
        ({"mistakes": ()}, "at least one usual mistake"),
        ({"stub": "answer = ..."}, "stub does not define my_x"),
        ({"solution": "x = 1"}, "solution does not define my_x"),
        ({"answer": Value([1]), "solution": ""}, "say in `solution`"),
        ({"answer": Function(my_root, ())}, "call the reference function my_x"),
    ],
)
def test_a_badly_defined_exercise_is_refused(change, words):
    good = {
        "key": "x",
        "title": "T",
        "prompt": "P",
        "minutes": 1,
        "difficulty": 1,
        "answer": Number(1.0),
        "mistakes": (Mistake(2.0, "m"),),
        "hints": ("h",),
    }
    Exercise(**good)
    with pytest.raises(ExerciseError, match=words):
        Exercise(**(good | change))


def test_a_choice_must_offer_the_right_answer():
    with pytest.raises(ExerciseError, match="not among the options"):
        Choice("a", options=("b", "c"))


def test_keys_are_unique_within_a_lesson():
    with pytest.raises(ExerciseError, match="each key once"):
        Lesson("twice", (make(Number(1.0)), make(Number(2.0))))


def test_the_example_in_the_documentation_works(tmp_path, monkeypatch):
    example = room.__doc__.split("`course_utils/exercises/lesson_NN.py`:\n")[1].split("\nStub and solution")[0]
    (tmp_path / "documented_lesson.py").write_text(
        "\n".join(line.removeprefix("    ") for line in example.splitlines()), encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for exercise in load("documented_lesson").exercises:
        assert exercise.evaluate(exercise.answer.expected).right
        assert [exercise.evaluate(mistake.answer).message for mistake in exercise.mistakes] == [
            mistake.message for mistake in exercise.mistakes
        ]
