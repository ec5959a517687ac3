"""Binder builds the course from `binder/`: the locked versions, torch's CPU build, nothing that waits for a network at start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import course

BINDER = course.ROOT / "binder"


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def dockerfile() -> str:
    """What repo2docker would build from the course; it parses binder/ and needs no Docker for that."""
    pytest.importorskip("repo2docker", reason="repo2docker does not run on this system")
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."]
    done = subprocess.run(command, cwd=course.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def test_the_lock_is_the_only_list_of_versions():
    """The requirements refer to the lock, so that the two cannot differ."""
    index, constraint, package = lines(BINDER / "requirements.txt")
    assert index == f"--extra-index-url {course.DEFAULT_TORCH_INDEX}"
    option, path = constraint.split()
    assert option == "-c" and (BINDER / path).resolve() == course.ROOT / "requirements.lock"
    assert package == "-e ."


def test_every_package_a_student_needs_is_pinned():
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    pinned = {canonicalize_name(line.split("==")[0]) for line in lines(course.ROOT / "requirements.lock")}
    wanted = {canonicalize_name(Requirement(line).name) for line in lines(course.ROOT / "requirements.txt")}
    assert wanted - pinned == set()


def test_pip_prefers_the_cpu_build():
    """Both indices are asked for the locked version; the build with a tag sorts above the one without."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    locked = Version(course.locked_torch().partition("==")[2])
    cpu = Version(f"{locked}+cpu")
    assert cpu > locked and cpu in SpecifierSet(f"=={locked}")


def test_repo2docker_takes_the_folder(dockerfile):
    assert 'pip install --no-cache-dir -r "binder/requirements.txt"' in dockerfile
    assert "RUN ./binder/postBuild" in dockerfile
    assert "binder/start" in dockerfile
    assert f"python={lines(BINDER / 'runtime.txt')[0].removeprefix('python-')}" in dockerfile


def test_the_repository_is_there_before_the_install(dockerfile):
    """The install needs the lock and the package, which are not among the files copied first."""
    assert dockerfile.index("COPY --chown=0:0 src/ ") < dockerfile.index('-r "binder/requirements.txt"')


def test_python_is_one_the_course_supports():
    (runtime,) = lines(BINDER / "runtime.txt")
    version = tuple(map(int, runtime.removeprefix("python-").split(".")))
    assert version >= course.OLDEST_PYTHON


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_scripts_run(name):
    path = BINDER / name
    assert os.access(path, os.X_OK)
    assert path.read_bytes().startswith(b"#!/usr/bin/env bash\n") and b"\r" not in path.read_bytes()
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0


def test_start_passes_on_its_command_offline():
    shown = "import os; print(os.environ['HF_HUB_OFFLINE'], os.environ['OMP_NUM_THREADS'])"
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run([BINDER / "start", sys.executable, "-c", shown], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "2"], done.stderr


def test_a_host_that_sets_the_threads_is_obeyed():
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    command = [BINDER / "start", sys.executable, "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"]
    assert subprocess.run(command, env=environment, capture_output=True, text=True).stdout == "1\n"


def test_a_broken_image_is_not_built(tmp_path):
    """postBuild ends with an error when the doctor finds something to mend."""
    for name, body in {"python": '[ "$2" = course_utils ] && exit 1; exit 0', "jupyter": "exit 0"}.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    assert subprocess.run([BINDER / "postBuild"], cwd=tmp_path, env=environment, capture_output=True).returncode == 1
