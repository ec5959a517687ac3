"""The classifier of Jain & Wallace (2019, section 3): embed, encode, attend, decode; where a second text asks, it does so in both.

It is as small as their argument needs. With the linear decoder the output says what each token contributes.
"""

from dataclasses import asdict, dataclass

import torch
from torch import nn

from course_utils.data import Batch
from course_utils.errors import ModelError
from course_utils.models.attention import ATTENTIONS
from course_utils.models.decoders import DECODERS, LinearDecoder
from course_utils.models.encoders import ENCODERS
from course_utils.models.output import AttentionOutput


@dataclass(frozen=True)
class ClassifierConfig:
    """What an AttentionClassifier is made of.

    Attributes:
        encoder: "bilstm", "cnn" or "average".
        attention: "additive", "dot" or "uniform".
        n_classes: 2 or more.
        hidden: size of the encoder, 2 or more; a BiLSTM's state is twice as wide.
        train_embeddings: whether training changes the word vectors.
        query: whether a second text (a question, a hypothesis) takes part in attention and decoder. Without it the model reads
            the first text only, also where a batch holds both.
        decoder: "linear" (given the query, linear in the context vector) or "tanh" (the paper's for two texts).
    """

    encoder: str = "bilstm"
    attention: str = "additive"
    n_classes: int = 2
    hidden: int = 128
    train_embeddings: bool = False
    query: bool = False
    decoder: str = "linear"

    def __post_init__(self):
        for field, allowed in (("encoder", ENCODERS), ("attention", ATTENTIONS), ("decoder", DECODERS)):
            if getattr(self, field) not in tuple(allowed):
                raise ModelError(f"{field} {getattr(self, field)!r} is unknown; choose one of {', '.join(allowed)}")
        for field, least in (("n_classes", 2), ("hidden", 2)):
            value = getattr(self, field)
            if not isinstance(value, int) or value < least:
                raise ModelError(f"{field} is a whole number of at least {least}, not {value!r}")

    def as_dict(self) -> dict:
        return asdict(self)


class AttentionClassifier(nn.Module):
    """Word vectors (V, E) looked up, encoded, averaged by attention, decoded.

    A query has an encoder of its own, of the same kind; its last state (or the summary of its states) takes part in the attention
    scores and in the decoder.

    Args:
        config: the parts.
        embeddings: (V, E), the initial word vectors; row 0 is padding.
    """

    def __init__(self, config: ClassifierConfig, embeddings: torch.Tensor):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding.from_pretrained(embeddings.clone(), freeze=not config.train_embeddings, padding_idx=0)
        self.encoder = ENCODERS[config.encoder](embeddings.shape[1], config.hidden)
        size = self.encoder.output_size
        self.attention = ATTENTIONS[config.attention](size, size if config.query else None)
        self.decoder = DECODERS[config.decoder](size, config.n_classes, size if config.query else None)
        if config.query:
            self.query_encoder = ENCODERS[config.encoder](embeddings.shape[1], config.hidden)

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
        Raises:
            ModelError: the model needs a query and the batch has none.
        """
        embedded = self.embedding(batch.ids) if embedded is None else embedded
        return self.attend(self.encoder(embedded, batch.mask), batch.mask, self.encode_query(batch), attention=attention)

    def encode_query(self, batch: Batch) -> torch.Tensor | None:
        """(B, H), one state for each second text; None for a model of one text.

        Raises:
            ModelError: the model needs a query and the batch has none.
        """
        if not self.config.query:
            return None
        if batch.query is None:
            raise ModelError("this model reads two texts, and the batch has no second one; give each example a query")
        states = self.query_encoder(self.embedding(batch.query.ids), batch.query.mask)
        return self.query_encoder.summary(states, batch.query.mask)

    def attend(
        self,
        hidden: torch.Tensor,
        mask: torch.Tensor,
        query: torch.Tensor | None = None,
        *,
        attention: torch.Tensor | None = None,
    ) -> AttentionOutput:
        """Everything after the encoder.

        Args:
            hidden: (B, T, H), 0 at padding.
            mask: (B, T), True at real tokens.
            query: (B, H), as from `encode_query`.
            attention: as in `forward`.
        """
        attention = self.attention(hidden, mask, query) if attention is None else attention
        if isinstance(self.decoder, LinearDecoder):
            contributions = self.decoder(hidden, query).masked_fill(~mask[..., None], 0)
            logits = (attention[..., None] * contributions).sum(1)
        else:
            contributions = None
            logits = self.decoder((attention[:, None] @ hidden).squeeze(1), query)
        return AttentionOutput(logits=logits, attention=attention, hidden=hidden, contributions=contributions)
