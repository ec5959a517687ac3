"""A made-up lesson that needs no torch, so that processes that run its notebooks start quickly."""

from course_utils.exercises import Exercise, Function, Mistake, Number


def my_normalise(weights):
    """Weights divided by their sum."""
    total = sum(weights)
    return [weight / total for weight in weights]


EXERCISES = (
    Exercise(
        key="share",
        title="A share",
        prompt="What share of 4 is 1?",
        minutes=1,
        difficulty=1,
        answer=Number(0.25, unit="a share between 0 and 1"),
        mistakes=(Mistake(4.0, "Divide the part by the whole."),),
        hints=("Divide.",),
        solution="my_share = 1 / 4",
    ),
    Exercise(
        key="normalise",
        title="Sum to one",
        prompt="Divide weights by their sum.",
        minutes=3,
        difficulty=2,
        answer=Function(my_normalise, cases=(([1.0, 3.0],), ([2.0],))),
        mistakes=(Mistake(lambda weights: [weight / max(weights) for weight in weights], "That is the maximum, not the sum."),),
        hints=("`sum(weights)`",),
    ),
)
