"""The paper's other tasks, on small made rows of the real schemas: filters, label maps, splits, and what is said offline."""

import csv
import sys
from types import SimpleNamespace

import pytest

from course_utils.data import load, sources
from course_utils.data.sources import load as cached_load
from course_utils.data.tasks import clinical, from_hub_splits, from_newsgroups
from course_utils.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore:fetching")


class Rows(list):
    """Rows as the package `datasets` gives them."""

    def __init__(self, rows, label, names):
        super().__init__(rows)
        self.column_names = list(rows[0])
        self.features = {label: SimpleNamespace(names=names)}


@pytest.fixture
def hub(monkeypatch):
    """A hub that has one data set; asks for it are recorded."""
    asked = []

    def serve(parts):
        def load_dataset(name, config):
            asked.append((name, config))
            return parts

        monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
        cached_load.cache_clear()
        return asked

    yield serve
    cached_load.cache_clear()


def sentences(start, stop, n_classes=2, words="one two three four five"):
    return [{"idx": n, "sentence": f"{words} word{n}", "label": n % n_classes} for n in range(start, stop)]


def test_sst2_keeps_sentences_of_more_than_five_tokens_and_its_unlabelled_test_is_left_alone(hub):
    short = [{"idx": 999, "sentence": "four tokens are few", "label": 1}]
    unlabelled = [row | {"label": -1} for row in sentences(900, 910)]
    names = ["negative", "positive"]
    parts = {"train": sentences(0, 200) + short, "validation": sentences(190, 240), "test": unlabelled}
    asked = hub({split: Rows(rows, "label", names) for split, rows in parts.items()})
    dataset = load("sst2")
    assert asked == [("stanfordnlp/sst2", None)]
    assert dataset.classes == ("negative", "positive") and len(dataset.test) == 50
    assert all(len(example.tokens) > 5 for example in dataset.train + dataset.dev)
    held_out = {example.content for example in dataset.test}
    assert not held_out & {example.content for example in dataset.train + dataset.dev}
    assert len(dataset.train) + len(dataset.dev) == 190


def test_ag_news_is_world_against_business(hub):
    rows = [{"text": row["sentence"], "label": row["label"]} for row in sentences(0, 400, 4)]
    names = ["World", "Sports", "Business", "Sci/Tech"]
    hub({"train": Rows(rows[:300], "label", names), "test": Rows(rows[300:], "label", names)})
    dataset = load("ag_news")
    assert dataset.classes == ("world", "business") and len(dataset.test) == 50
    for example in dataset.test:
        assert example.label == {0: 0, 2: 1}[int(example.tokens[-1].removeprefix("word")) % 4]


def test_snli_pairs_without_agreement_are_dropped_and_the_hypothesis_asks(hub):
    rows = [
        {"premise": row["sentence"], "hypothesis": f"is it {n} ?", "label": n % 4 - 1} for n, row in enumerate(sentences(0, 400))
    ]
    names = ["entailment", "neutral", "contradiction"]
    parts = {"train": rows[:300], "validation": rows[300:350], "test": rows[350:]}
    hub({split: Rows(part, "label", names) for split, part in parts.items()})
    dataset = load("snli")
    assert (len(dataset.train), len(dataset.dev), len(dataset.test)) == (225, 37, 38)
    example = dataset.train[0]
    assert example.query == "is it 1 ?" and example.text.endswith("word1") and dataset.classes[example.label] == "entailment"


def test_ade_is_split_by_hash(hub):
    rows = [{"text": row["sentence"], "label": row["label"]} for row in sentences(0, 300)]
    asked = hub({"train": Rows(rows, "label", ["Not-Related", "Related"])})
    dataset = load("ade")
    assert asked == [("ade-benchmark-corpus/ade_corpus_v2", "Ade_corpus_v2_classification")]
    assert len(dataset.train) + len(dataset.dev) + len(dataset.test) == 300 and min(len(dataset.dev), len(dataset.test)) > 10


