"""Probes, control tasks, code lengths and removed directions, on data whose answer is known."""

import numpy as np
import pandas as pd
import pytest
import tiny
import torch

from course_utils.analysis import amnesic, codes, probing
from course_utils.data.parsing import Parse
from course_utils.errors import AnalysisError
from course_utils.models import Encoder, load_encoder
from course_utils.models.finetuned import EncoderClassifier, logits_of

TEXTS = ["the film was unbelievable .", "a bad movie !", "good film", "it is n't very good , is it ?"]


def parsed(text: str) -> Parse:
    """Cut at spaces; every word is labelled by its first letter and hangs on the one before."""
    words = text.split()
    starts = tuple(text.index(word, sum(len(w) + 1 for w in words[:at])) for at, word in enumerate(words))
    first = tuple(word[0] for word in words)
    heads = tuple(max(at - 1, 0) for at in range(len(words)))
    ends = tuple(start + len(word) for start, word in zip(starts, words, strict=True))
    return Parse(tuple(words), starts, ends, first, first, first, heads)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    encoder = load_encoder(tiny.save_bert(tmp_path_factory.mktemp("models") / "bert"))
    return Encoder(encoder.model.double(), encoder.tokenizer)


@pytest.fixture(scope="module")
def planted():
    """1,200 words of 120 sentences: 60 types, 3 labels that are linear in the state, and states that also tell the type, weakly."""
    generator = np.random.default_rng(0)
    types = generator.integers(0, 60, 1200)
    labels = generator.integers(0, 3, 1200)
    features = generator.normal(size=(1200, 20))
    features[:, :3] += 4 * np.eye(3)[labels]
    sentence = np.repeat(np.arange(120), 10)
    words = np.array([f"w{number}" for number in types], dtype=object)
    hidden = np.stack([generator.normal(size=(1200, 20)), features], 1).astype(np.float32)
    states = probing.WordStates(sentence, np.tile(np.arange(10), 120), words, hidden)
    return states, np.array(list("abc"), dtype=object)[labels], probing.split_sentences(sentence)


def test_a_words_state_is_the_mean_over_its_pieces(encoder):
    states = probing.word_states(encoder, TEXTS, [parsed(text) for text in TEXTS], heads=True)
    maps = encoder.attend([TEXTS[0]], states=True)
    assert maps.tokens[0][4:7] == ("un", "##believ", "##able")
    rows = states.sentence == 0
    assert states.words[rows].tolist() == ["the", "film", "was", "unbelievable", "."]
    np.testing.assert_allclose(states.hidden[rows][3], maps.hidden[0, :, 4:7].mean(1), rtol=1e-5)
    read = (maps.attention @ maps.values)[0, 1, 2, 4:7].mean(0)
    np.testing.assert_allclose(states.heads[rows][3, 1, 2], read, rtol=1e-5, atol=1e-7)
    assert states.sentence.tolist() == sorted(states.sentence) and states.n_layers == 2
    assert states.silver([parsed(text) for text in TEXTS], "pos")[rows].tolist() == list("tfwu.")


def test_states_do_not_depend_on_batches_or_order(encoder):
    parses = [parsed(text) for text in TEXTS]
    states = probing.word_states(encoder, TEXTS, parses)
    small = probing.word_states(encoder, TEXTS, parses, token_budget=10)
    turned = probing.word_states(encoder, TEXTS[::-1], parses[::-1])
    np.testing.assert_allclose(states.hidden, small.hidden, atol=1e-6)
    back = np.lexsort((turned.position, len(TEXTS) - 1 - turned.sentence))
    np.testing.assert_allclose(states.hidden, turned.hidden[back], atol=1e-6)
    assert states.words.tolist() == turned.words[back].tolist()


def test_no_sentence_is_divided_and_shares_are_kept():
    sentence = np.repeat(np.arange(200), 7)
    part = probing.split_sentences(sentence, seed=3)
    table = pd.crosstab(sentence, part)
    assert ((table > 0).sum(axis=1) == 1).all() and (table > 0).sum(axis=0)[list(probing.PARTS)].tolist() == [120, 30, 50]
    assert (part == probing.split_sentences(sentence, seed=3)).all() and (part != probing.split_sentences(sentence, seed=4)).any()
    assert set(probing.split_sentences(np.arange(3))) == set(probing.PARTS)


