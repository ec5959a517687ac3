"""Figures of the freedom of attention and of attention that moves between heads, and a widget that moves it."""

from collections.abc import Mapping, Sequence
from html import escape

import ipywidgets as widgets
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
import torch
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.analysis.freedom import Furthest
from course_utils.analysis.moving import prediction_change, refitted
from course_utils.errors import ShowError
from course_utils.models.finetuned import EncoderClassifier
from course_utils.models.heads import Head
from course_utils.models.moving import HeadWeights, exchanged, read_head, use_heads
from course_utils.show.colours import WEIGHTS
from course_utils.show.display import figure_html, theme
from course_utils.show.tables import require

_LONGEST = 40


@theme()
def freedom(frame: pd.DataFrame, *, head_size: int, title: str) -> Figure:
    """Left: in how many directions a row can move, by length. Right: the share of attention that the output does not depend on.

    Args:
        frame: as from `analysis.freedom.freedom`.
        head_size: dimensions of a value vector.
        title: the finding.
    """
    if frame.empty:
        raise ShowError("the table has no rows; give what analysis.freedom.freedom returns")
    blue, orange = sns.color_palette("colorblind")[:2]
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), sharex=True)
    lengths = sorted(frame["n_tokens"].unique())
    rule = [max(0, length - head_size - 1) for length in lengths]
    left.plot(lengths, rule, color="#555555", linewidth=1, label=f"T - {head_size + 1}")
    found = frame.drop_duplicates(["n_tokens", "free_sum"])
    left.scatter(found["n_tokens"], found["free_sum"], color=blue, s=26, zorder=3, label="measured, all heads")
    left.set(xlabel="tokens", ylabel="free directions (sum kept)")
    left.legend()
    middle = frame.groupby("n_tokens")["hidden"].quantile([0.1, 0.5, 0.9]).unstack()
    right.vlines(middle.index, middle[0.1], middle[0.9], color=orange, alpha=0.6, linewidth=3, label="8 of 10 heads")
    right.scatter(middle.index, middle[0.5], color=orange, edgecolor="black", marker="s", s=30, zorder=3, label="median head")
    right.set(xlabel="tokens", ylabel="hidden share of attention's norm", ylim=(-0.03, 1.03))
    right.legend(loc="center left")
    fig.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return fig


@theme()
def row_range(tokens: Sequence[str], attention: torch.Tensor, found: Furthest, *, title: str) -> Figure:
    """One row of attention, the range in which each weight can lie with the same output, and the furthest row that was found.

    Args:
        tokens: T words.
        attention: (T,), the model's row.
        found: as from `analysis.freedom.furthest`.
        title: the finding.
    Raises:
        ShowError: the lengths differ.
    """
    if not len(tokens) == len(attention) == len(found.low):
        raise ShowError(f"{len(tokens)} tokens, {len(attention)} weights and {len(found.low)} ranges do not belong together")
    blue, orange = sns.color_palette("colorblind")[:2]
    fig, axes = plt.subplots(figsize=(max(6, 0.24 * len(tokens) + 1.5), 4))
    places = range(len(tokens))
    axes.vlines(places, found.low, found.high, color="#999999", linewidth=5, alpha=0.6, label="possible with the same output")
    axes.scatter(places, attention.detach().cpu(), color=blue, s=30, zorder=3, label="the model's row")
    axes.scatter(places, found.attention, color=orange, marker="X", s=40, zorder=3, label="the furthest row found")
    axes.set_xticks(places, tokens, rotation=90)
    axes.grid(axis="x", visible=False)
    axes.set(ylabel="weight", title=title, ylim=(-0.02, max(0.1, float(found.high.max()) * 1.1)))
    axes.legend(loc="upper right")
    return fig


@theme()
def changes(frame: pd.DataFrame, *, title: str, group: str = "way") -> Figure:
    """The change of the prediction, a point a text, for each value of `group`; the bar is the median.

    Args:
        frame: with the columns `change` and `group`.
        title: the finding.
    Raises:
        ShowError: a column is missing, or there are no rows.
    """
    require(frame, (group, "change"))
    names = list(frame[group].unique())
    fig, axes = plt.subplots(figsize=(8, 0.7 * len(names) + 1.3))
    look = {"hue": group, "hue_order": names, "palette": "colorblind", "legend": False, "order": names}
    sns.stripplot(frame, x="change", y=group, ax=axes, size=4, alpha=0.5, jitter=0.25, **look)
    medians = frame.groupby(group)["change"].median()
    for place, name in enumerate(names):
        axes.plot([medians[name]] * 2, [place - 0.35, place + 0.35], color="black", linewidth=2.5, zorder=5)
    axes.set(xlabel="change of the probability (bar: median)", ylabel="", title=title, xlim=(-0.02, 1.02))
    return fig


