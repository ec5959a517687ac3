"""docs/reproduction.md: every claim beside what we measured, and the tables behind it."""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from course_utils.models.checkpoints import write_atomically
from course_utils.paths import ROOT
from course_utils.reproduce import defence
from course_utils.reproduce.claims import AGREES, DIFFERS, OPEN, UNTESTED, table, verdicts
from course_utils.reproduce.runs import results
from course_utils.reproduce.studies import STUDIES
from course_utils.show.claims import claims as claims_figure
from course_utils.show.display import figure_png

PAGE = ROOT / "docs" / "reproduction.md"
FIGURE = "figures/reproduction.png"

INTRODUCTION = """# What was claimed, and what we measured

This page is written by `python -m course_utils reproduce` from `data/claims.toml` (the claims) and the files in `data/results`
(what was measured). A verdict compares two sides seed by seed: a claim **agrees** if the whole 95 % interval of the
difference over seeds (Student's t) lies on its side of zero, **differs** if it lies on the other, and is **open** if the interval
holds zero. One seed gives a verdict without an interval.

Certainty of the papers' figures: **P** read in the primary source, **S** a secondary transcription, **M** from memory. Our data
sets are not the papers' (Rotten Tomatoes in place of SST, made stories and pairs in place of bAbI and SNLI), our word vectors are
frozen ones of a small encoder, and the models are small: an agreement says that an effect carries over, a difference that it need
not. For the pretrained encoder (lessons 02 to 04, 11 to 14) disjoint samples of sentences take the place of the seeds.
"""


def everything() -> pd.DataFrame:
    """All kept figures: those of the runs, of lesson 09's models, and of every study."""
    studies = [study.results() for study in STUDIES.values()]
    return pd.concat([results(), defence.as_runs(defence.kept()), *studies], ignore_index=True)


def write(figures: pd.DataFrame, page: Path = PAGE) -> pd.DataFrame:
    """Write the page and its figure.

    Args:
        figures: as from `everything`.
    Returns:
        the verdicts, as from `claims.verdicts`.
    """
    found = verdicts(figures)
    counts = found["verdict"].value_counts()
    summary = ", ".join(f"{counts[word]} {word}" for word in (AGREES, OPEN, DIFFERS, UNTESTED) if word in counts)
    parts = [INTRODUCTION, f"**{len(found)} claims: {summary}.**\n"]
    if (found["verdict"] != UNTESTED).any():
        fig = claims_figure(found)
        write_atomically(page.parent / FIGURE, figure_png(fig))
        plt.close(fig)
        parts.append(f"![Margins of the tested claims with their intervals over seeds: {summary}.]({FIGURE})\n")
    for lesson, rows in found.groupby("lesson"):
        parts.append(f"## Lesson {lesson}\n\n{_rows(rows)}")
    parts.append(f"## All measures\n\nMean over seeds, with its 95 % interval.\n\n{_measures(table(figures))}")
    write_atomically(page, "\n".join(parts).encode())
    return found


def _rows(rows: pd.DataFrame) -> str:
    lines = ["| claim | paper | published | ours | difference | seeds | verdict |", "|---|---|---|---|---|---|---|"]
    for row in rows.itertuples():
        ours = _sides(row)
        gap = f"{_number(row.difference)} {_range(row.low, row.high)}".strip()
        word = f"**{row.verdict}**" + (f": {row.why}" if row.why else "")
        lines.append(
            f"| {row.claim} | {row.paper} | {row.published} ({row.certainty}) | {ours} | {gap} | {row.seeds or ''} | {word} |"
        )
    return "\n".join(lines) + "\n"


def _sides(row) -> str:
    if math.isnan(row.left):
        return ""
    compared = "against" if isinstance(row.right_of, tuple) else "bound"
    return f"{_number(row.left)}, {compared} {_number(row.right)}"


def _measures(measures: pd.DataFrame) -> str:
    lines = ["| recipe | measure | group | mean | interval | seeds |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row.recipe} | {row.measure} | {row.group} | {_number(row.mean)} | {_range(row.low, row.high)} | {row.seeds} |"
        for row in measures.itertuples()
    ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def _range(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"[{low:.3f}, {high:.3f}]"
