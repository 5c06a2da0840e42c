"""Find bounds adaptively: a noisy histogram of dyadic bins, then a closer look at its core.

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
    compute_heights,
    count_at_height,
    every_count,
    exceedances,
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
"""Number of equal fractions that a privacy loss is split into; shares below are in these."""

POOLED_PARTS, POOLED_RETRY_PARTS = 10, 60
"""Shares of the pooled dyadic bins, and of a second look if nothing stands out."""

GROUP_PARTS, GROUP_DISTANCE_PARTS = 38, 20
"""Shares of each group's dyadic bins, and of its distances from a center."""

GROUP_JOINING = Joining(2.0, 1.0, 1.0, {1: 6.0, 2: 7.5, 4: 9.0}, 2.0)
"""Rule by which a group's bins join, among those that stand out of the pooled ones."""

CERTAIN_PAIR_HEIGHT = 20.0
"""Height from which on two adjacent bins with nearly all rows need no room around them."""

ROWS_OUTSIDE = 1.0
"""Expected rows of a group outside its bounds, in noise scales of its bins.

From about 5/epsilon rows on, one more bin costs less than it clips.
"""

OUTLIER_SCORE = 8.0
"""Rows, in noise scales, from which on a group is unlike the pooled data.

They would be outside the group's own bounds if it were like the pooled data.
"""

NEIGHBOR_BINS = np.array([1, 2])
"""Distances of bins next to those that stand out, which groups measure as well."""

LARGEST_FRACTION_OUTSIDE = 0.1
"""Largest expected fraction of a group's rows outside its bounds, however small it is."""

GROUP_CHUNK = 2**16
"""Groups of one column that are measured at a time: their bins fit into the cache."""

ROOM_BY_HEIGHT = {0: 4.0, 20: 2.0, 200: 1.0}
"""Factor from the bins that stand out to a group's own bounds, by the height of all bins.

The fewer rows a group has, the more of them are in bins that do not stand out.
"""

GLANCE_PARTS, FIRST_PARTS, SECOND_PARTS, RETRY_PARTS = 4, 24, 56, 75
"""Shares of four histograms of dyadic bins.

The first is enough for many rows, the second for fewer. The third is for few rows near zero, the
fourth for groups without bounds.
"""

GLANCE_HEIGHT, DISTANCE_HEIGHT = 560, 200
"""Heights of all rows, in noise scales of FIRST_PARTS, from which on a step is enough.

The first is for the glance, the second for distances from a center near zero.
"""

RETRY_JOINING = Joining(2.5, 2.0, 2.0, {1: CORE, 2: 17.5, 4: 20.0, 8: 23.5}, 2.5)
"""Rule by which bins join in the second histogram: rows in many bins count where they join."""

POOLED_JOINING = Joining(2.5, 2.0, 2.0)
"""Rule by which bins join in the pooled histogram."""

CENTER_PARTS = {36: 24, 110: 12, 240: 6, 480: 2}
"""Share of the center, by the smallest height of all rows in the first histogram."""

DISTANCE_PARTS = 40
"""Share of the histogram of distances."""

POOLED_DISTANCE_PARTS = {36: DISTANCE_PARTS, 240: 20, 480: 10}
"""Share of the pooled histogram of distances, by the height as in the first histogram."""

FINENESS = {36: 2, 3600: 4}
"""Bins per doubling of a distance, by the smallest height of all rows."""

SURE_PAIR_HEIGHT = 13.0
"""Height that two adjacent pooled distances reach by noise with probability below 2e-3."""

FAR_PAIR_FRACTION = 0.92
"""Fraction of the rows in two adjacent bins from which on data are far from zero."""

SMALL_BIN_HEIGHT = 12.0
"""Height from which on bins below 1/64 of the width count among all rows."""

CORE_HEIGHTS = {1: 11.0, 2: 13.0, 4: 15.5, 8: 19.0}
"""Heights of the core of distances, by its number of adjacent bins."""

NARROWEST_END = 2.0**-16
"""Widths: ends nearer to zero are moved, as ends are multiples of the grid's step then."""

SMALLEST_DISTANCE = 2.0**-11
"""Widths of the dyadic bounds: the unit of distances, unless the center's bin is wider."""

CORE_LIMIT, DOUBLINGS = 2**12, 24
"""Largest distance of the core, twice the dyadic bounds, and doublings before the last bin."""

ZERO_BIN_WIDTH = 2.0**-127
"""Width of the bin of zero."""

POWER_LAW = 0.45
"""Smallest ratio of two falls of counts in a heavy tail: 1 is a power law, .3 exponential."""

JOIN_HEIGHT, WIDTH_GROWTH, GAP_GROWTH = 2.0, 2.5, 2.0
"""Height from which on a bin of distances joins, and its growth with the factor and the gap."""


