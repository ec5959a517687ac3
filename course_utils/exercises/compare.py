"""Is this answer that answer? With a reason in words when it is not."""

import copy
import math
from collections.abc import Mapping, Sequence, Set
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

_MOST_SHOWN = 1000


def difference(answer: Any, expected: Any, tolerance: float = 1e-6) -> str | None:
    """Why `answer` is not `expected`, as the end of a sentence; None when they are the same.

    Numbers, tensors, arrays (any nested list of numbers is taken for one) and frames are equal within `tolerance`, absolute; a
    frame's index is ignored, the order of its rows is not. Lists, tuples, sets and mappings are compared item by item, everything
    else with `==`.
    """
    if isinstance(expected, pd.DataFrame | pd.Series):
        return _frame_difference(answer, expected, tolerance)
    if is_number(expected):
        return _number_difference(answer, expected, tolerance)
    if _is_array(expected):
        return _array_difference(answer, expected, tolerance)
    if isinstance(expected, Mapping):
        return _mapping_difference(answer, expected, tolerance)
    if isinstance(expected, Set):
        return _set_difference(answer, expected)
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        return _sequence_difference(answer, expected, tolerance)
    if type(answer) is not type(expected):
        return f"it is {kind(answer)}, and should be {kind(expected)}"
    return None if answer == expected else f"{shown(answer)} is not right"


def copied(value: Any) -> Any:
    """A copy that shares nothing with `value`: tensors are cloned (without their graph), random generators keep their state."""
    if hasattr(value, "clone_state"):
        return value.clone_state()
    if hasattr(value, "detach") and hasattr(value, "clone"):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple, set):
        return type(value)(copied(item) for item in value)
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    return copy.deepcopy(value)


def is_number(value: Any) -> bool:
    """A single real number (also a tensor or array without dimensions), truth values excluded."""
    if _is_array(value):
        return value.ndim == 0 and is_number(value.item())
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def is_empty(value: Any) -> bool:
    """What stands in a stub: `...`, None, or a list or tuple with a `...` left in it."""
    return value is ... or value is None or (isinstance(value, list | tuple) and any(item is ... for item in value))


def kind(value: Any) -> str:
    """The type of a value in a student's words, with the shape where it has one."""
    if callable(value):
        return "a function"
    if isinstance(value, pd.DataFrame | pd.Series) or (_is_array(value) and value.ndim):
        return f"a {type(value).__name__} of shape {tuple(value.shape)}"
    if is_number(value):
        return f"the number {shown(value)}"
    if isinstance(value, str):
        return f"the text {shown(value)}"
    return f"a {type(value).__name__}"


def shown(value: Any, length: int = 120) -> str:
    """A short text for a value: rounded numbers, nothing longer than `length` characters."""
    if is_number(value):
        return f"{_float(value):.6g}"
    if _is_array(value):
        if math.prod(value.shape) > _MOST_SHOWN:
            return kind(value)
        array = as_array(value)
        value = (array.round(4) if np.issubdtype(array.dtype, np.floating) else array).tolist()
    if isinstance(value, list | tuple | str) and len(value) > _MOST_SHOWN:
        return f"a {type(value).__name__} of length {len(value)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= length else text[: length - 1] + "…"


def described(error: BaseException) -> str:
    """An exception's type and message, also of one whose message cannot be had."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def as_array(value: Any) -> np.ndarray:
    """A tensor, array or nested list as a numpy array (double precision where it is floating point)."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.double() if value.is_floating_point() else value).numpy()
    elif isinstance(value, list | tuple):
        value = [as_array(item) if _is_array(item) else item for item in value]
    return np.asarray(value)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (hasattr(value, "detach") and hasattr(value, "ndim"))


def _float(number: Any) -> float:
    number = number.item() if hasattr(number, "item") else number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _number_difference(answer: Any, expected: Any, tolerance: float) -> str | None:
    if not is_number(answer):
        return f"it is {kind(answer)}, and should be one number"
    answer, expected = _float(answer), _float(expected)
    if math.isnan(answer) and not math.isnan(expected):
        return "it is not a number (nan)"
    same = math.isclose(answer, expected, rel_tol=0, abs_tol=tolerance) or (math.isnan(answer) and math.isnan(expected))
    return None if same else f"{shown(answer)} is too {'large' if answer > expected else 'small'}"


