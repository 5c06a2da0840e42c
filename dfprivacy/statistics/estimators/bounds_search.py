"""Search for bounds of a column privately: noisy histograms on public rulers.

One row more or less changes one count of a histogram by 1, so that noise for a sensitivity of 1
pays for all of it. Every rule reads noisy counts and costs nothing more. A whole frame is looked at
in dyadic bins, then once more around zero or a private median. By group the pooled rows are
searched, and each group's own noisy counts choose how much of the pooled bounds the group needs.
docs/explanation/octaves.md has the proof; benchmarks/honesty.py and benchmarks/bounds.py measure
the policy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import FINE, BinTable, list_codes, stack
from dfprivacy.measurement.binning import LARGEST_VALUE, Floats, Integers, Octaves
from dfprivacy.measurement.runs import list_distinct, run_slices, run_starts
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.laws import Noise, exact_height, find_scale, is_laplace
from dfprivacy.release.answers import OuterCounts, join_notes
from dfprivacy.statistics.estimators.quantile import rank_rows, select_rank

Mask = npt.NDArray[np.bool_]
Notes = npt.NDArray[np.object_]
Loss = Epsilon | Rho

UNITS = 400  # shares of a loss are multiples of one over this


@dataclass(frozen=True)
class BoundsPolicy:
    """Every constant of the search.

    Shares are parts of the loss. Heights are noisy counts in units of their noise. The size of data
    is its number of rows in units of the noise that the whole loss would add.
    """

    looks: tuple[Fraction, ...] = (Fraction(12, UNITS), Fraction(36, UNITS), Fraction(160, UNITS))
    """Shares of the looks at dyadic bins, until one shows enough."""
    enough: float = 60.0
    """Height of all rows from which on the first look is enough."""
    far_fraction: float = 0.85
    """Fraction of the rows in two adjacent bins from which on data are far from zero ..."""
    far_size: float = 250.0
    """... at this size and above."""
    center: float = 40.0
    """The share of the center is this over the size, from .01 to .12."""
    zoom: float = 0.28
    """Share of the zoom; larger data need less of it."""
    doubt: float = 20.0
    """Zoom again if rows outside may move the sum by so many deviations of its noise."""
    finer: float = 12_000.0
    """Size from which on bins double in two steps; in four at four times the size."""
    absurd: float = 1e-6
    """Probability that noise alone makes a core, or joins at any distance."""
    join: float = 2.0
    """Height from which on a bin joins the bounds."""
    doubling: float = 3.0
    """Height that a bin needs in addition for each doubling of the width."""
    heavy: float = 0.27
    """A tail that keeps this fraction of its rows from doubling to doubling is heavy."""
    careful: float = 1.6
    """Deviations by which unseen rows may exceed the noisy count."""
    pool: Fraction = Fraction(80, UNITS)
    """Share of the pooled search by group; groups get back what it leaves."""
    groups: Fraction = Fraction(80, UNITS)
    """Share of each group's noisy counts ..."""
    group_size: float = 40.0
    """... up to this mean size of groups; larger groups need less of it."""
    levels: Fraction = Fraction(16, UNITS)
    """Share of the histogram of groups by the distance of their middle row."""


POLICY = BoundsPolicy()
LEAST_ZOOMED = Fraction(3, 10)
"""Share that is left for the answers about data far from zero, at least."""
LEAST_LEFT = Fraction(2, 5)  # share that is left for the answers about data near zero, at least
LOOK_SHARE = Fraction(3, 8)  # share of a single look at dyadic bins, where these are the bounds
SLOWEST_FALL, _FASTEST_FALL = 0.45, 0.02  # fractions of rows that unseen tails keep a doubling
_NARROW = 1 / 64  # bins narrower than so many widths of the bounds tell no tail
MIDDLE = 0.44  # where in its bin a row of a falling tail lies, on average
_BELOW, _BEYOND = 12, 12  # doublings of a ruler on either side of the dyadic bounds
NARROWEST = 2.0**-16
"""Widths: an end nearer to zero is moved, so that it is a multiple of the grid's step."""


@dataclass(frozen=True, eq=False)
class Ruler:
    """Public bins around a center, as runs of bins of a table; one row of bins a group, or for all.

    Bin i holds the table's bins from `starts[i]` until before `starts[i + 1]`. On either side of
    the `middle` bin, `steps` bins double the distance from the center.
    """

    binning: Octaves
    starts: Integers
    steps: int
    is_far: bool = False
    """True if the center is a bin of the table; False for zero."""

    @property
    def middle(self) -> int:
        """The bin at the center."""
        return int(self.starts.shape[-1]) // 2 - 1

    @cached_property
    def edges(self) -> Floats:
        """The ends of the bins, in units of the column."""
        last = self.binning.last
        ends = self.binning.lower(np.minimum(self.starts, last))
        return np.where(self.starts > last, self.binning.upper(np.array([last])), ends)

    def of(self, rows: Integers) -> Ruler:
        """Return the bins of some groups."""
        return self if self.starts.ndim == 1 else replace(self, starts=self.starts[rows])

    def count(self, table: BinTable, groups: Integers) -> Integers:
        """Return the rows of some groups of a table in each bin. Secret."""
        before = np.append(0, np.cumsum(table.rows))
        codes = list_codes(groups[:, None], self.starts, table.binning.last)
        return np.asarray(np.diff(before[np.searchsorted(table.codes, codes)]), np.int64)


