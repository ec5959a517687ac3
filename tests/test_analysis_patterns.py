import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import TEXTS, save_bert, save_gpt2

from course_utils.analysis.patterns import MEASURES, SCORES, by_head, by_layer, claims, name_pattern, patterns, score
from course_utils.errors import AnalysisError, ModelError
from course_utils.models import AttentionMaps, Encoder, load_encoder

TOKENS = ["[CLS]", "good", ",", "bad", "film", "[SEP]"]


@pytest.fixture(scope="module", params=[save_bert, save_gpt2], ids=["bert", "gpt2"])
def encoder(request, tmp_path_factory):
    encoder = load_encoder(request.param(tmp_path_factory.mktemp("model")))
    return Encoder(encoder.model.double(), encoder.tokenizer)


def scores_of(matrix, tokens=TOKENS, causal=False):
    scores = score(AttentionMaps.from_matrix(torch.as_tensor(matrix, dtype=torch.float64), tokens, causal=causal))
    return {name: values.item() for name, values in scores.items()}


def pointing(*targets):
    """Each query attends to one key only."""
    return torch.eye(len(targets), dtype=torch.float64)[list(targets)]


def test_diagonals():
    previous = scores_of(pointing(0, 0, 1, 2, 3, 4))
    assert previous == pytest.approx(
        dict.fromkeys(MEASURES, 0) | {"previous": 1, "diagonal": 1, "mean_distance": 1, "sparse": 1}
        | {"first": 0.25, "punctuation": 0.25, "vertical": 0.5, "relative_distance": (1 / 4 + 1 / 3 + 1 / 3 + 1 / 4) / 4}
    )  # fmt: skip
    following = scores_of(pointing(1, 2, 3, 4, 5, 5))
    assert (following["next"], following["separator"], following["previous"]) == (1, 0.25, 0)
    own = scores_of(pointing(0, 1, 2, 3, 4, 5))
    assert (own["self"], own["diagonal"], own["mean_distance"], own["uniform"]) == (1, 1, 0, 0)


def test_verticals():
    to_first = scores_of(pointing(0, 0, 0, 0, 0, 0))
    assert (to_first["first"], to_first["vertical"], to_first["mean_distance"]) == (1, 1, (1 + 2 + 3 + 4) / 4)
    to_separator = scores_of(pointing(5, 5, 5, 5, 5, 5))
    assert (to_separator["separator"], to_separator["vertical"], to_separator["first"]) == (1, 1, 0)
    to_comma = scores_of(pointing(2, 2, 2, 2, 2, 2))
    assert (to_comma["punctuation"], to_comma["vertical"], to_comma["self"]) == (1, 1, 0.25)


def test_uniform_and_half_way():
    uniform = scores_of(torch.full((6, 6), 1 / 6))
    assert uniform["uniform"] == pytest.approx(1) and uniform["sparse"] == pytest.approx(0, abs=1e-12)
    assert uniform["entropy"] == pytest.approx(math.log(6))
    assert uniform["vertical"] == pytest.approx(1 / 2)
    halves = torch.zeros(6, 6, dtype=torch.float64)
    halves[:, [0, 5]] = 0.5
    half = scores_of(halves)
    assert half["entropy"] == pytest.approx(math.log(2))
    assert half["sparse"] == pytest.approx(1 - math.log(2) / math.log(6))
    assert half["uniform"] == pytest.approx(1 - (2 / 3) / (5 / 6))


def test_a_causal_map_is_judged_by_what_it_can_see():
    tokens = ["a", "b", "c", "d"]
    spread = torch.ones(4, 4, dtype=torch.float64).tril()
    scores = scores_of(spread / spread.sum(-1, keepdim=True), tokens, causal=True)
    assert scores["uniform"] == pytest.approx(1) and scores["sparse"] == pytest.approx(0, abs=1e-12)
    assert scores["first"] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)


def test_special_queries_and_padding_do_not_count():
    base = torch.full((6, 6), 1 / 6, dtype=torch.float64)
    changed = base.clone()
    changed[[0, 5]] = torch.eye(6, dtype=torch.float64)[2]
    assert scores_of(base) == scores_of(changed)


def test_a_single_token_has_no_neighbours():
    scores = scores_of([[1.0]], ["good"])
    missing = {name for name, value in scores.items() if math.isnan(value)}
    assert missing == {"previous", "next", "first", "vertical", "sparse", "uniform", "relative_distance"}
    assert (scores["self"], scores["entropy"], scores["mean_distance"]) == (1, 0, 0)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 9), st.integers(0, 10_000), st.floats(0.01, 5), st.booleans())
def test_scores_stay_between_0_and_1(size, seed, sharpness, causal):
    logits = sharpness * torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if causal:
        logits = logits.masked_fill(torch.ones(size, size).triu(1).bool(), -math.inf)
    scores = scores_of(logits.softmax(-1), [",", *["word"] * (size - 1)], causal)
    values = np.array([scores[name] for name in SCORES])
    assert ((values >= -1e-12) & (values <= 1 + 1e-12)).all()
    together = scores["previous"] + scores["next"] + scores["self"]
    assert max(scores["punctuation"], scores["self"]) <= scores["diagonal"] + scores["vertical"] + 1e-12 and together <= 3


def test_hand_made_maps_are_checked():
    with pytest.raises(ModelError, match="6 tokens"):
        AttentionMaps.from_matrix(torch.eye(5), TOKENS)
    with pytest.raises(ModelError, match="sums to 1"):
        AttentionMaps.from_matrix(torch.ones(6, 6), TOKENS)


