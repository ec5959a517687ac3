"""The claims of lesson 11 about positions and dependencies: the best heads on disjoint samples of review sentences.

Each sample chooses its heads and offsets on one half and scores them on the other, so samples may choose differently.
"""

import numpy as np
import pandas as pd

from course_utils.analysis import heads
from course_utils.data import load
from course_utils.data.parsing import parse
from course_utils.models import load_encoder
from course_utils.models.untrained import untrained
from course_utils.reproduce.study import Study, drawn

RECIPE = "minilm"
SENTENCES, LEAST = 400, 60
_SCORES = {"score": "role_best", "fixed": "role_fixed", "near": "role_near", "far": "role_far"}


def _sample(sample: int) -> pd.DataFrame:
    return measured(drawn([example.text for example in load("rotten_tomatoes").train], sample)[:SENTENCES], sample)


def measured(texts: list[str], sample: int, *, least: int = LEAST) -> pd.DataFrame:
    """One sample. `role_best`, the best head of each relation; `role_fixed`, the best fixed offset; `role_near`, `role_far`, the
    head where that offset is right and where it is not; `role_untrained`, the best head of an untrained encoder; and `positional`,
    the most positional head, asked for its most attended of all tokens and of the other words."""
    encoder, parses = load_encoder(), parse(texts)
    found = heads.best_direction(heads.best_heads(heads.dependencies(encoder, texts, parses), least=least, n_resamples=1))
    random = heads.dependencies(untrained(encoder, seed=sample), texts, parses)
    by_chance = heads.best_direction(heads.best_heads(random, least=least, n_resamples=1)).set_index("relation")
    rows = []
    for row in found.itertuples():
        values = {name: getattr(row, column) for column, name in _SCORES.items()}
        values["role_untrained"] = by_chance.loc[row.relation, "score"]
        rows += [(name, row.relation, value, row.n) for name, value in values.items() if not np.isnan(value)]
    for group, others in (("of all tokens", False), ("of other words", True)):
        best = heads.positions(encoder, texts[: len(texts) // 2], others=others, n_resamples=1).nlargest(1, "score").iloc[0]
        rows.append(("positional", group, best["score"], best["n"]))
    table = pd.DataFrame(rows, columns=["measure", "group", "value", "n"]).astype({"n": int})
    table.insert(0, "recipe", RECIPE)
    table.insert(1, "seed", sample)
    return table


STUDY = Study("heads", _sample)
