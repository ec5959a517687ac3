"""How heads develop: scores against heads made by hand, transitions against curves of known change, knock-outs against gates."""

import numpy as np
import pandas as pd
import pytest
import tiny
import torch

from course_utils.analysis import development
from course_utils.analysis.development import division, follow, head_scores, induction, knock_out, losses, phases, shift, transition
from course_utils.data.repeats import Repeats, make_repeats
from course_utils.errors import AnalysisError
from course_utils.models import AttentionMaps, load_encoder
from course_utils.models.attention_only import AttentionOnly, AttentionOnlyConfig, Training

SMALL = AttentionOnlyConfig(vocabulary=7, length=12, width=8, heads=2)


@pytest.fixture(scope="module")
def repeats():
    """Blocks of different tokens, so that the token an induction head should find is one at each earlier repeat."""
    periods = torch.tensor([4, 6, 5])
    block = torch.stack([torch.randperm(20, generator=torch.Generator().manual_seed(row))[:6] for row in range(3)])
    return Repeats(block.gather(1, torch.arange(12) % periods[:, None]), periods, 20)


@pytest.fixture(scope="module")
def trained():
    return Training(SMALL, periods=(2, 5), every=5, batch=4).run(20, progress=False)


@pytest.fixture(scope="module")
def held_out():
    return make_repeats(6, 12, 7, periods=(2, 5), generator=torch.Generator().manual_seed(5))


def maps_of(attention: torch.Tensor, repeats: Repeats) -> AttentionMaps:
    """(L, N, T, T), the same for all sequences, or (B, L, N, T, T)."""
    made = AttentionOnly(AttentionOnlyConfig(vocabulary=20, length=12)).attend(repeats)
    attention = attention if attention.dim() == 5 else attention.expand(len(repeats), *attention.shape)
    return AttentionMaps(**(vars(made) | {"attention": attention}))


def looking_at(targets: torch.Tensor) -> torch.Tensor:
    """(..., T) positions to (..., T, T) maps that look only there."""
    return torch.nn.functional.one_hot(targets, targets.shape[-1]).double()


def test_heads_made_by_hand_score_one_and_even_attention_about_one_over_t(repeats):
    place = torch.arange(12)
    previous = looking_at((place - 1).clamp(min=0))
    back = looking_at(torch.where(repeats.seen, place + 1 - repeats.period[:, None], 0))
    even = torch.ones(12, 12, dtype=torch.float64).tril()
    even = even / even.sum(-1, keepdim=True)
    attention = torch.stack([previous.expand(3, 12, 12), back, even.expand(3, 12, 12)], 1)[:, None]
    table = head_scores(maps_of(attention, repeats), repeats).set_index("head")
    assert table.loc[0, "previous"] == pytest.approx(1) and table.loc[1, "induction"] == pytest.approx(1)
    assert table.loc[1, "previous"] < 0.3 and table.loc[0, "induction"] == pytest.approx(0)
    assert table.loc[2, "spread"] == pytest.approx(1) and table.loc[0, "spread"] == pytest.approx(0)
    copies = (place // repeats.period[:, None]).double() / (place + 1)  # earlier copies of the token / tokens in sight
    expected = torch.stack([row[seen].mean() for row, seen in zip(copies, repeats.seen, strict=True)]).mean()
    assert table.loc[2, "induction"] == pytest.approx(float(expected))
    assert 1 / 12 < float(expected) < 3 / 12


def test_induction_looks_after_the_copy_not_at_it(repeats):
    place = torch.arange(12)
    at_copy = looking_at(torch.where(repeats.seen, place - repeats.period[:, None], 0))
    before_copy = looking_at(torch.where(repeats.seen, place - 1 - repeats.period[:, None], 0).clamp(min=0))
    for wrong in (at_copy, before_copy):
        assert float(induction(maps_of(wrong[:, None, None], repeats), repeats).max()) < 1e-9


def test_losses_are_split_by_whether_the_token_was_said_before():
    model = AttentionOnly(SMALL)
    repeats = make_repeats(40, 12, 7, periods=(3, 3), generator=torch.Generator().manual_seed(2))
    found = losses(model, repeats)
    loss = torch.nn.functional.cross_entropy(
        model(repeats.ids)[0][:, :-1].flatten(0, 1), repeats.ids[:, 1:].flatten(), reduction="none"
    )
    loss = loss.view(40, 11).detach()
    assert found == pytest.approx({"first": float(loss[:, :3].mean()), "repeated": float(loss[:, 3:].mean())}, rel=1e-5)


def test_the_tables_have_a_row_for_each_checkpoint_head_and_layer(trained, held_out):
    found = follow(trained, held_out)
    assert found.losses["step"].tolist() == [0, 5, 10, 15, 20]
    assert len(found.heads) == 5 * 4 and len(found.layers) == 5 * 2
    np.testing.assert_allclose(found.losses["advantage"], found.losses["first"] - found.losses["repeated"])
    maps = trained.model(10).attend(held_out)
    expected = head_scores(maps, held_out)
    rows = found.heads[found.heads["step"] == 10].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows[expected.columns], expected)
    both = maps.attention.double()
    middle = torch.special.entr((both[:, 0, 0] + both[:, 0, 1]) / 2).sum(-1)
    by_hand = (middle - torch.special.entr(both[:, 0]).sum(-1).mean(1)).mean()
    distance = found.layers[(found.layers["step"] == 10) & (found.layers["layer"] == 0)]["distance"].item()
    assert distance == pytest.approx(float(by_hand), abs=1e-5)
    assert found.layers["moved"].isna().sum() == 2 and (found.layers["moved"].dropna() > 0).all()
    with pytest.raises(AnalysisError, match="only the untrained model"):
        follow(Training(SMALL), held_out)


