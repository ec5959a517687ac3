"""How many heads a classifier needs: scores of importance, orders of removal, and what is left when heads go.

Michel, Levy & Neubig (2019): a head's importance is the expected size of the loss's gradient at a gate on its output (section 4.1);
heads are removed from the least important on. Removal is by gates, so the model is as it was afterwards.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
import torch
from scipy.cluster import hierarchy
from torch.nn import functional

from course_utils.analysis.clustering import HeadDistances
from course_utils.analysis.resampling import draws, interval
from course_utils.errors import AnalysisError
from course_utils.models.finetuned import EncoderClassifier
from course_utils.models.heads import Head, gate_heads


def gates_without(classifier: EncoderClassifier, heads: Iterable[Head]) -> torch.Tensor:
    """(L, N) gates: 0 at `heads`, 1 elsewhere.

    Raises:
        AnalysisError: a head that this model does not have.
    """
    layers, count = classifier.encoder.n_layers, classifier.encoder.n_heads
    gates = torch.ones(layers, count)
    for layer, head in heads:
        if not (0 <= layer < layers and 0 <= head < count):
            raise AnalysisError(
                f"there is no head {layer}-{head}; write (layer, head), of layers 0..{layers - 1} and heads 0..{count - 1}"
            )
        gates[layer, head] = 0
    return gates


def gate_gradients(
    classifier: EncoderClassifier,
    texts: Sequence[str],
    labels: Sequence[int],
    *,
    gates: torch.Tensor | None = None,
    token_budget: int = 1024,
) -> np.ndarray:
    """(S, L, N): for each text, the gradient of its own cross-entropy at each head's gate.

    Args:
        gates: (L, N), where the gradient is taken; all 1 unless told. With some at 0, what it would do to let those heads speak.
    Raises:
        AnalysisError: not one label a text, or a label that is no class.
    """
    labels = _checked(classifier, texts, labels)
    start = gates_without(classifier, ()) if gates is None else gates
    found = np.empty((len(texts), *start.shape), dtype=np.float32)
    for pieces in classifier.encoder.batches(texts, token_budget=token_budget):
        each = start.repeat(len(pieces), 1, 1).to(classifier.device).requires_grad_(True)
        with gate_heads(classifier.body, each):
            loss = functional.cross_entropy(classifier(pieces), labels[pieces.index.cpu()].to(classifier.device), reduction="sum")
            (gradient,) = torch.autograd.grad(loss, each)
        found[pieces.index.cpu().numpy()] = gradient.float().cpu().numpy()
    return found


def importance(gradients: np.ndarray) -> pd.DataFrame:
    """Michel's score of each head, from `gate_gradients`.

    Returns:
        one row a head: `layer`, `head`, `raw`, the mean absolute gradient (nats), `normalised`, the same divided by the Euclidean
        norm of its layer's scores (as Michel et al. do, after Molchanov et al. 2017), and `signed`, the mean gradient: below 0
        where the head lowers the loss.
    """
    raw = np.abs(gradients).mean(0, dtype=np.float64)
    layers, heads = np.indices(raw.shape)
    scores = {
        "raw": raw,
        "normalised": raw / np.linalg.norm(raw, axis=1, keepdims=True).clip(min=np.finfo(float).tiny),
        "signed": gradients.mean(0, dtype=np.float64),
    }
    return pd.DataFrame({"layer": layers.ravel(), "head": heads.ravel()} | {name: value.ravel() for name, value in scores.items()})


def order_by(scores: pd.DataFrame, column: str = "normalised") -> list[Head]:
    """All heads, the least important first; `[::-1]` is the reverse order."""
    ranked = scores.sort_values(column, kind="stable")
    return list(zip(ranked["layer"].tolist(), ranked["head"].tolist(), strict=True))


def random_order(classifier: EncoderClassifier, seed: int) -> list[Head]:
    """All heads, shuffled."""
    places = np.random.default_rng(seed).permutation(classifier.encoder.n_layers * classifier.encoder.n_heads)
    return [divmod(place, classifier.encoder.n_heads) for place in places.tolist()]


def iterative_order(
    classifier: EncoderClassifier,
    texts: Sequence[str],
    labels: Sequence[int],
    *,
    step: int = 6,
    column: str = "normalised",
    until: int | None = None,
    token_budget: int = 1024,
) -> list[Head]:
    """The order in which heads go if what is left is scored anew after every `step` removals.

    Args:
        until: stop scoring after this many removals; the rest follow by their last scores. All unless told.
    """
    if step < 1:
        raise AnalysisError(f"step is {step}; remove 1 head or more before scoring again")
    removed: list[Head] = []
    total = classifier.encoder.n_layers * classifier.encoder.n_heads
    while len(removed) < total:
        gates = gates_without(classifier, removed)
        scores = importance(gate_gradients(classifier, texts, labels, gates=gates, token_budget=token_budget) * gates.numpy())
        gone = set(removed)
        left = [head for head in order_by(scores, column) if head not in gone]
        removed += left if until is not None and len(removed) + step >= until else left[:step]
    return removed


def redundant(distances: HeadDistances, n_removed: int, *, method: str = "average") -> list[Head]:
    """The heads to remove if each function is to keep one: the tree is cut into as many clusters as heads stay.

    Of each cluster the medoid stays, the head with the smallest mean distance to the others (the first of equals).

    Args:
        distances: between heads, as from `clustering.head_distances`.
        method: scipy's linkage.
    Raises:
        AnalysisError: no head would stay, or a negative number.
    """
    count = len(distances.heads)
    if not 0 <= n_removed < count:
        raise AnalysisError(f"of {count} heads 0 to {count - 1} can be redundant, not {n_removed}")
    square = distances.matrix.to_numpy()
    labels = hierarchy.cut_tree(hierarchy.linkage(distances.condensed, method), n_clusters=count - n_removed)[:, 0]
    stay = set()
    for cluster in range(count - n_removed):
        members = np.flatnonzero(labels == cluster)
        stay.add(members[square[np.ix_(members, members)].sum(1).argmin()])
    return [head for place, head in enumerate(distances.heads) if place not in stay]


@torch.no_grad()
def gated_logits(
    classifier: EncoderClassifier, texts: Sequence[str], gate_sets: Sequence[torch.Tensor], *, token_budget: int = 1024
) -> torch.Tensor:
    """(G, S, C) logits of every text under each of G sets of gates (L, N)."""
    found = torch.empty(len(gate_sets), len(texts), classifier.head.out_features)
    for pieces in classifier.encoder.batches(texts, token_budget=token_budget):
        for number, gates in enumerate(gate_sets):
            with gate_heads(classifier.body, gates.to(classifier.device)):
                found[number, pieces.index.cpu()] = classifier(pieces).float().cpu()
    return found


def curve(
    classifier: EncoderClassifier,
    texts: Sequence[str],
    labels: Sequence[int],
    plans: Mapping[str, Sequence[Sequence[Head]]],
    counts: Sequence[int],
    *,
    token_budget: int = 1024,
) -> pd.DataFrame:
    """What every text's prediction is when more and more heads are removed.

    Args:
        plans: by name, one order of removal or several (seeds); an order's first heads go first.
        counts: how many heads are removed; 0, the whole model, is added. Counts beyond the end of an order are left out.
    Returns:
        one row a plan, order, count and text: `plan`, `seed` (the order's number), `removed`, `text`, `correct`, `margin` (the
        label's logit above the highest other one).
    """
    labels = _checked(classifier, texts, labels)
    keys, sets = [], []
    for plan, orders in plans.items():
        for seed, order in enumerate(orders):
            for removed in sorted({0, *counts}):
                if removed <= len(order):
                    keys.append((plan, seed, removed))
                    sets.append(gates_without(classifier, order[:removed]))
    distinct: dict[bytes, int] = {}
    places = [distinct.setdefault(gates.numpy().tobytes(), len(distinct)) for gates in sets]
    firsts = [places.index(place) for place in range(len(distinct))]
    logits = gated_logits(classifier, texts, [sets[first] for first in firsts], token_budget=token_budget)
    margins = _margins(logits, labels)[places]
    frame = pd.DataFrame([key for key in keys for _ in texts], columns=["plan", "seed", "removed"])
    frame["text"] = np.tile(np.arange(len(texts)), len(keys))
    frame["margin"] = margins.numpy().ravel()
    return frame.assign(correct=frame["margin"] > 0)


def accuracies(table: pd.DataFrame, *, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Accuracy of every plan and count, and the loss against the whole model, text by text.

    Args:
        table: as from `curve`.
    Returns:
        one row a plan and count: `plan`, `removed`, `accuracy` (mean over seeds), `lowest` and `highest` seed, and `loss` of
        accuracy with `low` and `high`, its 95 % interval (paired bootstrap over texts).
    """
    wide = table.pivot(index=["plan", "seed", "removed"], columns="text", values="correct").astype(float)
    weights = draws(wide.shape[1], n_resamples, seed) / wide.shape[1]
    rows = []
    for (plan, removed), each in wide.groupby(level=["plan", "removed"], sort=False):
        whole = wide.xs((plan, 0), level=["plan", "removed"]).to_numpy().mean(0)
        lost = whole - each.to_numpy().mean(0)
        by_seed = each.to_numpy().mean(1)
        rows.append((plan, removed, by_seed.mean(), by_seed.min(), by_seed.max(), lost.mean(), *interval(weights @ lost)))
    columns = ["plan", "removed", "accuracy", "lowest", "highest", "loss", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def affordable(table: pd.DataFrame, points: float = 1.0, *, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """How many heads can go before accuracy has fallen by `points`: the largest count up to which it never has.

    Returns:
        one row a plan: `plan`, `heads`, `low`, `high` (95 %, bootstrap over texts), all among the counts of `curve`; several seeds
        are averaged first.
    """
    weights = draws(table["text"].nunique(), n_resamples, seed) / table["text"].nunique()
    rows = []
    for plan, part in table.groupby("plan", sort=False):
        wide = part.groupby(["removed", "text"])["correct"].mean().unstack("text")
        count = partial(_before_fall, np.array(wide.index), points / 100)
        values = wide.to_numpy()
        rows.append((plan, count(values.mean(1)), *interval([count(values @ weight) for weight in weights])))
    return pd.DataFrame(rows, columns=["plan", "heads", "low", "high"])


def ablate_each(
    classifier: EncoderClassifier, texts: Sequence[str], labels: Sequence[int], *, token_budget: int = 1024
) -> pd.DataFrame:
    """Each head removed by itself.

    Returns:
        one row a head: `layer`, `head`, `accuracy`, the change in points, `margin`, the mean change of the label's logit above the
        highest other, and `moved`, the mean size of that change: what the head does to single texts, whatever the direction.
    """
    labels = _checked(classifier, texts, labels)
    heads = [(layer, head) for layer in range(classifier.encoder.n_layers) for head in range(classifier.encoder.n_heads)]
    sets = [gates_without(classifier, part) for part in ([], *([head] for head in heads))]
    margins = _margins(gated_logits(classifier, texts, sets, token_budget=token_budget), labels).double()
    change = margins[1:] - margins[0]
    frame = pd.DataFrame(heads, columns=["layer", "head"])
    frame["accuracy"] = 100 * ((margins[1:] > 0).double().mean(1) - (margins[0] > 0).double().mean()).numpy()
    return frame.assign(margin=change.mean(1).numpy(), moved=change.abs().mean(1).numpy())


def _checked(classifier: EncoderClassifier, texts: Sequence[str], labels: Sequence[int]) -> torch.Tensor:
    found = torch.as_tensor(labels, dtype=torch.int64)
    classes = classifier.head.out_features
    if len(texts) != len(found) or not len(found):
        raise AnalysisError(f"there are {len(texts)} texts and {len(found)} labels; give one label a text, and one text or more")
    if not ((found >= 0) & (found < classes)).all():
        raise AnalysisError(f"labels run from {found.min()} to {found.max()}; this classifier has classes 0..{classes - 1}")
    return found


def _margins(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """(G, S) from logits (G, S, C)."""
    places = labels.expand(len(logits), -1)[..., None]
    own = logits.gather(-1, places)[..., 0]
    return own - logits.scatter(-1, places, -torch.inf).amax(-1)


def _before_fall(counts: np.ndarray, allowed: float, accuracy: np.ndarray) -> int:
    fallen = accuracy[0] - accuracy > allowed + 1e-9
    return int(counts[fallen.argmax() - 1] if fallen.any() else counts[-1])
