"""Exercises of lesson 14, moving attention between heads."""

import torch

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_free_directions(n_tokens, head_size):
    """Directions in which a row of attention can move, its output and its sum kept.

    n_tokens: tokens of the text; head_size: dimensions of a value vector.
    The values are of full rank.
    """
    return max(0, n_tokens - head_size - 1)


def my_effective(attention, values):
    """Effective attention: the least rows with the same output.

    attention: (T, T) tensor, rows; values: (T, D) tensor. Returns (T, T).
    """
    return attention @ values @ torch.linalg.pinv(values)


def _without_sum(n_tokens, head_size):
    return max(0, n_tokens - head_size)


def _negative(n_tokens, head_size):
    return n_tokens - head_size - 1


def _null_part(attention, values):
    return attention - my_effective(attention, values)


def _wrong_side(attention, values):
    return torch.linalg.pinv(values.T) @ values.T @ attention


def _cases():
    generator = torch.Generator().manual_seed(0)
    draw = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((6, 6), (6, 3), (4, 4), (4, 5))]
    return ((draw[0].softmax(-1), draw[1]), (draw[2].softmax(-1), draw[3]))


EXERCISES = (
    Exercise(
        key="free_directions",
        title="How many directions?",
        prompt=(
            "Write the number of directions in which a row of attention can move while the head's output and the row's sum stay, "
            "for values of full rank. Positivity is left out."
        ),
        minutes=4,
        difficulty=1,
        answer=Function(my_free_directions, cases=((40, 32), (33, 32), (34, 32), (5, 32), (512, 64))),
        mistakes=(
            Mistake(_without_sum, "The sum of the row is one more number that has to stay."),
            Mistake(_negative, "A text can be shorter than the head; there is no negative number of directions."),
        ),
        hints=("The output is as many numbers as the head has dimensions.", "Count unknowns, take away equations, stop at 0."),
    ),
    Exercise(
        key="effective",
        title="Effective attention",
        prompt=(
            "Write the effective attention of a map: of all rows with the same output, the one of least norm. The pseudo-inverse "
            "of the values helps."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(my_effective, cases=_cases, tolerance=1e-6),
        mistakes=(
            Mistake(_null_part, "That is the part that the output does not depend on; asked for is the rest."),
            Mistake(_wrong_side, "You project the queries; it is each row's weights over the keys that are to be projected."),
        ),
        hints=(
            "`output @ torch.linalg.pinv(values)` is the shortest row with this output.",
            "The output of all rows is `attention @ values`.",
        ),
    ),
    Exercise(
        key="reading",
        title="What may stand in the report?",
        prompt=(
            "A colleague exchanges two heads of a layer, query, key, value and output, and finds that every prediction is the same "
            "to seven digits. Which sentence may stand in the report? Answer with its letter.\n\n"
            "- **a** The two heads do the same job.\n"
            "- **b** Attention does not matter for this model.\n"
            "- **c** The number of a head within its layer is a name that we gave; nothing about the heads' jobs follows.\n"
            "- **d** The attention of one head was moved to another, and the other's values made up for it."
        ),
        minutes=3,
        difficulty=1,
        answer=Choice("c", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "Two heads with different jobs can be exchanged just as well: each takes its job along."),
            Mistake("b", "Nothing was taken away: the same maps are there, under other numbers."),
            Mistake("d", "Each head took its own values along, so nothing had to be made up for."),
        ),
        hints=("A layer adds up what its heads write. Does a sum depend on the order of its terms?",),
        solution='my_reading = "c"',
    ),
)
