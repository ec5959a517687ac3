"""Exercises of lesson 01, what attention computes."""

from course_utils.exercises import Choice, Exercise, Function, Mistake, Number


def my_masked_softmax(scores, mask):
    """Attention weights of one text.

    scores: (T,) tensor. mask: (T,) tensor of truth values, True at real tokens.
    Returns (T,) weights that sum to 1 and are exactly 0 at padding.
    """
    return scores.masked_fill(~mask, float("-inf")).softmax(-1)


def my_head(queries, keys, values):
    """Output of one head of self-attention.

    queries, keys: (T, D) tensors. values: (T, M) tensor.
    Returns (T, M): row i is the average of the values, weighted by how much i attends.
    """
    weights = (queries @ keys.T / queries.shape[1] ** 0.5).softmax(-1)
    return weights @ values


def _no_mask(scores, mask):
    return scores.softmax(-1)


def _scores_set_to_zero(scores, mask):
    return (scores * mask).softmax(-1)


def _zeroed_afterwards(scores, mask):
    return scores.softmax(-1) * mask


def _overflows(scores, mask):
    weights = scores.exp() * mask
    return weights / weights.sum()


def _unscaled(queries, keys, values):
    return (queries @ keys.T).softmax(-1) @ values


def _divided_by_size(queries, keys, values):
    return (queries @ keys.T / queries.shape[1]).softmax(-1) @ values


def _over_queries(queries, keys, values):
    return (queries @ keys.T / queries.shape[1] ** 0.5).softmax(0) @ values


def _roles_swapped(queries, keys, values):
    return (keys @ queries.T / queries.shape[1] ** 0.5).softmax(-1) @ values


def _softmax_cases():
    import torch

    def case(scores, mask):
        return torch.tensor(scores, dtype=torch.float64), torch.tensor(mask)

    return (
        case([2.0, 0.0, 1.0], [True, True, True]),
        case([1.0, -1.0, 0.5, 3.0], [True, True, True, False]),
        case([-4.0, -5.0, 0.0, 0.0, 0.0], [True, True, False, False, False]),
        case([1000.0, 999.0, 0.0], [True, True, False]),
    )


def _head_cases():
    import torch

    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).round(decimals=1)

    return tuple(
        (draw(length, size), draw(length, size), draw(length, out)) for length, size, out in ((2, 4, 1), (3, 2, 2), (5, 8, 3))
    )


EXERCISES = (
    Exercise(
        key="leaked",
        title="What padding takes",
        prompt=(
            "A text of one real token has the score 0, and 9 padding tokens were given the score 0 as well instead of minus "
            "infinity. Which share of the attention does the real token keep?"
        ),
        minutes=2,
        difficulty=1,
        answer=Number(0.1, tolerance=0.001, unit="a share between 0 and 1"),
        mistakes=(
            Mistake(1.0, "That would be right if the padding had the score minus infinity; the exponential of 0 is not 0."),
            Mistake(0.9, "That is what the padding takes together."),
            Mistake(0.0, "The exponential of the real token's score is 1, so it keeps something."),
        ),
        hints=(
            "Every token has the score 0. What does the softmax make of equal scores?",
            "Count all tokens, the real one included.",
        ),
        solution="my_leaked = 1 / (1 + 9)",
    ),
    Exercise(
        key="masked_softmax",
        title="A softmax that ignores padding",
        prompt=(
            "Turn the scores of one text into attention weights. Padding gets exactly 0, the rest sums to 1, and large scores do "
            "no harm."
        ),
        minutes=6,
        difficulty=2,
        answer=Function(my_masked_softmax, cases=_softmax_cases, tolerance=1e-9),
        mistakes=(
            Mistake(_no_mask, "Your weights do not look at the mask: padding still gets a share."),
            Mistake(
                _scores_set_to_zero,
                "You set the scores of padding to 0, and the exponential of 0 is 1: padding still gets a share.",
            ),
            Mistake(_zeroed_afterwards, "Padding has the weight 0, but it took its share before, so the rest does not sum to 1."),
            Mistake(
                _overflows, "Right for small scores; the exponential of 1000 is infinite, and infinity divided by itself is nan."
            ),
        ),
        hints=(
            "Which score gives the weight 0 exactly?",
            "The exponential of minus infinity is 0. `scores.masked_fill(~mask, value)` puts `value` where the mask is False.",
            "`softmax` subtracts the largest score first, so it does not overflow; use it in place of your own exponentials.",
        ),
    ),
    Exercise(
        key="head",
        title="One head",
        prompt="Write one head of self-attention: queries, keys and values in, for each token a weighted average of values out.",
        minutes=8,
        difficulty=2,
        answer=Function(my_head, cases=_head_cases),
        mistakes=(
            Mistake(_unscaled, "The scores are not divided by the square root of D."),
            Mistake(_divided_by_size, "The scores are divided by D instead of by its square root."),
            Mistake(_over_queries, "Your columns sum to 1. Each query divides its attention over the keys, so each row has to."),
            Mistake(_roles_swapped, "Your row i belongs to key i. Rows are queries: `A[i][j]` says how much i attends to j."),
        ),
        hints=(
            "`queries @ keys.T` has the score of query i for key j in row i, column j.",
            "Divide by the square root of `queries.shape[1]`, take the softmax over the last dimension, multiply with the values.",
        ),
    ),
    Exercise(
        key="reading",
        title="What may be said?",
        prompt=(
            "In a BiLSTM with attention a heat map shows the weight 0.9 on *insightful* and 0.00 on every *not* in the review. "
            "Which statement follows from the picture alone? Answer with its letter.\n\n"
            "- **a** The prediction would be the same without any *not*.\n"
            "- **b** The model looked for positive words and found *insightful*.\n"
            "- **c** Nine tenths of the average that the decoder reads are the state at the place of *insightful*.\n"
            "- **d** The word *insightful* speaks for a positive review."
        ),
        minutes=3,
        difficulty=1,
        answer=Choice("c", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "A *not* with weight 0 may have changed the state that has the weight 0.9."),
            Mistake("b", "Why the score is high is not in the picture, and a weight has no sign."),
            Mistake("d", "A weight has no sign: it says how much of a state is read, not which class the state speaks for."),
        ),
        hints=("What exactly is multiplied by 0.9?",),
        solution='my_reading = "c"',
    ),
)
