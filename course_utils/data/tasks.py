"""The paper's other tasks (Jain & Wallace 2019, table 1): from the Hugging Face hub, scikit-learn, or a user's own clinical notes.

These download, or need files that only their owner may have; so each says what it is about to fetch, and what does the same job
without a network. Filters and labels are the paper's (its code, and its table 1).
"""

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from course_utils.data.examples import Dataset, Example
from course_utils.data.splitting import keep_lengths, sorted_classes, split_by_hash, without_duplicates
from course_utils.errors import DataError
from course_utils.notices import announce

# What the discharge diagnoses of a stay decide (ICD-9; from memory of the paper's description, not checked against its code).
CLINICAL_CODES = {"diabetes": {1: ("250",)}, "anemia": {0: ("2851",), 1: ("2852",)}}
csv.field_size_limit(2**27)  # notes run to hundreds of thousands of characters


def load_task(name: str, entry: Mapping, path: str | Path | None = None) -> Dataset:
    """A task of `data/sources.toml` whose origin is "hub", "scikit-learn" or "path".

    Raises:
        DataError: it cannot be fetched, or a path is needed and not given.
    """
    if entry["origin"] == "path":
        if path is None:
            raise DataError(
                f"{name!r} is made from your own copy of {entry['files']}; give its folder: load({name!r}, path=...). "
                f"Without it, load({entry['offline']!r}) does the same job"
            )
        found = clinical(name, Path(path))
        return split_by_hash(name, entry["classes"], without_duplicates(found))
    announce(f"fetching {name} ({entry['size']}); load({entry['offline']!r}) does the same job without a network")
    return _newsgroups(name, entry) if entry["origin"] == "scikit-learn" else _from_hub(name, entry)


def load_hub(
    name: str, *, config: str | None = None, text: str = "text", label: str = "label", text2: str | None = None
) -> Dataset:
    """Any text classification set of the Hugging Face hub. This downloads; it needs the extra `hub` and a network.

    The hub's own test split is kept where it has labels; a dev split is cut from train by hash where there is none.

    Args:
        config: of the data set, where it has several.
        text, label: the names of the two columns.
        text2: for tasks of two sequences, the column of the second one: the example's `query`.
    Raises:
        DataError: `datasets` is not installed, the hub cannot be reached, or a column is missing.
    """
    return from_hub_splits(name, _fetch(name, config, "rotten_tomatoes" if text2 is None else "entailment"), text, label, text2)


def _fetch(name: str, config: str | None, instead: str):
    offline = f"offline, load({instead!r}) does the same job. To fetch {name!r}: pip install datasets, with a network"
    try:
        import datasets
    except ImportError as error:
        raise DataError(f"hub data set {name!r} needs the package 'datasets'; {offline}") from error
    try:
        return datasets.load_dataset(name, config)
    except Exception as error:  # the library raises many types for one thing: it could not be had
        raise DataError(f"hub data set {name!r} could not be fetched ({type(error).__name__}); {offline}") from error


def _from_hub(name: str, entry: Mapping) -> Dataset:
    parts = _fetch(entry["hub"], entry.get("config"), entry["offline"])
    columns = entry["text"], entry["label"], entry.get("text2")
    return chosen(from_hub_splits(name, parts, *columns), entry)


def chosen(dataset: Dataset, entry: Mapping) -> Dataset:
    """The texts of allowed length in the classes to keep, numbered anew.

    Args:
        entry: `classes` as the course names them; `keep`, the numbers of the hub's classes in that order (all unless told);
            `min_tokens` and `max_tokens`.
    """
    keep = entry.get("keep", range(len(dataset.classes)))
    numbers = {old: new for new, old in enumerate(keep)}

    def part(examples: Sequence[Example]) -> tuple[Example, ...]:
        kept = (example for example in examples if example.label in numbers)
        renumbered = (Example(example.text, numbers[example.label], example.query) for example in kept)
        return tuple(keep_lengths(renumbered, entry.get("min_tokens", 1), entry.get("max_tokens", float("inf"))))

    return Dataset(dataset.name, tuple(entry["classes"]), part(dataset.train), part(dataset.dev), part(dataset.test))


