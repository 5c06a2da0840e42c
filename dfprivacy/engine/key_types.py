"""Group by DuckDB types that Arrow or narwhals has no type for, and return keys as declared."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import duckdb
import pandas as pd
import pyarrow as pa

from dfprivacy.engine.columns import duckdb_duration, duckdb_type, type_text
from dfprivacy.engine.files import quote
from dfprivacy.errors import InvalidKeysError, UnsupportedDtypeError

_KEY_FORMS = {"UUID": "CAST({} AS VARCHAR)", "TIMESTAMPTZ_NS": "timezone('UTC', {})"}
"""SQL that gives a key column a type that can be grouped by; different values stay different."""

_REFUSED = ("TIME_NS", "TIME WITH TIME ZONE", "BIT", "BIGNUM", "VARIANT", "GEOMETRY")


def key_form(relation: duckdb.DuckDBPyRelation, name: str, label: Hashable) -> str | None:
    """Return the SQL by which a column is grouped; None if it can be grouped as it is.

    Raises
    ------
    UnsupportedDtypeError
        When the declared type can't be grouped by.
    """
    kind = duckdb_type(relation, name)
    if kind in _REFUSED:
        other = "TIME" if kind == "TIME_NS" else "VARCHAR"
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {kind}, which can't be grouped by",
            hint=f"cast it first, in SQL CAST({quote(str(label))} AS {other})",
        )
    return _KEY_FORMS[kind].format(quote(name)) if kind in _KEY_FORMS else None


def value_form(
    relation: duckdb.DuckDBPyRelation, name: str, declared: pa.DataType | None
) -> str | None:
    """Return the SQL of the durations that Parquet stores as integers; None for other columns."""
    if declared is None or not pa.types.is_duration(declared):
        return None
    is_integer = duckdb_type(relation, name) == "BIGINT"
    return duckdb_duration(quote(name), declared.unit) if is_integer else None


def key_values(values: Sequence[Any], declared: object) -> Sequence[Any]:
    """Return public keys of a declared DuckDB or Arrow type in the form that is grouped by.

    Raises
    ------
    InvalidKeysError
        When a key is no value of the declared type.
    """
    with suppress(pa.ArrowException, ArithmeticError, TypeError, ValueError):
        if declared == "UUID":
            return [None if value is None else str(UUID(str(value))) for value in values]
        if declared == "TIMESTAMPTZ_NS":
            return [None if value is None else _utc_time(value) for value in values]
        if isinstance(declared, pa.DataType):
            return list(pa.array(values, declared, from_pandas=True).cast(pa.int64()).to_pylist())
        return values
    raise unfit_key(declared)


def unfit_key(declared: object) -> InvalidKeysError:
    """Return the error about a public key that is no value of the declared type."""
    kind = str(declared).lower()
    zone = ", tzinfo=ZoneInfo('Europe/Rome')" if "tz" in kind else ""
    example = ", e.g. date(2024, 1, 1)" if kind.startswith("date") else ""
    if kind.startswith("timestamp"):
        example = f", e.g. datetime(2024, 1, 1{zone})"
    return InvalidKeysError(
        f"a public key does not fit the group column, which is declared {type_text(declared)}",
        hint=f"list keys of the column's own type{example}",
    )


def _utc_time(value: Any) -> pd.Timestamp:
    """Return a time with a zone as that of UTC without a zone; a ValueError for other values."""
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        raise ValueError
    return pd.Timestamp(value).tz_convert("UTC").tz_localize(None)


def key_type(kind: object) -> pa.DataType | None:
    """Return the Arrow type of released keys of a DuckDB type that is grouped in another form."""
    return pa.timestamp("ns", "UTC") if kind == "TIMESTAMPTZ_NS" else None


def declare_keys(released: pa.Table, types: Sequence[pa.DataType | None]) -> pa.Table:
    """Return a released table with its first columns, the keys, in declared zones and units."""
    for index, kind in enumerate(types):
        field, column = released.schema.field(index), released.column(index)
        if kind is not None and pa.types.is_timestamp(kind) and kind.tz:
            column = column.cast(pa.timestamp(field.type.unit, "UTC"))
            column = column.cast(pa.timestamp(field.type.unit, kind.tz))
        elif kind is not None and pa.types.is_duration(kind):
            column = column.cast(kind)
        released = released.set_column(index, field.name, column)
    return released
