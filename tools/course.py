"""The course's commands on every system, `python tools/course.py lab` (test, run, notebooks, site, lock); the Makefile calls them.

Only the standard library is used, because this file creates the environment that holds everything else. It installs into
`.venv` once and again only when a requirements file changed.

Environment variables: TORCH_INDEX is where Linux without an NVIDIA GPU gets torch's CPU build (empty: the default index);
LOCK is the file of exact versions (empty: the newest ones that the floors allow).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST_PYTHON = (3, 11)
PROBE_SECONDS = 5
DEFAULT_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
INPUTS = ("pyproject.toml", "requirements.txt", "requirements.lock")
EXTRAS = {"lab": "", "dev": "[dev]"}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="course.py", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("names", nargs="*", help="lessons, for run and notebooks; test files or notebooks, for test (default: all)")
    chosen = parser.parse_args(arguments)
    if sys.version_info < OLDEST_PYTHON:
        return complain(f"the course needs Python 3.11 or newer, and this is {sys.version.split()[0]}; install one from python.org")
    level = "lab" if chosen.command == "lab" else "dev"
    return install(level) or COMMANDS[chosen.command](chosen.names)


def complain(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


def python() -> str:
    """The environment's interpreter."""
    return str(VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def call(*command: str, **environment: str) -> int:
    """Exit status of a command run in the course's folder; what it prints is shown."""
    sys.stdout.flush()
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False).returncode


# --- the environment


def fingerprint(root: Path = ROOT) -> str:
    """Changes whenever another install could give another environment."""
    digest = hashlib.sha256(f"{root} {sys.version_info[:2]} {os.environ.get('LOCK')}".encode())
    for name in INPUTS:
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def installed(level: str, venv: Path = VENV, root: Path = ROOT) -> bool:
    """Whether the environment already holds this level; "dev" includes "lab"."""
    levels = ("dev", "lab") if level == "lab" else ("dev",)
    stamps = (venv / f".course-{name}" for name in levels)
    return any(stamp.is_file() and stamp.read_text() == fingerprint(root) for stamp in stamps)


def install(level: str) -> int:
    """Create `.venv` and install, unless that was done already."""
    if installed(level):
        return 0
    print(f"installing the course into {VENV} (once, a few minutes)", flush=True)
    if not works(python()) and call(sys.executable, "-m", "venv", "--clear", str(VENV)):
        return complain("the environment could not be created; on Debian or Ubuntu: apt-get install python3-venv")
    constraint = locked_options()
    install_cpu_torch()
    if call(python(), *PIP, "install", "--quiet", *constraint, "--editable", f".{EXTRAS[level]}"):
        return complain("the install failed; pip's message above says why. Run the same command again to continue.")
    (VENV / f".course-{level}").write_text(fingerprint())
    return 0


PIP = ("-m", "pip", "--disable-pip-version-check")


def locked_options() -> list[str]:
    lock = os.environ.get("LOCK", "requirements.lock")
    return ["--constraint", lock] if lock else []