def test_a_planted_property_is_found_where_it_is_and_selectively(planted):
    states, labels, part = planted
    control = probing.control_labels(states.words, labels, seed=1)
    frame = probing.probe_layers(states, {"real": labels, "control": control}, part)
    table = probing.accuracy(frame, ["task", "layer"]).set_index(["task", "layer"])
    assert table.loc[("real", 1), "accuracy"] > 0.95 and table.loc[("real", 0), "accuracy"] < 0.45
    assert table.loc[("control", 1), "accuracy"] < 0.45 and (table["n"] == (part == "test").sum()).all()
    assert ((table["low"] <= table["accuracy"]) & (table["accuracy"] <= table["high"])).all()
    gap = probing.difference(frame, "task", "real", "control", ["layer"]).set_index("layer")
    assert gap.loc[1, "low"] > 0.5 and gap.loc[0, "low"] < 0 < gap.loc[0, "high"]
    np.testing.assert_allclose(gap.loc[1, "difference"], table.loc[("real", 1), "accuracy"] - table.loc[("control", 1), "accuracy"])


def test_a_state_that_only_names_the_word_learns_the_control_task_as_well(planted):
    states, _, part = planted
    numbers = np.unique(states.words, return_inverse=True)[1]
    real = np.where(numbers % 2, "odd", "even").astype(object)  # a property of the type, as arbitrary as the control
    names = np.eye(60, dtype=np.float32)[numbers]
    states = probing.WordStates(states.sentence, states.position, states.words, names[:, None])
    control = probing.control_labels(states.words, real, seed=2)
    frame = probing.probe_layers(states, {"real": real, "control": control}, part)
    assert probing.accuracy(frame, ["task"])["accuracy"].min() > 0.99
    assert abs(probing.difference(frame, "task", "real", "control")["difference"][0]) < 0.01
    assert (probing.majority(states.words, control, part) == control[part == "test"]).mean() > 0.99


def test_control_labels_are_one_a_type_with_the_real_distribution():
    generator = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in generator.integers(0, 4000, 20000)], dtype=object)
    labels = generator.choice(np.array(["x", "y"], dtype=object), 20000, p=[0.8, 0.2])
    control = probing.control_labels(words, labels, seed=0)
    assert pd.Series(control).groupby(words).nunique().max() == 1
    assert (control == "x").mean() == pytest.approx(0.8, abs=0.03)
    order = generator.permutation(20000)
    assert (probing.control_labels(words[order], labels[order], seed=0) == control[order]).all()


def test_majorities_by_hand():
    words = np.array(["the", "run", "run", "run", "the", "run", "new"], dtype=object)
    labels = np.array(["D", "V", "V", "N", "D", "N", "N"], dtype=object)
    part = np.array(["train"] * 4 + ["test"] * 3)
    assert probing.majority(words, labels, part).tolist() == ["D", "V", "V"]
    assert probing.majority(words, labels, part, by_type=False).tolist() == ["V", "V", "V"]


def test_labels_may_be_numbers(planted):
    states, labels, part = planted
    numbers = np.searchsorted(np.array(["a", "b", "c"]), labels.astype(str))
    named = probing.probe(states.layer(1), labels, part)
    assert (np.array(["a", "b", "c"])[probing.probe(states.layer(1), numbers, part)] == named).all()


def test_intervals_are_over_sentences():
    right = pd.DataFrame({"sentence": np.repeat(np.arange(40), 50), "correct": np.repeat(np.arange(40) % 2 == 0, 50)})
    row = probing.accuracy(right).iloc[0]
    assert row["accuracy"] == 0.5 and row["high"] - row["low"] > 0.25  # 40 coins, not 2,000
    pd.testing.assert_frame_equal(probing.accuracy(right, seed=2), probing.accuracy(right, seed=2))


