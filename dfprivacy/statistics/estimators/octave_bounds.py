"""Bounds at octave edges, read off a noisy histogram of octaves: post-processing of public counts.

The tallest bin of a group beside zero is its core, or where no bin is tall enough the adjacent bins
that are together. Walking outwards, a bin joins if its noisy count reaches

    LEAST + GROWTH * log2(width with it / width without it)

in units of the noise's scale. Zeros alone have no bounds. What a bin costs is the width it adds, so
that a bin which noise alone has lifted has to be the taller the more harm it would do: the expected
harm is a convergent sum, whatever the magnitude. docs/octaves.md has the reasoning,
benchmarks/octave_rule.py the experiment behind the two numbers and the share.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import LEAST_EXPONENT, Floats, Integers, Octaves
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.exceedances import Exceedances, exceedances

Mask = npt.NDArray[np.bool_]

SHARE = Fraction(3, 8)
"""The part of epsilon that finds bounds; the rest answers."""

LEAST = 5.0
GROWTH = 1.5
CORE = 15.0
"""Heights in units of the noise's scale; a group without a core has no bounds."""

WINDOWS = {1: CORE, 2: 17.5, 4: 19.5, 8: 22.0}
"""How tall so many adjacent bins must be together to be a core, where bins below LEAST count as 0:
those of an empty group are with a probability below 5e-4 (docs/octaves.md, section 4)."""


@dataclass(frozen=True)
class Joining:
    """How tall a bin must be to join: so tall, and more by the width that it adds and its distance.

    A bin joins at least + growth * log2(width with it / width without it) + apart * log(octaves
    between), in units of the noise's scale; octaves far smaller than the width are not counted.
    """

    least: float = LEAST
    growth: float = GROWTH
    apart: float = 0.0


PLAIN = Joining()

LENDER = 5.0
"""So much taller is the core of a group whose bounds stand in for those of others."""

_OCTAVES = Octaves()

_SMALLER = 6
"""Octaves by so many smaller than the width are all equally far from its ends."""

NARROWEST = 2.0**-20
"""An end nearer to zero than so many widths is moved to zero, or out to this."""


@dataclass(frozen=True)
class FoundBounds:
    """The bounds of each group, in units of the column; NaN where none were found. Public.

    `zeros` tells which groups have none because only their zeros stand out, `clear` which have a
    core so tall that noise has hardly made it, in none of many groups.
    """

    lower: Floats
    upper: Floats
    zeros: Mask
    clear: Mask

    @property
    def found(self) -> Mask:
        """Tell which groups have bounds."""
        return ~np.isnan(self.lower)


def find_bounds(
    table: BinTable,
    epsilon: Fraction,
    entropy: EntropySource = system_entropy,
    joining: Joining = PLAIN,
) -> FoundBounds:
    """Return the bounds of each group of an octave table, read off noisy counts of its octaves.

    The bounds of all groups together are epsilon-DP; neighbours: one row added or removed, which
    moves one count by 1. What is made of the noisy counts is post-processing (docs/octaves.md).

    Examples
    --------
    >>> import pyarrow as pa
    >>> from dfprivacy.measurement.bin_table import bin_table
    >>> values, rows = np.array([3.0, 90.0]), np.array([1000, 1000])
    >>> group, labels = np.zeros(2, np.int64), Octaves().labels(values)
    >>> table = bin_table(pa.table({}), 1, Octaves(), group, labels, rows=rows)
    >>> find_bounds(table, Fraction(30))
    FoundBounds(lower=array([2.]), upper=array([128.]), zeros=array([False]), clear=array([ True]))
    """
    noisy = exceedances(table, epsilon, joining.least, entropy)
    return octave_bounds(noisy, table.groups, joining)


def octave_bounds(noisy: Exceedances, groups: int, joining: Joining = PLAIN) -> FoundBounds:
    """Return the bounds of each group: lower < upper, each 0 or plus or minus a power of two."""
    starts = np.searchsorted(noisy.group, np.arange(groups + 1))
    low, high, clear = _cores(noisy, groups)
    zeros = np.zeros(groups, dtype=bool)
    zeros[noisy.group[(noisy.bins == 0) & (noisy.heights >= CORE)]] = True
    zeros &= low < 0
    walk = _Walk(noisy, joining, low, high)
    for _ in range(2):
        walk.up(starts[1:])
        walk.down(starts[:-1])
    return FoundBounds(*on_grid(*walk.bounds()), zeros, clear)


