"""Every way of this course to say which tokens matter, in one table: what `faithfulness` and `flips` put to the test."""

from collections.abc import Sequence

import pandas as pd
import torch

from course_utils.analysis.erasure import methods_of, random_scores
from course_utils.analysis.importance import gradient, leave_one_out
from course_utils.analysis.integrated import integrated_gradients
from course_utils.analysis.reading import read
from course_utils.data import Batch
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier


def rankings(model: AttentionClassifier, batch: Batch, *, seed: int = 0, n_steps: int = 50) -> pd.DataFrame:
    """Importance of each token by six measures; the larger the value, the more important.

    - `attention`: the model's weight.
    - `gradient`: size of the slope along the word vector, attention held (see `importance.gradient`).
    - `attention_gradient`: weight times the slope of the predicted probability along that weight (Serrano & Smith 2019, section 5).
      Signed: above 0 the token speaks for the predicted class. With a linear decoder and two classes this is proportional to the
      token's term in the logit's sum.
    - `leave_one_out`: size of the change when the token is deleted and the text encoded again (see `importance.leave_one_out`).
    - `integrated_gradients`: signed (see `integrated.integrated_gradients`).
    - `random`: uniform in [0, 1), from the seed and the input's own tokens: the measure that any other must beat.

    A signed measure ranks tokens that speak *for* the prediction first, an unsigned one also those against it. Tests that reward a
    falling probability favour the signed ones for this alone; `scores.assign(size=scores["integrated_gradients"].abs())` adds a
    fair rival.

    Args:
        batch: B inputs; for many batches use `over(rankings, model, batches)`.
        seed: 0 or more.
        n_steps: of the integrated gradients.
    Returns:
        one row a token: `input`, `position`, `token`, `predicted_class`, the six measures, and the `convergence_delta` of the
        integrated gradients. In a text of one token `leave_one_out` is NaN.
    Raises:
        NotLinearError: the decoder is not linear in the context vector.
        AnalysisError: an input is too long for leave-one-out, the seed is negative, or n_steps is below 1.
    """
    batch = batch.to(model.device)
    slopes, path = gradient(model, batch), integrated_gradients(model, batch, n_steps=n_steps)
    real = batch.mask.cpu()
    columns = ["input", "position", "token", "predicted_class"]
    return slopes[columns].assign(
        attention=slopes["attention"],
        gradient=slopes["gradient"],
        attention_gradient=_attention_gradient(model, batch).cpu()[real].numpy(),
        leave_one_out=leave_one_out(model, batch)["leave_one_out"],
        integrated_gradients=path["integrated_gradients"],
        random=random_scores(batch, seed, 1)[:, 0][real].numpy(),
        convergence_delta=path["convergence_delta"],
    )


def combine(scores: pd.DataFrame, methods: Sequence[str], name: str = "combined") -> pd.DataFrame:
    """The table with one more measure: the mean of the ranks that several give to a token.

    Ranks, not values, are averaged, because the measures have different units. Within a text the most important of T tokens has
    rank 1, the next (T - 1)/T, the last 1/T; equal values share the mean of their ranks.

    Args:
        scores: one row a token, as from `rankings`.
        methods: columns of `scores`, at least one.
        name: of the new column, in (0, 1].
    Raises:
        AnalysisError: no method, a column that is missing or not a measure, or a NaN in a text of more than one token.
    """
    methods = methods_of(scores, methods)
    if not methods:
        raise AnalysisError("no method to combine; name some columns of the table, for instance ['attention', 'gradient']")
    ranks = scores.groupby("input")[methods].rank(pct=True).fillna(1)
    return scores.assign(**{name: ranks.mean(axis=1)})


def _attention_gradient(model: AttentionClassifier, batch: Batch) -> torch.Tensor:
    """(B, T) `alpha_t . dp/d alpha_t = alpha_t p_y sum_c p_c (V_ty - V_tc)`: no 1 - p that could round to 0."""
    reading = read(model, batch)
    probabilities = (reading.attention[:, None] @ reading.contributions).softmax(-1)  # (B, 1, C)
    predicted = torch.as_tensor(reading.columns["predicted_class"], device=probabilities.device)[:, None, None]
    of_predicted = reading.contributions.gather(2, predicted.expand(-1, batch.ids.shape[1], 1))
    slopes = (probabilities * (of_predicted - reading.contributions)).sum(-1) * probabilities.gather(2, predicted).squeeze(2)
    return reading.attention * slopes
