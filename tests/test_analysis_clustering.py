import math

import numpy as np
import pytest
import torch
from scipy.cluster import hierarchy
from scipy.spatial.distance import jensenshannon, squareform
from tiny import TEXTS, save_bert, save_gpt2

from course_utils.analysis.clustering import HeadDistances, cluster, divergences, head_distances, stability
from course_utils.errors import AnalysisError
from course_utils.models import AttentionMaps, Encoder, load_encoder

TOKENS = ["[CLS]", "good", "film", "[SEP]"]


@pytest.fixture(scope="module", params=[save_bert, save_gpt2], ids=["bert", "gpt2"])
def encoder(request, tmp_path_factory):
    encoder = load_encoder(request.param(tmp_path_factory.mktemp("model")))
    return Encoder(encoder.model.double(), encoder.tokenizer)


def make(per_text):
    per_text = np.asarray(per_text, dtype=np.float32)
    n_heads = int((1 + math.sqrt(1 + 8 * per_text.shape[1])) / 2)
    return HeadDistances(per_text, tuple((0, head) for head in range(n_heads)))


def two_groups(n_texts=30, noise=0.02, seed=0):
    """Six heads: 0, 1, 2 alike, 3, 4, 5 alike."""
    square = np.full((6, 6), 0.5)
    square[:3, :3] = square[3:, 3:] = 0.1
    np.fill_diagonal(square, 0)
    noises = np.random.default_rng(seed).normal(0, noise, (n_texts, 15))
    return make(squareform(square) + noises)


def test_divergence_on_rows_that_are_known():
    point, other, even = (torch.zeros(4, 4, dtype=torch.float64) for _ in range(3))
    point[:, 1], other[:, 2], even[:] = 1, 1, 0.25
    got = divergences(AttentionMaps.from_matrix(torch.stack([point, other, even]), TOKENS))[0]
    to_even = jensenshannon([0, 1, 0, 0], [0.25] * 4) ** 2
    assert got.tolist() == pytest.approx([math.log(2), to_even, to_even])


def test_leaving_out_special_tokens_compares_what_is_left():
    rows = [[0.9, 0.06, 0.04, 0.0], [0.2, 0.48, 0.32, 0.0], [0.0, 0.0, 1.0, 0.0], [0.5, 0.0, 0.0, 0.5]]
    heads = torch.tensor(rows, dtype=torch.float64)[:, None].expand(4, 4, 4)
    maps = AttentionMaps.from_matrix(heads, TOKENS)
    square = squareform(divergences(maps, leave_out_special=True)[0].numpy())
    assert square[0, 1] == pytest.approx(0, abs=1e-12)  # the same once [CLS] is left out
    assert square[0, 2] == pytest.approx(jensenshannon([0.6, 0.4], [0, 1]) ** 2)
    assert square[0, 3] == pytest.approx(jensenshannon([0.6, 0.4], [0.5, 0.5]) ** 2)  # nothing left: nothing preferred
    assert squareform(divergences(maps)[0].numpy())[0, 1] > 0.2


@pytest.mark.parametrize("leave_out", [False, True])
def test_divergences_agree_with_scipy(encoder, leave_out):
    maps = encoder.attend([TEXTS[1]])
    attention, special = maps.attention[0].flatten(0, 1).numpy(), maps.special[0].numpy()
    if leave_out:
        attention = attention * ~special
        attention = attention / attention.sum(-1, keepdims=True)
    queries = np.flatnonzero(~special)
    expected = [
        np.mean([jensenshannon(attention[a, q], attention[b, q]) ** 2 for q in queries])
        for a in range(len(attention))
        for b in range(a + 1, len(attention))
    ]
    assert divergences(maps, leave_out_special=leave_out)[0].numpy() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("leave_out", [False, True])
def test_distances_do_not_depend_on_batching_or_order(encoder, leave_out):
    distances = head_distances(encoder, TEXTS, leave_out_special=leave_out)
    assert distances.per_text.shape == (len(TEXTS), 15) and distances.heads[3] == (1, 0)
    assert np.isfinite(distances.per_text).all() and distances.per_text.max() <= math.log(2)
    small = head_distances(encoder, TEXTS[::-1], leave_out_special=leave_out, token_budget=10)
    assert distances.per_text == pytest.approx(small.per_text[::-1], abs=1e-6)
    square = distances.matrix
    assert (square.to_numpy() == square.to_numpy().T).all() and (np.diag(square) == 0).all()


def test_a_planted_grouping_is_found():
    distances = two_groups()
    tree = cluster(distances, 2)
    assert set(map(tuple, [tree.labels[:3], tree.labels[3:]])) == {(0, 0, 0), (1, 1, 1)}
    assert tree.cophenetic > 0.95
    assert tree.silhouettes.set_index("n_clusters")["silhouette"].idxmax() == 2
    assert {frozenset(tree.order[:3]), frozenset(tree.order[3:])} == {frozenset({0, 1, 2}), frozenset({3, 4, 5})}
    assert stability(distances, 2, n_resamples=20)["ari"].eq(1).all()


def test_no_grouping_gives_a_low_silhouette_and_an_unstable_tree():
    distances = make(np.random.default_rng(0).normal(0.5, 0.1, (30, 66)))
    tree = cluster(distances, 3)
    assert len(set(tree.labels)) == 3
    assert tree.silhouettes["silhouette"].max() < 0.25
    repeated = stability(distances, 3, n_resamples=20, seed=1)
    assert repeated["ari"].mean() < 0.8
    assert repeated.equals(stability(distances, 3, n_resamples=20, seed=1))


def test_the_cophenetic_correlation_is_that_of_the_tree():
    distances = make(np.random.default_rng(3).uniform(0.1, 0.6, (4, 15)))
    tree = cluster(distances, 4)
    in_the_tree = hierarchy.cophenet(tree.linkage)
    assert tree.cophenetic == pytest.approx(np.corrcoef(in_the_tree, distances.condensed)[0, 1])


def test_impossible_questions_are_refused():
    with pytest.raises(AnalysisError, match="2 to 5 clusters, not 9"):
        cluster(two_groups(), 9)
    with pytest.raises(AnalysisError, match="at least 3"):
        cluster(make([[0.1]]), 2)
