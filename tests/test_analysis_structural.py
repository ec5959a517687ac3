"""The structural probe on trees that are really in the states, and the measures by hand."""

import numpy as np
import pytest

from course_utils.analysis import structural
from course_utils.analysis.probing import WordStates
from course_utils.data.parsing import Parse
from course_utils.errors import AnalysisError

N_WORDS = 9


def parse_of(heads, pos=None):
    names = tuple(f"w{at}" for at in range(len(heads)))
    places = tuple(range(len(heads)))
    labels = tuple("ROOT" if head == at else "dep" for at, head in enumerate(heads))
    return Parse(names, places, places, tuple(pos or ["X"] * len(heads)), labels, labels, tuple(heads))


@pytest.fixture(scope="module")
def planted():
    """Trees on 9 words, and states in which each edge is a direction of its own: squared distance is distance in the tree.

    The directions are turned and hidden among 12 dimensions of noise that is louder than they are.
    """
    generator = np.random.default_rng(0)
    parses, vectors = [], []
    for _ in range(160):
        order = generator.permutation(N_WORDS)
        heads, vector = np.zeros(N_WORDS, dtype=int), np.zeros((N_WORDS, N_WORDS))
        heads[order[0]] = order[0]
        for at in range(1, N_WORDS):
            heads[order[at]] = order[generator.integers(0, at)]
            vector[order[at]] = vector[heads[order[at]]]
            vector[order[at], at] = 1
        parses.append(parse_of(heads.tolist()))
        vectors.append(np.concatenate([vector, 3 * generator.normal(size=(N_WORDS, 12))], 1))
    turn = np.linalg.qr(generator.normal(size=(21, 21)))[0]
    hidden = (np.concatenate(vectors) @ turn).astype(np.float32)[:, None]
    sentence = np.repeat(np.arange(160), N_WORDS)
    words = np.full(len(sentence), "w", dtype=object)
    return WordStates(sentence, np.tile(np.arange(N_WORDS), 160), words, hidden), parses


def test_a_planted_tree_is_recovered_and_noise_is_not(planted, monkeypatch):
    monkeypatch.setattr(structural, "RATE", 0.01)
    states, parses = planted
    gold = structural.trees(states, parses)
    parts = gold[:100], gold[100:120], gold[120:]
    probe = structural.train(states.layer(0), parts[0], parts[1], rank=16, epochs=60)
    frame = structural.evaluate([probe.distances(states.layer(0)[tree.rows]) for tree in parts[2]], parts[2])
    found = structural.summary(frame).set_index("score")
    assert found.loc["UUAS", "mean"] > 0.95 and found.loc["Spearman", "mean"] > 0.9
    assert found.loc["UUAS", "low"] <= found.loc["UUAS", "mean"] <= found.loc["UUAS", "high"]
    noise = np.random.default_rng(1).normal(size=states.layer(0).shape)
    probe = structural.train(noise, parts[0], parts[1], rank=16, epochs=10)
    frame = structural.evaluate([probe.distances(noise[tree.rows].astype(np.float32)) for tree in parts[2]], parts[2])
    assert structural.summary(frame)["mean"][0] < 0.4  # two random trees on 9 words share 2 of 9 edges


def test_training_is_the_same_from_the_same_seed(planted):
    states, parses = planted
    gold = structural.trees(states, parses)
    one, again, other = (
        structural.train(states.layer(0), gold[:20], gold[20:30], rank=4, epochs=2, seed=seed) for seed in (1, 1, 2)
    )
    assert (one.projection == again.projection).all() and (one.projection != other.projection).any()


def test_trees_leave_out_punctuation_and_words_without_states_but_count_through_them():
    parse = parse_of([1, 1, 3, 1, 3, 6, 6], ["X", "X", "X", "X", "PUNCT", "X", "X"])  # two sentences: 0-4 and 5-6
    kept = np.array([0, 1, 2, 4, 5, 6])  # word 3 has no state
    states = WordStates(np.zeros(6, dtype=int), kept, np.full(6, "w", dtype=object), np.zeros((6, 1, 2), dtype=np.float32))
    (tree,) = structural.trees(states, [parse])
    assert states.position[tree.rows].tolist() == [0, 1, 2, 5, 6]
    nan = np.nan
    expected = [[0, 1, 3, nan, nan], [1, 0, 2, nan, nan], [3, 2, 0, nan, nan], [nan, nan, nan, 0, 1], [nan, nan, nan, 1, 0]]
    np.testing.assert_array_equal(tree.distances, expected)
    assert tree.edges.tolist() == [[0, 1], [3, 4]]
    lone = WordStates(np.zeros(1, dtype=int), np.array([0]), np.full(1, "w", dtype=object), np.zeros((1, 1, 2), dtype=np.float32))
    assert structural.trees(lone, [parse]) == []


def test_scores_by_hand():
    states = WordStates(np.zeros(4, dtype=int), np.arange(4), np.full(4, "w", dtype=object), np.zeros((4, 1, 2), dtype=np.float32))
    gold = structural.trees(states, [parse_of([1, 1, 1, 1])])  # a star around word 1
    row = structural.evaluate(structural.chain(gold), gold).iloc[0]
    assert (row["n_words"], row["edges"], row["found"]) == (4, 3, 2)  # the chain has 0-1 and 1-2, not 1-3
    perfect = structural.evaluate([gold[0].distances], gold).iloc[0]
    assert perfect["found"] == 3 and perfect["spearman"] == pytest.approx(1)
    squares = structural.evaluate([gold[0].distances ** 2], gold).iloc[0]
    assert squares["found"] == 3 and squares["spearman"] == pytest.approx(1)
    ties = np.zeros((4, 4))
    assert np.isnan(structural.evaluate([ties], gold)["spearman"][0]) and len(structural.spanning_edges(ties)) == 3


def test_bad_input_is_named(planted):
    states, parses = planted
    gold = structural.trees(states, parses)[:3]
    with pytest.raises(AnalysisError, match="0 trees to train on and 3 to choose by"):
        structural.train(states.layer(0), [], gold)
    with pytest.raises(AnalysisError, match="the rank is 0"):
        structural.train(states.layer(0), gold, gold, rank=0)
    with pytest.raises(AnalysisError, match="2 predictions and 3 trees"):
        structural.evaluate(structural.chain(gold)[:2], gold)
    with pytest.raises(AnalysisError, match=r"shape \(2, 2\); a tree of 9 words"):
        structural.evaluate([np.zeros((2, 2))] * 3, gold)
