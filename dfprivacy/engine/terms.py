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

import duckdb
import narwhals as nw
import polars as pl
from narwhals.dtypes import DType

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import check_term_column, clipped_to
from dfprivacy.engine.files import quoted
from dfprivacy.engine.keys import key_expressions
from dfprivacy.measurement.grid import Grid
from dfprivacy.measurement.linear import Above, OnGrid, Product, Source, Term
from dfprivacy.measurement.sums import sum_name

_MAGIC = 1.5 * 2.0**52  # this plus an integer below 2**51 holds that integer in its low bits
_SHIFT = struct.unpack("<q", struct.pack("<d", _MAGIC))[0]
"""The bits of the magic number: cheaper to take from a sum, times the rows, than from each row.

Sums of shifted integers wrap around 2**64, as polars' sums and products do; without the shift they
are below 2**63, so that what is left after it is taken out is exact.
"""


def with_terms(
    adopted: Adopted,
    labels: Sequence[Hashable],
    sources: Sequence[Source],
    numbers: DType,
) -> nw.LazyFrame[Any]:
    """Return the keys, and one column of integers for each term of each source.

    A row that holds no value in one of a source's columns has NULL in all its terms. Integers that
    are only added up are of the type `numbers`.

    Raises
    ------
    UnsupportedDtypeError, InvalidBoundsError
        When a column's declared dtype does not allow what is asked of it.
    """
    leaves = [
        {leaf: f"leaf_{index}_{place}" for place, leaf in enumerate(_leaves(source))}
        for index, source in enumerate(sources)
    ]
    frame, titles = _with_leaves(adopted, sources, leaves, numbers)
    keys = key_expressions(adopted, labels)
    if not keys and not titles:  # all rows are counted
        return adopted.lazy
    frame = frame.select(*keys, *(nw.col(own).alias(name) for name, own in titles.items()))
    masked, kept, products = [], [], {}
    for index, (source, names) in enumerate(zip(sources, leaves, strict=True)):
        own = list(names.values())
        if len(source.columns) > 1:  # rows that hold no value in one column have none
            present = ~nw.any_horizontal(*(nw.col(n).is_null() for n in own), ignore_nulls=False)
            masked += [nw.when(present).then(nw.col(name)).alias(name) for name in own]
        if source.columns and not source.terms:
            kept.append(nw.col(own[0]).alias(_term_name(index, 0)))
        for place, term in enumerate(source.terms, start=1):
            if isinstance(term, Product):
                products[_term_name(index, place)] = (term, names)
            else:
                kept.append(nw.col(names[term]).alias(_term_name(index, place)))  # type: ignore[index]
    if masked:
        frame = frame.with_columns(*masked)
    engine = frame.implementation
    others = [name for name in frame.collect_schema() if name not in titles]
    if engine.is_spark_like():  # where // divides floats
        texts = [f"{_spark_product(term, own)} AS {name}" for name, (term, own) in products.items()]
        if texts:
            frame = nw.from_native(frame.to_native().selectExpr("*", *texts))
        return frame.select(*others, *kept, *products)
    made = [_product(term, own, engine).alias(name) for name, (term, own) in products.items()]
    return frame.select(*others, *kept, *made)


def sums_of(sources: Sequence[Source], engine: nw.Implementation) -> list[nw.Expr]:
    """Return the exact sums of a frame that `with_terms` has made."""
    sums = []
    for index, source in enumerate(sources):
        if not source.columns:
            sums.append(nw.len().cast(nw.Int64).alias(sum_name(index)))
            continue
        rows = nw.col(_term_name(index, 0 if not source.terms else 1)).count().cast(nw.Int64)
        sums.append(rows.alias(sum_name(index)))
        for place, term in enumerate(source.terms, start=1):
            total = nw.col(_term_name(index, place)).sum().cast(nw.Int64)
            if engine.is_polars() and _is_shifted(term, source):
                total = total - rows * _SHIFT
            sums.append(total.alias(sum_name(index, place)))
    return sums


def _term_name(index: int, place: int) -> str:
    return f"term_{index}_{place}"


@dataclass(frozen=True)
class _Presence:
    """1 for a row that holds a value, which need not be a number."""

    column: Hashable


_Leaf = OnGrid | Above | _Presence


def _leaves(source: Source) -> list[_Leaf]:
    """Return what is read off single columns: the terms, the factors of products, or presence."""
    found: list[_Leaf] = []
    for term in source.terms:
        found += [leaf for leaf in _factors(term) if leaf not in found]
    return found or [_Presence(column) for column in source.columns]


