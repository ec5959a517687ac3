"""Faithfulness tests where the answer is known: models made by hand, planted tokens, plain loops; and at the edges."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from classifiers import TEXTS, VOCABULARY, small_model
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import WORDS, planted_model

from course_utils.analysis import over
from course_utils.analysis.erasure import predict_kept, random_scores, ranks
from course_utils.analysis.faithfulness import SHARES, aopc, eraser, intervals, removal
from course_utils.analysis.flips import OUTCOMES, decision_flips, items_to_flip, outcomes
from course_utils.analysis.integrated import integrated_gradients
from course_utils.analysis.rankings import combine, rankings
from course_utils.data import make_batch, make_batches
from course_utils.errors import AnalysisError

METHODS = ["attention", "gradient", "attention_gradient", "leave_one_out", "integrated_gradients", "random"]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def table(batch, **columns) -> pd.DataFrame:
    """A token table with importances written by hand, one list a text."""
    frame = pd.DataFrame(
        {
            "input": np.repeat(batch.index.numpy(), batch.lengths.numpy()),
            "position": np.concatenate([np.arange(n) for n in batch.lengths.tolist()]),
            "token": [token for tokens in batch.tokens for token in tokens],
        }
    )
    return frame.assign(**{name: np.concatenate(values) for name, values in columns.items()})


def probabilities(model, text: str, vocabulary=VOCABULARY) -> torch.Tensor:
    with torch.no_grad():
        return model(make_batch([text], vocabulary)).probabilities[0]


@pytest.fixture(scope="module")
def scored():
    model, batch = small_model(), make_batch(TEXTS, VOCABULARY)
    with torch.no_grad():
        model.decoder.weight.mul_(8)
    return model, batch, rankings(model, batch, n_steps=5)


def test_without_the_planted_token_the_probability_is_one_half_and_with_it_alone_it_is_highest():
    model = planted_model({"b": 4.0})
    batch = make_batch(["a b c d", "c d e f g b"], WORDS)
    scores = table(batch, good=[[0, 1, 0, 0], [0, 0, 0, 0, 0, 1]], bad=[[1, 0, 0, 0], [1, 0, 0, 0, 0, 0]])
    frame = eraser(model, batch, scores, [0.1]).set_index(["input", "method"])
    for number, length in ((0, 4), (1, 6)):
        whole = sigmoid(4 / length)
        good, bad = frame.loc[(number, "good")], frame.loc[(number, "bad")]
        assert good["n_rationale"] == 1
        assert good["comprehensiveness"] == pytest.approx(whole - 0.5, abs=1e-4)
        assert good["sufficiency"] == pytest.approx(whole - sigmoid(4), abs=1e-4)
        assert bad["comprehensiveness"] == pytest.approx(whole - sigmoid(4 / (length - 1)), abs=1e-4)
        assert bad["sufficiency"] == pytest.approx(whole - 0.5, abs=1e-4)
        assert good["comprehensiveness"] > bad["comprehensiveness"] and good["sufficiency"] < bad["sufficiency"]


def test_every_measure_but_random_finds_the_planted_token():
    model = planted_model({"b": 4.0, "a": 0.1}, {"b": 1.0})
    scores = rankings(model, make_batch(["a b c d e", "c d e f g b"], WORDS), n_steps=20)
    for method in METHODS[:-1]:
        assert scores.loc[scores.groupby("input")[method].idxmax(), "token"].tolist() == ["b", "b"], method


def test_signed_measures_tell_for_from_against():
    scores = rankings(planted_model({"b": 4.0, "c": -2.0}), make_batch(["a b c d"], WORDS), n_steps=20).set_index("token")
    attended = 0.25 * sigmoid(0.5) * sigmoid(-0.5)
    assert scores["attention_gradient"].to_numpy() == pytest.approx(attended * np.array([0, 4, -2, 0]), abs=1e-4)
    assert scores["integrated_gradients"].sum() == pytest.approx(sigmoid(0.5) - 0.5, abs=1e-4)
    assert scores.loc["c", "integrated_gradients"] < 0 < scores.loc["b", "integrated_gradients"]
    assert (scores[["gradient", "leave_one_out", "attention"]] >= 0).all(axis=None)


def test_removal_and_eraser_equal_a_plain_loop(scored):
    model, batch, scores = scored
    removed = removal(model, batch, scores, [1, 2, 4]).set_index(["input", "method", "amount"])
    erased = eraser(model, batch, scores).set_index(["input", "method", "share"])
    for number, text in enumerate(TEXTS):
        words = text.split()
        whole = probabilities(model, text)
        predicted = int(whole.argmax())
        of_text = scores[scores["input"] == number]
        for method in METHODS[:-1]:
            order = np.argsort(-of_text[method].to_numpy()).tolist()

            def without(places, words=words):
                return " ".join(word for place, word in enumerate(words) if place not in places)

            for amount in (1, 2, 4):
                row, rest = removed.loc[(number, method, amount)], without(order[:amount])
                assert row["n_removed"] == amount
                if rest:
                    left = probabilities(model, rest)
                    assert row["change"] == pytest.approx((whole - left)[predicted].item(), abs=1e-12)
                    assert row["flipped"] == float(left.argmax() != predicted)
                else:
                    assert math.isnan(row["change"]) and math.isnan(row["flipped"])
            for share in SHARES:
                size = max(1, math.ceil(share * len(words)))
                row = erased.loc[(number, method, share)]
                alone = probabilities(model, without(order[size:]))
                assert row["sufficiency"] == pytest.approx((whole - alone)[predicted].item(), abs=1e-12)
                if size < len(words):
                    rest = probabilities(model, without(order[:size]))
                    assert row["comprehensiveness"] == pytest.approx((whole - rest)[predicted].item(), abs=1e-12)
    assert len(removed) == len(TEXTS) * len(METHODS) * 3


def test_random_is_the_mean_over_draws_whose_first_is_that_of_the_table(scored):
    model, batch, scores = scored
    draws = random_scores(batch, 0, 4)
    assert scores["random"].tolist() == draws[:, 0][batch.mask].tolist()
    assert torch.equal(draws[:, :2], random_scores(batch, 0, 2))
    assert not torch.equal(draws, random_scores(batch, 1, 4))
    single = table(batch, **{f"draw_{n}": [draws[:, n][batch.mask].numpy()] for n in range(4)})
    one_by_one = removal(model, batch, single, [2]).groupby("input")[["change", "flipped"]].mean()
    together = removal(model, batch, scores, [2], methods=["random"], n_random=4).set_index("input")
    np.testing.assert_allclose(together[["change", "flipped"]], one_by_one, rtol=0, atol=1e-12)


def test_equal_importance_is_ordered_at_random_not_from_left_to_right(scored):
    model, batch, scores = scored
    flat = scores.assign(flat=0.0)
    found = removal(model, batch, flat, [1, 2], methods=["flat", "random"], n_random=1)
    np.testing.assert_array_equal(*(found.loc[found["method"] == name, "change"] for name in ("flat", "random")))
    turns = ranks(batch, flat, ["flat"], n_random=1, seed=0)[:, 0]
    for row, length in zip(turns, batch.lengths, strict=True):
        assert sorted(row[:length].tolist()) == list(range(length))
    assert turns[0].tolist() != list(range(7))


def test_a_share_rounds_up_by_the_decimal_number_not_by_its_last_bit():
    batch = make_batch([" ".join("abcdefghij" * 3)], VOCABULARY)
    scores = table(batch, up=[np.arange(30)])
    found = eraser(small_model(), batch, scores, [0.01, 0.1, 0.11, 0.5])
    assert found["n_rationale"].tolist() == [1, 3, 4, 15]


@settings(max_examples=8, deadline=None)
@given(data=st.data(), encoder=st.sampled_from(["bilstm", "cnn", "average"]))
def test_results_do_not_depend_on_batch_size_padding_or_order(data, encoder):
    order = data.draw(st.permutations(range(len(TEXTS))))
    budget = data.draw(st.integers(1, 30))
    model = small_model(encoder)

    def everything(batches):
        scores = combine(over(rankings, model, batches, n_steps=3), ["attention", "gradient"])
        experiments = [over(function, model, batches, scores=scores, n_random=3) for function in (eraser, items_to_flip)]
        return scores, over(removal, model, batches, scores=scores, n_random=3), *experiments, over(decision_flips, model, batches)

    together = everything([make_batch(TEXTS, VOCABULARY)])
    apart = everything(make_batches([TEXTS[position] for position in order], VOCABULARY, token_budget=budget))
    for wanted, found in zip(together, apart, strict=True):
        found["input"] = [order[number] for number in found["input"]]
        found = found.sort_values("input", kind="stable", ignore_index=True)
        pd.testing.assert_frame_equal(wanted, found, rtol=0, atol=1e-6)


def test_predict_kept_encodes_a_version_once_and_has_nothing_to_say_of_an_empty_text(monkeypatch):
    model, batch = small_model(), make_batch(TEXTS[:1], VOCABULARY)
    keep = torch.ones(1, 6, 7, dtype=torch.bool)
    keep[0, 1:3, 0] = False
    keep[0, 5] = False
    encoded = []
    original = model.forward
    monkeypatch.setattr(model, "forward", lambda part, **more: encoded.extend(part.tokens) or original(part, **more))
    found = predict_kept(model, batch, keep)
    assert sorted(encoded) == [tuple("abcdefg"), tuple("bcdefg")]
    assert found[0, 5].isnan().all()
    assert torch.equal(found[0, 1], found[0, 2]) and torch.equal(found[0, 0], found[0, 3])
    torch.testing.assert_close(found[0, 1], probabilities(model, "b c d e f g"), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_flips_equal_a_plain_loop_over_counterfactual_attention(n_classes):
    model, batch = small_model(n_classes=n_classes, seed=5), make_batch(TEXTS, VOCABULARY)
    with torch.no_grad():
        model.decoder.bias.zero_()
        model.attention.score.weight.mul_(3)
        output = model(batch)
    scores = table(batch, one=[np.sin(7 * np.arange(n) + n) for n in batch.lengths.tolist()])
    found = decision_flips(model, batch)
    until = items_to_flip(model, batch, scores)

    def flips(row, gone):
        weights = output.attention.clone()
        weights[row, gone] = 0
        weights[row] /= weights[row].sum()
        with torch.no_grad():
            return int(model(batch, attention=weights).predicted[row] != output.predicted[row])

    for row, length in enumerate(batch.lengths.tolist()):
        if length == 1:
            assert found.loc[row, ["top", "random", *OUTCOMES]].isna().all() and math.isnan(until.loc[row, "fraction"])
            continue
        top = int(output.attention[row].argmax())
        others = [flips(row, [place]) for place in range(length) if place != top]
        assert found.loc[row, "top"] == flips(row, [top])
        assert found.loc[row, "random"] == pytest.approx(np.mean(others))
        assert found.loc[row, list(OUTCOMES)].sum() == pytest.approx(1)
        order = np.argsort(-scores.loc[scores["input"] == row, "one"].to_numpy())
        first = next((n for n in range(1, length) if flips(row, order[:n])), None)
        assert until.loc[row, "fraction"] == pytest.approx(1 if first is None else first / length)
        assert until.loc[row, "flipped"] == (first is not None)
    assert found["top"].sum() > 0 and until["flipped"].sum() > 0


def test_no_ranking_flips_a_decision_of_two_classes_with_fewer_items_than_attention_times_gradient():
    flipped = 0
    for seed in range(6):
        model, batch = small_model(seed=seed), make_batch(TEXTS, VOCABULARY)
        torch.nn.init.zeros_(model.decoder.bias)
        until = items_to_flip(model, batch, rankings(model, batch, n_steps=3)).dropna()
        floor = until[until["method"] == "attention_gradient"].set_index("input")["fraction"]
        assert (until["fraction"] >= until["input"].map(floor) - 1e-12).all()
        flipped += (floor < 1).sum()
    assert flipped >= 3


def test_the_top_item_carries_the_decision_of_a_model_made_so():
    model = planted_model({"b": 9.0, "a": -1.0}, {"b": 2.0})
    found = decision_flips(model, make_batch(["a b a a", "a a a"], WORDS))
    assert found[["top_only", "random_only", "both", "neither"]].to_numpy().tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    summary = outcomes(found).set_index("method")
    assert summary.loc["top", "mean"] == 0.5 and summary.loc["neither", "n"] == 2
    assert summary.loc["top", "difference"] == 0.5


def test_all_attention_on_one_token_leaves_no_decision_to_flip():
    model = planted_model({"b": 9.0, "a": -1.0}, {"b": 2000.0})
    batch = make_batch(["a b a"], WORDS)
    with torch.no_grad():
        assert model(batch).attention[0].tolist() == [0, 1, 0]
    assert decision_flips(model, batch)["top"].tolist() == [0]
    scores = rankings(model, batch, n_steps=3)
    assert items_to_flip(model, batch, scores, methods=["attention"])[["fraction", "flipped"]].to_numpy().tolist() == [[1, 0]]


def test_one_token_texts_have_defined_results_without_a_warning():
    model, batch = small_model(), make_batch(["h", "b"], VOCABULARY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = combine(rankings(model, batch, n_steps=3), METHODS)
        erased, removed = eraser(model, batch, scores), removal(model, batch, scores)
        flips, until = decision_flips(model, batch), items_to_flip(model, batch, scores)
    assert scores["leave_one_out"].isna().all() and (scores["combined"] == 1).all()
    assert (erased["sufficiency"] == 0).all() and erased["comprehensiveness"].isna().all()
    assert removed["change"].isna().all() and flips["top"].isna().all() and until["fraction"].isna().all()
    with pytest.raises(AnalysisError, match="no input has a value of change"):
        intervals(removed, "change", "amount")


def test_saturated_probabilities_still_rank_tokens():
    model = small_model().float()
    with torch.no_grad():
        model.decoder.bias += torch.tensor([0.0, 30.0])
    batch = make_batch(TEXTS, VOCABULARY)
    with torch.no_grad():
        assert (model(batch).probabilities[:, 1] == 1).all()
    scores = rankings(model, batch, n_steps=5)
    long = scores[scores["input"] == 0]
    for method in ("gradient", "attention_gradient", "integrated_gradients"):
        assert long[method].nunique() == 7 and np.isfinite(long[method]).all(), method
    assert (removal(model, batch, scores, [1])["change"].dropna().abs() < 1e-6).all()


@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "average"])
def test_integrated_gradients_are_complete_and_equal_a_riemann_sum(encoder):
    model, batch = small_model(encoder, n_classes=3), make_batch(TEXTS, VOCABULARY)
    frame = integrated_gradients(model, batch, n_steps=50)
    embedded = model.embedding(batch.ids).detach()

    def predicted(vectors):
        return model(batch, embedded=vectors).probabilities.gather(1, model(batch).predicted[:, None]).squeeze(1)

    with torch.no_grad():
        total = predicted(embedded) - predicted(torch.zeros_like(embedded))
    sums = frame.groupby("input")["integrated_gradients"].sum().to_numpy()
    np.testing.assert_allclose(sums, total, rtol=0, atol=2e-3)
    np.testing.assert_allclose(frame.groupby("input")["convergence_delta"].first(), sums - total.numpy(), rtol=0, atol=1e-6)
    steps, sliced = 100, torch.zeros_like(embedded)
    for step in range(steps):
        at = (embedded * (step + 0.5) / steps).requires_grad_()
        sliced += torch.autograd.grad(predicted(at).sum(), at)[0] / steps
    wanted = (sliced * embedded).sum(-1)[batch.mask]
    np.testing.assert_allclose(frame["integrated_gradients"], wanted, rtol=0, atol=2e-3)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_combining_averages_ranks_and_shares_them_between_equals():
    batch = make_batch(["a b c", "d e"], VOCABULARY)
    scores = table(batch, first=[[0.1, 0.2, 0.3], [5, 5]], second=[[30, 10, 20], [1, 2]])
    found = combine(scores, ["first", "second"], "mean_rank")
    wanted = [(1 / 3 + 1) / 2, (2 / 3 + 1 / 3) / 2, (1 + 2 / 3) / 2, (0.75 + 0.5) / 2, (0.75 + 1) / 2]
    assert found["mean_rank"].tolist() == pytest.approx(wanted)
    rescaled = combine(scores.assign(first=scores["first"] ** 3 * 1e6), ["first", "second"], "mean_rank")
    assert rescaled["mean_rank"].tolist() == found["mean_rank"].tolist()
    assert "mean_rank" not in scores


def test_aopc_is_the_mean_over_shares(scored):
    model, batch, scores = scored
    erased = eraser(model, batch, scores)
    found = aopc(erased).set_index(["input", "method"])
    rows = erased[(erased["input"] == 0) & (erased["method"] == "gradient")]
    assert found.loc[(0, "gradient"), "comprehensiveness"] == pytest.approx(rows["comprehensiveness"].mean())
    assert found.loc[(0, "gradient"), "sufficiency"] == pytest.approx(rows["sufficiency"].mean())
    assert math.isnan(found.loc[(1, "gradient"), "comprehensiveness"])


def test_intervals_are_means_over_inputs_that_are_defined_throughout_paired_with_random():
    generator = np.random.default_rng(0)
    methods = ["good", "good", "random", "random"]
    rows = pd.DataFrame({"input": np.repeat(np.arange(400), 4), "method": methods * 400, "amount": [1, 2] * 800})
    noise = np.repeat(generator.normal(0, 1, 400), 4)  # shared by the methods: the paired difference does not see it
    rows["change"] = noise + np.tile([0.3, 0.5, 0.1, 0.2], 400) + generator.normal(0, 0.1, 1600)
    rows.loc[0, "change"] = math.nan
    found = intervals(rows, "change", "amount").set_index(["method", "amount"])
    assert (found["n"] == 399).all() and (found["n_undefined"] == 1).all()
    good = found.loc[("good", 2)]
    values = rows[(rows["method"] == "good") & (rows["amount"] == 2) & (rows["input"] > 0)]["change"]
    assert good["mean"] == pytest.approx(values.mean())
    assert (good["high"] - good["low"]) / 2 == pytest.approx(1.96 * values.std() / 399**0.5, rel=0.1)
    assert good["difference"] == pytest.approx(0.3, abs=0.02)
    assert good["difference_high"] - good["difference_low"] < 0.04 < good["high"] - good["low"]
    assert found.loc[("random", 1), "difference"] == 0
    assert found.index.tolist() == [("good", 1), ("good", 2), ("random", 1), ("random", 2)]
    assert intervals(rows[rows["method"] == "good"], "change", "amount")["difference"].isna().all()
    pd.testing.assert_frame_equal(intervals(rows, "change", "amount"), intervals(rows, "change", "amount"))


def test_what_cannot_be_tested_is_refused_in_words(scored):
    model, batch, scores = scored
    for amounts in ([], [0], [1.0], [0.5, 2], [-1], [1, 0.5]):
        with pytest.raises(AnalysisError, match="numbers of tokens"):
            removal(model, batch, scores, amounts)
    with pytest.raises(AnalysisError, match="no measure 'gradients'; it has attention"):
        removal(model, batch, scores, methods=["gradients"])
    with pytest.raises(AnalysisError, match="from the same texts"):
        eraser(model, batch, scores[scores["input"] != 2])
    with pytest.raises(AnalysisError, match="input 0 has a token whose importance is NaN"):
        items_to_flip(model, batch, scores.assign(gradient=math.nan))
    with pytest.raises(AnalysisError, match="at least 1 random draw"):
        removal(model, batch, scores, n_random=0)
    with pytest.raises(AnalysisError, match="no method to combine"):
        combine(scores, [])
    with pytest.raises(AnalysisError, match="at least 1 step"):
        integrated_gradients(model, batch, n_steps=0)
    with pytest.raises(AnalysisError, match="no column 'changes'"):
        intervals(removal(model, batch, scores, [1]), "changes")
    with pytest.raises(AnalysisError, match="several rows.* by='amount'"):
        intervals(removal(model, batch, scores, [1, 2]), "change")
    with pytest.raises(AnalysisError, match="seed is 0 or more"):
        rankings(model, batch, seed=-1, n_steps=3)
