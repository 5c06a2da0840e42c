"""List the columns that a frame declares, check their types, and read numbers row by row.

Every expression looks at one row only. NULL and NaN become NULL. NaN is named before it is
compared with anything, because engines disagree on how it compares.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import singledispatch
from pathlib import Path
from typing import Any, cast

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from narwhals.dtypes import DType

from dfprivacy.engine.files import DataFiles, list_data_files, read_footer
from dfprivacy.engine.snapshots import Snapshot
from dfprivacy.errors import (
    InvalidQuestionError,
    MissingColumnError,
    UnsupportedDtypeError,
    UnsupportedFrameError,
)
from dfprivacy.measurement.bounds import OF_MOMENTS
from dfprivacy.measurement.grid import (
    CLOCK,
    DATE,
    DURATION,
    MOST_TICKS,
    TIME,
    Clock,
    find_clock_kind,
    plain_type,
    type_moments,
)

INTEGER, NUMBER, BOOLEAN, TEXT, OTHER = "integer", "number", "boolean", "text", "other"

MOMENTS = (DATE, TIME, CLOCK, DURATION)
"""Dates, dates with a time, times of day, durations."""

Declared = Mapping[Hashable, str]
"""The columns of a frame, and what each is declared to hold: numbers, text (categories are), one of
`MOMENTS` or something else."""


def find_engine_columns(frame: object) -> Declared | None:
    """Return the columns that an Ibis table or a Spark frame declares; None for other objects.

    Of dates and times they rank none, but on DuckDB: these are of another type.
    """
    libraries = {kind.__module__.partition(".")[0] for kind in type(frame).__mro__}
    if libraries.isdisjoint({"ibis", "pyspark"}):
        return None
    source = cast("Any", frame)
    if "ibis" in libraries:
        declared = source.schema().items()
        wide = {
            n: "float64" for n, kind in declared if kind.is_decimal() and (kind.precision or 0) > 38
        }
        source = source.cast(wide) if wide else source  # narwhals raises at more digits
    kinds = {n: _kind(t, frame, n) for n, t in nw.from_native(source).collect_schema().items()}
    if "ibis" in libraries and source.get_backend().name == "duckdb":
        return kinds
    return {name: OTHER if kind in MOMENTS else kind for name, kind in kinds.items()}


@singledispatch
def find_declared_columns(frame: object) -> Declared | None:  # noqa: ARG001 other frames are not looked at
    """Return the columns that a frame declares; None where that is not known without reading.

    >>> find_declared_columns(pl.DataFrame({"city": ["Rome"], "age": [30]}))
    {'city': 'text', 'age': 'integer'}
    """
    return None


@find_declared_columns.register
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
    if isinstance(dtype, pd.PeriodDtype | pd.IntervalDtype):
        return OTHER
    kinds = {"i": INTEGER, "u": INTEGER, "f": NUMBER, "M": TIME, "m": DURATION, "O": TEXT}
    return kinds.get(dtype.kind, OTHER)


@find_declared_columns.register(pl.DataFrame)
@find_declared_columns.register(pl.LazyFrame)
@find_declared_columns.register(duckdb.DuckDBPyRelation)
def _(frame: Any) -> Declared:
    schema = nw.from_native(frame).collect_schema()
    return {name: _kind(dtype, frame, name) for name, dtype in schema.items()}


def _kind(dtype: Any, frame: Any, name: str) -> str:
    if dtype == nw.Boolean:
        return BOOLEAN
    if dtype.is_numeric():
        return INTEGER if dtype.is_integer() else NUMBER
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return TEXT
    if isinstance(frame, duckdb.DuckDBPyRelation) and duckdb_type(frame, name) == "UUID":
        return TEXT
    moment = moment_type(dtype, frame, name)
    return OTHER if moment is None else find_clock_kind(moment) or OTHER


def moment_type(dtype: Any, frame: object, name: str) -> pa.DataType | None:
    """Return the Arrow type of a frame's dates, times or durations; None for any other column."""
    if dtype == nw.Unknown and isinstance(frame, duckdb.DuckDBPyRelation):
        kinds = {"TIME_NS": pa.time64("ns"), "TIMESTAMPTZ_NS": pa.timestamp("ns", "UTC")}
        return kinds.get(duckdb_type(frame, name))
    if dtype == nw.Datetime:
        return pa.timestamp(dtype.time_unit, dtype.time_zone)
    if dtype == nw.Duration:
        return pa.duration(dtype.time_unit)
    plain = ((nw.Date, pa.date32()), (nw.Time, pa.time64("us")))
    return next((kind for held_type, kind in plain if dtype == held_type), None)


@find_declared_columns.register(pa.Table)
@find_declared_columns.register(pa.RecordBatchReader)
def _(frame: pa.Table | pa.RecordBatchReader) -> Declared:
    return {field.name: _arrow_kind(field.type) for field in frame.schema}


