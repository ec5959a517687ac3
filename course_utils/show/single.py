"""What a figure of one text may be asked for."""

from collections.abc import Sequence

import torch

from course_utils.errors import ShowError
from course_utils.models import AttentionMaps


def single_text(maps: AttentionMaps) -> tuple[torch.Tensor, list[str]]:
    """Attention (L, N, T, T) of the only text, without padding, and its T tokens.

    Raises:
        ShowError: there are several texts.
    """
    if len(maps) != 1:
        raise ShowError(f"the maps hold {len(maps)} texts; this shows one: pass maps.one(row)")
    maps = maps.one(0)
    return maps.attention[0], list(maps.tokens[0])


def chosen(numbers: Sequence[int] | None, count: int, what: str) -> list[int]:
    """The layers or heads asked for, in that order; all of them for None.

    Raises:
        ShowError: none is asked for, one twice, or one that does not exist.
    """
    if numbers is None:
        return list(range(count))
    numbers = [int(number) for number in numbers]
    wrong = next((number for number in numbers if not 0 <= number < count), None)
    if wrong is not None:
        raise ShowError(f"{what} {wrong} does not exist; there are {what}s 0 to {count - 1}")
    if not numbers or len(set(numbers)) < len(numbers):
        raise ShowError(f"{what}s={numbers} is empty or names one twice; choose from 0 to {count - 1}")
    return numbers