@lru_cache(maxsize=256)  # public arguments only
def ruler_about_zero(binning: Octaves, first: int, last: int, steps: int = 1) -> Ruler:
    """Return a ruler about zero: bins from the dyadic bin `first` to `last`, inner bins as one."""
    fine = 1 << (binning.bits - 1)
    numbers = range(first * steps, last * steps + 1)
    up = np.array([number * fine // steps for number in numbers], np.int64)
    up[-1] = binning.last
    return Ruler(binning, np.concatenate([-up[::-1], up + 1]), steps)


def ruler_about(binning: Octaves, center: Integers | int, steps: int = 1) -> Ruler:
    """Return a ruler about one bin of a table, or one a group, which doubles that bin's width."""
    at = np.asarray(center)[..., None]
    low, high = binning.lower(at), binning.upper(at)
    powers = 2.0 ** np.arange(2 + _BELOW + _BEYOND)[:, None]
    sizes = np.append((powers * (1 + np.arange(steps) / steps)).reshape(-1), powers[-1] * 2)
    sizes = sizes * (high - low)
    up = binning.numbers(binning.labels(high + sizes))
    down = binning.numbers(binning.labels(low - sizes))
    down += binning.upper(down) <= low - sizes
    up, down = np.maximum(up, at), np.minimum(down, at)
    up[..., -1], down[..., -1] = binning.last, -binning.last
    starts = np.concatenate([down[..., ::-1], at, at + 1, up + 1], axis=-1)
    return Ruler(binning, starts, steps, is_far=True)


@dataclass(frozen=True, eq=False)
class Look:
    """Noisy counts of a ruler's bins, a row a group, in units of `scale` rows each. Public."""

    ruler: Ruler
    heights: Floats
    scale: Floats
    laplace: bool = True

    @property
    def variance(self) -> float:
        """The variance of the noise of a height."""
        return 2.0 if self.laplace else 1.0

    @property
    def edges(self) -> Floats:
        """The ends of each group's bins."""
        groups, bins = self.heights.shape
        return np.broadcast_to(self.ruler.edges, (groups, bins + 1))

    def of(self, rows: Integers) -> Look:
        """Return the noisy counts of some groups."""
        ruler, heights, scale = self.ruler.of(rows), self.heights[rows], self.scale[rows]
        return replace(self, ruler=ruler, heights=heights, scale=scale)

    def __add__(self, other: Look) -> Look:
        """Return the average of two looks on one ruler, weighted by their precision."""
        looks = [(look.heights, look.scale[:, None]) for look in (self, other)]
        scale = sum(unit**-2 for _, unit in looks) ** -0.5
        mean = sum(heights * unit * unit**-2 for heights, unit in looks)
        return replace(self, heights=mean * scale, scale=scale[:, 0])


def look_at(
    table: BinTable,
    groups: Integers,
    ruler: Ruler,
    paid: tuple[Loss, Integers],
    counters: Integers | None = None,
) -> Look:
    """Add noise for a sensitivity of 1 to the counts of some groups in a ruler's bins.

    Each group pays its own share of the loss. `counters` has the bin that counts the rows of each
    bin, if not itself: nothing is counted in the others.
    """
    (loss, shares), counts = paid, ruler.count(table, groups)
    if counters is not None:
        bins, counts = counts, np.zeros_like(counts)
        np.add.at(counts, (np.arange(len(bins))[:, None], counters), bins)
    heights, scale = np.empty(counts.shape), measure_spreads(loss, shares)
    for share in list_distinct(shares).tolist():
        rows = shares == share
        noise = loss.share(Fraction(share, UNITS)).noise(1, 1)
        heights[rows] = add_to(counts[rows], noise).astype(np.float64)
    if counters is not None:
        heights[counters != np.arange(counts.shape[1])] = 0.0
    return Look(ruler, heights / scale[:, None], scale, is_laplace(loss.noise(1, 1)))


def measure_spreads(loss: Loss, shares: Integers) -> Floats:
    """Return the scale of the noise for a sensitivity of 1 that each share of a loss pays."""
    different, places = np.unique(shares, return_inverse=True)
    noises = (loss.share(Fraction(share, UNITS)).noise(1, 1) for share in different.tolist())
    return np.array([find_scale(noise) for noise in noises], np.float64)[places]


def window_sums(heights: Floats, size: int) -> Floats:
    """Return the sums of `size` adjacent bins, a power of two of them, of each group."""
    sums, width = heights, 1
    while width < size:
        sums, width = sums[:, :-width] + sums[:, width:], 2 * width
    return sums


def has_tall_window(
    heights: Floats, windows: Mapping[int, int], chance: float, *, laplace: bool
) -> Mask:
    """Mask groups with a window of bins that is taller than its noise, but with a small chance.

    `windows` has the number of noise terms in a window of each size.
    """
    is_tall = np.zeros(len(heights), bool)
    for size, terms in windows.items():
        if size <= heights.shape[1]:
            need = exact_height(terms, chance, laplace=laplace)
            is_tall |= window_sums(heights, size).max(axis=1) > need
    return is_tall


_WINDOWS_OF_BIN = 6
"""Windows that are looked at for each bin: four sizes, and half as many of mirrored bins."""


def find_core(look: Look, policy: BoundsPolicy) -> Integers:
    """Return the first and last bin of the shortest window that noise alone does not make.

    Windows have one sign, or mirrored bins of both signs. The bin of zero is no core by itself.
    Groups without a core have -1.
    """
    heights, middle = look.heights, look.ruler.middle
    groups, bins = heights.shape
    probability = policy.absurd / bins / _WINDOWS_OF_BIN
    kinds = [[(heights, 0, 1)]]
    if not look.ruler.is_far:
        below, above = heights[:, :middle], heights[:, middle + 1 :]
        kinds = [[(below, 0, 1), (above, middle + 1, 1)], [(above + below[:, ::-1], -1, 2)]]
    core = np.full((2, groups), -1)
    for size, parts in itertools.product((1, 2, 4, 8), kinds):
        best, ends = np.zeros(groups), core
        for part, offset, terms in parts:
            sums = window_sums(part, size)
            index = sums.argmax(axis=1)
            height = sums[np.arange(groups), index]
            need = exact_height(terms * size, probability, laplace=look.laplace)
            taller = height >= np.maximum(need, best)
            window = [offset + index, offset + index + size - 1]
            if offset < 0:
                window = [middle - index - size, middle + index + size]
            best, ends = np.where(taller, height, best), np.where(taller, window, ends)
        core = np.where(core < 0, ends, core)
    return core


_WINDOWS = (1, 2, 4)
_LEAST_WIDTH = 2.0**-200  # of bounds, which may be those of a bin that holds no value


def extend(look: Look, first: Integers, last: Integers, policy: BoundsPolicy) -> Integers:
    """Join bins outwards, nearest first, that are taller than the width they add is worth.

    A bin above the bounds is joined where there is none to join below them.
    """
    heights, edges, ruler = look.heights, look.edges, look.ruler
    first, last, sizes = first.copy(), last.copy(), np.array(_WINDOWS)[:, None]
    chance = policy.absurd / heights.shape[1] / 6
    sure = np.array([[exact_height(size, chance, laplace=look.laplace)] for size in _WINDOWS])
    sums = _sums_on_the_way_out(heights)
    lowest = window_height(np.array(policy.join), sizes, laplace=look.laplace)
    is_tall = (sums.max(axis=1) >= np.minimum(lowest, sure)[..., None]).any(axis=0)
    group, index = np.nonzero(is_tall & (heights >= 1))
    while len(group):
        low, high = first[group], last[group]
        above = index > high
        distance = np.where(above, index - high, low - index)
        ends = edges[group, np.minimum(index, low)], edges[group, np.maximum(index, high) + 1]
        width = np.maximum(edges[group, high + 1] - edges[group, low], _LEAST_WIDTH)
        wider = np.log2(np.maximum((ends[1] - ends[0]) / width, 1.0))
        need = policy.join + policy.doubling * (wider + np.maximum(wider - 2, 0))
        need += np.log(np.maximum(distance, ruler.steps))
        if not ruler.is_far:  # of another sign than all
            crossing = np.minimum(high, index) < ruler.middle, np.maximum(low, index) > ruler.middle
            signs = (high < ruler.middle) & crossing[1], (low > ruler.middle) & crossing[0]
            need += policy.doubling * np.where(above, *signs)
        tall = np.minimum(window_height(need, sizes, laplace=look.laplace), sure)
        joins = (distance >= sizes) & (sums[:, above * 1, group, index] >= tall)
        joining = np.flatnonzero(joins.any(axis=0))
        if not len(joining):
            break
        starts = run_starts(group[joining])
        is_below, places = ~above[joining], np.arange(len(joining))
        nearest = starts + np.maximum(np.add.reduceat(is_below, starts, dtype=np.int64) - 1, 0)
        is_alone = is_below & joins[0, joining]  # still joins when the bins before it have
        chosen = np.minimum.reduceat(np.where(is_alone, places, len(places)), starts)
        chosen = joining[np.where(chosen < len(places), chosen, nearest)]
        joined, index_joined = group[chosen], index[chosen]
        first[joined] = np.minimum(first[joined], index_joined)
        last[joined] = np.maximum(last[joined], index_joined)
        is_wider = np.zeros(len(first), bool)
        is_wider[joined] = True
        is_open = is_wider[group] & ((index < first[group]) | (index > last[group]))
        group, index = group[is_open], index[is_open]
    return np.array([first, last])


def _sums_on_the_way_out(heights: Floats) -> Floats:
    """Return the sums of the windows that end at each bin, from above and from below."""
    windows = np.full((len(_WINDOWS), 2, *heights.shape), -np.inf)
    for both, size in zip(windows, _WINDOWS, strict=True):
        if size <= heights.shape[1]:
            sums = window_sums(heights, size)
            both[0, :, : sums.shape[1]] = both[1, :, size - 1 :] = sums
    return windows


def window_height(height: Floats, size: Integers | int, *, laplace: bool) -> Floats:
    """Return the height of `size` bins that is about as improbable as that of one bin."""
    if not laplace:
        return np.asarray(np.sqrt(2 * size * height))
    return np.asarray(height + (size - 1) * (0.55 + 0.09 * height))


def read_ends(look: Look, policy: BoundsPolicy) -> Integers:
    """Return the first and last bins that hold the data; -1 for groups without a core."""
    ends, middle = find_core(look, policy), look.ruler.middle
    rows = np.flatnonzero(ends[0] >= 0)
    if not len(rows):
        return ends
    look, (first, last), at = look.of(rows), ends[:, rows], np.arange(len(rows))
    while (
        is_low := (last > np.maximum(first, middle)) & (look.heights[at, last] < policy.join)
    ).any():
        last = last - is_low
    while (
        is_low := (first < np.minimum(last, middle)) & (look.heights[at, first] < policy.join)
    ).any():
        first = first + is_low
    ends[:, rows] = extend(look, first, last, policy)
    return ends


@dataclass(frozen=True, eq=False)
class Found:
    """Bounds of some groups: bins `first` to `last` of a look, and the UNITS left. Public."""

    look: Look
    first: Integers
    last: Integers
    left: Integers
    reach: Floats
    """The ends of the dyadic bounds, a row each."""
    groups: Integers
    """The numbers of the groups."""
    counted: Integers | None = None
    """The first and last bin of bounds far beyond which doublings were counted; None for bins."""

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The bounds, in units of the column: those of an outermost bin are the dyadic ones."""
        edges, at = self.look.edges, np.arange(len(self.first))
        lower, upper = edges[at, self.first], edges[at, self.last + 1]
        lower = np.where(self.first == 0, np.maximum(lower, self.reach[0]), lower)
        is_last = self.last == edges.shape[1] - 2
        return lower, np.where(is_last, np.minimum(upper, self.reach[1]), upper)

    @property
    def is_spike(self) -> Mask:
        """True if the bounds are next to nothing but the bin at a center far from zero."""
        ruler = self.look.ruler
        farthest = np.maximum(np.abs(self.first - ruler.middle), np.abs(self.last - ruler.middle))
        return ruler.is_far & (farthest <= ruler.steps)

    def of(self, rows: Integers) -> Found:
        """Return the bounds of some groups."""
        return Found(
            self.look.of(rows),
            self.first[rows],
            self.last[rows],
            self.left[rows],
            self.reach[:, rows],
            self.groups[rows],
            None if self.counted is None else self.counted[:, rows],
        )


@dataclass(frozen=True)
class PooledCounts:
    """Functions that count the pooled rows of columns again, a group a column. Secret."""

    in_fine_bins: Callable[[Integers], BinTable]
    """Function that counts some columns; the others have no rows."""
    about: Callable[[int, float], BinTable] | None
    """Function that counts a column in quarters of octaves of the distance from a center."""


def search(
    table: BinTable,
    groups: Integers,
    loss: Loss,
    policy: BoundsPolicy = POLICY,
    *,
    pooled_counts: PooledCounts | None = None,
) -> tuple[list[Found], Integers]:
    """Find the bounds of some groups of a table, each from its own counts alone.

    Return the bounds, those with rulers of one kind together, and the groups where only zeros
    stand out, which have no bounds. Values near zero need a table of dyadic bins alone. Values far
    from zero need finer bins: those of the table, or those that `pooled_counts` returns.
    """
    binning = table.binning
    assert isinstance(binning, Octaves)  # noqa: S101 the caller has made it
    dyadic, zeros = _look_at_dyadic_bins(table, groups, loss, policy)
    height, pair = _height_of_all(dyadic, policy)
    unit = find_scale(loss.noise(1, 1))
    size = 2.0 ** (np.rint(2 * np.log2(height * dyadic.look.scale / unit)) / 2)
    fine = binning.bits > 1
    steps = np.where(size < policy.finer, 1, np.where(size < 4 * policy.finer, 2, 4))
    is_far = (pair[0] < pair[1]) & (size >= policy.far_size)
    is_far &= fine or pooled_counts is not None
    is_near = ~is_far & (dyadic.left >= UNITS - _units(sum(policy.looks[:-1], Fraction(0))))
    rows = np.flatnonzero(~is_far & ~is_near)
    results = [dyadic.of(rows)] if len(rows) else []
    zooms: list[tuple[BinTable, Integers, Found, Ruler]] = []
    middle = dyadic.look.ruler.middle
    outer = np.maximum(dyadic.last - middle, middle - dyadic.first)
    low, high = np.maximum(outer - _BELOW, 0), np.minimum(outer + _BEYOND, Octaves().last)
    for rows in _classes(np.flatnonzero(is_near), steps, high - low):
        step = int(steps[rows[0]]) if fine else 1
        ends = zip(low[rows].tolist(), high[rows].tolist(), strict=True)
        starts = [ruler_about_zero(binning, *pair_of, step).starts for pair_of in ends]
        zooms.append((table, rows, dyadic.of(rows), Ruler(binning, np.stack(starts), step)))
    if is_far.any():
        distant = np.flatnonzero(is_far)
        if pooled_counts:
            table = pooled_counts.in_fine_bins(dyadic.groups[distant])
        shares = round_share(np.clip(policy.center / size, 0.01, 0.12))
        dyadic.left[distant] -= shares[distant]
        center, paid = np.zeros_like(outer), (loss, shares[distant])
        center[distant] = _select_centers(table, dyadic.groups[distant], pair[:, distant], paid)
        count_about = pooled_counts and pooled_counts.about
        for rows in distant[:, None] if count_about else _classes(distant, steps):
            result, step = dyadic.of(rows), int(steps[rows[0]])
            if count_about:
                table, ruler = _count_about(result.groups, center[rows], step, count_about)
            else:
                ruler = ruler_about(FINE, center[rows], step)
            low, high = ruler.edges[:, ruler.middle], ruler.edges[:, ruler.middle + 1]
            reach = np.stack([np.minimum(result.reach[0], low), np.maximum(result.reach[1], high)])
            zooms.append((table, rows, replace(result, reach=reach), ruler))
    results += [
        _zoom(table, result, (ruler, size[rows]), loss, policy=policy)
        for table, rows, result, ruler in zooms
    ]
    return results, zeros


def _count_about(
    column: Integers, center: Integers, steps: int, count_about: Callable[[int, float], BinTable]
) -> tuple[BinTable, Ruler]:
    """Return a column's counts about a fine bin, and a ruler whose middle is as wide as it."""
    low, high = FINE.lower(center), FINE.upper(center)
    nearer = np.where(center > 0, low, high)
    table = count_about(int(column[0]), float(nearer[0]))
    binning = table.binning
    assert isinstance(binning, Octaves)  # noqa: S101 what the function counts in
    (first,) = Octaves().numbers(Octaves().labels(high - low)).tolist()
    last = min(first + 1 + _BELOW + _BEYOND, Octaves().last)
    ruler = ruler_about_zero(binning, first, last, steps)
    return table, replace(ruler, starts=ruler.starts[None], is_far=True)


def _units(share: Fraction) -> int:
    return int(share * UNITS)


def _classes(rows: Integers, *columns: Integers) -> Iterator[Integers]:
    """Yield the rows with equal entries of some columns together."""
    order = rows[np.lexsort([column[rows] for column in columns])]
    return (order[run] for run in run_slices(*(column[order] for column in columns)))


def _look_at_dyadic_bins(
    table: BinTable, groups: Integers, loss: Loss, policy: BoundsPolicy
) -> tuple[Found, Integers]:
    """Look at the dyadic bins of each group until they show enough; see `search`."""
    assert isinstance(table.binning, Octaves)  # noqa: S101 the caller has made it
    dyadic = ruler_about_zero(table.binning, 0, Octaves().last)
    shares = [np.full(len(groups), _units(share)) for share in policy.looks]
    look = look_at(table, groups, dyadic, (loss, shares[0]))
    left, ends = UNITS - shares[0], read_ends(look, policy)
    tall = np.where(_bins_within(look, ends) & (look.heights > 5), look.heights, 0.0)
    todo = np.flatnonzero(tall.sum(axis=1) < policy.enough)
    for share in shares[1:]:
        if not len(todo):
            break
        more = look_at(table, groups[todo], dyadic, (loss, share[todo]))
        more, left[todo] = look.of(todo) + more, left[todo] - share[todo]
        look.heights[todo], look.scale[todo] = more.heights, more.scale
        ends[:, todo] = read_ends(more, policy)
        todo = todo[ends[0, todo] < 0]
    sure = exact_height(1, policy.absurd, laplace=look.laplace)
    zeros = groups[(ends[0] < 0) & (look.heights[:, dyadic.middle] > sure)]
    rows = np.flatnonzero(ends[0] >= 0)
    first, last = ends[:, rows]
    reach = np.stack([dyadic.edges[first], dyadic.edges[last + 1]])
    return Found(look.of(rows), first, last, left[rows], reach, groups[rows]), zeros


def _bins_within(look: Look, ends: Integers) -> Mask:
    bins = np.arange(look.heights.shape[1])
    return np.asarray((bins >= ends[0][:, None]) & (bins <= ends[1][:, None]))


def _zoom(
    table: BinTable,
    result: Found,
    zoom: tuple[Ruler, Floats],
    loss: Loss,
    *,
    policy: BoundsPolicy,
) -> Found:
    """Look at finer bins of groups of some sizes, and once more where rows outside may matter."""
    ruler, size = zoom
    limit = result.left - _units(LEAST_ZOOMED)
    shares = round_share(policy.zoom * np.clip((1000 / size) ** 0.33, 0.3, 1.0), limit)
    ends = np.stack(result.ends)
    before = _bins_of_ends(ruler, ends)
    counters = _count_doublings(ruler, before)
    look = look_at(table, result.groups, ruler, (loss, shares), counters)
    (first, last), left = _read_zoom(look, ends, result.reach, policy), result.left - shares
    result = replace(result, look=look, first=first, last=last, left=left, counted=before)
    again = round_share(np.full(len(left), policy.zoom), left - _units(LEAST_LEFT))
    rows = np.flatnonzero((size > 1000) & (again > 3 * UNITS // 100) & ~result.is_spike)
    if not len(rows):
        return result
    part = result.of(rows)
    noise = math.sqrt(look.variance) * measure_spreads(loss, part.left)
    outside = sum(clipping_bias(part, side, policy)[0] for side in (-1, 1))
    ends = np.stack(part.ends)
    is_doubtful = outside > policy.doubt * noise * (ends[1] - ends[0])
    rows, ends = rows[is_doubtful], ends[:, is_doubtful]
    if len(rows):
        part = result.of(rows)
        bounds = np.stack([part.first, part.last])
        paid, counters = (loss, again[rows]), _count_doublings(part.look.ruler, bounds)
        more = part.look + look_at(table, part.groups, part.look.ruler, paid, counters)
        before[:, rows] = bounds
        look.heights[rows], look.scale[rows] = more.heights, more.scale
        result.left[rows] -= again[rows]
        result.first[rows], result.last[rows] = _read_zoom(more, ends, part.reach, policy)
    return result


_APART = 1  # doublings beyond the bounds from which on a zoom counts doublings, not bins


def _count_doublings(ruler: Ruler, bounds: Integers) -> Integers:
    """Return the bin that counts each bin's rows: far from the bounds, the last of a doubling."""
    middle, steps = ruler.middle, ruler.steps
    offset = np.arange(-middle, middle + 1)
    start = (np.maximum(np.abs(offset), 1) - 1) // steps * steps + 1
    last, start = np.sign(offset) * np.minimum(start + steps - 1, middle), np.sign(offset) * start
    first_bin, last_bin = bounds - middle
    is_far = start > (last_bin + _APART * steps)[:, None]
    is_far |= start < (first_bin - _APART * steps)[:, None]
    return middle + np.where(is_far, last, offset)


def round_share(share: Floats, limit: Integers | int = UNITS) -> Integers:
    """Return shares in whole UNITS, at least one and at most `limit`."""
    units = np.maximum(np.rint(share * UNITS), 1).astype(np.int64)
    return np.asarray(np.minimum(units, limit))


def _height_of_all(result: Found, policy: BoundsPolicy) -> tuple[Floats, Integers]:
    """Return the height of all rows, and the two bins that hold nearly all if there are such.

    Bins are counted from zero; those of groups without such are equal. Many bins that are small
    beside the bounds count from a height of 8: most hold noise alone.
    """
    look, (low, high) = result.look, result.reach
    edges, middle, at = look.ruler.edges, look.ruler.middle, np.arange(len(low))
    is_inside = _bins_within(look, np.stack([result.first, result.last]))
    is_inside[:, middle] = True
    largest = np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
    reach = np.maximum(np.abs(low), np.abs(high))[:, None]
    is_inside &= (largest > reach * _NARROW) | (look.heights >= 8)
    inside = np.where(is_inside, look.heights, 0.0)
    pairs = inside[:, 1:] + inside[:, :-1]
    index, total = pairs.argmax(axis=1), np.maximum(inside.sum(axis=1), 1.0)
    slack = np.sqrt(look.variance * np.maximum(np.count_nonzero(inside, axis=1) - 2, 1))
    is_far = (index != middle - 1) & (index != middle)
    is_far &= pairs[at, index] + slack >= policy.far_fraction * total
    return total, np.stack([index, index + is_far]) - middle


def _select_centers(
    table: BinTable,
    groups: Integers,
    pair: Integers,
    paid: tuple[Loss, Integers],
) -> Integers:
    """Select the median of each group among the bins of the table within two dyadic bins."""
    assert isinstance(table.binning, Octaves)  # noqa: S101 what a search reads
    fine, is_below = 1 << (table.binning.bits - 1), pair[0] < 0
    low = np.where(is_below, pair[0] * fine, (pair[0] - 1) * fine + 1)
    high = np.where(is_below, (pair[1] + 1) * fine, pair[1] * fine + 1)
    last = table.binning.last
    start, stop = (
        np.searchsorted(table.codes, list_codes(groups, end, last)) for end in (low, high)
    )
    ranked = rank_rows(table)
    below, up_to = ranked.before[start], ranked.before[stop]
    ends = {"first": start, "stop": stop, "base": below, "size": up_to - below}
    blocks = ranked.with_ends(ends | {"low": low, "high": high})
    targets = ranked.size[groups] - 2 * (below - ranked.base[groups])  # twice the rank in a block
    (loss, shares), centers = paid, np.zeros(len(low), np.int64)
    for share in list_distinct(shares).tolist():
        rows = np.flatnonzero(shares == share)
        law = loss.share(Fraction(share, UNITS)).selection(sensitivity=1)
        centers[rows] = select_rank(blocks.part(rows), targets[rows], law)
    return centers


def _read_zoom(zoom: Look, ends: Floats, reach: Floats, policy: BoundsPolicy) -> Integers:
    """Return the bins that hold the data; those of the bounds so far if the zoom shows none.

    The outermost bins are open: they hold data as far as the dyadic bounds reach, if these do.
    """
    bins, edges, last = read_ends(zoom, policy), zoom.edges, zoom.heights.shape[1] - 1
    first_bin = np.where(reach[0] < edges[:, 1], 0, 1)
    last_bin = np.where(reach[1] > edges[:, last], last, last - 1)
    bins = np.where(bins < 0, _bins_of_ends(zoom.ruler, ends), bins)
    return np.clip(bins, first_bin, last_bin)


def _bins_of_ends(ruler: Ruler, ends: Floats) -> Integers:
    """Return the first and the last bin that bounds reach."""
    edges, last = ruler.edges, ruler.edges.shape[-1] - 2
    first = np.maximum((edges <= ends[0][:, None]).sum(axis=1) - 1, 0)
    before = (edges < ends[1][:, None]).sum(axis=1) - 1
    return np.stack([np.minimum(first, last), np.minimum(np.maximum(before, first), last)])


def clipping_bias(
    result: Found, side: int, policy: BoundsPolicy = POLICY
) -> tuple[Floats, Floats, Notes]:
    """Return the distances, and their squares, that rows beyond one end may add up to, and notes.

    The next doubling has a noisy count. Further out rows are taken to fall at least as fast as
    anywhere on the way from the middle to the end. A note is empty where that can be relied on.
    """
    heights, edges, reach = result.look.heights, result.look.edges, result.reach
    bounds = np.stack([result.first, result.last])
    if side < 0:  # mirrored: what is below the bounds lies above them then
        heights, edges, reach = heights[:, ::-1], -edges[:, ::-1], -reach[::-1]
        bounds = heights.shape[1] - 1 - bounds[::-1]
    first, last = bounds
    (groups, bins), variance = heights.shape, result.look.variance
    at, places, scale = np.arange(groups), np.arange(bins), result.look.scale[:, None]
    low, high = edges[at, first][:, None], edges[at, last + 1][:, None]
    is_wide, steps = np.diff(edges) >= (high - low) * _NARROW, result.look.ruler.steps
    fall, is_heavy = _read_fall(result, heights, is_wide, bounds, policy)
    out, count = _pack_places(is_wide & (places > last[:, None]))
    is_out = places < count
    shown = np.where(is_out, np.take_along_axis(heights, out, 1), 0.0)
    chances = [0.01 / many for many in (1, *range(1, bins + 1))]  # by the number of bins
    single, double = (
        np.array([exact_height(terms, chance, laplace=result.look.laplace) for chance in chances])
        for terms in (1, 2)
    )
    is_beyond = ((shown[:, 1:] > single[count]) & is_out[:, 1:]).any(axis=1)
    is_beyond |= ((shown[:, 1:-1] + shown[:, 2:] > double[count]) & is_out[:, 2:]).any(axis=1)
    is_beyond |= (last == bins - 2) & (heights[:, -1] > single[1])  # in the open bin
    is_beyond |= _has_scattered_rows(result, heights, bounds, side)
    falls = fall[:, None] ** (places / steps)
    seen = np.maximum(shown[:, :steps].sum(axis=1), 0.0)
    seen += policy.careful * math.sqrt(variance * steps)
    first_falls = np.where(is_out, falls, 0.0)[:, :steps].sum(axis=1)
    rows = scale * (seen / np.maximum(first_falls, 1e-300))[:, None] * falls
    rows = np.where(is_out & (rows >= 0.02), rows, 0.0)
    is_heavy &= (rows > 0).any(axis=1)
    notes = np.where(is_beyond, "rows beyond", np.where(is_heavy, "heavy tail", ""))
    has_end = is_out & (out < bins - 1)  # the outermost bin has none
    rows = np.where(has_end, rows, 0.0)
    start_gap = np.take_along_axis(edges, out, 1) - high
    end_gap = np.take_along_axis(edges, out + 1, 1) - high
    distance = np.where(has_end, start_gap + MIDDLE * (end_gap - start_gap), 0.0)
    is_near = (places > last[:, None]) & (edges[:, :-1] < reach[1][:, None])
    is_near &= edges[:, 1:] > reach[0][:, None]
    farthest = np.clip(edges[:, 1:] - high, 0.0, (reach[1] - reach[0])[:, None])
    of_spike = np.where(is_near, scale * np.maximum(heights + 1.5, 0.2), 0.0)
    sums = [
        np.where(
            result.is_spike,
            (of_spike * farthest**power).sum(axis=1),
            _plausible(rows, distance**power),
        )
        for power in (1, 2)
    ]
    notes = np.where(count[:, 0] > 0, notes, "").astype(object)
    return sums[0], sums[1], np.where(result.is_spike, "a spike: other rows may lie outside", notes)


def clipping_biases(result: Found, policy: BoundsPolicy) -> tuple[Floats, Notes, Notes]:
    """Return four sums of rows beyond the bounds, by group, and the notes below and above.

    The sums are the distances and their squares below the bounds, then those above.
    """
    below, above = (clipping_bias(result, side, policy) for side in (-1, 1))
    return np.stack([*below[:2], *above[:2]]), below[2], above[2]


_SCATTERED = (1, 2, 4, 8)
"""Numbers of doublings in which rows far beyond the bounds are counted together."""


def _has_scattered_rows(result: Found, heights: Floats, bounds: Integers, side: int) -> Mask:
    """Mask groups with more rows in some doublings far beyond an end than noise makes.

    The mean of two looks, of bins and of doublings, has 1.12 times the deviation of the second.
    """
    bins, steps = heights.shape[1], result.look.ruler.steps
    last, terms, wider = bounds[1], steps, 1.0
    if result.counted is not None:
        ends = result.counted[1] if side > 0 else bins - 1 - result.counted[0]
        last, terms, wider = np.maximum(last, ends), 1, 1.12
    is_far = np.arange(bins) > (last + _APART * steps + steps - 1)[:, None]
    outer, chance = np.where(is_far, heights, 0.0), 0.01 / (len(_SCATTERED) * bins / steps)
    windows = {doublings * steps: doublings * terms for doublings in _SCATTERED}
    return has_tall_window(outer / wider, windows, chance, laplace=result.look.laplace)


def _plausible(rows: Floats, distances: Floats) -> Floats:
    """Return sums of the distances of each group's rows that independent rows rarely exceed."""
    squares = np.minimum((rows * distances**2).sum(axis=1), 1e300)
    return np.asarray((rows * distances).sum(axis=1) + 1.65 * np.sqrt(squares))


def _read_fall(
    result: Found, heights: Floats, is_wide: Mask, bounds: Integers, policy: BoundsPolicy
) -> tuple[Floats, Mask]:
    """Return which fraction of its rows each tail keeps a doubling, and which tails are heavy."""
    middle, steps, variance = (
        result.look.ruler.middle,
        result.look.ruler.steps,
        result.look.variance,
    )
    at, places = np.arange(len(heights)), np.arange(heights.shape[1])
    is_inner = is_wide & (places >= np.maximum(middle, bounds[0])[:, None])
    inner, count = _pack_places(is_inner & (places <= bounds[1][:, None] + steps))
    shown = np.where(places < count, np.take_along_axis(heights, inner, 1), 0.0)
    tail = np.cumsum(shown[:, ::-1], axis=1)[:, ::-1]
    deviation = np.sqrt(variance * np.maximum(count - places, 0))
    is_sure = (places < count - steps) & (tail - policy.careful * deviation > 6)
    ratios = np.maximum(is_sure.sum(axis=1, keepdims=True) / 2, 1)  # neighbors share their noise
    doubt = np.sqrt(policy.careful**2 + 2 * np.log(ratios)) * deviation  # of the least of them
    further, further_doubt = np.zeros((2, *tail.shape))
    further[:, :-steps], further_doubt[:, :-steps] = tail[:, steps:], doubt[:, steps:]
    is_sure &= tail - doubt > 6
    ratio = (np.maximum(further, 0.0) + further_doubt) / np.where(is_sure, tail - doubt, 1.0)
    ratio = np.where(is_sure, np.maximum(ratio, _FASTEST_FALL), SLOWEST_FALL)
    largest = np.where((places < count) & (inner != middle), tail, 0.0).max(axis=1, initial=0.0)
    is_inside = (places >= bounds[0][:, None]) & (places <= bounds[1][:, None])
    total = np.where(is_inside, heights, 0.0).sum(axis=1)
    is_heavy = np.zeros(len(heights), bool)
    for lowest, rare in ((16.0, 0.15 * largest), (100.0, 0.03 * total)):
        is_rare = (places < count - steps) & (tail > lowest) & (tail < rare[:, None])
        end = len(places) - 1 - is_rare[:, ::-1].argmax(axis=1)
        before = np.maximum(end - steps, 0)
        weight = tail[at, before] < rare
        remaining = further[at, end] + weight * further[at, before]
        rows = np.maximum(tail[at, end] + weight * tail[at, before], 1.0)
        is_heavy |= is_rare.any(axis=1) & (remaining > policy.heavy * rows)
    return ratio.min(axis=1, initial=SLOWEST_FALL), is_heavy


def _pack_places(mask: Mask) -> tuple[Integers, Integers]:
    """Return the places of each row, those in a mask first, and how many these are."""
    return np.argsort(~mask, axis=1, kind="stable"), mask.sum(axis=1)[:, None]


@dataclass(frozen=True, eq=False)
class FoundBounds:
    """The bounds of each group of a table, NaN without bounds. Public but for the table.

    `zeros` marks groups of which only zeros stand out. `left` is the share of the loss that is
    left, in UNITS. `bias` has four rows: the distances of the rows below the bounds, their squares,
    and those above, as `clipping_bias` bounds them. A note says that the bias can't be relied on.
    `outer` has the noisy counts of groups far beyond the bounds of all.
    """

    table: BinTable
    lower: Floats
    upper: Floats
    zeros: Mask
    left: Integers
    bias: Floats
    notes: Notes
    outer: OuterCounts | None = None

    @classmethod
    def unknown(cls, table: BinTable, left: Fraction) -> FoundBounds:
        """Return no bounds for any group."""
        groups = table.groups
        lower, upper = np.full((2, groups), np.nan)
        units = np.full(groups, int(left * UNITS), np.int64)
        notes = np.full(groups, None, object)
        bias = np.zeros((4, groups))
        return cls(table, lower, upper, np.zeros(groups, bool), units, bias, notes)

    def of(self, groups: slice, table: BinTable) -> FoundBounds:
        """Return the bounds of some groups, which are those of another table."""
        ends, bias = (self.lower[groups], self.upper[groups]), self.bias[:, groups]
        zeros, left, notes = self.zeros[groups], self.left[groups], self.notes[groups]
        return FoundBounds(table, *ends, zeros, left, bias, notes)

    @property
    def is_found(self) -> Mask:
        """Mask of groups with bounds."""
        return ~np.isnan(self.lower)

    def list_notes(self, groups: Integers) -> list[str | None]:
        """Return the notes of groups; bounds up to the largest value may hold infinite ones."""
        notes = list(self.notes[groups])
        has_largest = np.maximum(-self.lower[groups], self.upper[groups]) >= LARGEST_VALUE
        for index in np.flatnonzero(has_largest):
            notes[index] = join_notes((notes[index], "values may be infinite"))
        return notes


_AT_ONCE = 2**11  # groups that are searched together: their looks fit into memory


def find_bounds(
    table: BinTable,
    loss: Loss,
    policy: BoundsPolicy = POLICY,
) -> FoundBounds:
    """Find the bounds of each group of a table by itself, whichever other groups there are."""
    bounds = FoundBounds.unknown(table, 1 - sum(policy.looks, Fraction(0)))
    for part in table.parts(_AT_ONCE):
        results, zeros = search(table, np.array(part, np.int64), loss, policy)
        bounds.zeros[zeros] = True
        for result in results:
            groups, ends = result.groups, result.ends
            bounds.left[groups] = result.left
            bounds.lower[groups], bounds.upper[groups] = move_ends(*ends)
            bounds.bias[:, groups], below, above = clipping_biases(result, policy)
            for row in np.flatnonzero((below != "") | (above != "")).tolist():
                low, high = float(ends[0][row]), float(ends[1][row])
                bounds.notes[groups[row]] = write_note(below[row], above[row], (low, high))
    return bounds


def find_column_bounds(
    tables: Sequence[BinTable], loss: Loss, policy: BoundsPolicy = POLICY
) -> list[FoundBounds]:
    """Find the bounds of some columns at once. A table has the rows of one column as one group."""
    joined = find_bounds(stack(tables, range(len(tables)), len(tables)), loss, policy)
    return [joined.of(slice(column, column + 1), table) for column, table in enumerate(tables)]


def move_ends(lower: Floats | float, upper: Floats | float) -> tuple[Floats, Floats]:
    """Return ends that are multiples of the grid's step: none much nearer to zero than wide.

    Ends that are equal, as those of the bin of zero are, move apart.
    """
    low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    distance = np.maximum(np.abs(low) * NARROWEST, _LEAST_WIDTH)
    high = np.where(high > low, high, low + distance)
    narrow = np.ldexp(NARROWEST, np.frexp(high - low)[1])
    low = np.where((low > 0) & (low < narrow), 0.0, low)
    low = np.where((low < 0) & (low > -narrow), -narrow, low)
    high = np.where((high < 0) & (high > -narrow), 0.0, high)
    high = np.where((high > 0) & (high < narrow), narrow, high)
    return low, high


def write_note(below: str, above: str, ends: tuple[float, float]) -> str | None:
    """Return the note of bounds beyond which rows can't be accounted for."""
    sides = [
        (f"{side} {end:g}", note)
        for side, end, note in zip(("below", "above"), ends, (below, above), strict=True)
        if note
    ]
    if not sides:
        return None
    return f"clipped {' and '.join(side for side, _ in sides)}: {sides[-1][1]}"


def find_dyadic_bounds(table: BinTable, loss: Loss) -> FoundBounds:
    """Find the bounds of each group of a table of dyadic bins by one look that has all the loss.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from dfprivacy.measurement.bin_table import bin_table
    >>> values, rows = np.array([3.0, 90.0]), np.array([1000, 1000])
    >>> group, labels = np.zeros(2, np.int64), Octaves().labels(values)
    >>> table = bin_table(pa.table({}), 1, Octaves(), group, labels, rows=rows)
    >>> bounds = find_dyadic_bounds(table, Epsilon(Fraction(30)))
    >>> bounds.lower.tolist(), bounds.upper.tolist()
    ([2.0], [128.0])
    """
    bounds = FoundBounds.unknown(table, Fraction(0))
    ruler = ruler_about_zero(table.binning, 0, Octaves().last)
    sure = exact_height(1, POLICY.absurd, laplace=is_laplace(loss.noise(1, 1)))
    for part in table.parts(_AT_ONCE):
        groups = np.array(part, np.int64)
        look = look_at(table, groups, ruler, (loss, np.full(len(groups), UNITS)))
        ends = read_ends(look, POLICY)
        is_found = ends[0] >= 0
        bounds.zeros[groups] = ~is_found & (look.heights[:, ruler.middle] > sure)
        first, last = ends[:, is_found]
        edges = move_ends(ruler.edges[first], ruler.edges[last + 1])
        bounds.lower[groups[is_found]], bounds.upper[groups[is_found]] = edges
    return bounds


OCTAVES_OF_ROWS = 3  # number of octaves over which forecasts take the rows of a column to be spread


def rows_for_bounds(noise: Noise) -> int:
    """Return the noisy count of one dyadic bin that is a core by itself."""
    probability = POLICY.absurd / (2 * Octaves().last + 1) / _WINDOWS_OF_BIN
    height = exact_height(1, probability, laplace=is_laplace(noise))
    return math.ceil(height * find_scale(noise))
