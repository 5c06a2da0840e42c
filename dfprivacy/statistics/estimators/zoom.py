"""Bounds in steps: octaves first, then, where data are far from zero, a closer look at them.

A first part of the loss pays for a noisy histogram of octaves. Where two neighbouring octaves of
one sign hold nearly all rows, the data are far from zero for their spread: a private median is
their centre, and a noisy histogram of distances from it, in bins of the table, tells how far they
reach. Elsewhere a second histogram of octaves has more of the loss. Each step costs its own share,
and what is read off noisy counts costs nothing more: docs/octaves.md.

By group all groups together are looked at first: few rows are enough to tell that they are there,
but not where. Each group's own octaves, among those that stand out of all, narrow these bounds
where groups differ in size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable, in_octaves, in_one, of_groups
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.exceedances import Exceedances, every_count, exceedances, heights_of
from dfprivacy.noise.laws import Noise, spread_of
from dfprivacy.release.terms import Bounds
from dfprivacy.statistics.estimators.octave_bounds import (
    CORE,
    LEAST,
    PLAIN,
    SURELY_FAR,
    FoundBounds,
    Joining,
    Mask,
    Tails,
    cores,
    octave_bounds,
    on_grid,
    tails,
    tails_about,
)
from dfprivacy.statistics.estimators.quantile import ranked_rows, select_rank

PARTS = 200
"""Shares are whole numbers of so many parts of a loss."""

POOLED, EVERYTHING, OWN = 10, 60, 38
"""The shares of the octaves of all groups together, of a second look at these where nothing stands
out, and of each group's own octaves."""

WITHIN = Joining(2.0, 1.0, 1.0, {1: 6.0, 2: 7.5, 4: 9.0})
"""How own octaves are found, and join, among those that stand out of all groups together."""

SETTLED = 20.0
"""Two neighbouring octaves that hold nearly all rows have no room around them from so tall on."""

FEW = 1.0
"""Rows of a group that are expected beyond its bounds, in units of the noise of its own octaves:
from about 5/epsilon rows on an octave more costs less than it clips."""

UNLIKE = 8.0
"""A group is unlike all together where so many of its rows, in the same units, would be beyond its
own bounds if it were like them."""

NEXT = np.array([1, 2])
"""So many octaves beyond those that stand out of all are looked at as these are, by group."""

RARE = 0.1
"""No more of the rows of any group, however small, are expected beyond its bounds."""

ROOM = {0: 4.0, 20: 2.0, 200: 1.0}
"""Own bounds are so many times as far from zero as the octaves that stand out, by the height of all
of them: the fewer rows, the more of them are in octaves that do not."""

FIRST, SECOND, AGAIN = 24, 56, 75
"""The shares of the first histogram of octaves, of the second where data are near zero, and of the
second where the first has found no bounds."""

TAILS = Joining(2.5, 2.0, 2.0)
"""How bins join in the second histogram."""

CENTRE = {36: 24, 120: 12, 240: 6, 480: 2}
"""The share of the centre, by the least height of all rows in the first histogram."""

REACH = 40
"""The share of the histogram of distances."""

FINENESS = {36: 2, 360: 4, 3600: 8}
"""How many bins double a distance, by the least height of all rows."""

TOGETHER = 0.92
"""Data are far from zero where two neighbouring octaves hold such a part of the rows."""

SURE = 9.0
"""Octaves below 1/64 of the width count among all rows where they are as tall."""

CORES = {1: 11.0, 2: 13.0, 4: 15.5, 8: 19.0}
"""How tall so many bins of distances must be together to be the core of the bounds."""

NARROWEST = 2.0**-16
"""Ends nearer to zero than so many widths move: ends are multiples of the grid's step then."""

NEAR = 2**12
"""The core is not further from the centre: two octaves of the finest bins."""

JOINS, WIDER, APART = 2.0, 2.5, 2.0
"""From what height on a bin of distances joins, and what each factor and each gap adds."""


