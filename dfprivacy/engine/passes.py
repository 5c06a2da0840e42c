"""Add up exact sums, or count by group and bin, in one pass of the frame's own engine.

DuckDB turns a float into an integer more slowly than it adds one up. Grid integers are whole
numbers of size at most 2**30, so that floats add them up exactly, in any order, as long as a group
has fewer than 2**23 values; the count beside each sum says whether the pass is made again with
integers.

A row's bin is a function of its own value: three float operations that round it, the same bits in
every engine (`dfprivacy.measurement.binning`). NULL and NaN have no bin. By group a table of the
values of files may be far larger than memory: the engine sorts it within its limit, and what comes
out is written in blocks of whole groups, to be read again block by block.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from narwhals.dtypes import DType

from dfprivacy.engine import spark
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import are_whole, check_number_column, clipped_value
from dfprivacy.engine.embedded import (
    engine_options,
    interruptible,
    private_folder,
    remove_folders,
    remove_with,
)
from dfprivacy.engine.keys import Listed, align, key_expressions, number_groups, told_expression
from dfprivacy.engine.packed import (
    Asked,
    has_few_threads,
    is_addable,
    is_near,
    is_packable,
    packed_bins,
    packed_sums,
)
from dfprivacy.engine.run import exact_table, guarded
from dfprivacy.engine.terms import distinct, sums_of, unshifted, with_terms
from dfprivacy.engine.units import (
    entries_of_units,
    few_values,
    hashed_rows,
    known_units,
    scaled,
    thinned,
    unscaled,
    within_groups,
)
from dfprivacy.measurement.bin_table import BinTable, StoredBins, bin_table
from dfprivacy.measurement.binning import (
    LARGEST_VALUE,
    OCTAVE_FACTOR,
    SQUARE_BITS,
    VALUE_BITS,
    Binning,
    Edges,
    Octaves,
    SignificantBits,
    splitter,
)
from dfprivacy.measurement.linear import Distinct, Source, Told
from dfprivacy.measurement.sums import Statistics, key_name, sum_name, sum_names

_VALUE, _ROWS = "value", "rows"

_SOURCES = 8
"""How many sources a pass of DuckDB adds up: with more it slows down, where it can read again."""
_NEAR = 2**16  # integers that have marks however few rows; rows that are marked at once
_WHOLE_FLOATS = 2**53
"""Floats hold every whole number up to this size."""


def exact_sums(
    adopted: Adopted, labels: Sequence[Hashable], sources: Sequence[Source]
) -> Statistics:
    """Return the exact sums of every group.

    Raises
    ------
    EngineError
        When the engine fails.
    TooManyRowsError
        When a group reaches the public limit of rows.
    """
    if is_addable(adopted, sources):
        found = packed_sums(adopted, sources)
        if found is not None:
            return found
    apart = [own for own in sources if _is_apart(adopted, labels, own)]
    if adopted.unit is None and not apart:
        again = adopted.lazy.implementation.is_duckdb() and not adopted.reads_once
        size = _SOURCES if again and not adopted.from_files else len(sources) or 1
        several = [
            _together(adopted, labels, sources[first : first + size], again=again)
            for first in range(0, len(sources), size)
        ]
        return _joined(several, sources) if len(several) > 1 else several[0]
    others = [own for own in sources if own not in apart]
    distinct_of = _distinct_near if adopted.unit is None else _distinct_of_units
    tables = [distinct_of(adopted, labels, source) for source in apart]
    if others:
        tables.append(_together(adopted, labels, others, again=False))
    return _joined(tables, sources)


def _is_apart(adopted: Adopted, labels: Sequence[Hashable], source: Source) -> bool:
    """Tell, by what is declared, whether different values are counted by a pass of their own."""
    if not any(isinstance(term, Distinct) for term in source.terms):
        return False
    if adopted.unit is not None:
        return True
    kind = adopted.lazy.collect_schema()[adopted.told[source.told[0]].name]
    arrays = adopted.in_memory or (adopted.connection is not None and not engine_options().memory)
    integers = kind.is_integer() and kind not in (nw.Int128, nw.UInt128)
    return arrays and integers and not (labels or adopted.from_files or adopted.reads_once)


def _distinct_near(adopted: Adopted, labels: Sequence[Hashable], source: Source) -> Statistics:
    """Count the different integers of a column, by marks where they lie close together."""

    def counted(table: pa.Table) -> tuple[int, int]:
        values = table.columns[0].drop_null()
        ends = pc.min_max(values)
        least, most = (ends[end].as_py() if len(values) else 0 for end in ("min", "max"))
        if most - least >= max(_NEAR, len(values)):
            return len(values), pl.Series(values).n_unique()
        marks = np.zeros(most - least + 1, dtype=bool)
        for rows in pa.table({"": values}).to_batches(_NEAR):
            integers = rows.column(0).to_numpy()
            above = integers - integers.dtype.type(least)  # may wrap around
            marks[above.view(f"u{above.itemsize}")] = True
        return len(values), int(np.count_nonzero(marks))

    build = partial(with_terms, labels=labels, sources=(source,), numbers=nw.Int64())
    table = exact_table(adopted, build, ())
    found = zip(sum_names((source,)), guarded(lambda: counted(table)), strict=True)
    return Statistics(pa.table({name: [own] for name, own in found}), 0, (source,)).checked()


def _joined(several: Sequence[Statistics], sources: Sequence[Source]) -> Statistics:
    """Return the sums of several passes as those of one, by the groups of that which counts them.

    A frame can have other rows in each pass: none is compared with another, as a row could show in
    whether they are alike.
    """
    counting = min(sources, key=lambda own: (bool(own.terms), bool(own.columns)))
    keys = next(own.key_table() for own in several if counting in own.sources)
    columns = dict(zip(keys.column_names, keys.columns, strict=True))
    for each in several:
        own = each if each.key_table().equals(keys) else align(each, keys)
        for place, source in enumerate(own.sources):
            for at in range(1 + len(source.terms)):
                name = sum_name(sources.index(source), at)
                columns[name] = own.table.column(sum_name(place, at))
    ordered = {name: columns[name] for name in (*keys.column_names, *sum_names(sources))}
    return Statistics(pa.table(ordered), several[0].keys, tuple(sources))


def _distinct_of_units(adopted: Adopted, labels: Sequence[Hashable], source: Source) -> Statistics:
    """Count the values of a column, of which each unit has at most so many in each group."""
    names = [key_name(index) for index in range(len(labels))]
    build = partial(_build_distinct, labels=labels, told=source.told[0])
    return Statistics(exact_table(adopted, build, names), len(names), (source,)).checked()


def _build_distinct(
    adopted: Adopted, *, labels: Sequence[Hashable], told: Told
) -> nw.LazyFrame[Any]:
    assert adopted.unit is not None  # noqa: S101 without units it is a sum among others
    names, unit = [key_name(index) for index in range(len(labels))], adopted.unit
    value = told_expression(adopted, told).alias(_VALUE)
    of_units = known_units(adopted.lazy.select(*key_expressions(adopted, labels), value), adopted)
    rows = nw.len().cast(nw.Int64).alias(_ROWS)
    entries = of_units.group_by(*unit.entries(names), _VALUE).agg(rows)
    few = few_values(within_groups(entries, names, unit, _VALUE), names, _VALUE, _ROWS, unit)
    counted = nw.col(_ROWS).sum().cast(nw.Int64)
    sums = [counted.alias(sum_name(0)), distinct(nw.col(_VALUE)).alias(sum_name(0, 1))]
    return _ascending(few.group_by(*names).agg(*sums) if names else few.select(*sums), names)


def _together(
    adopted: Adopted, labels: Sequence[Hashable], sources: Sequence[Source], *, again: bool
) -> Statistics:
    """Return the sums of one pass, or of two where DuckDB can read `again`.

    Floats are added or not by the frame and the question, whatever the rows.
    """
    names = [key_name(index) for index in range(len(labels))]

    def summed(numbers: DType) -> Statistics:
        read = None if adopted.unit is None else guarded(lambda: _read(adopted, labels, sources))
        build = partial(build_pass, labels=labels, sources=sources, numbers=numbers, read=read)
        table = exact_table(adopted, build, names)
        return Statistics(table, len(names), tuple(sources)).checked()

    if not (again and labels):
        return summed(nw.Int64())
    quick = summed(nw.Float64())
    if quick.largest_possible() < _WHOLE_FLOATS:
        return quick
    return summed(nw.Int64())


def _read(
    adopted: Adopted, labels: Sequence[Hashable], sources: Sequence[Source]
) -> nw.LazyFrame[Any]:
    """Return the rows of units: of a relation as they are read, hashed, if not left to DuckDB."""
    rows = _of_units(adopted, labels, sources, nw.Int64())
    again = adopted.lazy.implementation.is_duckdb() and not adopted.reads_once
    if not (labels and again and is_near(adopted) and has_few_threads()):
        return rows
    names, unit = [key_name(index) for index in range(len(labels))], adopted.unit
    whole = unit is not None and are_whole(rows.collect_schema(), unit.entries(names))
    if unit is None or unit.groups is None or not whole:
        return rows
    read = hashed_rows(rows, names, adopted)
    return rows if read is None else nw.from_native(pl.DataFrame(read).lazy())


def _of_units(
    adopted: Adopted, labels: Sequence[Hashable], sources: Sequence[Source], numbers: DType
) -> nw.LazyFrame[Any]:
    return known_units(with_terms(adopted, labels, unscaled(sources), numbers), adopted)


def build_pass(
    adopted: Adopted,
    labels: Sequence[Hashable],
    sources: Sequence[Source],
    numbers: DType,
    read: nw.LazyFrame[Any] | None = None,
) -> nw.LazyFrame[Any]:
    """Return the lazy query of one release: key columns, then the sums of each source.

    Grid integers are added up as `numbers`; the sums are Int64 whatever it is. The rows of units
    may have been `read` before.

    Raises
    ------
    UnsupportedDtypeError, InvalidBoundsError
        When a column's declared dtype does not allow what is asked of it.
    """
    engine = adopted.lazy.implementation
    once = sources if adopted.unit is None else unscaled(sources)
    sums = sums_of(once, engine, units=adopted.unit is not None)
    names = [key_name(index) for index in range(len(labels))]
    if adopted.unit is None:
        integers = with_terms(adopted, labels, once, numbers)
    else:  # what each contributes to each group, within its limits
        rows = _of_units(adopted, labels, sources, numbers) if read is None else read
        near = adopted.in_memory or adopted.lazy.implementation.is_duckdb()
        added = entries_of_units(rows, names, adopted.unit, sums, in_memory=near)
        integers = scaled(added, sources, adopted.unit.rows)
        sums = [nw.col(name).sum().cast(nw.Int64) for name in sum_names(sources)]
    added = integers.group_by(*names).agg(*sums) if names else integers.select(*sums)
    if adopted.unit is None:
        added = unshifted(added, sources, numbers)
    return _ascending(added, names)


def _ascending(added: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return groups in the order of their keys, NULL last, where the engine can sort them so."""
    engine = added.implementation
    if not names:
        return added
    if engine.is_ibis() or engine.is_spark_like():  # sorted after the pass
        return added
    if not engine.is_duckdb():
        return added.sort(*names, nulls_last=True)
    native: Any = added.to_native()  # NULL last whatever the connection's own order is
    order = [duckdb.ColumnExpression(name).asc().nulls_last() for name in names]
    ascending: nw.LazyFrame[Any] = nw.from_native(native.sort(*order))
    return ascending


