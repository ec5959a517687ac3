"""What a lesson is made of: where it lives, its fixed parts, and how its source becomes a notebook.

`notebooks/src/NN_name.py` is what people edit. The notebook gets three things the source does not hold: the badges under the
question, the setup cell after the first cell, and cell ids made from the cells' content, so that a rebuild changes nothing.
"""

import hashlib
import re
import tomllib
from collections import Counter
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
SECTIONS = (
    "Predict first",
    "The idea",
    "On real text",
    "The claim",
    "Try it yourself",
    "Exercises",
    "What to take away",
    "What this does not show",
    "Further reading",
)
TAGS = {
    "setup": "the setup cell; the build puts it there",
    "nbval-ignore-output": "the output may differ between runs: figures, HTML, widgets, timings",
    "raises-exception": "the cell shows an error on purpose",
    "exercise": "the cell that holds the student's answer",
    "hide-input": "the website folds the code",
}
# How lessons are executed, here and under pytest: without progress bars and network.
ENVIRONMENT = {"COURSE_QUIET": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false"}
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"},
}


def sources(names: list[str] | None = None, folder: Path = NOTEBOOKS) -> list[Path]:
    """Sources of the lessons whose file name starts with one of the names; all of them without names.

    Raises:
        SystemExit: a name fits no lesson.
    """
    found = sorted((folder / "src").glob("[0-9][0-9]_*.py"))
    for name in names or []:
        if not any(path.stem.startswith(name) for path in found):
            raise SystemExit(f"no lesson starts with {name!r}; there are: {', '.join(path.stem for path in found)}")
    return [path for path in found if not names or path.stem.startswith(tuple(names))]


def notebook_path(source: Path) -> Path:
    """`notebooks/src/NN_name.py` -> `notebooks/NN_name.ipynb`."""
    return source.parent.parent / f"{source.stem}.ipynb"


def repository(root: Path = ROOT) -> str:
    """The course's home, from pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]


def badges(name: str) -> str:
    """Markdown links that open a lesson on Binder and on Colab."""
    slug = repository().removeprefix("https://github.com/")
    binder = f"https://mybinder.org/v2/gh/{slug}/main?urlpath=lab/tree/notebooks/{name}.ipynb"
    colab = f"https://colab.research.google.com/github/{slug}/blob/main/notebooks/{name}.ipynb"
    return (
        f"[![Open in Binder](https://mybinder.org/badge_logo.svg)]({binder}) "
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab})"
    )


def setup_code() -> str:
    """The setup cell's code, the same for every lesson."""
    return (NOTEBOOKS / "src" / "_setup.py").read_text(encoding="utf-8").strip().replace("{{repository}}", repository())


def title_and_question(source: str) -> tuple[str, str]:
    """Title and question of a lesson's first cell: its first two paragraphs.

    Raises:
        ValueError: the cell does not start that way.
    """
    match = re.match(r"# (?P<title>[^\n]+)\n\n(?P<question>[^#\n][^\n]*\?)(\n\n|\s*$)", source)
    if not match:
        raise ValueError(
            "the first cell must start with '# Title', an empty line, and the lesson's question on one line ending in '?'"
        )
    return match["title"], match["question"]


def render(source: Path) -> NotebookNode:
    """The lesson's notebook without outputs.

    Raises:
        ValueError: the source has no first cell with a title and a question.
    """
    parsed = jupytext.read(source, fmt="py:percent")
    if not parsed.cells or parsed.cells[0].cell_type != "markdown":
        raise ValueError(f"{source.name}: the first cell must be markdown")
    first = parsed.cells[0].source
    title, question = title_and_question(first)
    head = f"# {title}\n\n{question}"
    opening = nbformat.v4.new_markdown_cell(f"{head}\n\n{badges(source.stem)}{first[len(head) :]}")
    setup = nbformat.v4.new_code_cell(setup_code(), metadata={"tags": ["setup", "nbval-ignore-output"]})
    cells = [opening, setup, *(plain(cell) for cell in parsed.cells[1:])]
    for cell, name in zip(cells, cell_ids(cells), strict=True):
        cell.id = name
    return nbformat.v4.new_notebook(cells=cells, metadata=METADATA)


def plain(cell: NotebookNode) -> NotebookNode:
    """The cell with its text and tags only."""
    make = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
    tags = cell.metadata.get("tags")
    return make(cell.source, metadata={"tags": list(tags)} if tags else {})


def cell_ids(cells: list[NotebookNode]) -> list[str]:
    """Ids from type and text; a repeated cell counts its repetition, so ids stay unique."""
    seen: Counter[str] = Counter()
    ids = []
    for cell in cells:
        text = f"{cell.cell_type}\n{cell.source}"
        ids.append(hashlib.sha256(f"{seen[text]}\n{text}".encode()).hexdigest()[:12])
        seen[text] += 1
    return ids


def read(path: Path) -> NotebookNode:
    """A notebook as it is stored, without nbformat's repairs, which would hide repeated ids."""
    return nbformat.v4.reads(path.read_text(encoding="utf-8"))


def lesson_table(folder: Path = NOTEBOOKS) -> str:
    """Markdown table of all lessons for the README."""
    lines = ["| Lesson | Question | Open |", "|---|---|---|"]
    for source in sources(folder=folder):
        title, question = title_and_question(jupytext.read(source, fmt="py:percent").cells[0].source)
        lines.append(f"| [{source.stem[:2]} · {title}](notebooks/{source.stem}.ipynb) | {question} | {badges(source.stem)} |")
    return "\n".join(lines)


def with_lesson_table(readme: str, folder: Path = NOTEBOOKS) -> str:
    """The README's text with the table between its two markers made anew."""
    begin, end = "<!-- lessons -->", "<!-- /lessons -->"
    before, _, rest = readme.partition(begin)
    return f"{before}{begin}\n{lesson_table(folder)}\n{end}{rest.partition(end)[2]}"
