"""Means with their intervals, condition by condition, for one head or several: does the score survive its controls?"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from course_utils.errors import ShowError
from course_utils.show.colours import MARKERS
from course_utils.show.display import theme
from course_utils.show.tables import require


@theme()
def intervals(
    table: pd.DataFrame,
    *,
    title: str,
    value: str = "accuracy",
    rows: str = "condition",
    series: str = "series",
    label: str | None = None,
    reference: float = 0.5,
    reference_label: str = "chance",
) -> Figure:
    """A row a condition, a marker a series, with 95 % intervals, and a dashed line at what nothing would give.

    Args:
        table: one row a condition and series: `rows` and `series` (text, drawn in their order), `value`, and `low` and `high`, nan
            where there is no interval.
        label: of the horizontal axis; the value's name unless told.
        reference: where the dashed line stands. reference_label: what it is.
        title: the finding.
    Raises:
        ShowError: a column is missing, there is no row, a condition stands twice in a series, or there are too many series.
    """
    require(table, (rows, series, value, "low", "high"))
    if table.duplicated([rows, series]).any():
        twice = table[table.duplicated([rows, series])].iloc[0]
        raise ShowError(f"{twice[rows]!r} stands twice in {twice[series]!r}; give one row a condition and series")
    names, conditions = list(dict.fromkeys(table[series])), list(dict.fromkeys(table[rows]))
    if len(names) > len(MARKERS):
        raise ShowError(f"{len(names)} series, but {len(MARKERS)} fit; leave some out")
    fig, axes = plt.subplots(figsize=(8.5, 1.2 + 0.42 * len(conditions)))
    axes.axvline(reference, color="black", linestyle="--", linewidth=1, label=reference_label)
    shifts = (np.arange(len(names)) - (len(names) - 1) / 2) * min(0.22, 0.7 / len(names))
    for name, marker, colour, shift in zip(names, MARKERS, sns.color_palette("colorblind"), shifts, strict=False):
        some = table[table[series] == name]
        places = [conditions.index(condition) + shift for condition in some[rows]]
        reach = np.nan_to_num(np.abs(some[["low", "high"]].to_numpy(float).T - some[value].to_numpy(float)))
        axes.errorbar(some[value], places, xerr=reach, fmt=marker, color=colour, capsize=3, label=name)
    axes.set_yticks(range(len(conditions)), conditions)
    axes.set_ylim(len(conditions) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set(xlabel=label or value.replace("_", " "), title=title)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="bar: 95 % interval")
    return fig
