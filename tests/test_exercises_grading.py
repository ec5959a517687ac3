"""The grader on submissions of every kind: it believes its own checks only, and a bad one costs no more than its own row."""

import os
import time

import nbformat
import pandas as pd
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from course_utils.errors import ExerciseError
from course_utils.exercises import submission
from course_utils.exercises.grading import grade, main
from course_utils.exercises.submission import Limits, grade_notebook

SETUP = 'from course_utils import exercises\nfrom course_utils.exercises import load\nex = exercises.load("plain_lesson")'
SHARE, NORMALISE = "my_share = 0.25", "def my_normalise(weights):\n    return [w / sum(weights) for w in weights]"
WRONG_SHARE, EMPTY_SHARE = "my_share = 25", "my_share = ..."
EMPTY_NORMALISE = 'def my_normalise(weights):\n    """Weights divided by their sum."""\n    ...'
CHECK_SHARE, CHECK_NORMALISE = "share = ex.share.check(my_share).value", "normalise = ex.normalise.check(my_normalise).value"
CHEAT = """import course_utils.exercises.compare as compare
import course_utils.exercises.exercise as course
compare.difference = lambda *arguments: None
course.Exercise.evaluate = lambda self, answer: course.Result(self, answer, course.Outcome.RIGHT, "")
print('{"event": "outcome", "key": "share", "outcome": "right", "message": ""}')"""

SUBMISSIONS = {
    "right": [SETUP, SHARE, CHECK_SHARE, NORMALISE, CHECK_NORMALISE],
    "wrong": [SETUP, WRONG_SHARE, CHECK_SHARE, "def my_normalise(weights):\n    return weights / 0", CHECK_NORMALISE],
    "unsolved": [SETUP, EMPTY_SHARE, CHECK_SHARE, EMPTY_NORMALISE, CHECK_NORMALISE, "assert normalise([2, 2]) == [share * 2] * 2"],
    "checks_deleted": [SHARE, NORMALISE],
    "checks_edited": [SETUP, CHEAT, WRONG_SHARE, 'print("[Right] A share")', EMPTY_NORMALISE, CHECK_NORMALISE],
    "takes_the_reference": [SETUP, EMPTY_SHARE, "my_share = ex.share.check(my_share).value", NORMALISE],
    "check_in_the_same_cell": [SETUP, f"{SHARE}\n{CHECK_SHARE}", f"{NORMALISE}\n{CHECK_NORMALISE}"],
    "raises": [SETUP, "1 / 0", SHARE, CHECK_SHARE, "def broken(:", NORMALISE],
    "helper_comes_later": [SETUP, SHARE, "def my_normalise(w):\n    return helper(w)", NORMALISE.replace("my_normalise", "helper")],
    "deletes_the_answer": [SETUP, SHARE, "del my_share", NORMALISE],
    "empty": [],
    "crashes": [SHARE, "import os\nos._exit(3)", NORMALISE],
    "asks": [SHARE, "name = input()", NORMALISE],
    "with_magics": ["%matplotlib inline", "!true", SHARE, "await __import__('asyncio').sleep(0)", NORMALISE],
    "=cmd('x')": [WRONG_SHARE, "raise ValueError('<script>alert(1)</script>')"],
}
ORPHAN = f"orphan-of-{os.getpid()}"
ENDLESS = {
    "hangs": [SHARE, "while True: pass", NORMALISE],
    "hangs_when_checked": [SHARE, "def my_normalise(weights):\n    while True: pass"],
    "prints": [SHARE, "while True: print('x' * 1000)"],
    "memory": [SHARE, "block = bytearray(b'1') * 900_000_000\nimport time\ntime.sleep(60)"],
    "leaves_a_child": [
        SHARE,
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(600)', '" + ORPHAN + "'])",
    ],
    "right": [SHARE, NORMALISE],
}


def write(folder, submissions):
    for name, cells in submissions.items():
        nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells]), folder / f"{name}.ipynb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("submissions")
    write(folder, SUBMISSIONS)
    (folder / "garbage.ipynb").write_text("not a notebook", encoding="utf-8")
    (folder / "group" / ".ipynb_checkpoints").mkdir(parents=True)
    write(folder / "group", {"right": SUBMISSIONS["right"]})
    write(folder / "group" / ".ipynb_checkpoints", {"right-checkpoint": SUBMISSIONS["right"]})
    return folder


@pytest.fixture(scope="module")
def grades(folder):
    return grade(folder, "plain_lesson", jobs=2).set_index("student")


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    folder = tmp_path_factory.mktemp("endless")
    write(folder, ENDLESS)
    start = time.monotonic()
    frame = grade(folder, "plain_lesson", timeout=4, memory_mb=600, output_kb=300, jobs=3).set_index("student")
    return frame, time.monotonic() - start


