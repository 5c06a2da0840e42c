"""The samplers have the laws that they claim.

Every comparison is with the exact law and has a false-alarm rate of at most 1e-9.
"""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.laplace import Geometric
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from tests.noise.noise_laws import ALPHA, LaplaceLaw, cumulative, law_of, merged

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
FAST = 200_000


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
    """The law tests have power: draws of a scale 5% larger fail them, but for one of 10**15."""
    draws = DiscreteLaplace(scale * Fraction(105, 100)).sample(FAST)
    assert chi_square_p_value(draws, LaplaceLaw(scale)) < ALPHA


def test_the_checks_see_a_zero_counted_twice():
    """The law tests have power: keeping the pair (-, 0) fails them."""
    geometric = Geometric(Fraction(10), FAST, system_entropy)
    words = np.frombuffer(system_entropy(8 * FAST), np.uint64)
    magnitudes = geometric.draw((words >> np.uint64(1)).view(np.int64))
    draws = np.where(words & np.uint64(1), -magnitudes, magnitudes)
    assert chi_square_p_value(draws, LaplaceLaw(10)) < ALPHA


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


def test_sizes():
    """Any size comes back one-dimensional, also across blocks and when words are refused."""
    for size, noise in itertools.product((0, 1, 2, 16_383, 16_384, 16_385, 50_001), NOISES[1::4]):
        draws = noise.sample(size)
        assert draws.shape == (size,)
        assert draws.dtype == np.int64
