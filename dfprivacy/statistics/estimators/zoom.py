"""Find bounds in steps: a noisy histogram of octaves, then a closer look at what it shows.

Many rows need only a glance at octaves, a fiftieth of the loss; fewer have a histogram that costs
more. Then a private median is the centre, and a noisy histogram of distances from it tells how far
the data reach, and about where their mean is. Where two neighbouring octaves of one sign hold
nearly all rows, the data are far from zero for their spread, and few rows are enough for that; near
zero, where distances are values, there have to be more, and tails that fall slowly keep octaves.
All others have another histogram of octaves, with more of the loss. Each step costs its own share,
and what is read off noisy counts costs nothing more: docs/explanation/octaves.md.

By group all groups together are looked at first: few rows are enough to tell that they are there,
but not where. Each group's own octaves, among those that stand out of all, narrow these bounds
where groups differ in size. Where all groups together are far from zero, they find bounds about a
centre, and each group's octaves tell whether it has rows beyond these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import (
    BinTable,
    codes_of,
    in_octaves,
    in_one,
    of_groups,
    stacked,
)
from dfprivacy.measurement.binning import Distances, Doublings, Floats, Integers, Octaves
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.exceedances import (
    Exceedances,
    count_of,
    every_count,
    exceedances,
    heights_of,
    joined,
)
from dfprivacy.noise.laws import Noise, spread_of
from dfprivacy.statistics.estimators.octave_bounds import (
    CORE,
    LEAST,
    NARROWEST,
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

_OCTAVES = Octaves()

PARTS = 200
"""Shares are whole numbers of so many parts of a loss."""

POOLED, EVERYTHING, OWN, ABOUT = 10, 60, 38, 20
"""The shares of the octaves of all groups together, of a second look at these where nothing stands
out, of each group's own octaves, and of its own distances from a centre."""

WITHIN = Joining(2.0, 1.0, 1.0, {1: 6.0, 2: 7.5, 4: 9.0}, 2.0)
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

GROUPS = 2**16
"""So many groups of one column are looked at together: their octaves lie in the cache."""

ROOM = {0: 4.0, 20: 2.0, 200: 1.0}
"""Own bounds are so many times as far from zero as the octaves that stand out, by the height of all
of them: the fewer rows, the more of them are in octaves that do not."""

GLANCE, FIRST, SECOND, AGAIN = 4, 24, 56, 75
"""The shares of a first glance at octaves, which is enough for many rows, of the histogram of
octaves where it is not, of the next where rows are few and near zero, and of the next where none
has found bounds."""

MANY, SEVERAL = 560, 200
"""Heights of all rows, in units of the noise of FIRST, from which on a glance at octaves is enough,
and from which on distances are looked at also where data are near zero."""

TAILS = Joining(2.5, 2.0, 2.0, {1: CORE, 2: 17.5, 4: 20.0, 8: 23.5}, 2.5)
"""How bins join in the second histogram: rows that many octaves share count where they join."""

ALIKE = Joining(2.5, 2.0, 2.0)
"""How they join in the histogram of all groups together."""

CENTRE = {36: 24, 110: 12, 240: 6, 480: 2}
"""The share of the centre, by the least height of all rows in the first histogram."""

REACH = 40
"""The share of the histogram of distances."""

REACHES = {36: REACH, 240: 20, 480: 10}
"""That of all groups together, by the height that all rows would have in the first histogram."""

FINENESS = {36: 2, 3600: 4}
"""How many bins double a distance, by the least height of all rows."""

SURELY = 13.0
"""Two neighbouring distances of all groups together are hardly so tall by noise: with a probability
below 2e-3, wherever they lie."""

TOGETHER = 0.92
"""Data are far from zero where two neighbouring octaves hold such a part of the rows."""

SURE = 12.0
"""Octaves below 1/64 of the width count among all rows where they are as tall."""

CORES = {1: 11.0, 2: 13.0, 4: 15.5, 8: 19.0}
"""How tall so many bins of distances must be together to be the core of the bounds."""

NEAREST = 2.0**-16
"""Ends nearer to zero than so many widths move: ends are multiples of the grid's step then."""

UNIT = 2.0**-11
"""Distances are in bins of the centre, or in so many widths of the octaves' bounds if these are
more."""

NEAR, DOUBLINGS = 2**12, 24
"""The core is not further from the centre, in such units: twice the octaves' bounds. From so many
doublings on distances are in one bin."""

SMALLEST = 2.0**-127
"""The width of the bin of zero: it holds numbers up to so large."""

POWER_LAW = 0.45
"""How fast counts of octaves fall, over how fast they did before: 1 is a power law's, .3 that of an
exponential tail at its end."""

JOINS, WIDER, APART = 2.0, 2.5, 2.0
"""From what height on a bin of distances joins, and what each factor and each gap adds."""


