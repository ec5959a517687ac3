"""Stories whose supporting facts are known, and how a second text and gold marks go into a batch."""

import hashlib
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer

from course_utils.data import Example, Vocabulary, load, load_csv, make_batch, make_batches, make_stories
from course_utils.data.shortcuts import bag_of_words
from course_utils.data.stories import DROPS, MOVES, PLACES, SENTENCES, THINGS
from course_utils.errors import DataError


def sentences(text):
    return [sentence.split() for sentence in text.removesuffix(" .").split(" . ")]


def supporting(example):
    """The marked sentences; each is marked as a whole or not at all."""
    words, found = iter(example.gold), []
    for sentence in sentences(example.text):
        marks = {next(words) for _ in range(len(sentence) + 1)}  # and its full stop
        assert len(marks) == 1
        if marks == {True}:
            found.append(sentence)
    return found


def places_over_time(text):
    """Where everybody and everything is after each sentence, read from the text alone."""
    where, holds, history = {}, {}, []
    for person, *verb, _, name in sentences(text):
        if " ".join(verb) in MOVES:
            where[person] = name
            where |= {thing: name for thing, holder in holds.items() if holder == person}
        elif " ".join(verb) in DROPS:
            assert holds.pop(name) == person
        else:
            assert name not in holds and where.get(name, where[person]) == where[person]  # it can only be taken where it lies
            holds[name] = person
            where[name] = where[person]
        history.append(dict(where))
    return history


def answer(example):
    *_, name = example.query.removesuffix(" ?").split()
    history = places_over_time(example.text)
    if "before" not in example.query:
        return history[-1][name]
    thing = example.query.split()[3]
    visits = [state[thing] for state in history if thing in state]
    visits = [place for number, place in enumerate(visits) if number == 0 or place != visits[number - 1]]
    assert visits.count(name) == 1
    return visits[visits.index(name) - 1]


@pytest.mark.parametrize("task", [1, 2, 3])
@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 10_000))
def test_a_second_reading_of_the_story_gives_the_same_answer(task, seed):
    dataset = make_stories(task, (20, 5, 5), seed)
    for example in dataset.train + dataset.dev + dataset.test:
        assert PLACES[example.label] == answer(example)
        assert SENTENCES[task][0] <= len(sentences(example.text)) <= SENTENCES[task][1]


@pytest.mark.parametrize("task", [1, 2, 3])
def test_the_gold_sentences_are_as_many_as_the_task_says_and_name_the_answer(task):
    for example in make_stories(task, (300, 50, 50)).train:
        facts = supporting(example)
        assert len(facts) == task
        moves = [fact for fact in facts if " ".join(fact[1:3]) in MOVES]
        assert PLACES[example.label] in {move[-1] for move in moves}
        asked = set(example.query.split())
        assert all(asked & set(fact) or fact[-1] == PLACES[example.label] for fact in facts)
        assert len({fact[0] for fact in facts}) == 1  # one person took, moved and left


def test_stories_are_the_same_on_every_machine_and_differ_by_seed():
    rows = make_stories(2, (30, 10, 10), seed=3)
    text = "\n".join(f"{example.text}|{example.query}|{example.label}|{sum(example.gold)}" for example in rows.train)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "df4edfaa1c5e459e"
    assert rows.train == make_stories(2, (30, 10, 10), seed=3).train != make_stories(2, (30, 10, 10), seed=4).train


@pytest.mark.parametrize("task", [1, 2])
def test_the_splits_have_the_documented_sizes_and_share_no_story_with_its_question(task):
    dataset = load(f"stories-{task}")
    splits = (dataset.train, dataset.dev, dataset.test)
    assert [len(split) for split in splits] == [10_000, 1_000, 1_000]
    assert len({example.content for split in splits for example in split}) == 12_000
    shares = Counter(example.label for example in dataset.train)
    assert len(shares) == 6 and max(shares.values()) / min(shares.values()) < 1.15
    assert 20 <= len(Vocabulary.build(example.tokens + example.query_tokens for example in dataset.train)) <= 42


@pytest.mark.parametrize(("task", "most"), [(1, 0.5), (2, 0.42), (3, 0.36)])
def test_a_bag_of_words_does_not_solve_them(task, most):
    dataset = make_stories(task, (1500, 10, 400))
    readers = bag_of_words(dataset).set_index("reader")["accuracy"]
    assert list(readers.index) == ["majority", "text", "query", "text and query"]
    assert readers.max() < most and readers["query"] < 0.27
    counts = CountVectorizer(analyzer=lambda example: [*example.tokens, *(f"? {word}" for word in example.query_tokens)])
    forest = RandomForestClassifier(100, random_state=0).fit(counts.fit_transform(dataset.train), [e.label for e in dataset.train])
    assert forest.score(counts.transform(dataset.test), [example.label for example in dataset.test]) < most


