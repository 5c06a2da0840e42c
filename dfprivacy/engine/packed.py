"""Count rows by group and bin, and add them up by group, without a hash table.

A group's number and the row's bin make one cell. Where there are few cells, numpy counts into all
of them; otherwise the words are sorted, and runs of equal ones are counted. Rows come in blocks of
arrays, and each block numbers its groups by itself: nothing is read twice. Bins and sums are those
of `dfprivacy.engine.passes.run_bins`, bit for bit: rounding is the same law, and sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import are_whole, check_number_column, check_term_column
from dfprivacy.engine.embedded import engine_options, interruptible
from dfprivacy.engine.files import quoted
from dfprivacy.engine.keys import number_groups
from dfprivacy.engine.progress import watched
from dfprivacy.engine.run import changed, guarded
from dfprivacy.engine.terms import leaves_of
from dfprivacy.measurement.bin_table import BinTable, added_up
from dfprivacy.measurement.binning import (
    SQUARE_BITS,
    VALUE_BITS,
    Floats,
    Integers,
    Octaves,
    SignificantBits,
    clipped,
    rounded,
)
from dfprivacy.measurement.linear import Above, OnGrid, Source
from dfprivacy.measurement.sums import Statistics, key_name, sum_names

_ROWS = 2**22  # that are read at once
_SORTED = 2**25  # that are sorted at once, about: their words lie in memory
_BATCH = 2**18
_CACHED = 2**15  # values that stay in the processor's cache while they are rounded
_FEW_CELLS = 2**20
_MOST_GROUPS = 2**31  # a group's number stands above 32 bits of a value
_FEW_THREADS = 4
_BLOCK = 2**16  # rows that are added up at once
_FEW_PLACES, _FEW_SOURCES = 2**15, 8

Packable = Octaves | SignificantBits


def is_packable(adopted: Adopted, binning: Packable) -> bool:
    """Tell whether rows can be counted this way, by what is declared alone.

    Words take memory: files, and frames under a limit of `dfp.Engine`, are left to the engine.
    """
    return (isinstance(binning, Octaves) or binning.bits <= VALUE_BITS) and _is_near(adopted)


def _is_near(adopted: Adopted) -> bool:
    """Tell whether arrays of rows without units, whose keys are whole, are at hand."""
    engine = adopted.lazy.implementation
    whole = are_whole(adopted.lazy.collect_schema(), adopted.keys)
    limited = adopted.connection is not None and engine_options().memory is not None
    near = adopted.in_memory or (engine.is_duckdb() and not limited and not adopted.from_files)
    return whole and near and adopted.unit is None


def packed_bins(
    adopted: Adopted, column: Hashable, binning: Packable, moments: int, *, public: bool
) -> BinTable:
    """Return the table of `dfprivacy.engine.passes.run_bins`, and raise its errors."""
    name = adopted.values[column]
    check_number_column(column, adopted.lazy.collect_schema()[name])

    def counted() -> list[_Part]:
        with watched():
            return list(_parts(_blocks(adopted, name), binning, moments))

    connection = adopted.connection
    parts = guarded(lambda: interruptible(counted, connection) if connection else counted())
    numbers, keys, groups = _numbered([part.keys for part in parts], adopted, public=public)
    group, bins, rows, *sums = (
        np.concatenate(own)
        for own in zip(
            *((number[part.group], part.bins, part.rows, *part.moments)
              for number, part in zip(numbers, parts, strict=True)), strict=True,
        )
    )  # fmt: skip
    known = group >= 0
    if not known.all():
        group, bins, rows, *sums = (own[known] for own in (group, bins, rows, *sums))
    table = BinTable(keys, groups, binning, group, bins, rows, tuple(sums))
    return table.checked() if len(parts) == 1 and not public else added_up(table)


def _numbered(
    parts: Sequence[pa.Table], adopted: Adopted, *, public: bool
) -> tuple[list[Integers], pa.Table, int]:
    """Return each part's groups by their number among all, -1 if not listed; the keys; how many."""
    if not adopted.keys:
        return [np.zeros(1, dtype=np.int64)] * len(parts), pa.table({}), 1
    if len(parts) == 1 and not public:
        return [np.arange(parts[0].num_rows)], parts[0], parts[0].num_rows
    own = pa.concat_tables(parts)
    names, places = own.column_names, pa.array(np.arange(own.num_rows))
    listed = adopted.listed if public else None
    found = number_groups(own.append_column("place", places), names, listed)
    number = np.full(own.num_rows, -1, dtype=np.int64)
    number[found.entries.column("place").to_numpy()] = found.group
    cuts = np.cumsum([part.num_rows for part in parts])[:-1]
    return np.split(number, cuts), found.keys, found.groups