@dataclass(frozen=True, eq=False, repr=False)
class OctaveHistogram:
    """The noisy octaves of some groups, and what of the loss was `left` after it. Secret."""

    groups: Integers
    left: int
    table: BinTable
    noisy: Exceedances

    tall: Floats | None = None
    """How tall the octaves of each group are together, beside zero, where few rows may tell."""
    marked: tuple[Mask, Mask] | None = None
    """Which ends of all groups together are marked, where groups may be like these."""

    def tails(self, bounds: Bounds, own: Integers, rows: Floats) -> Tails:  # noqa: ARG002 one interface
        """Return what is known of rows beyond bounds; each group is asked about once."""
        found = tails(self.table, self.noisy, bounds, own)
        if self.tall is None:
            return found
        below, above = found.surely(self.tall[own])
        low, high = self.marked or (False, False)
        return replace(found, marked=(below | low, above | high))

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        octaves = Octaves()
        return octaves.lower(self.noisy.bins), octaves.upper(self.noisy.bins)

    def rows(self, bounds: Bounds) -> float:
        """Return the noisy rows of all groups within bounds, or zero, in octaves that stand out."""
        lower, upper = self._ends
        within = (lower >= bounds.lower) & (upper <= bounds.upper)
        counted = (within | (self.noisy.bins == 0)) & (self.noisy.heights >= LEAST)
        return float(self.noisy.counts[counted].sum())

    def heights(self, low: Any, high: Any, *, zero: bool = True) -> Floats:
        """Return the height of all octaves of each group that stand out between two ends."""
        noisy, (lower, upper) = self.noisy, self._ends
        low, high = (end if np.ndim(end) == 0 else end[noisy.group] for end in (low, high))
        within = (lower >= low) & (upper <= high)
        within &= (noisy.bins != 0) | zero
        tall = np.bincount(noisy.group[within], noisy.counts[within], len(self.groups))
        return np.asarray(tall / spread_of(noisy.noise), np.float64)

    def profile(self, bounds: Bounds) -> Profile:
        """Return which part of the rows of all groups each octave within bounds has."""
        noisy, (lower, upper) = self.noisy, self._ends
        within = (lower >= bounds.lower) & (upper <= bounds.upper)
        rows = np.where(noisy.heights[within] >= LEAST, noisy.counts[within], 0.0)
        return Profile(lower[within], upper[within], rows / max(rows.sum(), 1.0))


@dataclass(frozen=True, eq=False)
class Profile:
    """Adjacent octaves, ascending, and which part of all rows each has. Public."""

    lower: Floats
    upper: Floats
    parts: Floats

    def ends(self, heights: Floats) -> tuple[Floats, Floats]:
        """Return the ends beyond which groups of such heights have few rows, if like all."""
        zero = (self.lower == 0) & (self.upper == 0)
        few = np.minimum(FEW / np.maximum(heights, 1.0), RARE * self.parts[~zero].sum())
        below, above = (np.append(0.0, own.cumsum()) for own in (self.parts, self.parts[::-1]))
        last = len(self.parts) - 1
        low, high = (
            np.minimum(np.searchsorted(own, few, "right") - 1, last) for own in (below, above)
        )
        return self.lower[low], self.upper[last - high]

    def outside(self, bounds: FoundBounds) -> Floats:
        """Return which part of the rows is outside bounds of octaves."""
        before = np.append(0.0, self.parts.cumsum())
        held = before[np.searchsorted(self.upper, bounds.upper, "right")]
        return np.asarray(1 - held + before[np.searchsorted(self.lower, bounds.lower)])


@dataclass(frozen=True, eq=False, repr=False)
class SharedHistogram:
    """The noisy octaves of all groups together, off which bounds of some are read. Secret.

    `total` are the rows within the bounds of all, `marked` which ends of these are.
    """

    groups: Integers
    left: int
    everyone: OctaveHistogram
    total: float
    marked: tuple[Mask, Mask]

    def tails(self, bounds: Bounds, own: Integers, rows: Floats) -> Tails:  # noqa: ARG002 those of all
        """Return what is known of rows beyond bounds: groups have as large a part as of all."""
        found = tails(self.everyone.table, self.everyone.noisy, bounds, np.zeros(1, np.int64))
        return found.among(np.clip(rows / self.total, 1 / self.total, 1.0), self.marked)


