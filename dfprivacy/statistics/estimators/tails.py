"""What bounds that were found have clipped: read off the noisy histogram that found them.

Rows beyond a bound count as the bound, and how far beyond they lie no noisy count can limit. What
can be said is what a tail like the one that is seen would do. The first bin beyond an end has a
noisy count; further out, counts are taken to fall at least as fast as anywhere on the way from the
middle to the end. That gives an allowance, by which the interval of an answer is longer. Where the
tail that is seen does not thin out fast enough (its counts times the squares of its distances do
not fall, so that a few rows decide), or rows show further out, the answer is marked.
Post-processing of public counts; docs/intervals.md has the rule, benchmarks/honesty.py its figures.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import numpy as np

from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.noise.exceedances import Exceedances, forgotten_as_zero, heights_at
from dfprivacy.release.terms import Bounds
from dfprivacy.statistics.estimators.octave_bounds import LEAST, Mask

OUTER = 3
"""So many bins beyond an end are looked at."""

_REACH = 30  # bins beyond an end over which an allowance adds up
_NARROW = 1 / 64  # bins narrower than so many widths of the bounds are passed over
_MIDDLE = 0.44  # where in its bin a row of a falling tail lies, on average
_PLAUSIBLE = 1.5  # scales: a count may be so much larger than its noisy count, at 95 %
_SLOWEST = 0.9  # distance times count never falls more slowly than that from bin to bin
_FEW = 0.02  # expected rows: a bin with fewer holds none
_SOLID = 12.0  # scales: two bins of a tail tell its index from there on
_TAIL = 0.3  # the tail of the data is at most so large a part of them
_FAR = 5.0  # scales: two bins of nothing but noise are higher together in 1.2 % of draws


@dataclass(frozen=True)
class Tail:
    """What is known of the rows beyond one end of the bounds of some groups. Public.

    Attributes
    ----------
    heights : array of float
        One row a group: noisy counts in units of the noise's scale, the outermost bin first, then
        inwards over all of the bounds.
    outer : int
        How many of these bins lie beyond the end.
    widths, distances : array of float
        The width of each of these bins, or how far it reaches from the centre, and how far beyond
        the end the rows of the first bins outside lie on average, in units of the column.
    scale : float
        The rows of a unit of height.
    """

    heights: Floats
    outer: int
    widths: Floats
    distances: Floats
    scale: float

    def moved(self, level: float) -> tuple[Floats, Floats]:
        """Return the sums of distance and of its square that rows beyond may plausibly have."""
        groups = len(self.heights)
        if not self.outer:
            return np.zeros(groups), np.zeros(groups)
        more = max(_PLAUSIBLE + math.log(0.05 / (1 - level)), 0.0)
        first = self.heights[:, self.outer - 1]
        falls = self._falls(more)[:, None] ** np.arange(len(self.distances))
        rows = np.maximum(first + more, 0.5)[:, None] * falls * self.scale
        likely = np.maximum(first, 0.0)[:, None] * falls * self.scale
        rows[rows < _FEW], likely[likely < _FEW] = 0.0, 0.0
        z = statistics.NormalDist().inv_cdf((1 + level) / 2)
        return tuple(
            rows @ power + z * np.sqrt(likely @ power**2)
            for power in (self.distances, self.distances**2)
        )  # type: ignore[return-value]

    def far(self) -> Mask:
        """Tell who has rows further out than the next bin."""
        far = self.heights[:, : max(self.outer - 1, 0)]
        return np.asarray(far.sum(axis=1) > _FAR)

    def slow(self) -> Mask:
        """Tell whose tail does not thin out fast enough."""
        marked = np.zeros(len(self.heights), dtype=bool)
        if not self.outer:
            return marked
        counts, widths = self.heights[:, self.outer - 1 :], self.widths[self.outer - 1 :]
        inside = np.cumsum(counts, axis=1)
        undecided = np.ones(len(counts), dtype=bool)
        for place in range(1, counts.shape[1] - 1):
            window = counts[:, place] + counts[:, place + 1]
            solid = undecided & (window >= _SOLID)
            tail = solid & (inside[:, place + 1] <= _TAIL * inside[:, -1])
            ratio = (counts[:, place - 1] + counts[:, place]) / np.maximum(window, 1e-9)
            growth = widths[place - 1] / widths[place]
            marked |= tail & (ratio * growth**2 > 1)
            undecided &= ~solid
        return marked

    def _falls(self, more: float) -> Floats:
        """Return the factor by which counts fall from bin to bin outside, at most."""
        counts = self.heights[:, self.outer - 1 :]
        beyond = np.cumsum(counts, axis=1)
        falls = np.ones(len(counts))
        for place in range(1, counts.shape[1]):
            most = np.maximum(beyond[:, place - 1] + more * math.sqrt(min(place, 4)), 0.5)
            falls = np.minimum(falls, most / np.maximum(beyond[:, place], 1e-9))
        growth = self.distances[-1] / self.distances[-2] if len(self.distances) > 1 else 1.0
        return np.minimum(falls, _SLOWEST / growth)


@dataclass(frozen=True)
class Tails:
    """What is known of the rows beyond both ends. Public."""

    below: Tail
    above: Tail
    bounds: Bounds
    finer: tuple[Tail, Tail] | None = None
    """The same in narrower bins, where there are some: a tail is slow where both say so."""

    def notes(self) -> list[str]:
        """Return a note for each group: where its interval can't be relied on, and why."""
        finer = self.finer or (self.below, self.above)
        heavy = [
            (own.far() | own.slow() & fine.slow()).tolist()
            for own, fine in zip((self.below, self.above), finer, strict=True)
        ]
        both = zip(*heavy, strict=True)
        ends = (self.bounds.lower, self.bounds.upper)
        return [_note([end for end, own in zip(ends, each, strict=True) if own]) for each in both]


