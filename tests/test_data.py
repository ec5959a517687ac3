"""Texts in, batches out: what is defined for odd input, and what is refused."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.data import Dataset, Example, Vocabulary, load, load_csv, load_hub, make_batch, make_batches, sources, tokenize
from course_utils.data.splitting import split_by_hash
from course_utils.data.tasks import from_hub_splits
from course_utils.errors import DataError

WORDS = ["good", "bad", "film", "plot", "the", "a", "not"]
VOCABULARY = Vocabulary(("<pad>", "<unk>", *WORDS))


def test_tokenize_keeps_contractions_and_drops_markup():
    assert tokenize("It doesn't work.<br /><br />At ALL!") == ["it", "doesn't", "work", ".", "at", "all", "!"]


def test_vocabulary_counts_documents_not_occurrences():
    vocabulary = Vocabulary.build([["a", "a", "b"], ["b", "c"]], min_documents=2)
    assert vocabulary.words == ("<pad>", "<unk>", "b")
    assert vocabulary.encode(["b", "a"]) == [2, 1]


def test_vocabulary_refuses_repeats_and_missing_specials():
    with pytest.raises(DataError, match="once"):
        Vocabulary(("<pad>", "<unk>", "x", "x"))
    with pytest.raises(DataError, match="starts with"):
        Vocabulary(("x",))


@pytest.mark.parametrize("bad", ["", "   \n\t", "<br />", None, math.nan, 3, b"bytes", ["a", "list"]])
def test_what_is_not_a_text_is_refused(bad):
    with pytest.raises(DataError):
        make_batch([bad], VOCABULARY)


@pytest.mark.parametrize("label", [math.nan, "pos", 1.0])
def test_a_label_is_a_whole_number(label):
    with pytest.raises(DataError, match="number of a class"):
        Example("good", label)


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(DataError, match="token_budget"):
        make_batches(["good"], VOCABULARY, token_budget=0)
    assert make_batches([], VOCABULARY) == []


def test_one_string_is_not_a_list_of_texts():
    with pytest.raises(DataError, match=r"\[text\]"):
        make_batch("a good film", VOCABULARY)
    with pytest.raises(DataError, match="no text"):
        make_batch([], VOCABULARY)


def test_a_batch_holds_what_was_given():
    batch = make_batch([Example("a good film", 1), Example("zzz", 0)], VOCABULARY)
    assert batch.ids.tolist() == [[7, 2, 4], [1, 0, 0]]
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.lengths.tolist() == [3, 1] and batch.labels.tolist() == [1, 0]
    assert batch.tokens == (("a", "good", "film"), ("zzz",))


def test_a_missing_label_leaves_the_batch_without_labels():
    assert make_batch([Example("good", 1), "bad"], VOCABULARY).labels is None


def test_ten_thousand_tokens_are_kept_or_truncated_aloud():
    long = "good " * 10_000
    assert make_batch([long], VOCABULARY).ids.shape == (1, 10_000)
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than 400"):
        batch = make_batch([long, "bad"], VOCABULARY, max_tokens=400)
    assert batch.lengths.tolist() == [400, 1]
    with pytest.warns(UserWarning) as caught:
        make_batches([long, long, "bad"], VOCABULARY, token_budget=100, max_tokens=50)
    assert len(caught) == 1
    with pytest.raises(DataError, match="at least 1"):
        make_batch(["good"], VOCABULARY, max_tokens=0)


@settings(deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 120), st.booleans())
def test_batches_hold_every_text_once_within_the_budget(lengths, budget, shuffled):
    texts = ["good " * length for length in lengths]
    generator = torch.Generator().manual_seed(1) if shuffled else None
    batches = make_batches(texts, VOCABULARY, token_budget=budget, generator=generator)
    assert sorted(i for batch in batches for i in batch.index.tolist()) == list(range(len(texts)))
    for batch in batches:
        assert batch.ids.numel() <= budget or len(batch) == 1
        assert [lengths[i] for i in batch.index.tolist()] == batch.lengths.tolist()


@pytest.mark.parametrize("name", ["rotten_tomatoes", "imdb"])
def test_the_splits_share_no_text(name):
    dataset = load(name)
    splits = [{example.tokens for example in split} for split in (dataset.train, dataset.dev, dataset.test)]
    assert (
        sum(map(len, splits)) == len(splits[0] | splits[1] | splits[2]) == sum(map(len, (dataset.train, dataset.dev, dataset.test)))
    )
    shares = [len(split) / sum(map(len, splits)) for split in splits]
    assert shares == pytest.approx([0.75, 0.10, 0.15], abs=0.015)
    lengths = [len(example.tokens) for example in dataset.test]
    assert min(lengths) >= sources()[name]["min_tokens"] and max(lengths) <= sources()[name].get("max_tokens", 10_000)


def test_an_unknown_name_is_met_with_a_suggestion():
    with pytest.raises(DataError, match="did you mean 'imdb'"):
        load("imbd")
    with pytest.raises(DataError, match="load_hub"):
        load("something else entirely")


def test_every_source_names_its_licence_and_citation():
    for entry in sources().values():
        assert (
            entry["licence"]
            and entry["citation"]
            and entry["size"]
            and entry["origin"] in {"package", "hub", "ours", "scikit-learn", "path"}
        )


def rows(n=400):
    return [(f"text number {number} is {'good' if number % 2 else 'bad'}", "pos" if number % 2 else "neg") for number in range(n)]


def write_csv(path, table, header="text,label"):
    path.write_text("\n".join([header, *(f'"{text}",{label}' for text, label in table)]), encoding="utf-8")
    return path


def test_a_users_csv_becomes_a_dataset(tmp_path):
    dataset = load_csv(write_csv(tmp_path / "mine.csv", rows()))
    assert dataset.name == "mine" and dataset.classes == ("neg", "pos")
    assert len(dataset.train) + len(dataset.dev) + len(dataset.test) == 400
    assert all(("good" in example.tokens) == (example.label == 1) for example in dataset.train)


def test_duplicates_and_contradictions_leave_before_the_split(tmp_path):
    table = rows() + rows()[:50] + [("same words", "pos"), ("Same   WORDS", "neg")]
    dataset = load_csv(write_csv(tmp_path / "mine.csv", table))
    texts = [example.tokens for split in (dataset.train, dataset.dev, dataset.test) for example in split]
    assert len(texts) == 400 and ("same", "words") not in texts


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("words,label\na,b\n", "no column 'text'; its columns are words, label"),
        ("", "no column 'text'"),
        ("text,label\nfine,pos\n,neg\n", "row 3: the column 'text' is empty"),
        ("text,label\nfine,pos\nfine too,\n", "row 3: the column 'label' is empty"),
        ("text,label\nfine,pos\nfine too\n", "row 3: the column 'label' is empty"),
        ("text,label\nfine,pos\nfine too,pos\n", "at least 2"),
        ("text,label\nfine,pos\nnot fine,neg\n", "too small to split"),
    ],
)
def test_a_bad_csv_names_its_fault(tmp_path, content, message):
    path = tmp_path / "bad.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load_csv(path)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "image.csv"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe\x00")
    with pytest.raises(DataError, match="UTF-8"):
        load_csv(path)
    with pytest.raises(DataError, match="no file"):
        load_csv(tmp_path / "absent.csv")


def test_numeric_labels_are_sorted_as_numbers(tmp_path):
    table = [(f"text number {n}", n % 3 + 9) for n in range(300)]
    assert load_csv(write_csv(tmp_path / "n.csv", table)).classes == ("9", "10", "11")


def test_a_split_does_not_depend_on_the_other_texts():
    examples = [Example(text, int(label == "pos")) for text, label in rows()]
    all_of_them = split_by_hash("x", ("neg", "pos"), examples)
    half = split_by_hash("x", ("neg", "pos"), examples[::-1][:200])
    assert set(half.test) <= set(all_of_them.test) and set(half.train) <= set(all_of_them.train)


def test_a_hub_name_offline_says_what_to_do(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(DataError, match=r"load\('rotten_tomatoes'\) does the same job"):
        load_hub("stanfordnlp/sst2")


class Rows(list):
    """What `datasets` gives for a split, as far as the loader looks."""

    def __init__(self, rows, names=None):
        super().__init__(rows)
        self.column_names = list(rows[0])
        self.features = {"label": type("Feature", (), {"names": names})()}


def hub_rows(start, stop):
    return [{"text": text, "label": number % 2} for number, (text, _) in enumerate(rows(stop)[start:])]


def test_hub_splits_are_kept_and_cleaned_of_leaks():
    parts = {"train": Rows(hub_rows(0, 300), ["n", "p"]), "test": Rows(hub_rows(250, 350), ["n", "p"])}
    dataset = from_hub_splits("x", parts, "text", "label")
    assert isinstance(dataset, Dataset) and dataset.classes == ("n", "p") and len(dataset.test) == 100
    assert len(dataset.train) + len(dataset.dev) == 250
    unlabelled = {"train": parts["train"], "validation": parts["test"], "test": Rows([{"text": "x y", "label": -1}])}
    assert len(from_hub_splits("x", unlabelled, "text", "label").test) == 100
    with pytest.raises(DataError, match="no column 'sentence'; its columns are text, label"):
        from_hub_splits("x", parts, "sentence", "label")


def test_hub_labels_without_names_are_numbered_in_order():
    def starred(start, stop):
        return Rows([row | {"label": row["label"] + 4} for row in hub_rows(start, stop)])

    dataset = from_hub_splits("x", {"train": starred(0, 300), "test": starred(300, 350)}, "text", "label")
    assert dataset.classes == ("4", "5") and {example.label for example in dataset.train} == {0, 1}
