"""How much each token matters to a prediction, by two measures that do not look at attention (Jain & Wallace 2019, section 4.1)."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from course_utils.analysis import lstm
from course_utils.analysis.removal import runs
from course_utils.data import Batch
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier
from course_utils.models.attention import masked_softmax
from course_utils.models.encoders import BiLSTMEncoder

_TOKENS_AT_ONCE = 2048  # enough rows for an efficient matrix product, few enough for the processor's cache


def gradient(model: AttentionClassifier, batch: Batch, *, hold_attention: bool = True) -> pd.DataFrame:
    """Slope of the predicted probability p along each word vector x_t, `|x_t . dp/dx_t|` (Jain & Wallace 2019, section 4.1).

    It is the change of p, to first order, when the vector is scaled to zero. One backward pass serves the batch, and no gradient of
    a weight is computed. Because the probabilities sum to 1, the slope is taken from those of the *other* classes, which keeps its
    value where p rounds to 1.

    Args:
        batch: B inputs.
        hold_attention: keep the attention weights as they are, as the paper does, so that a token counts only through the states
            that are attended to; otherwise also through the weights.
    Returns:
        one row a token: `input`, `position`, `token`, `attention`, `gradient` (not negative), `gradient_share` (of the input's
        total; 0 where all gradients are 0), `predicted_class`.
    """

    def measure(ids: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        embedded = model.embedding(ids).detach().requires_grad_()
        with torch.enable_grad():
            bilstm = isinstance(model.encoder, BiLSTMEncoder)
            hidden = lstm.states(model.encoder, embedded, mask) if bilstm else model.encoder(embedded, mask)
            attention = model.attention(hidden, mask)
            weights = attention.detach() if hold_attention else attention
            probabilities = model.decoder((weights[:, None] @ hidden).squeeze(1)).softmax(-1)
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
    of a text of T tokens still grows with T^2 steps of the encoder and its memory with T^2 numbers a class.

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
            f"input {position} has {longest} tokens, so leave-one-out needs about {longest**2:,} encoder steps for it; "
            f"shorten it (make_batch(..., max_tokens={max_tokens})) or allow it (leave_one_out(..., max_tokens={longest}))"
        )

    def measure(ids: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        versions = runs(model, model.embedding(ids), mask)
        deleted = torch.eye(ids.shape[1] + 1, ids.shape[1], dtype=torch.bool, device=ids.device)
        weights = masked_softmax(versions.scores, mask[:, None] & ~deleted)
        probabilities = (weights[:, :, None] @ versions.contributions).squeeze(2).softmax(-1)
        whole = probabilities[:, -1:]
        change = (probabilities[:, :-1] - whole).abs().sum(-1) / 2
        return {"attention": weights[:, -1], "leave_one_out": change, "predicted_class": whole.argmax(-1)}

    return by_token(batch.to(model.device), measure)


def _numpy(values: torch.Tensor) -> np.ndarray:
    """Numpy has no bfloat16, and sums in half precision overflow."""
    return (values.float() if values.dtype in (torch.float16, torch.bfloat16) else values).numpy()


def by_token(batch: Batch, measure: Callable[[torch.Tensor, torch.Tensor], dict[str, torch.Tensor]]) -> pd.DataFrame:
    """One row a real token, from what `measure(ids, mask)` says of texts of nearly equal length, the longest first.

    Args:
        measure: (b, t) ids and mask to columns of shape (b, t) or (b, 1).
    """
    columns: dict[str, torch.Tensor] = {}
    order = batch.lengths.argsort(descending=True, stable=True)
    start = 0
    while start < len(order):
        width = int(batch.lengths[order[start]])
        texts = order[start : start + max(1, _TOKENS_AT_ONCE // width)]
        for name, values in measure(batch.ids[texts, :width], batch.mask[texts, :width]).items():
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
