"""Read bounds at bin edges from a noisy histogram of dyadic bins: its counts are public.

The tallest bin of a group beside zero is its core, or where no bin is tall enough the adjacent bins
that are together. Walking outwards, a bin joins if its noisy count reaches

    LEAST + GROWTH * log2(width with it / width without it)

where a height is in units of the scale of Laplace noise, or of Gaussian noise as improbable. Zeros
alone have no bounds. What a bin costs is the width it adds, so
that a bin which noise alone has lifted has to be the taller the more harm it would do: the expected
harm is a convergent sum, whatever the magnitude. A bin across zero joins from width / its outer end
on, or CORE: a small one adds no width, so that noise lifts one of many into bounds that are then
of both signs, while what it holds moves a sum by less than the noise does.
docs/explanation/octaves.md has the reasoning, benchmarks/octave_rule.py the experiment behind the
two numbers and the share.

What the bounds have clipped is read off the same histogram.
Rows beyond a bound count as the bound, and how far beyond they lie no noisy count can limit. What
can be said is what a tail like the one that is seen would do. The first bin beyond an end has a
noisy count; further out, counts are taken to fall at least as fast as anywhere on the way from the
middle to the end. That gives an allowance, by which the interval of an answer is longer. Where the
tail that is seen does not thin out fast enough (its counts times the squares of its distances do
not fall, so that a few rows decide), or rows show further out, the answer is marked.
Post-processing of public counts; docs/explanation/intervals.md has the rule, benchmarks/honesty.py
its figures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import EllipsisType

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Doublings, Floats, Integers, Octaves
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.runs import run_starts
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.exceedances import (
    Exceedances,
    compute_heights,
    counts_at,
    exceedances,
    forgotten_as_zero,
)
from dfprivacy.noise.laws import Noise, is_laplace, spread_of

Mask = npt.NDArray[np.bool_]

SHARE = Fraction(3, 8)
"""Fraction of epsilon that finds bounds; the rest answers."""

LEAST = 5.0
GROWTH = 1.5
CORE = 15.0
"""Heights in units of the noise's scale; a group without a core has no bounds."""

WINDOWS = {1: CORE, 2: 17.5, 4: 19.5, 8: 22.0}
"""How tall so many adjacent bins must be together to be a core, where bins below LEAST count as 0:
those of an empty group are with a probability below 5e-4 (docs/explanation/octaves.md, section
4)."""


@dataclass(frozen=True)
class Joining:
    """Rule for the height at which a bin joins the bounds: it grows with width and distance.

    A bin joins at `threshold`, plus `growth` times log2 of the factor by which it widens the
    bounds, plus `distance_growth` times log of the bins between, in units of the noise's scale.
    Bins far smaller than the width are not counted.
    """

    threshold: float = LEAST
    growth: float = GROWTH
    distance_growth: float = 0.0
    windows: Mapping[int, float] = field(default_factory=lambda: WINDOWS)
    """Heights of a core by its number of adjacent bins."""
    counted: float = LEAST
    """Bins below this height count as 0 in a core."""


PLAIN = Joining()

_OCTAVES = Octaves()

_SMALLER = 6
"""Powers of two below the width, from which on all bins are equally far from its ends."""

NARROWEST = 2.0**-20
"""Widths: an end nearer to zero is moved to zero, or out to this."""


@dataclass(frozen=True)
class FoundBounds:
    """The bounds of each group, in units of the column; NaN without bounds. Public.

    `zeros` tells which groups have none because only their zeros stand out.
    """

    lower: Floats
    upper: Floats
    zeros: Mask

    @property
    def found(self) -> Mask:
        """Mask of groups with bounds."""
        return ~np.isnan(self.lower)


def find_bounds(
    table: BinTable,
    noise: Noise,
    entropy: EntropySource = system_entropy,
) -> FoundBounds:
    """Return the bounds of each group of an octave table, read off noisy counts of its octaves.

    The bounds of all groups together cost what `noise` does for a sensitivity of 1: one row added
    or removed moves one count by 1. What is made of the noisy counts is post-processing
    (docs/explanation/octaves.md).

    Examples
    --------
    >>> import pyarrow as pa
    >>> from dfprivacy.measurement.bin_table import bin_table
    >>> from dfprivacy.noise.laws import DiscreteLaplace
    >>> values, rows = np.array([3.0, 90.0]), np.array([1000, 1000])
    >>> group, labels = np.zeros(2, np.int64), Octaves().labels(values)
    >>> table = bin_table(pa.table({}), 1, Octaves(), group, labels, rows=rows)
    >>> find_bounds(table, DiscreteLaplace(Fraction(1, 30)))
    FoundBounds(lower=array([2.]), upper=array([128.]), zeros=array([False]))
    """
    noisy = exceedances(table, noise, PLAIN.threshold, entropy)
    return octave_bounds(noisy, table.groups)


