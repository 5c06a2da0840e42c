"""Bounds in steps: octaves first, then, where data are far from zero, a closer look at them.

A first part of the loss pays for a noisy histogram of octaves. Where two neighbouring octaves of
one sign hold nearly all rows, the data are far from zero for their spread: a private median is
their centre, and a noisy histogram of distances from it, in bins of the table, tells how far they
reach. Elsewhere a second histogram of octaves has more of the loss. Each step costs its own share,
and what is read off noisy counts costs nothing more: docs/octaves.md.

By group all groups together are looked at first, for a small part of the loss: few rows are enough
to tell that they are there, but not where. A group's own octaves narrow these bounds where groups
differ in size; groups of many rows, by their noisy octaves, have a centre of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable, in_octaves, in_one, of_groups
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.exceedances import Exceedances, exceedances, heights_of
from dfprivacy.noise.laws import Noise, spread_of
from dfprivacy.release.terms import Bounds
from dfprivacy.statistics.estimators.octave_bounds import (
    CORE,
    LEAST,
    NO_DOUBT,
    PLAIN,
    FoundBounds,
    Joining,
    Mask,
    Tails,
    cores,
    far_marks,
    octave_bounds,
    on_grid,
    tails,
    tails_about,
)
from dfprivacy.statistics.estimators.quantile import ranked_rows, select_rank

PARTS = 200
"""Shares are whole numbers of so many parts of a loss."""

OWN, SIZE = 40, 5
"""The share of each group's own octaves, and where all groups are far from zero together: there
they only tell large groups, and those whose rows lie elsewhere."""

LARGE = {OWN: 120, SIZE: 240}
"""From what height of all rows on a group has a centre of its own, likewise."""

WITHIN = Joining(2.0, 1.0, 1.0, {1: 6.0, 2: 7.5, 4: 9.0})
"""How own octaves are found, and join, among those that stand out of all groups together;
others have to be as tall as a core by themselves."""

SETTLED = 20.0
"""Two neighbouring octaves that hold nearly all rows have no room around them from so tall on."""

ROOM = {0: 8.0, 40: 4.0, 160: 2.0, 640: 1.0}
"""Own bounds are so many times as far from zero as the octaves that stand out, by the height of all
of them: the fewer rows, the more of them are in octaves that do not."""

MANY = 20.0
"""From what height of all rows on a group may show by itself how fast its tail thins out."""

ALIKE = 0.95
"""A group whose own bounds hold such a part of the rows of all groups has a tail like theirs."""

FIRST, SECOND, AGAIN = 24, 56, 75
"""The shares of the first histogram of octaves, of the second where data are near zero, and of the
second where the first has found no bounds."""

POOLED = Fraction(3, 25)
"""What bounds of all groups together may cost; all that is left where these find none."""

NEARBY = POOLED * Fraction(FIRST + SECOND, PARTS)
"""What they cost where data are not far from zero."""

FEW_ROWS = (1 - POOLED * Fraction(FIRST + AGAIN, PARTS)) * Fraction(AGAIN, PARTS)
"""The share of the last histogram in which few rows of all groups may stand out."""

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
"""The core is not further from the centre: two octaves of the bins of a whole frame."""

JOINS, WIDER, APART = 2.0, 2.5, 2.0
"""From what height on a bin of distances joins, and what each factor and each gap adds."""

_OCTAVES = Octaves()


@dataclass(frozen=True, eq=False, repr=False)
class OctaveHistogram:
    """The noisy octaves of some groups, and what of the loss was `left` after it. Secret."""

    groups: Integers
    left: int
    table: BinTable
    noisy: Exceedances
    shared: SharedHistogram | None = None

    def tails(self, bounds: Bounds, own: Integers, rows: Floats) -> Tails:  # noqa: ARG002 one interface
        """Return what is known of rows beyond bounds; each group is asked about once."""
        found = tails(self.table, self.noisy, bounds, own)
        if self.shared is None:
            return found
        return replace(found, marked=self._also(found.marks(), bounds))

    def marks(self, bounds: Bounds, groups: Integers) -> tuple[Mask, Mask]:
        """Tell for each end whose interval can't be relied on; each group is asked about once.

        Only many rows show how fast a tail thins out.
        """
        own, standing = np.searchsorted(self.groups, groups), self.noisy.heights >= LEAST
        tall = np.bincount(
            self.noisy.group[standing], self.noisy.heights[standing], len(self.groups)
        )
        many, marked = tall[own] >= MANY, np.zeros((2, len(own)), dtype=bool)
        if many.any():
            marked[:, many] = tails(self.table, self.noisy, bounds, own[many]).marks()
        if not many.all():
            marked[:, ~many] = far_marks(self.table, self.noisy, bounds, own[~many])
        return self._also((marked[0], marked[1]), bounds)

    def _also(self, marks: tuple[Mask, Mask], bounds: Bounds) -> tuple[Mask, Mask]:
        """Return marks with those of all groups together."""
        if self.shared is None:
            return marks
        below, above = (a | b for a, b in zip(marks, self.shared.heavy(bounds), strict=True))
        return below, above

    def rows(self, bounds: Bounds) -> float:
        """Return the noisy rows of all groups within bounds, or zero."""
        bins = self.noisy.bins
        within = (_OCTAVES.lower(bins) >= bounds.lower) & (_OCTAVES.upper(bins) <= bounds.upper)
        return float(self.noisy.counts[within | (bins == 0)].sum())


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

    def rows(self, bounds: Bounds) -> float:  # noqa: ARG002 all of them
        """Return the noisy rows of all groups."""
        return float(self.noisy.sum())

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
class SharedHistogram:
    """What is known of the rows of all groups together beyond the bounds that some share. Public.

    `everyone` is the noisy histogram of all groups, `own` has the octaves of each by itself, where
    they were looked at.
    """

    groups: Integers
    left: int
    together: Tails
    everyone: OctaveHistogram | DistanceHistogram
    own: OctaveHistogram | None = None

    def tails(self, bounds: Bounds, own: Integers, rows: Floats) -> Tails:
        """Return as much of what is known as groups of so many noisy rows have of all rows.

        A group is marked for what its own octaves show, or where all together leave no doubt.
        """
        every = max(self.everyone.rows(bounds), 1.0)
        shared = self.together.among(np.clip(rows, 1.0, every) / every)
        if self.own is None:
            below, above = (np.repeat(mark, len(own)) for mark in self.heavy(bounds))
            return replace(shared, marked=(below, above))
        return replace(shared, marked=self.own.marks(bounds, self.groups[own]))

    def heavy(self, bounds: Bounds) -> tuple[Mask, Mask]:
        """Tell whose tails are heavy beyond doubt: of all groups together, if bounds fit these.

        Where groups differ in size, what is a tail of all is the middle of some.
        """
        fits = self.everyone.rows(bounds) >= ALIKE * self.everyone.rows(self.together.bounds)
        below, above = self.together.slow(*NO_DOUBT)
        return below & fits, above & fits


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
        return min(self.histograms[int(own)].left for own in np.unique(self.histogram[groups]))

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
) -> tuple[Zoomed, Epsilon | Rho]:
    """Return the bounds of each group of an octave table, and the loss of which `left` is a share.

    All groups together are looked at as a whole frame is: for shares of `pooled`, the loss of one
    row where all groups are counted together. Whatever these shares, what is left has the rest.
    """
    whole, spent, everyone = in_one(table), Fraction(0), np.arange(table.groups)
    for most in (POOLED, Fraction(1)):
        part = most * (1 - spent)
        together = zoomed_bounds(whole, pooled.share(part), entropy)
        spent += part * Fraction(PARTS - together.left(np.array([0])), PARTS)
        if together.found.found[0]:
            break
    rest = loss.share(1 - spent)
    steps = _Steps(table, rest, entropy)
    if not together.found.found[0]:
        return steps.without(together), rest
    bounds = Bounds(float(together.found.lower[0]), float(together.found.upper[0]))
    histogram = together.histograms[int(together.histogram[0])]
    assert not isinstance(histogram, SharedHistogram)  # noqa: S101 of one group
    if most < 1:
        share = SIZE if isinstance(histogram, DistanceHistogram) else OWN
        seen = [own for own in together.histograms if isinstance(own, OctaveHistogram)][-1]
        rows = steps.look(everyone, share, WITHIN, seen.noisy) * FIRST / share
        steps.zoom(everyone, np.where(rows >= LARGE[share], rows, 0.0))
    tails = together.tails(bounds, np.array([0]), np.ones(1))
    shared = SharedHistogram(everyone, PARTS, tails, histogram)
    steps.share(shared, bounds, narrows=not isinstance(histogram, DistanceHistogram))
    return steps.done(), rest


class _Steps:
    """The bounds of each group so far, and what they were read off."""

    def __init__(self, table: BinTable, loss: Epsilon | Rho, entropy: EntropySource) -> None:
        self._table, self._loss, self._entropy = table, loss, entropy
        self.lower, self._upper = np.full((2, table.groups), np.nan)
        self._zeros, self._settled = np.zeros((2, table.groups), dtype=bool)
        self._tall = np.zeros(table.groups)
        self._histogram, self._centre = np.zeros((2, table.groups), dtype=np.int64)
        self._histograms: list[OctaveHistogram | DistanceHistogram | SharedHistogram] = []

    @cached_property
    def _octaves(self) -> BinTable:
        return in_octaves(self._table)

    def done(self) -> Zoomed:
        """Return what was found."""
        found = FoundBounds(self.lower, self._upper, self._zeros)
        return Zoomed(found, self._histograms, self._histogram, self._centre)

    def without(self, together: Zoomed) -> Zoomed:
        """Return that no group has bounds, as all groups together have none."""
        self._zeros |= together.found.zeros[0]
        self._histograms.append(replace(together.histograms[0], left=PARTS))
        return self.done()

    def _left(self, groups: Integers) -> int:
        if not self._histograms:
            return PARTS
        return self._histograms[int(self._histogram[groups[0]])].left

    def look(
        self, groups: Integers, share: int, joining: Joining, together: Exceedances | None = None
    ) -> Floats:
        """Draw the octaves of some groups; return their rows, in units of the noise, if far.

        Octaves that do not stand out of all groups `together` have to be as tall as a core.
        """
        if not len(groups):
            return np.zeros(0)
        own = self._octaves
        if len(groups) < own.groups:
            own = of_groups(own, groups)
        noise = _part(self._loss, share).noise(1, 1)
        noisy = exceedances(own, noise, joining.least, self._entropy)
        standing = noisy if together is None else _standing(noisy, together)
        found = octave_bounds(standing, len(groups), joining)
        self.lower[groups], self._upper[groups] = found.lower, found.upper
        self._zeros[groups], self._tall[groups] = found.zeros, _heights_within(noisy, found)
        self._settled[groups] = rows_if_far(noisy, found, SETTLED) > 0
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

    def share(self, shared: SharedHistogram, bounds: Bounds, *, narrows: bool) -> None:
        """Give each group the bounds that all share, or its own where they narrow them, or beyond.

        Of few rows the octaves that stand out tell a size, and one sign of two perhaps: their own
        bounds have as much room on either side. A group with a centre keeps its bounds.
        """
        self._zeros[:] = False
        room = np.array(list(ROOM.values()))[np.searchsorted([*ROOM], self._tall, "right") - 1]
        room[self._settled] = 1.0
        size = room * np.maximum(-self.lower, self._upper)
        lower, upper = np.where(room > 1, [-size, size], [self.lower, self._upper])
        least, most = _reached(bounds)
        beyond = (self.lower < least) | (self._upper > most)
        lower = np.where(beyond, self.lower, np.maximum(lower, bounds.lower))
        upper = np.where(beyond, self._upper, np.minimum(upper, bounds.upper))
        centred = np.array([isinstance(own, DistanceHistogram) for own in self._histograms], bool)
        near = ~centred[self._histogram] if len(centred) else np.ones(len(lower), bool)
        own = near & (beyond | ((upper - lower < bounds.width) & narrows))
        self.lower[own], self._upper[own] = on_grid(lower[own], upper[own])
        others = near & ~own
        self.lower[others], self._upper[others] = bounds.lower, bounds.upper
        if not len(centred):  # nobody was looked at
            self._histograms.append(shared)
        for place in np.unique(self._histogram[near]).tolist() if len(centred) else []:
            before = self._histograms[place]
            assert isinstance(before, OctaveHistogram)  # noqa: S101 of groups without a centre
            before = self._histograms[place] = replace(before, shared=shared)
            self._histograms.append(replace(shared, left=before.left, own=before))
            self._histogram[others & (self._histogram == place)] = len(self._histograms) - 1


def _reached(bounds: Bounds) -> tuple[float, float]:
    """Return the outer ends of the octaves that bounds reach."""
    numbers = np.arange(-_OCTAVES.last, _OCTAVES.last + 1)
    lower, upper = _OCTAVES.lower(numbers), _OCTAVES.upper(numbers)
    reached = (upper > bounds.lower) & (lower < bounds.upper)
    return float(lower[reached].min()), float(upper[reached].max())


def _standing(noisy: Exceedances, together: Exceedances) -> Exceedances:
    """Return what stands out of all groups together as well, or by itself is as tall as a core."""
    known = np.isin(noisy.bins, together.bins[together.heights >= LEAST])
    kept = known | (noisy.bins == 0) | (noisy.heights >= CORE)
    own = noisy.group[kept], noisy.bins[kept], noisy.counts[kept]
    return Exceedances(*own, noisy.least, noisy.noise, noisy.last)


def _heights_within(noisy: Exceedances, found: FoundBounds) -> Floats:
    """Return the height of all octaves of each group within its bounds."""
    lower, upper = _OCTAVES.lower(noisy.bins), _OCTAVES.upper(noisy.bins)
    within = (lower >= found.lower[noisy.group]) & (upper <= found.upper[noisy.group])
    tall = np.bincount(noisy.group[within], noisy.counts[within], len(found.lower))
    return np.asarray(tall / spread_of(noisy.noise), np.float64)


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
    low, high, seen = reaching(noisy, noise, sizes, 2**binning.bits)
    own = DistanceHistogram(groups, left, centre, noisy, noise, fineness, low, high, binning)
    lower = binning.lower(np.clip(centre + low, -last, last))
    return own, (lower, binning.upper(np.clip(centre + high, -last, last))), seen


def sizes_of(most: int, fineness: int) -> Integers:
    """Return the largest distance of each bin: 0, 1, and so many a doubling from there on."""
    steps = [1 + Fraction(k, fineness) for k in range(fineness)]
    powers = range(most.bit_length() + 1)
    whole = {math.floor(2**power * step) for power in powers for step in steps}
    return np.array(sorted({0, *whole}), np.int64)


def reaching(
    noisy: Floats, noise: Noise, sizes: Integers, near: int = NEAR
) -> tuple[Integers, Integers, Mask]:
    """Return the least and largest distance that hold the rows of each group, and whether found.

    `noisy` has one row a group and one column a bin of distances, the middle one for 0. The core
    of each side is its shortest window that is tall enough, not further out than `near`. Beyond it
    a bin joins at the height JOINS + WIDER log(factor by which it widens the bounds) + APART
    log(bins that it lies further).
    """
    groups, middle = len(noisy), len(sizes) - 1
    low, high, seen = _cores(noisy, noise, int(np.searchsorted(sizes, near)))
    inner = np.append(0, sizes[:-1] + 1)  # the least distance of each bin
    first = np.concatenate([-sizes[:0:-1], inner]).astype(np.float64)
    last = -first[::-1]
    heights, every = heights_of(noisy, noise), np.arange(groups)
    for _ in range(2):
        for step in (1, -1):
            places = range(middle + 1, len(first)) if step > 0 else range(middle - 1, -1, -1)
            for place in places:
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
