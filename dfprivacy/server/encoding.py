"""Write Arrow values as Postgres does, in text and in binary, and read parameters."""

from __future__ import annotations

import datetime as dt
import json
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from dfprivacy.errors import RefusedStatementError

BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID, VARCHAR = 16, 17, 20, 21, 23, 25, 26, 1043
FLOAT4, FLOAT8, DATE, TIME, TIMESTAMP = 700, 701, 1082, 1083, 1114
TIMESTAMPTZ, INTERVAL, NUMERIC = 1184, 1186, 1700
_ARRAYS = {BOOL: 1000, INT2: 1005, INT4: 1007, INT8: 1016, TEXT: 1009, FLOAT4: 1021, FLOAT8: 1022}
_ARRAYS |= {DATE: 1182, TIMESTAMP: 1115, NUMERIC: 1231}
_ELEMENTS = {array: element for element, array in _ARRAYS.items()}
_LAYOUTS = {BOOL: "!?", INT2: "!h", INT4: "!i", INT8: "!q", OID: "!I", FLOAT4: "!f", FLOAT8: "!d"}
_LAYOUTS |= {DATE: "!i", INTERVAL: "!qii"} | dict.fromkeys((TIME, TIMESTAMP, TIMESTAMPTZ), "!q")
"""Binary layouts: days for dates, microseconds for times, and for intervals days and months."""
SIZES = {oid: struct.calcsize(layout) for oid, layout in _LAYOUTS.items()}
_EPOCH = dt.datetime(2000, 1, 1)  # noqa: DTZ001 Postgres counts from here
_MICROSECOND = dt.timedelta(microseconds=1)
_OIDS = {"int8": INT2, "int16": INT2, "int32": INT4, "int64": INT8, "bool": BOOL}
_OIDS |= {"uint8": INT2, "uint16": INT4, "uint32": INT8, "uint64": NUMERIC, "decimal128": NUMERIC}
_OIDS |= {"float": FLOAT4, "double": FLOAT8, "binary": BYTEA, "large_binary": BYTEA}
_OIDS |= {"date32": DATE, "time64": TIME, "timestamp": TIMESTAMP, "duration": INTERVAL}
"""Postgres types by the name of an Arrow type. Others are texts."""