def octave_bounds(
    noisy: Exceedances, groups: int, joining: Joining = PLAIN, binning: Doublings = _OCTAVES
) -> FoundBounds:
    """Return the bounds of each group: lower < upper, ends of bins.

    Those of octaves are each 0 or plus or minus a power of two.
    """
    low, high = _cores(noisy, groups, joining)
    zeros = np.zeros(groups, dtype=bool)
    zeros[noisy.group[(noisy.bins == 0) & (noisy.heights >= CORE)]] = True
    zeros &= low < 0
    walk = _Walk(noisy, (joining, binning), low, high)
    for _ in range(2):
        walk.up()
        walk.down()
    return FoundBounds(*on_grid(*walk.bounds()), zeros)


class _Walk:
    """The ends of each group's bounds on their way outwards: places of bins, -1 for no bounds."""

    def __init__(
        self,
        noisy: Exceedances,
        rules: tuple[Joining, Doublings],
        low: Integers,
        high: Integers,
    ) -> None:
        self._heights, self._bins, self._group = noisy.heights, noisy.bins, noisy.group
        self._joining, self._binning = rules
        self._lower, self._upper = (end(noisy.bins) for end in (rules[1].lower, rules[1].upper))
        self._low, self._high = low, high

    def bounds(self) -> tuple[Floats, Floats]:
        """Return the outer edges of the bins arrived at; NaN for no bounds."""
        none = self._low < 0
        if not len(self._heights):
            return np.full(len(none), np.nan), np.full(len(none), np.nan)
        lower, upper = self._lower[self._low], self._upper[self._high]
        return np.where(none, np.nan, lower), np.where(none, np.nan, upper)

    def up(self) -> None:
        """Move upper ends to the last bin that joins."""
        self._move(self._high, np.flatnonzero(self._reached(self._high, 1)), 1)

    def down(self) -> None:
        """Move lower ends to the last bin that joins."""
        self._move(self._low, np.flatnonzero(self._reached(self._low, -1))[::-1], -1)

    def _reached(self, ends: Integers, step: int) -> Mask:
        """Return a mask of bins beyond the ends of their groups."""
        end = ends[self._group]
        return (end >= 0) & ((np.arange(len(end)) - end) * step > 0)

    def _move(self, ends: Integers, indexes: Integers, step: int) -> None:
        """Move ends through the bins at `indexes`, in all groups at once.

        Those after the first that joins do if each one would where the one before has joined.
        """
        while len(indexes):
            bin_groups = self._group[indexes]
            begins = run_starts(bin_groups)
            next_joins = self._joins(
                bin_groups[begins], ends[bin_groups[begins]], indexes[begins], step
            )
            others = np.repeat(~next_joins, np.diff(begins, append=len(bin_groups)))
            later = np.flatnonzero(others)  # of groups whose next bin does not join
            later = later[
                self._joins(bin_groups[later], ends[bin_groups[later]], indexes[later], step)
            ]
            later = later[run_starts(bin_groups[later])]
            first = np.sort(np.concatenate([begins[next_joins], later]))
            breaks = np.ones(len(bin_groups), dtype=bool)
            next_ = np.flatnonzero(bin_groups[1:] == bin_groups[:-1]) + 1
            breaks[next_ - 1] = ~self._joins(
                bin_groups[next_], indexes[next_ - 1], indexes[next_], step
            )
            breaks = np.flatnonzero(breaks)
            ends[bin_groups[first]] = indexes[breaks[np.searchsorted(breaks, first)]]
            has_moved = np.zeros(len(ends), dtype=bool)
            has_moved[bin_groups[first]] = True
            indexes = indexes[has_moved[bin_groups] & ((indexes - ends[bin_groups]) * step > 0)]

    def _joins(self, groups: Integers, end: Integers, index: Integers, step: int) -> Mask:
        """Return a mask of bins that are tall enough for the width that they would add."""
        if step > 0:
            inner = self._lower[self._low[groups]]
            now, width = self._upper[end] - inner, self._upper[index] - inner
        else:
            inner = self._upper[self._high[groups]]
            now, width = inner - self._lower[end], inner - self._lower[index]
        threshold = self._joining.threshold + self._joining.growth * np.log2(
            np.maximum(width / now, 1.0)
        )
        if self._joining.distance_growth:
            distant = np.flatnonzero(np.abs(self._bins[index] - self._bins[end]) > 1)
            now = now[distant]
            between = np.abs(self._far(index[distant], now) - self._far(end[distant], now))
            threshold[distant] += self._joining.distance_growth * np.log(np.maximum(between, 1))
        outer = self._upper[index] if step > 0 else -self._lower[index]
        crosses = np.flatnonzero((outer > 0) & (width > outer))  # of both signs with it
        ratio = np.minimum(width[crosses], CORE * outer[crosses]) / outer[crosses]
        threshold[crosses] = np.maximum(threshold[crosses], ratio)
        return np.asarray(self._heights[index] >= threshold)

    def _far(self, index: Integers, width: Floats) -> Floats:
        """Return the distance of a bin in powers of two from bins far smaller than the width."""
        bins, smaller = self._bins[index], self._binning.smaller(width) - _SMALLER
        return np.asarray(np.sign(bins) * np.maximum(np.abs(bins) - smaller, 0), np.float64)


