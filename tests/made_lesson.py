"""A made-up lesson, for the tests of the exercise framework: one exercise of each kind."""

import math

import pandas as pd
import torch

from course_utils.exercises import Choice, Exercise, Function, Mistake, Number, Value


def my_softmax(scores, mask):
    """Attention weights: the softmax of `scores` (T) over the places where `mask` (T) is true, 0 elsewhere."""
    return scores.masked_fill(~mask, -math.inf).softmax(-1)


def _unmasked(scores, mask):
    return scores.softmax(-1)


def _scaled_after(scores, mask):
    return scores.softmax(-1) * mask


EXERCISES = (
    Exercise(
        key="ceiling",
        title="The ceiling",
        prompt="How large can a Jensen-Shannon divergence be, in nats?",
        minutes=3,
        difficulty=1,
        answer=Number(math.log(2), tolerance=0.005, unit="nats"),
        mistakes=(Mistake(1.0, "That is the ceiling in bits."),),
        hints=("Take two distributions that share no token.", "Write out the sum for two tokens."),
        solution="my_ceiling = math.log(2)",
    ),
    Exercise(
        key="control",
        title="Which control?",
        prompt="Which encoder is the control?",
        minutes=2,
        difficulty=1,
        answer=Choice("average", options=("bilstm", "cnn", "average")),
        mistakes=(Mistake("cnn", "A convolution mixes neighbours, so its states hold more than one word."),),
        hints=("Which encoder mixes nothing?",),
    ),
    Exercise(
        key="weights",
        title="Uniform weights",
        prompt="Give uniform attention over four tokens.",
        minutes=2,
        difficulty=1,
        answer=Value(lambda: torch.full((4,), 0.25)),
        mistakes=(
            Mistake(torch.ones(4), "The weights must sum to 1.", when=lambda weights: abs(float(sum(weights)) - 1) > 1e-6),
            Mistake([1.0, 0.0, 0.0, 0.0], "This looks at one token only."),
        ),
        hints=("Four equal numbers.",),
        solution="my_weights = torch.full((4,), 1 / 4)",
    ),
    Exercise(
        key="table",
        title="A table",
        prompt="Make a frame with a column `n_tokens`: 3, then 5.",
        minutes=2,
        difficulty=2,
        answer=Value(lambda: pd.DataFrame({"n_tokens": [3, 5]})),
        mistakes=(Mistake(pd.DataFrame({"n_tokens": [5, 3]}), "The rows are in the other order."),),
        hints=("`pd.DataFrame({...})`",),
        solution='my_table = pd.DataFrame({"n_tokens": [3, 5]})',
    ),
    Exercise(
        key="softmax",
        title="Masked softmax",
        prompt="Write the softmax that gives padding no weight.",
        minutes=10,
        difficulty=2,
        answer=Function(
            my_softmax,
            cases=lambda: (
                (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, True, False])),
                (torch.tensor([0.5]), torch.tensor([True])),
            ),
        ),
        mistakes=(
            Mistake(_unmasked, "Padding got weight: the mask is not used."),
            Mistake(_scaled_after, "Masking after the softmax leaves weights that do not sum to 1."),
        ),
        hints=("What must the score of padding be so that exp(score) is 0?",),
    ),
)
