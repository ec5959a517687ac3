"""The widgets in a real JupyterLab: what a student who clicks and types sees."""

import re

import pytest

from tests.browser.controls import operate

SETUP = """
import torch
from course_utils.data import Vocabulary, make_batch
from course_utils.models import AttentionClassifier, ClassifierConfig
from course_utils.show import move_attention
text = "an earnest , <b>intimate</b> film that drops the ball"
vocabulary = Vocabulary.build([text.split()])
torch.manual_seed(1)
model = AttentionClassifier(ClassifierConfig(encoder="average", hidden=8), torch.randn(len(vocabulary), 16)).double().eval()
with torch.no_grad():
    model.decoder.weight *= 12
batch = make_batch([text], vocabulary)
mover = move_attention(model, batch, classes=("negative", "positive"))
mover
"""


def probability(status: str) -> float:
    return float(re.search(r"= ([\d.]+)", status).group(1))


def test_a_student_moves_the_attention_with_the_keyboard_and_asks_for_the_adversary(lab):
    lab.open(SETUP)
    status = lab.page.locator("[role=status]").last
    pictures = lab.page.locator(".token-heatmap")
    status.wait_for()
    assert "the same prediction" in status.inner_text()
    before, picture = status.inner_text(), pictures.last.inner_html()

    handle = lab.page.locator(".noUi-handle").nth(1)
    handle.scroll_into_view_if_needed()
    was = float(handle.get_attribute("aria-valuenow"))
    handle.focus()
    for _ in range(10):
        lab.page.keyboard.press("ArrowRight")
    lab.page.wait_for_function("text => document.querySelector('[role=status]').innerText !== text", arg=before)
    assert float(handle.get_attribute("aria-valuenow")) > was
    lab.screenshot("move_attention_keyboard")

    lab.page.get_by_role("button", name="Exact adversary").click()
    lab.page.wait_for_function("html => [...document.querySelectorAll('.token-heatmap')].at(-1).innerHTML !== html", arg=picture)
    lab.page.wait_for_function("document.querySelector('[role=status]').innerText.includes('the same prediction')")
    exact = status.inner_text()
    assert abs(probability(exact) - probability(before)) <= 0.011
    lab.screenshot("move_attention_exact")

    lab.page.get_by_role("button", name="The model's own").click()
    lab.page.wait_for_function("text => document.querySelector('[role=status]').innerText === text", arg=before)


def test_token_text_is_never_read_as_html_and_the_fallback_stands_before_the_widget(lab):
    lab.open(SETUP)
    cards = lab.page.locator(".jp-OutputArea .token-heatmap")
    cards.nth(1).wait_for()
    assert "the exact adversary" in cards.first.inner_text()
    assert not lab.page.locator(".token-heatmap b, .widget-label b").count()


def test_a_page_reaches_nothing_but_this_machine_and_a_failing_cell_fails_the_test(lab):
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        lab.open("1 / 0")
    reached = lab.page.evaluate("fetch('https://example.org').then(() => 'reached', () => 'refused')")
    assert reached == "refused"


EXPLORERS = {
    "probes": (
        """
import pandas as pd
from course_utils.show.probing import explore_probes
words = [("NOUN", "NOUN"), ("ADJ", "NOUN"), ("VERB", "ADJ")]
rows = [
    (kind + number, layer, sentence, label, label if (layer + sentence + int(number)) % 4 else said)
    for kind in ("tags ", "control ") for number in "123" for layer in range(7) for sentence in range(8) for label, said in words
]
frame = pd.DataFrame(rows, columns=["task", "layer", "sentence", "label", "predicted"])
frame["correct"] = frame["label"] == frame["predicted"]
explore_probes(frame, {f"tags {number}": f"control {number}" for number in "123"})
""",
        {"menu": 1, "slider": 1},
    ),
    "heads that move": (
        """
from course_utils.models import load_finetuned
from course_utils.show.moving import move_between_heads
move_between_heads(load_finetuned(), "a superb film .", ["never dull .", "a mess of a film ."], start=(1, 5, 3))
""",
        {"menu": 4},
    ),
    "checkpoints": (
        """
from course_utils.models import load_encoder
from course_utils.models.untrained import untrained
from course_utils.show.development import explore_checkpoints
encoder = load_encoder()
models = [untrained(encoder, seed=seed) for seed in range(6)] + [encoder]
explorer = explore_checkpoints({step: model.attend(["never dull ."]) for step, model in enumerate(models)}, layer=0, head=2)
explorer.slider.value = 0
explorer
""",
        {"menu": 1, "slider": 1},
    ),
}


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_control_of_an_explorer_answers_to_keyboard_and_mouse(lab, name):
    code, controls = EXPLORERS[name]
    trouble = []
    lab.page.on("pageerror", lambda error: trouble.append(str(error)))
    lab.open(code)
    seen = list(operate(lab.page, ".widget-vbox", ".widget-html .widget-html-content", controls))
    assert len(seen) == 2 * sum(controls.values())
    lab.screenshot(f"explorer_{name}")
    assert trouble == []