def test_results_do_not_depend_on_the_order_of_the_sequences(trained, held_out):
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    other = Repeats(held_out.ids[order], held_out.period[order], held_out.vocabulary)
    for one, two in zip(follow(trained, held_out), follow(trained, other), strict=True):
        pd.testing.assert_frame_equal(one, two, atol=1e-5)


def test_a_ramp_and_a_jump_have_the_transitions_they_should():
    steps = np.arange(0, 101, 10)
    ramp = transition(steps, steps / 100.0)
    assert (ramp.begin, ramp.middle, ramp.end) == pytest.approx((10, 50, 90)) and ramp.after == 1
    assert ramp.sharpness == pytest.approx(1.6)
    falling = transition(steps, 5 - steps / 100.0)
    assert falling.middle == pytest.approx(50)
    jump = transition(steps, np.where(steps < 55, 0.0, 2.0))
    assert (jump.begin, jump.middle, jump.end) == pytest.approx((51, 55, 59)) and jump.sharpness < 0.2
    spike = transition(steps, np.where(steps == 10, 2.0, np.where(steps < 55, 0.0, 2.0)))
    assert spike.middle == jump.middle  # what does not last is no transition


@pytest.mark.parametrize(
    ("steps", "values", "message"),
    [
        ([0, 1], [0, 1], "3 or more finite values"),
        ([0, 2, 1], [0, 1, 2], "growing steps"),
        ([0, 1, 2], [0, np.nan, 2], "finite"),
        ([0, 1, 2], [1, 5, 1], "where it began"),
    ],
)
def test_curves_without_a_transition_are_refused(steps, values, message):
    with pytest.raises(AnalysisError, match=message):
        transition(steps, values)


def test_phases_and_division_read_the_tables(trained, held_out):
    found = follow(trained, held_out)
    table = phases(found).set_index("curve")
    curve = found.losses.set_index("step")["advantage"]
    assert table.loc["advantage of repeats", "middle"] == pytest.approx(transition(curve.index, curve).middle)
    assert list(table.index) == ["previous-token head", "induction head", "advantage of repeats"]
    layers = division(found)
    zero = found.layers[found.layers["layer"] == 0]
    assert layers.loc[0, "peak"] == zero["distance"].max() and layers.loc[0, "end"] == zero["distance"].iloc[-1]
    assert layers.loc[0, "moved_peak"] == zero["moved"].max() and layers.loc[0, "start"] == zero["distance"].iloc[0]