class _Rows(NamedTuple):
    """Some rows: their keys, and their values with NaN where there is none. Secret."""

    keys: pa.Table
    values: Floats

    def __repr__(self) -> str:
        """Show nothing of them."""
        return "_Rows()"


def _blocks(adopted: Adopted, name: str) -> Iterator[_Rows]:
    """Yield all rows in blocks; one without rows for none."""
    names = [key_name(index) for index in range(len(adopted.keys))]
    native: Any = adopted.lazy.to_native()
    if adopted.lazy.implementation.is_polars():
        keys = [pl.col(key).alias(own) for key, own in zip(adopted.keys, names, strict=True)]
        chosen = native.select(*keys, pl.col(name).cast(pl.Float64).alias("value"))
        frame = chosen.collect(engine="streaming")
        for rows in frame.iter_slices(_ROWS) if frame.height else [frame]:
            yield _Rows(rows.select(names).to_arrow(), rows["value"].to_numpy())
        return
    texts = [f"{quoted(key)} AS {own}" for key, own in zip(adopted.keys, names, strict=True)]
    chosen = native.project(", ".join([*texts, f"CAST({quoted(name)} AS DOUBLE) AS value"]))
    reader = chosen.to_arrow_reader(_BATCH)
    held, size, some = [reader.schema.empty_table()], 0, False
    for batch in reader:
        held.append(pa.Table.from_batches([batch]))
        size += batch.num_rows
        if size >= _ROWS:
            yield _rows(held, names)
            held, size, some = held[:1], 0, True
    if size or not some:
        yield _rows(held, names)


def _rows(batches: Sequence[pa.Table], names: Sequence[str]) -> _Rows:
    table = pa.concat_tables(batches)
    return _Rows(table.select(list(names)), table.column("value").to_numpy())


class _Part(NamedTuple):
    """What a block's bins hold, by groups of its own, sorted by group and bin. Secret."""

    keys: pa.Table
    group: Integers
    bins: Integers
    rows: Integers
    moments: tuple[Floats, ...]

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "_Part()"


def _parts(blocks: Iterator[_Rows], binning: Packable, moments: int) -> Iterator[_Part]:
    """Count blocks: in all cells where these are few, otherwise many rows at once by sorting."""
    width = 2 * binning.last + 2  # the last place is for rows without a value
    held: list[_Rows] = []
    for rows in blocks:
        codes = _codes(rows)
        if codes.size * width <= _FEW_CELLS:
            counted = _dense(codes.row, rows.values, binning, moments, codes.size * width)
            yield _part(codes, counted, binning)
            continue
        held.append(rows)
        if sum(len(own.values) for own in held) >= _SORTED:
            yield _sorted_part(held, binning, moments)
            held = []
    if held:
        yield _sorted_part(held, binning, moments)


def _sorted_part(held: Sequence[_Rows], binning: Packable, moments: int) -> _Part:
    keys = pa.concat_tables([rows.keys for rows in held])
    rows = _Rows(keys, np.concatenate([rows.values for rows in held]))
    codes = _codes(rows)
    return _part(codes, _sorted(codes.row, rows.values, binning, moments), binning)


def _part(codes: _Codes, counted: _Counted, binning: Packable) -> _Part:
    """Return cells by group and bin, without what counts rows that hold no value."""
    code, place = np.divmod(counted.cells, 2 * binning.last + 2)
    first = _starts(code)
    group = np.zeros(len(code), dtype=np.int64)
    group[first[1:]] = 1
    np.cumsum(group, out=group)
    keys, bins, rows = codes.keys_of(code[first]), place - binning.last, counted.rows
    sums = [np.where(bins == 0, 0.0, own) for own in counted.sums]
    known = bins <= binning.last
    if not known.all():
        group, bins, rows, *sums = (own[known] for own in (group, bins, rows, *sums))
    return _Part(keys, group, bins, rows, tuple(sums))