def find_oid(kind: pa.DataType) -> int:
    """Return the number of the Postgres type that holds an Arrow type."""
    if pa.types.is_dictionary(kind):
        return find_oid(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _ARRAYS.get(find_oid(kind.value_type), TEXT)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return TIMESTAMPTZ
    return _OIDS.get(re.split(r"\W", str(kind))[0], TEXT)


def encode_rows(table: pa.Table, formats: Sequence[int]) -> list[list[bytes | None]]:
    """Encode the rows of a table. A format is 0 for text and 1 for binary."""
    columns = []
    for index, column in enumerate(table.columns):
        oid, binary = find_oid(column.type), find_format(formats, index) == 1
        kind = column.type
        if oid in {TIMESTAMP, TIMESTAMPTZ, INTERVAL} and kind.unit == "ns":
            target = pa.duration("us") if oid == INTERVAL else pa.timestamp("us", kind.tz)
            column = column.cast(target, safe=False)  # noqa: PLW2901
        columns.append([encode(value, oid, binary=binary) for value in column.to_pylist()])
    return [list(row) for row in zip(*columns, strict=True)]


def find_format(formats: Sequence[int], index: int) -> int:
    """Return the format of a column: text if none is named, and one format is that of all."""
    return formats[index] if len(formats) > 1 else (formats or (0,))[0]


def encode(value: Any, oid: int, *, binary: bool) -> bytes | None:
    """Encode one value of a row. None is NULL."""
    if value is None:
        return None
    return _encode_binary(value, oid) if binary else _to_text(value, oid).encode()


def _to_text(value: Any, oid: int) -> str:  # noqa: PLR0911 one line a type
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        text = repr(value)
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
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


def _encode_binary(value: Any, oid: int) -> bytes:
    if oid in _ELEMENTS and isinstance(value, list):
        return _encode_array(value, _ELEMENTS[oid])
    if oid == NUMERIC:
        return _encode_numeric(Decimal(value))
    if oid == INTERVAL:
        return struct.pack(_LAYOUTS[oid], value // _MICROSECOND, 0, 0)
    if oid in _LAYOUTS:
        return struct.pack(_LAYOUTS[oid], _to_number(value, oid))
    return value if isinstance(value, bytes) else _to_text(value, oid).encode()


def _to_number(value: Any, oid: int) -> Any:
    """Return a date, datetime or time as days or microseconds, and a number as it is."""
    if oid == DATE:
        return (value - _EPOCH.date()).days
    if oid == TIME:
        value = dt.datetime.combine(_EPOCH, value.replace(tzinfo=None))
    if oid in {TIME, TIMESTAMP, TIMESTAMPTZ}:
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        return (value - _EPOCH) // _MICROSECOND
    return value


def _encode_array(values: list[Any], oid: int) -> bytes:
    """Encode a list of one dimension."""
    has_null = any(value is None for value in values)
    parts = [struct.pack("!iii", 1 if values else 0, has_null, oid)]
    if values:
        parts.append(struct.pack("!ii", len(values), 1))
    for value in values:
        if value is None:
            parts.append(struct.pack("!i", -1))
        else:
            encoded = _encode_binary(value, oid)
            parts += [struct.pack("!i", len(encoded)), encoded]
    return b"".join(parts)


def _encode_numeric(value: Decimal) -> bytes:
    """Encode a decimal number in digits of base 10,000."""
    if not value.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    sign, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    fractions = -(-scale // 4)  # groups of four digits after the point
    number = int("".join(map(str, digits))) * 10 ** (4 * fractions + int(exponent))
    groups: list[int] = []
    while number:
        number, group = divmod(number, 10_000)
        groups.insert(0, group)
    weight = len(groups) - fractions - 1
    header = struct.pack("!hhHh", len(groups), weight, 0x4000 if sign else 0, scale)
    return header + struct.pack(f"!{len(groups)}h", *groups)


_ZONED_DATE = re.compile(r"\d{4}-\d\d-\d\d ?[+-]\d\d(:\d\d)*")
"""A date as pgjdbc writes it, without saying that it is one."""
_READERS: dict[int, Callable[[str], Any]] = {
    **dict.fromkeys((INT2, INT4, INT8, OID), int),
    **dict.fromkeys((FLOAT4, FLOAT8), float),
    NUMERIC: Decimal,
    BOOL: lambda text: text.lower() in {"t", "true", "1", "on", "yes"},
    DATE: lambda text: dt.date.fromisoformat(text[:10]),
    TIMESTAMP: dt.datetime.fromisoformat,
}


def decode_parameter(value: bytes | None, oid: int, *, binary: bool) -> Any:
    """Read the value of a parameter, or refuse it."""
    if value is None:
        return None
    try:
        if not binary or oid in {0, TEXT, VARCHAR}:
            text = value.decode()
            is_date = oid == 0 and not binary and _ZONED_DATE.fullmatch(text)
            return _READERS.get(DATE if is_date else oid, str)(text)
        if oid in {DATE, TIMESTAMP} or oid in _READERS:
            (number,) = struct.unpack(_LAYOUTS[oid], value)
            if oid == DATE:
                return _EPOCH.date() + dt.timedelta(days=number)
            return _EPOCH + number * _MICROSECOND if oid == TIMESTAMP else number
    except (ValueError, KeyError, struct.error, OverflowError, InvalidOperation):
        pass
    raise RefusedStatementError(
        f"a parameter of the Postgres type {oid} can't be read",
        hint="pass numbers, texts, dates and booleans",
    )
