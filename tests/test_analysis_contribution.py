import numpy as np
import pandas as pd
import pytest
import torch
from tiny import TEXTS, save_bert, save_gpt2

from course_utils.analysis.contribution import contributions, head_norms, layer_norms, transformed_norms
from course_utils.errors import AnalysisError
from course_utils.models import Encoder, gate_heads, load_encoder


@pytest.fixture(scope="module", params=[save_bert, save_gpt2], ids=["bert", "gpt2"])
def encoder(request, tmp_path_factory):
    encoder = load_encoder(request.param(tmp_path_factory.mktemp("model")))
    return Encoder(encoder.model.double(), encoder.tokenizer)


def test_norms_against_vectors_written_out(encoder):
    """Layer 0's values and projection, taken from the weights by hand."""
    maps = encoder.attend(TEXTS, states=True)
    model, states = encoder.model, maps.hidden[:, 0]
    if model.config.model_type == "bert":
        attention = model.encoder.layer[0].attention
        values, projection = attention.self.value(states), attention.output.dense.weight.T
    else:
        block = model.h[0]
        values, projection = block.attn.c_attn(block.ln_1(states))[..., -12:], block.attn.c_proj.weight
    read = torch.zeros(*maps.attention[:, 0, 0].shape, 12, dtype=torch.float64)
    for head in range(3):
        cut = slice(4 * head, 4 * head + 4)
        written = values[..., cut] @ projection[cut]  # (B, T, H)
        assert torch.allclose(transformed_norms(encoder, maps)[:, 0, head][maps.mask], written.norm(dim=-1)[maps.mask])
        weighted = maps.attention[:, 0, head, :, :, None] * written[:, None]
        assert torch.allclose(head_norms(encoder, maps)[:, 0, head], weighted.norm(dim=-1))
        read += weighted
    assert torch.allclose(layer_norms(encoder, maps)[:, 0], read.norm(dim=-1), atol=1e-7)


def test_a_layer_reads_at_most_what_its_heads_read(encoder):
    maps = encoder.attend(TEXTS, states=True)
    assert (layer_norms(encoder, maps) <= head_norms(encoder, maps).sum(2) + 1e-7).all()
    with pytest.raises(AnalysisError, match="states=True"):
        layer_norms(encoder, encoder.attend(TEXTS))


def test_a_head_whose_values_are_zero_is_attended_but_not_read(tmp_path):
    encoder = load_encoder(save_bert(tmp_path / "bert"))
    attention = encoder.model.encoder.layer[1].attention
    with torch.no_grad():
        attention.output.dense.weight[:, :4] = 0
    maps = encoder.attend(TEXTS, states=True)
    assert (head_norms(encoder, maps)[:, 1, 0] == 0).all() and maps.attention[:, 1, 0].sum() > 0
    before = encoder.attend(TEXTS, states=True).hidden[:, -1]
    with gate_heads(encoder.model, torch.tensor([[1.0, 1, 1], [0, 1, 1]])):
        assert torch.allclose(encoder.attend(TEXTS, states=True).hidden[:, -1][maps.mask], before[maps.mask], atol=1e-6)


def test_the_table(encoder):
    frame = contributions(encoder, [*TEXTS, "😀"])
    assert list(frame.columns) == ["input", "layer", "token_class", "attention", "norm", "value_norm"]
    assert len(frame) == 7 * 2 * 4
    sums = frame.groupby(["input", "layer"])[["attention", "norm"]].sum()
    assert np.allclose(sums, 1)
    words = frame.query("token_class == 'word'")["value_norm"]
    assert np.allclose(words, 1)
    missing = frame.query("input == 3 and token_class == 'punctuation'")
    assert (missing["attention"] == 0).all() and (missing["norm"] == 0).all() and missing["value_norm"].isna().all()
    pd.testing.assert_frame_equal(frame, contributions(encoder, [*TEXTS, "😀"], token_budget=10), atol=1e-9)


def test_cls_in_minilm_is_attended_but_hardly_read():
    frame = contributions(
        load_encoder(), ["the film is a quiet , moving and often very funny portrait of a family .", "bad , bad , bad !"]
    )
    first = frame[frame["token_class"].eq("first") & frame["layer"].between(1, 4)]
    assert first["attention"].mean() > 0.35
    assert first["norm"].mean() < 0.15
    assert first["value_norm"].max() < 0.15
