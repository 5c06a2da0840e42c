"""Hold exact counts by group and bin, with the sums of what the bins hold. Secret.

A bin table with counts alone is a value-count table; with the sums of its octaves it is an octave
table. Each row of data adds one to one count, and to the sums within bounds at octave edges what it
adds on the grid of given bounds: the partition of unity holds unchanged
(docs/explanation/octaves.md). Where values are known to be multiples of a step, they count as the
nearest of these (`Steps`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.errors import InvalidQuestionError, TooManyRowsError
from dfprivacy.measurement.binning import (
    SQUARE_BITS,
    Binning,
    Edges,
    Floats,
    Integers,
    Octaves,
    SignificantBits,
    clip_values,
    round_values,
)
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.exact import decimal_number
from dfprivacy.measurement.grid import Grid
from dfprivacy.measurement.linear import Linear, OnGrid, Product, Source, Term
from dfprivacy.measurement.runs import run_starts
from dfprivacy.measurement.sums import Statistics, sum_name

Held = tuple[Floats, Integers]
"""The values of a group, and how many rows have each."""

_SUMMED = 2**13  # groups whose entries are summed together: they lie in the cache
BIN_ROW_LIMIT = 2**31
"""Float sums of one octave of values with 22 significant bits are exact below it."""


@dataclass(frozen=True, eq=False, repr=False)
class BinTable:
    """Non-empty bins of each group, sorted by group and bin. Secret: only noise may read it.

    `keys` has one row a group, in the order of the release, and no columns for a whole frame. Of
    each bin, `group` is the index of its group, beside `bins` and `rows`; `moments` are exact
    sums of what rounded values exceed the bases of their bins by (`Octaves.bases`), and squared.
    """

    keys: pa.Table = field(repr=False)
    groups: int
    binning: Binning
    group: Integers
    bins: Integers
    rows: Integers
    moments: tuple[Floats, ...] = ()

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return f"BinTable(secret; {self.binning})"

    def totals(self) -> Integers:
        """Return the rows of each group."""
        before = np.concatenate([[0], np.cumsum(self.rows)])
        return np.asarray(np.diff(before[self.starts]), dtype=np.int64)

    def parts(self, size: int) -> Iterator[range]:
        """Yield the numbers of all groups, at most `size` at a time; once where there are none."""
        firsts = range(0, max(self.groups, 1), size)
        return (range(first, min(first + size, self.groups)) for first in firsts)

    def values(self) -> Floats:
        """Return the value of each entry, in units of the column, of a value-count table."""
        if isinstance(self.binning, SignificantBits):
            return self.binning.values(self.bins)
        raise ValueError("only the bins of significant bits are values")

    def slices(self) -> Iterator[slice]:
        """Yield where the entries of each group are."""
        return (slice(first, stop) for first, stop in itertools.pairwise(self.starts.tolist()))

    def values_by_group(self) -> Iterator[Held]:
        """Yield the values of each group, with their rows: see `values`."""
        values = self.values()
        return ((values[part], self.rows[part]) for part in self.slices())

    @cached_property
    def codes(self) -> Integers:
        """The place of each entry among all bins of all groups, ascending."""
        return list_codes(self.group, self.bins, self.binning.last)

    @cached_property
    def starts(self) -> Integers:
        """Where each group's entries begin, and the total at the end."""
        starts = np.zeros(self.groups + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.group, minlength=self.groups), out=starts[1:])
        return starts

    def unstack(self, keys: pa.Table, number: int) -> list[BinTable]:
        """Return the tables of some columns, whose groups are numbered one column after another."""
        groups = self.groups // number
        ends = np.searchsorted(self.group, groups * np.arange(number + 1)).tolist()
        return [
            replace(
                self,
                keys=keys,
                groups=groups,
                group=self.group[first:stop] - column * groups,
                bins=self.bins[first:stop],
                rows=self.rows[first:stop],
                moments=tuple(moment[first:stop] for moment in self.moments),
            )
            for column, (first, stop) in enumerate(itertools.pairwise(ends))
        ]

    def check_rows(self) -> BinTable:
        """Return this table if no bin reached the public limit of rows."""
        if len(self.rows) and int(self.rows.max()) >= BIN_ROW_LIMIT:
            raise TooManyRowsError(
                "a group reaches 2**31 rows, the public limit of a release without bounds",
                hint="split the data into parts and release each, or give bounds",
            )
        return self


