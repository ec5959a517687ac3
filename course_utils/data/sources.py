"""Where texts come from: installed packages, a user's own file, the Hugging Face hub. Nothing is fetched unless asked for by name.

Splits of a data set that comes without them are fixed by the text itself: duplicates are removed first, then each text goes to
train, dev or test by a hash of its tokens (and those of its query). So a text's split never depends on the others, and no text is
in two of them.
"""

import csv
import difflib
import hashlib
import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from course_utils.data.entailment import make_entailment
from course_utils.data.examples import Dataset, Example
from course_utils.data.stories import make_stories
from course_utils.errors import DataError
from course_utils.paths import data_file

DEV_SHARE, TEST_SHARE = 0.1, 0.15


@cache
def sources() -> dict[str, dict]:
    """The table of `data/sources.toml`: name to origin, size, licence, citation and what the loader needs."""
    return tomllib.loads(data_file("sources.toml").read_text(encoding="utf-8"))


@cache
def load(name: str) -> Dataset:
    """A data set of the course by its name in `data/sources.toml`.

    Raises:
        DataError: the name is unknown, or the package that carries the data is not installed.
    """
    known = [key for key, entry in sources().items() if entry.get("kind") != "model"]
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = (
            f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(known)}; load_hub(name) reads any hub data set"
        )
        raise DataError(f"data set {name!r} is unknown; {hint}")
    entry = sources()[name]
    if entry["origin"] == "ours":
        return make_stories(entry["task"]) if entry["generator"] == "stories" else make_entailment()
    rows = _read_rows(_package_file(entry["package"], entry["file"]), ("text", "label", "source"))
    found = (Example(row["text"], int(row["label"])) for row in rows if row["source"] == entry["source"])
    examples = _keep_lengths(_without_duplicates(found), entry.get("min_tokens", 1), entry.get("max_tokens", math.inf))
    return split_by_hash(name, entry["classes"], examples)


