"""The samplers have the laws that they claim.

Every comparison is with the exact law and has a false-alarm rate of at most 1e-9.
"""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import special, stats

from dfprivacy.mechanisms.entropy import system_entropy
from dfprivacy.mechanisms.geometric import Geometric, low_part
from dfprivacy.mechanisms.noise import DiscreteGaussian, DiscreteLaplace

SCALES = [
    Fraction(1, 20),
    Fraction(3, 10),
    Fraction(7, 10),
    Fraction(1),
    Fraction(10),
    Fraction(1000),
    Fraction(2**20 + 1),
    Fraction(2**33),
    Fraction(2**40),
    Fraction(2**47),
]
VARIANCES = [Fraction(1, 4), Fraction(1), Fraction(25), Fraction(10**6), Fraction(2**40)]
NOISES = [DiscreteLaplace(scale) for scale in SCALES] + [DiscreteGaussian(v) for v in VARIANCES]
NOISES.append(DiscreteGaussian(Fraction(2**70 + 3)))  # proposals in two parts
ALPHA = 1e-9
Z = 6.11
FAST = 200_000


class LaplaceLaw:
    """Exact functions of the discrete Laplace law, in floating point."""

    def __init__(self, scale):
        self.scale = float(scale)
        self.ratio = math.exp(-1 / self.scale)
        self.one_less = -math.expm1(-1 / self.scale)

    def upper(self, m):
        """P(X >= m), elementwise, for m >= 1."""
        return np.exp(-np.asarray(m, dtype=float) / self.scale) / (1 + self.ratio)

    @property
    def zero(self):
        return self.one_less / (1 + self.ratio)

    @property
    def mean_magnitude(self):
        return 2 * self.ratio / (self.one_less * (1 + self.ratio))

    @property
    def variance(self):
        return 2 * self.ratio / self.one_less**2

    def bin_edges(self, bins):
        return [-self.scale * math.log(part / bins) for part in range(1, bins)]

    def far(self):
        return [math.ceil(10 * self.scale), math.ceil(20 * self.scale)]


class GaussianLaw:
    """The same of the discrete Gaussian law: summed up for small sigma, an integral for large."""

    def __init__(self, variance):
        self.sigma = math.sqrt(variance)
        self.values = None
        if self.sigma <= 2000:
            reach = math.ceil(40 * self.sigma) + 10
            weights = np.exp(-(np.arange(reach + 1.0) ** 2) / (2 * float(variance)))
            total = weights[0] + 2 * weights[1:].sum()
            self.values = weights / total
            self.uppers = np.append(np.cumsum(self.values[::-1])[::-1], 0.0)

    def upper(self, m):
        if self.values is None:  # off by less than sigma**-2 / 24
            return special.erfc((np.asarray(m, float) - 0.5) / (self.sigma * math.sqrt(2))) / 2
        return self.uppers[np.minimum(np.asarray(m), len(self.values))]

    @property
    def zero(self):
        if self.values is None:
            return 1 / (self.sigma * math.sqrt(2 * math.pi))
        return self.values[0]

    @property
    def mean_magnitude(self):
        if self.values is None:
            return self.sigma * math.sqrt(2 / math.pi)
        return 2 * (self.values * np.arange(len(self.values))).sum()

    @property
    def variance(self):
        if self.values is None:
            return self.sigma**2
        return 2 * (self.values * np.arange(len(self.values)) ** 2.0).sum()

    def bin_edges(self, bins):
        return [-self.sigma * float(special.ndtri(part / bins / 2)) for part in range(1, bins)]

    def far(self):
        return [math.ceil(3 * self.sigma), math.ceil(5 * self.sigma)]


def law_of(noise):
    if isinstance(noise, DiscreteLaplace):
        return LaplaceLaw(noise.scale)
    return GaussianLaw(noise.sigma_squared)


@functools.lru_cache(maxsize=2)
def drawn(noise, size):
    return noise.sample(size)


def sizes(function):
    """Run with 2e5 draws in the fast lane and 1e6 in the slow one."""
    lanes = [FAST, pytest.param(1_000_000, marks=pytest.mark.slow)]
    with_noise = pytest.mark.parametrize("noise", NOISES, ids=repr)(function)
    return pytest.mark.parametrize("size", lanes)(with_noise)


def chi_square_p_value(draws, law, least_expected=50):
    """Bins of nearly equal probability on each side, and zero, merged to 50 expected and more."""
    edges = sorted({1} | {max(1, math.ceil(edge)) for edge in law.bin_edges(120)})
    uppers = law.upper(np.array(edges, dtype=np.int64))
    side = uppers - np.append(uppers[1:], 0.0)
    counts, expected = [], []
    for sign in (1, -1):
        found = np.histogram(sign * draws, bins=[*map(float, edges), math.inf])[0]
        counts += found.tolist()
        expected += (side * len(draws)).tolist()
    counts.append(int((draws == 0).sum()))
    expected.append(law.zero * len(draws))
    counts, expected = merged(counts, expected, least_expected)
    if len(counts) < 2:
        return 1.0
    statistic = sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True))
    return stats.chi2.sf(statistic, len(counts) - 1)


