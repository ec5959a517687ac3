"""Figures of probes: what is taken for what, trees beside each other, effects of a removal; and a widget over tasks and layers.

Lines by layer are drawn by `course_utils.show.layers.by_layer`. Show a figure with `show(fig, alt=...)`.
"""

from collections.abc import Mapping, Sequence
from html import escape

import ipywidgets as widgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from IPython.display import display
from matplotlib.figure import Figure

from course_utils.analysis import probing
from course_utils.errors import ShowError
from course_utils.show.colours import WEIGHTS
from course_utils.show.display import theme
from course_utils.show.heatmap import text_colour
from course_utils.show.tables import require

MOST_LABELS = 12


def confusion_table(frame: pd.DataFrame, n_labels: int = MOST_LABELS) -> pd.DataFrame:
    """The share of each label's words that were taken for each label: rows real, columns predicted; rows sum to 1.

    The `n_labels` most frequent labels keep a row and a column; the others share the column "other".

    Raises:
        ShowError: a column is missing, or there is no row.
    """
    require(frame, ("label", "predicted"))
    names = list(frame["label"].value_counts().index[:n_labels])
    rows = frame[frame["label"].isin(names)]
    taken = rows["predicted"].where(rows["predicted"].isin(names), "other")
    table = pd.crosstab(rows["label"], taken, normalize="index").reindex(index=names)
    columns = [*names, "other"] if "other" in table else names
    return table.reindex(columns=columns, fill_value=0.0)


