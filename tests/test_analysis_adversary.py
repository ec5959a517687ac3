"""The adversaries against everything they must not lose to: grids, all corners, the published optimiser; and at the edges."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from course_utils.analysis import adversary, over
from course_utils.analysis.adversary import exact_attention, logit_bounds, search_attention
from course_utils.analysis.distances import jsd, overlap, tvd
from course_utils.analysis.slab import ROUNDING
from course_utils.data import Vocabulary, make_batch, make_batches
from course_utils.errors import AnalysisError, NotLinearError
from course_utils.models import AttentionClassifier, ClassifierConfig

WORDS = list("abcdefghijklmnop")
TEXTS = [" ".join(np.random.default_rng(i).choice(WORDS, n)) for i, n in enumerate([1, 2, 3, 5, 8, 13, 5, 21])]
EPS = st.sampled_from([0.0, 1e-6, 0.01, 0.05, 0.3, 0.9, 1.0])


def single(text, index, vocabulary):
    return replace(make_batch([text], vocabulary), index=torch.tensor([index]))


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.build([WORDS])


def classifier(vocabulary, n_classes=2):
    torch.manual_seed(1)
    model = AttentionClassifier(ClassifierConfig(n_classes=n_classes, hidden=8), torch.randn(len(vocabulary), 6)).double().eval()
    with torch.no_grad():
        model.decoder.weight.mul_(8)
        model.attention.score.weight.mul_(8)
    return model


@pytest.fixture(scope="module")
def model(vocabulary):
    return classifier(vocabulary)


@st.composite
def inputs(draw, most=7):
    """One input: attention (1, T), zeros and one-token attention among them, and token logits (1, T), ties and tails among them."""
    size = draw(st.integers(1, most))
    weight = st.one_of(st.just(0.0), st.floats(1e-9, 1))
    attention = draw(st.lists(weight, min_size=size, max_size=size).filter(any))
    value = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 40.0, -800.0, 800.0]), st.floats(-5, 5))
    values = draw(st.lists(value, min_size=size, max_size=size))
    attention = torch.tensor([attention], dtype=torch.float64)
    return attention / attention.sum(), torch.tensor([values], dtype=torch.float64)


def everything(attention):
    return torch.ones_like(attention, dtype=torch.bool)


def random_inputs(rows, size, classes=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    attention = (2 * torch.randn(rows, size, generator=generator, dtype=torch.float64)).softmax(-1)
    shape = (rows, size) if classes is None else (rows, size, classes)
    return attention, 1.5 * torch.randn(*shape, generator=generator, dtype=torch.float64)


def simplex_grid(size, steps):
    """All distributions on `size` tokens whose weights are multiples of 1/steps."""
    bars = np.array(list(combinations(range(steps + size - 1), size - 1)))
    edges = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), steps + size - 1)], 1)
    return torch.from_numpy(np.diff(edges) - 1).double() / steps


def corners(values, bounds):
    """Every corner of {simplex, lo <= q.v <= hi} for one input, as any polytope's: all sets of tight constraints tried."""
    size = len(values)
    rows = [(np.eye(size)[i], 0.0) for i in range(size)] + [(values, wall) for wall in bounds if math.isfinite(wall)]
    found = []
    for tight in combinations(rows, size - 1):
        matrix = np.array([np.ones(size)] + [row for row, _ in tight])
        right = np.array([1.0] + [value for _, value in tight])
        if abs(np.linalg.det(matrix)) > 1e-12:
            q = np.linalg.solve(matrix, right)
            if q.min() > -1e-12 and bounds[0] - 1e-9 <= q @ values <= bounds[1] + 1e-9:
                found.append(q.clip(0))
    return torch.tensor(np.array(found))


@settings(deadline=None, max_examples=200)
@given(inputs(), EPS)
def test_exact_is_a_distribution_that_keeps_the_prediction(case, eps):
    attention, values = case
    found = exact_attention(attention, values, everything(attention), eps)
    assert (found.attention >= 0).all() and (found.attention > 0).sum() <= 2
    assert abs(found.attention.sum().item() - 1) < 1e-12
    change = (torch.sigmoid((found.attention * values).sum()) - torch.sigmoid((attention * values).sum())).abs().item()
    assert change == pytest.approx(found.change.item(), abs=1e-15)
    assert change <= eps + 1e-9
    assert found.jsd.item() == pytest.approx(jsd(attention, found.attention).item(), abs=1e-14)
    assert 0 <= found.jsd.item() <= math.log(2)