@dataclass(frozen=True, eq=False, repr=False)
class OctaveHistogram:
    """The noisy octaves of some groups, and what of the loss was `left` after it. Secret."""

    groups: Integers
    left: int
    table: BinTable
    noisy: Exceedances

    distances: ClassVar[None] = None
    narrowest: ClassVar[float] = NARROWEST

    tall: Floats | None = None
    """How tall the octaves of each group are together, beside zero, where few rows may tell."""
    marked: tuple[Mask, Mask] | None = None
    """Of each group, which ends of all groups together are marked, where it may be like these."""

    def tails(self, bounds: Bounds, own: Integers, rows: Floats) -> Tails:  # noqa: ARG002 one interface
        """Return what is known of rows beyond bounds; each group is asked about once."""
        found = tails(self.table, self.noisy, bounds, own)
        if self.tall is None:
            return found
        marked = found.surely(self.tall[own])
        if self.marked is not None:
            marked = marked[0] | self.marked[0][own], marked[1] | self.marked[1][own]
        return replace(found, marked=marked)

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The lower and upper ends of the octaves that stand out."""
        return self.binning.lower(self.noisy.bins), self.binning.upper(self.noisy.bins)

    @property
    def binning(self) -> Doublings:
        """Octaves, or distances from a centre."""
        assert isinstance(self.table.binning, Doublings)  # noqa: S101 `_Steps` has made it
        return self.table.binning

    def _own(self, place: int) -> slice:
        """Return where the noisy octaves of a group are."""
        return slice(*np.searchsorted(self.noisy.group, [place, place + 1]).tolist())

    def of_groups(self, some: slice) -> OctaveHistogram:
        """Return the octaves of some groups that stand out."""
        return replace(self, groups=self.groups[some], noisy=self.noisy.of_groups(some))

    def standing(self, place: int, bounds: Bounds) -> Integers:  # noqa: ARG002 one interface
        """Return the octaves of a group that stand out."""
        own = self._own(place)
        return self.noisy.bins[own][self.noisy.heights[own] >= LEAST]

    def heights(self, low: Any, high: Any, *, zero: bool = True) -> Floats:
        """Return the height of all octaves of each group that stand out between two ends."""
        noisy, (lower, upper) = self.noisy, self.ends
        counts = noisy.counts
        if np.ndim(low) or np.ndim(high) or low > -np.inf or high < np.inf:
            low, high = (end if np.ndim(end) == 0 else end[noisy.group] for end in (low, high))
            counts = np.where((lower >= low) & (upper <= high), counts, 0.0)
        if not zero:
            counts = np.where(noisy.bins == 0, 0.0, counts)
        tall = np.bincount(noisy.group, counts, len(self.groups))
        return np.asarray(tall / spread_of(noisy.noise), np.float64)

    def profile(self, place: int, bounds: Bounds) -> Profile:
        """Return which part of the rows of a group each octave within bounds has."""
        own, noisy = self._own(place), self.noisy
        lower, upper, bins = self.ends[0][own], self.ends[1][own], noisy.bins[own]
        within = (lower >= bounds.lower) & (upper <= bounds.upper)
        standing = np.where(noisy.heights[own] >= LEAST, noisy.counts[own], 0.0)
        rows, counted = standing[within], standing[within | (bins == 0)]
        return Profile(lower[within], upper[within], rows, float(counted.sum()))

    def marked_together(self, places: Integers, bounds: Bounds) -> tuple[Mask, Mask]:
        """Return which ends of groups with the same bounds are marked, if their draw tells many."""
        tall = self.heights(bounds.lower, bounds.upper, zero=False)[places]
        return self.tails(bounds, places, np.ones(1)).surely(tall, SURELY_FAR)


@dataclass(frozen=True, eq=False)
class Profile:
    """Adjacent bins, ascending, the rows of each, and those of all, zero among them. Public."""

    lower: Floats
    upper: Floats
    rows: Floats
    total: float

    @cached_property
    def parts(self) -> Floats:
        """Which part of the rows each bin has; all alike where none stands out."""
        rows = self.rows if self.rows.any() else np.ones(len(self.rows))
        return np.asarray(rows / rows.sum())

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

    def outside(self, lower: Floats, upper: Floats) -> Floats:
        """Return which part of the rows is outside bounds of octaves."""
        before = np.append(0.0, self.parts.cumsum())
        held = before[np.searchsorted(self.upper, upper, "right")]
        return np.asarray(1 - held + before[np.searchsorted(self.lower, lower)])


@dataclass(frozen=True, eq=False, repr=False)
class SharedHistogram:
    """The noisy octaves of all groups together, off which bounds of some are read. Secret.

    Of several columns that have the same bounds together each has `each` groups, its own place in
    the histogram, the `profile` of the rows within these bounds, and ends that are `marked`.
    """

    groups: Integers
    left: int
    everyone: OctaveHistogram | DistanceHistogram
    places: Integers
    bounds: Bounds
    profiles: Sequence[Profile]
    marked: tuple[Mask, Mask]
    each: int

    def tails(self, bounds: Bounds, own: Integers, rows: Floats) -> Tails:
        """Return what is known of rows beyond bounds: groups have as large a part as of all."""
        columns, ends = np.unique(own // self.each, return_index=True)
        profiles = [self.profiles[column] for column in columns.tolist()]
        totals = [max(profile.total, 1.0) for profile in profiles]
        shares = [
            np.clip(part / total, 1 / total, 1.0)
            for part, total in zip(np.split(rows, ends[1:]), totals, strict=True)
        ]
        bins, held = profiles[0], np.stack([profile.rows for profile in profiles])
        found = self.everyone.tails(self.bounds, self.places[columns], np.ones(1))
        found = found.within(bounds, (bins.lower, bins.upper, held))
        return found.among(shares, (self.marked[0][columns], self.marked[1][columns]))


@dataclass(frozen=True, eq=False, repr=False)
class DistanceHistogram:
    """The noisy distances of some groups from their centres, and what was `left` after it. Public.

    `binning` is that of the values.
    """

    groups: Integers
    left: int
    centre: Integers
    noisy: Floats
    noise: Noise
    fineness: int
    binning: Octaves
    ends: tuple[Floats, Floats]
    """How far down and how far up each distance from the centre of a group reaches, as values."""

    narrowest: ClassVar[float] = NEAREST

    @property
    def distances(self) -> Distances:
        """Doublings of the distance from the centre of the first group."""
        return Distances(self.binning, int(self.centre[0]))

    def standing(self, place: int, bounds: Bounds) -> Integers:  # noqa: ARG002 one interface
        """Return the doublings that bounds reach."""
        every = np.arange(-self.distances.last, self.distances.last + 1)
        lower, upper = self.distances.lower(every), self.distances.upper(every)
        return every[(lower < bounds.upper) & (upper > bounds.lower)]

    def middle(self, reached: Sequence[Integers]) -> tuple[Floats, Floats]:
        """Return about where the mean of each group within bounds is, and how far it may be."""
        below, above = self.ends
        centre = (below[:, :1] + above[:, :1]) / 2
        down, up = (below[:, 1:] + below[:, :-1]) / 2, (above[:, 1:] + above[:, :-1]) / 2
        far = np.hstack([down[:, ::-1], centre, up]) - centre
        narrow = above[:, :1] - below[:, :1]
        widths = np.hstack([-np.diff(below)[:, ::-1], narrow, np.diff(above)])
        place = np.arange(far.shape[1]) - far.shape[1] // 2
        within = (place >= -reached[0][:, None]) & (place <= reached[1][:, None])
        rows = np.where(within, np.maximum(self.noisy, 0.0), 0.0)
        scale = spread_of(self.noise)
        total = np.maximum(rows.sum(axis=1), scale)
        noise = scale * np.linalg.norm(np.where(within, far, 0.0), axis=1)
        doubt = np.hypot(noise, (rows * widths).sum(axis=1) / 8)
        return centre[:, 0] + (rows * far).sum(axis=1) / total, doubt / total

    @property
    def _bins(self) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of all distances from the centre of the first group."""
        below, above = (own[0] for own in self.ends)
        return np.append(below[::-1], above[:-1]), np.append(below[-2::-1], above)

    def tails(self, bounds: Bounds, own: Integers, rows: Floats) -> Tails:  # noqa: ARG002 those of the distances
        """Return what is known of rows beyond bounds, of groups with one centre and one reach."""
        ends = self.ends[0][own[0]], self.ends[1][own[0]]
        places = np.searchsorted(-ends[0], -bounds.lower), np.searchsorted(ends[1], bounds.upper)
        below, above = (min(int(place), len(ends[0]) - 1) for place in places)
        scale = spread_of(self.noise)
        return tails_about(self.noisy[own], ends, (below, above), self.fineness, scale)

    def profile(self, place: int, bounds: Bounds) -> Profile:  # noqa: ARG002 it is of one
        """Return which part of the rows of all groups each bin of distances within bounds has."""
        lower, upper = self._bins
        within = (lower >= bounds.lower) & (upper <= bounds.upper) & (lower < upper)
        tall = self.noisy[0] >= JOINS * spread_of(self.noise)
        rows = np.where(tall, self.noisy[0], 0.0)[within]
        return Profile(lower[within], upper[within], rows, float(rows.sum()))

    def marked_together(self, places: Integers, bounds: Bounds) -> tuple[Mask, Mask]:
        """Return which ends are marked where the draw of all groups together tells many."""
        found = self.tails(bounds, places, np.ones(1)).surely(None, SURELY_FAR)
        lower, upper = self._bins
        tall = self.noisy[0, 1:] + self.noisy[0, :-1] >= SURELY * spread_of(self.noise)
        far = tall[upper[1:] <= bounds.lower].any(), tall[lower[:-1] >= bounds.upper].any()
        return found[0] | far[0], found[1] | far[1]