class _Walk:
    """The ends of each group's bounds on their way outwards: places of bins, -1 for no bounds."""

    def __init__(self, noisy: Exceedances, joining: Joining, low: Integers, high: Integers) -> None:
        self._heights, self._bins, self._joining = noisy.heights, noisy.bins, joining
        self._lower, self._upper = _OCTAVES.lower(noisy.bins), _OCTAVES.upper(noisy.bins)
        self._low, self._high = low, high

    def bounds(self) -> tuple[Floats, Floats]:
        """Return the outer edges of the bins arrived at; NaN for no bounds."""
        none = self._low < 0
        if not len(self._heights):
            return np.full(len(none), np.nan), np.full(len(none), np.nan)
        lower, upper = self._lower[self._low], self._upper[self._high]
        return np.where(none, np.nan, lower), np.where(none, np.nan, upper)

    def up(self, ends: Integers) -> None:
        """Move upper ends to the last bin that joins; each group's bins stop before its end."""
        active = np.flatnonzero(self._high >= 0)
        place = self._high[active] + 1
        while len(active := active[inside := place < ends[active]]):
            place = place[inside]
            width = self._upper[place] - self._lower[self._low[active]]
            joins = self._joins(active, self._high[active], place, width)
            self._high[active[joins]] = place[joins]
            place = place + 1

    def down(self, starts: Integers) -> None:
        """Move lower ends to the last bin that joins; each group's bins begin at its start."""
        active = np.flatnonzero(self._low >= 0)
        place = self._low[active] - 1
        while len(active := active[inside := place >= starts[active]]):
            place = place[inside]
            width = self._upper[self._high[active]] - self._lower[place]
            joins = self._joins(active, self._low[active], place, width)
            self._low[active[joins]] = place[joins]
            place = place - 1

    def _joins(self, active: Integers, end: Integers, place: Integers, width: Floats) -> Mask:
        """Tell which bins are tall enough for the width that they would make."""
        now = self._upper[self._high[active]] - self._lower[self._low[active]]
        least = self._joining.least + self._joining.growth * np.log2(np.maximum(width / now, 1.0))
        if self._joining.apart:
            between = np.abs(self._far(place, now) - self._far(end, now))
            least += self._joining.apart * np.log(np.maximum(between, 1))
        return np.asarray(self._heights[place] >= least)

    def _far(self, place: Integers, width: Floats) -> Floats:
        """Return how many octaves a bin is beyond those that are far smaller than the width."""
        bins, (_, exponents) = self._bins[place], np.frexp(width)
        smaller = exponents - LEAST_EXPONENT - _SMALLER
        return np.asarray(np.sign(bins) * np.maximum(np.abs(bins) - smaller, 0), np.float64)


def _cores(noisy: Exceedances, groups: int) -> tuple[Integers, Integers, Mask]:
    """Return the places of the first and last bin of each group's core, and which are clear.

    The core is the shortest window of adjacent bins, zero not among them, that is tall enough,
    and of several the tallest; -1 without any.
    """
    low, high = np.full((2, groups), -1, dtype=np.int64)
    clear = np.zeros(groups, dtype=bool)
    heights = np.where(noisy.heights >= LEAST, noisy.heights, 0.0)
    apart = 2 * max(WINDOWS)
    code = noisy.bins + apart * np.sign(noisy.bins) + (2 * _OCTAVES.last + 3 * apart) * noisy.group
    for size, least in WINDOWS.items():
        first = np.flatnonzero((low[noisy.group] < 0) & (noisy.bins != 0))
        last, total = first.copy(), heights[first]
        for step in range(1, size):
            inside = first + step < len(code)
            inside[inside] = code[first[inside] + step] < code[first[inside]] + size
            last[inside] += 1
            total[inside] += heights[last[inside]]
        tall = np.flatnonzero(total >= least)
        order = tall[np.lexsort((total[tall], noisy.group[first[tall]]))]
        own = noisy.group[first[order]]
        low[own], high[own] = first[order], last[order]  # the last of a group is its tallest
        clear[own] = total[order] >= least + LENDER
    return low, high, clear


def on_grid(lower: Floats, upper: Floats, narrowest: float = NARROWEST) -> tuple[Floats, Floats]:
    """Return bounds that are multiples of the grid's step: none much nearer to zero than wide."""
    _, exponents = np.frexp(np.where(np.isnan(lower), 1.0, upper - lower))
    narrow = np.ldexp(narrowest, exponents)
    low = np.where((lower > 0) & (lower < narrow), 0.0, lower)
    low = np.where((lower < 0) & (lower > -narrow), -narrow, low)
    high = np.where((upper < 0) & (upper > -narrow), 0.0, upper)
    high = np.where((upper > 0) & (upper < narrow), narrow, high)
    return low, high