def stack(tables: Sequence[BinTable], columns: Iterable[int], number: int) -> BinTable:
    """Return the rows of some of `number` columns as those of one, without powers of values.

    Its groups are those of each column, one column after another: the inverse of `unstack`.
    """
    groups, binning = tables[0].groups, tables[0].binning
    group = [t.group + column * groups for t, column in zip(tables, columns, strict=True)]
    return BinTable(
        pa.table({}),
        groups * number,
        binning,
        np.concatenate(group),
        np.concatenate([table.bins for table in tables]),
        np.concatenate([table.rows for table in tables]),
    )


def list_codes(group: Integers, bins: Integers, last: int) -> Integers:
    """Return the places of some bins, from -last to last, among all bins of all groups."""
    return np.asarray(group * (2 * last + 1) + bins + last)


def bin_table(
    keys: pa.Table,
    groups: int,
    binning: Binning,
    group: Integers,
    labels: Floats,
    *,
    rows: Integers,
    moments: Sequence[Floats] = (),
) -> BinTable:
    """Return a table of an engine's entries, equal bins added up, NaN labels left out."""
    is_known = ~np.isnan(labels)
    if not is_known.all():
        group, labels, rows = group[is_known], labels[is_known], rows[is_known]
        moments = [moment[is_known] for moment in moments]
    numbers = binning.numbers(labels)
    moments = [np.where(numbers == 0, 0.0, moment) for moment in moments]
    return add_up_bins(BinTable(keys, groups, binning, group, numbers, rows, tuple(moments)))


def count_rows(
    keys: pa.Table,
    groups: int,
    binning: Octaves | Edges,
    group: Integers,
    values: Floats,
    *,
    moments: int,
) -> BinTable:
    """Count rows by the number of their group and by bin, and add up powers; no value is NaN.

    Rows are read by chunks that stay in the cache.
    """
    parts = [slice(first, first + _CHUNK) for first in range(0, len(values), _CHUNK)]
    numbers, powers, size = np.zeros(0, np.int64), np.zeros((moments, len(values))), 0
    if isinstance(binning, Octaves):
        codes = np.zeros(len(values), np.uint32)
        numbers = np.zeros(2 ** (8 + binning.bits), np.int64)
        for part in parts:
            power = binning.distances(values[part])
            codes[part] = binning.codes(power)
            if not binning.counts_from_center:
                power = power - binning.labels_of_codes(codes[part])
            for index in range(moments):
                powers[index, part] = round_values(power * power, SQUARE_BITS) if index else power
            numbers[codes[part]] = 1
        present = np.flatnonzero(numbers)
        labels = binning.labels_of_codes(present.astype(np.uint32))
        bins, numbers[present] = np.unique(binning.numbers(labels), return_inverse=True)
        size = len(bins)
    if not 0 < groups * size <= 4 * len(values) + _FEW_BINS:
        bins = binning.numbers(binning.labels(clip_values(values)))
        moved = tuple(np.where(bins == 0, 0.0, power) for power in powers)
        return add_up_bins(BinTable(keys, groups, binning, group, bins, np.ones_like(bins), moved))
    rows = np.zeros(groups * size, np.int64)
    sums = np.zeros((moments, len(rows)))
    for part in parts:
        cells = numbers.take(codes[part].astype(np.int64), mode="clip")
        cells += group[part] * size
        np.add.at(rows, cells, 1)
        for total, power in zip(sums, powers, strict=True):
            np.add.at(total, cells, power[part])
    filled = np.flatnonzero(rows)
    group, cells = np.divmod(filled, size)
    bins = bins[cells]
    added = tuple(np.where(bins == 0, 0.0, total[filled]) for total in sums)
    return BinTable(keys, groups, binning, group, bins, rows[filled], added).check_rows()


