"""Attention that moves between heads: exact where theory says so, and a model that is afterwards what it was."""

import copy

import pytest
import tiny
import torch

from course_utils.analysis import moving
from course_utils.errors import AnalysisError, ModelError
from course_utils.models import load_encoder
from course_utils.models.moving import HeadWeights, exchanged, read_head, replaced, use_heads


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return tiny.classifier(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="module")
def encoder(classifier):
    return classifier.encoder


@pytest.fixture(autouse=True)
def the_model_is_left_as_it_was(encoder):
    before = copy.deepcopy(encoder.model.state_dict())
    yield
    after = encoder.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_exchanged_heads_are_the_same_function_under_other_names(classifier, encoder):
    changes = exchanged(encoder.model, 1, 0, 2)
    assert moving.layer_change(encoder, tiny.TEXTS, changes)["change"].max() < 1e-5
    assert moving.prediction_change(classifier, tiny.TEXTS, changes)["change"].max() < 1e-5
    before = encoder.attend(tiny.TEXTS).attention
    with use_heads(encoder.model, changes):
        after = encoder.attend(tiny.TEXTS).attention
    assert torch.allclose(after[:, 1, [2, 1, 0]], before[:, 1], atol=1e-6)
    assert not torch.allclose(after[:, 1, 0], before[:, 1, 0], atol=1e-2)


def test_an_exception_leaves_no_trace(encoder):
    with pytest.raises(RuntimeError, match="on purpose"), use_heads(encoder.model, exchanged(encoder.model, 0, 0, 1)):
        raise RuntimeError("on purpose")


def test_a_head_with_its_own_weights_changes_nothing(classifier, encoder):
    same = {(0, 1): read_head(encoder.model, 0, 1)}
    assert moving.prediction_change(classifier, tiny.TEXTS, same)["change"].max() == 0
    now = dict(encoder.model.named_parameters())
    assert all(torch.equal(value, now[name]) for name, value in replaced(encoder.model, same).items())


@pytest.mark.parametrize("text", ["good", "the film"])
def test_for_one_short_text_the_layers_output_is_exactly_the_same(encoder, text):
    changes = moving.refitted(encoder, [text], 1, 0, [1, 2])
    assert moving.layer_change(encoder, [text], changes)["change"].max() < 1e-4
    with use_heads(encoder.model, changes):
        maps = encoder.attend([text]).attention[0, 1]
    assert torch.allclose(maps[1], maps[0], atol=1e-6) and torch.allclose(maps[2], maps[0], atol=1e-6)


def test_for_many_texts_it_is_the_least_squares_fit(encoder):
    changes = moving.refitted(encoder, tiny.TEXTS, 1, 0, [2])
    best = moving_error(encoder, changes[1, 2])
    for seed in range(3):
        noise = 0.01 * torch.randn(4, 12, generator=torch.Generator().manual_seed(seed))
        assert moving_error(encoder, HeadWeights(**(vars(changes[1, 2]) | {"value": changes[1, 2].value + noise}))) > best
    assert best > 1e-3


def moving_error(encoder, weights):
    """Squared distance between what head 1-2 read before and reads now, over all tokens."""
    maps = encoder.attend(tiny.TEXTS, states=True)
    read = maps.attention[:, 1, 2] @ maps.values[:, 1, 2]
    now = maps.attention[:, 1, 0] @ (maps.hidden[:, 1] @ weights.value.T + weights.value_bias)
    return float((now - read)[maps.mask].square().sum())


def test_even_attention_is_even(encoder):
    changes = moving.refitted(encoder, tiny.TEXTS, 0, 0, [1], even=True)
    with use_heads(encoder.model, changes):
        maps = encoder.attend(tiny.TEXTS)
    uniform = maps.mask[:, None] / maps.lengths[:, None, None] * maps.mask[..., None]
    assert torch.allclose(maps.attention[:, 0, 1], uniform, atol=1e-6)


def test_results_do_not_depend_on_the_order_of_texts(classifier, encoder):
    one = moving.refitted(encoder, tiny.TEXTS, 1, 0, [1], ridge=1e-3)[1, 1]
    other = moving.refitted(encoder, tiny.TEXTS[::-1], 1, 0, [1], ridge=1e-3)[1, 1]
    assert torch.allclose(one.value, other.value, atol=1e-4)
    changes = {(1, 1): one}
    forward = moving.prediction_change(classifier, tiny.TEXTS, changes)["change"].to_numpy()
    backward = moving.prediction_change(classifier, tiny.TEXTS[::-1], changes)["change"].to_numpy()
    assert forward == pytest.approx(backward[::-1], abs=1e-5)


def test_the_ways_are_all_there_and_removal_is_a_gate_of_zero(classifier, encoder):
    from course_utils.models import gate_heads
    from course_utils.models.finetuned import logits_of

    table = moving.ways(classifier, tiny.TEXTS, tiny.TEXTS, 1, 0, [1, 2])
    assert list(table["way"].unique()) == list(moving.WAYS) and len(table) == 4 * len(tiny.TEXTS)
    gates = torch.ones(2, 3)
    gates[1, 1:] = 0
    before = logits_of(classifier, tiny.TEXTS).softmax(-1)
    with gate_heads(encoder.model, gates):
        after = logits_of(classifier, tiny.TEXTS).softmax(-1)
    removed = table.loc[table["way"] == "removed", "change"].to_numpy()
    assert removed == pytest.approx((before - after).abs().sum(-1).numpy() / 2, abs=1e-5)


def test_more_texts_fit_worse_and_hold_better(encoder):
    table = moving.by_number_of_texts(encoder, tiny.TEXTS[:4], tiny.TEXTS[4:], 1, 0, [1], numbers=(1, 4))
    mean = table.groupby(["seen", "n_texts"])["change"].mean()
    assert mean["fitted", 1] < 1e-3 < mean["fitted", 4]
    assert mean["held out", 4] < mean["held out", 1]


def test_what_cannot_be_moved_is_refused(classifier, encoder, tmp_path):
    with pytest.raises(AnalysisError, match="cannot hand its attention"):
        moving.refitted(encoder, tiny.TEXTS, 0, 1, [1])
    with pytest.raises(AnalysisError, match="cannot hand its attention"):
        moving.refitted(encoder, tiny.TEXTS, 0, 1, [])
    with pytest.raises(ModelError, match="with itself"):
        exchanged(encoder.model, 0, 1, 1)
    with pytest.raises(ModelError, match="no head 9 in layer 0"):
        read_head(encoder.model, 0, 9)
    with pytest.raises(ModelError, match="no head 0 in layer 5"):
        read_head(encoder.model, 5, 0)
    both = {(0, 0): read_head(encoder.model, 0, 0), (1, 0): read_head(encoder.model, 1, 0)}
    with pytest.raises(AnalysisError, match="one layer"):
        moving.layer_change(encoder, tiny.TEXTS, both)
    with pytest.raises(ModelError):
        read_head(load_encoder(tiny.save_gpt2(tmp_path / "gpt2")).model, 0, 0)
