"""The check of every table that a figure is drawn from."""

from collections.abc import Sequence

import pandas as pd

from course_utils.errors import ShowError


def require(table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raises ShowError unless the table has all these columns and at least one row."""
    missing = [str(column) for column in columns if column not in table]
    if missing or table.empty:
        problem = f"has no column {', '.join(missing)}" if missing else "has no rows"
        raise ShowError(f"the table {problem}; it has the columns {', '.join(map(str, table.columns))}")
