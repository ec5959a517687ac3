"""The null space of attention: its dimension, effective attention, and how far a row can really move."""

import itertools

import numpy as np
import pytest
import tiny
import torch

from course_utils.analysis.freedom import effective_attention, freedom, furthest, null_space, written
from course_utils.errors import AnalysisError
from course_utils.models import load_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(tiny.save_bert(tmp_path_factory.mktemp("models") / "bert"))


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def row_of(length, seed=0):
    return draw(length, seed=seed).softmax(-1)


@pytest.mark.parametrize(("length", "size", "rank"), [(3, 4, 3), (4, 4, 4), (9, 4, 4), (9, 4, 2), (1, 4, 1)])
def test_the_dimension_is_length_minus_rank(length, size, rank):
    values = draw(length, rank) @ draw(rank, size, seed=1)
    assert null_space(values).shape == (length - rank, length)
    assert len(null_space(values, sum_to_one=True)) == max(0, length - rank - 1)


def test_directions_of_the_null_space_change_neither_output_nor_sum():
    values = draw(9, 4)
    basis = null_space(values, sum_to_one=True)
    assert torch.allclose(basis @ values, torch.zeros(4, 4, dtype=torch.float64), atol=1e-10)
    assert torch.allclose(basis.sum(1), torch.zeros(4, dtype=torch.float64), atol=1e-10)
    assert torch.allclose(basis @ basis.T, torch.eye(4, dtype=torch.float64), atol=1e-10)


def test_effective_attention_has_the_same_output_and_the_least_norm():
    values, attention = draw(9, 4), draw(9, 9, seed=1).softmax(-1)
    effective = effective_attention(attention, values)
    assert torch.allclose(effective @ values, attention @ values, atol=1e-6)
    least = attention @ values @ torch.linalg.pinv(values)
    assert torch.allclose(effective, least, atol=1e-8)
    assert torch.allclose(effective_attention(effective, values), effective, atol=1e-10)


def test_with_few_tokens_nothing_is_hidden():
    values, attention = draw(4, 6), row_of(4)
    assert torch.allclose(effective_attention(attention, values), attention, atol=1e-10)
    found = furthest(attention, values)
    assert found.tvd == found.bound == 0 and np.array_equal(found.attention, attention.numpy())


def test_what_a_head_writes_is_what_the_model_adds(encoder):
    maps = encoder.attend(tiny.TEXTS, states=True)
    heads = [maps.attention[:, 1, head] @ written(encoder, maps, 1, head) for head in range(3)]
    kept = []
    dense = encoder.model.encoder.layer[1].attention.output.dense
    handle = dense.register_forward_hook(lambda module, inputs, output: kept.append(output - module.bias))
    encoder.attend(tiny.TEXTS)
    handle.remove()
    assert torch.allclose(sum(heads)[maps.mask], kept[0][maps.mask], atol=1e-5)


def test_freedom_counts_every_head_of_every_text(encoder):
    texts = [*tiny.TEXTS, "good"]
    table = freedom(encoder, texts)
    assert len(table) == len(texts) * 6 and list(table["input"].unique()) == list(range(len(texts)))
    maps = encoder.attend(texts, states=True)
    for row in table.itertuples():
        one = maps.one(row.input)
        values = written(encoder, one, row.layer, row.head)[0]
        assert row.n_tokens == one.attention.shape[-1] and row.rank + row.free == row.n_tokens
        assert row.free == len(null_space(values)) and row.free_sum == len(null_space(values, sum_to_one=True))
        attention = one.attention[0, row.layer, row.head].double()
        left = effective_attention(attention, values)
        assert row.hidden == pytest.approx(float((attention - left).norm() / attention.norm()), abs=1e-4)
    assert (table["free"] >= table["n_tokens"] - 4).all() and (table.loc[table["n_tokens"] <= 4, "hidden"] < 1e-3).all()


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_the_furthest_row_is_a_row_with_the_same_output(tolerance):
    values, row = draw(9, 4), row_of(9)
    found = furthest(row, values, tolerance=tolerance)
    assert found.attention.min() >= 0 and found.attention.sum() == pytest.approx(1, abs=1e-6)
    moved = np.linalg.norm((found.attention - row.numpy()) @ values.numpy())
    assert moved <= tolerance * float((row @ values).norm()) + 1e-6
    assert 0 < found.tvd <= found.bound + 1e-9
    assert (found.low <= row.numpy()).all() and (row.numpy() <= found.high).all()


def test_with_one_free_direction_the_answer_is_the_longer_end_of_a_segment():
    values, row = draw(6, 4), row_of(6)
    direction = null_space(values, sum_to_one=True)[0].numpy()
    steps = [min(-r / d for r, d in zip(row.numpy(), sign * direction, strict=True) if d < 0) for sign in (1, -1)]
    ends = [row.numpy() + step * sign * direction for step, sign in zip(steps, (1, -1), strict=True)]
    found = furthest(row, values)
    assert found.tvd == pytest.approx(max(np.abs(end - row.numpy()).sum() / 2 for end in ends), abs=1e-6)
    assert found.low == pytest.approx(np.minimum(*ends), abs=1e-6) and found.high == pytest.approx(np.maximum(*ends), abs=1e-6)


def test_with_one_number_as_output_the_corners_are_pairs_of_tokens():
    values, row = draw(5, 1), row_of(5)
    best, goal = 0.0, float(row @ values)
    for i, j in itertools.permutations(range(5), 2):
        if values[i] <= goal <= values[j]:
            pair = np.zeros(5)
            pair[i] = float((values[j] - goal) / (values[j] - values[i]))
            pair[j] = 1 - pair[i]
            best = max(best, np.abs(pair - row.numpy()).sum() / 2)
    found = furthest(row, values)
    assert found.tvd <= best + 1e-6 <= found.bound + 2e-6
    assert found.tvd > 0.8 * best


def test_a_row_with_all_its_weight_on_one_needed_token_cannot_move():
    values = torch.cat([torch.eye(3, dtype=torch.float64) * 5, draw(5, 3) * 0.1])
    row = torch.zeros(8, dtype=torch.float64)
    row[1] = 1
    assert len(null_space(values, sum_to_one=True)) == 4
    found = furthest(row, values)
    assert found.tvd == pytest.approx(0, abs=1e-9) and found.bound == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("row", "values", "tolerance"),
    [
        (torch.ones(3), torch.ones(3, 2), 0.0),
        (torch.tensor([0.5, 0.5]), torch.ones(3, 2), 0.0),
        (torch.tensor([1.5, -0.5]), torch.ones(2, 2), 0.0),
        (torch.tensor([0.5, 0.5]), torch.ones(2, 2), -0.1),
    ],
)
def test_what_is_no_row_is_refused(row, values, tolerance):
    with pytest.raises(AnalysisError):
        furthest(row, values, tolerance=tolerance)


def test_maps_without_values_and_unknown_heads_are_refused(encoder):
    with pytest.raises(AnalysisError, match="states=True"):
        written(encoder, encoder.attend(tiny.TEXTS), 0, 0)
    with pytest.raises(AnalysisError, match="no head 0-7"):
        written(encoder, encoder.attend(tiny.TEXTS, states=True), 0, 7)
