"""The controls of a widget, operated as a student does, each time until the output has answered."""

from collections.abc import Iterator

CONTROLS = {"menu": ".widget-dropdown select", "text": ".widget-text input", "slider": ".noUi-handle"}
ANSWERED = """async ([selector, before]) => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const shown = async () => {
        await kernel.requestExecute({code: '', silent: true}).done;
        await new Promise(done => setTimeout(done, 200));
        return [...document.querySelectorAll(selector)].map(output => output.innerHTML).join('');
    };
    for (const end = Date.now() + 120_000; Date.now() < end;) {
        const now = await shown();
        if (now && now !== before && (await shown()) === now) return now;
    }
}"""


def by_keyboard(page, kind: str, control, place: int) -> None:
    """A menu is opened first: JupyterLab takes the arrow key of a closed one as a wish for the next cell."""
    control.focus()
    if kind == "text":
        page.keyboard.press("Control+A")
        page.keyboard.insert_text("a dull and lifeless film")
    else:
        for key in ("Alt+ArrowDown", "ArrowDown", "Enter") if kind == "menu" else ("ArrowRight",):
            page.keyboard.press(key)


def by_mouse(page, kind: str, control, place: int) -> None:
    """A menu's list is drawn by the system, where no page can click: choosing from it is what playwright does in its place.

    Of the menu at `place` the last option but so many is chosen, so that menus with the same options do not come to agree; where
    it is chosen already, the first.
    """
    if kind == "text":
        control.click(click_count=3)
        page.keyboard.insert_text("a superb story that moves everyone")
    elif kind == "menu":
        goal = control.locator("option").count() - 1 - place
        control.select_option(index=goal if control.evaluate("menu => menu.selectedIndex") != goal else 0)
    else:
        box = control.bounding_box()
        track = control.locator("xpath=ancestor::*[contains(@class, 'noUi-base')]").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        goals = [track["x"] + share * track["width"] for share in (0.25, 0.75)]
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(max(goals, key=lambda goal: abs(goal - x)), y, steps=4)
        page.mouse.up()


def operate(page, widget: str, output: str, controls: dict[str, int]) -> Iterator[str]:
    """Every control inside `widget`, by keyboard and by mouse; after each the HTML of the outputs, which must have changed.

    Args:
        widget, output: CSS selectors; the outputs are shown by the kernel, which takes the empty request in `ANSWERED` after all
            else it was sent.
        controls: how many of each kind there are.
    """

    def answered(before: str) -> str:
        html = page.evaluate(ANSWERED, [output, before])
        assert html, f"the output did not change:\n{before[:500]}"
        return html

    shown = answered("")
    page.locator(output).first.scroll_into_view_if_needed()
    for kind, selector in CONTROLS.items():
        found = page.locator(f"{widget} {selector}")
        assert found.count() == controls.get(kind, 0)
        for place, control in enumerate(found.all()):
            for act in (by_keyboard, by_mouse):
                act(page, kind, control, place)
                shown = answered(shown)
                yield shown
