"""Which measure of importance is faithful: curves and points with intervals, from the tables of `analysis.faithfulness.intervals`.

Random importance is always grey and dashed: what lies on it has told nothing. Show the figures with `show(fig, alt=...)`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from course_utils.errors import ShowError
from course_utils.show.display import theme
from course_utils.show.tables import require

RANDOM = "random"
_GREY = "#555555"
_COLOURS = (0, 1, 2, 3, 4, 9, 5)  # of seaborn's colorblind palette, without its grey and its second pink
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LABELS = {
    "change": "fall of the predicted class's probability",
    "flipped": "decisions that flip",
    "comprehensiveness": "comprehensiveness (high is good)",
    "sufficiency": "sufficiency (low is good)",
    "fraction": "items to remove until the decision flips (low is good)",
    "flips": "inputs whose decision flips",
}
_BEST = {
    "change": "The probability falls most by",
    "flipped": "Most decisions flip by",
    "comprehensiveness": "Most comprehensive:",
    "sufficiency": "Most sufficient:",
    "fraction": "Fewest items flip the decision by",
}
_LOW_IS_GOOD = ("sufficiency", "fraction")
_SHARES = ("flipped", "fraction", "flips")


@theme()
def curves(table: pd.DataFrame, *, title: str | None = None) -> Figure:
    """Removing more and more tokens: the mean over inputs by measure of importance, with its 95 % interval; one panel a measure.

    Args:
        table: as from `intervals(frame, column, by)`; concatenate several for several panels. Read are `method`, `measure`, `mean`,
            `low`, `high` and `amount` (numbers of tokens, or shares) or `share`.
        title: the finding; by default the best method at the largest amount, beside random.
    Raises:
        ShowError: a column is missing, there is no row, or there are more than 7 methods beside random.
    """
    by = "share" if "share" in table else "amount"
    _check(table, (by, "method", "measure"))
    styles = _styles(table)
    shifts = dict(zip(styles, np.linspace(-0.2, 0.2, len(styles)), strict=True))
    places = {amount: place for place, amount in enumerate(sorted(table[by].unique()))}
    shares = max(places) < 1
    measures = list(table["measure"].unique())
    fig, panels = plt.subplots(1, len(measures), figsize=(3.2 + 4.6 * len(measures), 4.2), squeeze=False)
    for axes, measure in zip(panels[0], measures, strict=True):
        for method, rows in table[table["measure"] == measure].groupby("method", sort=False):
            rows = rows.sort_values(by)
            lengths = [rows["mean"] - rows["low"], rows["high"] - rows["mean"]]
            axes.errorbar(rows[by].map(places) + shifts[method], rows["mean"], lengths, label=_name(method), **styles[method])
        axes.set_xticks(range(len(places)), [f"{100 * amount:g} %" if shares else f"{amount:g}" for amount in places])
        axes.grid(False, axis="x")
        axes.axhline(0, color="black", linewidth=0.8)
        axes.yaxis.set_major_formatter(_format(measure, 0))
        axes.set(xlabel="share of the text" if shares else "tokens deleted", ylabel=_LABELS.get(measure, measure))
    panels[0][-1].legend(loc="upper left", bbox_to_anchor=(1, 1), title="most important first,\nas ranked by\n(bar: 95 % interval)")
    where = f"At {100 * max(places):g} % of the text. " if shares else f"{max(places):g} tokens deleted. "
    at_most = table[table[by] == max(places)]
    found = [_finding(at_most[at_most["measure"] == measure], measure) for measure in measures]
    fig.suptitle(title or where + ". ".join(found), x=0.01, ha="left", fontsize="medium")
    return fig


@theme()
def points(table: pd.DataFrame, *, label: str | None = None, title: str | None = None) -> Figure:
    """One number a measure of importance, with its 95 % interval, the best on top, and a line at random.

    Args:
        table: as from `intervals(frame, column)` or `flips.outcomes`: one row a method with `method`, `measure`, `mean`, `low`,
            `high` and `n`.
        label: of the horizontal axis; what the measure is unless told.
        title: the finding; by default the best method beside random.
    Raises:
        ShowError: a column is missing, there is no row, or a method has several rows.
    """
    _check(table, ("method", "measure", "n"))
    if table["method"].duplicated().any():
        name = table.loc[table["method"].duplicated(), "method"].iloc[0]
        raise ShowError(f"method {name} has several rows; choose one measure and one amount, or draw curves(table)")
    measure = table["measure"].iloc[0]
    rows = table.sort_values("mean", ascending=measure not in _LOW_IS_GOOD, kind="stable")
    fig, axes = plt.subplots(figsize=(8, 1.4 + 0.36 * len(rows)))
    _draw_points(axes, rows)
    axes.set_xlabel(f"{label or _LABELS.get(measure, measure)}\nmean over {rows['n'].iloc[0]} inputs, 95 % interval")
    axes.set_title(title or _finding(table, measure))
    return fig


@theme()
def by_task(table: pd.DataFrame, *, title: str) -> Figure:
    """The same measure on several tasks, one panel a task: each method's mean with its 95 % interval, and a line at random.

    Args:
        table: as for `points`, with a column `task`; several rows a method, one for each task. The methods stand in the order of
            their first rows, from the top.
        title: the finding.
    Raises:
        ShowError: a column is missing, there is no row, a method has several rows in a task, or several measures are mixed.
    """
    _check(table, ("task", "method", "measure", "n"))
    if table["measure"].nunique() > 1:
        raise ShowError(f"the table mixes the measures {', '.join(table['measure'].unique())}; choose one")
    if table.duplicated(["task", "method"]).any():
        raise ShowError("a method has several rows in a task; choose one amount")
    measure, tasks, methods = table["measure"].iloc[0], list(table["task"].unique()), list(table["method"].unique())[::-1]
    size = (3 + 3 * len(tasks), 1.6 + 0.34 * len(methods))
    fig, panels = plt.subplots(1, len(tasks), figsize=size, sharex=True, sharey=True, squeeze=False)
    for axes, task in zip(panels[0], tasks, strict=True):
        rows = table[table["task"] == task].set_index("method").reindex(methods).reset_index()
        _draw_points(axes, rows)
        axes.set_title(f"{task} ({rows['n'].max():g} inputs)", fontsize="medium")
    fig.supxlabel(f"{_LABELS.get(measure, measure)}, mean and 95 % interval", fontsize="medium")
    fig.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return fig


def _draw_points(axes: plt.Axes, rows: pd.DataFrame) -> None:
    """Each row's mean, interval and number, the first at the bottom."""
    number = _format(rows["measure"].dropna().iloc[0], 1)
    colours = [_GREY if method == RANDOM else sns.color_palette("colorblind")[0] for method in rows["method"]]
    for value in rows.loc[rows["method"] == RANDOM, "mean"]:
        axes.axvline(value, color=_GREY, linestyle="--", linewidth=1)
    axes.hlines(range(len(rows)), rows["low"], rows["high"], color=colours, linewidth=2.5)
    axes.scatter(rows["mean"], range(len(rows)), color=colours, s=40, zorder=3)
    for place, row in enumerate(rows.itertuples()):
        if np.isfinite(row.mean):
            axes.annotate(
                number(row.mean), (row.high, place), textcoords="offset points", xytext=(7, 0), va="center", fontsize="small"
            )
    axes.set_yticks(range(len(rows)), [_name(method) for method in rows["method"]])
    axes.grid(False, axis="y")
    axes.margins(x=0.12)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.xaxis.set_major_formatter(_format(rows["measure"].dropna().iloc[0], 0))


