"""BertViz views as pages of their own: what is in them, what is not, and what is refused."""

import html
import json
import re

import pytest
import tiny
import torch

from course_utils.errors import ModelError, ShowError
from course_utils.models import load_encoder
from course_utils.models.queries import neurons
from course_utils.show import bertviz
from course_utils.show.bertviz import head_view, model_view, neuron_view

TEXT = "the film was <b> good </script> ."


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(tiny.save_bert(tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(scope="module")
def maps(encoder):
    return encoder.attend([TEXT])


def page(view) -> str:
    return html.unescape(re.search(r'srcdoc="([^"]*)"', view.data).group(1))


def data(view) -> dict:
    source = page(view)
    return json.JSONDecoder().raw_decode(source, re.search(r"(const params|window.bertviz_params) = (?=\{)", source).end())[0]


def views(encoder, maps):
    return {"head": head_view(maps), "model": model_view(maps), "neuron": neuron_view(encoder, TEXT)}


def test_no_view_asks_for_a_script_of_the_network_and_each_brings_d3_and_jquery(encoder, maps):
    for view in views(encoder, maps).values():
        source = page(view)
        assert not re.search(r"<(script|link|img)[^>]*\s(src|href)=", source)
        assert "d3js.org v5" in source and "jQuery v3" in source
        assert source.index("jQuery v3") < source.index("requirejs([")


def test_a_frame_has_a_name_may_only_run_scripts_and_is_white_in_a_dark_page(encoder, maps):
    for name, view in views(encoder, maps).items():
        assert re.search(r'<iframe title="[^"]+" sandbox="allow-scripts" style="[^"]*background:#fff', view.data), name
        assert "background:#fff;color:#000;color-scheme:light" in page(view)


def test_token_text_cannot_end_its_script(encoder, maps):
    texts = encoder.attend(["good"])
    hostile = type(texts)(**{**vars(texts), "tokens": (("[CLS]", "</script><img src=x>", "[SEP]"),)})
    for view in (head_view(hostile), model_view(hostile)):
        assert "<img" not in page(view) and "<img" not in view.data
        assert data(view)["attention"][0]["left_text"][1] == "</script><img src=x>"


def test_weights_are_the_models_to_3_decimals_and_written_once(maps):
    expected = maps.attention[0].double()
    for view in (head_view(maps), model_view(maps)):
        written = data(view)["attention"][0]["attn"]
        torch.testing.assert_close(torch.tensor(written, dtype=torch.float64), expected, atol=5.01e-4, rtol=0)
        assert max(len(number) for number in re.findall(r"0\.\d+", json.dumps(written))) <= 5
        assert page(view).count('"left_text"') == 1


def test_padding_is_stripped(encoder):
    texts = ["good", TEXT]
    alone, padded = (data(head_view(maps))["attention"] for maps in (encoder.attend(["good"]), encoder.attend(texts).one(0)))
    assert alone[0]["left_text"] == padded[0]["left_text"] == ["[CLS]", "good", "[SEP]"]
    torch.testing.assert_close(torch.tensor(alone[0]["attn"]), torch.tensor(padded[0]["attn"]), atol=1.1e-3, rtol=0)


def test_layers_and_heads_are_a_subset_in_the_order_asked_for(encoder, maps):
    head, model = data(head_view(maps, layers=[1], heads=[2])), data(model_view(maps, layers=[1], heads=[2, 0]))
    assert (head["include_layers"], head["layer"], head["heads"]) == ([1], 1, [2])
    assert (model["include_layers"], model["include_heads"]) == ([1], [2, 0])
    expected = maps.attention[0, 1].double()
    torch.testing.assert_close(torch.tensor(model["attention"][0]["attn"][0]).double(), expected[[2, 0]], atol=5.01e-4, rtol=0)
    neuron = neuron_view(encoder, TEXT, layers=[1], head=2)
    torch.testing.assert_close(torch.tensor(data(neuron)["attention"]["all"]["attn"][0]).double(), expected, atol=5.01e-4, rtol=0)
    assert "option.text = [1][at]" in page(neuron)


def test_queries_and_keys_make_the_attention_and_no_hook_stays(encoder):
    before = sum(len(module._forward_hooks) for module in encoder.model.modules())
    found = neurons(encoder, TEXT)
    scores = found.queries @ found.keys.transpose(-1, -2) / found.queries.shape[-1] ** 0.5
    torch.testing.assert_close(scores.softmax(-1), found.maps.attention[0], atol=1e-5, rtol=1e-4)
    assert sum(len(module._forward_hooks) for module in encoder.model.modules()) == before


def test_queries_and_keys_of_distilbert_too_and_gpt2_is_refused_with_the_reason(tmp_path):
    found = neurons(load_encoder(tiny.save_distilbert(tmp_path / "distilbert")), "the film")
    scores = found.queries @ found.keys.transpose(-1, -2) / found.queries.shape[-1] ** 0.5
    torch.testing.assert_close(scores.softmax(-1), found.maps.attention[0], atol=1e-5, rtol=1e-4)
    with pytest.raises(ModelError, match="GPT2Model has no separate modules for queries and keys.*head_view"):
        neuron_view(load_encoder(tiny.save_gpt2(tmp_path / "gpt2")), "the film")


def test_a_table_says_where_each_head_looks_most(maps):
    summary = head_view(maps).data
    weight, position = maps.attention[0].mean(2).max(-1)
    for layer in range(maps.n_layers):
        for head in range(maps.n_heads):
            token = html.escape(maps.tokens[0][position[layer, head]])
            assert f'<th scope="row">{layer}-{head}</th><td>{token}</td><td>{weight[layer, head]:.2f}</td>' in summary


def test_what_a_browser_cannot_draw_is_refused_with_a_hint(encoder, maps, monkeypatch):
    with pytest.raises(ShowError, match=r"the maps hold 2 texts; this shows one: pass maps.one\(row\)"):
        head_view(encoder.attend(["good", TEXT]))
    for arguments, message in (
        ({"layers": [2]}, "layer 2 does not exist; there are layers 0 to 1"),
        ({"layers": []}, "empty"),
        ({"heads": [1, 1]}, "names one twice"),
    ):
        with pytest.raises(ShowError, match=message):
            model_view(maps, **arguments)
    monkeypatch.setattr(bertviz, "MOST_LINES", 200)
    with pytest.raises(ShowError, match="use a text of at most 5 tokens, or choose fewer layers or heads"):
        model_view(maps)
    with pytest.raises(ShowError, match="at most 5 tokens"):
        neuron_view(encoder, TEXT)
    monkeypatch.undo()
    monkeypatch.setattr(bertviz, "MOST_BYTES", 100_000)
    with pytest.raises(ShowError, match="MB to the notebook, above 0.1"):
        head_view(maps)
