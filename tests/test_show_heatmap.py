"""Token heat maps: what they show, to whom, and what they refuse."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.errors import ShowError
from course_utils.show.heatmap import attention_pair, heatmap, relative_luminance, text_colour

ODD_TOKENS = ["<script>alert('x')</script>", "&amp;", '"quoted"', "😀", "电影", "שלום", "مرحبا", "don't"]


class Page(HTMLParser):
    """Every element and text of a piece of HTML; fails where a tag is not closed in its order."""

    VOID = ("img", "br")

    def __init__(self, html: str):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else None, data))

    def all(self, tag, **wanted):
        return [attributes for name, attributes in self.elements if name == tag and wanted.items() <= attributes.items()]

    def words(self):
        return [attributes for attributes in self.all("span") if "title" in attributes]


def rgb(style: str) -> list[float]:
    code = re.search(r"background:#([0-9a-f]{6})", style).group(1)
    return [int(code[start : start + 2], 16) / 255 for start in (0, 2, 4)]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def bar_lengths(html: str) -> list[float]:
    return [float(length) for length in re.findall(r'class="bar"[^>]*width:([\d.]+)em', html)]


def test_tokens_are_shown_as_text_whatever_they_hold():
    page = Page(heatmap(ODD_TOKENS, np.full(8, 1 / 8), title="<b>", captions="<i>").data)
    assert not page.all("script") and not page.all("b") and not page.all("i")
    assert [text for tag, text in page.texts if tag == "span" and text in ODD_TOKENS] == ODD_TOKENS
    assert [text for tag, text in page.texts if tag == "th" and text in ODD_TOKENS] == ODD_TOKENS


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(max_size=8), min_size=1, max_size=5), st.booleans())
def test_any_unicode_gives_well_formed_html(tokens, signed):
    assert len(Page(heatmap(tokens, np.linspace(0, 1, len(tokens)), signed=signed).data).words()) == len(tokens)


def test_right_to_left_text_sets_its_own_direction():
    page = Page(heatmap(["שלום", "עולם"], [0.5, 0.5]).data)
    assert page.all("div", role="img", dir="auto") and page.all("th", scope="row", dir="auto")


@pytest.mark.parametrize("signed", [False, True])
def test_every_word_can_be_read_on_its_colour(signed):
    weights = np.linspace(-1 if signed else 0, 1, 201)
    for word in Page(heatmap(["w"] * 201, weights, signed=signed).data).words():
        black = re.search(r";color:(#0{3}|#f{3})\b", word["style"]).group(1) == "#000"
        assert contrast(relative_luminance(rgb(word["style"])), 0 if black else 1) >= 4.5


@settings(deadline=None)
@given(st.tuples(*[st.floats(0, 1)] * 3))
def test_black_or_white_is_legible_on_any_colour(background):
    ink = 0 if text_colour(background) == "#000" else 1
    assert contrast(relative_luminance(background), ink) >= 4.5


def test_more_weight_is_darker_and_zero_is_white():
    words = Page(heatmap(["w"] * 50, np.linspace(0, 0.3, 50)).data).words()
    luminances = [relative_luminance(rgb(word["style"])) for word in words]
    assert luminances == sorted(luminances, reverse=True) and len(set(luminances)) == 50
    assert luminances[0] == 1


def test_signed_scores_are_red_above_zero_and_blue_below():
    low, zero, high = (rgb(word["style"]) for word in Page(heatmap(list("abc"), [-2, 0, 2], signed=True).data).words())
    assert low[2] > low[0] and high[0] > high[2]
    assert relative_luminance(zero) > 0.85


def test_bars_say_the_weight_without_colour():
    html = heatmap(list("abcd"), [0.5, 0.25, 0.2, 0.05]).data
    assert bar_lengths(html) == pytest.approx([2.4, 1.2, 0.96, 0.24])
    assert len(bar_lengths(heatmap(list("abcd"), [0.5, 0.25, 0.2, 0.05], threshold=0.3).data)) == 3
    signed = heatmap(list("ab"), [-1, 1], signed=True).data
    hollow, solid = re.findall(r'class="bar"[^>]*background:(#\w+)', signed)
    assert (hollow, solid) == ("#fff", "#000")


def test_rows_share_one_scale():
    html = heatmap(list("ab"), [[0.6, 0.4], [0.3, 0.7]]).data
    assert bar_lengths(html) == pytest.approx([2.4 * w / 0.7 for w in (0.6, 0.4, 0.3, 0.7)], abs=0.006)
    assert bar_lengths(heatmap(list("ab"), [0.6, 0.4], limit=1).data) == pytest.approx([1.44, 0.96])


def test_a_screen_reader_finds_every_number_in_a_table_with_heads_and_a_caption():
    page = Page(heatmap(["good", "film"], [[0.75, 0.25], [0.125, 0.875]], captions=("mine", "yours"), title="Two ways").data)
    assert page.all("details") and page.all("summary") and page.all("caption")
    assert len(page.all("th", scope="col")) == 4 and len(page.all("th", scope="row")) == 2
    assert [text for tag, text in page.texts if tag == "td"] == ["0", "0.7500", "0.1250", "1", "0.2500", "0.8750"]
    assert [row["aria-label"].split(".")[0] for row in page.all("div", role="img")] == ["mine", "yours"]


def test_the_card_brings_its_own_background_for_dark_themes():
    page = Page(heatmap(["good"], [1.0]).data)
    card = page.elements[0][1]["style"]
    assert "background:#fff" in card and "color:#000" in card
    assert all("background:#fff" in row["style"] for row in page.all("tr"))


def test_long_texts_stay_small():
    generator = np.random.default_rng(0)
    html = heatmap(["word"] * 500, generator.dirichlet(np.full(500, 0.1))).data
    assert len(Page(html).words()) == 500 and len(html) < 300_000


def test_tensors_zeros_and_one_token_are_fine():
    wanted = heatmap(["a", "b"], [0.25, 0.75]).data
    assert heatmap(["a", "b"], torch.tensor([0.25, 0.75], requires_grad=True)).data == wanted
    assert not bar_lengths(heatmap(["a", "b"], [0, 0]).data)
    assert len(Page(heatmap(["only"], [1]).data).words()) == 1


def test_the_pair_states_what_moved():
    html = attention_pair(list("ab"), [0.9, 0.1], [0.1, 0.9], probabilities=(0.91, 0.902), jsd=0.368, class_name="po<s").data
    assert "The prediction moves by 0.008, the attention by 0.368 of at most 0.693" in html
    assert "p(po&lt;s) = 0.910" in html and "p(po&lt;s) = 0.902" in html


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"], [1.0]), "2 tokens"),
        (([], []), "0 tokens"),
        ((["a", "b"], [[0.5, 0.5], [1.0]]), "equal length"),
        ((["a"], ["much"]), "numbers"),
        ((["a", "b"], [np.nan, 1]), "'a'.*nan"),
        ((["a", "b"], [1, np.inf]), "'b'.*inf"),
        ((["a", "b"], [1.5, -0.5]), "signed=True"),
        (("ab", [0.5, 0.5]), "one string"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ShowError, match=message):
        heatmap(*arguments)


@pytest.mark.parametrize("options", [{"limit": 0.4}, {"threshold": 0}, {"captions": ("one", "two")}])
def test_options_that_do_not_fit_are_refused(options):
    with pytest.raises(ShowError):
        heatmap(["a", "b"], [0.5, 0.5], **options)
