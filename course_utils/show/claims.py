"""Claims of papers against our runs, as one figure: on which side of zero does the difference lie?"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from course_utils.errors import ShowError
from course_utils.show.display import theme

_STYLES = {"agrees": ("o", 0), "open": ("s", 7), "differs": ("X", 3)}  # marker, colour of seaborn's colorblind palette
_NEEDED = ("claim", "verdict", "relation", "difference", "low", "high", "lesson")


@theme()
def claims(table: pd.DataFrame) -> Figure:
    """The margin of each tested claim, above 0 where it holds, with its 95 % interval over seeds.

    Args:
        table: as from `reproduce.claims.verdicts`; claims that were not tested are left out.
    Raises:
        ShowError: a column is missing, or no claim was tested.
    """
    missing = [name for name in _NEEDED if name not in table]
    tested = table[table["verdict"].isin(list(_STYLES))] if not missing else table[:0]
    if tested.empty:
        problem = f"the table has no column {missing[0]!r}" if missing else "no claim was tested"
        raise ShowError(f"{problem}; give what reproduce.claims.verdicts returns")
    sign = np.where(tested["relation"] == "greater", 1, -1)
    margin = sign * tested["difference"].to_numpy()
    reach = (tested["high"] - tested["low"]).fillna(0).to_numpy() / 2
    places = np.arange(len(tested))[::-1]
    palette = sns.color_palette("colorblind")
    fig, axes = plt.subplots(figsize=(9.5, 1.2 + 0.46 * len(tested)))
    axes.axvline(0, color="#555555", linewidth=1)
    for verdict, (marker, colour) in _STYLES.items():
        rows = (tested["verdict"] == verdict).to_numpy()
        if rows.any():
            axes.errorbar(margin[rows], places[rows], xerr=reach[rows], fmt=marker, color=palette[colour], capsize=3, label=verdict)
    labels = [textwrap.shorten(f"{row.lesson}  {row.claim}", 78, placeholder=" …") for row in tested.itertuples()]
    axes.set_yticks(places, labels, fontsize="small")
    axes.set_xlabel("margin by which the claim holds (95 % interval over seeds)")
    counts = tested["verdict"].value_counts()
    parts = [f"{verdict} {counts[verdict]}" for verdict in _STYLES if verdict in counts]
    axes.set_title(f"Of {len(tested)} tested claims: {', '.join(parts)}")
    axes.legend(loc="lower right")
    axes.grid(axis="y", visible=False)
    return fig
