"""What the first cell of every lesson does: install what is missing on Colab, and say what the lesson runs on."""

import functools
import importlib
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from course_utils.errors import CourseError
from course_utils.paths import ROOT

QUIET = "COURSE_QUIET"  # set while lessons are built and compared: a progress bar would be stored as if it were a result
FRONT_END = {"jupyterlab"}  # Colab has its own


class RestartNeeded(CourseError):
    """A package was updated after an older version had been imported."""


def ready() -> None:
    """Make the lesson runnable and print versions and device.

    Outside Colab nothing is installed: there `make lab` did it.

    Raises:
        RestartNeeded: on Colab, when a loaded package had to be replaced. Restart the session and run the cell again.
        CourseError: on Colab, when the install failed.
    """
    if on_colab():
        wanted = requirements()
        install_missing(wanted)
        if stale := replaced(wanted):
            raise RestartNeeded(
                f"{', '.join(stale)} was updated while in use: choose Runtime > Restart session, then run this cell again"
            )
    if os.environ.get(QUIET):
        hide_progress_bars()
    print(describe())


def on_colab() -> bool:
    return bool(importlib.util.find_spec("google") and importlib.util.find_spec("google.colab"))


def requirements(path: Path = ROOT / "requirements.txt") -> list[Requirement]:
    """The course's packages with their floors, without the notebook front end."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [requirement for line in lines if line and (requirement := Requirement(line)).name not in FRONT_END]


def install_missing(wanted: Iterable[Requirement], pip: Callable[[list[str]], int] | None = None) -> list[str]:
    """Install what is absent or older than its floor; every package that satisfies its floor stays as it is.

    Args:
        wanted: packages with their floors.
        pip: runs pip with these arguments and returns its exit status.
    Returns:
        the requirements that were installed, as text.
    Raises:
        CourseError: pip failed.
    """
    wanted = list(wanted)
    found = {requirement.name: installed_version(requirement.name) for requirement in wanted}
    missing = [r for r in wanted if found[r.name] is None or not r.specifier.contains(found[r.name], prereleases=True)]
    if not missing:
        return []
    names = [str(requirement) for requirement in missing]
    print(f"installing {', '.join(names)}", flush=True)
    kept = [f"{r.name}=={found[r.name]}" for r in wanted if r not in missing]
    with tempfile.TemporaryDirectory() as folder:
        constraint = Path(folder, "keep.txt")
        constraint.write_text("\n".join(kept), encoding="utf-8")
        if (pip or run_pip)(["install", "--quiet", "--constraint", str(constraint), *names]):
            raise CourseError(f"pip could not install {', '.join(names)}; its message above says why")
    importlib.invalidate_caches()
    return names


def replaced(wanted: Iterable[Requirement]) -> list[str]:
    """Packages that are loaded in another version than the installed one, as far as their modules tell a version.

    Comparing the two, instead of remembering an update, stays true when the cell is run again without a restart.
    """
    modules = defaultdict(list)
    for module, distributions in metadata.packages_distributions().items():
        for distribution in distributions:
            modules[distribution].append(sys.modules.get(module))
    names = []
    for requirement in wanted:
        loaded = {getattr(module, "__version__", None) for module in modules[requirement.name]} - {None}
        if loaded and not any(same_release(version, installed_version(requirement.name)) for version in loaded):
            names.append(requirement.name)
    return names


def same_release(one: str, other: str) -> bool:
    """Whether two versions differ at most in their build tag: 2.9 and 2.9.0+cu126 are one release."""
    return Version(Version(one).public) == Version(Version(other).public)


def run_pip(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pip", *arguments], check=False).returncode


def installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def hide_progress_bars() -> None:
    """Switch off tqdm's bars in notebooks, for this process; tqdm has no setting for it."""
    from tqdm.notebook import tqdm_notebook

    tqdm_notebook.__init__ = functools.partialmethod(tqdm_notebook.__init__, disable=True)


def describe() -> str:
    """One line: Python, the libraries that decide about results, the device and the number of cores."""
    import torch

    versions = " · ".join(f"{name} {metadata.version(name)}" for name in ("torch", "transformers", "numpy"))
    return (
        f"Python {platform.python_version()} · {versions} · {device()} · {os.cpu_count()} cores, {torch.get_num_threads()} threads"
    )


def device() -> str:
    """The fastest device that torch can use here: "cuda", "mps" or "cpu"."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
