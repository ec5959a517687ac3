"""Texts as a pretrained tokenizer cuts them."""

import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import torch

from course_utils.errors import DataError
from course_utils.notices import announce


def is_punctuation(word: str) -> bool:
    """Whether every character is an ASCII symbol or of a Unicode punctuation class. Emoji are not punctuation."""
    return bool(word) and all(c in string.punctuation or unicodedata.category(c).startswith("P") for c in word)


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """B texts of at most T word pieces, padded on the right.

    Attributes:
        ids: (B, T) int64, the tokenizer's numbers.
        mask: (B, T) bool, True at real tokens; special tokens are real, padding is not.
        special: (B, T) bool, True where no text stands: [CLS], [SEP] and padding.
        separator: (B, T) bool, True at [SEP].
        word_ids: (B, T) int64, which word of its text a piece belongs to; -1 where `special`.
        word_texts: B tuples, the words as they stand in the text, in order of `word_ids`. A punctuation mark is a word.
        tokens: B tuples of the real tokens, special ones included.
        index: (B,) int64, each text's position in the list that was read; results are put in order by it.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    special: torch.Tensor
    separator: torch.Tensor
    word_ids: torch.Tensor
    word_texts: tuple[tuple[str, ...], ...]
    tokens: tuple[tuple[str, ...], ...]
    index: torch.Tensor

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def lengths(self) -> torch.Tensor:
        """(B,) int64, real tokens of each text."""
        return self.mask.sum(1)

    def to(self, device: torch.device | str) -> Self:
        """The same with its tensors on `device`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value.to(device) for name, value in values.items() if torch.is_tensor(value)})

    def take(self, rows: torch.Tensor, ids: torch.Tensor) -> "Pieces":
        """The texts at `rows` (R,), repeats allowed, with the numbers `ids` (R, T) in place of theirs: variants of a text.

        `tokens` and `word_texts` stay those of the text.
        """
        tensors = {name: getattr(self, name)[rows] for name in ("mask", "special", "separator", "word_ids", "index")}
        tokens, words = zip(*((self.tokens[row], self.word_texts[row]) for row in rows.tolist()), strict=True)
        return Pieces(ids=ids, tokens=tokens, word_texts=words, **tensors)

    @property
    def punctuation(self) -> torch.Tensor:
        """(B, T) bool, True at pieces of words that are punctuation only."""
        flags = torch.zeros(self.mask.shape, dtype=torch.bool)
        word_ids = self.word_ids.tolist()
        for row, words in enumerate(self.word_texts):
            marks = {number for number, word in enumerate(words) if is_punctuation(word)}
            if marks:
                flags[row] = torch.tensor([number in marks for number in word_ids[row]])
        return flags.to(self.mask.device)


class ReadText(NamedTuple):
    """One text, not padded: its pieces, whether each is a special token, the word each belongs to (-1: none), and the words."""

    ids: list[int]
    tokens: tuple[str, ...]
    special: list[bool]
    word_ids: list[int]
    words: tuple[str, ...]


def read(tokenizer, texts: Sequence[str], limit: int) -> list[ReadText]:
    """Cut texts into word pieces, each at most `limit` with its special tokens; longer ones lose their end, with a warning.

    Raises:
        DataError: no text, something that is not text, or a text without any token.
    """
    if isinstance(texts, str):
        raise DataError("expected a list of texts, got one string; write [text]")
    texts = list(texts)
    if not texts:
        raise DataError("there is no text to read")
    for text in texts:
        if not isinstance(text, str):
            raise DataError(f"a text must be a string, not {type(text).__name__}: {text!r}")
    if limit <= tokenizer.num_special_tokens_to_add():
        raise DataError(f"a limit of {limit} tokens leaves no room beside the special tokens")
    encodings = tokenizer(texts, verbose=False).encodings
    cut = sum(len(encoding) > limit for encoding in encodings)
    if cut:
        announce(f"{cut} of {len(texts)} texts are longer than {limit} tokens and were truncated")
        encodings = tokenizer(texts, truncation=True, max_length=limit).encodings
    return [_read_one(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]


def _read_one(text: str, encoding) -> ReadText:
    special = [bool(flag) for flag in encoding.special_tokens_mask]
    if all(special) or not text.strip():
        raise DataError(f"the text {text!r} has no token to attend to; leave empty texts out")
    word_ids = [-1 if number is None else number for number in encoding.word_ids]
    spans = [encoding.word_to_chars(number) for number in range(max(word_ids) + 1)]
    words = tuple(text[start:end].strip() for start, end in spans)
    return ReadText(encoding.ids, tuple(encoding.tokens), special, word_ids, words)


def pad(texts: Sequence[ReadText], tokenizer, index: Sequence[int]) -> Pieces:
    """One batch of them, in their order; `index` is what is recorded as their positions."""
    lengths = torch.tensor([len(text.ids) for text in texts])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]

    def column(name: str, filler, dtype: torch.dtype) -> torch.Tensor:
        padded = torch.full(mask.shape, filler, dtype=dtype)
        for row, text in enumerate(texts):
            values = getattr(text, name)
            padded[row, : len(values)] = torch.tensor(values, dtype=dtype)
        return padded

    ids = column("ids", tokenizer.pad_token_id, torch.int64)
    special = column("special", True, torch.bool)
    separator_id = -1 if tokenizer.sep_token_id is None else tokenizer.sep_token_id
    return Pieces(
        ids=ids,
        mask=mask,
        special=special,
        separator=(ids == separator_id) & special & mask,
        word_ids=column("word_ids", -1, torch.int64),
        word_texts=tuple(text.words for text in texts),
        tokens=tuple(text.tokens for text in texts),
        index=torch.tensor(list(index)),
    )
