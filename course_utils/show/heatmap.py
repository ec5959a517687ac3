"""Token heat maps as HTML: each word on the colour of its weight, a bar under the heavy ones, and the same as a table.

The card brings its own white background, so that it reads the same in JupyterLab, Colab, nbconvert and dark themes. Colour is
never alone: bars carry the weights too, and a folded table holds every number for those who listen to the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import seaborn as sns
from IPython.display import HTML

from course_utils.errors import ShowError
from course_utils.show.colours import WEIGHTS

_SIGNED = sns.color_palette("vlag", as_cmap=True)
_BAR_EM = 2.4
_CARD = (
    "background:#fff;color:#000;border:1px solid #ccc;border-radius:6px;padding:10px 14px;margin:4px 0;"
    "font-family:'DejaVu Sans','Noto Sans CJK SC',sans-serif;font-size:14px;line-height:1.5;max-width:100%;box-sizing:border-box"
)


_WORD = "display:inline-block;vertical-align:top;line-height:1.4;padding:0 .15em;margin-bottom:.2em;border-radius:3px;"
_RAMP = "display:inline-block;width:9em;height:.9em;vertical-align:middle;border:1px solid #666;background:linear-gradient"


@dataclass(frozen=True)
class _Scale:
    """What the colours of one card mean: the weight of the strongest colour, and whether 0 is the middle or the end."""

    limit: float
    signed: bool

    def share(self, weight: float) -> float:
        """In [0, 1], or [-1, 1] where signed."""
        return weight / self.limit if self.limit else 0.0

    def colour(self, share: float) -> tuple[float, float, float]:
        return (_SIGNED(0.5 + share / 2) if self.signed else WEIGHTS(share))[:3]


def heatmap(
    tokens: Sequence[str],
    weights: Sequence[float] | Sequence[Sequence[float]] | np.ndarray,
    *,
    captions: Sequence[str] | str | None = None,
    title: str | None = None,
    signed: bool = False,
    limit: float | None = None,
    threshold: float = 0.1,
) -> HTML:
    """The tokens of one text, coloured by one or several rows of weights that share one scale.

    Weights run from white over yellow to dark blue (cividis); signed scores from blue over white to red (vlag), 0 in the middle.

    Args:
        tokens: T words; shown as text whatever they hold.
        weights: (T,) or (R, T), array or tensor, not negative unless `signed`.
        captions: one for each row; it stands above the row and heads its column in the table.
        title: what the reader should see in it.
        signed: scores that may be negative, such as gradients.
        limit: the size of the weight that gets the strongest colour; the largest one of all rows unless told.
        threshold: in (0, 1]; words of at least this share of `limit` get a bar whose length is the weight.
    Raises:
        ShowError: lengths differ, a weight is missing, negative without `signed`, or larger than `limit`.
    """
    tokens, rows, captions = _checked(tokens, weights, captions, signed)
    largest = float(np.abs(rows).max())
    if limit is not None and largest > limit * (1 + 1e-6):
        raise ShowError(f"the largest weight is {largest:.4g}, above limit={limit:g}; raise the limit or leave it out")
    if not 0 < threshold <= 1:
        raise ShowError(f"threshold is {threshold!r}; it is a share of the strongest colour, above 0 and at most 1")
    scale = _Scale(largest if limit is None else limit, signed)
    heading = f'<div style="font-weight:bold;margin-bottom:4px">{escape(title)}</div>' if title else ""
    strips = "".join(_strip(tokens, row, caption, scale, threshold) for row, caption in zip(rows, captions, strict=True))
    parts = (heading, strips, _legend(scale, threshold), _table(tokens, rows, captions, title))
    return HTML(f'<div class="token-heatmap" style="{_CARD}">{"".join(parts)}</div>')


def attention_pair(
    tokens: Sequence[str],
    attention: Sequence[float] | np.ndarray,
    other: Sequence[float] | np.ndarray,
    *,
    probabilities: tuple[float, float],
    jsd: float,
    class_name: str = "class 1",
    name: str = "another attention",
) -> HTML:
    """The model's attention above another one, each with its prediction (Jain & Wallace 2019, figure 1).

    Args:
        tokens: T words.
        attention, other: (T,) weights, each a distribution over the tokens.
        probabilities: of `class_name`, in [0, 1], under the first and the second.
        jsd: Jensen-Shannon divergence of the two in nats, in [0, ln 2].
        class_name: whose probability is given.
        name: what the second row is called.
    """
    first, second = probabilities
    captions = (f"the model's attention: p({class_name}) = {first:.3f}", f"{name}: p({class_name}) = {second:.3f}")
    title = f"The prediction moves by {abs(first - second):.3f}, the attention by {jsd:.3f} of at most {np.log(2):.3f} (JSD)"
    return heatmap(tokens, np.stack([_array(attention), _array(other)]), captions=captions, title=title)


def text_colour(background: Sequence[float]) -> str:
    """Black or white, whichever reads better on `background` (r, g, b in [0, 1]): always at least 4.5 : 1 (WCAG 2.2, 1.4.3)."""
    luminance = relative_luminance(background)
    return "#000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#fff"


def relative_luminance(colour: Sequence[float]) -> float:
    """In [0, 1], of r, g, b in [0, 1], as WCAG 2.2 defines it."""
    linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in colour]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def _array(weights: object) -> np.ndarray:
    if hasattr(weights, "detach"):
        weights = weights.detach().cpu()
    try:
        return np.asarray(weights, dtype=float)
    except (TypeError, ValueError) as error:
        raise ShowError(f"weights must be numbers in rows of equal length: {error}") from None


def _checked(tokens, weights, captions, signed) -> tuple[list[str], np.ndarray, list[str]]:
    if isinstance(tokens, str):
        raise ShowError("tokens is one string; pass the list of its words")
    tokens, rows = [str(token) for token in tokens], np.atleast_2d(_array(weights))
    if not tokens or rows.ndim != 2 or rows.shape[1] != len(tokens):
        raise ShowError(
            f"{len(tokens)} tokens but weights of shape {rows.shape}; each row needs one weight a token, without padding"
        )
    if not np.isfinite(rows).all():
        row, position = np.argwhere(~np.isfinite(rows))[0]
        raise ShowError(
            f"the weight of token {position} ({tokens[position]!r}) in row {row} is {rows[row, position]}; nothing to draw"
        )
    if not signed and rows.min() < 0:
        position = int(rows.min(0).argmin())
        raise ShowError(
            f"token {position} ({tokens[position]!r}) has the negative weight {rows.min():.4g}; use signed=True for scores"
        )
    if captions is None:
        captions = ["weight"] if len(rows) == 1 else [f"row {number + 1}" for number in range(len(rows))]
    captions = [captions] if isinstance(captions, str) else list(captions)
    if len(captions) != len(rows):
        raise ShowError(f"{len(captions)} captions for {len(rows)} rows of weights; give one a row")
    return tokens, rows, captions


def _css(colour: Sequence[float]) -> str:
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in colour)


def _visible(token: str) -> str:
    return escape(token) if token.strip() else "␣"


def _strip(tokens: list[str], row: np.ndarray, caption: str, scale: _Scale, threshold: float) -> str:
    heaviest = sorted(range(len(row)), key=lambda position: -abs(row[position]))[:3]
    summary = ", ".join(f"{tokens[position]} {row[position]:.3f}" for position in heaviest)
    label = escape(f"{caption}. {len(tokens)} tokens; the heaviest: {summary}. All weights are in the table below.")
    words = " ".join(_word(token, float(weight), scale, threshold) for token, weight in zip(tokens, row, strict=True))
    return (
        f'<div style="margin-top:4px">{escape(caption)}</div>'
        f'<div role="img" aria-label="{label}" dir="auto" style="line-height:1.9;overflow-wrap:anywhere">{words}</div>'
    )


def _word(token: str, weight: float, scale: _Scale, threshold: float) -> str:
    share = scale.share(weight)
    colour = scale.colour(share)
    marked = abs(share) >= threshold
    width = f"min-width:{_BAR_EM + 0.3:.1f}em;" if marked else ""
    bar = _bar(share) if marked else ""
    return (
        f'<span title="{weight:.4f}" style="{_WORD}{width}background:{_css(colour)};color:{text_colour(colour)}">'
        f"{_visible(token)}{bar}</span>"
    )


def _bar(share: float) -> str:
    fill = "background:#fff;border:1px solid #000" if share < 0 else "background:#000;box-shadow:0 0 0 1px #fff"
    length = f"width:{abs(share) * _BAR_EM:.2f}em"
    return f'<span class="bar" style="display:block;box-sizing:border-box;height:5px;{length};{fill};margin-bottom:2px"></span>'


def _legend(scale: _Scale, threshold: float) -> str:
    start = -1 if scale.signed else 0
    stops = ",".join(_css(scale.colour(float(share))) for share in np.linspace(start, 1, 9))
    ramp = f"{_RAMP}(90deg,{stops})"
    kind = (
        "solid bars are positive, hollow bars negative; their length is the size"
        if scale.signed
        else "the length of a bar is the weight"
    )
    low = f"{-scale.limit:.3g}" if scale.signed else "0"
    return (
        f'<div style="font-size:12px;margin-top:8px">{low} <span aria-hidden="true" style="{ramp}"></span> {scale.limit:.3g}; '
        f"{kind} (drawn from {threshold * scale.limit:.2g})</div>"
    )


def _table(tokens: list[str], rows: np.ndarray, captions: list[str], title: str | None) -> str:
    cell = "border:1px solid #ccc;padding:2px 8px;text-align:start;color:#000"
    line = '<tr style="background:#fff;color:#000">'
    heads = "".join(f'<th scope="col" style="{cell}">{escape(head)}</th>' for head in ("position", "token", *captions))
    body = "".join(
        f'{line}<td>{position}</td><th scope="row" dir="auto" style="text-align:start;padding:0 8px">{_visible(token)}</th>'
        + "".join(f"<td>{weight:.4f}</td>" for weight in weights)
        + "</tr>"
        for position, (token, weights) in enumerate(zip(tokens, rows.T, strict=True))
    )
    caption = escape(f"{title or 'Weights'}: all {len(tokens)} tokens in reading order")
    return (
        '<details style="font-size:12px;margin-top:4px"><summary style="cursor:pointer">The same as a table</summary>'
        '<div tabindex="0" role="region" aria-label="Table of weights" style="max-height:20em;overflow:auto">'
        '<table style="border-collapse:collapse;font-size:inherit;background:#fff;color:#000">'
        f'<caption style="text-align:start;color:#000">{caption}</caption>'
        f"<thead>{line}{heads}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )
