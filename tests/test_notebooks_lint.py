"""The gate for lessons refuses each kind of bad notebook, and only that."""

import copy

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import lessons
from tools.build_lessons import WIDGET, WIDGET_WORDS
from tools.lint_lessons import alt_texts, differences, problems

PNG = "iVBORw0KGgo="


def good():
    """The smallest lesson that passes."""
    cells = [
        new_markdown_cell("# Title\n\nWhat is asked?\n\nTen minutes."),
        new_code_cell(lessons.setup_code(), metadata={"tags": ["setup", "nbval-ignore-output"]}, execution_count=1),
        *(new_markdown_cell(f"## {section}\n\nText.") for section in lessons.SECTIONS),
        new_code_cell("1 + 1", execution_count=2, outputs=[new_output("execute_result", data={"text/plain": "2"})]),
    ]
    for cell, name in zip(cells, lessons.cell_ids(cells), strict=True):
        cell.id = name
    return new_notebook(cells=cells)


def with_output(output, *tags):
    notebook = good()
    notebook.cells[-1].outputs = [output]
    notebook.cells[-1].metadata["tags"] = list(tags)
    return notebook


def display(**data):
    return new_output("display_data", data={kind.replace("_", "/"): value for kind, value in data.items()})


def changed(change):
    notebook = good()
    change(notebook.cells)
    return notebook


def retitle(cells, source):
    cells[0].source = source


def repeat_id(cells):
    cells[3].id = cells[2].id


def swap_sections(cells):
    cells[2], cells[3] = cells[3], cells[2]


def test_good_notebook_passes():
    assert problems(good()) == []


BAD = {
    "tag": (with_output(display(text_plain="2"), "nbval-ignore-ouput"), "is unknown"),
    "repeated id": (changed(repeat_id), "occurs 2 times"),
    "large output": (with_output(display(text_html="x" * 1_100_000)), "1.1 MB"),
    "error": (with_output(new_output("error", ename="ValueError", evalue="bad", traceback=[])), "ValueError: bad"),
    "warning": (with_output(new_output("stream", name="stderr", text="FutureWarning: soon")), "stderr"),
    "path": (with_output(new_output("stream", name="stdout", text="/home/ann/course/data")), "path of the machine"),
    "path in a traceback": (with_output(display(text_plain=r"C:\Users\ann")), "path of the machine"),
    "bare figure": (with_output(display(image_png=PNG, text_plain="<Figure>")), "bare image/png"),
    "bare vector figure": (with_output(new_output("display_data", data={"image/svg+xml": "<svg/>"})), "bare image/svg"),
    "no alt": (with_output(display(text_html=f'<img src="data:image/png;base64,{PNG}">')), "without alt"),
    "empty alt": (with_output(display(text_html='<img alt=" " src="x">')), "without alt"),
    "widget state": (with_output(new_output("display_data", data={WIDGET: {"model_id": "1"}})), "not stored"),
    "untagged widget": (with_output(display(text_plain=WIDGET_WORDS)), "without the tag"),
    "not run": (changed(lambda cells: cells[-1].update(execution_count=None)), "not executed"),
    "run out of order": (changed(lambda cells: cells[-1].update(execution_count=7)), "not executed"),
    "no setup": (changed(lambda cells: cells.pop(1)), "must be the setup cell"),
    "edited setup": (changed(lambda cells: cells[1].update(source="import sys")), "_setup.py"),
    "no question": (changed(lambda cells: retitle(cells, "# Title\n\nNo question.")), "question"),
    "two titles": (changed(lambda cells: cells[4].update(source="# Another")), "there are 2"),
    "level jump": (changed(lambda cells: cells[-1].update(new_markdown_cell("#### Deep", id="deep"))), "jumps from level 2 to 4"),
    "no section": (changed(lambda cells: cells.pop(5)), "'## The claim' occurs 0 times"),
    "unknown work": (
        changed(lambda cells: cells[3].update(source=cells[3].source + "\n\nNobody & Noone (2018) agree.")),
        "nobody 2018",
    ),
    "sections out of order": (changed(swap_sections), "out of order"),
}


@pytest.mark.parametrize(("notebook", "words"), BAD.values(), ids=BAD)
def test_bad_notebook_is_refused(notebook, words):
    assert any(words in problem for problem in problems(notebook)), problems(notebook)


GOOD = {
    "figure with alt": with_output(display(text_html=f'<img alt="Two bars" src="data:image/png;base64,{PNG}/home/x">')),
    "error on purpose": with_output(new_output("error", ename="DataError", evalue="bad", traceback=[]), "raises-exception"),
    "tagged widget": with_output(display(text_plain=WIDGET_WORDS), "nbval-ignore-output"),
    "heading after a colon": changed(lambda cells: cells[5].update(source="## The claim: weights explain")),
    "known works": changed(
        lambda cells: cells[3].update(source=cells[3].source + "\n\nJain & Wallace (2019); (Clark et al. 2019).")
    ),
    "comment in a fence": changed(lambda cells: cells[3].update(source=cells[3].source + "\n\n```\n# not a title\n```")),
}


@pytest.mark.parametrize("notebook", GOOD.values(), ids=GOOD)
def test_allowed_notebook_passes(notebook):
    assert problems(notebook) == []


def test_differences_name_the_changed_cell():
    stored, rendered = good(), good()
    assert differences(stored, rendered) == []
    rendered.cells[-1].source = "1 + 2"
    assert differences(stored, rendered) == ["cell 11 differs from its source: '1 + 2'"]


@pytest.mark.parametrize("change", ["tags", "type", "id", "removed"])
def test_differences_see(change):
    stored, rendered = good(), copy.deepcopy(good())
    if change == "tags":
        rendered.cells[-1].metadata["tags"] = ["hide-input"]
    elif change == "type":
        rendered.cells[-1] = nbformat.from_dict({**new_markdown_cell("1 + 1"), "id": stored.cells[-1].id})
    elif change == "id":
        rendered.cells[-1].id = "other"
    else:
        rendered.cells.pop()
    assert differences(stored, rendered)


def test_alt_texts_of_several_images():
    assert alt_texts('<p><img src=a alt="one"/><IMG SRC=b></p>') == ["one", ""]
