"""A noisy histogram of very many bins, of which only what stands out is drawn. Exactly.

Every bin of every group gets independent discrete Laplace noise, the empty ones too; a bin whose
noisy count stays below `least` is then forgotten, which is post-processing. Empty bins that reach
`least` by noise alone are rare, and so are small counts that do: the places of noise that is large
enough are drawn first, by geometric skips, and the noise there afterwards. docs/octaves.md proves
that the law is that of the dense noise.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.bin_table import BinTable, codes_of
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, random_words, system_entropy
from dfprivacy.noise.laws import DiscreteLaplace
from dfprivacy.noise.samplers import LARGEST_INT64_SCALE, Geometric, exact_geometric
from dfprivacy.noise.tails import arithmetic, exponential
from dfprivacy.noise.uniform import LazyUniform

_BLOCK = 2**14
_RARE = 2.0**-200
_RARE_NOISE = 3  # scales: one draw in 20 to 40 is as large
_SURPLUS = 1 + 2.0**-10  # candidates are so many times as probable as exceedances


@dataclass(frozen=True)
class Exceedances:
    """The noisy bins that reach the least count, sorted by group and bin. Public.

    `heights` are noisy counts in units of the noise's scale, as floats; bins that are not here have
    a noisy count below `least`, and noise of this `scale`. Bins are numbered from -last to last.
    """

    group: Integers
    bins: Integers
    heights: Floats
    least: int = 2**62
    scale: Fraction = Fraction(1)
    last: int = Octaves().last

    @cached_property
    def codes(self) -> Integers:
        """The place of each among all bins of all groups, ascending."""
        return codes_of(self.group, self.bins, self.last)


def exceedances(
    table: BinTable,
    epsilon: Fraction,
    heights: float,
    entropy: EntropySource = system_entropy,
) -> Exceedances:
    """Return the bins whose noisy count is at least `heights` times the scale of the noise.

    Adding or removing a row changes one count by 1: epsilon-DP with noise of scale 1/epsilon.

    Raises
    ------
    EntropyError
        When the random source fails. Nothing was released then.
    """
    scale = 1 / epsilon
    least = max(1, math.ceil(Fraction(heights) * scale))
    places, noisy = _counted_exceedances(table.rows, least, scale, entropy)
    group, bins, empty = _empty_exceedances(table, least, scale, entropy)
    heights_ = np.concatenate([noisy.astype(np.float64), empty.astype(np.float64)])
    groups = np.concatenate([table.group[places], group])
    numbers = np.concatenate([table.bins[places], bins])
    last = table.binning.last
    order = np.argsort(codes_of(groups, numbers, last))
    heights_ = heights_[order] * float(epsilon)
    return Exceedances(groups[order], numbers[order], heights_, least, scale, last)


def heights_at(
    table: BinTable,
    noisy: Exceedances,
    group: Integers,
    bins: Integers,
    entropy: EntropySource = system_entropy,
) -> Floats:
    """Return the heights of some bins of the same noisy histogram, whether they stand out or not.

    A bin that was forgotten is drawn now, as it must have been: its noisy count is below `least`.
    So heights and exceedances together have the law of dense noise, and cost nothing more. A bin
    may be asked for once in the life of a histogram: a second draw would be another one.

    Raises
    ------
    ValueError
        When a bin is asked for twice.
    EntropyError
        When the random source fails.
    """
    asked = codes_of(group, bins, noisy.last)
    if len(np.unique(asked)) < len(asked):
        message = "a bin of a noisy histogram can be drawn once"
        raise ValueError(message)
    heights: Floats = _looked_up(asked, noisy.codes, noisy.heights, np.nan)
    exact = _looked_up(asked, table.codes, table.rows, 0)
    open_ = np.flatnonzero(np.isnan(heights))
    while len(open_):
        drawn = add_to(exact[open_], DiscreteLaplace(noisy.scale), entropy)
        below = np.asarray(drawn < noisy.least, dtype=bool)
        heights[open_[below]] = drawn[below].astype(np.float64) / float(noisy.scale)
        open_ = open_[~below]
    return heights


def forgotten_as_zero(noisy: Exceedances, group: Integers, bins: Integers) -> Floats:
    """Return the heights of some bins that stand out, 0 for the others: nothing is drawn."""
    asked = codes_of(group, bins, noisy.last)
    return np.asarray(_looked_up(asked, noisy.codes, noisy.heights, 0.0))


def _looked_up(asked: Integers, known: Integers, values: Any, otherwise: float) -> Any:
    """Return the values of the codes asked for, out of ascending known ones."""
    if not len(known):
        return np.full(len(asked), otherwise, dtype=np.asarray(values).dtype)
    places = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[places] == asked, values[places], otherwise)


def _counted_exceedances(
    rows: Integers, least: int, scale: Fraction, entropy: EntropySource
) -> tuple[Integers, npt.NDArray[Any]]:
    """Return the places and noisy counts of those counts that reach `least` with noise.

    Counts so small that only rare noise lifts them get noise where it is rare: elsewhere they stay
    below, whatever it is.
    """
    rare = math.ceil(_RARE_NOISE * scale)
    large, small = np.flatnonzero(rows > least - rare), np.flatnonzero(rows <= least - rare)
    noisy = add_to(rows[large], DiscreteLaplace(scale), entropy)
    places, noise = _rare_noise(len(small), rare, scale, entropy)
    lifted = rows[small[places]] + noise
    kept, up = np.flatnonzero(noisy >= least), np.flatnonzero(lifted >= least)
    return (
        np.concatenate([large[kept], small[places[up]]]),
        np.concatenate([noisy[kept], lifted[up]]),
    )


def _rare_noise(
    cells: int, least: int, scale: Fraction, entropy: EntropySource
) -> tuple[Integers, npt.NDArray[Any]]:
    """Return where among so many cells noise is at least `least`, and the noise there."""
    skip = skip_scale(least, scale)
    places = candidate_places(cells, skip, entropy)
    places = places[accepted(len(places), least, scale, skip, entropy)]
    return places, least + geometric(scale, len(places), entropy)


def _width(table: BinTable) -> int:
    return 2 * table.binning.last + 1


def _empty_exceedances(
    table: BinTable, least: int, scale: Fraction, entropy: EntropySource
) -> tuple[Integers, Integers, npt.NDArray[np.generic]]:
    """Return group, bin and noisy count of the empty bins that reach `least`."""
    places, noise = _rare_noise(table.groups * _width(table), least, scale, entropy)
    taken = table.codes
    found = np.searchsorted(taken, places)
    known = np.zeros(len(places), dtype=bool)
    inside = found < len(taken)
    known[inside] = taken[found[inside]] == places[inside]
    group, offset = np.divmod(places[~known], _width(table))
    return group, offset - table.binning.last, noise[~known]


def skip_scale(least: int, scale: Fraction) -> Fraction:
    """Return s with P(Z >= least) <= 1 - exp(-1/s), and nearly equal, for noise Z of `scale`."""
    tail = math.exp(-min(float(least / scale), 1e4)) / (1 + math.exp(-min(float(1 / scale), 1e4)))
    if tail < _RARE / 2:  # the float is near the tail, not above it
        return Fraction(1 / _RARE)
    return Fraction(-1 / math.log1p(-tail * _SURPLUS))


def candidate_places(cells: int, skip: Fraction, entropy: EntropySource) -> Integers:
    """Return the places in 0, ..., cells - 1 that come up, each with probability 1 - exp(-1/s)."""
    places: list[Integers] = []
    position = -1
    expected = float(cells / skip)
    while position < cells:
        size = int(expected + 6 * math.sqrt(expected)) + 8 if not places else 64
        gaps = np.minimum(geometric(skip, size, entropy), cells).astype(np.int64)
        found = position + np.cumsum(gaps + 1)
        places.append(found[found < cells])
        position = int(found[-1])
    return np.concatenate(places) if places else np.zeros(0, dtype=np.int64)


def geometric(scale: Fraction, size: int, entropy: EntropySource) -> npt.NDArray[np.generic]:
    """Return `size` numbers with P(G >= k) = exp(-k / scale): int64, or objects beyond 2**51."""
    mantissas = (random_words(size, entropy) >> np.uint64(1)).view(np.int64)
    if scale > LARGEST_INT64_SCALE:
        exact = np.empty(size, dtype=object)
        exact[:] = [exact_geometric(int(mantissa), scale, entropy) for mantissa in mantissas]
        return exact
    blocks = Geometric(scale, min(size, _BLOCK), entropy)
    drawn = [blocks.draw(mantissas[i : i + _BLOCK]) for i in range(0, size, _BLOCK)]
    return np.concatenate(drawn) if drawn else np.zeros(0, dtype=np.int64)


def accepted(
    size: int, least: int, scale: Fraction, skip: Fraction, entropy: EntropySource
) -> npt.NDArray[np.bool_]:
    """Return which candidates are exceedances: each with P(Z >= least) / (1 - exp(-1/s))."""
    words = random_words(size, entropy)
    if not size:
        return np.zeros(0, dtype=bool)
    low, high = _ratio(least, scale, skip, 0)
    sure, never = math.floor(low * 2**64), math.ceil(high * 2**64)
    keep = words < np.uint64(min(sure, 2**64 - 1))
    for index in np.flatnonzero(~keep & (words < np.uint64(min(never, 2**64 - 1)))).tolist():
        keep[index] = _decided(int(words[index]), least, scale, skip, entropy)
    return np.asarray(keep)


def _decided(
    word: int, least: int, scale: Fraction, skip: Fraction, entropy: EntropySource
) -> bool:
    uniform = LazyUniform(word, 64, entropy)
    while True:
        low, high = _ratio(least, scale, skip, uniform.bits)
        if Fraction(uniform.mantissa + 1, 2**uniform.bits) <= low:
            return True
        if Fraction(uniform.mantissa, 2**uniform.bits) >= high:
            return False
        uniform.extend()


def _ratio(least: int, scale: Fraction, skip: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Enclose the ratio of probabilities to a relative 10**-(50 + bits / 3) and better."""
    context = arithmetic(skip, scale)
    context.prec += bits // 3
    with decimal.localcontext(context):
        tail = exponential(-least / scale) / (1 + exponential(-1 / scale))
        ratio = Fraction(tail / (1 - exponential(-1 / skip)))
    slack = Fraction(1, 10 ** (40 + bits // 3))
    return ratio * (1 - slack), ratio * (1 + slack)
