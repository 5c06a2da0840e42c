"""Write Arrow values as Postgres does, in text and in binary, and read parameters."""

from __future__ import annotations

import datetime as dt
import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dfprivacy.engine.returning import list_values
from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.nodes import split_array

TEXT, VARCHAR, NUMERIC = 25, 1043, 1700
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL = 1082, 1083, 1114, 1184, 1186
_EPOCH = dt.datetime(2000, 1, 1)  # noqa: DTZ001 Postgres counts from here
_MICROSECOND = dt.timedelta(microseconds=1)


class PostgresType(NamedTuple):
    """A type of Postgres, its binary layout, and the Arrow types whose values are sent as it."""

    oid: int
    array_oid: int
    name: str
    read: Callable[[str], Any] = str
    layout: str = ""
    arrow_types: str = ""


TYPES = (
    PostgresType(
        16, 1000, "bool", lambda text: text.lower() in {"t", "true", "1", "on", "yes"}, "!?", "bool"
    ),
    PostgresType(17, 1001, "bytea", arrow_types="binary large_binary"),
    PostgresType(20, 1016, "int8", int, "!q", "int64 uint32"),
    PostgresType(21, 1005, "int2", int, "!h", "int8 int16 uint8"),
    PostgresType(23, 1007, "int4", int, "!i", "int32 uint16"),
    PostgresType(TEXT, 1009, "text"),
    PostgresType(26, 1028, "oid", int, "!I"),
    PostgresType(700, 1021, "float4", float, "!f", "float"),
    PostgresType(701, 1022, "float8", float, "!d", "double"),
    PostgresType(VARCHAR, 1015, "varchar"),
    PostgresType(DATE, 1182, "date", lambda text: dt.date.fromisoformat(text[:10]), "!i", "date32"),
    PostgresType(TIME, 1183, "time", layout="!q", arrow_types="time64"),
    PostgresType(TIMESTAMP, 1115, "timestamp", dt.datetime.fromisoformat, "!q", "timestamp"),
    PostgresType(TIMESTAMPTZ, 1185, "timestamptz", dt.datetime.fromisoformat, "!q"),
    PostgresType(
        INTERVAL, 1187, "interval", layout="!qii", arrow_types="duration month_day_nano_interval"
    ),
    PostgresType(NUMERIC, 1231, "numeric", Decimal, arrow_types="decimal128 uint64"),
)
"""Binary dates are days, times are microseconds, and intervals have days and months besides."""
_BY_OID = {kind.oid: kind for kind in TYPES}
_BY_ARROW = {name: kind.oid for kind in TYPES for name in kind.arrow_types.split()}
_ELEMENTS = {kind.array_oid: kind.oid for kind in TYPES}
SIZES = {kind.oid: struct.calcsize(kind.layout) for kind in TYPES if kind.layout}
SAMPLES = {
    kind.oid: kind.read("1")
    for kind in TYPES
    if kind.read is not str and kind.oid not in {DATE, TIMESTAMP, TIMESTAMPTZ}
}
SAMPLES |= {array_oid: [SAMPLES.get(oid)] for array_oid, oid in _ELEMENTS.items()}
"""Values to describe a statement with, by type. Those of other types are described by NULL."""


