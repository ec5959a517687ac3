"""A lesson as a student meets it: opened in JupyterLab without network, run, operated.

One lesson is run from top to bottom. Of the others, only what the widget needs is run, so that a row costs seconds.
"""

from pathlib import Path

import nbformat
import pytest

from tests.browser.controls import operate
from tests.slicing import statements_needed

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
WIDGETS = {
    "05": {"menu": 1},
    "06": {"menu": 2, "text": 1},
    "07": {"slider": 2},
    "09": {"slider": 1},
    "10": {"slider": 1, "text": 1},
    "13": {"slider": 1},
}
OUTPUT = ".widget-interact .widget-output"


def the_cell_with_the_widget(number: str) -> tuple[list[str], str]:
    """All code cells of a lesson, and the one that makes an `interactive`, or an `interact`."""
    [path] = NOTEBOOKS.glob(f"{number}_*.ipynb")
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    [widget] = [source for source in cells if "interactive(" in source or "@interact(" in source]
    return cells, widget


@pytest.mark.parametrize("number", WIDGETS)
def test_every_control_of_a_lessons_widget_answers_to_keyboard_and_mouse(lab, number):
    page, trouble = lab.page, []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    lab.open(statements_needed(*the_cell_with_the_widget(number)), name=f"widget_{number}")

    for shown in operate(page, ".widget-interact", OUTPUT, WIDGETS[number]):
        assert not page.locator(f"{OUTPUT} .jp-mod-error, {OUTPUT} [data-mime-type*='error']").count(), shown
    lab.screenshot(f"widget_{number}")
    assert trouble == []


def test_lesson_08_runs_and_its_widget_answers_a_click(lab):
    lab.open_notebook(nbformat.read(NOTEBOOKS / "08_adversarial_attention.ipynb", as_version=4), "08")
    button = lab.page.get_by_role("button", name="Exact adversary")
    button.scroll_into_view_if_needed()
    widget = lab.page.locator(".widget-vbox").filter(has=button).last
    before = widget.inner_html()
    button.click()
    lab.page.wait_for_timeout(1000)
    lab.page.wait_for_function("([element, html]) => element.innerHTML !== html", arg=[widget.element_handle(), before])
    assert "the same prediction" in widget.inner_text()
    lab.screenshot("lesson_08_widget")