def test_knocking_out_is_gating_and_cutting(trained, held_out):
    model = trained.model()
    table = knock_out(model, held_out)
    assert len(table) == 1 + 2 * 4 + 2
    whole = table[table["part"] == "none"]
    assert whole["repeated"].item() == pytest.approx(losses(model, held_out)["repeated"])
    gates = torch.ones(2, 2)
    gates[0, 1] = 0
    row = table[(table["layer"] == 0) & (table["head"] == 1) & (table["part"] == "everything")]
    assert row["repeated"].item() == pytest.approx(losses(model, held_out, gates=gates)["repeated"])
    values = table[(table["part"] == "value")]
    np.testing.assert_allclose(values["induction"], whole["induction"].item(), rtol=1e-5)  # values do not move attention


def test_an_induction_head_built_by_hand_needs_the_previous_token_head_in_its_keys():
    """Layer 0, head 0 copies the previous token into a room of its own; layer 1, head 0 looks for its own token there."""
    vocabulary, length = 6, 12
    width = 3 * 16
    model = AttentionOnly(AttentionOnlyConfig(vocabulary=vocabulary, length=length, width=width, heads=3)).double()
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
        model.token[:, :vocabulary] = torch.eye(vocabulary)
        model.position[:, 16 : 16 + length] = torch.eye(length)
        sharp = 4 * 16**0.5
        model.query[0, 16 : 16 + length, :length] = sharp * torch.eye(length)
        model.key[0, 16 : 16 + length, :length] = 4 * torch.eye(length).roll(1, 1)  # position p answers to a query at p + 1
        model.value[0, :vocabulary, :vocabulary] = torch.eye(vocabulary)
        model.output[0, :vocabulary, 32 : 32 + vocabulary] = torch.eye(vocabulary)
        model.query[1, :vocabulary, :vocabulary] = sharp * torch.eye(vocabulary)
        model.key[1, 32 : 32 + vocabulary, :vocabulary] = 4 * torch.eye(vocabulary)
        model.value[1, :vocabulary, :vocabulary] = torch.eye(vocabulary)
        model.output[1, :vocabulary, :vocabulary] = torch.eye(vocabulary)
        model.unembed[:vocabulary] = 20 * torch.eye(vocabulary)
    block = torch.tensor([0, 1, 2, 3, 4, 5])
    repeats = Repeats(block.repeat(2)[None], torch.tensor([6]), vocabulary)
    scores = head_scores(model.attend(repeats), repeats).set_index(["layer", "head"])
    assert scores.loc[(0, 0), "previous"] > 0.95 and scores.loc[(1, 0), "induction"] == pytest.approx(
        11 / 12, abs=1e-3
    )  # position 0 is its own neighbour
    table = knock_out(model, repeats).set_index(["layer", "head", "part"])["induction"]
    assert table[0, 0, "everything"] < 0.2 and table[0, 0, "key"] < 0.2
    assert table[0, 0, "query"] > 0.9 and table[0, 0, "value"] > 0.9 and table[0, 1, "everything"] > 0.9


def test_shift_is_zero_for_the_same_model_and_not_for_another(tmp_path):
    one, two = (load_encoder(tiny.save_bert(tmp_path / str(seed), seed=seed)) for seed in (0, 1))
    same, other = shift(one, one, tiny.TEXTS), shift(one, two, tiny.TEXTS, token_budget=20)
    assert len(same) == len(tiny.TEXTS) * one.n_layers * one.n_heads
    assert same["shift"].abs().max() < 1e-5 and other["shift"].min() > 0 and other["shift"].max() < np.log(2)
    pd.testing.assert_frame_equal(other, shift(one, two, tiny.TEXTS), atol=1e-5)
    np.testing.assert_allclose(other["entropy_before"], same["entropy_after"], atol=1e-5)
    with pytest.raises(AnalysisError, match="2 x 3 heads cannot be compared with one of 1 x 3"):
        shift(one, load_encoder(tiny.save_bert(tmp_path / "less", layers=1)), tiny.TEXTS)


def test_the_best_head_is_that_of_the_last_step():
    rows = [(0, 0, 0, 0.9), (0, 0, 1, 0.1), (5, 0, 0, 0.2), (5, 0, 1, 0.7)]
    assert development.best_head(pd.DataFrame(rows, columns=["step", "layer", "head", "previous"]), "previous") == (0, 1)
