"""Student notebooks: exercise cells hold the stubs, nothing gives a solution away, the solved version has every answer right.

A solved lesson is run without the experiments that its exercises do not use: nbval runs those, and watches the memory
(conftest.py of the project's folder).
"""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_utils.errors import ExerciseError
from course_utils.exercises import available, load, problems, solve
from course_utils.exercises.submission import Limits, grade_notebook
from tests.slicing import needed

FOLDER = Path(__file__).parent.parent / "notebooks"
LESSONS = [path for path in sorted(FOLDER.glob("[0-9][0-9]_*.ipynb")) if path.name[:2] in available()]


def made_notebook(lesson="made_lesson"):
    """An unsolved notebook of a made-up lesson."""
    cells = [
        new_markdown_cell("# Made up"),
        new_code_cell(f'from course_utils import exercises\n\nex = exercises.load("{lesson}")'),
    ]
    for exercise in load(lesson).exercises:
        cells.append(new_code_cell(exercise.stub, metadata={"tags": ["exercise"]}))
        cells.append(new_code_cell(f"{exercise.key} = ex.{exercise.key}.check({exercise.name}).value"))
    cells.append(new_code_cell("ex.progress()"))
    return new_notebook(cells=cells)


def plain_notebook():
    """An unsolved notebook that runs without torch and uses the answers further on."""
    notebook = made_notebook("plain_lesson")
    notebook.cells.append(new_code_cell("assert normalise([share, share]) == [0.5, 0.5]"))
    return notebook


def outcomes(notebook, lesson, folder):
    path = folder / "notebook.ipynb"
    nbformat.write(notebook, path)
    graded = grade_notebook(path, lesson, Limits(seconds=600))
    assert graded.status == "finished", graded.errors
    return set(graded.outcomes.values())


def read(path):
    return nbformat.read(path, as_version=4)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_exercises_of_a_lesson_are_in_order(path):
    assert problems(read(path), path.name[:2]) == []


def exercises_only(notebook):
    """The notebook without the code that its exercises and their checks do not need."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    asked = {place for place, cell in enumerate(code) if "exercise" in cell.metadata.get("tags", []) or ".check(" in cell.source}
    return new_notebook(cells=[new_code_cell(source) for source in needed([cell.source for cell in code], asked)])


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_answer_of_a_solved_lesson_is_right(path, tmp_path):
    assert outcomes(exercises_only(solve(read(path), path.name[:2])), path.name[:2], tmp_path) == {"right"}


def test_every_lesson_has_exercises():
    assert {path.name for path in FOLDER.glob("[0-9][0-9]_*.ipynb")} == {path.name for path in LESSONS}


def test_every_lesson_with_exercises_has_a_notebook():
    assert {path.name[:2] for path in LESSONS} == set(available())


def test_a_made_notebook_is_in_order():
    assert problems(made_notebook(), "made_lesson") == []


def test_a_made_notebook_runs_unsolved(tmp_path):
    assert outcomes(plain_notebook(), "plain_lesson", tmp_path) == {"not tried yet"}


def test_a_made_notebook_runs_solved(tmp_path):
    student = plain_notebook()
    assert outcomes(solve(student, "plain_lesson"), "plain_lesson", tmp_path) == {"right"}
    assert student.cells[2].source == "my_share = ..."


def with_source(place, source):
    notebook = made_notebook()
    notebook.cells[place].source = source
    return notebook


def with_output(**output):
    notebook = made_notebook()
    notebook.cells[-1].outputs = [new_output(**output)]
    return notebook


SOLUTION = "    return scores.masked_fill(~mask, -math.inf).softmax(-1)"


@pytest.mark.parametrize(
    ("notebook", "words"),
    [
        (with_source(2, "my_ceiling = 0.5"), "ceiling: the exercise cell differs from the stub"),
        (with_source(2, "ceiling = ..."), "0 cells tagged 'exercise' bind my_ceiling"),
        (with_source(3, "my_ceiling = 1\nex.ceiling.check(my_ceiling)"), "bind it in the exercise cell only"),
        (with_source(3, "ceiling = 1"), "no cell calls .ceiling.check(my_ceiling)"),
        (with_source(0, "Answer:\n\n    my_ceiling = math.log(2)"), "ceiling: the solution stands in the student notebook"),
        (with_source(1, f"def softmax(scores, mask):\n{SOLUTION}"), "softmax: the solution stands"),
        (with_output(output_type="stream", text=f"Solution\n{SOLUTION}\n"), "softmax: the solution stands"),
        (with_output(output_type="display_data", data={"text/html": f"<pre>\n{SOLUTION}\n</pre>"}), "softmax: the solution stands"),
        (
            with_output(output_type="display_data", data={"text/html": "<pre><code>my_control = &#x27;average&#x27;</code></pre>"}),
            "control",
        ),
    ],
)
def test_what_is_wrong_in_a_student_notebook_is_found(notebook, words):
    found = problems(notebook, "made_lesson")
    assert len(found) == 1
    assert words in found[0]


def test_a_tagged_cell_without_an_exercise_is_refused():
    notebook = made_notebook()
    notebook.cells.append(new_code_cell("my_other = ...", metadata={"tags": ["exercise"]}))
    with pytest.raises(ExerciseError, match="belongs to no exercise of lesson made_lesson: 'my_other"):
        solve(notebook, "made_lesson")
