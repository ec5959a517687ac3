"""Made sentences with one gold link each: from a word, the query, to the word it belongs to, the target, and not to a distractor.

Every kind is balanced so that position cannot help: target and distractor stand at the same two places, exchanged in half of the
sentences. Each word is distractor as often as it is target. The words are cut in two halves, so that
a head can be chosen on one half and judged on the other, on other words. Word lists and schemas: data/templates.toml.
"""

import random
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from course_utils.data.drawing import pick, shuffled
from course_utils.errors import DataError
from course_utils.paths import data_file

CARRIER = "the words {} and {} came before {} ."
PRONOUNS = ("he", "she")
SCHEMAS_A_COUPLE = 2
_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")


@dataclass(frozen=True)
class Link:
    """A sentence in words, and what its query should be linked with.

    Attributes:
        words: the sentence; each word is one that no tokenizer cuts at punctuation, or one punctuation mark.
        query, target, distractor: three different positions in `words`, from 0.
        kind: which generator made it.
        group: sentences of the same word couple depend on each other; intervals are over groups.
        half: 0 or 1; groups of different halves have different words at their links, pronouns and forms of "be" aside.
    Raises:
        DataError: a word that would be split, so that the positions would point elsewhere, or positions that are no link.
    """

    words: tuple[str, ...]
    query: int
    target: int
    distractor: int
    kind: str
    group: str
    half: int

    def __post_init__(self):
        for word in self.words:
            if not _WORD.fullmatch(word):
                raise DataError(
                    f"the word {word!r} would be split, and the link after it lost; write its parts as words of their own"
                )
        places = (self.query, self.target, self.distractor)
        if len(set(places)) < 3 or not all(0 <= place < len(self.words) for place in places):
            raise DataError(f"query, target and distractor are {places}; give three different positions of {len(self.words)} words")

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def target_is_nearer(self) -> bool:
        return abs(self.query - self.target) < abs(self.query - self.distractor)


@cache
def word_lists() -> dict:
    """data/templates.toml."""
    return tomllib.loads(data_file("templates.toml").read_text(encoding="utf-8"))


def word_pairs(relation: str, seed: int = 0, pairs: dict[str, Sequence[Sequence[str]]] | None = None) -> list[Link]:
    """Three words of one part of speech: the last is related to one of the first two.

    The distractor is taken from another pair of the same list, so that over the sentences each word is target once for each time it
    is distractor: targets and distractors match in frequency, length and everything else that a word has by itself.

    Args:
        relation: "synonyms", "antonyms" or "repetition" (the target is the query's own word again; words of the synonyms).
        seed: which pairs meet each other.
        pairs: your own word pairs by part of speech, in place of the course's.
    Returns:
        4 sentences a pair: both words as query, both orders.
    Raises:
        DataError: an unknown relation, fewer than four pairs in a list, or a pair that is not two words.
    """
    if relation not in ("synonyms", "antonyms", "repetition"):
        raise DataError(f"there are no pairs called {relation!r}; choose synonyms, antonyms or repetition")
    if pairs is None:
        pairs = word_lists()["antonyms" if relation == "antonyms" else "synonyms"]
    rng, links = random.Random(seed), []
    for speech, listed in pairs.items():
        _check_pairs(speech, listed)
        for half, some in enumerate(_halves(rng, listed)):
            for pair, other in zip(some, [*some[1:], some[0]], strict=True):
                for side, first in product((0, 1), (True, False)):
                    query = pair[side]
                    target, distractor = (query if relation == "repetition" else pair[1 - side]), other[1 - side]
                    shown = (target, distractor) if first else (distractor, target)
                    words = tuple(CARRIER.format(*shown, query).split())
                    at_target, at_distractor = (2, 4) if first else (4, 2)
                    links.append(Link(words, 7, at_target, at_distractor, relation, "-".join(pair), half))
    return links


def agreement(*, same_number: bool = False, seed: int = 0) -> list[Link]:
    """A verb and its subject, beside a noun that is not the subject: "here the keys near the table were old .".

    In half of the sentences the other noun stands between ("nearest noun" is wrong), in half the subject does ("near the table ,
    the keys were old ."), at the very same places.

    Args:
        same_number: both nouns have the verb's number, so that number cannot tell them apart; otherwise only the subject has it.
        seed: which nouns meet each other, and in which words.
    Returns:
        192 sentences: each noun as subject, singular and plural, past and present, both orders.
    """
    lists, rng, links = word_lists(), random.Random(seed), []
    kind = "agreement, same number" if same_number else "agreement"
    for half, things in enumerate(_halves(rng, lists["things"])):
        nouns = zip(things, [*things[1:], things[0]], strict=True)
        for (thing, other), plural, verbs, between in product(
            nouns, (False, True), (("is", "are"), ("was", "were")), (True, False)
        ):
            subject = thing + "s" * plural
            noun = other + "s" * (plural if same_number else not plural)
            place = pick(rng, lists["places"])
            start = f"here the {subject} {place} the {noun}" if between else f"{place} the {noun} , the {subject}"
            words = (*start.split(), verbs[plural], pick(rng, lists["qualities"]), ".")
            at_subject, at_noun = (2, 5) if between else (5, 2)
            links.append(Link(words, 6, at_subject, at_noun, kind, thing, half))
    return links


