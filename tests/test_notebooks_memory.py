"""The budget of memory of a lesson, as nbval's run asserts it."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools.run_lessons import BUDGET_MB

ROOT = Path(__file__).parent.parent


def nbval(folder, megabytes: list[int]) -> subprocess.CompletedProcess:
    """nbval over notebooks that each hold so much memory, in one process, in this order."""
    paths = []
    for number, size in enumerate(megabytes):
        code = [new_code_cell(f"block = bytearray(b'1') * {size} * 10**6"), new_code_cell("del block")]
        paths.append(folder / f"notebook_{number}.ipynb")
        nbformat.write(new_notebook(cells=code), paths[-1])
    command = (sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "--nbval-lax", "--nbval-current-env")
    return subprocess.run([*command, *map(str, paths)], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell the peak of a process that has ended")
def test_the_notebook_over_its_budget_of_memory_is_named_and_no_other(tmp_path):
    run = nbval(tmp_path, [10, BUDGET_MB, 10])
    assert run.returncode == 1
    assert "6 passed, 1 error" in run.stdout
    [(name, megabytes)] = set(re.findall(r"(\S+\.ipynb) takes (\d+) MB, its budget is", run.stdout))
    assert name == "notebook_1.ipynb"
    assert BUDGET_MB < int(megabytes) < BUDGET_MB + 200
