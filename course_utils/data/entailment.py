"""Premises and hypotheses from a small grammar, in triplets that words alone tell little about.

A triplet has one hypothesis and three premises, one of each class. In half of the triplets the premises have two clauses and hold
exactly the same words: no bag of words can tell their classes apart, not from the hypothesis, not from the premise, not from both,
and not from how many words the two share. In the other half the premises are only the clause that the hypothesis is about, and
most hypotheses are plain. That is the first step of learning: where nothing but order tells the classes apart, a classifier of this
size finds no slope to follow and stays at chance. What decides is who does what to whom, which comparison holds of which pair, and
what "never", "no" and "all" belong to.
"""

import random
from collections.abc import Callable, Sequence
from itertools import permutations, product
from typing import NamedTuple

from course_utils.data.drawing import pick, shuffled
from course_utils.data.examples import Dataset, Example
from course_utils.errors import DataError

CLASSES = ("entailment", "neutral", "contradiction")
ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)

PEOPLE = (
    *("actor", "artist", "baker", "barber", "doctor", "driver", "farmer", "hunter"),
    *("judge", "lawyer", "nurse", "painter", "pilot", "sailor", "singer", "teacher"),
)
TRANSITIVE = ("admired", "blamed", "called", "followed", "helped", "invited", "noticed", "praised", "trusted", "warned")
INTRANSITIVE = (
    *("argued", "clapped", "complained", "danced", "escaped", "laughed", "limped", "shouted"),
    *("slept", "smiled", "sneezed", "trembled", "waited", "waved", "whispered", "yawned"),
)
COMPARISONS = (
    ("is taller than", "is shorter than"),
    ("is older than", "is younger than"),
    ("is faster than", "is slower than"),
    ("is richer than", "is poorer than"),
    ("spoke before", "spoke after"),
    ("finished before", "finished after"),
)
# What a quantifier in the premise says of the same statement with another one. The people spoken of exist.
QUANTIFIERS = {
    "all": {"all": ENTAILMENT, "some": ENTAILMENT, "no": CONTRADICTION, "not all": CONTRADICTION},
    "some": {"all": NEUTRAL, "some": ENTAILMENT, "no": CONTRADICTION, "not all": NEUTRAL},
    "no": {"all": CONTRADICTION, "some": CONTRADICTION, "no": ENTAILMENT, "not all": ENTAILMENT},
    "not all": {"all": CONTRADICTION, "some": NEUTRAL, "no": NEUTRAL, "not all": ENTAILMENT},
}
SCENES = ("bridge", "castle", "harbour", "market", "museum", "palace", "station", "theatre")
SCENERY = ("busy", "cold", "dark", "empty", "noisy", "quiet", "sunny", "warm")
SHORT_SHARE = 0.5  # of the triplets drawn: premises of one clause
PLAIN_SHARE = 0.8  # of the hypotheses: active, not denied, and from the same side as the premise, each
UNMARKED = frozenset({"the", "is", "than"})


class Premise(NamedTuple):
    """The clause that the hypothesis is about, one that distracts, and the class that the first one gives the pair."""

    about: str
    distractor: str
    label: int


Family = Callable[[random.Random], tuple[str, list[Premise]]]


def make_entailment(sizes: Sequence[int] = (24_000, 1_500, 1_500), seed: int = 0) -> Dataset:
    """Pairs in three classes. The text is the premise, the query the hypothesis.

    `gold` marks the words of the clause that decides (people, verb or adjective, negation, quantifier); it is all False in neutral
    pairs, where no clause does.

    Args:
        sizes: numbers of train, dev and test pairs, multiples of 3. A triplet is in one split, and no pair stands twice, even
            with another sentence of scenery around its premise.
        seed: the same seed gives the same pairs on every machine.
    Raises:
        DataError: the sizes are not three positive multiples of 3.
    """
    if len(sizes) != 3 or min(sizes) < 3 or any(size % 3 for size in sizes):
        raise DataError(f"sizes are three positive multiples of 3 (train, dev, test), not {tuple(sizes)}")
    rng = random.Random(seed)
    families = (comparison, roles, quantifiers)
    rows: list[Example] = []
    seen: set[tuple[str, str]] = set()
    while len(rows) < sum(sizes):
        hypothesis, premises = pick(rng, families)(rng)
        if {premise.label for premise in premises} != {ENTAILMENT, NEUTRAL, CONTRADICTION}:
            continue
        short = rng.random() < SHORT_SHARE
        chosen = [pick(rng, [premise for premise in premises if premise.label == label]) for label in range(3)]
        pairs = {(hypothesis, premise.about if short else " ".join(sorted(premise[:2]))) for premise in chosen}
        if pairs & seen:
            continue
        seen |= pairs
        scene = f"the {pick(rng, SCENES)} was {pick(rng, SCENERY)} ." if rng.random() < 0.5 else ""
        rows += [_example(rng, premise, hypothesis, scene, short) for premise in shuffled(rng, chosen)]
    n_train, n_dev, _ = sizes
    return Dataset(
        "entailment", CLASSES, tuple(rows[:n_train]), tuple(rows[n_train : n_train + n_dev]), tuple(rows[n_train + n_dev :])
    )