def reference(by: str = "gender", seed: int = 0) -> list[Link]:
    """A pronoun and the person it stands for: "the king called the queen because she had the answer .".

    The reason after "because" says who is meant in every sentence, and does not depend on `by`. What differs is whether the form of
    the pronoun says it too.

    Args:
        by: "gender": one man and one woman, "he" or "she"; "number": one person and several of the same gender, "he" or "she" or
            "they"; "meaning": two people of the same gender and number, so that only the reason tells (as in the schemas of
            Levesque, Davis & Morgenstern 2012).
        seed: which people meet in which schemas.
    Returns:
        192 sentences: each couple in 2 schemas, both reasons, he and she; with "number" in 1 schema, one person and several meant.
    Raises:
        DataError: `by` is something else.
    """
    if by not in ("gender", "number", "meaning"):
        raise DataError(f"by is {by!r}; choose gender, number or meaning")
    lists, rng, links = word_lists(), random.Random(seed), []
    for half, couples in enumerate(_halves(rng, lists["couples"])):
        schemas = shuffled(rng, lists["schemas"])
        amounts = (False, True) if by == "number" else (False,)
        for at, couple in enumerate(couples):
            step = len(schemas) * len(amounts) // SCHEMAS_A_COUPLE
            chosen = [schemas[number % len(schemas)] for number in range(at, at + len(schemas), step)]
            neighbours = couples[(at + 1) % len(couples)]
            for (verb, *reasons), who, gender, several in product(chosen, (0, 1), (0, 1), amounts):
                meant, pronoun = couple[gender], PRONOUNS[gender]
                other = couple[1 - gender] if by == "gender" else neighbours[gender]
                if several:
                    meant, pronoun = _plural(meant), "they"
                elif by == "number":
                    other = _plural(other)
                people = (meant, other) if who == 0 else (other, meant)
                words = f"the {people[0]} {verb} the {people[1]} because {pronoun} {reasons[who]} .".split()
                at_meant, at_other = (1, 4) if who == 0 else (4, 1)
                links.append(Link(tuple(words), 6, at_meant, at_other, f"reference by {by}", "-".join(couple), half))
    return links


def shuffle_words(links: Sequence[Link], seed: int = 0) -> list[Link]:
    """The same words in random order, a final mark aside: who did what to whom is gone, the words are still there."""
    rng, moved = random.Random(seed), []
    for link in links:
        size = len(link.words)
        loose = size - (not link.words[-1].isalnum())
        order = [*shuffled(rng, range(loose)), *range(loose, size)]
        moved.append(_reordered(link, order))
    return moved


def bare_words(links: Sequence[Link]) -> list[Link]:
    """The two candidates and the query alone, in the order of the sentence, each list once: "king queen he"."""
    return list(dict.fromkeys(_reordered(link, sorted((link.query, link.target, link.distractor))) for link in links))


def without(link: Link, *words: str) -> Link:
    """The sentence without these words; those of the link stay."""
    kept = {link.query, link.target, link.distractor}
    return _reordered(link, [place for place, word in enumerate(link.words) if place in kept or word not in words])


def _reordered(link: Link, order: Sequence[int]) -> Link:
    """The words at the places of `order`, in that order."""
    query, target, distractor = (order.index(place) for place in (link.query, link.target, link.distractor))
    words = tuple(link.words[place] for place in order)
    return replace(link, words=words, query=query, target=target, distractor=distractor)


def _halves(rng: random.Random, listed: Sequence) -> tuple[list, list]:
    mixed = shuffled(rng, listed)
    return mixed[::2], mixed[1::2]


def _check_pairs(speech: str, listed: Sequence[Sequence[str]]) -> None:
    if len(listed) < 4:
        raise DataError(f"the list {speech!r} has {len(listed)} pairs; give at least 4, two for each half")
    for pair in listed:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(word, str) and word for word in pair):
            raise DataError(f"{pair!r} in the list {speech!r} is not a pair of words")
        for word in pair:
            if not _WORD.fullmatch(word):
                raise DataError(f"{word!r} in the list {speech!r} is not one word; leave it out, or write it as one")


def _plural(person: str) -> str:
    if person.endswith("man"):
        return person[:-2] + "en"
    if person == "wife":
        return "wives"
    if person.endswith(("s", "ch")):
        return person + "es"
    return person[:-1] + "ies" if person.endswith("dy") else person + "s"
