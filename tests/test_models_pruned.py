"""Heads that are cut out: the same logits as with gates, fewer numbers; and a student that learns from its teacher."""

import pytest
import torch
from tiny import TEXTS, save_bert, save_distilbert

from course_utils.errors import ModelError
from course_utils.models import EncoderClassifier, gate_heads, load_encoder, logits_of
from course_utils.models.distillation import distil
from course_utils.models.pruned import PrunedEncoder, n_parameters, remove_heads

CUTS = {
    "nothing": [],
    "one": [(0, 1)],
    "a whole layer": [(1, 0), (1, 1), (1, 2)],
    "some of each": [(0, 0), (0, 2), (1, 1)],
    "all": [(layer, head) for layer in range(2) for head in range(3)],
}


def classifier_of(folder, save=save_bert):
    found = EncoderClassifier(load_encoder(save(folder)))
    with torch.no_grad():
        found.head.weight.copy_(torch.randn(found.head.weight.shape, generator=torch.Generator().manual_seed(0)))
    return found.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return classifier_of(tmp_path_factory.mktemp("base"))


def gates_of(heads):
    gates = torch.ones(2, 3)
    for layer, head in heads:
        gates[layer, head] = 0
    return gates


@pytest.mark.parametrize("cut", CUTS)
def test_cutting_out_is_gating(classifier, cut):
    gates = gates_of(CUTS[cut])
    before = logits_of(classifier, TEXTS)
    pruned = remove_heads(classifier, gates)
    with gate_heads(classifier.body, gates):
        gated = logits_of(classifier, TEXTS)
    torch.testing.assert_close(logits_of(pruned, TEXTS), gated, atol=1e-5, rtol=0)
    assert torch.equal(logits_of(classifier, TEXTS), before)
    per_head = 4 * 12 * 4 + 3 * 4  # four matrices of 12 x 4, three biases of 4
    assert n_parameters(classifier) - n_parameters(pruned) == per_head * len(CUTS[cut])
    assert pruned.encoder.kept == tuple(tuple(row.nonzero()[:, 0].tolist()) for row in gates)
    assert (torch.equal(logits_of(pruned, TEXTS), before)) == (cut == "nothing")


def test_what_would_be_wrong_on_a_pruned_model_is_refused(classifier):
    pruned = remove_heads(classifier, gates_of([(0, 1)]))
    assert isinstance(pruned.encoder, PrunedEncoder)
    with pytest.raises(ModelError, match="do not fit one array"):
        pruned.encoder.attend(TEXTS)
    with pytest.raises(ModelError, match="different numbers of heads"):
        _ = pruned.encoder.n_heads
    with pytest.raises(ModelError, match="pruned already"):
        remove_heads(pruned, gates_of([]))
    with pytest.raises(ModelError, match="gates have shape"), gate_heads(pruned.body, gates_of([])):
        pass


def test_gates_that_cannot_be_cut_are_refused(tmp_path, classifier):
    with pytest.raises(ModelError, match="gates have shape"):
        remove_heads(classifier, torch.ones(6, 12))
    with pytest.raises(ModelError, match="between 0 and 1"):
        remove_heads(classifier, torch.full((2, 3), 0.5))
    with pytest.raises(ModelError, match="not of the BERT family"):
        remove_heads(classifier_of(tmp_path / "distilbert", save_distilbert), gates_of([]))


def divergence(student, teacher):
    said, wanted = (logits_of(model, TEXTS).log_softmax(-1) for model in (student, teacher))
    return torch.nn.functional.kl_div(said, wanted, reduction="batchmean", log_target=True).item()


def test_a_student_comes_nearer_to_its_teacher(classifier):
    ends = []
    before = logits_of(classifier, TEXTS)
    for seed in (0, 0, 1):
        student = remove_heads(classifier, gates_of(CUTS["some of each"]))
        start = divergence(student, classifier)
        history = distil(student, classifier, TEXTS, epochs=8, batch_size=2, learning_rate=5e-3, seed=seed)
        assert len(history) == 8 and divergence(student, classifier) < 0.3 * start
        assert history["divergence"].iloc[-1] < history["divergence"].iloc[0]
        assert not student.training and not any(weight.requires_grad for weight in student.parameters())
        ends.append(logits_of(student, TEXTS))
    assert torch.equal(ends[0], ends[1]) and not torch.equal(ends[0], ends[2])
    assert torch.equal(logits_of(classifier, TEXTS), before)


def test_a_student_that_lost_a_layer_can_learn(classifier):
    student = remove_heads(classifier, gates_of(CUTS["a whole layer"]))
    start = divergence(student, classifier)
    distil(student, classifier, TEXTS, epochs=8, batch_size=2, learning_rate=5e-3)
    assert divergence(student, classifier) < start


def test_distillation_that_cannot_be_is_refused(classifier):
    student = remove_heads(classifier, gates_of([]))
    for wrong in ({"epochs": -1}, {"batch_size": 0}, {"learning_rate": 0.0}, {"temperature": 0.0}):
        with pytest.raises(ModelError, match="distillation needs"):
            distil(student, classifier, TEXTS, **wrong)
    with pytest.raises(ModelError, match="distillation needs"):
        distil(student, classifier, [])
    with pytest.raises(ModelError, match="2 classes and the student 3"):
        distil(EncoderClassifier(classifier.encoder, 3), classifier, TEXTS)