@pytest.mark.parametrize(("task", "most"), [(1, 0.5), (2, 0.4), (3, 0.3)])
def test_the_place_named_last_or_most_is_not_the_answer(task, most):
    rows = make_stories(task, (1000, 10, 10)).train
    for guess in (lambda places: places[-1], lambda places: Counter(places).most_common(1)[0][0], lambda places: places[0]):
        hits = sum(guess([word for word in row.tokens if word in PLACES]) == PLACES[row.label] for row in rows)
        assert hits / len(rows) < most


def test_impossible_stories_are_refused():
    with pytest.raises(DataError, match="no story task 4"):
        make_stories(4)
    for sizes in ((10, 10), (10, 0, 10)):
        with pytest.raises(DataError, match="sizes are three numbers"):
            make_stories(1, sizes)


ROWS = [
    Example("a good film", 1, "is it good ?", (False, True, False)),
    Example("bad", 0, "bad ?", (True,)),
]
VOCABULARY = Vocabulary(("<pad>", "<unk>", "a", "good", "film", "bad", "is", "it", "?"))


def test_a_batch_holds_queries_and_gold_marks():
    batch = make_batch(ROWS, VOCABULARY)
    assert batch.query.ids.tolist() == [[6, 7, 3, 8], [5, 8, 0, 0]] and batch.query.lengths.tolist() == [4, 2]
    assert batch.query.tokens == (("is", "it", "good", "?"), ("bad", "?")) and batch.query.labels is None
    assert batch.gold.tolist() == [[False, True, False], [True, False, False]]
    moved = batch.to("meta")
    assert moved.query.ids.device.type == moved.gold.device.type == "meta"


def test_queries_and_gold_follow_their_texts_into_sorted_batches():
    batches = make_batches(ROWS, VOCABULARY, token_budget=1)
    assert [batch.index.tolist() for batch in batches] == [[1], [0]]
    assert [batch.query.index.tolist() for batch in batches] == [[1], [0]]
    assert batches[1].query.tokens == (ROWS[0].query_tokens,) and batches[1].gold.tolist() == [list(ROWS[0].gold)]


def test_truncation_cuts_the_gold_marks_and_not_the_query():
    with pytest.warns(UserWarning, match="truncated"):
        batch = make_batch(ROWS, VOCABULARY, max_tokens=2)
    assert batch.gold.tolist() == [[False, True], [True, False]] and batch.query.lengths.tolist() == [4, 2]


def test_without_queries_or_marks_a_batch_has_none():
    batch = make_batch(["a good film"], VOCABULARY)
    assert batch.query is None and batch.gold is None and batch.to("cpu").query is None
    assert make_batch([ROWS[0], Example("bad", 0, "bad ?")], VOCABULARY).gold is None
    assert Example("bad").query_tokens == ()


def test_queries_and_marks_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="1 of 2 texts have a query"):
        make_batch([ROWS[0], Example("bad")], VOCABULARY)
    with pytest.raises(DataError, match="has no tokens"):
        Example("bad", query=" ")
    with pytest.raises(DataError, match="must be a string"):
        Example("bad", query=float("nan"))
    with pytest.raises(DataError, match="gold has 2 marks for the 1 tokens of 'bad'"):
        Example("bad", gold=(True, False))


def test_a_users_csv_may_have_a_second_text(tmp_path):
    path = tmp_path / "pairs.csv"
    rows = [f"the {thing} is {n},{n % 2},is it {n} ?" for n in range(150) for thing in THINGS]
    path.write_text("\n".join(["text,label,text2", *rows, "same,0,one ?", "same,1,two ?"]), encoding="utf-8")
    dataset = load_csv(path, text2="text2")
    pairs = {example.content: example for split in (dataset.train, dataset.dev, dataset.test) for example in split}
    assert len(pairs) == 602 and pairs[("same",), ("two", "?")].label == 1  # one text, two questions: no contradiction
    assert load_csv(path).train[0].query is None
    path.write_text("text,label,text2\nfine,1,\n", encoding="utf-8")
    with pytest.raises(DataError, match="row 2: the column 'text2' is empty"):
        load_csv(path, text2="text2")
    with pytest.raises(DataError, match="no column 'other'"):
        load_csv(path, text2="other")


def test_results_do_not_depend_on_what_a_story_is_batched_with():
    rows = make_stories(2, (12, 1, 1)).train
    vocabulary = Vocabulary.build(row.tokens + row.query_tokens for row in rows)
    for batch in make_batches(rows, vocabulary, token_budget=150):
        for place, index in enumerate(batch.index.tolist()):
            alone, length = make_batch([rows[index]], vocabulary), int(batch.lengths[place])
            assert torch.equal(batch.gold[place, :length], alone.gold[0]) and not batch.gold[place, length:].any()
            assert torch.equal(batch.query.ids[place, batch.query.mask[place]], alone.query.ids[0])