def _styles(table: pd.DataFrame) -> dict[str, dict]:
    methods = [method for method in table["method"].unique() if method != RANDOM]
    if len(methods) > len(_MARKERS):
        raise ShowError(f"{len(methods)} methods are too many lines to tell apart; choose at most {len(_MARKERS)} beside random")
    palette = sns.color_palette("colorblind")
    styles = {
        method: {"color": palette[colour], "marker": marker, "linewidth": 1.6}
        for method, colour, marker in zip(methods, _COLOURS, _MARKERS, strict=False)
    }
    return styles | {RANDOM: {"color": _GREY, "marker": ".", "linestyle": "--", "linewidth": 1.6}}


def _finding(rows: pd.DataFrame, measure: str) -> str:
    """What one measure says, in words: the best method, beside random."""
    means = rows.set_index("method")["mean"]
    number = _format(measure, 1)
    if measure == "flips":
        return f"Without the top item {number(means['top'])} of decisions flip, without a random other one {number(means[RANDOM])}"
    others = means.drop(RANDOM, errors="ignore")
    if others.empty:
        return f"{_LABELS.get(measure, measure)}: random {number(means[RANDOM])}"
    best = others.idxmin() if measure in _LOW_IS_GOOD else others.idxmax()
    beside = f" (random {number(means[RANDOM])})" if RANDOM in means else ""
    return f"{_BEST.get(measure, f'Highest {measure}:')} {_name(best)}, {number(others[best])}{beside}"


def _format(measure: str, decimals: int) -> FuncFormatter:
    if measure in _SHARES:
        return FuncFormatter(lambda value, _: f"{100 * value:.{decimals}f} %")
    return FuncFormatter(lambda value, _: f"{value:.2f}")


def _name(method: str) -> str:
    return method.replace("_", " ").replace("attention gradient", "attention x gradient")


def _check(table: pd.DataFrame, columns: tuple[str, ...]) -> None:
    """A table with an interval: `columns` and mean, low, high, which are numbers."""
    require(table, (*columns, "mean", "low", "high"))
    numbers = [column for column in ("mean", "low", "high") if not np.isfinite(table[column]).all()]
    if numbers:
        raise ShowError(f"column {numbers[0]} holds values that are not finite numbers; drop these rows first")
