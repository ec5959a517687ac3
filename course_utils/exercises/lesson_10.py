"""Exercises of lesson 10, faithfulness."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_erasure(probability, tokens, rationale):
    """Comprehensiveness and sufficiency of a rationale.

    probability: function from a list of tokens to the probability of the class predicted for all of them;
    tokens: list of words; rationale: set of positions.
    Returns a pair (comprehensiveness, sufficiency).
    """
    inside = [word for place, word in enumerate(tokens) if place in rationale]
    outside = [word for place, word in enumerate(tokens) if place not in rationale]
    whole = probability(tokens)
    return whole - probability(outside), whole - probability(inside)


def my_items_to_flip(attention, token_logits, order):
    """How many items must lose their attention, in this order, until the sign of the log odds changes.

    attention, token_logits: lists of T numbers; order: all positions, first to remove first.
    The rest is renormalised; at least one item stays. None if the sign never changes.
    """
    positive = sum(a * v for a, v in zip(attention, token_logits, strict=True)) > 0
    for count in range(1, len(order)):
        kept = order[count:]
        odds = sum(attention[place] * token_logits[place] for place in kept) / sum(attention[place] for place in kept)
        if (odds > 0) != positive:
            return count
    return None


def _swapped(probability, tokens, rationale):
    comprehensiveness, sufficiency = my_erasure(probability, tokens, rationale)
    return sufficiency, comprehensiveness


def _negated(probability, tokens, rationale):
    comprehensiveness, sufficiency = my_erasure(probability, tokens, rationale)
    return -comprehensiveness, -sufficiency


def _against_zero(attention, token_logits, order):
    for count in range(1, len(order)):
        if sum(attention[place] * token_logits[place] for place in order[count:]) < 0:
            return count
    return None


def _number_left(attention, token_logits, order):
    count = my_items_to_flip(attention, token_logits, order)
    return None if count is None else len(order) - count


def _probability(weights):
    import math

    def probability(tokens):
        return 1 / (1 + math.exp(-sum(weights.get(word, 0.0) for word in tokens)))

    return probability


def _texts():
    first = _probability({"superb": 3.0, "dull": -1.0})
    second = _probability({"not": -2.0, "good": 1.0, "plot": 0.5})
    return (
        (first, ["a", "superb", "but", "dull", "film"], {1}),
        (first, ["a", "superb", "but", "dull", "film"], {3, 4}),
        (second, ["good", "plot"], {0}),
        (second, ["not", "good", "plot"], {0, 1}),
    )


EXERCISES = (
    Exercise(
        key="erasure",
        title="Comprehensiveness and sufficiency",
        prompt=(
            "`probability(tokens)` gives the probability of the class predicted for the whole text. Return what is lost without "
            "the rationale, and what is lost with the rationale alone."
        ),
        minutes=8,
        difficulty=1,
        answer=Function(my_erasure, cases=_texts, tolerance=1e-9),
        mistakes=(
            Mistake(_swapped, "The two are exchanged: comprehensiveness takes the rationale out, sufficiency keeps nothing else."),
            Mistake(_negated, "The sign is the other way round: the whole text's probability comes first."),
        ),
        hints=(
            "Split the tokens into those inside and those outside the rationale.",
            "Both differences start from `probability(tokens)`.",
        ),
    ),
    Exercise(
        key="items_to_flip",
        title="How many items until the decision flips?",
        prompt=(
            "Take attention away item by item in the given order, renormalise the rest, and return how many it takes until the "
            "sign of the log odds changes; None if it never does."
        ),
        minutes=10,
        difficulty=2,
        answer=Function(
            my_items_to_flip,
            cases=(
                ([0.6, 0.3, 0.1], [2.0, -1.0, -0.5], [0, 1, 2]),
                ([0.6, 0.3, 0.1], [-2.0, 1.0, 0.5], [1, 2, 0]),
                ([0.5, 0.2, 0.2, 0.1], [-1.0, -2.0, 3.0, 0.5], [0, 1, 2, 3]),
                ([0.4, 0.3, 0.2, 0.1], [1.0, 2.0, 0.5, 0.1], [0, 1, 2, 3]),
            ),
        ),
        mistakes=(
            Mistake(_against_zero, "A negative decision flips when the log odds become positive; compare with the original sign."),
            Mistake(_number_left, "That is how many items are left; count those that were taken."),
        ),
        hints=(
            "Dividing by what is left of the weights does not change the sign.",
            "Stop before the last item: something has to be attended to.",
        ),
    ),
    Exercise(
        key="signed",
        title="A fair comparison",
        prompt=(
            "Integrated gradients with their sign have a comprehensiveness of 0.38 on reviews, attention 0.22. Which conclusion is "
            "justified? Answer with its letter.\n\n"
            "- **a** Integrated gradients are the more faithful measure.\n"
            "- **b** Attention is not faithful.\n"
            "- **c** A measure that may rank words *against* the prediction last has an advantage here that has nothing to do with "
            "finding important words; compare sizes as well.\n"
            "- **d** The test is useless."
        ),
        minutes=3,
        difficulty=1,
        answer=Choice("c", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "Take away the sign and its lead is gone: see the two bars side by side."),
            Mistake("b", "Attention is well above random. How far below the best possible measure it lies is not known from this."),
            Mistake("d", "It tells every measure from random, and it ranks unsigned measures fairly."),
        ),
        hints=("Which words does each measure put last?",),
        solution='my_signed = "c"',
    ),
)