def test_the_table_does_not_depend_on_batching_or_order(encoder):
    frame = patterns(encoder, TEXTS)
    assert list(frame.columns) == ["input", "layer", "head", *MEASURES]
    assert len(frame) == len(TEXTS) * 2 * 3
    pd.testing.assert_frame_equal(frame, patterns(encoder, TEXTS, token_budget=10), atol=1e-9)
    turned = patterns(encoder, TEXTS[::-1])
    turned["input"] = len(TEXTS) - 1 - turned["input"]
    turned = turned.sort_values(["input", "layer", "head"], ignore_index=True)
    pd.testing.assert_frame_equal(frame, turned, atol=1e-9)
    alone = score(encoder.attend([TEXTS[2]]))
    assert np.allclose(frame.query("input == 2")["sparse"], alone["sparse"].flatten())


def test_without_special_tokens_the_rest_is_all_there_is():
    matrix = [[1, 0, 0, 0, 0], [0.5, 0, 0.25, 0, 0.25], [0.25, 0.25, 0.25, 0.25, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]
    maps = AttentionMaps.from_matrix(torch.tensor(matrix, dtype=torch.float64), ["[CLS]", "good", "bad", "film", "[SEP]"])
    alone = maps.without_special()
    third = 1 / 3
    expected = torch.tensor([[0, 1, 0], [third, third, third], [third, third, third]], dtype=torch.float64)
    assert torch.allclose(alone.attention[0, 0, 0], expected) and alone.tokens == (("good", "bad", "film"),)
    assert score(alone)["sparse"].item() == pytest.approx(third) and score(alone)["separator"].item() == 0
    assert score(alone)["next"].item() == pytest.approx((1 + third) / 2)


def test_leaving_out_special_tokens_does_not_depend_on_padding(encoder):
    frame = patterns(encoder, TEXTS, leave_out_special=True)
    pd.testing.assert_frame_equal(frame, patterns(encoder, TEXTS, leave_out_special=True, token_budget=10), atol=1e-9)
    maps = encoder.attend(TEXTS)
    alone = maps.without_special()
    for row in range(len(TEXTS)):
        length = int(alone.lengths[row])
        one = alone.one(row).attention
        assert torch.allclose(one.sum(-1), torch.ones_like(one[..., 0])) and len(alone.tokens[row]) == length
        assert not alone.attention[row, ..., length:].any() and not alone.attention[row, ..., length:, :].any()
        assert not alone.causal or not one.triu(1).any()


def test_summaries(encoder):
    frame = patterns(encoder, TEXTS)
    heads = by_head(frame)
    assert len(heads) == 6 and heads["pattern"].map(type).eq(str).all()
    assert heads.loc[4, "self"] == pytest.approx(frame.query("layer == 1 and head == 1")["self"].mean())
    layers = by_layer(frame, seed=3)
    assert ((layers["low"] <= layers["mean"] + 1e-9) & (layers["mean"] <= layers["high"] + 1e-9)).all()
    pd.testing.assert_frame_equal(layers, by_layer(frame, seed=3))
    assert not layers.equals(by_layer(frame, seed=4))


def test_emoji_and_one_word_texts_go_through(encoder):
    heads = by_head(patterns(encoder, ["😀", "good", *TEXTS]))
    assert not heads[list(SCORES)].drop(columns="separator").isna().any().any()


def make_frame(diagonal, sparse):
    """Scores of 40 texts in layers x 1 head, with a little noise."""
    noise = np.random.default_rng(0).normal(0, 0.02, (40, len(diagonal)))
    rows = [
        dict.fromkeys(MEASURES, 0.1)
        | {"input": text, "layer": layer, "head": 0}
        | {"diagonal": diagonal[layer] + noise[text, layer], "sparse": sparse[layer] - noise[text, layer]}
        for text in range(40)
        for layer in range(len(diagonal))
    ]
    return pd.DataFrame(rows)


def test_claims_are_tested_on_their_own_side():
    table = claims(make_frame([0.9, 0.8, 0.5, 0.2, 0.1], [0.7, 0.6, 0.1, 0.2, 0.1])).set_index("claim")
    assert table["holds"].tolist() == ["yes", "no"]
    assert table.loc["diagonal in low layers", "difference"] == pytest.approx(0.7, abs=0.02)
    table = claims(make_frame([0.2, 0.9], [0.1, 0.6])).set_index("claim")
    assert table["holds"].tolist() == ["no", "yes"]
    assert claims(make_frame([0.5, 0.5], [0.5, 0.5]))["holds"].tolist() == ["open", "open"]
    with pytest.raises(AnalysisError, match="one layer"):
        claims(make_frame([0.5], [0.5]))


def test_the_interval_covers_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(1)
    hits = 0
    for seed in range(30):
        frame = make_frame([0.0, 0.0], [0.5, 0.5])
        frame["diagonal"] = generator.normal(0.4, 0.2, len(frame))
        row = by_layer(frame, n_resamples=200, seed=seed).query("score == 'diagonal' and layer == 0").iloc[0]
        hits += row["low"] <= 0.4 <= row["high"]
    assert 24 <= hits <= 30


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"previous": 0.7, "first": 0.6}, "previous"),
        ({"next": 0.6}, "next"),
        ({"first": 0.6, "vertical": 0.9}, "first"),
        ({"punctuation": 0.4, "first": 0.2, "vertical": 0.6}, "vertical"),
        ({"sparse": 0.05}, "uniform"),
        ({"sparse": 0.6}, "sparse"),
        ({"previous": math.nan, "first": math.nan}, "mixed"),
        ({}, "mixed"),
    ],
)
def test_names(changes, name):
    assert name_pattern(pd.Series(dict.fromkeys(MEASURES, 0.2) | {"sparse": 0.3} | changes)) == name
