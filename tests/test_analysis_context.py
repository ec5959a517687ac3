import math

import pandas as pd
import pytest
import torch
from tiny import TEXTS, save_bert, save_gpt2

from course_utils.analysis.context import movement
from course_utils.analysis.distances import jsd
from course_utils.errors import AnalysisError
from course_utils.models import Encoder, load_encoder

PAIRED = [*TEXTS, "a bad movie , and good !", "is it a film ?", "the actor was bad", "it was a film ."]


@pytest.fixture(scope="module", params=[save_bert, save_gpt2], ids=["bert", "gpt2"])
def encoder(request, tmp_path_factory):
    encoder = load_encoder(request.param(tmp_path_factory.mktemp("model")))
    return Encoder(encoder.model.double(), encoder.tokenizer)


def test_movement_is_the_mean_divergence_between_texts_of_one_length(encoder):
    frame = movement(encoder, PAIRED)
    first = frame[frame["input"] == frame["input"].min()]
    one, other = (int(first[column].iloc[0]) for column in ("input", "other"))
    maps = [encoder.attend([PAIRED[number]]) for number in (one, other)]
    queries = ~maps[0].special[0]
    expected = jsd(maps[0].attention[0], maps[1].attention[0])[..., queries].mean(-1)
    assert first["movement"].to_numpy() == pytest.approx(expected.flatten().numpy(), abs=1e-9)
    assert frame["movement"].between(0, math.log(2)).all() and frame["movement"].max() > 0.001


def test_each_text_is_used_once_and_has_a_partner_of_its_length(encoder):
    lengths = {number: int(encoder.pieces([text]).lengths[0]) for number, text in enumerate(PAIRED)}
    pairs = movement(encoder, PAIRED)[["input", "other"]].drop_duplicates()
    assert not pd.concat([pairs["input"], pairs["other"]]).duplicated().any()
    assert all(lengths[row.input] == lengths[row.other] for row in pairs.itertuples())


def test_the_same_text_twice_does_not_move(encoder):
    assert movement(encoder, [TEXTS[0], TEXTS[0]])["movement"].to_numpy() == pytest.approx(0, abs=1e-9)


def test_a_head_that_goes_by_position_does_not_move(tmp_path):
    encoder = load_encoder(save_bert(tmp_path))
    embeddings = encoder.model.embeddings
    torch.nn.init.zeros_(embeddings.word_embeddings.weight)
    assert movement(encoder, PAIRED)["movement"].max() < 1e-6


def test_batching_changes_nothing(encoder):
    pd.testing.assert_frame_equal(movement(encoder, PAIRED), movement(encoder, PAIRED, token_budget=1), atol=1e-9)


def test_texts_of_different_lengths_are_refused(encoder):
    with pytest.raises(AnalysisError, match="same number of tokens"):
        movement(encoder, ["the film", "the film was good"])