_VALUE, _LABEL, _ROWS, _FIRST, _SECOND = "value", "label", "rows", "first", "second"

ENTRIES = 2**18
"""How many entries a stored block has, about: one group is never cut."""


def run_bins(
    adopted: Adopted, labels: Sequence[Hashable], asked: Sequence[Asked], *, public: bool
) -> list[BinTable]:
    """Count the rows of each group by bin, and add up powers of their values: a table a question.

    Several columns are read together where that can be. With `public` keys exactly the listed
    groups come out, otherwise all groups of the frame.

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
    able = {own: is_packable(adopted, own) for own in {own.binning for own in asked}}
    together = [own for own in asked if able[own.binning]]
    packed = packed_bins(adopted, together, public=public) if together else None
    made = iter(packed or ())
    return [
        next(made)
        if packed is not None and own in together
        else hashed_bins(adopted, labels, *own, public=public)
        for own in asked
    ]


def hashed_bins(
    adopted: Adopted,
    labels: Sequence[Hashable],
    column: Hashable,
    binning: Binning,
    moments: int = 0,
    *,
    public: bool,
) -> BinTable:
    """Return one table of `run_bins`, or of bins between edges, by one GROUP BY, in any engine."""
    names = [key_name(index) for index in range(len(labels))]
    build = partial(_query, labels=labels, column=column, binning=binning, moments=moments)
    table = exact_table(adopted, build, [*names, _LABEL])
    return _tabulated(table, names, adopted.listed if public else None, binning, moments)


def run_stored_bins(
    adopted: Adopted, labels: Sequence[Hashable], column: Hashable, binning: SignificantBits
) -> StoredBins:
    """Count the rows of each group of files by value, as `run_bins`; the files go with the result.

    Raises
    ------
    EngineError
        Also when there is no room; the message says nothing of the data.
    """
    names = [key_name(index) for index in range(len(labels))]
    query = guarded(
        lambda: _query(adopted, labels, column, binning, 0).sort(*names, nulls_last=True)
    )
    connection, native = adopted.connection, query.to_native()
    assert connection is not None  # noqa: S101 files are read by an embedded one
    folder = private_folder()
    try:
        stored = guarded(
            lambda: interruptible(lambda: _stored(native, names, binning, folder), connection)
        )
        remove_with(stored, folder)
    except BaseException:
        remove_folders(folder)
        raise
    return stored


def _query(
    adopted: Adopted,
    labels: Sequence[Hashable],
    column: Hashable,
    binning: Binning,
    moments: int,
) -> nw.LazyFrame[Any]:
    """Return the query of `hashed_bins`: keys, label, rows and sums of each group and bin."""
    names = [key_name(index) for index in range(len(labels))]
    frame = _values(adopted, labels, column, binning)
    rows = nw.len().cast(nw.Int64).alias(_ROWS)
    value = nw.col(_VALUE)
    powers = {_FIRST: value, _SECOND: _rounded(value * value, SQUARE_BITS)}
    if adopted.unit is not None:  # entries stand for several rows of one unit, group and value
        of_units = known_units(frame, adopted)
        entries = of_units.group_by(*adopted.unit.entries(names), _VALUE).agg(rows)
        kept = within_groups(entries, names, adopted.unit, _VALUE)
        frame = thinned(kept, names, _VALUE, _ROWS, adopted.unit)
        times = nw.col(_ROWS).cast(nw.Float64)
        powers = {name: power * times for name, power in powers.items()}
        rows = nw.col(_ROWS).sum().cast(nw.Int64).alias(_ROWS)
    if isinstance(binning, Octaves):
        label, octave = nw.col(_LABEL), _rounded(value * OCTAVE_FACTOR, 1)
        frame = frame.with_columns(octave.alias(_LABEL))
        if binning.bits > 1:
            far = label * binning.shift
            inner = (value - label * binning.inwards + far) - far
            frame = frame.with_columns(inner.alias(_LABEL))
            frame = frame.with_columns((value - label).alias(_VALUE))
    else:  # the value is its own label
        frame = frame.rename({_VALUE: _LABEL})
    sums = [power.sum().alias(name) for name, power in list(powers.items())[:moments]]
    return frame.group_by(*names, _LABEL).agg(rows, *sums)


def _values(
    adopted: Adopted, labels: Sequence[Hashable], column: Hashable, binning: Binning
) -> nw.LazyFrame[Any]:
    """Return the keys, and values as the binning sees them: rounded, or how many edges they reach.

    What is no number is NULL.
    """
    name, engine = adopted.values[column], adopted.lazy.implementation
    dtype = adopted.lazy.collect_schema()[name]
    check_number_column(column, dtype)
    clipped = clipped_value(name, LARGEST_VALUE, dtype, engine)
    frame = adopted.lazy.select(*key_expressions(adopted, labels), clipped.alias(_VALUE))
    value = nw.col(_VALUE)
    if not isinstance(binning, Edges):
        bits = binning.bits if isinstance(binning, SignificantBits) else VALUE_BITS
        return frame.with_columns(_rounded(value, bits).alias(_VALUE))
    if engine.is_spark_like():
        native = spark.with_edges_reached(frame.to_native(), _VALUE, binning.edges)
        labelled: nw.LazyFrame[Any] = nw.from_native(native)
        return labelled
    *others, last = binning.edges
    reached = [value >= edge for edge in others] + [value > last]
    number = nw.when(~value.is_null()).then(_number_reached(reached, 0, len(reached)))
    return frame.with_columns(number.alias(_VALUE))


def _rounded(value: nw.Expr, bits: int) -> nw.Expr:
    """Return a value rounded to so many significant bits, by Veltkamp's splitting."""
    product = value * splitter(bits)
    return product - (product - value)


