"""What a head does, told by the word it looks at most: positions and syntactic relations, each beside the best fixed offset.

A head is *chosen* on one half of the texts and *scored* on the other: the best of 72 looks good on the words that chose it, even if
all are random.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.resampling import draws, interval
from course_utils.data.parsing import Alignment, Parse, align, parse
from course_utils.errors import AnalysisError
from course_utils.models.maps import AttentionMaps
from course_utils.models.transformer import Encoder

DIRECTIONS = ("dependent to head", "head to dependent")
NOT_A_RELATION = ("ROOT", "punct", "dep")
OFFSETS = (-3, -2, -1, 1, 2, 3)


def most_attended(maps: AttentionMaps, *, others: bool = True) -> torch.Tensor:
    """The key that each query of each head gives the most weight.

    Args:
        others: only words of the text other than the query itself, as for roles; otherwise any token that the query can see.
    Returns:
        (B, L, N, T) int64, positions; -1 where there is no such key, and at padding.
    """
    keys = maps.visible
    if others:
        itself = torch.eye(keys.shape[-1], dtype=torch.bool, device=keys.device)
        keys = keys & ~maps.special[:, None] & ~itself
    keys = keys[:, None, None]
    found = maps.attention.masked_fill(~keys, -1).argmax(-1)
    return found.masked_fill(~keys.any(-1), -1)


@dataclass(frozen=True)
class Arcs:
    """A dependencies, each asked in both directions of every head.

    Attributes:
        table: 2 A rows: `input`, `relation`, `direction` (one of DIRECTIONS: from where to where the head should look), `offset`
            in words from there to there.
        hits: (2 A, L, N) bool, whether the word that the head looks at most is the one at the other end.
        counts: words of all parses that were aligned `one to one`, `merged` or `dropped` (`data.parsing.Alignment`).
    """

    table: pd.DataFrame
    hits: np.ndarray
    counts: dict[str, int]


def dependencies(
    encoder: Encoder,
    texts: Sequence[str],
    parses: Sequence[Parse] | None = None,
    *,
    token_budget: int = 2048,
    max_tokens: int = 512,
    progress: bool = False,
) -> Arcs:
    """Whether heads look along dependencies (Clark et al. 2019, section 4.2).

    The rule, for a head and an arc: attention is taken between words (to a word the sum over its pieces, from it the mean). Of all
    words of the text but the query itself, punctuation included, [CLS] and [SEP] left out, the head's answer is the one with the
    largest weight. It is a hit if it is the word at the other end. Each arc counts once, so a word with two dependents of one
    relation can be right about one of them only. Roots, punctuation and the parser's "dep" are no relations.

    Args:
        parses: of the texts; made by `data.parsing.parse` unless given. They are silver labels.
        token_budget, max_tokens, progress: as in `Encoder.stream`.
    Raises:
        DataError: as in `Encoder.pieces`.
        AnalysisError: the number of parses is not that of the texts.
    """
    parses = parse(texts) if parses is None else list(parses)
    if len(parses) != len(texts):
        raise AnalysisError(f"{len(texts)} texts came with {len(parses)} parses; give one for each")
    rows, hits, counts = [], [np.empty((0, encoder.n_layers, encoder.n_heads), dtype=bool)], Counter()
    for maps in encoder.stream(texts, token_budget=token_budget, max_tokens=max_tokens, progress=progress):
        numbers = maps.index.tolist()
        aligned = [align(texts[number], parses[number], words) for number, words in zip(numbers, maps.word_texts, strict=True)]
        units = _by_unit(maps, aligned)
        where = most_attended(units).cpu()
        for row, (number, alignment) in enumerate(zip(numbers, aligned, strict=True)):
            counts.update(alignment.counts)
            position = {unit: place for place, unit in enumerate(units.word_ids[row].tolist()) if unit >= 0}
            arcs = list(_arcs(parses[number], alignment))
            for source, target, relation, direction in arcs:
                rows.append((number, relation, direction, target - source))
            sources = [position[source] for source, *_ in arcs]
            targets = torch.tensor([position[target] for _, target, *_ in arcs], dtype=torch.int64)
            hits.append((where[row][..., sources] == targets).permute(2, 0, 1).numpy())
    table = pd.DataFrame(rows, columns=["input", "relation", "direction", "offset"])
    order = table["input"].argsort(kind="stable")
    return Arcs(table.iloc[order].reset_index(drop=True), np.concatenate(hits)[order], dict(counts))


def best_heads(arcs: Arcs, *, least: int = 100, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """For each relation and direction the head that looks along it most often, against the best fixed offset.

    Head and offset are chosen on the texts of even number and scored on those of odd number; texts should be in random order.

    Args:
        least: relations with fewer arcs in all, or none in one of the halves, are left out.
        n_resamples, seed: of the 95 % bootstrap intervals over the texts scored.
    Returns:
        one row a relation and direction, "all" relations together first: `relation`, `direction`, `n` (arcs scored), `layer`,
        `head`, `chosen_at` (the head's score where it was chosen), `score`, `low`, `high`, `offset`, `fixed` (the score of always
        answering the word at that offset), `gain` (score - fixed), `gain_low`, `gain_high`; and the head's score on the arcs where
        that answer is right, `near`, and on the others, `far` (nan if there are none). Scores are shares in [0, 1]. No row if no
        relation has enough arcs.
    """
    inputs, offsets = arcs.table["input"].to_numpy(), arcs.table["offset"].to_numpy()
    found = []
    for relation, direction, rows in _relations(arcs.table):
        first, second = rows[inputs[rows] % 2 == 0], rows[inputs[rows] % 2 == 1]
        if len(rows) < least or not len(first) or not len(second):
            continue
        shares = arcs.hits[first].mean(0)
        layer, head = np.unravel_index(shares.argmax(), shares.shape)
        offset = _commonest(offsets[first])
        right, fixed = arcs.hits[second, layer, head].astype(float), (offsets[second] == offset).astype(float)
        score, gain = _intervals(inputs[second], np.stack([right, right - fixed], 1), n_resamples, seed)
        chosen = (relation, direction, len(second), layer, head, shares.max())
        split = (right[where].mean() if where.any() else np.nan for where in (fixed == 1, fixed == 0))
        found.append((*chosen, right.mean(), *score, offset, fixed.mean(), (right - fixed).mean(), *gain, *split))
    names = ["relation", "direction", "n", "layer", "head", "chosen_at", "score", "low", "high"]
    return pd.DataFrame(found, columns=[*names, "offset", "fixed", "gain", "gain_low", "gain_high", "near", "far"])


def best_direction(table: pd.DataFrame) -> pd.DataFrame:
    """Of each relation's two directions in `best_heads` the one with the better head, told where heads were chosen; same order."""
    keep = table.groupby("relation", sort=False)["chosen_at"].idxmax()
    return table.loc[keep].reset_index(drop=True)


