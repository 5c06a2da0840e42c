"""Count rows by group and bin, and add them up by group, without a hash table.

A group's number and the row's bin make one cell. Where there are few cells, numpy counts into all
of them; otherwise the words are sorted, and runs of equal ones are counted. Rows come in blocks of
arrays, and each block numbers its groups by itself: nothing is read twice. Bins and sums are those
of `dfprivacy.engine.passes.run_bins`, bit for bit: rounding is the same law, and sums are exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial, reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import are_whole, check_number_column, check_term_column
from dfprivacy.engine.embedded import engine_options, interruptible
from dfprivacy.engine.files import quoted
from dfprivacy.engine.keys import key_expressions, number_groups, ranked
from dfprivacy.engine.progress import watched
from dfprivacy.engine.run import guarded
from dfprivacy.engine.terms import leaves_of
from dfprivacy.engine.units import UnitRows, hashed_rows, known_units
from dfprivacy.measurement.bin_table import BinTable, added_up
from dfprivacy.measurement.binning import (
    VALUE_BITS,
    ByBits,
    Floats,
    Integers,
    Octaves,
    Scratch,
    bins_of,
    bins_of_lines,
    count_lines,
    firsts_of,
    least_first,
    line_begins,
    lines_of,
    on_lines,
    places_of,
    seconds_of,
    units_of,
    within_lines,
)
from dfprivacy.measurement.linear import Above, OnGrid, Product, Source, Term
from dfprivacy.measurement.runs import mark_starts, run_starts
from dfprivacy.measurement.sums import Statistics, key_name, sum_names

_FEW_WORDS = 2**20  # that one thread sorts with less work
_SORTED = 2**25  # that are sorted at once, about: their words lie in memory, twice
_FEW_CELLS, _CELLS_OF_ROW = 2**20, 16
_MANY_CELLS, _MANY_OF_ROW = 2**27, 64
"""So many cells, and so many for a row, take less time than sorting: most are never touched."""
_FEW_LINES, _LINE_ROWS = 2**9, 2**26
_LINE_CELLS, _LINE_CELLS_OF_ROW = 2**26, 4
"""So many cells of lines that there are, of few that there can be, take less time than sorting."""
_FEW_GROUPS = 2**10  # whose cells are looked through at once: they lie in the cache
_SUM_BITS, _WORD_ROWS = 43, 2**20 - 1
"""A word of a cell holds so many rows above the sum of their patterns, which have 23 bits there."""
_ONE = np.uint64(2**_SUM_BITS)
_LEAST = -(2**63)
_MOST_GROUPS = 2**31  # a group's number stands above 32 bits of a value
_FEW_THREADS = 4
_SPARE = 8  # the part of the places that is added where keys lie beyond them
_BLOCK = 31 * 2**11  # rows that are counted at once, or read of DuckDB: whole vectors of it
_LONG = 2  # so many of these are added up at once where they lie in memory: less than 2**17 rows
_FEW_PLACES, _MOST_PLACES, _FEW_LEVELS = 2**15, 2**21, 2**14
_COUNT = 47
"""A row counts so many bits above its integer, at most `_MOST`: words of a block do not meet."""
_MOST = 2**30
_WORD = 2**52 + 2**_COUNT
_BITS = int(np.float64(_WORD).view(np.int64))
"""The bits of a float are these and an integer, where this number and the integer make it up."""
_COUNTS = 2 ** (64 - _COUNT)
_INVERSE = pow(_BITS >> _COUNT, -1, _COUNTS)  # from what rows add up to above, to how many they are
_GROUP = "group"
_CODED = (nw.String, nw.Categorical, nw.Enum, nw.Boolean, nw.Date, nw.Datetime)
"""Keys of frames in memory that go as their ranks."""
_RANKED = (nw.Binary, nw.Float32, nw.Float64, nw.UInt64)
"""Units, and keys beside them, that do as well."""


Words = npt.NDArray[np.uint64]


class Asked(NamedTuple):
    """A table to be counted: its column, the bins, and how many powers of values they add up."""

    column: Hashable
    binning: ByBits
    moments: int = 0


def is_packable(adopted: Adopted, binning: ByBits) -> bool:
    """Tell whether rows can be counted this way, by what is declared alone.

    Words take memory: files, and frames under a limit of `dfp.Engine`, are left to the engine.
    """
    schema, columns = adopted.lazy.collect_schema(), list(adopted.keys)
    ranks: list[type] = [*_CODED] if adopted.in_memory else []
    if adopted.unit is not None:
        columns, ranks = [*columns, adopted.unit.name], [*_CODED, *_RANKED]
    able = all(are_whole(schema, [own]) or schema[own] in ranks for own in columns)
    once = adopted.unit is not None and adopted.reads_once  # the engine may have to read it again
    narrow = isinstance(binning, Octaves) or binning.bits <= VALUE_BITS
    return narrow and able and is_near(adopted) and not once


def is_near(adopted: Adopted) -> bool:
    """Tell whether arrays of rows are at hand."""
    engine = adopted.lazy.implementation
    limited = adopted.connection is not None and engine_options().memory is not None
    return adopted.in_memory or (engine.is_duckdb() and not limited and not adopted.from_files)


def has_few_threads() -> bool:
    """Tell whether one thread with less work than the engine's takes less time, too."""
    return pl.thread_pool_size() <= _FEW_THREADS


