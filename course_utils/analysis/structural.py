"""Is the tree of a sentence in the distances between its words' states? The structural probe of Hewitt & Manning (2019).

A linear map is trained so that the squared distance of two mapped states is the number of edges between the two words in the
dependency tree. Its trees are compared with those that link every word to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from scipy.stats import rankdata

from course_utils.analysis.probing import WordStates
from course_utils.analysis.resampling import draws, interval
from course_utils.data.parsing import Parse
from course_utils.errors import AnalysisError

RANK, EPOCHS, BATCH, RATE = 64, 15, 20, 0.0005


@dataclass(frozen=True)
class Tree:
    """The gold tree of a sentence, on the m of its words that have states and are no punctuation.

    Attributes:
        sentence: its place in the list that was read.
        rows: (m,) int64, the words' rows in the states.
        edges: (e, 2) int64, pairs of places in `rows`, the smaller first, that are head and dependent.
        distances: (m, m), edges on the way between two words in the whole parse; nan between the trees of a text of several
            sentences.
    """

    sentence: int
    rows: np.ndarray
    edges: np.ndarray
    distances: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


def trees(states: WordStates, parses: Sequence[Parse]) -> list[Tree]:
    """The trees of all sentences with at least one edge between words that have states and are no punctuation."""
    found = []
    for sentence in np.unique(states.sentence):
        parse = parses[sentence]
        rows = np.flatnonzero(states.sentence == sentence)
        rows = rows[[parse.pos[position] != "PUNCT" for position in states.position[rows]]]
        heads = np.array(parse.heads)
        links = np.zeros((len(heads), len(heads)))
        links[np.arange(len(heads)), heads] = np.arange(len(heads)) != heads
        links = np.maximum(links, links.T)
        places = states.position[rows]
        distances = shortest_path(links, unweighted=True)[np.ix_(places, places)]
        edges = np.argwhere(np.triu(links[np.ix_(places, places)]))
        if len(edges):
            found.append(Tree(int(sentence), rows, edges, np.where(np.isinf(distances), np.nan, distances)))
    return found


@dataclass(frozen=True)
class StructuralProbe:
    """A trained map. `distances(features)` of m words are their squared distances after it, (m, m)."""

    mean: torch.Tensor
    projection: torch.Tensor

    def distances(self, features: np.ndarray) -> np.ndarray:
        """(m, F) states to (m, m) predicted distances, not negative, in edges."""
        return _squared((torch.as_tensor(features) - self.mean) @ self.projection).numpy()


def train(
    features: np.ndarray,
    train_trees: Sequence[Tree],
    dev_trees: Sequence[Tree],
    *,
    rank: int = RANK,
    epochs: int = EPOCHS,
    seed: int = 0,
) -> StructuralProbe:
    """Fit the map by Adam, on the mean over sentences of the mean absolute error over pairs of words (section 2.3 there).

    The map of the epoch with the least error on `dev_trees` is kept. Nothing but `seed` is random: the first map and the order.

    Args:
        features: (n, F), the states of all words; a tree's `rows` are its own.
        rank: dimensions of the mapped states.
    Raises:
        AnalysisError: no tree to train on or to choose by, or a rank below 1.
    """
    if not train_trees or not dev_trees:
        raise AnalysisError(f"{len(train_trees)} trees to train on and {len(dev_trees)} to choose by; both need one or more")
    if rank < 1:
        raise AnalysisError(f"the rank is {rank}; give 1 or more")
    features = torch.as_tensor(features, dtype=torch.float32)
    seen = features[np.concatenate([tree.rows for tree in train_trees])]
    mean, scale = seen.mean(0), seen.std(0).clamp(min=1e-6)
    generator = torch.Generator().manual_seed(seed)
    size = features.shape[1]
    weight = (torch.randn(size, rank, generator=generator) / (size * rank) ** 0.5).requires_grad_()
    optimiser = torch.optim.Adam([weight], lr=RATE)
    batches = [_pad((features - mean) / scale, train_trees[start : start + BATCH]) for start in range(0, len(train_trees), BATCH)]
    dev = _pad((features - mean) / scale, dev_trees)
    best, least = weight.detach().clone(), float("inf")
    for _ in range(epochs):
        for number in torch.randperm(len(batches), generator=generator).tolist():
            optimiser.zero_grad()
            _error(weight, *batches[number]).backward()
            optimiser.step()
        with torch.no_grad():
            error = float(_error(weight, *dev))
        if error < least:
            best, least = weight.detach().clone(), error
    return StructuralProbe(mean, best / scale[:, None])


def evaluate(predicted: Sequence[np.ndarray], gold: Sequence[Tree]) -> pd.DataFrame:
    """How well distances give back the trees.

    The predicted tree is the minimum spanning tree of the predicted distances.

    Args:
        predicted: (m, m) for each tree.
    Returns:
        one row a sentence: `sentence`, `n_words`, `edges` of the gold tree, `found`, those that the predicted tree has, and
        `spearman` in [-1, 1]: the rank correlation of a word's gold and predicted distances to the others, mean over its words
        (nan where none is defined).
    Raises:
        AnalysisError: numbers or shapes do not fit.
    """
    if len(predicted) != len(gold):
        raise AnalysisError(f"{len(predicted)} predictions and {len(gold)} trees; give one for each")
    rows = []
    for distances, tree in zip(predicted, gold, strict=True):
        if distances.shape != tree.distances.shape:
            raise AnalysisError(f"distances have shape {distances.shape}; a tree of {len(tree)} words needs {tree.distances.shape}")
        found = set(map(tuple, spanning_edges(distances))) & set(map(tuple, tree.edges))
        rows.append((tree.sentence, len(tree), len(tree.edges), len(found), _correlation(distances, tree.distances)))
    return pd.DataFrame(rows, columns=["sentence", "n_words", "edges", "found", "spearman"])


def spanning_edges(distances: np.ndarray) -> np.ndarray:
    """(m - 1, 2), the edges of the tree of least total distance, each with the smaller place first."""
    least = minimum_spanning_tree(np.triu(distances + 1, 1))  # an entry of 0 would be no edge
    return np.argwhere(least.toarray())


def chain(gold: Sequence[Tree]) -> list[np.ndarray]:
    """The baseline without a model: as many edges between two words as there are steps from one to the other in the sentence."""
    return [np.abs(np.subtract.outer(np.arange(len(tree)), np.arange(len(tree)))).astype(float) for tree in gold]


def summary(frame: pd.DataFrame, by: Sequence[str] = (), *, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """UUAS, the share of gold edges that were found, and the mean rank correlation, with 95 % bootstrap intervals over sentences.

    Returns:
        one row a group and score ("UUAS", "Spearman"): `by`, `score`, `mean`, `low`, `high`.
    """
    rows = []
    for key, group in frame.groupby(list(by), sort=False) if len(by) else [((), frame)]:
        drawn = draws(len(group), n_resamples, seed)
        known = group["spearman"].notna().to_numpy()
        sums = {
            "UUAS": (group["found"].to_numpy(), group["edges"].to_numpy()),
            "Spearman": (group["spearman"].fillna(0).to_numpy(), known.astype(float)),
        }
        for score, (part, whole) in sums.items():
            low, high = interval((drawn @ part) / (drawn @ whole))
            rows.append((*key, score, part.sum() / whole.sum(), low, high))
    return pd.DataFrame(rows, columns=[*by, "score", "mean", "low", "high"])


def _pad(features: torch.Tensor, gold: Sequence[Tree]) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, W, F) states and (B, W, W) distances, nan at padding."""
    size = max(len(tree) for tree in gold)
    states = features.new_zeros(len(gold), size, features.shape[1])
    distances = features.new_full((len(gold), size, size), torch.nan)
    for row, tree in enumerate(gold):
        states[row, : len(tree)] = features[torch.as_tensor(tree.rows)]
        distances[row, : len(tree), : len(tree)] = torch.as_tensor(tree.distances)
    return states, distances


def _error(weight: torch.Tensor, states: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
    known = ~distances.isnan()
    error = (_squared(states @ weight) - distances.nan_to_num()).abs() * known
    return (error.sum((1, 2)) / known.sum((1, 2))).mean()


def _squared(mapped: torch.Tensor) -> torch.Tensor:
    """(..., m, k) to (..., m, m), squared distances by one matrix product."""
    norms = (mapped**2).sum(-1)
    return (norms[..., :, None] + norms[..., None, :] - 2 * mapped @ mapped.transpose(-1, -2)).clamp(min=0)


def _correlation(predicted: np.ndarray, gold: np.ndarray) -> float:
    values = []
    for at in range(len(gold)):
        others = (np.arange(len(gold)) != at) & ~np.isnan(gold[at])
        if others.sum() < 2:
            continue
        ranks = rankdata([gold[at, others], predicted[at, others]], axis=1)
        ranks -= ranks.mean(1, keepdims=True)
        squares = (ranks**2).sum(1).prod()
        if squares > 0:
            values.append(ranks.prod(0).sum() / squares**0.5)
    return float(np.mean(values)) if values else float("nan")
