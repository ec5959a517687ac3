"""What the defence compares: attention of other seeds beside adversaries, and how far one can go before predictions suffer."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from course_utils.show.display import theme
from course_utils.show.tables import require

_CEILING = 0.6931


@theme()
def distances(frame: pd.DataFrame, *, title: str | None = None) -> Figure:
    """How far other attentions lie from a model's own, text by text: one row a kind, with quartiles.

    Args:
        frame: one row a text and kind: `kind`, in the order they are drawn, and `jsd` in [0, log 2].
        title: the finding; by default the medians of the first and the last kind.
    Raises:
        ShowError: a column is missing, or there is no row.
    """
    require(frame, ("kind", "jsd"))
    medians = frame.groupby("kind", sort=False)["jsd"].median()
    first, last = medians.index[0], medians.index[-1]
    fig, axes = plt.subplots(figsize=(9, 1.2 + 0.75 * len(medians)))
    colour = sns.color_palette("colorblind")[0]
    sns.violinplot(frame, x="jsd", y="kind", cut=0, inner="quart", density_norm="width", color=colour, alpha=0.5, ax=axes)
    for place, median in enumerate(medians):
        axes.annotate(f"{median:.2f}", (median, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize="small")
    axes.axvline(_CEILING, color="black", linestyle="--", linewidth=1)
    finding = f"Median distance from the model's attention: {medians[first]:.2f} ({first}), {medians[last]:.2f} ({last})"
    axes.set(xlim=(-0.01, 0.75), xlabel="Jensen-Shannon divergence (nats; dashed: ln 2)", ylabel="", title=title or finding)
    return fig


@theme()
def trade_off(frame: pd.DataFrame, *, title: str, others: Sequence[tuple[str, float, float]] = ()) -> Figure:
    """How far a trained adversary's attention moves against what that costs in predictions: one point a lambda and seed.

    Args:
        frame: one row a lambda and seed: `strength` (text or number), `jsd` and `change`, both means over texts.
        title: the finding.
        others: further points: name, jsd, change.
    Raises:
        ShowError: a column is missing, or there is no row.
    """
    require(frame, ("strength", "jsd", "change"))
    fig, axes = plt.subplots(figsize=(8, 4.5))
    blue, orange = (sns.color_palette("colorblind")[place] for place in (0, 1))
    means = frame.groupby("strength", sort=False)[["jsd", "change"]].mean()
    axes.plot(means["jsd"], means["change"], color=blue, linewidth=1)
    axes.plot(frame["jsd"], frame["change"], "o", color=blue, label="trained adversary, by lambda")
    for strength, row in means.iterrows():
        axes.annotate(f"{strength}", (row["jsd"], row["change"]), xytext=(6, 4), textcoords="offset points", fontsize="small")
    for (name, jsd, change), marker in zip(others, "sD^v", strict=False):
        axes.plot([jsd], [change], marker, color=orange, label=name)
    axes.axvline(_CEILING, color="black", linestyle="--", linewidth=1)
    axes.set(xlim=(0, 0.75), xlabel="distance of the attentions (JSD, nats; dashed: ln 2)", title=title)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("change of the prediction (total variation)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return fig