def packed_bins(adopted: Adopted, asked: Sequence[Asked], *, public: bool) -> list[BinTable] | None:
    """Return the tables of `dfprivacy.engine.passes.run_bins`, and raise its errors.

    All come from one reading of the frame; None where a frame of units has too many rows.
    """
    labels, schema = list(dict.fromkeys(own.column for own in asked)), adopted.lazy.collect_schema()
    for column in labels:
        check_number_column(column, schema[adopted.values[column]])
    in_polars = adopted.lazy.implementation.is_polars()

    def counted() -> list[list[_Part]] | None:
        with watched():
            if adopted.unit is not None:
                return _counted_of_units(adopted, labels, asked)
            if not in_polars:
                return _counted(_of_duckdb(adopted, labels), asked)
            read = _in_polars(adopted, labels, _BLOCK)
            return [
                [_Part(_decoded(own.keys, read.ranked), own.cells) for own in parts]
                for parts in _counted(read.blocks, asked)
            ]

    connection = adopted.connection
    several = guarded(lambda: interruptible(counted, connection) if connection else counted())
    if several is None:
        return None
    return [
        _tabulated(parts, adopted, own.binning, public=public)
        for parts, own in zip(several, asked, strict=True)
    ]


def _counted_of_units(
    adopted: Adopted, labels: Sequence[Hashable], asked: Sequence[Asked]
) -> list[list[_Part]] | None:
    """Count what counts of the rows of units, for every table; None for too many rows."""
    names = [key_name(index) for index in range(len(adopted.keys))]
    values = [
        nw.col(adopted.values[own]).cast(nw.Float64).alias(f"value_{place}")
        for place, own in enumerate(labels)
    ]
    frame = adopted.lazy.select(*key_expressions(adopted, adopted.keys), *values)
    table = hashed_rows(known_units(frame, adopted), names, adopted, UnitRows.beside)
    if table is None or adopted.unit is None:
        return None
    rows, scratch = UnitRows(table, names, adopted.unit), Scratch()
    del table

    def blocks(own: Asked) -> Iterator[_Block]:
        column = f"value_{labels.index(own.column)}"
        for group, values in rows.thinned(column, own.binning, scratch, _BLOCK):
            keys = pa.table({_GROUP: group} if names else {})
            yield _Block(keys, {own.column: values}, len(values))

    def decoded(parts: Sequence[_Part]) -> list[_Part]:
        if not names:
            return list(parts)
        return [_Part(rows.keys.take(own.keys.column(_GROUP)), own.cells) for own in parts]

    return [decoded(_counted(blocks(own), [own])[0]) for own in asked]


def _tabulated(
    parts: Sequence[_Part], adopted: Adopted, binning: ByBits, *, public: bool
) -> BinTable:
    """Return the table of parts, each of which has numbered its groups by itself."""
    numbers, keys, groups = _numbered([part.keys for part in parts], adopted, public=public)
    if len(parts) == 1 and not public:
        group, bins, rows, *sums = parts[0].cells
        return BinTable(keys, groups, binning, group, bins, rows, tuple(sums)).checked()
    own = (
        (number[group], *rest) for number, (_, (group, *rest)) in zip(numbers, parts, strict=True)
    )
    group, bins, rows, *sums = map(np.concatenate, zip(*own, strict=True))
    known = group >= 0
    if not known.all():
        group, bins, rows, *sums = (own[known] for own in (group, bins, rows, *sums))
    return added_up(BinTable(keys, groups, binning, group, bins, rows, tuple(sums)))


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


class _Block:
    """Some rows: their keys, and their values by label, NaN where there is none. Secret."""

    def __init__(self, keys: pa.Table, values: Mapping[Hashable, Floats], rows: int) -> None:
        self.keys, self.values, self.rows = keys, values, rows
        self._places: _Places | None = None
        self._codes: dict[Any, Integers] = {}

    def __repr__(self) -> str:
        """Show nothing of them."""
        return "_Block()"

    @cached_property
    def places(self) -> _Places:
        """Where its keys lie."""
        return _Places.of(self.keys)

    def codes(self, places: _Places, kind: Any) -> Integers:
        """Return the number of each row's keys, in a type: it is kept for the next table."""
        if self._places != places:
            self._places, self._codes = places, {}
        if kind not in self._codes:
            self._codes[kind] = places.codes(self.keys, kind)
        return self._codes[kind]


class _Part(NamedTuple):
    """The keys of some groups, and what their cells hold: group, bin, rows and sums. Secret."""

    keys: pa.Table
    cells: Sequence[Any]

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "_Part()"


def _counted(blocks: Iterable[_Block], asked: Sequence[Asked]) -> list[list[_Part]]:
    """Count blocks for every table asked for."""
    scratch = Scratch()
    counters = [_Counter(own, len(asked), scratch) for own in asked]
    for block in blocks:
        for counter in counters:
            counter.add(block)
    return [counter.parts() for counter in counters]


