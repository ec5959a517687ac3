"""The figures of Jain & Wallace (2019) from the tidy tables of `course_utils.analysis`. Show them with `show(fig, alt=...)`.

Each title states the finding in numbers of the table itself, unless the caller writes a better one.
"""

from collections.abc import Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.errors import ShowError
from course_utils.show.display import theme
from course_utils.show.tables import require

LN2 = float(np.log(2))
_EDGES = (0, 0.25, 0.5, 0.75, 1)
_BINS = ("[0, .25)", "[.25, .5)", "[.5, .75)", "[.75, 1]")
_FEWEST_FOR_A_SHAPE = 10
_HATCHES = ("", "///", "...", "xx")
_NOTE = {"textcoords": "offset points", "ha": "right", "fontsize": "small"}


@theme()
def permutation(frame: pd.DataFrame, classes: Sequence[str] | None = None, *, title: str | None = None) -> Figure:
    """What shuffling the weights does to predictions, by the largest weight (Jain & Wallace 2019, figure 3).

    A point is an input; bins of 10 and more inputs of a class get the outline of their distribution as well.

    Args:
        frame: one row an input: `max_attention` in (0, 1], `median_change` of the probability in [0, 1], `predicted_class`.
        classes: names of the classes, in order.
        title: the finding; by default the median change, in numbers.
    Raises:
        ShowError: the table is empty, lacks a column or holds a value that is not a number.
    """
    frame = _checked(frame, ("max_attention", "median_change"), classes)
    median, largest = frame["median_change"].median(), frame["median_change"].max()
    finding = f"Shuffling the attention moves half of the predictions by less than {median:.2f} (the most: {largest:.2f})"
    fig, axes = plt.subplots(figsize=(8, 4.5))
    _by_max_attention(axes, frame, "median_change")
    axes.set(xlim=(-0.02, 1.02), xlabel="median change of the probability over the permutations", title=title or finding)
    return fig


@theme()
def max_jsd(frame: pd.DataFrame, classes: Sequence[str] | None = None, *, title: str | None = None) -> Figure:
    """How far attention can move with the prediction in place, one panel a method (Jain & Wallace 2019, figure 5).

    Args:
        frame: one row an input and method: `max_jsd` in nats in [0, ln 2], `predicted_class`, and `method` where there are several.
        classes: names of the classes, in order.
        title: the finding; by default the median of each method beside the ceiling.
    Raises:
        ShowError: the table is empty, lacks a column or holds a value that is not a number.
    """
    frame = _checked(frame, ("max_jsd",), classes)
    if "method" not in frame:
        frame = frame.assign(method="")
    methods = list(frame["method"].unique())
    medians = frame.groupby("method")["max_jsd"].median()
    found = ", ".join(f"{method} {medians[method]:.2f}".strip() for method in methods)
    fig, panels = plt.subplots(1, len(methods), figsize=(2 + 4 * len(methods), 3.8), sharey=True, squeeze=False)
    for axes, method in zip(panels[0], methods, strict=True):
        _jsd_histogram(axes, frame[frame["method"] == method], medians[method])
        axes.set_title(method)
    for axes in panels[0][:-1]:
        axes.get_legend().remove()
    finding = f"Same prediction, other attention: median max-JSD {found} (ceiling ln 2 = {LN2:.2f})"
    fig.suptitle(title or finding, x=0.01, ha="left", fontsize="medium")
    return fig


@theme()
def max_jsd_by_attention(frame: pd.DataFrame, classes: Sequence[str] | None = None, *, title: str | None = None) -> Figure:
    """Max-JSD by the largest weight of the model's own attention (Jain & Wallace 2019, figure 6).

    Args:
        frame: one row an input: `max_attention` in (0, 1], `max_jsd` in nats in [0, ln 2], `predicted_class`.
        classes: names of the classes, in order.
        title: the finding; by default the medians of the most even and the most peaked quarter that holds inputs.
    Raises:
        ShowError: the table is empty, lacks a column or holds a value that is not a number.
    """
    frame = _checked(frame, ("max_attention", "max_jsd"), classes)
    medians = frame.groupby("bin", observed=True)["max_jsd"].median()
    finding = "Median max-JSD by largest weight: " + ", ".join(f"{value:.2f} in {name}" for name, value in medians.items())
    fig, axes = plt.subplots(figsize=(8, 4.5))
    _by_max_attention(axes, frame, "max_jsd")
    _ceiling(axes)
    axes.set(xlim=(-0.02, 0.78), xlabel="max-JSD (nats)", title=title or finding)
    return fig