@dataclass(frozen=True, eq=False, repr=False)
class DistanceHistogram:
    """The noisy distances of some groups from their centres, and what was `left` after it. Public.

    `low` and `high` are the least and the largest distance within the bounds, `binning` that of
    the values.
    """

    groups: Integers
    left: int
    centre: Integers
    noisy: Floats
    noise: Noise
    fineness: int
    low: Integers
    high: Integers
    binning: Octaves

    def tails(self, bounds: Bounds, own: Integers, rows: Floats) -> Tails:  # noqa: ARG002 those of the distances
        """Return what is known of rows beyond bounds, of groups with one centre and one reach."""
        first, last = own[0], self.binning.last
        sizes = sizes_of(2 * last, self.fineness)
        centre = self.centre[first]
        ends = (
            self.binning.lower(np.clip(centre - sizes, -last, last)),
            self.binning.upper(np.clip(centre + sizes, -last, last)),
        )
        places = (np.searchsorted(sizes, end) for end in (-self.low[first], self.high[first]))
        below, above = (int(place) for place in places)
        scale = spread_of(self.noise)
        return tails_about(self.noisy[own], ends, (below, above), self.fineness, scale)


@dataclass(frozen=True, eq=False, repr=False)
class Zoomed:
    """The bounds of each group, and by number the histogram that they were read off, and centre.

    What of the loss is left, in PARTS, is that of the histogram.
    """

    found: FoundBounds
    histograms: Sequence[OctaveHistogram | DistanceHistogram | SharedHistogram]
    histogram: Integers
    centre: Integers

    def left(self, groups: Integers) -> int:
        """Return the share of the loss that is left for each of some groups, at least."""
        used = np.flatnonzero(np.bincount(self.histogram[groups]))
        return min(self.histograms[int(own)].left for own in used)

    def tails(self, bounds: Bounds, groups: Integers, rows: Floats) -> Tails:
        """Return what is known of rows beyond the bounds that groups of one histogram share.

        `rows` are the noisy rows of these groups.
        """
        own = self.histograms[int(self.histogram[groups[0]])]
        return own.tails(bounds, np.searchsorted(own.groups, groups), rows)


def zoomed_bounds(
    table: BinTable, loss: Epsilon | Rho, entropy: EntropySource = system_entropy
) -> Zoomed:
    """Return the bounds of each group of an octave table; what they cost and `left` is `loss`."""
    steps, everyone = _Steps(table, loss, entropy), np.arange(table.groups)
    rows = steps.look(everyone, FIRST, PLAIN)
    steps.zoom(everyone, rows)
    missing = np.isnan(steps.lower)  # before the second looks: nobody has both
    for share, own in ((SECOND, ~missing), (AGAIN, missing)):
        near = np.flatnonzero((rows < min(CENTRE)) & own)
        steps.zoom(near, steps.look(near, share, TAILS) * FIRST / share)
    return steps.done()


def group_bounds(
    table: BinTable,
    loss: Epsilon | Rho,
    pooled: Epsilon | Rho,
    entropy: EntropySource = system_entropy,
) -> Zoomed:
    """Return the bounds of each group of a table of octaves; what they cost and `left` is `loss`.

    Shares of all groups together are shares of `pooled`, the loss of a row where these are counted
    in one.
    """
    whole, one = _Steps(in_one(table), pooled, entropy), np.zeros(1, np.int64)
    for share in (POOLED, EVERYTHING):
        whole.look(one, share, TAILS, dense=True)
        if whole.found:
            break
    together, everyone = whole.done(), np.arange(table.groups)
    steps = _Steps(table, loss, entropy, together.left(one))
    histogram = together.histograms[-1]
    assert isinstance(histogram, OctaveHistogram)  # noqa: S101 nobody zooms here
    if not whole.found:
        return steps.without(together)
    if share == POOLED:
        noisy = histogram.noisy
        standing = noisy.bins[noisy.heights >= LEAST]
        beside = [standing.min() - NEXT, standing, standing.max() + NEXT]
        standing = np.unique(np.clip(np.concatenate(beside), -noisy.last, noisy.last))
        steps.look(everyone, OWN, WITHIN, standing)
    bounds = Bounds(float(together.found.lower[0]), float(together.found.upper[0]))
    steps.share(bounds, histogram)
    return steps.done()


