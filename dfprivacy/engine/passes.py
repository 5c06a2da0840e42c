"""The one pass: every exact sum that a release needs, by group, in one lazy query."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import duckdb
import narwhals as nw
import polars as pl
from narwhals.dtypes import DType

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import check_value_column, key_expressions
from dfprivacy.engine.grid import (
    POLARS_SHIFT,
    grid_integers,
    plain_grid_integers,
    polars_shifted_integers,
    presence,
    whole_quotient,
)
from dfprivacy.engine.public_keys import known_units
from dfprivacy.engine.spark_terms import integer_term, square_term
from dfprivacy.engine.units import scaled, within_groups
from dfprivacy.statistics.grid import Grid
from dfprivacy.statistics.linear_query import Source
from dfprivacy.statistics.statistics import first_name, key_name, rows_name, second_name


def build_pass(
    adopted: Adopted,
    labels: Sequence[Hashable],
    sources: Sequence[Source],
    numbers: DType | None = None,
) -> nw.LazyFrame[Any]:
    """Return the lazy query of one release: key columns, then the sums of each source.

    Grid integers are added up as `numbers`, Int64 unless told; the sums are Int64 whatever it is.

    Raises
    ------
    UnsupportedDtypeError, InvalidBoundsError
        When a column's declared dtype does not allow what is asked of it.
    """
    engine = adopted.lazy.implementation
    integers = _select_integers(adopted, labels, sources, numbers or nw.Int64())
    sums = [sum_ for index, source in enumerate(sources) for sum_ in _sums(index, source, engine)]
    names = [key_name(index) for index in range(len(labels))]
    if adopted.unit is not None:
        integers = _by_unit(integers, adopted, names, sources, sums)
        sums = [nw.col(name).sum().cast(nw.Int64) for name in _sum_names(sources)]
    if not names:
        return integers.select(*sums)
    added = integers.group_by(*names).agg(*sums)
    sorted_after = engine.is_ibis() or engine.is_spark_like()
    return added if sorted_after else _ascending(added, names)


def _ascending(frame: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return a frame sorted by some columns, NULL last, whatever a connection's own order is."""
    if not frame.implementation.is_duckdb():
        return frame.sort(*names, nulls_last=True)
    order = [duckdb.ColumnExpression(name).asc().nulls_last() for name in names]
    native: Any = frame.to_native()
    ascending: nw.LazyFrame[Any] = nw.from_native(native.sort(*order))
    return ascending


def _by_unit(
    integers: nw.LazyFrame[Any],
    adopted: Adopted,
    names: Sequence[str],
    sources: Sequence[Source],
    sums: Sequence[nw.Expr],
) -> nw.LazyFrame[Any]:
    """Return what each unit contributes to each group, within its limits."""
    assert adopted.unit is not None  # noqa: S101 the caller has looked
    of_units = known_units(integers, adopted)
    added = of_units.group_by(*adopted.unit.entries(names)).agg(*sums)
    kept = within_groups(added, names, adopted.unit)
    return scaled(kept, sources, adopted.unit.rows)


def _sum_names(sources: Sequence[Source]) -> list[str]:
    """Return the names of all sums of a pass."""
    return [
        name(index)
        for index, source in enumerate(sources)
        for name in (rows_name, first_name, second_name)[: 1 + source.moments]
    ]


def _select_integers(
    adopted: Adopted, labels: Sequence[Hashable], sources: Sequence[Source], numbers: DType
) -> nw.LazyFrame[Any]:
    """Return the keys and one column of integers a source, each a function of its own row."""
    schema = adopted.lazy.collect_schema()
    engine = adopted.lazy.implementation
    chosen = key_expressions(adopted, labels)
    frame = adopted.lazy
    if engine.is_polars():
        frame = _with_polars_integers(adopted, sources)
    elif engine.is_spark_like():
        frame = _with_spark_integers(adopted, sources)
        chosen += [nw.col(_square_name(index)) for index in _squared(sources)]
    for index, source in enumerate(sources):
        if source.column is not None:
            name = adopted.values[source.column]
            check_value_column(source.column, schema[name], source)
            made = _scratch_name(index, schema)
            expression = (
                nw.col(made)
                if made in frame.collect_schema()
                else _integers(name, source, numbers, engine, floating=schema[name].is_float())
            )
            chosen.append(expression.alias(_integer_name(index)))
    return frame.select(*chosen) if chosen else frame


