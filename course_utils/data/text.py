"""Words and their numbers."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from course_utils.errors import DataError

PAD, UNKNOWN = "<pad>", "<unk>"

_LINE_BREAK = re.compile(r"<br\s*/?>")
_TOKEN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


def tokenize(text: str) -> list[str]:
    """Lower-cased words (a contraction is one word) and single punctuation marks. HTML line breaks are white space."""
    return _TOKEN.findall(_LINE_BREAK.sub(" ", text).lower())


@dataclass(frozen=True)
class Vocabulary:
    """The words a model knows. Number 0 is padding, number 1 any word that is not in the list."""

    words: tuple[str, ...]

    def __post_init__(self):
        if self.words[:2] != (PAD, UNKNOWN):
            raise DataError(f"a vocabulary starts with {PAD!r}, {UNKNOWN!r}, not {self.words[:2]}")
        if len(set(self.words)) != len(self.words):
            repeated = [word for word, count in Counter(self.words).items() if count > 1]
            raise DataError(f"a vocabulary lists each word once; repeated: {repeated[:5]}")

    @classmethod
    def build(cls, texts: Iterable[Sequence[str]], min_documents: int = 1) -> "Vocabulary":
        """The words of tokenised texts that stand in at least `min_documents` of them, most frequent first."""
        documents = Counter(word for tokens in texts for word in set(tokens))
        kept = [(-count, word) for word, count in documents.items() if count >= min_documents and word not in (PAD, UNKNOWN)]
        return cls((PAD, UNKNOWN, *(word for _, word in sorted(kept))))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The number of each token; 1 for a word that is not in the vocabulary."""
        return [self._ids.get(token, 1) for token in tokens]
