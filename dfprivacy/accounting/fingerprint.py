"""What makes two requests the same: a fingerprint of the data's name and version, and the terms.

Nothing of the data is in it. Two requests have one fingerprint if and only if they have the same
canonical text: every value is written with its type and its length, so that no two read the same.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd

from dfprivacy.errors import InvalidLedgerError

RELEASE_FORMAT = 1
"""To be raised when a release of the same question and terms would look otherwise."""

_PLAIN: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, bool.__repr__), (int, int.__repr__), (float, float.__repr__), (str, str.__str__),
    (Fraction, Fraction.__str__), (Decimal, Decimal.__str__), (UUID, UUID.__str__),
    (dt.datetime, dt.datetime.isoformat), (dt.date, dt.date.isoformat),
    (dt.time, dt.time.isoformat), (dt.timedelta, dt.timedelta.__str__),
)  # fmt: skip
"""Constants, and how their own type writes them: a type derived from it could write any text."""

_FINER: tuple[type, ...] = (pd.Timestamp, pd.Timedelta, type(pd.NaT))
"""Derived types that hold more than their base, and write all of it."""


def fingerprint(dataset: str, version: str, question: str, terms: Mapping[str, object]) -> bytes:
    """Return 32 bytes that stand for a release: SHA-256 of its canonical text.

    Parameters
    ----------
    dataset, version : str
        The data, as the caller names them.
    question : str
        What is asked.
    terms : mapping
        Whatever else the release depends on, by name: losses, bounds, keys, levels. Numbers of
        different types are different terms: pass epsilon as the exact fraction that is charged.

    Raises
    ------
    InvalidLedgerError
        For a term that has no canonical text.

    Examples
    --------
    >>> one = fingerprint("flights", "2026", "count()", {"epsilon": Fraction(1, 2)})
    >>> one == fingerprint("flights", "2026", "count()", {"epsilon": Fraction(2, 4)})
    True
    >>> one == fingerprint("flights", "2027", "count()", {"epsilon": Fraction(1, 2)})
    False
    """
    request = (RELEASE_FORMAT, dataset, version, question, terms)
    return hashlib.sha256(canonical(request)).digest()


def canonical(value: object) -> bytes:
    """Return the canonical text of constants, and of lists, sets, mappings and records of them.

    >>> canonical((1, "a"))
    b'list 2:int 1:1,str 1:a,,'

    Raises
    ------
    InvalidLedgerError
        For anything else.
    """
    if value is None:
        return _text("none", b"")
    if isinstance(value, bytes):
        return _text("bytes", bytes(memoryview(value)))
    if isinstance(value, np.generic):
        own = str.__str__(value) if isinstance(value, str) else str(np.asarray(value)[()])
        return _text(f"numpy {value.dtype.str}", own.encode("utf-8", "surrogatepass"))
    for kind, written in _PLAIN:
        if isinstance(value, kind):
            text = _finer(value) if isinstance(value, _FINER) else written(value)
            return _text(kind.__name__, text.encode("utf-8", "surrogatepass"))
    return _several(value)


def _finer(value: Any) -> str:
    return str(value.isoformat() if isinstance(value, dt.datetime) else value)


def _several(value: object) -> bytes:
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        return _joined(type(value).__name__, [canonical(named)])
    if isinstance(value, Mapping):
        pairs = sorted(canonical(key) + canonical(item) for key, item in value.items())
        return _joined("mapping", pairs)
    if isinstance(value, AbstractSet):
        return _joined("set", sorted(map(canonical, value)))
    if isinstance(value, Sequence | np.ndarray):
        return _joined("list", [canonical(item) for item in value])
    raise InvalidLedgerError(
        f"a release with a term of type {type(value).__name__} can't be remembered",
        hint="leave version out, or name public keys by plain constants such as 'AA' or 7",
    )


def _text(kind: str, content: bytes) -> bytes:
    return b"%s %d:%s," % (kind.encode(), len(content), content)


def _joined(kind: str, parts: Sequence[bytes]) -> bytes:
    return b"%s %d:%s," % (kind.encode(), len(parts), b"".join(parts))