def from_hub_splits(name: str, parts: Mapping, text: str, label: str, text2: str | None = None) -> Dataset:
    """A Dataset from a mapping of split name to rows with `column_names`, `features` and dictionaries, as `datasets` gives them."""
    columns = parts["train"].column_names
    for column in (text, label, *([text2] if text2 else [])):
        if column not in columns:
            raise DataError(f"hub data set {name!r} has no column {column!r}; its columns are {', '.join(columns)}")
    named = getattr(parts["train"].features[label], "names", None)
    classes = named or sorted_classes({str(row[label]) for row in parts["train"]})
    numbers = {str(value): number for number, value in enumerate(range(len(named)) if named else classes)}

    def examples(rows: Iterable[Mapping]) -> list[Example]:
        labelled = (row for row in rows if row[label] not in (None, -1))
        return without_duplicates(Example(row[text], numbers[str(row[label])], row[text2] if text2 else None) for row in labelled)

    splits = {split: examples(rows) for split, rows in parts.items()}
    test = splits.get("test") or splits.get("validation") or []
    dev = splits.get("validation") if splits.get("test") else None
    held_out = {example.content for example in [*test, *(dev or [])]}
    train = [example for example in splits["train"] if example.content not in held_out]
    if test and dev:
        return Dataset(name, tuple(classes), tuple(train), tuple(dev), tuple(test))
    cut = split_by_hash(name, classes, train)
    if test:
        return Dataset(name, tuple(classes), cut.train + cut.test, cut.dev, tuple(test))
    return cut


def _newsgroups(name: str, entry: Mapping) -> Dataset:
    from sklearn.datasets import fetch_20newsgroups

    try:
        parts = {
            split: fetch_20newsgroups(subset=split, categories=entry["categories"], remove=("headers", "footers", "quotes"))
            for split in ("train", "test")
        }
    except OSError as error:
        raise DataError(
            f"{name!r} could not be fetched ({error}); offline, load({entry['offline']!r}) does the same job"
        ) from error
    return from_newsgroups(name, entry, parts)


def from_newsgroups(name: str, entry: Mapping, parts: Mapping) -> Dataset:
    """A Dataset from what `fetch_20newsgroups` gives for "train" and "test": `data`, `target` and `target_names`."""
    found = {}
    for split, bunch in parts.items():
        labels = [entry["categories"].index(bunch.target_names[target]) for target in bunch.target]
        texts = (Example(text, label) for text, label in zip(bunch.data, labels, strict=True) if text.strip())
        found[split] = keep_lengths(without_duplicates(texts), 1, entry["max_tokens"])
    test = {example.content for example in found["test"]}
    cut = split_by_hash(name, entry["classes"], [example for example in found["train"] if example.content not in test])
    return Dataset(name, tuple(entry["classes"]), cut.train + cut.test, cut.dev, tuple(found["test"]))


def clinical(name: str, folder: Path) -> list[Example]:
    """Discharge summaries of MIMIC-III, labelled by the diagnoses of the stay.

    Args:
        name: "diabetes" (1: the stay has a code of diabetes mellitus, 250.x, else 0) or "anemia" (0: acute posthaemorrhagic,
            285.1; 1: of chronic disease, 285.2x; stays with both or neither are left out).
        folder: holds NOTEEVENTS.csv (columns HADM_ID, CATEGORY, TEXT) and DIAGNOSES_ICD.csv (HADM_ID, ICD9_CODE).
    Raises:
        DataError: a file or column is missing, or no summary fits.
    """
    wanted = CLINICAL_CODES[name]
    codes = defaultdict(set)
    for row in _table(folder / "DIAGNOSES_ICD.csv", ("HADM_ID", "ICD9_CODE")):
        codes[row["HADM_ID"]].add(row["ICD9_CODE"])
    summaries = {}
    for row in _table(folder / "NOTEEVENTS.csv", ("HADM_ID", "CATEGORY", "TEXT")):
        if row["CATEGORY"].strip() == "Discharge summary" and row["HADM_ID"] and row["TEXT"].strip():
            summaries[row["HADM_ID"]] = row["TEXT"]  # an addendum replaces what it amends
    found = []
    for stay, text in summaries.items():
        labels = {label for label, starts in wanted.items() if any(code.startswith(starts) for code in codes[stay])}
        if len(wanted) == 1:
            found.append(Example(text, int(bool(labels))))
        elif len(labels) == 1:
            found.append(Example(text, labels.pop()))
    if not found:
        raise DataError(
            f"{folder} holds no discharge summary for {name!r}; it needs NOTEEVENTS.csv and DIAGNOSES_ICD.csv of MIMIC-III"
        )
    return found


def _table(path: Path, columns: Sequence[str]) -> Iterable[dict[str, str]]:
    if not path.is_file():
        raise DataError(f"there is no file {path}; give the folder of your MIMIC-III copy, unpacked")
    with path.open(encoding="utf-8", newline="") as lines:
        table = csv.DictReader(lines)
        missing = [column for column in columns if column not in (table.fieldnames or ())]
        if missing:
            raise DataError(
                f"{path.name} has no column {missing[0]!r}; its columns are {', '.join(table.fieldnames or ['(none)'])}"
            )
        yield from table