def _array_difference(answer: Any, expected: Any, tolerance: float) -> str | None:
    if not isinstance(answer, list | tuple) and not _is_array(answer):
        return f"it is {kind(answer)}, and should be {kind(expected)}"
    try:
        ours, theirs = as_array(expected), as_array(answer)
    except ValueError:
        return "its rows have different lengths"
    if ours.shape != theirs.shape:
        return f"its shape is {theirs.shape}, and should be {ours.shape}"
    if np.issubdtype(ours.dtype, np.number) and not np.issubdtype(theirs.dtype, np.number):
        return f"it holds {theirs.dtype}, and should hold numbers"
    if not np.issubdtype(ours.dtype, np.number):
        wrong = ours != theirs
    else:
        wrong = ~np.isclose(theirs, ours, rtol=0, atol=tolerance, equal_nan=True)
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} entries differ, the first at {list(place)}: {shown(theirs[place].item())}"


def _frame_difference(answer: Any, expected: pd.DataFrame | pd.Series, tolerance: float) -> str | None:
    if not isinstance(answer, type(expected)):
        return f"it is {kind(answer)}, and should be {kind(expected)}"
    if isinstance(expected, pd.Series):
        return _column_difference(answer, expected, tolerance)
    missing = [str(name) for name in expected.columns if name not in answer.columns]
    if missing:
        return f"it lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}"
    for name in expected.columns:
        reason = _column_difference(answer[name], expected[name], tolerance)
        if reason:
            return f"column {name}: {reason}"
    return None


def _column_difference(answer: pd.Series, expected: pd.Series, tolerance: float) -> str | None:
    if len(answer) != len(expected):
        return f"it has {len(answer)} rows, and should have {len(expected)}"
    if pd.api.types.is_numeric_dtype(expected) and not pd.api.types.is_bool_dtype(expected):
        if not pd.api.types.is_numeric_dtype(answer):
            return f"it holds {answer.dtype}, and should hold numbers"
        return _array_difference(answer.to_numpy(float), expected.to_numpy(float), tolerance)
    wrong = [row for row, pair in enumerate(zip(answer, expected, strict=True)) if difference(*pair, tolerance)]
    return f"{len(wrong)} of {len(expected)} rows differ, the first is row {wrong[0]}" if wrong else None


def _mapping_difference(answer: Any, expected: Mapping, tolerance: float) -> str | None:
    if not isinstance(answer, Mapping):
        return f"it is {kind(answer)}, and should be {kind(expected)}"
    reason = _set_difference(set(answer), set(expected))
    if reason:
        return f"its keys: {reason}"
    reasons = ((key, difference(answer[key], expected[key], tolerance)) for key in expected)
    return next((f"entry {key!r}: {reason}" for key, reason in reasons if reason), None)


def _set_difference(answer: Any, expected: Set) -> str | None:
    if not isinstance(answer, Set | Sequence) or isinstance(answer, str):
        return f"it is {kind(answer)}, and should be {kind(expected)}"
    extra, missing = set(answer) - set(expected), set(expected) - set(answer)
    if extra:
        return f"{shown(sorted(extra, key=repr)[0])} does not belong there"
    return f"{len(missing)} of {len(expected)} missing" if missing else None


def _sequence_difference(answer: Any, expected: Sequence, tolerance: float) -> str | None:
    if _is_array(answer):
        answer = answer.tolist()
    if not isinstance(answer, Sequence) or isinstance(answer, str):
        return f"it is {kind(answer)}, and should be {kind(expected)}"
    if len(answer) != len(expected):
        return f"it has {len(answer)} items, and should have {len(expected)}"
    reasons = (
        (place, difference(ours, theirs, tolerance)) for place, (ours, theirs) in enumerate(zip(answer, expected, strict=True))
    )
    return next((f"item {place}: {reason}" for place, reason in reasons if reason), None)