class _Counter:
    """Counts blocks: in all cells where these are few for the rows, or by sorting many rows."""

    def __init__(self, asked: Asked, tables: int, scratch: Scratch) -> None:
        self._asked, self._scratch = asked, scratch
        self._most, self._most_cells = _SORTED // tables, _MANY_CELLS // tables
        self._made: list[_Part] = []
        self._held: list[_Block] = []
        self._rows = 0
        self._counts: _Counts | None = None

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "_Counter()"

    def add(self, block: _Block) -> None:
        """Count a block of rows."""
        counts = self._counts
        if not self._held and not (counts and counts.places.hold(block.places)):
            places = block.places
            if counts:
                self._made.append(counts.part())
                places = places.joined(counts.places)
            cells = places.size * _width(self._asked.binning)
            few = cells <= min(_FEW_CELLS, _CELLS_OF_ROW * block.rows)
            self._counts = _Counts(places, self._asked, self._scratch) if few else None
        if self._counts:
            self._counts.add(block)
            return
        self._held.append(block)
        self._rows += block.rows
        doubled = len(self._held).bit_count() == 1  # and again at twice as many
        if doubled and self._in_cells():
            return
        if self._rows >= self._most:
            self._made.append(_together(self._held, self._asked, self._scratch))
            self._held, self._rows = [], 0

    def _in_cells(self) -> bool:
        """Count the blocks that are held in all cells, where they have not too many."""
        places = reduce(_Places.joined, (own.places for own in self._held))
        cells = places.size * _width(self._asked.binning)
        if cells > min(self._most_cells, _MANY_OF_ROW * self._rows):
            return False
        self._counts = _Counts(places, self._asked, self._scratch)
        for own in self._held:
            self._counts.add(own)
        self._held, self._rows = [], 0
        return True

    def parts(self) -> list[_Part]:
        """Return all that was counted."""
        if self._counts:
            self._made.append(self._counts.part())
        if self._held:
            self._made.append(_together(self._held, self._asked, self._scratch))
        return self._made


def _width(binning: ByBits) -> int:
    """Return how many cells a group has."""
    return 2 * count_lines(binning)


class _Counts:
    """Rows and sums in all cells of groups whose keys have places, or in those of `lines`. Secret.

    A row adds its pattern and a one far above it to the word of its cell, which holds so many rows.
    All patterns of a cell begin with its line, so that one division tells the rows. All groups of a
    line lie together: most lines have no rows at all, and their words are never touched.
    """

    def __init__(
        self, places: _Places, asked: Asked, scratch: Scratch, lines: Integers | None = None
    ) -> None:
        self.places, self._asked, self._scratch = places, asked, scratch
        self._half = count_lines(asked.binning)
        self._lines = np.arange(2 * self._half) if lines is None else lines
        self._begins: Integers | None = None  # where the words of some lines begin
        if lines is not None:
            self._begins = np.zeros(2 * self._half, dtype=np.int64)
            self._begins[lines] = np.arange(len(lines)) * places.size
        self._words = np.zeros((len(self._lines), places.size), dtype=np.uint64)
        self._seconds = np.zeros(self._words.shape if asked.moments > 1 else 0)
        self._emptied: Integers | None = None  # what `_read` told of words before
        self._room = _WORD_ROWS if lines is None else math.inf
        self._first, self._last = self._half, -1
        self.counted = 0
        """How many rows `part` has found."""

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "_Counts()"

    def add(self, block: _Block) -> None:
        """Count a block of rows."""
        if block.rows > self._room:
            seen = self._words.reshape(2, self._half, self.places.size)[
                :, self._first : self._last + 1
            ]
            self._room = _WORD_ROWS - (int(seen.max()) >> _SUM_BITS)
        if block.rows > self._room:
            self._empty()
        self._room -= block.rows
        (column, binning, moments), scratch = self._asked, self._scratch
        patterns, first, last = on_lines(block.values[column], binning, scratch)
        self._first, self._last = min(self._first, first), max(self._last, last)
        lines, cells, sums = (
            scratch.array(number, block.rows, kind)
            for number, kind in ((3, np.uint32), (0, np.int64), (1, np.uint64))
        )
        numbers: npt.NDArray[Any] = lines_of(patterns, binning, lines)
        if self._begins is None:
            numbers *= self.places.size  # few cells: 32 bits hold them
        else:
            cells[:] = numbers
            numbers = np.take(self._begins, cells, out=sums.view(np.int64), mode="clip")
        if self.places.names:
            numbers += block.codes(self.places, np.uint32)
        cells[:], words = numbers, self._words.reshape(-1)
        if not moments:
            np.add.at(words, cells, _ONE)
            return
        np.add.at(words, cells, np.add(patterns, _ONE, out=sums))
        if moments > 1:
            firsts = within_lines(patterns, binning) + least_first(binning)
            seconds = seconds_of(firsts.view(np.int32), binning)
            np.add.at(self._seconds.reshape(-1), cells, seconds)

    def _empty(self) -> None:
        if self._emptied is None:
            self._emptied = np.zeros((2, *self._words.shape), dtype=np.int64)
        rows = self._rows()
        row, group = np.nonzero(self._words[rows])
        cells = rows[row], group
        self._emptied[:, *cells] += self._read(self._words[cells], self._ones(rows)[row])
        self._words[cells], self._room = 0, _WORD_ROWS

    def _rows(self) -> Integers:
        """Return the places, among these, of the lines that hold something."""
        if self._begins is not None:
            return np.arange(len(self._lines))
        every = slice(self._first, self._last + 1)
        held = self._words.reshape(2, self._half, self.places.size)[:, every].any(axis=2)
        if self._emptied is not None:
            held |= self._emptied[0].reshape(2, self._half, self.places.size)[:, every].any(axis=2)
        negative, line = np.nonzero(held)
        return np.asarray(negative * self._half + line + self._first)

    def _ones(self, rows: Integers) -> Words:
        """Return what each row adds at least to words of lines at some places."""
        if not self._asked.moments:
            return np.full(len(rows), _ONE)
        negative, line = np.divmod(self._lines[rows], self._half)
        return _ONE + line_begins(line, negative, self._asked.binning)

    @staticmethod
    def _read(words: Words, ones: Words) -> Integers:
        """Return how many rows words hold, and the sums of where in their lines."""
        rows, within = np.divmod(words, ones)
        return np.stack([rows, within >> np.uint64(2)]).view(np.int64)

    def part(self) -> _Part:
        """Return the cells that are not empty."""
        return _part(self._found(), self.places.keys_of, self._asked.binning)

    def _found(self) -> Iterator[Sequence[Any]]:
        """Yield group, bin and rows of cells, and their sums, of some whole groups at a time."""
        binning, moments, rows = self._asked.binning, self._asked.moments, self._rows()
        negative, line = np.divmod(self._lines[rows], self._half)
        bins = bins_of_lines(line, negative, binning)
        order = np.argsort(bins, kind="stable")
        rows, bins = rows[order], bins[order]
        ones, new = self._ones(rows), mark_starts(bins)
        for first in range(0, self.places.size, _FEW_GROUPS):
            groups = slice(first, first + _FEW_GROUPS)
            words = self._words[rows, groups]
            some, held = words != 0, None
            if self._emptied is not None:
                held = self._emptied[:, rows, groups]
                some |= held[0] != 0
            group, place = np.divmod(np.flatnonzero(some.T.copy()), max(len(rows), 1))
            sums = self._read(words[place, group], ones[place])
            if held is not None:
                sums += held[:, place, group]
            self.counted += int(sums[0].sum())
            sums[1] += sums[0] * least_first(binning)
            group, own = group + first, bins[place]
            cells = [*sums[: 1 + min(moments, 1)]]
            if moments > 1:
                cells.append(self._seconds[rows[place], group])
            if not new.all():  # zero has several lines
                starts = run_starts(group, own)
                group, own = group[starts], own[starts]
                cells = [np.add.reduceat(sums, starts) for sums in cells]
            yield group, own, *cells
        del self._words, self._seconds  # there is room for the table