@pytest.mark.parametrize(
    ("student", "status", "share", "normalise"),
    [
        ("right", "finished", "right", "right"),
        ("group/right", "finished", "right", "right"),
        ("wrong", "finished", "wrong", "wrong"),
        ("unsolved", "finished", "not tried yet", "not tried yet"),
        ("checks_deleted", "finished", "right", "right"),
        ("checks_edited", "finished", "wrong", "not tried yet"),
        ("takes_the_reference", "finished", "not tried yet", "right"),
        ("check_in_the_same_cell", "finished", "right", "right"),
        ("raises", "errors", "right", "right"),
        ("helper_comes_later", "finished", "right", "right"),
        ("deletes_the_answer", "finished", "right", "right"),
        ("empty", "finished", "not tried yet", "not tried yet"),
        ("crashes", "ended early", "right", "not reached"),
        ("asks", "errors", "right", "right"),
        ("with_magics", "finished", "right", "right"),
        ("=cmd('x')", "errors", "wrong", "not tried yet"),
    ],
)
def test_each_submission_gets_what_it_deserves(grades, student, status, share, normalise):
    row = grades.loc[student]
    assert (row.status, row.plain_lesson_share, row.plain_lesson_normalise) == (status, share, normalise), row.first_error
    assert row.solved == [share, normalise].count("right")
    assert row.exercises == 2


def test_a_file_that_is_no_notebook_costs_its_own_row(grades):
    assert grades.loc["garbage"].status == "unreadable"
    assert grades.loc["garbage"].solved == 0
    assert len(grades) == len(SUBMISSIONS) + 2


def test_errors_say_where(grades):
    assert grades.loc["raises"].first_error == "cell 2: ZeroDivisionError: division by zero"
    assert grades.loc["crashes"].first_error.startswith("Python ended in cell 2")


def test_the_csv_holds_the_table_and_no_formula(folder, grades):
    table = pd.read_csv(folder / "grades" / "grades.csv", keep_default_na=False)
    assert list(table.solved) == list(grades.solved)
    assert "'=cmd('x')" in set(table.student)
    assert not any(str(value).startswith("=") for value in table.to_numpy().ravel())


def test_each_student_gets_a_report(folder, grades):
    reports = folder / "grades"
    assert {path.stem for path in reports.glob("*.html")} == {student.replace("/", "__") for student in grades.index}
    wrong = (reports / "wrong.html").read_text(encoding="utf-8")
    assert "0 of 2 exercises solved" in wrong
    assert "asked for is a share between 0 and 1" in wrong
    assert "ZeroDivisionError" in wrong or "TypeError" in wrong
    hostile = (reports / "=cmd('x').html").read_text(encoding="utf-8")
    assert "<script>" not in hostile
    assert "&lt;script&gt;" in hostile


def test_submissions_are_left_as_they_were(folder, grades):
    left = {path.name for path in folder.iterdir()}
    assert left == {f"{name}.ipynb" for name in SUBMISSIONS} | {"garbage.ipynb", "group", "grades"}


@pytest.mark.parametrize(
    ("student", "status", "share", "normalise", "where"),
    [
        ("hangs", "time", "right", "not reached", "the limit of time was reached in cell 2"),
        (
            "hangs_when_checked",
            "time",
            "right",
            "not reached",
            "the limit of time was reached while the answer to normalise was checked",
        ),
        ("prints", "output", "right", "not reached", "the limit of output was reached in cell 2"),
        ("memory", "memory", "right", "not reached", "the limit of memory was reached in cell 2"),
        ("leaves_a_child", "time", "right", "not reached", "the limit of time was reached in cell 2"),
        ("right", "finished", "right", "right", ""),
    ],
)
def test_what_does_not_end_is_ended(endless, student, status, share, normalise, where):
    row = endless[0].loc[student]
    assert (row.status, row.plain_lesson_share, row.plain_lesson_normalise, row.first_error) == (status, share, normalise, where)


def test_ending_is_quick_and_complete(endless):
    assert endless[1] < 120
    mine = psutil.Process(os.getpid()).children(recursive=True)
    orphans = [process for process in psutil.process_iter(["cmdline"]) if ORPHAN in (process.info["cmdline"] or [])]
    assert not orphans
    assert not [child for child in mine if "course_utils.exercises.worker" in " ".join(child.cmdline())]


def test_the_lesson_is_found_in_the_notebook_or_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "available", lambda: ["08"])
    assert submission._lesson_of(tmp_path / "mary.ipynb", 'ex = exercises.load("08")') == "08"
    assert submission._lesson_of(tmp_path / "08_adversarial.ipynb", "") == "08"
    assert submission._lesson_of(tmp_path / "2026_mary.ipynb", "") is None
    assert submission._lesson_of(tmp_path / "09_defence.ipynb", "") is None


def test_an_unknown_lesson_costs_its_own_row(tmp_path):
    write(tmp_path, {"mary": [SHARE]})
    assert grade_notebook(tmp_path / "mary.ipynb", limits=Limits()).status == "lesson unknown"


def test_the_command_line(tmp_path, capsys):
    write(tmp_path, {"mary": SUBMISSIONS["right"]})
    assert main([str(tmp_path), "--lesson", "plain_lesson", "--out", str(tmp_path / "marks")]) == 0
    assert "mary" in capsys.readouterr().out
    assert (tmp_path / "marks" / "grades.csv").exists()


def test_a_folder_without_notebooks(tmp_path, capsys):
    with pytest.raises(ExerciseError, match="is not a folder"):
        grade(tmp_path / "nowhere")
    assert main([str(tmp_path)]) == 2
    assert "holds no notebook" in capsys.readouterr().err