@dataclass(frozen=True, eq=False, repr=False)
class Zoomed:
    """The bounds of each group, and by number the histogram that they were read off, and centre.

    What of the loss is left, in PARTS, is that of the histogram. All bounds are ends of bins of
    `table`.
    """

    table: BinTable
    found: FoundBounds
    histograms: Sequence[OctaveHistogram | DistanceHistogram | SharedHistogram]
    histogram: Integers
    centre: Integers
    middle: tuple[Floats, Floats]
    """About where the mean of each group within its bounds is, NaN if that was not looked at; and
    how far from there it may be."""

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
    left = everyone
    for share, least in ((GLANCE, MANY), (FIRST, min(CENTRE))):
        far = steps.look(left, share, PLAIN) > 0
        rows, slow = steps.rows(left), steps.slow(left)
        far &= rows >= least
        near = ~far & ~slow & (rows >= max(least, SEVERAL))
        steps.zoom(left[far], rows[far])
        steps.zoom(left[near], rows[near], near=True)
        left = left[~far & ~near]
    missing = np.isnan(steps.lower[left])  # before the second looks: nobody has both
    for share, own in ((SECOND, left[~missing]), (AGAIN, left[missing])):
        far = steps.look(own, share, TAILS) * FIRST / share >= min(CENTRE)
        steps.zoom(own[far], steps.rows(own[far]))
    return steps.done()