_CHUNK = 2**16


def add_up_bins(table: BinTable) -> BinTable:
    """Return a table of entries in any order: sorted, and equal bins of a group added up."""
    group, bins, order = _order_bins(table.group, table.bins, table.binning)
    starts = run_starts(group, bins)
    rows, moments = table.rows[order], [moment[order] for moment in table.moments]
    if len(starts) < len(group):
        group, bins = group[starts], bins[starts]
        rows = np.add.reduceat(rows, starts)
        moments = [np.add.reduceat(moment, starts) for moment in moments]
    summed = BinTable(table.keys, table.groups, table.binning, group, bins, rows, tuple(moments))
    return summed.check_rows()


def _order_bins(
    group: Integers, bins: Integers, binning: Binning
) -> tuple[Integers, Integers, Any]:
    """Return groups and bins in order, by one integer for both and the place, and the order."""
    bits = (2 * binning.last + 2).bit_length()
    places = max(len(bins) - 1, 1).bit_length()
    if int(group.max(initial=0)).bit_length() + bits + places > 63:
        order = np.lexsort((bins, group)).astype(np.int64)
        return group[order], bins[order], order
    packed = (group << bits) + (bins + binning.last + 1)
    if (packed[1:] >= packed[:-1]).all():
        return group, bins, slice(None)
    packed <<= places
    packed += np.arange(len(bins))
    packed.sort()
    order = packed & (2**places - 1)
    packed >>= places
    return packed >> bits, (packed & (2**bits - 1)) - (binning.last + 1), order


def rebin(table: BinTable, binning: Binning) -> BinTable:
    """Return the counts of a value-count table by another binning."""
    labels, group = binning.labels(table.values()), table.group
    return bin_table(table.keys, table.groups, binning, group, labels, rows=table.rows)


def merge_tables(parts: Sequence[BinTable]) -> BinTable:
    """Add up tables of disjoint parts of a data set with the same groups, bin by bin."""
    first = parts[0]
    if any(part.binning != first.binning or not part.keys.equals(first.keys) for part in parts):
        raise ValueError("bin tables of different groups or bins can't be merged")
    group, bins, rows = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("group", "bins", "rows")
    )
    moments = zip(*(part.moments for part in parts), strict=True)
    sums = tuple(np.concatenate(columns) for columns in moments)
    return add_up_bins(BinTable(first.keys, first.groups, first.binning, group, bins, rows, sums))


_FEW_BINS = 2**16
"""Number of bins up to which counts are added in place, not sorted."""

FINE = Octaves(12)
"""The bins of a whole frame: values exceed them by so few bits that sums of squares are exact."""

SQUARES_SLACK = 2**16
"""More than a row can move the Bernstein sums of an octave table beyond K: the sum of a bin is
rounded several times in floating point, the squares of octaves to 21 bits
(docs/explanation/octaves.md, 6)."""


def in_one(table: BinTable) -> BinTable:
    """Return how many rows each bin of a table has in all groups together."""
    group = np.zeros_like(table.group)
    return add_up_bins(replace(table, keys=pa.table({}), groups=1, group=group, moments=()))


def fits_octaves(linear: Linear) -> bool:
    """Return True if octave sums can answer a vector: one column, its values and their squares."""
    return len(linear.source.columns) == 1 and all(
        isinstance(term, OnGrid)
        or (isinstance(term, Product) and term.left == term.right and isinstance(term.left, OnGrid))
        for term in linear.source.terms
    )


def powers_needed(linear: Linear) -> int:
    """Return how many powers of the values an octave table must add up for a vector."""
    squared = any(isinstance(term, Product) for term in linear.source.terms)
    return 2 if squared else min(len(linear.source.terms), 1)


