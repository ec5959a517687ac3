"""The one way a figure reaches a reader: a sharp, small PNG on white, with a text that says what it shows."""

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from IPython.display import display
from matplotlib import font_manager
from matplotlib.figure import Figure
from PIL import Image

from course_utils.errors import ShowError

_DPI, _CSS_PIXELS_PER_INCH = 144, 96
_FONTS = ("DejaVu Sans", "Noto Sans CJK SC")
_LARGEST_COLOUR_ERROR = 24


@contextmanager
def theme() -> Iterator[None]:
    """The style of every figure of the course, inside a `with` block or as the decorator `@theme()`; undone at its end."""
    installed = [font for font in _FONTS if font in font_manager.get_font_names()]
    settings = {
        "font.family": installed,
        "figure.facecolor": "white",
        "axes.facecolor": "white",
        "savefig.facecolor": "white",
        "axes.titlelocation": "left",
        "axes.titlesize": "medium",
        "axes.unicode_minus": False,
        "text.parse_math": False,  # tokens are shown as they are: "$5" is no formula
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
    }
    style = sns.axes_style("whitegrid", {"axes.spines.right": False, "axes.spines.top": False})
    with plt.rc_context({**style, **sns.plotting_context("notebook", font_scale=0.9), **settings}):
        yield


def figure_png(fig: Figure) -> bytes:
    """`fig` as an opaque PNG of 144 dots an inch; in at most 256 colours where that cannot be seen."""
    buffer = io.BytesIO()
    with theme():
        fig.savefig(buffer, format="png", dpi=_DPI, facecolor="white", bbox_inches="tight", pad_inches=0.1)
    picture = Image.open(buffer).convert("RGB")
    reduced = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    error = np.abs(np.asarray(picture, dtype=int) - np.asarray(reduced.convert("RGB"), dtype=int)).max()
    packed = io.BytesIO()
    (reduced if error <= _LARGEST_COLOUR_ERROR else picture).save(packed, format="png", optimize=True)
    return packed.getvalue()


def figure_html(fig: Figure, alt: str) -> str:
    """`fig` as an `<img>` element that carries its own data, no wider than the page.

    Args:
        alt: what a sighted reader learns from the figure; it is escaped.
    Raises:
        ShowError: `alt` is not a text, or is empty.
    """
    if not isinstance(alt, str) or not alt.strip():
        raise ShowError(f"alt is {alt!r}; write one or two sentences that say what a reader learns from the figure")
    png = figure_png(fig)
    width = Image.open(io.BytesIO(png)).width * _CSS_PIXELS_PER_INCH // _DPI
    data = base64.b64encode(png).decode("ascii")
    style = "max-width:100%;height:auto;background:#fff"
    return f'<img alt="{escape(alt.strip())}" width="{width}" style="{style}" src="data:image/png;base64,{data}">'


def show(fig: Figure, alt: str) -> None:
    """Display a figure in a notebook, and close it so that it is displayed once.

    Args:
        fig: what a function of `course_utils.show.plots` returns, or any matplotlib figure.
        alt: what a sighted reader learns from the figure, for those who cannot see it.
    Raises:
        ShowError: `fig` is not a figure, or `alt` is empty.
    """
    if not isinstance(fig, Figure):
        raise ShowError(
            f"show needs a matplotlib Figure, got {type(fig).__name__}; pass ax.figure or the result of a plot function"
        )
    html = figure_html(fig, alt)
    plt.close(fig)
    display({"text/html": html, "text/plain": alt.strip()}, raw=True)