@pytest.mark.parametrize(("size", "steps"), [(3, 400), (4, 80), (5, 40)])
@pytest.mark.parametrize("eps", [0.01, 0.05, 0.3])
def test_exact_is_neither_below_nor_above_a_fine_grid(size, steps, eps):
    attention, values = random_inputs(6, size)
    found = exact_attention(attention, values, everything(attention), eps)
    grid = simplex_grid(size, steps)
    output = torch.sigmoid((attention * values).sum(1))
    for row in range(len(attention)):
        change = (torch.sigmoid(grid @ values[row]) - output[row]).abs()
        divergence = jsd(attention[row], grid)
        assert found.jsd[row] >= divergence[change <= eps].max() - 1e-12
        reach = eps + values[row].abs().max() / (2 * steps)
        assert found.jsd[row] <= divergence[change <= reach].max() + 0.02


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.001, 0.01, 0.1, 0.6]))
def test_exact_is_the_best_of_all_corners(seed, size, eps):
    attention, values = random_inputs(1, size, seed=seed)
    found = exact_attention(attention, values, everything(attention), eps)
    lo, hi = (wall.item() for wall in logit_bounds((attention * values).sum(1), eps))
    every = corners(values[0].numpy(), (lo, hi))
    assert found.jsd.item() == pytest.approx(jsd(attention, every).max().item(), abs=1e-9)


def least_overlap(attention, values, eps):
    """The cost of the best corner of one input, by scoring every token and every pair of tokens at both walls."""
    walls = [wall.item() for wall in logit_bounds((attention * values).sum(1), eps)]
    a, v = attention[0], values[0]
    slack = ROUNDING * (1 + v.abs().max())
    costs = [overlap(a, torch.ones_like(a))[(v >= walls[0] - slack) & (v <= walls[1] + slack)]]
    for wall in filter(math.isfinite, walls):
        low, high = v < wall, v > wall
        depth, height = (wall - v[low])[:, None], (v[high] - wall)[None]
        grid = overlap(a[low][:, None], height / (depth + height)) + overlap(a[high][None], depth / (depth + height))
        costs.append(grid.flatten())
    return torch.cat(costs).min()


@settings(deadline=None, max_examples=400)
@given(inputs(most=14), EPS, st.integers(0, 3))
@example((torch.tensor([[1.0]]).double(), torch.tensor([[2.0]]).double()), 0.01, 2)
@example((torch.tensor([[0.5, 0.5]]).double(), torch.tensor([[1.0, -1.0]]).double()), 0.0, 0)
@example((torch.full((1, 12), 1 / 12, dtype=torch.float64), torch.tensor([[1.0, -1.0] * 6]).double()), 0.01, 1)
@example((torch.tensor([[1.0] + [0.0] * 7]).double(), torch.tensor([[0.3] + [2.0, -1.0, -3.0] * 2 + [2.0]]).double()), 0.0, 0)
def test_what_is_ruled_out_unscored_is_never_better(case, eps, padding):
    attention, values = case
    padded = [torch.nn.functional.pad(part, (0, padding)) for part in (attention, values, everything(attention))]
    found = exact_attention(*padded, eps)
    assert found.jsd.item() == pytest.approx(math.log(2) - least_overlap(attention, values, eps).item() / 2, abs=1e-12)
    assert (found.attention[:, attention.shape[1] :] == 0).all()


@pytest.mark.parametrize("eps", [0.0, 0.01, 0.3])
def test_long_inputs_find_the_best_of_all_pairs_together(eps):
    attention, values = random_inputs(20, 150, seed=4)
    attention[:5] = attention[:5].round(decimals=2) + 1e-9
    values[5:10] = values[5:10].round()
    attention[10] = 1 / 150
    values[10] = torch.tensor([1.0, -1.0]).repeat(75)
    attention /= attention.sum(1, keepdim=True)
    found = exact_attention(attention, values, everything(attention), eps)
    expected = [least_overlap(attention[row, None], values[row, None], eps) for row in range(20)]
    assert torch.allclose(found.jsd, math.log(2) - torch.stack(expected) / 2, rtol=0, atol=1e-12)


def test_exact_is_never_below_the_published_optimiser(model, vocabulary):
    batch = make_batch(TEXTS, vocabulary)
    exact = adversary.exact(model, batch, eps=0.02)
    published = adversary.published(model, batch, eps=0.02, n_steps=80, lr=0.05)
    assert (exact["max_jsd"] >= published["max_jsd"] - 1e-9).all()
    assert (exact["change"] <= 0.02 + 1e-9).all() and (published["change"] <= 0.02).all()
    assert published["n_kept"].between(0, 5).all()
    assert published["max_jsd"].median() > 0.1