def _cores(noisy: Exceedances, groups: int, joining: Joining) -> tuple[Integers, Integers]:
    """Return the places of the first and last bin of each group's core.

    The core is the shortest window of adjacent bins, zero not among them, that is tall enough,
    and of several the tallest; -1 without any.
    """
    low, high = np.full((2, groups), -1, dtype=np.int64)
    windows = joining.windows
    counts = np.where(noisy.heights >= joining.counted, noisy.counts, 0.0)
    sign_offset = 2 * max(windows)
    code = (
        noisy.bins
        + sign_offset * np.sign(noisy.bins)
        + (2 * noisy.last + 3 * sign_offset) * noisy.group
    )
    gap = np.diff(code, append=code[-1:] + sign_offset)
    for size, threshold in cores(windows, noisy.noise).items():
        first = np.flatnonzero((low[noisy.group] < 0) & (noisy.bins != 0))
        if size > 1:  # alone in a window a bin is not tall enough: it would be a core itself
            first = first[gap[first] < size]
        last, total = first.copy(), counts[first]
        for step in range(1, size):
            inside = first + step < len(code)
            inside[inside] = code[first[inside] + step] < code[first[inside]] + size
            last[inside] += 1
            total[inside] += counts[last[inside]]
        total = compute_heights(total, noisy.noise, size)
        tall = np.flatnonzero(total >= threshold)
        if len(tall):
            core_groups, total = noisy.group[first[tall]], total[tall]
            starts = run_starts(core_groups)
            tallest = np.repeat(
                np.maximum.reduceat(total, starts), np.diff(starts, append=len(core_groups))
            )
            tall = tall[total == tallest]
            core_groups = noisy.group[first[tall]]
            low[core_groups], high[core_groups] = (
                first[tall],
                last[tall],
            )  # of a group's tallest the last one
    return low, high


def cores(windows: Mapping[int, float], noise: Noise) -> Mapping[int, float]:
    """Return how tall so many adjacent bins must be: sums of Gaussian noise are Gaussian."""
    return windows if is_laplace(noise) else dict.fromkeys(windows, windows[1])


def on_grid(lower: Floats, upper: Floats, narrowest: float = NARROWEST) -> tuple[Floats, Floats]:
    """Return bounds that are multiples of the grid's step: none much nearer to zero than wide."""
    _, exponents = np.frexp(np.where(np.isnan(lower), 1.0, upper - lower))
    narrow = np.ldexp(narrowest, exponents)
    low = np.where((lower > 0) & (lower < narrow), 0.0, lower)
    low = np.where((lower < 0) & (lower > -narrow), -narrow, low)
    high = np.where((upper < 0) & (upper > -narrow), 0.0, upper)
    high = np.where((upper > 0) & (upper < narrow), narrow, high)
    return low, high


OUTER = 3
"""Number of bins beyond an end that are measured."""

