"""BertViz views and the explorer of heads in a JupyterLab without network: they draw, and answer to mouse and keyboard."""

from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
MODEL = f"""
import sys, tempfile
sys.path.insert(0, {str(TESTS)!r})
import tiny
from course_utils.models import load_encoder
encoder = load_encoder(tiny.save_bert(tiny.Path(tempfile.mkdtemp())))
text = "the film was not </script> good ."
maps = encoder.attend([text])
"""
VIEWS = """
from IPython.display import display
from course_utils.show import head_view, model_view, neuron_view
display(head_view(maps, layers=[1, 0]), model_view(maps), neuron_view(encoder, text))
"""
EXPLORER = "from course_utils.show import explore_heads; explore_heads(encoder.attend([text, 'a bad movie .']), layer=1)"
LINES = "document.querySelectorAll('svg line').length"


@pytest.fixture
def trouble(lab):
    """What goes wrong on the page: errors of scripts, and requests for anything that is not the server's own."""
    found = []
    lab.page.on("pageerror", lambda error: found.append(str(error)))
    lab.page.on("request", lambda request: found.append(request.url) if "127.0.0.1" not in request.url else None)
    return found


def frames_of(lab, selector: str, count: int) -> list:
    """The pages inside the frames of a notebook that has just run, in order."""
    frames = lab.page.locator(f"{selector} iframe")
    frames.nth(count - 1).wait_for()
    assert frames.count() == count
    found = [frames.nth(number).element_handle().content_frame() for number in range(count)]
    for frame in found:
        frame.wait_for_selector("svg", state="attached")
    return found


def remote(trouble: list[str]) -> list[str]:
    return [entry for entry in trouble if not entry.startswith(("data:", "blob:", "about:"))]


def test_the_views_draw_their_lines_and_change_with_the_layer_with_the_network_cut(lab, trouble):
    lab.open(MODEL, VIEWS, name="bertviz")
    head, model, neuron = frames_of(lab, ".bertviz-view", 3)
    n_layers, n_heads, n_tokens = 2, 3, 12
    assert head.evaluate(LINES) == n_heads * n_tokens**2
    assert model.evaluate(LINES) == n_layers * n_heads * n_tokens**2
    assert neuron.evaluate(LINES) > n_tokens**2
    for frame, layers in ((head, ["1", "0"]), (model, []), (neuron, ["0", "1"])):
        assert frame.evaluate("[...document.querySelectorAll('#layer option')].map(option => option.text)") == layers
        assert frame.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    neuron.locator("#collapsed #leftText text.token").nth(4).hover()
    neuron.locator("#collapsed #leftText .plus-sign").nth(4).click(force=True)
    assert neuron.evaluate("document.querySelector('#expanded').getAttribute('visibility')") == "visible"
    for number, (name, frame) in enumerate({"head": head, "model": model, "neuron": neuron}.items()):
        lab.page.locator(".bertviz-view").nth(number).scroll_into_view_if_needed()
        frame.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        lab.screenshot(f"bertviz_{name}")

    opacities = "[...document.querySelectorAll('svg line')].map(line => line.getAttribute('stroke-opacity')).join()"
    before = head.evaluate(opacities)
    head.select_option("#layer", "0")
    assert head.evaluate(opacities) != before
    assert not remote(trouble)


def test_the_explorers_figure_changes_with_every_control_by_keyboard_and_with_a_click(lab, trouble):
    lab.open(MODEL, EXPLORER, name="explorer")
    [frame] = frames_of(lab, ".head-explorer", 1)

    def figure() -> tuple[str, str]:
        return frame.inner_html("#map"), frame.inner_html("#bars")

    def told() -> str:
        return frame.inner_text("#told")

    assert told().startswith("Layer 1, head 0: “[CLS]” looks most at")
    seen = [figure()]
    for control, key, words in (
        ("#head", "ArrowRight", "Layer 1, head 1: “[CLS]”"),
        ("#layer", "ArrowLeft", "Layer 0, head 1: “[CLS]”"),
        ("#position", "ArrowDown", "Layer 0, head 1: “the”"),
        ("#text", "ArrowDown", "Layer 0, head 1: “a”"),
    ):
        frame.focus(control)
        lab.page.keyboard.press(key)
        assert told().startswith(words)
        assert figure() not in seen
        seen.append(figure())
    lab.screenshot("explorer")
    assert frame.locator("#map rect[data-query]").count() == 6 * 6
    frame.locator("#map rect[data-query='3']").first.click()
    assert "“movie” looks most at" in told()
    assert (
        frame.evaluate("document.querySelector('#map').getAttribute('aria-label')") == "Weights of layer 0, head 1: 6 by 6 tokens"
    )
    assert not remote(trouble)
