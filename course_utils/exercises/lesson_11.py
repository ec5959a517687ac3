"""Exercises of lesson 11, head roles."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


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


def my_place_rule(places):
    """How often a rule that knows places alone can be right, at best.

    places: tuples (query, target, distractor), positions in a sentence. The rule sees
    the query's place and the two candidates' places, not which is the target.
    Returns a share from 0.5 to 1.
    """
    right = 0
    for query, first, second in {(query, *sorted(candidates)) for query, *candidates in places}:
        right += max(places.count((query, first, second)), places.count((query, second, first)))
    return right / len(places)


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


def _nearer_word(places):
    return sum(abs(query - target) < abs(query - other) for query, target, other in places) / len(places)


def _first_word(places):
    return max(share := sum(target < other for _, target, other in places) / len(places), 1 - share)


def _sees_the_target(places):
    return 1.0


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
    Exercise(
        key="place_rule",
        title="Can places alone give the answer?",
        prompt=(
            "A forced choice is balanced if nobody can win it by places. Write the best share that any rule can reach that is told "
            "where query and candidates stand, but not which of the two candidates is the target. For each such set of places the "
            "best rule always answers the place that is the target more often."
        ),
        minutes=10,
        difficulty=2,
        answer=Function(
            my_place_rule,
            cases=(
                ([(6, 2, 5), (6, 5, 2)],),
                ([(5, 1, 4), (5, 4, 2)],),
                ([(6, 2, 5), (6, 2, 5), (6, 5, 2), (3, 0, 1)],),
                ([(6, 5, 2), (6, 5, 2), (6, 2, 5), (2, 1, 0), (2, 1, 0), (2, 0, 1), (2, 0, 1), (2, 0, 1)],),
            ),
        ),
        mistakes=(
            Mistake(_nearer_word, '"The nearer word" is one rule. Another may do better; asked for is the best there is.'),
            Mistake(_first_word, "A rule may answer the first candidate at some places and the second at others."),
            Mistake(_sees_the_target, "Your rule was told which candidate is the target; it sees the two places only."),
        ),
        hints=(
            "`(query, min(target, distractor), max(target, distractor))` is what the rule sees.",
            "Count, for each thing seen, how often the first candidate is the target. The rule is right for the larger part.",
        ),
    ),
    Exercise(
        key="what_it_does",
        title="What may the paper say?",
        prompt=(
            "A head is chosen on half of the sentences. On the other half it looks at the right one of two people in 97 % of the "
            "sentences where their gender differs. With the words shuffled: 94 %. On people of the same gender: 51 % (interval .40 "
            "to .62). Comparing input embeddings, without any head: 94 %. Which sentence may stand in the paper? Answer with its "
            "letter.\n\n"
            "- **a** The head resolves coreference, and is 97 % accurate.\n"
            "- **b** The head resolves coreference where gender allows it, and cannot use meaning.\n"
            "- **c** The head gives pronouns more weight on a word of the same gender, wherever it stands.\n"
            "- **d** The model cannot resolve coreference."
        ),
        minutes=4,
        difficulty=1,
        answer=Choice("c", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "It keeps 94 % on shuffled words, where nobody refers to anybody."),
            Mistake("b", "Resolving needs a sentence. On shuffled words there is nothing to resolve, and the head does the same."),
            Mistake("d", "One head was tested, by its weights. The model may use others, or other ways than weights."),
        ),
        hints=(
            "Take the sentences one by one: does it say more than what all four numbers say?",
            "Which description predicts all four numbers, 94 % on shuffled words included?",
        ),
        solution='my_what_it_does = "c"',
    ),
)
