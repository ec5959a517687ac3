"""Heads over the checkpoints of a training: what they look at, when they change, what hangs on them; for `show(fig, alt=...)`.

Every figure is given its finding as `title` by the lesson that measured it.
"""

from collections.abc import Mapping, Sequence

import ipywidgets as widgets
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.analysis.development import Development
from course_utils.errors import ShowError
from course_utils.models import AttentionMaps
from course_utils.show.colours import MARKERS, WEIGHTS
from course_utils.show.display import figure_html, theme
from course_utils.show.single import chosen, single_text

_HEADS = 8


@theme()
def roles_and_loss(found: Development, *, window: tuple[float, float] | None = None, title: str) -> Figure:
    """Loss, previous-token scores of the first layer and induction scores of the last, one below the other over the same steps.

    Args:
        found: as `analysis.development.follow` gives.
        window: first and last step of a time that is marked in all panels.
        title: the finding.
    Raises:
        ShowError: more than 8 heads a layer.
    """
    last = int(found.heads["layer"].max())
    fig, panels = plt.subplots(3, 1, figsize=(8, 7.5), sharex=True)
    losses = found.losses.melt("step", ["first", "repeated"], "where", "loss")
    _lines(panels[0], losses, "loss", "where", "loss (nats a token)", "block is said")
    for axes, layer, score in ((panels[1], 0, "previous"), (panels[2], last, "induction")):
        rows = found.heads[found.heads["layer"] == layer]
        _lines(axes, rows, score, "head", f"{score} score", f"layer {layer}, head")
        axes.set_ylim(0, 1)
    for axes in panels:
        if window is not None:
            axes.axvspan(*window, color="#888888", alpha=0.2, linewidth=0)
    panels[-1].set_xlabel("training step")
    panels[0].set_title(title)
    return fig


@theme()
def divided(found: Development, *, title: str) -> Figure:
    """How far the heads of each layer stand apart, and how far they move from one checkpoint to the next.

    Args:
        found: as `analysis.development.follow` gives.
        title: the finding.
    """
    fig, panels = plt.subplots(2, 1, figsize=(8, 5.2), sharex=True)
    _lines(panels[0], found.layers, "distance", "layer", "between heads (nats)", "layer")
    _lines(panels[1], found.layers.dropna(subset="moved"), "moved", "layer", "moved since the\ncheckpoint before (nats)", "layer")
    panels[1].set_xlabel("training step")
    panels[0].set_title(title)
    return fig


@theme()
def stages(maps: Mapping[int, AttentionMaps], heads: Sequence[tuple[int, int]], *, title: str) -> Figure:
    """Maps of a few heads (from top to bottom) at a few checkpoints (from left to right), over the same sequence.

    Args:
        maps: step to maps of one text.
        heads: (layer, head) each.
        title: the finding.
    Raises:
        ShowError: nothing to draw, several texts, or an unknown head.
    """
    if not maps or not heads:
        raise ShowError(f"{len(maps)} checkpoints and {len(heads)} heads leave nothing to draw; give one of each at least")
    fig, grid = plt.subplots(
        len(heads), len(maps), figsize=(1.9 * len(maps) + 1, 1.9 * len(heads) + 0.6), squeeze=False, sharex=True, sharey=True
    )
    for column, (step, one) in enumerate(maps.items()):
        attention, tokens = single_text(one)
        for row, (layer, head) in enumerate(heads):
            chosen([layer], one.n_layers, "layer"), chosen([head], one.n_heads, "head")
            axes = grid[row, column]
            image = axes.imshow(attention[layer, head].detach().cpu().numpy(), cmap=WEIGHTS, vmin=0, vmax=1)
            axes.grid(False)
            axes.set_xticks([]), axes.set_yticks([])
            if row == 0:
                axes.set_title(f"step {step}", fontsize="small")
            if column == 0:
                axes.set_ylabel(f"head {layer}-{head}")
    fig.supxlabel(f"looked at: {len(tokens)} tokens from left to right", fontsize="small")
    fig.suptitle(title, x=0.01, ha="left", fontsize="medium")
    fig.colorbar(image, ax=grid, label="attention weight", shrink=0.7)
    return fig


@theme()
def knocked_out(table: pd.DataFrame, *, title: str) -> Figure:
    """Loss on what is said again, after a head was taken from everything, or from one input of the next layer.

    Args:
        table: as `analysis.development.knock_out` gives.
        title: the finding.
    Raises:
        ShowError: the table has no row for the whole model.
    """
    whole = table[table["part"] == "none"]
    if whole.empty:
        raise ShowError("the table has no row with part 'none', the whole model; give what knock_out returns")
    rows = table[table["part"] != "none"].copy()
    rows["name"] = rows["layer"].astype(str) + "-" + rows["head"].astype(str)
    parts = [part for part in ("everything", "key", "query", "value") if part in set(rows["part"])]
    fig, axes = plt.subplots(figsize=(8, 0.42 * rows["name"].nunique() + 1.4))
    look = {"palette": sns.color_palette("colorblind", len(parts)), "markers": list(MARKERS[: len(parts)])}
    for number, part in enumerate(parts):
        one = rows[rows["part"] == part]
        places = one["name"].map({name: place for place, name in enumerate(rows["name"].unique())}) + 0.16 * (number - 1.5)
        axes.plot(
            one["repeated"], places, look["markers"][number], color=look["palette"][number], label=f"taken from {_from(part)}"
        )
    axes.axvline(float(whole["repeated"].iloc[0]), color="black", linestyle="--", linewidth=1, label="whole model")
    axes.set_yticks(range(rows["name"].nunique()), rows["name"].unique())
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set(xlabel="loss on what is said again (nats a token)", ylabel="head", title=title)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return fig


