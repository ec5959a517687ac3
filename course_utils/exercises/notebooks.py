"""Exercises and the notebooks they stand in: put the solutions in, and find what does not fit.

A notebook is what `nbformat.read(path, as_version=4)` gives. This module does without nbformat itself: its import takes
seconds, and every lesson imports the room.
"""

import copy
import html
import re

from course_utils.errors import ExerciseError
from course_utils.exercises.exercise import Exercise, assigned_names
from course_utils.exercises.lesson import Lesson, load

TAG = "exercise"


def solve(notebook: dict, lesson: str) -> dict:
    """A copy of a lesson in which every cell tagged `exercise` holds the solution in place of the stub; outputs are kept.

    Raises:
        ExerciseError: a tagged cell belongs to no exercise, or an exercise has no tagged cell or several.
    """
    solved = copy.deepcopy(notebook)
    for exercise, cell in _exercise_cells(solved, load(lesson)):
        cell["source"] = exercise.solution
    return solved


def problems(notebook: dict, lesson: str) -> list[str]:
    """What is wrong with the exercises of a student notebook, one sentence each; empty when all is well.

    Every exercise must have one cell tagged `exercise` that holds exactly its stub, no other cell may bind the student's name,
    some cell must check it, and no cell or output may hold its solution.
    """
    try:
        cells = _exercise_cells(notebook, load(lesson))
    except ExerciseError as error:
        return [str(error)]
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found = []
    for exercise, cell in cells:
        if cell["source"].strip() != exercise.stub:
            found.append(f"{exercise.key}: the exercise cell differs from the stub; copy the stub of the exercise into it")
        if any(other is not cell and exercise.name in _names(other["source"]) for other in code):
            found.append(f"{exercise.key}: {exercise.name} is the student's name; bind it in the exercise cell only")
        if not any(f".{exercise.key}.check({exercise.name})" in other["source"] for other in code):
            found.append(f"{exercise.key}: no cell calls .{exercise.key}.check({exercise.name})")
        if any(_shows_solution(text, exercise) for other in notebook["cells"] for text in _texts(other)):
            found.append(f"{exercise.key}: the solution stands in the student notebook")
    return found


def _exercise_cells(notebook: dict, lesson: Lesson) -> list[tuple[Exercise, dict]]:
    """Each exercise with its cell, in the order of the lesson's EXERCISES."""
    tagged = [cell for cell in notebook["cells"] if TAG in cell["metadata"].get("tags", [])]
    pairs = []
    for exercise in lesson.exercises:
        cells = [cell for cell in tagged if exercise.name in _names(cell["source"])]
        if len(cells) != 1:
            raise ExerciseError(
                f"{exercise.key}: {len(cells)} cells tagged {TAG!r} bind {exercise.name}; there must be exactly one"
            )
        pairs.append((exercise, cells[0]))
    strays = [cell["source"] for cell in tagged if not any(cell is used for _, used in pairs)]
    if strays:
        raise ExerciseError(f"a cell tagged {TAG!r} belongs to no exercise of lesson {lesson.name}: {strays[0][:60]!r}")
    return pairs


def _names(source: str) -> set[str]:
    try:
        return assigned_names(source)
    except SyntaxError:
        return set()


def _shows_solution(text: str, exercise: Exercise) -> bool:
    """Whether all lines that the solution adds to the stub stand in a text, whatever their indentation and order."""
    added = _lines(exercise.solution) - _lines(exercise.stub)
    return bool(added) and added <= _lines(text)


def _lines(text: str) -> set[str]:
    stripped = (line.strip() for line in text.splitlines())
    return {line for line in stripped if line and not line.startswith("#")}


def _texts(cell: dict) -> list[str]:
    """Source and textual outputs of a cell."""
    texts = [cell["source"]]
    for output in cell.get("outputs", []):
        texts.append(output.get("text", ""))
        for kind, data in output.get("data", {}).items():
            if kind == "text/html":
                data = html.unescape(re.sub(r"<[^>]*>", "\n", data))
            texts.append(data if kind.startswith("text/") else "")
    return texts
