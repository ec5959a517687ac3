"""What a data set is: labelled texts in three fixed splits."""

import sys
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral

from course_utils.data.text import tokenize
from course_utils.errors import DataError


@dataclass(frozen=True)
class Example:
    """One text and, where they are known, the number of its class, a second text, and which tokens decide.

    Attributes:
        query: what is asked of the text: a question about a story, a hypothesis about a premise. None in tasks of one sequence.
        gold: for each token of `text`, whether it belongs to what decides the label. All False where nothing in the text does.
    Raises:
        DataError: `text` or `query` is not a string (None and NaN from a table with holes included) or holds no token, `label`
            is neither None nor a whole number, or `gold` has not one mark for each token.
    """

    text: str
    label: int | None = None
    query: str | None = None
    gold: tuple[bool, ...] | None = None

    def __post_init__(self):
        for text in (self.text,) if self.query is None else (self.text, self.query):
            if not isinstance(text, str):
                raise DataError(f"a text must be a string, not {text!r}; drop or fill missing rows first")
            if not tokenize(text):
                raise DataError(f"the text {text!r} has no tokens; drop empty rows first")
        if self.label is not None:
            if not isinstance(self.label, Integral):
                raise DataError(f"a label is the number of a class, or None, not {self.label!r}; number the classes from 0")
            object.__setattr__(self, "label", int(self.label))  # one type, also from a table's own integers
        if self.gold is not None and len(self.gold) != len(self.tokens):
            raise DataError(
                f"gold has {len(self.gold)} marks for the {len(self.tokens)} tokens of {self.text[:60]!r}; give one a token"
            )

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Lower-cased words and punctuation marks, at least one. Equal words share one string, so long texts stay small."""
        return tuple(map(sys.intern, tokenize(self.text)))

    @cached_property
    def query_tokens(self) -> tuple[str, ...]:
        """The same of the query; empty where there is none."""
        return () if self.query is None else tuple(map(sys.intern, tokenize(self.query)))

    @property
    def content(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What makes two examples the same, whatever their labels: the tokens of the text and of the query."""
        return self.tokens, self.query_tokens


@dataclass(frozen=True)
class Dataset:
    """Labelled texts. `classes[label]` is the name of a class; the splits share no text (no text with the same query)."""

    name: str
    classes: tuple[str, ...]
    train: tuple[Example, ...] = field(repr=False)
    dev: tuple[Example, ...] = field(repr=False)
    test: tuple[Example, ...] = field(repr=False)

    def __repr__(self) -> str:
        sizes = f"train={len(self.train)}, dev={len(self.dev)}, test={len(self.test)}"
        return f"Dataset({self.name!r}, classes={self.classes}, {sizes})"
