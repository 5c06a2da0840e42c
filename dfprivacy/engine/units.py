"""Bound one privacy unit's rows before they are added up: a function of its own rows alone.

A unit counts in at most so many groups, and in one group as so many rows at most. Sums are first
added up by unit and group and then scaled down; values that are counted by bin are thinned out
evenly. Which groups stay follows the engine's own hash of unit and keys, so that it looks like
chance and comes out the same each time. Proof: docs/how-to/users.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dfprivacy.engine import spark
from dfprivacy.engine.adopt import UNIT, Adopted, UnitColumn
from dfprivacy.engine.columns import are_whole
from dfprivacy.engine.embedded import interruptible
from dfprivacy.engine.keys import (
    compressed,
    key_expressions,
    number_groups,
    only_listed,
    ranks,
)
from dfprivacy.engine.progress import watched
from dfprivacy.engine.run import exact_table
from dfprivacy.engine.terms import sums_of, with_terms
from dfprivacy.measurement.binning import ByBits, Floats, Integers, Scratch, places_of, values_of
from dfprivacy.measurement.linear import OnGrid, Product, Source
from dfprivacy.measurement.runs import run_starts
from dfprivacy.measurement.sums import key_name, sum_name
from dfprivacy.release.terms import LARGEST_LIMIT

_PLACE, _HASH, _ONE, _NUMBER, _EVERY, _WORD = "place", "hash", "one", "number", "every", "word"
_ROWS, _MOST, _GROUPS, _UNITS = "rows", "most", "groups", "units"
_HELD, _FIRSTS, _SECONDS = "held", "firsts", "seconds"
_ALL_ROWS = Source(())
_HALF = 2**32
_PLACES = 2**52
_PLACE_BITS = 31
_WORDS = 2**63
_FEW_UNITS = 2**16
_BATCH, _MOST_BYTES = 2**20, 2**30


def known_units(frame: nw.LazyFrame[Any], adopted: Adopted) -> nw.LazyFrame[Any]:
    """Return the rows that have a unit and, where keys are public, one of these keys."""
    of_units = frame.drop_nulls(UNIT)  # as IS NOT NULL, of which DuckDB guesses right how few go
    return only_listed(of_units, adopted.listed) if any(adopted.listed) else of_units


def within_groups(
    frame: nw.LazyFrame[Any], names: Sequence[str], unit: UnitColumn, *apart: str
) -> nw.LazyFrame[Any]:
    """Return the entries of at most so many groups a unit.

    An entry belongs to one unit and group; `apart` names what tells the entries of both apart. The
    groups are those with the least hash of unit and keys; keys of the same hash come in their own
    order.
    """
    if unit.groups is None or not names:
        return frame
    placed = _placed(frame, unit.placed(names))
    if frame.implementation.is_duckdb():  # the same number by one sort
        by = ", ".join(f"{name} ASC NULLS FIRST" for name in (f"{_PLACE} // {_HALF}", *names))
        rank = "dense_rank" if apart else "row_number"
        ranked = f"{rank}() OVER (PARTITION BY {UNIT} ORDER BY {by}) AS {_NUMBER}"
        native: Any = placed.to_native()
        found = native.project(f"*, {ranked}").filter(f"{_NUMBER} <= {unit.groups}")
        kept: nw.LazyFrame[Any] = nw.from_native(found)
        return kept
    first = nw.lit(1, nw.Int64).alias(_ONE)
    order = (nw.col(_PLACE) // _HALF).alias(_PLACE)
    entries = placed.with_columns(first, order)
    if apart:
        number = nw.col(_ONE).cum_sum().over(UNIT, *names, order_by=apart)
        entries = entries.with_columns((number == 1).cast(nw.Int64).alias(_ONE))
    number = nw.col(_ONE).cum_sum().over(UNIT, order_by=[_PLACE, *names, *apart])
    return entries.with_columns(number.alias(_NUMBER)).filter(nw.col(_NUMBER) <= unit.groups)


def entries_of_units(
    frame: nw.LazyFrame[Any],
    names: Sequence[str],
    unit: UnitColumn,
    sums: Sequence[nw.Expr],
    *,
    in_memory: bool,
) -> nw.LazyFrame[Any]:
    """Return the sums of each unit and group, of at most so many groups a unit."""
    keys, added = unit.entries(names), frame.group_by(*unit.entries(names)).agg(*sums)
    whole = in_memory and are_whole(frame.collect_schema(), keys)
    if not (whole and frame.implementation.is_polars()):
        return within_groups(added, names, unit)

    def quick(rows: pl.DataFrame) -> pl.DataFrame:
        entries = _packed_entries(rows, names, unit, sums)
        return entries.select(list(found)).collect(engine="streaming")

    found = added.drop(UNIT).to_native().collect_schema()
    native: Any = frame.to_native()
    lazy: nw.LazyFrame[Any] = nw.from_native(native.map_batches(quick, schema=found))
    return lazy


def hashed_rows(
    frame: nw.LazyFrame[Any], names: Sequence[str], adopted: Adopted, beside: int = 0
) -> pa.Table | None:
    """Return the rows of a frame with its engine's hash of unit and keys: the same groups count.

    None where they, with so many columns of numbers `beside` them, would take too much memory.
    """
    unit, connection = adopted.unit, adopted.connection
    assert unit is not None  # noqa: S101 the caller has looked
    placed = _placed(frame, unit.placed(names)).rename({_PLACE: _HASH})
    native: Any = placed.to_native()

    def size_of(rows: pa.Table | pa.RecordBatch) -> int:
        return int(rows.nbytes + 8 * beside * rows.num_rows)

    def read() -> pa.Table | None:
        if placed.implementation.is_polars():
            table: pa.Table = native.collect(engine="streaming").to_arrow()
            return table if size_of(table) <= _MOST_BYTES else None
        reader, size = native.to_arrow_reader(_BATCH), 0
        batches: list[pa.RecordBatch] = []
        for batch in reader:
            batches.append(batch)
            size += size_of(batch)
            if size > _MOST_BYTES:
                return None
        return pa.Table.from_batches(batches, reader.schema)

    if connection is not None:
        return interruptible(read, connection)
    with watched():
        return read()


class UnitRows:
    """Rows of units, of which those beyond the limits are left out. Secret.

    The keys of groups are in `keys`. An entry is a unit in a group.
    """

    beside = 8  # columns that are made of rows, about

    def __init__(self, table: pa.Table, names: Sequence[str], unit: UnitColumn) -> None:
        found = number_groups(table.select(list(names)), names, None)
        self.keys, self._most, self._table = found.keys, unit.rows, table
        units, _ = ranks(table.column(UNIT))
        self._entry = compressed(units * found.groups + _nulls_first(found.keys)[found.group])
        self._rows = np.bincount(self._entry)
        places, self._group = np.zeros_like(self._rows), np.zeros_like(self._rows)
        places[self._entry] = table.column(_HASH).to_numpy()
        self._group[self._entry] = found.group
        self._start = (places % _HALF).astype(np.float64) / float(_HALF)
        self._left_out = None
        if unit.groups is not None and names:
            of_unit = np.zeros_like(places)
            of_unit[self._entry] = units
            self._left_out = _beyond(of_unit, places // _HALF, unit.groups)
        if self._left_out is not None:
            self._rows[self._left_out] = 0

    def __repr__(self) -> str:
        """Show nothing of them."""
        return "UnitRows()"

    def thinned(
        self, column: str, binning: ByBits, scratch: Scratch, size: int
    ) -> Iterator[tuple[Integers, Floats]]:
        """Yield the groups of rows and their values, so many at a time, as `thinned` counts them.

        There is a row of every group that a unit is in. A row whose value is NaN has none, or is
        beyond the limits.
        """
        held = self._held(column)
        over, words = held > self._most, []
        for entry, values in self._blocks(column, size):
            many = over[entry] & ~np.isnan(values)
            if many.any():
                word = entry[many] << 32
                word += places_of(values[many], binning, scratch)
                words.append(word)
            yield self._group[entry], np.where(many, np.nan, values)
        ordered = pl.Series(np.concatenate([*words, np.zeros(0, np.int64)])).sort().to_numpy()
        begins = np.cumsum(np.where(over, held, 0)) - held
        for first in range(0, len(ordered), size):
            word = ordered[first : first + size]
            places = word.astype(np.int32)
            entry = (word - places) >> 32
            number, every = first + np.arange(len(word)) - begins[entry], held[entry]
            start = self._start[entry]
            until, before = (
                np.floor(line * float(self._most) / every + start) for line in (number + 1, number)
            )
            taken = until > before
            yield self._group[entry[taken]], values_of(places[taken], binning)

    def _held(self, column: str) -> Integers:
        """Return how many values each entry has; none where it is left out."""
        held = self._rows.copy()
        for entry, values in self._blocks(column, _BATCH):
            missing = np.isnan(values)
            if missing.any():
                np.subtract.at(held, entry[missing], 1)
        return held

    def _blocks(self, column: str, size: int) -> Iterator[tuple[Integers, Floats]]:
        """Yield the entries and the values of rows that are not left out, at least once."""
        first = 0
        for batch in self._table.column(column).chunks or [pa.array([], pa.float64())]:
            whole = batch.fill_null(math.nan).to_numpy(zero_copy_only=False)
            for start in range(0, max(len(whole), 1), size):
                values = whole[start : start + size]
                entry = self._entry[first : first + len(values)]
                first += len(values)
                if self._left_out is not None:
                    kept = ~self._left_out[entry]
                    entry, values = entry[kept], values[kept]
                yield entry, values


def _beyond(units: Integers, places: Integers, most: int) -> npt.NDArray[np.bool_] | None:
    """Tell the entries of each unit after so many with the least places; None where there are none.

    Entries come in the order of their units, and of the same place the first ones count.
    """
    groups = np.bincount(units)
    if int(groups.max(initial=0)) <= most:
        return None
    words = (units << _PLACE_BITS) + places
    last = np.cumsum(groups) - groups + np.minimum(groups, most) - 1
    limits = pl.Series(words).sort().to_numpy()[last][units]
    beyond: npt.NDArray[np.bool_] = words > limits
    same = np.flatnonzero(words == limits)
    if len(same) > np.count_nonzero(groups):  # hashes begin alike
        room = np.minimum(groups, most) - np.bincount(units[words < limits], minlength=len(groups))
        number = np.arange(len(same)) - np.searchsorted(units[same], units[same])
        beyond[same[number >= room[units[same]]]] = True
    return beyond


def _nulls_first(keys: pa.Table) -> Integers:
    """Return the place of each group where NULL comes before other keys, in every column."""
    if not keys.num_columns:
        return np.zeros(1, dtype=np.int64)
    ordered: Any = pl.from_arrow(keys)
    place = np.empty(keys.num_rows, dtype=np.int64)
    place[ordered.select(pl.arg_sort_by(keys.column_names)).to_series().to_numpy()] = np.arange(
        keys.num_rows
    )
    return place


def _packed_entries(
    rows: pl.DataFrame, names: Sequence[str], unit: UnitColumn, sums: Sequence[nw.Expr]
) -> pl.LazyFrame:
    """Return the entries of `within_groups`, by whole keys, and their sums.

    Where most rows are entries by themselves, those beyond a unit's groups go before the others are
    added up, else after. There are more entries than marks where hashes begin alike: units with too
    many are left to `within_groups` then.
    """
    groups = unit.groups if names and rows.height else None
    most = min(max(4 * rows.height, _FEW_UNITS), _HALF)
    if groups is not None and _Word.of(rows, [UNIT]).size > most:
        rank = pl.col(UNIT).rank("dense").cast(rows.schema[UNIT])  # near each other, unlike units
        rows = rows.with_columns(_hashed(rows, unit.placed(names)).alias(_HASH), rank)
    word = _Word.of(rows, unit.entries(names))
    if groups is None:
        return word.added_up(rows, sums).lazy().with_columns(word.keys())
    some = rows.select(word.code().approx_n_unique()).item() if word.fits else rows.height
    early, marks = 2 * some > rows.height, 0
    if early:
        rows, marks = _first_groups(rows, unit.placed(names), groups)
    hashes = [nw.col(_HASH).min()] if _HASH in rows.columns else []
    added = word.added_up(rows, sums if early else [*sums, *hashes])
    entries = added.lazy().with_columns(word.keys())
    if not early:
        added, marks = _first_groups(entries.collect(), unit.placed(names), groups)
        entries = added.lazy()
    if added.height == marks:
        return entries
    units = entries.select(pl.col(UNIT).cast(pl.Int64)).collect().to_series().to_numpy()
    more = np.flatnonzero(np.bincount(units - units.min()) > groups) + units.min()
    several = pl.col(UNIT).is_in(pl.Series(more, dtype=rows.schema[UNIT]).implode())
    again = nw.from_native(rows.lazy().filter(several)).group_by(*unit.entries(names))
    others: Any = within_groups(again.agg(*sums, *hashes), names, unit).to_native()
    shown = [own for own in entries.collect_schema() if own not in {_WORD, _HASH}]
    kept: pl.LazyFrame = pl.concat(own.select(shown) for own in (entries.filter(~several), others))
    return kept


class _Word(NamedTuple):
    """How whole keys go into one number: the least of each, and how many there can be. Secret."""

    places: Sequence[tuple[str, Any, int, int]]

    def __repr__(self) -> str:
        """Show nothing of them."""
        return "_Word()"

    @classmethod
    def of(cls, rows: pl.DataFrame, names: Sequence[str]) -> _Word:
        """Return the word of keys as far apart as those of some rows; the last place is NULL's."""
        places = []
        for name in names:
            least, most = rows.select(pl.min(name), pl.max(name).alias("")).row(0)
            width = 1 if least is None else most - least + 2
            places.append((name, rows.schema[name], least or 0, width))
        return cls(places)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return math.prod(width for *_, width in self.places)

    @property
    def fits(self) -> bool:
        """Tell whether the number has 63 bits."""
        return self.size <= _WORDS

    def code(self) -> pl.Expr:
        """Return the number of a row's keys."""
        code = pl.lit(0, pl.Int64)
        for name, _, least, width in self.places:
            code = code * width + (pl.col(name).cast(pl.Int64) - least).fill_null(width - 1)
        return code

    def keys(self) -> Iterator[pl.Expr]:
        """Yield the keys of what has been added up."""
        code = pl.col(_WORD)
        for name, dtype, least, width in reversed(self.places if self.fits else []):
            place, code = code % width, code // width
            yield pl.when(place < width - 1).then(place + least).cast(dtype).alias(name)

    def added_up(self, rows: pl.DataFrame, sums: Sequence[nw.Expr]) -> pl.DataFrame:
        """Return sums by the number, or by the keys where it does not fit."""
        lazy, by = rows.lazy(), [name for name, *_ in self.places]
        if self.fits:
            lazy, by = lazy.with_columns(self.code().alias(_WORD)), [_WORD]
        query: Any = nw.from_native(lazy).group_by(*by).agg(*sums).to_native()
        added: pl.DataFrame = query.collect(engine="streaming")
        return added


