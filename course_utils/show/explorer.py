"""An explorer of heads that runs in the page alone: no kernel, no network, the same in JupyterLab, Colab and exported HTML."""

import base64
import json
from html import escape
from importlib import resources

from IPython.display import HTML

from course_utils.errors import ShowError
from course_utils.models import AttentionMaps
from course_utils.show.colours import weight_colours
from course_utils.show.single import chosen

LONGEST = 64
MOST_BYTES = 3_000_000

_SCALE = 10_000
_TALLEST = 860


def explore_heads(maps: AttentionMaps, *, layer: int = 0, head: int = 0, position: int = 0, title: str | None = None) -> HTML:
    """Choose text, layer, head and position, and see the head's map and where that position looks.

    Every control is reached with Tab and moved with the arrow keys; a sentence, announced by screen readers, says what the figure
    shows. Weights are kept to 4 decimals. Size: 2.7 bytes a weight, about 80 kB for 6 layers x 12 heads x 20 tokens.

    Args:
        maps: B texts of at most 64 tokens.
        layer, head, position: shown first; `position` counts tokens, special ones included.
        title: printed above, and the frame's name for those who cannot see it.
    Raises:
        ShowError: an unknown layer, head or position, or texts too long or too many for a page.
    """
    longest = int(maps.lengths.max())
    if longest > LONGEST:
        raise ShowError(
            f"the longest text has {longest} tokens; squares are too small to see above {LONGEST}: choose shorter texts"
        )
    first = maps.one(0)
    chosen([layer], maps.n_layers, "layer")
    chosen([head], maps.n_heads, "head")
    chosen([position], len(first.tokens[0]), "position")
    data = {
        "texts": [_text(maps.one(number)) for number in range(len(maps))],
        "layers": maps.n_layers,
        "heads": maps.n_heads,
        "layer": layer,
        "head": head,
        "position": position,
        "scale": _SCALE,
        "colours": weight_colours(),
    }
    template = resources.files("course_utils.show").joinpath("explorer.html").read_text(encoding="utf-8")
    page = escape(template.replace("EXPLORER_DATA", json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")))
    if len(page) > MOST_BYTES:
        raise ShowError(
            f"{len(maps)} texts would add {len(page) / 1e6:.1f} MB to the notebook, above {MOST_BYTES / 1e6:g}; show fewer"
        )
    name = escape(title or "Where does each head look?")
    height = min(max(310 + max(12, min(26, 420 // longest)) * longest, 150 + 18 * longest), _TALLEST)
    box = "background:#fff;color:#000;border:1px solid #ccc;border-radius:6px;padding:10px 14px;margin:4px 0"
    frame = f"width:100%;height:{height}px;border:0;background:#fff;color-scheme:light"
    return HTML(
        f'<div class="head-explorer" style="{box};font-family:sans-serif;font-size:14px"><div style="font-weight:bold">{name}</div>'
        f'<div style="font-size:12px">{escape(_told(first, layer, head, position))} '
        "Choose another head below; if nothing is drawn, run the cell or trust the notebook.</div>"
        f'<iframe title="{name}" sandbox="allow-scripts" style="{frame}" srcdoc="{page}"></iframe></div>'
    )


def _text(maps: AttentionMaps) -> dict:
    weights = (maps.attention[0].double() * _SCALE).round().cpu().numpy().astype("<u2")
    return {"tokens": list(maps.tokens[0]), "weights": base64.b64encode(weights.tobytes()).decode("ascii")}


def _told(maps: AttentionMaps, layer: int, head: int, position: int) -> str:
    weight, key = maps.attention[0, layer, head, position].max(-1)
    looker, seen = maps.tokens[0][position], maps.tokens[0][int(key)]
    return f"Shown first: in layer {layer}, head {head}, “{looker}” looks most at “{seen}” ({float(weight):.2f})."
