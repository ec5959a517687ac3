"""The exact adversary of three tokens, drawn: a triangle of all attentions, cut by the slab of those with the same prediction."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.analysis.adversary import exact_attention, logit_bounds
from course_utils.analysis.distances import jsd
from course_utils.errors import ShowError
from course_utils.show.display import theme

_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])
_LABEL_OFFSETS = ((0, -12, "center", "top"), (0, -12, "center", "top"), (-14, -2, "right", "top"))
_GRID = 200


@theme()
def slab(
    tokens: Sequence[str],
    attention: Sequence[float],
    token_logits: Sequence[float],
    eps: float = 0.01,
    *,
    title: str | None = None,
) -> Figure:
    """Why the exact adversary uses at most two tokens (lesson 08).

    Each point of the triangle is an attention over the three tokens; the slab holds those that change the probability by at
    most eps, its corners are the candidates, and the star is the one furthest from the model's attention (the dot).

    Args:
        tokens: 3 words.
        attention: (3,), the model's own, not negative, sum 1.
        token_logits: (3,), the log odds of class 1 at each token alone.
        eps: between 0 and 1, the allowed change of the probability; 0.1 and more can be seen well.
        title: the finding; by default the optimum in words and numbers.
    Raises:
        ShowError: not three tokens, or attention that is no distribution.
    """
    alpha, values = torch.as_tensor(attention, dtype=torch.float64), torch.as_tensor(token_logits, dtype=torch.float64)
    if not len(tokens) == len(alpha) == len(values) == 3:
        raise ShowError(f"the triangle is for 3 tokens; got {len(tokens)} tokens, {len(alpha)} weights, {len(values)} token logits")
    if not (alpha >= 0).all() or abs(float(alpha.sum()) - 1) > 1e-3:
        raise ShowError(f"attention is not negative and sums to 1, not {alpha.tolist()}")
    best = exact_attention(alpha[None], values[None], torch.ones(1, 3, dtype=torch.bool), eps)
    optimum, low, high = best.attention[0], *(float(wall) for wall in logit_bounds(alpha @ values, eps))
    corners = np.array(slab_corners(values.numpy(), low, high))
    fig, axes = plt.subplots(figsize=(7.5, 5.6))
    _divergence(axes, alpha)
    outline = corners @ _CORNERS
    centre = outline - outline.mean(0)
    outline = outline[np.argsort(np.arctan2(centre[:, 1], centre[:, 0]))]
    hollow = {"color": "white", "markeredgecolor": "black", "linestyle": "none", "clip_on": False}
    axes.fill(
        *outline.T, facecolor="none", edgecolor="black", hatch="///", linewidth=1.8, label=f"same prediction (within {eps:g})"
    )
    axes.plot(*outline.T, "s", markersize=8, **hollow, label="corners: the candidates")
    axes.plot(*(alpha.numpy() @ _CORNERS), "o", markersize=11, **hollow, label="the model's attention")
    star = {**hollow, "color": sns.color_palette("colorblind")[1], "markersize": 19}
    axes.plot(*(optimum.numpy() @ _CORNERS), "*", **star, label="the exact adversary")
    for token, value, corner, (right, up, across, along) in zip(tokens, values, _CORNERS, _LABEL_OFFSETS, strict=True):
        label = f"all on {token!r}\nlogit {value:+.1f}"
        axes.annotate(label, corner, xytext=(right, up), textcoords="offset points", ha=across, va=along)
    used = " and ".join(f"{weight:.2f} on {token!r}" for token, weight in zip(tokens, optimum.tolist(), strict=True) if weight > 0)
    axes.set_title(title or f"The furthest attention is a corner of the slab: {used} (JSD {float(best.jsd[0]):.2f})")
    axes.legend(loc="upper left", bbox_to_anchor=(0.78, 1), fontsize="small")
    axes.set_aspect("equal")
    axes.margins(0.1)
    axes.axis("off")
    return fig


def slab_corners(token_logits: np.ndarray, low: float, high: float) -> list[np.ndarray]:
    """The corners of all attentions q with `low <= q . token_logits <= high`: (T,) each, on one or two tokens (THEORY, section 3).

    Args:
        token_logits: (T,).
        low, high: the walls; either may be infinite.
    """
    values, units = np.asarray(token_logits, dtype=float), np.eye(len(token_logits))
    singles = [units[i] for i in range(len(values)) if low <= values[i] <= high]
    pairs = [
        ((values[j] - wall) * units[i] + (wall - values[i]) * units[j]) / (values[j] - values[i])
        for wall in {low, high}
        for i in np.flatnonzero(values < wall)
        for j in np.flatnonzero(values > wall)
        if np.isfinite(wall)
    ]
    return singles + pairs


def _divergence(axes: Axes, alpha: torch.Tensor) -> None:
    """The divergence from `alpha` over the triangle, as colour."""
    steps = torch.arange(_GRID + 1, dtype=torch.float64) / _GRID
    grid = torch.cartesian_prod(steps, steps)
    grid = grid[grid.sum(1) <= 1 + 1e-9]
    points = torch.column_stack([1 - grid.sum(1), grid]).clamp_min(0)
    levels = np.linspace(0, np.log(2), 12)
    colours = axes.tricontourf(*(points.numpy() @ _CORNERS).T, jsd(alpha, points).numpy(), levels=levels, cmap="cividis_r")
    bar = axes.figure.colorbar(colours, ax=axes, shrink=0.6, pad=0.02, format="%.2f")
    bar.set_label("JSD from the model's attention (nats)")
