"""Aggregates, windows and types that have one value, in whatever order rows are read.

What a unit's rows give must be the same bits with and without any other unit's: a sum of floats,
the first of several rows or a value that compares as equal to another would depend on their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dfprivacy.engine.files import quoted
from dfprivacy.statements.refusals import Node, refuse
from dfprivacy.statements.tree import literal

_WHOLE = frozenset(
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
)
FLOATS = frozenset(("FLOAT", "DOUBLE"))
SINGLE = _WHOLE | FLOATS | {
    "HUGEINT", "UHUGEINT", "BOOLEAN", "VARCHAR", "BLOB", "UUID", "DATE", "TIME", "TIMESTAMP",
    "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
"""Types whose values are one where they are equal; floats are made so by `one_float`."""


def _base(sort: Any) -> str:
    return str(sort).split("(")[0]


_SMALL = 18
"""Digits of a DECIMAL of which no number of rows has a sum that is too large."""


def _digits(sort: Any) -> int:
    """Return the digits of a DECIMAL; 0 for other types."""
    return int(str(sort)[8:].split(",")[0]) if _base(sort) == "DECIMAL" else 0


def is_single(sort: Any) -> bool:
    """Tell types of which equal values are the same."""
    return _base(sort) in SINGLE | {"DECIMAL", "ENUM", '"NULL"', "NULL"}


def require_single(sort: Any, what: str) -> None:
    """Refuse types of which equal values can differ."""
    if not is_single(sort):
        raise refuse("equal values that differ", what=what, base=_base(sort))


def one_float(name: str, sort: Any) -> str:
    """Return the SQL of a column of floats in which equal values are the same bits.

    0.0 equals -0.0, and NaN any NaN: which of them stands for both would depend on the order.
    """
    own = quoted(name)
    return (
        f"CASE WHEN isnan({own}) THEN CAST('NaN' AS {sort}) "
        f"WHEN {own} = 0 THEN CAST(0 AS {sort}) ELSE {own} END"
    )


def require_exact(sort: Any, name: str) -> None:
    """Refuse a running sum of numbers that depends on their order."""
    if _base(sort) not in _WHOLE | {"BOOLEAN"} and not 0 < _digits(sort) <= _SMALL:
        raise refuse("running sum", name=name, base=_base(sort))


def alike(one: Any, two: Any) -> bool:
    """Tell types that compare without turning a value into what it may not be."""
    if _base(one) in _WHOLE and _base(two) in _WHOLE:
        return "UBIGINT" not in {_base(one), _base(two)} or str(one) == str(two)
    return {_base(one), _base(two)} == FLOATS or str(one) == str(two)


EXACT = frozenset(
    ("count", "count_star", "min", "max", "sum", "avg", "mean", "bool_and", "bool_or", "any_value")
)
BY_LIST: Mapping[str, str] = {
    "stddev": "stddev_samp", "stddev_samp": "stddev_samp", "stddev_pop": "stddev_pop",
    "variance": "var_samp", "var_samp": "var_samp", "var_pop": "var_pop", "median": "median",
}  # fmt: skip


def exact_sum(name: str, argument: str, *, unique: bool, sort: Any) -> tuple[str, str]:
    """Return an aggregate that has one value in any order of rows, and can't fail.

    Second is the function of the sorted list that it collects, where it collects one.
    """
    own, base = quoted(argument), _base(sort)
    once = "DISTINCT " if unique else ""
    if not argument:
        return "count(*)", ""
    if name == "count":
        require_single(sort, f"count over {argument!r}") if unique else None
        return f"count({once}{own})", ""
    if name in {"min", "max", "any_value"}:
        require_single(sort, f"{name} of {argument!r}")
        return f"{'max' if name == 'max' else 'min'}({own})", ""
    if name in {"bool_and", "bool_or"}:
        if base != "BOOLEAN":
            raise refuse("no conditions", name=name, base=base)
        return f"{name}({own})", ""
    small = base in _WHOLE or 0 < _digits(sort) <= _SMALL
    if base == "BOOLEAN":
        own, small = f"CAST({own} AS INTEGER)", True
    if name in {"sum", "avg", "mean"} and small:
        return f"{'sum' if name == 'sum' else 'avg'}({once}{own})", ""
    if base not in _WHOLE | FLOATS | {"DECIMAL", "HUGEINT", "UHUGEINT", "BOOLEAN"}:
        raise refuse("no numbers", name=name, base=base)
    function = {"sum": "sum", "avg": "avg", "mean": "avg", **BY_LIST}[name]
    number = f"CAST({own} AS DOUBLE)"
    kept = f"FILTER (WHERE {own} IS NOT NULL)"
    return f"list({once}{number} ORDER BY {number}) {kept}", function


@dataclass(frozen=True)
class _Rule:
    """A window function: how many values it takes, and whether ties matter to it."""

    values: int
    orders: bool
    sums: bool = False


WINDOWS: Mapping[str, _Rule] = {
    "row_number": _Rule(0, orders=True),
    "rank": _Rule(0, orders=False),
    "dense_rank": _Rule(0, orders=False),
    "percent_rank": _Rule(0, orders=False),
    "cume_dist": _Rule(0, orders=False),
    "ntile": _Rule(0, orders=True),
    "lag": _Rule(1, orders=True),
    "lead": _Rule(1, orders=True),
    "first_value": _Rule(1, orders=True),
    "last_value": _Rule(1, orders=True),
    "nth_value": _Rule(1, orders=True),
    "count": _Rule(1, orders=False),
    "count_star": _Rule(0, orders=False),
    "min": _Rule(1, orders=False),
    "max": _Rule(1, orders=False),
    "sum": _Rule(1, orders=False, sums=True),
    "avg": _Rule(1, orders=False, sums=True),
}
CALLED = {"count_star": "count"}
_ENDS = {
    "UNBOUNDED_PRECEDING": "UNBOUNDED PRECEDING", "UNBOUNDED_FOLLOWING": "UNBOUNDED FOLLOWING",
    "CURRENT_ROW_ROWS": "CURRENT ROW", "CURRENT_ROW_RANGE": "CURRENT ROW",
    "EXPR_PRECEDING_ROWS": "PRECEDING", "EXPR_FOLLOWING_ROWS": "FOLLOWING",
}  # fmt: skip


def frame_of(node: Node) -> str:
    """Return the frame of a window; nothing for the usual one."""
    start, end = node["start"], node["end"]
    if (start, end) == ("UNBOUNDED_PRECEDING", "CURRENT_ROW_RANGE"):
        return ""
    parts = []
    for place, expression in ((start, node.get("start_expr")), (end, node.get("end_expr"))):
        if place not in _ENDS:
            raise refuse("a window frame by RANGE or GROUPS")
        sort, text = literal(expression) if expression else ("", "")
        if place.startswith("EXPR") and (sort != "INTEGER" or not text.isdecimal()):
            raise refuse("a window frame that is not so many rows")
        parts.append(f"{text} {_ENDS[place]}".strip())
    rows = "RANGE" if {start, end} <= {
        "UNBOUNDED_PRECEDING", "UNBOUNDED_FOLLOWING", "CURRENT_ROW_RANGE"
    } else "ROWS"  # fmt: skip
    return f"{rows} BETWEEN {parts[0]} AND {parts[1]}"