def works(interpreter: str) -> bool:
    try:
        return subprocess.run([interpreter, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def install_cpu_torch() -> None:
    """On Linux the default index gives a torch of several GB for NVIDIA GPUs; without such a GPU take the CPU build.

    Where its source cannot be reached, torch comes with everything else from the default index.
    """
    index = os.environ.get("TORCH_INDEX", DEFAULT_TORCH_INDEX)
    if not index or sys.platform != "linux" or shutil.which("nvidia-smi") or has_torch():
        return
    if not reachable(index):
        print(f"{index} cannot be reached: torch comes from the default index", flush=True)
        return
    torch = locked_torch() if locked_options() else "torch"
    if call(python(), *PIP, "install", "--quiet", "--no-deps", "--retries", "1", "--index-url", index, torch):
        print(f"{torch} could not be installed from {index}: it comes from the default index", flush=True)


def has_torch() -> bool:
    return subprocess.run([python(), *PIP, "show", "--quiet", "torch"], capture_output=True, check=False).returncode == 0


def locked_torch() -> str:
    return re.search(r"^torch==.*$", (ROOT / "requirements.lock").read_text(), re.MULTILINE).group()


def reachable(url: str, seconds: float = PROBE_SECONDS) -> bool:
    """Whether the address answers in time. A thread, because looking up a name obeys no time limit."""
    answers = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(url.rstrip("/") + "/torch/", timeout=seconds) as response:
                answers.append(response.status)
        except (OSError, ValueError):
            pass

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return bool(answers)


def pinned(report: dict) -> list[str]:
    """`name==version` of everything pip would install, sorted, without build tags and what only a GPU build of torch brings."""
    found = ((item["metadata"]["name"], item["metadata"]["version"]) for item in report["install"])
    gpu = re.compile(r"(nvidia|cuda|triton)\b", re.IGNORECASE)
    return sorted(
        (f"{name}=={version.partition('+')[0]}" for name, version in found if not gpu.match(name) and name != "course-utils"),
        key=str.lower,
    )


# --- the commands


def lab(_: list[str]) -> int:
    first = next(iter(sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))), ROOT / "notebooks")
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # a container
    return call(python(), "-m", "jupyter", "lab", *as_root, str(first))


def test(names: list[str]) -> int:
    """All checks, or with names only these test files and notebooks. Each runs also after one failed; the last line names those."""
    nbval = ("--nbval", "--nbval-current-env", "--nbval-sanitize-with=tests/nbval_sanitize.cfg", "--nbval-cell-timeout=120")
    lessons = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    notebooks = [name for name in names if name.endswith(".ipynb")] if names else lessons
    tests = [name for name in names if name not in notebooks] if names else ["tests"]
    checks = {}
    if not names:
        checks["ruff check"] = ("ruff", "check", ".")
        checks["ruff format"] = ("ruff", "format", "--check", ".")
    if tests:
        checks["pytest"] = ("pytest", "-n", "2", "--dist", "worksteal", *tests)
    if notebooks:
        checks["nbval"] = ("pytest", *nbval, "-n", "2", "--dist", "loadfile", *notebooks)
    one_thread = {"OMP_NUM_THREADS": "1"}  # two workers already keep two cores busy
    failed = [name for name, command in checks.items() if call(python(), "-m", *command, **one_thread)]
    print(f"FAILED: {', '.join(failed)}" if failed else f"passed: {', '.join(checks)}")
    return int(bool(failed))


def run(names: list[str]) -> int:
    return call(python(), "-m", "tools.run_lessons", *names)


def notebooks(names: list[str]) -> int:
    return call(python(), "-m", "tools.build_lessons", *names)


def site(_: list[str]) -> int:
    return call(python(), "-m", "tools.site")


def lock(_: list[str]) -> int:
    """Write the newest versions that the floors and the oldest Python allow to requirements.lock.

    torch keeps its version: it moves by editing its line, once its new CPU build is tried on every system.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        resolve = (
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(report),
            "--python-version",
            ".".join(map(str, OLDEST_PYTHON)),
            "--only-binary=:all:",
            "--target",
            str(Path(folder, "unused")),
            ".[dev,hub]",
            locked_torch(),
        )
        if call(python(), *PIP, *resolve):
            return 1
        pins = pinned(json.loads(report.read_text()))
    header = "# Exact versions for a class, CI and Binder, used as pip's constraint. Written by `make lock`; do not edit."
    (ROOT / "requirements.lock").write_text("\n".join([header, *pins]) + "\n")
    print(f"requirements.lock: {len(pins)} packages")
    return 0


COMMANDS = {"lab": lab, "test": test, "run": run, "notebooks": notebooks, "site": site, "lock": lock}

if __name__ == "__main__":
    sys.exit(main())
