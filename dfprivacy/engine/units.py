"""Bound one privacy unit's rows before they are added up: a function of its own rows alone.

A unit counts in at most so many groups, and in one group as so many rows at most. Sums are first
added up by unit and group and then scaled down; values that are counted by bin are thinned out
evenly. Which groups stay follows the engine's own hash of unit and keys, so that it looks like
chance and comes out the same each time. Proof: docs/how-to/users.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dfprivacy.engine import spark
from dfprivacy.engine.adopt import UNIT, Adopted, UnitColumn
from dfprivacy.engine.keys import number_groups, only_listed
from dfprivacy.engine.run import collect, fetch_rows
from dfprivacy.engine.terms import add_up, with_terms
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.linear import OnGrid, Product, Source
from dfprivacy.measurement.runs import run_starts
from dfprivacy.measurement.sums import sum_name

PLACE = "place"
"""The column of hashes of unit and group."""
_ONE, _NUMBER, _EVERY = "one", "number", "every"
_HALF = 2**32
_PLACE_BITS = 31  # the bits of a hash that order a unit's groups: the others are those of `_HALF`
_PLACES = 2**52


def filter_known_units(frame: nw.LazyFrame[Any], adopted: Adopted) -> nw.LazyFrame[Any]:
    """Return the rows that have a unit and, where keys are public, one of these keys."""
    of_units = frame.drop_nulls(UNIT)  # as IS NOT NULL, of which DuckDB guesses right how few go
    return of_units if adopted.listed_keys is None else only_listed(of_units, adopted.listed_keys)


def within_groups(frame: nw.LazyFrame[Any], unit: UnitColumn, *parts: str) -> nw.LazyFrame[Any]:
    """Return the entries of at most so many groups a unit.

    An entry belongs to one unit and group; those of both differ in the columns `parts`. The groups
    are those with the least hash of unit and keys; keys of the same hash come in their own order.
    """
    names = unit.keys
    if unit.groups is None or not names:
        return frame
    placed = _add_hash(frame, unit.placed)
    if frame.implementation.is_duckdb():  # the same number by one sort
        by = ", ".join(f"{name} ASC NULLS LAST" for name in (f"{PLACE} // {_HALF}", *names))
        rank = "dense_rank" if parts else "row_number"
        ranked = f"{rank}() OVER (PARTITION BY {UNIT} ORDER BY {by}) AS {_NUMBER}"
        native: Any = placed.to_native()
        numbered = native.project(f"*, {ranked}").filter(f"{_NUMBER} <= {unit.groups}")
        limited: nw.LazyFrame[Any] = nw.from_native(numbered)
        return limited
    first = nw.lit(1, nw.Int64).alias(_ONE)
    order = (nw.col(PLACE) // _HALF).alias(PLACE)
    entries = placed.with_columns(first, order)
    if parts:
        number = nw.col(_ONE).cum_sum().over(UNIT, *names, order_by=parts)
        is_first = nw.when(number == 1).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))
        entries = entries.with_columns(is_first.alias(_ONE))
    number = nw.col(_ONE).cum_sum().over(UNIT, order_by=[PLACE, *names, *parts])
    return entries.with_columns(number.alias(_NUMBER)).filter(nw.col(_NUMBER) <= unit.groups)


@dataclass(frozen=True, repr=False)
class UnitRows:
    """Rows of units in memory: the numbers of their units and groups, and other columns. Secret.

    `units` and `groups` are numbered from 0 without gaps, groups in the order of their `keys`.
    `places` are hashes of unit and group.
    """

    keys: pa.Table
    units: Integers
    groups: Integers
    places: Integers
    columns: pa.Table

    def __repr__(self) -> str:
        """Show nothing of them."""
        return "UnitRows()"

    def filter(self, marks: npt.NDArray[np.bool_]) -> UnitRows:
        """Return the rows that are marked."""
        units, groups, places = self.units[marks], self.groups[marks], self.places[marks]
        return UnitRows(self.keys, units, groups, places, self.columns.filter(pa.array(marks)))

    def mark_first(self, limit: int) -> npt.NDArray[np.bool_]:
        """Mark the rows of at most `limit` groups of each unit, and more where hashes are alike."""
        words = _order_words(self.units, self.places)
        ordered = np.sort(words)
        last, _ = _last_words(ordered[run_starts(ordered)], limit)
        marks: npt.NDArray[np.bool_] = words <= last[self.units]
        return marks


def fetch_unit_rows(frame: nw.LazyFrame[Any], adopted: Adopted) -> UnitRows | None:
    """Return the rows of a frame of known units; None where they stay in the engine."""
    assert adopted.unit is not None  # noqa: S101 the caller has looked
    unit = adopted.unit
    table = fetch_rows(_add_hash(frame, unit.placed), adopted)
    return None if table is None else _number_rows(table, unit)


def _number_rows(table: pa.Table, unit: UnitColumn) -> UnitRows:
    """Return rows with the numbers of their units and groups."""
    keys, _, groups = number_groups(table, unit.keys)
    units = number_groups(table, [UNIT]).group
    places = table.column(PLACE).to_numpy()
    columns = table.drop_columns([PLACE, *unit.entries])
    return UnitRows(keys, units, groups, places, columns)


def collect_unit_rows(frame: nw.LazyFrame[Any], adopted: Adopted) -> UnitRows:
    """Return the rows of a frame of known units, however many there are."""
    assert adopted.unit is not None  # noqa: S101 the caller has looked
    unit = adopted.unit
    return _number_rows(collect(_add_hash(frame, unit.placed), adopted.connection), unit)


def sum_by_unit(adopted: Adopted, sources: Sequence[Source]) -> nw.LazyFrame[Any]:
    """Return the sums of every unit in every group, without limits."""
    assert adopted.unit is not None  # noqa: S101 the caller has looked
    rows = filter_known_units(with_terms(adopted, sources, nw.Int64()), adopted)
    return add_up(rows, adopted.unit.entries, sources)


def mark_first_groups(
    units: Integers, places: Integers, groups: Integers, limit: int
) -> npt.NDArray[np.bool_]:
    """Mark the entries of at most `limit` groups of each unit: those that `within_groups` keeps.

    An entry is one unit in one group.
    """
    words = _order_words(units, places)
    last, sizes = _last_words(np.sort(words), limit)
    last = last[units]
    marks: npt.NDArray[np.bool_] = words <= last
    if np.count_nonzero(marks) > sizes.sum():  # hashes begin alike
        ties = np.flatnonzero(words == last)
        ties = ties[np.lexsort((groups[ties], units[ties]))]
        room = sizes - np.bincount(units[words < last], minlength=len(sizes))
        number = np.arange(len(ties)) - np.searchsorted(units[ties], units[ties])
        marks[ties[number >= room[units[ties]]]] = False
    return marks


def thinning_starts(places: Integers) -> Floats:
    """Return where the evenly spaced rows of `thin_rows` start, from 0 to 1, by hashes."""
    return (places % _HALF).astype(np.float64) / float(_HALF)


def _order_words(units: Integers, places: Integers) -> Integers:
    """Return words in the order of units, and of the hashes of each unit's groups."""
    return (units << _PLACE_BITS) + (places >> 63 - _PLACE_BITS)


