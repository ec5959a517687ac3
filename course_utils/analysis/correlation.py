"""Do two measures of importance rank the tokens of an input alike? Kendall's tau, input by input (Jain & Wallace 2019, table 2)."""

import math

import pandas as pd
from scipy.stats import kendalltau

from course_utils.errors import AnalysisError

SIGNIFICANT = 0.05


def kendall(frame: pd.DataFrame, first: str = "attention", second: str = "gradient") -> pd.DataFrame:
    """Kendall's tau-b between two columns of token importances, one test an input.

    Tau is 1 when both rank the tokens in the same order, -1 when in opposite orders, near 0 when the orders have nothing in common.
    It is undefined, and NaN here, for a single token, where all values of a column are equal, and where a value is NaN.

    Args:
        frame: one row a token, with `input`, `predicted_class` and the two columns, as from `importance.gradient` or
            `importance.leave_one_out`; join the two on `["input", "position"]` to compare one with the other.
    Returns:
        one row an input: `input`, `predicted_class`, `n_tokens`, `tau` in [-1, 1], `p_value` in [0, 1] of the hypothesis tau = 0
        (exact for short inputs without ties) and `significant`, p_value <= 0.05, False where tau is undefined.
    Raises:
        AnalysisError: a column is missing, or the frame has no row.
    """
    _check(frame, ["input", "predicted_class", first, second])
    rows = []
    for number, tokens in frame.groupby("input", sort=True):
        tau, p_value = _tau(tokens[first], tokens[second])
        rows.append((number, tokens["predicted_class"].iloc[0], len(tokens), tau, p_value, p_value <= SIGNIFICANT))
    return pd.DataFrame(rows, columns=["input", "predicted_class", "n_tokens", "tau", "p_value", "significant"])


def summary(correlations: pd.DataFrame) -> pd.DataFrame:
    """A row of Jain & Wallace's table 2 for each predicted class.

    Args:
        correlations: as from `kendall`.
    Returns:
        one row a predicted class: `tau_mean`, `tau_std` (population) and `significant_fraction` over the `n` inputs where tau is
        defined, and `n_undefined`, the inputs left out. Where tau is undefined for all, the first three are NaN and `n` is 0.
    Raises:
        AnalysisError: a column is missing, or the frame has no row.
    """
    _check(correlations, ["predicted_class", "tau", "significant"])
    rows = []
    for label, inputs in correlations.groupby("predicted_class", sort=True):
        defined = inputs[inputs["tau"].notna()]
        tau = defined["tau"]
        rows.append((label, tau.mean(), tau.std(ddof=0), defined["significant"].mean(), len(tau), len(inputs) - len(tau)))
    names = ["predicted_class", "tau_mean", "tau_std", "significant_fraction", "n", "n_undefined"]
    return pd.DataFrame(rows, columns=names)


def _tau(first: pd.Series, second: pd.Series) -> tuple[float, float]:
    if first.nunique(dropna=False) < 2 or second.nunique(dropna=False) < 2 or first.isna().any() or second.isna().any():
        return math.nan, math.nan
    result = kendalltau(first, second)
    return float(result.statistic), float(result.pvalue)


def _check(frame: pd.DataFrame, columns: list[str]) -> None:
    missing = [name for name in columns if name not in frame]
    if missing:
        raise AnalysisError(f"the table has no column {', '.join(map(repr, missing))}; it has {', '.join(map(str, frame.columns))}")
    if frame.empty:
        raise AnalysisError("the table has no row, so there is nothing to correlate")