def test_each_head_is_read_by_itself(planted):
    states, labels, part = planted
    heads = np.random.default_rng(1).normal(size=(len(states), 2, 3, 4)).astype(np.float32)
    heads[:, 1, 2, :3] += 4 * (labels[:, None] == np.array(list("abc")))
    states = probing.WordStates(states.sentence, states.position, states.words, states.hidden, heads)
    table = probing.accuracy(probing.probe_heads(states, labels, part), ["layer", "head"]).set_index(["layer", "head"])
    assert len(table) == 6 and table["accuracy"].idxmax() == (1, 2) and table["accuracy"].drop((1, 2)).max() < 0.5


def test_random_labels_cost_what_the_uniform_code_costs_and_planted_ones_less(planted):
    states, labels, _ = planted
    shuffled = np.random.default_rng(5).permutation(labels)
    assert codes.compression(codes.online_code(states.layer(1), shuffled, states.sentence)) < 1.02
    code = codes.online_code(states.layer(1), labels, states.sentence, strength=1)
    assert codes.compression(code) > 3
    assert code["n_words"].sum() == 1200 and code["uniform_bits"].sum() == pytest.approx(1200 * np.log2(3))
    assert code["start"].tolist() == [0, *code["n_words"].cumsum()[:-1]] and (code["n_words"] % 10 == 0).all()
    first = code.iloc[0]
    assert first["bits"] == pytest.approx(first["uniform_bits"])


def test_the_code_can_send_a_label_that_was_not_seen_before(planted):
    states, labels, _ = planted
    late = np.where(states.sentence == 7, "new", labels).astype(object)
    assert np.isfinite(codes.online_code(states.layer(1), late, states.sentence)["bits"]).all()
    more = codes.online_code(states.layer(1), labels, states.sentence, classes=list("abcdefgh"))
    assert more["uniform_bits"].sum() == pytest.approx(1200 * 3)


def test_what_is_removed_can_no_longer_be_read(planted):
    states, labels, part = planted
    test, features = part == "test", states.layer(1)
    chance = (probing.majority(states.words, labels, part, by_type=False) == labels[test]).mean()
    directions = amnesic.readable_directions(features[part == "train"], labels[part == "train"], 6)
    np.testing.assert_allclose(directions @ directions.T, np.eye(6), atol=1e-6)
    gone = amnesic.without(features, directions)
    assert abs((probing.probe(gone, labels, part) == labels[test]).mean() - chance) < 0.08
    random = amnesic.without(features, amnesic.random_directions(20, 6, seed=0))
    assert (probing.probe(random, labels, part) == labels[test]).mean() > 0.8
    assert np.allclose(amnesic.without(gone, directions), gone)


def test_the_first_direction_is_the_one_that_carries_most():
    draw = np.random.default_rng(0)
    label = draw.integers(0, 2, 400)
    carries = 3 * label + draw.normal(size=400)
    hardly_varies = 1e-4 * (label + 0.1 * draw.normal(size=400))  # tells the label better, moves nothing
    features = np.stack([carries, hardly_varies, draw.normal(size=400)], 1)
    assert abs(amnesic.readable_directions(features, label, 1)[0, 0]) > 0.99


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    classifier = EncoderClassifier(load_encoder(tiny.save_bert(tmp_path_factory.mktemp("models") / "bert"))).eval()
    with torch.no_grad():
        classifier.head.weight[1, 3] = 1.0
    return classifier


