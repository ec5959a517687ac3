"""What the package tells its caller without stopping."""

import warnings


def announce(message: str) -> None:
    """A warning each time: `warnings.warn` would say the same words from the same line only once."""
    warnings.warn_explicit(message, UserWarning, filename=__name__, lineno=1, registry=None)