def _arrow_kind(dtype: pa.DataType) -> str:
    value_type = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    kinds = {
        BOOLEAN: (pa.types.is_boolean,),
        INTEGER: (pa.types.is_integer,),
        NUMBER: (pa.types.is_floating, pa.types.is_decimal),
        TEXT: (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            lambda kind: kind == pa.uuid(),
        ),
    }
    matching = (kind for kind, tests in kinds.items() if any(is_(value_type) for is_ in tests))
    return next(matching, find_clock_kind(value_type) or OTHER)


@find_declared_columns.register
def _(frame: Snapshot) -> Declared | None:
    return find_declared_columns(frame.rows)


@find_declared_columns.register
def _(frame: DataFiles) -> Declared | None:
    footer = read_footer(frame)
    return None if footer is None else find_declared_columns(footer.schema.empty_table())


@find_declared_columns.register(str)
@find_declared_columns.register(Path)
def _(frame: str | Path) -> Declared | None:
    """Look at the first footer of Parquet files; files that are not there declare nothing."""
    with suppress(UnsupportedFrameError):
        return find_declared_columns(list_data_files(Path(frame)))
    return None


def require_declared(frame: object, needed: Sequence[Hashable]) -> Declared:
    """Return the types a frame declares for its columns, if any; refuse one that lacks `needed`."""
    types = find_declared_columns(frame)
    if types is None:
        return {}
    require_columns(needed, list(types))
    return types


def require_columns(
    named: Sequence[Hashable], present: Sequence[Hashable], index: Sequence[Hashable] = ()
) -> None:
    """Refuse a column that is not there, or that is there twice, by the names alone."""
    for name in named:
        if present.count(name) == 0:
            is_index = name is not None and name in index
            raise MissingColumnError(
                f"the frame has no column {name!r}",
                hint="df.reset_index() makes it one" if is_index else columns_near(name, present),
            )
        if present.count(name) > 1:
            raise MissingColumnError(
                f"the frame has several columns {name!r}", hint="rename them so that one is meant"
            )


def columns_near(name: Hashable, present: Sequence[Hashable]) -> str:
    """List the columns there are, and name the one with the most similar name."""
    similar = get_close_matches(
        str(name),
        [name_of_column for name_of_column in present if isinstance(name_of_column, str)],
        1,
    )
    question = "".join(f"did you mean {name_of_column!r}? " for name_of_column in similar)
    return f"{question}its columns are {', '.join(map(repr, present[:20]))}"


def check_number_column(label: Hashable, dtype: DType) -> None:
    """Refuse a column that holds no numbers, by its declared dtype alone."""
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        raise no_numbers(label, dtype)


def type_text(declared: object) -> str:
    """Return the text of a declared type up to the members of an enumeration: they may be data."""
    return re.split(r"(?<=enum)\(", str(declared), maxsplit=1, flags=re.IGNORECASE)[0]


def no_numbers(label: object, declared: object) -> UnsupportedDtypeError:
    """Return the error for a column whose declared type holds no numbers."""
    hint = "convert it to an integer, float, decimal or boolean column first"
    if str(declared).lower().startswith(("date", "time", "duration")):
        hint = OF_MOMENTS
    return UnsupportedDtypeError(
        f"column {label!r} is declared {type_text(declared)}, which holds no numbers", hint=hint
    )


def build_no_value_error(label: object, declared: object, constant: object) -> InvalidQuestionError:
    """Return the error for a constant that a column of this declared type can't hold."""
    hint = "name a constant of the column's own type: value='JFK', value=3"
    if constant is True:  # which is counted where none is named
        hint = "name the value that is counted: value='JFK', value=3"
    return InvalidQuestionError(
        f"column {label!r} is declared {type_text(declared)}, and {constant!r} is no value of it",
        hint=hint,
    )


def is_number(value: nw.Expr) -> nw.Expr:
    """Return an expression that is true for numbers, finite or not, and false for NaN.

    DuckDB knows a Parquet column by the file's minimum and maximum, which leave NaN out. From them
    it concludes that x <= upper, or that x is no NaN, for all rows of a file, NaN included: one
    row more or less could then change what all others add. It looks at each row for isfinite, and
    the inverse of an infinite number is finite, while that of NaN is not.
    """
    return value.is_finite() | (1.0 / value).is_finite()


def clip_column(column: str, lower: float, upper: float) -> nw.Expr:
    """Return each row's number, clipped; NULL stays NULL."""
    value = nw.col(column).cast(nw.Float64)
    low, high = nw.lit(lower, nw.Float64), nw.lit(upper, nw.Float64)
    inside = nw.when(value > upper).then(high).otherwise(value)
    return nw.when(value < lower).then(low).otherwise(inside)


