"""Exercises of lesson 06, attention and importance."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_kendall(first, second):
    """Kendall's tau of two lists of T different numbers, T >= 2."""
    agree = disagree = 0
    for i in range(len(first)):
        for j in range(i):
            same = (first[i] - first[j]) * (second[i] - second[j])
            agree += same > 0
            disagree += same < 0
    return (agree - disagree) / (agree + disagree)


def my_r_precision(importance, gold):
    """Share of gold among the most important tokens, as many as there are gold ones.

    importance: list of T different numbers; gold: list of T booleans, at least one True.
    """
    count = sum(gold)
    order = sorted(range(len(importance)), key=lambda place: importance[place], reverse=True)
    return sum(gold[place] for place in order[:count]) / count


def _agreement_share(first, second):
    return (my_kendall(first, second) + 1) / 2


def _pearson(first, second):
    import numpy as np

    return float(np.corrcoef(first, second)[0, 1])


def _least_important(importance, gold):
    return my_r_precision([-value for value in importance], gold)


def _first_only(importance, gold):
    return float(gold[max(range(len(importance)), key=lambda place: importance[place])])


EXERCISES = (
    Exercise(
        key="kendall",
        title="Kendall's tau by hand",
        prompt=(
            "Look at all pairs of tokens. A pair agrees if both measures put the same token first. Tau is (agreeing - disagreeing) "
            "/ all pairs."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(
            my_kendall,
            cases=(
                ([0.1, 0.5, 0.4], [1.0, 3.0, 2.0]),
                ([0.1, 0.5, 0.4, 0.2], [4.0, 1.0, 3.5, 2.0]),
                ([0.7, 0.2, 0.1], [0.2, 0.7, 0.1]),
                ([1.0, 2.0], [2.0, 1.0]),
            ),
            tolerance=1e-9,
        ),
        mistakes=(
            Mistake(_agreement_share, "That is the share of agreeing pairs, from 0 to 1; tau runs from -1 to 1."),
            Mistake(_pearson, "That correlates the values. Tau looks at their order only."),
        ),
        hints=(
            "Two loops over places i and j < i.",
            "The product of the two differences is above 0 for a pair that agrees and below 0 for one that does not.",
        ),
    ),
    Exercise(
        key="r_precision",
        title="How much of the answer is found?",
        prompt=(
            "Given the importance of each token and which tokens are gold: take as many of the most important tokens as there are "
            "gold ones. Which share of them is gold?"
        ),
        minutes=6,
        difficulty=1,
        answer=Function(
            my_r_precision,
            cases=(
                ([0.1, 0.6, 0.3], [False, True, False]),
                ([0.5, 0.1, 0.4, 0.2], [True, True, False, False]),
                ([0.5, 0.1, 0.4, 0.2], [False, True, False, True]),
                ([0.1, 0.2, 0.3, 0.4, 0.5], [True, True, False, True, False]),
            ),
            tolerance=1e-9,
        ),
        mistakes=(
            Mistake(_least_important, "You took the least important tokens."),
            Mistake(_first_only, "You looked at the first token only; take as many as there are gold ones."),
        ),
        hints=("`sorted(range(T), key=lambda place: importance[place], reverse=True)` gives the order.",),
    ),
    Exercise(
        key="reading",
        title="What does a low tau show?",
        prompt=(
            "For a BiLSTM the mean tau between attention and gradients is 0.35, between gradients and leave-one-out 0.43. Which "
            "statement follows? Answer with its letter.\n\n"
            "- **a** Attention is wrong about what the model uses.\n"
            "- **b** Gradients are right about what the model uses.\n"
            "- **c** The measures order the tokens differently; which of them is right, if any, needs a test of another kind.\n"
            "- **d** The model is poorly trained."
        ),
        minutes=3,
        difficulty=1,
        answer=Choice("c", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "Two measures disagree. That alone does not say which one is wrong."),
            Mistake("b", "The two yardsticks do not agree well with each other either."),
            Mistake("d", "Agreement of measures is not accuracy; a well trained model can show a low tau."),
        ),
        hints=("A disagreement has two sides.",),
        solution='my_reading = "c"',
    ),
)