def _last_words(ordered: Integers, limit: int) -> tuple[Integers, Integers]:
    """Return the `limit`-th of each unit's ordered words, or its last, and its number."""
    starts = run_starts(ordered >> _PLACE_BITS)
    sizes = np.minimum(np.diff(starts, append=len(ordered)), limit)
    return ordered[starts + sizes - 1], sizes


def scale_units(
    frame: nw.LazyFrame[Any], sources: Sequence[Source], rows: int
) -> nw.LazyFrame[Any]:
    """Return the sums of each unit and group as what `rows` rows could have added.

    A source may have a limit of its own. More rows are scaled down, and totals clipped. All are
    whole numbers, rounded down and kept where the partition of unity wants them. The frame has the
    sums of `add_up_units`.
    """
    added, sums = add_up_units(sources), list[nw.Expr]()
    for index, source in enumerate(sources):
        sums += _scale_sums(index, added.index(_raw(source)), source, source.rows or rows)
    frame = frame.with_columns(*sums)
    for index, source in enumerate(sources):
        for tied in _tie_products(index, source):  # one after another: a factor may be tied itself
            frame = frame.with_columns(tied)
    return frame


def add_up_units(sources: Sequence[Source]) -> list[Source]:
    """Return the distinct sources added up for each unit and group, before their bounds."""
    return list(dict.fromkeys(map(_raw, sources)))