def _factors(term: Term) -> Iterator[_Leaf]:
    if isinstance(term, Product):
        yield from _factors(term.left)
        yield from _factors(term.right)
    else:
        assert isinstance(term, OnGrid | Above)  # noqa: S101 there are no other terms
        yield term


def _in_product(leaf: Any, source: Source) -> bool:
    return any(leaf in _factors(term) for term in source.terms if isinstance(term, Product))


def _is_shifted(leaf: Any, source: Source) -> bool:
    """Tell whether polars adds up a leaf with the bits of the magic number."""
    single = isinstance(leaf, OnGrid) and len(source.columns) == 1
    return single and not _in_product(leaf, source)


def _with_leaves(
    adopted: Adopted,
    sources: Sequence[Source],
    leaves: Sequence[Mapping[_Leaf, str]],
    numbers: DType,
) -> tuple[nw.LazyFrame[Any], dict[str, str]]:
    """Add a column for each leaf, under a name that the frame does not have, in capitals or not."""
    schema, engine = adopted.lazy.collect_schema(), adopted.lazy.implementation
    taken = {str(column).lower() for column in schema}
    titles: dict[str, str] = {}
    made: list[Any] = []
    for source, names in zip(sources, leaves, strict=True):
        for leaf, title in names.items():
            own = title
            while own in taken:
                own += "_"
            titles[title] = own
            name = adopted.values[leaf.column]
            check_term_column(leaf.column, schema[name], leaf)
            floating = schema[name].is_float()
            if engine.is_polars():
                shifted = _is_shifted(leaf, source)
                made.append(_polars_leaf(name, leaf, floating=floating, shifted=shifted).alias(own))
            elif engine.is_duckdb():
                whole = numbers.is_integer() or _in_product(leaf, source)
                kind = "BIGINT" if whole else "DOUBLE"
                term = _duckdb_leaf(quoted(name), leaf, kind, floating=floating)
                made.append(duckdb.SQLExpression(term).alias(own))
            elif engine.is_spark_like():
                made.append(f"{_spark_leaf(name, leaf, floating=floating)} AS {own}")
            else:
                made.append(_ibis_leaf(name, leaf).alias(own))
    native: Any = adopted.lazy.to_native()
    if not made:
        return adopted.lazy, titles
    if engine.is_polars():
        native = native.with_columns(made)
    elif engine.is_duckdb():
        native = native.select(duckdb.StarExpression(), *made)
    elif engine.is_spark_like():
        native = native.selectExpr("*", *made)
    else:
        return adopted.lazy.with_columns(*made), titles
    frame: nw.LazyFrame[Any] = nw.from_native(native)
    return frame, titles


def _product(term: Term, names: Mapping[_Leaf, str], engine: nw.Implementation) -> nw.Expr:
    """Return a term over columns of leaves; no product is negative."""
    if not isinstance(term, Product):
        return nw.col(names[term])  # type: ignore[index]
    product = _product(term.left, names, engine) * _product(term.right, names, engine)
    if term.divisor == 1:
        return product
    if not engine.is_ibis():
        return product // term.divisor
    # Ibis divides floats, which is off by one at most: the rest tells
    near = (product.cast(nw.Float64) / float(term.divisor)).floor().cast(nw.Int64)
    rest = product - near * term.divisor
    more = nw.when(rest >= term.divisor).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))
    return near + nw.when(rest < 0).then(nw.lit(-1, nw.Int64)).otherwise(more)


def _polars_leaf(name: str, leaf: _Leaf, *, floating: bool, shifted: bool) -> pl.Expr:
    """Return a leaf in as few steps a row as polars can take.

    To polars NaN is larger than any number: it goes to the upper end, and is taken out at last.
    """
    if isinstance(leaf, _Presence):
        column = pl.col(name)
        there = column.is_not_nan() if floating else column.is_not_null()
        return pl.when(there).then(pl.lit(1, pl.Int64))
    value = pl.col(name).cast(pl.Float64)
    if isinstance(leaf, Above):
        integer = (value > leaf.threshold).cast(pl.Int64)
    else:
        grid = leaf.grid
        clipped = (
            pl.when(value < grid.lower)
            .then(grid.lower)
            .when(value > grid.upper)
            .then(grid.upper)
            .otherwise(value)
        )
        whole = (clipped - grid.origin) // grid.step
        integer = (whole + _MAGIC).reinterpret(dtype=pl.Int64)
        if not shifted:
            integer = integer - _SHIFT
    return pl.when(value.is_not_nan()).then(integer) if floating else integer


