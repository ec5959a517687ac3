"""The counterfactual card shows what the model itself gives."""

import pytest
import torch

from course_utils.data import Vocabulary, make_batch
from course_utils.errors import ShowError
from course_utils.models import AttentionClassifier, ClassifierConfig
from course_utils.show import counterfactual

VOCABULARY = Vocabulary(("<pad>", "<unk>", *"abcd"))


def test_both_probabilities_come_from_the_model():
    torch.manual_seed(0)
    model = AttentionClassifier(ClassifierConfig(hidden=8), torch.randn(6, 5)).eval()
    batch = make_batch(["a b c"], VOCABULARY)
    only_b = torch.tensor([[0.0, 1.0, 0.0]])
    html = counterfactual(model, batch, only_b, classes=("no", "yes"), name="only b").data
    with torch.no_grad():
        expected = [model(batch).probabilities[0, 1], model(batch, attention=only_b).probabilities[0, 1]]
    assert f"p(yes) = {expected[0]:.3f}" in html and f"only b: p(yes) = {expected[1]:.3f}" in html
    with pytest.raises(ShowError, match="one text"):
        counterfactual(model, make_batch(["a b", "c d"], VOCABULARY), only_b)
    with pytest.raises(ShowError, match="shape"):
        counterfactual(model, batch, torch.ones(1, 4))
