"""Agreement of two measures of importance: the distribution of Kendall's tau over inputs, and its mean by model."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from course_utils.errors import ShowError
from course_utils.show.colours import MARKERS
from course_utils.show.display import theme
from course_utils.show.tables import require

_HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")


@theme()
def taus(frame: pd.DataFrame, classes: Sequence[str], *, title: str | None = None) -> Figure:
    """Histograms of Kendall's tau by predicted class, one panel a comparison (Jain & Wallace 2019, figure 2).

    Args:
        frame: one row an input and comparison: `comparison`, `tau` in [-1, 1], `predicted_class`. Undefined taus are left out and
            counted in the panel's title.
        classes: names of the classes, in order.
        title: the finding; by default the mean of each comparison.
    Raises:
        ShowError: a column is missing, or no tau is defined.
    """
    require(frame, ("comparison", "tau", "predicted_class"))
    defined = frame[frame["tau"].notna()]
    if defined.empty:
        raise ShowError("no tau is defined, so there is nothing to draw")
    names = list(defined["comparison"].unique())
    means = defined.groupby("comparison")["tau"].mean()
    colours = sns.color_palette("colorblind", len(classes))
    fig, panels = plt.subplots(1, len(names), figsize=(1.5 + 3.4 * len(names), 3.6), sharey=True, sharex=True, squeeze=False)
    for axes, name in zip(panels[0], names, strict=True):
        rows = defined[defined["comparison"] == name]
        for number, label in enumerate(classes):
            part = rows[rows["predicted_class"] == number]
            style = {"color": colours[number], "hatch": _HATCHES[number % len(_HATCHES)], "alpha": 0.4, "label": label}
            sns.histplot(part, x="tau", bins=np.linspace(-1, 1, 25), element="step", stat="percent", ax=axes, **style)
        axes.axvline(0, color="#555555", linewidth=1)
        axes.axvline(means[name], color="black", linestyle=":", linewidth=1.5)
        left_out = int(frame.loc[frame["comparison"] == name, "tau"].isna().sum())
        axes.set_title(f"{name}\nmean {means[name]:.2f}" + (f", {left_out} undefined" if left_out else ""))
        axes.set(xlabel="Kendall's tau", ylabel="inputs of the class (%)", xlim=(-1, 1))
    panels[0][-1].legend(loc="upper left", bbox_to_anchor=(1, 1), title="predicted")
    found = ", ".join(f"{name} {means[name]:.2f}" for name in names)
    fig.suptitle(title or f"Mean tau: {found}", x=0.01, ha="left", fontsize="medium")
    return fig


@theme()
def agreement(table: pd.DataFrame, *, title: str) -> Figure:
    """Mean tau of each model and comparison, with its interval.

    Args:
        table: `model`, `comparison`, `mean`, `low`, `high` (NaN where the interval is unknown), in the order they are drawn.
        title: the finding.
    Raises:
        ShowError: a column is missing, or there is no row.
    """
    require(table, ("model", "comparison", "mean", "low", "high"))
    models, names = list(table["model"].unique()), list(table["comparison"].unique())
    fig, axes = plt.subplots(figsize=(9, 1.2 + 0.55 * len(models)))
    shifts = np.linspace(0.2, -0.2, len(names)) if len(names) > 1 else [0.0]
    for name, shift, marker, colour in zip(names, shifts, MARKERS, sns.color_palette("colorblind"), strict=False):
        rows = table[table["comparison"] == name]
        places = [len(models) - 1 - models.index(model) + shift for model in rows["model"]]
        reach = ((rows["high"] - rows["low"]) / 2).fillna(0)
        axes.errorbar(rows["mean"], places, xerr=reach, fmt=marker, color=colour, capsize=3, label=name)
    axes.axvline(0, color="#555555", linewidth=1)
    axes.set_yticks(range(len(models)), models[::-1])
    axes.set(xlabel="mean of Kendall's tau (95 % interval)", xlim=(-0.1, 1), title=title)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return fig