class _Steps:
    """The bounds of each group so far, and what they were read off."""

    def __init__(
        self, table: BinTable, loss: Epsilon | Rho, entropy: EntropySource, left: int = PARTS
    ) -> None:
        self._table, self._loss, self._entropy, self._most = table, loss, entropy, left
        fine = isinstance(table.binning, Octaves) and table.binning.bits > 1
        self._octaves = in_octaves(table) if fine else table
        self.lower, self._upper = np.full((2, table.groups), np.nan)
        self._zeros = np.zeros(table.groups, dtype=bool)
        self._histogram, self._centre = np.zeros((2, table.groups), dtype=np.int64)
        self._histograms: list[OctaveHistogram | DistanceHistogram | SharedHistogram] = []

    def done(self) -> Zoomed:
        """Return what was found."""
        found = FoundBounds(self.lower, self._upper, self._zeros)
        return Zoomed(found, self._histograms, self._histogram, self._centre)

    def _left(self, groups: Integers) -> int:
        if not self._histograms:
            return self._most
        return self._histograms[int(self._histogram[groups[0]])].left

    @property
    def found(self) -> bool:
        """Tell whether anybody has bounds."""
        return not np.isnan(self.lower).all()

    def look(
        self,
        groups: Integers,
        share: int,
        joining: Joining,
        standing: Integers | None = None,
        *,
        dense: bool = False,
    ) -> Floats:
        """Draw the octaves of some groups; return their rows, in units of the noise, if far.

        Where some octaves are `standing` out of all groups, others have to be as tall as a core;
        `dense` octaves can be asked for again and again.
        """
        if not len(groups):
            return np.zeros(0)
        own = self._octaves
        if len(groups) < own.groups:
            own = of_groups(own, groups)
        noise = _part(self._loss, share).noise(1, 1)
        if standing is not None:
            noisy = exceedances(own, noise, CORE, self._entropy, (standing, joining.least))
        elif dense:
            noisy = every_count(own, noise, self._entropy)
        else:
            noisy = exceedances(own, noise, joining.least, self._entropy)
        seen = noisy.at_least(joining.least) if dense else noisy
        found = octave_bounds(seen, len(groups), joining)
        self.lower[groups], self._upper[groups] = found.lower, found.upper
        self._zeros[groups] = found.zeros
        left = self._left(groups) - share
        self._histograms.append(OctaveHistogram(groups, left, own, noisy))
        self._histogram[groups] = len(self._histograms) - 1
        return rows_if_far(noisy, found)

    def without(self, together: Zoomed) -> Zoomed:
        """Return that no group has bounds, as all groups together have none."""
        self._zeros |= together.found.zeros[0]
        self._histograms.append(together.histograms[-1])
        return self.done()

    def share(self, bounds: Bounds, everyone: OctaveHistogram) -> None:
        """Give each group the bounds that all share, or its own where they narrow them, or beyond.

        Of few rows the octaves that stand out tell a size, hardly a tail: own bounds have as much
        room on either side.
        """
        groups = len(self.lower)
        marked = everyone.tails(bounds, np.zeros(1, np.int64), np.ones(1)).surely(
            everyone.heights(bounds.lower, bounds.upper, zero=False), SURELY_FAR
        )
        shared = SharedHistogram(
            np.arange(groups), self._most, everyone, max(everyone.rows(bounds), 1.0), marked
        )
        self._zeros[:] = False
        if not self._histograms:  # nobody was looked at
            self._histograms.append(shared)
            self.lower[:], self._upper[:] = bounds.lower, bounds.upper
            return
        (own,) = self._histograms
        assert isinstance(own, OctaveHistogram)  # noqa: S101 nobody zooms here
        found, profile = FoundBounds(self.lower, self._upper, self._zeros), everyone.profile(bounds)
        tall = own.heights(-np.inf, np.inf)
        low, high = profile.ends(own.heights(bounds.lower, bounds.upper))
        most = np.fmin(found.lower, bounds.lower), np.fmax(found.upper, bounds.upper)
        lower, upper = self._roomy(found, own)
        lower, upper = np.maximum(lower, most[0]), np.minimum(upper, most[1])
        seen = tall - own.heights(found.lower, found.upper)
        less = found.found & (tall * profile.outside(found) - seen >= UNLIKE)
        less &= upper - lower < high - low
        more = (tall - own.heights(low, high) >= UNLIKE) | (most[0] < bounds.lower)
        more = ~less & (more | (most[1] > bounds.upper))
        ends = np.where(less, [lower, upper], np.where(more, most, [low, high]))
        self.lower, self._upper = on_grid(ends[0], ends[1])
        tall = own.heights(bounds.lower, bounds.upper, zero=False)
        alike = replace(own, tall=tall, marked=marked)
        self._histograms = [replace(shared, left=own.left), alike, replace(own, tall=tall)]
        self._histogram[:] = more + 2 * less

    def _roomy(self, found: FoundBounds, own: OctaveHistogram) -> tuple[Floats, Floats]:
        """Return own bounds with room on either side: the more, the fewer rows stand out."""
        room = np.array(list(ROOM.values()))
        room = room[np.searchsorted([*ROOM], own.heights(found.lower, found.upper), "right") - 1]
        room[rows_if_far(own.noisy, found, SETTLED) > 0] = 1.0
        size = room * np.maximum(-found.lower, found.upper)
        lower, upper = np.where(room > 1, [-size, size], [found.lower, found.upper])
        return lower, upper

    def zoom(self, groups: Integers, rows: Floats) -> None:
        """Find bounds about a centre for groups that are far, by the height of all their rows."""
        for some, centre, fineness in _classes(rows):
            own = groups[some]
            shares = (self._left(own) - centre - REACH, centre, fineness)
            table = of_groups(self._table, own)
            found, ends, seen = _around(own, table, self._loss, shares, self._entropy)
            before = self._histograms[int(self._histogram[own[0]])]
            assert isinstance(before, OctaveHistogram)  # noqa: S101 nobody zooms twice
            self._histograms += [replace(before, left=shares[0]), found]
            self._histogram[own] = len(self._histograms) - 1 - ~seen
            self._centre[own[seen]] = found.centre[seen]
            inner = on_grid(ends[0][seen], ends[1][seen], NARROWEST)
            self.lower[own[seen]], self._upper[own[seen]] = inner


