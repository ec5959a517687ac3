"""Exercises of lesson 09, the defence."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_adversary_loss(p, p_base, a, a_base, strength):
    """The loss of one text: `TVD(p, p_base) - strength * KL(a || a_base)`.

    p, p_base: lists of class probabilities; a, a_base: lists of attention weights; every weight is above 0.
    """
    import math

    change = sum(abs(x - y) for x, y in zip(p, p_base, strict=True)) / 2
    divergence = sum(x * math.log(x / y) for x, y in zip(a, a_base, strict=True))
    return change - strength * divergence


def my_safe_kl(a, a_base, floor=1e-30):
    """`KL(a || a_base)` that is finite also where weights are 0.

    A weight a of 0 adds nothing; a weight a_base below `floor` counts as `floor`.
    """
    import math

    return sum(x * (math.log(x) - math.log(max(y, floor))) for x, y in zip(a, a_base, strict=True) if x > 0)


def _reversed_kl(p, p_base, a, a_base, strength):
    change = my_adversary_loss(p, p_base, a, a, 0)
    return change + my_adversary_loss(p, p, a_base, a, strength)


def _plus(p, p_base, a, a_base, strength):
    return my_adversary_loss(p, p_base, a, a_base, -strength)


def _no_half(p, p_base, a, a_base, strength):
    return 2 * my_adversary_loss(p, p_base, a, a, 0) + my_adversary_loss(p, p, a, a_base, strength)


def _skips_zero_base(a, a_base, floor=1e-30):
    kept = [(x, y) for x, y in zip(a, a_base, strict=True) if y > 0]
    return my_safe_kl([x for x, _ in kept], [y for _, y in kept])


EXERCISES = (
    Exercise(
        key="adversary_loss",
        title="What does the trained adversary minimise?",
        prompt="Write the loss for one text: the change of the prediction minus lambda times the divergence of the attentions.",
        minutes=6,
        difficulty=1,
        answer=Function(
            my_adversary_loss,
            cases=(
                ([0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8], 0.1),
                ([0.5, 0.5], [0.5, 0.5], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1], 0.01),
                ([0.2, 0.3, 0.5], [0.5, 0.3, 0.2], [0.5, 0.5], [0.9, 0.1], 1.0),
            ),
            tolerance=1e-9,
        ),
        mistakes=(
            Mistake(
                _reversed_kl, "The divergence is the other way round: KL(a || a_base) takes the mean over the adversary's weights."
            ),
            Mistake(_plus, "With a plus the adversary is rewarded for attending to the same words."),
            Mistake(_no_half, "The total variation distance is half of the sum of absolute differences."),
        ),
        hints=("TVD is `sum(abs(x - y)) / 2`.", "KL(a || b) is the sum of `a * log(a / b)`."),
    ),
    Exercise(
        key="safe_kl",
        title="No NaN at a weight of zero",
        prompt=(
            "Attention at padding is exactly 0, and a trained model may saturate. Write the divergence so that it stays finite: "
            "where a is 0 nothing is added, and a base weight below `floor` counts as `floor`."
        ),
        minutes=6,
        difficulty=2,
        answer=Function(
            my_safe_kl,
            cases=(
                ([0.5, 0.5, 0.0], [0.25, 0.75, 0.0]),
                ([0.0, 1.0], [1.0, 0.0]),
                ([0.2, 0.8], [0.8, 0.2]),
                ([1.0, 0.0], [0.5, 0.5]),
            ),
            tolerance=1e-9,
        ),
        mistakes=(Mistake(_skips_zero_base, "You skip words with a base weight of 0. They are where the adversary differs most."),),
        hints=("Skip the words where a is 0.", "`max(y, floor)` keeps the logarithm finite."),
    ),
    Exercise(
        key="reading",
        title="What does the defence defend?",
        prompt=(
            "Uniform attention costs a model hardly any accuracy on some data set. What follows for that data set? Answer with its "
            "letter.\n\n"
            "- **a** Attention is a faithful explanation there.\n"
            "- **b** Attention is hardly used there, so the data set cannot decide whether attention explains.\n"
            "- **c** Attention is not an explanation anywhere.\n"
            "- **d** The model was trained badly."
        ),
        minutes=3,
        difficulty=1,
        answer=Choice("b", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "If the weights hardly matter, they cannot be the explanation there."),
            Mistake("c", "A data set on which attention is not needed says nothing about those on which it is."),
            Mistake("d", "Both models reach about the same accuracy."),
        ),
        hints=("What would an experiment on weights find if the weights do nothing?",),
        solution='my_reading = "b"',
    ),
)
