"""Exercises of lesson 11, head roles."""

from course_utils.exercises import Exercise, Function, Mistake


def my_fixed_offset(chosen_on, scored_on):
    """The best fixed offset, chosen on some arcs and scored on others.

    chosen_on, scored_on: lists of offsets, one an arc, e.g. [-2, 1, -2].
    Returns (offset, share of `scored_on` that it finds).
    """
    offset = max(sorted(set(chosen_on)), key=chosen_on.count)
    return offset, scored_on.count(offset) / len(scored_on)


def my_next_noun(tags):
    """The next noun after each word.

    tags: parts of speech, e.g. ["DET", "ADJ", "NOUN"]. "NOUN" and "PROPN" are nouns.
    Returns a list of positions, -1 where no noun follows.
    """
    found, nearest = [], -1
    for place in reversed(range(len(tags))):
        found.append(nearest)
        if tags[place] in ("NOUN", "PROPN"):
            nearest = place
    return found[::-1]


def _chosen_where_scored(chosen_on, scored_on):
    return my_fixed_offset(scored_on, scored_on)


def _scored_where_chosen(chosen_on, scored_on):
    return my_fixed_offset(chosen_on, chosen_on)


def _mean_offset(chosen_on, scored_on):
    offset = round(sum(chosen_on) / len(chosen_on))
    return offset, scored_on.count(offset) / len(scored_on)


def _itself(tags):
    nouns = [place for place, tag in enumerate(tags) if tag in ("NOUN", "PROPN")]
    return [next((place for place in nouns if place >= start), -1) for start in range(len(tags))]


def _without_names(tags):
    return my_next_noun(["X" if tag == "PROPN" else tag for tag in tags])


def _distances(tags):
    return [noun - place if noun >= 0 else -1 for place, noun in enumerate(my_next_noun(tags))]


EXERCISES = (
    Exercise(
        key="fixed_offset",
        title="The rival that knows no grammar",
        prompt=(
            "Write the baseline of this lesson: find the most frequent offset of the arcs in `chosen_on`, and say which share of "
            "the arcs of `scored_on` has it. (In the cases no two offsets are equally frequent.)"
        ),
        minutes=6,
        difficulty=1,
        answer=Function(
            my_fixed_offset,
            cases=(
                ([-2, 1, -2, -3], [-2, -2, 1, 1, 1]),
                ([1, 1, 2], [2, 2, 3]),
                ([-1, -1, 4, 4, -1], [-1]),
                ([2, 2, 1, 5, 5, 5], [5, 1, 2, 5]),
            ),
        ),
        mistakes=(
            Mistake(
                _chosen_where_scored,
                "You chose the offset on the arcs that score it; a head may not do that, so neither may its rival.",
            ),
            Mistake(_scored_where_chosen, "That is its share where it was chosen; asked for is the share on the other arcs."),
            Mistake(_mean_offset, "The mean distance need not be a frequent one; take the offset that occurs most often."),
        ),
        hints=(
            "`chosen_on.count(offset)` counts an offset.",
            "`max(set(chosen_on), key=chosen_on.count)` is the most frequent one.",
        ),
    ),
    Exercise(
        key="next_noun",
        title="A rival that knows nouns",
        prompt=(
            "A fixed offset is a weak rival: a determiner belongs to the noun that follows, however far off it is. Write the rule "
            "that answers, for each word, the position of the next noun after it."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(
            my_next_noun,
            cases=(
                (["DET", "ADJ", "NOUN"],),
                (["NOUN", "VERB", "DET", "PROPN", "PUNCT"],),
                (["ADP", "NOUN", "NOUN", "ADV"],),
                (["VERB"],),
                ([],),
            ),
        ),
        mistakes=(
            Mistake(_itself, "A noun answered itself; the next noun comes after the word."),
            Mistake(_without_names, 'Names are nouns, too: count "PROPN".'),
            Mistake(_distances, "Those are distances; asked for are positions in the sentence."),
        ),
        hints=(
            "Go through the sentence from its end, and remember the last noun you passed.",
            "Note the answer of a word before you look at whether the word itself is a noun.",
        ),
    ),
)
