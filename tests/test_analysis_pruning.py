"""Importance of heads, orders of removal, and what is left: against by-hand values, and without a trace on the model."""

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import TEXTS, save_bert

from course_utils.analysis import clustering, pruning
from course_utils.errors import AnalysisError, ModelError
from course_utils.models import EncoderClassifier, gate_heads, load_encoder, logits_of

LABELS = [1, 0, 1, 0, 1, 0]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    found = EncoderClassifier(load_encoder(save_bert(tmp_path_factory.mktemp("base"))))
    with torch.no_grad():
        found.head.weight.copy_(torch.randn(found.head.weight.shape, generator=torch.Generator().manual_seed(0)))
    return found.eval().requires_grad_(False)


@pytest.fixture(autouse=True)
def no_trace(classifier):
    """Whatever a test does, the model gives the same logits afterwards, bit for bit."""
    before = logits_of(classifier, TEXTS)
    yield
    assert torch.equal(before, logits_of(classifier, TEXTS)) and not classifier.body.training
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in classifier.modules())


def loss(classifier, text, label, gates):
    with gate_heads(classifier.body, gates), torch.no_grad():
        return torch.nn.functional.cross_entropy(classifier(classifier.encoder.pieces([text])).double(), torch.tensor([label]))


def test_a_gradient_is_the_slope_of_the_loss(classifier):
    double = classifier.double()
    found = pruning.gate_gradients(double, TEXTS, LABELS)
    step = 1e-4
    for text, layer, head in ((0, 0, 1), (3, 1, 2)):
        up, down = torch.ones(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
        up[layer, head] += step
        down[layer, head] -= step
        slope = (loss(double, TEXTS[text], LABELS[text], up) - loss(double, TEXTS[text], LABELS[text], down)) / (2 * step)
        assert found[text, layer, head] == pytest.approx(slope.item(), rel=1e-3, abs=1e-6)
    classifier.float()


def test_gradients_do_not_depend_on_batches(classifier):
    together = pruning.gate_gradients(classifier, TEXTS, LABELS)
    np.testing.assert_allclose(together, pruning.gate_gradients(classifier, TEXTS, LABELS, token_budget=8), atol=1e-5)
    backwards = pruning.gate_gradients(classifier, TEXTS[::-1], LABELS[::-1])
    np.testing.assert_allclose(together, backwards[::-1], atol=1e-5)


def test_importance_by_hand():
    gradients = np.array([[[3.0, 0.0], [1.0, 0.0]], [[-3.0, 4.0], [1.0, 0.0]]])
    scores = pruning.importance(gradients).set_index(["layer", "head"])
    assert scores["raw"].tolist() == [3.0, 2.0, 1.0, 0.0] and scores["signed"].tolist() == [0.0, 2.0, 1.0, 0.0]
    assert scores["normalised"].to_numpy() == pytest.approx([3 / 13**0.5, 2 / 13**0.5, 1, 0])
    assert pruning.order_by(scores.reset_index(), "raw") == [(1, 1), (1, 0), (0, 1), (0, 0)]
    assert pruning.order_by(scores.reset_index()) == [(1, 1), (0, 1), (0, 0), (1, 0)]


def test_layers_without_gradient_have_no_importance():
    assert (pruning.importance(np.zeros((2, 2, 2)))["normalised"] == 0).all()


@pytest.mark.parametrize("step", [1, 2, 4, 100])
def test_an_iterative_order_holds_every_head_once(classifier, step):
    order = pruning.iterative_order(classifier, TEXTS, LABELS, step=step)
    assert len(order) == len(set(order)) == 6
    if step == 100:
        assert order == pruning.order_by(pruning.importance(pruning.gate_gradients(classifier, TEXTS, LABELS)))


def test_an_iterative_order_scores_what_is_left(classifier):
    first, *_ = order = pruning.iterative_order(classifier, TEXTS, LABELS, step=1)
    gates = pruning.gates_without(classifier, [first])
    again = pruning.importance(pruning.gate_gradients(classifier, TEXTS, LABELS, gates=gates) * gates.numpy())
    assert order[1] == next(head for head in pruning.order_by(again) if head != first)
    assert pruning.iterative_order(classifier, TEXTS, LABELS, step=1, until=2)[:2] == order[:2]


def test_random_orders_hold_every_head_and_repeat(classifier):
    one = pruning.random_order(classifier, 0)
    assert sorted(one) == [(layer, head) for layer in range(2) for head in range(3)]
    assert one == pruning.random_order(classifier, 0) != pruning.random_order(classifier, 1)


def test_of_twins_one_stays():
    heads = tuple((0, head) for head in range(4))  # 0 and 1 are twins, 2 is near them, 3 is far
    distances = clustering.HeadDistances(np.array([[0.0, 0.2, 0.9, 0.1, 0.9, 0.9]]), heads)
    assert pruning.redundant(distances, 0) == []
    assert pruning.redundant(distances, 1) == [(0, 1)]
    assert pruning.redundant(distances, 2) == [(0, 0), (0, 2)]
    assert len(pruning.redundant(distances, 3)) == 3
    for wrong in (-1, 4):
        with pytest.raises(AnalysisError, match="can be redundant"):
            pruning.redundant(distances, wrong)


def test_a_curve_holds_what_the_gated_model_says(classifier):
    order = pruning.random_order(classifier, 0)
    table = pruning.curve(classifier, TEXTS, LABELS, {"a": [order], "b": [order[::-1], order[:3]]}, [2, 4])
    assert len(table) == (3 + 3 + 2) * len(TEXTS)
    part = table[(table.plan == "a") & (table.removed == 4)].set_index("text")
    with gate_heads(classifier.body, pruning.gates_without(classifier, order[:4])):
        logits = logits_of(classifier, TEXTS)
    margin = [logits[place, label] - logits[place, 1 - label] for place, label in enumerate(LABELS)]
    assert part["margin"].tolist() == pytest.approx([value.item() for value in margin], abs=1e-5)
    assert part["correct"].tolist() == [value.item() > 0 for value in margin]
    small = pruning.curve(classifier, TEXTS, LABELS, {"a": [order]}, [4], token_budget=8)
    merged = small.merge(table, on=["plan", "seed", "removed", "text"])
    np.testing.assert_allclose(merged["margin_x"], merged["margin_y"], atol=1e-5)


def made(correct: dict[tuple[str, int, int], list[int]]) -> pd.DataFrame:
    rows = [(*key, text, bool(value)) for key, values in correct.items() for text, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["plan", "seed", "removed", "text", "correct"])


def test_accuracies_are_paired():
    table = made(
        {
            ("a", 0, 0): [1, 1, 1, 0],
            ("a", 0, 2): [1, 1, 1, 0],
            ("a", 0, 4): [1, 1, 0, 0],
            ("b", 0, 0): [1, 1, 1, 0],
            ("b", 1, 0): [1, 1, 1, 0],
            ("b", 0, 2): [0, 0, 0, 0],
            ("b", 1, 2): [1, 1, 0, 0],
        }
    )
    found = pruning.accuracies(table).set_index(["plan", "removed"])
    assert found.loc[("a", 2), ["accuracy", "loss", "low", "high"]].tolist() == [0.75, 0, 0, 0]
    assert found.loc[("a", 4), "loss"] == 0.25 and found.loc[("a", 4), "low"] == 0 < found.loc[("a", 4), "high"]
    assert found.loc[("b", 2), ["accuracy", "lowest", "highest", "loss"]].tolist() == [0.25, 0.0, 0.5, 0.5]


def test_how_many_can_go_ends_at_the_first_fall():
    whole = [1] * 10
    table = made({("a", 0, 0): whole, ("a", 0, 3): whole, ("a", 0, 6): [0, 0] + [1] * 8, ("a", 0, 9): whole})
    assert pruning.affordable(table).set_index("plan").loc["a", "heads"] == 3
    assert pruning.affordable(table, points=30).set_index("plan").loc["a", "heads"] == 9
    row = pruning.affordable(table).iloc[0]
    assert row["low"] <= row["heads"] <= row["high"] == 9


def test_each_head_by_itself(classifier):
    table = pruning.ablate_each(classifier, TEXTS, LABELS)
    assert len(table) == 6 and (table["moved"] >= table["margin"].abs()).all()
    whole, without = (
        pruning.curve(classifier, TEXTS, LABELS, {"x": [[(1, 2)]]}, [1]).groupby("removed")["margin"].mean()[count]
        for count in (0, 1)
    )
    assert table.set_index(["layer", "head"]).loc[(1, 2), "margin"] == pytest.approx(without - whole, abs=1e-5)


def test_bad_input_is_refused(classifier):
    for head in ((2, 0), (0, 3), (-1, 0)):
        with pytest.raises(AnalysisError, match="there is no head"):
            pruning.gates_without(classifier, [head])
    with pytest.raises(AnalysisError, match="one label a text"):
        pruning.gate_gradients(classifier, TEXTS, LABELS[1:])
    with pytest.raises(AnalysisError, match="classes 0..1"):
        pruning.ablate_each(classifier, TEXTS, [2] * 6)
    with pytest.raises(AnalysisError, match="step is 0"):
        pruning.iterative_order(classifier, TEXTS, LABELS, step=0)
    with pytest.raises(ModelError, match="gates have shape"):
        pruning.gated_logits(classifier, TEXTS, [torch.ones(6, 12)])


def test_all_heads_can_go(classifier):
    everything = pruning.random_order(classifier, 0)
    table = pruning.curve(classifier, TEXTS, LABELS, {"all": [everything]}, [6])
    assert np.isfinite(table["margin"]).all()
