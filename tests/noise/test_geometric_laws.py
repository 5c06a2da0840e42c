"""High and low parts of a draw have their laws, apart and together.

Every comparison is with the exact law and has a false-alarm rate of at most 1e-9.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.laplace import Geometric, low_part
from dfprivacy.noise.laws import DiscreteLaplace
from tests.noise.noise_laws import ALPHA, merged


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
