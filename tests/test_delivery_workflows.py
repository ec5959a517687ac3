"""The workflows are valid YAML and call only what exists: a command or file that was renamed fails here, not on the server."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from tools import course, lessons

WORKFLOWS = [*sorted((course.ROOT / ".github" / "workflows").glob("*.yml")), course.ROOT / "docs" / "adopting" / "course-ci.yml"]
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
SHELL = {"echo", "diff", "gh", "if", "else", "fi"}


def read(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def scripts(path: Path) -> list[str]:
    """The text of every `run:` step."""
    return [step["run"] for job in read(path)["jobs"].values() for step in job["steps"] if "run" in step]


def wrong(script: str) -> list[str]:
    """What a script calls and the course does not have; [] when all is there."""
    found = []
    for line in script.strip().splitlines():
        words = shlex.split(re.sub(r"^\w+=(?!\$\().*", "", line.strip()))  # an assignment of text calls nothing
        words = shlex.split(words[0].partition("=$(")[2]) if words and "=$(" in words[0] else words
        match words:
            case []:
                pass
            case [".ci/run"]:
                found += [] if os.access(course.ROOT / ".ci" / "run", os.X_OK) else [".ci/run is not executable"]
            case [".venv/bin/python", "-m", "pip", *_]:
                pass
            case ["python", "tools/course.py", command, *names]:
                found += [] if command in course.COMMANDS else [f"course.py has no command {command}"]
                if command == "test":
                    found += [f"there is no {name}" for name in names if not list(course.ROOT.glob(name))]
                else:
                    found += [f"there is no lesson {name}" for name in names if not list(lessons.NOTEBOOKS.glob(f"{name}*.ipynb"))]
            case [first, *_]:
                found += [] if first in SHELL else [f"unknown command {first}"]
    return found


@each_workflow
def test_workflow_has_what_the_server_needs(path):
    workflow = read(path)
    assert workflow["name"] and workflow[True]  # YAML reads the key `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])
        assert all(re.fullmatch(r"[\w/-]+@v\d+", step["uses"]) for step in job["steps"] if "uses" in step)


@each_workflow
def test_every_command_exists(path):
    assert [problem for script in scripts(path) for problem in wrong(script)] == []


@each_workflow
def test_scripts_are_valid_shell(path):
    for script in scripts(path):
        plain = re.sub(r"\$\{\{.*?\}\}", "value", script)
        done = subprocess.run(["bash", "-n"], input=plain, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("python tools/course.py tset", "course.py has no command tset"),
        ("python tools/course.py test tests/test_gone.py", "there is no tests/test_gone.py"),
        ("python tools/course.py run 99", "there is no lesson 99"),
        ("make everything", "unknown command make"),
    ],
)
def test_a_command_that_does_not_exist_is_seen(script, problem):
    assert wrong(script) == [problem]


def test_the_checks_of_a_push_are_the_checks_of_everyone():
    """One definition: `.ci/run` calls `make test`, and the Makefile calls course.py."""
    assert ".ci/run" in scripts(WORKFLOWS[0])
    assert "\nmake test\n" in (course.ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_nightly_run_takes_the_newest_versions(monkeypatch):
    monkeypatch.setenv("LOCK", read(course.ROOT / ".github" / "workflows" / "nightly.yml")["jobs"]["newest"]["env"]["LOCK"])
    assert course.locked_options() == []


def test_the_workflows_python_is_supported():
    text = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    versions = re.findall(r"python(?:-version)?: ?\"?(\d+)\.(\d+)", text)
    assert len(versions) >= 4
    assert all(tuple(map(int, version)) >= course.OLDEST_PYTHON for version in versions)
