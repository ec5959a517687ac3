"""How much each token matters to a prediction, by two measures that do not look at attention (Jain & Wallace 2019, section 4.1)."""

import pandas as pd
import torch
from torch.func import functional_call

from course_utils.analysis.removal import runs
from course_utils.data import Batch
from course_utils.errors import AnalysisError, NotLinearError
from course_utils.models import AttentionClassifier
from course_utils.models.attention import masked_softmax

_ROWS = 1024  # versions of texts advanced in one step: large enough for the matrix product, small enough for the cache


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
    Raises:
        NotLinearError: attention is to be held but the decoder is not linear in the context vector.
    """
    batch = batch.to(model.device)
    fixed = {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    embedded = model.embedding(batch.ids).detach().requires_grad_()
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN has no backward pass of an LSTM in eval mode
        output = functional_call(model, fixed, (batch,), {"embedded": embedded})
        logits = output.logits
        if hold_attention:
            if output.contributions is None:
                raise NotLinearError("the decoder of this model is not linear in the context; use hold_attention=False")
            logits = (output.attention.detach()[..., None] * output.contributions).sum(1)
        predicted = logits.argmax(-1, keepdim=True)
        others = logits.softmax(-1).scatter(1, predicted, 0).sum()
        (slope,) = torch.autograd.grad(others, embedded)
    gradients = (slope * embedded.detach()).sum(-1).abs()
    total = gradients.sum(1, keepdim=True)
    return _frame(
        batch,
        attention=output.attention.detach(),
        gradient=gradients,
        gradient_share=gradients / total.where(total > 0, 1),
        predicted_class=predicted.expand_as(gradients),
    )


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
    batch = batch.to(model.device)
    attention = torch.zeros(batch.ids.shape, dtype=model.decoder.weight.dtype, device=model.device)
    change = torch.zeros_like(attention)
    predicted = torch.zeros_like(batch.ids)
    for texts in _chunks(batch.lengths):
        width = int(batch.lengths[texts].max())
        mask = batch.mask[texts, :width]
        versions = runs(model, model.embedding(batch.ids[texts, :width]), mask)
        deleted = torch.eye(width + 1, width, dtype=torch.bool, device=model.device)
        weights = masked_softmax(versions.scores, mask[:, None] & ~deleted)
        probabilities = (weights[:, :, None] @ versions.contributions).squeeze(2).softmax(-1)
        attention[texts, :width] = weights[:, -1]
        change[texts, :width] = (probabilities[:, :-1] - probabilities[:, -1:]).abs().sum(-1) / 2
        predicted[texts] = probabilities[:, -1].argmax(-1, keepdim=True)
    return _frame(batch, attention=attention, leave_one_out=change, predicted_class=predicted)


def _chunks(lengths: torch.Tensor) -> list[torch.Tensor]:
    """Positions of texts in order of falling length, in groups of at most `_ROWS` padded tokens (or one text that is longer)."""
    order = lengths.argsort(descending=True, stable=True)
    groups, start = [], 0
    while start < len(order):
        size = max(1, _ROWS // int(lengths[order[start]]))
        groups.append(order[start : start + size])
        start += size
    return groups


def _frame(batch: Batch, **columns: torch.Tensor) -> pd.DataFrame:
    """One row a real token, from columns of shape (B, T)."""
    real = batch.mask.cpu()
    places = torch.arange(real.shape[1]).expand_as(real)
    return pd.DataFrame(
        {
            "input": batch.index.cpu().repeat_interleave(batch.lengths.cpu()).numpy(),
            "position": places[real].numpy(),
            "token": [token for tokens in batch.tokens for token in tokens],
            **{name: values.cpu()[real].numpy() for name, values in columns.items()},
        }
    )
