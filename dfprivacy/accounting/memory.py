"""Know a release that can be repeated by its fingerprint, and write it as bytes.

Two requests have one fingerprint if and only if they have the same canonical text: every value is
written with its type and its length. The bytes hold the release and nothing that lies beside
it (docs/how-to/ledger.md): a table is rebuilt from its own values first.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.errors import InvalidLedgerError

MOST_BYTES = 2**29  # of one release; older ledgers could not hold more than about twice that
RELEASE_FORMAT = 2
"""To be raised when a release of the same question and terms would look otherwise."""

_PLAIN: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, bool.__repr__),
    (int, int.__repr__),
    (float, float.__repr__),
    (str, str.__str__),
    (Fraction, Fraction.__str__),
    (Decimal, Decimal.__str__),
    (UUID, UUID.__str__),
    (dt.datetime, dt.datetime.isoformat),
    (dt.date, dt.date.isoformat),
    (dt.time, dt.time.isoformat),
    (dt.timedelta, dt.timedelta.__str__),
)
"""Constants, and how their own type writes them: a type derived from it could write any text."""

_FINER: tuple[type, ...] = (pd.Timestamp, pd.Timedelta, type(pd.NaT))
"""Derived types that hold more than their base, and write all of it."""


def fingerprint(dataset: str, version: str, question: str, terms: Mapping[str, object]) -> bytes:
    """Return 32 bytes that stand for a release: SHA-256 of its canonical text.

    `terms` hold, by name, all that the release depends on besides the question: losses, bounds,
    keys, levels. Numbers of different types are different terms: pass epsilon as the exact fraction
    that is charged. A term that has no canonical text is an `InvalidLedgerError`.

    >>> one = fingerprint("flights", "2026", "count()", {"epsilon": Fraction(1, 2)})
    >>> one == fingerprint("flights", "2026", "count()", {"epsilon": Fraction(2, 4)})
    True
    >>> one == fingerprint("flights", "2027", "count()", {"epsilon": Fraction(1, 2)})
    False
    """
    request = (RELEASE_FORMAT, dataset, version, question, terms)
    return hashlib.sha256(canonical(request)).digest()


def digest_files(files: Iterable[Path], folder: Path) -> bytes:
    """Return 32 bytes for the names, sizes and modification times of files.

    Names are relative to `folder` for files below it, which may be moved as a whole.

    Raises
    ------
    OSError
        When a file is gone or can't be looked at.
    """
    states = []
    for file in files:
        name = file.relative_to(folder) if file.is_relative_to(folder) else file
        state = file.stat()
        states.append([str(name), state.st_size, state.st_mtime_ns])
    return hashlib.sha256(canonical(sorted(states))).digest()


def canonical(value: object) -> bytes:
    """Return the canonical text of constants, and of lists, sets, mappings and records of them.

    >>> canonical((1, "a"))
    b'list 2:int 1:1,str 1:a,,'
    """
    if value is None:
        return _text("none", b"")
    if isinstance(value, bytes):
        return _text("bytes", bytes(memoryview(value)))
    if isinstance(value, np.generic):
        text_ = str.__str__(value) if isinstance(value, str) else str(np.asarray(value)[()])
        return _text(f"numpy {value.dtype.str}", text_.encode("utf-8", "surrogatepass"))
    for kind, written in _PLAIN:
        if isinstance(value, kind):
            text = written(value)
            if isinstance(value, _FINER):
                text = str(value.isoformat() if isinstance(value, dt.datetime) else value)
            return _text(kind.__name__, text.encode("utf-8", "surrogatepass"))
    return _encode_many(value)


def _encode_many(value: object) -> bytes:
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        return _join_parts(type(value).__name__, [canonical(named)])
    if isinstance(value, Mapping):
        pairs = sorted(canonical(key) + canonical(item) for key, item in value.items())
        return _join_parts("mapping", pairs)
    if isinstance(value, AbstractSet):
        return _join_parts("set", sorted(map(canonical, value)))
    if isinstance(value, Sequence | np.ndarray):
        return _join_parts("list", [canonical(item) for item in value])
    raise InvalidLedgerError(
        f"a release with a term of type {type(value).__name__} can't be remembered",
        hint="leave version out, or name public keys by plain constants such as 'AA' or 7",
    )


def _text(kind: str, content: bytes) -> bytes:
    return b"%s %d:%s," % (kind.encode(), len(content), content)


def _join_parts(kind: str, parts: Sequence[bytes]) -> bytes:
    return b"%s %d:%s," % (kind.encode(), len(parts), b"".join(parts))


BOUNDS, LIMITS = b"dfprivacy_bounds", b"dfprivacy_limits"
REMARKS, FAILURE = b"dfprivacy_remarks", b"dfprivacy_failure"
REMEMBERED = b"dfprivacy_remembered"
"""Keys of the metadata of released tables.

Bounds and limits that were found, lines about answers, the error of a query over the answers of a
job, and whether a ledger has remembered the answers, which is not kept.
"""


def is_remembered(table: pa.Table) -> bool:
    """Check whether a ledger has remembered the answers of a table."""
    return REMEMBERED in (table.schema.metadata or {})


def release_bytes(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream of its names, types, values and facts."""
    columns = [_rebuilt(column) for column in table.columns]
    metadata = table.schema.metadata or {}
    facts = {key: metadata[key] for key in (BOUNDS, LIMITS, REMARKS, FAILURE) if key in metadata}
    plain = pa.table(columns, names=table.column_names, metadata=facts or None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue())


def write_content(table: pa.Table) -> bytes:
    """Return a release as the bytes that a ledger keeps, of which there are at most 512 MiB."""
    content = release_bytes(table)
    if len(content) > MOST_BYTES:
        raise InvalidLedgerError(
            "a release of more than 512 MiB is not kept", hint="release fewer groups at a time"
        )
    return content


def read_released_table(content: bytes) -> pa.Table:
    """Return the table that `release_bytes` has written."""
    with pa.ipc.open_stream(content) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


def _rebuilt(column: pa.ChunkedArray) -> pa.Array:
    """Return a column's values in new buffers: nothing under a NULL, no dictionary but its own."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = _rebuilt(column.cast(kind.value_type)).dictionary_encode()
        indices = values.indices.cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, values.dictionary, ordered=kind.ordered)
    combined = column.combine_chunks()
    present = combined.is_valid()
    places = pc.cumulative_sum(pc.cast(present, pa.int64()))
    shown = pc.if_else(present, pc.subtract(places, 1), None)
    return combined.take(pc.indices_nonzero(present)).take(shown)
