"""Search for bounds of a column privately: noisy histograms on public rulers.

One row more or less changes one count of a histogram by 1, so that noise for a sensitivity of 1
pays for all of it. Every rule reads noisy counts and costs nothing more. A whole frame is looked at
in dyadic bins, then once more around zero or a private median. By group the pooled rows are
searched, and each group's own noisy counts choose how much of the pooled bounds the group needs.
docs/explanation/octaves.md has the proof; benchmarks/honesty.py and benchmarks/bounds.py measure
the policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.laws import Noise, is_laplace, spread_of
from dfprivacy.statistics.estimators.quantile import ranked_rows, select_rank

Mask = npt.NDArray[np.bool_]
Loss = Epsilon | Rho

UNITS = 400
"""Shares of a loss are multiples of one over this."""


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
LEAST_LEFT = Fraction(2, 5)
"""Share that is left for the answers about data near zero, at least."""
LOOK_SHARE = Fraction(3, 8)
"""Share of a single look at dyadic bins, where these are the bounds."""
SLOWEST_FALL, _FASTEST_FALL = 0.45, 0.02  # fractions of rows that unseen tails keep a doubling
_NARROW = 1 / 64  # bins narrower than so many widths of the bounds tell no tail
MIDDLE = 0.44  # where in its bin a row of a falling tail lies, on average
_BELOW, _BEYOND = 12, 12  # doublings of a ruler on either side of the dyadic bounds
NARROWEST = 2.0**-16
"""Widths: an end nearer to zero is moved, so that it is a multiple of the grid's step."""


@dataclass(frozen=True, eq=False)
class Ruler:
    """Public bins around a center, as runs of bins of a table.

    Bin i holds the table's bins from `starts[i]` until before `starts[i + 1]`. On either side of
    the `middle` bin, `steps` bins double the distance from the center.
    """

    binning: Octaves
    starts: Integers
    steps: int
    about: int | None = None
    """The table's bin at the center; None for zero."""

    @property
    def middle(self) -> int:
        """The bin at the center."""
        return len(self.starts) // 2 - 1

    @cached_property
    def edges(self) -> Floats:
        """The ends of the bins, in units of the column."""
        last = self.binning.last
        ends = self.binning.lower(np.minimum(self.starts, last))
        return np.where(self.starts > last, self.binning.upper(np.array([last])), ends)

    def count(self, table: BinTable) -> Integers:
        """Return the rows of one group's table in each bin. Secret."""
        before = np.append(0, np.cumsum(table.rows))
        return np.asarray(np.diff(before[np.searchsorted(table.bins, self.starts)]), np.int64)


