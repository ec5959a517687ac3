"""Random sequences that repeat themselves: the only thing to learn in them is to look back.

A block of random tokens is said again and again until the sequence is full. How long the block is varies from sequence to sequence,
so that no fixed distance back gives the next token.
"""

from dataclasses import dataclass

import torch

from course_utils.errors import DataError


@dataclass(frozen=True)
class Repeats:
    """B sequences of T tokens, each a block of random tokens repeated to the end.

    Attributes:
        ids: (B, T) int64, in [0, vocabulary).
        period: (B,) int64, the length of each sequence's block: `ids[b, t] == ids[b, t - period[b]]`.
        vocabulary: number of tokens.
    """

    ids: torch.Tensor
    period: torch.Tensor
    vocabulary: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def seen(self) -> torch.Tensor:
        """(B, T) bool, whether the block had been said once when this position came: what follows can be known from before."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) >= self.period[:, None]

    def to(self, device: torch.device | str) -> "Repeats":
        """The same with its tensors on `device`."""
        return Repeats(self.ids.to(device), self.period.to(device), self.vocabulary)


def make_repeats(
    n: int, length: int = 64, vocabulary: int = 64, *, periods: tuple[int, int] = (8, 32), generator: torch.Generator
) -> Repeats:
    """Sequences of repeated random tokens, as Olsson et al. (2022) use them to find induction heads.

    Tokens of a block are drawn with replacement, all alike, so the first time through nothing predicts them better than chance:
    the loss there cannot fall below `log(vocabulary)`.

    Args:
        n: how many sequences; length: T, their tokens, 2 or more; vocabulary: 2 or more.
        periods: shortest and longest block; the length of each is drawn evenly between them, both included.
        generator: on the CPU; the same state gives the same sequences.
    Raises:
        DataError: a number outside these ranges, or a period that does not fit into the sequence.
    """
    shortest, longest = periods
    if n < 1 or length < 2:
        raise DataError(f"n={n} sequences of length {length}: give at least 1 sequence of at least 2 tokens")
    if vocabulary < 2:
        raise DataError(f"a vocabulary of {vocabulary} leaves nothing to predict; give at least 2 tokens")
    if not 1 <= shortest <= longest:
        raise DataError(f"periods={periods} are the shortest and the longest block, with 1 <= shortest <= longest")
    if longest >= length:
        raise DataError(f"a block of {longest} tokens is never repeated in a sequence of {length}; give periods below {length}")
    period = torch.randint(shortest, longest + 1, (n,), generator=generator)
    block = torch.randint(vocabulary, (n, longest), generator=generator)
    return Repeats(block.gather(1, torch.arange(length) % period[:, None]), period, vocabulary)
