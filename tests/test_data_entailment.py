"""Entailment pairs: a second reading of each sentence decides the class, and words alone do not."""

import hashlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.tree import DecisionTreeClassifier

from course_utils.data import load, make_batch, make_entailment
from course_utils.data.entailment import CLASSES, COMPARISONS, QUANTIFIERS
from course_utils.data.shortcuts import bag_of_words
from course_utils.data.text import Vocabulary
from course_utils.errors import DataError

CONVERSE = {second: first for first, second in COMPARISONS}


def meaning(clause):
    """What a clause says, so that a comparison or a passive means the same from both sides; None for scenery."""
    for phrase in (*CONVERSE, *CONVERSE.values()):
        if f" {phrase} " in clause:
            left, right = clause.split(f" {phrase} ")
            return (CONVERSE[phrase], right, left) if phrase in CONVERSE else (phrase, left, right)
    words = clause.split()
    if words[0] != "the":
        *amount, group, verb = words
        return " ".join(amount), group, verb
    if " by the " in clause:
        agent, patient = f"the {words[-1]}", f"the {words[1]}"
        return agent, "never" not in words, words[words.index("by") - 1], patient
    if words[2] == "was":
        return None
    return f"the {words[1]}", "never" not in words, words[-3], f"the {words[-1]}"


def worlds(amount):
    """How many of a group of two may have done it."""
    return {"all": {2}, "some": {1, 2}, "no": {0}, "not all": {0, 1}}[amount]


def relation(fact, claim):
    """The class that one fact gives a claim."""
    if len(fact) == len(claim) == 3 and fact[0] in QUANTIFIERS:
        if claim[0] not in QUANTIFIERS or fact[1:] != claim[1:]:
            return "neutral"
        possible, claimed = worlds(fact[0]), worlds(claim[0])
        return "entailment" if possible <= claimed else "neutral" if possible & claimed else "contradiction"
    if len(fact) == len(claim) == 3:
        return "entailment" if fact == claim else "contradiction" if fact == (claim[0], claim[2], claim[1]) else "neutral"
    if len(fact) == len(claim) and (fact[0], fact[2:]) == (claim[0], claim[2:]):
        return "entailment" if fact == claim else "contradiction"
    return "neutral"


def clauses(text):
    return [clause for sentence in text.removesuffix(" .").split(" . ") for clause in sentence.split(" and ")]


def by_triplet(rows):
    return [rows[start : start + 3] for start in range(0, len(rows), 3)]


@pytest.fixture(scope="module")
def dataset():
    return load("entailment")


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_a_second_reading_gives_the_same_class(seed):
    for row in make_entailment((90, 3, 3), seed).train:
        claim = meaning(row.query.removesuffix(" ."))
        found = [relation(fact, claim) for fact in map(meaning, clauses(row.text)) if fact is not None]
        decided = [name for name in found if name != "neutral"]
        assert len(decided) <= 1 and (decided or ["neutral"])[0] == CLASSES[row.label]


def test_gold_marks_lie_in_the_clause_that_decides(dataset):
    for row in dataset.test:
        marked = [word for word, gold in zip(row.tokens, row.gold, strict=True) if gold]
        if CLASSES[row.label] == "neutral":
            assert not marked
            continue
        claim = meaning(row.query.removesuffix(" ."))
        deciding = next(c for c in clauses(row.text) if meaning(c) and relation(meaning(c), claim) != "neutral")
        assert marked == [word for word in deciding.split() if word not in ("the", "is", "than")]
    batch = make_batch(dataset.test[:6], Vocabulary.build(row.tokens for row in dataset.train))
    assert batch.gold.any(1).tolist() == [CLASSES[row.label] != "neutral" for row in dataset.test[:6]]


def test_each_hypothesis_has_one_premise_of_each_class(dataset):
    for split in (dataset.train, dataset.dev, dataset.test):
        for rows in by_triplet(split):
            assert {row.label for row in rows} == {0, 1, 2} and len({row.query for row in rows}) == 1


def test_premises_of_two_clauses_hold_the_same_words_whatever_the_class(dataset):
    long = [rows for rows in by_triplet(dataset.train) if "and" in rows[0].tokens]
    assert 0.45 < len(long) / len(by_triplet(dataset.train)) < 0.65
    assert all(sorted(row.tokens) == sorted(rows[0].tokens) for rows in long for row in rows)


def test_the_number_of_shared_words_says_little(dataset):
    def overlap(rows):
        return [[len(set(row.tokens) & set(row.query_tokens)) / len(set(row.query_tokens)), "and" in row.tokens] for row in rows]

    tree = DecisionTreeClassifier(max_depth=6, random_state=0).fit(overlap(dataset.train), [row.label for row in dataset.train])
    assert tree.score(overlap(dataset.test), [row.label for row in dataset.test]) < 0.45


def test_no_pair_stands_twice_and_the_splits_have_the_documented_sizes(dataset):
    splits = (dataset.train, dataset.dev, dataset.test)
    assert [len(split) for split in splits] == [24_000, 1_500, 1_500] and dataset.classes == CLASSES
    pairs = Counter()
    for split in splits:
        for row in split:
            pairs[row.query, tuple(sorted(clause for clause in clauses(row.text) if meaning(clause)))] += 1
    assert len(pairs) == 27_000
    assert 100 <= len(Vocabulary.build(row.tokens + row.query_tokens for row in dataset.train)) <= 300


def test_words_alone_are_near_chance(dataset):
    readers = bag_of_words(dataset).set_index("reader")["accuracy"]
    assert readers["majority"] == readers["query"] == pytest.approx(1 / 3)
    assert readers["text"] < 0.36 and readers["text and query"] < 0.38


def test_no_bag_of_words_of_any_kind_tells_long_premises_apart(dataset):
    def long(split):
        return [row for row in split if "and" in row.tokens]

    train, test = long(dataset.train[:6000]), long(dataset.test)
    counts = CountVectorizer(analyzer=lambda row: [*row.tokens, *(f"? {word}" for word in row.query_tokens)])
    forest = RandomForestClassifier(30, random_state=0).fit(counts.fit_transform(train), [row.label for row in train])
    assert forest.score(counts.transform(test), [row.label for row in test]) == pytest.approx(1 / 3)


def test_pairs_are_the_same_on_every_machine_and_differ_by_seed():
    rows = make_entailment((30, 3, 3), seed=3)
    text = "\n".join(f"{row.text}|{row.query}|{row.label}|{sum(row.gold)}" for row in rows.train)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "ef1b99900d39d374"
    assert rows.train == make_entailment((30, 3, 3), seed=3).train != make_entailment((30, 3, 3), seed=4).train


def test_sizes_that_cannot_be_triplets_are_refused():
    for sizes in ((10, 3, 3), (3, 3), (0, 3, 3)):
        with pytest.raises(DataError, match="multiples of 3"):
            make_entailment(sizes)
