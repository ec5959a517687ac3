"""Figures of pruning: accuracy as heads go, what that costs, single heads beside their score. Use with `show(fig, alt=...)`."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from course_utils.errors import ShowError
from course_utils.show.colours import MARKERS
from course_utils.show.display import theme
from course_utils.show.tables import require


@theme()
def pruning_curves(
    table: pd.DataFrame, *, title: str, n_heads: int, chance: float | None = None, names: Mapping[str, str] | None = None
) -> Figure:
    """Accuracy against the number of heads removed, a line a plan; a band from the lowest to the highest seed or sample.

    Args:
        table: `plan`, `removed`, `accuracy`, `lowest`, `highest`, as from `analysis.pruning.accuracies`; at most 8 plans.
        n_heads: of the whole model, for the upper axis: how many stay.
        chance: accuracy without reading, drawn as a line.
        names: of the plans in the legend.
        title: the finding.
    Raises:
        ShowError: a column is missing, the table is empty, or there are too many plans.
    """
    require(table, ("plan", "removed", "accuracy", "lowest", "highest"))
    plans = list(table["plan"].unique())
    if len(plans) > len(MARKERS):
        raise ShowError(f"{len(plans)} plans are too many lines to tell apart; keep at most {len(MARKERS)}")
    fig, axes = plt.subplots(figsize=(8.5, 4.3))
    for plan, marker, colour in zip(plans, MARKERS, sns.color_palette("colorblind"), strict=False):
        part = table[table["plan"] == plan].sort_values("removed")
        axes.plot(part["removed"], part["accuracy"], marker=marker, color=colour, label=(names or {}).get(plan, plan))
        axes.fill_between(part["removed"], part["lowest"], part["highest"], color=colour, alpha=0.15, linewidth=0)
    if chance is not None:
        axes.axhline(chance, color="#555555", linestyle=":", linewidth=1)
        axes.annotate("no reading", (0, chance), textcoords="offset points", xytext=(2, -11), fontsize="x-small", color="#555555")
    axes.set(xlabel="heads removed", ylabel="accuracy", title=title)
    ticks = sorted(table["removed"].unique())
    upper = axes.secondary_xaxis("top", functions=(lambda x: n_heads - x, lambda x: n_heads - x))
    upper.set_xlabel("heads that stay", fontsize="small")
    upper.tick_params(labelsize="x-small")
    if len(ticks) <= 12:
        axes.set_xticks(ticks)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return fig


@theme()
def losses(table: pd.DataFrame, compared: pd.DataFrame, *, title: str, allowed: float = 1.0) -> Figure:
    """What removal costs: left against the number of heads removed, right for several plans that remove as many.

    Args:
        table: `removed`, `loss`, `low`, `high`, in points of accuracy: one plan.
        compared: `plan`, `removed` (the same in every row), `loss`, `low`, `high`; drawn from the cheapest plan at the top.
        allowed: points, drawn as a dashed line in both.
        title: the finding.
    Raises:
        ShowError: a column is missing, or a table is empty.
    """
    require(table, ("removed", "loss", "low", "high"))
    require(compared, ("plan", "removed", "loss", "low", "high"))
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), width_ratios=(1.2, 1))
    table, compared = table.sort_values("removed"), compared.sort_values("loss", ascending=False)
    colours = sns.color_palette("colorblind")
    left.errorbar(table["removed"], table["loss"], yerr=_reach(table), fmt="o-", color=colours[0], capsize=3)
    left.axhline(allowed, color="#555555", linestyle="--", linewidth=1)
    name = f"{allowed:g} point{'' if allowed == 1 else 's'}"
    left.annotate(name, (table["removed"].min(), allowed), textcoords="offset points", xytext=(0, 4), fontsize="small")
    left.set_xticks(table["removed"])
    left.set(xlabel="heads removed", ylabel="points of accuracy lost")
    right.errorbar(compared["loss"], compared["plan"], xerr=_reach(compared), fmt="s", color=colours[3], capsize=3)
    right.axvline(allowed, color="#555555", linestyle="--", linewidth=1)
    right.set(xlabel=f"points of accuracy lost, {compared['removed'].iloc[0]} heads removed")
    right.set_ylim(-0.5, len(compared) - 0.5)
    fig.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return fig


@theme()
def single_heads(table: pd.DataFrame, score: str, changes: Mapping[str, str], *, title: str, label: str) -> Figure:
    """Heads as points: a score of each against what its removal did, a panel a kind of change.

    Args:
        table: one row a head: `score` and the columns of `changes`.
        changes: columns, with the label of each one's axis; 1 to 3.
        label: of the score's axis.
        title: the finding.
    Raises:
        ShowError: a column is missing, the table is empty, or there are too many panels.
    """
    require(table, (score, *changes))
    if not 1 <= len(changes) <= 3:
        raise ShowError(f"{len(changes)} panels, but 1 to 3 fit")
    fig, panels = plt.subplots(1, len(changes), figsize=(4.2 * len(changes), 3.6), squeeze=False)
    for axes, (column, name) in zip(panels[0], changes.items(), strict=True):
        axes.axhline(0, color="#555555", linewidth=0.8)
        axes.scatter(table[score], table[column], color=sns.color_palette("colorblind")[0], s=18, alpha=0.75)
        axes.set(xlabel=label, ylabel=name)
    fig.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return fig


def _reach(table: pd.DataFrame) -> list[pd.Series]:
    """From the middle down and up, as error bars want it."""
    return [table["loss"] - table["low"], table["high"] - table["loss"]]