def _together(held: Sequence[_Block], asked: Asked, scratch: Scratch) -> _Part:
    """Count blocks of many groups."""
    keys = pa.concat_tables([block.keys for block in held])
    places = _Places.of(keys)
    return _on_lines(held, asked, places, scratch) or _sorted(held, asked, (keys, places), scratch)


def _on_lines(
    held: Sequence[_Block], asked: Asked, places: _Places, scratch: Scratch
) -> _Part | None:
    """Count in the cells of the lines that there are; None where these are many for the rows.

    Words may overflow, as they are not emptied. Then cells have other rows in all
    (docs/explanation/octaves.md, section 1), and there are none.
    """
    rows = sum(block.rows for block in held)
    most = min(_LINE_CELLS // max(asked.moments, 1), _LINE_CELLS_OF_ROW * rows)
    if _width(asked.binning) > _FEW_LINES or rows > _LINE_ROWS or places.size > most:
        return None
    there = np.zeros(_width(asked.binning), dtype=bool)
    for block in held:
        patterns, _, _ = on_lines(block.values[asked.column], asked.binning, scratch)
        there[lines_of(patterns, asked.binning, scratch.array(3, block.rows, np.uint32))] = True
    lines = np.flatnonzero(there)
    if places.size * len(lines) > most:
        return None
    counts = _Counts(places, asked, scratch, lines)
    for block in held:
        counts.add(block)
    part = counts.part()
    return part if counts.counted == rows else None


def _sorted(
    held: Sequence[_Block], asked: Asked, known: tuple[pa.Table, _Places], scratch: Scratch
) -> _Part:
    """Sort one word a row, the number of its keys above the place of its value; count runs.

    The keys of all blocks, and their places, are `known`.
    """
    column, binning, moments = asked
    keys, places = known
    ends = np.cumsum([block.rows for block in held]).tolist()
    words, keys_of = np.empty(ends[-1], dtype=np.int64), places.keys_of
    far = places.size > _MOST_GROUPS
    if far:
        found = number_groups(keys, keys.column_names, None)
        words[:] = found.group
        keys_of = partial(_keys_of, found.keys)
    for block, end in zip(held, ends, strict=True):
        own = words[end - block.rows : end]
        if not places.names:
            own[:] = places_of(block.values[column], binning, scratch)
            continue
        if not far:
            own[:] = places.codes(block.keys)
        own <<= 32
        own += places_of(block.values[column], binning, scratch)
    return _part([counted(words, binning, moments)], keys_of, binning)


def counted(words: Integers, binning: ByBits, moments: int) -> Sequence[Any]:
    """Return the cells of words in any order: number, bin and rows of each, and its sums.

    A word is a number, with 32 bits below it for a place; sums are in `units_of` the bins.
    """
    words = pl.Series(words).sort(multithreaded=len(words) > _FEW_WORDS).to_numpy()
    starts = run_starts(bins_of(words, binning))
    sums: list[Any] = []
    if moments:
        firsts = firsts_of(words.astype(np.int32), binning)
        sums.append(np.add.reduceat(firsts, starts, dtype=np.int64))
    if moments > 1:
        sums.append(np.add.reduceat(seconds_of(firsts, binning), starts, dtype=np.float64))
    first = words[starts]
    places = first.astype(np.int32)
    rows = np.diff(starts, append=len(words))
    return (first - places) >> 32, bins_of(places, binning), rows, *sums


def _part(
    pieces: Iterable[Sequence[Any]], keys_of: Callable[[Integers], pa.Table], binning: ByBits
) -> _Part:
    """Return cells, in pieces of whole groups, as those of the groups that they number."""
    numbers, found, groups = [], [], 0
    for group, *rest in pieces:
        starts = mark_starts(group)
        numbers.append(group[starts])
        found.append(known_cells((np.cumsum(starts) + (groups - 1), *rest), binning))
        groups += len(numbers[-1])
    cells = [np.concatenate(own) for own in zip(*found, strict=True)]
    return _Part(keys_of(np.concatenate(numbers)), cells)


def known_cells(cells: Sequence[Any], binning: ByBits) -> Sequence[Any]:
    """Return cells without those of rows that have no value, and with sums in units of a column."""
    group, bins, rows, *sums = cells
    known = bins <= binning.last
    if not known.all():
        group, bins, rows, *sums = (own[known] for own in (group, bins, rows, *sums))
    bins = bins.astype(np.int64, copy=False)
    if isinstance(binning, Octaves) and sums:
        unit = units_of(bins, binning)
        sums = [own * unit**power for power, own in enumerate(sums, start=1)]
    return group, bins, rows, *sums


def _keys_of(keys: pa.Table, numbers: Integers) -> pa.Table:
    return keys.take(pa.array(numbers))


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
            least, most = (end.as_py() for end in pc.min_max(column).values())
            columns.append((column.type, least or 0, 1 if least is None else most - least + 2))
        return cls(keys.column_names, columns)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return math.prod(size for _, _, size in self.columns)

    def hold(self, other: _Places) -> bool:
        """Tell whether keys at other places have some here."""
        return all(
            width == 1 or (least <= own and own + width <= least + size)
            for (_, least, size), (_, own, width) in zip(self.columns, other.columns, strict=True)
        )

    def joined(self, other: _Places, spare: int = 0) -> _Places:
        """Return places for the keys of both, and where they reach further, a part to spare."""
        columns = []
        for (kind, one, size), (_, two, width) in zip(self.columns, other.columns, strict=True):
            one, two = (two if size == 1 else one), (one if width == 1 else two)  # noqa: PLW2901 NULL
            more = size // spare if spare else 0
            least = one if one <= two else max(two - more, _LEAST)
            end = one + size if one + size >= two + width else two + width + more
            columns.append((kind, least, end - least))
        return _Places(self.names, columns)

    def codes(self, keys: pa.Table, kind: Any = np.int64) -> Integers:
        """Return the number of each row, of one key at least, in a type that holds the `size`.

        What does not fit on the way wraps around, and back.
        """
        codes: Integers | None = None
        for column, (_, least, size) in zip(keys.columns, self.columns, strict=True):
            present = column.drop_null() if column.null_count else column
            array = present.chunk(0) if present.num_chunks == 1 else present.combine_chunks()
            own = array.to_numpy().astype(kind)
            own -= np.array(least).astype(kind)
            if column.null_count:
                above, own = own, np.full(len(column), size - 1, dtype=kind)
                own[np.asarray(column.is_valid())] = above
            codes = own if codes is None else codes * size + own
        assert codes is not None  # noqa: S101 there is a key
        return codes

    def keys_of(self, numbers: Integers) -> pa.Table:
        """Return the keys that have some numbers."""
        columns = []
        for kind, least, size in reversed(self.columns):
            numbers, above = np.divmod(numbers, size)
            column = pa.array(above + least, mask=above == size - 1)
            columns.append(column.cast(kind))
        return pa.table(dict(zip(self.names, reversed(columns), strict=True)))


def is_addable(adopted: Adopted, sources: Sequence[Source]) -> bool:
    """Tell whether `packed_sums` may add up rows, by what is declared and the machine alone.

    One thread does it, with less work than the engine, which takes less time on many cores.
    """
    terms = [term for source in sources for term in source.terms]
    numbers = not any(term.told for term in terms) and all(
        source.terms or not source.columns for source in sources
    )
    near = is_near(adopted) and are_whole(adopted.lazy.collect_schema(), adopted.keys)
    near = near and adopted.unit is None and not adopted.reads_once
    return bool(terms) and numbers and near and has_few_threads()


def packed_sums(adopted: Adopted, sources: Sequence[Source]) -> Statistics | None:
    """Return what `dfprivacy.engine.passes.build_pass` adds up; None where keys are far apart.

    Each group that there can be has a place, to which rows are added in blocks, by `Term.of`. The
    frame is read once; DuckDB's keys get more places as they come.

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
    in_polars = adopted.lazy.implementation.is_polars()

    def added() -> pa.Table | None:
        with watched():
            if in_polars:
                return _added_up(_in_polars(adopted, labels, _LONG * _BLOCK), sources)
            return _added_up(_Read(_of_duckdb(adopted, labels)), sources)

    connection = adopted.connection
    table = guarded(lambda: interruptible(added, connection) if connection else added())
    if table is None:
        return None
    return Statistics(table, len(adopted.keys), tuple(sources)).checked()


class _Read(NamedTuple):
    """The rows of a frame, how many they are and where their keys lie if that is known. Secret.

    Keys that go as ranks have their different values in `ranked`.
    """

    blocks: Iterator[_Block]
    rows: int = 0
    places: _Places | None = None
    ranked: Mapping[str, pa.Array] = MappingProxyType({})

    def __repr__(self) -> str:
        """Show nothing of them."""
        return "_Read()"

    def is_far(self, places: _Places, rows: int, columns: int) -> bool:
        """Tell whether most of many places may be empty, by the rows that were read."""
        limit = max(_FEW_PLACES, max(rows, self.rows) // 4)
        some = self.places is None and rows >= _BLOCK  # there may be any number of others
        return places.size > (max(limit, _MOST_PLACES // columns) if some else limit)


def _in_polars(adopted: Adopted, labels: Sequence[Hashable], most: int) -> _Read:
    """Return the rows of a frame, in blocks of at most so many."""
    keys = key_expressions(adopted, adopted.keys)
    values = nw.col(*(adopted.values[own] for own in labels)).name.prefix("value_")
    frame = adopted.lazy.select(*keys, values).to_native().collect(engine="streaming")
    table, known = frame[:, : len(keys)].to_arrow(), {}
    for place, name in enumerate(table.column_names):
        if not pa.types.is_integer(table.schema.field(name).type):
            ranks, known[name] = ranked(table.column(name))
            table = table.set_column(place, name, pa.array(ranks))
    columns = [_column(own) for own in frame.get_columns()[len(keys) :]]

    def blocks() -> Iterator[_Block]:
        for first in range(0, max(frame.height, 1), most):
            size = min(most, frame.height - first)
            values = (column(first, size) for column in columns)
            yield _Block(table.slice(first, size), dict(zip(labels, values, strict=True)), size)

    return _Read(blocks(), frame.height, _Places.of(table), known)


def _decoded(keys: pa.Table, known: Mapping[str, pa.Array]) -> pa.Table:
    """Return keys that were ranks as they are."""
    for name, different in known.items():
        place = keys.column_names.index(name)
        keys = keys.set_column(place, name, different.take(keys.column(name).combine_chunks()))
    return keys


def _of_duckdb(adopted: Adopted, labels: Sequence[Hashable]) -> Iterator[_Block]:
    """Yield the rows of a relation, and nothing twice; one block without rows for none."""
    native: Any = adopted.lazy.to_native()
    names = [key_name(index) for index in range(len(adopted.keys))]
    texts = [f"{quoted(key)} AS {own}" for own, key in zip(names, adopted.keys, strict=True)]
    values = [f"value_{place}" for place in range(len(labels))]
    for name, label in zip(values, labels, strict=True):
        texts.append(f"CAST({quoted(adopted.values[label])} AS DOUBLE) AS {name}")
    reader, some = native.project(", ".join(texts)).to_arrow_reader(_BLOCK), False
    nothing = pa.RecordBatch.from_pylist([], schema=reader.schema)
    for batch in itertools.chain(reader, [nothing]):
        for first in range(0, batch.num_rows if some else max(batch.num_rows, 1), _BLOCK):
            block = batch.slice(first, _BLOCK)  # whatever the engine makes of the size asked for
            table = pa.table(block.select(names).columns, names=names)
            own = (block.column(name).to_numpy(zero_copy_only=False) for name in values)
            yield _Block(table, dict(zip(labels, own, strict=True)), block.num_rows)
            some = True


def _added_up(read: _Read, sources: Sequence[Source]) -> pa.Table | None:
    """Return the sums of all rows; None where keys are far apart."""
    totals = [_Totals(source) for source in sources]
    counts = not all(own.thresholds for own in totals)
    seen, scratch = np.zeros(0, dtype=np.int64), Scratch()
    places: _Places | None = None
    rows = 0

    def there() -> Integers:
        return np.flatnonzero(seen + sum(own.levels.sum(axis=0) for own in totals))

    for block in read.blocks:
        rows += block.rows
        if places is None or (read.places is None and not places.hold(block.places)):
            own = read.places or block.places
            wider = own if places is None else places.joined(own, _SPARE)
            if read.is_far(wider, rows, len(sources)):
                return None
            old = there()
            new = wider.codes(places.keys_of(old)) if places else old
            seen, places = _moved(seen, wider.size, old, new), wider
            for total in totals:
                total.move(wider.size, old, new)
        if not block.rows:
            continue
        codes = partial(block.codes, places) if places.names else None
        whole = [own.add(codes, block.values, block.rows, scratch) for own in totals]
        if counts or not any(whole):
            _add(seen, codes, None, block.rows)
    assert places is not None  # noqa: S101 there is one block at least
    every = [column for own in totals for column in own.columns(seen, keyed=bool(places.names))]
    groups = there() if places.names else np.zeros(1, dtype=np.int64)
    found = places.keys_of(groups)
    sums = dict(zip(sum_names(sources), (own[groups] for own in every), strict=True))
    return pa.table(dict(zip(found.column_names, found.columns, strict=True)) | sums)


def _moved(totals: Integers, size: int, old: Integers, new: Integers) -> Integers:
    """Return totals at so many places, those of the old ones at the new ones."""
    moved = np.zeros((*totals.shape[:-1], size), dtype=np.int64)
    moved[..., new] = totals[..., old]
    return moved


def _column(values: pl.Series) -> Callable[[int, int], Floats]:
    """Return what reads some rows of a column as floats, NaN where there is no value."""
    if values.dtype == pl.Float64 and values.n_chunks() == 1 and not values.null_count():
        array = values.to_numpy()
        return lambda first, size: array[first : first + size]
    return lambda first, size: values.slice(first, size).cast(pl.Float64).to_numpy()


_Codes = Callable[[Any], Integers]
"""The numbers of rows, in a type."""


def _add(
    total: Integers, codes: _Codes | None, wholes: Integers | Floats | None, rows: int
) -> None:
    """Add rows, or their whole numbers, to the places of their groups."""
    if codes is None:
        total += rows if wholes is None else int(wholes.sum())
    else:
        more = 1 if wholes is None else wholes.astype(np.int64, copy=False)
        np.add.at(total, codes(np.int64), more)


def _some(codes: _Codes, there: npt.NDArray[np.bool_]) -> _Codes:
    """Return the numbers of some rows."""
    return cache(lambda kind: codes(kind)[there])


def _multiplies(source: Source) -> bool:
    return any(isinstance(term, Product) for term in source.terms)


class _Step(NamedTuple):
    """A term or a factor of one: where it is kept; of a product, where its factors are."""

    term: Term
    slot: int
    factors: tuple[int, int] | None
    divisor: np.uint64

    @classmethod
    def of(cls, term: Term, slots: Mapping[Term, int]) -> _Step:
        """Return a term, where factors have these slots: what it is made of is looked at here."""
        slot = slots.get(term, 0)
        if not isinstance(term, Product):
            return cls(term, slot, None, np.uint64(1))
        return cls(term, slot, (slots[term.left], slots[term.right]), np.uint64(term.divisor))


def _steps(sums: Iterable[Term]) -> list[_Step]:
    """Return each term once, after its factors; what is no factor lies in the first slot."""
    slots: dict[Term, int] = {}
    order: dict[Term, None] = {}

    def add(term: Term) -> None:
        for factor in (term.left, term.right) if isinstance(term, Product) else ():
            add(factor)
            slots.setdefault(factor, 1 + len(slots))
        order.setdefault(term)

    for own in sums:
        add(own)
    return [_Step.of(term, slots) for term in order]


class _Totals:
    """What the terms of a source add up to in each group. Secret.

    A value that exceeds the first of some ascending thresholds is counted at their number. Without
    thresholds the rows that hold no value are counted. An integer of a grid is added as the bits of
    a float, the same for each row but for the integer: they are taken out at last, modulo 2**64.
    In a block of few cells they also say how many rows each has.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        above = [t for t in source.terms if isinstance(t, Above) and len(source.columns) == 1]
        self.thresholds = sorted({term.threshold for term in above})
        self.levels = np.zeros((1 + len(self.thresholds), 0), dtype=np.int64)
        others = [term for term in source.terms if term not in above]
        self.sums = {term: np.zeros(0, dtype=np.int64) for term in others}
        multiplies = any(isinstance(term, Product) for term in others)
        self.steps = _steps(self.sums) if multiplies else []
        grids = [own for own in others if isinstance(own, OnGrid) and own.most - own.least <= _MOST]
        self.counting = grids[0] if grids and self.thresholds and not multiplies else None
        self._words: Integers | None = None  # of each cell, in a block

    def __repr__(self) -> str:
        """Show nothing that was added up."""
        return "_Totals()"

    def move(self, size: int, old: Integers, new: Integers) -> None:
        """Make so many places, with what the old ones had at the new ones."""
        self.levels = _moved(self.levels, size, old, new)
        self.sums = {term: _moved(own, size, old, new) for term, own in self.sums.items()}
        few = self.counting is not None and self.levels.size <= _FEW_LEVELS
        self._words = np.zeros_like(self.levels) if few else None
        self._narrow = np.min_scalar_type(self.levels.size).type  # arithmetic takes less time
        self._into = [self.sums.get(step.term) for step in self.steps]
        self._slots = 1 + max((step.slot for step in self.steps), default=0)

    def add(
        self, codes: _Codes | None, values: Mapping[Hashable, Floats], rows: int, scratch: Scratch
    ) -> bool:
        """Add a block of rows; tell whether all of them count."""
        own = {label: values[label] for label in self.source.columns}
        if codes is None and self._add_whole(own, rows, scratch):
            return True
        whole = not any(math.isnan(np.minimum.reduce(each)) for each in own.values())
        if not whole:
            there = ~np.logical_or.reduce([np.isnan(each) for each in own.values()])
            if not self.thresholds:
                missing = None if codes is None else _some(codes, ~there)
                _add(self.levels[0], missing, None, rows - int(np.count_nonzero(there)))
            codes = None if codes is None else _some(codes, there)
            own = {label: each[there] for label, each in own.items()}
            rows = int(np.count_nonzero(there))
        cells = None
        if self.thresholds:
            cells = self._cells(codes, own[self.source.columns[0]], scratch)
        if cells is not None and self._words is None:
            np.add.at(self.levels.reshape(-1), cells, 1)
        if self.steps:
            self._multiply(codes, own, scratch)
            return whole
        room = scratch.array(0, rows, np.float64)
        for term, total in self.sums.items():
            if not isinstance(term, OnGrid):
                _add(total, codes, term.of(own), rows)
                continue
            wholes = term.grid.wholes(own[term.column], room)
            if codes is None:
                total += int(np.add.reduce(wholes))  # noqa: PLW2901 where it lies
                continue
            wholes += _WORD - term.least
            words = wholes.view(np.int64)
            if cells is None or self._words is None or term is not self.counting:
                np.add.at(total, codes(np.int64), words)
                continue
            np.add.at(self._words.reshape(-1), cells, words)
            total += np.add.reduce(self._words)  # noqa: PLW2901 where it lies
            self._words >>= _COUNT
            self._words *= _INVERSE
            self._words &= _COUNTS - 1
            self.levels += self._words
            self._words[:] = 0
        return whole

    def _add_whole(self, values: Mapping[Hashable, Floats], rows: int, scratch: Scratch) -> bool:
        """Add rows without keys if all of them have values and add whole numbers of grids.

        These are of size at most 2**30, in a block of fewer than 2**17 rows: floats add it up
        exactly, and NaN where there is one.
        """
        grids = [own for own in self.sums if isinstance(own, OnGrid)]
        if self.steps or not grids or len(grids) < len(self.sums):
            return False
        room = scratch.array(0, rows, np.float64)
        added = [float(np.add.reduce(own.grid.wholes(values[own.column], room))) for own in grids]
        if math.isnan(sum(added)):
            return False
        for total, more in zip(self.sums.values(), added, strict=True):
            total += int(more)  # noqa: PLW2901 where it lies
        if self.thresholds:
            self._cells(None, values[self.source.columns[0]], scratch)
        return True

    def _multiply(
        self, codes: _Codes | None, values: Mapping[Hashable, Floats], scratch: Scratch
    ) -> None:
        """Add up terms and products; each factor is made once, what is added at once not kept."""
        size = len(next(iter(values.values())))
        room = scratch.array(0, size, np.float64)
        held = scratch.array(1, self._slots * size, np.int64).reshape(self._slots, size)
        for step, total in zip(self.steps, self._into, strict=True):
            out, term = held[step.slot], step.term
            if step.factors is not None:  # never negative: unsigned division is faster
                np.multiply(held[step.factors[0]], held[step.factors[1]], out)
                whole = out.view(np.uint64)
                np.floor_divide(whole, step.divisor, whole)
            elif isinstance(term, OnGrid):  # whole numbers of floats, read off their bits
                wholes = term.grid.wholes(values[term.column], room)
                wholes += _WORD
                np.subtract(wholes.view(np.int64), _BITS, out)
            else:
                out[:] = term.of(values)
            if total is not None:
                _add(total, codes, out, size)

    def _cells(self, codes: _Codes | None, values: Floats, scratch: Scratch) -> Integers | None:
        """Return the cell of each row's level; count the levels where there are no keys."""
        size = len(values)
        above, level = scratch.array(2, size, np.bool_), scratch.array(3, size, np.uint8)
        if codes is None:
            above_each = (np.greater(values, own, out=above) for own in self.thresholds)
            reached = [size, *(int(np.count_nonzero(own)) for own in above_each), 0]
            for total, most, more in zip(self.levels, reached, reached[1:], strict=False):
                total += most - more  # noqa: PLW2901 where it lies
            return None
        np.greater(values, self.thresholds[0], out=level.view(np.bool_))
        for own in self.thresholds[1:]:
            level += np.greater(values, own, out=above).view(np.uint8)
        narrow, cells = scratch.array(0, size, self._narrow), scratch.array(1, size, np.int64)
        narrow[:] = level
        narrow *= self.levels.shape[1]
        narrow += codes(self._narrow)
        cells[:] = narrow
        return cells

    def rows(self, seen: Integers) -> Integers:
        """Return how many rows of each group count, where `seen` has all of them."""
        own: Integers = self.levels.sum(axis=0)
        return own if self.thresholds else seen - own

    def columns(self, seen: Integers, *, keyed: bool) -> Iterator[Integers]:
        """Yield the sums in the order of the terms, the rows first."""
        rows = self.rows(seen)
        yield rows
        for term in self.source.terms:
            if term in self.sums:
                own = self.sums[term]
                shifted = keyed and not self.steps and isinstance(term, OnGrid)
                yield own - rows * (_BITS - term.least) if shifted else own
            elif isinstance(term, Above):
                more = self.thresholds.index(term.threshold) + 1
                total: Integers = self.levels[more:].sum(axis=0) * term.each
                yield total
