"""A map that goes to a head of another layer, by least squares."""

import copy

import pytest
import tiny
import torch

from course_utils.analysis import relocation
from course_utils.errors import AnalysisError, ModelError
from course_utils.models import load_encoder
from course_utils.models.moving import read_head, use_heads

TEXTS = tiny.TEXTS


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(tiny.save_bert(tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(autouse=True)
def the_model_is_left_as_it_was(encoder):
    before = copy.deepcopy(encoder.model.state_dict())
    yield
    after = encoder.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_within_a_layer_the_map_is_exact_and_the_giver_is_even(encoder):
    wanted = encoder.attend(TEXTS)
    with use_heads(encoder.model, relocation.relocate(encoder, TEXTS, (1, 0), (1, 2), ridge=1e-9)):
        maps = encoder.attend(TEXTS)
    assert torch.allclose(maps.attention[:, 1, 2], wanted.attention[:, 1, 0], atol=1e-3)
    even = maps.mask[:, None] / maps.lengths[:, None, None] * maps.mask[..., None]
    assert torch.allclose(maps.attention[:, 1, 0], even, atol=1e-6)
    assert torch.equal(maps.attention[:, 1, 1], wanted.attention[:, 1, 1])


def test_across_layers_the_map_comes_nearer_and_values_read_what_they_read(encoder):
    before = encoder.attend(TEXTS, states=True)
    weights = relocation.relocate(encoder, TEXTS, (0, 1), (1, 2))
    with use_heads(encoder.model, weights):
        after = encoder.attend(TEXTS, states=True)
    wanted = before.attention[:, 0, 1]
    assert (after.attention[:, 1, 2] - wanted).abs().sum() < 0.7 * (before.attention[:, 1, 2] - wanted).abs().sum()
    read = {name: (maps.attention @ maps.values)[:, 1, 2][maps.mask] for name, maps in (("before", before), ("after", after))}
    kept = torch.nn.functional.linear(after.hidden[:, 1], read_head(encoder.model, 1, 2).value)
    unfitted = (after.attention[:, 1, 2] @ kept)[after.mask]
    assert (read["after"] - read["before"]).norm() < 0.9 * (unfitted - read["before"]).norm()


def test_what_cannot_be_relocated_is_refused(encoder):
    with pytest.raises(AnalysisError, match="attends like itself"):
        relocation.relocate(encoder, TEXTS, (0, 1), (0, 1))
    with pytest.raises(ModelError, match="no head 9 in layer 0"):
        relocation.relocate(encoder, TEXTS, (0, 9), (0, 1))