@theme()
def confusion(frame: pd.DataFrame, *, title: str, n_labels: int = MOST_LABELS) -> Figure:
    """What a probe takes for what: real labels in rows, predicted ones in columns, shares of a row.

    Args:
        frame: one row a word: `label`, `predicted`, as from `analysis.probing.answers`.
        n_labels: how many labels to draw, from the most frequent.
        title: the finding.
    Raises:
        ShowError: a column is missing, or there is no row.
    """
    table = confusion_table(frame, n_labels)
    side = 0.5 * len(table) + 1.5
    fig, axes = plt.subplots(figsize=(side + 1.2, side))
    image = axes.imshow(table, cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
    for (row, at), value in np.ndenumerate(table.to_numpy()):
        if value >= 0.005:
            ink = text_colour(image.cmap(image.norm(value))[:3])
            axes.text(at, row, f"{value:.2f}", ha="center", va="center", fontsize="x-small", color=ink)
    axes.set_xticks(range(table.shape[1]), table.columns, rotation=90)
    axes.set_yticks(range(len(table)), table.index)
    axes.grid(False)
    axes.set(xlabel="predicted by the probe", ylabel="silver label", title=title)
    fig.colorbar(image, ax=axes, label="share of the row", shrink=0.8)
    return fig


@theme()
def trees(words: Sequence[str], gold: np.ndarray, predicted: np.ndarray, *, title: str) -> Figure:
    """Two trees of one sentence: the gold one above the words, the predicted one below; edges in both are solid.

    Args:
        words: m words. gold, predicted: (e, 2), pairs of places.
        title: the finding.
    Raises:
        ShowError: a place is not that of a word.
    """
    ours, theirs = ({tuple(sorted(map(int, edge))) for edge in edges} for edges in (gold, predicted))
    if any(not 0 <= place < len(words) for edge in ours | theirs for place in edge):
        raise ShowError(f"an edge leads beyond the {len(words)} words; places count from 0")
    reach = max((b - a for a, b in ours | theirs), default=1)
    fig, axes = plt.subplots(figsize=(max(6, max(0.75, 0.115 * max(map(len, words))) * len(words) + 2), 2.4 + 0.28 * reach))
    palette = sns.color_palette("colorblind")
    for edges, others, side in ((ours, theirs, 1), (theirs, ours, -1)):
        for first, last in edges:
            turn = np.linspace(0, np.pi, 40)
            along = (first + last) / 2 - (last - first) / 2 * np.cos(turn)
            height = side * (0.55 + 0.5 * (last - first) * np.sin(turn))
            shared = (first, last) in others
            axes.plot(along, height, color=palette[0] if shared else palette[3], linestyle="-" if shared else "--", linewidth=1.8)
    for place, word in enumerate(words):
        axes.text(place, 0, word, ha="center", va="center")
    kinds = (("in both trees", palette[0], "-"), ("in one only", palette[3], "--"))
    lines = [plt.Line2D([], [], color=colour, linestyle=style, label=name) for name, colour, style in kinds]
    axes.legend(handles=lines, loc="upper left", bbox_to_anchor=(1, 1))
    axes.text(-0.6, 0.7, "parser", ha="right", va="bottom", style="italic")
    axes.text(-0.6, -0.7, "probe", ha="right", va="top", style="italic")
    axes.set(xlim=(-1.6, len(words) - 0.3), ylim=(-0.8 - 0.5 * reach, 0.8 + 0.5 * reach), title=title)
    axes.axis("off")
    return fig


@theme()
def removal(table: pd.DataFrame, *, title: str, label: str) -> Figure:
    """What each removal does: a point and its 95 % interval, one line a removal.

    Args:
        table: `removed` (what was taken out), `mean`, `low`, `high`.
        label: what the number is.
        title: the finding.
    Raises:
        ShowError: a column is missing, or there is no row.
    """
    require(table, ("removed", "mean", "low", "high"))
    places = np.arange(len(table))[::-1]
    fig, axes = plt.subplots(figsize=(8, 1.2 + 0.5 * len(table)))
    reach = [table["mean"] - table["low"], table["high"] - table["mean"]]
    axes.errorbar(table["mean"], places, xerr=reach, fmt="o", capsize=4, color=sns.color_palette("colorblind")[0])
    axes.set_yticks(places, table["removed"])
    axes.set(xlim=(0, None), ylim=(-0.6, len(table) - 0.4), xlabel=f"{label} (bar: 95 % interval)", title=title)
    return fig


class ProbeExplorer:
    """What `explore_probes` returns: two menus, a sentence with the figures, and what is taken for what.

    Attributes:
        task, layer: the menus; Tab reaches them, the arrow keys move them.
        status, picture: HTML widgets that follow them.
        box: all of them together.
    """

    def __init__(self, frame: pd.DataFrame, controls: Mapping[str, str]):
        require(frame, ("task", "layer", "sentence", "label", "predicted", "correct"))
        missing = [name for pair in controls.items() for name in pair if not (frame["task"] == name).any()]
        if missing or not controls:
            raise ShowError(f"the table has no task {missing[0]!r}" if missing else "there is no task to explore")
        self.frame, self.controls = frame, dict(controls)
        self.task = widgets.Dropdown(options=list(controls), description="task")
        layers = sorted(frame["layer"].unique())
        self.layer = widgets.SelectionSlider(options=layers, value=layers[0], description="layer")
        self.status, self.picture = widgets.HTML(), widgets.HTML()
        for menu in (self.task, self.layer):
            menu.observe(lambda _: self._refresh(), "value")
        self.box = widgets.VBox([widgets.HBox([self.task, self.layer]), self.status, self.picture])
        self._refresh()

    def _ipython_display_(self) -> None:
        display(self.box)

    def _refresh(self) -> None:
        task, layer = self.task.value, self.layer.value
        here = self.frame[self.frame["layer"] == layer]
        shares = {name: probing.accuracy(here[here["task"] == name]).iloc[0] for name in (task, self.controls[task])}
        gap = probing.difference(here, "task", task, self.controls[task]).iloc[0]
        own, control = shares.values()
        self.status.value = (
            f"<p role='status' aria-live='polite'><b>{escape(task)}, layer {layer}</b>: accuracy {own['accuracy']:.2f} "
            f"[{own['low']:.2f}, {own['high']:.2f}], control {control['accuracy']:.2f}, "
            f"selectivity <b>{gap['difference']:.2f}</b> [{gap['low']:.2f}, {gap['high']:.2f}]</p>"
        )
        self.picture.value = _confusion_html(confusion_table(here[here["task"] == task], 10))


def explore_probes(frame: pd.DataFrame, controls: Mapping[str, str]) -> ProbeExplorer:
    """Choose a task and a layer: accuracy, control task, selectivity, and what is taken for what.

    Args:
        frame: as from `analysis.probing.probe_layers`, with the tasks and their control tasks.
        controls: each task's control task.
    Raises:
        ShowError: a column or a task is missing.
    """
    return ProbeExplorer(frame, controls)


def _confusion_html(table: pd.DataFrame) -> str:
    """The table as HTML: shares as text on their colour, row and column headers marked as such."""
    heads = "".join(f"<th scope='col' style='padding:2px 5px'>{escape(str(name))}</th>" for name in table.columns)
    rows = []
    for name, values in table.iterrows():
        cells = []
        for value in values:
            colour = WEIGHTS(float(value))[:3]
            back = "rgb({},{},{})".format(*(round(255 * part) for part in colour))
            shown = f"{value:.2f}" if value >= 0.005 else ""
            cells.append(
                f"<td style='padding:2px 5px;background:{back};color:{text_colour(colour)};text-align:center'>{shown}</td>"
            )
        rows.append(f"<tr><th scope='row' style='padding:2px 5px;text-align:right'>{escape(str(name))}</th>{''.join(cells)}</tr>")
    caption = "<caption style='text-align:left'>Rows: silver label. Columns: what the probe says. Shares of a row.</caption>"
    style = "border-collapse:collapse;background:#fff;color:#000;font-size:12px"
    return f"<table style='{style}'>{caption}<tr><td></td>{heads}</tr>{''.join(rows)}</table>"
