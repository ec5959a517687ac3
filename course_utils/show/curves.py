"""A number against another, a line a group: for sweeps over a distance, a size, a step. Show it with `show(fig, alt=...)`."""

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from course_utils.errors import ShowError
from course_utils.show.colours import MARKERS
from course_utils.show.display import theme
from course_utils.show.tables import require


@theme()
def curves(frame: pd.DataFrame, x: str, y: str, *, group: str, title: str, xlabel: str, ylabel: str, log: bool = False) -> Figure:
    """The mean of `y` at each value of `x`, a line for each value of `group`, with a 95 % bootstrap interval over the rows.

    Args:
        frame: one row an observation, with the columns `x`, `y` and `group`; lines come in the order of their first rows.
        group: the column whose values get a line each, at most 8.
        title: the finding.
        log: whether `x` runs in powers of 2.
    Raises:
        ShowError: a column is missing, the table is empty, or there are too many groups.
    """
    require(frame, (x, y, group))
    groups = list(frame[group].unique())
    if len(groups) > len(MARKERS):
        raise ShowError(f"{len(groups)} values of {group} are too many lines to tell apart; keep at most {len(MARKERS)}")
    fig, axes = plt.subplots(figsize=(8, 4))
    lines = {"hue": group, "style": group, "hue_order": groups, "style_order": groups, "dashes": False}
    look = {"palette": sns.color_palette("colorblind", len(groups)), "markers": list(MARKERS[: len(groups)])}
    sns.lineplot(frame, x=x, y=y, ax=axes, errorbar=("ci", 95), n_boot=500, seed=0, **lines, **look)
    if log:
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(frame[x].unique()), [f"{value:g}" for value in sorted(frame[x].unique())])
        axes.minorticks_off()
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    band = "band: 95 % interval" if frame.duplicated([x, group]).any() else None
    sns.move_legend(axes, "upper left", bbox_to_anchor=(1, 1), title=band)
    return fig
