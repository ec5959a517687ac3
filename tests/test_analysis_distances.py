"""Distances: known values, the decomposition the adversary uses, and what padding and zero weights do."""

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.special import rel_entr

from course_utils.analysis.distances import jsd, kl, overlap, tvd


@st.composite
def pairs(draw):
    """Two distributions on 1 to 6 places, zeros among them."""
    size = draw(st.integers(1, 6))
    weight = st.one_of(st.just(0.0), st.floats(1e-12, 1))
    rows = [draw(st.lists(weight, min_size=size, max_size=size).filter(any)) for _ in range(2)]
    return [torch.tensor(row, dtype=torch.float64) / sum(row) for row in rows]


@settings(deadline=None)
@given(pairs())
def test_jsd_is_scipys_and_within_its_range(rows):
    p, q = rows
    ours = float(jsd(p, q))
    assert abs(ours - np.nan_to_num(jensenshannon(p, q)) ** 2) < 1e-12
    assert 0 <= ours <= math.log(2)
    assert abs(ours - float(jsd(q, p))) < 1e-15


@settings(deadline=None)
@given(pairs())
def test_overlap_sums_to_what_jsd_falls_short_by(rows):
    p, q = rows
    assert abs(float(jsd(p, q)) - (math.log(2) - float(overlap(p, q).sum()) / 2)) < 1e-14


@settings(deadline=None)
@given(pairs())
def test_kl_is_scipys_where_that_is_finite_and_finite_elsewhere(rows):
    p, q = rows
    wanted, ours = rel_entr(p.numpy(), q.numpy()).sum(), float(kl(p, q))
    assert abs(ours - wanted) < 1e-12 if math.isfinite(wanted) else -1e-12 < ours < math.inf


def test_kl_has_a_gradient_where_weights_are_0():
    q = torch.tensor([0.0, 1.0], requires_grad=True)
    for p in ([0.0, 1.0], [0.5, 0.5], [1.0, 0.0]):
        kl(torch.tensor(p), q).backward()
    assert q.grad.isfinite().all()
    assert abs(float(kl(torch.tensor([1.0, 0.0]), q.detach())) + math.log(torch.finfo(torch.float32).tiny)) < 1e-4


def test_known_values():
    p, q = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[0.0, 1.0], [0.5, 0.5]])
    assert jsd(p, q).tolist() == [torch.tensor(math.log(2)).item(), 0.0]
    assert tvd(p, q).tolist() == [1.0, 0.0]
    assert tvd(torch.tensor([0.2, 0.8]), torch.tensor([0.5, 0.5])).item() == torch.tensor(0.3).item()


def test_padding_does_not_count():
    p, q = torch.tensor([0.3, 0.7]), torch.tensor([0.6, 0.4])
    wide = torch.nn.functional.pad(torch.stack([p, q]), (0, 5))
    assert jsd(*wide) == jsd(p, q)
    assert tvd(*wide) == tvd(p, q)


def test_gradient_is_finite_at_zero_weights():
    p = torch.tensor([0.0, 0.4, 0.6, 0.0], requires_grad=True)
    jsd(p, torch.tensor([0.5, 0.0, 0.5, 0.0])).backward()
    assert p.grad.isfinite().all()


def test_broadcasts_over_leading_dimensions():
    many, one = torch.rand(3, 4, 5).softmax(-1), torch.rand(3, 1, 5).softmax(-1)
    assert jsd(many, one).shape == tvd(many, one).shape == (3, 4)
