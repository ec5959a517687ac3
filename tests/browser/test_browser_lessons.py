"""A lesson as a student meets it: opened in JupyterLab without network, run from top to bottom, operated."""

from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def test_lesson_08_runs_and_its_widget_answers_a_click(lab):
    lab.page.set_default_timeout(180_000)
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