@dataclass(frozen=True, eq=False, repr=False)
class OctaveHistogram:
    """Noisy dyadic bins of some groups, with the loss that is `left`. Secret."""

    groups: Integers
    left: int
    table: BinTable
    noisy: Exceedances

    distances: ClassVar[None] = None
    narrowest: ClassVar[float] = NARROWEST

    tall: Floats | None = None
    """Height of all nonzero bins of each group, where few rows may tell."""
    marked: tuple[Mask, Mask] | None = None
    """Ends that are marked in the pooled histogram, for each group that may be like it."""

    def tails(self, bounds: Bounds, groups: Integers, rows: Floats) -> Tails:  # noqa: ARG002 one interface
        """Return the tails beyond bounds; ask about each group once."""
        noisy_tails = tails(self.table, self.noisy, bounds, groups)
        if self.tall is None:
            return noisy_tails
        marked = noisy_tails.surely(self.tall[groups])
        if self.marked is not None:
            marked = marked[0] | self.marked[0][groups], marked[1] | self.marked[1][groups]
        return replace(noisy_tails, marked=marked)

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The lower and upper ends of the octaves that stand out."""
        return self.binning.lower(self.noisy.bins), self.binning.upper(self.noisy.bins)

    @property
    def binning(self) -> Doublings:
        """Octaves, or distances from a centre."""
        assert isinstance(self.table.binning, Doublings)  # noqa: S101 `_BoundsSearch` has made it
        return self.table.binning

    def _own(self, group: int) -> slice:
        """Return the slice of a group's noisy bins."""
        return slice(*np.searchsorted(self.noisy.group, [group, group + 1]).tolist())

    def of_groups(self, some: slice) -> OctaveHistogram:
        """Return the octaves of some groups that stand out."""
        return replace(self, groups=self.groups[some], noisy=self.noisy.of_groups(some))

    def standing(self, group: int, bounds: Bounds) -> Integers:  # noqa: ARG002 one interface
        """Return the bins of a group that stand out."""
        group_bins = self._own(group)
        return self.noisy.bins[group_bins][self.noisy.heights[group_bins] >= LEAST]

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

    def profile(self, group: int, bounds: Bounds) -> Profile:
        """Return the fraction of a group's rows in each bin within bounds."""
        group_bins, noisy = self._own(group), self.noisy
        lower, upper, bins = (
            self.ends[0][group_bins],
            self.ends[1][group_bins],
            noisy.bins[group_bins],
        )
        within = (lower >= bounds.lower) & (upper <= bounds.upper)
        standing = np.where(noisy.heights[group_bins] >= LEAST, noisy.counts[group_bins], 0.0)
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
        """Return the ends beyond which groups of these heights have few rows."""
        zero = (self.lower == 0) & (self.upper == 0)
        allowance = np.minimum(
            ROWS_OUTSIDE / np.maximum(heights, 1.0),
            LARGEST_FRACTION_OUTSIDE * self.parts[~zero].sum(),
        )
        below, above = (
            np.append(0.0, parts_.cumsum()) for parts_ in (self.parts, self.parts[::-1])
        )
        last = len(self.parts) - 1
        low, high = (
            np.minimum(np.searchsorted(parts_before, allowance, "right") - 1, last)
            for parts_before in (below, above)
        )
        return self.lower[low], self.upper[last - high]

    def outside(self, lower: Floats, upper: Floats) -> Floats:
        """Return the fraction of the rows outside bounds at bin edges."""
        before = np.append(0.0, self.parts.cumsum())
        parts_within = before[np.searchsorted(self.upper, upper, "right")]
        return np.asarray(1 - parts_within + before[np.searchsorted(self.lower, lower)])