def with_slack(linear: Linear) -> Linear:
    """Return the vector as it is answered from an octave table: second moments are less exact.

    The slack is that of the Bernstein sums, where a square counts four times in all coordinates.
    """
    squares = [
        sum(abs(row[index]) for row in linear.matrix)
        for index, term in enumerate(linear.source.terms, start=1)
        if isinstance(term, Product)
    ]
    if not squares:
        return linear
    l1 = linear.l1 + SQUARES_SLACK * max(1, math.ceil(sum(squares) / 4))
    return replace(linear, l1=l1, l2_squared=l1 * l1)


def octave_statistics(table: BinTable, groups: Integers, sources: tuple[Source, ...]) -> Statistics:
    """Return the exact statistics of some groups, as a pass with these bounds would have them.

    `groups` are the numbers, ascending, of the groups wanted, which come without their keys; the
    bounds of every source are ends of bins, 0 among them, and multiples of the grid's step.
    """
    parts = []
    for first in range(0, max(len(groups), 1), _SUMMED):
        entries, starts = _entries(table, groups[first : first + _SUMMED])
        sums_of_sources = [_sums(table, entries, source) for source in sources]
        parts.append([[_by_group(values, starts) for values in sums] for sums in sums_of_sources])
    columns = {
        sum_name(index, position): pa.array(np.concatenate(sums))
        for index, sums_of_source in enumerate(zip(*parts, strict=True))
        for position, sums in enumerate(zip(*sums_of_source, strict=True))
    }
    return Statistics(pa.table(columns), 0, sources).check_rows()


def _entries(table: BinTable, groups: Integers) -> tuple[slice | Integers, Integers]:
    """Return the entries of the groups, and where each group begins among them, and the end."""
    first, stop = table.starts[groups], table.starts[groups + 1]
    starts = np.concatenate([[0], np.cumsum(stop - first)])
    if len(groups) and (first[1:] == stop[:-1]).all():  # they lie together
        return slice(first[0], stop[-1]), starts
    return np.arange(starts[-1]) + np.repeat(first - starts[:-1], stop - first), starts


def _by_group(values: Integers, starts: Integers) -> Integers:
    """Add up integers by group exactly; the entries are in the order of their groups."""
    total = np.zeros(len(starts) - 1, dtype=np.int64)
    filled = np.flatnonzero(starts[1:] > starts[:-1])
    total[filled] = np.add.reduceat(values, starts[filled])
    return total


_FAR_ANCHOR = 2**31
"""Steps: sums of fewer rows than `BIN_ROW_LIMIT` fit 63 bits if the anchor is nearer."""


@dataclass(frozen=True, repr=False)
class _Entries:
    """Some entries of an octave table: what is known of the values in each. Secret."""

    binning: Octaves
    bins: Integers
    rows: Integers
    base: Any
    powers: list[Floats]

    def outside(self, grid: Grid) -> tuple[Any, Any]:
        """Return masks of the entries below and above a grid, whose bounds are ends of bins."""
        ends = self.binning.numbers(self.binning.labels(np.array([grid.lower, grid.upper])))
        low, high = ends[:, None] + np.arange(-2, 3)  # the bins at an end, on either side of it
        below = low[self.binning.upper(low) <= grid.lower].max()
        above = high[self.binning.lower(high) >= grid.upper].min()
        return self.bins <= below, self.bins >= above


def _sums(table: BinTable, entries: slice | Integers, source: Source) -> list[Integers]:
    bins, rows, binning = table.bins[entries], table.rows[entries], table.binning
    assert isinstance(binning, Octaves)  # noqa: S101 the caller has made it
    base = binning.center if binning.counts_from_center else binning.bases(bins)
    powers = [power[entries] for power in table.moments]
    entries_summed = _Entries(binning, bins, rows, base, powers)
    return [rows, *(_term_sums(term, entries_summed) for term in source.terms)]


