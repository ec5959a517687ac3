"""Average-encoder models whose answer is known: each word has a logit and an attention score of its own, set by hand."""

import torch

from course_utils.data import Vocabulary
from course_utils.models import AttentionClassifier, ClassifierConfig

WORDS = Vocabulary(("<pad>", "<unk>", *"abcdefgh"))


def planted_model(logits: dict[str, float], scores: dict[str, float] | None = None) -> AttentionClassifier:
    """Two classes; attention on a word alone gives class 1 the log odds `logits[word]`; its score before softmax is `scores[word]`.

    Both are 0 unless given. They are the word's vector, which goes through tanh of its ten-thousandth, times ten thousand: linear.
    """
    vectors = torch.zeros(len(WORDS), 2, dtype=torch.float64)
    for column, values in enumerate((logits, scores or {})):
        for word, value in values.items():
            vectors[WORDS.words.index(word), column] = value
    model = AttentionClassifier(ClassifierConfig(encoder="average", attention="dot", hidden=2), vectors).double().eval()
    with torch.no_grad():
        model.encoder.projection.weight.copy_(torch.eye(2) / 1e4)
        model.encoder.projection.bias.zero_()
        model.attention.query.copy_(torch.tensor([0.0, 1e4 * 2**0.5]))
        model.decoder.weight.copy_(torch.tensor([[0.0, 0.0], [1e4, 0.0]]))
        model.decoder.bias.zero_()
    return model