def _starts(values: Integers) -> Integers:
    """Return where runs of equal values begin."""
    new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return np.flatnonzero(new)


class _Codes(NamedTuple):
    """A number for each row's keys, how many there can be, and the keys of such numbers.

    Numbers are in the order of the keys, NULL last.
    """

    row: Integers
    size: int
    keys_of: Callable[[Integers], pa.Table]

    def __repr__(self) -> str:
        """Show nothing of them."""
        return "_Codes()"


class _Places(NamedTuple):
    """Where whole keys lie: the type of each, its least value and how many there can be. Secret."""

    names: list[str]
    columns: list[tuple[pa.DataType, int, int]]

    def __repr__(self) -> str:
        """Show nothing of them."""
        return "_Places()"

    @classmethod
    def of(cls, keys: pa.Table) -> _Places:
        """Return the places of the keys of some rows; the last one is that of NULL."""
        columns = []
        for column in keys.columns:
            ends = pc.min_max(column)
            least, most = (ends[own].as_py() or 0 for own in ("min", "max"))
            columns.append((column.type, least, most - least + 2))
        return cls(keys.column_names, columns)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return math.prod(size for _, _, size in self.columns)

    def hold(self, keys: pa.Table) -> bool:
        """Tell whether the keys of some rows have places."""
        for column, (_, least, size) in zip(keys.columns, self.columns, strict=True):
            ends = pc.min_max(column)
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if low is not None and not least <= low <= high <= least + size - 2:
                return False
        return True

    def codes(self, keys: pa.Table, rows: int) -> Integers:
        """Return the number of each row."""
        codes: Integers | None = None
        for column, (_, least, size) in zip(keys.columns, self.columns, strict=True):
            present = column.drop_null() if column.null_count else column
            array = present.chunk(0) if present.num_chunks == 1 else present.combine_chunks()
            own = np.subtract(array.to_numpy(), least, dtype=np.int64)
            if column.null_count:
                above, own = own, np.full(len(column), size - 1, dtype=np.int64)
                own[np.asarray(column.is_valid())] = above
            codes = own if codes is None else codes * size + own
        return np.zeros(rows, dtype=np.int64) if codes is None else codes

    def keys_of(self, numbers: Integers) -> pa.Table:
        """Return the keys that have some numbers."""
        columns = []
        for kind, least, size in reversed(self.columns):
            numbers, above = np.divmod(numbers, size)
            column = pa.array(above + least, mask=above == size - 1)
            columns.append(column.cast(kind))
        return pa.table(dict(zip(self.names, reversed(columns), strict=True)))


def _codes(rows: _Rows) -> _Codes:
    places = _Places.of(rows.keys)
    if places.size > _MOST_GROUPS:
        return _ranks(rows.keys)
    return _Codes(places.codes(rows.keys, len(rows.values)), places.size, places.keys_of)


def _ranks(keys: pa.Table) -> _Codes:
    found = number_groups(keys, keys.column_names, None)
    return _Codes(found.group, found.groups, lambda own: found.keys.take(pa.array(own)))


class _Counted(NamedTuple):
    """Cells that are not empty, ascending; their rows; sums of powers. Secret."""

    cells: Integers
    rows: Integers
    sums: list[Floats]

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "_Counted()"


def _dense(
    codes: Integers, values: Floats, binning: Packable, moments: int, cells: int
) -> _Counted:
    """Count into all cells."""
    width, held = 2 * binning.last + 2, np.empty(len(values), dtype=np.int64)
    powers = [np.empty(len(values)) for _ in range(moments)]
    for first in range(0, len(values), _CACHED):
        own = slice(first, first + _CACHED)
        value, label, bins = binned(values[own], binning)
        np.multiply(codes[own], width, out=held[own])
        held[own] += bins
        for power, known in zip(powers, powers_of(value, label, binning), strict=False):
            power[own] = known
    rows = np.bincount(held, minlength=cells)
    occupied = np.flatnonzero(rows)
    sums = [np.bincount(held, power, cells)[occupied].astype(np.float64) for power in powers]
    return _Counted(occupied, rows[occupied], sums)


