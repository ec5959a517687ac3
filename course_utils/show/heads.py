"""Figures of Transformer heads: their maps, their tree, and what flows through them. Show them with `show(fig, alt=...)`.

Every figure is given its finding as `title` by the lesson that measured it. Numbers by layer: `course_utils.show.layers`.
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from scipy.cluster import hierarchy

from course_utils.analysis.clustering import HeadTree
from course_utils.errors import ShowError
from course_utils.models import AttentionMaps
from course_utils.show.colours import WEIGHTS
from course_utils.show.display import theme
from course_utils.show.single import chosen, single_text

_GAP = 0.12
_NAME = {
    "fontsize": "xx-small",
    "ha": "right",
    "va": "bottom",
    "bbox": {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 0.8},
}


@theme()
def head_grid(maps: AttentionMaps, *, title: str, layers: Sequence[int] | None = None) -> Figure:
    """Every head of one text as a small map: layers from top to bottom, heads from left to right; rows look at columns.

    Args:
        maps: of one text; take `maps.one(row)` from a batch.
        layers: which to draw; all unless told.
        title: the finding.
    Raises:
        ShowError: more than one text, or an unknown layer.
    """
    attention, _ = single_text(maps)
    layers = chosen(layers, maps.n_layers, "layer")
    names = [[(layer, head) for head in range(maps.n_heads)] for layer in layers]
    fig, axes = plt.subplots(figsize=(0.75 * maps.n_heads + 1.6, 0.75 * len(layers) + 1.2))
    image = _mosaic(axes, attention, names)
    axes.set_xticks(np.arange(maps.n_heads) + 0.5, range(maps.n_heads))
    axes.set_yticks(np.arange(len(layers)) + 0.5, layers)
    axes.set(xlabel="head", ylabel="layer", title=title)
    fig.colorbar(image, ax=axes, label="attention weight", shrink=0.7)
    return fig


@theme()
def head_map(maps: AttentionMaps, layer: int, head: int, *, title: str) -> Figure:
    """One head over one text: the token of a row looks at the tokens of the columns.

    Args:
        maps: of one text; take `maps.one(row)` from a batch.
        title: the finding.
    Raises:
        ShowError: more than one text, or an unknown layer or head.
    """
    attention, tokens = single_text(maps)
    chosen([layer], maps.n_layers, "layer"), chosen([head], maps.n_heads, "head")
    side = min(2.2 + 0.24 * len(tokens), 11)
    fig, axes = plt.subplots(figsize=(side + 1, side))
    image = axes.imshow(attention[layer, head].detach().cpu().numpy(), cmap=WEIGHTS, vmin=0, vmax=1)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90)
    axes.set_yticks(range(len(tokens)), tokens)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("bottom")
    axes.tick_params(length=0)
    axes.grid(False)
    axes.set(xlabel=f"looked at (layer {layer}, head {head})", ylabel="looking")
    axes.set_title(title, pad=10)
    fig.colorbar(image, ax=axes, label="attention weight", shrink=0.7)
    return fig


@theme()
def dendrogram(tree: HeadTree, maps: AttentionMaps, *, title: str) -> Figure:
    """The tree of heads, and below it their maps of one text in the tree's order, from left to right and top to bottom.

    The colour under a name and around a map is its cluster; a name is layer-head.

    Args:
        tree: of the same model's heads, as `analysis.clustering.cluster` gives.
        maps: of one text; take `maps.one(row)` from a batch.
        title: the finding.
    Raises:
        ShowError: more than one text, or another number of heads.
    """
    attention, _ = single_text(maps)
    count = maps.n_layers * maps.n_heads
    if len(tree.order) != count:
        raise ShowError(f"the tree has {len(tree.order)} heads, the maps have {count}; use the same model for both")
    names = [(int(leaf) // maps.n_heads, int(leaf) % maps.n_heads) for leaf in tree.order]
    labels = [int(tree.labels[leaf]) for leaf in tree.order]
    colours = _cluster_colours(labels)
    width = 2 * maps.n_heads
    rows = [names[start : start + width] for start in range(0, count, width)]
    size = (max(8, 0.17 * count + 1), 3.2 + len(rows) * 0.62)
    fig, (top, bottom) = plt.subplots(2, 1, figsize=size, height_ratios=(3, len(rows) * 0.6))
    hierarchy.dendrogram(tree.linkage, ax=top, labels=None, color_threshold=0, above_threshold_color="black")
    top.set_xticks(np.arange(count) * 10 + 5, [f"{layer}-{head}" for layer, head in names], rotation=90, fontsize="xx-small")
    for tick, label in zip(top.get_xticklabels(), labels, strict=True):
        tick.set_bbox({"facecolor": (*to_rgba(colours[label])[:3], 0.5), "edgecolor": "none", "pad": 1})
    top.grid(axis="x", visible=False)
    top.set(ylabel="Jensen-Shannon distance (nats)", title=title)
    _mosaic(bottom, attention, rows)
    for at, label in enumerate(labels):
        corner = (at % width + _GAP / 2, at // width + _GAP / 2)
        bottom.add_patch(plt.Rectangle(corner, 1 - _GAP, 1 - _GAP, fill=False, edgecolor=colours[label], linewidth=2.5))
    for at, (layer, head) in enumerate(names):
        bottom.text(at % width + 1 - _GAP, at // width + 1 - _GAP, f"{layer}-{head}", **_NAME)
    bottom.set_xticks([])
    bottom.set_yticks([])
    return fig


@theme()
def flow_graph(
    weights: torch.Tensor | np.ndarray, tokens: Sequence[str], *, title: str, smallest: float = 0.05, label: str = "share"
) -> Figure:
    """What each token takes from the layer below: tokens from left to right, the input at the bottom, the last layer on top.

    Args:
        weights: (L, T, T), not negative; `weights[l, i, j]` is what token i takes from token j in layer l (from 0): attention
            averaged over heads, rollout's step, or the amount that flows.
        tokens: T words.
        smallest: links below this share of the largest are left out.
        label: what a link's width stands for.
        title: the finding.
    Raises:
        ShowError: shapes do not fit, or no weight is positive.
    """
    weights = np.asarray(torch.as_tensor(weights).detach().cpu(), dtype=float)
    if weights.ndim != 3 or weights.shape[1:] != (len(tokens), len(tokens)):
        raise ShowError(f"weights have shape {weights.shape}; {len(tokens)} tokens need (layers, {len(tokens)}, {len(tokens)})")
    largest = weights.max()
    if not np.isfinite(weights).all() or weights.min() < 0 or largest == 0:
        raise ShowError(f"weights lie between {weights.min():.3g} and {largest:.3g}; they must not be negative, nor all 0")
    depth = len(weights)
    layer, query, key = np.nonzero(weights >= smallest * largest)
    share = weights[layer, query, key] / largest
    order = share.argsort()
    links = np.stack([np.stack([key, layer], -1), np.stack([query, layer + 1], -1)], 1)[order]
    fig, axes = plt.subplots(figsize=(max(6, 0.5 * len(tokens) + 1.5), 0.9 * depth + 1.6))
    lines = LineCollection(links, array=share[order] * largest, cmap=WEIGHTS, linewidths=0.4 + 5 * share[order], zorder=1)
    lines.set_clim(0, largest)
    axes.add_collection(lines)
    columns, rows = np.meshgrid(range(len(tokens)), range(depth + 1))
    axes.scatter(columns, rows, s=28, color="white", edgecolor="black", zorder=2)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90)
    axes.set_yticks(range(depth + 1), ["input", *(f"after layer {number}" for number in range(depth))])
    axes.grid(False)
    sns.despine(ax=axes, left=True, bottom=True)
    axes.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(-0.3, depth + 0.3), title=title)
    fig.colorbar(lines, ax=axes, label=label, shrink=0.7)
    return fig


def _mosaic(axes: Axes, attention: torch.Tensor, names: Sequence[Sequence[tuple[int, int]]]) -> plt.cm.ScalarMappable:
    """Small maps on a grid of unit squares, those of `names` in its rows; a shared scale from 0 to 1."""
    attention = attention.detach().cpu().numpy()
    for row, line in enumerate(names):
        for at, (layer, head) in enumerate(line):
            extent = (at + _GAP / 2, at + 1 - _GAP / 2, row + 1 - _GAP / 2, row + _GAP / 2)
            image = axes.imshow(attention[layer, head], cmap=WEIGHTS, vmin=0, vmax=1, extent=extent, interpolation="nearest")
            axes.add_patch(
                plt.Rectangle((extent[0], extent[3]), 1 - _GAP, 1 - _GAP, fill=False, edgecolor="#999999", linewidth=0.6)
            )
    axes.set(xlim=(0, max(len(line) for line in names)), ylim=(len(names), 0), aspect="equal")
    axes.grid(False)
    sns.despine(ax=axes, left=True, bottom=True)
    return image


def _cluster_colours(labels: Sequence[int]) -> dict[int, str]:
    """Clusters of several heads get colours of their own; heads alone, and clusters beyond the palette, are grey."""
    palette = sns.color_palette("colorblind").as_hex()
    large = [label for label in dict.fromkeys(labels) if labels.count(label) > 1]
    large = sorted(large, key=lambda label: -labels.count(label))[: len(palette) - 1]
    palette = [colour for colour in palette if colour != "#949494"]
    return dict.fromkeys(labels, "#bbbbbb") | dict(zip(large, palette, strict=False))