@dataclass(frozen=True)
class GridText:
    """The numbers of a grid as SQL."""

    lower: str
    upper: str
    origin: str
    inverse_step: str
    first: str
    last: str


def _duckdb_double(value: float) -> str:
    """Return a float as SQL that reads back the same bits."""
    return f"CAST('{value!r}' AS DOUBLE)"


def _grid_text(grid: Grid) -> GridText:
    ends = (grid.lower, grid.upper, grid.origin, grid.inverse_step)
    lower, upper, origin, inverse = map(_duckdb_double, ends)
    return GridText(lower, upper, origin, inverse, str(grid.first), str(grid.last))


def duckdb_number(value: str) -> str:
    """Tell a number, finite or not, from NaN, as `dfprivacy.engine.columns.is_number` does."""
    return f"(isfinite({value}) OR isfinite(CAST(1 AS DOUBLE) / {value}))"


def duckdb_on_grid(
    value: str, grid: GridText, kind: str = "BIGINT", *, floating: bool = True, cast: str = "CAST"
) -> str:
    """Return the integer on a grid of a DOUBLE, given as SQL; NULL where it holds no value."""
    number = f" AND {duckdb_number(value)}" if floating else ""
    finite = f"isfinite({value}) AND " if floating else ""
    scaled = f"floor(({value} - {grid.origin}) * {grid.inverse_step})"
    if kind == "BIGINT":
        scaled = f"{cast}({scaled} AS BIGINT)"
    return (
        f"CASE WHEN {finite}{value} >= {grid.lower} AND {value} <= {grid.upper} THEN {scaled} "
        f"WHEN {value} < {grid.lower}{number} THEN CAST({grid.first} AS {kind}) "
        f"WHEN {value} > {grid.upper}{number} THEN CAST({grid.last} AS {kind}) END"
    )


def duckdb_above(value: str, threshold: str, *, floating: bool = True) -> str:
    """Return 1 where a DOUBLE exceeds a threshold, else 0; NULL where it holds no value."""
    number = f" AND {duckdb_number(value)}" if floating else ""
    above = f"WHEN {value} > {threshold}{number} THEN CAST(1 AS BIGINT)"
    return f"CASE {above} WHEN {value} <= {threshold}{number} THEN CAST(0 AS BIGINT) END"


def _duckdb_leaf(column: str, leaf: _Leaf, kind: str, *, floating: bool) -> str:
    """Return a leaf of a column of any numeric type, given as SQL."""
    if isinstance(leaf, _Presence):
        there = duckdb_number(column) if floating else f"{column} IS NOT NULL"
        return f"CASE WHEN {there} THEN CAST(1 AS BIGINT) END"
    value = f"CAST({column} AS DOUBLE)"
    if isinstance(leaf, Above):
        return duckdb_above(value, _duckdb_double(leaf.threshold), floating=floating)
    return duckdb_on_grid(value, _grid_text(leaf.grid), kind, floating=floating)


def _spark_leaf(column: str, leaf: _Leaf, *, floating: bool) -> str:
    """Return a leaf in Spark's SQL; nothing here can raise for any row, in ANSI mode or without.

    A value is clipped first, as a float: floor raises in ANSI mode where no BIGINT is near.
    `greatest` passes NULL over, and NaN is larger than all for `least`, so that whatever a column
    gives when it is worked out twice, the integer is on the grid. Proof: docs/spark.md.
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
    if not isinstance(term, Product):
        return names[term]  # type: ignore[index]
    left, right = (_spark_product(own, names) for own in (term.left, term.right))
    return f"(({left} * {right}) div {term.divisor}L)"


def _ibis_leaf(name: str, leaf: _Leaf) -> nw.Expr:
    """Return a leaf of an Ibis column, where NULL stands for NaN since the table was adopted.

    Only numbers on the grid are scaled: some backends work out what a condition then drops.
    """
    if isinstance(leaf, _Presence):
        return nw.when(~nw.col(name).is_null()).then(nw.lit(1, nw.Int64))
    value = nw.col(name).cast(nw.Float64)
    if isinstance(leaf, Above):
        one, zero = nw.lit(1, nw.Int64), nw.lit(0, nw.Int64)
        below = nw.when(value <= leaf.threshold).then(zero)
        return nw.when(value > leaf.threshold).then(one).otherwise(below)
    clipped = clipped_to(name, leaf.grid.lower, leaf.grid.upper)
    scaled = (clipped - leaf.grid.origin) * leaf.grid.inverse_step
    return scaled.floor().cast(nw.Int64)