def _note(ends: list[float]) -> str:
    if not ends:
        return ""
    return f"clipped at {' and '.join(f'{end:g}' for end in ends)}: heavy tail"


def tails(table: BinTable, noisy: Exceedances, bounds: Bounds, groups: Integers) -> Tails:
    """Return what is known of the rows beyond the bounds that some groups share.

    The bins next to the ends are drawn, once in the life of a histogram: `groups` must not have
    been asked about before.
    """
    binning = table.binning
    assert isinstance(binning, Octaves)  # noqa: S101 bounds are found at octave edges
    numbers = np.arange(-binning.last, binning.last + 1)
    lower, upper = binning.lower(numbers), binning.upper(numbers)
    wide = upper - lower >= _NARROW * bounds.width
    over = np.flatnonzero((lower >= bounds.upper) & wide)
    under = np.flatnonzero((upper <= bounds.lower) & wide)[::-1]
    inner = np.flatnonzero((lower >= bounds.lower) & (upper <= bounds.upper) & wide)
    outside = np.concatenate([under[:OUTER], over[:OUTER]])
    drawn = _heights(table, noisy, groups, numbers[outside], forgotten=True)
    held = _heights(table, noisy, groups, numbers[inner], forgotten=False)
    held = np.where(held < LEAST, 0.0, held)
    scale, split = float(noisy.scale), len(under[:OUTER])
    below = bounds.lower - (upper - _MIDDLE * (upper - lower))
    above = lower + _MIDDLE * (upper - lower) - bounds.upper
    sides = []
    for out, own, in_, within, distance in (
        (under, drawn[:, :split], inner, held, below),
        (over, drawn[:, split:], inner[::-1], held[:, ::-1], above),
    ):
        near = out[:OUTER][::-1]
        heights = np.concatenate([own[:, ::-1], within], axis=1)
        widths = (upper - lower)[np.concatenate([near, in_])]
        sides.append(Tail(heights, len(near), widths, distance[out[:_REACH]], scale))
    return Tails(sides[0], sides[1], bounds)


def tails_about(
    noisy: Floats, ends: tuple[Floats, Floats], places: tuple[int, int], fineness: int, scale: float
) -> Tails:
    """Return what is known of the rows beyond bounds about a centre, of groups that share both.

    Parameters
    ----------
    noisy : array of float
        One row a group: the noisy rows of all bins of distances, the middle one that of the centre.
    ends : two arrays of float
        How far down and how far up, in units of the column, each distance reaches; 0 is the first.
    places : two integers
        The last bin of distances within the bounds, downwards and upwards.
    fineness : int
        How many bins double a distance: so many are looked at together, outwards and inwards.
    scale : float
        The rows of a unit of height of one bin.
    """
    bounds = Bounds(float(ends[0][places[0]]), float(ends[1][places[1]]))
    together = _sides(noisy, ends, places, fineness, (scale, bounds.width))
    finer = _sides(noisy, ends, places, 1, (scale, bounds.width))
    return Tails(together[0], together[1], bounds, (finer[0], finer[1]))


def _sides(
    noisy: Floats,
    ends: tuple[Floats, Floats],
    places: tuple[int, int],
    fineness: int,
    units: tuple[float, float],
) -> list[Tail]:
    """Return the tails of both sides; `units` are a bin's scale and the width of the bounds."""
    middle, spread = noisy.shape[1] // 2, units[0] * math.sqrt(fineness)
    centre = (ends[0][0] + ends[1][0]) / 2
    sides = []
    for side, edges, place in (
        (noisy[:, middle - 1 :: -1], ends[0], places[0]),
        (noisy[:, middle + 1 :], ends[1], places[1]),
    ):
        sizes = np.abs(edges - centre)
        firsts = np.arange(place, len(sizes) - fineness, fineness)[:_REACH]
        wide = sizes[firsts + fineness] - sizes[firsts]
        out = [side[:, first : first + fineness].sum(axis=1) for first in firsts[:OUTER]]
        lasts = np.arange(place, fineness, -fineness)
        lasts = lasts[sizes[lasts] - sizes[lasts - fineness] >= _NARROW * units[1]]
        within = [side[:, last - fineness : last].sum(axis=1) for last in lasts]
        rest = noisy[:, middle] + side[:, : place - fineness * len(within)].sum(axis=1)
        held = np.column_stack([*within, rest]) / spread
        held = np.where(held < LEAST, 0.0, held)
        heights = np.column_stack([*(own / spread for own in out[::-1]), held])
        reach = [*sizes[firsts[:OUTER] + fineness][::-1], *sizes[lasts], sizes[1]]
        distances = sizes[firsts] - sizes[place] + _MIDDLE * wide
        sides.append(Tail(heights, len(out), np.array(reach), distances, spread))
    return sides


def _heights(
    table: BinTable, noisy: Exceedances, groups: Integers, bins: Integers, *, forgotten: bool
) -> Floats:
    """Return the heights of the same bins in each of some groups, one row a group."""
    own = np.repeat(groups, len(bins)), np.tile(bins, len(groups))
    found = heights_at(table, noisy, *own) if forgotten else forgotten_as_zero(noisy, *own)
    return found.reshape(len(groups), len(bins))
