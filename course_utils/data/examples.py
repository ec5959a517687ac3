"""What a data set is: labelled texts in three fixed splits."""

from dataclasses import dataclass, field
from functools import cached_property

from course_utils.data.text import tokenize
from course_utils.errors import DataError


@dataclass(frozen=True)
class Example:
    """One text and, where it is known, the number of its class.

    Raises:
        DataError: `text` is not a string (None and NaN from a table with holes included), or holds no token.
    """

    text: str
    label: int | None = None

    def __post_init__(self):
        if not isinstance(self.text, str):
            raise DataError(f"a text must be a string, not {self.text!r}; drop or fill missing rows first")
        if not self.text.strip():
            raise DataError(f"the text {self.text!r} has no tokens; drop empty rows first")

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Lower-cased words and punctuation marks, at least one."""
        return tuple(tokenize(self.text))


@dataclass(frozen=True)
class Dataset:
    """Labelled texts. `classes[label]` is the name of a class; the splits share no text."""

    name: str
    classes: tuple[str, ...]
    train: tuple[Example, ...] = field(repr=False)
    dev: tuple[Example, ...] = field(repr=False)
    test: tuple[Example, ...] = field(repr=False)

    def __repr__(self) -> str:
        sizes = f"train={len(self.train)}, dev={len(self.dev)}, test={len(self.test)}"
        return f"Dataset({self.name!r}, classes={self.classes}, {sizes})"
