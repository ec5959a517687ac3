"""The classifier of Jain & Wallace (2019, section 3): embed, encode, attend, decode.

It is as small as their argument needs; the decoder is linear in the context vector, and the output says so by its contributions.
"""

from dataclasses import asdict, dataclass

import torch
from torch import nn

from course_utils.data import Batch
from course_utils.errors import ModelError
from course_utils.models.attention import ATTENTIONS
from course_utils.models.encoders import ENCODERS
from course_utils.models.output import AttentionOutput


@dataclass(frozen=True)
class ClassifierConfig:
    """What an AttentionClassifier is made of.

    Attributes:
        encoder: "bilstm", "cnn" or "average".
        attention: "additive" or "dot".
        n_classes: 2 or more.
        hidden: size of the encoder, 2 or more; a BiLSTM's state is twice as wide.
        train_embeddings: whether training changes the word vectors.
    """

    encoder: str = "bilstm"
    attention: str = "additive"
    n_classes: int = 2
    hidden: int = 128
    train_embeddings: bool = False

    def __post_init__(self):
        for field, allowed in (("encoder", ENCODERS), ("attention", ATTENTIONS)):
            if getattr(self, field) not in tuple(allowed):
                raise ModelError(f"{field} {getattr(self, field)!r} is unknown; choose one of {', '.join(allowed)}")
        for field, least in (("n_classes", 2), ("hidden", 2)):
            value = getattr(self, field)
            if not isinstance(value, int) or value < least:
                raise ModelError(f"{field} is a whole number of at least {least}, not {value!r}")

    def as_dict(self) -> dict:
        return asdict(self)


class AttentionClassifier(nn.Module):
    """Word vectors (V, E) looked up, encoded, averaged by attention, decoded linearly.

    Args:
        config: the parts.
        embeddings: (V, E), the initial word vectors; row 0 is padding.
    """

    def __init__(self, config: ClassifierConfig, embeddings: torch.Tensor):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding.from_pretrained(embeddings.clone(), freeze=not config.train_embeddings, padding_idx=0)
        self.encoder = ENCODERS[config.encoder](embeddings.shape[1], config.hidden)
        self.attention = ATTENTIONS[config.attention](self.encoder.output_size)
        self.decoder = nn.Linear(self.encoder.output_size, config.n_classes)

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    def forward(
        self, batch: Batch, *, embedded: torch.Tensor | None = None, attention: torch.Tensor | None = None
    ) -> AttentionOutput:
        """Predict, and keep what the prediction was made of.

        Args:
            batch: B texts of at most T tokens, on the model's device.
            embedded: (B, T, E), used in place of the looked-up word vectors, for gradients with respect to them.
            attention: (B, T), used in place of the model's own weights: the counterfactual of every experiment in part 2.
        """
        embedded = self.embedding(batch.ids) if embedded is None else embedded
        hidden = self.encoder(embedded, batch.mask)
        attention = self.attention(hidden, batch.mask) if attention is None else attention
        contributions = self.decoder(hidden).masked_fill(~batch.mask[..., None], 0)
        logits = (attention[..., None] * contributions).sum(1)
        return AttentionOutput(logits=logits, attention=attention, hidden=hidden, contributions=contributions)
