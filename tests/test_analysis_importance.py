"""Gradient importance against finite differences, and what it leaves alone."""

import pandas as pd
import pytest
import torch
from classifiers import TEXTS, VOCABULARY, small_model
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.analysis.importance import gradient, leave_one_out
from course_utils.data import make_batch, make_batches


def probability(model, batch, embedded, attention):
    with torch.no_grad():
        return model(batch, embedded=embedded, attention=attention).probabilities


@pytest.mark.parametrize("hold_attention", [True, False])
@pytest.mark.parametrize("attention", ["additive", "dot"])
@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "average"])
def test_gradient_is_the_slope_when_a_word_vector_is_scaled(encoder, attention, hold_attention):
    model = small_model(encoder, attention, n_classes=3)
    batch = make_batch(TEXTS, VOCABULARY)
    frame = gradient(model, batch, hold_attention=hold_attention)
    embedded = model.embedding(batch.ids).detach()
    output = model(batch)
    held = output.attention.detach() if hold_attention else None
    step = 1e-5
    for row in frame.itertuples():
        up, down = embedded.clone(), embedded.clone()
        up[row.input, row.position] *= 1 + step
        down[row.input, row.position] *= 1 - step
        change = probability(model, batch, up, held) - probability(model, batch, down, held)
        slope = abs(change[row.input, output.predicted[row.input]].item()) / (2 * step)
        assert row.gradient == pytest.approx(slope, abs=1e-8)
        assert row.attention == pytest.approx(output.attention[row.input, row.position].item(), abs=1e-15)
        assert row.predicted_class == output.predicted[row.input]
    assert frame["token"].tolist() == " ".join(TEXTS).split()


def test_holding_attention_changes_the_gradient():
    batch = make_batch(TEXTS, VOCABULARY)
    held, free = (gradient(small_model(), batch, hold_attention=hold)["gradient"] for hold in (True, False))
    assert not torch.allclose(torch.tensor(held.to_numpy()), torch.tensor(free.to_numpy()), rtol=1e-3)


def test_shares_sum_to_one_and_survive_a_probability_that_rounds_to_one():
    model = small_model().float()
    with torch.no_grad():
        model.decoder.bias += torch.tensor([0.0, 40.0])
    batch = make_batch(TEXTS, VOCABULARY)
    assert (model(batch).probabilities[:, 1] == 1).all()
    frame = gradient(model, batch)
    assert (frame["gradient"] > 0).all()
    assert frame.groupby("input")["gradient_share"].sum().tolist() == pytest.approx([1] * len(TEXTS))


def test_a_model_that_does_not_read_has_gradient_and_share_zero():
    model = small_model()
    torch.nn.init.zeros_(model.decoder.weight)
    frame = gradient(model, make_batch(TEXTS, VOCABULARY))
    assert (frame["gradient"] == 0).all()
    assert (frame["gradient_share"] == 0).all()


@pytest.mark.parametrize("experiment", [gradient, leave_one_out])
def test_the_model_is_left_as_it_was(experiment):
    model = small_model().train()
    model.decoder.weight.requires_grad_(False)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    wanted = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    with torch.no_grad():
        experiment(model, make_batch(TEXTS, VOCABULARY))
    assert model.training and all(module.training for module in model.modules())
    for name, parameter in model.named_parameters():
        assert parameter.grad is None
        assert parameter.requires_grad == wanted[name]
        assert torch.equal(parameter, before[name])


@settings(max_examples=15, deadline=None)
@given(data=st.data(), experiment=st.sampled_from([gradient, leave_one_out]), encoder=st.sampled_from(["bilstm", "cnn", "average"]))
def test_results_do_not_depend_on_batch_size_padding_or_order(data, experiment, encoder):
    order = data.draw(st.permutations(range(len(TEXTS))))
    budget = data.draw(st.integers(1, 30))
    model = small_model(encoder)
    together = experiment(model, make_batch(TEXTS, VOCABULARY))
    shuffled = make_batches([TEXTS[position] for position in order], VOCABULARY, token_budget=budget)
    apart = pd.concat([experiment(model, batch) for batch in shuffled])
    apart["input"] = [order[number] for number in apart["input"]]
    apart = apart.sort_values(["input", "position"], ignore_index=True)
    pd.testing.assert_frame_equal(together, apart, rtol=0, atol=1e-12)
