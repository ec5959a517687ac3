"""The explorer's page: its weights, its text, its limits. What happens on a key press is tested in tests/browser."""

import base64
import html
import json
import re

import numpy as np
import pytest
import tiny

from course_utils.errors import ShowError
from course_utils.models import load_encoder
from course_utils.show import explorer
from course_utils.show.colours import WEIGHTS, weight_colours
from course_utils.show.explorer import explore_heads
from course_utils.show.heatmap import relative_luminance


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(tiny.save_bert(tmp_path_factory.mktemp("models") / "bert"))


def data(view) -> dict:
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', view.data).group(1))
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))


def test_every_weight_of_every_text_is_in_the_page_without_padding(encoder):
    maps = encoder.attend(["good", "the film was good ."])
    found = data(explore_heads(maps))
    for row, text in enumerate(found["texts"]):
        alone = maps.one(row)
        assert text["tokens"] == list(alone.tokens[0])
        weights = np.frombuffer(base64.b64decode(text["weights"]), "<u2") / found["scale"]
        assert np.abs(weights.reshape(alone.attention[0].shape) - alone.attention[0].numpy()).max() <= 0.5001 / found["scale"]


def test_the_first_choice_is_told_in_words_for_who_sees_no_frame(encoder):
    maps = encoder.attend(["the film was good ."])
    view = explore_heads(maps, layer=1, head=2, position=3, title="Look & see")
    weight, key = maps.attention[0, 1, 2, 3].max(-1)
    assert f"in layer 1, head 2, “was” looks most at “{maps.tokens[0][key]}” ({weight:.2f})" in view.data
    assert 'iframe title="Look &amp; see" sandbox="allow-scripts"' in view.data
    assert [data(view)[name] for name in ("layer", "head", "position")] == [1, 2, 3]


def test_token_text_cannot_end_its_script(encoder):
    maps = encoder.attend(["good"])
    hostile = type(maps)(**{**vars(maps), "tokens": (("[CLS]", "</script><img src=x>", "[SEP]"),)})
    view = explore_heads(hostile)
    assert "<img" not in html.unescape(view.data)
    assert data(view)["texts"][0]["tokens"][1] == "</script><img src=x>"


def test_what_does_not_exist_or_does_not_fit_is_refused(encoder, monkeypatch):
    maps = encoder.attend(["the film was good ."])
    for choice, message in (({"layer": 2}, "layer 2"), ({"head": -1}, "head -1"), ({"position": 7}, "positions 0 to 6")):
        with pytest.raises(ShowError, match=message):
            explore_heads(maps, **choice)
    monkeypatch.setattr(explorer, "LONGEST", 5)
    with pytest.raises(ShowError, match="7 tokens; .* above 5"):
        explore_heads(maps)
    monkeypatch.undo()
    monkeypatch.setattr(explorer, "MOST_BYTES", 10_000)
    with pytest.raises(ShowError, match="show fewer"):
        explore_heads(maps)


def test_a_heavier_weight_is_always_darker():
    assert weight_colours()[0] == "#ffffff"
    luminance = [relative_luminance(WEIGHTS(share)[:3]) for share in np.linspace(0, 1, 64)]
    assert (np.diff(luminance) < 0).all()