def group_bounds(
    tables: Sequence[BinTable],
    loss: Epsilon | Rho,
    pooled: Epsilon | Rho,
    finer: Sequence[Callable[[], BinTable]] = (),
    *,
    of_groups: Callable[[BinTable], BinTable] = lambda table: table,
    entropy: EntropySource = system_entropy,
) -> Iterator[tuple[Integers, Zoomed]]:
    """Yield the bounds of each group of tables of octaves: what they cost and `left` is `loss`.

    The tables are of several columns, of the same groups, and each has a loss of its own. Some of
    them come together: their numbers, and the bounds of the groups of each in turn (`stacked`).

    Shares of all groups together are shares of `pooled`, the loss of a row where these are counted
    in one. Where they are far from zero, bounds are about a centre: ends of bins of a `finer`
    table, if there is any. `of_groups` returns other tables by the groups that there are then.
    """
    every = np.arange(len(tables))
    whole = _Steps(in_one(stacked(tables), len(tables)), pooled, entropy)
    rows = whole.look(every, POOLED, ALIKE, dense=True, least=SETTLED)
    first = ~np.isnan(whole.lower)
    whole.look(every[~first], EVERYTHING, ALIKE, dense=True, least=SETTLED)
    found, far = ~np.isnan(whole.lower), (rows > 0) & bool(finer)
    for column in every[far].tolist():
        table, one = finer[column](), every[column : column + 1]
        whole.zoom(one, rows[one] * FIRST / POOLED, in_one(table))
        steps = _Steps(table, loss, entropy, *whole.after(one))
        yield one, _shared(steps, whole, one, look=True)
    for some, look in ((first & ~far, True), (found & ~first, False), (~found, False)):
        own = np.flatnonzero(some)
        if len(own):
            table = stacked([of_groups(tables[column]) for column in own.tolist()])
            steps = _Steps(table, loss, entropy, *whole.after(own))
            yield own, _shared(steps, whole, own, look=look)


def _shared(steps: _Steps, whole: _Steps, columns: Integers, *, look: bool) -> Zoomed:
    """Return the bounds of each group of some columns, by those of all groups of each together.

    Where these tell enough, each group's own octaves have a `look`.
    """
    everyone, together = whole.histogram(columns), whole.done().found
    if not together.found[columns].all():
        return steps.without(together.zeros[columns], everyone)
    bounds = [Bounds(float(together.lower[own]), float(together.upper[own])) for own in columns]
    places = np.searchsorted(everyone.groups, columns)
    if look:
        steps.look_within(everyone, places, bounds)
    steps.share(everyone, places, bounds)
    return steps.done()


