"""What makes a lesson unfit to publish. `problems` lists it in words; tests/test_notebooks_lessons.py runs it on every lesson."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser

from nbformat import NotebookNode

from tools import bibliography, lessons
from tools.build_lessons import WIDGET, WIDGET_WORDS

MAX_OUTPUT_BYTES = 1_000_000
MACHINE_PATH = re.compile(r"(?:/home/|/Users/|/root/|/tmp/|[A-Z]:\\+Users|site-packages)[\w.-]{0,40}")
HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def problems(notebook: NotebookNode) -> list[str]:
    """Everything that is wrong with a stored lesson, one sentence each; empty when it is fit."""
    checks = (tags, ids, order, opening, setup, headings, anatomy, citations, outputs)
    return [problem for check in checks for problem in check(notebook)]


def differences(notebook: NotebookNode, rendered: NotebookNode) -> list[str]:
    """Where a stored notebook differs from what its source gives, outputs aside."""

    def key(cell: NotebookNode) -> tuple:
        return cell.id, cell.cell_type, cell.source, tuple(cell.metadata.get("tags", ()))

    stored, wanted = list(map(key, notebook.cells)), list(map(key, rendered.cells))
    found = [
        f"cell {i} differs from its source: {w[2][:60]!r}" for i, (s, w) in enumerate(zip(stored, wanted, strict=False)) if s != w
    ]
    if len(stored) != len(wanted):
        found.append(f"{len(stored)} cells, and its source gives {len(wanted)}")
    return found


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def excerpt(cell: NotebookNode) -> str:
    return f"cell {cell.source.strip()[:50]!r}"


def tags(notebook: NotebookNode) -> Iterator[str]:
    for cell in notebook.cells:
        for tag in cell.metadata.get("tags", ()):
            if tag not in lessons.TAGS:
                yield f"{excerpt(cell)}: tag {tag!r} is unknown; known are {', '.join(lessons.TAGS)}"


def ids(notebook: NotebookNode) -> Iterator[str]:
    for name, count in Counter(cell.get("id") for cell in notebook.cells).items():
        if count > 1:
            yield f"cell id {name!r} occurs {count} times"


def order(notebook: NotebookNode) -> Iterator[str]:
    counts = [cell.execution_count for cell in code_cells(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield "the cells were not executed once, from top to bottom, in a fresh kernel"


def opening(notebook: NotebookNode) -> Iterator[str]:
    try:
        lessons.title_and_question(notebook.cells[0].source if notebook.cells else "")
    except ValueError as error:
        yield str(error)


def setup(notebook: NotebookNode) -> Iterator[str]:
    found = [cell for cell in code_cells(notebook) if "setup" in cell.metadata.get("tags", ())]
    if len(found) != 1 or code_cells(notebook)[0] is not found[0]:
        yield "the first code cell, and only that, must be the setup cell"
    elif found[0].source != lessons.setup_code():
        yield "the setup cell is not the one of notebooks/src/_setup.py"


def heading_list(notebook: NotebookNode) -> list[tuple[int, str]]:
    """Level and text of every heading, those inside code blocks left out."""
    texts = (FENCE.sub("", cell.source) for cell in notebook.cells if cell.cell_type == "markdown")
    return [(len(marks), text) for source in texts for marks, text in HEADING.findall(source)]


def headings(notebook: NotebookNode) -> Iterator[str]:
    found = heading_list(notebook)
    levels = [level for level, _ in found]
    if levels.count(1) != 1 or levels[0] != 1:
        yield f"there must be one first-level heading, the title; there are {levels.count(1)}"
    for (before, _), (level, text) in zip(found, found[1:], strict=False):
        if level > before + 1:
            yield f"heading {text!r} jumps from level {before} to {level}"


def anatomy(notebook: NotebookNode) -> Iterator[str]:
    names = [text.partition(":")[0].strip() for level, text in heading_list(notebook) if level == 2]
    for section in lessons.SECTIONS:
        if names.count(section) != 1:
            yield f"section '## {section}' occurs {names.count(section)} times instead of once"
    present = [name for name in names if name in lessons.SECTIONS]
    if present != sorted(present, key=lessons.SECTIONS.index):
        yield f"the sections are out of order: {', '.join(present)}"


def citations(notebook: NotebookNode) -> Iterator[str]:
    prose = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for work in bibliography.unknown(prose, bibliography.read()):
        yield f"it cites {work}, which docs/references.bib does not have; add the entry, or correct name and year"


def outputs(notebook: NotebookNode) -> Iterator[str]:
    for cell in code_cells(notebook):
        cell_tags = cell.metadata.get("tags", ())
        for output in cell.outputs:
            for problem in output_problems(output, cell_tags):
                yield f"{excerpt(cell)}: {problem}"


def output_problems(output: NotebookNode, cell_tags: list[str]) -> Iterator[str]:
    data = output.get("data", {})
    if len(json.dumps(output)) > MAX_OUTPUT_BYTES:
        yield f"an output of {len(json.dumps(output)) / 1e6:.1f} MB; at most {MAX_OUTPUT_BYTES / 1e6:.0f} MB"
    if output.output_type == "error" and "raises-exception" not in cell_tags:
        yield f"an error: {output.ename}: {output.evalue}"
    if output.get("name") == "stderr":
        yield f"text on stderr (a warning?): {output.text[:80]!r}"
    if WIDGET in data:
        yield "widget state is not stored; rebuild with make notebooks"
    if WIDGET_WORDS in data.get("text/plain", "") and "nbval-ignore-output" not in cell_tags:
        yield "a widget without the tag nbval-ignore-output"
    for kind in data:
        if kind.startswith("image/"):
            yield f"a bare {kind} figure; display it with show(fig, alt=...)"
    if any(not alt.strip() for alt in alt_texts(data.get("text/html", ""))):
        yield "an <img> without alt text"
    if found := MACHINE_PATH.search(text_of(output)):
        yield f"a path of the machine that built it: {found.group()!r}"


def text_of(output: NotebookNode) -> str:
    """All text a reader could see in an output, without embedded images."""
    parts = [output.get("text", ""), *output.get("traceback", ())]
    parts += [value for kind, value in output.get("data", {}).items() if isinstance(value, str) and not kind.startswith("image/")]
    return re.sub(r"data:[\w/+-]+;base64,[\w+/=\s]+", "", "\n".join(parts))


def alt_texts(html: str) -> list[str]:
    """The alt text of every image in a piece of HTML; "" where there is none."""
    found: list[str] = []

    class Images(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag == "img":
                found.append(dict(attrs).get("alt") or "")

    Images().feed(html)
    return found