@theme()
def windows(results: pd.DataFrame, *, title: str) -> Figure:
    """For every seed, from when to when each curve changed: 10 to 90 % of the way, with a mark at 50 %.

    Args:
        results: rows of the study: `seed`, `measure` ("begin", "middle", "end"), `group` (the curve), `value` (a step).
        title: the finding.
    Raises:
        ShowError: there are no such rows.
    """
    rows = results[results["measure"].isin(["begin", "middle", "end"])]
    if rows.empty:
        raise ShowError("no row has the measure 'begin', 'middle' or 'end'; give the rows of the study 'development'")
    curves, seeds = list(rows["group"].unique()), sorted(rows["seed"].unique())
    wide = rows.pivot(index=["group", "seed"], columns="measure", values="value")
    fig, axes = plt.subplots(figsize=(8, 0.28 * len(curves) * len(seeds) + 1.2))
    colours = sns.color_palette("colorblind", len(curves))
    for number, curve in enumerate(curves):
        for place, seed in enumerate(seeds):
            at, one = number * (len(seeds) + 1) + place, wide.loc[(curve, seed)]
            axes.plot([one["begin"], one["end"]], [at, at], color=colours[number], linewidth=4, alpha=0.6, solid_capstyle="butt")
            axes.plot(one["middle"], at, MARKERS[number % len(MARKERS)], color=colours[number], markeredgecolor="black")
    middles = [number * (len(seeds) + 1) + (len(seeds) - 1) / 2 for number in range(len(curves))]
    axes.set_yticks(middles, [f"{curve}\n({len(seeds)} seeds)" for curve in curves])
    axes.grid(axis="y", visible=False)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set(xlabel="training step (bar: 10 to 90 % of the change, mark: half of it)", title=title)
    return fig


class CheckpointExplorer:
    """What `explore_checkpoints` returns: a slider over checkpoints, a menu of heads, and the head's map.

    Attributes:
        slider, menu: both are reached with Tab; arrow keys move them.
        picture: an HTML widget that follows them.
        box: all of them together.
    """

    def __init__(self, maps: Mapping[int, AttentionMaps], layer: int, head: int):
        if not maps:
            raise ShowError("there is no checkpoint to look at; give {step: maps of one text}")
        first = next(iter(maps.values()))
        for one in maps.values():
            single_text(one)
        chosen([layer], first.n_layers, "layer"), chosen([head], first.n_heads, "head")
        self._maps = dict(maps)
        heads = [(f"layer {row}, head {column}", (row, column)) for row in range(first.n_layers) for column in range(first.n_heads)]
        wide = {"layout": {"width": "98%"}, "style": {"description_width": "initial"}}
        self.slider = widgets.SelectionSlider(options=list(maps), value=list(maps)[-1], description="training step", **wide)
        self.menu = widgets.Dropdown(options=heads, value=(layer, head), description="head")
        self.picture = widgets.HTML()
        for control in (self.slider, self.menu):
            control.observe(lambda _: self._refresh(), "value")
        self.box = widgets.VBox([self.menu, self.slider, self.picture])
        self._refresh()

    def _ipython_display_(self) -> None:
        display(self.box)

    def _refresh(self) -> None:
        step, (layer, head) = self.slider.value, self.menu.value
        attention, tokens = single_text(self._maps[step])
        map_ = attention[layer, head].detach().cpu()
        weight, query, key = max((float(row.max()), number, int(row.argmax())) for number, row in enumerate(map_) if number)
        alt = (
            f"Map of head {layer}-{head} after {step} steps. Its largest weight, {weight:.2f}, goes from position {query} "
            f"({tokens[query]}) to position {key} ({tokens[key]})."
        )
        fig = _one_map(map_.numpy(), tokens, f"Head {layer}-{head} after {step} steps")
        self.picture.value = figure_html(fig, alt) + f'<div role="status" style="background:#fff;color:#000">{alt}</div>'
        plt.close(fig)


def explore_checkpoints(maps: Mapping[int, AttentionMaps], *, layer: int = 0, head: int = 0) -> CheckpointExplorer:
    """Move through the training: the map of any head, at any checkpoint. Put the call on the last line of a cell.

    Args:
        maps: step to maps of one text, of the same model.
        layer, head: shown first, at the last checkpoint.
    Raises:
        ShowError: no checkpoint, several texts, or an unknown head.
    """
    return CheckpointExplorer(maps, layer, head)


@theme()
def _one_map(weights, tokens: Sequence[str], title: str) -> Figure:
    side = min(2.2 + 0.13 * len(tokens), 7)
    fig, axes = plt.subplots(figsize=(side + 1, side))
    image = axes.imshow(weights, cmap=WEIGHTS, vmin=0, vmax=1)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize="xx-small")
    axes.set_yticks(range(len(tokens)), tokens, fontsize="xx-small")
    axes.tick_params(length=0)
    axes.grid(False)
    axes.set(xlabel="looked at", ylabel="looking", title=title)
    fig.colorbar(image, ax=axes, label="attention weight", shrink=0.7)
    return fig


def _lines(axes: Axes, frame: pd.DataFrame, column: str, group: str, label: str, legend: str) -> None:
    groups = list(frame[group].unique())
    if len(groups) > _HEADS:
        raise ShowError(f"{len(groups)} values of {group} are too many lines to tell apart; keep at most {_HEADS}")
    colours = sns.color_palette("colorblind", len(groups))
    for number, name in enumerate(groups):
        rows = frame[frame[group] == name]
        axes.plot(
            rows["step"], rows[column], marker=MARKERS[number], markersize=4, markevery=3, color=colours[number], label=str(name)
        )
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title=legend)


def _from(part: str) -> str:
    return {"everything": "everything", "key": "keys only", "query": "queries only", "value": "values only"}[part]