@theme()
def permutation_by_task(frame: pd.DataFrame, *, title: str | None = None) -> Figure:
    """What shuffling the weights does to predictions, task by task: distribution, quartiles and median.

    Args:
        frame: one row an input: `task`, in the order they are drawn, and `median_change` of the prediction in [0, 1].
        title: the finding; by default the tasks of smallest and largest median.
    Raises:
        ShowError: the table is empty, lacks a column or holds a value that is not a number.
    """
    require(frame, ("task",))
    frame = _checked(frame.assign(predicted_class=0), ("median_change",), ("all",))
    medians = frame.groupby("task", sort=False)["median_change"].median()
    least, most = medians.idxmin(), medians.idxmax()
    finding = f"Shuffled attention changes the median prediction by {medians[least]:.2f} ({least}) to {medians[most]:.2f} ({most})"
    fig, axes = plt.subplots(figsize=(9, 1 + 0.75 * len(medians)))
    colour = sns.color_palette("colorblind")[0]
    sns.violinplot(frame, x="median_change", y="task", cut=0, inner="quart", density_norm="width", color=colour, alpha=0.5, ax=axes)
    for place, median in enumerate(medians):
        axes.annotate(f"{median:.2f}", (median, place), xytext=(4, 0), **_NOTE | {"ha": "left"}, va="center")
    axes.set(xlim=(-0.02, 1.02), xlabel="median change of the prediction over the permutations", ylabel="", title=title or finding)
    return fig


def _checked(frame: pd.DataFrame, numbers: Sequence[str], classes: Sequence[str] | None) -> pd.DataFrame:
    """The rows with `class` (a name, an ordered category) and, where there is a `max_attention`, its `bin`."""
    require(frame, (*numbers, "predicted_class"))
    for column in numbers:
        if not np.isfinite(frame[column]).all():
            raise ShowError(f"column {column} holds {int((~np.isfinite(frame[column])).sum())} values that are not finite numbers")
    highest = int(frame["predicted_class"].max())
    names = [f"class {number}" for number in range(highest + 1)] if classes is None else list(classes)
    if highest >= len(names):
        raise ShowError(f"predicted_class goes up to {highest}, but there are only {len(names)} class names")
    frame = frame.assign(**{"class": pd.Categorical.from_codes(frame["predicted_class"], names)})
    if "max_attention" in numbers:
        inside = frame["max_attention"].between(0, 1 + 1e-6)
        if not inside.all():
            raise ShowError(f"max_attention holds {frame['max_attention'][~inside].iloc[0]}; attention weights lie in [0, 1]")
        codes = np.digitize(frame["max_attention"], _EDGES[1:-1])
        frame["bin"] = pd.Categorical.from_codes(codes, _BINS, ordered=True)
    return frame


def _palette(frame: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    names = frame["class"].cat.categories
    return dict(zip(names, sns.color_palette("colorblind", len(names)), strict=True))


def _by_max_attention(axes: Axes, frame: pd.DataFrame, column: str) -> None:
    shared = {
        "y": "bin",
        "hue": "class",
        "ax": axes,
        "palette": _palette(frame),
        "order": _BINS,
        "hue_order": list(_palette(frame)),
    }
    sizes = frame.groupby(["bin", "class"], observed=True)[column].transform("size")
    shaped = frame[sizes >= _FEWEST_FOR_A_SHAPE]
    if not shaped.empty:
        sns.violinplot(shaped, x=column, cut=0, inner=None, density_norm="width", fill=False, linewidth=1.2, legend=False, **shared)
    sns.stripplot(frame, x=column, dodge=True, size=2.5, alpha=0.5, jitter=0.15, **shared)
    counts = frame["bin"].value_counts()
    axes.set_yticks(range(len(_BINS)), [f"{name}\nn = {counts[name]}" for name in _BINS])
    axes.invert_yaxis()
    axes.set_ylabel("largest attention weight")
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="upper left", bbox_to_anchor=(1, 1), title="predicted", markerscale=3)


def _jsd_histogram(axes: Axes, frame: pd.DataFrame, median: float) -> None:
    bins = np.linspace(0, 0.7, 29)
    for (name, colour), hatch in zip(_palette(frame).items(), cycle(_HATCHES), strict=False):
        rows = frame[frame["class"] == name]
        sns.histplot(
            rows, x="max_jsd", bins=bins, element="step", stat="percent", color=colour, hatch=hatch, label=name, ax=axes, alpha=0.4
        )
    axes.axvline(median, color="black", linestyle=":", linewidth=1.5)
    axes.annotate(f"median {median:.2f}", (median, 0.9), xycoords=("data", "axes fraction"), xytext=(-4, 0), **_NOTE)
    _ceiling(axes)
    axes.set(xlim=(0, 0.78), xlabel="max-JSD (nats)", ylabel="inputs of the class (%)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="predicted")


def _ceiling(axes: Axes) -> None:
    axes.axvline(LN2, color="black", linestyle="--", linewidth=1)
    axes.annotate("ln 2", (LN2, 0.97), xycoords=("data", "axes fraction"), xytext=(4, 0), **{**_NOTE, "ha": "left"})
