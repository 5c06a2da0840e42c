"""Count rows by group and bin, by the engine's own group-by or by sorting values in memory.

A row's bin is a function of its own value: a few float operations that round it, the same bits in
every engine (`dfprivacy.measurement.binning`). NULL and NaN have no bin.

Values of many different bins are counted faster by sorting them than by a hash table. Rows in
memory therefore leave the engine as words: the number of the group above the bits of the rounded
value. Tables of files stay in the engine, which spills what exceeds its memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa

from dfprivacy.engine import spark
from dfprivacy.engine.adopt import Adopted, UnitColumn
from dfprivacy.engine.columns import check_number_column, clip_size
from dfprivacy.engine.embedded import interruptible
from dfprivacy.engine.keys import (
    compress_codes,
    key_expressions,
    number_groups,
    only_listed,
    order_groups,
)
from dfprivacy.engine.run import collect, fetch_rows
from dfprivacy.engine.units import (
    UnitRows,
    fetch_unit_rows,
    filter_known_units,
    mark_first_groups,
    thin_rows,
    thinning_starts,
    within_groups,
)
from dfprivacy.measurement.bin_table import BinTable, bin_table, count_rows
from dfprivacy.measurement.binning import (
    LARGEST_VALUE,
    OCTAVE_FACTOR,
    SQUARE_BITS,
    VALUE_BITS,
    Binning,
    Edges,
    Floats,
    Integers,
    Octaves,
    SignificantBits,
    splitter,
)
from dfprivacy.measurement.runs import mark_starts
from dfprivacy.measurement.value_words import (
    FLOAT_BITS,
    SIGN,
    ValueWords,
    bits_of_values,
    build_value_table,
    decode_bits,
)

_GROUP = "group"
_VALUE, _LABEL, _ROWS, _FIRST, _SECOND = "value", "label", "rows", "first", "second"
_BATCH_ROWS = 2**20  # rows of one batch that DuckDB hands over
_STACKED_ROWS = 2**20  # rows of several columns that are counted at once
_SORTED_ROWS = 2**25  # rows that are sorted at once: their words take a quarter of a gigabyte


class HistogramQuery(NamedTuple):
    """A column, the bins that its rows are counted by, and how many powers are added up.

    Where it is `pooled`, rows of all groups count as one group. With `limit`, values are whole
    numbers from 0 to it.
    """

    column: Hashable
    binning: Binning
    moments: int = 0
    pooled: bool = False
    limit: int | None = None


def count_bins(adopted: Adopted, queries: Sequence[HistogramQuery]) -> list[BinTable]:
    """Count the rows of each group by bin, and add up powers of their values: a table a query.

    With public keys exactly the listed groups come out, otherwise all groups of the frame.

    Raises
    ------
    UnsupportedDtypeError
        When a column's declared dtype does not allow it.
    InvalidKeysError
        When a public key does not fit its column.
    EngineError
        When the engine fails; the message says nothing of the data.
    TooManyRowsError
        When a bin reaches the public limit of rows.
    """
    schema = adopted.lazy.collect_schema()
    for query in queries:
        check_number_column(query.column, schema[adopted.values[query.column]])
    if len(queries) > 1:
        count_columns = _count_columns if adopted.unit is None else _count_columns_of_units
        tables = count_columns(adopted, queries)
        if tables is not None:
            return tables
    return [build_value_table(read_values(adopted, query)) for query in queries]


def _count_columns(adopted: Adopted, queries: Sequence[HistogramQuery]) -> list[BinTable] | None:
    """Count several columns of rows in memory, whose groups are numbered once; None for others."""
    names, values = adopted.names, _name_values(queries)
    numbers = [nw.col(adopted.values[column]).alias(name) for column, name in values.items()]
    if not adopted.in_memory:  # elsewhere a column is cast when its turn comes
        numbers = [number.cast(nw.Float64) for number in numbers]
    lazy = adopted.lazy.select(*key_expressions(adopted), *numbers)
    entries: Any
    if adopted.in_memory:
        frame = lazy.collect().to_native()
        entries, rows = frame.select(names).to_arrow(), frame.select(values.values())
    else:
        connection = adopted.connection
        entries = collect(lazy, connection) if adopted.reads_once else fetch_rows(lazy, adopted)
        if entries is None:
            return None
        rows = pl.DataFrame(entries.select(list(values.values())))
    pooled = rows.with_columns(pl.lit(0, pl.Int64).alias(_GROUP))
    keys, groups = pa.table({}), 1
    if names:
        keys, _, group = number_groups(entries, names)
        keys, groups, places = order_groups(keys, adopted.listed_keys)
        rows = rows.with_columns(pl.Series(_GROUP, places[group]))
    if adopted.listed_keys is not None:
        pooled, rows = (frame.filter(rows[_GROUP] >= 0) for frame in (pooled, rows))

    def count(batch: Sequence[HistogramQuery]) -> list[BinTable]:
        """Count columns at once: the groups of each are groups of one long column."""
        is_pooled = batch[0].pooled or not names
        frame, stride = (pooled, 1) if is_pooled else (rows, groups)
        columns = [
            frame.select(
                pl.col(_GROUP) + index * stride,
                pl.col(values[query.column]).cast(pl.Float64).alias(_VALUE),
            )
            for index, query in enumerate(batch)
        ]
        number = stride * len(batch)
        stack = _count_rows_in_memory(pa.table({}), number, pl.concat(columns), batch[0])
        return stack.unstack(pa.table({}) if is_pooled else keys, len(batch))

    size = max(_STACKED_ROWS // max(rows.height, 1), 1)
    tables: list[BinTable] = []
    for _, run in itertools.groupby(queries, key=itemgetter(slice(1, None))):
        run_queries = list(run)
        for start in range(0, len(run_queries), size):
            tables += count(run_queries[start : start + size])
    return tables


def _name_values(queries: Sequence[HistogramQuery]) -> dict[Hashable, str]:
    """Return a name for the values of each column."""
    columns = dict.fromkeys(query.column for query in queries)
    return {column: f"value_{index}" for index, column in enumerate(columns)}


def read_values(adopted: Adopted, query: HistogramQuery) -> BinTable | ValueWords:
    """Return the rows of each group and value, or where they may leave the engine, a word each.

    With public keys and in its errors it is as `count_bins`.
    """
    check_number_column(query.column, adopted.lazy.collect_schema()[adopted.values[query.column]])
    values = _fetch_values(adopted, query)
    if values is not None:
        return values
    names = [] if query.pooled else adopted.names
    table = collect(_build_query(adopted, query), adopted.connection)
    keys, groups, group = number_groups(table, names)
    if names and adopted.listed_keys is not None:
        keys, groups, places = order_groups(keys, adopted.listed_keys)
        group = places[group]
        is_listed = group >= 0
        table, group = table.filter(pa.array(is_listed)), group[is_listed]
    label, rows, *moments = (
        column.fill_null(math.nan).to_numpy() if column.null_count else column.to_numpy()
        for column in table.select([_LABEL, _ROWS, _FIRST, _SECOND][: 2 + query.moments]).columns
    )
    rows = rows.astype(np.int64, copy=False)
    del table  # with millions of entries, what is not needed any more makes room
    return bin_table(keys, groups, query.binning, group, label, rows=rows, moments=moments)


def _fetch_values(adopted: Adopted, query: HistogramQuery) -> BinTable | ValueWords | None:
    """Return the rows of an engine that may hand them over; None if they stay in the engine."""
    if adopted.unit is not None:
        tables = _count_columns_of_units(adopted, [query])
        return None if tables is None else tables[0]
    parts = _fetch_words(adopted, query)
    if parts is None:
        return None
    if len(parts) == 1 and adopted.listed_keys is None:
        return parts[0]
    keys = pa.concat_tables([part.keys for part in parts])
    first, words = 0, []
    while parts:  # what has been copied makes room
        part = parts.pop(0)
        words.append(part.words + (first << part.value_bits))
        first += part.keys.num_rows
    assert isinstance(query.binning, SignificantBits)  # noqa: S101 of `_fetch_words`
    values = ValueWords(keys, max(first, 1), query.binning, np.concatenate(words), query.limit)
    return values.renumber(*order_groups(keys, adopted.listed_keys))


def count_values(group: Any, values: Any, query: HistogramQuery, groups: int) -> BinTable:
    """Count values in memory by the number of their group and by bin; NaN has no bin."""
    rows = pl.DataFrame({_GROUP: group, _VALUE: values})
    return _count_rows_in_memory(pa.table({}), groups, rows, query)


def _count_rows_in_memory(
    keys: pa.Table, groups: int, rows: pl.DataFrame, query: HistogramQuery
) -> BinTable:
    """Return the table of `_build_query` for a column of rows with the numbers of their groups."""
    binning, rows = query.binning, rows.select(_GROUP, pl.col(_VALUE).cast(pl.Float64))
    if isinstance(binning, SignificantBits):
        return _read_words(keys, groups, rows[_GROUP].to_numpy(), rows[_VALUE], query).table()
    if rows[_VALUE].null_count() or rows[_VALUE].is_nan().any():
        rows = rows.filter(pl.col(_VALUE).is_not_null() & pl.col(_VALUE).is_not_nan())
    group, values = (column.to_numpy() for column in rows.get_columns())
    return count_rows(keys, groups, binning, group, values, moments=query.moments)


def _fetch_words(adopted: Adopted, query: HistogramQuery) -> list[ValueWords] | None:
    """Return the rows of a query as words, in parts that number their groups by themselves.

    None by what is declared, or if the number of a group and a value don't fit the 63 bits of a
    word.
    """
    if not isinstance(query.binning, SignificantBits) or query.moments:
        return None
    group_bits = 63 - bits_of_values(query.limit)
    is_wide = 63 - group_bits > FLOAT_BITS  # many groups may have to stay in the engine
    is_fine = query.limit is None and query.binning.bits > VALUE_BITS
    if not adopted.can_fetch_rows or is_fine or (is_wide and adopted.reads_once):
        return None
    value = nw.col(adopted.values[query.column]).cast(nw.Float64).alias(_VALUE)
    native: Any = adopted.lazy.select(*key_expressions(adopted), value).to_native()

    def fetch_parts() -> list[ValueWords] | None:
        parts: list[ValueWords] = []
        for part in _read_parts(native):
            keys, groups, group = number_groups(part, adopted.names)
            if sum(former.groups for former in parts) + groups >= 2**group_bits:
                return None
            values = pl.Series(_VALUE, part.column(_VALUE))
            parts.append(_read_words(keys, groups, group, values, query))
        return parts

    return interruptible(fetch_parts, adopted.connection)


def _read_parts(native: Any) -> Iterator[pa.Table]:
    """Yield the rows of a query, as many at a time as are sorted at once; one part for none."""
    if isinstance(native, pl.LazyFrame):
        rows = native.collect(engine="streaming")
        for first in range(0, max(rows.height, 1), _SORTED_ROWS):
            yield rows.slice(first, _SORTED_ROWS).to_arrow()
        return
    reader = native.to_arrow_reader(_BATCH_ROWS)
    batches: list[pa.RecordBatch] = []
    size, parts = 0, 0
    for batch in reader:
        batches.append(batch)
        size += batch.num_rows
        if size >= _SORTED_ROWS:
            yield pa.Table.from_batches(batches)
            batches, size, parts = [], 0, parts + 1
    if size or not parts:
        yield pa.Table.from_batches(batches, reader.schema)


def _read_words(
    keys: pa.Table, groups: int, group: Integers, values: pl.Series, query: HistogramQuery
) -> ValueWords:
    """Return the word of each row with a value."""
    binning, limit = query.binning, query.limit
    assert isinstance(binning, SignificantBits)  # noqa: S101 the caller has looked
    if limit is None:
        bits = _single_bits(binning.bits).cast(pl.Int64)
        code = pl.when(bits < SIGN).then(bits + SIGN).otherwise(2**FLOAT_BITS - 1 - bits)
    else:
        code = pl.col(_VALUE).clip(0, limit).cast(pl.Int64)
    rows = pl.DataFrame({_GROUP: group, _VALUE: values}).lazy()
    if values.null_count() or values.is_nan().any():
        rows = rows.filter(pl.col(_VALUE).is_not_null() & pl.col(_VALUE).is_not_nan())
    word = pl.col(_GROUP) * 2 ** bits_of_values(limit) + code
    words = rows.select(word).collect(engine="streaming").to_series().to_numpy()
    return ValueWords(keys, groups, binning, words, limit)


def _single_bits(bits: int) -> pl.Expr:
    """Return the bits, in single precision, of twice each value rounded to some significant bits.

    They are exact where the bin is not that of zero. NULL becomes NaN.
    """
    twice = pl.col(_VALUE).fill_null(math.nan).clip(-LARGEST_VALUE, LARGEST_VALUE) * 2.0
    product = twice * splitter(bits)
    return (product - (product - twice)).cast(pl.Float32).reinterpret(dtype=pl.UInt32)


def _count_columns_of_units(
    adopted: Adopted, queries: Sequence[HistogramQuery]
) -> list[BinTable] | None:
    """Count rows within the limits of units, which are fetched once; None where they are not."""
    unit = adopted.unit
    assert unit is not None  # noqa: S101 the callers have looked
    if any(_count_rounded_bits(query.binning) > VALUE_BITS for query in queries):
        return None
    values = _name_values(queries)
    numbers = [
        nw.col(adopted.values[column]).cast(nw.Float64).alias(name)
        for column, name in values.items()
    ]
    frame = adopted.lazy.select(*key_expressions(adopted), *numbers)
    rows = fetch_unit_rows(filter_known_units(frame, adopted), adopted)
    if rows is None:
        return None
    entries, groups, places = _number_entries(rows, unit)
    present = np.flatnonzero(np.bincount(groups))
    keys, number, order = order_groups(rows.keys.take(pa.array(present)), adopted.listed_keys)
    group_of_entry = order[compress_codes(groups)]
    is_within = entries >= 0
    entries = entries[is_within]

    tables = []
    for query in queries:
        column = pl.Series(_VALUE, rows.columns.column(values[query.column]))
        bits = _count_rounded_bits(query.binning)
        counted, value = _thin_rows(entries, column.filter(is_within), places, unit.rows, bits)
        grouped = pl.DataFrame({_GROUP: group_of_entry[counted], _VALUE: value})
        if unit.keys:
            grouped = grouped.filter(pl.col(_GROUP) >= 0)
        counted_rows = CountedRows(keys, number, grouped)
        if isinstance(query.binning, Octaves):
            adopted.counted[query.column] = counted_rows
        tables.append(counted_rows.count(query))
    return tables


@dataclass(frozen=True, repr=False)
class CountedRows:
    """The values of rows within the limits of units, with the numbers of their groups. Secret."""

    keys: pa.Table
    groups: int
    rows: pl.DataFrame

    def count(self, query: HistogramQuery) -> BinTable:
        """Count the rows by bin, all groups together if the query is pooled."""
        if query.pooled or not self.keys.num_columns:
            pooled = self.rows.with_columns(pl.lit(0, pl.Int64).alias(_GROUP))
            return _count_rows_in_memory(pa.table({}), 1, pooled, query)
        return _count_rows_in_memory(self.keys, self.groups, self.rows, query)


def _count_rounded_bits(binning: Binning) -> int:
    """Return how many significant bits of a value decide about its bin."""
    if isinstance(binning, Edges):
        return 53
    return binning.bits if isinstance(binning, SignificantBits) else VALUE_BITS


def _number_entries(rows: UnitRows, unit: UnitColumn) -> tuple[Integers, Integers, Integers]:
    """Return the number of the unit and group of each row, and of these the groups and hashes.

    Rows in groups beyond the unit's limit have -1.
    """
    size = max(rows.keys.num_rows, 1)
    entries = compress_codes(rows.units * size + rows.groups)
    first = np.zeros(int(entries.max(initial=-1)) + 1, dtype=np.int64)
    first[entries] = np.arange(len(entries))
    groups, places = rows.groups[first], rows.places[first]
    if unit.groups is not None and rows.keys.num_columns:
        marks = mark_first_groups(rows.units[first], places, groups, unit.groups)
        entries = np.where(marks, np.cumsum(marks) - 1, -1)[entries]
        groups, places = groups[marks], places[marks]
    return entries, groups, places


def _thin_rows(
    entries: Integers, values: pl.Series, places: Integers, limit: int, bits: int
) -> tuple[Integers, Floats]:
    """Return the entries and rounded values of rows that count within the limit: see `thin_rows`.

    An entry without a value has a row of NaN. Only the rows of larger entries are sorted.
    """
    rounded = pl.DataFrame([values]).select(_single_bits(bits)).to_series().to_numpy()
    has_value = ~np.isnan(rounded.view(np.float32))
    if not has_value.all():
        entries, rounded = entries[has_value], rounded[has_value]
    single = rounded.view(np.float32)
    sizes = np.bincount(entries, minlength=len(places))
    empty = np.flatnonzero(sizes == 0)
    is_large = (sizes > limit)[entries]
    large = np.flatnonzero(is_large)
    rounded = rounded[large]
    above = np.where(single[large] < 0, ~rounded, rounded | np.uint32(SIGN))  # in their order
    words = (entries[large] << FLOAT_BITS) + above
    words.sort()
    entry = words >> FLOAT_BITS
    starts = mark_starts(entry)
    number = np.arange(len(entry)) - np.flatnonzero(starts)[np.cumsum(starts) - 1]
    start, every = thinning_starts(places)[entry], sizes[entry].astype(np.float64)
    until, before = (
        np.floor(count.astype(np.float64) * float(limit) / every + start)
        for count in (number + 1, number)
    )
    counts = until > before
    thinned_values = decode_bits(words[counts].astype(np.uint32))
    if len(large):
        entries, single = entries[~is_large], single[~is_large]
    values_held = single.astype(np.float64) / 2 + 0.0  # no negative zero
    return (
        np.concatenate([entries, entry[counts], empty]),
        np.concatenate([values_held, thinned_values, np.full(len(empty), np.nan)]),
    )


def _build_query(adopted: Adopted, query: HistogramQuery) -> nw.LazyFrame[Any]:
    """Return the query of `count_bins`: keys, label, rows and sums of each group and bin."""
    by = [] if query.pooled else adopted.names
    frame = _with_values(
        adopted.lazy, key_expressions(adopted), adopted.values[query.column], query
    )
    if adopted.unit is None:
        if query.pooled and adopted.listed_keys is not None:
            frame = only_listed(frame, adopted.listed_keys)
        return _group_by_bin(frame, by, query)
    rows = nw.len().cast(nw.Int64).alias(_ROWS)  # of one unit, group and value
    entries = filter_known_units(frame, adopted).group_by(*adopted.unit.entries, _VALUE).agg(rows)
    limited = within_groups(entries, adopted.unit, _VALUE)
    return _group_by_bin(thin_rows(limited, _VALUE, _ROWS, adopted.unit), by, query, _ROWS)


def _group_by_bin(
    frame: nw.LazyFrame[Any],
    names: Sequence[str],
    query: HistogramQuery,
    times: str = "",
) -> nw.LazyFrame[Any]:
    """Return label, rows and sums of each group and bin; a row counts as often as `times` says."""
    value = nw.col(_VALUE)
    powers = [(_FIRST, value), (_SECOND, _round_bits(value * value, SQUARE_BITS))][: query.moments]
    rows = nw.len().cast(nw.Int64).alias(_ROWS)
    if times:
        count = nw.col(times)
        powers = [(name, power * count.cast(nw.Float64)) for name, power in powers]
        rows = count.sum().cast(nw.Int64).alias(_ROWS)
    sums = [power.sum().alias(name) for name, power in powers]
    return _with_labels(frame, query).group_by(*names, _LABEL).agg(rows, *sums)


def _with_labels(frame: nw.LazyFrame[Any], query: HistogramQuery) -> nw.LazyFrame[Any]:
    """Return the label of the bin of each value, and of octaves what the sums are of."""
    value, binning = nw.col(_VALUE), query.binning
    if not isinstance(binning, Octaves):  # the value is its own label
        return frame.rename({_VALUE: _LABEL})
    if binning.center:
        distance = _round_bits(value - binning.center, VALUE_BITS)
        frame = _drop_traces(frame.with_columns(distance.alias(_VALUE)))
    label, octave = nw.col(_LABEL), _round_bits(value * OCTAVE_FACTOR, 1)
    frame = frame.with_columns(octave.alias(_LABEL))
    if binning.bits > 1:
        shift = label * binning.shift
        inner = (value - label * binning.inwards + shift) - shift
        frame = frame.with_columns(inner.alias(_LABEL))
    if not binning.counts_from_center:
        frame = frame.with_columns((value - label).alias(_VALUE))
    return frame


def _with_values(
    rows: nw.LazyFrame[Any], keys: Sequence[nw.Expr], name: str, query: HistogramQuery
) -> nw.LazyFrame[Any]:
    """Return the keys, and values as the binning sees them: rounded, or how many edges they reach.

    What is no number is NULL.
    """
    engine, binning = rows.implementation, query.binning
    clipped = clip_size(name, LARGEST_VALUE, rows.collect_schema()[name], engine)
    frame = rows.select(*keys, clipped.alias(_VALUE))
    value = nw.col(_VALUE)
    if not isinstance(binning, Edges):
        rounded = _round_bits(value, _count_rounded_bits(binning))
        return _drop_traces(frame.with_columns(rounded.alias(_VALUE)))
    if engine.is_spark_like():
        native = spark.with_edges_reached(frame.to_native(), _VALUE, binning.edges)
        labelled: nw.LazyFrame[Any] = nw.from_native(native)
        return labelled
    *others, last = binning.edges
    reached = [value >= edge for edge in others] + [value > last]
    number = nw.when(~value.is_null()).then(_number_reached(reached, 0, len(reached)))
    return frame.with_columns(number.alias(_VALUE))


def _drop_traces(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return 0 for the smallest values of an Ibis table: PostgreSQL raises if a product becomes 0.

    Their bin is that of 0, and so is that of all sizes below 2**-126.
    """
    if not frame.implementation.is_ibis():
        return frame
    value, zero = nw.col(_VALUE), nw.lit(0.0, nw.Float64)
    above = nw.when((value < _TRACE) & (value > -_TRACE)).then(zero).otherwise(value)
    return frame.with_columns(above.alias(_VALUE))


_TRACE = 2.0**-500


def _round_bits(value: nw.Expr, bits: int) -> nw.Expr:
    """Return a value rounded to so many significant bits, by Veltkamp's splitting."""
    product = value * splitter(bits)
    return product - (product - value)


def _number_reached(reached: Sequence[nw.Expr], first: int, last: int) -> nw.Expr:
    """Return how many of the ascending edges are reached, by halves: engines nest little."""
    if first == last:
        return nw.lit(float(first), nw.Float64)
    middle = (first + last) // 2
    above = _number_reached(reached, middle + 1, last)
    return nw.when(reached[middle]).then(above).otherwise(_number_reached(reached, first, middle))
