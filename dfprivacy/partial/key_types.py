"""Types of group keys: as declared, and the one form in which keys of several files meet.

Integers meet as int64 (uint64 stays apart), floats as float64, text as large_string, times of day
as microseconds (nanoseconds stay apart), times with a time zone as UTC, decimals with the most
digits of their scale. Datetimes and durations of different units stay apart: a unit holds times
that a finer one can't. A cast from a type to its form succeeds for every value of the type, and
loses no bit of any.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import pyarrow as pa
from pyarrow import types

from dfprivacy.engine.run import guarded
from dfprivacy.errors import UnsupportedDtypeError

_Rule = tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], pa.DataType]]


def _time_of_day(kind: pa.DataType) -> pa.DataType:
    return pa.time64("ns" if kind.unit == "ns" else "us")


def _instant(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp(kind.unit, None if kind.tz is None else "UTC")


def _is_instant(kind: pa.DataType) -> bool:
    """Tell datetimes from others; Parquet has none of seconds, which may not fit into others."""
    return bool(types.is_timestamp(kind)) and kind.unit != "s"


_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}

_RULES: tuple[_Rule, ...] = (
    (types.is_boolean, lambda _: pa.bool_()),
    (types.is_uint64, lambda _: pa.uint64()),
    (types.is_integer, lambda _: pa.int64()),
    (types.is_floating, lambda _: pa.float64()),
    (types.is_string, lambda _: pa.large_string()),
    (types.is_large_string, lambda _: pa.large_string()),
    (types.is_binary, lambda _: pa.large_binary()),
    (types.is_large_binary, lambda _: pa.large_binary()),
    (types.is_fixed_size_binary, lambda _: pa.large_binary()),
    (types.is_date32, lambda _: pa.date32()),
    (types.is_time, _time_of_day),
    (_is_instant, _instant),
    (types.is_duration, lambda kind: kind),
    (types.is_decimal128, lambda kind: pa.decimal128(38, kind.scale)),
)


def common_form(kind: pa.DataType) -> pa.DataType | None:
    """Return the type in which keys of a declared type meet others; None where they can't be kept.

    >>> common_form(pa.uint8()), common_form(pa.timestamp("ms", "Europe/Rome"))
    (DataType(int64), TimestampType(timestamp[ms, tz=UTC]))
    """
    return next((form(kind) for rule, form in _RULES if rule(kind)), None)


def declared_keys(keys: pa.Table, labels: Sequence[Hashable]) -> pa.Table:
    """Return group keys in types that a file keeps: what was declared, plain text for categories.

    Raises
    ------
    UnsupportedDtypeError
        When a declared type can't be kept.
    """
    columns = {
        name: _plain(column, label)
        for name, column, label in zip(keys.column_names, keys.columns, labels, strict=True)
    }
    return pa.table(columns)


def _plain(column: pa.ChunkedArray, label: Hashable) -> pa.ChunkedArray:
    kind = column.type
    if types.is_dictionary(kind):
        return _plain(_cast(column, kind.value_type), label)
    if kind in _VIEWS:
        return _cast(column, _VIEWS[kind])
    form = common_form(kind)
    if form is None:
        raise UnsupportedDtypeError(
            f"group column {label!r} is declared {kind}, which a file of statistics can't keep",
            hint=_hint(kind, label),
        )
    return _cast(column, form) if kind == pa.time32("s") else column  # Parquet has no seconds


def _hint(kind: pa.DataType, label: Hashable) -> str:
    if types.is_timestamp(kind):
        return f'convert it first, e.g. frame[{label!r}] = frame[{label!r}].dt.as_unit("us")'
    return "group by text, whole numbers, booleans, dates or times"


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return guarded(lambda: column.cast(kind))


def meet(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of keys of several files: that of all, else their common form, else None."""
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    forms = {common_form(kind) for kind in kinds}
    return forms.pop() if len(forms) == 1 else None


def in_types(keys: pa.Table, kinds: Sequence[pa.DataType]) -> pa.Table:
    """Return keys in the types in which they meet; no key stands in the way of that."""
    columns = [_cast(column, kind) for column, kind in zip(keys.columns, kinds, strict=True)]
    return pa.table(columns, names=keys.column_names)