def load_csv(path: str | Path, *, text: str = "text", label: str = "label", text2: str | None = None) -> Dataset:
    """A user's own comma-separated file with a header line, one labelled text a row.

    Args:
        text, label: the names of the two columns. Labels may be words or numbers; classes are numbered in sorted order.
        text2: for tasks of two sequences, the column of the second one (a question, a hypothesis): the example's `query`.
    Raises:
        DataError: no such file, a column is missing, a text or label is empty, fewer than two classes, or not UTF-8 text.
            The message names the line.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    columns = (text, label) if text2 is None else (text, label, text2)
    rows = _read_rows(path, columns)
    for line, row in enumerate(rows, start=2):
        for column in columns:
            if not (row[column] or "").strip():
                raise DataError(f"{path.name}, row {line}: the column {column!r} is empty; fill it or drop the row")
    classes = _sorted_classes({row[label].strip() for row in rows})
    if len(classes) < 2:
        raise DataError(f"{path.name}: the column {label!r} holds {len(classes)} class; a classifier needs at least 2")
    numbers = {value: number for number, value in enumerate(classes)}
    examples = (Example(row[text], numbers[row[label].strip()], row[text2] if text2 else None) for row in rows)
    return split_by_hash(path.stem, classes, _without_duplicates(examples))


def load_hub(name: str, *, config: str | None = None, text: str = "text", label: str = "label") -> Dataset:
    """Any text classification set of the Hugging Face hub. This downloads; it needs the extra `hub` and a network.

    The hub's own test split is kept where it has labels; a dev split is cut from train by hash where there is none.

    Raises:
        DataError: `datasets` is not installed, the hub cannot be reached, or a column is missing.
    """
    offline = f"offline, load('rotten_tomatoes') does the same job. To fetch {name!r}: pip install datasets, with a network"
    try:
        import datasets
    except ImportError as error:
        raise DataError(f"hub data set {name!r} needs the package 'datasets'; {offline}") from error
    try:
        parts = datasets.load_dataset(name, config)
    except Exception as error:  # the library raises many types for one thing: it could not be had
        raise DataError(f"hub data set {name!r} could not be fetched ({type(error).__name__}); {offline}") from error
    return from_hub_splits(name, parts, text, label)


def from_hub_splits(name: str, parts, text: str, label: str) -> Dataset:
    """A Dataset from a mapping of split name to rows with `column_names`, `features` and dictionaries, as `datasets` gives them."""
    columns = parts["train"].column_names
    for column in (text, label):
        if column not in columns:
            raise DataError(f"hub data set {name!r} has no column {column!r}; its columns are {', '.join(columns)}")
    named = getattr(parts["train"].features[label], "names", None)
    classes = named or _sorted_classes({str(row[label]) for row in parts["train"]})
    numbers = {str(value): number for number, value in enumerate(range(len(named)) if named else classes)}
    examples = {
        split: _without_duplicates(Example(row[text], numbers[str(row[label])]) for row in rows if row[label] not in (None, -1))
        for split, rows in parts.items()
    }
    test = examples.get("test") or examples.get("validation") or []
    dev = examples.get("validation") if examples.get("test") else None
    held_out = {example.content for example in [*test, *(dev or [])]}
    train = [example for example in examples["train"] if example.content not in held_out]
    if test and dev:
        return Dataset(name, tuple(classes), tuple(train), tuple(dev), tuple(test))
    cut = split_by_hash(name, classes, train)
    if test:
        return Dataset(name, tuple(classes), cut.train + cut.test, cut.dev, tuple(test))
    return cut


def split_by_hash(name: str, classes: Sequence[str], examples: Iterable[Example]) -> Dataset:
    """Train, dev and test by a hash of the content: about 75, 10 and 15 per cent.

    Raises:
        DataError: a split would be empty or train lacks a class.
    """
    parts = {"train": [], "dev": [], "test": []}
    for example in examples:
        words = "\n".join(" ".join(tokens) for tokens in example.content if tokens)
        digest = hashlib.sha256(words.encode()).digest()
        share = int.from_bytes(digest[:8], "big") / 2**64
        parts["test" if share < TEST_SHARE else "dev" if share < TEST_SHARE + DEV_SHARE else "train"].append(example)
    missing = set(range(len(classes))) - {example.label for example in parts["train"]}
    if missing or not all(parts.values()):
        sizes = ", ".join(f"{part} {len(rows)}" for part, rows in parts.items())
        raise DataError(f"{name!r} is too small to split ({sizes}); give at least some dozens of different texts of each class")
    return Dataset(name, tuple(classes), *(tuple(parts[part]) for part in ("train", "dev", "test")))


def _package_file(package: str, file: str) -> Path:
    try:
        path = Path(metadata.distribution(package).locate_file(file))
    except metadata.PackageNotFoundError as error:
        raise DataError(f"the package {package!r} carries this data and is not installed; run 'pip install {package}'") from error
    if not path.is_file():
        raise DataError(
            f"the package {package!r} is installed but {file} is not in it; run 'pip install --force-reinstall {package}'"
        )
    return path


def _read_rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            table = csv.DictReader(lines, strict=True)
            missing = [column for column in columns if column not in (table.fieldnames or ())]
            if missing:
                raise DataError(
                    f"{path.name} has no column {missing[0]!r}; its columns are {', '.join(table.fieldnames or ['(none)'])}"
                )
            return list(table)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path.name} is not a comma-separated UTF-8 text file: {error}") from error


def _without_duplicates(examples: Iterable[Example]) -> list[Example]:
    """One example for each different content; one that occurs with two labels is dropped altogether."""
    found = defaultdict(list)
    for example in examples:
        found[example.content].append(example)
    return [group[0] for group in found.values() if len({example.label for example in group}) == 1]


def _keep_lengths(examples: Iterable[Example], shortest: int, longest: float) -> list[Example]:
    return [example for example in examples if shortest <= len(example.tokens) <= longest]


def _sorted_classes(values: set[str]) -> tuple[str, ...]:
    try:
        return tuple(sorted(values, key=float))
    except ValueError:
        return tuple(sorted(values))
