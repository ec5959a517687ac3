"""Integrated gradients of word vectors (Sundararajan et al. 2017), through captum, with the check that comes with them."""

import pandas as pd
import torch

from course_utils.analysis.importance import by_token, detached_query, states_of
from course_utils.data import Batch
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier

_STEPS_AT_ONCE = 2


def integrated_gradients(model: AttentionClassifier, batch: Batch, *, n_steps: int = 50) -> pd.DataFrame:
    """What each word vector adds to the predicted probability, on the straight way from zero vectors to the text.

    The gradient, attention included, is integrated along the way by Gauss-Legendre quadrature and multiplied by the vector; a query
    is held as it is. The values of a text sum to the difference between its probability and that of as many zero vectors
    (completeness); by how much they miss it is the convergence delta.

    Args:
        batch: B inputs.
        n_steps: points on the way; a text's cost grows with it, its memory does not.
    Returns:
        one row a token: `input`, `position`, `token`, `integrated_gradients` (signed: above 0 it speaks for the predicted class),
        `convergence_delta` (of the input, the same for all its tokens; below 0.01 in size is fine, else take more steps),
        `predicted_class`.
    Raises:
        AnalysisError: n_steps is below 1.
    """
    from captum.attr import IntegratedGradients  # takes most of a second

    if n_steps < 1:
        raise AnalysisError(f"integrated gradients need at least 1 step, not {n_steps}; 50 is usual")

    def probability(
        embedded: torch.Tensor, mask: torch.Tensor, predicted: torch.Tensor, query: torch.Tensor | None = None
    ) -> torch.Tensor:
        """(N,) p - 1 of the predicted class, from the other classes: exact where p rounds to 1."""
        hidden = states_of(model, embedded, mask)
        context = (model.attention(hidden, mask, query)[:, None] @ hidden).squeeze(1)
        return -model.decoder(context, query).softmax(-1).scatter(1, predicted, 0).sum(1)

    def measure(texts: Batch) -> dict[str, torch.Tensor]:
        embedded = model.embedding(texts.ids).detach()
        query = detached_query(model, texts)
        with torch.no_grad():
            predicted = model(texts).predicted[:, None]
        attributions, delta = IntegratedGradients(probability).attribute(
            embedded,
            baselines=torch.zeros_like(embedded),
            additional_forward_args=(texts.mask, predicted, *(() if query is None else (query,))),
            n_steps=n_steps,
            internal_batch_size=len(texts) * _STEPS_AT_ONCE,
            return_convergence_delta=True,
        )
        return {
            "integrated_gradients": attributions.detach().sum(-1),
            "convergence_delta": delta.detach()[:, None],
            "predicted_class": predicted,
        }

    return by_token(batch.to(model.device), measure)