_REACH = 30  # bins beyond an end over which an allowance adds up
_NARROW = 1 / 64  # bins narrower than so many widths of the bounds are passed over
_MIDDLE = 0.44  # where in its bin a row of a falling tail lies, on average
_PLAUSIBLE = 1.5  # scales: a count may be so much larger than its noisy count, at 95 %
_SLOWEST = 0.9  # distance times count never falls more slowly than that as the distance doubles
_EVEN = 0.4  # a tail about a centre that nowhere falls faster as the distance doubles is heavy
_FEW = 0.02  # expected rows: a bin with fewer holds none
_SOLID = 12.0  # scales: two bins of a tail tell its index from there on
_TAIL = 0.3  # the tail of the data is at most so large a part of them
_FAR = 5.0  # scales: two bins of nothing but noise are higher together in 1.2 % of draws
_A_ROW = 0.5  # rows: fewer are none, and what clips none is no tail
_SURE_TAIL, _TRIES = 0.05, 3  # where one draw tells many groups, or few rows a group
SURELY_FAR = 10.0  # scales: likewise; two bins of noise are higher in one of 7,000 draws


@dataclass(frozen=True)
class Tail:
    """The rows beyond one end of the bounds of some groups. Public.

    Attributes
    ----------
    heights : array of float
        One row a group: noisy counts in units of the noise's scale, the outermost bin first, then
        inwards over all of the bounds.
    outer : int
        How many of these bins lie beyond the end.
    widths, distances : array of float
        The width of each of these bins, or how far it reaches from the centre, and last half of the
        innermost width, or how far from the centre that bin begins; and how far beyond the end the
        rows of the first bins outside lie on average, in units of the column.
    scale : float, or array of float
        The rows of a unit of height, or those of some groups.
    alike : array of int, optional
        Which of these is that of each group.
    nearer : two arrays of float
        The heights of other bins that are clipped, nearer than the end, one row a group, and how
        far beyond the bounds their rows lie.
    """

    heights: Floats
    outer: int
    widths: Floats
    distances: Floats
    scale: float | Floats
    alike: Integers | EllipsisType = ...
    nearer: tuple[Floats, Floats] = (np.zeros((1, 0)), np.zeros(0))

    def moved(self, level: float) -> tuple[Floats, Floats]:
        """Return plausible sums of distance and squared distance of the rows beyond the end."""
        groups = max(len(self.heights), np.size(self.scale))
        distances, rows, likely = np.zeros(0), np.zeros((groups, 0)), np.zeros((groups, 0))
        if self.outer:
            distances, rows, likely = self._beyond(level)
        nearer_rows = np.broadcast_to(self.nearer[0] * self.scale, (groups, len(self.nearer[1])))
        distances = np.append(self.nearer[1], distances)
        rows, likely = (
            np.concatenate([nearer_rows, outer_rows], axis=1) for outer_rows in (rows, likely)
        )
        z = statistics.NormalDist().inv_cdf((1 + level) / 2)
        return tuple(
            (add_columns(rows * power) + z * np.sqrt(add_columns(likely * power**2)))[self.alike]
            for power in (distances, distances**2)
        )  # type: ignore[return-value]

    def _beyond(self, level: float) -> tuple[Floats, Floats, Floats]:
        """Return the distances of bins beyond the end, with plausible and likely rows."""
        more = max(_PLAUSIBLE + math.log(0.05 / (1 - level)), 0.0)
        first = self.heights[:, self.outer - 1]
        fall, largest = self._falls(more), np.maximum(first + more, 0.5)
        reach = len(self.distances)  # or only so many bins as may hold some: the others hold none
        tallest, slowest = largest.max(initial=0) * np.max(self.scale), fall.max(initial=0)
        if 0 < slowest < 1 and tallest > 0:
            reach = min(reach, 1 + max(math.ceil(math.log(_FEW / 2 / tallest, slowest)), 0))
        falls, distances = fall[:, None] ** np.arange(reach), self.distances[:reach]
        rows, likely = (
            height[:, None] * falls * self.scale for height in (largest, np.maximum(first, 0.0))
        )
        rows[rows < _FEW] = likely[likely < _FEW] = 0.0
        return distances, rows, likely

    @property
    def height(self) -> Floats:
        """How tall all bins within the bounds are together."""
        return np.asarray(self.heights[:, self.outer :].sum(axis=1))

    def far(self, threshold: float = _FAR) -> Mask:
        """Return a mask of groups with rows further out than the next bin."""
        outer = self.heights[:, : max(self.outer - 1, 0)]
        return np.asarray(outer.sum(axis=1) > threshold)

    def slow(self, tail_limit: Floats | None = None, tries: int = 1) -> Mask:
        """Return a mask of groups with a heavy tail, by the first two bins that are tall.

        The height of the tail is at most `tail_limit`. At most `tries` windows of two tall bins are
        read. No tail is heavy if noise leaves no room for a row in the next bin.
        """
        marked = np.zeros(len(self.heights), dtype=bool)
        if not self.outer:
            return marked
        counts, widths = self.heights[:, self.outer - 1 :], self.widths[self.outer - 1 :]
        inside = np.cumsum(counts, axis=1)
        tail_limit = _TAIL * inside[:, -1] if tail_limit is None else tail_limit
        left = np.full(len(counts), tries)
        for index in range(1, counts.shape[1] - 1):
            window = counts[:, index] + counts[:, index + 1]
            solid = (left > 0) & (window >= _SOLID)
            tail = solid & (inside[:, index + 1] <= tail_limit)
            ratio = (counts[:, index - 1] + counts[:, index]) / np.maximum(window, 1e-9)
            growth = widths[index - 1] / widths[index]
            marked |= tail & (ratio * growth**2 > 1)
            left -= solid
        plausible = (np.maximum(counts[:, 0], 0.0) + _PLAUSIBLE) * self.scale
        return np.asarray(marked & (plausible >= _A_ROW))

    def even(self) -> Mask:
        """Return a mask of groups whose counts fall as slowly as a power law everywhere."""
        if not self.outer:
            return np.zeros(len(self.heights), dtype=bool)
        return np.asarray(self._falls(0.0) >= _EVEN)

    def _falls(self, more: float) -> Floats:
        """Return the factor by which counts fall at most as the distance doubles outside."""
        counts, widths = self.heights[:, self.outer - 1 :], self.widths[self.outer - 1 :]
        cumulative = np.cumsum(counts, axis=1)
        with np.errstate(divide="ignore"):  # about a centre the innermost may begin at 0
            doublings = np.maximum(np.log2(widths[:-1] / widths[1:]), 1.0)
        falls = np.full(len(counts), _SLOWEST / 2)
        for index in range(1, counts.shape[1]):
            largest = np.maximum(cumulative[:, index - 1] + more * math.sqrt(min(index, 4)), 0.5)
            fall = largest / np.maximum(cumulative[:, index], 1e-9)
            falls = np.minimum(falls, fall ** (1 / doublings[index]))
        return falls