def _integers(
    name: str, source: Source, numbers: DType, engine: nw.Implementation, *, floating: bool
) -> nw.Expr:
    nan = floating and not engine.is_ibis()  # there it became NULL when the table was adopted
    if source.grid is None:
        return presence(name, floating=nan)
    if engine.is_ibis():
        return plain_grid_integers(name, source.grid)
    chosen = numbers if source.moments == 1 else nw.Int64()  # squares fill 60 bits
    return grid_integers(name, source.grid, chosen, floating=floating)


def _with_polars_integers(adopted: Adopted, sources: Sequence[Source]) -> nw.LazyFrame[Any]:
    """Add the integers of bounded sources in polars' own terms, under names the frame lacks.

    Those that are only added up are shifted; their sums are put right.
    """
    schema = adopted.lazy.collect_schema()
    made: list[pl.Expr] = []
    for index, source in enumerate(sources):
        if source.grid is not None:
            name = adopted.values[source.column]
            check_value_column(source.column, schema[name], source)
            integer = polars_shifted_integers(name, source.grid, floating=schema[name].is_float())
            if source.moments == 2:
                integer = integer - POLARS_SHIFT
            made.append(integer.alias(_scratch_name(index, schema)))
    native: pl.LazyFrame = adopted.lazy.to_native()
    return nw.from_native(native.with_columns(made))


def _with_spark_integers(adopted: Adopted, sources: Sequence[Source]) -> nw.LazyFrame[Any]:
    """Add the integers and their squares in Spark's own terms; the frame's names are ours."""
    schema = adopted.lazy.collect_schema()
    integers = []
    for index, source in enumerate(sources):
        if source.column is not None:
            name, integer = adopted.values[source.column], _integer_name(index)
            check_value_column(source.column, schema[name], source)
            term = integer_term(name, source.grid, floating=schema[name].is_float())
            integers.append(f"{term} AS {integer}")
    squares = [
        f"{square_term(_integer_name(index), grid)} AS {_square_name(index)}"
        for index, grid in _squared(sources).items()
    ]
    native: Any = adopted.lazy.to_native()
    for terms in filter(None, (integers, squares)):  # each stage costs the driver an analysis
        native = native.selectExpr("*", *terms)
    frame: nw.LazyFrame[Any] = nw.from_native(native)
    return frame


def _scratch_name(index: int, schema: nw.Schema) -> str:
    """Return a column name that the frame does not have."""
    name = _integer_name(index)
    while name in schema:
        name += "_"
    return name


def _integer_name(index: int) -> str:
    return f"integer_{index}"


def _squared(sources: Sequence[Source]) -> dict[int, Grid]:
    """Return the grids of the sources whose squares are added up, by index."""
    return {
        index: source.grid
        for index, source in enumerate(sources)
        if source.moments == 2 and source.grid is not None
    }


def _square_name(index: int) -> str:
    return f"square_{index}"


def _sums(index: int, source: Source, engine: nw.Implementation) -> list[nw.Expr]:
    if source.column is None:
        return [nw.len().cast(nw.Int64).alias(rows_name(index))]
    integer = nw.col(_integer_name(index))
    rows, first = integer.count().cast(nw.Int64), integer.sum().cast(nw.Int64)
    sums = [rows.alias(rows_name(index))]
    if source.grid is None:
        return sums
    if engine.is_polars() and source.moments == 1:
        first = first - rows * POLARS_SHIFT
    sums.append(first.alias(first_name(index)))
    if source.moments == 2:
        square = whole_quotient(integer * integer, source.grid.last, engine)
        if engine.is_spark_like():  # where // divides floats
            square = nw.col(_square_name(index))
        sums.append(square.sum().cast(nw.Int64).alias(second_name(index)))
    return sums
