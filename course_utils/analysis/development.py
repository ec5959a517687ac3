"""How heads come to be: the same measures at every checkpoint of a training, when they change, and what depends on what.

The scores are those of Olsson et al. (2022, appendix, "Head activation evaluators") on sequences of repeated random tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from course_utils.analysis import clustering, patterns
from course_utils.analysis.distances import jsd
from course_utils.data.repeats import Repeats
from course_utils.errors import AnalysisError
from course_utils.models.attention_only import PARTS, AttentionOnly, Cut, Training, next_token_loss
from course_utils.models.maps import AttentionMaps
from course_utils.models.transformer import Encoder


class Development(NamedTuple):
    """Three tables over the checkpoints of a training.

    Attributes:
        losses: one row a checkpoint: `step`, `first`, `repeated` (nats a token), `advantage` (first - repeated: what the repeats
            are worth).
        heads: one row a checkpoint and head: `step`, `layer`, `head`, `previous`, `induction`, `spread`, each in [0, 1].
        layers: one row a checkpoint and layer: `step`, `layer`, `distance` (mean divergence between two heads of the layer) and
            `moved` (mean divergence of its heads from themselves at the checkpoint before; nan at the first), in nats.
    """

    losses: pd.DataFrame
    heads: pd.DataFrame
    layers: pd.DataFrame


def induction(maps: AttentionMaps, repeats: Repeats) -> torch.Tensor:
    """(B, L, N) in [0, 1], the prefix matching score: weight on tokens that came right after an earlier copy of the present token.

    A mean over the positions whose token was said a whole block ago. A head that spreads its weight evenly gets about 1/T for each
    earlier copy. This is the token that "induction would suggest comes next" in the definition of Olsson et al. (2022, "Key
    Concepts"); their appendix words the same score with the token before.
    """
    ids, seen = maps.ids, repeats.seen.to(maps.attention)
    same = (ids[:, :, None] == ids[:, None, :]).tril(-1)
    after = torch.zeros_like(same)
    after[:, :, 1:] = same[:, :, :-1]  # the key after an earlier copy; at the copy right before it is the query itself
    per_query = (maps.attention * after[:, None, None]).sum(-1)
    return (per_query * seen[:, None, None]).sum(-1) / seen.sum(-1)[:, None, None]


def head_scores(maps: AttentionMaps, repeats: Repeats) -> pd.DataFrame:
    """One row a head: `layer`, `head`, `previous`, `induction` and `spread` (entropy over its largest value), each in [0, 1]."""
    shapes = patterns.score(maps)
    found = {"previous": shapes["previous"], "induction": induction(maps, repeats), "spread": 1 - shapes["sparse"]}
    layers, heads = np.indices(maps.attention.shape[1:3]).reshape(2, -1)
    return pd.DataFrame({"layer": layers, "head": heads} | {name: one.mean(0).flatten().numpy() for name, one in found.items()})


@torch.no_grad()
def losses(model: AttentionOnly, repeats: Repeats, **removed: object) -> dict[str, float]:
    """Mean loss in nats a token, apart for positions in the `first` block and in the `repeated` ones.

    A position counts by the token it stands on, not by the one it predicts: only a token seen before says what came next.

    Args:
        removed: `gates` or `cut`, as in `AttentionOnly.forward`.
    """
    loss = next_token_loss(model(repeats.ids, **removed)[0], repeats.ids)
    seen = repeats.seen[:, :-1]
    return {"first": float(loss[~seen].mean()), "repeated": float(loss[seen].mean())}


def follow(training: Training, repeats: Repeats) -> Development:
    """The measures at every checkpoint, on the same held-out sequences.

    Raises:
        AnalysisError: there is only one checkpoint.
    """
    if len(training.checkpoints) < 2:
        raise AnalysisError("there is only the untrained model to look at; call training.run(until) first")
    tables: dict[str, list[pd.DataFrame]] = {"losses": [], "heads": [], "layers": []}
    before = None
    for step in sorted(training.checkpoints):
        model = training.model(step)
        maps = model.attend(repeats)
        loss = losses(model, repeats)
        tables["losses"].append(pd.DataFrame([{"step": step} | loss | {"advantage": loss["first"] - loss["repeated"]}]))
        tables["heads"].append(head_scores(maps, repeats).assign(step=step))
        moved = torch.full((maps.n_layers,), torch.nan) if before is None else jsd(maps.attention, before).mean((0, 2, 3))
        per_layer = {"distance": _within_layers(maps), "moved": moved.numpy()}
        tables["layers"].append(pd.DataFrame({"step": step, "layer": range(maps.n_layers)} | per_layer))
        before = maps.attention
    return Development(**{name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()})


def _within_layers(maps: AttentionMaps) -> np.ndarray:
    """(L,) mean divergence between two heads of a layer; nan where a layer has one."""
    layer = np.arange(maps.n_layers).repeat(maps.n_heads)
    first, second = np.triu_indices(len(layer), 1)
    pairs = clustering.divergences(maps).mean(0).numpy()
    within = [pairs[(layer[first] == number) & (layer[second] == number)] for number in range(maps.n_layers)]
    return np.array([one.mean() if len(one) else np.nan for one in within])


class Transition(NamedTuple):
    """When a curve went from where it began to where it ended.

    Attributes:
        begin, middle, end: steps at which it had gone 10, 50 and 90 % of the way, for good.
        before, after: its first value, and the mean of its last tenth.
        sharpness: (end - begin) / middle. A straight line has 1.6; below 1 it waited longer than it took.
    """

    begin: float
    middle: float
    end: float
    before: float
    after: float

    @property
    def sharpness(self) -> float:
        return (self.end - self.begin) / self.middle


def transition(steps: Sequence[float], values: Sequence[float]) -> Transition:
    """The change of one curve, found without a model of its shape.

    A share of the way is passed where the curve, joined by straight lines, crosses it for the last time on its way.

    Raises:
        AnalysisError: fewer than 3 values, steps that do not grow, values that are not finite, or a curve that ends where it began.
    """
    steps, values = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    if len(steps) != len(values) or len(steps) < 3 or (np.diff(steps) <= 0).any() or not np.isfinite(values).all():
        raise AnalysisError(f"a transition needs 3 or more finite values at growing steps, not {len(values)} at {len(steps)} steps")
    before, after = values[0], values[-max(1, len(values) // 10) :].mean()
    if np.isclose(before, after):
        raise AnalysisError(f"the curve ends at {after:.3g}, where it began: it has no transition")
    gone = (values - before) / (after - before)
    passed = []
    for share in (0.1, 0.5, 0.9):
        at = int(np.flatnonzero(gone < share)[-1])  # `gone` starts at 0, and ends near 1
        at = min(at, len(gone) - 2)
        rise = gone[at + 1] - gone[at]
        passed.append(steps[at] + (steps[at + 1] - steps[at]) * (float(np.clip((share - gone[at]) / rise, 0, 1)) if rise else 0.0))
    return Transition(*passed, before, after)


def best_head(heads: pd.DataFrame, score: str) -> tuple[int, int]:
    """(layer, head) that has most of a score at the last step of `Development.heads`."""
    last = heads[heads["step"] == heads["step"].max()]
    row = last.loc[last[score].idxmax()]
    return int(row["layer"]), int(row["head"])


def phases(found: Development) -> pd.DataFrame:
    """When each curve of the story changed.

    Returns:
        one row a curve: `curve` ("previous-token head", "induction head": the best at the end; "advantage of repeats"), and the
        fields of `Transition`.
    """
    curves = {}
    for name, score in (("previous-token head", "previous"), ("induction head", "induction")):
        layer, head = best_head(found.heads, score)
        curves[name] = found.heads[(found.heads["layer"] == layer) & (found.heads["head"] == head)].set_index("step")[score]
    curves["advantage of repeats"] = found.losses.set_index("step")["advantage"]
    rows = []
    for name, curve in curves.items():
        one = transition(curve.index, curve)
        rows.append({"curve": name} | one._asdict() | {"sharpness": one.sharpness})
    return pd.DataFrame(rows)


def division(found: Development) -> pd.DataFrame:
    """How far the heads of a layer came apart, and whether they came to rest.

    Returns:
        one row a layer: `layer`, `start`, `peak`, `peak_step`, `end` of the distance between its heads (nats), `moved_peak` and
        `moved_end`: the largest and the last movement between two checkpoints (nats). Ends are means of the last tenth.
    """
    rows = []
    for layer, table in found.layers.groupby("layer"):
        last = table.tail(max(1, len(table) // 10))
        peak = table.loc[table["distance"].idxmax()]
        distances = {"start": table["distance"].iloc[0], "peak": peak["distance"], "peak_step": int(peak["step"])}
        moved = {"moved_peak": table["moved"].max(), "moved_end": last["moved"].mean()}
        rows.append({"layer": layer} | distances | {"end": last["distance"].mean()} | moved)
    return pd.DataFrame(rows)


def knock_out(model: AttentionOnly, repeats: Repeats) -> pd.DataFrame:
    """Each head removed: from everything, and from one input of the later layers only.

    Removing a head from the keys of later layers alone tests K-composition (Elhage et al. 2021): do they look by what it wrote?

    Returns:
        one row a head and part: `layer`, `head`, `part` ("everything", "query", "key", "value"), `repeated` and `first` (loss in
        nats a token), `induction` (the highest score that a head has then). The first row, with `part` "none", is the whole model;
        its `layer` and `head` are -1. Heads of the last layer have "everything" only: nothing reads them but the prediction.
    """
    n_layers, n_heads = model.config.layers, model.config.heads
    cases: list[tuple[int, int, str, dict]] = [(-1, -1, "none", {})]
    for layer, head in np.ndindex(n_layers, n_heads):
        gates = torch.ones(n_layers, n_heads)
        gates[layer, head] = 0
        cases.append((layer, head, "everything", {"gates": gates}))
        if layer < n_layers - 1:
            cases += [(layer, head, part, {"cut": Cut(layer, head, part)}) for part in PARTS]
    rows = []
    for layer, head, part, removed in cases:
        score = float(induction(model.attend(repeats, **removed), repeats).mean(0).max())
        rows.append({"layer": layer, "head": head, "part": part} | losses(model, repeats, **removed) | {"induction": score})
    return pd.DataFrame(rows)


def shift(before: Encoder, after: Encoder, texts: Sequence[str], *, token_budget: int = 2048) -> pd.DataFrame:
    """How far each head's attention is from what it was before training, over the words of the same texts.

    Returns:
        one row a text and head: `input`, `layer`, `head`, `shift` (Jensen-Shannon divergence, mean over words), `entropy_before`,
        `entropy_after`; all in nats.
    Raises:
        AnalysisError: the two have another number of layers or heads.
    """
    if (before.n_layers, before.n_heads) != (after.n_layers, after.n_heads):
        sizes = [f"{one.n_layers} x {one.n_heads}" for one in (before, after)]
        raise AnalysisError(
            f"a model of {sizes[0]} heads cannot be compared with one of {sizes[1]}; give one model, before and after"
        )
    parts = []
    for pieces in before.batches(texts, token_budget=token_budget):
        old, new = before.attend(pieces), after.attend(pieces)
        words = (old.mask & ~old.special).to(old.attention)
        words = (words / words.sum(-1, keepdim=True).clamp(min=1))[:, None, None]
        columns = {"shift": jsd(old.attention, new.attention)}
        columns |= {
            f"entropy_{name}": torch.special.entr(maps.attention).sum(-1) for name, maps in (("before", old), ("after", new))
        }
        inputs, layers, heads = np.indices(old.attention.shape[:3]).reshape(3, -1)
        table = {"input": pieces.index.cpu().numpy()[inputs], "layer": layers, "head": heads}
        parts.append(pd.DataFrame(table | {name: (one * words).sum(-1).flatten().cpu().numpy() for name, one in columns.items()}))
    return pd.concat(parts).sort_values(["input", "layer", "head"], ignore_index=True)
