"""Which heads attend alike: distances between heads over a corpus, a tree of them, and how far the tree can be trusted.

The distance is that of Clark et al. (2019, section 6): the Jensen-Shannon divergence between what two heads attend to from the
same token.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score, silhouette_score

from course_utils.analysis.resampling import draws
from course_utils.errors import AnalysisError
from course_utils.models.maps import AttentionMaps
from course_utils.models.transformer import Encoder

_CELLS = 500_000


@dataclass(frozen=True)
class HeadDistances:
    """Distances between all pairs of K = L x N heads, on each of S texts.

    Attributes:
        per_text: (S, K (K - 1) / 2), in [0, log 2], pairs in scipy's condensed order.
        heads: K pairs (layer, head), layer by layer.
    """

    per_text: np.ndarray
    heads: tuple[tuple[int, int], ...]

    @property
    def condensed(self) -> np.ndarray:
        """The mean over texts, as scipy's functions take it."""
        return self.per_text.mean(0, dtype=np.float64)

    @property
    def matrix(self) -> pd.DataFrame:
        """(K, K), the mean over texts, symmetric, 0 on the diagonal; rows and columns are (layer, head)."""
        names = pd.MultiIndex.from_tuples(self.heads, names=["layer", "head"])
        return pd.DataFrame(squareform(self.condensed), index=names, columns=names)


@dataclass(frozen=True)
class HeadTree:
    """A hierarchical clustering of K heads.

    Attributes:
        linkage: (K - 1, 4), scipy's encoding of the tree.
        order: (K,) the leaves from left to right, neighbours alike; positions in `HeadDistances.heads`.
        cophenetic: correlation between the distances in the tree and the real ones: 1 if the tree says all, low if it distorts.
        silhouettes: one row a number of clusters: `n_clusters`, `silhouette` in [-1, 1]; below about .25 the clusters are
            hardly more than a division of a cloud. Two clusters score high as soon as one head is far from all others.
        labels: (K,) the cluster of each head, from 0.
    """

    linkage: np.ndarray
    order: np.ndarray
    cophenetic: float
    silhouettes: pd.DataFrame
    labels: np.ndarray


def divergences(maps: AttentionMaps, *, leave_out_special: bool = False) -> torch.Tensor:
    """Mean Jensen-Shannon divergence of every pair of heads, over the queries that are text.

    Args:
        leave_out_special: attention to [CLS] and [SEP] is dropped and the rest of each row made to sum to 1 again.
    Returns:
        (B, K (K - 1) / 2), K = L x N, in [0, log 2], in scipy's condensed order. A text of one token gives 0 where it stands alone.
    """
    attention = maps.attention.flatten(1, 2)  # (B, K, T, T)
    if leave_out_special:
        keys = (maps.visible & ~maps.special[:, None])[:, None]
        attention = torch.where(keys, attention + torch.finfo(attention.dtype).tiny, 0)
        attention = attention / attention.sum(-1, keepdim=True).clamp(min=torch.finfo(attention.dtype).tiny)
    queries = (maps.mask & ~maps.special).to(attention)
    queries = (queries / queries.sum(-1, keepdim=True))[:, None]  # (B, 1, T)
    entropy = (torch.special.entr(attention).sum(-1) * queries).sum(-1)
    first, second = torch.triu_indices(attention.shape[1], attention.shape[1], 1, device=attention.device)
    pairs = max(1, _CELLS // (len(maps) * attention.shape[-1] ** 2))
    parts = []
    for one, other in zip(first.split(pairs), second.split(pairs), strict=True):
        middle = torch.special.entr((attention[:, one] + attention[:, other]) / 2).sum(-1)
        parts.append((middle * queries).sum(-1) - (entropy[:, one] + entropy[:, other]) / 2)
    return torch.cat(parts, 1).clamp(min=0)


def head_distances(
    encoder: Encoder, texts: Sequence[str], *, leave_out_special: bool = False, token_budget: int = 2048, progress: bool = False
) -> HeadDistances:
    """`divergences` over a corpus, batch by batch.

    Raises:
        AnalysisError: the model has one head only.
    """
    heads = tuple((layer, head) for layer in range(encoder.n_layers) for head in range(encoder.n_heads))
    if len(heads) < 2:
        raise AnalysisError("this model has one head; there is nothing to compare it with")
    per_text = np.empty((len(texts), len(heads) * (len(heads) - 1) // 2), dtype=np.float32)
    for maps in encoder.stream(texts, token_budget=token_budget, progress=progress):
        per_text[maps.index.cpu().numpy()] = divergences(maps, leave_out_special=leave_out_special).cpu().numpy()
    return HeadDistances(per_text, heads)


def cluster(distances: HeadDistances, n_clusters: int, *, method: str = "average") -> HeadTree:
    """Build the tree, and measure how good a picture of the distances it is.

    Args:
        n_clusters: where to cut the tree, 2..K - 1; `silhouettes` has the numbers up to 20 to choose from.
        method: scipy's linkage: "average", "complete" or "single" (the others need Euclidean distances).
    Raises:
        AnalysisError: fewer than 3 heads, or a number of clusters that cannot be.
    """
    n_heads = len(distances.heads)
    if n_heads < 3:
        raise AnalysisError(f"a tree needs at least 3 heads, this model has {n_heads}")
    if not 2 <= n_clusters < n_heads:
        raise AnalysisError(f"{n_heads} heads fall into 2 to {n_heads - 1} clusters, not {n_clusters}")
    condensed, square = distances.condensed, distances.matrix.to_numpy()
    tree = hierarchy.linkage(condensed, method, optimal_ordering=True)
    numbers = range(2, min(20, n_heads - 1) + 1)
    silhouettes = [silhouette_score(square, _cut(tree, number), metric="precomputed") for number in numbers]
    return HeadTree(
        linkage=tree,
        order=hierarchy.leaves_list(tree),
        cophenetic=float(hierarchy.cophenet(tree, condensed)[0]),
        silhouettes=pd.DataFrame({"n_clusters": numbers, "silhouette": silhouettes}),
        labels=_cut(tree, n_clusters),
    )


def stability(
    distances: HeadDistances, n_clusters: int, *, n_resamples: int = 100, seed: int = 0, method: str = "average"
) -> pd.DataFrame:
    """Would other sentences have given the same clusters? The tree is built again on texts drawn with replacement.

    Returns:
        one row a resample: `resample`, `ari`, the adjusted Rand index between its clusters and those of all texts: 1 if they are
        the same, 0 if they agree as by chance.
    """
    reference = cluster(distances, n_clusters, method=method).labels
    n_texts = len(distances.per_text)
    resampled = draws(n_texts, n_resamples, seed) @ distances.per_text.astype(np.float64) / n_texts
    ari = [adjusted_rand_score(reference, _cut(hierarchy.linkage(condensed, method), n_clusters)) for condensed in resampled]
    return pd.DataFrame({"resample": np.arange(n_resamples), "ari": ari})


def _cut(tree: np.ndarray, n_clusters: int) -> np.ndarray:
    return hierarchy.cut_tree(tree, n_clusters=n_clusters)[:, 0]
