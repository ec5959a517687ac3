"""The study of removed heads on a tiny model."""

import numpy as np
import pytest
import tiny
import torch

from course_utils.analysis import pruning as analysis
from course_utils.data import Example
from course_utils.reproduce import pruning


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return tiny.classifier(tmp_path_factory.mktemp("tiny") / "bert")


@pytest.fixture(scope="module")
def examples():
    return [Example(text, label=number % 2) for number, text in enumerate(tiny.TEXTS)]


def test_every_order_is_measured_against_the_whole_model(classifier, examples):
    found = pruning.measured(classifier, examples, examples, 3, counts=(1, 4), compared=2, step=1)
    assert set(found["seed"]) == {3} and set(found["n"]) == {len(examples)}
    values = found.set_index(["measure", "group"])["value"]
    orders = {"random 2", "reverse 2", "raw importance 2", "importance, scored anew 2", "function 2"}
    groups = {"whole", "random 4", "importance 1", "importance 4"} | orders
    assert set(values["pruning_accuracy"].index) == groups and set(values["pruning_loss"].index) == groups - {"whole"}
    accuracy = values["pruning_accuracy"]
    assert np.allclose(values["pruning_loss"], accuracy["whole"] - accuracy[values["pruning_loss"].index])


def test_accuracies_are_those_of_the_model_and_of_the_model_without_the_heads(classifier, examples):
    """Labels are the whole model's own classes, so it is right always; without all six heads it is right as often as they agree."""
    texts = [example.text for example in examples]
    gates = [torch.ones(2, 3), torch.zeros(2, 3)]
    whole, without = analysis.gated_logits(classifier, texts, gates).argmax(-1)
    named = [Example(text, label=int(label)) for text, label in zip(texts, whole, strict=True)]
    found = pruning.measured(classifier, named, named, 0, counts=(1, 6), compared=2, step=1)
    accuracy = found[found["measure"] == "pruning_accuracy"].set_index("group")["value"]
    assert accuracy["whole"] == 1
    assert accuracy["importance 6"] == accuracy["random 6"] == float((whole == without).double().mean())
