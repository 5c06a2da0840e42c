"""Calls about dates and times: parts and widths are constants, and types are those that have them.

DuckDB ends a query, in spite of TRY, when it does not know a part of a date, when a type has no
such part (the week of an interval, the day of a time), and when a bucket has no plain width. So
parts stand on a list, and each argument is written so that a type without the part can't be
planned: whether the query fails then follows from the text and the declared types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusals import Node, Refusal
from dfprivacy.statements.tree import arguments, called, kind, literal, text_of

Inner = Callable[[Node], str]

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
_MADE = {f"to_{part}s": part for part in _WIDTHS} | {
    "to_centuries": "century", "to_millennia": "millennium"
}  # fmt: skip
"""INTERVAL '7' DAY is to_days(CAST(trunc(CAST('7' AS DOUBLE)) AS INTEGER)) in DuckDB's tree."""


def shielded(node: Node, inner: Inner) -> Inner:
    """Return what writes the arguments of a node so that only types with its parts can be planned.

    A time can't be cut to days; times and intervals have no type in common with a date.
    """
    name = called(node)
    shield = _shield(name, node)
    if shield is None:
        return inner
    start, end = shield
    part = arguments(node)[0] if name in _PARTED else None
    return lambda own: inner(own) if own is part else f"{start}{inner(own)}{end}"


def _shield(name: str, node: Node) -> tuple[str, str] | None:
    if name in _PLACED:
        return _DATED
    if name == "epoch_ms":  # of a number it makes times that have no place in DuckDB's calendar
        return ("date_trunc('microsecond', ", ")")
    if name not in _PARTED or name in _CUT:
        return None
    part = folded(next(map(text_of, arguments(node)), None) or "").removesuffix("s")
    return _shield_of(part) if name in _TAKEN or part in _CLOCK else _DATED


def _shield_of(part: str) -> tuple[str, str] | None:
    """Return what stands around a value of which a part is taken."""
    return ("date_trunc('day', ", ")") if part in _LENGTHS else _DATED if part in _PLACES else None


def check_dates(node: Node) -> None:
    """Refuse a call that names a part or a width that is not known.

    Raises
    ------
    RefusedStatementError
        The same on any rows.
    """
    name, given = called(node), arguments(node)
    if name == "time_bucket":
        _check_width(given[0] if given else None)
        _check_origin(given[2:])
    if name == "strptime":
        _check_format(given[1:])
    if name == "make_timestamp" and len(given) == 1:
        raise Refusal(
            "make_timestamp of one number",
            "it makes times that have no place in the calendar, whose text makes the query fail",
            "TIMESTAMP '1970-01-01' + to_seconds(x / 1e6)",
        ).error()
    if name in _PARTED:
        part = text_of(given[0]) if given else None
        known = PARTS if name in _TAKEN else PARTS - {"era"}
        if part is None or folded(part).removesuffix("s") not in known:
            raise _no_part()


def _check_width(node: Node | None) -> None:
    """Refuse the width of a bucket, unless it is so many of one unit, and at least one."""
    text, unit = _width(node)
    found = _WIDTH.match(text.strip())
    if found is None or bool(unit) == bool(found[2]):
        raise _no_width()
    if (unit or folded(found[2]).removesuffix("s")) not in _WIDTHS:
        raise _no_width()


def _width(node: Node | None) -> tuple[str, str]:
    """Return the text of a constant interval, and its unit where the text does not hold it."""
    if node is not None and _cast_to(node) == "INTERVAL":
        return text_of(node["child"]) or "", ""
    unit = _MADE.get(called(node), "")
    if node is None or not unit:
        return "", ""
    while node is not None and not literal(node)[1]:
        if called(node) in {*_MADE, "trunc"}:
            node = next(iter(arguments(node)), None)
        else:
            node = node["child"] if _cast_to(node) in {"DOUBLE", "INTEGER", "BIGINT"} else None
    return literal(node)[1], unit


def _cast_to(node: Node | None) -> str:
    """Return the type that a node casts to, if it is a cast."""
    if node is None or kind(node) != ("CAST", "OPERATOR_CAST"):
        return ""
    return str(node["type_expr"].get("type_name")).upper()


def _check_origin(rest: Sequence[Node]) -> None:
    """Refuse where buckets start, unless it is a constant date: a text would name a time zone."""
    kinds = {"DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"}
    if not all(_cast_to(node) in kinds and text_of(node["child"]) is not None for node in rest):
        raise Refusal(
            "a bucket whose origin is no constant date",
            "a time zone that is not known, or an origin that is a column, could make the query "
            "fail on one row",
            "time_bucket(INTERVAL '7' DAY, d, DATE '2024-01-01')",
        ).error()


def _check_format(formats: Sequence[Node]) -> None:
    """Refuse a format that is no constant, or in which a text names its time zone."""
    single = [arguments(own) if called(own) == "list_value" else [own] for own in formats]
    texts = [text_of(own) for group in single for own in group]
    if any(text is None or "%Z" in text for text in texts):
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