@dataclass(frozen=True, eq=False, repr=False)
class SharedHistogram:
    """Noisy pooled bins, from which the bounds of some groups are read. Secret.

    Each of several columns with the same pooled bounds has `groups_each` groups, its place in the
    histogram, the `profile` of the rows within these bounds, and ends that are `marked`.
    """

    groups: Integers
    left: int
    everyone: OctaveHistogram | DistanceHistogram
    places: Integers
    bounds: Bounds
    profiles: Sequence[Profile]
    marked: tuple[Mask, Mask]
    groups_each: int

    def tails(self, bounds: Bounds, groups: Integers, rows: Floats) -> Tails:
        """Return the tails beyond bounds: each group has the pooled fraction of its rows there."""
        columns, ends = np.unique(groups // self.groups_each, return_index=True)
        profiles = [self.profiles[column] for column in columns.tolist()]
        totals = [max(profile.total, 1.0) for profile in profiles]
        shares = [
            np.clip(part / total, 1 / total, 1.0)
            for part, total in zip(np.split(rows, ends[1:]), totals, strict=True)
        ]
        bins, pooled_rows = profiles[0], np.stack([profile.rows for profile in profiles])
        pooled_tails = self.everyone.tails(self.bounds, self.places[columns], np.ones(1))
        pooled_tails = pooled_tails.within(bounds, (bins.lower, bins.upper, pooled_rows))
        return pooled_tails.among(shares, (self.marked[0][columns], self.marked[1][columns]))


@dataclass(frozen=True, eq=False, repr=False)
class DistanceHistogram:
    """Noisy distances of some groups from their centers, with the loss that is `left`. Public.

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
    """Values that each distance reaches below and above the center of a group."""

    narrowest: ClassVar[float] = NARROWEST_END

    @property
    def distances(self) -> Distances:
        """Doublings of the distance from the centre of the first group."""
        return Distances(self.binning, int(self.centre[0]))

    def standing(self, group: int, bounds: Bounds) -> Integers:  # noqa: ARG002 one interface
        """Return the doublings within bounds."""
        every = np.arange(-self.distances.last, self.distances.last + 1)
        lower, upper = self.distances.lower(every), self.distances.upper(every)
        return every[(lower < bounds.upper) & (upper > bounds.lower)]

    def middle(self, reached: Sequence[Integers]) -> tuple[Floats, Floats]:
        """Return the approximate mean of each group within bounds, and its error."""
        below, above = self.ends
        centre = (below[:, :1] + above[:, :1]) / 2
        down, up = (below[:, 1:] + below[:, :-1]) / 2, (above[:, 1:] + above[:, :-1]) / 2
        offsets = np.hstack([down[:, ::-1], centre, up]) - centre
        narrow = above[:, :1] - below[:, :1]
        widths = np.hstack([-np.diff(below)[:, ::-1], narrow, np.diff(above)])
        index = np.arange(offsets.shape[1]) - offsets.shape[1] // 2
        within = (index >= -reached[0][:, None]) & (index <= reached[1][:, None])
        rows = np.where(within, np.maximum(self.noisy, 0.0), 0.0)
        scale = spread_of(self.noise)
        total = np.maximum(rows.sum(axis=1), scale)
        noise = scale * np.linalg.norm(np.where(within, offsets, 0.0), axis=1)
        doubt = np.hypot(noise, (rows * widths).sum(axis=1) / 8)
        return centre[:, 0] + (rows * offsets).sum(axis=1) / total, doubt / total

    @property
    def _bins(self) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of all distances from the center of the first group."""
        below, above = (values[0] for values in self.ends)
        return np.append(below[::-1], above[:-1]), np.append(below[-2::-1], above)

    def tails(self, bounds: Bounds, groups: Integers, rows: Floats) -> Tails:  # noqa: ARG002 those of the distances
        """Return the tails beyond bounds of groups with one center and one half-width."""
        ends = self.ends[0][groups[0]], self.ends[1][groups[0]]
        indexes = np.searchsorted(-ends[0], -bounds.lower), np.searchsorted(ends[1], bounds.upper)
        below, above = (min(int(index), len(ends[0]) - 1) for index in indexes)
        scale = spread_of(self.noise)
        return tails_about(self.noisy[groups], ends, (below, above), self.fineness, scale)

    def profile(self, group: int, bounds: Bounds) -> Profile:  # noqa: ARG002 it is of one
        """Return the fraction of all rows in each bin of distances within bounds."""
        lower, upper = self._bins
        within = (lower >= bounds.lower) & (upper <= bounds.upper) & (lower < upper)
        tall = self.noisy[0] >= JOIN_HEIGHT * spread_of(self.noise)
        rows = np.where(tall, self.noisy[0], 0.0)[within]
        return Profile(lower[within], upper[within], rows, float(rows.sum()))

    def marked_together(self, places: Integers, bounds: Bounds) -> tuple[Mask, Mask]:
        """Return the marked ends, if the pooled draw stands for many groups."""
        surely_marked = self.tails(bounds, places, np.ones(1)).surely(None, SURELY_FAR)
        lower, upper = self._bins
        tall = self.noisy[0, 1:] + self.noisy[0, :-1] >= SURE_PAIR_HEIGHT * spread_of(self.noise)
        has_far_rows = tall[upper[1:] <= bounds.lower].any(), tall[lower[:-1] >= bounds.upper].any()
        return surely_marked[0] | has_far_rows[0], surely_marked[1] | has_far_rows[1]


@dataclass(frozen=True, eq=False, repr=False)
class Zoomed:
    """The bounds of each group, with the indexes of their histogram and center.

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
        """Return the smallest fraction of the loss that is left for one of some groups."""
        used = np.flatnonzero(np.bincount(self.histogram[groups]))
        return min(self.histograms[int(index)].left for index in used)

    def tails(self, bounds: Bounds, groups: Integers, rows: Floats) -> Tails:
        """Return the tails beyond the bounds that groups of one histogram share.

        `rows` are the noisy rows of these groups.
        """
        histogram = self.histograms[int(self.histogram[groups[0]])]
        return histogram.tails(bounds, np.searchsorted(histogram.groups, groups), rows)


def zoomed_bounds(
    table: BinTable, loss: Epsilon | Rho, entropy: EntropySource = system_entropy
) -> Zoomed:
    """Return the bounds of each group of an octave table; what they cost and `left` is `loss`."""
    steps, everyone = _BoundsSearch(table, loss, entropy), np.arange(table.groups)
    left = everyone
    for share, threshold in ((GLANCE_PARTS, GLANCE_HEIGHT), (FIRST_PARTS, min(CENTER_PARTS))):
        is_far = steps.look(left, share, PLAIN) > 0
        rows, slow = steps.rows(left), steps.slow(left)
        is_far &= rows >= threshold
        is_near = ~is_far & ~slow & (rows >= max(threshold, DISTANCE_HEIGHT))
        steps.refine_around_center(left[is_far], rows[is_far])
        steps.refine_around_center(left[is_near], rows[is_near], near_zero=True)
        left = left[~is_far & ~is_near]
    missing = np.isnan(steps.lower[left])  # before the second looks: nobody has both
    for share, chosen in ((SECOND_PARTS, left[~missing]), (RETRY_PARTS, left[missing])):
        is_far = steps.look(chosen, share, RETRY_JOINING) * FIRST_PARTS / share >= min(CENTER_PARTS)
        steps.refine_around_center(chosen[is_far], steps.rows(chosen[is_far]))
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
    pooled_search = _BoundsSearch(in_one(stacked(tables), len(tables)), pooled, entropy)
    rows = pooled_search.look(
        every, POOLED_PARTS, POOLED_JOINING, dense=True, threshold=CERTAIN_PAIR_HEIGHT
    )
    first = ~np.isnan(pooled_search.lower)
    pooled_search.look(
        every[~first], POOLED_RETRY_PARTS, POOLED_JOINING, dense=True, threshold=CERTAIN_PAIR_HEIGHT
    )
    has_bounds, is_far = ~np.isnan(pooled_search.lower), (rows > 0) & bool(finer)
    for column in every[is_far].tolist():
        table, this_column = finer[column](), every[column : column + 1]
        pooled_search.refine_around_center(
            this_column, rows[this_column] * FIRST_PARTS / POOLED_PARTS, in_one(table)
        )
        steps = _BoundsSearch(table, loss, entropy, *pooled_search.after(this_column))
        yield this_column, _shared(steps, pooled_search, this_column, look=True)
    for chosen, look in (
        (first & ~is_far, True),
        (has_bounds & ~first, False),
        (~has_bounds, False),
    ):
        columns_chosen = np.flatnonzero(chosen)
        if len(columns_chosen):
            table = stacked([of_groups(tables[column]) for column in columns_chosen.tolist()])
            steps = _BoundsSearch(table, loss, entropy, *pooled_search.after(columns_chosen))
            yield columns_chosen, _shared(steps, pooled_search, columns_chosen, look=look)


def _shared(
    steps: _BoundsSearch, pooled_search: _BoundsSearch, columns: Integers, *, look: bool
) -> Zoomed:
    """Return the bounds of each group of some columns, by those of all groups of each together.

    Where these tell enough, each group's own octaves have a `look`.
    """
    everyone, pooled_bounds = pooled_search.histogram(columns), pooled_search.done().found
    if not pooled_bounds.found[columns].all():
        return steps.without(pooled_bounds.zeros[columns], everyone)
    bounds = [
        Bounds(float(pooled_bounds.lower[column]), float(pooled_bounds.upper[column]))
        for column in columns
    ]
    places = np.searchsorted(everyone.groups, columns)
    if look:
        steps.look_within(everyone, places, bounds)
    steps.share(everyone, places, bounds)
    return steps.done()


class _BoundsSearch:
    """A search for the bounds of each group, and the histograms it has read so far."""

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
        """Return the bounds of all groups."""
        bounds = FoundBounds(self.lower, self._upper, self._zeros)
        indexes = (self._histogram, self._centre, (self._middle, self._doubt))
        return Zoomed(self._table, bounds, self._histograms, *indexes)

    def _left(self, groups: Integers) -> int:
        return self.histogram(groups).left if self._histograms else self._most

    def rows(self, groups: Integers) -> Floats:
        """Return the number of rows within the bounds of some groups; 0 without bounds.

        They are those within the bounds, and zeros: elsewhere noise lifts octaves. They are in
        units of the noise that FIRST_PARTS pays for.
        """
        if not len(groups):
            return np.zeros(0)
        histogram = self.histogram(groups)
        ends = self.lower[histogram.groups], self._upper[histogram.groups]
        counted = histogram.heights(*ends, zero=False) + histogram.heights(0.0, 0.0)
        counted = counted[np.searchsorted(histogram.groups, groups)] * spread_of(
            histogram.noisy.noise
        )
        unit = spread_of(_part(self._loss, FIRST_PARTS).noise(1, 1))
        return np.where(np.isnan(self.lower[groups]), 0.0, counted / unit)

    def slow(self, groups: Integers) -> Mask:
        """Return a mask of groups with a heavy tail.

        The last one is wide and holds few rows, and the last three fall about as those of a power
        law do, or the next to last is not there. A third that is not may have as many rows as an
        octave that does not stand out.
        """
        if not len(groups):
            return np.zeros(0, dtype=bool)
        histogram = self.histogram(groups)
        slow = np.zeros(len(histogram.groups), dtype=bool)
        noisy, (lower, upper) = histogram.noisy, histogram.ends
        lower_end, upper_end = self.lower[histogram.groups], self._upper[histogram.groups]
        within = (
            (lower >= lower_end[noisy.group])
            & (upper <= upper_end[noisy.group])
            & (noisy.bins != 0)
        )
        group, bins, counts = (values[within] for values in (noisy.group, noisy.bins, noisy.counts))
        total = np.bincount(noisy.group, noisy.counts, len(histogram.groups))
        wide = (upper - lower >= (upper_end - lower_end)[noisy.group] / 4)[within]
        every = np.arange(len(histogram.groups))
        first, stop = np.searchsorted(group, every), np.searchsorted(group, every, "right")
        nonempty = np.flatnonzero(stop > first)
        for last, step in ((stop[nonempty] - 1, 1), (first[nonempty], -1)):
            rows = []
            for away in (0, step, 2 * step):
                index = np.clip(last - away, 0, len(bins) - 1)
                there = (group[index] == nonempty) & (bins[last] - bins[index] == away)
                rows.append(np.where(there, counts[index], 0.0))
            rows[2] = np.maximum(rows[2], count_at_height(LEAST, noisy.noise))
            even = rows[0] * rows[2] >= POWER_LAW * rows[1] ** 2
            slow[nonempty] |= (
                (bins[last] * step > 0) & wide[last] & (rows[0] < total[nonempty] / 4) & even
            )
        return slow[np.searchsorted(histogram.groups, groups)]

    def histogram(self, groups: Integers) -> Any:
        """Return the histogram that the bounds of some groups were read off."""
        return self._histograms[int(self._histogram[groups[0]])]

    def after(self, groups: Integers) -> tuple[int, Distances | None]:
        """Return the loss that is left, and the distances that were measured."""
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
        threshold: float | None = min(CENTER_PARTS),
    ) -> Floats:
        """Add noise to the dyadic bins of `groups`, update their bounds and return far rows.

        Far rows are at least `threshold`; None returns no rows. If some bins are `standing` out of
        all groups, others have to be as tall as a core. `dense` bins can be read repeatedly.
        """
        if not len(groups):
            return np.zeros(0)
        octaves = self._octaves
        if len(groups) < octaves.groups:
            octaves = of_groups(octaves, groups)
        noise, binning = _part(self._loss, share).noise(1, 1), self._octaves.binning
        assert isinstance(binning, Doublings)  # noqa: S101 no other bins come here
        noisy_parts, far_rows = [], []
        stacks = standing is not None and len(standing) > 1
        size = octaves.groups if stacks else GROUP_CHUNK
        for part in octaves.parts(size):
            part_table = (
                octaves if len(part) == octaves.groups else of_groups(octaves, np.array(part))
            )
            if standing is not None:
                noisy = exceedances(
                    part_table, noise, CORE, self._entropy, (standing, joining.threshold)
                )
            elif dense:
                noisy = every_count(part_table, noise, self._entropy)
            else:
                noisy = exceedances(part_table, noise, joining.threshold, self._entropy)
            seen = noisy.at_least(joining.threshold) if dense else noisy
            found_bounds = octave_bounds(seen, len(part), joining, binning)
            at = groups[part.start : part.stop]
            self.lower[at], self._upper[at], self._zeros[at] = (
                found_bounds.lower,
                found_bounds.upper,
                found_bounds.zeros,
            )
            if threshold is not None:
                far_rows.append(rows_if_far(seen, found_bounds, threshold, binning))
            noisy_parts.append(noisy)
        left = self._left(groups) - share
        self._histograms.append(OctaveHistogram(groups, left, octaves, joined(noisy_parts, size)))
        self._histogram[groups] = len(self._histograms) - 1
        return np.concatenate(far_rows) if far_rows else np.zeros(0)

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
        """Measure the bins of each group that stand out of the pooled ones, and their neighbors.

        Its column has these `bounds` together, and this place in the histogram of all.
        """
        last = self._octaves.binning.last
        standing = np.zeros((len(bounds), 2 * last + 1), dtype=bool)
        for row, index, column_bounds in zip(standing, places.tolist(), bounds, strict=True):
            bins = everyone.standing(index, column_bounds)
            near_bins = np.concatenate(
                [bins.min() - NEIGHBOR_BINS, bins, bins.max() + NEIGHBOR_BINS]
            )
            row[np.clip(near_bins, -last, last) + last] = True
        share = GROUP_PARTS if everyone.distances is None else GROUP_DISTANCE_PARTS
        self.look(np.arange(len(self.lower)), share, GROUP_JOINING, standing, threshold=None)

    def share(
        self,
        everyone: OctaveHistogram | DistanceHistogram,
        places: Integers,
        bounds: Sequence[Bounds],
    ) -> None:
        """Assign pooled or individual bounds to every group.

        Of few rows the octaves that stand out tell a size, hardly a tail: own bounds have as much
        room on either side. About a centre own octaves are those of rows beyond the bounds.
        """
        columns_by_bounds: dict[Bounds, list[int]] = {}
        for column, column_bounds in enumerate(bounds):
            columns_by_bounds.setdefault(column_bounds, []).append(column)
        groups_each, left = len(self.lower) // len(bounds), self._left(np.zeros(1, np.int64))
        profiles = [
            everyone.profile(*place_and_bounds)
            for place_and_bounds in zip(places.tolist(), bounds, strict=True)
        ]
        marked, number = np.zeros((2, len(bounds)), dtype=bool), np.zeros(len(bounds), np.int64)
        shared: list[SharedHistogram] = []
        for column_bounds, columns in columns_by_bounds.items():
            number[columns] = len(shared)
            marked[:, columns] = everyone.marked_together(places[columns], column_bounds)
            groups = np.add.outer(np.array(columns) * groups_each, np.arange(groups_each)).reshape(
                -1
            )
            column_profiles = [profiles[column] for column in columns]
            own_marks = marked[0, columns], marked[1, columns]
            shared.append(
                SharedHistogram(
                    groups,
                    left,
                    everyone,
                    places[columns],
                    column_bounds,
                    column_profiles,
                    own_marks,
                    groups_each,
                )
            )
        self._zeros[:] = False
        low, high = (
            np.array([getattr(column_bounds, end) for column_bounds in bounds])
            for end in ("lower", "upper")
        )
        if not self._histograms:  # nobody was looked at
            self._histograms += shared
            self._histogram[:] = self._of_groups(number)
            self.lower[:], self._upper[:] = self._of_groups(low), self._of_groups(high)
            return
        (octaves,) = self._histograms
        assert isinstance(octaves, OctaveHistogram)  # noqa: S101 nobody zooms here
        wide: tuple[Any, Any] = octaves.binning.outwards(low, high)
        wide = (
            (wide[0][0], wide[1][0])
            if len(columns_by_bounds) == 1
            else tuple(map(self._of_groups, wide))
        )
        less, unlike = np.zeros((2, len(self.lower)), dtype=bool)
        tall, size = np.empty(len(self.lower)), GROUP_CHUNK if len(bounds) == 1 else len(self.lower)
        for first in range(0, len(self.lower), size):
            group_slice = slice(first, first + size)
            part = octaves.of_groups(group_slice)
            part_bounds = FoundBounds(
                self.lower[group_slice], self._upper[group_slice], self._zeros[group_slice]
            )
            tall[group_slice] = part.heights(*wide, zero=False)
            ends, less[group_slice], more = self._unlike(part_bounds, part, profiles, wide)
            unlike[group_slice] = less[group_slice] | more
            self.lower[group_slice], self._upper[group_slice] = on_grid(
                ends[0], ends[1], everyone.narrowest
            )
        marks = self._of_groups
        like = replace(octaves, tall=tall, marked=(marks(marked[0]), marks(marked[1])))
        self._histograms = [*shared, like, replace(octaves, tall=tall)]
        self._histogram[:] = np.where(unlike, len(shared) + less, self._of_groups(number))

    def _unlike(
        self,
        individual_bounds: FoundBounds,
        octaves: OctaveHistogram,
        profiles: Sequence[Profile],
        wide: tuple[Any, Any],
    ) -> tuple[Floats, Mask, Mask]:
        """Return the ends of groups, and masks of those narrower and wider than pooled.

        The groups' bins have `individual_bounds`, the pooled bins of a column reach `wide` ends.
        """
        outwards, groups_each = octaves.binning.outwards, len(octaves.groups) // len(profiles)
        tall, pooled_heights = octaves.heights(-np.inf, np.inf), octaves.heights(*wide)
        pooled_heights *= GROUP_PARTS / (self._most - octaves.left)
        low, high, outside = np.empty((3, len(octaves.groups)))
        for column, profile in enumerate(profiles):
            group_slice = slice(column * groups_each, (column + 1) * groups_each)
            low[group_slice], high[group_slice] = profile.ends(pooled_heights[group_slice])
            outside[group_slice] = profile.outside(
                individual_bounds.lower[group_slice], individual_bounds.upper[group_slice]
            )
        outermost = (
            np.fmin(individual_bounds.lower, wide[0]),
            np.fmax(individual_bounds.upper, wide[1]),
        )
        lower, upper = self._roomy(individual_bounds, octaves)
        lower, upper = np.maximum(lower, outermost[0]), np.minimum(upper, outermost[1])
        seen = tall - octaves.heights(individual_bounds.lower, individual_bounds.upper)
        less = individual_bounds.found & (tall * outside - seen >= OUTLIER_SCORE)
        less &= upper - lower < high - low
        more = (tall - octaves.heights(*outwards(low, high)) >= OUTLIER_SCORE) | (
            outermost[0] < wide[0]
        )
        more = ~less & (more | (outermost[1] > wide[1]))
        own_ends = outwards(*np.where(less, [lower, upper], outermost))
        return np.where(less | more, own_ends, [low, high]), less, more

    def _roomy(
        self, individual_bounds: FoundBounds, octaves: OctaveHistogram
    ) -> tuple[Floats, Floats]:
        """Return individual bounds with room on either side; the fewer rows stand out, the more."""
        room = np.array(list(ROOM_BY_HEIGHT.values()))
        room = room[
            np.searchsorted(
                [*ROOM_BY_HEIGHT],
                octaves.heights(individual_bounds.lower, individual_bounds.upper),
                "right",
            )
            - 1
        ]
        room[
            rows_if_far(octaves.noisy, individual_bounds, CERTAIN_PAIR_HEIGHT, octaves.binning) > 0
        ] = 1.0
        centre = octaves.binning.centre
        size = room * np.maximum(centre - individual_bounds.lower, individual_bounds.upper - centre)
        ends = [centre - size, centre + size]
        lower, upper = np.where(room > 1, ends, [individual_bounds.lower, individual_bounds.upper])
        return lower, upper

    def refine_around_center(
        self,
        groups: Integers,
        rows: Floats,
        pooled_table: BinTable | None = None,
        *,
        near_zero: bool = False,
    ) -> None:
        """Find bounds about a center, by the height of all rows of a group.

        They are far from zero, or `near_zero`. Pooled bounds are read from the `pooled_table`.
        """
        for chosen, centre, fineness in _classes(rows):
            chosen_groups = groups[chosen]
            reach = (
                DISTANCE_PARTS
                if pooled_table is None
                else _by_height(POOLED_DISTANCE_PARTS, rows[chosen[0]])
            )
            shares = (self._left(chosen_groups) - centre - reach, centre, reach, fineness)
            table = of_groups(self._table, chosen_groups) if pooled_table is None else pooled_table
            widths = self._upper[chosen_groups] - self.lower[chosen_groups] if near_zero else None
            distance_histogram = self._around(chosen_groups, table, shares, widths)
            last = int(np.searchsorted(distance_sizes(CORE_LIMIT, fineness), CORE_LIMIT))
            reached, seen = find_reached_bins(
                distance_histogram.noisy,
                distance_histogram.noise,
                distance_histogram.ends,
                last,
                widths,
            )
            ends = zip(distance_histogram.ends, reached, strict=True)
            lower, upper = (end[np.arange(len(chosen_groups)), index] for end, index in ends)
            seen &= lower < upper  # zeros alone are no bounds: those of the octaves stay
            before = self._histograms[int(self._histogram[chosen_groups[0]])]
            assert isinstance(before, OctaveHistogram)  # noqa: S101 nobody zooms twice
            self._histograms += [replace(before, left=shares[0]), distance_histogram]
            self._histogram[chosen_groups] = len(self._histograms) - 1 - ~seen
            self._centre[chosen_groups[seen]] = distance_histogram.centre[seen]
            inner = on_grid(lower[seen], upper[seen], NARROWEST_END)
            self.lower[chosen_groups[seen]], self._upper[chosen_groups[seen]] = inner
            if pooled_table is None:
                middle, doubt = distance_histogram.middle(reached)
                self._middle[chosen_groups[seen]], self._doubt[chosen_groups[seen]] = (
                    middle[seen],
                    doubt[seen],
                )

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
        ranked, law = ranked_rows(table), _part(self._loss, centre_share).selection(sensitivity=1)
        centre = select_rank(ranked, ranked.totals(), law, self._entropy)
        binning = table.binning
        assert isinstance(binning, Octaves)  # noqa: S101 `zoomed_bounds` has looked
        below, above = bins_around(binning, centre, widths, fineness)
        first = np.hstack([below[:, ::-1], above[:, :-1] + 1])
        places = codes_of(np.arange(len(centre))[:, None], first, binning.last).reshape(-1)
        entries = np.searchsorted(table.codes, places)  # they ascend
        counts = np.diff(ranked.before[np.append(entries, len(table.rows))])
        noise = _part(self._loss, reach).noise(1, 1)
        noisy = add_to(counts.reshape(first.shape), noise, self._entropy).astype(np.float64)
        ends = binning.lower(below), binning.upper(above)
        return DistanceHistogram(groups, left, centre, noisy, noise, fineness, binning, ends)


def _part(loss: Epsilon | Rho, share: int) -> Epsilon | Rho:
    return loss.share(Fraction(share, PARTS))


def _classes(rows: Floats) -> Iterator[tuple[Integers, int, int]]:
    """Yield groups with the fraction of their center and the fineness of their distances."""
    edges = sorted({*CENTER_PARTS, *FINENESS})
    for lower_edge, upper_edge in zip(edges, [*edges[1:], math.inf], strict=True):
        group_indexes = np.flatnonzero((rows >= lower_edge) & (rows < upper_edge))
        if len(group_indexes):
            yield (
                group_indexes,
                _by_height(CENTER_PARTS, lower_edge),
                _by_height(FINENESS, lower_edge),
            )


def _by_height(values: Mapping[int, int], rows: float) -> int:
    return values[max(edge for edge in values if edge <= rows)]


def rows_if_far(
    noisy: Exceedances,
    found_bounds: FoundBounds,
    threshold: float = min(CENTER_PARTS),
    octaves: Doublings = _OCTAVES,
) -> Floats:
    """Return the rows of groups far from zero, in noise scales; 0 below `threshold`."""
    groups, centre = len(found_bounds.lower), octaves.centre
    group, bins, scaled = noisy.group, noisy.bins, noisy.counts / spread_of(noisy.noise)
    many = found_bounds.found & (np.bincount(group, scaled, groups) >= threshold)
    candidates = np.flatnonzero(many[group])  # nobody else has as many rows
    group, bins, scaled, tall = (
        group[candidates],
        bins[candidates],
        scaled[candidates],
        noisy.heights[candidates],
    )
    lower, upper = octaves.lower(bins), octaves.upper(bins)
    width = (found_bounds.upper - found_bounds.lower)[group]
    within = (lower >= found_bounds.lower[group]) & (upper <= found_bounds.upper[group])
    large = np.maximum(centre - lower, upper - centre) >= width / 64
    counted = (bins == 0) | (within & (large | (tall >= SMALL_BIN_HEIGHT)))
    rows = np.bincount(group[counted], scaled[counted], groups)
    pairs = np.where(within & (bins != 0), scaled, 0.0)
    follows = (group[1:] == group[:-1]) & (bins[1:] == bins[:-1] + 1) & (bins[1:] * bins[:-1] > 0)
    pairs[:-1] += np.where(follows & within[1:], scaled[1:], 0.0)
    tallest_pair = np.zeros(groups)
    np.maximum.at(tallest_pair, group, pairs)
    is_far = (
        (tallest_pair + 1 >= FAR_PAIR_FRACTION * rows) & (rows >= threshold) & found_bounds.found
    )
    return np.where(is_far, rows, 0.0)


def bins_around(
    binning: Octaves, centre: Integers, widths: Floats | None, fineness: int
) -> tuple[Integers, Integers]:
    """Return the last bin within each distance from centres, downwards and upwards.

    Distances double in `fineness` steps, from the center's bin on, or from SMALLEST_DISTANCE
    `widths` if these are more. The last one holds all that is further. Without `widths` values are
    far from zero. Away from zero a distance is then a number of bins, as tails fall by octaves
    there. Towards zero, where bins are ever smaller, it is a value.
    """
    low, high = binning.lower(centre), binning.upper(centre)
    sizes, sign = distance_sizes(2**DOUBLINGS, fineness), np.sign(centre)[:, None]
    smallest = 0.0 if widths is None else SMALLEST_DISTANCE * widths
    distances = np.maximum(high - low, smallest)[:, None] * sizes
    ends = low[:, None] - distances, high[:, None] + distances
    below, above = (binning.numbers(binning.labels(edges)) for edges in ends)
    below += binning.upper(below) <= ends[0]  # an end is of the bin that lies within it
    above -= binning.lower(above) >= ends[1]
    below, above = np.minimum(below, centre[:, None]), np.maximum(above, centre[:, None])
    if widths is None:
        outwards = np.clip(centre[:, None] + sign * sizes, -binning.last, binning.last)
        below, above = np.where(sign < 0, outwards, below), np.where(sign > 0, outwards, above)
    rest = np.full((len(centre), 1), binning.last)
    return np.append(below, -rest, axis=1), np.append(above, rest, axis=1)


def distance_sizes(largest: int, fineness: int) -> Integers:
    """Return the largest distance of each bin: 0, 1, and so many a doubling from there on."""
    steps = [1 + Fraction(k, fineness) for k in range(fineness)]
    powers = range(largest.bit_length() + 1)
    distances = {math.floor(2**power * step) for power in powers for step in steps}
    return np.array(sorted({0, *distances}), np.int64)


def find_reached_bins(
    noisy: Floats,
    noise: Noise,
    ends: tuple[Floats, Floats],
    core_limit: int,
    widths: Floats | None = None,
) -> tuple[list[Integers], Mask]:
    """Return the distances that hold the rows of each group, down and up, and a mask of success.

    `noisy` has one row a group and one column a bin of distances, the middle one for 0, and `ends`
    are how far down and how far up each distance of a group reaches, in units of the column. The
    core of each side is its shortest window that is tall enough, at most `core_limit` bins from the
    middle. Further out a bin joins at JOIN_HEIGHT + WIDTH_GROWTH log(factor by which it widens the
    bounds) + GAP_GROWTH log(bins to the core); bounds are at least as wide as `widths`, if given.
    If the middle stands out by itself, a core is taller by what a bin in its place would need to
    join beyond what it needs to be one.
    """
    room = ZERO_BIN_WIDTH if widths is None else np.maximum(widths, ZERO_BIN_WIDTH)[..., None]
    groups, middle = len(noisy), noisy.shape[1] // 2
    reach = [np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)]
    heights, every = compute_heights(noisy, noise), np.arange(groups)
    sides = heights[:, middle::-1], heights[:, middle:]

    def threshold(side: int, places: Integers) -> Floats:
        gap = np.maximum(places - reach[side][:, None], 1)
        lower, upper = (
            side_ends[every, index][:, None] for side_ends, index in zip(ends, reach, strict=True)
        )
        wide = np.abs(ends[side][:, places] - (lower if side else upper))
        factor = np.maximum(wide / np.maximum(upper - lower, room), 1.0)
        return np.asarray(JOIN_HEIGHT + WIDTH_GROWTH * np.log(factor) + GAP_GROWTH * np.log(gap))

    seen = sides[0][:, 0] >= CORE_HEIGHTS[1]
    more = [threshold(side, np.arange(1, core_limit + 1)) - CORE_HEIGHTS[1] for side in (0, 1)]
    for side, rows in enumerate((noisy[:, middle - 1 :: -1], noisy[:, middle + 1 :])):
        dear = np.where(seen[:, None], np.maximum(more[side], 0.0), 0.0)
        reach[side] = _core(rows[:, :core_limit], noise, dear)
    seen |= (reach[0] > 0) | (reach[1] > 0)
    tall = [
        np.flatnonzero((side_heights >= JOIN_HEIGHT).any(axis=0)) for side_heights in sides
    ]  # nowhere else one joins
    for _ in range(2):
        for side in (1, 0):
            for index in tall[side].tolist():
                enough = sides[side][:, index] >= threshold(side, np.array([index]))[:, 0]
                reach[side][enough & (index > reach[side])] = index
    return reach, seen


def _core(side: Floats, noise: Noise, more: Floats) -> Integers:
    """Return the last bin of one side's core for each group; 0 without a core.

    It is the shortest window that is tall enough: by so much `more` where it ends in each bin.
    """
    before = np.cumsum(np.pad(side, ((0, 0), (1, 0))), axis=1)
    end = np.zeros(len(side), dtype=np.int64)
    for size, tall in cores(CORE_HEIGHTS, noise).items():
        heights = compute_heights(before[:, size:] - before[:, :-size], noise, size)
        heights = heights - more[:, size - 1 :]
        best = heights.argmax(axis=1)
        group_mask = (end == 0) & (heights[np.arange(len(side)), best] >= tall)
        end[group_mask] = best[group_mask] + size
    return end