def merged(counts, expected, least):
    """Join bins, the rarest first, until each expects at least `least`."""
    pairs = sorted(zip(expected, counts, strict=True))
    merged_pairs, mass, count = [], 0.0, 0
    for e, c in pairs:
        mass, count = mass + e, count + c
        if mass >= least:
            merged_pairs.append((mass, count))
            mass, count = 0.0, 0
    if mass and merged_pairs:
        e, c = merged_pairs.pop()
        merged_pairs.append((e + mass, c + count))
    return [c for _, c in merged_pairs], [e for e, _ in merged_pairs]


def cumulative(law, x):
    """P(X <= x), elementwise on integers."""
    above = law.upper(np.maximum(x + 1, 1))
    below = law.upper(np.maximum(-x, 1))
    return np.where(x >= 0, 1 - above, below)


@sizes
def test_chi_square(noise, size):
    """Counts in about 240 bins fit the law."""
    assert chi_square_p_value(drawn(noise, size), law_of(noise)) > ALPHA


@sizes
def test_distribution_function(noise, size):
    """The empirical distribution function is within 3.28 / sqrt(n) (DKW) everywhere."""
    values, counts = np.unique(drawn(noise, size), return_counts=True)
    heights = np.cumsum(counts) / size
    law = law_of(noise)
    at = np.abs(heights - cumulative(law, values)).max()
    before = np.abs(heights - counts / size - cumulative(law, values - 1)).max()
    assert max(at, before) <= 3.28 / math.sqrt(size)


@sizes
def test_mean_magnitude(noise, size):
    """The mean of |X| is that of the law, within 6.2 standard errors."""
    law = law_of(noise)
    spread = math.sqrt(max(0.0, law.variance - law.mean_magnitude**2))
    mean = np.abs(drawn(noise, size).astype(float)).mean()
    if law.zero > 1 - 1e-4:
        pytest.skip("almost always zero: the tail counts say more")
    assert abs(mean - law.mean_magnitude) <= 6.2 * spread / math.sqrt(size)


@sizes
def test_symmetry(noise, size):
    """As many draws are positive as negative, at several distances from zero."""
    draws = drawn(noise, size)
    law = law_of(noise)
    for least in (1, *law.far()):
        above, below = int((draws >= least).sum()), int((draws <= -least).sum())
        assert stats.binomtest(above, max(1, above + below)).pvalue > ALPHA


@sizes
def test_probability_of_zero_and_of_tails(noise, size):
    """Zero is not counted twice, and the far tails are neither cut nor heavy."""
    draws = drawn(noise, size)
    law = law_of(noise)
    events = [((draws == 0).sum(), law.zero)]
    events += [((np.abs(draws) >= m).sum(), 2 * float(law.upper(m))) for m in law.far()]
    for count, probability in events:
        assert stats.binomtest(int(count), size, probability).pvalue > ALPHA


@sizes
def test_no_holes_in_the_lattice(noise, size):
    """All residues modulo 64 come equally often once the law is wide."""
    if law_of(noise).variance < 10**5:
        pytest.skip("too narrow for uniform residues")
    counts = np.bincount(drawn(noise, size) % 64, minlength=64)
    expected = size / 64
    assert stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 63) > ALPHA
    assert np.abs(counts - expected).max() <= 7 * math.sqrt(expected)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [NOISES[3], NOISES[6], NOISES[7], NOISES[11]], ids=repr)
def test_a_scale_that_is_a_thousandth_off_would_show(noise):
    """At 2e7 draws the mean of |X| and the bins fit; a scale off by 0.1% would not."""
    size = 20_000_000
    draws = noise.sample(size)
    law = law_of(noise)
    assert chi_square_p_value(draws, law) > ALPHA
    spread = math.sqrt(law.variance - law.mean_magnitude**2)
    limit = 6.2 * spread / math.sqrt(size)
    assert abs(np.abs(draws.astype(float)).mean() - law.mean_magnitude) <= limit


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1000), Fraction(2**33)])
def test_the_checks_see_a_wrong_scale(scale):
    """The law tests have power: draws of a scale 4% larger fail them."""
    draws = DiscreteLaplace(scale * Fraction(104, 100)).sample(FAST)
    assert chi_square_p_value(draws, LaplaceLaw(scale)) < ALPHA


def test_the_checks_see_a_zero_counted_twice():
    """The law tests have power: keeping the pair (-, 0) fails them."""
    geometric = Geometric(Fraction(10), FAST, system_entropy)
    words = np.frombuffer(system_entropy(8 * FAST), np.uint64)
    magnitudes = geometric.draw((words >> np.uint64(1)).view(np.int64))
    draws = np.where(words & np.uint64(1), -magnitudes, magnitudes)
    assert chi_square_p_value(draws, LaplaceLaw(10)) < ALPHA