@theme()
def before_and_after(
    before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor], tokens: Sequence[str], *, title: str
) -> Figure:
    """Maps of the same heads over one text, as the model has them (top) and as they are now (bottom).

    Args:
        before, after: name to (T, T), with the same names.
        tokens: T words.
        title: the finding.
    Raises:
        ShowError: names or shapes do not fit.
    """
    size = (len(tokens), len(tokens))
    if list(before) != list(after) or any(tuple(one.shape) != size for one in (*before.values(), *after.values())):
        raise ShowError(f"before has heads {list(before)}, after {list(after)}; {len(tokens)} tokens need maps of shape {size}")
    side = min(2 + 0.17 * len(tokens), 6)
    fig, axes = plt.subplots(2, len(before), figsize=(side * len(before) + 0.8, 2 * side + 0.6), squeeze=False)
    for row, (when, maps) in enumerate((("before", before), ("after", after))):
        for at, (name, weights) in enumerate(maps.items()):
            image = _map(axes[row, at], weights, tokens)
            axes[row, at].set_title(f"{name}, {when}", fontsize="small")
    fig.suptitle(title, x=0.01, ha="left", fontsize="medium")
    fig.colorbar(image, ax=axes, label="attention weight", shrink=0.5)
    return fig


def _map(axes: Axes, weights: torch.Tensor, tokens: Sequence[str]) -> plt.cm.ScalarMappable:
    image = axes.imshow(weights.detach().cpu().numpy(), cmap=WEIGHTS, vmin=0, vmax=1)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize="xx-small")
    axes.set_yticks(range(len(tokens)), tokens, fontsize="xx-small")
    axes.tick_params(length=0)
    axes.grid(False)
    return image


WAYS = ("exchange the two heads", "attention only", "attention, values fitted on this text", "attention, values fitted on texts")


class HeadMover:
    """What `move_between_heads` returns: menus for layer, heads and way, the maps before and after, and the prediction.

    Attributes:
        menus: "layer", "source", "target" and "way", drop-downs that the keyboard reaches.
        status, picture: HTML widgets that follow them.
        box: all of them together.
    """

    def __init__(self, classifier: EncoderClassifier, text: str, texts: Sequence[str], start: tuple[int, int, int]):
        self.classifier, self.text, self.texts = classifier, text, list(texts)
        encoder = classifier.encoder
        self._maps = encoder.attend([text])
        if len(self._maps.tokens[0]) > _LONGEST:
            raise ShowError(f"the text has {len(self._maps.tokens[0])} tokens; choose one of at most {_LONGEST}")
        options = {
            "layer": range(encoder.n_layers),
            "source": range(encoder.n_heads),
            "target": range(encoder.n_heads),
            "way": WAYS,
        }
        values = dict(zip(options, (*start, WAYS[0]), strict=True))
        labels = {"layer": "layer", "source": "head A", "target": "head B", "way": "move"}
        self.menus = {
            name: widgets.Dropdown(options=list(options[name]), value=values[name], description=labels[name]) for name in options
        }
        for menu in self.menus.values():
            menu.observe(lambda change: self.refresh(), "value")
        self.status, self.picture = widgets.HTML(), widgets.HTML()
        self.box = widgets.VBox([widgets.HBox(list(self.menus.values())[:3]), self.menus["way"], self.status, self.picture])
        self.refresh()

    def _ipython_display_(self) -> None:
        display(self.box)

    def changes(self) -> dict[Head, HeadWeights]:
        """The weights that the menus ask for.

        Raises:
            AnalysisError, ModelError: head A is head B.
        """
        layer, source, target = (self.menus[name].value for name in ("layer", "source", "target"))
        encoder, way = self.classifier.encoder, self.menus["way"].value
        if way == WAYS[0]:
            return exchanged(encoder.model, layer, source, target)
        if way == WAYS[1]:
            giver, taker = (read_head(encoder.model, layer, head) for head in (source, target))
            return {(layer, target): taker.attending_like(giver)}
        texts, ridge = ([self.text], 0.0) if way == WAYS[2] else (self.texts, 1e-3)
        return refitted(encoder, texts, layer, source, [target], ridge=ridge)

    def refresh(self) -> None:
        """Move what the menus say, and show it; head A with itself is answered in words."""
        layer, source, target = (self.menus[name].value for name in ("layer", "source", "target"))
        if source == target:
            self.status.value = _said("Head A and head B are the same head: choose two.")
            return
        changes = self.changes()
        moved = prediction_change(self.classifier, [self.text], changes).iloc[0]
        with use_heads(self.classifier.encoder.model, changes):
            now = self.classifier.encoder.attend([self.text])
        named = {f"A = {layer}-{source}": source, f"B = {layer}-{target}": target}
        before, after = ({name: maps.attention[0, layer, head] for name, head in named.items()} for maps in (self._maps, now))
        fig = before_and_after(before, after, self._maps.tokens[0], title=self.menus["way"].value)
        told = f"p = {moved['before']:.3f} before, {moved['after']:.3f} after: a change of {moved['change']:.3f}"
        self.picture.value = figure_html(fig, f"Maps of heads {source} and {target} of layer {layer}, before and after. {told}.")
        plt.close(fig)
        self.status.value = _said(f"{told} (probability of the class that was predicted)")


def _said(text: str) -> str:
    return f'<div role="status" style="background:#fff;color:#000;padding:4px 8px;font-size:15px">{escape(text)}</div>'


def move_between_heads(
    classifier: EncoderClassifier, text: str, texts: Sequence[str], *, start: tuple[int, int, int] = (1, 8, 5)
) -> HeadMover:
    """Give head B of a layer the attention of head A, or exchange the two, and see maps and prediction.

    Args:
        text: of at most 40 tokens.
        texts: what values are fitted on where the menu says so.
        start: layer, head A and head B at first.
    Raises:
        ShowError: the text is too long.
    """
    return HeadMover(classifier, text, texts, start)