def _part(loss: Epsilon | Rho, share: int) -> Epsilon | Rho:
    return loss.share(Fraction(share, PARTS))


def _classes(rows: Floats) -> Iterator[tuple[Integers, int, int]]:
    """Yield groups with the share of their centre and the fineness of their distances."""
    edges = sorted({*CENTRE, *FINENESS})
    for least, most in zip(edges, [*edges[1:], math.inf], strict=True):
        own = np.flatnonzero((rows >= least) & (rows < most))
        if len(own):
            yield (
                own,
                CENTRE[max(e for e in CENTRE if e <= least)],
                FINENESS[max(e for e in FINENESS if e <= least)],
            )


def rows_if_far(noisy: Exceedances, found: FoundBounds, least: float = min(CENTRE)) -> Floats:
    """Return the rows of each group far from zero, over the noise's spread, at `least`; or 0."""
    octaves, groups = Octaves(), len(found.lower)
    group, bins, scaled = noisy.group, noisy.bins, noisy.counts / spread_of(noisy.noise)
    lower, upper = octaves.lower(bins), octaves.upper(bins)
    width = (found.upper - found.lower)[group]
    within = (lower >= found.lower[group]) & (upper <= found.upper[group])
    large = np.maximum(-lower, upper) >= width / 64
    counted = (bins == 0) | (within & (large | (noisy.heights >= SURE)))
    rows = np.bincount(group[counted], scaled[counted], groups)
    pairs = np.where(within & (bins != 0), scaled, 0.0)
    follows = (group[1:] == group[:-1]) & (bins[1:] == bins[:-1] + 1) & (bins[1:] * bins[:-1] > 0)
    pairs[:-1] += np.where(follows & within[1:], scaled[1:], 0.0)
    most = np.zeros(groups)
    np.maximum.at(most, group, pairs)
    far = (most + 1 >= TOGETHER * rows) & (rows >= least) & found.found
    return np.where(far, rows, 0.0)


