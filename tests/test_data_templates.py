from collections import Counter

import pytest

from course_utils.data import templates
from course_utils.data.templates import Link, agreement, bare_words, reference, shuffle_words, word_pairs
from course_utils.errors import DataError

KINDS = {
    "synonyms": lambda seed: word_pairs("synonyms", seed),
    "antonyms": lambda seed: word_pairs("antonyms", seed),
    "repetition": lambda seed: word_pairs("repetition", seed),
    "agreement": lambda seed: agreement(seed=seed),
    "same number": lambda seed: agreement(same_number=True, seed=seed),
    "gender": lambda seed: reference("gender", seed),
    "number": lambda seed: reference("number", seed),
    "meaning": lambda seed: reference("meaning", seed),
}
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@every_kind
@pytest.mark.parametrize("half", [0, 1])
def test_neither_place_nor_word_tells_the_target(make, half):
    links = [link for link in make(3) if link.half == half]
    places = Counter((link.query, link.target, link.distractor) for link in links)
    assert all(places[query, distractor, target] == count for (query, target, distractor), count in places.items())
    assert Counter(link.words[link.target] for link in links) == Counter(link.words[link.distractor] for link in links)
    assert 2 * sum(link.target_is_nearer for link in links) == len(links)


@every_kind
def test_the_halves_share_no_group_and_no_candidate(make):
    links = make(0)
    assert Counter(link.half for link in links)[0] == len(links) / 2
    for value in (lambda link: link.group, lambda link: link.words[link.target]):
        assert not {value(link) for link in links if link.half} & {value(link) for link in links if not link.half}


@every_kind
def test_a_seed_gives_the_same_sentences_again_and_another_others(make):
    assert make(1) == make(1) != make(2)
    assert len(set(make(1))) == len(make(1))


def test_gender_and_number_agree_with_the_target_alone():
    women = {woman for _, woman in templates.word_lists()["couples"]}
    for link in reference("gender"):
        candidates = [link.words[place] in women for place in (link.target, link.distractor)]
        assert candidates == [link.words[link.query] == "she", link.words[link.query] == "he"]
    for link in reference("number"):
        several = [link.words[place] not in women | {man for man, _ in templates.word_lists()["couples"]} for place in (1, 4)]
        assert sum(several) == 1
        assert several[(link.target == 4)] == (link.words[link.query] == "they")
    for link in reference("meaning"):
        assert {link.words[place] in women for place in (link.target, link.distractor)} == {link.words[link.query] == "she"}


def test_the_reason_alone_decides_who_is_meant():
    who = {}
    for by in ("gender", "number", "meaning"):
        for link in reference(by):
            who.setdefault((link.words[2], link.words[7:]), set()).add(link.target)
    assert len(who) == 24 and all(len(places) == 1 for places in who.values())


def test_verbs_agree_with_their_subject():
    for link in agreement():
        plural = [link.words[place].endswith("s") for place in (link.target, link.distractor)]
        assert plural == [link.words[link.query] in ("are", "were"), link.words[link.query] in ("is", "was")]
    for link in agreement(same_number=True):
        assert len({link.words[place].endswith("s") for place in (link.target, link.distractor)}) == 1


def linked_words(link):
    return [link.words[place] for place in (link.query, link.target, link.distractor)]


def test_shuffling_keeps_the_words_and_their_links():
    before = reference()[:50]
    after = shuffle_words(before, seed=1)
    for one, other in zip(before, after, strict=True):
        assert sorted(one.words) == sorted(other.words) and other.words[-1] == "."
        assert linked_words(one) == linked_words(other) and (one.group, one.half) == (other.group, other.half)
    assert sum(one.words == other.words for one, other in zip(before, after, strict=True)) < 3
    assert after == shuffle_words(before, seed=1) != shuffle_words(before, seed=2)


def test_bare_words_are_three_and_stand_once():
    bare = bare_words(reference())
    assert all(len(link.words) == 3 and link.query == 2 for link in bare)
    assert len(bare) == len(set(bare)) == 24 * 2 * 2
    assert {tuple(linked_words(link)) for link in bare} == {tuple(linked_words(link)) for link in reference()}


def test_words_are_left_out_and_the_link_stays():
    link = agreement()[0]
    shorter = templates.without(link, "here", link.words[link.target], ".")
    assert shorter.words == link.words[1:-1] and linked_words(shorter) == linked_words(link)


@pytest.mark.parametrize("word", ["don't", "co-pilot", "two words", "", "snake_case"])
def test_a_word_that_would_be_split_is_refused(word):
    with pytest.raises(DataError, match="split"):
        Link(("a", word, "b", "c"), 3, 0, 1, "mine", "g", 0)


@pytest.mark.parametrize("places", [(0, 1, 1), (0, 1, 3), (-1, 0, 1)])
def test_positions_that_are_no_link(places):
    with pytest.raises(DataError, match="three different positions of 3"):
        Link(("a", "b", "c"), *places, "mine", "g", 0)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"nouns": []}, "0 pairs"),
        ({"nouns": [("a", "b")] * 3}, "3 pairs"),
        ({"nouns": [("a", "b")] * 3 + [("a",)]}, "not a pair"),
        ({"nouns": [("a", "b")] * 3 + ["ab"]}, "not a pair"),
        ({"nouns": [("a", "b")] * 3 + [("a", "")]}, "not a pair"),
        ({"nouns": [("a", "b")] * 3 + [("ice cream", "b")]}, "one word"),
    ],
)
def test_pairs_of_your_own_that_are_none(pairs, message):
    with pytest.raises(DataError, match=message):
        word_pairs("synonyms", pairs=pairs)


def test_pairs_of_your_own():
    links = word_pairs("synonyms", pairs={"x": [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")]})
    assert len(links) == 4 * 4 and {link.group for link in links} == {"a-b", "c-d", "e-f", "g-h"}


def test_unknown_kinds():
    with pytest.raises(DataError, match="hypernyms"):
        word_pairs("hypernyms")
    with pytest.raises(DataError, match="case"):
        reference("case")
