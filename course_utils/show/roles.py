"""Figures of what heads do: each role's score beside its baselines. Show them with `show(fig, alt=...)`."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.show.display import theme
from course_utils.show.tables import require

_NEEDED = ("relation", "layer", "head", "score", "low", "high", "fixed", "near", "far")


@theme()
def relations(table: pd.DataFrame, untrained: pd.DataFrame | None = None, *, title: str) -> Figure:
    """Each relation's best head: against the best fixed offset on the left, where that offset is right and wrong on the right.

    Args:
        table: one row a relation, as from `analysis.heads.best_direction`, drawn from top to bottom in its order.
        untrained: the same of an untrained encoder, for a third mark on the left; relations it lacks are left out there.
        title: the finding.
    Raises:
        ShowError: no row, or a column is missing.
    """
    require(table, _NEEDED)
    palette = sns.color_palette("colorblind")
    places = np.arange(len(table))[::-1]
    fig, (left, right) = plt.subplots(1, 2, sharey=True, figsize=(10, 1.6 + 0.3 * len(table)), width_ratios=(1.2, 1))
    left.hlines(places, table["fixed"], table["score"], color="#999999", linewidth=1.5, zorder=1)
    reach = np.abs(table[["low", "high"]].sub(table["score"], axis=0).to_numpy().T)
    left.errorbar(table["score"], places, xerr=reach, fmt="o", color=palette[0], capsize=2.5, label="best head, 95 % interval")
    left.plot(table["fixed"], places, "D", color=palette[1], markerfacecolor="white", label="best fixed offset")
    if untrained is not None:
        score = untrained.set_index("relation")["score"].reindex(table["relation"])
        left.plot(score, places, "x", color="#555555", label="best head, untrained")
    right.hlines(places, table["far"], table["near"], color="#999999", linewidth=1.5, zorder=1)
    right.plot(table["near"], places, "s", color=palette[0], markerfacecolor="white", label="at that offset")
    right.plot(table["far"], places, "^", color=palette[3], label="elsewhere")
    left.set_yticks(places, [f"{row.relation}  {row.layer}-{row.head}" for row in table.itertuples()])
    left.set(ylabel="relation, and its best head", xlabel="share of arcs found", xlim=(-0.03, 1.03))
    right.set(xlabel="share found by the best head", xlim=(-0.03, 1.03))
    for axes in (left, right):
        _legend_above(axes)
    fig.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return fig


def _legend_above(axes: Axes) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, fontsize="small", handletextpad=0.2, columnspacing=0.9)
