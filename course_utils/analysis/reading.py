"""What the experiments on attention read from the model: one forward pass, float64, no gradients."""

import zlib
from dataclasses import dataclass

import numpy as np
import torch

from course_utils.data import Batch
from course_utils.errors import AnalysisError, NotLinearError
from course_utils.models import AttentionClassifier, AttentionOutput


@dataclass(frozen=True)
class Reading:
    """B inputs of at most T tokens and C classes, as the linear decoder sees them.

    Attributes:
        attention: (B, T) float64, each row sums to 1, 0 at padding.
        contributions: (B, T, C) float64; `logits = (attention[..., None] * contributions).sum(1)`.
        columns: what every table says of an input: `input`, `n_tokens`, `max_attention` and `predicted_class`.
    """

    attention: torch.Tensor
    contributions: torch.Tensor
    columns: dict[str, np.ndarray]


def as_float64(values: torch.Tensor) -> torch.Tensor:
    """The same values in double precision, on the CPU where the device (MPS) has none."""
    return (values.cpu() if values.device.type == "mps" else values).double()


def normalised(attention: torch.Tensor) -> torch.Tensor:
    """(..., T) weights in float64, each row with sum 1 to the last digit of that precision."""
    attention = as_float64(attention)
    return attention / attention.sum(-1, keepdim=True)


def describe(batch: Batch, output: AttentionOutput) -> dict[str, np.ndarray]:
    """The columns that every table has, one value an input."""
    return {
        "input": batch.index.cpu().numpy(),
        "n_tokens": batch.lengths.cpu().numpy(),
        "max_attention": normalised(output.attention).amax(1).cpu().numpy(),
        "predicted_class": output.predicted.cpu().numpy(),
    }


@torch.no_grad()
def read(model: AttentionClassifier, batch: Batch) -> Reading:
    """The one encoder pass that the counterfactuals of attention need.

    Raises:
        NotLinearError: the decoder is not linear in the context vector.
        AnalysisError: the model's logits are not finite.
    """
    batch = batch.to(model.device)
    output = model(batch)
    if output.contributions is None:
        raise NotLinearError(
            "the decoder of this model is not linear in the context vector, so the prediction is not a weighted sum over tokens "
            "and this experiment has no short form; adversary.published works with any decoder"
        )
    if not output.logits.isfinite().all():
        raise AnalysisError("the model predicts nan or infinity; its training diverged, or its weights are damaged: train it again")
    return Reading(normalised(output.attention), as_float64(output.contributions), describe(batch, output))


def generators(batch: Batch, seed: int) -> list[np.random.Generator]:
    """One random generator an input, from the seed and the input's own tokens: the company it is batched with changes nothing.

    A query's tokens count too: several questions about one text are several inputs.

    Raises:
        AnalysisError: the seed is negative.
    """
    if seed < 0:
        raise AnalysisError(f"a seed is 0 or more, not {seed}")
    texts = zip(*(_bytes(part) for part in (batch, batch.query) if part is not None), strict=True)
    return [np.random.default_rng([seed, zlib.crc32(b"".join(text))]) for text in texts]


def _bytes(batch: Batch) -> list[bytes]:
    rows = batch.ids.cpu().numpy().astype("<i8")
    return [row[:length].tobytes() for row, length in zip(rows, batch.lengths.tolist(), strict=True)]
