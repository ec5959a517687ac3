"""BertViz views (Vig 2019, "A Multiscale Visualization of Attention in the Transformer Model") that need no network.

BertViz asks a CDN for d3, jQuery and require.js. Here a view is a page of its own, in a frame that may run scripts and nothing
else, with d3 and jQuery copied into it from installed packages. The same output works in JupyterLab, Colab and exported HTML. The
frame is white in every theme, and what it shows is also told as a table.
"""

import json
import math
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import metadata

import torch
from IPython.display import HTML

from course_utils.errors import ShowError
from course_utils.models import AttentionMaps, Encoder
from course_utils.models.queries import neurons
from course_utils.show.single import chosen, single_text

MOST_LINES = 60_000
MOST_BYTES = 3_000_000

_DECIMALS = 3
_TALLEST = 860
_SCRIPTS = (("mpld3", "mpld3/js/d3.v5.min.js"), ("XStatic-jQuery", "xstatic/pkg/jquery/data/jquery.min.js"))
_REQUIRE = (
    "var require = {config() {}};"
    "function requirejs(names, start) {start(...names.map(name => ({jquery: window.jQuery, d3: window.d3})[name]));}"
)
_CDN = re.compile(r'<script src="https?://[^"]*"></script>')
_PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    "<style>html{{background:#fff;color:#000;color-scheme:light}}body{{margin:8px}}select{{font-size:14px}}</style>"
    "<script>{scripts}</script></head><body>{view}{after}</body></html>"
)


def head_view(
    maps: AttentionMaps,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    title: str | None = None,
) -> HTML:
    """BertViz head view: the tokens twice, a line for each weight, a colour for each head; the layer is chosen in the frame.

    Point at a token to see only its lines; click a square to switch a head off or on, double-click to see it alone.
    Size: about 0.35 MB, and 0.2 MB more for 6 layers x 12 heads x 20 tokens.

    Args:
        maps: of one text; take `maps.one(row)` from a batch.
        layers: which to offer, the first one shown first; all unless told.
        heads: which are switched on at first; all unless told.
        title: read to those who cannot see the frame, and printed above it.
    Raises:
        ShowError: more than one text, an unknown layer or head, or so many tokens that a browser would hang.
    """
    from bertviz import head_view as draw

    attention, tokens = single_text(maps)
    layers, heads = chosen(layers, maps.n_layers, "layer"), chosen(heads, maps.n_heads, "head")
    _check_lines(len(tokens), maps.n_heads, f"{maps.n_heads} heads")
    html = draw(
        attention=_for_bertviz(attention), tokens=tokens, include_layers=layers, layer=layers[0], heads=heads, html_action="return"
    )
    advice = "Point at a token to see its lines only; click a square to switch a head, double-click to see it alone."
    view = _compact(html.data, "const params = ")
    return _frame(
        view, _summary(attention, tokens, layers), title or _default("Head view", tokens), advice, 22.5 * len(tokens) + 80
    )


def model_view(
    maps: AttentionMaps,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    title: str | None = None,
) -> HTML:
    """BertViz model view: every chosen head as a thumbnail, layers from top to bottom; click one to enlarge it.

    Size: about 0.35 MB, and 0.2 MB more for 6 layers x 12 heads x 20 tokens.

    Args:
        maps: of one text; take `maps.one(row)` from a batch.
        layers, heads: which to draw; all unless told.
        title: read to those who cannot see the frame, and printed above it.
    Raises:
        ShowError: more than one text, an unknown layer or head, or so many lines that a browser would hang.
    """
    from bertviz import model_view as draw

    attention, tokens = single_text(maps)
    layers, heads = chosen(layers, maps.n_layers, "layer"), chosen(heads, maps.n_heads, "head")
    _check_lines(
        len(tokens), len(layers) * len(heads), f"{len(layers)} layers x {len(heads)} heads", ", or choose fewer layers or heads"
    )
    html = draw(
        attention=_for_bertviz(attention),
        tokens=tokens,
        include_layers=layers,
        include_heads=heads,
        display_mode="light",
        html_action="return",
    )
    thumbnail = 84 / maps.n_heads * len(tokens) + 10
    height = max(len(layers) * thumbnail + 38, 18 * len(tokens) + 55) + 40
    view, title = _compact(html.data, "const params = "), title or _default("Model view", tokens)
    return _frame(view, _summary(attention, tokens, layers, heads), title, "Click a head to enlarge it.", height)


def neuron_view(
    encoder: Encoder,
    text: str,
    *,
    layers: Sequence[int] | None = None,
    head: int = 0,
    title: str | None = None,
) -> HTML:
    """BertViz neuron view: how query and key vectors make the weights; click the plus sign beside a token to open it.

    Queries and keys are read from the encoder itself, so the weights are those of every other figure.
    Size: about 0.35 MB, and 0.2 MB more for each 2 layers x 12 heads x 20 tokens x 32 neurons.

    Args:
        encoder: of the BERT, RoBERTa, ELECTRA or DistilBERT family.
        text: one text.
        layers: which to offer, the first one shown first; all unless told.
        head: shown first.
        title: read to those who cannot see the frame, and printed above it.
    Raises:
        ModelError: a family without separate queries and keys.
        ShowError: an unknown layer or head, or so many tokens or numbers that a browser would hang.
    """
    from bertviz.neuron_view import show

    layers, head = chosen(layers, encoder.n_layers, "layer"), chosen([head], encoder.n_heads, "head")[0]
    length = int(encoder.pieces([text]).lengths[0])
    _check_lines(length, 6, "6 lines and boxes a pair")
    maps, queries, keys = neurons(encoder, text)
    attention, tokens = single_text(maps)
    numbers = [
        {"attn": _rounded(attention[layer])[None], "queries": _rounded(queries[layer])[None], "keys": _rounded(keys[layer])[None]}
        for layer in layers
    ]
    html = show(_Recorded(numbers), "bert", encoder.tokenizer, text, display_mode="light", head=head, html_action="return")
    view, title = _compact(html.data, "window.bertviz_params = "), title or _default("Neuron view", tokens)
    advice = "Point at a token to see where it looks; click the plus sign beside it to see the products of query and key."
    names = f'<script>document.querySelectorAll("#layer option").forEach((option, at) => option.text = {layers}[at])</script>'
    return _frame(view, _summary(attention, tokens, layers), title, advice, 26 * len(tokens) + 160, names)