def _raw(source: Source) -> Source:
    return replace(source, totals=False, rows=0)


def _scale_sums(index: int, added: int, source: Source, rows: int) -> Iterator[nw.Expr]:
    """Yield sums times rows / held as whole numbers, by the same float operations everywhere.

    Engines work them out for units of few rows too, and must not fail on them.
    """
    rows_held = nw.col(sum_name(added))
    is_within = rows_held <= rows
    yield (
        nw.when(is_within).then(rows_held).otherwise(nw.lit(rows, nw.Int64)).alias(sum_name(index))
    )
    for position, term in enumerate(source.terms, start=1):
        total = nw.col(sum_name(added, position))
        share = total.cast(nw.Float64) * float(rows) / rows_held.clip(rows, None).cast(nw.Float64)
        scaled_total = share.floor().cast(nw.Int64)
        if source.totals and isinstance(term, OnGrid):
            scaled_total = total
        clipped = scaled_total.clip(term.minimum * rows, term.maximum * rows)
        yield nw.when(is_within).then(total).otherwise(clipped).alias(sum_name(index, position))


def _tie_products(index: int, source: Source) -> Iterator[nw.Expr]:
    """Yield sums of products between what the sums of their factors allow.

    Scaling rounds all of them down, so that a coordinate like K rows - 2 first + second could be
    below zero by one.
    """
    for position, term in enumerate(source.terms, start=1):
        if not isinstance(term, Product) or not term.tied:
            continue
        if not {term.left, term.right} <= set(source.terms):
            continue
        sums: dict[Any, Any] = {
            factor: nw.col(sum_name(index, at)) for at, factor in enumerate(source.terms, start=1)
        }
        inside = sums[term]
        low, highs = term.ends(nw.col(sum_name(index)), sums[term.left], sums[term.right])
        inside = nw.when(inside < low).then(low).otherwise(inside)
        for high in highs:
            inside = nw.when(inside > high).then(high).otherwise(inside)
        yield inside.alias(sum_name(index, position))


def thin_rows(
    frame: nw.LazyFrame[Any], value: str, counted: str, unit: UnitColumn
) -> nw.LazyFrame[Any]:
    """Return how many of a unit's rows with each value count: `unit.rows` in one group at most.

    The unit's values in a group are lined up in their order, and every (n / rows)-th counts, from a
    start that the hash of unit and keys has set: each row counts with probability rows / n. The
    numbers of rows before and after an entry, scaled, end at whole numbers, so that they add up to
    `rows` exactly.
    """
    group, rows, zero = [UNIT, *unit.keys], unit.rows, nw.lit(0, nw.Int64)
    values_held = nw.when(~nw.col(value).is_null()).then(nw.col(counted)).otherwise(zero)
    placed = _add_hash(frame, unit.placed).with_columns(values_held.alias(_ONE))
    start = (nw.col(PLACE) % _HALF).cast(nw.Float64) / float(_HALF)
    every = nw.col(_ONE).sum().over(*group)
    until = nw.col(_ONE).cum_sum().over(*group, order_by=value)
    lined = placed.with_columns(start.alias(PLACE), every.alias(_EVERY), until.alias(_NUMBER))
    before = nw.col(_NUMBER) - nw.col(_ONE)
    counts_taken = _count_reached(nw.col(_NUMBER), rows) - _count_reached(before, rows)
    rows_counted = nw.when(nw.col(_EVERY) > rows).then(counts_taken).otherwise(nw.col(_ONE))
    counts = lined.with_columns(rows_counted.alias(counted))
    return counts.filter((nw.col(counted) > 0) | nw.col(value).is_null())


