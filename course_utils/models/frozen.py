"""Classifiers that read with somebody else's attention: the frozen-weights MLP of Wiegreffe & Pinter (2019, section 3.4)."""

from collections.abc import Iterable

import torch

from course_utils.data import Batch
from course_utils.errors import ModelError
from course_utils.models.classifier import AttentionClassifier, ClassifierConfig
from course_utils.models.output import AttentionOutput

Weights = dict[tuple[str, ...], torch.Tensor]


class FrozenAttentionClassifier(AttentionClassifier):
    """Each word by itself through an affine layer and tanh, averaged by weights that are given and stay, decoded linearly.

    It knows nothing of a word's neighbours but what the weights tell. If weights of another model help it, they carry something
    about the task that does not depend on that model's states.

    Args:
        embeddings: (V, E), the word vectors.
        weights: for the tokens of each text that will be read, their weights (T,), summing to 1.
        n_classes, hidden: as in `ClassifierConfig`.
    """

    def __init__(self, embeddings: torch.Tensor, weights: Weights, *, n_classes: int = 2, hidden: int = 128):
        super().__init__(ClassifierConfig("average", "uniform", n_classes=n_classes, hidden=hidden), embeddings)
        self.weights = weights

    def forward(
        self, batch: Batch, *, embedded: torch.Tensor | None = None, attention: torch.Tensor | None = None
    ) -> AttentionOutput:
        """As `AttentionClassifier.forward`, with the given weights as attention.

        Raises:
            ModelError: a text has no weights.
        """
        attention = self._given(batch) if attention is None else attention
        return super().forward(batch, embedded=embedded, attention=attention)

    def _given(self, batch: Batch) -> torch.Tensor:
        given = self.embedding.weight.new_zeros(batch.ids.shape)
        for row, tokens in enumerate(batch.tokens):
            if tokens not in self.weights:
                raise ModelError(f"there are no weights for the text {' '.join(tokens)[:60]!r}; make them with weights_of")
            given[row, : len(tokens)] = self.weights[tokens]
        return given


@torch.no_grad()
def weights_of(model: AttentionClassifier, batches: Iterable[Batch]) -> Weights:
    """The attention of a model on texts, as `FrozenAttentionClassifier` takes it."""
    found = {}
    for batch in batches:
        attention = model(batch.to(model.device)).attention.cpu()
        found |= {tokens: attention[row, : len(tokens)].clone() for row, tokens in enumerate(batch.tokens)}
    return found
