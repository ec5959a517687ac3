from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import TEXTS, save_bert, save_gpt2

from course_utils.analysis import heads
from course_utils.data.parsing import Parse
from course_utils.errors import AnalysisError
from course_utils.models import AttentionMaps, Encoder, load_encoder
from course_utils.models.untrained import untrained

WHOLE = [text for text in TEXTS if "unbelievable" not in text and "actors" not in text]  # every word is one piece
CHAIN = {"the": "det", "a": "det", "good": "amod", "bad": "amod", "film": "dobj", "movie": "dobj"}


def by_hand(text):
    """A parse in which a word of CHAIN depends on the next word but one if there is one, and all others are roots."""
    words, starts, end = text.split(), [], 0
    for word in words:
        starts.append(text.index(word, end))
        end = starts[-1] + len(word)
    has = [word in CHAIN and place + 2 < len(words) for place, word in enumerate(words)]
    return Parse(
        words=tuple(words),
        starts=tuple(starts),
        ends=tuple(start + len(word) for start, word in zip(starts, words, strict=True)),
        pos=("X",) * len(words),
        tags=("X",) * len(words),
        labels=tuple(CHAIN[word] if found else "ROOT" for word, found in zip(words, has, strict=True)),
        heads=tuple(place + 2 * found for place, found in enumerate(has)),
    )


class Planted(Encoder):
    """Head 0-0 looks at the piece before, head 1-2 at the piece two further on; the others spread evenly."""

    def attend(self, texts, **arguments):
        maps = super().attend(texts, **arguments)
        size = maps.attention.shape[-1]
        attention = torch.full_like(maps.attention, 1 / size)
        attention[:, 0, 0] = torch.eye(size).roll(-1, 1)
        attention[:, 1, 2] = torch.eye(size).roll(2, 1)
        return replace(maps, attention=attention * maps.mask[:, None, None, :, None])


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(save_bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture
def planted(encoder):
    return Planted(encoder.model, encoder.tokenizer)


@pytest.fixture
def parses():
    return [by_hand(text) for text in TEXTS]


def test_most_attended_leaves_out_itself_special_tokens_and_padding():
    attention = torch.tensor([[0.1, 0.1, 0.1, 0.7], [0.2, 0.5, 0.3, 0.0], [0.9, 0.04, 0.06, 0.0], [0.25, 0.25, 0.25, 0.25]])
    maps = AttentionMaps.from_matrix(attention, ["[CLS]", "good", "film", "[SEP]"])
    assert heads.most_attended(maps)[0, 0, 0, 1:3].tolist() == [2, 1]
    assert heads.most_attended(maps, others=False)[0, 0, 0].tolist() == [3, 1, 0, 0]
    alone = AttentionMaps.from_matrix(torch.tensor([[0.5, 0.5], [0.5, 0.5]]), ["[CLS]", "good"])
    assert heads.most_attended(alone)[0, 0, 0].tolist() == [1, -1]


def test_a_planted_head_is_found_in_its_direction_and_at_its_distance(planted):
    parses = [by_hand(text) for text in WHOLE]
    arcs = heads.dependencies(planted, WHOLE, parses)
    table = arcs.table
    forward = (table["direction"] == heads.DIRECTIONS[0]).to_numpy()
    assert set(table["offset"][forward]) == {2} and set(table["offset"][~forward]) == {-2}
    assert arcs.hits[forward, 1, 2].all() and not arcs.hits[~forward, 1, 2].any() and not arcs.hits[:, 0, 0].any()
    best = heads.best_heads(arcs, least=1).set_index(["relation", "direction"])
    row = best.loc["all", heads.DIRECTIONS[0]]
    assert (row["layer"], row["head"], row["score"], row["offset"], row["fixed"], row["gain"]) == (1, 2, 1, 2, 1, 0)
    assert row["near"] == 1 and np.isnan(row["far"])
    assert len(table) == 2 * sum(len(parsed) - parsed.labels.count("ROOT") for parsed in parses)


def test_pieces_of_a_word_are_one_answer(planted):
    text = "the unbelievable film was good"
    parsed = Parse(
        tuple(text.split()), (0, 4, 17, 22, 26), (3, 16, 21, 25, 30), *[("X",) * 5] * 2, ("det",) + ("ROOT",) * 4, (2, 1, 2, 3, 4)
    )
    arcs = heads.dependencies(planted, [text], [parsed])
    assert planted.pieces([text]).tokens[0][2:5] == ("un", "##believ", "##able")
    assert arcs.table["offset"].tolist() == [2, -2]
    assert arcs.hits[0, 0, 0] == 0 and not arcs.hits[0, 1, 2]  # two pieces on is still the long word, not "film"


def test_arcs_do_not_depend_on_batches_or_order(encoder, parses):
    arcs = heads.dependencies(encoder, TEXTS, parses)
    small = heads.dependencies(encoder, TEXTS, parses, token_budget=1)
    pd.testing.assert_frame_equal(arcs.table, small.table)
    assert (arcs.hits == small.hits).all() and arcs.counts == small.counts
    turned = heads.dependencies(encoder, TEXTS[::-1], parses[::-1])
    of = {number: turned.hits[turned.table["input"] == len(TEXTS) - 1 - number] for number in range(len(TEXTS))}
    assert all((arcs.hits[arcs.table["input"] == number] == of[number]).all() for number in of)


def test_choice_and_score_are_on_different_texts():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"input": np.repeat(np.arange(100), 4), "relation": "dobj", "direction": heads.DIRECTIONS[0]})
    table["offset"] = rng.choice([-1, 1], len(table))
    hits = rng.random((len(table), 6, 12)) < 0.1
    best = heads.best_heads(heads.Arcs(table, hits, {}))
    row = best[best["relation"] == "dobj"].iloc[0]
    assert row["chosen_at"] > 0.15 and row["low"] < 0.1 < row["high"] and row["n"] == 200
    assert row["gain_high"] < 0 and row["gain"] == pytest.approx(row["score"] - row["fixed"])
    second = (table["input"] % 2 == 1).to_numpy()[:, None, None]
    same = heads.best_heads(heads.Arcs(table, hits ^ (second & (rng.random(hits.shape) < 0.5)), {}))
    assert same[["layer", "head"]].equals(best[["layer", "head"]])  # what happens on the second half chooses nothing