def _term_sums(term: Term, entries: _Entries) -> Integers:
    """Return the sums of a term by entry, in which a row beyond a bound counts as the bound."""
    value = term.left if isinstance(term, Product) else term
    assert isinstance(value, OnGrid)  # noqa: S101 `fits_octaves` has looked
    grid, rows = value.grid, entries.rows
    below, above = entries.outside(grid)
    is_outside = below | above
    base = entries.base if np.ndim(entries.base) == 0 else np.where(is_outside, 0.0, entries.base)
    powers = [np.where(is_outside, 0.0, power) for power in entries.powers]
    first, last = grid.first, grid.last
    if isinstance(term, Product):
        sums = _squares(grid, term.divisor, rows.astype(np.float64), base, powers)
        first, last = (end * end // term.divisor for end in (first, last))
    else:
        origin = entries.binning.center
        if abs(grid.anchor - origin) * grid.inverse_step >= _FAR_ANCHOR:
            origin = grid.anchor  # sums of distances from it are exact, and fit 63 bits
        distances = powers[0]
        if np.any(base - origin):
            distances = distances + np.where(is_outside, 0.0, base - origin) * rows
        sums = np.floor(distances * grid.inverse_step).astype(np.int64)
        shift = round((grid.anchor - origin) * grid.inverse_step)
        if shift:
            sums -= rows * shift
    for outside, end in ((below, first), (above, last)):
        np.copyto(sums, rows * end if end else 0, where=outside)
    return sums


def _squares(grid: Grid, divisor: int, rows: Floats, base: Any, powers: list[Floats]) -> Integers:
    """Return the sums of (x - anchor)^2 / (step^2 divisor), each between 0 and its most."""
    distance, width = base - grid.anchor, divisor * grid.step
    total = powers[1] + 2 * distance * powers[0] + distance * distance * rows
    scaled = np.floor(total / width * grid.inverse_step)
    largest = grid.largest * grid.largest // divisor
    return np.asarray(np.clip(scaled, 0, rows * largest).astype(np.int64))


_MOST = 2**40
_FINE = 2**16
"""Least number of steps between bounds where no step is named; at most twice as many."""


@dataclass(frozen=True)
class Steps:
    """The multiples `first` to `most` of a step, in units of the column.

    >>> whole = steps_within(Bounds(0, 60), 1)
    >>> whole.values(whole.numbers(np.array([-3.0, 7.4, 99.0]))).tolist()
    [0.0, 7.0, 60.0]
    """

    step: Fraction
    first: int
    maximum: int

    @property
    def last(self) -> int:
        """The largest size of a number: what a bin table packs by."""
        return max(abs(self.first), abs(self.maximum))

    @property
    def bits(self) -> int:
        """How many significant bits tell neighboring multiples apart: 8 to 22."""
        return min(max(math.ceil(math.log2(max(self.last, 1))) + 2, 8), 22)

    def numbers(self, values: Floats) -> Integers:
        """Return the number of the nearest multiple of each value."""
        nearest = np.rint(values / float(self.step))
        return np.clip(nearest, self.first, self.maximum).astype(np.int64)

    def values(self, numbers: Integers) -> Floats:
        """Return the multiples with these numbers: decimals as they are written."""
        if self.step.numerator == 1:
            return np.asarray(numbers / float(self.step.denominator))
        return np.asarray(numbers * float(self.step))


def steps_within(bounds: Bounds, step: object = None) -> Steps:
    """Return the multiples of a step between bounds; without one, of a fine power of two."""
    if step is None:
        exponent = math.ceil(math.log2(bounds.width / _FINE))
        size = Fraction(2) ** exponent
    else:
        exact = decimal_number(step)
        if exact is None or exact <= 0:
            raise InvalidQuestionError("a step must be a positive number", hint="pass step=1")
        size = exact
    first = math.ceil(Fraction(bounds.lower) / size)
    highest = math.floor(Fraction(bounds.upper) / size)
    if first > highest:
        raise InvalidQuestionError(
            "no multiple of the step lies between the bounds", hint="pass a smaller step"
        )
    if max(abs(first), abs(highest)) > _MOST:
        raise InvalidQuestionError(
            "the step is too small for these bounds", hint="pass a larger one, or leave it out"
        )
    return Steps(size, first, highest)


@dataclass(frozen=True, eq=False)
class Magnitudes:
    """Some sizes of the values of a grid, of either sign, and 0, within bounds if there are some.

    Number k holds the bins of the grid from `starts[k - 1]` up to the next of these, and the value
    `sizes[k - 1]`, NaN where it is not known; -k holds their negatives. Without `starts` number k
    is bin k.

    >>> grid = SignificantBits(2)
    >>> starts = grid.numbers(np.array([0.5, 1.0, 1.5, 2.0]))
    >>> near = Magnitudes(grid, None, starts, np.array([np.nan, 1.0, 1.5, np.nan]))
    >>> near.values(near.numbers(np.array([0.0, 0.5, -1.5, 1e9]))).tolist()
    [0.0, nan, -1.5, nan]
    """

    bins: SignificantBits
    bounds: Bounds | None
    starts: Integers | None = None
    sizes: Floats | None = None

    @property
    def last(self) -> int:
        """The number of the largest; the least has its negative."""
        return self.bins.last if self.starts is None else len(self.starts)

    @cached_property
    def first(self) -> int:
        """The number of the least candidate, within the bounds."""
        return -self.last if self.bounds is None else self._number(self.bounds.lower)

    @cached_property
    def maximum(self) -> int:
        """The number of the largest candidate, within the bounds."""
        return self.last if self.bounds is None else self._number(self.bounds.upper)

    def numbers(self, values: Floats) -> Integers:
        """Return the number of each value, or of the bound that it exceeds."""
        return np.clip(self._numbers(values), self.first, self.maximum)

    def _numbers(self, values: Floats) -> Integers:
        bins = self.bins.numbers(values)
        if self.starts is None:
            return bins
        sizes, (first, last) = np.abs(bins), self._adjacent
        numbers = sizes - self.starts[first] + first + 1
        is_other = (sizes < self.starts[first]) | (sizes > self.starts[last])
        numbers[is_other] = np.searchsorted(self.starts, sizes[is_other], "right")
        return np.asarray(np.sign(bins) * numbers)

    @cached_property
    def _adjacent(self) -> tuple[int, int]:
        """The places of the first starts that hold one bin each, which need no search."""
        assert self.starts is not None  # noqa: S101 the caller has looked
        is_next = np.append(np.diff(self.starts) == 1, False)
        first = int(is_next.argmax())
        return first, first + int((~is_next[first:]).argmax())

    def _number(self, value: float) -> int:
        return int(self._numbers(self.bins.labels(np.array([value])))[0])

    def values(self, numbers: Integers) -> Floats:
        """Return the values with these numbers."""
        if self.sizes is None:
            values = self.bins.values(numbers)
        else:
            values = np.append(0.0, self.sizes)[np.abs(numbers)] * np.sign(numbers)
        if self.bounds is None:
            return values
        return np.clip(values, self.bounds.lower, self.bounds.upper)

    def find_bins(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Return the lowest and the uppermost bin of the grid that each number holds."""
        if self.starts is None:
            return numbers, numbers
        inner = np.append(0, self.starts)[np.abs(numbers)]
        outer = np.concatenate([[0], self.starts[1:] - 1, [self.bins.last]])[np.abs(numbers)]
        below = numbers < 0
        return np.where(below, -outer, inner), np.where(below, -inner, outer)


def regrid(table: BinTable, grid: Steps | Magnitudes) -> BinTable:
    """Return the counts of a value-count table by the values of a coarser or shorter grid."""
    numbering: Any = grid  # numbered as bins are, and known by its last one
    return add_up_bins(replace(table, binning=numbering, bins=grid.numbers(table.values())))