class _Steps:
    """The bounds of each group so far, and what they were read off."""

    def __init__(
        self,
        table: BinTable,
        loss: Epsilon | Rho,
        entropy: EntropySource,
        left: int = PARTS,
        about: Distances | None = None,
    ) -> None:
        self._table, self._loss, self._entropy, self._most = table, loss, entropy, left
        fine = isinstance(table.binning, Octaves) and table.binning.bits > 1
        self._octaves = in_octaves(table, about) if fine else table
        self.lower, self._upper = np.full((2, table.groups), np.nan)
        self._zeros = np.zeros(table.groups, dtype=bool)
        self._histogram, self._centre = np.zeros((2, table.groups), dtype=np.int64)
        self._middle, self._doubt = np.full((2, table.groups), np.nan)
        self._histograms: list[OctaveHistogram | DistanceHistogram | SharedHistogram] = []

    def done(self) -> Zoomed:
        """Return what was found."""
        found = FoundBounds(self.lower, self._upper, self._zeros)
        own = (self._histogram, self._centre, (self._middle, self._doubt))
        return Zoomed(self._table, found, self._histograms, *own)

    def _left(self, groups: Integers) -> int:
        return self.histogram(groups).left if self._histograms else self._most

    def rows(self, groups: Integers) -> Floats:
        """Return how many rows groups have that were looked at together, if they have bounds.

        They are those within the bounds, and zeros: elsewhere noise lifts octaves. They are in
        units of the noise that FIRST pays for.
        """
        if not len(groups):
            return np.zeros(0)
        own = self.histogram(groups)
        ends = self.lower[own.groups], self._upper[own.groups]
        counted = own.heights(*ends, zero=False) + own.heights(0.0, 0.0)
        counted = counted[np.searchsorted(own.groups, groups)] * spread_of(own.noisy.noise)
        unit = spread_of(_part(self._loss, FIRST).noise(1, 1))
        return np.where(np.isnan(self.lower[groups]), 0.0, counted / unit)

    def slow(self, groups: Integers) -> Mask:
        """Tell whose octaves, looked at together, fall slowly towards an end of the bounds.

        The last one is wide and holds few rows, and the last three fall about as those of a power
        law do, or the next to last is not there. A third that is not may have as many rows as an
        octave that does not stand out.
        """
        if not len(groups):
            return np.zeros(0, dtype=bool)
        own = self.histogram(groups)
        slow = np.zeros(len(own.groups), dtype=bool)
        noisy, (lower, upper) = own.noisy, own.ends
        least, most = self.lower[own.groups], self._upper[own.groups]
        within = (lower >= least[noisy.group]) & (upper <= most[noisy.group]) & (noisy.bins != 0)
        group, bins, counts = (each[within] for each in (noisy.group, noisy.bins, noisy.counts))
        total = np.bincount(noisy.group, noisy.counts, len(own.groups))
        wide = (upper - lower >= (most - least)[noisy.group] / 4)[within]
        every = np.arange(len(own.groups))
        first, stop = np.searchsorted(group, every), np.searchsorted(group, every, "right")
        some = np.flatnonzero(stop > first)
        for last, step in ((stop[some] - 1, 1), (first[some], -1)):
            rows = []
            for away in (0, step, 2 * step):
                place = np.clip(last - away, 0, len(bins) - 1)
                there = (group[place] == some) & (bins[last] - bins[place] == away)
                rows.append(np.where(there, counts[place], 0.0))
            rows[2] = np.maximum(rows[2], count_of(LEAST, noisy.noise))
            even = rows[0] * rows[2] >= POWER_LAW * rows[1] ** 2
            slow[some] |= (bins[last] * step > 0) & wide[last] & (rows[0] < total[some] / 4) & even
        return slow[np.searchsorted(own.groups, groups)]

    def histogram(self, groups: Integers) -> Any:
        """Return the histogram that the bounds of some groups were read off."""
        return self._histograms[int(self._histogram[groups[0]])]

    def after(self, groups: Integers) -> tuple[int, Distances | None]:
        """Return what is left of the loss, and the distances that were looked at."""
        histogram = self.histogram(groups)
        return histogram.left, histogram.distances

    def look(
        self,
        groups: Integers,
        share: int,
        joining: Joining,
        standing: Mask | None = None,
        *,
        dense: bool = False,
        least: float | None = min(CENTRE),
    ) -> Floats:
        """Draw the octaves of some groups; return their rows, in units of the noise, if far.

        That they are needs `least` of these; with None nobody's are returned. Where some octaves
        are `standing` out of all groups, others have to be as tall as a core; `dense` octaves can
        be asked for again and again.
        """
        if not len(groups):
            return np.zeros(0)
        own = self._octaves
        if len(groups) < own.groups:
            own = of_groups(own, groups)
        noise, binning = _part(self._loss, share).noise(1, 1), self._octaves.binning
        assert isinstance(binning, Doublings)  # noqa: S101 no other bins come here
        drawn, far = [], []
        stacks = standing is not None and len(standing) > 1
        size = own.groups if stacks else GROUPS
        for part in own.parts(size):
            some = own if len(part) == own.groups else of_groups(own, np.array(part))
            if standing is not None:
                noisy = exceedances(some, noise, CORE, self._entropy, (standing, joining.least))
            elif dense:
                noisy = every_count(some, noise, self._entropy)
            else:
                noisy = exceedances(some, noise, joining.least, self._entropy)
            seen = noisy.at_least(joining.least) if dense else noisy
            found = octave_bounds(seen, len(part), joining, binning)
            at = groups[part.start : part.stop]
            self.lower[at], self._upper[at], self._zeros[at] = found.lower, found.upper, found.zeros
            if least is not None:
                far.append(rows_if_far(seen, found, least, binning))
            drawn.append(noisy)
        left = self._left(groups) - share
        self._histograms.append(OctaveHistogram(groups, left, own, joined(drawn, size)))
        self._histogram[groups] = len(self._histograms) - 1
        return np.concatenate(far) if far else np.zeros(0)

    def without(self, zeros: Mask, everyone: OctaveHistogram) -> Zoomed:
        """Return that no group has bounds, as all groups of each column together have none."""
        self._zeros |= self._of_groups(zeros)
        self._histograms.append(everyone)
        return self.done()

    def _of_groups(self, columns: Any) -> Any:
        """Return for each group what is known of the columns that it may be of, in turn."""
        return np.repeat(columns, len(self.lower) // len(columns))

    def look_within(
        self,
        everyone: OctaveHistogram | DistanceHistogram,
        places: Integers,
        bounds: Sequence[Bounds],
    ) -> None:
        """Draw the own octaves of each group: among those that stand out of all, and next to them.

        Its column has these `bounds` together, and this place in the histogram of all.
        """
        last = self._octaves.binning.last
        standing = np.zeros((len(bounds), 2 * last + 1), dtype=bool)
        for row, place, own in zip(standing, places.tolist(), bounds, strict=True):
            bins = everyone.standing(place, own)
            beside = np.concatenate([bins.min() - NEXT, bins, bins.max() + NEXT])
            row[np.clip(beside, -last, last) + last] = True
        share = OWN if everyone.distances is None else ABOUT
        self.look(np.arange(len(self.lower)), share, WITHIN, standing, least=None)

    def share(
        self,
        everyone: OctaveHistogram | DistanceHistogram,
        places: Integers,
        bounds: Sequence[Bounds],
    ) -> None:
        """Give each group the bounds of its column, or its own where they narrow them, or beyond.

        Of few rows the octaves that stand out tell a size, hardly a tail: own bounds have as much
        room on either side. About a centre own octaves are those of rows beyond the bounds.
        """
        alike: dict[Bounds, list[int]] = {}
        for column, one in enumerate(bounds):
            alike.setdefault(one, []).append(column)
        each, left = len(self.lower) // len(bounds), self._left(np.zeros(1, np.int64))
        profiles = [everyone.profile(*own) for own in zip(places.tolist(), bounds, strict=True)]
        marked, number = np.zeros((2, len(bounds)), dtype=bool), np.zeros(len(bounds), np.int64)
        shared: list[SharedHistogram] = []
        for one, columns in alike.items():
            number[columns] = len(shared)
            marked[:, columns] = everyone.marked_together(places[columns], one)
            groups = np.add.outer(np.array(columns) * each, np.arange(each)).reshape(-1)
            held = [profiles[column] for column in columns]
            own_marks = marked[0, columns], marked[1, columns]
            shared.append(
                SharedHistogram(groups, left, everyone, places[columns], one, held, own_marks, each)
            )
        self._zeros[:] = False
        low, high = (np.array([getattr(own, end) for own in bounds]) for end in ("lower", "upper"))
        if not self._histograms:  # nobody was looked at
            self._histograms += shared
            self._histogram[:] = self._of_groups(number)
            self.lower[:], self._upper[:] = self._of_groups(low), self._of_groups(high)
            return
        (own,) = self._histograms
        assert isinstance(own, OctaveHistogram)  # noqa: S101 nobody zooms here
        wide: tuple[Any, Any] = own.binning.outwards(low, high)
        wide = (wide[0][0], wide[1][0]) if len(alike) == 1 else tuple(map(self._of_groups, wide))
        less, unlike = np.zeros((2, len(self.lower)), dtype=bool)
        tall, size = np.empty(len(self.lower)), GROUPS if len(bounds) == 1 else len(self.lower)
        for first in range(0, len(self.lower), size):
            some = slice(first, first + size)
            part = own.of_groups(some)
            found = FoundBounds(self.lower[some], self._upper[some], self._zeros[some])
            tall[some] = part.heights(*wide, zero=False)
            ends, less[some], more = self._unlike(found, part, profiles, wide)
            unlike[some] = less[some] | more
            self.lower[some], self._upper[some] = on_grid(ends[0], ends[1], everyone.narrowest)
        marks = self._of_groups
        like = replace(own, tall=tall, marked=(marks(marked[0]), marks(marked[1])))
        self._histograms = [*shared, like, replace(own, tall=tall)]
        self._histogram[:] = np.where(unlike, len(shared) + less, self._of_groups(number))

    def _unlike(
        self,
        found: FoundBounds,
        own: OctaveHistogram,
        profiles: Sequence[Profile],
        wide: tuple[Any, Any],
    ) -> tuple[Floats, Mask, Mask]:
        """Return the ends of groups, and which are unlike all: with less, and with more.

        Their own octaves have `found` bounds; those of all groups of a column reach `wide` ends.
        """
        outwards, each = own.binning.outwards, len(own.groups) // len(profiles)
        tall, held = own.heights(-np.inf, np.inf), own.heights(*wide)
        held *= OWN / (self._most - own.left)
        low, high, outside = np.empty((3, len(own.groups)))
        for column, profile in enumerate(profiles):
            some = slice(column * each, (column + 1) * each)
            low[some], high[some] = profile.ends(held[some])
            outside[some] = profile.outside(found.lower[some], found.upper[some])
        most = np.fmin(found.lower, wide[0]), np.fmax(found.upper, wide[1])
        lower, upper = self._roomy(found, own)
        lower, upper = np.maximum(lower, most[0]), np.minimum(upper, most[1])
        seen = tall - own.heights(found.lower, found.upper)
        less = found.found & (tall * outside - seen >= UNLIKE)
        less &= upper - lower < high - low
        more = (tall - own.heights(*outwards(low, high)) >= UNLIKE) | (most[0] < wide[0])
        more = ~less & (more | (most[1] > wide[1]))
        own_ends = outwards(*np.where(less, [lower, upper], most))
        return np.where(less | more, own_ends, [low, high]), less, more

    def _roomy(self, found: FoundBounds, own: OctaveHistogram) -> tuple[Floats, Floats]:
        """Return own bounds with room on either side: the more, the fewer rows stand out."""
        room = np.array(list(ROOM.values()))
        room = room[np.searchsorted([*ROOM], own.heights(found.lower, found.upper), "right") - 1]
        room[rows_if_far(own.noisy, found, SETTLED, own.binning) > 0] = 1.0
        centre = own.binning.centre
        size = room * np.maximum(centre - found.lower, found.upper - centre)
        ends = [centre - size, centre + size]
        lower, upper = np.where(room > 1, ends, [found.lower, found.upper])
        return lower, upper

    def zoom(
        self,
        groups: Integers,
        rows: Floats,
        together: BinTable | None = None,
        *,
        near: bool = False,
    ) -> None:
        """Find bounds about a centre for groups, by the height of all their rows.

        They are far from zero, or `near`. Those of all groups `together`, if given, are off this
        table.
        """
        for some, centre, fineness in _classes(rows):
            own = groups[some]
            reach = REACH if together is None else _by_height(REACHES, rows[some[0]])
            shares = (self._left(own) - centre - reach, centre, reach, fineness)
            table = of_groups(self._table, own) if together is None else together
            widths = self._upper[own] - self.lower[own] if near else None
            found = self._around(own, table, shares, widths)
            last = int(np.searchsorted(sizes_of(NEAR, fineness), NEAR))
            reached, seen = reaching(found.noisy, found.noise, found.ends, last, widths)
            ends = zip(found.ends, reached, strict=True)
            lower, upper = (end[np.arange(len(own)), far] for end, far in ends)
            seen &= lower < upper  # zeros alone are no bounds: those of the octaves stay
            before = self._histograms[int(self._histogram[own[0]])]
            assert isinstance(before, OctaveHistogram)  # noqa: S101 nobody zooms twice
            self._histograms += [replace(before, left=shares[0]), found]
            self._histogram[own] = len(self._histograms) - 1 - ~seen
            self._centre[own[seen]] = found.centre[seen]
            inner = on_grid(lower[seen], upper[seen], NEAREST)
            self.lower[own[seen]], self._upper[own[seen]] = inner
            if together is None:
                middle, doubt = found.middle(reached)
                self._middle[own[seen]], self._doubt[own[seen]] = middle[seen], doubt[seen]

    def _around(
        self,
        groups: Integers,
        table: BinTable,
        shares: tuple[int, int, int, int],
        widths: Floats | None,
    ) -> DistanceHistogram:
        """Return noisy distances from a private median.

        `shares` are what is left, those of the centre and of the distances, and how many bins
        double a distance. Near zero the `widths` of the octaves' bounds are known.
        """
        left, centre_share, reach, fineness = shares
        held, law = ranked_rows(table), _part(self._loss, centre_share).selection(sensitivity=1)
        centre = select_rank(held, held.totals(), law, self._entropy)
        binning = table.binning
        assert isinstance(binning, Octaves)  # noqa: S101 `zoomed_bounds` has looked
        below, above = bins_around(binning, centre, widths, fineness)
        first = np.hstack([below[:, ::-1], above[:, :-1] + 1])
        places = codes_of(np.arange(len(centre))[:, None], first, binning.last).reshape(-1)
        entries = np.searchsorted(table.codes, places)  # they ascend
        counts = np.diff(held.before[np.append(entries, len(table.rows))])
        noise = _part(self._loss, reach).noise(1, 1)
        noisy = add_to(counts.reshape(first.shape), noise, self._entropy).astype(np.float64)
        ends = binning.lower(below), binning.upper(above)
        return DistanceHistogram(groups, left, centre, noisy, noise, fineness, binning, ends)


def _part(loss: Epsilon | Rho, share: int) -> Epsilon | Rho:
    return loss.share(Fraction(share, PARTS))


def _classes(rows: Floats) -> Iterator[tuple[Integers, int, int]]:
    """Yield groups with the share of their centre and the fineness of their distances."""
    edges = sorted({*CENTRE, *FINENESS})
    for least, most in zip(edges, [*edges[1:], math.inf], strict=True):
        own = np.flatnonzero((rows >= least) & (rows < most))
        if len(own):
            yield own, _by_height(CENTRE, least), _by_height(FINENESS, least)


def _by_height(values: Mapping[int, int], rows: float) -> int:
    return values[max(least for least in values if least <= rows)]


def rows_if_far(
    noisy: Exceedances,
    found: FoundBounds,
    least: float = min(CENTRE),
    octaves: Doublings = _OCTAVES,
) -> Floats:
    """Return the rows of each group far from zero, over the noise's spread, at `least`; or 0."""
    groups, centre = len(found.lower), octaves.centre
    group, bins, scaled = noisy.group, noisy.bins, noisy.counts / spread_of(noisy.noise)
    many = found.found & (np.bincount(group, scaled, groups) >= least)
    some = np.flatnonzero(many[group])  # nobody else has as many rows
    group, bins, scaled, tall = group[some], bins[some], scaled[some], noisy.heights[some]
    lower, upper = octaves.lower(bins), octaves.upper(bins)
    width = (found.upper - found.lower)[group]
    within = (lower >= found.lower[group]) & (upper <= found.upper[group])
    large = np.maximum(centre - lower, upper - centre) >= width / 64
    counted = (bins == 0) | (within & (large | (tall >= SURE)))
    rows = np.bincount(group[counted], scaled[counted], groups)
    pairs = np.where(within & (bins != 0), scaled, 0.0)
    follows = (group[1:] == group[:-1]) & (bins[1:] == bins[:-1] + 1) & (bins[1:] * bins[:-1] > 0)
    pairs[:-1] += np.where(follows & within[1:], scaled[1:], 0.0)
    most = np.zeros(groups)
    np.maximum.at(most, group, pairs)
    far = (most + 1 >= TOGETHER * rows) & (rows >= least) & found.found
    return np.where(far, rows, 0.0)


def bins_around(
    binning: Octaves, centre: Integers, widths: Floats | None, fineness: int
) -> tuple[Integers, Integers]:
    """Return the last bin within each distance from centres, downwards and upwards.

    Distances double in so many steps, from a bin of the centre on, or UNIT `widths` if these are
    more; the last one holds all that is further. Without `widths` values are far from zero: further
    from it a distance is a number of bins, as tails fall by octaves there; towards it, and beyond,
    where bins are ever smaller, it is a value.
    """
    low, high = binning.lower(centre), binning.upper(centre)
    sizes, sign = sizes_of(2**DOUBLINGS, fineness), np.sign(centre)[:, None]
    least = 0.0 if widths is None else UNIT * widths
    far = np.maximum(high - low, least)[:, None] * sizes
    ends = low[:, None] - far, high[:, None] + far
    below, above = (binning.numbers(binning.labels(own)) for own in ends)
    below += binning.upper(below) <= ends[0]  # an end is of the bin that lies within it
    above -= binning.lower(above) >= ends[1]
    below, above = np.minimum(below, centre[:, None]), np.maximum(above, centre[:, None])
    if widths is None:
        outwards = np.clip(centre[:, None] + sign * sizes, -binning.last, binning.last)
        below, above = np.where(sign < 0, outwards, below), np.where(sign > 0, outwards, above)
    rest = np.full((len(centre), 1), binning.last)
    return np.append(below, -rest, axis=1), np.append(above, rest, axis=1)


def sizes_of(most: int, fineness: int) -> Integers:
    """Return the largest distance of each bin: 0, 1, and so many a doubling from there on."""
    steps = [1 + Fraction(k, fineness) for k in range(fineness)]
    powers = range(most.bit_length() + 1)
    whole = {math.floor(2**power * step) for power in powers for step in steps}
    return np.array(sorted({0, *whole}), np.int64)


def reaching(
    noisy: Floats,
    noise: Noise,
    ends: tuple[Floats, Floats],
    near: int,
    widths: Floats | None = None,
) -> tuple[list[Integers], Mask]:
    """Return which distances hold the rows of each group, down and up, and whether any were found.

    `noisy` has one row a group and one column a bin of distances, the middle one for 0, and `ends`
    are how far down and how far up each distance of a group reaches, in units of the column. The
    core of each side is its shortest window that is tall enough, `near` bins from the middle at
    most. Beyond it a bin joins at the height JOINS + WIDER log(factor by which it widens the
    bounds) + APART log(bins that it lies further); bounds are taken to be as wide as `widths` at
    least, where these are given. Where the middle stands out by itself, a core is taller by what a
    bin in its place would need to join beyond what it needs to be one.
    """
    room = SMALLEST if widths is None else np.maximum(widths, SMALLEST)[..., None]
    groups, middle = len(noisy), noisy.shape[1] // 2
    reach = [np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)]
    heights, every = heights_of(noisy, noise), np.arange(groups)
    sides = heights[:, middle::-1], heights[:, middle:]

    def least(side: int, places: Integers) -> Floats:
        gap = np.maximum(places - reach[side][:, None], 1)
        lower, upper = (own[every, far][:, None] for own, far in zip(ends, reach, strict=True))
        wide = np.abs(ends[side][:, places] - (lower if side else upper))
        factor = np.maximum(wide / np.maximum(upper - lower, room), 1.0)
        return np.asarray(JOINS + WIDER * np.log(factor) + APART * np.log(gap))

    seen = sides[0][:, 0] >= CORES[1]
    more = [least(side, np.arange(1, near + 1)) - CORES[1] for side in (0, 1)]
    for side, rows in enumerate((noisy[:, middle - 1 :: -1], noisy[:, middle + 1 :])):
        dear = np.where(seen[:, None], np.maximum(more[side], 0.0), 0.0)
        reach[side] = _core(rows[:, :near], noise, dear)
    seen |= (reach[0] > 0) | (reach[1] > 0)
    tall = [np.flatnonzero((own >= JOINS).any(axis=0)) for own in sides]  # nowhere else one joins
    for _ in range(2):
        for side in (1, 0):
            for place in tall[side].tolist():
                enough = sides[side][:, place] >= least(side, np.array([place]))[:, 0]
                reach[side][enough & (place > reach[side])] = place
    return reach, seen


def _core(side: Floats, noise: Noise, more: Floats) -> Integers:
    """Return how many bins from the middle the core of one side ends, of each group; 0 without.

    It is the shortest window that is tall enough: by so much `more` where it ends in each bin.
    """
    before = np.cumsum(np.pad(side, ((0, 0), (1, 0))), axis=1)
    end = np.zeros(len(side), dtype=np.int64)
    for size, tall in cores(CORES, noise).items():
        heights = heights_of(before[:, size:] - before[:, :-size], noise, size)
        heights = heights - more[:, size - 1 :]
        best = heights.argmax(axis=1)
        own = (end == 0) & (heights[np.arange(len(side)), best] >= tall)
        end[own] = best[own] + size
    return end
