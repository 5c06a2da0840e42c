"""Write Arrow values as Postgres does, in text and in binary, and read parameters."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from dfprivacy.errors import RefusedStatementError

BOOL, BYTEA, INT8, INT2, INT4, TEXT = 16, 17, 20, 21, 23, 25
FLOAT4, FLOAT8, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL = (
    700,
    701,
    1082,
    1083,
    1114,
    1184,
    1186,
)
NUMERIC, VARCHAR, OID, UUID = 1700, 1043, 26, 2950
_ARRAYS = {BOOL: 1000, INT2: 1005, INT4: 1007, INT8: 1016, TEXT: 1009, FLOAT4: 1021, FLOAT8: 1022}
_ARRAYS |= {DATE: 1182, TIMESTAMP: 1115, NUMERIC: 1231}
_ELEMENTS = {array: element for element, array in _ARRAYS.items()}
SIZES = {BOOL: 1, INT2: 2, INT4: 4, INT8: 8, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIME: 8}
SIZES |= {TIMESTAMP: 8, TIMESTAMPTZ: 8, INTERVAL: 16, OID: 4, UUID: 16}
_EPOCH = dt.datetime(2000, 1, 1)  # noqa: DTZ001 Postgres counts from here
_MICROSECOND = dt.timedelta(microseconds=1)


def find_oid(kind: pa.DataType) -> int:
    """Return the number of the Postgres type that holds an Arrow type."""
    types = pa.types
    if types.is_dictionary(kind):
        return find_oid(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _ARRAYS.get(find_oid(kind.value_type), TEXT)
    checks: list[tuple[Callable[[pa.DataType], bool], int]] = [
        (types.is_boolean, BOOL),
        (types.is_int8, INT2),
        (types.is_uint8, INT2),
        (types.is_int16, INT2),
        (types.is_uint16, INT4),
        (types.is_int32, INT4),
        (types.is_uint32, INT8),
        (types.is_int64, INT8),
        (types.is_uint64, NUMERIC),
        (types.is_float16, FLOAT4),
        (types.is_float32, FLOAT4),
        (types.is_float64, FLOAT8),
        (types.is_decimal, NUMERIC),
        (types.is_date, DATE),
        (types.is_time, TIME),
        (types.is_duration, INTERVAL),
        (types.is_binary, BYTEA),
        (types.is_large_binary, BYTEA),
    ]
    if types.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMPTZ
    return next((oid for check, oid in checks if check(kind)), TEXT)


def encode(value: Any, oid: int, *, binary: bool) -> bytes | None:
    """Encode one value of a row. None is NULL."""
    if value is None:
        return None
    return _encode_binary(value, oid) if binary else _to_text(value, oid).encode()


def _to_text(value: Any, oid: int) -> str:  # noqa: PLR0911 one line a type
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return repr(value)
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, dt.timedelta):
        seconds = value.seconds
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{value.days} days {clock}.{value.microseconds:06}"
    if isinstance(value, list) and oid in _ELEMENTS:
        return "{" + ",".join(_quote_element(item, _ELEMENTS[oid]) for item in value) + "}"
    if isinstance(value, list | dict):
        return json.dumps(value, default=str)
    return str(value)


def _quote_element(value: Any, oid: int) -> str:
    if value is None:
        return "NULL"
    text = _to_text(value, oid)
    if not isinstance(value, str):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _encode_binary(value: Any, oid: int) -> bytes:  # noqa: PLR0911 one line a type
    if oid in _ELEMENTS and isinstance(value, list):
        return _encode_array(value, _ELEMENTS[oid])
    if oid in {INT2, INT4, INT8}:
        return int(value).to_bytes(SIZES[oid], "big", signed=True)
    if oid == OID:
        return int(value).to_bytes(4, "big")
    if oid in {FLOAT4, FLOAT8}:
        return struct.pack("!f" if oid == FLOAT4 else "!d", value)
    if oid == BOOL:
        return bytes([bool(value)])
    if oid == DATE:
        days: int = (value - _EPOCH.date()).days
        return days.to_bytes(4, "big", signed=True)
    if oid in {TIMESTAMP, TIMESTAMPTZ}:
        moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        ticks: int = (moment - _EPOCH) // _MICROSECOND
        return ticks.to_bytes(8, "big", signed=True)
    if oid == TIME:
        since_midnight = dt.datetime.combine(_EPOCH, value.replace(tzinfo=None)) - _EPOCH
        return (since_midnight // _MICROSECOND).to_bytes(8, "big", signed=True)
    if oid == INTERVAL:
        return struct.pack("!qii", value // _MICROSECOND, 0, 0)
    if oid == NUMERIC:
        return _encode_numeric(Decimal(value))
    return value if isinstance(value, bytes) else _to_text(value, oid).encode()


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
    text = "".join(map(str, digits)) + "0" * max(int(exponent), 0)
    integer, fraction = text[: len(text) - scale], text[len(text) - scale :].rjust(scale, "0")
    integer = integer.rjust(-(-len(integer) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((integer + fraction)[at : at + 4]) for at in range(0, len(integer + fraction), 4)]
    weight = len(integer) // 4 - 1
    while groups and groups[0] == 0:
        groups, weight = groups[1:], weight - 1
    while groups and groups[-1] == 0:
        groups.pop()
    header = struct.pack("!hhHh", len(groups), weight, 0x4000 if sign else 0, scale)
    return header + struct.pack(f"!{len(groups)}h", *groups)


_ZONED_DATE = re.compile(r"\d{4}-\d\d-\d\d ?[+-]\d\d(:\d\d)*")
"""A date as pgjdbc writes it, without saying that it is one."""
_INTEGERS = {INT2, INT4, INT8, OID}


def decode_parameter(  # noqa: PLR0911 one line a type
    value: bytes | None, oid: int, *, binary: bool
) -> Any:
    """Read the value of a parameter.

    Raises
    ------
    RefusedStatementError
        When the bytes are no value of the type, or the type is read in text only.
    """
    if value is None:
        return None
    try:
        if not binary:
            return _read_text(value.decode(), oid)
        if oid in _INTEGERS:
            return int.from_bytes(value, "big", signed=oid != OID)
        if oid in {FLOAT4, FLOAT8}:
            return struct.unpack("!f" if oid == FLOAT4 else "!d", value)[0]
        if oid == BOOL:
            return value == b"\x01"
        if oid == DATE:
            return _EPOCH.date() + dt.timedelta(days=int.from_bytes(value, "big", signed=True))
        if oid == TIMESTAMP:
            return _EPOCH + int.from_bytes(value, "big", signed=True) * _MICROSECOND
        if oid in {0, TEXT, VARCHAR}:
            return value.decode()
    except (ValueError, struct.error, OverflowError, InvalidOperation):
        pass
    raise RefusedStatementError(
        f"a parameter of the Postgres type {oid} can't be read",
        hint="pass numbers, texts, dates and booleans",
    )


def _read_text(text: str, oid: int) -> Any:  # noqa: PLR0911 one line a type
    if oid in _INTEGERS:
        return int(text)
    if oid in {FLOAT4, FLOAT8}:
        return float(text)
    if oid == NUMERIC:
        return Decimal(text)
    if oid == BOOL:
        return text.lower() in {"t", "true", "1", "on", "yes"}
    if oid == DATE or (oid == 0 and _ZONED_DATE.fullmatch(text)):
        return dt.date.fromisoformat(text[:10])
    if oid == TIMESTAMP:
        return dt.datetime.fromisoformat(text)
    return text


def list_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table as Python values."""
    columns = [_list_values(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _list_values(column: pa.ChunkedArray) -> Sequence[Any]:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_duration(column.type) and column.type.unit == "ns":
        column = column.cast(pa.duration("us"), safe=False)
    values: list[Any] = column.to_pylist()
    return values
