"""How much each token matters to a prediction, by two measures that do not look at attention (Jain & Wallace 2019, section 4.1)."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.erasure import predict_kept
from course_utils.analysis.removal import runs
from course_utils.data import Batch
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier
from course_utils.models.attention import masked_softmax
from course_utils.models.decoders import LinearDecoder

_TOKENS_AT_ONCE = 2048  # of shortened texts; enough rows for an efficient matrix product, few enough for the processor's cache


def gradient(model: AttentionClassifier, batch: Batch, *, hold_attention: bool = True) -> pd.DataFrame:
    """Slope of the predicted probability p along each word vector x_t, `|x_t . dp/dx_t|` (Jain & Wallace 2019, section 4.1).

    It is the change of p, to first order, when the vector is scaled to zero. One backward pass serves the batch, and no gradient of
    a weight is computed; a query is held as it is. Because the probabilities sum to 1, the slope is taken from those of the *other*
    classes, which keeps its value where p rounds to 1.

    Args:
        batch: B inputs.
        hold_attention: keep the attention weights as they are, as the paper does, so that a token counts only through the states
            that are attended to; otherwise also through the weights.
    Returns:
        one row a token: `input`, `position`, `token`, `attention`, `gradient` (not negative), `gradient_share` (of the input's
        total; 0 where all gradients are 0), `predicted_class`.
    """

    def measure(texts: Batch) -> dict[str, torch.Tensor]:
        embedded = model.embedding(texts.ids).detach().requires_grad_()
        query = detached_query(model, texts)
        with torch.enable_grad():
            hidden = states_of(model, embedded, texts.mask)
            attention = model.attention(hidden, texts.mask, query)
            weights = attention.detach() if hold_attention else attention
            probabilities = model.decoder((weights[:, None] @ hidden).squeeze(1), query).softmax(-1)
            predicted = probabilities.argmax(-1, keepdim=True)
            (slope,) = torch.autograd.grad(probabilities.scatter(1, predicted, 0).sum(), embedded)
        gradients = (slope * embedded.detach()).sum(-1).abs()
        total = gradients.sum(1, keepdim=True)
        shares = gradients / total.where(total > 0, 1)
        return {"attention": attention.detach(), "gradient": gradients, "gradient_share": shares, "predicted_class": predicted}

    return by_token(batch.to(model.device), measure)


@torch.no_grad()
def leave_one_out(model: AttentionClassifier, batch: Batch, *, max_tokens: int = 2000) -> pd.DataFrame:
    """Change of the prediction when a token is deleted and the text is encoded again (Jain & Wallace 2019, section 4.1).

    The values are those of re-encoding every shortened text, but only what a deletion changes is computed (see `removal`). The cost
    of a text of T tokens grows with T^2 encoder steps, or with T times the span that an LSTM remembers, if that is shorter; the
    memory grows with T^2 numbers a class. Models with a query or without a linear decoder have no such short way: their shortened
    texts are encoded one by one (see `erasure.predict_kept`).

    Args:
        batch: B inputs.
        max_tokens: longest input accepted.
    Returns:
        one row a token: `input`, `position`, `token`, `attention`, `leave_one_out` (total variation distance between the
        predictions with and without the token, in [0, 1]), `predicted_class`. A text of one token predicts nothing without it: NaN.
    Raises:
        AnalysisError: an input is longer than `max_tokens`, or the encoder is one this analysis does not know.
    """
    longest = int(batch.lengths.max())
    if longest > max_tokens:
        position = int(batch.index[batch.lengths.argmax()])
        raise AnalysisError(
            f"input {position} has {longest} tokens, so leave-one-out needs up to {longest**2:,} encoder steps for it; "
            f"shorten it (make_batch(..., max_tokens={max_tokens})) or allow it (leave_one_out(..., max_tokens={longest}))"
        )

    def measure(texts: Batch) -> dict[str, torch.Tensor]:
        length = texts.ids.shape[1]
        deleted = torch.eye(length + 1, length, dtype=torch.bool, device=texts.ids.device)
        if model.config.query or not isinstance(model.decoder, LinearDecoder):
            attention = model(texts).attention
            probabilities = predict_kept(model, texts, ~deleted.expand(len(texts), -1, -1)).to(attention)
        else:
            versions = runs(model, model.embedding(texts.ids), texts.mask)
            weights = masked_softmax(versions.scores, texts.mask[:, None] & ~deleted)
            attention = weights[:, -1]
            probabilities = (weights[:, :, None] @ versions.contributions).squeeze(2).softmax(-1)
        whole = probabilities[:, -1:]
        change = (probabilities[:, :-1] - whole).abs().sum(-1) / 2
        return {"attention": attention, "leave_one_out": change, "predicted_class": whole.argmax(-1)}

    return by_token(batch.to(model.device), measure, tokens_at_once=_TOKENS_AT_ONCE)


def _numpy(values: torch.Tensor) -> np.ndarray:
    """Numpy has no bfloat16, and sums in half precision overflow."""
    return (values.float() if values.dtype in (torch.float16, torch.bfloat16) else values).numpy()


def states_of(model: AttentionClassifier, embedded: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(B, T, H), differentiable with respect to the word vectors; cuDNN differentiates an LSTM only where it is being trained."""
    with torch.backends.cudnn.flags(enabled=False):
        return model.encoder(embedded, mask)


def detached_query(model: AttentionClassifier, batch: Batch) -> torch.Tensor | None:
    """The state of each second text, for experiments on the first one only."""
    with torch.no_grad():
        return model.encode_query(batch)


def by_token(batch: Batch, measure: Callable[[Batch], dict[str, torch.Tensor]], *, tokens_at_once: int = 1024) -> pd.DataFrame:
    """One row a real token, from what `measure` says of texts of nearly equal length, the longest first.

    Args:
        measure: b texts of t tokens to columns of shape (b, t) or (b, 1).
        tokens_at_once: bounds b x t; a backward pass through more leaves the caches of a small processor.
    """
    columns: dict[str, torch.Tensor] = {}
    order = batch.lengths.argsort(descending=True, stable=True)
    start = 0
    while start < len(order):
        width = int(batch.lengths[order[start]])
        texts = order[start : start + max(1, tokens_at_once // width)]
        for name, values in measure(batch.select(texts)).items():
            columns.setdefault(name, values.new_zeros(batch.ids.shape))[texts, :width] = values
        start += len(texts)
    real = batch.mask.cpu()
    return pd.DataFrame(
        {
            "input": batch.index.cpu().repeat_interleave(batch.lengths.cpu()).numpy(),
            "position": torch.arange(real.shape[1]).expand_as(real)[real].numpy(),
            "token": [token for tokens in batch.tokens for token in tokens],
            **{name: _numpy(values.cpu()[real]) for name, values in columns.items()},
        }
    )