def test_removal_reaches_the_decision_and_leaves_no_trace(classifier):
    before = logits_of(classifier, TEXTS)
    axes = np.eye(12)
    last = classifier.encoder.n_layers
    zero = np.zeros(12)
    gone = amnesic.logits_without(classifier, TEXTS, last, axes[[3]], zero)
    assert before[:, 1].std() > 0.1 and torch.allclose(gone[:, 1], torch.zeros(len(TEXTS)), atol=1e-5)
    kept = amnesic.logits_without(classifier, TEXTS, last, axes[[0, 5]], zero)
    assert torch.allclose(kept, before, atol=1e-6)
    centred = amnesic.logits_without(classifier, TEXTS, last, axes[[3]], 2 * axes[3])
    assert torch.allclose(centred[:, 1], torch.full((len(TEXTS),), 2.0), atol=1e-5)
    apart = np.stack([2 * axes[3], 5 * axes[3]])  # the decision is at the first token, whose centre is the first row
    assert torch.allclose(amnesic.logits_without(classifier, TEXTS, last, axes[[3]], apart), centred, atol=1e-5)
    for layer in (0, 1):
        assert not torch.allclose(amnesic.logits_without(classifier, TEXTS, layer, axes[[3]], zero), before, atol=1e-3)
    with pytest.raises(RuntimeError, match="on purpose"), amnesic.removed(classifier, 1, axes[[3]], zero):
        raise RuntimeError("on purpose")
    assert torch.equal(logits_of(classifier, TEXTS), before)


def test_states_of_sentences_keep_the_order_and_leave_padding_out(classifier):
    both = amnesic.sentence_states(classifier.encoder, TEXTS, 1)
    assert both.shape == (len(TEXTS), 2, 12)
    for number, text in enumerate(TEXTS):
        hidden = next(classifier.encoder.stream([text], states=True)).hidden[0, 1]
        expected = torch.stack([hidden[0], hidden[1:].mean(0)])
        np.testing.assert_allclose(both[number], expected.detach().numpy(), atol=1e-5)
    with pytest.raises(AnalysisError, match="layer 9 does not exist"):
        amnesic.sentence_states(classifier.encoder, TEXTS, 9)


def test_bad_input_is_named(planted, classifier):
    states, labels, part = planted
    holed = labels.copy()
    holed[4] = None
    nowhere = np.full(len(part), "train", dtype=object)
    for call, message in (
        (lambda: states.layer(2), "layer 2 does not exist; there are 0 .the embeddings. to 1"),
        (lambda: probing.probe(states.layer(0), np.full(1200, "a"), part), "one class only, 'a'"),
        (lambda: probing.probe(states.layer(0), holed, part), "1 of 1200 words have no label"),
        (lambda: probing.probe(states.layer(0), labels[:5], part), "5 labels do not fit 1200 words"),
        (lambda: probing.probe(states.layer(0), labels, part[:5]), "the split has 5 words, the states have 1200"),
        (lambda: probing.probe(states.layer(0), labels, nowhere), "no word is in the part 'test'"),
        (lambda: probing.train_probe(np.zeros((0, 3)), []), "no word to probe"),
        (lambda: probing.train_probe(np.full((2, 3), np.nan), ["a", "b"]), "not a finite number"),
        (lambda: probing.probe_heads(states, labels, part), "hold no heads"),
        (lambda: probing.split_sentences(np.zeros(9)), "1 sentences cannot be divided"),
        (lambda: probing.split_sentences(np.arange(9), shares=(0.5, 0.5, 0.5)), "sum to 1"),
        (lambda: codes.online_code(states.layer(0), np.full(1200, "a"), states.sentence), "one class only"),
        (lambda: codes.online_code(states.layer(0), labels, states.sentence, classes=["a", "b"]), "'c' is not among the classes"),
        (lambda: codes.online_code(states.layer(0), labels, states.sentence, fractions=(0.5, 0.4, 1)), "have to rise"),
        (lambda: amnesic.readable_directions(states.layer(0), labels, 21), "give 1 to 20"),
        (lambda: amnesic.logits_without(classifier, TEXTS, 3, np.eye(12)[:1], np.zeros(12)), "layer 3 does not exist"),
        (lambda: amnesic.logits_without(classifier, TEXTS, 1, np.eye(11)[:1], np.zeros(11)), "do not fit states of 12"),
    ):
        with pytest.raises(AnalysisError, match=message):
            call()
    frame = probing.probe_layers(states, {"real": labels}, part, layers=[1])
    with pytest.raises(AnalysisError, match="task has no 'control'; it has real"):
        probing.difference(frame, "task", "real", "control")
    with pytest.raises(AnalysisError, match="1 texts and 0 parses"):
        probing.word_states(None, ["a"], [])
