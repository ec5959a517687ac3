"""What if the weights were given to the wrong tokens? The permutation experiment, sampled and in closed form.

The output sees attention only through a weighted sum of per-token logits, so shuffled weights need no second forward pass, and
the mean and the variance of the shuffled logit are known exactly.
"""

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.distances import tvd
from course_utils.analysis.reading import generators, normalised, read
from course_utils.data import Batch
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier


def permute(model: AttentionClassifier, batch: Batch, n_permutations: int = 100, *, seed: int = 0) -> pd.DataFrame:
    """Change of the prediction when attention weights are shuffled (Jain & Wallace 2019, section 4.2.1).

    Only real tokens are shuffled; padding keeps weight 0. The change is the total variation distance between the two outputs:
    for two classes, the change of the probability.

    Args:
        batch: B inputs.
        n_permutations: shuffles for each input.
        seed: with the input's own tokens, decides its shuffles, whatever the rest of the batch is.
    Returns:
        one row an input: `input`, `n_tokens`, `max_attention` in (0, 1], `predicted_class`, `median_change` and `max_change`
        in [0, 1]. Inputs of one token have change 0.
    Raises:
        NotLinearError: the decoder is not linear in the context vector.
        AnalysisError: no permutation is asked for, or the seed is negative.
    """
    reading = read(model, batch)
    shuffled = _shuffled_logits(reading.attention, reading.contributions, batch, n_permutations, seed).softmax(-1)
    original = (reading.attention[..., None] * reading.contributions).sum(1).softmax(-1).cpu()
    change = tvd(shuffled, original[:, None]).numpy()
    return pd.DataFrame(reading.columns | {"median_change": np.median(change, 1), "max_change": change.max(1)})


def permuted_logits(model: AttentionClassifier, batch: Batch, n_permutations: int = 100, *, seed: int = 0) -> torch.Tensor:
    """The logits behind `permute`: (B, n_permutations, C) float64 on the CPU, the same shuffles for the same seed.

    Raises:
        NotLinearError, AnalysisError: as `permute`.
    """
    reading = read(model, batch)
    return _shuffled_logits(reading.attention, reading.contributions, batch, n_permutations, seed)


def permutation_moments(model: AttentionClassifier, batch: Batch) -> pd.DataFrame:
    """Exact mean and variance of each class's logit over all permutations of the attention weights.

    Returns:
        one row an input: `input`, `n_tokens`, `max_attention`, `predicted_class`, and for class c `mean_c` and `variance_c`;
        for two classes also `mean` and `variance` of the log odds of class 1.
    Raises:
        NotLinearError: the decoder is not linear in the context vector.
    """
    reading = read(model, batch)
    logits = {f"_{label}": reading.contributions[..., label] for label in range(reading.contributions.shape[-1])}
    if len(logits) == 2:
        logits[""] = logits["_1"] - logits["_0"]
    columns = dict(reading.columns)
    for name, values in logits.items():
        mean, variance = moments(reading.attention, values, batch.mask)
        columns |= {f"mean{name}": mean.cpu().numpy(), f"variance{name}": variance.cpu().numpy()}
    return pd.DataFrame(columns)


def moments(attention: torch.Tensor, token_logits: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of `sum_t attention[pi(t)] * token_logits[t]` over uniformly random permutations pi of the real tokens.

    `E = mean(v)` and `Var = sum (alpha - 1/T)^2 * sum (v - mean(v))^2 / (T - 1)`, the permutation distribution of a linear
    statistic (Hoeffding 1951).

    Args:
        attention, token_logits: (B, T).
        mask: (B, T) bool, True at real tokens.
    Returns:
        mean and variance, both (B,) float64; the variance of a single token is 0.
    """
    attention, mask = normalised(attention), mask.to(token_logits.device)
    counts = mask.sum(1, keepdim=True).to(attention)
    values = token_logits.to(attention).masked_fill(~mask, 0)
    mean = values.sum(1, keepdim=True) / counts
    spread = ((values - mean) ** 2).masked_fill(~mask, 0).sum(1) / (counts - 1).clamp_min(1).squeeze(1)
    return mean.squeeze(1), ((attention - 1 / counts) ** 2).masked_fill(~mask, 0).sum(1) * spread


def _shuffled_logits(
    attention: torch.Tensor, contributions: torch.Tensor, batch: Batch, n_permutations: int, seed: int
) -> torch.Tensor:
    """(B, T) and (B, T, C) to (B, n_permutations, C)."""
    if n_permutations < 1:
        raise AnalysisError(f"at least 1 permutation is needed, not {n_permutations}")
    weights, values = attention.cpu().numpy(), contributions.cpu().numpy()
    logits = np.empty((len(batch), n_permutations, values.shape[-1]))
    for row, (generator, length) in enumerate(zip(generators(batch, seed), batch.lengths.tolist(), strict=True)):
        copies = np.tile(weights[row, :length], (n_permutations, 1))
        logits[row] = generator.permuted(copies, axis=1, out=copies) @ values[row, :length]
    return torch.from_numpy(logits)
