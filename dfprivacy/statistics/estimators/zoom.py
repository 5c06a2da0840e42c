"""Bounds in steps: octaves first, then, where data are far from zero, a closer look at them.

A first part of the loss pays for a noisy histogram of octaves. Where two neighbouring octaves of
one sign hold nearly all rows, the data are far from zero for their spread: a private median is
their centre, and a noisy histogram of distances from it, in bins of the table, tells how far they
reach. Elsewhere a second histogram of octaves has more of the loss. Each step costs its own share,
and what is read off noisy counts costs nothing more: docs/octaves.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable, in_octaves, of_groups
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.exceedances import Exceedances, exceedances, heights_of
from dfprivacy.noise.laws import Noise, spread_of
from dfprivacy.release.terms import Bounds
from dfprivacy.statistics.estimators.octave_bounds import (
    PLAIN,
    SHARE,
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

ONCE = int(SHARE * PARTS)
"""The share of bounds by octaves alone."""

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

    def tails(self, bounds: Bounds, own: Integers) -> Tails:
        """Return what is known of rows beyond bounds; each group is asked about once."""
        return tails(self.table, self.noisy, bounds, own)


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

    def tails(self, bounds: Bounds, own: Integers) -> Tails:  # noqa: ARG002 those of the distances
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
    histograms: Sequence[OctaveHistogram | DistanceHistogram]
    histogram: Integers
    centre: Integers

    def left(self, groups: Integers) -> int:
        """Return the share of the loss that is left for each of some groups, at least."""
        used = np.flatnonzero(np.bincount(self.histogram[groups]))
        return min(self.histograms[int(own)].left for own in used)

    def tails(self, bounds: Bounds, groups: Integers) -> Tails:
        """Return what is known of rows beyond the bounds that groups of one histogram share."""
        own = self.histograms[int(self.histogram[groups[0]])]
        return own.tails(bounds, np.searchsorted(own.groups, groups))


def zoomed_bounds(
    table: BinTable, loss: Epsilon | Rho, entropy: EntropySource = system_entropy
) -> Zoomed:
    """Return the bounds of each group of an octave table; what they cost and `left` is `loss`.

    Where bins are octaves themselves there is one step, of `SHARE`.
    """
    assert isinstance(table.binning, Octaves)  # noqa: S101 the part has chosen it
    steps, everyone = _Steps(table, loss, entropy), np.arange(table.groups)
    if table.binning.bits == 1:
        steps.look(everyone, ONCE, PLAIN)
        return steps.done()
    rows = steps.look(everyone, FIRST, PLAIN)
    steps.zoom(everyone, rows)
    missing = np.isnan(steps.lower)  # before the second looks: nobody has both
    for share, own in ((SECOND, ~missing), (AGAIN, missing)):
        near = np.flatnonzero((rows < min(CENTRE)) & own)
        steps.zoom(near, steps.look(near, share, TAILS) * FIRST / share)
    return steps.done()


class _Steps:
    """The bounds of each group so far, and what they were read off."""

    def __init__(self, table: BinTable, loss: Epsilon | Rho, entropy: EntropySource) -> None:
        self._table, self._loss, self._entropy = table, loss, entropy
        fine = isinstance(table.binning, Octaves) and table.binning.bits > 1
        self._octaves = in_octaves(table) if fine else table
        self.lower, self._upper = np.full((2, table.groups), np.nan)
        self._zeros, self._clear = np.zeros((2, table.groups), dtype=bool)
        self._histogram, self._centre = np.zeros((2, table.groups), dtype=np.int64)
        self._histograms: list[OctaveHistogram | DistanceHistogram] = []

    def done(self) -> Zoomed:
        """Return what was found."""
        found = FoundBounds(self.lower, self._upper, self._zeros, self._clear)
        return Zoomed(found, self._histograms, self._histogram, self._centre)

    def _left(self, groups: Integers) -> int:
        if not self._histograms:
            return PARTS
        return self._histograms[int(self._histogram[groups[0]])].left

    def look(self, groups: Integers, share: int, joining: Joining) -> Floats:
        """Draw the octaves of some groups; return their rows, in units of the noise, if far."""
        if not len(groups):
            return np.zeros(0)
        own = self._octaves
        if len(groups) < own.groups:
            own = of_groups(own, groups)
        noise = _part(self._loss, share).noise(1, 1)
        noisy = exceedances(own, noise, joining.least, self._entropy)
        found = octave_bounds(noisy, len(groups), joining)
        self.lower[groups], self._upper[groups] = found.lower, found.upper
        self._zeros[groups], self._clear[groups] = found.zeros, found.clear
        left = self._left(groups) - share
        self._histograms.append(OctaveHistogram(groups, left, own, noisy))
        self._histogram[groups] = len(self._histograms) - 1
        return rows_if_far(noisy, found)

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


def rows_if_far(noisy: Exceedances, found: FoundBounds) -> Floats:
    """Return the rows of each group whose data are far from zero, over the noise's spread, or 0."""
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
    far = (most + 1 >= TOGETHER * rows) & (rows >= min(CENTRE)) & found.found
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
