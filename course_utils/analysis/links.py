"""Does a head look at the word that belongs to the query, or at the other one? A forced choice on sentences with gold links.

A head is right where the query gives the target more weight than the distractor. Of 72 heads one is always best, so it is chosen on
one half of the sentences and judged on the other, which holds other words. Chance is .5. Rules that need no head say what the score
is worth: the nearer word, and the word whose input embedding is more like the query's.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.resampling import draws, interval
from course_utils.data.templates import Link
from course_utils.errors import AnalysisError
from course_utils.models.maps import AttentionMaps
from course_utils.models.pieces import Pieces
from course_utils.models.transformer import Encoder

HEAD = ("layer", "head")


class HeldOut(NamedTuple):
    """The best head of one half, and what it does on the other.

    Attributes:
        layer, head: of the head, from 0.
        chosen: its accuracy on the half it was chosen on; too high, as it is the best of many.
        accuracy, low, high: on the other half, with the 95 % bootstrap interval over groups.
    """

    layer: int
    head: int
    chosen: float
    accuracy: float
    low: float
    high: float


def choose(encoder: Encoder, links: Sequence[Link], *, token_budget: int = 2048) -> pd.DataFrame:
    """What every head chooses in every sentence.

    Attention is that of words: to a word the sum over its pieces, from it the mean.

    Returns:
        one row a sentence and head: `input`, `kind`, `group`, `half`, `layer`, `head`, `target` and `distractor` (the
        query's weights on the two, in [0, 1]), and `right`: 1 if the target has more, 0 if less, .5 if both have the same.
    Raises:
        AnalysisError: there is no sentence, or the encoder cuts one into other words than its own.
    """
    _check(links)
    parts = []
    for maps in encoder.stream([link.text for link in links], token_budget=token_budget):
        _check_words(maps, links)
        words = maps.words()
        rows = torch.arange(len(words), device=words.attention.device)
        chosen = [links[number] for number in maps.index.tolist()]
        query, target, distractor = (_columns(words, chosen, name) for name in ("query", "target", "distractor"))
        looks = words.attention[rows, :, :, query]  # (B, L, N, words)
        inputs, layers, heads = np.indices(looks.shape[:3]).reshape(3, -1)
        columns = {
            name: looks[rows, :, :, at].flatten().cpu().numpy() for name, at in (("target", target), ("distractor", distractor))
        }
        parts.append(pd.DataFrame({"input": maps.index.cpu().numpy()[inputs], "layer": layers, "head": heads} | columns))
    return _judged(pd.concat(parts).sort_values(["input", *HEAD], ignore_index=True), links)


def by_rule(encoder: Encoder, links: Sequence[Link]) -> pd.DataFrame:
    """What two rules choose that need no head.

    Returns:
        one row a sentence and rule: `input`, `kind`, `group`, `half`, `rule`, `target`, `distractor`, `right`. The rule "nearer
        word" compares distances (`target` and `distractor` are minus the words to go), "like embedding" the cosines of the input
        embeddings with the query's, without position (of a word in several pieces: their mean).
    Raises:
        AnalysisError: there is no sentence, or the encoder cuts one into other words than its own.
    """
    _check(links)
    table = encoder.model.get_input_embeddings().weight.detach()
    distances, cosines = [], []
    for pieces in encoder.batches([link.text for link in links]):
        _check_words(pieces, links)
        for row, number in enumerate(pieces.index.tolist()):
            link = links[number]
            places = (link.query, link.target, link.distractor)
            query, target, distractor = (table[pieces.ids[row][pieces.word_ids[row] == place]].mean(0) for place in places)
            like = torch.cosine_similarity(query, torch.stack([target, distractor]), dim=-1).tolist()
            cosines.append((number, "like embedding", *like))
            distances.append((number, "nearer word", *(-abs(link.query - place) for place in places[1:])))
    frame = pd.DataFrame(distances + cosines, columns=["input", "rule", "target", "distractor"])
    return _judged(frame.sort_values(["rule", "input"], ignore_index=True), links)


def accuracy(frame: pd.DataFrame, by: Sequence[str] = HEAD, *, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """How often each is right, with a 95 % bootstrap interval over groups (sentences of the same words are drawn together).

    Args:
        frame: as from `choose`, or from `by_rule` with `by=["rule"]`.
        by: what tells the rows of different heads or rules apart.
    Returns:
        one row a head or rule: the columns of `by`, `accuracy`, `low`, `high` in [0, 1], and `n` sentences.
    """
    by = list(by)
    cells = frame.groupby([*by, "group"])["right"].agg(["sum", "count"]).unstack("group", fill_value=0)
    right, count = cells["sum"].to_numpy(), cells["count"].to_numpy()
    drawn = draws(right.shape[1], n_resamples, seed)
    low, high = interval((drawn @ right.T) / (drawn @ count.T).clip(min=1))
    total = count.sum(1)
    columns = {"accuracy": right.sum(1) / total, "low": low, "high": high, "n": total}
    return pd.DataFrame(columns, index=cells.index).reset_index()


def best_head(frame: pd.DataFrame) -> tuple[int, int]:
    """The layer and head that are right most often; of equals the first."""
    means = frame.groupby(list(HEAD))["right"].mean()
    return means.idxmax()


def held_out(frame: pd.DataFrame, *, n_resamples: int = 1000, seed: int = 0) -> HeldOut:
    """The head that is best on half 0, judged on half 1.

    Args:
        frame: as from `choose`.
    Raises:
        AnalysisError: a half has no sentence.
    """
    first, second = (frame[frame["half"] == half] for half in (0, 1))
    if first.empty or second.empty:
        raise AnalysisError("all sentences are of one half; a head has to be chosen on other sentences than it is judged on")
    layer, head = best_head(first)
    chosen = of_head(first, layer, head)["right"].mean()
    judged = accuracy(of_head(second, layer, head), n_resamples=n_resamples, seed=seed).iloc[0]
    return HeldOut(int(layer), int(head), float(chosen), *(float(judged[name]) for name in ("accuracy", "low", "high")))


def controlled(frames: Mapping[str, pd.DataFrame], layer: int, head: int, *, half: int = 1, seed: int = 0) -> pd.DataFrame:
    """One head under several conditions, on the sentences it was not chosen on.

    Args:
        frames: what `choose` found under each condition, by its name.
        half: which sentences.
    Returns:
        one row a condition, in their order: `condition`, `accuracy`, `low`, `high` (95 % bootstrap over groups), `n`.
    Raises:
        AnalysisError: there is no such head.
    """
    rows = [of_head(frame[frame["half"] == half], layer, head).assign(condition=name) for name, frame in frames.items()]
    found = accuracy(pd.concat(rows), ["condition"], seed=seed).set_index("condition")
    return found.loc[list(frames)].reset_index()


def of_head(frame: pd.DataFrame, layer: int, head: int) -> pd.DataFrame:
    """The rows of one head.

    Raises:
        AnalysisError: there is no such head.
    """
    rows = frame[(frame["layer"] == layer) & (frame["head"] == head)]
    if rows.empty:
        raise AnalysisError(f"the table has no head {layer}-{head}; layers go up to {frame['layer'].max()}")
    return rows


def _check(links: Sequence[Link]) -> None:
    if not links:
        raise AnalysisError("there is no sentence with a link; make some, for instance with templates.reference()")


def _check_words(pieces: Pieces, links: Sequence[Link]) -> None:
    """The positions of a link are the encoder's words only if both cut the sentence alike, and nothing was cut off."""
    for number, words in zip(pieces.index.tolist(), pieces.word_texts, strict=True):
        if words != links[number].words:
            raise AnalysisError(
                f"the encoder reads {links[number].text!r} as the words {words}, so the link is lost; use other words"
            )


def _columns(words: AttentionMaps, links: Sequence[Link], name: str) -> torch.Tensor:
    """(B,), where the query, target or distractor of each sentence stands among the words and special tokens."""
    numbers = torch.tensor([getattr(link, name) for link in links], device=words.word_ids.device)
    return (words.word_ids == numbers[:, None]).int().argmax(1)


def _judged(frame: pd.DataFrame, links: Sequence[Link]) -> pd.DataFrame:
    right = 0.5 + 0.5 * np.sign(frame["target"] - frame["distractor"])
    described = pd.DataFrame([(link.kind, link.group, link.half) for link in links], columns=["kind", "group", "half"])
    described = described.iloc[frame["input"]].reset_index(drop=True)
    return pd.concat([frame[["input"]], described, frame.drop(columns="input").assign(right=right)], axis=1)
