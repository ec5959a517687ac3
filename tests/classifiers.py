"""A classifier with random weights, large enough for its attention and its slopes to have a shape, and texts for it."""

import torch

from course_utils.data import Vocabulary
from course_utils.models import AttentionClassifier, ClassifierConfig

VOCABULARY = Vocabulary(("<pad>", "<unk>", *"abcdefghij"))
TEXTS = ["a b c d e f g", "h", "b b", "j i h a c", "c a", "d e f"]


def small_model(encoder: str = "bilstm", attention: str = "additive", n_classes: int = 2, seed: int = 0) -> AttentionClassifier:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = ClassifierConfig(encoder=encoder, attention=attention, n_classes=n_classes, hidden=8)
        return AttentionClassifier(config, 2 * torch.randn(len(VOCABULARY), 5)).double()
