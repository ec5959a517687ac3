"""A map that goes to a head of another layer, by least squares and by gradients."""

import copy

import pytest
import tiny
import torch

from course_utils.analysis import relocation
from course_utils.errors import AnalysisError, ModelError
from course_utils.models import load_encoder
from course_utils.models.finetuned import EncoderClassifier, logits_of
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


@pytest.fixture(scope="module")
def classifier(encoder):
    made = EncoderClassifier(encoder).eval().requires_grad_(False)
    made.head.weight.copy_(torch.randn(2, 12, generator=torch.Generator().manual_seed(3)))
    return made


def test_learning_brings_the_map_and_the_predictions_nearer(classifier):
    encoder, source, target = classifier.encoder, (0, 1), (1, 2)
    before, said = encoder.attend(TEXTS).attention[:, 0, 1], logits_of(classifier, TEXTS).softmax(-1)
    start = relocation.relocate(encoder, TEXTS, source, target)
    settings = {"steps": 80, "batch_size": len(TEXTS), "learning_rate": 1e-2}
    learned, history = relocation.learn(classifier, TEXTS, source, target, start, **settings)
    again, _ = relocation.learn(classifier, TEXTS, source, target, start, **settings)
    assert torch.equal(learned[target].query, again[target].query)
    assert list(history) == ["step", "map", "prediction"] and len(history) == 80
    assert (history[["map", "prediction"]].iloc[-1] < 0.5 * history[["map", "prediction"]].iloc[0]).all()
    distances = []
    for weights in (start, learned):
        with use_heads(encoder.model, weights):
            maps = encoder.attend(TEXTS)
            distances.append(
                [(maps.attention[:, 1, 2] - before).abs().sum(), (logits_of(classifier, TEXTS).softmax(-1) - said).abs().sum()]
            )
            even = maps.mask[:, None] / maps.lengths[:, None, None] * maps.mask[..., None]
            assert torch.allclose(maps.attention[:, 0, 1], even, atol=1e-6)
    assert all(after < 0.7 * first for first, after in zip(*distances, strict=True))
    assert not any(getattr(weights, part).requires_grad for weights in learned.values() for part in weights.__dataclass_fields__)


def test_the_first_row_of_learning_is_the_divergence_by_hand(classifier):
    source, target, text = (0, 1), (1, 2), TEXTS[:1]
    start = relocation.relocate(classifier.encoder, TEXTS, source, target)
    _, history = relocation.learn(classifier, text, source, target, start, steps=1)
    rows = [classifier.encoder.attend(text).attention[0, 0, 1], logits_of(classifier, text).softmax(-1)]
    with use_heads(classifier.encoder.model, start):
        now = [classifier.encoder.attend(text).attention[0, 1, 2], logits_of(classifier, text).softmax(-1)]
    wanted = [
        torch.distributions.kl_divergence(*map(torch.distributions.Categorical, pair)).mean()
        for pair in zip(rows, now, strict=True)
    ]
    assert history.loc[0, ["map", "prediction"]].tolist() == pytest.approx([float(value) for value in wanted], rel=1e-3, abs=1e-6)


def test_what_cannot_be_learned_is_refused(classifier):
    start = relocation.relocate(classifier.encoder, TEXTS, (0, 1), (1, 2))
    with pytest.raises(AnalysisError, match="give the weights of two"):
        relocation.learn(classifier, TEXTS, (0, 1), (1, 1), start)
    with pytest.raises(AnalysisError, match="0 texts"):
        relocation.learn(classifier, [], (0, 1), (1, 2), start)
