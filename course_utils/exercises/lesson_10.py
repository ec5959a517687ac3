"""Exercises of lesson 10, faithfulness."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_aopc(probability, tokens, order, shares):
    """Mean comprehensiveness over rationales of growing size.

    probability: function from a list of tokens to the probability of the class predicted for all of them;
    tokens: list of words; order: all positions, most important first;
    shares: numbers in (0, 1); a share of the text is rounded up to whole tokens, and is never all of them.
    """
    import math

    whole, falls = probability(tokens), []
    for share in shares:
        rationale = order[: math.ceil(share * len(tokens) - 1e-9)]  # 0.07 of 100 tokens is 7, whatever the last digit says
        falls.append(whole - probability([word for place, word in enumerate(tokens) if place not in rationale]))
    return sum(falls) / len(falls)


def my_items_to_flip(attention, token_logits, order):
    """How many items must lose their attention, in this order, until the sign of the log odds changes.

    attention, token_logits: lists of T numbers; order: all positions, first to remove first.
    The rest is renormalised; at least one item stays. None if the sign never changes.
    """
    whole = sum(a * v for a, v in zip(attention, token_logits, strict=True))
    for count in range(1, len(order)):
        left = sum(attention[place] * token_logits[place] for place in order[count:])
        if left < 0 < whole or whole < 0 < left:  # dividing by the weights that are left changes no sign
            return count
    return None


def _falls(probability, tokens, order, shares, round_, keep_rationale=False):
    sizes = [round_(share * len(tokens)) for share in shares]
    kept = [[word for place, word in enumerate(tokens) if (place in order[:size]) == keep_rationale] for size in sizes]
    return [probability(tokens) - probability(words) for words in kept]


def _sufficiency(probability, tokens, order, shares):
    import math

    return sum(_falls(probability, tokens, order, shares, math.ceil, keep_rationale=True)) / len(shares)


def _rounded_down(probability, tokens, order, shares):
    return sum(_falls(probability, tokens, order, shares, int)) / len(shares)


def _sum(probability, tokens, order, shares):
    import math

    return sum(_falls(probability, tokens, order, shares, math.ceil))


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
    second = _probability({"not": -2.0, "good": 1.0, "plot": 0.5, "and": 0.1})
    return (
        (first, ["a", "superb", "but", "dull", "film"], [1, 4, 0, 2, 3], [0.1, 0.5]),
        (first, ["a", "superb", "but", "dull", "film"], [3, 1, 0, 2, 4], [0.05, 0.3, 0.7]),
        (second, ["good", "plot", "and", "not", "a", "good", "film"], [3, 0, 1, 5, 2, 4, 6], [0.01, 0.2, 0.5]),
        (second, ["good", "good"], [1, 0], [0.5, 0.2]),
    )


EXERCISES = (
    Exercise(
        key="aopc",
        title="Comprehensiveness over rationales of growing size",
        prompt=(
            "`probability(tokens)` gives the probability of the class predicted for the whole text. For each share, take that much "
            "of the text, most important first and rounded up, out of it; return the mean of the falls."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(my_aopc, cases=_texts, tolerance=1e-9),
        mistakes=(
            Mistake(_sufficiency, "You kept the rationale and took the rest out: that is sufficiency."),
            Mistake(_rounded_down, "A small share of a short text rounds down to no word at all; round up."),
            Mistake(_sum, "That is the sum over the shares; the published measure is their mean."),
        ),
        hints=(
            "A rationale is the first `math.ceil(share * len(tokens))` positions of `order`.",
            "The fall starts from `probability(tokens)`. What is left keeps the order of the text.",
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
            "Integrated gradients with their sign have a comprehensiveness of 0.39 on reviews, attention 0.22. Which conclusion is "
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
            Mistake("a", "Take away the sign and its lead is gone: see the two rows of the figure."),
            Mistake("b", "Attention is well above random. How far below the best possible measure it lies is not known from this."),
            Mistake("d", "It tells every measure from random, and it ranks unsigned measures fairly."),
        ),
        hints=("Which words does each measure put last?",),
        solution='my_signed = "c"',
    ),
)
