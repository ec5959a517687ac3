"""Stories with a question whose supporting facts are known: what an explanation of the answer ought to find.

The tasks have the form of bAbI's first three (Weston et al. 2015, section 3): one, two or three sentences of a story decide the
answer, the others distract. Words, grammar and simulated world are our own.
"""

import random
from collections import Counter
from collections.abc import Sequence

from course_utils.data.drawing import pick
from course_utils.data.examples import Dataset, Example
from course_utils.errors import DataError

PEOPLE = ("ivan", "lena", "nora", "omar", "rosa")
PLACES = ("attic", "barn", "cellar", "garage", "porch", "studio")
THINGS = ("basket", "kettle", "ladder", "lamp")
MOVES = ("walked to", "hurried to", "wandered to", "headed for")
TAKES = ("picked up", "took", "grabbed")
DROPS = ("put down", "dropped", "left")

SENTENCES = {1: (4, 8), 2: (6, 16), 3: (45, 95)}  # fewest and most sentences of a story, by task
MOVE_SHARE, TAKE_SHARE = 0.55, 0.25  # the rest of what people do is putting down


def make_stories(task: int, sizes: Sequence[int] = (10_000, 1_000, 1_000), seed: int = 0) -> Dataset:
    """Stories of one task. The text is the story, the query the question, the label the place that answers it.

    `gold` marks all tokens of the sentences that decide, and there are exactly `task` of them:
    1, "where is nora ?": her last move; 2, "where is the lamp ?": who took or left it last, and that person's move to the place;
    3, "where was the lamp before the barn ?": who took it, the move to the barn, and that person's move before
    (the lamp has been to the barn only once).

    Args:
        task: 1, 2 or 3.
        sizes: numbers of train, dev and test examples. No story with the same question stands twice, in one split or in two.
        seed: the same seed gives the same examples on every machine.
    Raises:
        DataError: there is no such task, or a size is less than 1.
    """
    if task not in SENTENCES:
        raise DataError(f"there is no story task {task!r}; choose 1, 2 or 3 (the number of supporting facts)")
    if len(sizes) != 3 or min(sizes) < 1:
        raise DataError(f"sizes are three numbers of at least 1 (train, dev, test), not {tuple(sizes)}")
    rng = random.Random(seed)
    fewest, most = SENTENCES[task]
    examples: dict[tuple[str, str], Example] = {}
    while len(examples) < sum(sizes):
        world = World(rng, with_things=task > 1)
        for _ in range(fewest + int(rng.random() * (most - fewest + 1))):
            world.go_on()
        questions = (world.people_questions, world.thing_questions, world.history_questions)[task - 1]()
        if not questions:
            continue
        question, place, facts = pick(rng, questions)
        story = " ".join(world.sentences)
        gold = tuple(number in facts for number, words in enumerate(world.sentences) for _ in words.split())
        examples.setdefault((story, question), Example(story, PLACES.index(place), question, gold))
    rows = tuple(examples.values())
    n_train, n_dev, _ = sizes
    return Dataset(f"stories-{task}", PLACES, rows[:n_train], rows[n_train : n_train + n_dev], rows[n_train + n_dev :])


Question = tuple[str, str, tuple[int, ...]]  # the question, the place that answers it, the numbers of the sentences that decide


class World:
    """People who walk about, take things along and leave them, told sentence by sentence.

    Args:
        with_things: whether things are taken and left, or people only move.
    """

    def __init__(self, rng: random.Random, with_things: bool):
        self.rng = rng
        self.with_things = with_things
        self.sentences: list[str] = []
        self.places: dict[str, tuple[str, int]] = {}  # person: place, number of the sentence that says so
        self.holders: dict[str, tuple[str, int]] = {}  # thing: who holds it, sentence
        self.left: dict[str, tuple[str, tuple[int, int]]] = {}  # thing: where it lies, sentences
        self.visits = {thing: Counter() for thing in THINGS}  # thing: how often it came to each place, its first one included
        self.arrivals: dict[tuple[str, str], tuple[str, tuple[int, int, int]]] = {}  # thing, place: the place before, sentences

    def go_on(self) -> None:
        """One more sentence: somebody moves, takes what is there, or leaves what they hold."""
        person = pick(self.rng, PEOPLE)
        chance = self.rng.random()
        if self.with_things and person in self.places and chance >= MOVE_SHARE:
            place = self.places[person][0]
            if chance < MOVE_SHARE + TAKE_SHARE:
                things = [thing for thing in THINGS if thing not in self.holders and self.left.get(thing, (place,))[0] == place]
                act, words = self._take, TAKES
            else:
                things = [thing for thing, (holder, _) in self.holders.items() if holder == person]
                act, words = self._leave, DROPS
            if things:
                thing = pick(self.rng, things)
                act(person, thing, place)
                self.sentences.append(f"{person} {pick(self.rng, words)} the {thing} .")
                return
        self._move(person)

    def _move(self, person: str) -> None:
        here, since = self.places.get(person, (None, None))
        place = pick(self.rng, [place for place in PLACES if place != here])
        number = len(self.sentences)
        for thing, (holder, taken) in self.holders.items():
            if holder == person:
                self.visits[thing][place] += 1
                self.arrivals[thing, place] = (here, (taken, since, number))
        self.places[person] = (place, number)
        self.sentences.append(f"{person} {pick(self.rng, MOVES)} the {place} .")

    def _take(self, person: str, thing: str, place: str) -> None:
        if self.left.pop(thing, None) is None:
            self.visits[thing][place] += 1
        self.holders[thing] = (person, len(self.sentences))

    def _leave(self, person: str, thing: str, place: str) -> None:
        del self.holders[thing]
        self.left[thing] = (place, (len(self.sentences), self.places[person][1]))

    def people_questions(self) -> list[Question]:
        """Where somebody is now: one fact."""
        return [(f"where is {person} ?", place, (fact,)) for person, (place, fact) in self.places.items()]

    def thing_questions(self) -> list[Question]:
        """Where a thing is now: two facts."""
        held = {thing: (self.places[holder][0], (taken, self.places[holder][1])) for thing, (holder, taken) in self.holders.items()}
        return [(f"where is the {thing} ?", place, facts) for thing, (place, facts) in (self.left | held).items()]

    def history_questions(self) -> list[Question]:
        """Where a thing was before it came to a place where it has been once: three facts."""
        return [
            (f"where was the {thing} before the {place} ?", before, facts)
            for (thing, place), (before, facts) in self.arrivals.items()
            if self.visits[thing][place] == 1
        ]
