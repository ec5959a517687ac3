"""Exercises of lesson 07, permuting attention."""

from itertools import permutations

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_shuffled_variance(attention, token_logits):
    """Variance of the log odds over all permutations of the attention weights.

    attention, token_logits: (T,) tensors, T >= 2; attention sums to 1.
    """
    count = len(attention)
    peaks = ((attention - 1 / count) ** 2).sum()
    spread = ((token_logits - token_logits.mean()) ** 2).sum() / (count - 1)
    return float(peaks * spread)


def my_flip_share(attention, token_logits):
    """Share of all T! permutations of the weights that change the sign of the log odds.

    attention, token_logits: (T,) tensors, 2 <= T <= 6; no permutation gives exactly 0.
    """
    positive = attention @ token_logits > 0
    outcomes = [(attention[list(order)] @ token_logits > 0) != positive for order in permutations(range(len(attention)))]
    return sum(map(bool, outcomes)) / len(outcomes)


def _divided_by_count(attention, token_logits):
    count = len(attention)
    return float(((attention - 1 / count) ** 2).sum() * ((token_logits - token_logits.mean()) ** 2).sum() / count)


def _not_centred(attention, token_logits):
    spread = ((token_logits - token_logits.mean()) ** 2).sum() / (len(attention) - 1)
    return float((attention**2).sum() * spread)


def _share_that_stays(attention, token_logits):
    return 1 - my_flip_share(attention, token_logits)


def _against_zero(attention, token_logits):
    outcomes = [attention[list(order)] @ token_logits < 0 for order in permutations(range(len(attention)))]
    return sum(map(bool, outcomes)) / len(outcomes)


def _pairs():
    import torch

    def tensor(*values):
        return torch.tensor(values, dtype=torch.float64)

    return (
        (tensor(0.7, 0.2, 0.1), tensor(2.0, -1.0, 0.5)),
        (tensor(0.05, 0.9, 0.03, 0.02), tensor(1.0, -3.0, 2.5, 0.2)),
        (tensor(0.25, 0.25, 0.3, 0.2), tensor(-0.5, 1.5, -2.0, -0.1)),
        (tensor(0.6, 0.4), tensor(-1.0, 2.0)),
    )


EXERCISES = (
    Exercise(
        key="shuffled_variance",
        title="How much do shuffled weights move the log odds?",
        prompt=(
            "Write the variance of the shuffled log odds in closed form: how uneven the weights are, times how far the "
            "tokens' own log odds lie apart."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(my_shuffled_variance, cases=_pairs, tolerance=1e-9),
        mistakes=(
            Mistake(_divided_by_count, "Divide by T - 1: the weights are dealt out without replacement."),
            Mistake(_not_centred, "Even weights of 1/T would then still move the prediction; measure the weights from 1/T."),
        ),
        hints=(
            "Two sums: one over `(attention - 1/T)**2`, one over `(token_logits - token_logits.mean())**2`.",
            "Their product, divided by T - 1.",
        ),
    ),
    Exercise(
        key="flip_share",
        title="How often does the decision flip?",
        prompt="For a short text, try all permutations of the weights. For which share of them does the decision change?",
        minutes=8,
        difficulty=2,
        answer=Function(my_flip_share, cases=_pairs, tolerance=1e-9),
        mistakes=(
            Mistake(_share_that_stays, "That is the share for which the decision stays."),
            Mistake(_against_zero, "Compare with the decision of the original weights, which may itself be negative."),
        ),
        hints=(
            "`itertools.permutations(range(T))` gives all orders; `attention[list(order)]` is one shuffle.",
            "Compare the sign of `shuffled @ token_logits` with that of `attention @ token_logits`.",
        ),
    ),
    Exercise(
        key="reading",
        title="What does a small change show?",
        prompt=(
            "For a review, 100 permutations of the weights change the probability by 0.02 in the median. Which statement follows? "
            "Answer with its letter.\n\n"
            "- **a** The model does not use its attention anywhere.\n"
            "- **b** The words of this review, each attended to alone, would lead to similar predictions, or the weights are "
            "nearly even, or both.\n"
            "- **c** The most attended word is not important: deleting it from the text would change little.\n"
            "- **d** The text has two sequences."
        ),
        minutes=3,
        difficulty=1,
        answer=Choice("b", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "One review says nothing about others; on stories the same kind of model depends on its attention."),
            Mistake("c", "Permuting keeps all words and their states. Deleting a word changes the states too: lesson 10."),
            Mistake("d", "Nothing in the figure tells how many sequences there are; two-text tasks show large changes here."),
        ),
        hints=("Look at the two factors of the variance.",),
        solution='my_reading = "b"',
    ),
)
