"""Maps that follow places or words, on models where the answer is known."""

import pandas as pd
import pytest
import torch
from tiny import TEXTS, save_bert, save_gpt2

from course_utils.analysis.reordering import follow, shuffled_order
from course_utils.errors import AnalysisError
from course_utils.models import Encoder, load_encoder


@pytest.fixture
def encoder(tmp_path):
    encoder = load_encoder(save_bert(tmp_path, layers=1))
    return Encoder(encoder.model.double(), encoder.tokenizer)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_whole_words_move_and_special_tokens_stay(encoder):
    pieces = encoder.pieces(TEXTS)
    order = shuffled_order(pieces, generator=seeded())
    assert torch.equal(order.sort(1).values, torch.arange(order.shape[1]).expand_as(order))
    assert torch.equal(pieces.special.gather(1, order), pieces.special)
    assert torch.equal(order[pieces.special], torch.arange(order.shape[1]).expand_as(order)[pieces.special])
    words = pieces.word_ids.gather(1, order)
    inside = (words[:, 1:] == words[:, :-1]) & (words[:, 1:] >= 0)
    assert inside.sum() == 3 and (order[:, 1:] - order[:, :-1])[inside].tolist() == [1, 1, 1]  # un ##believ ##able, actor ##s
    assert not torch.equal(order, shuffled_order(pieces, generator=seeded(1)))


def test_without_position_embeddings_maps_go_with_the_words(encoder):
    encoder.model.embeddings.position_embeddings.weight.data.zero_()
    frame = follow(encoder, TEXTS, generator=seeded())
    assert frame["same_words"].min() > 1 - 1e-9 and frame["same_place"].mean() < 0.8


def test_without_word_embeddings_maps_stay_in_place(encoder):
    encoder.model.embeddings.word_embeddings.weight.data.zero_()
    frame = follow(encoder, TEXTS, generator=seeded())
    assert frame["same_place"].min() > 1 - 1e-9 and frame["same_words"].mean() < 0.8


def test_rows_and_edges(encoder):
    frame = follow(encoder, [*TEXTS, "good"], generator=seeded())
    assert list(frame.columns) == ["input", "layer", "head", "same_place", "same_words"] and len(frame) == 7 * 3
    alone = frame.query("input == 6")[["same_place", "same_words"]].to_numpy()
    assert alone == pytest.approx(1)
    pd.testing.assert_frame_equal(frame, follow(encoder, [*TEXTS, "good"], generator=seeded()))


def test_a_causal_model_is_refused(tmp_path):
    with pytest.raises(AnalysisError, match="causal"):
        follow(load_encoder(save_gpt2(tmp_path / "gpt2")), TEXTS, generator=seeded())
