"""The bootstrap's draws and the interval that they give, shared by every interval over texts."""

import numpy as np


def draws(n_items: int, n_resamples: int, seed: int) -> np.ndarray:
    """(n_resamples, n_items) int64, how often each item is drawn when n_items are drawn with replacement (Efron 1979).

    `draws @ values / n_items` are the means of all resamples.
    """
    return np.random.default_rng(seed).multinomial(n_items, np.full(n_items, 1 / n_items), size=n_resamples)


def interval(resampled: np.ndarray) -> np.ndarray:
    """(2, ...) the ends of the 95 % percentile interval over resamples, the first axis (Efron 1979)."""
    return np.percentile(resampled, [2.5, 97.5], axis=0)
