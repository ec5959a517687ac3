"""The permutation experiment against all permutations, against its closed form, and against re-running the model."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import torch

from course_utils.analysis import over
from course_utils.analysis.permutation import moments, permutation_moments, permute, permuted_logits
from course_utils.data import Vocabulary, make_batch, make_batches
from course_utils.errors import AnalysisError, NotLinearError
from course_utils.models import AttentionClassifier, ClassifierConfig

WORDS = list("abcdefghijklmnop")
TEXTS = [" ".join(np.random.default_rng(i).choice(WORDS, n)) for i, n in enumerate([1, 2, 3, 5, 8, 13, 5, 21])]


def single(text, index, vocabulary):
    return replace(make_batch([text], vocabulary), index=torch.tensor([index]))


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.build([WORDS])


@pytest.fixture(scope="module", params=[2, 3])
def model(request, vocabulary):
    torch.manual_seed(1)
    model = (
        AttentionClassifier(ClassifierConfig(n_classes=request.param, hidden=8), torch.randn(len(vocabulary), 6)).double().eval()
    )
    with torch.no_grad():
        model.decoder.weight.mul_(8)
        model.attention.score.weight.mul_(8)
    return model


def test_moments_are_those_of_all_permutations():
    generator = torch.Generator().manual_seed(0)
    for size in range(1, 6):
        attention = torch.rand(1, size, generator=generator, dtype=torch.float64)
        attention /= attention.sum()
        values = torch.randn(1, size, generator=generator, dtype=torch.float64)
        every = torch.stack([attention[0, list(order)] @ values[0] for order in permutations(range(size))])
        pad = [torch.nn.functional.pad(t, (0, 3)) for t in (attention, values, torch.ones(1, size, dtype=torch.bool))]
        mean, variance = moments(*pad)
        assert abs(mean.item() - every.mean().item()) < 1e-12
        assert abs(variance.item() - every.var(unbiased=False).item()) < 1e-12


def test_sampled_logits_have_the_exact_mean_and_variance(model, vocabulary):
    batch = make_batch(TEXTS, vocabulary)
    n = 4000
    logits = permuted_logits(model, batch, n, seed=3).numpy()
    exact = permutation_moments(model, batch)
    for label in range(logits.shape[-1]):
        sampled, variance = logits[..., label], exact[f"variance_{label}"].to_numpy()
        error = np.sqrt(variance / n)
        assert (np.abs(sampled.mean(1) - exact[f"mean_{label}"]) <= 4.5 * error + 1e-12).all()
        fourth = ((sampled - sampled.mean(1, keepdims=True)) ** 4).mean(1)
        spread = np.sqrt(np.maximum(fourth - variance**2, 0) / n)
        assert (np.abs(sampled.var(1) - variance) <= 5 * spread + 1e-12).all()


def test_binary_moments_are_of_the_log_odds(model, vocabulary):
    batch = make_batch(TEXTS, vocabulary)
    frame, logits = permutation_moments(model, batch), permuted_logits(model, batch, 2000)
    if logits.shape[-1] != 2:
        assert "mean" not in frame
        return
    odds = (logits[..., 1] - logits[..., 0]).numpy()
    assert (np.abs(odds.mean(1) - frame["mean"]) <= 4.5 * np.sqrt(frame["variance"] / 2000) + 1e-12).all()


def test_is_what_re_running_the_model_with_shuffled_weights_gives(model, vocabulary):
    batch = make_batch(["a b c"], vocabulary)
    orders = torch.tensor(list(permutations(range(3))))
    with torch.no_grad():
        output = model(batch)
        rerun = [model(batch, attention=output.attention[:, order]) for order in orders]
    every = torch.cat([shuffled.logits for shuffled in rerun])
    distance = (permuted_logits(model, batch, 500)[0, :, None] - every).abs().amax(-1)
    assert (distance.amin(1) < 1e-12).all()
    assert set(distance.argmin(1).tolist()) == set(range(6))
    changes = (torch.cat([shuffled.probabilities for shuffled in rerun]) - output.probabilities).abs().sum(-1) / 2
    assert permute(model, batch, 500)["max_change"].item() == pytest.approx(changes.max().item(), abs=1e-12)


def test_table_says_what_the_model_does(model, vocabulary):
    batch = make_batch(TEXTS, vocabulary)
    frame = permute(model, batch)
    with torch.no_grad():
        output = model(batch)
    assert frame["input"].tolist() == list(range(len(TEXTS)))
    assert frame["n_tokens"].tolist() == batch.lengths.tolist()
    assert np.allclose(frame["max_attention"], output.attention.amax(1), atol=1e-12)
    assert frame["predicted_class"].tolist() == output.predicted.tolist()
    assert (frame["median_change"] <= frame["max_change"]).all() and frame["max_change"].between(0, 1).all()
    assert frame.loc[0, ["median_change", "max_change"]].abs().max() < 1e-15
    assert (frame.loc[1:, "max_change"] > 0).all()


def test_does_not_depend_on_batch_padding_or_order(model, vocabulary):
    whole = permute(model, make_batch(TEXTS, vocabulary))
    alone = over(permute, model, [single(text, i, vocabulary) for i, text in enumerate(TEXTS)])
    mixed = over(permute, model, make_batches(TEXTS[::-1], vocabulary, token_budget=30))
    pd.testing.assert_frame_equal(whole, alone, rtol=0, atol=1e-12)
    mixed["input"] = len(TEXTS) - 1 - mixed["input"]
    pd.testing.assert_frame_equal(whole, mixed.sort_values("input", ignore_index=True), rtol=0, atol=1e-12)


def test_seed_decides_the_shuffles(model, vocabulary):
    batch = make_batch(TEXTS, vocabulary)
    assert torch.equal(permuted_logits(model, batch, 5), permuted_logits(model, batch, 5))
    assert not torch.equal(permuted_logits(model, batch, 5), permuted_logits(model, batch, 5, seed=1))


def test_refuses_what_makes_no_sense(model, vocabulary, monkeypatch):
    batch = make_batch(TEXTS, vocabulary)
    with pytest.raises(AnalysisError, match="at least 1 permutation"):
        permute(model, batch, 0)
    with pytest.raises(AnalysisError, match="-1"):
        permute(model, batch, seed=-1)
    with pytest.raises(AnalysisError, match="no batch"):
        over(permute, model, [])
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda batch: replace(forward(batch), contributions=None))
    with pytest.raises(NotLinearError, match="not linear"):
        permute(model, batch)
