"""What a frame declares about its columns: names and types, never values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.parquet_files import ENDINGS
from dfprivacy.engine.readable import require_columns

Declared = Mapping[Hashable, bool]
"""The columns of a frame, and whether each is declared to hold integers or booleans."""


@singledispatch
def declared(frame: object) -> Declared | None:  # noqa: ARG001 other frames are not looked at
    """Return the columns that a frame declares; None where that is not known without reading.

    >>> declared(pl.DataFrame({"city": ["Rome"], "age": [30]}))
    {'city': False, 'age': True}
    """
    return None


@declared.register
def _(frame: pd.DataFrame) -> Declared:
    kinds = zip(frame.columns, frame.dtypes, strict=True)
    return {
        name: pd.api.types.is_integer_dtype(kind) or pd.api.types.is_bool_dtype(kind)
        for name, kind in kinds
    }


@declared.register(pl.DataFrame)
@declared.register(pl.LazyFrame)
@declared.register(duckdb.DuckDBPyRelation)
def _(frame: Any) -> Declared:
    schema = nw.from_native(frame).collect_schema()
    return {name: kind.is_integer() or kind == nw.Boolean for name, kind in schema.items()}


@declared.register(pa.Table)
@declared.register(pa.RecordBatchReader)
def _(frame: pa.Table | pa.RecordBatchReader) -> Declared:
    return {
        field.name: pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)
        for field in frame.schema
    }


@declared.register(str)
@declared.register(Path)
def _(frame: str | Path) -> Declared | None:
    """Look at the footer of a Parquet file; text files declare nothing."""
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    path = Path(frame)
    if path.suffix.lower() not in ENDINGS or not path.is_file():
        return None
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return None
    return declared(schema.empty_table())


def integer_columns(frame: object, needed: Sequence[Hashable]) -> frozenset[object]:
    """Return the columns that a frame declares to hold integers; nothing is read.

    Raises
    ------
    MissingColumnError
        When the frame is known to lack a column that is needed.
    """
    known = declared(frame)
    if known is None:
        return frozenset()
    require_columns(needed, list(known))
    return frozenset(name for name, integer in known.items() if integer)
