"""Calls about dates and times: parts and widths are constants, and types are those that have them.

DuckDB ends a query, in spite of TRY, when it does not know a part of a date, when a type has no
such part (the week of an interval, the day of a time), and when a bucket has no plain width. So
parts stand on a list, and each argument is written so that a type without the part can't be
planned: whether the query fails then follows from the text and the declared types.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.names import folded
from dfprivacy.statements.operators import Inner, Node, is_text
from dfprivacy.statements.refusal import Refusal

_CLOCK = frozenset(("hour", "minute", "second", "millisecond", "microsecond", "epoch"))
_LENGTHS = frozenset(("year", "quarter", "month", "day", "decade", "century", "millennium"))
_PLACES = frozenset(
    ("week", "dow", "isodow", "doy", "isoyear", "yearweek", "dayofweek", "weekday", "dayofyear",
     "era")
)  # fmt: skip
PARTS = _CLOCK | _LENGTHS | _PLACES
_WIDTHS = (_CLOCK | _LENGTHS | {"week"}) - {"epoch"}

_TAKEN = frozenset({"date_part", "datepart"})
_CUT = frozenset({"date_trunc", "datetrunc"})
_PARTED = _TAKEN | _CUT | {"date_diff", "datediff", "date_sub", "datesub"}
_PLACED = _PLACES | {"weekofyear"}
_DATED = ("coalesce(", ", CAST(NULL AS DATE))")

_WIDTH = re.compile(r"([1-9][0-9]{0,8})(?: +([a-z]+))?\Z", re.IGNORECASE)


def shielded(node: Node, inner: Inner) -> Inner:
    """Return what writes the arguments of a node so that only types with its parts can be planned.

    A time can't be cut to days; times and intervals have no type in common with a date.
    """
    shield = _shield(node)
    if shield is None:
        return inner
    start, end = shield
    name = node.expressions[0] if _called(node) in _PARTED else None
    return lambda part: inner(part) if part is name else f"{start}{inner(part)}{end}"


def _shield(node: Node) -> tuple[str, str] | None:
    if isinstance(node, exp.Extract):
        return _shield_of(folded(node.this.name).removesuffix("s"))
    name = _called(node)
    if name in _PLACED:
        return _DATED
    if name == "epoch_ms":  # of a number it makes times that have no place in DuckDB's calendar
        return ("date_trunc('microsecond', ", ")")
    if name not in _PARTED or name in _CUT:
        return None
    part = folded(str(node.expressions[0].this)).removesuffix("s")
    return _shield_of(part) if name in _TAKEN or part in _CLOCK else _DATED


def _shield_of(part: str) -> tuple[str, str] | None:
    """Return what stands around a value of which a part is taken."""
    return ("date_trunc('day', ", ")") if part in _LENGTHS else _DATED if part in _PLACES else None


def _called(node: Node) -> str:
    called = isinstance(node, exp.Anonymous) and isinstance(node.this, str)
    return folded(node.this) if called else ""


def check_dates(node: Node) -> None:
    """Refuse a call that names a part or a width that is not known.

    Raises
    ------
    RefusedStatementError
        The same on any rows.
    """
    name = _called(node)
    first = node.expressions[0] if node.expressions else None
    if name == "time_bucket":
        _check_width(first)
        _check_origin(node.expressions[2:])
    if name == "strptime":
        _check_format(node.expressions[1:])
    if name == "make_timestamp" and len(node.expressions) == 1:
        raise Refusal(
            "make_timestamp of one number",
            "it makes times that have no place in the calendar, whose text makes the query fail",
            "TIMESTAMP '1970-01-01' + to_seconds(x / 1e6)",
        ).error()
    if name in _PARTED:
        if first is None or not is_text(first):
            raise _no_part()
        check_part(str(first.this), PARTS if name in _TAKEN else PARTS - {"era"})


def check_part(name: str, known: frozenset[str] = PARTS) -> None:
    """Refuse a part of a date that is not known.

    Raises
    ------
    RefusedStatementError
        When it is none.
    """
    if folded(name).removesuffix("s") not in known:
        raise _no_part()


def _check_width(node: Node | None) -> None:
    """Refuse the width of a bucket, unless it is so many of one unit, and at least one."""
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        raise _no_width()
    found = _WIDTH.match(str(node.this.this).strip())
    unit = node.args.get("unit")
    named = unit.name if isinstance(unit, exp.Var) else ""
    if found is None or bool(named) == bool(found[2]):
        raise _no_width()
    check_part(named or found[2], _WIDTHS)


def _check_origin(rest: Sequence[Node]) -> None:
    """Refuse where buckets start, unless it is a constant date: a text would name a time zone."""
    if not all(isinstance(node, exp.Cast) and _is_dated(node) for node in rest):
        raise Refusal(
            "a bucket whose origin is no constant date",
            "a time zone that is not known, or an origin that is a column, could make the query "
            "fail on one row",
            "time_bucket(INTERVAL '7' DAY, d, DATE '2024-01-01')",
        ).error()


def _is_dated(node: exp.Cast) -> bool:
    kinds = (exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ)
    return is_text(node.this) and node.to.this in kinds


def _check_format(formats: Sequence[Node]) -> None:
    """Refuse a format that is no constant, or in which a text names its time zone."""
    single = [each.expressions if isinstance(each, exp.Array) else [each] for each in formats]
    known = all(is_text(each) and "%Z" not in str(each.this) for own in single for each in own)
    if not known:
        raise Refusal(
            "strptime with a format that is no constant, or holds %Z",
            "a time zone that is not known could make the query fail on one row",
            "try_strptime(x, '%Y-%m-%d %Z'), which has NULL for it",
        ).error()


def _no_part() -> RefusedStatementError:
    return Refusal(
        "a part of a date that is not on the list",
        "a part that is no constant, or that a type does not have, could make the query fail on "
        "one row",
        "date_trunc('month', d), date_part('week', d), date_diff('day', start, stop); "
        "parts are year, quarter, month, week, day, hour, minute, second and the like",
    ).error()


def _no_width() -> RefusedStatementError:
    return Refusal(
        "a bucket whose width is not so many of one unit",
        "a width that is no constant, 0 or mixed could make the query fail on one row",
        "time_bucket(INTERVAL '7' DAY, d)",
    ).error()