def test_published_keeps_the_furthest_of_what_it_may_keep(model, vocabulary):
    batch = make_batch(TEXTS[1:], vocabulary)
    frame = adversary.published(model, batch, eps=0.005, n_steps=40, lr=0.05)
    assert frame["n_kept"].between(1, 4).any()
    assert ((frame["max_jsd"] > 0) == (frame["n_kept"] > 0)).all()
    alone = [adversary.published(model, batch, eps=eps, n_steps=40, lr=0.05)["max_jsd"] for eps in (0.005, 0.1, 1.0)]
    assert (alone[0] <= alone[1]).all() and (alone[1] <= alone[2]).all()


@pytest.mark.parametrize("logit", [0.0, 0.3, -2.0, 30.0, -30.0, 400.0, -900.0])
@pytest.mark.parametrize("eps", [0.0, 1e-4, 0.01, 0.4])
def test_bounds_are_where_the_probability_has_moved_by_eps(logit, eps):
    logit = torch.tensor(logit, dtype=torch.float64)
    lo, hi = logit_bounds(logit, eps)
    assert lo <= logit <= hi
    p = torch.sigmoid(logit)
    assert p - torch.sigmoid(lo) == pytest.approx(eps if lo.isfinite() else p.item(), abs=1e-15)
    assert torch.sigmoid(hi) - p == pytest.approx(eps if hi.isfinite() else 1 - p.item(), abs=1e-15)
    assert lo.isfinite() == bool(p > eps) and hi.isfinite() == bool(torch.sigmoid(-logit) > eps)
    if eps == 0 and abs(logit) < 700:
        assert torch.allclose(torch.stack([lo, hi]), logit, rtol=1e-12)


def test_a_low_exact_divergence_is_a_proof():
    """Only the attended token says yes: whoever keeps the prediction must attend to it."""
    attention = torch.tensor([[0.9, 0.05, 0.05]], dtype=torch.float64)
    values = torch.tensor([[6.0, -6.0, -6.0]], dtype=torch.float64)
    assert exact_attention(attention, values, everything(attention), 0.001).jsd < 0.04


def edge(attention, values, eps):
    attention, values = (torch.tensor([row], dtype=torch.float64) for row in (attention, values))
    return exact_attention(attention, values, everything(attention), eps)


@pytest.mark.parametrize(
    ("attention", "values", "eps", "expected"),
    [
        pytest.param([1.0], [2.0], 0.01, [1.0], id="one token"),
        pytest.param([0.7, 0.2, 0.1], [3.0, 3.0, 3.0], 0.0, [0, 0, 1.0], id="all logits equal, eps 0"),
        pytest.param([0.7, 0.1, 0.2], [0.3, 9.0, -9.0], 1.0, [0, 1.0, 0], id="eps 1 frees every token"),
        pytest.param([1.0, 0, 0], [0.5, 0.5, -4], 0.0, [0, 1.0, 0], id="all attention on one token, a tie elsewhere"),
        pytest.param([1.0, 0, 0], [0.0, 1.0, -3.0], 0.0, [0, 0.75, 0.25], id="all attention on one token, others mixed"),
        pytest.param([1.0, 0, 0], [900.0, 800.0, -900.0], 0.01, [0, 1.0, 0], id="saturated high"),
        pytest.param([1.0, 0, 0], [-900.0, 900.0, -800.0], 0.01, [0, 0, 1.0], id="saturated low"),
        pytest.param([0.5, 0.5], [1.0, -1.0], 0.0, [0.5, 0.5], id="two tokens, eps 0: nothing else is possible"),
    ],
)
def test_edges(attention, values, eps, expected):
    found = edge(attention, values, eps)
    assert torch.allclose(found.attention, torch.tensor([expected], dtype=torch.float64), atol=1e-12)
    assert found.change <= eps + 1e-12


def test_long_inputs_are_scored_in_parts_with_the_same_result(monkeypatch):
    attention, values = random_inputs(3, 60)
    whole = exact_attention(attention, values, everything(attention))
    monkeypatch.setattr("course_utils.analysis.slab.CELLS_AT_ONCE", 50)
    parts = exact_attention(attention, values, everything(attention))
    assert torch.equal(whole.attention, parts.attention)


