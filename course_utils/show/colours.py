"""The colours of weights and the marks of lines, the same in every figure, readable without colour.

For a weight white is none, then yellow to dark blue (cividis).
"""

import numpy as np
import seaborn as sns
from matplotlib.colors import LinearSegmentedColormap, to_hex

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # of the lines and points of one figure, at most 8 kinds
_STEPS = 64
_WHITE_UNTIL = 0.15

_shares = np.linspace(0, 1, _STEPS)
_faded = np.minimum(_shares / _WHITE_UNTIL, 1)[:, None]
_cividis = sns.color_palette("cividis_r", as_cmap=True)(_shares)[:, :3]

WEIGHTS = LinearSegmentedColormap.from_list("weights", _faded * _cividis + 1 - _faded)


def weight_colours() -> list[str]:
    """Sixty-four hexadecimal colours for weights from 0 to 1."""
    return [to_hex(colour) for colour in WEIGHTS(_shares)]