@dataclass(frozen=True)
class Tails:
    """The rows beyond both ends. Public."""

    below: Tail
    above: Tail
    bounds: Bounds
    finer: tuple[Tail, Tail] | None = None
    """The same tails in narrower bins: a tail is slow where both agree."""
    marked: tuple[Mask, Mask] | None = None
    """Masks of marked ends, if they follow other rules than those of a whole frame."""

    def within(self, bounds: Bounds, bins: tuple[Floats, Floats, Floats]) -> Tails:
        """Return the tails of narrower bounds; bins have lower ends, upper ends and rows."""
        lower, upper, rows = bins
        sides = []
        for tail, shift, distances in (
            (self.below, bounds.lower - self.bounds.lower, bounds.lower - upper),
            (self.above, self.bounds.upper - bounds.upper, lower - bounds.upper),
        ):
            out = distances >= 0
            nearer = rows[:, out] / tail.scale, (distances + _MIDDLE * (upper - lower))[out]
            sides.append(replace(tail, distances=tail.distances + shift, nearer=nearer))
        return replace(self, below=sides[0], above=sides[1], bounds=bounds)

    def among(self, shares: Sequence[Floats], marked: tuple[Mask, Mask]) -> Tails:
        """Return the tails of groups of each row, by their fractions of its rows."""
        distinct = [np.unique(shares_of_row, return_inverse=True) for shares_of_row in shares]
        sizes = [len(different) for different, _ in distinct]
        firsts = np.cumsum([0, *sizes[:-1]])
        indexes = np.concatenate(
            [inverse + at for (_, inverse), at in zip(distinct, firsts, strict=True)]
        )
        scale = np.concatenate([different for different, _ in distinct])[:, None]
        row = np.repeat(np.arange(len(sizes)), sizes) if len(sizes) > 1 else slice(None)
        below, above = (
            replace(
                tail,
                heights=tail.heights[row],
                scale=tail.scale * scale,
                alike=indexes,
                nearer=(tail.nearer[0][row], tail.nearer[1]),
            )
            for tail in (self.below, self.above)
        )
        low, high = (
            np.repeat(mark, [len(groups_of_row) for groups_of_row in shares]) for mark in marked
        )
        return Tails(below, above, self.bounds, marked=(low, high))

    def surely(self, heights: Floats | None, threshold: float = _FAR) -> tuple[Mask, Mask]:
        """Return masks of groups with a heavy tail or far rows, for each end.

        Those that are not given are as tall as both sides.
        """

        def slow(tail: Tail, others: Tail) -> Mask:
            tall = tail.height + others.height if heights is None else heights
            return tail.slow(_SURE_TAIL * tall, _TRIES)

        sides = ((self.below, self.above), *([self.finer] if self.finer else []))
        below, above = (
            np.logical_and.reduce([slow(pair[side], pair[1 - side]) for pair in sides])
            | sides[0][side].far(threshold)
            for side in (0, 1)
        )
        return below, above

    def marks(self) -> tuple[Mask, Mask]:
        """Return masks of groups whose interval is unreliable, for each end."""
        if self.marked is not None:
            return self.marked
        if self.finer is None:
            sides = self.below, self.above
            return sides[0].far() | sides[0].slow(), sides[1].far() | sides[1].slow()
        below, above = (
            tail.far() | tail.slow() & fine.slow() | tail.even()
            for tail, fine in zip((self.below, self.above), self.finer, strict=True)
        )
        return below, above

    def notes(self) -> list[str | None]:
        """Return a note for each group whose interval can't be relied on, None for the others."""
        below, above = self.marks()
        ends = (self.bounds.lower, self.bounds.upper)
        texts = [_note([]), _note([ends[0]]), _note([ends[1]]), _note([*ends])]
        chosen: list[str | None] = np.array(texts, dtype=object)[below + 2 * above].tolist()
        return chosen


