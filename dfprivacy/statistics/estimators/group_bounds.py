"""Find the bounds of many groups: pooled bounds, and how much of them each group needs.

All groups together are searched first. Each group then has noisy counts of its rows by their
distance from the center of the pooled bounds, which choose one of these distances as the group's
reach. A row is in one group, so that these counts compose in parallel. What a group gets depends on
pooled noisy counts and on its own counts alone. docs/explanation/octaves.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from dfprivacy.measurement.bin_table import FINE, BinTable, in_one, stack
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.laws import exact_height, find_scale, is_laplace
from dfprivacy.release.answers import OuterCounts
from dfprivacy.statistics.estimators.bounds_search import (
    MIDDLE,
    POLICY,
    SLOWEST_FALL,
    UNITS,
    Found,
    FoundBounds,
    Loss,
    Mask,
    PooledCounts,
    Ruler,
    clipping_biases,
    has_tall_window,
    move_ends,
    round_share,
    ruler_about,
    ruler_about_zero,
    search,
    window_height,
    write_note,
)

LEAST_LEFT_BY_GROUP = 1 - POLICY.pool - POLICY.groups - POLICY.levels
"""Share that is left for the answers, at least."""
MOST_LEFT_BY_GROUP = 1 - POLICY.pool * POLICY.looks[0] - POLICY.levels - POLICY.groups / 4
"""Share that is left for the answers, at most: groups of fewer rows can be shown then."""

Recount = Callable[[Octaves, bool], BinTable]

_OUTSIDE = 6  # doublings beyond the pooled bounds that a group's own counts can join
_INNER = 0.03  # fraction of the pooled rows that count as nearest to the center
_NEAR_ZERO = 16  # doublings below the values nearest to zero that count as zero
_CHUNK = 2**16  # groups that are answered at a time: their counts fit into the cache
_ALL_SEEN = 50  # groups, in units of noise, from which on their levels are known
_RARE_LEVEL = 0.05  # fraction of groups that may lie outside as a whole without being seen
_FALSE_ALARM = 0.05  # probability of a release that noise alone gives a note on rows beyond all
_JOINS_ALONE = 7  # height of rows outside from which on a group's own counts join them


@dataclass(frozen=True, eq=False)
class Distances:
    """Public distances from the center of pooled bounds, and the pooled rows at each.

    Distance d holds the values from `lower[d]` to `upper[d]` that no smaller distance holds. The
    last one holds all that is further.
    """

    starts: Integers
    """First bin of the table in each bin of a ruler."""
    numbers: Integers
    """The distance of each bin of this ruler."""
    lower: Floats
    upper: Floats
    pooled: int
    """The last distance within the pooled bounds."""
    fractions: Floats
    """Fractions of the pooled rows, below and above the center, at each distance."""
    bounds: tuple[float, float]

    def count(self, table: BinTable) -> Integers:
        """Return the rows of each group at each distance. Secret."""
        size = len(self.lower)
        last, bins = table.binning.last, table.bins
        is_dense = len(bins) > 2 * last
        read = np.arange(-last, last + 1) if is_dense else bins
        numbers = self.numbers[np.searchsorted(self.starts, read, "right") - 1]
        numbers = numbers[bins + last] if is_dense else numbers
        counts = np.bincount(table.group * size + numbers, table.rows, table.groups * size)
        return np.asarray(counts.reshape(table.groups, size), np.int64)  # exact below 2**53

    @cached_property
    def gaps(self) -> Floats:
        """How far rows at a distance lie beyond bounds of a reach: by side, reach and distance."""
        is_pooled, gaps = np.arange(len(self.lower)) <= self.pooled, []
        for ends, limit in ((-self.lower, -self.bounds[0]), (self.upper, self.bounds[1])):
            outer = np.where(is_pooled, np.minimum(ends, limit), np.maximum(ends, limit))
            inner = np.append(outer[0], outer[:-1])
            values = inner + MIDDLE * (outer - inner)
            gaps.append(np.triu(np.maximum(values - outer[:, None], 0.0), 1))
        return np.stack(gaps)

    def ends(self, reach: Integers) -> tuple[Floats, Floats]:
        """Return the bounds of groups with these reaches, at most the pooled bounds within."""
        inside, (low, high) = reach <= self.pooled, self.bounds
        lower, upper = self.lower[reach], self.upper[reach]
        lower = np.where(inside, np.maximum(lower, low), np.minimum(lower, low))
        upper = np.where(inside, np.minimum(upper, high), np.maximum(upper, high))
        return move_ends(lower, upper)


def measure_distances(pooled: Found) -> Distances:
    """Return the distances by which groups are counted, from what the pooled search has found."""
    ruler, (heights,) = pooled.look.ruler, pooled.look.heights
    starts = ruler.starts.reshape(-1)  # of one group
    doubling = ruler_about_zero(ruler.binning, 0, Octaves().last)
    if ruler.is_far and ruler.binning.center:
        below, above = starts[ruler.middle :: -ruler.steps], starts[ruler.middle + 1 :: ruler.steps]
        doubling = Ruler(ruler.binning, np.concatenate([below[::-1], above]), 1)
    elif ruler.is_far:
        doubling = ruler_about(ruler.binning, int(starts[ruler.middle]))
    middle, edges = doubling.middle, doubling.edges
    lower, upper = edges[middle::-1], edges[middle + 1 :]
    signed = np.searchsorted(doubling.starts, starts[:-1], "right") - 1 - middle
    rows = np.where(heights > POLICY.join, heights, 0.0)
    rows[: pooled.first[0]] = rows[pooled.last[0] + 1 :] = 0.0
    sides = [np.where(signed < 0, rows, 0.0), np.where(signed >= 0, rows, 0.0)]
    heights = np.stack([np.bincount(np.abs(signed), side, len(lower)) for side in sides])
    fractions = heights / max(float(heights.sum()), 1e-9)
    low, high = (float(end) for (end,) in pooled.ends)
    last = int(np.argmax((lower <= low) & (upper >= high)))
    first = min(int(np.searchsorted(np.cumsum(fractions.sum(axis=0)), _INNER)), last)
    if not upper[0] > lower[0]:  # the bin of zero has no width: add all that is far below the rest
        tall = exact_height(1, 0.01 / len(rows), laplace=pooled.look.laplace)
        distances = np.abs(signed[rows > tall])
        nearest = int(distances[distances > 0].min(initial=last))
        first = min(max(first, nearest - _NEAR_ZERO, 1), last)
    size = min(last + _OUTSIDE, len(lower) - 2) - first + 2
    numbers = np.clip(np.abs(np.arange(len(edges) - 1) - middle) - first, 0, size - 1)
    inner, outer = fractions[:, : first + 1].sum(axis=1), fractions[:, first + 1 : first + size]
    shown = slice(first, first + size)
    return Distances(
        starts=doubling.starts,
        numbers=numbers,
        lower=lower[shown],
        upper=upper[shown],
        pooled=last - first,
        fractions=np.column_stack([inner, outer]),
        bounds=(low, high),
    )


def find_group_bounds(
    tables: Sequence[BinTable],
    loss: Loss,
    pooled_loss: Loss,
    recounts: Sequence[Recount] = (),
    *,
    shown_from: int | None = None,
) -> list[FoundBounds]:
    """Find the bounds of each group of some columns from pooled bounds and its own noisy counts.

    Each column pays for itself; those with one loss are searched at once. Shares of the pooled
    steps are shares of `pooled_loss`, the loss of a row where all groups are counted together.
    `recounts` count a column again in other bins, by group or pooled; a frame may have other groups
    then. The number of groups is public, or they are `shown_from` a noisy number of rows on.
    """
    tables = list(tables)

    def count_finely(columns: Integers) -> BinTable:
        fine = [recounts[column](FINE, not adds_squares) for column in columns]
        if adds_squares:
            for column, table in zip(columns, fine, strict=True):
                tables[column] = table
            fine = [in_one(table) for table in fine]
        return stack(fine, columns, len(tables))

    def count_about(column: int, center: float) -> BinTable:
        """Count the groups in quarters of octaves about a center."""
        tables[column] = recounts[column](Octaves(3, center), False)  # noqa: FBT003 by group
        return stack([in_one(tables[column])], [column], len(tables))

    adds_squares = len(tables[0].moments) > 1
    again = PooledCounts(count_finely, None if adds_squares else count_about) if recounts else None
    columns, share = np.arange(len(tables)), pooled_loss.share(POLICY.pool)
    pooled = stack([in_one(table) for table in tables], columns, len(tables))
    results, zeros = search(pooled, columns, share, POLICY, pooled_counts=again)
    looks = POLICY.pool * sum(POLICY.looks, Fraction(0))
    left = 1 - Fraction(math.ceil(looks * UNITS), UNITS)
    bounds = [FoundBounds.unknown(table, left) for table in tables]
    for column in zeros.tolist():
        bounds[column].zeros[:] = True
    for result in results:
        bias, below, above = clipping_biases(result, POLICY)
        for row, column in enumerate(result.groups.tolist()):
            bounds[column] = _fit_groups(
                tables[column],
                result.of(np.array([row])),
                loss,
                pooled_bias=bias[:, row],
                pooled_notes=(below[row], above[row]),
                levels_loss=pooled_loss.share(POLICY.levels),
                shown_from=shown_from,
            )
    return bounds


def _fit_groups(
    table: BinTable,
    pooled: Found,
    loss: Loss,
    *,
    pooled_bias: Floats,
    pooled_notes: tuple[str, str],
    levels_loss: Loss,
    shown_from: int | None,
) -> FoundBounds:
    """Find the bounds of each group of one column from those of all groups together."""
    distances = measure_distances(pooled)
    counts = distances.count(table)
    groups, clumps, unseen = _read_levels(counts, distances, levels_loss)
    inside = slice(pooled.first[0], pooled.last[0] + 1)
    rows = float(pooled.look.scale[0]) * float(pooled.look.heights[0, inside].sum())
    if shown_from is None:
        groups = min(groups, max(table.groups, 1))
        mean_size = max(rows, 1.0) / groups
    else:
        mean_size = max(rows / groups, shown_from, 1.0)
    relative = POLICY.group_size * find_scale(loss.noise(1, 1)) / mean_size
    share_of_groups = float(POLICY.groups) * min(max(relative**0.5, 0.25), 1.0)
    own_share = Fraction(int(round_share(np.array(share_of_groups))), UNITS)
    used = POLICY.pool * Fraction(UNITS - int(pooled.left[0]), UNITS) + POLICY.levels + own_share
    bounds = FoundBounds.unknown(table, 1 - Fraction(math.ceil(used * UNITS), UNITS))
    noise = loss.share(own_share).noise(1, 1)
    reader = ReachReader(
        distances=distances,
        scale=find_scale(noise),
        laplace=is_laplace(noise),
        answer_scale=find_scale(loss.share(1 - used).noise(1, 1)),
        chance=_FALSE_ALARM / max(groups, 1.0),
        clumps=clumps,
        is_clumped=unseen > _RARE_LEVEL,
        mean_size=mean_size,
        pooled_bias=pooled_bias,
        pooled_rows=rows,
    )
    note = write_note(*pooled_notes, distances.bounds)
    outer = counts[:, distances.pooled + 2 :].astype(np.float32)
    for first in range(0, table.groups, _CHUNK):
        part = slice(first, first + _CHUNK)
        noisy = add_to(counts[part], noise).astype(np.float64)
        outer[part] = noisy[:, distances.pooled + 2 :] / reader.scale
        reach, bounds.bias[:, part], is_narrow, has_outliers = reader.read(noisy / reader.scale)
        bounds.lower[part], bounds.upper[part] = distances.ends(reach)
        bounds.notes[part] = note
        bounds.notes[part][is_narrow] = None
        bounds.notes[part][has_outliers] = "rows lie beyond the bounds of all groups"
    return replace(bounds, outer=OuterCounts(outer, laplace=reader.laplace))


def _read_levels(
    counts: Integers, distances: Distances, loss: Loss
) -> tuple[float, Floats, Floats]:
    """Count groups by the distance of their middle row, with noise.

    One row more or less moves one group from one distance to another, or adds one. Return the
    largest number of groups that is likely, the fraction of groups at each distance, and the
    fraction that may lie beyond each distance. With too few groups to tell, groups are as scattered
    as their rows.
    """
    noise, size = loss.noise(2, 2), distances.pooled + 1
    total = counts.sum(axis=1)
    level = (2 * counts.cumsum(axis=1) < total[:, None]).sum(axis=1)[total > 0]
    exact = np.bincount(level, minlength=counts.shape[1]).astype(np.int64)
    noisy, scale = add_to(exact, noise).astype(np.float64), find_scale(noise)
    doubt = 3 * math.sqrt(noise.variance * len(noisy))
    groups = max(float(noisy.sum()), 0.0)
    unseen = np.append(np.cumsum(noisy[size - 1 : 0 : -1])[::-1], 0.0) + 2 * scale
    if groups < _ALL_SEEN * scale:
        return groups + doubt, distances.fractions.sum(axis=0)[:size], np.ones(size)
    clumps = np.where(noisy > 3 * scale, noisy, 0.0)[:size]
    return groups + doubt, clumps / groups, unseen / groups


@dataclass(frozen=True, eq=False)
class ReachReader:
    """Public facts by which the noisy counts of a group choose its reach."""

    distances: Distances
    scale: float
    laplace: bool
    answer_scale: float
    chance: float
    """The probability that noise alone makes a group's note on rows beyond all bounds."""
    clumps: Floats
    is_clumped: Mask
    mean_size: float
    pooled_bias: Floats
    pooled_rows: float

    @property
    def variance(self) -> float:
        """The variance of the noise of a height."""
        return 2.0 if self.laplace else 1.0

    def read(self, heights: Floats) -> tuple[Integers, Floats, Mask, Mask]:
        """Return reach and bias of each group, and masks: narrower than all, rows beyond all."""
        size = self.distances.pooled + 1
        before = np.cumsum(heights[:, :size], axis=1)
        total = before[:, -1:]
        likely = self.scale * (total - math.sqrt(self.variance * size))
        rows = np.maximum(self.mean_size, likely)
        like_all = np.argmin(self._costs(rows), axis=1)
        is_narrow = self._is_unlike(before, like_all)
        unlike = np.asarray(is_narrow.any(axis=1))
        start = np.where(unlike, is_narrow.argmax(axis=1), like_all)
        reach = self._extend(heights, start)
        alone = unlike | ((reach > start) & (reach >= size - 1))
        bias = self._bias(heights, total - before, rows[:, 0], (reach, alone))
        return reach, bias, unlike, self._has_outliers(heights[:, size + 1 :], reach - size)

    def _has_outliers(self, outer: Floats, last: Integers) -> Mask:
        """Mask groups with more rows beyond the bounds of all than noise makes.

        `last` is the last distance that a group's bounds reach; the next one is a part of its tail.
        """
        bins = outer.shape[1]
        outer = np.where(np.arange(bins) > last[:, None], outer, 0.0)
        chance, windows = self.chance / (3 * max(bins, 1)), {1: 1, 2: 2, 4: 4}
        return has_tall_window(outer, windows, chance, laplace=self.laplace)

    @cached_property
    def _moments(self) -> Floats:
        """Moments of the gaps of pooled rows, by power, side and reach: 1, 2 and 4."""
        size = self.distances.pooled + 1
        gaps = self.distances.gaps[:, :size, :size]
        fractions = self.distances.fractions[:, None, :size]
        return np.stack([(gaps**power * fractions).sum(axis=2) for power in (1, 2, 4)])

    @cached_property
    def _widths(self) -> Floats:
        low, high = self.distances.ends(np.arange(self.distances.pooled + 1))
        return high - low

    def _costs(self, rows: Floats) -> Floats:
        """Return the squared error of a sum, for so many rows and each reach: noise and bias."""
        first, second, _ = self._moments
        noise = self.variance * (self._widths * self.answer_scale) ** 2
        size = self.distances.pooled + 1
        scattered = (self.distances.gaps[:, :size, :size] ** 2).sum(axis=0) @ self.clumps
        unjoined = np.minimum(rows, _JOINS_ALONE * self.scale) ** 2 * scattered
        bias = rows**2 * first.sum(axis=0) ** 2 + rows * second.sum(axis=0)
        return np.asarray(noise + bias + unjoined)

    def _is_unlike(self, before: Floats, like_all: Integers) -> Mask:
        """Return which narrower reaches a group can have: far fewer rows are outside than pooled.

        If the group were like all, 5 deviations more rows would be outside than are seen.
        """
        size = before.shape[1]
        inside = np.cumsum(self.distances.fractions[:, :size].sum(axis=0))
        sizes = np.arange(1, size + 1)
        doubt = np.sqrt(self.variance * (size - sizes))
        surely = before - 2 * np.sqrt(self.variance * sizes)
        ratio = (inside[-1] - inside) / np.maximum(inside, 1e-9)
        expected, seen = np.maximum(surely, 0.0) * ratio, before[:, -1:] - before
        unlike = expected - seen > 5 * np.sqrt(doubt**2 + expected / self.scale)
        narrow = 2 * self._widths < self._widths[like_all][:, None]
        return np.asarray(unlike & narrow & (surely > 6) & (seen < 2 * doubt))

    def _extend(self, heights: Floats, reach: Integers) -> Integers:
        """Join distances outwards that are taller than the width they add is worth."""
        size = heights.shape[1] - 1
        wider = np.arange(size)
        need = POLICY.join + 2 + POLICY.doubling * (wider + np.maximum(wider - 2, 0))
        before = np.cumsum(np.pad(heights, ((0, 0), (1, 0))), axis=1)
        for distance in range(1, size):
            gap = distance - reach
            for window in (1, 2, 4):
                if window > distance:
                    break
                sure = exact_height(window, POLICY.absurd * 1e-4, laplace=self.laplace)
                tall = np.minimum(window_height(need, window, laplace=self.laplace), sure)
                total = before[:, distance + 1] - before[:, distance + 1 - window]
                joins = (gap >= window) & (total >= tall[np.maximum(gap, 0)])
                reach = np.where(joins, distance, reach)
        return reach

    def _bias(
        self,
        heights: Floats,
        seen: Floats,
        rows: Floats,
        reached: tuple[Integers, Mask],
    ) -> Floats:
        """Return the distances and squares that rows outside may add up to, below and above.

        Groups like all have the pooled fraction of their rows there, and if some groups may lie
        outside as a whole, all rows that their own counts leave possible. Others have a tail that
        falls from the next distance on. Those that reach the pooled bounds by their own rows may
        have all that the pooled rows have beyond.
        """
        (reach, alone), gaps = reached, self.distances.gaps
        size, places = self.distances.pooled + 1, np.arange(gaps.shape[1])
        at = np.minimum(reach, size - 1)
        doubt = POLICY.careful * np.sqrt(self.variance * (size - 1 - at))
        outside = np.maximum(np.take_along_axis(seen, at[:, None], 1)[:, 0], 0.0) + doubt
        outside *= self.scale * self.is_clumped[at]
        following = heights[np.arange(len(heights)), np.minimum(reach + 1, heights.shape[1] - 1)]
        unseen = np.maximum(following, 0.0) + POLICY.careful * math.sqrt(self.variance)
        falls = np.triu(SLOWEST_FALL ** np.maximum(places - places[:, None] - 1, 0), 1)
        falls[: size - 1, size:] = 0.0
        biases = []
        for side in (0, 1):
            fraction = self.distances.fractions[side, :size]
            outer = np.maximum(fraction.sum() - np.cumsum(fraction), 1e-12)
            first, second, fourth = self._moments[:, side]
            for power, mean, square in ((1, first, second), (2, second, fourth)):
                like_all = rows * mean[at] + 2 * np.sqrt(rows * square[at])
                like_all += outside * ((second / outer) ** (power / 2))[at]
                tail = self.scale * unseen * (falls * gaps[side] ** power).sum(axis=1)[reach]
                pooled_bias = self.pooled_bias[2 * side + power - 1]
                tail = np.where(reach == size - 1, np.minimum(tail, pooled_bias), tail)
                pooled = rows * (pooled_bias / max(self.pooled_rows, 1.0))
                biases.append(np.where(alone, tail, like_all) + pooled)
        return np.stack(biases)
