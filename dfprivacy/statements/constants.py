"""Refuse text constants that are no values of the type that they are compared with or cast to.

A row on which an expression fails counts as NULL, so that no row can end a statement. A constant
that can't be read would fail on every row, and the answer would be about none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from dfprivacy.engine.embedded import embedded
from dfprivacy.statements.expressions import COMPARED, ColumnRef, type_name
from dfprivacy.statements.nodes import Cast, Node, Operator, text_of, walk
from dfprivacy.statements.rules import refuse

_KINDS = {
    *("BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME", "UUID"),
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    *("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"),
}
_EXAMPLES = {"DATE": "DATE '2026-01-31'", "TIME": "TIME '12:30:00'", "BOOLEAN": "true"}
_COMPARISONS = frozenset((*COMPARED, "COMPARE_BETWEEN", "COMPARE_IN"))

FindKind = Callable[[ColumnRef], str]
"""Return the type of a column; "" where none is known."""


def check_constants(node: Node, find_kind: FindKind) -> None:
    """Refuse an expression with a text constant that can't be read.

    Raises
    ------
    RefusedStatementError
        With the constant, and the type that it should be of.
    """
    for text, expected in _find_texts(node, find_kind):
        name = expected.split("(")[0]
        if name in _KINDS and not _is_readable(text, expected):
            example = "TIMESTAMP '2026-01-31 12:00:00'" if "TIMESTAMP" in name else "7"
            raise refuse(
                "constant", text=repr(text), kind=expected, example=_EXAMPLES.get(name, example)
            )


def _find_texts(node: Node, find_kind: FindKind) -> Iterator[tuple[str, str]]:
    """Yield text constants, each with the type of what stands beside it."""
    for part in walk(node):
        match part:
            case Cast(tries=False, operand=operand):
                text = text_of(operand)
                if text is not None:
                    yield text, type_name(part.type)
            case Operator(operands=operands) if part.sort in _COMPARISONS:
                texts = [text for text in map(text_of, operands) if text is not None]
                for operand in operands if texts else ():
                    kind = find_kind(operand) if isinstance(operand, ColumnRef) else ""
                    kind = type_name(operand.type) if isinstance(operand, Cast) else kind
                    if kind:
                        yield from ((text, kind) for text in texts)
                        break


@lru_cache(maxsize=1024)
def _is_readable(text: str, expected: str) -> bool:
    with embedded(idle=True) as engine:
        query = f"SELECT TRY_CAST(? AS {expected}) IS NOT NULL"
        return engine.execute(query, [text]).fetchone() == (True,)
