"""Offer the names that PEP 249 asks of a module: `dfp.connect`, its errors, what it can do.

>>> from dfprivacy import dbapi
>>> dbapi.apilevel, dbapi.paramstyle, issubclass(dbapi.ProgrammingError, dbapi.Error)
('2.0', 'qmark', True)
"""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pyarrow as pa

from dfprivacy.errors import (
    DatabaseError,
    DataError,
    DPError,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from dfprivacy.errors import close as _close
from dfprivacy.statements.interface import Connection, Cursor, connect

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "Connection", "Cursor",
    "DataError", "DatabaseError", "Date", "DateFromTicks", "Error", "IntegrityError",
    "InterfaceError", "InternalError", "NotSupportedError", "OperationalError", "ProgrammingError",
    "Time", "TimeFromTicks", "Timestamp", "TimestampFromTicks", "Warning", "apilevel", "connect",
    "paramstyle", "threadsafety",
]  # fmt: skip

apilevel = "2.0"
paramstyle = "qmark"
threadsafety = 1

Error = DPError


class Warning(Exception):  # noqa: A001, N818 the name of PEP 249
    """What is worth a warning; never raised."""


Date, Time, Timestamp, Binary = dt.date, dt.time, dt.datetime, bytes


def DateFromTicks(ticks: float) -> dt.date:  # noqa: N802 the name of PEP 249
    """Return the local date of a number of seconds since 1970."""
    return dt.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802 as above
    """Return the local time of day of a number of seconds since 1970."""
    return dt.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> dt.datetime:  # noqa: N802 as above
    """Return the local moment of a number of seconds since 1970."""
    return dt.datetime(*time.localtime(ticks)[:6])  # noqa: DTZ001 PEP 249 has no zone


class _Kind:
    """A kind of type, which equals the types of Arrow that it holds."""

    def __init__(self, *checks: Any) -> None:
        self._checks = checks

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, pa.DataType) and any(check(other) for check in self._checks)
        )

    def __hash__(self) -> int:
        return id(self)


_types = pa.types
STRING = _Kind(_types.is_string, _types.is_large_string, _types.is_string_view)
BINARY = _Kind(_types.is_binary, _types.is_large_binary)
NUMBER = _Kind(_types.is_integer, _types.is_floating, _types.is_decimal)
DATETIME = _Kind(_types.is_temporal)
ROWID = _Kind()

_close(globals())
