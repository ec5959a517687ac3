"""Does everything work on this machine? A table of checks, each with what was found and how to mend it.

Nothing heavy is imported before the checks that need it, so a broken environment is described instead of raised.
"""

import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.errors import CourseError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

NEEDED_GB = 1.5
CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
OPTIONAL = {"mpld3", "XStatic-jQuery", "jupyterlab"}


@dataclass(frozen=True)
class Check:
    """One thing looked at. `fix` says what to do and is empty where `ok`; `required` is False where lessons run without it."""

    name: str
    found: str
    fix: str = ""
    required: bool = True

    @property
    def ok(self) -> bool:
        return not self.fix

    @property
    def verdict(self) -> str:
        return "ok" if self.ok else "mend" if self.required else "note"


def examine(*, network: bool = False) -> list[Check]:
    """All checks; one that fails in an unforeseen way becomes a line of the table too.

    Args:
        network: look whether the Hugging Face hub answers (waits at most 3 seconds). No lesson needs it.
    """
    parts: list[Callable[[], list[Check]]] = [_python, _packages, _torch, _memory, _data, _encoder, _fonts]
    checks = []
    for part in parts + ([_network] if network else []):
        try:
            checks += part()
        except Exception as error:  # a doctor that crashes helps nobody
            checks.append(Check(part.__name__.strip("_"), f"{type(error).__name__}: {error}", "install the course again: make lab"))
    return checks


def table(checks: list[Check]) -> str:
    """The checks as aligned text, with the fix under each line that needs one."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.verdict:<4}  {check.name:<{width}}  {check.found}")
        if not check.ok:
            lines.append(f"{'':<4}  {'':<{width}}  -> {check.fix}")
    return "\n".join(lines)


def report(*, network: bool = False) -> None:
    """Display the checks as a table in a notebook."""
    from IPython.display import HTML, display

    rows = "".join(
        f"<tr><td>{check.verdict}</td><th scope='row' style='text-align:left'>{escape(check.name)}</th>"
        f"<td style='text-align:left'>{escape(check.found)}</td><td style='text-align:left'>{escape(check.fix)}</td></tr>"
        for check in examine(network=network)
    )
    head = "".join(f"<th scope='col' style='text-align:left'>{name}</th>" for name in ("", "what", "found", "what to do"))
    display(HTML(f"<table><caption>This machine</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"))


def main(*, network: bool = False) -> int:
    """Print the table; 0 when every required check is fine."""
    checks = examine(network=network)
    print(table(checks))
    return int(any(check.required and not check.ok for check in checks))


def _python() -> list[Check]:
    fix = "" if sys.version_info >= (3, 11) else "install Python 3.11 or newer and run make lab again"
    return [Check("Python", f"{platform.python_version()} on {platform.system()}", fix)]


def _packages() -> list[Check]:
    from course_utils.setup import installed_version, requirements

    checks = []
    for wanted in requirements():
        found = installed_version(wanted.name)
        fix = "" if found and wanted.specifier.contains(found, prereleases=True) else f"pip install '{_plain(wanted)}'"
        if fix or wanted.name in {"numpy", "transformers"}:
            checks.append(Check(wanted.name, found or "not installed", fix, required=wanted.name not in OPTIONAL))
    return checks + [Check("other packages", "all there")] * (not any(check.fix for check in checks))


def _torch() -> list[Check]:
    import torch

    from course_utils.setup import device

    torch.ones(2) @ torch.ones(2)
    return [Check("torch", f"{torch.__version__}, computes on {device()}, {torch.get_num_threads()} threads")]


def _memory() -> list[Check]:
    free_disk = shutil.disk_usage(os.getcwd()).free / 1e9  # noqa: PTH109
    checks = [Check("disk", f"{free_disk:.0f} GB free", "" if free_disk > 1 else "free at least 1 GB")]
    total = _memory_bytes() / 1e9
    fix = "" if total > NEEDED_GB else f"a lesson needs up to {NEEDED_GB} GB: close other programs, run one lesson at a time"
    return [*checks, Check("memory", f"{total:.1f} GB", fix)]


def _memory_bytes() -> int:
    """What this process may use: the machine's memory, or the container's limit where that is less (Binder, JupyterHub)."""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:  # Windows
        import psutil

        total = psutil.virtual_memory().total
    limits = (path.read_text().strip() for path in CONTAINER_LIMITS if path.is_file())
    return min([total, *(int(limit) for limit in limits if limit.isdecimal())])


def _data() -> list[Check]:
    from course_utils.data import load
    from course_utils.models.checkpoints import checkpoint_names

    try:
        dataset = load("rotten_tomatoes")
        names = checkpoint_names()
    except CourseError as error:
        return [Check("data", "not readable", str(error))]
    fix = "" if names else "the folder data/checkpoints is empty: restore it with git checkout data/checkpoints"
    return [Check("data", f"{len(dataset.test)} test sentences"), Check("checkpoints", f"{len(names)} trained models", fix)]


def _encoder() -> list[Check]:
    from transformers import BertModel  # noqa: F401  the import refuses libraries whose versions do not fit together

    from course_utils.models.pretrained import encoder_folder

    try:
        size = (encoder_folder() / "model.safetensors").stat().st_size
    except (CourseError, OSError) as error:
        return [Check("pretrained encoder", "not found", str(error))]
    return [Check("pretrained encoder", f"MiniLM, {size / 1e6:.0f} MB")]


def _fonts() -> list[Check]:
    from matplotlib import font_manager

    families = {font.name for font in font_manager.fontManager.ttflist}
    missing = "" if any("CJK" in name for name in families) else "figures with Chinese text need Noto Sans CJK; the lessons do not"
    return [Check("fonts", f"{len(families)} families", missing, required=False)]


def _network() -> list[Check]:
    try:
        socket.create_connection(("huggingface.co", 443), timeout=3).close()
    except OSError as error:
        return [Check("network", f"the hub does not answer ({error})", "needed only for load_hub and hub models", required=False)]
    return [Check("network", "the hub answers")]


def _plain(requirement: "Requirement") -> str:
    return f"{requirement.name}{requirement.specifier}"