class _Recorded:
    """What the neuron view takes for its model: answers with what the encoder computed."""

    def __init__(self, layers: list[dict[str, torch.Tensor]]):
        self.layers = layers

    def eval(self) -> None:
        """Part of what the view expects of a model; nothing to switch here."""

    def __call__(self, ids: torch.Tensor) -> tuple[list[dict[str, torch.Tensor]]]:
        return (self.layers,)


def _check_lines(length: int, lines: int, named: str, other: str = "") -> None:
    limit = math.isqrt(MOST_LINES // lines)
    if length > limit:
        raise ShowError(
            f"{length} tokens with {named} are {lines * length**2:,} lines, and a browser becomes slow above {MOST_LINES:,}: "
            f"use a text of at most {limit} tokens{other}"
        )


def _rounded(numbers: torch.Tensor) -> torch.Tensor:
    """In float64, so that they are written with no more than `_DECIMALS` decimals."""
    return torch.round(numbers.detach().cpu().double(), decimals=_DECIMALS)


def _for_bertviz(attention: torch.Tensor) -> list[torch.Tensor]:
    return list(_rounded(attention)[:, None])


def _compact(html: str, marker: str) -> str:
    """BertViz's page without its CDN, its data written once, without spaces, and unable to end the script it stands in."""
    before, _, rest = _CDN.sub("", html).partition(marker)
    data, end = json.JSONDecoder().raw_decode(rest)
    after = rest[end:].partition("\n")[2]
    packed = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f"{before}{marker}{packed};\n{after}"


@cache
def _scripts() -> str:
    try:
        paths = [metadata.distribution(package).locate_file(path) for package, path in _SCRIPTS]
        sources = [path.read_text(encoding="utf-8") for path in paths]
    except (metadata.PackageNotFoundError, OSError) as error:
        raise ShowError(
            f"BertViz needs d3 and jQuery from installed packages: pip install mpld3 XStatic-jQuery ({error})"
        ) from error
    return "\n".join((*(source.replace("</script", "<\\/script") for source in sources), _REQUIRE))


def _default(view: str, tokens: list[str]) -> str:
    return f"{view}: {' '.join(tokens)}"


def _frame(view: str, summary: str, title: str, advice: str, height: float, after: str = "") -> HTML:
    name = escape(title)
    page = escape(_PAGE.format(title=name, scripts=_scripts(), view=view, after=after))
    size = len(page.encode())
    if size > MOST_BYTES:
        raise ShowError(f"the view would add {size / 1e6:.1f} MB to the notebook, above {MOST_BYTES / 1e6:g}: choose fewer layers")
    box = "background:#fff;color:#000;border:1px solid #ccc;border-radius:6px;padding:10px 14px;margin:4px 0"
    frame = f"width:100%;height:{min(round(height), _TALLEST)}px;border:0;background:#fff;color-scheme:light"
    return HTML(
        f'<div class="bertviz-view" style="{box};font-family:sans-serif;font-size:14px">'
        f'<div style="font-weight:bold">{name}</div><div style="font-size:12px">{advice} '
        "If nothing is drawn below, run the cell or trust the notebook.</div>"
        f'<iframe title="{name}" sandbox="allow-scripts" style="{frame}" srcdoc="{page}"></iframe>{summary}</div>'
    )


def _summary(attention: torch.Tensor, tokens: list[str], layers: list[int], heads: list[int] | None = None) -> str:
    """The text alternative: for each head, the token it looks at most on average."""
    received = attention.mean(2)  # (L, N, T)
    weight, position = received.max(-1)
    heads = list(range(attention.shape[1])) if heads is None else heads
    row = '<tr style="background:#fff;color:#000">'
    lines = "".join(
        f'{row}<th scope="row">{layer}-{head}</th><td>{escape(tokens[int(position[layer, head])])}</td>'
        f"<td>{float(weight[layer, head]):.2f}</td></tr>"
        for layer in layers
        for head in heads
    )
    columns = "".join(f'<th scope="col">{name}</th>' for name in ("head", "looks most at", "share of its attention"))
    return (
        '<details style="font-size:12px"><summary style="cursor:pointer">The same in words: where each head looks most, '
        'averaged over all tokens</summary><div tabindex="0" role="region" aria-label="Where each head looks most" '
        'style="max-height:20em;overflow:auto"><table style="font-size:inherit;background:#fff;color:#000">'
        f"<thead>{row}{columns}</tr></thead><tbody>{lines}</tbody></table></div></details>"
    )
