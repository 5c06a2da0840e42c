"""Offer names of PEP 249: `dfp.connect`, its errors, what it can do. Types are those of Arrow.

>>> from dfprivacy import dbapi
>>> dbapi.apilevel, dbapi.paramstyle, issubclass(dbapi.ProgrammingError, dbapi.Error)
('2.0', 'qmark', True)
"""

from __future__ import annotations

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
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
paramstyle = "qmark"
threadsafety = 1

Error = DPError


class Warning(Exception):  # noqa: A001, N818 the name of PEP 249
    """The warning class of PEP 249; never raised."""


_close(globals())
