"""The defence's tests: uniform and frozen attention, distances between models, the trained adversary."""

import math

import numpy as np
import pytest
import torch

from course_utils.analysis.defence import between, kl, train_adversary
from course_utils.analysis.distances import jsd
from course_utils.analysis.importance import leave_one_out
from course_utils.data import Example, make_batch, make_batches
from course_utils.errors import AnalysisError, ModelError
from course_utils.models.frozen import FrozenAttentionClassifier, weights_of
from course_utils.models.training import TrainingConfig, evaluate, fit
from tests.classifiers import TEXTS, VOCABULARY, small_model

BATCH = make_batch(TEXTS, VOCABULARY)


def test_uniform_attention_is_one_over_the_length():
    output = small_model(attention="uniform")(BATCH)
    for row, length in enumerate(BATCH.lengths.tolist()):
        assert output.attention[row].tolist() == pytest.approx([1 / length] * length + [0] * (7 - length))


def test_leave_one_out_of_uniform_attention_is_that_of_encoding_anew():
    model = small_model(attention="uniform")
    table = leave_one_out(model, BATCH)
    row = table[(table["input"] == 0) & (table["position"] == 2)].iloc[0]
    shorter = model(make_batch(["a b d e f g"], VOCABULARY)).probabilities[0]
    expected = (shorter - model(BATCH).probabilities[0]).abs().sum().item() / 2
    assert row["leave_one_out"] == pytest.approx(expected, abs=1e-6)


def test_distances_are_those_of_each_pair():
    models = [small_model(seed=seed) for seed in range(3)]
    table = between(models, BATCH)
    assert len(table) == 3 * len(TEXTS)
    row = table[(table["input"] == 3) & (table["first"] == 0) & (table["second"] == 2)].iloc[0]
    attentions = [model(make_batch([TEXTS[3]], VOCABULARY)).attention[0] for model in (models[0], models[2])]
    assert row["jsd"] == pytest.approx(jsd(*attentions).item(), abs=1e-9)
    assert (table.loc[table["n_tokens"] == 1, "jsd"] == 0).all()
    same = between([models[0], models[0]], BATCH)
    assert same["jsd"].abs().max() < 1e-12 and same["change"].max() == 0
    with pytest.raises(AnalysisError, match="2 models"):
        between(models[:1], BATCH)


def test_kl_by_hand_and_at_zero_weights():
    p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.75, 0.0])
    assert kl(p, q).item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3), abs=1e-6)
    p = torch.tensor([0.0, 1.0], requires_grad=True)
    value = kl(p, torch.tensor([1.0, 0.0]))
    (slope,) = torch.autograd.grad(value, p)
    assert 80 < value.item() < math.inf and slope.isfinite().all()
    assert kl(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0])).item() == 0


@pytest.mark.parametrize("saturated", [False, True])
def test_the_adversary_learns_the_predictions_and_moves_attention(saturated):
    base = small_model(seed=1).float()
    if saturated:  # all attention on one token
        with torch.no_grad():
            base.attention.score.weight.mul_(200)
    texts = [Example(text) for text in TEXTS] * 6
    batches = make_batches(texts, VOCABULARY)
    results = {}
    for strength in (0.0, 0.05):
        model = small_model(seed=2).float()
        history = train_adversary(model, base, VOCABULARY, texts, strength, epochs=40, batch_tokens=40, learning_rate=1e-2)
        assert history.notna().all().all() and all(p.isfinite().all() for p in model.parameters())
        with torch.no_grad():
            results[strength] = np.mean([jsd(model(b).attention, base(b).attention).mean().item() for b in batches])
        assert history["change"].iloc[-1] < history["change"].iloc[0] / 2
    assert results[0.05] > results[0.0]


def test_a_negative_lambda_is_refused():
    with pytest.raises(AnalysisError, match="-1"):
        train_adversary(small_model(), small_model(), VOCABULARY, [Example("a")], -1)
    with pytest.raises(AnalysisError, match="no text"):
        train_adversary(small_model(), small_model(), VOCABULARY, [], 0.1)


def test_frozen_weights_are_used_and_stay():
    lstm = small_model().float()
    examples = [Example(text, number % 2) for number, text in enumerate(TEXTS)]
    batches = make_batches(examples, VOCABULARY)
    model = FrozenAttentionClassifier(lstm.embedding.weight, weights_of(lstm, batches), hidden=8)
    torch.testing.assert_close(model(batches[0]).attention, lstm(batches[0]).attention)
    fit(model, examples, examples, VOCABULARY, TrainingConfig(epochs=60, patience=60, learning_rate=1e-2, word_dropout=0.0))
    torch.testing.assert_close(model(batches[0]).attention, lstm(batches[0]).attention)
    assert evaluate(model, batches)["accuracy"] > 0.8
    with pytest.raises(ModelError, match="i i i"):
        model(make_batch(["i i i"], VOCABULARY))
