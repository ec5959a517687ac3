"""Exercises of lesson 08, adversarial attention."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_weight_on_first(first, second, wall):
    """Weight on the first of two tokens for a mixture with the log odds `wall`.

    first, second: log odds of the two tokens alone, on different sides of `wall`.
    """
    return (second - wall) / (second - first)


def my_least_weight(token_logits, position, low, high):
    """Smallest weight of one token among all attentions with the same prediction.

    token_logits: (T,) tensor, T >= 2; position: the token's place.
    The prediction stays where low <= attention @ token_logits <= high.
    """
    own = token_logits[position]
    others = [logit for place, logit in enumerate(token_logits) if place != position]
    if min(others) > high:
        return (min(others) - high) / (min(others) - own)
    if max(others) < low:
        return (low - max(others)) / (own - max(others))
    return 0.0


def _swapped(first, second, wall):
    return (wall - first) / (second - first)


def _no_wall(first, second, wall):
    return second / (second - first)


def _mean_of_others(token_logits, position, low, high):
    own, count = token_logits[position], len(token_logits)
    mean = (sum(token_logits) - own) / (count - 1)
    if mean > high:
        return (mean - high) / (mean - own)
    if mean < low:
        return (low - mean) / (own - mean)
    return 0.0


def _negative_class_only(token_logits, position, low, high):
    own = token_logits[position]
    lowest = min(logit for place, logit in enumerate(token_logits) if place != position)
    return (lowest - high) / (lowest - own) if lowest > high else 0.0


def _logits(*values):
    import torch

    return torch.tensor(values, dtype=torch.float64)


def _least_weight_cases():
    return (
        (_logits(-4.0, 1.0, 0.5, 2.0), 0, -1.7, -1.5),
        (_logits(5.0, -1.0, 0.0), 0, 2.0, 2.4),
        (_logits(-3.0, 1.0, -2.0), 0, -1.2, -1.0),
        (_logits(0.5, 3.0, -2.0), 0, 0.4, 0.6),
        (_logits(-1.0, 4.0), 1, 1.0, 1.5),
    )


EXERCISES = (
    Exercise(
        key="weight_on_first",
        title="Mix two tokens so that the prediction stays",
        prompt=(
            "Two tokens alone would give the log odds `first` and `second`; the wall of the slab lies between them. "
            "How much weight must the first token get for the mixture to land on the wall?"
        ),
        minutes=5,
        difficulty=1,
        answer=Function(my_weight_on_first, cases=((-2.0, 3.0, 0.5), (4.0, -1.0, 3.0), (-0.5, 0.7, -0.4), (2.0, 1.0, 1.25))),
        mistakes=(
            Mistake(_swapped, "That is the weight on the second token."),
            Mistake(_no_wall, "Your mixture lands on log odds 0, that is on probability one half, not on the wall."),
        ),
        hints=(
            "With weight `w` on the first token the mixture has the log odds `w * first + (1 - w) * second`.",
            "Set that equal to `wall` and solve for `w`.",
        ),
    ),
    Exercise(
        key="proof",
        title="What does a low value prove?",
        prompt=(
            "For one review the exact max-JSD is 0.07 at eps = 0.01. Which statement follows? Answer with its letter.\n\n"
            "- **a** No text with other words gets this prediction.\n"
            "- **b** With the encoder's states as they are, every attention that is further than 0.07 from the model's "
            "changes the probability by more than 0.01.\n"
            "- **c** An optimiser with more steps might still find a very different attention with the same prediction.\n"
            "- **d** The most attended token is the one a human would name as the reason."
        ),
        minutes=3,
        difficulty=1,
        answer=Choice("b", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "The adversary keeps the text and the encoder; it says nothing about other texts."),
            Mistake("c", "The value is the global maximum, so no optimiser can find more."),
            Mistake("d", "The value is about this model's arithmetic; whether a human agrees is another question."),
        ),
        hints=("What is held fixed, and what is searched?",),
        solution='my_proof = "b"',
    ),
    Exercise(
        key="least_weight",
        title="How much weight can a token not lose?",
        prompt=(
            "Among all attentions that keep the log odds between `low` and `high`, find the smallest weight that the token at "
            "`position` can have. It is 0 where the other tokens can carry the prediction without it."
        ),
        minutes=12,
        difficulty=3,
        answer=Function(my_least_weight, cases=_least_weight_cases),
        mistakes=(
            Mistake(
                _mean_of_others,
                "You spread the rest of the weight evenly; the smallest weight is reached when it goes to the one token "
                "that helps most.",
            ),
            Mistake(_negative_class_only, "You treat the wall above only; a positive prediction is held from below, by `low`."),
        ),
        hints=(
            "If another token's log odds already lie inside, or if others lie on both sides, the token is not needed at all.",
            "Otherwise all the other tokens lie beyond the same wall. Put the rest of the weight on the one nearest to it.",
            "Then it is the first exercise again: mix two tokens so that they land on the wall.",
        ),
    ),
)
