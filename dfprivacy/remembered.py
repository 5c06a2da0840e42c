"""Releases as Arrow tables that a ledger keeps, and back: what a caller has seen, and no more."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import singledispatch
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.release import Choice, Number, Recalled, Release
from dfprivacy.remembered_keys import pandas_frame, same_frames

_NUMBERS = pa.schema(
    {
        "name": pa.string(),
        "value": pa.float64(),
        "low": pa.float64(),
        "high": pa.float64(),
        "std_error": pa.float64(),
        "chosen": pa.bool_(),
    }
)


def numbers_table(numbers: Mapping[str, Number]) -> pa.Table:
    """Return numbers with their intervals, one row each."""
    rows = []
    for name, number in numbers.items():
        ends = (math.nan,) * 3
        if not isinstance(number, Choice):
            ends = (number.low, number.high, number.std_error)
        values = (name, float(number), *ends, isinstance(number, Choice))
        rows.append(dict(zip(_NUMBERS.names, values, strict=True)))
    return pa.Table.from_pylist(rows, _NUMBERS)


def numbers_of(table: pa.Table, release: Release) -> dict[str, Number]:
    """Return the numbers of a table, as parts of a release with the same terms."""
    return {row["name"]: _number(row, release) for row in table.to_pylist()}


def _number(row: Mapping[str, Any], release: Release) -> Number:
    if row["chosen"]:
        return Choice(row["name"], row["value"], release)
    ends = (row["low"], row["high"])
    return Recalled(row["name"], row["value"], ends, row["std_error"], release)


@singledispatch
def frame_table(frame: Any) -> pa.Table:
    """Return a released frame as an Arrow table; an Arrow table is one already."""
    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "toArrow"):  # Spark
        return frame.toArrow()
    return frame.to_pyarrow()  # Ibis


@frame_table.register
def _(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


@frame_table.register
def _(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow()


@frame_table.register
def _(frame: pl.LazyFrame) -> pa.Table:
    return frame.collect().to_arrow()


@frame_table.register
def _(frame: duckdb.DuckDBPyRelation) -> pa.Table:
    return frame.to_arrow_table()


def kept_table(released: Any, frame: object, by: Sequence[Hashable]) -> pa.Table | None:
    """Return a released frame as the table to keep; None if it would come back as another frame.

    Arrow has no type for some objects of pandas, and gives others back as what they are not: a
    tuple as a list, a `Timestamp` as a `datetime`. That is a matter of the released keys.
    """
    table = frame_table(released)
    if isinstance(released, pd.DataFrame) and not same_frames(released, frame_of(frame, table, by)):
        return None
    return table


@singledispatch
def frame_of(frame: object, table: pa.Table, by: Sequence[Hashable]) -> Any:  # noqa: ARG001 pandas has it
    """Return a remembered table, by group, in the frame type of the data; no row is read."""
    adopted = adopt(frame, Columns((), {}, ()))
    try:
        return adopted.wrap(table)
    finally:
        adopted.close()


@frame_of.register
def _(frame: pd.DataFrame, table: pa.Table, by: Sequence[Hashable]) -> pd.DataFrame:
    return pandas_frame(frame, table, by)