def _note(ends: list[float]) -> str | None:
    if not ends:
        return None
    return f"clipped at {' and '.join(f'{end:g}' for end in ends)}: heavy tail"


def tails(table: BinTable, noisy: Exceedances, bounds: Bounds, groups: Integers) -> Tails:
    """Return the tails beyond the bounds that some groups share.

    The bins next to the ends are drawn, once in the life of a histogram: `groups` must not have
    been asked about before.
    """
    binning = table.binning
    assert isinstance(binning, Doublings)  # noqa: S101 bounds are found at their edges
    numbers = np.arange(-binning.last, binning.last + 1)
    lower, upper = binning.lower(numbers), binning.upper(numbers)
    wide = upper - lower >= _NARROW * bounds.width
    over = np.flatnonzero((lower >= bounds.upper) & wide)
    under = np.flatnonzero((upper <= bounds.lower) & wide)[::-1]
    inner = np.flatnonzero((lower >= bounds.lower) & (upper <= bounds.upper) & wide)
    outside = np.concatenate([under[:OUTER], over[:OUTER]])
    outer_counts = _counts(table, noisy, groups, numbers[outside], forgotten=True)
    inner_counts = _counts(table, noisy, groups, numbers[inner], forgotten=False)
    inner_counts = np.where(compute_heights(inner_counts, noisy.noise) < LEAST, 0.0, inner_counts)
    scale, split = spread_of(noisy.noise), len(under[:OUTER])
    outer_counts, inner_counts = outer_counts / scale, inner_counts / scale
    below = bounds.lower - (upper - _MIDDLE * (upper - lower))
    above = lower + _MIDDLE * (upper - lower) - bounds.upper
    sides = []
    for out, side_counts, in_, within, distance in (
        (under, outer_counts[:, :split], inner, inner_counts, below),
        (over, outer_counts[:, split:], inner[::-1], inner_counts[:, ::-1], above),
    ):
        nearest = out[:OUTER][::-1]
        heights = np.concatenate([side_counts[:, ::-1], within], axis=1)
        widths = (upper - lower)[np.concatenate([nearest, in_])]
        widths = np.append(widths, widths[-1] / 2)
        sides.append(Tail(heights, len(nearest), widths, distance[out[:_REACH]], scale))
    return Tails(sides[0], sides[1], bounds)