def test_near_and_far_split_the_score():
    table = pd.DataFrame(
        {"input": [0, 0, 1, 1, 1, 1], "relation": "det", "direction": heads.DIRECTIONS[0], "offset": [1, 1, 1, 1, 2, 3]}
    )
    hits = np.array([True, True, True, False, True, False]).reshape(-1, 1, 1)
    row = heads.best_heads(heads.Arcs(table, hits, {}), least=1).iloc[0]
    assert (row["score"], row["fixed"], row["near"], row["far"]) == (0.5, 0.5, 0.5, 0.5)


def test_a_relation_with_few_or_no_instances_has_no_row(planted, parses):
    arcs = heads.dependencies(planted, TEXTS, parses)
    assert heads.best_heads(arcs, least=10**6).empty
    assert "nsubj" not in set(heads.best_heads(arcs, least=1)["relation"])
    roots = [replace(parsed, labels=("ROOT",) * len(parsed), heads=tuple(range(len(parsed)))) for parsed in parses]
    none = heads.dependencies(planted, TEXTS, roots)
    assert len(none.table) == len(none.hits) == 0
    assert heads.best_direction(heads.best_heads(none, least=0)).empty


def test_best_direction_goes_by_the_half_that_chose():
    table = pd.DataFrame({"relation": ["all", "all", "det"], "chosen_at": [0.2, 0.3, 0.1], "score": [0.9, 0.1, 0.5]})
    assert heads.best_direction(table)["score"].tolist() == [0.1, 0.5]


def test_parses_of_other_texts_are_refused(encoder, parses):
    with pytest.raises(AnalysisError, match="6 texts came with 2 parses"):
        heads.dependencies(encoder, TEXTS, parses[:2])


def test_planted_positions_are_found(planted):
    found = heads.positions(planted, WHOLE).set_index(["layer", "head"])
    assert (found.loc[(0, 0), ["offset", "score"]] == [-1, 1]).all()
    assert (found.loc[(1, 2), ["offset", "score"]] == [2, 1]).all()
    assert found.loc[(0, 0), "n"] == sum(len(text.split()) - 1 for text in WHOLE[1::2])
    every = heads.positions(planted, WHOLE, others=False).set_index(["layer", "head"])
    assert every.loc[(0, 0), "n"] == sum(len(text.split()) for text in WHOLE[1::2])  # [CLS] is before the first word
    assert every.loc[(0, 1), "score"] < 0.5


def test_positions_do_not_depend_on_batches(encoder):
    pd.testing.assert_frame_equal(heads.positions(encoder, TEXTS), heads.positions(encoder, TEXTS, token_budget=1))


def test_positions_of_a_causal_model_look_back_only(tmp_path):
    found = heads.positions(load_encoder(save_gpt2(tmp_path)), TEXTS)
    assert (found.loc[found["score"] > 0, "offset"] < 0).all()


@pytest.mark.parametrize("texts", [TEXTS[:1], ["good", "bad film"]])
def test_too_few_words_for_two_halves_are_refused(encoder, texts):
    with pytest.raises(AnalysisError, match="two halves"):
        heads.positions(encoder, texts)


def test_an_untrained_encoder_is_seeded_and_leaves_everything_else_alone(encoder):
    before = {name: value.clone() for name, value in encoder.model.state_dict().items()}
    state = torch.get_rng_state()
    one, again, other = (untrained(encoder, seed=seed).attend(TEXTS).attention for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one, again) and not torch.allclose(one, other)
    assert not torch.allclose(one, encoder.attend(TEXTS).attention)
    assert all(torch.equal(value, before[name]) for name, value in encoder.model.state_dict().items())
