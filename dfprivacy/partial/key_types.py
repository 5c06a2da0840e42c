"""Types of group keys: as declared, and the one form in which keys of several files meet.

Integers meet as int64 (uint64 stays apart), floats as float64, text as string, times of seconds or
milliseconds as microseconds (nanoseconds stay apart, which hold other times), times with a time
zone as UTC, decimals with the most digits of their scale. Nothing loses a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import types

from dfprivacy.errors import StatisticsFileError, UnsupportedDtypeError

_Rule = tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], pa.DataType]]


def _finer(kind: pa.DataType) -> str:
    return "ns" if kind.unit == "ns" else "us"


def _instant(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp(_finer(kind), None if kind.tz is None else "UTC")


_RULES: tuple[_Rule, ...] = (
    (types.is_boolean, lambda _: pa.bool_()),
    (types.is_uint64, lambda _: pa.uint64()),
    (types.is_integer, lambda _: pa.int64()),
    (types.is_floating, lambda _: pa.float64()),
    (types.is_string, lambda _: pa.string()),
    (types.is_large_string, lambda _: pa.string()),
    (types.is_binary, lambda _: pa.binary()),
    (types.is_large_binary, lambda _: pa.binary()),
    (types.is_fixed_size_binary, lambda _: pa.binary()),
    (types.is_date, lambda _: pa.date32()),
    (types.is_time, lambda kind: pa.time64(_finer(kind))),
    (types.is_timestamp, _instant),
    (types.is_duration, lambda kind: pa.duration(_finer(kind))),
    (types.is_decimal128, lambda kind: pa.decimal128(38, kind.scale)),
)


def common_form(kind: pa.DataType) -> pa.DataType | None:
    """Return the type in which keys of a declared type meet others; None where they can't be kept.

    >>> common_form(pa.uint8()), common_form(pa.timestamp("ms", "Europe/Rome"))
    (DataType(int64), TimestampType(timestamp[us, tz=UTC]))
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
        return _plain(column.cast(kind.value_type), label)
    if kind in {pa.string_view(), pa.binary_view()}:
        column = column.cast(pa.string() if kind == pa.string_view() else pa.binary())
    if common_form(column.type) is None:
        raise UnsupportedDtypeError(
            f"group column {label!r} is declared {kind}, which a file of statistics can't keep",
            hint="group by text, whole numbers, booleans, dates or times",
        )
    if types.is_date64(column.type) or getattr(column.type, "unit", None) == "s":
        return column.cast(common_form(column.type))  # Parquet has no seconds
    return column


def check_objects(frame: object, labels: Sequence[Hashable]) -> None:
    """Refuse pandas columns of objects as group keys: they declare no type.

    Raises
    ------
    UnsupportedDtypeError
        When a group column holds Python objects, or categories that are objects other than text.
    """
    if not isinstance(frame, pd.DataFrame):
        return
    known: list[Hashable] = list(frame.columns)
    for label in labels:
        if known.count(label) == 1 and not _declares_a_type(frame[label].dtype):
            raise UnsupportedDtypeError(
                f"group column {label!r} holds Python objects, whose type is not declared",
                hint=f'convert it first, e.g. frame.astype({{{label!r}: "string"}})',
            )


def _declares_a_type(dtype: Any) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        words = pd.api.types.infer_dtype(dtype.categories, skipna=False) == "string"
        return words or _declares_a_type(dtype.categories.dtype)
    return not pd.api.types.is_object_dtype(dtype)


def meet(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of keys of several files: that of all, else their common form, else None."""
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    forms = {common_form(kind) for kind in kinds}
    return forms.pop() if len(forms) == 1 else None


def in_types(keys: pa.Table, kinds: Sequence[pa.DataType]) -> pa.Table:
    """Return keys in other types.

    Raises
    ------
    StatisticsFileError
        When a date lies too far away for microseconds.
    """
    try:
        columns = [column.cast(kind) for column, kind in zip(keys.columns, kinds, strict=True)]
    except pa.ArrowException:
        columns = None
    if columns is None:
        raise StatisticsFileError(
            "keys of files whose types differ can't be brought into one type",
            hint="declare the group columns alike before the statistics are made",
        )
    return pa.table(columns, names=keys.column_names)
