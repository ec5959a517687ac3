"""A lesson as a student meets it: opened in JupyterLab without network, run, operated.

One lesson is run from top to bottom. Of the others, only what the widget needs is run, so that a row costs seconds.
"""

from pathlib import Path

import nbformat
import pytest

from tests.slicing import statements_needed

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
WIDGETS = {
    "05": {"menu": 1},
    "06": {"menu": 2, "text": 1},
    "07": {"slider": 2},
    "09": {"slider": 1},
    "10": {"slider": 1, "text": 1},
}
CONTROLS = {"menu": ".widget-dropdown select", "text": ".widget-text input", "slider": ".noUi-handle"}
OUTPUT = ".widget-interact .widget-output"
ANSWERED = """async ([selector, before]) => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const shown = async () => {
        await kernel.requestExecute({code: '', silent: true}).done;
        await new Promise(done => setTimeout(done, 200));
        return document.querySelector(selector)?.innerHTML ?? '';
    };
    for (const end = Date.now() + 120_000; Date.now() < end;) {
        const now = await shown();
        if (now && now !== before && (await shown()) === now) return now;
    }
}"""


def the_cell_with_the_widget(number: str) -> tuple[list[str], str]:
    """All code cells of a lesson, and the one that makes an `interactive`."""
    [path] = NOTEBOOKS.glob(f"{number}_*.ipynb")
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    [widget] = [source for source in cells if "interactive(" in source]
    return cells, widget


def by_keyboard(page, kind: str, control) -> None:
    """A menu is opened first: JupyterLab takes the arrow key of a closed one as a wish for the next cell."""
    control.focus()
    if kind == "text":
        page.keyboard.press("Control+A")
        page.keyboard.insert_text("a dull and lifeless film")
    else:
        for key in ("Alt+ArrowDown", "ArrowDown", "Enter") if kind == "menu" else ("ArrowRight",):
            page.keyboard.press(key)


def by_mouse(page, kind: str, control) -> None:
    """A menu's list is drawn by the system, where no page can click: choosing from it is what playwright does in its place."""
    if kind == "text":
        control.click(click_count=3)
        page.keyboard.insert_text("a superb story that moves everyone")
    elif kind == "menu":
        control.select_option(index=control.locator("option").count() - 1)
    else:
        box = control.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 40, y, steps=4)
        page.mouse.up()


@pytest.mark.parametrize("number", WIDGETS)
def test_every_control_of_a_lessons_widget_answers_to_keyboard_and_mouse(lab, number):
    page, trouble = lab.page, []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    lab.open(statements_needed(*the_cell_with_the_widget(number)), name=f"widget_{number}")

    def answered(before: str) -> str:
        """The output once the kernel has worked off all it was sent: it takes the empty request in `ANSWERED` after the rest."""
        html = page.evaluate(ANSWERED, [OUTPUT, before])
        assert html, f"the output did not change:\n{before}"
        return html

    shown = answered("")
    page.locator(OUTPUT).scroll_into_view_if_needed()
    for kind, selector in CONTROLS.items():
        controls = page.locator(f".widget-interact {selector}")
        assert controls.count() == WIDGETS[number].get(kind, 0)
        for control in controls.all():
            for act in (by_keyboard, by_mouse):
                act(page, kind, control)
                shown = answered(shown)
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
