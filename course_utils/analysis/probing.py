"""What a linear classifier can read from the states of an encoder, and what it could have learned without them.

A probe is a logistic regression from the state of a word to a label of that word (Belinkov 2022). Its accuracy mixes what the
state holds with what the probe can learn by itself; baselines, control tasks and code lengths (`course_utils.analysis.codes`)
tell the two apart. Sentences, not words, are divided into train, dev and test, and drawn for intervals.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from course_utils.analysis.resampling import draws, interval
from course_utils.data.parsing import Parse, align
from course_utils.errors import AnalysisError
from course_utils.models import Encoder
from course_utils.models.pieces import Pieces

STRENGTH, STEPS = 0.01, 25
PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class WordStates:
    """n words of several sentences, as a parser cuts them, each with its state after every layer: the mean over its word pieces.

    Attributes:
        sentence: (n,) int64, the sentence's place in the list that was read.
        position: (n,) int64, the word's place in its parse. Words that the encoder's pieces do not spell are left out.
        words: (n,) object, the words in lower case: the word types.
        hidden: (n, L + 1, H) float32, embeddings first.
        heads: (n, L, N, D) float32, what each head reads for the word (attention times values), or None unless asked for.
    """

    sentence: np.ndarray
    position: np.ndarray
    words: np.ndarray
    hidden: np.ndarray
    heads: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.sentence)

    @property
    def n_layers(self) -> int:
        """L, the embeddings not counted."""
        return self.hidden.shape[1] - 1

    def layer(self, layer: int) -> np.ndarray:
        """(n, H), the states after a layer; 0 are the embeddings.

        Raises:
            AnalysisError: there is no such layer.
        """
        if not 0 <= layer <= self.n_layers:
            raise AnalysisError(f"layer {layer} does not exist; there are 0 (the embeddings) to {self.n_layers}")
        return self.hidden[:, layer]

    def take(self, rows: np.ndarray) -> "WordStates":
        """The words at `rows`, numbers or flags."""
        return replace(self, **{name: None if values is None else values[rows] for name, values in vars(self).items()})

    def silver(self, parses: Sequence[Parse], column: str) -> np.ndarray:
        """(n,) labels of the words: a column of their parses, "pos", "tags" or "labels"."""
        places = zip(self.sentence, self.position, strict=True)
        return np.array([getattr(parses[sentence], column)[position] for sentence, position in places], dtype=object)


def word_states(
    encoder: Encoder, texts: Sequence[str], parses: Sequence[Parse], *, heads: bool = False, token_budget: int = 2048
) -> WordStates:
    """The states of all words of the texts, in the order of the texts.

    Args:
        parses: of the texts, as from `data.parsing.parse`.
        heads: whether to keep what each head reads.
        token_budget: as in `Encoder.batches`; the result does not depend on it.
    Raises:
        DataError: no text, or one without a token.
        AnalysisError: another number of parses.
    """
    if len(texts) != len(parses):
        raise AnalysisError(f"{len(texts)} texts and {len(parses)} parses; give one for each")
    size = max(map(len, parses), default=0)
    batches = [(pieces, _owners(pieces, texts, parses, size)) for pieces in encoder.batches(texts, token_budget=token_budget)]
    owned = np.unique(torch.cat([owners[owners >= 0] for _, owners in batches]).cpu().numpy())
    sentence, position = np.divmod(owned, size)
    layers, n_heads, width = encoder.n_layers, encoder.n_heads, encoder.model.config.hidden_size
    hidden = np.empty((len(owned), layers + 1, width), np.float32)
    read = np.empty((len(owned), layers, n_heads, width // n_heads), np.float32) if heads else None
    for pieces, owners in batches:
        maps = encoder.attend(pieces, states=True)
        _fill(hidden, owned, owners, maps.hidden.transpose(1, 2))
        if heads:
            _fill(read, owned, owners, (maps.attention @ maps.values).permute(0, 3, 1, 2, 4))
    words = [parses[at].words[number].lower() for at, number in zip(sentence, position, strict=True)]
    return WordStates(sentence, position, np.array(words, dtype=object), hidden, read)


def _owners(pieces: Pieces, texts: Sequence[str], parses: Sequence[Parse], size: int) -> torch.Tensor:
    """(B, T), the word a piece belongs to, as `sentence * size + position`; -1 for none."""
    rows = []
    for row, number in enumerate(pieces.index.tolist()):
        alignment = align(texts[number], parses[number], pieces.word_texts[row])
        of_unit = {unit: number * size + position for position, unit in enumerate(alignment.unit) if unit >= 0}
        of_word = [*(of_unit.get(unit, -1) for unit in alignment.unit_of_word), -1]  # the last: special tokens
        rows.append(torch.tensor(of_word)[pieces.word_ids[row].cpu()])
    return torch.stack(rows).to(pieces.mask.device)


def _fill(target: np.ndarray, owned: np.ndarray, owners: torch.Tensor, values: torch.Tensor) -> None:
    """Put the mean over each word's pieces, of values (B, T, ...), into the word's row of the target (n, ...)."""
    mine = owners >= 0
    present, owner, counts = owners[mine].unique(return_inverse=True, return_counts=True)
    sums = values.new_zeros(len(present), *values.shape[2:]).index_add_(0, owner, values[mine])
    means = sums / counts.view(-1, *[1] * (sums.dim() - 1))
    target[np.searchsorted(owned, present.cpu().numpy())] = means.float().cpu().numpy()


def split_sentences(sentence: np.ndarray, *, shares: tuple[float, float, float] = (0.6, 0.15, 0.25), seed: int = 0) -> np.ndarray:
    """(n,) of "train", "dev" or "test" for each word; all words of a sentence fall into the same part.

    Args:
        sentence: (n,), which sentence a word belongs to.
        shares: of the sentences, in the order of `PARTS`; they sum to 1.
    Raises:
        AnalysisError: fewer than three sentences, or shares that are none.
    """
    names, inverse = np.unique(np.asarray(sentence), return_inverse=True)
    if len(names) < 3:
        raise AnalysisError(f"{len(names)} sentences cannot be divided into train, dev and test; give 3 or more")
    if min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise AnalysisError(f"the shares are {shares}; three positive numbers that sum to 1 are needed")
    ends = np.clip(np.round(np.cumsum(shares)[:2] * len(names)), [1, 2], [len(names) - 2, len(names) - 1])
    rank = np.random.default_rng(seed).permutation(len(names))
    return np.array(PARTS, dtype=object)[np.searchsorted(ends, rank, side="right")][inverse]


def new_probe(strength: float = STRENGTH, standardised: bool = True) -> Pipeline:
    """An untrained probe: multinomial logistic regression on standardised, or only centred, features.

    Args:
        strength: scikit-learn's C, the inverse of the L2 penalty; larger means freer.
        standardised: whether each feature is divided by its standard deviation.
    """
    return make_pipeline(StandardScaler(with_std=standardised), LogisticRegression(C=strength, max_iter=STEPS))


def train_probe(features: np.ndarray, labels: Sequence, *, strength: float = STRENGTH, standardised: bool = True) -> Pipeline:
    """A probe trained on all rows, by at most 25 steps of L-BFGS: more change nothing here.

    Args:
        features: (n, F). labels: n of them.
        strength, standardised: as in `new_probe`.
    Raises:
        AnalysisError: no row, other numbers of rows, a feature that is not finite, or one class only.
    """
    labels = checked_labels(labels, len(features))
    if not np.isfinite(features).all():
        raise AnalysisError("a feature is not a finite number; look for nan in the states")
    if len(set(labels)) < 2:
        raise AnalysisError(f"there is one class only, {labels[0]!r}: nothing to tell apart; give words with two labels or more")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return new_probe(strength, standardised).fit(features, np.array(labels.tolist()))  # numbers as numbers, words as words


def probe(features: np.ndarray, labels: Sequence, part: np.ndarray, *, strength: float = STRENGTH, on: str = "test") -> np.ndarray:
    """(n_on,), the labels that a probe trained on "train" predicts for the words of the part `on`.

    Args:
        part: (n,), as from `split_sentences`.
    Raises:
        AnalysisError: as `train_probe`, or a part without a word.
    """
    train, chosen = _rows(part, "train", len(features)), _rows(part, on, len(features))
    labels = checked_labels(labels, len(features))
    return train_probe(features[train], labels[train], strength=strength).predict(features[chosen])


def control_labels(words: Sequence[str], labels: Sequence, seed: int = 0) -> np.ndarray:
    """(n,) labels of the control task (Hewitt & Liang 2019, section 2): one random label for each word type.

    A type's label is drawn from the distribution of the real labels over words, whatever the type, so it says nothing about
    language: only a probe that memorises types can learn it, and nobody can for a type that was not seen in training.

    Args:
        words: n word types. labels: n real labels.
    """
    labels = checked_labels(labels, len(words))
    names, counts = np.unique(labels, return_counts=True)
    types, inverse = np.unique(np.asarray(words, dtype=object), return_inverse=True)
    return np.random.default_rng(seed).choice(names, size=len(types), p=counts / counts.sum())[inverse]


def majority(words: Sequence[str], labels: Sequence, part: np.ndarray, *, by_type: bool = True, on: str = "test") -> np.ndarray:
    """(n_on,), what can be said without any state: each type's most frequent label in training, else the most frequent of all.

    Args:
        by_type: False ignores the word and always says the most frequent label.
    Raises:
        AnalysisError: lengths differ, or a part has no word.
    """
    train, chosen = _rows(part, "train", len(words)), _rows(part, on, len(words))
    seen = pd.DataFrame({"word": np.asarray(words, dtype=object), "label": checked_labels(labels, len(words))})
    overall = seen["label"][train].mode()[0]
    if not by_type:
        return np.full(chosen.sum(), overall, dtype=object)
    best = seen[train].groupby("word")["label"].agg(lambda column: column.mode()[0])
    return seen["word"][chosen].map(best).fillna(overall).to_numpy()


def answers(states: WordStates, labels: Sequence, predicted: np.ndarray, part: np.ndarray, on: str = "test") -> pd.DataFrame:
    """Predictions as a table, one row a word of the part `on`: `sentence`, `position`, `word`, `label`, `predicted`, `correct`."""
    chosen = _rows(part, on, len(states))
    labels = checked_labels(labels, len(states))[chosen]
    columns = {"sentence": states.sentence, "position": states.position, "word": states.words}
    frame = pd.DataFrame({name: values[chosen] for name, values in columns.items()})
    return frame.assign(label=labels, predicted=predicted, correct=labels == predicted)


def probe_layers(
    states: WordStates,
    tasks: Mapping[str, Sequence],
    part: np.ndarray,
    *,
    layers: Sequence[int] | None = None,
    strength: float = STRENGTH,
) -> pd.DataFrame:
    """A probe for each task and layer, on the words of "test".

    Args:
        tasks: names to n labels each.
        layers: 0 are the embeddings; all unless told.
    Returns:
        columns of `answers` after `task` and `layer`.
    Raises:
        AnalysisError: as `probe`, or a layer does not exist.
    """
    layers = range(states.n_layers + 1) if layers is None else layers
    frames = [
        answers(states, labels, probe(states.layer(layer), labels, part, strength=strength), part).assign(task=task, layer=layer)
        for task, labels in tasks.items()
        for layer in layers
    ]
    return _first(pd.concat(frames, ignore_index=True), "task", "layer")


def probe_heads(states: WordStates, labels: Sequence, part: np.ndarray, *, strength: float = STRENGTH) -> pd.DataFrame:
    """A probe for each head, from what the head reads for a word (D numbers), on the words of "test".

    Returns:
        columns of `answers` after `layer` (from 0, as in attention maps) and `head`.
    Raises:
        AnalysisError: as `probe`, or the states of heads were not kept.
    """
    if states.heads is None:
        raise AnalysisError("the states hold no heads; make them with word_states(encoder, texts, heads=True)")
    frames = []
    for layer, head in np.ndindex(states.heads.shape[1:3]):
        predicted = probe(states.heads[:, layer, head], labels, part, strength=strength)
        frames.append(answers(states, labels, predicted, part).assign(layer=layer, head=head))
    return _first(pd.concat(frames, ignore_index=True), "layer", "head")


def accuracy(frame: pd.DataFrame, by: Sequence[str] = (), *, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Share of right words, with a 95 % interval by the bootstrap over sentences.

    Args:
        frame: as from `probe_layers`: `sentence`, `correct`, and the columns of `by`.
    Returns:
        one row a group: `by`, `accuracy`, `low`, `high` in [0, 1], `n` words.
    """
    groups = frame.groupby(list(by), sort=False, observed=True) if len(by) else [((), frame)]
    rows = []
    for key, group in groups:
        right, count = _by_sentence(group, np.unique(group["sentence"]))
        drawn = draws(len(count), n_resamples, seed)
        low, high = interval((drawn @ right) / (drawn @ count))
        rows.append((*key, right.sum() / count.sum(), low, high, len(group)))
    return pd.DataFrame(rows, columns=[*by, "accuracy", "low", "high", "n"])


