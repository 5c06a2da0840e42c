"""Draw a noisy histogram of very many bins: only what stands out, and exactly so.

Every bin of every group gets independent noise, discrete Laplace or discrete Gaussian, the empty
ones too; a bin whose noisy count stays below `least` is then forgotten, which is post-processing.
Empty bins that reach `least` by noise alone are rare, and so are small counts that do: the places
of noise that is large enough are drawn first, by geometric skips, and the noise there afterwards.
docs/explanation/octaves.md proves that the law is that of the dense noise.

How tall a noisy count is, is told by how improbable noise alone makes it: h scales of Laplace noise
are reached with a probability of exp(-h) / 2, and a height of h is that of any other noise.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.bin_table import BinTable, codes_of
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.entropy import EntropySource, random_words, system_entropy
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace, Noise, is_laplace, spread_of
from dfprivacy.noise.recording import recordable
from dfprivacy.noise.samplers import LARGEST_INT64_SCALE, GaussianOdds, Geometric, exact_geometric
from dfprivacy.noise.tails import arithmetic, exponential, theta
from dfprivacy.noise.uniform import LazyUniform

_BLOCK = 2**14
_RARE = 2.0**-200
_RARE_NOISE = 3.0  # heights: one draw in 20 to 40 is as tall
_SURPLUS = 1 + 2.0**-10  # candidates are so many times as probable as exceedances


_PLAIN, _UNIT = DiscreteLaplace(Fraction(1)), DiscreteGaussian(Fraction(1))


@dataclass(frozen=True)
class Exceedances:
    """The noisy bins that reach the threshold, sorted by group and bin. Public.

    `counts` are noisy counts as floats; bins that are not here have a noisy count below `least`,
    and this `noise`: one number, or one a bin for each `each` groups. Bins are numbered from -last
    to last.
    """

    group: Integers
    bins: Integers
    counts: Floats
    least: int | Integers = 2**62
    noise: Noise = _PLAIN
    last: int = Octaves().last
    each: int = 1

    @functools.cached_property
    def heights(self) -> Floats:
        """How tall the noisy counts are."""
        return compute_heights(self.counts, self.noise)

    def at_least(self, height: float) -> Exceedances:
        """Return those bins that are so tall."""
        tall = self.heights >= height
        columns = self.group[tall], self.bins[tall], self.counts[tall]
        return Exceedances(*columns, count_at_height(height, self.noise), self.noise, self.last)

    def of_groups(self, groups_slice: slice) -> Exceedances:
        """Return the bins of some groups of one column, numbered from the first of these on."""
        entries = slice(
            *np.searchsorted(self.group, [groups_slice.start, groups_slice.stop]).tolist()
        )
        group = self.group[entries] - groups_slice.start
        return replace(self, group=group, bins=self.bins[entries], counts=self.counts[entries])

    @functools.cached_property
    def codes(self) -> Integers:
        """The place of each among all bins of all groups, ascending."""
        return codes_of(self.group, self.bins, self.last)

    def thresholds_at(self, group: Integers, bins: Integers) -> Integers:
        """Return the thresholds of the noisy counts of some bins."""
        if isinstance(self.least, int):
            return np.full(len(bins), self.least)
        if len(self.least) == 1:
            return np.asarray(self.least[0].take(bins + self.last))
        return np.asarray(self.least[group // self.each, bins + self.last])


def compute_heights(totals: Floats, noise: Noise, bins: int = 1) -> Floats:
    """Return how tall sums of so many noisy counts are, in units of the scale of Laplace noise."""
    spread = spread_of(noise)
    if is_laplace(noise):
        return totals / spread
    z = (totals - 0.5) / (spread * math.sqrt(bins))
    tail = np.log((np.maximum(z, 0) + np.sqrt(z * z + 8 / math.pi)) / math.sqrt(8 / math.pi))
    return np.where(z > 0, z * z / 2 + tail, z)


@functools.lru_cache(maxsize=256)  # public arguments only
def count_at_height(height: float, noise: Noise) -> int:
    """Return the smallest count that is so tall, and 1 at least."""
    if isinstance(noise, DiscreteLaplace):
        return max(1, math.ceil(Fraction(height) * noise.scale))
    low, high = 0.0, math.sqrt(2 * height) + 1
    while low < (middle := (low + high) / 2) < high:
        short = compute_heights(np.array([middle]), _UNIT)[0] < height
        low, high = (middle, high) if short else (low, middle)
    return max(1, math.ceil((high - 0.5) * spread_of(noise) + 0.5))


@recordable
def exceedances(
    table: BinTable,
    noise: Noise,
    height: float,
    entropy: EntropySource = system_entropy,
    among: tuple[npt.NDArray[np.bool_], float] | None = None,
) -> Exceedances:
    """Return the bins whose noisy count is at least so tall, from 1 on.

    Adding or removing a row changes one count by 1, so that noise for a sensitivity of 1 in L1 and
    in L2 norm is enough. `among` some public bins another height may be enough: these have one row
    for as many groups each, and one column a bin.
    """
    last = table.binning.last
    rare: npt.NDArray[np.bool_] = np.zeros((1, 2 * last + 1), bool) if among is None else among[0]
    thresholds = np.full(rare.shape, count_at_height(height, noise))
    if among is not None:
        thresholds[rare] = count_at_height(among[1], noise)
    none, many = np.zeros(0, np.int64), max(table.groups // len(rare), 1)
    empty = Exceedances(none, none, np.zeros(0), thresholds, noise, last, many)
    chunks, threshold_of_bin = [], empty.thresholds_at(table.group, table.bins)
    for threshold in np.unique(thresholds).tolist():
        counted = np.flatnonzero(threshold_of_bin == threshold)
        places, noisy = _counted_exceedances(table.rows[counted], threshold, noise, entropy)
        chunks.append((table.group[counted[places]], table.bins[counted[places]], noisy))
        chunks.append(_empty_exceedances(table, empty, threshold, entropy))
    groups, numbers, counts = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
    order = np.argsort(codes_of(groups, numbers, last), kind="stable")  # a few runs
    counts = counts[order].astype(np.float64)
    return replace(empty, group=groups[order], bins=numbers[order], counts=counts)


def joined(parts: Sequence[Exceedances], groups: int) -> Exceedances:
    """Return noisy bins that were drawn alike, of so many groups each but the last, as one."""
    if len(parts) == 1:
        return parts[0]
    columns = (
        (part.group + groups * index, part.bins, part.counts) for index, part in enumerate(parts)
    )
    group, bins, counts = map(np.concatenate, zip(*columns, strict=True))
    every = sum(noisy.each for noisy in parts)
    return replace(parts[0], group=group, bins=bins, counts=counts, each=every)


def every_count(
    table: BinTable, noise: Noise, entropy: EntropySource = system_entropy
) -> Exceedances:
    """Return all bins with their noisy counts: for few groups, whose bins are asked for often."""
    last = table.binning.last
    width = 2 * last + 1
    counts = np.zeros(table.groups * width, np.int64)
    counts[table.codes] = table.rows
    noisy = add_to(counts, noise, entropy).astype(np.float64)
    group, index = np.divmod(np.arange(len(noisy)), width)
    return Exceedances(group, index - last, noisy, -(2**62), noise, last)


@recordable
def counts_at(
    table: BinTable,
    noisy: Exceedances,
    group: Integers,
    bins: Integers,
    entropy: EntropySource = system_entropy,
) -> Floats:
    """Return the counts of some bins of the same noisy histogram, whether they stand out or not.

    A bin that was forgotten is drawn now, as it must have been: its noisy count is below `least`.
    So counts and exceedances together have the law of dense noise, and cost nothing more. A bin
    may be asked for once in the life of a histogram: a second draw would be another one.
    """
    codes = codes_of(group, bins, noisy.last)
    ascending = np.sort(codes)
    if (ascending[1:] == ascending[:-1]).any():
        raise ValueError("a bin of a noisy histogram can be drawn once")
    thresholds = noisy.thresholds_at(group, bins)
    counts: Floats = _looked_up(codes, noisy.codes, noisy.counts, np.nan)
    exact = _looked_up(codes, table.codes, table.rows, 0)
    open_ = np.flatnonzero(np.isnan(counts))
    while len(open_):
        candidates = add_to(exact[open_], noisy.noise, entropy)
        below = np.asarray(candidates < thresholds[open_], dtype=bool)
        counts[open_[below]] = candidates[below].astype(np.float64)
        open_ = open_[~below]
    return counts


def forgotten_as_zero(noisy: Exceedances, group: Integers, bins: Integers) -> Floats:
    """Return the counts of some bins that stand out, 0 for the others: nothing is drawn."""
    codes = codes_of(group, bins, noisy.last)
    return np.asarray(_looked_up(codes, noisy.codes, noisy.counts, 0.0))


def _looked_up(codes: Integers, known_codes: Integers, values: Any, otherwise: float) -> Any:
    """Return the values of `codes`, out of ascending `known_codes`."""
    if not len(known_codes):
        return np.full(len(codes), otherwise, dtype=np.asarray(values).dtype)
    places = np.minimum(np.searchsorted(known_codes, codes), len(known_codes) - 1)
    return np.where(known_codes[places] == codes, values[places], otherwise)


def _counted_exceedances(
    rows: Integers, threshold: int, noise: Noise, entropy: EntropySource
) -> tuple[Integers, npt.NDArray[Any]]:
    """Return the indexes and noisy counts of the counts that reach `threshold` with noise.

    Counts so small that only rare noise lifts them get noise where it is rare: elsewhere they stay
    below, whatever it is.
    """
    rare = count_at_height(_RARE_NOISE, noise)
    large, small = np.flatnonzero(rows > threshold - rare), np.flatnonzero(rows <= threshold - rare)
    noisy = add_to(rows[large], noise, entropy)
    places, rare_values = rare_noise(len(small), rare, noise, entropy)
    lifted = rows[small[places]] + rare_values
    reached, up = np.flatnonzero(noisy >= threshold), np.flatnonzero(lifted >= threshold)
    return (
        np.concatenate([large[reached], small[places[up]]]),
        np.concatenate([noisy[reached], lifted[up]]),
    )


def rare_noise(
    cells: int, threshold: int, noise: Noise, entropy: EntropySource
) -> tuple[Integers, npt.NDArray[Any]]:
    """Return the cells, of `cells`, whose noise reaches `threshold`, and the noise there.

    Proposals are `threshold` plus a geometric number. Gaussian noise thins out faster than they do:
    `excess` is proposed in proportion to exp(-threshold * excess / sigma**2), so that what is kept,
    exp(-excess**2 / (2 sigma**2)) of it, is in proportion to exp(-(threshold + excess)**2 / ...).
    """
    skip = skip_scale(threshold, noise)
    places = candidate_places(cells, skip, entropy)
    places = places[accepted(len(places), threshold, noise, skip, entropy)]
    excess = geometric(_fall(threshold, noise), len(places), entropy)
    if isinstance(noise, DiscreteGaussian):
        odds = GaussianOdds(noise.sigma_squared, Fraction(0), max(len(places), 1), entropy)
        is_accepted = odds.accepted(excess)
        places, excess = places[is_accepted], excess[is_accepted]
    return places, threshold + excess


def _empty_exceedances(
    table: BinTable, empty: Exceedances, threshold: int, entropy: EntropySource
) -> tuple[Integers, Integers, npt.NDArray[Any]]:
    """Return group, bin and noisy count of the empty bins that reach their `threshold`."""
    every = np.atleast_2d(empty.least)
    columns, bins_of_column = np.nonzero(every == threshold)
    many = np.bincount(columns, minlength=len(every))
    begins, firsts = (np.append(0, np.cumsum(size)) for size in (many * empty.each, many))
    cells = int(begins[-1]) if table.groups else 0
    places, noise_values = rare_noise(cells, threshold, empty.noise, entropy)
    column: Any = 0 if len(every) == 1 else np.searchsorted(begins, places, "right") - 1
    places -= begins[column]
    group = places // many[column]
    places -= group * many[column]  # faster than the rest of a division
    bins = bins_of_column[firsts[column] + places] - empty.last
    group += column * empty.each
    counted_codes, codes = table.codes, codes_of(group, bins, empty.last)
    entries = np.searchsorted(counted_codes, codes)
    is_counted = np.zeros(len(places), dtype=bool)
    inside = entries < len(counted_codes)
    is_counted[inside] = counted_codes[entries[inside]] == codes[inside]
    return group[~is_counted], bins[~is_counted], noise_values[~is_counted]


@functools.lru_cache(maxsize=256)  # public arguments only
def skip_scale(threshold: int, noise: Noise) -> Fraction:
    """Return s with P(proposal) <= 1 - exp(-1/s), and nearly equal: see `_proposal_probability`."""
    with decimal.localcontext(arithmetic(_fall(threshold, noise))):
        tail = float(_proposal_probability(threshold, noise))
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
        candidates = position + np.cumsum(gaps + 1)
        places.append(candidates[candidates < cells])
        position = int(candidates[-1])
    return np.concatenate(places) if places else np.zeros(0, dtype=np.int64)


def geometric(scale: Fraction, size: int, entropy: EntropySource) -> npt.NDArray[np.generic]:
    """Return `size` numbers with P(G >= k) = exp(-k / scale): int64, or objects beyond 2**51."""
    mantissas = (random_words(size, entropy) >> np.uint64(1)).view(np.int64)
    if scale > LARGEST_INT64_SCALE:
        exact = np.empty(size, dtype=object)
        exact[:] = [exact_geometric(int(mantissa), scale, entropy) for mantissa in mantissas]
        return exact
    blocks = Geometric(scale, min(size, _BLOCK), entropy)
    blocks_drawn = [blocks.draw(mantissas[i : i + _BLOCK]) for i in range(0, size, _BLOCK)]
    return np.concatenate(blocks_drawn) if blocks_drawn else np.zeros(0, dtype=np.int64)


def accepted(
    size: int, threshold: int, noise: Noise, skip: Fraction, entropy: EntropySource
) -> npt.NDArray[np.bool_]:
    """Return which candidates are proposals: each with P(proposal) / (1 - exp(-1/s))."""
    words = random_words(size, entropy)
    if not size:
        return np.zeros(0, dtype=bool)
    low, high = _ratio(threshold, noise, skip, 0)
    sure, never = math.floor(low * 2**64), math.ceil(high * 2**64)
    keep = words < np.uint64(min(sure, 2**64 - 1))
    for index in np.flatnonzero(~keep & (words < np.uint64(min(never, 2**64 - 1)))).tolist():
        keep[index] = _decide(int(words[index]), threshold, noise, skip, entropy)
    return np.asarray(keep)


def _decide(
    word: int, threshold: int, noise: Noise, skip: Fraction, entropy: EntropySource
) -> bool:
    uniform = LazyUniform(word, 64, entropy)
    while True:
        low, high = _ratio(threshold, noise, skip, uniform.bits)
        if Fraction(uniform.mantissa + 1, 2**uniform.bits) <= low:
            return True
        if Fraction(uniform.mantissa, 2**uniform.bits) >= high:
            return False
        uniform.extend()


def _ratio(threshold: int, noise: Noise, skip: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Enclose the ratio of probabilities to a relative 10**-(50 + bits / 3) and better."""
    context = arithmetic(skip, _fall(threshold, noise))
    context.prec += bits // 3
    with decimal.localcontext(context):
        ratio = Fraction(_proposal_probability(threshold, noise) / (1 - exponential(-1 / skip)))
    slack = Fraction(1, 10 ** (40 + bits // 3))
    return ratio * (1 - slack), ratio * (1 + slack)


def _proposal_probability(threshold: int, noise: Noise) -> decimal.Decimal:
    """Return the probability of a proposal, to nearly all digits of the current context.

    For Laplace noise that is P(Z >= t), for Gaussian noise a little more: the sum over k >= 0 of
    exp(-t**2 / (2 sigma**2) - t * k / sigma**2), over that of exp(-j**2 / (2 sigma**2)), with t the
    threshold.
    """
    step = exponential(-1 / _fall(threshold, noise))
    if isinstance(noise, DiscreteLaplace):
        return exponential(-threshold / noise.scale) / (1 + step)
    assert isinstance(noise, DiscreteGaussian)  # noqa: S101 there are two laws to draw from
    first = exponential(-(threshold**2) / (2 * noise.sigma_squared))
    return first / (theta(noise.sigma_squared) * (1 - step))


def _fall(threshold: int, noise: Noise) -> Fraction:
    """Return the scale of the geometric number that a proposal is above `threshold`."""
    if isinstance(noise, DiscreteLaplace):
        return noise.scale
    assert isinstance(noise, DiscreteGaussian)  # noqa: S101 there are two laws to draw from
    return noise.sigma_squared / threshold
