"""A noisy histogram of very many bins, of which only what stands out is drawn. Exactly.

Every bin of every group gets independent discrete Laplace noise, the empty ones too; a bin whose
noisy count stays below `least` is then forgotten, which is post-processing. Empty bins that reach
`least` by noise alone are rare, so that their places are drawn first, by geometric skips over all
bins, and their heights afterwards: docs/octaves.md proves that the law is that of the dense noise.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, random_words, system_entropy
from dfprivacy.noise.laplace import LARGEST_INT64_SCALE, Geometric, exact_geometric
from dfprivacy.noise.laws import DiscreteLaplace
from dfprivacy.noise.tails import arithmetic, exponential
from dfprivacy.noise.uniform import LazyUniform

_BLOCK = 2**14
_RARE = 2.0**-200
_SURPLUS = 1 + 2.0**-10  # candidates are so many times as probable as exceedances


@dataclass(frozen=True)
class Exceedances:
    """The noisy bins that reach the least count, sorted by group and bin. Public.

    `heights` are noisy counts in units of the noise's scale, as floats.
    """

    group: Integers
    bins: Integers
    heights: Floats


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
    noisy = add_to(table.rows, DiscreteLaplace(scale), entropy)
    kept = np.flatnonzero(noisy >= least)
    group, bins, empty = _empty_exceedances(table, least, scale, entropy)
    heights_ = np.concatenate([noisy[kept].astype(np.float64), empty.astype(np.float64)])
    groups = np.concatenate([table.group[kept], group])
    numbers = np.concatenate([table.bins[kept], bins])
    order = np.argsort(_codes(table, groups, numbers))
    return Exceedances(groups[order], numbers[order], heights_[order] * float(epsilon))


def _width(table: BinTable) -> int:
    return 2 * table.binning.last + 1


def _codes(table: BinTable, group: Integers, bins: Integers) -> Integers:
    return np.asarray(group * _width(table) + bins + table.binning.last)


def _empty_exceedances(
    table: BinTable, least: int, scale: Fraction, entropy: EntropySource
) -> tuple[Integers, Integers, npt.NDArray[np.generic]]:
    """Return group, bin and noisy count of the empty bins that reach `least`."""
    skip = skip_scale(least, scale)
    places = candidate_places(table.groups * _width(table), skip, entropy)
    places = places[accepted(len(places), least, scale, skip, entropy)]
    taken = _codes(table, table.group, table.bins)
    found = np.searchsorted(taken, places)
    known = np.zeros(len(places), dtype=bool)
    inside = found < len(taken)
    known[inside] = taken[found[inside]] == places[inside]
    places = places[~known]
    group, offset = np.divmod(places, _width(table))
    return group, offset - table.binning.last, least + geometric(scale, len(places), entropy)


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
