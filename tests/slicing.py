"""The part of a lesson that some of its cells need, so that a test runs those and not the experiments between them."""

import ast
import symtable
from collections.abc import Collection, Iterable


def statements_needed(cells: list[str], last: str) -> str:
    """The statements before the cell `last` that define a name it uses, or a name that those use, and `last` itself.

    Calls that change an object in place, such as training, are left out.
    """
    before = [ast.unparse(statement) for cell in cells[: cells.index(last)] for statement in ast.parse(cell).body]
    return "\n".join(needed([*before, last], {len(before)}))


def needed(pieces: Iterable[str], wanted: Collection[int]) -> list[str]:
    """Of pieces of code run one after the other those `wanted`, and before them those that define a name that a kept one uses."""
    kept: list[str] = []
    missing: set[str] = set()
    for place, piece in reversed(list(enumerate(pieces))):
        defined, used = names(piece)
        if place in wanted or defined & missing:
            kept.insert(0, piece)
            missing = missing - defined | used
    return kept


def names(code: str) -> tuple[set[str], set[str]]:
    """The global names that code defines, and those that it uses."""
    top = symtable.symtable(code, "cell", "exec")
    tables = [top]
    for table in tables:
        tables += table.get_children()
    defined = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used = {s.get_name() for t in tables for s in t.get_symbols() if s.is_referenced() and (t is top or s.is_global())}
    return defined, used