def clip_size(column: str, largest: float, dtype: DType, engine: nw.Implementation) -> nw.Expr:
    """Return each row's number, of size at most `largest`; NULL where it holds no value."""
    value, floating = nw.col(column).cast(nw.Float64), dtype.is_float()
    if engine.is_polars() or engine.is_ibis():  # faster than polars' clip
        clipped = clip_column(column, -largest, largest)
        return (
            nw.when(~value.is_nan()).then(clipped) if floating and engine.is_polars() else clipped
        )
    if engine.is_spark_like():  # its division looks at the sign of what it divides, twice
        number = ~value.is_nan() if floating else ~value.is_null()
        return nw.when(number).then(value.clip(-largest, largest))
    inside = (value >= -largest) & (value <= largest)
    end = nw.when(value > 0).then(nw.lit(largest)).otherwise(nw.lit(-largest))
    if floating:
        inside = value.is_finite() & inside
        end = nw.when(is_number(value)).then(end)
    else:
        end = nw.when(~value.is_null()).then(end)
    return nw.when(inside).then(value).otherwise(end)


def duckdb_type(relation: duckdb.DuckDBPyRelation, name: str) -> str:
    """Return the type of a column as DuckDB writes it."""
    return str(dict(zip(relation.columns, relation.types, strict=True))[name])


_PER_MICRO = {"ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}


def polars_number(name: str, dtype: Any, clock: Clock) -> pl.Expr:
    """Return each row's number of a clock, in whole numbers throughout; NULL stays NULL."""
    first, last = clock.ends
    ticks = pl.col(name).to_physical().cast(pl.Int64)
    unit = "ns" if clock.kind == CLOCK else getattr(dtype, "time_unit", "us")
    times, parts = _PER_MICRO[unit]
    ticks = (ticks // parts).clip(first // times, last // times) * times
    return ((ticks - clock.origin) // clock.step).clip(clock.minimum, clock.maximum)


def write_duckdb_number(value: str, kind: str, clock: Clock) -> str:
    """Return each row's number of a clock as SQL; NULL stays NULL, and infinite times are ends.

    Values are cut off in their own type first: nothing here can fail for any row. Of seconds and
    milliseconds, those that microseconds can't hold are left out, and so are intervals within the
    ends whose months or days alone are far beyond them.
    """
    first, last = clock.ends
    there = f"{value} IS NOT NULL"
    if kind == "TIMESTAMPTZ_NS":
        value, kind = f"timezone('UTC', {value})", "TIMESTAMP_NS"
    if kind in {"TIMESTAMP_S", "TIMESTAMP_MS"}:  # of which even comparisons can fail
        value, kind = f"TRY_CAST({value} AS TIMESTAMP)", "TIMESTAMP"
    if kind == "TIMESTAMP_NS":  # as far as it goes
        first, last = (max(min(tick, _NANO_LIMIT), -_NANO_LIMIT) for tick in (first, last))
    if clock.kind == DURATION:
        ends = [f"to_microseconds({tick})" for tick in (first, last)]
    else:
        moments = Clock(clock.kind, 0, 1, 0, last).moments(np.array([first, last], np.float64))
        texts = type_moments(moments, plain_type(clock.kind)).cast(pa.string()).to_pylist()
        zone = "+00" if kind.endswith("ZONE") else ""
        ends = [f"CAST('{text}{zone}' AS {kind})" for text in texts]
    inside = f"greatest({ends[0]}, least({value}, {ends[1]}))"
    if clock.kind == DURATION:  # of which DuckDB's least and greatest compare months, then days
        outside = f"WHEN {value} < {ends[0]} THEN {ends[0]} WHEN {value} > {ends[1]} THEN {ends[1]}"
        inside = f"CASE {outside} ELSE {value} END"
        is_in_range = f"abs(year({value})) < {2**16} AND abs(day({value})) < {2**24}"
        there = f"({is_in_range} OR {value} NOT BETWEEN {ends[0]} AND {ends[1]})"
    ticks = f"epoch_us({inside})"
    if clock.kind == DATE:
        ticks = f"({inside} - DATE '1970-01-01')"
    if kind == "TIMESTAMP_NS":  # rounded down, also before 1970
        ticks = f"(epoch_ns({inside}) // 1000 - CAST(epoch_ns({inside}) % 1000 < 0 AS BIGINT))"
    number = f"({ticks} - ({clock.origin})) // {clock.step}"
    return (
        f"CASE WHEN {there} THEN "
        f"CAST(greatest({clock.minimum}, least({number}, {clock.maximum})) AS BIGINT) END"
    )


def duckdb_duration(ticks: str, unit: str) -> str:
    """Return a whole number of ticks as an interval of SQL, far ones cut off; NULL stays NULL."""
    if unit == "ns":
        micros = f"{ticks} // 1000 - CAST({ticks} % 1000 < 0 AS BIGINT)"
    else:
        per = 10**6 if unit == "s" else _PER_MICRO[unit][0]
        limit = MOST_TICKS // per
        micros = f"greatest({-limit}, least({ticks}, {limit})) * {per}"
    return f"CASE WHEN {ticks} IS NOT NULL THEN to_microseconds({micros}) END"


_NANO_LIMIT = 9_223_372_036_000_000
