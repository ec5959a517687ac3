import numpy as np
import pandas as pd
import pytest
from tiny import save_bert, save_gpt2

from course_utils.analysis.links import accuracy, best_head, by_rule, choose, controlled, held_out, of_head
from course_utils.data.templates import Link
from course_utils.errors import AnalysisError
from course_utils.models import Encoder, load_encoder

SENTENCES = [
    ("the unbelievable actor was bad , and he good", 7, 2, 0),
    ("she was in unbelievable movies", 4, 0, 3),
    ("bad good film good", 3, 1, 2),
    ("films not very bad", 0, 3, 1),
]
LINKS = [Link(tuple(text.split()), *places, "mine", str(row), row % 2) for row, (text, *places) in enumerate(SENTENCES)]


@pytest.fixture(scope="module", params=[save_bert, save_gpt2], ids=["bert", "gpt2"])
def encoder(request, tmp_path_factory):
    encoder = load_encoder(request.param(tmp_path_factory.mktemp("model")))
    return Encoder(encoder.model.double(), encoder.tokenizer)


def test_weights_are_those_of_the_words_one_sentence_at_a_time(encoder):
    frame = choose(encoder, LINKS)
    assert len(frame) == len(LINKS) * encoder.n_layers * encoder.n_heads
    for row in frame.itertuples():
        link = LINKS[row.input]
        maps = encoder.attend([link.text])
        attention = maps.attention[0, row.layer, row.head].numpy()
        pieces = [np.flatnonzero(maps.word_ids[0].numpy() == place) for place in (link.query, link.target, link.distractor)]
        target, distractor = (attention[np.ix_(pieces[0], key)].sum(1).mean() for key in pieces[1:])
        assert (row.target, row.distractor) == pytest.approx((target, distractor), abs=1e-12)
        assert row.right == (1 if target > distractor else 0 if target < distractor else 0.5)
        assert (row.kind, row.group, row.half) == ("mine", link.group, link.half)


def test_the_order_and_the_batches_do_not_matter(encoder):
    frame = choose(encoder, LINKS)
    pd.testing.assert_frame_equal(frame, choose(encoder, LINKS, token_budget=1), atol=1e-9)
    turned = choose(encoder, LINKS[::-1])
    turned = turned.assign(input=len(LINKS) - 1 - turned["input"]).sort_values(["input", "layer", "head"], ignore_index=True)
    pd.testing.assert_frame_equal(frame, turned, atol=1e-9)


def test_rules_that_need_no_head(encoder):
    frame = by_rule(encoder, LINKS).set_index(["rule", "input"])["right"]
    assert frame["nearer word"].tolist() == [1, 0, 0, 0]
    assert frame["like embedding"][2] == 1  # the same word again, whatever its position
    tie = [Link(("good", "bad", "film"), 1, 0, 2, "mine", "g", 0)]
    assert by_rule(encoder, tie).set_index("rule")["right"]["nearer word"] == 0.5


def table(right: dict[tuple[int, int], list[float]], groups: list[str], halves: list[int]) -> pd.DataFrame:
    rows = [
        (number, group, half, layer, head, value[number])
        for number, (group, half) in enumerate(zip(groups, halves, strict=True))
        for (layer, head), value in right.items()
    ]
    return pd.DataFrame(rows, columns=["input", "group", "half", "layer", "head", "right"])


def test_a_head_is_judged_where_it_was_not_chosen():
    frame = table({(0, 0): [1, 1, 0, 0], (0, 1): [0, 1, 1, 1], (1, 0): [1, 1, 0, 1]}, list("aabb"), [0, 0, 1, 1])
    assert best_head(frame[frame["half"] == 0]) == (0, 0)
    found = held_out(frame)
    assert (found.layer, found.head, found.chosen, found.accuracy) == (0, 0, 1, 0)


def test_the_best_of_many_blind_heads_is_at_chance_on_the_other_half():
    rng = np.random.default_rng(0)
    right = {(layer, head): rng.integers(0, 2, 400).tolist() for layer in range(6) for head in range(12)}
    found = held_out(table(right, [str(n) for n in range(400)], [n % 2 for n in range(400)]))
    assert found.chosen > 0.56 and found.low < 0.5 < found.high


def test_sentences_of_a_group_are_drawn_together():
    alone = table({(0, 0): [0, 1] * 50}, [str(n) for n in range(100)], [0] * 100)
    together = alone.assign(group=["a" if right else "b" for right in alone["right"]])
    narrow, wide = (accuracy(frame).iloc[0] for frame in (alone, together))
    assert narrow["accuracy"] == wide["accuracy"] == 0.5
    assert narrow["high"] - narrow["low"] < 0.25 and (wide["low"], wide["high"]) == (0, 1)
    pd.testing.assert_frame_equal(accuracy(alone, seed=1), accuracy(alone, seed=1))


def test_one_head_under_conditions_keeps_their_order():
    one = table({(0, 0): [1, 0], (0, 1): [1, 1]}, ["a", "b"], [0, 1])
    found = controlled({"second": one, "first": one.assign(right=1 - one["right"])}, 0, 0)
    assert found["condition"].tolist() == ["second", "first"] and found["accuracy"].tolist() == [0, 1]
    with pytest.raises(AnalysisError, match="no head 3-0"):
        of_head(one, 3, 0)


def test_what_cannot_be_judged(encoder):
    for function in (choose, by_rule):
        with pytest.raises(AnalysisError, match="no sentence"):
            function(encoder, [])
    with pytest.raises(AnalysisError, match="one half"):
        held_out(choose(encoder, LINKS[:1]))


def test_a_link_that_the_encoder_would_lose(tmp_path):
    encoder = load_encoder(save_bert(tmp_path))
    split = Link(("good", "漢字", "bad"), 2, 1, 0, "mine", "g", 0)  # BERT reads each of the two characters as a word
    with pytest.raises(AnalysisError, match="link is lost"):
        choose(encoder, [split])
    long = Link(("good",) * 100, 99, 1, 0, "mine", "g", 0)
    with pytest.raises(AnalysisError, match="link is lost"), pytest.warns(UserWarning, match="truncated"):
        choose(encoder, [long])
