"""The commands install once, never stall, and fail when a check fails."""

import socket
import sys
import time

import pytest

from tools import course


@pytest.fixture
def project(tmp_path):
    for name in course.INPUTS:
        (tmp_path / name).write_text(name)
    (tmp_path / ".venv").mkdir()
    return tmp_path


def stamp(project, level):
    (project / ".venv" / f".course-{level}").write_text(course.fingerprint(project))


def is_installed(project, level):
    return course.installed(level, project / ".venv", project)


def test_installed_once_and_again_after_a_change(project):
    assert not is_installed(project, "lab")
    stamp(project, "lab")
    assert is_installed(project, "lab")
    assert not is_installed(project, "dev")
    (project / "requirements.lock").write_text("torch==9")
    assert not is_installed(project, "lab")


def test_dev_includes_lab(project):
    stamp(project, "dev")
    assert is_installed(project, "lab")


def test_another_lock_is_another_environment(project, monkeypatch):
    stamp(project, "dev")
    monkeypatch.setenv("LOCK", "")
    assert not is_installed(project, "dev")
    assert course.locked_options() == []


def test_an_old_python_is_refused_in_words(monkeypatch, capsys):
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert course.main(["test"]) == 1
    assert "needs Python 3.11" in capsys.readouterr().err


def test_a_source_that_never_answers_costs_its_time_limit():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started = time.perf_counter()
        assert not course.reachable(f"http://127.0.0.1:{silent.getsockname()[1]}", seconds=0.3)
        assert time.perf_counter() - started < 2


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "no address"])
def test_a_source_that_is_not_there(address):
    assert not course.reachable(address, seconds=2)


@pytest.fixture
def calls(monkeypatch):
    """Commands that would have run; the machine is a Linux without GPU and torch."""
    made = []
    monkeypatch.setattr(course, "call", lambda *command, **_: made.append(command) or 0)
    monkeypatch.setattr(course, "has_torch", lambda: False)
    monkeypatch.setattr(course.shutil, "which", lambda _: None)
    monkeypatch.setattr(course.sys, "platform", "linux")
    monkeypatch.setattr(course, "reachable", lambda _: True)
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    return made


def test_cpu_torch_from_its_index_at_the_locked_version(calls):
    course.install_cpu_torch()
    (command,) = calls
    assert command[-2:] == (course.DEFAULT_TORCH_INDEX, course.locked_torch())
    assert course.locked_torch().startswith("torch==") and "+" not in course.locked_torch()


@pytest.mark.parametrize("reason", ["gpu", "emptied", "there already", "unreachable", "mac"])
def test_no_cpu_torch(calls, monkeypatch, capsys, reason):
    if reason == "gpu":
        monkeypatch.setattr(course.shutil, "which", lambda _: "/usr/bin/nvidia-smi")
    elif reason == "emptied":
        monkeypatch.setenv("TORCH_INDEX", "")
    elif reason == "there already":
        monkeypatch.setattr(course, "has_torch", lambda: True)
    elif reason == "unreachable":
        monkeypatch.setattr(course, "reachable", lambda _: False)
    else:
        monkeypatch.setattr(course.sys, "platform", "darwin")
    course.install_cpu_torch()
    assert calls == []
    assert ("cannot be reached" in capsys.readouterr().out) == (reason == "unreachable")


def test_one_failing_check_fails_all_and_the_rest_still_runs(monkeypatch, capsys):
    made = []
    monkeypatch.setattr(course, "call", lambda *command, **_: made.append(command) or int("format" in command))
    assert course.test([]) == 1
    assert any("pytest" in command for command in made)
    assert "FAILED: ruff format" in capsys.readouterr().out


def test_named_files_are_tested_alone(monkeypatch):
    made = []
    monkeypatch.setattr(course, "call", lambda *command, **_: made.append(command) or 0)
    assert course.test(["tests/test_setup.py"]) == 0
    assert course.test(["notebooks/00_start_here.ipynb"]) == 0
    (first, second) = made
    assert first[-1] == "tests/test_setup.py" and "--nbval" not in first
    assert second[-1] == "notebooks/00_start_here.ipynb" and "--nbval" in second and "tests" not in second


def test_pins_leave_out_builds_and_gpu_libraries():
    found = {
        "torch": "2.13.0+cpu",
        "nvidia-cublas": "13.1",
        "cuda-toolkit": "13",
        "triton": "3",
        "Jinja2": "3.1.6",
        "course-utils": "0.1",
    }
    report = {"install": [{"metadata": {"name": name, "version": version}} for name, version in found.items()]}
    assert course.pinned(report) == ["Jinja2==3.1.6", "torch==2.13.0"]


def test_lock_satisfies_every_floor():
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (course.ROOT / "requirements.lock").read_text().splitlines()
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines if "==" in line)}
    floors = [Requirement(line) for line in (course.ROOT / "requirements.txt").read_text().splitlines() if line and line[0] != "#"]
    assert [str(r) for r in floors if not r.specifier.contains(pins[canonicalize_name(r.name)])] == []
    assert [str(r) for r in floors if any(s.operator != ">=" for s in r.specifier)] == []


def test_what_the_lock_names_installs_on_the_oldest_python():
    """Debian 12 has Python 3.11.2, and some releases ask for a later patch of the same minor version."""
    from importlib.metadata import distributions

    from packaging.specifiers import SpecifierSet

    pins = (course.ROOT / "requirements.lock").read_text().splitlines()
    oldest = ".".join(map(str, course.OLDEST_PYTHON)) + ".0"
    asked = {
        pin: found.metadata.get("Requires-Python") or ""
        for found in distributions()
        if (pin := f"{found.name}=={found.version}") in pins
    }
    assert len(asked) > 100
    assert {pin: rule for pin, rule in asked.items() if not SpecifierSet(rule).contains(oldest)} == {}
