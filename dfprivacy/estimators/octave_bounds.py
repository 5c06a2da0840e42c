"""Bounds at octave edges, read off a noisy histogram of octaves: post-processing of public counts.

The tallest bin of a group is its core. Walking outwards, a bin joins if its noisy count reaches

    LEAST + GROWTH * log2(width with it / width without it)

in units of the noise's scale. What a bin costs is the width it adds, so that a bin which noise
alone has lifted has to be the taller the more harm it would do: the expected harm is a convergent
sum, whatever the magnitude. docs/octaves.md has the reasoning, benchmarks/octave_rule.py the
experiment behind the two numbers and the share.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.exceedances import Exceedances, exceedances

Mask = npt.NDArray[np.bool_]

SHARE = Fraction(3, 8)
"""The part of epsilon that finds bounds; the rest answers."""

LEAST = 5.0
GROWTH = 1.5
CORE = 15.0
"""Heights in units of the noise's scale; a group without a core has no bounds."""

_OCTAVES = Octaves()

_TINIEST = 2.0**-126

_NARROWEST = 2.0**-20
"""An end nearer to zero than so many widths is moved to zero, or out to this."""


@dataclass(frozen=True)
class FoundBounds:
    """The bounds of each group, in units of the column; NaN where none were found. Public."""

    lower: Floats
    upper: Floats

    @property
    def found(self) -> Mask:
        """Tell which groups have bounds."""
        return ~np.isnan(self.lower)


def find_bounds(
    table: BinTable, epsilon: Fraction, entropy: EntropySource = system_entropy
) -> FoundBounds:
    """Return the bounds of each group of an octave table, read off noisy counts of its octaves.

    The bounds of all groups together are epsilon-DP; neighbours: one row added or removed, which
    moves one count by 1. What is made of the noisy counts is post-processing (docs/octaves.md).

    Parameters
    ----------
    table : BinTable
        Rows by group and bin of `Octaves`; sums of values are not read. Groups may be empty.
    epsilon : Fraction
        What the bounds of all groups together cost.
    entropy : callable
        Source of random bytes; the operating system, unless a test hands in its own.

    Returns
    -------
    FoundBounds
        One pair a group, in units of the column; NaN where too few rows stand out.

    Raises
    ------
    EntropyError
        When the random source fails. Nothing was found then.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from dfprivacy.measurement.bin_table import bin_table
    >>> values, rows = np.array([3.0, 90.0]), np.array([1000, 1000])
    >>> group, labels = np.zeros(2, np.int64), Octaves().labels(values)
    >>> table = bin_table(pa.table({}), 1, Octaves(), group, labels, rows=rows)
    >>> find_bounds(table, Fraction(30))
    FoundBounds(lower=array([2.]), upper=array([128.]))
    """
    return octave_bounds(exceedances(table, epsilon, LEAST, entropy), table.groups)


def octave_bounds(noisy: Exceedances, groups: int) -> FoundBounds:
    """Return the bounds of each group: lower < upper, each 0 or plus or minus a power of two."""
    starts = np.searchsorted(noisy.group, np.arange(groups + 1))
    core, zeros = _cores(noisy, groups)
    found = core >= 0
    walk = _Walk(noisy.heights, _OCTAVES.lower(noisy.bins), _OCTAVES.upper(noisy.bins), core)
    for _ in range(2):
        walk.up(starts[1:])
        walk.down(starts[:-1])
    lower, upper = walk.bounds()
    only_zeros = zeros & ~found
    lower[only_zeros], upper[only_zeros] = -_TINIEST, _TINIEST
    return _on_grid(lower, upper)


class _Walk:
    """The ends of each group's bounds on their way outwards: places of bins, -1 for no bounds."""

    def __init__(self, heights: Floats, lower: Floats, upper: Floats, core: Integers) -> None:
        self._heights, self._lower, self._upper = heights, lower, upper
        self._low, self._high = core.copy(), core.copy()

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
            joins = self._joins(active, place, width)
            self._high[active[joins]] = place[joins]
            place = place + 1

    def down(self, starts: Integers) -> None:
        """Move lower ends to the last bin that joins; each group's bins begin at its start."""
        active = np.flatnonzero(self._low >= 0)
        place = self._low[active] - 1
        while len(active := active[inside := place >= starts[active]]):
            place = place[inside]
            width = self._upper[self._high[active]] - self._lower[place]
            joins = self._joins(active, place, width)
            self._low[active[joins]] = place[joins]
            place = place - 1

    def _joins(self, active: Integers, place: Integers, width: Floats) -> Mask:
        """Tell which bins are tall enough for the width that they would make."""
        now = self._upper[self._high[active]] - self._lower[self._low[active]]
        growth = np.log2(np.maximum(width / now, 1.0))
        return np.asarray(self._heights[place] >= LEAST + GROWTH * growth)


def _cores(noisy: Exceedances, groups: int) -> tuple[Integers, Mask]:
    """Return the place of each group's tallest bin beside zero, or -1; and whether zero is tall."""
    tall = noisy.heights >= CORE
    zeros = np.zeros(groups, dtype=bool)
    zeros[noisy.group[tall & (noisy.bins == 0)]] = True
    places = np.flatnonzero(tall & (noisy.bins != 0))
    order = places[np.lexsort((noisy.heights[places], noisy.group[places]))]
    core = np.full(groups, -1, dtype=np.int64)
    core[noisy.group[order]] = order  # the last of a group is its tallest
    return core, zeros


def _on_grid(lower: Floats, upper: Floats) -> FoundBounds:
    """Return bounds that are multiples of the grid's step: none much nearer to zero than wide."""
    _, exponents = np.frexp(np.where(np.isnan(lower), 1.0, upper - lower))
    narrow = np.ldexp(_NARROWEST, exponents)
    low = np.where((lower > 0) & (lower < narrow), 0.0, lower)
    low = np.where((lower < 0) & (lower > -narrow), -narrow, low)
    high = np.where((upper < 0) & (upper > -narrow), 0.0, upper)
    high = np.where((upper > 0) & (upper < narrow), narrow, high)
    return FoundBounds(low, high)
