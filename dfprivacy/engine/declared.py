"""Tell which columns a frame declares, their names and types, without reading a row."""

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

from dfprivacy.engine.files import ENDINGS
from dfprivacy.errors import MissingColumnError

INTEGER, NUMBER, BOOLEAN, DATE, TEXT, OTHER = (
    "integer", "number", "boolean", "date", "text", "other"
)  # fmt: skip

Declared = Mapping[Hashable, str]
"""The columns of a frame, and what each is declared to hold: a date may have a time, and categories
are text."""


@singledispatch
def declared(frame: object) -> Declared | None:  # noqa: ARG001 other frames are not looked at
    """Return the columns that a frame declares; None where that is not known without reading.

    >>> declared(pl.DataFrame({"city": ["Rome"], "age": [30]}))
    {'city': 'text', 'age': 'integer'}
    """
    return None


@declared.register
def _(frame: pd.DataFrame) -> Declared:
    return {
        name: _pandas_kind(dtype) for name, dtype in zip(frame.columns, frame.dtypes, strict=True)
    }


def _pandas_kind(dtype: Any) -> str:
    if isinstance(dtype, pd.ArrowDtype):
        return _arrow_kind(dtype.pyarrow_dtype)
    if pd.api.types.is_bool_dtype(dtype):
        return BOOLEAN
    if isinstance(dtype, pd.CategoricalDtype | pd.StringDtype):
        return TEXT
    kinds = {"i": INTEGER, "u": INTEGER, "f": NUMBER, "M": DATE, "O": TEXT}
    return (
        OTHER
        if isinstance(dtype, pd.PeriodDtype | pd.IntervalDtype)
        else kinds.get(dtype.kind, OTHER)
    )


@declared.register(pl.DataFrame)
@declared.register(pl.LazyFrame)
@declared.register(duckdb.DuckDBPyRelation)
def _(frame: Any) -> Declared:
    schema = nw.from_native(frame).collect_schema()
    return {name: _kind(dtype) for name, dtype in schema.items()}


def _kind(dtype: Any) -> str:
    if dtype == nw.Boolean:
        return BOOLEAN
    if dtype.is_numeric():
        return INTEGER if dtype.is_integer() else NUMBER
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return TEXT
    return DATE if dtype in (nw.Date, nw.Datetime) else OTHER


@declared.register(pa.Table)
@declared.register(pa.RecordBatchReader)
def _(frame: pa.Table | pa.RecordBatchReader) -> Declared:
    return {field.name: _arrow_kind(field.type) for field in frame.schema}


def _arrow_kind(dtype: pa.DataType) -> str:
    own = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    kinds = {
        BOOLEAN: (pa.types.is_boolean,),
        INTEGER: (pa.types.is_integer,),
        NUMBER: (pa.types.is_floating, pa.types.is_decimal),
        DATE: (pa.types.is_date, pa.types.is_timestamp),
        TEXT: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    }
    return next((kind for kind, tests in kinds.items() if any(is_(own) for is_ in tests)), OTHER)


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
    """Return the columns that a frame declares to hold integers; refuse one that lacks `needed`."""
    known = declared(frame)
    if known is None:
        return frozenset()
    require_columns(needed, list(known))
    return frozenset(name for name, kind in known.items() if kind in {INTEGER, BOOLEAN})


def require_columns(named: Sequence[Hashable], present: Sequence[Hashable]) -> None:
    """Refuse a column that is not there, or that is there twice, by the names alone."""
    for name in named:
        if present.count(name) == 0:
            raise MissingColumnError(
                f"the frame has no column {name!r}",
                hint=f"its columns are {', '.join(map(repr, present[:20]))}",
            )
        if present.count(name) > 1:
            raise MissingColumnError(
                f"the frame has several columns {name!r}", hint="rename them so that one is meant"
            )
