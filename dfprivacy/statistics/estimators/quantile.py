"""Select private quantiles by group from the integers of a grid, by the ranks of the data.

Each level is one selection, about a noisy number of rows; several are sorted. For an interval, ends
are selected at public distances in rank, then counted: an end that the noisy count does not show to
be on its side is infinite, or a bound where there are some. docs/explanation/quantiles.md has the
proofs. `select_thresholds` finds a value of a public rank, counted from either end.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import TooManyRowsError
from dfprivacy.measurement.bin_table import BinTable, Magnitudes, list_codes
from dfprivacy.measurement.binning import LEAST_EXPONENT, Floats, Integers, SignificantBits
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.grid import ROW_LIMIT
from dfprivacy.measurement.runs import bisect_slices, list_distinct
from dfprivacy.measurement.value_words import NearCounts, ValueWords
from dfprivacy.noise.additive import NoisyVector, add_to
from dfprivacy.noise.laws import Noise, bound_sum, compute_heights
from dfprivacy.noise.race import LARGEST_LOSS, Runs
from dfprivacy.noise.selection import PermuteAndFlip, Selection
from dfprivacy.release.estimator import Estimator

FARTHEST = 64  # losses end at 64 / rate: 2**30 candidates there win with a probability below 1e-18

ROUNDED = 4
"""The least loss of a block, where aims of neighbors lie less than a row apart, is below this."""

CHUNK = 2**17  # points a selection handles at once, unless one group has more: bounds its memory

OUTSIDE = 0.01
"""Minima and maxima of a group are beyond all its rows this rarely, whatever the rows are."""

SPARSE = 512
"""Ordinary rows are spread over so large a part of the candidates that follow their magnitudes."""

CROWDED = 2**12  # candidates of other sizes than the rows, where the magnitudes of values are known

ORDINARY = 0.05
"""An answer of ordinary rows is further off than its note says in this part of releases."""

_LARGEST_COUNT = 2**40

_ODDS = 0.5 ** (np.arange(33) / 2)
"""The size of noise exceeds the edge of each of these strata so rarely."""


_ENDS = ("first", "stop", "low", "high", "base", "size")


@dataclass(frozen=True, eq=False, repr=False)
class RankedRows:
    """Blocks of the rows of a bin table, in order. Secret.

    Block i has the candidates from `low[i]` up to, without, `high[i]`. Its rows are `size[i]` after
    the first `base[i]` of all rows, in the entries `first[i]` to `stop[i]`. `before` has the rows
    before each entry, with an empty one at the end. A bin has `ties` positions.
    """

    bins: Integers
    before: Integers
    first: Integers
    stop: Integers
    low: Integers
    high: Integers
    base: Integers
    size: Integers
    ties: int = 1

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return "RankedRows(secret)"

    def part(self, blocks: slice | Integers) -> RankedRows:
        """Return some of the blocks."""
        return self.with_ends({name: getattr(self, name)[blocks] for name in _ENDS})

    def with_ends(self, ends: Mapping[str, Integers]) -> RankedRows:
        """Return other blocks of the same rows."""
        return RankedRows(self.bins, self.before, **ends, ties=self.ties)

    def cut(self, positions: Integers) -> tuple[RankedRows, RankedRows]:
        """Return the part of each block up to a position of it, and the part beyond."""
        bins, offset = np.divmod(positions, self.ties)
        entry = bisect_slices(self.bins.take, bins, self.first, self.stop)
        is_shared = (entry < self.stop) & (self.bins[entry] == bins)
        rows = self.before[entry + 1] - self.before[entry]
        inside = np.where(is_shared, rows_up_to(rows, offset, self.ties), 0)
        below = np.clip(self.before[entry] + inside - self.base, 0, self.size)
        lower = replace(self, stop=entry + is_shared, high=positions + 1, size=below)
        upper = replace(  # the position itself stays a candidate, so that there is one
            self, first=entry, low=positions, base=self.base + below, size=self.size - below
        )
        return lower, upper

    def within(self, table: BinTable) -> RankedRows:
        """Return the same blocks by the entries of another table of the same rows."""
        other = rank_rows(table, self.ties)
        before, last = other.before[: len(table.rows) + 1], self.base + self.size
        stop = np.searchsorted(before, last)
        first = np.minimum(np.searchsorted(before, self.base, "right") - 1, stop)
        return replace(self, bins=other.bins, before=other.before, first=first, stop=stop)


def rank_rows(table: BinTable, ties: int = 1) -> RankedRows:
    """Return the rows of each group of a table by their ranks: a block each."""
    grid, starts, groups = table.binning, table.starts, np.ones(table.groups, np.int64)
    ends = getattr(grid, "first", -grid.last), getattr(grid, "maximum", grid.last)
    before = np.cumsum(np.concatenate([[0], table.rows, [0]]), dtype=np.int64)
    first, stop = starts[:-1], starts[1:]
    low, high = ends[0] * ties * groups, (ends[1] + 1) * ties * groups
    size = before[stop] - before[first]
    return RankedRows(
        np.append(table.bins, 0), before, first, stop, low, high, before[first], size, ties
    )


TIES = 2**10
"""Positions of a bin where rows are divided: row j of a bin has the position whose ten binary
digits are those of j in reverse. One row more takes one position more, wherever it comes from."""


def reverse_bits(numbers: Integers, count: int) -> Integers:
    """Return the lowest bits of integers in reverse order, `count` a power of two of them."""
    out = np.zeros_like(numbers)
    for bit in range(count.bit_length() - 1):
        out = out << 1 | numbers >> bit & 1
    return out


def rows_up_to(rows: Integers, offset: Integers, ties: int) -> Integers:
    """Return how many of the rows of a bin have a position up to an offset."""
    rows_of_all, rest = np.divmod(rows, ties)
    total = rows_of_all * (offset + 1)
    for bit in range(ties.bit_length() - 1):  # rows with the leading digits of `rest` in front
        prefix = rest >> (bit + 1) << (bit + 1)
        stride = ties >> bit
        covered = (offset + stride - reverse_bits(prefix, ties)) // stride
        total += np.where(rest >> bit & 1, np.clip(covered, 0, 1 << bit), 0)
    return np.asarray(total, np.int64)


def select_rank(
    ranked: RankedRows,
    targets: Integers,
    law: Selection,
) -> Integers:
    """Return a position in each block, selected by the losses of `rank_runs`."""
    cap = largest_loss(law)
    first, stop = entries_near(ranked, targets, cap)
    answers = np.empty(len(ranked.first), np.int64)
    sizes = np.minimum(ranked.before[stop] - ranked.before[first], (stop - first) * ranked.ties)
    for chunk in _chunks(sizes):
        runs = rank_runs(ranked.part(chunk), targets[chunk], cap)
        answers[chunk] = law.select(runs)
    return answers


def largest_loss(law: Selection) -> int:
    """Return where losses end. Public; the lesser of a loss and a constant moves no more."""
    return min(LARGEST_LOSS - 1, -(-FARTHEST // law.rate) + ROUNDED)


def rank_runs(ranked: RankedRows, targets: Integers, cap: int) -> Runs:
    """Return the positions of each block with the losses of their ranks.

    The loss of c is max(0, 2 #{x < c} - target, target - 2 #{x <= c}), x the rows of the block.
    """
    values, below, upto, starts = points(ranked, *entries_near(ranked, targets, cap))
    tails = np.append(starts, len(values))[1:] - 1
    aims = np.repeat(targets, tails + 1 - starts)
    loss = np.empty((len(values), 2), np.int64)  # of each point, and of the gap behind it
    np.maximum(2 * below - aims, aims - 2 * upto, out=loss[:, 0])
    np.abs(2 * upto - aims, out=loss[:, 1])
    return build_runs(values, starts, tails, np.clip(loss, 0, cap))


def rows_near(ranked: RankedRows, targets: Integers, cap: int) -> tuple[Integers, Integers]:
    """Return the slice of all rows, of each block those with losses below `cap`."""
    ends = ranked.base, ranked.base + ranked.size
    first, stop = ranked.base + (targets - cap) // 2, ranked.base - (-targets - cap) // 2
    return np.clip(first, *ends), np.clip(stop, *ends)


def entries_near(ranked: RankedRows, targets: Integers, cap: int) -> tuple[Integers, Integers]:
    """Return the slice of each block's entries with losses below `cap`; others are at it."""
    before, (first, stop) = ranked.before, rows_near(ranked, targets, cap)
    entries = np.searchsorted(before, first + 1) - 1, np.searchsorted(before, stop)
    low, high = (np.clip(entry, ranked.first, ranked.stop) for entry in entries)
    return low, high


def points(
    ranked: RankedRows, first: Integers, stop: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return lower edge, positions with rows and upper edge of each block; their ranks; starts."""
    block, values, below, upto = _entry_points(ranked, first, stop)
    counts = np.bincount(block, minlength=len(first))
    starts = np.cumsum(counts + 2) - counts - 2
    index = np.arange(len(block)) + 2 * block + 1
    columns = np.zeros((3, len(block) + 2 * len(first)), np.int64)
    columns[:, index] = values, below - ranked.base[block], upto - ranked.base[block]
    tails = starts + counts + 1
    columns[0, starts], columns[0, tails] = ranked.low - 1, ranked.high
    skipped = np.clip(ranked.before[first] - ranked.base, 0, ranked.size)
    columns[2, starts] = np.where(counts > 0, columns[1, starts + 1], skipped)
    return columns[0], columns[1], columns[2], starts


def _entry_points(ranked: RankedRows, first: Integers, stop: Integers) -> tuple[Integers, ...]:
    """Return the block, the position and the rows of all blocks before and up to each point."""
    sizes, ties = stop - first, ranked.ties
    block = np.repeat(np.arange(len(first)), sizes)
    entry = np.arange(len(block)) + np.repeat(first - np.cumsum(sizes) + sizes, sizes)
    values, below, upto = ranked.bins[entry], ranked.before[entry], ranked.before[entry + 1]
    if ties > 1:
        rows = upto - below
        copies = np.minimum(rows, ties)
        heads = np.cumsum(copies) - copies
        source = np.repeat(np.arange(len(entry)), copies)
        keys = source * ties + reverse_bits(np.arange(len(source)) - heads[source], ties)
        offset = np.sort(keys) - source * ties
        rows_of_all, rest = np.divmod(rows[source], ties)
        counts = rows_of_all + (reverse_bits(offset, ties) < rest)
        upto = np.cumsum(counts)
        upto += (below - np.append(0, upto)[heads])[source]
        block, values, below = block[source], values[source] * ties + offset, upto - counts
    end = ranked.base + ranked.size
    inside = (below >= ranked.base[block]) & (upto <= end[block])
    return block[inside], values[inside], below[inside], upto[inside]


def build_runs(values: Integers, starts: Integers, tails: Integers, loss: Integers) -> Runs:
    """Return each point but the edges, and each gap behind a point, that has candidates."""
    length = np.ones_like(loss)
    length[:-1, 1] = values[1:] - values[:-1] - 1
    length[tails] = length[starts, 0] = 0
    nonempty = np.flatnonzero(length > 0)
    first = np.stack([values, values + 1], axis=1)
    heads = np.searchsorted(nonempty, 2 * starts).astype(np.int64)
    return Runs(
        heads, first.reshape(-1)[nonempty], length.reshape(-1)[nonempty], loss.reshape(-1)[nonempty]
    )


def select_ranks(
    counts: BinTable | NearCounts,
    aims: Integers,
    rows: Integers,
    law: Selection,
) -> Integers:
    """Return a bin for each of several ascending ranks of each group: ascending too.

    `aims` has twice the ranks among the public `rows`, a row a rank. The middle one of a list is
    selected first; the others are selected among the rows up to its answer, or beyond. So a row is
    in one block of each of the log2 rounds, and moves the losses there by at most 1.
    """
    table = counts if isinstance(counts, BinTable) else counts.table()
    ranked = rank_rows(table, TIES if len(aims) > 1 else 1)
    edges = np.concatenate([[np.zeros_like(rows)], aims + 1, [2 * rows]])  # a block has its answer
    answers = np.empty_like(aims)
    todo = [(0, len(aims) + 1, ranked)]
    while todo:
        middles = [(low + high) // 2 for low, high, _ in todo]
        offsets = [
            aims[middle - 1] - edges[low] - (edges[high] - edges[low]) // 2
            for middle, (low, high, _) in zip(middles, todo, strict=True)
        ]
        joined = {name: np.concatenate([getattr(b, name) for *_, b in todo]) for name in _ENDS}
        blocks = todo[0][2].with_ends(joined)
        targets = np.concatenate(offsets) + blocks.size
        if isinstance(counts, NearCounts):
            slices = rows_near(blocks, targets, largest_loss(law))
            blocks = blocks.within(counts.read_rows(*slices))
        chosen = select_rank(blocks, targets, law)
        numbers = chosen // ranked.ties
        answers[[middle - 1 for middle in middles]] = numbers.reshape(len(todo), len(rows))
        if all(high - low == 2 for low, high, _ in todo):
            break
        if isinstance(counts, NearCounts):
            group = np.tile(np.arange(len(rows)), len(todo))
            blocks = blocks.within(counts.read_candidates(group, numbers))
        halves, parts = blocks.cut(chosen), []
        for index, (middle, (low, high, _)) in enumerate(zip(middles, todo, strict=True)):
            block = slice(index * len(rows), (index + 1) * len(rows))
            for first, last, half in ((low, middle, halves[0]), (middle, high, halves[1])):
                if last - first > 1:
                    parts.append((first, last, half.part(block)))
        todo = parts
    return answers


def _chunks(sizes: Integers) -> Iterator[slice]:
    points = np.cumsum(sizes + 2)
    total = int(points[-1]) if len(points) else 0
    cuts = list_distinct(np.searchsorted(points, np.arange(0, total, CHUNK), side="right")).tolist()
    for low, high in itertools.pairwise([*cuts, len(sizes)]):
        yield slice(low, high)


@dataclass(frozen=True)
class SelectionLaw:
    """How ranks are selected: `loss` is what one round of selections pays. Public."""

    loss: Epsilon | Rho
    noise: Noise

    @cached_property
    def selection(self) -> Selection:
        """The selection of one rank: a row moves its losses by at most 1."""
        return self.loss.selection(1)

    @cached_property
    def rate(self) -> float:
        """The rate of the selection for a rank; losses are twice the ranks."""
        return 2 * float(self.selection.rate)


@dataclass(frozen=True)
class RankLaw(SelectionLaw):
    """How `levels` quantiles are selected from `candidates`, about a count with `noise`. Public.

    With `is_near` at most `CROWDED` of the candidates are far from all rows, else any may be.
    """

    candidates: int
    levels: int
    is_near: bool = True

    @cached_property
    def growth(self) -> float:
        """How many errors of one selection an answer can have: its own, and half of two others."""
        errors = [0.0, 0.0]
        for _ in range(rounds(self.levels)):
            errors.append(1 + (errors[-1] + errors[-2]) / 2)
        return errors[-1]

    @cached_property
    def inwards(self) -> int:
        """How far from the ends a minimum is aimed, to be among the rows whatever they are."""
        ties = 1 if self.levels == 1 else TIES
        risk = OUTSIDE / (2 * self.levels)
        return _first(lambda rows: self._risk(rows, ties * self.candidates) <= risk)

    @cached_property
    def margin(self) -> int:
        """How far from the ends other quantiles are aimed.

        Rows that all hold one value have an answer far beyond them in 5 % of releases. Rows of
        several values have it less often.
        """
        candidates = min(self.candidates, CROWDED) if self.is_near else self.candidates
        return _first(lambda rows: self._risk(rows, candidates) <= ORDINARY)

    @cached_property
    def ordinary(self) -> int:
        """How far a selection is off once in 20 times, among rows that are not made to mislead.

        Those have a part of all candidates among them that is not below 1 / `SPARSE`, or a single
        one where not all others are near.
        """
        sparse = SPARSE if self.is_near else max(self.candidates, SPARSE)
        return math.ceil(math.log(sparse / ORDINARY) / self.rate)

    def aims(self, q: Fraction, rows: Integers) -> Integers:
        """Return twice the rank that is aimed at: q of so many rows, moved inwards."""
        ranks = rows * q.numerator
        twice = ranks // q.denominator - -ranks // q.denominator
        inwards = self.margin if 0 < q < 1 else self.inwards
        ends = np.minimum(min(2 * inwards, _LARGEST_COUNT), rows)
        return np.asarray(np.clip(twice, ends, 2 * rows - ends), dtype=np.int64)

    def rank_error(self, q: Fraction, rows: Integers) -> Floats:
        """Return by how many ranks an answer of ordinary rows is off, in 95 % of releases."""
        moved = np.abs(self.aims(q, rows) / 2 - float(q) * rows)
        counted = abs(float(q) - 0.5) * self.noise.quantile(ORDINARY)
        spread = math.sqrt(self.growth) * self.ordinary
        return np.asarray(np.ceil(moved + counted + spread), np.float64)

    def is_known(self, q: Fraction, rows: Integers) -> npt.NDArray[np.bool_]:
        """Return whether a group's noisy count tells the rank of an ordinary answer at all."""
        return np.asarray(self.rank_error(q, rows) < float(max(q, 1 - q)) * rows)

    def least_rows(self, q: Fraction) -> int:
        """Return the least noisy count for which an answer is shown."""
        return _first(lambda rows: bool(self.is_known(q, np.array([rows]))[0]))

    @cached_property
    def _edges(self) -> Floats:
        """How large the noise of the count is at the edges of its strata."""
        return np.array([self.noise.quantile(odds) for odds in _ODDS[1:]], dtype=np.float64)

    def _risk(self, rows: int, candidates: int) -> float:
        """Bound the probability that an answer aimed at `rows` from an end lies beyond all rows.

        So many candidates lie there. In each stratum of the noise the bound is taken at the edge.
        Permute-and-flip has an answer among the rows before each of them with probability 1/2.
        """
        slack = rows / self.growth - np.stack([np.maximum(self._edges, 0), 0 * self._edges]) / 2
        ahead = candidates / (2 if isinstance(self.selection, PermuteAndFlip) else 1)
        failed = np.exp(np.minimum(math.log(ahead) - self.rate * slack, 0)).mean(axis=0)
        return float(failed @ -np.diff(_ODDS) + _ODDS[-1])


def rounds(levels: int) -> int:
    """Return how many rounds of selections a list takes: each halves what is left of it."""
    return levels.bit_length()


def _first(is_enough: Callable[[int], bool]) -> int:
    """Return the least positive integer that is enough, as all above it are."""
    high = 1
    while not is_enough(high) and high < _LARGEST_COUNT:
        high *= 2
    return bisect_left(range(high), True, high // 2 + 1, key=is_enough)  # noqa: FBT003 looked for


STANDS = 12.0
"""How tall an octave of all groups together must be: noise alone lifts one in 600 releases."""

BEYOND, COARSE = 8, 8
"""Octaves on either side of those that stand out that have candidates, and their bits."""


def _count_octaves(
    table: BinTable | ValueWords, grid: SignificantBits, ends: tuple[int, int]
) -> Integers:
    """Return the rows of all groups by octave, with and without decimals; 0 is in none."""
    if isinstance(table, ValueWords):
        return table.count_octaves(*grid.values(np.array(ends)).tolist())
    sizes_in_octave = 1 << (grid.bits - 1)
    bins = np.clip(table.bins, *ends)
    nonzero = np.flatnonzero(bins)
    values = grid.values(bins[nonzero])
    is_integer, octave = values == np.floor(values), (np.abs(bins[nonzero]) - 1) // sizes_in_octave
    counts = np.zeros((2, -(-grid.last // sizes_in_octave)), np.int64)
    np.add.at(counts, (is_integer.astype(np.int64), octave), table.rows[nonzero])
    return counts


def find_magnitudes(
    table: BinTable | ValueWords,
    noise: Noise,
    *,
    integers: bool = False,
    bounds: Bounds | None = None,
) -> Magnitudes:
    """Return the part of a grid where all groups together show values; all of it if they show none.

    Sizes of values are counted in octaves, whatever their sign, all groups as one, apart for values
    with decimals and without: each row moves one count by 1 at most, which `noise` is for. What is
    read off noisy counts costs no more. Candidates are integers where values are known to be
    `integers`, and where only integers stand out. Values beyond `bounds` count as the bounds.
    """
    grid = table.binning
    assert isinstance(grid, SignificantBits)  # noqa: S101 ranks are of values
    sizes_in_octave, limit, ends = 1 << (grid.bits - 1), grid.last, (-grid.last, grid.last)
    if bounds is not None:
        low, high = grid.numbers(grid.labels(np.array([bounds.lower, bounds.upper]))).tolist()
        limit, ends = min(max(abs(low), abs(high)) + 1, limit), (low, high)
    counts = _count_octaves(table, grid, ends)
    noisy = add_to(counts.reshape(-1), noise).astype(np.float64)
    stands_out = compute_heights(noisy, noise).reshape(counts.shape) >= STANDS
    integers = integers or bool(stands_out[1].any() and not stands_out[0].any())
    first_octave = int(grid.numbers(np.ones(1))[0]) // sizes_in_octave if integers else 0
    shown = np.flatnonzero(stands_out[:, first_octave:].any(axis=0)) + first_octave
    edges = shown[shown * sizes_in_octave < limit]
    if not len(edges):
        return Magnitudes(grid, bounds)
    inner, outer = (
        [
            max(edges[0] - more, 0) * sizes_in_octave + 1,
            (edges[-1] + 1 + more) * sizes_in_octave + 1,
        ]
        for more in (0, BEYOND)
    )
    (low, high), (first, stop) = (np.minimum(ends, limit) for ends in (inner, outer))
    step = max(sizes_in_octave >> (COARSE - 1), 1)
    starts = np.concatenate(
        [np.arange(first, low, step), np.arange(low, high), np.arange(high, stop, step)]
    )
    sizes = grid.values(starts)
    if integers:
        is_integer = sizes == np.floor(sizes)
        starts, sizes = starts[is_integer], sizes[is_integer]
    if not len(starts):
        return Magnitudes(grid, bounds)
    smaller = [] if integers and sizes[0] == 1 else [1]
    starts = np.concatenate([smaller, starts[len(smaller) :], [stop]]).astype(np.int64)
    sizes = np.concatenate([[np.nan] * len(smaller), sizes[len(smaller) :], [np.nan]])
    return Magnitudes(grid, bounds, starts, sizes)


def select_quantiles(
    table: BinTable | NearCounts,
    qs: Sequence[Fraction],
    rows: Integers,
    law: RankLaw,
) -> Integers:
    """Return private quantiles of each group, about its noisy number of rows, public by now."""
    levels = sorted(set(qs))
    counts = _whole_counts(rows)
    aims = np.maximum.accumulate(np.stack([law.aims(q, counts) for q in levels]))
    chosen = select_ranks(table, aims, counts, law.selection)
    return chosen[[levels.index(q) for q in qs]]


def _whole_counts(rows: Integers) -> Integers:
    return np.array([min(max(int(count), 0), _LARGEST_COUNT) for count in rows], np.int64)


def outer_rows(law: Selection, candidates: int) -> int:
    """Return (2 / epsilon) * log(10 candidates) rows, beyond which one selection in ten errs."""
    rows = 2 * Fraction(math.log(10 * candidates)) / law.epsilon(1)
    return min(int(rows), _LARGEST_COUNT)


USUAL = 0.95
"""The level whose intervals the distances of ends are made for; others have the same ends."""


@dataclass(frozen=True)
class EndsLaw(SelectionLaw):
    """How the ends about `levels` quantiles are selected, and counted. Public.

    `noise` is that of the number of rows m that the ranks follow from, and also that of the count
    of rows between all ends.
    """

    levels: int

    @property
    def reach(self) -> int:
        """How far from the ends of the rows a rank must be, for answers among the rows."""
        return math.ceil(math.log(SPARSE / ORDINARY) / self.rate)

    def aim_distance(self, q: Fraction, index: int, side: int) -> int:
        """Return how many ranks from q m an end is aimed at: -1 is the lower side, 1 the upper one.

        Twice what the noise of the count may hide, and what a selection ordinarily errs; `index` is
        that of the level among all. With F the rows of the `below` of 2 k + 1 parts, the weights
        are those of F - q n. The noise of m moves ranks as far as q is from 1/2.
        """
        below = 2 * index + (3 + side) // 2
        weights = below * (1 - q) ** 2 + (2 * self.levels + 1 - below) * q**2
        hidden = bound_sum(self.noise, 1 - USUAL) * math.sqrt(weights)
        count_error = abs(float(q) - 0.5) * self.noise.quantile(2 * ORDINARY)
        return math.ceil(2 * hidden + math.log(1 / ORDINARY) / self.rate + count_error)


@dataclass(frozen=True, eq=False)
class RankEnds:
    """The ends of one level of each group: bins, and what counts the rows below or up to them.

    `below` is how many parts of the count the lower end has below it, `upto` how many lie up to the
    upper one; `is_far` marks ends that are no answer, as they are aimed too near an end of the
    rows. Public.
    """

    low: Integers
    high: Integers
    below: Integers
    upto: Integers
    is_far: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]


def select_ends(
    table: BinTable | NearCounts,
    levels: Sequence[Fraction],
    rows: Integers,
    law: EndsLaw,
) -> tuple[list[RankEnds], NoisyVector]:
    """Return the ends of each level, ascending, by group; then the noisy rows between all ends.

    `rows` is the noisy number of rows m of each group. The rank of an end is q m, moved by
    `EndsLaw.aim_distance`; it is selected as a quantile is. Each row lies in one of the parts
    between the selected ends, which are public by then: the count has sensitivity 1.
    """
    row_counts = _whole_counts(rows)
    aims, is_far = [], []
    for index, q in enumerate(levels):
        for side in (-1, 1):
            distance = min(
                law.aim_distance(q, index, side), 2 * _LARGEST_COUNT
            )  # the rank is clipped
            rank = row_counts * q.numerator // q.denominator + side * distance
            aims.append(2 * np.clip(rank, 0, row_counts))
            inside = rank if side < 0 else row_counts - rank
            is_far.append(inside < law.reach)
    order = np.argsort(np.stack(aims), axis=0, kind="stable")
    chosen = select_ranks(table, np.sort(np.stack(aims), axis=0), row_counts, law.selection)
    ends = np.take_along_axis(chosen, np.argsort(order, axis=0), axis=0)
    cuts = ends - np.tile([1, 0], len(levels))[:, None]
    order = np.argsort(cuts, axis=0, kind="stable")
    cuts = np.take_along_axis(cuts, order, axis=0)
    if isinstance(table, NearCounts):
        group = np.broadcast_to(np.arange(len(rows)), cuts.shape)
        table = table.read_candidates(group.reshape(-1), cuts.reshape(-1))
    parts = rows_between(table, cuts)
    noisy = NoisyVector(add_to(parts, law.noise), law.noise)
    parts_before = np.argsort(order, axis=0) + 1
    rank_ends = [
        RankEnds(
            ends[i], ends[i + 1], parts_before[i], parts_before[i + 1], (is_far[i], is_far[i + 1])
        )
        for i in range(0, len(ends), 2)
    ]
    return rank_ends, noisy


def rows_between(table: BinTable, cuts: Integers) -> Integers:
    """Return the rows of each group between its ascending cuts: each row is in one part. Secret."""
    before = np.concatenate([[0], np.cumsum(table.rows)])
    codes = list_codes(np.arange(table.groups), cuts, table.binning.last)
    starts = before[table.starts[:-1]]
    upto = before[np.searchsorted(table.codes, codes, side="right")] - starts
    parts = np.diff(upto, axis=0, prepend=0, append=table.totals()[None, :])
    return np.asarray(parts, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class QuantileEstimator(Estimator):
    """A selected quantile of each group, between ends certified by a count of all parts."""

    q: Fraction
    values: Floats
    low: Floats
    high: Floats
    ends: RankEnds
    open_ends: tuple[float, float] = (-math.inf, math.inf)

    def value(self, vector: NoisyVector) -> Floats:  # noqa: ARG002 one interface
        """Return the selected value of each group."""
        return self.values

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return ends that hold the quantile of the rows with probability `level`.

        The lower end is on its side where #{x < low} is below q n, the upper one where #{x <= high}
        is at least that: shown where the noise does not explain it, with half of the rest each.
        """
        upto = np.cumsum(vector.coordinates.astype(np.float64), axis=0)
        target_rank, many = float(self.q) * upto[-1], len(upto)
        off = bound_sum(vector.noise, 1 - level)
        ends = []
        for side, parts, end, is_far, open_end in (
            (-1, self.ends.below, self.low, self.ends.is_far[0], self.open_ends[0]),
            (1, self.ends.upto, self.high, self.ends.is_far[1], self.open_ends[1]),
        ):
            rows = np.take_along_axis(upto, parts[None, :] - 1, axis=0)[0]
            q = float(self.q)
            length = np.sqrt(parts * (1 - q) ** 2 + (many - parts) * q**2)
            certain = (
                (side * (rows - target_rank) >= off * length) & ~is_far & ~np.isnan(self.values)
            )
            outwards = np.fmin(end, self.values) if side < 0 else np.fmax(end, self.values)
            outwards = np.where(np.abs(outwards) < 2.0**LEAST_EXPONENT, 0.0, outwards)
            ends.append(np.where(certain, outwards, open_end))
        return ends[0], ends[1]

    def standard_error(self, vector: NoisyVector) -> Floats:  # noqa: ARG002 one interface
        """Return that it is not known: the law of a selection depends on the data."""
        return np.full_like(self.values, np.nan)


Side = Literal["lower", "upper"]
SIDES: tuple[Side, Side] = ("lower", "upper")

LARGEST_RANK = 2**52


def select_thresholds(
    table: BinTable,
    rank: int,
    loss: Epsilon | Rho,
    side: Side = "lower",
) -> Integers:
    """Return the number of a bin of about this rank for each group.

    With F(c) the rows of a group up to bin c and F<(c) those below it, the loss of c is
    max(0, F<(c) - rank, rank - F(c)); from above, the same of the mirrored table. With
    probability at least 1 - zeta a group's loss is at most (2 / epsilon) * log(m / zeta), m the
    number of candidates. Dick et al., Corollary 3.8, in its discrete form
    (docs/explanation/subset-optimal.md). The choices of all groups together cost `loss`; neighbors:
    one row added or removed.
    """
    return loss.selection(sensitivity=1).select(threshold_runs(table, rank, side))


def threshold_runs(table: BinTable, rank: int, side: Side) -> Runs:
    """Return all bins of the grid as candidates of each group, ranks from either end. Secret."""
    ranked = rank_rows(table)
    values, below, upto, starts = points(ranked, ranked.first, ranked.stop)
    tails = np.append(starts, len(values))[1:] - 1
    aims = ranked.size - rank if side == "upper" else np.full(table.groups, rank)
    aims_of_points = np.repeat(aims, tails + 1 - starts)
    losses = [rank_losses(below, upto, aims_of_points), rank_losses(upto, upto, aims_of_points)]
    return build_runs(values, starts, tails, np.stack(losses, axis=1))


def rank_losses(below: Integers, upto: Integers, rank: int | Integers) -> Integers:
    """Return how far a rank is from (below, upto]; one row moves it by at most 1."""
    return np.asarray(np.maximum(0, np.maximum(below - rank, rank - upto)), np.int64)


def find_known_rows(values: Floats, rows: Integers) -> tuple[Floats, Integers]:
    """Return the values that are no NaN, with their rows."""
    not_missing = ~np.isnan(values)
    if np.sum(rows, dtype=np.float64) >= ROW_LIMIT:
        raise TooManyRowsError("2**33 rows, the public limit", hint="Split the data into parts.")
    return np.asarray(values[not_missing], np.float64), np.asarray(rows[not_missing], np.int64)
