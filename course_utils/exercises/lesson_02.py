"""Exercises of lesson 02, attention patterns."""

from course_utils.exercises import Exercise, Function, Mistake, Number


def my_offset(attention, offset):
    """Mean weight on the token `offset` places away, over queries that have one.

    attention: (T, T) tensor, rows look at columns.
    offset: -1 is the token before, 0 the token itself, 1 the next.
    """
    return attention.diagonal(offset).mean()


def my_read_share(weights, lengths):
    """Share of each key in what a query reads, (T, T), each row summing to 1.

    weights: (T, T) tensor of attention, rows look at columns.
    lengths: (T,) tensor, the norm of each key's value.
    """
    read = weights * lengths
    return read / read.sum(-1, keepdim=True)


def _other_side(attention, offset):
    return attention.diagonal(-offset).mean()


def _over_all_queries(attention, offset):
    return attention.diagonal(offset).sum() / len(attention)


def _not_shares(weights, lengths):
    return weights * lengths


def _length_of_the_query(weights, lengths):
    read = weights * lengths[:, None]
    return read / read.sum(-1, keepdim=True)


def _shares_of_everything(weights, lengths):
    read = weights * lengths
    return read / read.sum()


def _maps(*sizes):
    import torch

    generator = torch.Generator().manual_seed(2)
    return [torch.randn(size, size, generator=generator, dtype=torch.float64).softmax(-1) for size in sizes]


def _offset_cases():
    return tuple(zip(_maps(4, 5, 5, 7), (-1, 1, -2, 0), strict=True))


def _read_share_cases():
    import torch

    lengths = ([0.05, 1.0, 2.0], [1.0, 0.5, 3.0, 0.1])
    return tuple((weights, torch.tensor(row, dtype=torch.float64)) for weights, row in zip(_maps(3, 4), lengths, strict=True))


EXERCISES = (
    Exercise(
        key="offset",
        title="Any diagonal",
        prompt=(
            "The scores know three diagonals: the token before, the next, the token itself. Write the one score behind them all: "
            "the mean weight on the token `offset` places away. A query that has no such token does not count."
        ),
        minutes=6,
        difficulty=2,
        answer=Function(my_offset, cases=_offset_cases),
        mistakes=(
            Mistake(_other_side, "Rows look and columns are looked at, so the token before lies left of the main diagonal."),
            Mistake(
                _over_all_queries,
                "You divide by all T queries. The first one has no token before it, so at most T - 1 can be averaged.",
            ),
        ),
        hints=(
            "Query i looks at key i + offset.",
            "`attention.diagonal(1)` holds the weights of key i + 1, for the queries that have one.",
        ),
    ),
    Exercise(
        key="half_on_first",
        title="How sparse is half a stripe?",
        prompt=(
            "A head with 20 keys gives every query's weight half to [CLS] and spreads the other half evenly over the other 19. "
            "What is its sparsity, 1 - entropy / log(20)?"
        ),
        minutes=6,
        difficulty=2,
        answer=Number(0.2772, tolerance=0.005, unit="a number between 0 and 1"),
        mistakes=(
            Mistake(0.7228, "That is the entropy as a share of the largest possible; sparsity is what is missing to 1."),
            Mistake(2.1654, "That is the entropy in nats. Divide it by log(20) and take it from 1."),
            Mistake(0.5, "Half of the weight is not half of the entropy: add up -w log w over all 20 keys."),
        ),
        hints=(
            "The entropy is the sum of -w log w: one key with w = 1/2 and 19 keys with w = 1/38.",
            "That is (log 2) / 2 + (log 38) / 2 nats.",
        ),
        solution=("import math\n\nentropy = (math.log(2) + math.log(38)) / 2\nmy_half_on_first = 1 - entropy / math.log(20)"),
    ),
    Exercise(
        key="read_share",
        title="From weight to contribution",
        prompt=(
            "For one head, turn attention weights into shares of what is read: weight times the length of the key's value, "
            "divided by the sum of these over the row."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(my_read_share, cases=_read_share_cases),
        mistakes=(
            Mistake(_not_shares, "These are weight times length; divide each row by its sum to get shares."),
            Mistake(
                _length_of_the_query,
                "You multiplied a row by the length of the token that looks. It cancels, and the shares are the weights again; "
                "the length that counts belongs to the token looked at.",
            ),
            Mistake(
                _shares_of_everything,
                "You divided by the sum over all queries; each query reads for itself, so each row sums to 1.",
            ),
        ),
        hints=(
            "Columns are keys; `weights * lengths` multiplies column j by `lengths[j]`.",
            "`sum(-1, keepdim=True)` is the sum of each row, in a shape that divides the rows.",
        ),
    ),
)