def _around(
    groups: Integers,
    table: BinTable,
    loss: Epsilon | Rho,
    shares: tuple[int, int, int],
    entropy: EntropySource,
) -> tuple[DistanceHistogram, tuple[Floats, Floats], Mask]:
    """Return noisy distances from a private median, the bounds they have, and who has some.

    `shares` are what is left, that of the centre, and how many bins double a distance.
    """
    left, centre_share, fineness = shares
    held, law = ranked_rows(table), _part(loss, centre_share).selection(sensitivity=1)
    centre = select_rank(held, held.totals(), law, entropy)
    binning, last = table.binning, table.binning.last
    assert isinstance(binning, Octaves)  # noqa: S101 `zoomed_bounds` has looked
    sizes = sizes_of(2 * last, fineness)
    distance = table.bins - centre[table.group]
    number = np.sign(distance) * (np.searchsorted(sizes, np.abs(distance)))
    width = 2 * len(sizes) - 1
    counts = np.zeros(table.groups * width, np.int64)
    np.add.at(counts, table.group * width + number + len(sizes) - 1, table.rows)
    noise = _part(loss, REACH).noise(1, 1)
    noisy = add_to(counts.reshape(table.groups, width), noise, entropy).astype(np.float64)
    low, high, seen = reaching(noisy, noise, sizes)
    own = DistanceHistogram(groups, left, centre, noisy, noise, fineness, low, high, binning)
    lower = binning.lower(np.clip(centre + low, -last, last))
    return own, (lower, binning.upper(np.clip(centre + high, -last, last))), seen


def sizes_of(most: int, fineness: int) -> Integers:
    """Return the largest distance of each bin: 0, 1, and so many a doubling from there on."""
    steps = [1 + Fraction(k, fineness) for k in range(fineness)]
    powers = range(most.bit_length() + 1)
    whole = {math.floor(2**power * step) for power in powers for step in steps}
    return np.array(sorted({0, *whole}), np.int64)


def reaching(noisy: Floats, noise: Noise, sizes: Integers) -> tuple[Integers, Integers, Mask]:
    """Return the least and largest distance that hold the rows of each group, and whether found.

    `noisy` has one row a group and one column a bin of distances, the middle one for 0. The core
    of each side is its shortest window that is tall enough. Beyond it a bin joins at the height
    JOINS + WIDER log(factor by which it widens the bounds) + APART log(bins that it lies further).
    """
    groups, middle = len(noisy), len(sizes) - 1
    low, high, seen = _cores(noisy, noise, int(np.searchsorted(sizes, NEAR)))
    inner = np.append(0, sizes[:-1] + 1)  # the least distance of each bin
    first = np.concatenate([-sizes[:0:-1], inner]).astype(np.float64)
    last = -first[::-1]
    heights, every = heights_of(noisy, noise), np.arange(groups)
    tall = np.flatnonzero((heights >= JOINS).any(axis=0))  # no other bin joins in any group
    for _ in range(2):
        for step in (1, -1):
            places = tall[tall > middle] if step > 0 else tall[tall < middle][::-1]
            for place in places.tolist():
                end = high if step > 0 else low
                gap = (place - end) * step
                now = last[high] - first[low] + 1
                wide = last[place] - first[low] + 1 if step > 0 else last[high] - first[place] + 1
                factor = np.maximum(wide / now, 1.0)
                least = JOINS + WIDER * np.log(factor) + APART * np.log(np.maximum(gap, 1))
                joins = (gap > 0) & (heights[every, place] >= least)
                end[joins] = place
    return first[low].astype(np.int64), last[high].astype(np.int64), seen


def _cores(noisy: Floats, noise: Noise, reach: int) -> tuple[Integers, Integers, Mask]:
    """Return the outer ends of each group's cores, and whether there are any.

    Each side has one: the shortest window that is tall enough, up to `reach` bins from the middle.
    """
    groups, middle = len(noisy), noisy.shape[1] // 2
    least = cores(CORES, noise)
    seen = heights_of(noisy[:, middle], noise) >= least[1]
    ends = []
    for side in (noisy[:, middle - 1 :: -1], noisy[:, middle + 1 :]):
        before = np.cumsum(np.pad(side[:, :reach], ((0, 0), (1, 0))), axis=1)
        end = np.zeros(groups, dtype=np.int64)
        for size, tall in least.items():
            heights = heights_of(before[:, size:] - before[:, :-size], noise, size)
            best = heights.argmax(axis=1)
            own = (end == 0) & (heights[np.arange(groups), best] >= tall)
            end[own] = best[own] + size
        seen |= end > 0
        ends.append(end)
    return middle - ends[0], middle + ends[1], seen