def tails_about(
    noisy: Floats,
    ends: tuple[Floats, Floats],
    indexes: tuple[int, int],
    fineness: int,
    scale: float,
) -> Tails:
    """Return the tails beyond bounds about a center that some groups share.

    Parameters
    ----------
    noisy : array of float
        One row a group: the noisy rows of all bins of distances, the middle one that of the centre.
    ends : two arrays of float
        How far down and how far up, in units of the column, each distance reaches; 0 is the first.
    indexes : two integers
        The last bin of distances within the bounds, downwards and upwards.
    fineness : int
        How many bins double a distance: so many are looked at together, outwards and inwards.
    scale : float
        The rows of a unit of height of one bin.
    """
    bounds = Bounds(float(ends[0][indexes[0]]), float(ends[1][indexes[1]]))
    coarse = _sides(noisy, ends, indexes, fineness, (scale, bounds.width))
    finer = _sides(noisy, ends, indexes, 1, (scale, bounds.width))
    return Tails(coarse[0], coarse[1], bounds, (finer[0], finer[1]))


def _sides(
    noisy: Floats,
    ends: tuple[Floats, Floats],
    indexes: tuple[int, int],
    fineness: int,
    units: tuple[float, float],
) -> list[Tail]:
    """Return the tails of both sides; `units` are a bin's scale and the width of the bounds."""
    middle, spread = noisy.shape[1] // 2, units[0] * math.sqrt(fineness)
    centre = (ends[0][0] + ends[1][0]) / 2
    sides = []
    for side, edges, index in (
        (noisy[:, middle - 1 :: -1], ends[0], indexes[0]),
        (noisy[:, middle + 1 :], ends[1], indexes[1]),
    ):
        sizes = np.abs(edges - centre)
        sizes[0] = sizes[0] or sizes[1] / 2  # the bin of zero has no width
        firsts = np.arange(index, len(sizes) - fineness, fineness)[:_REACH]
        out = [side[:, first : first + fineness].sum(axis=1) for first in firsts[:OUTER]]
        lasts = np.arange(index, fineness, -fineness)
        lasts = lasts[sizes[lasts] - sizes[lasts - fineness] >= _NARROW * units[1]]
        within = [side[:, last - fineness : last].sum(axis=1) for last in lasts]
        rest = noisy[:, middle] + side[:, : index - fineness * len(within)].sum(axis=1)
        inner_heights = np.column_stack([*within, rest]) / spread
        inner_heights = np.where(inner_heights < LEAST, 0.0, inner_heights)
        heights = np.column_stack([*(bin_rows / spread for bin_rows in out[::-1]), inner_heights])
        begins = sizes[index - fineness * len(within)]
        innermost = 0.0 if len(lasts) else begins / 2  # of all rows none tells how a tail falls
        reach = [*sizes[firsts[:OUTER] + fineness][::-1], *sizes[lasts], begins, innermost]
        inner, outer = _doublings(sizes[np.append(firsts, firsts[-1:] + fineness)])
        distances = inner + _MIDDLE * (outer - inner) - sizes[index]
        sides.append(Tail(heights, len(out), np.array(reach), distances, spread))
    return sides


def add_columns(table: Floats) -> Floats:
    """Return the sum of each row, added from left to right.

    A matrix product rounds a row by how many rows there are, so that a hidden group would show in
    the last digit of the others. Columns of zeros at the end change nothing here.
    """
    width = table.shape[1]
    return np.asarray(table.cumsum(axis=1)[:, -1]) if width else np.zeros(len(table))


def _doublings(sizes: Floats) -> tuple[Floats, Floats]:
    """Return the ends of bins between sizes, those that more than double cut in equal factors."""
    growth = sizes[1:] / sizes[:-1]
    parts = np.maximum(np.rint(np.log2(growth)), 1.0).astype(np.int64)
    interval = np.repeat(np.arange(len(parts)), parts)
    part = np.arange(len(interval)) - (parts.cumsum() - parts)[interval]
    ends = np.append(sizes[interval] * growth[interval] ** (part / parts[interval]), sizes[-1:])[
        : _REACH + 1
    ]
    return ends[:-1], ends[1:]


def _counts(
    table: BinTable, noisy: Exceedances, groups: Integers, bins: Integers, *, forgotten: bool
) -> Floats:
    """Return the noisy counts of the same bins in each of some groups, one row a group."""
    groups_and_bins = np.repeat(groups, len(bins)), np.tile(bins, len(groups))
    counts = (
        counts_at(table, noisy, *groups_and_bins)
        if forgotten
        else forgotten_as_zero(noisy, *groups_and_bins)
    )
    return counts.reshape(len(groups), len(bins))