def find_oid(kind: pa.DataType) -> int:
    """Return the number of the Postgres type that holds an Arrow type."""
    if pa.types.is_dictionary(kind):
        return find_oid(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = _BY_OID.get(find_oid(kind.value_type))
        return element.array_oid if element else TEXT  # lists of lists are texts
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return TIMESTAMPTZ
    return _BY_ARROW.get(re.split(r"\W", str(kind))[0], TEXT)


def encode_rows(table: pa.Table, formats: Sequence[int]) -> list[list[bytes | None]]:
    """Encode the rows of a table. A format is 0 for text and 1 for binary."""
    columns = []
    for index, column in enumerate(table.columns):
        oid, kind = find_oid(column.type), column.type
        if oid in {TIMESTAMP, TIMESTAMPTZ, INTERVAL} and getattr(kind, "unit", "") == "ns":
            target = pa.duration("us") if oid == INTERVAL else pa.timestamp("us", kind.tz)
            column = column.cast(target, safe=False)  # noqa: PLW2901
        encode = _encode_binary if find_format(formats, index) == 1 else _encode_text
        columns.append([encode(value, oid) for value in list_values(column)])
    return [list(row) for row in zip(*columns, strict=True)]


def _find_infinity(moment: np.datetime64) -> int:
    """Return 1 or -1 for what DuckDB and Postgres call infinity or -infinity, and 0 for others."""
    number = int(moment.astype("int64"))
    is_infinite = abs(number) == (2**31 if moment.dtype == "datetime64[D]" else 2**63) - 1
    return is_infinite * (1 if number > 0 else -1)


def _to_moment(moment: np.datetime64, oid: int) -> str:
    if sign := _find_infinity(moment):
        return "infinity" if sign > 0 else "-infinity"
    text, end = str(moment).replace("T", " "), "+00:00" if oid == TIMESTAMPTZ else ""
    start, year, rest = re.fullmatch(r"([+-]?)(\d+)(.*)", text).groups()  # type: ignore[union-attr]
    if start == "-" or not int(year):
        return f"{int(year) + 1:04}{rest}{end} BC"
    return f"{year}{rest}{end}"


def find_format(formats: Sequence[int], index: int) -> int:
    """Return the format of a column: text if none is named, and one format is that of all."""
    return formats[index] if len(formats) > 1 else (formats or (0,))[0]


def _encode_text(value: Any, oid: int) -> bytes | None:
    return None if value is None else _to_text(value, oid).encode()


def _to_text(value: Any, oid: int) -> str:  # noqa: PLR0911 one line a type
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        text = repr(value)
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, np.datetime64):
        return _to_moment(value, oid)
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, pa.MonthDayNano):
        seconds, micros = divmod(abs(value.nanoseconds) // 1000, 10**6)
        clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
        sign = "-" if value.nanoseconds < 0 else ""
        return f"{value.months} mons {value.days} days {sign}{clock}"
    if isinstance(value, dt.timedelta):
        return f"{value.days} days {value - dt.timedelta(value.days)}"
    if isinstance(value, list) and oid in _ELEMENTS:
        return "{" + ",".join(_to_element(item, _ELEMENTS[oid]) for item in value) + "}"
    if isinstance(value, list | dict):
        return json.dumps(value, default=str)
    return str(value)


def _to_element(value: Any, oid: int) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "NULL" if value is None else _to_text(value, oid)


def _encode_binary(value: Any, oid: int) -> bytes | None:
    if isinstance(value, list) and oid in _ELEMENTS:
        return _encode_array(value, _ELEMENTS[oid])
    if value is None or isinstance(value, bytes):
        return value
    if oid == NUMERIC:
        return _encode_numeric(Decimal(value))
    if oid in _BY_OID and (layout := _BY_OID[oid].layout):
        if isinstance(value, pa.MonthDayNano):
            return struct.pack(layout, value.nanoseconds // 1000, value.days, value.months)
        rest = (0, 0) if oid == INTERVAL else ()
        return struct.pack(layout, _to_number(value, oid), *rest)
    return _encode_text(value, oid)


def _to_number(value: Any, oid: int) -> Any:
    """Return a date as days, a datetime, time or interval as microseconds, a number as it is."""
    if isinstance(value, np.datetime64):
        bits, unit = (32, "datetime64[D]") if oid == DATE else (64, "datetime64[us]")
        if sign := _find_infinity(value):
            return 2 ** (bits - 1) - 1 if sign > 0 else -(2 ** (bits - 1))
        epoch = np.datetime64(_EPOCH).astype(unit)
        return int((value.astype(unit) - epoch).astype("int64"))
    if oid == DATE:
        return (value - _EPOCH.date()).days
    if oid == TIME:
        value = dt.datetime.combine(_EPOCH, value.replace(tzinfo=None))
    if oid in {TIME, TIMESTAMP, TIMESTAMPTZ}:
        epoch = _EPOCH if value.tzinfo is None else _EPOCH.replace(tzinfo=dt.UTC)
        value -= epoch
    return value // _MICROSECOND if isinstance(value, dt.timedelta) else value


def _encode_array(values: list[Any], oid: int) -> bytes:
    """Encode a list of one dimension."""
    parts = [struct.pack("!iii", bool(values), any(value is None for value in values), oid)]
    parts += [struct.pack("!ii", len(values), 1)] * bool(values)
    for value in values:
        encoded = _encode_binary(value, oid)
        parts.append(struct.pack("!i", -1 if encoded is None else len(encoded)) + (encoded or b""))
    return b"".join(parts)


def _encode_numeric(value: Decimal) -> bytes:
    """Encode a decimal number in digits of base 10,000."""
    if not value.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    integer, _, fraction = f"{value.copy_abs():f}".partition(".")
    digits = "0" * (-len(integer) % 4) + integer + fraction + "0" * (-len(fraction) % 4)
    groups = [int(digits[start : start + 4]) for start in range(0, len(digits), 4)]
    sign, weight = 0x4000 if value < 0 else 0, (len(integer) - 1) // 4
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, sign, len(fraction), *groups)


def _decode_numeric(value: bytes) -> Decimal:
    """Read a decimal number in digits of base 10,000, with all its decimal places."""
    count, weight, sign, scale = struct.unpack_from("!hhHh", value)
    if sign not in {0, 0x4000} or max(abs(weight), scale) > 1000:
        raise ValueError
    digits = "".join(f"{digit:04}" for digit in struct.unpack_from(f"!{count}h", value, 8))
    places = 4 * (weight + 1)  # before the point
    digits, places = "0" * -places + digits, max(places, 0)
    digits = digits.ljust(places + scale, "0")
    return Decimal(f"{'-' * bool(sign)}0{digits[:places]}.{digits[places : places + scale]}")


_ZONED_DATE = re.compile(r"\d{4}-\d\d-\d\d ?[+-]\d\d(:\d\d)*")
"""A date as pgjdbc writes it, without saying that it is one."""


def _split(array: bytes, form: int) -> Iterator[bytes | None]:
    """Yield the items of an array of one dimension, None for NULL."""
    if form == 0:
        items = split_array(array.decode())
        yield from (None if item is None else item.encode() for item in items)
        return
    dimensions, _, _ = struct.unpack_from("!iii", array)
    if dimensions > 1:
        raise ValueError
    start = 20
    while start < len(array):
        (size,) = struct.unpack_from("!i", array, start)
        start += 4
        yield None if size < 0 else array[start : start + size]
        start += max(size, 0)


def decode_parameter(value: bytes | None, oid: int, form: int) -> Any:
    """Read the value of a parameter, or refuse it."""
    if value is None:
        return None
    try:
        if oid in _ELEMENTS:
            return [decode_parameter(item, _ELEMENTS[oid], form) for item in _split(value, form)]
        if form == 0 or oid in {0, TEXT, VARCHAR}:
            text = value.decode()
            is_date = oid == form == 0 and _ZONED_DATE.fullmatch(text)
            return _BY_OID.get(DATE if is_date else oid, _BY_OID[TEXT]).read(text)
        kind = _BY_OID[oid]
        is_numeric = oid == NUMERIC
        (number,) = (_decode_numeric(value),) if is_numeric else struct.unpack(kind.layout, value)
        if oid == DATE:
            return _EPOCH.date() + dt.timedelta(days=number)
        if oid in {TIMESTAMP, TIMESTAMPTZ}:
            epoch = _EPOCH if oid == TIMESTAMP else _EPOCH.replace(tzinfo=dt.UTC)
            return epoch + number * _MICROSECOND
        if kind.read is not str:
            return number
    except (ValueError, KeyError, struct.error, OverflowError, InvalidOperation):
        pass
    raise RefusedStatementError(
        f"a parameter of the Postgres type {oid} can't be read",
        hint="pass numbers, texts, dates, booleans and lists of these",
    )