@pytest.mark.parametrize("name", ["exact", "search", "published"])
def test_does_not_depend_on_batch_padding_or_order(name, model, vocabulary):
    function = getattr(adversary, name)
    arguments = {"n_steps": 30} if name == "published" else {}
    whole = function(model, make_batch(TEXTS, vocabulary), **arguments)
    alone = over(function, model, [single(text, i, vocabulary) for i, text in enumerate(TEXTS)], **arguments)
    mixed = over(function, model, make_batches(TEXTS[::-1], vocabulary, token_budget=30), **arguments)
    mixed["input"] = len(TEXTS) - 1 - mixed["input"]
    for other in (alone, mixed.sort_values("input", ignore_index=True)):
        pd.testing.assert_frame_equal(whole, other, rtol=0, atol=1e-12, check_dtype=False)


def test_table_names_the_tokens_of_the_adversary(model, vocabulary):
    batch = make_batch(TEXTS, vocabulary)
    frame = adversary.exact(model, batch)
    with torch.no_grad():
        output = model(batch)
    found = exact_attention(output.attention, output.token_logits, batch.mask)
    for row, line in frame.iterrows():
        first, second = line["position_1"], line["position_2"]
        assert batch.tokens[row][first] == line["token_1"] and found.attention[row, first] == line["weight_1"]
        assert pd.isna(second) == (line["weight_2"] == 0)
        if not pd.isna(second):
            assert batch.tokens[row][second] == line["token_2"] and found.attention[row, second] == line["weight_2"]
        assert line["weight_1"] + line["weight_2"] == pytest.approx(1, abs=1e-12)
    assert frame["n_tokens"].tolist() == batch.lengths.tolist()
    assert frame["predicted_class"].tolist() == output.predicted.tolist()


def test_search_on_two_classes_is_exact():
    for size in (1, 2, 3, 9, 25):
        attention, values = random_inputs(4, size)
        two = torch.stack([torch.zeros_like(values), values], -1)
        for eps in (0.0, 0.01, 0.2, 1.0):
            exact = exact_attention(attention, values, everything(attention), eps)
            found, bound = search_attention(attention, two, everything(attention), eps)
            assert torch.allclose(found.jsd, exact.jsd, atol=1e-8), (size, eps)
            assert (found.jsd <= bound + 1e-12).all()


@pytest.mark.parametrize(("size", "steps"), [(3, 300), (4, 100)])
@pytest.mark.parametrize(("eps", "seed"), [(0.02, 101), (0.1, 102)])
def test_search_on_three_classes_reaches_a_fine_grid(size, steps, eps, seed):
    attention, values = random_inputs(5, size, classes=3, seed=seed)
    found, bound = search_attention(attention, values, everything(attention), eps)
    grid = simplex_grid(size, steps)
    for row in range(len(attention)):
        change = tvd((grid @ values[row]).softmax(-1), (attention[row] @ values[row]).softmax(-1))
        best = jsd(attention[row], grid[change <= eps]).max() if (change <= eps).any() else 0
        assert found.jsd[row] >= best - 1e-4
        assert found.jsd[row] <= bound[row] + 1e-12
        assert found.change[row] <= eps + 1e-9
        assert (found.attention[row] > 0).sum() <= 3 and found.attention[row].sum() == pytest.approx(1, abs=1e-12)


def test_search_runs_for_more_classes_than_tokens(vocabulary):
    model = classifier(vocabulary, n_classes=5)
    frame = adversary.search(model, make_batch(TEXTS[:4], vocabulary), eps=0.1)
    assert (frame["change"] <= 0.1 + 1e-9).all() and (frame["max_jsd"] <= frame["bound"] + 1e-12).all()
    assert frame.loc[0, "max_jsd"] == 0


def test_refusals_say_what_to_do(model, vocabulary, monkeypatch):
    batch = make_batch(TEXTS, vocabulary)
    with pytest.raises(NotLinearError, match="2 classes, this model has 3; use adversary.search"):
        adversary.exact(classifier(vocabulary, n_classes=3), batch)
    for function in (adversary.exact, adversary.search, adversary.published):
        with pytest.raises(AnalysisError, match="1.5"):
            function(model, batch, 1.5)
    with pytest.raises(AnalysisError, match="start"):
        adversary.published(model, batch, n_starts=0)
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda batch: replace(forward(batch), contributions=None))
    with pytest.raises(NotLinearError, match="adversary.published"):
        adversary.exact(model, batch)