@lru_cache(maxsize=256)  # public arguments only
def ruler_about_zero(binning: Octaves, first: int, last: int, steps: int = 1) -> Ruler:
    """Return a ruler about zero: bins from the dyadic bin `first` to `last`, inner bins as one."""
    fine = 1 << (binning.bits - 1)
    numbers = range(first * steps, last * steps + 1)
    up = np.array([number * fine // steps for number in numbers], np.int64)
    up[-1] = binning.last
    return Ruler(binning, np.concatenate([-up[::-1], up + 1]), steps)


def ruler_about(binning: Octaves, center: int, steps: int = 1) -> Ruler:
    """Return a ruler about one of the table's bins, which doubles the width of that bin."""
    at = np.array([center])
    low, high = binning.lower(at), binning.upper(at)
    powers = 2.0 ** np.arange(2 + _BELOW + _BEYOND)[:, None]
    sizes = np.append((powers * (1 + np.arange(steps) / steps)).reshape(-1), powers[-1] * 2)
    sizes *= high - low
    up = binning.numbers(binning.labels(high + sizes))
    down = binning.numbers(binning.labels(low - sizes))
    down += binning.upper(down) <= low - sizes
    up, down = np.maximum(up, center), np.minimum(down, center)
    up[-1], down[-1] = binning.last, -binning.last
    return Ruler(binning, np.concatenate([down[::-1], at, at + 1, up + 1]), steps, center)


@dataclass(frozen=True, eq=False)
class Look:
    """Noisy counts of a ruler's bins, in units of `scale` rows. Public."""

    ruler: Ruler
    heights: Floats
    scale: float
    laplace: bool = True

    @property
    def variance(self) -> float:
        """The variance of the noise of a height."""
        return 2.0 if self.laplace else 1.0

    def __add__(self, other: Look) -> Look:
        """Return the average of two looks on one ruler, weighted by their precision."""
        weights = self.scale**-2, other.scale**-2
        scale = (weights[0] + weights[1]) ** -0.5
        mean = self.heights * self.scale * weights[0] + other.heights * other.scale * weights[1]
        return replace(self, heights=mean * scale, scale=scale)


def look_at(table: BinTable, ruler: Ruler, loss: Loss, entropy: EntropySource) -> Look:
    """Add noise for a sensitivity of 1 to the counts of a ruler's bins."""
    noise = loss.noise(1, 1)
    noisy = add_to(ruler.count(table), noise, entropy).astype(np.float64)
    scale = spread_of(noise)
    return Look(ruler, noisy / scale, scale, is_laplace(noise))


@lru_cache(maxsize=4096)  # public arguments only
def rare_height(terms: int, probability: float, *, laplace: bool) -> float:
    """Return a height that a sum of noisy empty counts exceeds with at most this probability."""
    surprise = -math.log(probability)
    if not laplace:
        return math.sqrt(2 * terms * max(surprise - math.log(2), 0.0))
    if terms == 1:
        return surprise - math.log(2)
    rate = np.linspace(0.02, 0.995, 400)  # Chernoff: the least bound over these rates
    return float(np.min((surprise - terms * np.log1p(-rate * rate)) / rate))


def find_core(look: Look, policy: BoundsPolicy) -> tuple[int, int] | None:
    """Return the first and last bin of the shortest window that noise alone does not make.

    Windows have one sign, or mirrored bins of both signs. The bin of zero is no core by itself.
    """
    ruler, middle, bins = look.ruler, look.ruler.middle, len(look.heights)
    probability = policy.absurd / bins / 2
    if ruler.about is not None:
        kinds = [[(look.heights, 0, 1)]]
    else:
        below, above = look.heights[:middle], look.heights[middle + 1 :]
        kinds = [[(below, 0, 1), (above, middle + 1, 1)], [(above + below[::-1], -1, 2)]]
    for size in (1, 2, 4, 8):
        for parts in kinds:
            best = (0.0, 0, 0)
            for heights, offset, terms in parts:
                sums = np.convolve(heights, np.ones(size), "valid")
                index = int(np.argmax(sums))
                need = rare_height(terms * size, probability, laplace=look.laplace)
                if sums[index] >= max(need, best[0]):
                    best = float(sums[index]), offset, index
            height, offset, index = best
            if height and offset < 0:
                return middle - index - size, middle + index + size
            if height:
                return offset + index, offset + index + size - 1
    return None


def extend(look: Look, first: int, last: int, policy: BoundsPolicy) -> tuple[int, int]:
    """Join bins outwards, nearest first, that are taller than the width they add is worth."""
    heights, edges, bins = look.heights, look.ruler.edges, len(look.heights)
    sides, middle = [-1, 1], look.ruler.middle
    while sides:
        side = sides.pop(0)
        outer = np.arange(last + 1, bins) if side > 0 else np.arange(first - 1, -1, -1)
        if not len(outer):
            continue
        width = edges[last + 1] - edges[first]
        new = edges[outer + 1] - edges[first] if side > 0 else edges[last + 1] - edges[outer]
        wider = np.log2(np.maximum(new / max(width, 1e-300), 1.0))
        gap = np.log(np.maximum(np.arange(1, len(outer) + 1), look.ruler.steps))
        need = policy.join + policy.doubling * (wider + np.maximum(wider - 2, 0)) + gap
        if look.ruler.about is None and (first > middle if side < 0 else last < middle):
            need += policy.doubling * (side * (outer - middle) > 0)  # of another sign than all
        before = np.append(0.0, np.cumsum(heights[outer]))
        joins = np.zeros(len(outer), bool)
        for size in (1, 2, 4):
            if size > len(outer):
                break
            sure = rare_height(size, policy.absurd / bins / 6, laplace=look.laplace)
            tall = np.minimum(window_height(need, size, laplace=look.laplace), sure)
            joins[size - 1 :] |= before[size:] - before[:-size] >= tall[size - 1 :]
        joins &= heights[outer] >= 1
        if joins.any():
            index = int(outer[np.argmax(joins)])
            first, last = (first, index) if side > 0 else (index, last)
            sides = [-1, 1]
    return first, last


def window_height(height: Floats, size: int, *, laplace: bool) -> Floats:
    """Return the height of `size` bins that is about as improbable as that of one bin."""
    if not laplace:
        return np.sqrt(2 * size * height)
    return height + (size - 1) * (0.55 + 0.09 * height)


def read_ends(look: Look, policy: BoundsPolicy) -> tuple[int, int] | None:
    """Return the first and last bin that hold the data; None without a core."""
    core = find_core(look, policy)
    if core is None:
        return None
    (first, last), middle, heights = core, look.ruler.middle, look.heights
    while last > max(first, middle) and heights[last] < policy.join:
        last -= 1
    while first < min(last, middle) and heights[first] < policy.join:
        first += 1
    return extend(look, first, last, policy)


@dataclass(frozen=True, eq=False)
class Found:
    """Bounds of one group: bins `first` to `last` of a look, and the share that is left. Public."""

    look: Look
    first: int
    last: int
    left: Fraction
    reach: tuple[float, float]
    """The ends of the dyadic bounds."""
    table: BinTable

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds, in units of the column."""
        edges = self.look.ruler.edges
        return float(edges[self.first]), float(edges[self.last + 1])

    @property
    def is_spike(self) -> bool:
        """True if the bounds are next to nothing but the bin at a center far from zero."""
        middle, steps = self.look.ruler.middle, self.look.ruler.steps
        farthest = max(abs(self.first - middle), abs(self.last - middle))
        return self.look.ruler.about is not None and farthest <= steps


def search(
    table: BinTable,
    loss: Loss,
    policy: BoundsPolicy = POLICY,
    finer: Callable[[], BinTable] | None = None,
    entropy: EntropySource = system_entropy,
) -> Found | bool:
    """Find the bounds of a table of one group; without any, return if only zeros stand out.

    A table of dyadic bins is enough near zero. `finer` returns the table of finer bins of data that
    are far from zero.
    """
    binning = table.binning
    assert isinstance(binning, Octaves)  # noqa: S101 the caller has made it
    dyadic = ruler_about_zero(binning, 0, Octaves().last)
    look = look_at(table, dyadic, loss.share(policy.looks[0]), entropy)
    left, ends = 1 - policy.looks[0], read_ends(look, policy)
    tall = look.heights[ends[0] : ends[1] + 1] if ends else look.heights[:0]
    if tall[tall > 5].sum() < policy.enough:
        for share in policy.looks[1:]:
            look, left = look + look_at(table, dyadic, loss.share(share), entropy), left - share
            ends = read_ends(look, policy)
            if ends:
                break
    if ends is None:
        sure = rare_height(1, policy.absurd, laplace=look.laplace)
        return bool(look.heights[dyadic.middle] > sure)
    height, pair = _height_of_all(look, ends, policy)
    unit = spread_of(loss.noise(1, 1))
    size = 2.0 ** (round(2 * math.log2(height * look.scale / unit)) / 2)
    first, last = ends
    reach = float(dyadic.edges[first]), float(dyadic.edges[last + 1])
    result = Found(look, first, last, left, reach, table)
    fine = binning.bits > 1
    if pair is not None and size >= policy.far_size and (fine or finer):
        table = finer() if finer and not fine else table
        assert isinstance(table.binning, Octaves)  # noqa: S101 the caller has made it
        share = round_share(min(max(policy.center / size, 0.01), 0.12))
        center, left = _select_center(table, pair, loss.share(share), entropy), left - share
        ruler = ruler_about(table.binning, center, _steps(size, policy))
        ends_of_center = ruler.edges[ruler.middle], ruler.edges[ruler.middle + 1]
        reach = min(reach[0], ends_of_center[0]), max(reach[1], ends_of_center[1])
    elif left < 1 - sum(policy.looks[:-1], Fraction(0)):
        return result
    else:
        outer = max(last - dyadic.middle, dyadic.middle - first)
        ruler = ruler_about_zero(
            binning,
            max(outer - _BELOW, 0),
            min(outer + _BEYOND, Octaves().last),
            _steps(size, policy) if fine else 1,
        )
    share = round_share(
        policy.zoom * min(max((1000 / size) ** 0.33, 0.3), 1.0), left - LEAST_ZOOMED
    )
    zoom, left = look_at(table, ruler, loss.share(share), entropy), left - share
    result = Found(zoom, *_read_zoom(zoom, result.ends, policy), left, reach, table)
    again = round_share(policy.zoom, left - LEAST_LEFT)
    if size > 1000 and again > Fraction(3, 100) and not result.is_spike:
        noise = math.sqrt(zoom.variance) * spread_of(loss.share(left).noise(1, 1))
        outside = sum(clipping_bias(result, side, policy)[0] for side in (-1, 1))
        if outside > policy.doubt * noise * (result.ends[1] - result.ends[0]):
            zoom, left = zoom + look_at(table, ruler, loss.share(again), entropy), left - again
            result = Found(zoom, *_read_zoom(zoom, result.ends, policy), left, reach, table)
    return result


def round_share(share: float, limit: Fraction = Fraction(1)) -> Fraction:
    """Return a share in whole UNITS, at least one and at most `limit`."""
    return min(Fraction(max(round(share * UNITS), 1), UNITS), limit)


def _steps(size: float, policy: BoundsPolicy) -> int:
    return 1 if size < policy.finer else 2 if size < 4 * policy.finer else 4


def _height_of_all(
    look: Look, ends: tuple[int, int], policy: BoundsPolicy
) -> tuple[float, tuple[int, int] | None]:
    """Return the height of all rows, and the two bins that hold nearly all if there are such.

    Many bins that are small beside the bounds count from a height of 8: most hold noise alone.
    """
    edges, middle = look.ruler.edges, look.ruler.middle
    inside = np.zeros_like(look.heights)
    inside[ends[0] : ends[1] + 1] = look.heights[ends[0] : ends[1] + 1]
    inside[middle] = look.heights[middle]
    largest = np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
    reach = max(abs(float(edges[ends[0]])), abs(float(edges[ends[1] + 1])))
    small = largest <= reach * _NARROW
    inside[small & (inside < 8)] = 0
    pairs = inside[1:] + inside[:-1]
    index, total = int(np.argmax(pairs)), max(float(inside.sum()), 1.0)
    slack = math.sqrt(look.variance * max(int(np.count_nonzero(inside)) - 2, 1))
    is_far = (
        index not in {middle - 1, middle} and pairs[index] + slack >= policy.far_fraction * total
    )
    return total, (index - middle, index + 1 - middle) if is_far else None


def _select_center(
    table: BinTable, pair: tuple[int, int], loss: Loss, entropy: EntropySource
) -> int:
    """Select the middle row among the bins of two dyadic bins, as far as it lies in these."""
    assert isinstance(table.binning, Octaves)  # noqa: S101 what a search reads
    fine = 1 << (table.binning.bits - 1)
    first, last = (pair[0] - 1) * fine + 1, pair[1] * fine
    if pair[0] < 0:
        first, last = pair[0] * fine, (pair[1] + 1) * fine - 1
    start, stop = np.searchsorted(table.bins, [[first], [last + 1]])
    ranked = ranked_rows(table)
    below, up_to = ranked.before[start], ranked.before[stop]
    ends = {"first": start, "stop": stop, "base": below, "size": up_to - below}
    block = ranked.with_ends(ends | {"low": np.array([first]), "high": np.array([last + 1])})
    target = ranked.totals() - 2 * below  # twice the rank of the middle row in the block
    return int(select_rank(block, target, loss.selection(sensitivity=1), entropy)[0])


def _read_zoom(zoom: Look, ends: tuple[float, float], policy: BoundsPolicy) -> tuple[int, int]:
    """Return the bins that hold the data; those of the bounds so far if the zoom shows none."""
    bins, edges = read_ends(zoom, policy), zoom.ruler.edges
    if bins is not None:
        return bins
    first = int(np.searchsorted(edges, ends[0], "right")) - 1
    last = int(np.searchsorted(edges, ends[1], "left")) - 1
    return max(first, 0), min(max(last, first, 0), len(edges) - 2)


def clipping_bias(
    result: Found, side: int, policy: BoundsPolicy = POLICY
) -> tuple[float, float, str]:
    """Return the distances, and their squares, that rows beyond one end may add up to, and a note.

    The next doubling has a noisy count. Further out rows are taken to fall at least as fast as
    anywhere on the way from the middle to the end. The note is empty where that can be relied on.
    """
    if result.is_spike:
        return _spike_bias(result, side)
    h, b, ruler = result.look.heights, result.look.scale, result.look.ruler
    middle, steps, edges, variance = ruler.middle, ruler.steps, ruler.edges, result.look.variance
    first, last = result.first, result.last
    low, high = result.ends
    width = high - low
    out = np.arange(last + 1, len(h)) if side > 0 else np.arange(first - 1, -1, -1)
    wide = edges[1:] - edges[:-1] >= width * _NARROW
    out = out[wide[out]]
    if not len(out):
        return 0.0, 0.0, ""
    start_gap = edges[out] - high if side > 0 else low - edges[out + 1]
    end_gap = edges[out + 1] - high if side > 0 else low - edges[out]
    start, end = (max(middle, first), last) if side > 0 else (min(middle, last), first)
    inner = np.arange(start, end + side * (steps + 1), side)
    inner = inner[(inner >= 0) & (inner < len(h))]
    inner = inner[wide[inner]]
    tail = np.cumsum(h[inner][::-1])[::-1]
    doubt = policy.careful * np.sqrt(variance * np.arange(len(inner), 0, -1))
    fall, ratio_of_tail, rare = (
        SLOWEST_FALL,
        0.0,
        0.15 * float(tail[inner != middle].max(initial=0.0)),
    )
    for index in range(len(inner) - steps):
        rows, further = tail[index], tail[index + steps]
        if rows - doubt[index] > 6:
            ratio = (max(further, 0.0) + doubt[index + steps]) / (rows - doubt[index])
            fall = min(fall, max(ratio, _FASTEST_FALL))
        if 16 < rows < rare:
            pair = [index, max(index - steps, 0)]
            pair = pair if tail[pair[1]] < rare else pair[:1]
            ratio_of_tail = float(sum(tail[at + steps] for at in pair) / sum(tail[pair]))
    unlikely, laplace = 0.005 / len(out), result.look.laplace
    single = (h[out[1:]] > rare_height(1, unlikely, laplace=laplace)).any()
    double = (h[out[1:-1]] + h[out[2:]] > rare_height(2, unlikely, laplace=laplace)).any()
    note = (
        "rows beyond" if single or double else "heavy tail" if ratio_of_tail > policy.heavy else ""
    )
    falls = fall ** (np.arange(len(out)) / steps)
    seen = max(float(h[out[:steps]].sum()), 0.0) + policy.careful * math.sqrt(variance * steps)
    rows_of_bin = b * seen * falls / falls[:steps].sum()
    is_last = (out == 0) | (out == len(h) - 1)  # the outermost bin has no end of its own
    rows_of_bin = np.where((rows_of_bin < 0.02) | is_last, 0.0, rows_of_bin)
    distance = start_gap + MIDDLE * (end_gap - start_gap)
    return *_plausible(rows_of_bin, distance), note


def _plausible(rows: Floats, distance: Floats) -> tuple[float, float]:
    """Return sums of distances and of their squares that independent rows rarely exceed."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = [
            (rows * power).sum() + 1.65 * math.sqrt(min((rows * power**2).sum(), 1e300))
            for power in (distance, distance**2)
        ]
    return float(sums[0]), float(sums[1])


def _spike_bias(result: Found, side: int) -> tuple[float, float, str]:
    """Return the bias of bounds at a center: rows may lie anywhere in the dyadic bounds."""
    edges, (low, high), h = result.look.ruler.edges, result.reach, result.look.heights
    lower, upper = result.ends
    out = np.arange(result.last + 1, len(h)) if side > 0 else np.arange(result.first)
    out = out[(edges[out] < high) & (edges[out + 1] > low)]
    distance = edges[out + 1] - upper if side > 0 else lower - edges[out]
    distance = np.minimum(np.maximum(distance, 0.0), high - low)
    rows = result.look.scale * np.maximum(h[out] + 1.5, 0.2)
    sums = float((rows * distance).sum()), float((rows * distance**2).sum())
    return *sums, "a spike: other rows may lie outside"


@dataclass(frozen=True, eq=False)
class FoundBounds:
    """The bounds of each group of a table, NaN without bounds. Public but for the table.

    `zeros` marks groups of which only zeros stand out. `left` is the share of the loss that is
    left, in UNITS. `bias` has four rows: the distances of the rows below the bounds, their squares,
    and those above, as `clipping_bias` bounds them. A note says that the bias can't be relied on.
    """

    table: BinTable
    lower: Floats
    upper: Floats
    zeros: Mask
    left: Integers
    bias: Floats
    notes: npt.NDArray[np.object_]

    @classmethod
    def unknown(cls, table: BinTable, left: Fraction) -> FoundBounds:
        """Return no bounds for any group."""
        groups = table.groups
        lower, upper = np.full((2, groups), np.nan)
        units = np.full(groups, int(left * UNITS), np.int64)
        notes = np.full(groups, None, object)
        bias = np.zeros((4, groups))
        return cls(table, lower, upper, np.zeros(groups, bool), units, bias, notes)

    @property
    def is_found(self) -> Mask:
        """Mask of groups with bounds."""
        return ~np.isnan(self.lower)


def find_bounds(
    table: BinTable,
    loss: Loss,
    policy: BoundsPolicy = POLICY,
    entropy: EntropySource = system_entropy,
) -> FoundBounds:
    """Find the bounds of each group of a table by itself, whichever other groups there are."""
    bounds = FoundBounds.unknown(table, 1 - sum(policy.looks, Fraction(0)))
    for group, entries in enumerate(table.slices()):
        result = search(_one_group(table, entries), loss, policy, entropy=entropy)
        if isinstance(result, bool):
            bounds.zeros[group] = result
            continue
        bounds.left[group] = result.left * UNITS
        bounds.lower[group], bounds.upper[group] = move_ends(*result.ends)
        sides = [clipping_bias(result, side, policy) for side in (-1, 1)]
        bounds.bias[:, group] = [*sides[0][:2], *sides[1][:2]]
        bounds.notes[group] = write_note(sides[0][2], sides[1][2], result.ends)
    return bounds


def move_ends(lower: Floats | float, upper: Floats | float) -> tuple[Floats, Floats]:
    """Return ends that are multiples of the grid's step: none much nearer to zero than wide."""
    low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    narrow = np.ldexp(NARROWEST, np.frexp(high - low)[1])
    low = np.where((low > 0) & (low < narrow), 0.0, low)
    low = np.where((low < 0) & (low > -narrow), -narrow, low)
    high = np.where((high < 0) & (high > -narrow), 0.0, high)
    high = np.where((high > 0) & (high < narrow), narrow, high)
    return low, high


def write_note(below: str, above: str, ends: tuple[float, float]) -> str | None:
    """Return the note of bounds beyond which rows can't be accounted for."""
    sides = [(note, end) for note, end in zip((below, above), ends, strict=True) if note]
    if not sides:
        return None
    where = " and ".join(f"{end:g}" for _, end in sides)
    return f"clipped at {where}: {sides[-1][0]}"


def find_dyadic_bounds(
    table: BinTable, loss: Loss, entropy: EntropySource = system_entropy
) -> FoundBounds:
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
    sure = rare_height(1, POLICY.absurd, laplace=is_laplace(loss.noise(1, 1)))
    for group, entries in enumerate(table.slices()):
        look = look_at(_one_group(table, entries), ruler, loss, entropy)
        ends = read_ends(look, POLICY)
        bounds.zeros[group] = ends is None and look.heights[ruler.middle] > sure
        if ends is not None:
            low, high = ruler.edges[ends[0]], ruler.edges[ends[1] + 1]
            bounds.lower[group], bounds.upper[group] = move_ends(low, high)
    return bounds


def _one_group(table: BinTable, entries: slice) -> BinTable:
    """Return a table of one group's entries, without sums."""
    bins, rows = table.bins[entries], table.rows[entries]
    return replace(table, groups=1, group=np.zeros_like(bins), bins=bins, rows=rows, moments=())


def rows_for_bounds(noise: Noise) -> int:
    """Return the noisy count of one dyadic bin that is a core by itself."""
    probability = POLICY.absurd / (2 * Octaves().last + 1) / 2
    height = rare_height(1, probability, laplace=is_laplace(noise))
    return math.ceil(height * spread_of(noise))
