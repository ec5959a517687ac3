"""What was measured of heads, by layer: a number of each head, lines with intervals, weight beside contribution.

Every figure is given its finding as `title` by the lesson that measured it. Show it with `show(fig, alt=...)`.
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.errors import ShowError
from course_utils.show.colours import MARKERS, WEIGHTS
from course_utils.show.display import theme
from course_utils.show.heatmap import text_colour
from course_utils.show.tables import require

_CLASSES = {"first": "first token ([CLS])", "separator": "separator ([SEP])", "punctuation": "punctuation", "word": "word"}
_PANELS = {
    "attention": "attention weight",
    "norm": "norm of what is read",
    "value_norm": "length of a value (word = 1)",
}


@theme()
def layer_head(table: pd.DataFrame, column: str, *, title: str, label: str | None = None, signed: bool = False) -> Figure:
    """A number of each head, layers from top to bottom, heads from left to right.

    Args:
        table: one row a head: `layer`, `head`, and `column`; a head that is not there, or is nan, is left grey.
        label: what the number is, for the colour bar; the column's name unless told.
        signed: scores that may be negative: blue below 0, red above.
        title: the finding.
    Raises:
        ShowError: no such column, a head twice, or negative numbers without `signed`.
    """
    grid = _grid(table, column)
    values = grid.to_numpy(dtype=float)
    largest = float(np.nanmax(np.abs(values)))
    if not signed and np.nanmin(values) < 0:
        raise ShowError(f"column {column} goes down to {np.nanmin(values):.3g}; use signed=True for scores that may be negative")
    colours = (sns.color_palette("vlag", as_cmap=True) if signed else WEIGHTS).with_extremes(bad="#bbbbbb")
    fig, axes = plt.subplots(figsize=(0.55 * values.shape[1] + 2, 0.45 * values.shape[0] + 1.3))
    image = axes.imshow(values, cmap=colours, vmin=-largest if signed else 0, vmax=largest, aspect="auto")
    for (row, at), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = text_colour(image.cmap(image.norm(value))[:3])
            axes.text(at, row, f"{value:.2f}", ha="center", va="center", fontsize="x-small", color=ink)
    axes.set_xticks(range(values.shape[1]), grid.columns)
    axes.set_yticks(range(values.shape[0]), grid.index)
    axes.grid(False)
    axes.set(xlabel="head", ylabel="layer", title=title)
    fig.colorbar(image, ax=axes, label=label or column)
    return fig


@theme()
def by_layer(table: pd.DataFrame, scores: Sequence[str] | None = None, *, title: str, label: str = "mean over heads") -> Figure:
    """Measures from the first layer to the last, each with its confidence interval.

    Args:
        table: one row a layer and measure: `layer`, `score` (the measure's name), `mean`, `low`, `high`, as
            `analysis.patterns.by_layer` gives.
        scores: which measures to draw, at most 8; all unless told.
        label: of the vertical axis.
        title: the finding.
    Raises:
        ShowError: a column or a measure is missing, or there are too many.
    """
    require(table, ("layer", "score", "mean", "low", "high"))
    scores = list(table["score"].unique()) if scores is None else list(scores)
    missing = [score for score in scores if score not in set(table["score"])]
    if missing or not 1 <= len(scores) <= len(MARKERS):
        problem = f"the table has no measure {missing[0]!r}" if missing else f"{len(scores)} measures, but 1 to {len(MARKERS)} fit"
        raise ShowError(f"{problem}; choose from {', '.join(table['score'].unique())}")
    fig, axes = plt.subplots(figsize=(8, 4))
    for score, colour, marker in zip(scores, sns.color_palette("colorblind"), MARKERS, strict=False):
        rows = table[table["score"] == score].sort_values("layer")
        axes.plot(rows["layer"], rows["mean"], color=colour, marker=marker, label=score.replace("_", " "))
        axes.fill_between(rows["layer"], rows["low"], rows["high"], color=colour, alpha=0.25, linewidth=0)
    axes.set_xticks(sorted(table["layer"].unique()))
    axes.set(xlabel="layer", ylabel=label, title=title)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="band: 95 % interval")
    return fig


@theme()
def lines_by_layer(frame: pd.DataFrame, column: str, *, group: str | None = None, title: str, label: str | None = None) -> Figure:
    """The mean of a number over texts, from the first layer to the last, with a 95 % bootstrap interval over the rows.

    Args:
        frame: one row a text and layer (and group): `layer`, `column`, `group`; nan counts as absent.
        group: the column whose values get a line each, at most 8.
        label: of the vertical axis; the column's name unless told.
        title: the finding.
    Raises:
        ShowError: a column is missing, or there are too many groups.
    """
    require(frame, ("layer", column, *([group] if group else [])))
    fig, axes = plt.subplots(figsize=(8, 4))
    _lines(axes, frame, column, group)
    axes.set(xlabel="layer", ylabel=label or column.replace("_", " "), title=title)
    if group:
        sns.move_legend(axes, "upper left", bbox_to_anchor=(1, 1), title="band: 95 % interval")
    return fig


@theme()
def weight_and_contribution(frame: pd.DataFrame, *, title: str) -> Figure:
    """How much each layer attends to [CLS], [SEP], punctuation and words, beside how much it reads there (Kobayashi et al. 2020).

    Three panels: the share of attention weight, the share of the norms of weight times value, and the length of a value.

    Args:
        frame: as `analysis.contribution.contributions` gives: `layer`, `token_class`, `attention`, `norm`, `value_norm`.
        title: the finding.
    Raises:
        ShowError: a column is missing.
    """
    require(frame, ("layer", "token_class", *_PANELS))
    frame = frame.assign(looked_at=frame["token_class"].map(_CLASSES))
    present = [name for name in _CLASSES.values() if (frame["looked_at"] == name).any()]
    fig, panels = plt.subplots(1, 3, figsize=(11, 3.6))
    for axes, (column, name) in zip(panels, _PANELS.items(), strict=True):
        _lines(axes, frame, column, "looked_at", present)
        axes.set(xlabel="layer", ylabel="relative length" if column == "value_norm" else "share", title=name)
        axes.set_ylim(bottom=0, top=None if column == "value_norm" else 1)
        if axes is not panels[-1]:
            axes.get_legend().remove()
    sns.move_legend(panels[-1], "upper left", bbox_to_anchor=(1, 1), title="looked at")
    fig.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return fig


@theme()
def place_or_words(frame: pd.DataFrame, *, named: int = 6, title: str) -> Figure:
    """How far each head's map stays in place, and how far it goes with the words, when words are shuffled; a point is a head.

    Args:
        frame: as `analysis.reordering.follow` gives: `layer`, `head`, `same_place`, `same_words`, any number of rows a head.
        named: how many heads get their name (layer-head): those that lean most to places.
        title: the finding.
    Raises:
        ShowError: a column is missing, or there are too many layers.
    """
    require(frame, ("layer", "head", "same_place", "same_words"))
    heads = frame.groupby(["layer", "head"], as_index=False)[["same_place", "same_words"]].mean()
    count = heads["layer"].nunique()
    if count > len(MARKERS):
        raise ShowError(f"{count} layers are too many marks to tell apart; keep at most {len(MARKERS)} of the table's layers")
    fig, axes = plt.subplots(figsize=(6.6, 5))
    axes.axline((0, 0), slope=1, color="#777777", linestyle="--", linewidth=1, zorder=0)
    marks = {"palette": sns.color_palette("cividis_r", count), "markers": list(MARKERS[:count]), "edgecolor": "black", "s": 60}
    sns.scatterplot(heads, x="same_place", y="same_words", hue="layer", style="layer", legend="full", ax=axes, **marks)
    lean = (heads["same_words"] - heads["same_place"]).nsmallest(named).index
    for head in heads.loc[lean].itertuples():
        axes.annotate(
            f"{head.layer}-{head.head}",
            (head.same_place, head.same_words),
            xytext=(6, 4),
            textcoords="offset points",
            fontsize="small",
        )
    axes.set(
        xlim=(0, 1.05),
        ylim=(0, 1.05),
        aspect="equal",
        xlabel="agreement at the same places",
        ylabel="agreement of the same words",
        title=title,
    )
    axes.text(0.03, 0.98, "follows words", va="top", color="#444444")
    axes.text(1.02, 0.03, "follows places", ha="right", color="#444444")
    sns.move_legend(axes, "upper left", bbox_to_anchor=(1, 1))
    return fig


def _lines(axes: Axes, frame: pd.DataFrame, column: str, group: str | None, order: Sequence[str] | None = None) -> None:
    groups = 1 if group is None else frame[group].nunique()
    if groups > len(MARKERS):
        raise ShowError(f"{groups} values of {group} are too many lines to tell apart; choose at most {len(MARKERS)}")
    shared = {"x": "layer", "y": column, "errorbar": ("ci", 95), "n_boot": 500, "seed": 0, "ax": axes}
    if group is None:
        sns.lineplot(frame, marker="o", color=sns.color_palette("colorblind")[0], **shared)
    else:
        order = list(frame[group].unique()) if order is None else order
        style = {"palette": sns.color_palette("colorblind", groups), "markers": list(MARKERS[:groups]), "dashes": False}
        sns.lineplot(frame, hue=group, style=group, hue_order=order, style_order=order, **style, **shared)
    axes.set_xticks(sorted(frame["layer"].unique()))


def _grid(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """(L, N) of one number a head."""
    require(table, ("layer", "head", column))
    twice = table[table.duplicated(["layer", "head"])]
    if not twice.empty:
        name = f"{twice['layer'].iloc[0]}-{twice['head'].iloc[0]}"
        raise ShowError(f"head {name} has several rows; average them first, for instance with patterns.by_head")
    if not np.isfinite(table[column].astype(float)).any():
        raise ShowError(f"column {column} holds no finite number")
    return table.pivot(index="layer", columns="head", values=column)
