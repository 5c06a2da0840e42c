"""Sparse noise has the law of dense noise, and every step of it is exact."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from flint import arb, ctx, fmpq
from scipy import stats

from dfprivacy.errors import EntropyError
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Edges, Octaves
from dfprivacy.noise import exceedances as module
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.exceedances import (
    accepted,
    candidate_places,
    exceedances,
    geometric,
    skip_scale,
)
from dfprivacy.noise.laplace import exact_geometric

ALPHA = 1e-8
"""False-alarm rate of one comparison; a test here makes 20 of them at most: below 1e-6."""

SCALES = [Fraction(1), Fraction(8, 3), Fraction(1, 3), Fraction(1000, 7), Fraction(2**53 + 1, 5)]


def table(groups, entries=(), binning=None):
    """Return a table with the counts of (group, bin) pairs."""
    rows = sorted((*place, count) for place, count in dict(entries).items())
    columns = [np.array([row[i] for row in rows], dtype=np.int64) for i in range(3)]
    keys = pa.table({"key_0": np.arange(groups)})
    return BinTable(keys, groups, binning or Octaves(), *columns)


def tail(least, scale):
    """Return P(Z >= least) of discrete Laplace noise, least >= 1."""
    return math.exp(-least / scale) / (1 + math.exp(-1 / scale))


def enough(hits, trials, probability):
    """Tell whether a number of hits is likely enough for its probability, from both sides."""
    law = stats.binom(trials, probability)
    return law.cdf(hits) > ALPHA / 2 and law.sf(hits - 1) > ALPHA / 2


def same_law(seen, probabilities):
    """Tell whether counts of classes have the probabilities, by chi-square."""
    total = sum(seen)
    classes = [*zip(seen, probabilities, strict=False)]
    kept = [(n, p) for n, p in classes if p * total >= 10]
    kept.append((total - sum(n for n, _ in kept), 1 - sum(p for _, p in kept)))
    expected = [p * total for _, p in kept if p * total >= 10]
    numbers = [n for n, p in kept if p * total >= 10]
    if len(numbers) < len(kept):  # the small rest goes with the last
        numbers[-1] += total - sum(numbers)
        expected[-1] += total - sum(expected)
    return stats.chisquare(numbers, expected).pvalue > ALPHA


@pytest.mark.parametrize("heights", [1.0, 6.0])
@pytest.mark.parametrize("scale", SCALES[:4], ids=str)
def test_empty_bins_reach_a_height_as_dense_noise_would(heights, scale):
    """Empty bins reach a height as dense noise would.

    How many reach it, which, and how high: the binomial, the uniform and the geometric law;
    false-alarm rate below 1e-7.
    """
    groups = 200_000 if heights > 5 else 4_000
    least = max(1, math.ceil(Fraction(heights) * scale))
    found = exceedances(table(groups), 1 / scale, heights)
    cells = groups * 507
    assert enough(len(found.bins), cells, tail(least, scale))
    assert same_law(np.bincount(found.bins + 253, minlength=507), [1 / 507] * 507)
    assert same_law(np.bincount(found.group % 40, minlength=40), [1 / 40] * 40)
    over = np.rint(found.heights * float(scale)).astype(np.int64) - least
    ratio = math.exp(-1 / scale)
    law = [(1 - ratio) * ratio**k for k in range(int(30 * scale) + 2)]
    assert over.min() >= 0
    assert same_law(np.bincount(over, minlength=len(law))[: len(law)], law)
    codes = found.group * 507 + found.bins
    assert (np.diff(codes) > 0).all()


def test_all_bins_of_a_small_table_have_their_joint_law():
    """All bins of a small table have their joint law.

    With three bins, of which one holds two rows: each of the eight patterns of bins that are seen
    has the probability of dense noise; false-alarm rate below 1e-7.
    """
    groups, scale = 60_000, Fraction(3, 2)
    two = {(g, 1): 2 for g in range(groups)}
    found = exceedances(table(groups, two, Edges((0.0, 1.0))), 1 / scale, 1.0)
    patterns = np.zeros(groups, dtype=np.int64)
    np.bitwise_or.at(patterns, found.group, 1 << (found.bins + 1))
    empty, full = tail(2, scale), 1 - tail(1, scale)  # 2 + Z >= 2 says that Z >= 0
    law = [
        math.prod(p if pattern >> bit & 1 else 1 - p for bit, p in enumerate([empty, empty, full]))
        for pattern in range(8)
    ]
    assert same_law(np.bincount(patterns, minlength=8), law)


@pytest.mark.parametrize("count", [1, 7, 40])
def test_counted_bins_have_the_noise_of_a_count(count):
    """A bin with rows is its count plus discrete Laplace noise, if that reaches the height."""
    groups, scale = 40_000, Fraction(4)
    found = exceedances(table(groups, {(g, 5): count for g in range(groups)}), 1 / scale, 6.0)
    own = np.rint(found.heights[found.bins == 5] * 4).astype(np.int64)
    ratio = math.exp(-1 / 4)
    zero = (1 - ratio) / (1 + ratio)
    law = [zero * ratio ** abs(v - count) for v in range(24, count + 120)]
    assert own.min() >= 24
    assert enough(len(own), groups, sum(law))
    seen = np.bincount(own - 24, minlength=len(law))[: len(law)]
    assert same_law(seen, [p / sum(law) for p in law])


class Script:
    """A source that gives written words first, then those of the operating system."""

    def __init__(self, words):
        self.words = list(words)

    def __call__(self, size):
        own = [self.words.pop(0) for _ in range(min(size // 8, len(self.words)))]
        given = b"".join(word.to_bytes(8, "little") for word in own)
        return given + system_entropy(size - len(given))


def exact_ratio(least, scale, skip, digits=400):
    """Return P(Z >= least) / (1 - exp(-1/skip)) as a ball."""
    ctx.dps = digits

    def power(x):
        return arb(fmpq(x.numerator, x.denominator)).exp()

    reached = power(-least / scale) / (1 + power(-1 / scale))
    return reached / (1 - power(-1 / skip))


LAWS = [
    (math.ceil(6 * scale), scale, skip_scale(math.ceil(6 * scale), scale)) for scale in SCALES
] + [(1, Fraction(1, 10**6), skip_scale(1, Fraction(1, 10**6)))]


@pytest.mark.parametrize(("least", "scale", "skip"), LAWS, ids=str)
def test_candidates_are_more_likely_than_exceedances(least, scale, skip):
    """A candidate is at least as likely as an exceedance, and not often in vain."""
    ratio = exact_ratio(Fraction(least), scale, skip)
    assert ratio < 1
    assert ratio > 0.99 or skip == 2**200


@pytest.mark.parametrize(("least", "scale", "skip"), LAWS[:5], ids=str)
def test_thinning_is_exact(least, scale, skip):
    """A candidate stays if and only if a uniform number, digit by digit, is below the ratio.

    Words far from it, next to it, and equal to its first 64 or 128 digits: fresh digits decide.
    """
    ratio = exact_ratio(Fraction(least), scale, skip)
    digits = [floor(ratio, bits) for bits in (64, 128, 192)]
    first, second, third = digits[0], digits[1] - (digits[0] << 64), digits[2] - (digits[1] << 64)
    top = 2**64 - 1
    scripts = {
        (0,): True, (first - 1,): True, (first + 1,): False, (top,): False,
        (first, second - 1): True, (first, second + 1): False, (first, 0): second > 0,
        (first, second, third - 1): True, (first, second, third + 1): False,
    }  # fmt: skip
    for words, kept in scripts.items():
        source = Script(words)
        assert accepted(1, least, scale, skip, source).tolist() == [kept]
        assert source.words == []
    mixed = accepted(4, least, scale, skip, Script([0, first, top, first - 1, second + 1]))
    assert mixed.tolist() == [True, False, False, True]


def floor(ball, bits):
    scaled = ball * arb(2) ** bits
    return int(scaled.floor().unique_fmpz())


@pytest.mark.parametrize("skip", [Fraction(403), Fraction(1, 2), Fraction(2**52 + 1), Fraction(7)])
@pytest.mark.parametrize("cells", [0, 1, 506, 507 * 10])
def test_places_are_those_of_exact_skips(skip, cells):
    """Places are those of exact skips: from one to the next it is one more than a geometric."""
    generator = np.random.default_rng(cells)
    words = [int(w) for w in generator.integers(0, 2**64, 40_000, dtype=np.uint64)]
    asked = []

    def source(size):
        asked.append(size // 8)
        return b"".join(words.pop(0).to_bytes(8, "little") for _ in range(size // 8))

    copied = list(words)
    found = candidate_places(cells, skip, source).tolist()
    expected, position = [], -1
    for word in itertools.islice(copied, 0, sum(asked)):
        position += 1 + exact_geometric(word >> 1, skip, system_entropy)
        expected.append(position)
    assert found == [place for place in expected if place < cells]
    assert cells == 0 or expected[-1] >= cells


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_geometric_numbers_are_exact(scale):
    """Blocks of geometric numbers are those of the exact path, from the same words."""
    if scale > 2**33:  # the low digits come from words of their own
        drawn = geometric(scale, 20_000, system_entropy)
        assert enough(
            (drawn >= math.ceil(scale)).sum(), 20_000, math.exp(-math.ceil(scale) / scale)
        )
        return
    words = np.random.default_rng(5).integers(0, 2**64, 2_000, dtype=np.uint64)
    source = Script([int(word) for word in words])
    expected = [exact_geometric(int(word) >> 1, scale, system_entropy) for word in words]
    assert geometric(scale, len(words), source).tolist() == expected


@pytest.mark.parametrize("epsilon", [Fraction(2**60), Fraction(3, 8), Fraction(1, 2**53)])
def test_any_epsilon_has_heights_in_units_of_its_noise(epsilon):
    """Any epsilon has heights in units of its noise: a count that is large enough is seen."""
    count = math.ceil(1000 / epsilon)
    found = exceedances(table(3, {(1, -7): count}), epsilon, 6.0)
    (place,) = np.flatnonzero((found.group == 1) & (found.bins == -7))
    assert found.heights[place] == pytest.approx(count * float(epsilon), abs=40)
    assert found.heights.min() >= 6.0
    assert found.heights.dtype == np.float64
    assert len(found.bins) < 30


def test_a_table_without_groups_has_no_exceedances():
    """A table without groups has no exceedances, of the same dtypes."""
    found = exceedances(table(0), Fraction(1), 6.0)
    assert [len(array) for array in (found.group, found.bins, found.heights)] == [0, 0, 0]
    assert found.group.dtype == found.bins.dtype == np.int64


@pytest.mark.parametrize("failure", ["short", "raises"])
@pytest.mark.parametrize("call", range(4))
def test_failing_sources_release_nothing(call, failure):
    """Whichever draw fails, the call ends in `EntropyError`."""
    calls = itertools.count()

    def source(size):
        if next(calls) < call:
            return system_entropy(size)
        if failure == "raises":
            raise EntropyError("the operating system gave no random bytes")
        return b"\0" * (size - 1)

    with pytest.raises(EntropyError):
        exceedances(table(2_000, {(0, 1): 5}), Fraction(1), 1.0, source)


def test_every_call_draws_afresh():
    """Two calls give two results; both ask the operating system."""
    one, other = (exceedances(table(50), Fraction(1), 1.0) for _ in range(2))
    assert not np.array_equal(one.heights, other.heights)
    assert module.exceedances.__defaults__ == (system_entropy,)