def difference(
    frame: pd.DataFrame,
    column: str,
    first: object,
    second: object,
    by: Sequence[str] = (),
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Accuracy of one group less that of another on the same sentences, with a 95 % interval by the bootstrap over sentences.

    The selectivity of a probe (Hewitt & Liang 2019, section 2.2) is `difference(frame, "task", task, its control)`.

    Args:
        column: holds `first` and `second`.
        by: columns within whose groups they are compared.
    Returns:
        one row a group: `by`, `difference`, `low`, `high` in [-1, 1].
    Raises:
        AnalysisError: `first` or `second` is not in the column.
    """
    for name in (first, second):
        if not (frame[column] == name).any():
            raise AnalysisError(f"{column} has no {name!r}; it has {', '.join(map(str, frame[column].unique()))}")
    groups = frame.groupby(list(by), sort=False, observed=True) if len(by) else [((), frame)]
    rows = []
    for key, group in groups:
        names = np.unique(group["sentence"])
        drawn = draws(len(names), n_resamples, seed)
        sides = [_by_sentence(group[group[column] == name], names) for name in (first, second)]
        points = [right.sum() / count.sum() for right, count in sides]
        resampled = [(drawn @ right) / (drawn @ count) for right, count in sides]
        low, high = interval(resampled[0] - resampled[1])
        rows.append((*key, points[0] - points[1], low, high))
    return pd.DataFrame(rows, columns=[*by, "difference", "low", "high"])


def checked_labels(labels: Sequence, count: int) -> np.ndarray:
    """The labels as an array of `count` > 0 of them.

    Raises:
        AnalysisError: another number, none at all, or a label is missing.
    """
    labels = np.asarray(labels, dtype=object)
    if len(labels) != count:
        raise AnalysisError(f"{len(labels)} labels do not fit {count} words; give one for each")
    if not count:
        raise AnalysisError("there is no word to probe; are the sentences empty?")
    if pd.isna(labels).any():
        raise AnalysisError(f"{int(pd.isna(labels).sum())} of {count} words have no label; leave them out with states.take(rows)")
    return labels


def _rows(part: np.ndarray, name: str, count: int) -> np.ndarray:
    rows = np.asarray(part) == name
    if len(rows) != count:
        raise AnalysisError(f"the split has {len(rows)} words, the states have {count}; make it from states.sentence")
    if not rows.any():
        raise AnalysisError(f"no word is in the part {name!r}; the parts are {', '.join(sorted(set(part)))}")
    return rows


def _by_sentence(frame: pd.DataFrame, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right words and all words of each sentence."""
    at = np.searchsorted(names, frame["sentence"])
    return np.bincount(at, frame["correct"].astype(float), len(names)), np.bincount(at, minlength=len(names))


def _first(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    return frame[[*columns, *(name for name in frame if name not in columns)]]
