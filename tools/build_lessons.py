"""Execute lesson sources into notebooks: `make notebooks`, or `make notebooks LESSONS="08"` for some.

Outputs are kept as a fresh run gives them, but for what would make the file depend on the machine or on the minute:
- widget state is never stored (it is large, and the live widget needs a kernel anyway). A widget's place says so in words;
  the figure above it is its static form;
- paths of this machine are cut down to the course's folder;
- no timings, no execution metadata. Progress bars are off while building (course_utils.setup).
"""

import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from tools import lessons

WIDGET = "application/vnd.jupyter.widget-view+json"
WIDGET_WORDS = "Interactive: run this cell to use it. The figure above is its static form."
CELL_SECONDS = 120


def execute(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Run all cells in place, in a fresh kernel started in the folder.

    Raises:
        CellExecutionError: a cell, or code that a widget ran, failed; its text holds the cell and the error.
    """
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
    )
    client.execute(env={**os.environ, **lessons.ENVIRONMENT})
    for widget in client.widget_state.values():
        for output in widget.get("outputs", ()):
            if output.output_type == "error":
                raise CellExecutionError("inside a widget:\n" + "\n".join(output.traceback), output.ename, output.evalue)
    notebook.metadata = nbformat.from_dict(lessons.METADATA)
    return notebook


def tidy(cell: NotebookNode, root: Path = lessons.ROOT) -> None:
    """Make a code cell's outputs independent of machine and moment."""
    for output in cell.outputs:
        output.pop("transient", None)
        if "data" in output and WIDGET in output.data:
            output.data = nbformat.from_dict({"text/markdown": f"*{WIDGET_WORDS}*", "text/plain": WIDGET_WORDS})
        if "text" in output:
            output.text = without_root(output.text, root)
        for kind, value in output.get("data", {}).items():
            if isinstance(value, str) and not kind.startswith("image/"):
                output.data[kind] = without_root(value, root)


def without_root(text: str, root: Path) -> str:
    return text.replace(f"{root}{os.sep}", "course/").replace(str(root), "course")


def build(source: Path) -> Path:
    """Write the lesson's executed notebook, only when everything ran."""
    target = lessons.notebook_path(source)
    notebook = execute(lessons.render(source), target.parent)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            tidy(cell)
    unfinished = target.with_suffix(".ipynb.tmp")
    nbformat.write(notebook, unfinished)
    unfinished.replace(target)
    return target


def main(names: list[str]) -> int:
    readme = lessons.ROOT / "README.md"
    for source in lessons.sources(names):
        started = time.perf_counter()
        try:
            build(source)
        except CellExecutionError as error:
            print(f"{source.stem}: a cell failed, the notebook was left as it was\n{error}", file=sys.stderr)
            return 1
        print(f"{source.stem}: built in {time.perf_counter() - started:.0f} s", flush=True)
    readme.write_text(lessons.with_lesson_table(readme.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