@pytest.mark.parametrize(("scale", "bits"), [(5, 2), (3, 3), (40, 5), (Fraction(1, 2), 1)])
def test_splitting_leaves_the_geometric_law(scale, bits):
    """2**bits * High + Low is geometric also where most low parts need the exact decision."""
    size = 20_000
    geometric = Geometric(Fraction(scale), size, system_entropy)
    geometric._low_bits = bits
    geometric._high_scale = Fraction(scale) / 2**bits
    words = np.frombuffer(system_entropy(8 * size), np.uint64)
    draws = geometric.draw((words >> np.uint64(1)).view(np.int64))
    ratio = math.exp(-1 / scale)
    counts = np.bincount(draws)
    expected = size * (1 - ratio) * ratio ** np.arange(len(counts))
    rest = size * ratio ** len(counts)
    counts, expected = merged([*counts.tolist(), 0], [*expected.tolist(), rest], 50)
    statistic = sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True))
    assert stats.chi2.sf(statistic, len(counts) - 1) > ALPHA


def test_low_parts_have_their_law():
    """low_part is proportional to exp(-l / scale) on [0, 2**bits), from any first word."""
    size, scale = 10_000, Fraction(3)
    words = np.frombuffer(system_entropy(8 * size), np.uint64).tolist()
    counts = np.bincount([low_part(word, 2, scale, system_entropy) for word in words], minlength=4)
    weights = np.exp(-np.arange(4) / 3)
    expected = size * weights / weights.sum()
    assert stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 3) > ALPHA


@pytest.mark.parametrize(
    "noise", [DiscreteLaplace(Fraction(2**60)), DiscreteGaussian(Fraction(2**130))], ids=repr
)
def test_huge_scales_are_python_integers_of_the_same_law(noise):
    """Beyond 2**51 draws are exact Python integers, and still fit the law."""
    draws = noise.sample(3000)
    assert draws.dtype == object
    assert all(type(draw) is int for draw in draws)
    law = law_of(noise)
    spread = math.sqrt(law.variance - law.mean_magnitude**2)
    mean = sum(map(abs, draws)) / len(draws)
    assert abs(mean - law.mean_magnitude) <= 6.2 * spread / math.sqrt(len(draws))
    scale = math.sqrt(law.variance)
    ranks = cumulative(law, np.sort(draws.astype(float)))
    steps = np.arange(1, len(draws) + 1) / len(draws)
    assert np.abs(ranks - steps).max() <= 3.28 / math.sqrt(len(draws)) + 1 / len(draws)
    assert max(abs(draw) for draw in draws) > scale
    residues = np.bincount([draw % 8 for draw in draws], minlength=8)
    expected = len(draws) / 8
    assert stats.chi2.sf(((residues - expected) ** 2 / expected).sum(), 7) > ALPHA


@pytest.mark.parametrize("scale", [Fraction(3, 10), 1, 10, 2**20 + 1, 2**40])
def test_agrees_with_the_bitwise_geometric(scale):
    """An independent sampler, bit by bit from integer thresholds, has the same law (DKW).

    The bits of a geometric number are independent with P(bit j) = 1 / (1 + exp(2**j / scale)).
    """
    size = 100_000
    ours = DiscreteLaplace(Fraction(scale)).sample(size)
    oracle = bitwise_geometric(scale, size) - bitwise_geometric(scale, size)
    points = np.union1d(ours, oracle)
    distance = np.abs(
        np.searchsorted(np.sort(ours), points, side="right")
        - np.searchsorted(np.sort(oracle), points, side="right")
    ).max()
    assert distance / size <= 2 * 3.33 / math.sqrt(size)


def bitwise_geometric(scale, size):
    generator = np.random.default_rng()
    total = np.zeros(size, np.int64)
    bits = max(1, math.ceil(math.log2(60 * scale)))
    for bit in range(bits):
        threshold = np.uint64(bit_threshold(bit, scale))
        words = generator.integers(0, 2**64, size, dtype=np.uint64)
        total += (words < threshold).astype(np.int64) << bit
    rest = np.ones(size, bool)
    while rest.any():  # the high part is geometric again, and almost always 0
        rest &= generator.random(size) < math.exp(-(2**bits) / scale)
        total += rest.astype(np.int64) << bits
    return total


def bit_threshold(bit, scale):
    ctx.prec = 300
    exponent = arb(2**bit) * arb(Fraction(scale).denominator) / arb(Fraction(scale).numerator)
    probability = 1 / (1 + exponent.exp())
    return int((probability * arb(2) ** 64).floor().unique_fmpz())


def test_sizes():
    """Any size comes back one-dimensional, also across blocks and when words are refused."""
    for size, noise in itertools.product((0, 1, 2, 16_383, 16_384, 16_385, 50_001), NOISES[1::4]):
        draws = noise.sample(size)
        assert draws.shape == (size,)
        assert draws.dtype == np.int64