def test_newsgroups_are_cut_at_500_tokens():
    entry = sources()["newsgroups"]

    def bunch(start, stop):
        texts = [f"post number{n}" for n in range(start, stop)] + ["long " * 500, "  "]
        targets = [n % 2 for n in range(start, stop)] + [0, 0]
        return SimpleNamespace(data=texts, target=targets, target_names=["rec.sport.hockey", "rec.sport.baseball"])

    dataset = from_newsgroups("newsgroups", entry, {"train": bunch(0, 200), "test": bunch(190, 230)})
    assert dataset.classes == ("baseball", "hockey")
    assert len(dataset.test) == 40 and len(dataset.train) + len(dataset.dev) == 190
    for example in dataset.test:
        assert example.label == 1 - int(example.tokens[-1].removeprefix("number")) % 2


@pytest.fixture
def mimic(tmp_path):
    notes, diagnoses = [], []
    for stay in range(400):
        notes.append([stay, "Discharge summary", f"the patient number{stay} ,\nwas discharged"])
        notes.append([stay, "Nursing", "not this note"])
        codes = (["25000"], ["2851"], ["28521"], ["2851", "28529"])[stay % 4]
        diagnoses += [[stay, code] for code in codes]
    for name, header, rows in (
        ("NOTEEVENTS.csv", ["HADM_ID", "CATEGORY", "TEXT"], notes),
        ("DIAGNOSES_ICD.csv", ["HADM_ID", "ICD9_CODE"], diagnoses),
    ):
        with (tmp_path / name).open("w", newline="") as lines:
            csv.writer(lines).writerows([header, *rows])
    return tmp_path


def test_clinical_notes_are_labelled_by_the_diagnoses_of_their_stay(mimic):
    diabetes = load("diabetes", path=mimic)
    everything = diabetes.train + diabetes.dev + diabetes.test
    assert len(everything) == 400 and sum(example.label for example in everything) == 100
    anemia = clinical("anemia", mimic)
    assert len(anemia) == 200 and sum(example.label for example in anemia) == 100
    assert all("nursing" not in example.tokens for example in anemia)


def test_clinical_notes_need_a_path_and_both_files(mimic):
    with pytest.raises(DataError, match="path="):
        load("anemia")
    (mimic / "DIAGNOSES_ICD.csv").unlink()
    with pytest.raises(DataError, match="DIAGNOSES_ICD"):
        clinical("diabetes", mimic)
    (mimic / "DIAGNOSES_ICD.csv").write_text("HADM_ID,CODE\n1,2\n")
    with pytest.raises(DataError, match="ICD9_CODE"):
        clinical("diabetes", mimic)


@pytest.mark.parametrize(("name", "instead"), [("sst2", "rotten_tomatoes"), ("snli", "entailment"), ("ade", "rotten_tomatoes")])
def test_without_the_hub_the_offline_task_is_named(monkeypatch, name, instead):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=instead):
        load(name)


def test_what_is_fetched_is_announced(hub):
    rows = [{"text": row["sentence"], "label": row["label"]} for row in sentences(0, 300)]
    hub({"train": Rows(rows, "label", ["Not-Related", "Related"])})
    with pytest.warns(UserWarning, match="23,516 sentences"):
        load("ade")


def test_a_missing_second_column_is_named():
    parts = {"train": Rows(sentences(0, 10), "label", ["n", "p"])}
    with pytest.raises(DataError, match="hypothesis"):
        from_hub_splits("x", parts, "sentence", "label", "hypothesis")


def test_every_task_says_what_does_the_same_offline():
    for name, entry in sources().items():
        if entry["origin"] in ("hub", "scikit-learn", "path"):
            assert sources()[entry["offline"]]["origin"] in ("package", "ours"), name
            assert entry["classes"] and len(set(entry["classes"])) == len(entry["classes"])