def comparison(rng: random.Random) -> tuple[str, list[Premise]]:
    """Two comparisons; the hypothesis says one of them, perhaps from the other side ("taller" as "shorter").

    Neutral: the same two people, compared in something else.
    """
    a, b, c, d = shuffled(rng, PEOPLE)[:4]
    pairs = shuffled(rng, COMPARISONS)[:2]
    (asked, converse), (other, _) = (shuffled(rng, pair) for pair in pairs)
    hypothesis = f"the {a} {asked} the {b} ." if rng.random() < PLAIN_SHARE else f"the {b} {converse} the {a} ."
    premises = []
    for (x, y), (v, w), (first, second) in product(permutations((a, b)), permutations((c, d)), permutations((asked, other))):
        label = NEUTRAL if first == other else ENTAILMENT if x == a else CONTRADICTION
        premises.append(Premise(f"the {x} {first} the {y}", f"the {v} {second} the {w}", label))
    return hypothesis, premises


def roles(rng: random.Random) -> tuple[str, list[Premise]]:
    """Who did what to whom, and who never did; the hypothesis is active or passive, with or without "never".

    Neutral: the roles are exchanged, or the verb is that of the other clause.
    """
    a, b, c, d = shuffled(rng, PEOPLE)[:4]
    asked, other = shuffled(rng, TRANSITIVE)[:2]
    denied = "" if rng.random() < PLAIN_SHARE else "never "
    hypothesis = f"the {a} {denied}{asked} the {b} ." if rng.random() < PLAIN_SHARE else f"the {b} was {denied}{asked} by the {a} ."
    premises = []
    for (x, y), (v, w), (first, second), (here, there) in product(
        permutations((a, b)), permutations((c, d)), permutations((asked, other)), permutations(("", "never "))
    ):
        label = NEUTRAL if (x, first) != (a, asked) else ENTAILMENT if here == denied else CONTRADICTION
        premises.append(Premise(f"the {x} {here}{first} the {y}", f"the {v} {there}{second} the {w}", label))
    return hypothesis, premises


def quantifiers(rng: random.Random) -> tuple[str, list[Premise]]:
    """How many of one group did one thing and how many of another group another; the hypothesis says it of one group.

    Neutral: that group did the other thing, or the quantifier leaves it open. Some draws lack a class.
    """
    group, others = (f"{person}s" for person in shuffled(rng, PEOPLE)[:2])
    asked, other = shuffled(rng, INTRANSITIVE)[:2]
    how_many = pick(rng, ("all", "some") if rng.random() < PLAIN_SHARE else ("no", "not all"))
    amounts = shuffled(rng, tuple(QUANTIFIERS))[:2]
    premises = []
    for (first, second), (here, there) in product(permutations((asked, other)), permutations(amounts)):
        label = NEUTRAL if first == other else QUANTIFIERS[here][how_many]
        premises.append(Premise(f"{here} {group} {first}", f"{there} {others} {second}", label))
    return f"{how_many} {group} {asked} .", premises


def _example(rng: random.Random, premise: Premise, hypothesis: str, scene: str, short: bool) -> Example:
    about = (premise.about, premise.label != NEUTRAL)
    first, *second = [about] if short else shuffled(rng, [about, (premise.distractor, False)])
    parts = [first, *([("and", False), *second] if second else []), (".", False)]
    if scene:
        parts.insert(0 if rng.random() < 0.5 else len(parts), (scene, False))
    gold = tuple(marked and word not in UNMARKED for words, marked in parts for word in words.split())
    return Example(" ".join(words for words, _ in parts), premise.label, hypothesis, gold)
