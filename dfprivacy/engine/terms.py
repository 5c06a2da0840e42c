"""Write terms in each engine's own language: the same integers from polars, DuckDB and the others.

Every expression maps one row to an integer and looks at that row only. NULL and NaN become NULL,
which no sum and no count sees; +inf and -inf become the ends of a grid. NaN is named before it is
compared with anything, because engines disagree on how it compares. The law is `Term.of`.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import polars as pl
from narwhals.dtypes import DType

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import check_number_column, clip_column
from dfprivacy.engine.files import quote
from dfprivacy.engine.keys import key_expressions, with_categories
from dfprivacy.measurement.linear import (
    Above,
    Category,
    Distinct,
    Equal,
    OnGrid,
    Product,
    Source,
    Term,
)
from dfprivacy.measurement.sums import sum_name

_MAGIC = 1.5 * 2.0**52  # this plus an integer below 2**51 holds that integer in its low bits
_SHIFT = struct.unpack("<q", struct.pack("<d", _MAGIC))[0]
"""The bits of the magic number: cheaper to take from a sum, times the rows, than from each row.

Sums of shifted integers wrap around 2**64, as polars' sums and products do; without the shift they
are below 2**63, so that what is left after it is taken out is exact.
"""


def with_terms(adopted: Adopted, sources: Sequence[Source], numbers: DType) -> nw.LazyFrame[Any]:
    """Return the keys, and one column of integers for each term of each source.

    A row that holds no value in one of a source's columns has NULL in all its terms. Integers that
    are only added up are of the type `numbers`.

    Raises
    ------
    UnsupportedDtypeError, InvalidBoundsError
        When the declared type of a column is not one that a term can read.
    """
    leaves: list[dict[Any, str]] = [
        {
            leaf: f"leaf_{index}_{position}"
            for position, leaf in enumerate(source.leaves or map(_Presence, source.columns))
        }
        for index, source in enumerate(sources)
    ]
    frame, titles = _with_leaves(adopted, sources, leaves, numbers)
    keys = key_expressions(adopted)
    if not keys and not titles:  # all rows are counted
        return adopted.lazy
    single = all(
        len(source.columns) < 2 and not any(isinstance(term, Product) for term in source.terms)
        for source in sources
    )
    if not single:
        frame = frame.select(*keys, *(nw.col(title).alias(name) for name, title in titles.items()))
        titles = dict(zip(titles, titles, strict=True))
    masked, unmasked, products = [], [], {}
    for index, (source, names) in enumerate(zip(sources, leaves, strict=True)):
        columns_of_source = list(names.values())
        if len(source.columns) > 1:  # rows that hold no value in one column have none
            is_missing = (nw.col(name).is_null() for name in columns_of_source)
            present = ~nw.any_horizontal(*is_missing, ignore_nulls=False)
            masked += [nw.when(present).then(nw.col(n)).alias(n) for n in columns_of_source]
        if source.columns and not source.terms:
            unmasked.append(nw.col(titles[columns_of_source[0]]).alias(_term_name(index, 0)))
        for position, term in enumerate(source.terms, start=1):
            if isinstance(term, Product):
                products[_term_name(index, position)] = (term, names)
            else:
                title = titles[names[term]]
                unmasked.append(nw.col(title).alias(_term_name(index, position)))
    if single:
        return frame.select(*keys, *unmasked)
    if masked:
        frame = frame.with_columns(*masked)
    engine = frame.implementation
    others = [name for name in frame.collect_schema() if name not in titles]
    if engine.is_spark_like():  # where // divides floats
        texts = [
            f"{_spark_product(term, columns_of_term)} AS {name}"
            for name, (term, columns_of_term) in products.items()
        ]
        if texts:
            frame = nw.from_native(frame.to_native().selectExpr("*", *texts))
        return frame.select(*others, *unmasked, *products)
    columns = [
        _product(term, columns_of_term, engine).alias(name)
        for name, (term, columns_of_term) in products.items()
    ]
    return frame.select(*others, *unmasked, *columns)


def add_up(
    frame: nw.LazyFrame[Any],
    names: Sequence[str],
    sources: Sequence[Source],
    numbers: DType | None = None,
) -> nw.LazyFrame[Any]:
    """Return the exact sums of a frame of `with_terms` by the columns `names`, as Int64.

    Rows of units have no type `numbers`. Sums of floats that are not exact, which are made again
    with integers, may be NULL.
    """
    engine = frame.implementation
    native: Any = frame.to_native()
    if engine.is_polars():
        sums = add_up_in_polars(sources, shifted=True)
        native = native.group_by(*names).agg(sums) if names else native.select(sums)
    elif engine.is_duckdb():
        kind = None if numbers is None else "HUGEINT" if numbers.is_integer() else "BIGINT"
        aggregates = [*names, *_duckdb_sums(sources, kind)]
        native = native.aggregate(", ".join(aggregates), ", ".join(names))
    elif engine.is_ibis():
        native = native.aggregate(_ibis_sums(native, sources), by=list(names))
    else:
        totals = _read_sums(sources)
        return frame.group_by(*names).agg(*totals) if names else frame.select(*totals)
    added: nw.LazyFrame[Any] = nw.from_native(native)
    return added


def _duckdb_sums(sources: Sequence[Source], kind: str | None) -> Iterator[str]:
    """Yield SQL of the sums, without what `duckdb_on_grid` adds, which is taken out as `kind`."""
    for index, source in enumerate(sources):
        first = _term_name(index, 0 if not source.terms else 1)
        rows = f"count({first})" if source.columns else "count(*)"
        yield f"{rows} AS {sum_name(index)}"
        for position, term in enumerate(source.terms, start=1):
            name = _term_name(index, position)
            total = f"coalesce(sum({name}), 0)"
            if isinstance(term, Distinct):
                total = f"count(DISTINCT {name})"
            elif isinstance(term, Above):  # multiplied once, not row by row
                total = f"CAST({total} AS BIGINT) * {term.weight}"
            elif kind and _is_shifted(term, source):
                half, odd = divmod(term.minimum + term.maximum, 2)
                total = f"(TRY_CAST({total} AS {kind}) + {rows} * {odd}) // 2 + {rows} * {half}"
            yield f"CAST({total} AS BIGINT) AS {sum_name(index, position)}"


def add_up_in_polars(sources: Sequence[Source], *, shifted: bool) -> list[pl.Expr]:
    """Return the exact sums of terms, which polars has written `shifted`, another engine not."""
    sums = []
    for index, source in enumerate(sources):
        first = pl.col(_term_name(index, 1 if source.terms else 0))
        rows = (first.count() if source.columns else pl.len()).cast(pl.Int64)
        sums.append(rows.alias(sum_name(index)))
        for position, term in enumerate(source.terms, start=1):
            values = pl.col(_term_name(index, position))
            total = values.sum().cast(pl.Int64)
            if isinstance(term, Distinct):
                total = values.n_unique().cast(pl.Int64) - values.is_null().any().cast(pl.Int64)
            elif isinstance(term, Above):  # multiplied once, not row by row
                total *= term.weight
            elif shifted and _is_shifted(term, source):
                total -= rows * _SHIFT
            sums.append(total.alias(sum_name(index, position)))
    return sums


def _ibis_sums(native: Any, sources: Sequence[Source]) -> list[Any]:
    """Return the exact sums of terms of an Ibis table."""
    sums = []
    for index, source in enumerate(sources):
        first = native[_term_name(index, 1 if source.terms else 0)] if source.columns else native
        sums.append(first.count().name(sum_name(index)))
        for position, term in enumerate(source.terms, start=1):
            values = native[_term_name(index, position)]
            distinct_values = isinstance(term, Distinct)
            total = count_distinct(values) if distinct_values else values.sum().fill_null(0)
            if isinstance(term, Above):  # multiplied once, not row by row
                total *= term.weight
            sums.append(total.cast("int64").name(sum_name(index, position)))
    return sums


def count_distinct(values: Any) -> Any:
    """Return how many values an Ibis column has, each once; its polars would count NULL too."""
    return values.nunique(where=values.notnull())


def _read_sums(sources: Sequence[Source]) -> list[nw.Expr]:
    """Return the exact sums of terms that an engine has written, in the words of narwhals."""
    sums = []
    for index, source in enumerate(sources):
        if not source.columns:
            sums.append(nw.len().cast(nw.Int64).alias(sum_name(index)))
            continue
        rows = nw.col(_term_name(index, 0 if not source.terms else 1)).count().cast(nw.Int64)
        sums.append(rows.alias(sum_name(index)))
        for position, term in enumerate(source.terms, start=1):
            values = nw.col(_term_name(index, position))
            total = values.sum().cast(nw.Int64)
            if isinstance(term, Distinct):
                total = distinct(values)
            elif isinstance(term, Above):  # multiplied once, not row by row
                total *= term.weight
            sums.append(total.alias(sum_name(index, position)))
    return sums


def distinct(values: nw.Expr) -> nw.Expr:
    """Return how many values a column has, each once, NULL not among them."""
    return values.n_unique().cast(nw.Int64) - values.is_null().any().cast(nw.Int64)


def _term_name(index: int, position: int) -> str:
    return f"term_{index}_{position}"


@dataclass(frozen=True)
class _Presence:
    """1 for a row that holds a value, which need not be a number."""

    column: Hashable


_Number = OnGrid | Above | _Presence
_Leaf = _Number | Distinct | Equal


def _is_shifted(leaf: Any, source: Source) -> bool:
    """Return True if a leaf is added up as a number shifted by the same constant in each row."""
    single = isinstance(leaf, OnGrid) and len(source.columns) == 1
    return single and leaf not in source.factors


def _with_leaves(
    adopted: Adopted,
    sources: Sequence[Source],
    leaves: Sequence[Mapping[_Leaf, str]],
    numbers: DType,
) -> tuple[nw.LazyFrame[Any], dict[str, str]]:
    """Add a column for each leaf, under a name that the frame does not have, in capitals or not."""
    schema, engine = adopted.lazy.collect_schema(), adopted.lazy.implementation
    names_in_use = {str(column).lower() for column in schema}
    titles: dict[str, str] = {}
    columns: list[Any] = []
    categories: dict[str, Category] = {}
    for source, names in zip(sources, leaves, strict=True):
        for leaf, title in names.items():
            free_title = title
            while free_title in names_in_use:
                free_title += "_"
            titles[title] = free_title
            if isinstance(leaf, Distinct | Equal):
                categories[free_title] = leaf.categories[0]
                continue
            name = adopted.values[leaf.column]
            if isinstance(leaf, OnGrid | Above):
                check_number_column(leaf.column, schema[name])
            floating = schema[name].is_float()
            shifted = _is_shifted(leaf, source)
            shifted &= engine.is_polars() or adopted.unit is None
            if engine.is_polars():
                number = _polars_leaf(name, leaf, floating=floating, shifted=shifted)
                columns.append(number.alias(free_title))
            elif engine.is_duckdb():
                is_integer = numbers.is_integer() or leaf in source.factors
                kind = "BIGINT" if is_integer else "DOUBLE"
                term = _duckdb_leaf(quote(name), leaf, kind, floating=floating, shifted=shifted)
                columns.append(f"{term} AS {quote(free_title)}")
            elif engine.is_spark_like():
                columns.append(f"{_spark_leaf(name, leaf, floating=floating)} AS {free_title}")
            else:
                columns.append(_ibis_leaf(name, leaf).alias(free_title))
    lazy = with_categories(adopted, categories) if categories else adopted.lazy
    unit = [] if adopted.unit is None else [adopted.unit.name, *adopted.unit.marks]
    selected = dict.fromkeys([*adopted.keys.values(), *unit, *categories])
    return (_with_numbers(lazy, columns, list(selected)) if columns else lazy), titles


def _with_numbers(
    lazy: nw.LazyFrame[Any], columns: Sequence[Any], titles: Sequence[str]
) -> nw.LazyFrame[Any]:
    """Add columns that are written in the engine's own language to those that are `titles`, or all.

    DuckDB takes long to plan each column, needed or not.
    """
    native, engine = lazy.to_native(), lazy.implementation
    if engine.is_polars():
        native = native.with_columns(columns)
    elif engine.is_duckdb():
        native = native.project(", ".join([*map(quote, titles), *columns]))
    elif engine.is_spark_like():
        native = native.selectExpr("*", *columns)
    else:
        return lazy.with_columns(*columns)
    frame: nw.LazyFrame[Any] = nw.from_native(native)
    return frame


def _product(term: Term, names: Mapping[_Leaf, str], engine: nw.Implementation) -> nw.Expr:
    """Return a term over columns of leaves; no product is negative."""
    if isinstance(term, Above):
        return nw.col(names[term]).cast(nw.Int64) * term.weight
    if not isinstance(term, Product):
        return nw.col(names[term])  # type: ignore[index]
    product = _product(term.left, names, engine) * _product(term.right, names, engine)
    if term.divisor == 1:
        return product
    if not engine.is_ibis():
        return product // term.divisor
    # Ibis divides floats, which is off by one at most: the rest tells
    quotient = (product.cast(nw.Float64) / float(term.divisor)).floor().cast(nw.Int64)
    rest = product - quotient * term.divisor
    more = nw.when(rest >= term.divisor).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))
    return quotient + nw.when(rest < 0).then(nw.lit(-1, nw.Int64)).otherwise(more)


def _polars_leaf(name: str, leaf: _Number, *, floating: bool, shifted: bool) -> pl.Expr:
    """Return a leaf in as few steps a row as polars can take.

    What is no number goes to an end of the grid, and is taken out at last.
    """
    if isinstance(leaf, _Presence):
        column = pl.col(name)
        there = column.is_not_nan() if floating else column.is_not_null()
        return pl.when(there).then(pl.lit(1, pl.Int64))
    value = pl.col(name).cast(pl.Float64)
    if isinstance(leaf, Above):
        integer = value > leaf.threshold
    else:
        grid = leaf.grid
        above = pl.max_horizontal(value, pl.lit(grid.lower))  # faster than conditions and clip
        off = pl.min_horizontal(above, pl.lit(grid.upper)) - grid.origin
        steps = (off * grid.inverse_step).floor() if grid.even else off // grid.step
        integer = (steps + _MAGIC).reinterpret(dtype=pl.Int64)
        if not shifted:
            integer = integer - _SHIFT
    return pl.when(value.is_not_nan() if floating else value.is_not_null()).then(integer)


@dataclass(frozen=True)
class GridText:
    """The numbers of a grid as SQL, all of them DOUBLE."""

    origin: str
    inverse_step: str
    first: str
    last: str

    @property
    def ends(self) -> str:
        """SQL of the difference between twice the integers and those of `duckdb_on_grid`."""
        return f"({self.first} + {self.last})"


def duckdb_double(value: float) -> str:
    """Return a float as SQL that reads back the same bits."""
    return f"CAST('{value!r}' AS DOUBLE)"


_ZERO = duckdb_double(0.0)
_BEYOND = duckdb_double(2.0**972)  # times a whole number: infinite from 2**52 on


def duckdb_number(value: str) -> str:
    """Return SQL that is true for numbers and false for NaN, as `columns.is_number` is.

    The angle of an infinite number is finite. Nothing here can fail for any row, in any setting.
    """
    return f"(isfinite({value}) OR isfinite(atan({value})))"


def duckdb_on_grid(value: str, grid: GridText) -> str:
    """Return twice the integer on a grid of a DOUBLE, less both ends; NULL where it holds no value.

    The value is scaled first, and clipped without a branch: |y - first| - |y - last| is
    2 y - (first + last) between the ends and constant beyond them. For whole numbers y below 2**52
    all of that is exact; larger and infinite ones are named, and go to the ends. Subtraction,
    multiplication and floor are monotone: where a value lies beyond a bound, y is not within it.
    DuckDB works comparisons out beforehand by a file's minimum and maximum, which leave NaN out,
    but looks at each row for isfinite.
    """
    y = f"floor(({value} - {grid.origin}) * {grid.inverse_step})"
    above_first = y
    if grid.first != _ZERO:  # which a macro does not know; DuckDB does before it sees a row
        above_first = f"CASE WHEN {grid.first} = 0 THEN {y} ELSE {y} - {grid.first} END"
    limit = f"sign({value} - {grid.origin}) * ({grid.last} - {grid.first})"
    return (
        f"CASE WHEN isfinite({y} * {_BEYOND}) THEN abs({above_first}) - abs({y} - {grid.last}) "
        f"WHEN {duckdb_number(value)} THEN {limit} END"
    )


def duckdb_above(value: str, threshold: str, *, floating: bool = True) -> str:
    """Return SQL that is true where a DOUBLE exceeds a threshold, and NULL without a value.

    What is finite needs no angle: most rows are told from NaN by one look.
    """
    above = f"{value} > {threshold}"
    if not floating:
        return f"({above})"
    angle = f"WHEN isfinite(atan({value})) THEN {above}"
    return f"CASE WHEN isfinite({value}) THEN {above} {angle} END"


def _duckdb_leaf(column: str, leaf: _Number, kind: str, *, floating: bool, shifted: bool) -> str:
    """Return a leaf of a column of any numeric type, given as SQL."""
    if isinstance(leaf, _Presence):
        there = duckdb_number(column) if floating else f"{column} IS NOT NULL"
        return f"CASE WHEN {there} THEN CAST(1 AS BIGINT) END"
    value = f"CAST({column} AS DOUBLE)"
    if isinstance(leaf, Above):
        return duckdb_above(value, duckdb_double(leaf.threshold), floating=floating)
    numbers = leaf.grid.origin, leaf.grid.inverse_step, leaf.grid.first, leaf.grid.last
    grid = GridText(*(duckdb_double(float(number)) for number in numbers))
    doubled = duckdb_on_grid(value, grid)
    number = doubled if shifted else f"({doubled} + {grid.ends}) * CAST(0.5 AS DOUBLE)"
    return number if kind == "DOUBLE" else f"CAST({number} AS {kind})"


def _spark_leaf(column: str, leaf: _Number, *, floating: bool) -> str:
    """Return a leaf in Spark's SQL; nothing here can raise for any row, in ANSI mode or without.

    A value is clipped first, as a float: floor raises in ANSI mode where no BIGINT is near.
    `greatest` passes NULL over, and NaN is larger than all for `least`, so that whatever a column
    gives when it is worked out twice, the integer is on the grid. Proof: docs/how-to/spark.md.
    """
    number = f"{column} IS NOT NULL" + (f" AND NOT isnan({column})" if floating else "")
    if isinstance(leaf, _Presence):
        return f"CASE WHEN {number} THEN 1L END"
    value = f"CAST({column} AS DOUBLE)"
    if isinstance(leaf, Above):
        above = f"CASE WHEN {value} > {leaf.threshold!r}D THEN 1L ELSE 0L END"
        return f"CASE WHEN {number} THEN {above} END"
    grid = leaf.grid
    clipped = f"least(greatest({value}, {grid.lower!r}D), {grid.upper!r}D)"
    scaled = f"floor(({clipped} - ({grid.origin!r}D)) * {grid.inverse_step!r}D)"
    return f"CASE WHEN {number} THEN {scaled} END"


def _spark_product(term: Term, names: Mapping[_Leaf, str]) -> str:
    if isinstance(term, Above):
        return f"({names[term]} * {term.weight}L)"
    if not isinstance(term, Product):
        return names[term]  # type: ignore[index]
    left, right = (_spark_product(factor, names) for factor in (term.left, term.right))
    return f"(({left} * {right}) div {term.divisor}L)"


def _ibis_leaf(name: str, leaf: _Number) -> nw.Expr:
    """Return a leaf of an Ibis column, where NULL stands for NaN since the table was adopted.

    Only numbers on the grid are scaled: some backends work out what a condition then drops.
    """
    if isinstance(leaf, _Presence):
        return nw.when(~nw.col(name).is_null()).then(nw.lit(1, nw.Int64))
    value = nw.col(name).cast(nw.Float64)
    if isinstance(leaf, Above):
        unit, zero = nw.lit(1, nw.Int64), nw.lit(0, nw.Int64)
        below = nw.when(value <= leaf.threshold).then(zero)
        return nw.when(value > leaf.threshold).then(unit).otherwise(below)
    clipped = clip_column(name, leaf.grid.lower, leaf.grid.upper)
    scaled = (clipped - leaf.grid.origin) * leaf.grid.inverse_step
    return scaled.floor().cast(nw.Int64)