def _first_groups(rows: pl.DataFrame, hashed: Sequence[str], most: int) -> tuple[pl.DataFrame, int]:
    """Return the rows with the least marks, at most so many different ones a unit, and how many.

    A mark is the unit's number above the part of the hash that `within_groups` looks at.
    """
    place = (_hashed(rows, hashed) // 2 ** (63 - _PLACE_BITS)).cast(pl.Int64)
    number = pl.col(UNIT).cast(pl.Int64) - rows.select(pl.min(UNIT)).item()
    marks = rows.lazy().select(number * 2**_PLACE_BITS + place).collect(engine="streaming")
    words, ordered = marks.to_series().to_numpy(), marks.to_series().sort().to_numpy()
    ordered = ordered[run_starts(ordered)]
    of_unit = ordered >> _PLACE_BITS
    starts = run_starts(of_unit)
    groups = np.diff(starts, append=len(ordered))
    last = starts + np.minimum(groups, most) - 1
    limits = np.zeros(of_unit[-1] + 1, dtype=np.int64)
    limits[of_unit[last]] = ordered[last]
    few = rows.filter(pl.Series(words <= limits[words >> _PLACE_BITS]))
    return few, int((last - starts + 1).sum())


def scaled(frame: nw.LazyFrame[Any], sources: Sequence[Source], rows: int) -> nw.LazyFrame[Any]:
    """Return the sums of each unit and group as what `rows` rows could have added.

    Those of more rows are scaled down, and totals clipped. All are whole numbers, rounded down and
    kept where the partition of unity wants them. The frame has the sums of the `unscaled` sources.
    """
    numbered, added = list(enumerate(sources)), unscaled(sources)
    frame = frame.with_columns(
        *(
            one
            for index, own in numbered
            for one in _scaled(index, added.index(replace(own, totals=False)), own, rows)
        )
    )
    for each in numbered:
        for own in _tied(*each):  # one after another: a factor may be tied itself
            frame = frame.with_columns(own)
    return frame


def unscaled(sources: Sequence[Source]) -> list[Source]:
    """Return what is added up of each unit and group, once, however it is bounded then."""
    return list(dict.fromkeys(replace(own, totals=False) for own in sources))


def _scaled(index: int, added: int, source: Source, rows: int) -> Iterator[nw.Expr]:
    """Yield sums times rows / held as whole numbers, by the same float operations everywhere.

    Engines work them out for units of few rows too, and must not fail on them.
    """
    held = nw.col(sum_name(added))
    few = held <= rows
    yield nw.when(few).then(held).otherwise(nw.lit(rows, nw.Int64)).alias(sum_name(index))
    for place, term in enumerate(source.terms, start=1):
        total = nw.col(sum_name(added, place))
        share = total.cast(nw.Float64) * float(rows) / held.clip(rows, None).cast(nw.Float64)
        wanted = share.floor().cast(nw.Int64)
        if source.totals and isinstance(term, OnGrid):
            wanted = total
        whole = wanted.clip(term.least * rows, term.most * rows)
        yield nw.when(few).then(total).otherwise(whole).alias(sum_name(index, place))


def _tied(index: int, source: Source) -> Iterator[nw.Expr]:
    """Yield sums of products between what the sums of their factors allow.

    Scaling rounds all of them down, so that a coordinate like K rows - 2 first + second could be
    below zero by one.
    """
    for place, term in enumerate(source.terms, start=1):
        if not isinstance(term, Product) or not term.tied:
            continue
        if not {term.left, term.right} <= set(source.terms):
            continue
        sums: dict[Any, Any] = {
            own: nw.col(sum_name(index, at)) for at, own in enumerate(source.terms, start=1)
        }
        inside = sums[term]
        least, mosts = term.ends(nw.col(sum_name(index)), sums[term.left], sums[term.right])
        inside = nw.when(inside < least).then(least).otherwise(inside)
        for most in mosts:
            inside = nw.when(inside > most).then(most).otherwise(inside)
        yield inside.alias(sum_name(index, place))


def thinned(
    frame: nw.LazyFrame[Any], names: Sequence[str], value: str, counted: str, unit: UnitColumn
) -> nw.LazyFrame[Any]:
    """Return how many of a unit's rows with each value count: `unit.rows` in one group at most.

    The unit's values in a group are lined up in their order, and every (n / rows)-th counts, from a
    start that the hash of unit and keys has set: each row counts with probability rows / n. The
    numbers of rows before and after an entry, scaled, end at whole numbers, so that they add up to
    `rows` exactly.
    """
    group, rows = [UNIT, *names], unit.rows
    held = nw.when(~nw.col(value).is_null()).then(nw.col(counted)).otherwise(nw.lit(0, nw.Int64))
    placed = _placed(frame, unit.placed(names)).with_columns(held.alias(_ONE))
    start = (nw.col(_PLACE) % _HALF).cast(nw.Float64) / float(_HALF)
    every = nw.col(_ONE).sum().over(*group)
    until = nw.col(_ONE).cum_sum().over(*group, order_by=value)
    lined = placed.with_columns(
        start.alias(_PLACE), every.alias(_EVERY), until.alias(_NUMBER)
    )  # fmt: skip
    before = nw.col(_NUMBER) - nw.col(_ONE)
    taken = _reached(nw.col(_NUMBER), rows) - _reached(before, rows)
    kept = nw.when(nw.col(_EVERY) > rows).then(taken).otherwise(nw.col(_ONE))
    counts = lined.with_columns(kept.alias(counted))
    return counts.filter((nw.col(counted) > 0) | nw.col(value).is_null())


def few_values(
    frame: nw.LazyFrame[Any], names: Sequence[str], value: str, counted: str, unit: UnitColumn
) -> nw.LazyFrame[Any]:
    """Return entries of at most `unit.rows` values of a unit in a group, one entry a value.

    Those with the least hash of unit, keys and value are kept: each unit draws its own, as if by
    chance, so that a value is lost only where all units that have it leave it out. The rows of a
    unit in a group, `unit.rows` at most, stand at the first of its entries.
    """
    group, there = [UNIT, *names], ~nw.col(value).is_null()
    zero = nw.lit(0, nw.Int64)
    one = nw.when(there).then(nw.lit(1, nw.Int64)).otherwise(zero).alias(_ONE)
    held = nw.when(there).then(nw.col(counted)).otherwise(zero).alias(counted)
    placed = _placed(frame, [*unit.placed(names), value]).with_columns(one, held)
    number = nw.col(_ONE).cum_sum().over(*group, order_by=[_PLACE, value]).alias(_NUMBER)
    every = nw.col(counted).sum().over(*group).clip(None, unit.rows).alias(_EVERY)
    few = placed.with_columns(number, every).filter(nw.col(_NUMBER) <= unit.rows)
    first = (nw.col(_NUMBER) == 1) & (nw.col(_ONE) == 1)
    return few.with_columns(nw.when(first).then(nw.col(_EVERY)).otherwise(zero).alias(counted))


def _reached(number: nw.Expr, rows: int) -> nw.Expr:
    """Return how many of the evenly spaced rows are among the first `number`."""
    every = nw.col(_EVERY).clip(rows, None).cast(nw.Float64)
    share = number.cast(nw.Float64) * float(rows) / every
    return (share + nw.col(_PLACE)).floor().cast(nw.Int64)


def _placed(frame: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
    """Add a hash of some columns, a whole number below 2**63, by the engine's own function.

    Equal numbers have the same hash in columns of integers and of floats. A missing unit or key
    turns a column of integers into floats in pandas, and decides about no other unit's rows.
    """
    native: Any = frame.drop(_PLACE, strict=False).to_native()
    if frame.implementation.is_polars():
        placed = native.with_columns(_hashed(native, names).alias(_PLACE))
    elif frame.implementation.is_ibis():
        placed = native.mutate(**{_PLACE: _ibis_hash(native, names)})
    elif frame.implementation.is_spark_like():
        placed = spark.with_place(native, names, _PLACE)
    else:
        # hashed again: of several columns DuckDB joins the last one's own hash on by a plain xor
        kinds = dict(zip(native.columns, map(str, native.types), strict=True))
        numbers = [_number_text(name, kinds[name]) for name in names]
        twice = f"hash(hash({', '.join(numbers)}))"
        placed = native.project(f"*, ({twice} // 2)::BIGINT AS {_PLACE}")
    lazy: nw.LazyFrame[Any] = nw.from_native(placed)
    return lazy


def _hashed(frame: pl.LazyFrame | pl.DataFrame, names: Sequence[str]) -> pl.Expr:
    """Return the hash of polars, or what has been hashed before, by another engine even."""
    if _HASH in frame.collect_schema():
        return pl.col(_HASH)
    kinds = frame.lazy().select(*names).collect_schema()
    numbers = [_number(name, kinds[name]).alias(name) for name in names]
    return (pl.struct(*numbers).hash(seed=0) // 2).cast(pl.Int64)


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


class UnitSizes(NamedTuple):
    """Units of the same sizes, and how many they are: exact and secret.

    `rows` is the size of the group that a row of the unit is in, on average over its rows, `most`
    that of its largest, `groups` their number. `units` have such sizes; `held` of them have values,
    whose means by group, from 0 at the lower bound to `UNIT_MEAN` at the upper, come to `firsts`
    on average, and their squares by that constant to `seconds`.
    """

    rows: Integers
    most: Integers
    groups: Integers
    units: Integers
    held: Integers
    firsts: Integers
    seconds: Integers


UNIT_MEAN = 2**12
"""The mean of a unit whose values are all at the upper bound."""


def unit_sizes(
    adopted: Adopted, labels: Sequence[Hashable], source: Source = _ALL_ROWS
) -> UnitSizes:
    """Count rows and groups of every unit, and average the values of a source of one term."""
    table = exact_table(adopted, partial(_build_sizes, labels=labels, source=source), [])
    names = [name for name in UnitSizes._fields if name in table.column_names]
    own = {n: np.asarray(table.column(n).to_numpy(), dtype=np.int64) for n in names}
    return UnitSizes(**{n: own.get(n, np.zeros_like(own[_ROWS])) for n in UnitSizes._fields})


def _build_sizes(
    adopted: Adopted, *, labels: Sequence[Hashable], source: Source
) -> nw.LazyFrame[Any]:
    frame = with_terms(adopted, labels, [source], nw.Int64())
    sums = sums_of([source], frame.implementation, units=True)
    names = [key_name(index) for index in range(len(labels))]
    pairs = known_units(frame, adopted).group_by(UNIT, *names).agg(*sums)
    rows, one = nw.col(sum_name(0)), nw.lit(1, nw.Int64)
    few = rows.clip(None, LARGEST_LIMIT)
    made = [(few * few).alias(_NUMBER), few.alias(_EVERY), one.alias(_ONE)]
    added = [_ONE, _NUMBER, _EVERY]
    if source.terms:
        mean = _share(nw.col(sum_name(0, 1)), rows, UNIT_MEAN, source.terms[0].most)
        there = nw.when(rows > 0).then(one).otherwise(nw.lit(0, nw.Int64))
        pairs = pairs.with_columns(mean.alias(_FIRSTS), there.alias(_HELD))
        made.append(_share(nw.col(_FIRSTS) * nw.col(_FIRSTS), one * UNIT_MEAN).alias(_SECONDS))
        added += [_FIRSTS, _HELD, _SECONDS]
    units = pairs.with_columns(*made).group_by(UNIT).agg(
        rows.max().alias(_MOST), *(nw.col(name).sum().cast(nw.Int64) for name in added)
    )  # fmt: skip
    units = units.with_columns(
        (_share(nw.col(_NUMBER) - one, nw.col(_EVERY)) + one).alias(_ROWS),
        nw.col(_ONE).alias(_GROUPS),
    )
    number, totals = nw.len().cast(nw.Int64).alias(_UNITS), []
    if source.terms:
        first, second = nw.col(_FIRSTS), nw.col(_SECONDS)
        units = units.with_columns(_share(first, nw.col(_HELD)), _share(second, nw.col(_HELD)))
        units = units.with_columns(nw.col(_HELD).clip(0, 1), first.clip(0, UNIT_MEAN))
        least = first * 2 - UNIT_MEAN
        units = units.with_columns(nw.when(second < least).then(least).otherwise(second))
        units = units.with_columns(nw.when(second > first).then(first).otherwise(second))
        totals = [nw.col(name).sum().cast(nw.Int64) for name in (_HELD, _FIRSTS, _SECONDS)]
    return units.group_by(_ROWS, _MOST, _GROUPS).agg(number, *totals)


def _share(total: nw.Expr, of: nw.Expr, times: int = 1, by: int = 1) -> nw.Expr:
    """Return total * times / (of * by) rounded down to a whole number, 0 where `of` is 0."""
    whole = total.cast(nw.Float64) * float(times) / float(by)
    return (whole / of.clip(1, None).cast(nw.Float64)).floor().cast(nw.Int64)


def groups_of_units(adopted: Adopted, labels: Sequence[Hashable]) -> int:
    """Return how many groups there are where every unit keeps one of its own. Secret.

    Adding or removing a unit moves that by one at most.
    """
    table = exact_table(adopted, partial(_build_groups, labels=labels), [])
    return int(table.column(_GROUPS).to_pylist()[0] or 0)


def _build_groups(adopted: Adopted, *, labels: Sequence[Hashable]) -> nw.LazyFrame[Any]:
    assert adopted.unit is not None  # noqa: S101 there are limits to be found
    names, number = [key_name(index) for index in range(len(labels))], nw.len().cast(nw.Int64)
    frame = known_units(adopted.lazy.select(*key_expressions(adopted, labels)), adopted)
    entries = frame.group_by(*adopted.unit.entries(names)).agg(number.alias(_ROWS))
    kept = within_groups(entries, names, replace(adopted.unit, groups=1))
    return kept.group_by(*names).agg(number.alias(_ROWS)).select(number.alias(_GROUPS))