def positions(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    others: bool = True,
    token_budget: int = 2048,
    max_tokens: int = 512,
    n_resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Whether heads look at a fixed distance (Voita et al. 2019, section 5.1: a positional head does so for 90 % of the words).

    Each head's offset is chosen on the texts of even number and scored on those of odd number, over the words that have a token at
    that offset.

    Args:
        others: ask for the most attended among the other words, as for relations; if not, among all tokens, itself, [CLS] and [SEP]
            too, as Voita et al. do.
        token_budget, max_tokens: as in `Encoder.stream`.
        n_resamples, seed: of the 95 % bootstrap intervals over the texts scored.
    Returns:
        one row a head: `layer`, `head`, `offset` (one of OFFSETS, in words), `score` in [0, 1], `low`, `high`, `n` words scored.
    Raises:
        AnalysisError: fewer than two texts, or none of two words or more in one of the halves.
    """
    hits, asked = np.zeros((len(texts), encoder.n_layers, encoder.n_heads, len(OFFSETS))), np.zeros((len(texts), len(OFFSETS)))
    for pieces in encoder.stream(texts, token_budget=token_budget, max_tokens=max_tokens):
        maps = pieces.words()
        query, key = maps.mask & ~maps.special, maps.mask & ~maps.special if others else maps.mask
        place = torch.arange(query.shape[1], device=query.device)
        distance = most_attended(maps, others=others) - place
        for at, offset in enumerate(OFFSETS):
            target = (place + offset).clamp(0, len(place) - 1)
            there = query & key[:, target] & (target == place + offset)
            asked[maps.index.cpu(), at] = there.sum(1).cpu()
            hits[maps.index.cpu(), ..., at] = ((distance == offset) & there[:, None, None]).sum(-1).cpu()
    first, second = slice(0, None, 2), slice(1, None, 2)
    if len(texts) < 2 or not asked[first].any() or not asked[second].any():
        raise AnalysisError("choosing and scoring offsets needs two halves with a text of two words in each; give more texts")
    offset = (hits[first].sum(0) / asked[first].sum(0).clip(1)).argmax(-1)
    right = np.take_along_axis(hits[second], offset[None, ..., None], -1)[..., 0]
    n = asked[second][:, offset]
    weights = draws(len(right), n_resamples, seed)
    low, high = interval(np.tensordot(weights, right, 1) / np.tensordot(weights, n, 1).clip(1))
    layers, heads = np.indices(offset.shape).reshape(2, -1)
    columns = {"layer": layers, "head": heads, "offset": np.array(OFFSETS)[offset.ravel()]}
    scores = {"score": right.sum(0) / n.sum(0).clip(1), "low": low, "high": high, "n": n.sum(0).astype(int)}
    return pd.DataFrame(columns | {name: values.ravel() for name, values in scores.items()})


def _by_unit(maps: AttentionMaps, aligned: Sequence[Alignment]) -> AttentionMaps:
    """Maps between the units of the alignments in place of word pieces."""
    word_ids = maps.word_ids.clone()
    for row, alignment in enumerate(aligned):
        units = torch.tensor(alignment.unit_of_word, device=word_ids.device)
        inside = word_ids[row] >= 0
        word_ids[row, inside] = units[word_ids[row, inside]]
    texts = tuple(_unit_texts(words, alignment) for words, alignment in zip(maps.word_texts, aligned, strict=True))
    return replace(maps, word_ids=word_ids, word_texts=texts).words()


def _unit_texts(words: Sequence[str], alignment: Alignment) -> tuple[str, ...]:
    texts = [""] * (max(alignment.unit_of_word, default=-1) + 1)
    for word, unit in zip(words, alignment.unit_of_word, strict=True):
        texts[unit] += word
    return tuple(texts)


def _arcs(parsed: Parse, alignment: Alignment) -> Iterator[tuple[int, int, str, str]]:
    """Both directions of every dependency between two words that are units of their own: source, target, relation, direction."""
    for dependent, (head, label) in enumerate(zip(parsed.heads, parsed.labels, strict=True)):
        ends = alignment.unit[dependent], alignment.unit[head]
        if label not in NOT_A_RELATION and dependent != head and min(ends) >= 0:
            yield *ends, label, DIRECTIONS[0]
            yield *ends[::-1], label, DIRECTIONS[1]


def _relations(table: pd.DataFrame) -> Iterator[tuple[str, str, np.ndarray]]:
    """The rows of all relations together, then of each, by direction."""
    for direction, rows in table.groupby("direction", sort=False).indices.items():
        yield "all", direction, rows
    for (relation, direction), rows in table.groupby(["relation", "direction"], sort=False).indices.items():
        yield relation, direction, rows


def _commonest(offsets: np.ndarray) -> int:
    """The most frequent offset; of several the nearest, and the one before."""
    values, counts = np.unique(offsets, return_counts=True)
    return int(min(zip(-counts, abs(values), values, strict=True))[2])


def _intervals(inputs: np.ndarray, values: np.ndarray, n_resamples: int, seed: int) -> np.ndarray:
    """(K, 2), the 95 % bootstrap intervals over texts of the means of K columns, one row an arc."""
    texts, at = np.unique(inputs, return_inverse=True)
    sums = np.zeros((len(texts), values.shape[1] + 1))
    np.add.at(sums, at, np.column_stack([values, np.ones(len(values))]))
    resampled = draws(len(texts), n_resamples, seed) @ sums
    return interval(resampled[:, :-1] / resampled[:, -1:]).T