def _sorted(codes: Integers, values: Floats, binning: Packable, moments: int) -> _Counted:
    """Sort one word a row, and count runs.

    Where sums are asked for, a word holds the value as single precision has it, which is exact for
    `VALUE_BITS`; its bits as an integer, those of negative numbers turned around, are in its order.
    """
    width = 2 * binning.last + 2
    words = np.empty(len(values), dtype=np.int64)
    for first in range(0, len(values), _CACHED):
        own = slice(first, first + _CACHED)
        value, _, bins = binned(values[own], binning)
        if moments:
            value[np.isnan(value)] = np.inf
            bits = value.astype(np.float32).view(np.int32)
            words[own] = bits ^ ((bits >> 31) & 0x7FFFFFFF)
            words[own] += codes[own] << 32
        else:
            words[own] = codes[own] * width + bins
    words = pl.Series(words).sort().to_numpy()
    if not moments:
        starts = _starts(words)
        return _Counted(words[starts], np.diff(starts, append=len(words)), [])
    powers = [np.empty(len(words)) for _ in range(moments)]
    cells = np.empty_like(words)
    for first in range(0, len(words), _CACHED):
        own = slice(first, first + _CACHED)
        bits = words[own].astype(np.int32)  # the low half
        code = (words[own] - bits) >> 32
        value = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).view(np.float32).astype(np.float64)
        value[value == np.inf] = np.nan
        value, label, bins = binned(value, binning)
        cells[own] = code * width + bins
        for power, known in zip(powers, powers_of(value, label, binning), strict=False):
            power[own] = known
    starts = _starts(cells)
    sums = [np.add.reduceat(power, starts) if len(starts) else power for power in powers]
    return _Counted(cells[starts], np.diff(starts, append=len(cells)), sums)


def binned(values: Floats, binning: Packable) -> tuple[Floats, Floats, Integers]:
    """Return rounded values, the labels of their bins and their places from 0; NaN has the last."""
    if isinstance(binning, SignificantBits):
        labels = kept = rounded(clipped(values), binning.bits)
        bins = binning.numbers(labels)
    else:
        kept = rounded(clipped(values), VALUE_BITS)
        labels, bins = binning.cut(kept)
    bins += binning.last
    missing = np.isnan(values)
    if missing.any():
        bins[missing] = 2 * binning.last + 1
    return kept, labels, bins


def powers_of(values: Floats, labels: Floats, binning: Packable) -> Iterator[Floats]:
    """Yield what first and second moments add up of rounded values."""
    if binning.bits == 1:
        yield values
        yield rounded(values * values, SQUARE_BITS)
        return
    excess = values - labels
    yield excess
    yield excess * excess  # of 20 bits: nothing to round


def is_addable(adopted: Adopted, sources: Sequence[Source]) -> bool:
    """Tell whether `packed_sums` may add up rows, by what is declared and the machine alone.

    One thread does it, with less work than the engine, which takes less time on many cores.
    """
    terms = [term for source in sources for term in source.terms]
    numbers = not any(term.told for term in terms) and all(
        source.terms or not source.columns for source in sources
    )
    near = _is_near(adopted) and not adopted.reads_once
    return bool(terms) and numbers and near and pl.thread_pool_size() <= _FEW_THREADS


