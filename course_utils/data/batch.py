"""Texts in, padded tensors out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from course_utils.data.examples import Example
from course_utils.data.text import Vocabulary
from course_utils.errors import DataError
from course_utils.notices import announce


@dataclass(frozen=True)
class Batch:
    """B texts of at most T tokens, padded on the right.

    Attributes:
        ids: (B, T) int64, vocabulary numbers; 0 is padding.
        mask: (B, T) bool, True at real tokens.
        lengths: (B,) int64, in 1..T.
        labels: (B,) int64, or None where a text has no label.
        tokens: B tuples of the real tokens.
        index: (B,) int64, each text's position in the list that was batched; results are put in order by it.
        query: the B second texts (questions, hypotheses) as a batch of their own, without labels; None in tasks of one sequence.
        gold: (B, T) bool, True at tokens known to decide, False at padding; None where an example has no such marks.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    lengths: torch.Tensor
    labels: torch.Tensor | None
    tokens: tuple[tuple[str, ...], ...]
    index: torch.Tensor
    query: "Batch | None" = None
    gold: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch with its tensors on `device`."""
        parts = {name: getattr(self, name) for name in ("ids", "mask", "lengths", "labels", "index", "query", "gold")}
        return replace(self, **{name: part.to(device) for name, part in parts.items() if part is not None})

    def select(self, rows: torch.Tensor) -> "Batch":
        """The texts of these rows, (N,) int64, some perhaps several times, padded to the longest of them only."""
        rows = rows.to(self.ids.device)
        lengths = self.lengths[rows]
        width = int(lengths.max())
        return Batch(
            ids=self.ids[rows, :width],
            mask=self.mask[rows, :width],
            lengths=lengths,
            labels=None if self.labels is None else self.labels[rows],
            tokens=tuple(self.tokens[row] for row in rows.tolist()),
            index=self.index[rows],
            query=None if self.query is None else self.query.select(rows),
            gold=None if self.gold is None else self.gold[rows, :width],
        )


def as_examples(texts: Iterable[Example | str]) -> list[Example]:
    """Examples from a list that may hold plain strings."""
    if isinstance(texts, str):
        raise DataError("expected a list of texts, got one string; write [text]")
    return [text if isinstance(text, Example) else Example(text) for text in texts]


def make_batch(texts: Iterable[Example | str], vocabulary: Vocabulary, *, max_tokens: int | None = None) -> Batch:
    """One padded batch of all the texts, in their order.

    Args:
        max_tokens: longer texts keep their first `max_tokens` tokens, with a warning that counts them. Queries are kept whole.
    Raises:
        DataError: no text, an empty text or something that is not text, or only some of the texts have a query.
    """
    examples = as_examples(texts)
    if not examples:
        raise DataError("there is no text to batch")
    return _pad(examples, _truncate(examples, max_tokens), vocabulary, range(len(examples)))


def _pad(examples: Sequence[Example], tokens: Sequence[tuple[str, ...]], vocabulary: Vocabulary, index: Sequence[int]) -> Batch:
    batch = _pad_tokens(tokens, vocabulary, index)
    labels = [example.label for example in examples]
    marks = [example.gold for example in examples]
    gold = None
    if None not in marks:
        gold = torch.zeros_like(batch.mask)
        gold[batch.mask] = torch.tensor([mark for row, words in zip(marks, tokens, strict=True) for mark in row[: len(words)]])
    with_query = sum(example.query is not None for example in examples)
    if 0 < with_query < len(examples):
        raise DataError(f"{with_query} of {len(examples)} texts have a query; give one to all of them or to none")
    return replace(
        batch,
        labels=None if None in labels else torch.tensor(labels),
        query=_pad_tokens([example.query_tokens for example in examples], vocabulary, index) if with_query else None,
        gold=gold,
    )


def _pad_tokens(tokens: Sequence[tuple[str, ...]], vocabulary: Vocabulary, index: Sequence[int]) -> Batch:
    lengths = torch.tensor([len(words) for words in tokens])
    ids = torch.zeros(len(tokens), int(lengths.max()), dtype=torch.int64)
    for row, words in enumerate(tokens):
        ids[row, : len(words)] = torch.tensor(vocabulary.encode(words))
    return Batch(
        ids=ids,
        mask=torch.arange(ids.shape[1]) < lengths[:, None],
        lengths=lengths,
        labels=None,
        tokens=tuple(tokens),
        index=torch.tensor(list(index)),
    )


def make_batches(
    texts: Iterable[Example | str],
    vocabulary: Vocabulary,
    *,
    token_budget: int = 4096,
    max_tokens: int | None = None,
    generator: torch.Generator | None = None,
) -> list[Batch]:
    """Batches of texts of similar length, each of at most `token_budget` padded tokens (or of one text that is longer).

    Queries go with their texts and are not counted.

    Args:
        token_budget: the default suits the caches of a small processor when an encoder reads; the same values come from any.
        generator: for training: texts of nearly equal length are mixed anew, and the batches come in random order.
            Without it the batches go from the shortest texts to the longest.
    Raises:
        DataError: as `make_batch`, or a budget below 1. No text at all gives no batch.
    """
    if token_budget < 1:
        raise DataError(f"token_budget must be at least 1, not {token_budget}")
    examples = as_examples(texts)
    tokens = _truncate(examples, max_tokens)
    lengths = torch.tensor([len(words) for words in tokens], dtype=torch.float)
    if generator is None:
        order = lengths.argsort(stable=True).tolist()
    else:
        order = (lengths * (1 + 0.2 * torch.rand(len(examples), generator=generator))).argsort().tolist()
    groups, longest = [[]], 0
    for position in order:
        longest = max(longest, int(lengths[position]))
        if groups[-1] and longest * (len(groups[-1]) + 1) > token_budget:
            groups.append([])
            longest = int(lengths[position])
        groups[-1].append(position)
    if generator is not None:
        groups = [groups[position] for position in torch.randperm(len(groups), generator=generator).tolist()]
    return [_pad([examples[i] for i in group], [tokens[i] for i in group], vocabulary, group) for group in groups if group]


def _truncate(examples: Sequence[Example], max_tokens: int | None) -> list[tuple[str, ...]]:
    if max_tokens is not None and max_tokens < 1:
        raise DataError(f"max_tokens must be at least 1, not {max_tokens}")
    cut = sum(len(example.tokens) > max_tokens for example in examples) if max_tokens else 0
    if cut:
        announce(f"{cut} of {len(examples)} texts are longer than {max_tokens} tokens and were truncated")
    return [example.tokens[:max_tokens] for example in examples]