def _number_reached(reached: Sequence[nw.Expr], least: int, most: int) -> nw.Expr:
    """Return how many of the ascending edges are reached, by halves: engines nest little."""
    if least == most:
        return nw.lit(float(least), nw.Float64)
    middle = (least + most) // 2
    above = _number_reached(reached, middle + 1, most)
    return nw.when(reached[middle]).then(above).otherwise(_number_reached(reached, least, middle))


def _tabulated(
    table: pa.Table, names: Sequence[str], listed: Listed | None, binning: Binning, moments: int
) -> BinTable:
    """Return the table of what a query gave, in any order; see `run_bins` for `listed` keys."""
    keys, groups, table, group = number_groups(table, names, listed)
    columns = [_LABEL, _ROWS, _FIRST, _SECOND][: 2 + moments]
    label, rows, *sums = (_numpy(table.column(name)) for name in columns)
    del table  # with millions of entries, what is not needed any more makes room
    rows = rows.astype(np.int64, copy=False)
    return bin_table(keys, groups, binning, group, label, rows=rows, moments=sums)


def _numpy(column: pa.ChunkedArray) -> Any:
    return column.to_numpy() if not column.null_count else column.fill_null(math.nan).to_numpy()


def _stored(
    native: Any, names: Sequence[str], binning: SignificantBits, folder: Path
) -> StoredBins:
    """Write the blocks of a query's result, which is sorted by the columns `names`."""
    keys, rows = [], []
    files: list[Path] = []
    for entries in _whole_groups(native.to_arrow_reader(ENTRIES), names):
        table = _tabulated(entries, names, None, binning, 0)
        keys.append(table.keys)
        rows.append(table.totals())
        files.append(folder / f"{len(files)}.npy")
        np.save(files[-1], np.stack([table.group, table.bins, table.rows]))
    sizes = tuple(len(own) for own in rows)
    return StoredBins(pa.concat_tables(keys), binning, np.concatenate(rows), tuple(files), sizes)


def _whole_groups(batches: pa.RecordBatchReader, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the sorted entries again, cut between groups; one table without entries for none."""
    held, some = batches.schema.empty_table(), False
    for batch in batches:
        held = pa.concat_tables([held, pa.Table.from_batches([batch])])
        if held.num_rows < ENTRIES:
            continue
        group = number_groups(held, names, None).group
        cut = int(np.argmax(group == group[-1]))
        if cut:
            yield held.slice(0, cut)
            held, some = held.slice(cut), True
    if held.num_rows or not some:
        yield held