def packed_sums(adopted: Adopted, sources: Sequence[Source]) -> Statistics | None:
    """Return what `dfprivacy.engine.passes.build_pass` adds up; None where that is less work.

    Each group that there can be has a place, to which rows are added in blocks, by `Term.of`.
    Places are for keys near each other; DuckDB itself adds up fewer columns and groups faster.

    Raises
    ------
    UnsupportedDtypeError, InvalidBoundsError
        When a column's declared dtype does not allow what is asked of it.
    """
    schema = adopted.lazy.collect_schema()
    for term in (term for source in sources for term in source.terms):
        for leaf in leaves_of(term):
            check_term_column(leaf.column, schema[adopted.values[leaf.column]], leaf)
    labels = list(dict.fromkeys(label for source in sources for label in source.columns))
    read = _in_polars if adopted.lazy.implementation.is_polars() else _in_duckdb

    def added() -> pa.Table | None:
        with watched():
            if read is _in_duckdb and len(sources) <= _FEW_SOURCES and _look_few(adopted):
                return None
            places, rows, blocks = read(adopted, labels)
            far = places.size > max(_FEW_PLACES, rows // 4)
            return None if far else _added(places, blocks, sources)

    connection = adopted.connection
    table = guarded(lambda: interruptible(added, connection) if connection else added())
    if table is None:
        return None
    return Statistics(table, len(adopted.keys), tuple(sources)).checked()


class _Block(NamedTuple):
    """Some rows: their keys, their values by label, and how many they are. Secret."""

    keys: pa.Table
    values: Mapping[Hashable, Floats]
    rows: int

    def __repr__(self) -> str:
        """Show nothing of them."""
        return "_Block()"


_Read = tuple[_Places, int, Iterator[_Block]]
"""Where the keys of a frame lie, how many rows it has, and these."""


def _in_polars(adopted: Adopted, labels: Sequence[Hashable]) -> _Read:
    keys = {key_name(index): pl.col(own) for index, own in enumerate(adopted.keys)}
    names = {f"value_{place}": pl.col(adopted.values[own]) for place, own in enumerate(labels)}
    frame = adopted.lazy.to_native().select(**keys, **names).collect(engine="streaming")
    table = frame.select(keys.keys()).to_arrow()
    columns = [_column(frame[name]) for name in names]

    def blocks() -> Iterator[_Block]:
        for first in range(0, frame.height, _BLOCK):
            size = min(_BLOCK, frame.height - first)
            values = (column(first, size) for column in columns)
            yield _Block(table.slice(first, size), dict(zip(labels, values, strict=True)), size)

    return _Places.of(table), frame.height, blocks()


def _quoted_keys(adopted: Adopted) -> tuple[list[str], dict[str, str]]:
    names = [key_name(index) for index in range(len(adopted.keys))]
    return names, dict(zip(names, map(quoted, adopted.keys), strict=True))


def _ends(native: Any, keys: Mapping[str, str]) -> tuple[_Places, int]:
    """Return where the keys of a relation lie, and how many rows it has."""
    ends = [f"{end}({key}) AS {end}_{own}" for own, key in keys.items() for end in ("min", "max")]
    found = native.aggregate(", ".join(["count(*) AS rows", *ends])).to_arrow_table()
    both = {own: [*found[f"min_{own}"].chunks, *found[f"max_{own}"].chunks] for own in keys}
    table = pa.table({own: pa.chunked_array(chunks) for own, chunks in both.items()})
    return _Places.of(table), found["rows"][0].as_py()


def _look_few(adopted: Adopted) -> bool:
    """Tell whether some rows of a relation, as they come, have keys that lie close together."""
    some: Any = adopted.lazy.to_native().limit(_BLOCK)
    return _ends(some, _quoted_keys(adopted)[1])[0].size <= _FEW_PLACES


def _in_duckdb(adopted: Adopted, labels: Sequence[Hashable]) -> _Read:
    native: Any = adopted.lazy.to_native()
    names, keys = _quoted_keys(adopted)
    places, rows = _ends(native, keys)
    texts = [f"{key} AS {own}" for own, key in keys.items()]
    values = [f"value_{place}" for place in range(len(labels))]
    for name, label in zip(values, labels, strict=True):
        texts.append(f"CAST({quoted(adopted.values[label])} AS DOUBLE) AS {name}")

    def blocks() -> Iterator[_Block]:
        for batch in native.project(", ".join(texts)).to_arrow_reader(_BLOCK):
            if not batch.num_rows:
                continue
            table = pa.table(batch.select(names).columns, names=names)
            if not places.hold(table):
                raise changed()
            own = (batch.column(name).to_numpy(zero_copy_only=False) for name in values)
            yield _Block(table, dict(zip(labels, own, strict=True)), batch.num_rows)

    return places, rows, blocks()


def _added(places: _Places, blocks: Iterator[_Block], sources: Sequence[Source]) -> pa.Table:
    totals = [_Totals(source, places.size) for source in sources]
    counts = not all(own.thresholds for own in totals)
    seen = np.zeros(places.size, dtype=np.int64)
    room = np.empty(0)
    for block in blocks:
        room = room if len(room) >= block.rows else np.empty(block.rows)
        codes = places.codes(block.keys, block.rows) if places.names else None
        whole = [own.add(codes, block.values, block.rows, room) for own in totals]
        if counts or not any(whole):
            _add(seen, codes, None, block.rows)
    every = [column for own in totals for column in own.columns(seen)]
    there = np.zeros(1, dtype=np.int64)
    if places.names:
        there = np.flatnonzero(seen + sum(own.levels.sum(axis=0) for own in totals))
    found = places.keys_of(there)
    sums = dict(zip(sum_names(sources), (own[there] for own in every), strict=True))
    return pa.table(dict(zip(found.column_names, found.columns, strict=True)) | sums)


def _column(values: pl.Series) -> Callable[[int, int], Floats]:
    """Return what reads some rows of a column as floats, NaN where there is no value."""
    if values.dtype == pl.Float64 and values.n_chunks() == 1 and not values.null_count():
        array = values.to_numpy()
        return lambda first, size: array[first : first + size]
    return lambda first, size: values.slice(first, size).cast(pl.Float64).to_numpy()


def _add(
    total: Integers, codes: Integers | None, wholes: Integers | Floats | None, rows: int
) -> None:
    """Add rows, or their whole numbers, to the places of their groups."""
    if codes is None:
        total += rows if wholes is None else int(wholes.sum())
    else:
        np.add.at(total, codes, 1 if wholes is None else wholes.astype(np.int64, copy=False))


class _Totals:
    """What the terms of a source add up to in each group. Secret.

    A value that exceeds the first of some ascending thresholds is counted at their number. Without
    thresholds the rows that hold no value are counted.
    """

    def __init__(self, source: Source, size: int) -> None:
        self.source = source
        above = [t for t in source.terms if isinstance(t, Above) and len(source.columns) == 1]
        self.thresholds = sorted({term.threshold for term in above})
        self.levels = np.zeros((1 + len(self.thresholds), size), dtype=np.int64)
        others = [term for term in source.terms if term not in above]
        self.sums = {term: np.zeros(size, dtype=np.int64) for term in others}

    def add(
        self, codes: Integers | None, values: Mapping[Hashable, Floats], rows: int, room: Floats
    ) -> bool:
        """Add a block of rows; tell whether all of them count. `room` holds as many numbers."""
        own = {label: values[label] for label in self.source.columns}
        whole = not any(math.isnan(np.minimum.reduce(each)) for each in own.values())
        if not whole:
            there = ~np.logical_or.reduce([np.isnan(each) for each in own.values()])
            if not self.thresholds:
                missing = None if codes is None else codes[~there]
                _add(self.levels[0], missing, None, rows - int(np.count_nonzero(there)))
            codes = None if codes is None else codes[there]
            own = {label: each[there] for label, each in own.items()}
            rows = int(np.count_nonzero(there))
        if self.thresholds:
            self._count(codes, own[self.source.columns[0]])
        for term, total in self.sums.items():
            if isinstance(term, OnGrid):  # of size at most 2**30: floats add up a block exactly
                wholes: Any = term.grid.wholes(own[term.column], room[:rows])
            else:
                wholes = term.of(own)
            _add(total, codes, wholes, rows)
        return whole

    def _count(self, codes: Integers | None, values: Floats) -> None:
        above = [values > threshold for threshold in self.thresholds]
        if codes is None:
            reached = [len(values), *(int(np.count_nonzero(own)) for own in above), 0]
            for total, most, more in zip(self.levels, reached, reached[1:], strict=False):
                total += most - more  # noqa: PLW2901 where it lies
            return
        level: Integers = sum(own.view(np.uint8) for own in above)  # type: ignore[assignment]
        cells = np.multiply(level, self.levels.shape[1], dtype=np.int64)
        cells += codes
        np.add.at(self.levels.reshape(-1), cells, 1)

    def rows(self, seen: Integers) -> Integers:
        """Return how many rows of each group count, where `seen` has all of them."""
        own: Integers = self.levels.sum(axis=0)
        return own if self.thresholds else seen - own

    def columns(self, seen: Integers) -> Iterator[Integers]:
        """Yield the sums in the order of the terms, the rows first."""
        yield self.rows(seen)
        for term in self.source.terms:
            if term in self.sums:
                yield self.sums[term]
            elif isinstance(term, Above):
                more = self.thresholds.index(term.threshold) + 1
                total: Integers = self.levels[more:].sum(axis=0) * term.each
                yield total