def few_values(
    frame: nw.LazyFrame[Any], value: str, counted: str, unit: UnitColumn
) -> nw.LazyFrame[Any]:
    """Return entries of at most `unit.rows` values of a unit in a group, one entry a value.

    Those with the least hash of unit, keys and value are kept: each unit draws its own, as if by
    chance, so that a value is lost only where all units that have it leave it out. The rows of a
    unit in a group, `unit.rows` at most, stand at the first of its entries.
    """
    group, there = [UNIT, *unit.keys], ~nw.col(value).is_null()
    zero = nw.lit(0, nw.Int64)
    counts = nw.when(there).then(nw.lit(1, nw.Int64)).otherwise(zero).alias(_ONE)
    values_held = nw.when(there).then(nw.col(counted)).otherwise(zero).alias(counted)
    placed = _add_hash(frame, [*unit.placed, value]).with_columns(counts, values_held)
    number = nw.col(_ONE).cum_sum().over(*group, order_by=[PLACE, value]).alias(_NUMBER)
    every = nw.col(counted).sum().over(*group).clip(None, unit.rows).alias(_EVERY)
    limited = placed.with_columns(number, every).filter(nw.col(_NUMBER) <= unit.rows)
    first = (nw.col(_NUMBER) == 1) & (nw.col(_ONE) == 1)
    return limited.with_columns(nw.when(first).then(nw.col(_EVERY)).otherwise(zero).alias(counted))


def _count_reached(number: nw.Expr, rows: int) -> nw.Expr:
    """Return how many of the evenly spaced rows are among the first `number`."""
    every = nw.col(_EVERY).clip(rows, None).cast(nw.Float64)
    share = number.cast(nw.Float64) * float(rows) / every
    return (share + nw.col(PLACE)).floor().cast(nw.Int64)


def _add_hash(frame: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
    """Add a hash of some columns, a whole number below 2**63, by the engine's own function.

    Equal numbers have the same hash in columns of integers and of floats. A missing unit or key
    turns a column of integers into floats in pandas, and decides about no other unit's rows.
    """
    native: Any = frame.drop(PLACE, strict=False).to_native()
    if frame.implementation.is_polars():
        schema = native.select(*names).collect_schema()
        hashed = pl.struct(*(_number(name, schema[name]).alias(name) for name in names))
        placed = native.with_columns((hashed.hash(seed=0) // 2).cast(pl.Int64).alias(PLACE))
    elif frame.implementation.is_ibis():
        placed = native.mutate(**{PLACE: _ibis_hash(native, names)})
    elif frame.implementation.is_spark_like():
        placed = spark.with_row_hash(native, names, PLACE)
    else:
        # hashed again: of several columns DuckDB joins the last one's own hash on by a plain xor
        kinds = dict(zip(native.columns, map(str, native.types), strict=True))
        numbers = [_number_text(name, kinds[name]) for name in names]
        twice = f"hash(hash({', '.join(numbers)}))"
        placed = native.project(f"*, ({twice} // 2)::BIGINT AS {PLACE}")
    lazy: nw.LazyFrame[Any] = nw.from_native(placed)
    return lazy


def _number(name: str, kind: pl.DataType) -> pl.Expr:
    """Return the expression to hash: floats are integers where they are equal."""
    column = pl.col(name)
    if kind in {pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32}:
        return column.cast(pl.Int64)
    if not kind.is_float():
        return column
    integer = column.cast(pl.Int64, strict=False)
    other = (column.cast(pl.Float64).hash(seed=0) // 2).cast(pl.Int64)
    number = pl.when(integer.cast(pl.Float64) == column).then(integer).otherwise(other)
    return pl.when(column.is_not_null()).then(number)


def _number_text(name: str, kind: str) -> str:
    """Return the same in the SQL of DuckDB."""
    if kind in {"TINYINT", "SMALLINT", "INTEGER"}:
        return f"{name}::BIGINT"
    if kind not in {"FLOAT", "DOUBLE"}:
        return name
    integer = f"TRY_CAST({name} AS BIGINT)"
    other = f"(hash({name}::DOUBLE) // 2)::BIGINT"
    number = f"CASE WHEN {integer}::DOUBLE = {name} THEN {integer} ELSE {other} END"
    return f"CASE WHEN {name} IS NOT NULL THEN {number} END"


def _ibis_hash(native: Any, names: Sequence[str]) -> Any:
    """Return a hash of the columns' texts, from 0 to 2**52: backends divide it as floats."""
    numbers = [
        native[name].cast("float64") if native[name].type().is_integer() else native[name]
        for name in names
    ]
    texts = [column.cast("string").fill_null("") for column in numbers]
    joined = texts[0].concat(*(part for text in texts[1:] for part in ("|", text)))
    return ((joined.hash() % _PLACES) + _PLACES) % _PLACES
