"""Sparse noise has the law of dense noise, every step of it is exact; bounds are read off it.

First those about zero, then those about a centre: which data are far from zero, and how far noisy
distances reach.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from flint import acb, arb, ctx, fmpq
from hypothesis import given
from scipy import stats

import dfprivacy as dfp
from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.measurement.bin_table import FINE, BinTable, bin_table
from dfprivacy.measurement.binning import Edges, Octaves
from dfprivacy.noise import exceedances as module
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.exceedances import (
    Exceedances,
    accepted,
    candidate_places,
    compute_heights,
    count_at_height,
    counts_at,
    exceedances,
    geometric,
    skip_scale,
)
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.noise.samplers import exact_geometric
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics.estimators import zoom
from dfprivacy.statistics.estimators.octave_bounds import (
    CORE,
    GROWTH,
    LEAST,
    PLAIN,
    WINDOWS,
    FoundBounds,
    cores,
    find_bounds,
    octave_bounds,
)
from dfprivacy.statistics.estimators.zoom import (
    CORE_HEIGHTS,
    CORE_LIMIT,
    DOUBLINGS,
    GAP_GROWTH,
    JOIN_HEIGHT,
    PARTS,
    RETRY_JOINING,
    SMALLEST_DISTANCE,
    WIDTH_GROWTH,
    ZERO_BIN_WIDTH,
    bins_around,
    distance_sizes,
    find_reached_bins,
    zoomed_bounds,
)


@pytest.fixture(autouse=True)
def _permitted():
    """Let samplers draw outside of a release."""
    with permit("a test"):
        yield


ALPHA = 1e-8
"""False-alarm rate of one comparison; a test here makes 20 of them at most: below 1e-6."""


SCALES = [Fraction(1), Fraction(8, 3), Fraction(1, 3), Fraction(1000, 7), Fraction(2**53 + 1, 5)]
NOISES = [
    *map(DiscreteLaplace, SCALES),
    *(DiscreteGaussian(scale**2) for scale in (*SCALES, Fraction(1, 9))),
]


EVERY = range(-40, 41)


def table(groups, entries=(), binning=None):
    """Return a table with the counts of (group, bin) pairs."""
    rows = sorted((*place, count) for place, count in dict(entries).items())
    columns = [np.array([row[i] for row in rows], dtype=np.int64) for i in range(3)]
    keys = pa.table({"key_0": np.arange(groups)})
    return BinTable(keys, groups, binning or Octaves(), *columns)


def tail(least, noise):
    """Return P(Z >= least)."""
    return float(noise.tail(least))


def law_above(least, noise, size):
    """Return P(Z = least + k given Z >= least) for the first k."""
    places = np.abs(least + np.arange(40 * size, dtype=float))
    laplace = isinstance(noise, DiscreteLaplace)
    logs = (
        -places / float(noise.scale) if laplace else -(places**2) / float(2 * noise.sigma_squared)
    )
    weights = np.exp(logs - logs.max())
    return weights[:size] / weights.sum()


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


@pytest.mark.parametrize("height", [1.0, 6.0])
@pytest.mark.parametrize("noise", [*NOISES[1:4], *NOISES[5:7], NOISES[8]], ids=str)
def test_empty_bins_reach_a_height_as_dense_noise_would(height, noise):
    """Empty bins reach a height as dense noise would.

    How many reach it, which, and how high: the binomial, the uniform and the noise's own law;
    false-alarm rate below 2e-7.
    """
    groups, least = 200_000 if height > 5 else 4_000, count_at_height(height, noise)
    found = exceedances(table(groups), noise, height)
    cells = groups * 507
    assert enough(len(found.bins), cells, tail(least, noise))
    assert same_law(np.bincount(found.bins + 253, minlength=507), [1 / 507] * 507)
    assert same_law(np.bincount(found.group % 40, minlength=40), [1 / 40] * 40)
    over = found.counts.astype(np.int64) - least
    size = 12 * count_at_height(1.0, noise)
    law = law_above(least, noise, size)
    assert over.min() >= 0
    assert same_law(np.bincount(over, minlength=size)[:size], law)
    codes = found.group * 507 + found.bins
    assert (np.diff(codes) > 0).all()


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(3, 2)), DiscreteGaussian(Fraction(4))])
def test_all_bins_of_a_small_table_have_their_joint_law(noise):
    """All bins of a small table have their joint law.

    With three bins, of which one holds two rows: each of the eight patterns of bins that are seen
    has the probability of dense noise; false-alarm rate below 1e-7.
    """
    groups, least = 60_000, count_at_height(1.0, noise)
    two = {(g, 1): 2 for g in range(groups)}
    found = exceedances(table(groups, two, Edges((0.0, 1.0))), noise, 1.0)
    patterns = np.zeros(groups, dtype=np.int64)
    np.bitwise_or.at(patterns, found.group, 1 << (found.bins + 1))
    empty, full = tail(least, noise), tail(least - 2, noise)
    law = [
        math.prod(p if pattern >> bit & 1 else 1 - p for bit, p in enumerate([empty, empty, full]))
        for pattern in range(8)
    ]
    assert same_law(np.bincount(patterns, minlength=8), law)


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(3, 2)), DiscreteGaussian(Fraction(4))])
def test_columns_of_a_stack_have_the_joint_law_of_dense_noise(noise):
    """Where less is enough in some bins of a column these reach less, and so do no other ones.

    Two columns with three bins, of which one holds two rows, and with bins of their own that need
    less: each of the eight patterns has the probability of dense noise; false-alarm rate below
    1e-7.
    """
    each, low, high = 30_000, count_at_height(1.0, noise), count_at_height(2.0, noise)
    among = np.array([[False, True, True], [True, False, False]])
    two = {(g, 1): 2 for g in range(2 * each)}
    stack = table(2 * each, two, Edges((0.0, 1.0)))
    found = exceedances(stack, noise, 2.0, among=(among, 1.0))
    patterns = np.zeros(2 * each, dtype=np.int64)
    np.bitwise_or.at(patterns, found.group, 1 << (found.bins + 1))
    for own, seen in zip(among, patterns.reshape(2, each), strict=True):
        least = np.where(own, low, high) - np.array([0, 0, 2])
        reached = [tail(int(one), noise) for one in least]
        law = [
            math.prod(p if pattern >> bit & 1 else 1 - p for bit, p in enumerate(reached))
            for pattern in range(8)
        ]
        assert same_law(np.bincount(seen, minlength=8), law)


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(4)), DiscreteGaussian(Fraction(50))])
@pytest.mark.parametrize("count", [1, 7, 12, 13, 40])
def test_counted_bins_have_the_noise_of_a_count(count, noise):
    """A bin with rows is its count plus noise, if that reaches the height."""
    groups, least = 40_000, count_at_height(6.0, noise)
    found = exceedances(table(groups, {(g, 5): count for g in range(groups)}), noise, 6.0)
    own = found.counts[found.bins == 5].astype(np.int64)
    assert own.min() >= least
    assert enough(len(own), groups, tail(least - count, noise))
    seen = np.bincount(own - least, minlength=200)[:200]
    assert same_law(seen, law_above(least - count, noise, 200))


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(1)), DiscreteGaussian(Fraction(2))])
def test_small_counts_have_the_joint_law_of_dense_noise(noise):
    """Neighbouring bins, of which one is empty and two need rare noise, survive independently.

    Each of the eight patterns has the probability of dense noise, and each bin the heights of it.
    """
    groups, least = 150_000, count_at_height(4.0, noise)
    counts = {0: 0, 1: 1, 2: 1}
    entries = {(g, b): c for g in range(groups) for b, c in counts.items() if c}
    found = exceedances(table(groups, entries, Edges((0.0, 1.0, 2.0))), noise, 4.0)
    own = (found.bins >= 0) & (found.bins <= 2)
    patterns = np.zeros(groups, dtype=np.int64)
    np.bitwise_or.at(patterns, found.group[own], 1 << found.bins[own])
    reached = [tail(least - count, noise) for count in counts.values()]
    law = [
        math.prod(p if pattern >> bit & 1 else 1 - p for bit, p in enumerate(reached))
        for pattern in range(8)
    ]
    assert same_law(np.bincount(patterns, minlength=8), law)
    for place, count in counts.items():
        over = found.counts[found.bins == place].astype(np.int64) - least
        assert over.min() >= 0
        assert same_law(np.bincount(over, minlength=40)[:40], law_above(least - count, noise, 40))


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(2)), DiscreteGaussian(Fraction(8))])
def test_counts_of_forgotten_bins_have_the_law_of_dense_noise(noise):
    """Bins that are asked for later, whether they stood out or not, are a dense noisy histogram.

    An empty bin and two with rows, one below what shows and one about it; each has the law of its
    count plus noise, and two of them are independent. A bin is drawn once.
    """
    groups, counts = 100_000, {0: 0, 1: 3, 2: 12}
    entries = {(g, b): c for g in range(groups) for b, c in counts.items() if c}
    rows = table(groups, entries, Edges((0.0, 1.0, 2.0)))
    noisy = exceedances(rows, noise, 6.0)
    place = np.repeat(np.arange(groups), 3), np.tile(np.arange(3), groups)
    drawn = counts_at(rows, noisy, *place).reshape(groups, 3).astype(np.int64)
    law = [tail(z, noise) - tail(z + 1, noise) for z in EVERY]
    for bin_, count in counts.items():
        inside = drawn[:, bin_] - count
        seen = np.bincount(inside[np.abs(inside) <= 40] + 40, minlength=81)
        assert same_law(seen, law)
    signs = (drawn[:, 0] > 0) * 2 + (drawn[:, 2] > 12)
    above = tail(1, noise)
    either = [1 - above, above]
    assert same_law(np.bincount(signs, minlength=4), [a * b for a in either for b in either])
    with pytest.raises(ValueError, match="drawn once"):
        counts_at(rows, noisy, np.array([0, 0]), np.array([1, 1]))


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_all_counts_are_looked_at(noise):
    """Counts on either side of what only rare noise lifts: those far above `least` always show."""
    least, rare = count_at_height(6.0, noise), count_at_height(3.0, noise)
    rows = np.array([1, least - rare, least + 20 * rare])
    seen = exceedances(table(3, {(g, 1): int(n) for g, n in enumerate(rows)}), noise, 6.0)
    assert 2 in seen.group[seen.bins == 1].tolist()


class Script:
    """A source that gives written words first, then those of the operating system."""

    def __init__(self, words):
        self.words = list(words)

    def __call__(self, size):
        own = [self.words.pop(0) for _ in range(min(size // 8, len(self.words)))]
        given = b"".join(word.to_bytes(8, "little") for word in own)
        return given + system_entropy(size - len(given))


def power(exponent):
    return arb(fmpq(exponent.numerator, exponent.denominator)).exp()


def exact_ratio(least, noise, skip, digits=400):
    """Return P(Z >= least), for Gaussian noise the envelope's, over 1 - exp(-1/skip), as a ball."""
    ctx.dps = digits
    if isinstance(noise, DiscreteLaplace):
        reached = power(-least / noise.scale) / (1 + power(-1 / noise.scale))
    else:
        s = noise.sigma_squared
        reached = power(-(least**2) / (2 * s)) / (every(s) * (1 - power(-least / s)))
    return reached / (1 - power(-1 / skip))


def every(s):
    """Return the sum of exp(-j**2 / (2 s)) over all integers j by flint's own theta function."""
    tau = acb(0, arb(fmpq(s.denominator, 2 * s.numerator)) / arb.pi())
    return acb(0).modular_theta(tau)[2].real


LAWS = [
    (count_at_height(6.0, own), own, skip_scale(count_at_height(6.0, own), own)) for own in NOISES
]
LAWS += [
    (1, own, skip_scale(1, own))
    for own in (DiscreteLaplace(Fraction(1, 10**6)), DiscreteGaussian(Fraction(1, 10**6)))
]


@pytest.mark.parametrize(("least", "noise", "skip"), LAWS, ids=str)
def test_candidates_are_more_likely_than_proposals(least, noise, skip):
    """A candidate is at least as likely as a proposal, and not often in vain."""
    ratio = exact_ratio(Fraction(least), noise, skip)
    assert ratio < 1
    assert ratio > 0.99 or skip == 2**200


@pytest.mark.parametrize(("least", "noise", "skip"), LAWS[:11], ids=str)
def test_thinning_is_exact(least, noise, skip):
    """A candidate stays if and only if a uniform number, digit by digit, is below the ratio.

    Words far from it, next to it, and equal to its first 64 or 128 digits: fresh digits decide.
    """
    ratio = exact_ratio(Fraction(least), noise, skip)
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
        assert accepted(1, least, noise, skip, source).tolist() == [kept]
        assert source.words == []
    mixed = accepted(4, least, noise, skip, Script([0, first, top, first - 1, second + 1]))
    assert mixed.tolist() == [True, False, False, True]


def floor(ball, bits):
    scaled = ball * arb(2) ** bits
    return int(scaled.floor().unique_fmpz())


@pytest.mark.parametrize("skip", [Fraction(403), Fraction(1, 2), Fraction(2**52 + 1)])
@pytest.mark.parametrize("cells", [0, 506, 507 * 10])
def test_places_are_those_of_exact_skips(skip, cells):
    """Places are those of exact skips: from one to the next it is one more than a geometric."""
    generator = np.random.default_rng(cells)
    words = [int(w) for w in generator.integers(0, 2**64, 20_000, dtype=np.uint64)]
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


@pytest.mark.parametrize("loss", [2**60, Fraction(3, 8), Fraction(1, 2**53)], ids=str)
@pytest.mark.parametrize("kind", [Epsilon, Rho])
def test_any_loss_has_heights_of_its_noise(loss, kind):
    """Any loss has heights of its noise: a count that is large enough is seen."""
    noise = kind(Fraction(loss)).noise(1, 1)
    count = count_at_height(1000.0, noise)
    found = exceedances(table(3, {(1, -7): count}), noise, 6.0)
    (place,) = np.flatnonzero((found.group == 1) & (found.bins == -7))
    assert found.counts[place] == pytest.approx(count, abs=count_at_height(40.0, noise))
    assert found.heights.min() >= 6.0 * (1 - 1e-12)
    assert found.heights.dtype == np.float64
    assert len(found.bins) < 30


def test_a_table_without_groups_has_no_exceedances():
    """A table without groups has no exceedances, of the same dtypes."""
    for noise in NOISES:
        found = exceedances(table(0), noise, 6.0)
        assert [len(array) for array in (found.group, found.bins, found.heights)] == [0, 0, 0]
        assert found.group.dtype == found.bins.dtype == np.int64


@pytest.mark.parametrize("failure", ["short", "raises"])
@pytest.mark.parametrize("noise", NOISES[::5], ids=str)
@pytest.mark.parametrize("call", range(4))
def test_failing_sources_release_nothing(call, noise, failure):
    """Whichever draw fails, the call ends in `EntropyError`."""
    calls = itertools.count()

    def source(size):
        if next(calls) < call:
            return system_entropy(size)
        if failure == "raises":
            raise dfp.errors.EntropyError("the operating system gave no random bytes")
        return b"\0" * (size - 1)

    with pytest.raises(dfp.errors.EntropyError):
        exceedances(table(2_000, {(0, 1): 5}), noise, 1.0, source)


def test_every_call_draws_afresh():
    """Two calls give two results; both ask the operating system."""
    one, other = (exceedances(table(50), NOISES[0], 1.0) for _ in range(2))
    assert not np.array_equal(one.heights, other.heights)
    assert module.exceedances.__wrapped__.__defaults__ == (system_entropy, None)
    assert module.every_count.__defaults__ == (system_entropy,)


# Bounds that are read off the noisy octaves


LAST = Octaves().last


def noisy(*drawn_groups):
    """Return the noisy bins of groups, each a mapping from bin to height."""
    rows = [(g, b, h) for g, bins in enumerate(drawn_groups) for b, h in sorted(bins.items())]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return Exceedances(
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.int64),
        np.array(columns[2], dtype=np.float64),
    )


def bounds_of(*drawn_groups):
    found = octave_bounds(noisy(*drawn_groups), len(drawn_groups))
    return list(zip(found.lower.tolist(), found.upper.tolist(), strict=True))


def ends(bin_):
    """Return the ends of a bin, by its definition."""
    size = abs(bin_)
    inner, outer = (0 if size <= 1 else Fraction(2) ** (size - 128)), Fraction(2) ** (size - 127)
    if size == 0:
        return Fraction(0), Fraction(0)
    return (inner, outer) if bin_ > 0 else (-outer, -inner)


def inside(bins, first, size):
    """Return the bins of a window, which lies on one side of zero."""
    return [b for b in range(first, first + size) if b in bins and b * first > 0]


def by_the_words(bins):
    """Return the bounds of one group as the rule's own words have them."""
    for size, least in WINDOWS.items():
        windows = {b: inside(bins, b, size) for b in bins if b != 0}
        tall = {b: sum(bins[c] for c in held) for b, held in windows.items()}
        core = max(tall, key=lambda b: (tall[b], b), default=None)
        if core is not None and tall[core] >= least:
            break
    else:
        return math.nan, math.nan
    reach = [core, windows[core][-1]]
    low, high = ends(reach[0])[0], ends(reach[1])[1]
    for _ in range(2):
        for side in (1, 0):
            beyond = [b for b in bins if (b > reach[1] if side else b < reach[0])]
            for b in sorted(beyond, reverse=not side):
                far = max(high, ends(b)[1]) if side else min(low, ends(b)[0])
                width = far - low if side else high - far
                needed = LEAST + GROWTH * math.log2(max(width / (high - low), 1))
                outer = ends(b)[1] if side else -ends(b)[0]
                if 0 < outer < width:  # across zero
                    needed = max(needed, min(float(width / outer), CORE))
                if bins[b] >= needed:
                    reach[side] = b
                    low, high = (low, far) if side else (far, high)
    narrow = Fraction(2) ** (math.frexp(float(high - low))[1] - 20)
    if abs(low) < narrow:
        low = -narrow if low < 0 else Fraction(0)
    if abs(high) < narrow:
        high = narrow if high > 0 else Fraction(0)
    return float(low), float(high)


DRAWN_HEIGHTS = st.sampled_from(
    [5.0, 6.5, 7.0, 8.25, 9.0, 11.75, CORE, CORE + 1, 20.0, 60.0, 300.0, 1e6]
)


near = st.dictionaries(st.integers(-30, 30), DRAWN_HEIGHTS, max_size=9)


low = st.dictionaries(
    st.integers(-6, 9), st.sampled_from([5.0, 5.25, 6.5, 8.25, 11.75]), max_size=9
)


anywhere = st.dictionaries(st.integers(-LAST, LAST), DRAWN_HEIGHTS, max_size=9)


drawn_groups = st.lists(st.one_of(near, low, anywhere), max_size=5)


@given(drawn_groups)
def test_bounds_are_those_of_the_rule_in_words(drawn):
    """From the core outwards a bin joins by its height; every group is judged by itself."""
    expected = [by_the_words(bins) for bins in drawn]
    assert np.array_equal(np.array(bounds_of(*drawn)), np.array(expected), equal_nan=True)


@given(drawn_groups)
def test_bounds_are_ordered_octave_edges(drawn):
    """Bounds ascend, are zero or powers of two, and none is much nearer to zero than wide."""
    for lower, upper in bounds_of(*drawn):
        if math.isnan(lower):
            assert math.isnan(upper)
            continue
        assert lower < upper
        for end in (lower, upper):
            assert end == 0 or math.frexp(abs(end))[0] == 0.5
            assert end == 0 or abs(end) >= 2.0**-20 * (upper - lower)


def shifted(bins, by):
    return {b + math.copysign(by, b) * (b != 0): h for b, h in bins.items()}


@given(
    st.dictionaries(st.integers(-90, 90), DRAWN_HEIGHTS, max_size=9), st.sampled_from([1, 20, 100])
)
def test_multiplied_data_have_multiplied_bounds(bins, octaves):
    """Values 2**k times as large, in bins k further out, have bounds 2**k times as large."""
    bins = {b + (40 if b > 0 else -40) * (b != 0): h for b, h in bins.items()}
    ((lower, upper),) = bounds_of(bins)
    ((more, most),) = bounds_of({int(b): h for b, h in shifted(bins, octaves).items()})
    if not math.isnan(lower):
        assert (more, most) == (lower * 2**octaves, upper * 2**octaves)


@pytest.mark.parametrize("octave", [-LAST, -127, -1, 1, 127, LAST])
def test_a_core_has_the_height_of_a_core(octave):
    """A group has bounds from the height of a core on, and none just below."""
    assert np.isnan(bounds_of({octave: math.nextafter(CORE, 0)})).all()
    low, high = ends(octave)
    assert bounds_of({octave: CORE}) == [(float(low), float(high))]


@pytest.mark.parametrize(
    ("core", "other", "ratio"), [(130, 131, 3), (130, 140, 2047), (130, 129, 1.5), (130, -130, 4)]
)
def test_a_bin_joins_from_its_price_on(core, other, ratio):
    """A bin joins at its price, the growth of the width in doublings, and not below."""
    price = LEAST + GROWTH * math.log2(ratio)
    alone, joined = bounds_of({core: 99.0}), bounds_of({core: 99.0, other: price})
    assert joined != alone
    (low, high), (further, furthest) = ends(core), ends(other)
    assert joined == [(float(min(low, further)), float(max(high, furthest)))]
    assert bounds_of({core: 99.0, other: math.nextafter(price, 0)}) == alone


def test_no_bin_no_bounds():
    """Without a noisy bin there are no bounds, and zeros alone have none: that is said of them."""
    assert np.isnan(octave_bounds(noisy({}, {}), 2).lower).all()
    assert octave_bounds(noisy(), 0).lower.shape == (0,)
    assert np.isnan(bounds_of({0: 50.0})).all()
    found = octave_bounds(noisy({0: CORE}, {0: CORE - 1}, {}, {0: 99.0, 131: CORE}), 4)
    assert found.zeros.tolist() == [True, False, False, False]
    assert bounds_of({0: 50.0, 131: 20.0}) == [(0.0, 16.0)]


@pytest.mark.parametrize("joining", [PLAIN, RETRY_JOINING], ids=["first", "second"])
@pytest.mark.parametrize("kind", [Epsilon, Rho])
@pytest.mark.parametrize("loss", ["0.1", "0.375", "1", "2.5", "5", "15"])
def test_an_empty_group_has_hardly_ever_bounds(loss, kind, joining):
    """Noise makes a core with probability below 5e-4 a group, at the first look and the second."""
    noise = kind(Fraction(loss)).noise(1, 1)
    counts = np.arange(4 * count_at_height(max(joining.windows.values()), noise))
    tails = np.array([tail(k, noise) for k in counts])
    one = np.where(
        counts >= count_at_height(joining.counted, noise), tails - np.append(tails[1:], 0), 0
    )
    one[0] = 1 - one.sum()
    found = 0
    for size, least in cores(joining.windows, noise).items():
        total = np.ones(1)
        for _ in range(size):
            total = np.convolve(total, one)[: len(counts)]
        found += 2 * LAST * total[compute_heights(counts, noise, size) >= least].sum()
    assert found < 5e-4


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(3, 2)), DiscreteGaussian(Fraction(2))])
def test_bounds_are_read_off_a_noisy_table(noise):
    """`find_bounds` reads the bounds off counts with this noise: same bytes, same ends.

    Its noisy counts are those of `exceedances` at LEAST, and nothing else is drawn.
    """
    values = np.repeat([3.0, -700.0, 2.0**40], [40, 25, 3])
    group = np.arange(len(values)) % 2
    labels = Octaves().labels(values)
    rows = np.ones(len(values), np.int64)
    table = bin_table(pa.table({"g": [0, 1, 2]}), 3, Octaves(), group, labels, rows=rows)
    for seed in range(20):
        drawn = [np.random.default_rng(seed) for _ in range(2)]
        found = find_bounds(table, noise, drawn[0].bytes)
        noisy_ = exceedances(table, noise, LEAST, drawn[1].bytes)
        expected = octave_bounds(noisy_, 3)
        np.testing.assert_array_equal(found.lower, expected.lower)
        np.testing.assert_array_equal(found.upper, expected.upper)
        assert drawn[0].bytes(8) == drawn[1].bytes(8)


# Bounds about a centre


def table_of(*groups):
    """Return the table of groups of values."""
    group = np.repeat(np.arange(len(groups)), [len(own) for own in groups])
    numbers = FINE.numbers(FINE.labels(np.concatenate([*groups, []]).astype(float)))
    cells, rows = np.unique(np.stack([group, numbers]), axis=1, return_counts=True)
    return BinTable(pa.table({}), len(groups), FINE, cells[0], cells[1], rows)


FAR = {
    "normal(100, 15)": np.random.default_rng(1).normal(100, 15, 4000),
    "years": np.random.default_rng(2).integers(1990, 2026, 4000),
    "negative": np.random.default_rng(3).normal(-288, 12, 4000),
    "a constant": np.full(4000, 7.3),
    "timestamps": 1.7e9 + np.random.default_rng(4).uniform(0, 86400 * 30, 4000),
}


@pytest.mark.parametrize("loss", [Epsilon(Fraction(1)), Rho(Fraction(1, 2))], ids=str)
@pytest.mark.parametrize("data", FAR)
def test_data_far_from_zero_have_bounds_of_their_spread(data, loss):
    """Of 200 releases at least 190 have bounds at most three times as wide as the data.

    They hold all but a fortieth of the rows at either end, and a constant has one bin.
    """
    values = np.sort(FAR[data].astype(float))
    with permit("a test"):
        found = zoomed_bounds(copied(table_of(values), 200), loss).found
    spread = max(values[-1] - values[0], 2.0**-8)
    inner, outer = values[100], values[-101]
    good = (found.upper - found.lower <= 3 * spread) & (found.lower <= inner)
    assert (good & (found.upper >= outer)).sum() >= 190


def test_rows_that_noise_has_lifted_elsewhere_are_no_rows(monkeypatch):
    """A glance at 3,000 rows is not enough, however many octaves noise has lifted far from them."""
    seen, real = [], zoom.exceedances

    def lifted(table, noise, *args):
        seen.append(noise)
        if len(seen) > 1:
            return real(table, noise, *args)
        own = noisy({130: 60.0, **dict.fromkeys([-200, -90, 9, 40, 200, 220], 9.0)})
        return replace(own, counts=own.counts * float(noise.scale), noise=noise)

    monkeypatch.setattr(zoom, "exceedances", lifted)
    with permit("a test"):
        zoomed_bounds(table_of(np.full(3000, 7.3)), Epsilon(Fraction(1)))
    assert len(seen) == 2


def test_a_tail_across_zero_is_within_bounds():
    """Rows on the other side of zero are as near to the centre as any: few of them are clipped."""
    values = np.sort(np.random.default_rng(6).logistic(20, 3, 60_000))
    with permit("a test"):
        found = zoomed_bounds(copied(table_of(values), 60), Epsilon(Fraction(1))).found
    assert (found.lower < values[20]).sum() > 30
    assert (found.upper > values[-20]).sum() > 30


def test_rows_beside_many_zeros_are_found():
    """A tenth of a thousand rows is not zero: one release in 800 knows of zeros alone."""
    values = np.append(np.zeros(900), np.random.default_rng(8).exponential(1000, 100))
    with permit("a test"):
        found = zoomed_bounds(copied(table_of(values), 400), Epsilon(Fraction(1))).found
    assert (found.zeros | np.isnan(found.lower)).sum() <= 9


def test_two_far_apart_have_bounds_of_their_own():
    """Where an octave is missing on the way to the last, which has few rows, no tail is slow."""
    r = np.random.default_rng(7)
    values = np.where(
        r.random(100_000) < 0.5, r.normal(-5, 1, 100_000), r.normal(1000, 10, 100_000)
    )
    with permit("a test"):
        found = zoomed_bounds(copied(table_of(values), 60), Epsilon(Fraction(1))).found
    assert (found.upper - found.lower < 1500).sum() > 30


@pytest.mark.parametrize("epsilon", [1, 1000])
@pytest.mark.parametrize("rows", [0, 1, 30, 5000])
def test_shares_are_part_of_the_loss(epsilon, rows):
    """What is left is positive, and less than the loss; groups come out in their order."""
    groups = [np.full(rows, 700.0), np.linspace(-1, 1, rows), np.zeros(rows)]
    with permit("a test"):
        zoomed = zoomed_bounds(table_of(*groups), Epsilon(Fraction(epsilon)))
    assert all(0 < zoomed.left(np.array([group])) < PARTS for group in range(3))
    found = zoomed.found.found
    assert (zoomed.found.lower[found] < zoomed.found.upper[found]).all()
    if rows == 5000:
        assert found.tolist() == [True, True, False]


def test_the_looks_at_a_group_and_what_is_left_are_its_loss(monkeypatch):
    """Each group pays for the looks that it took, once each, and the rest of its loss is left.

    Of two groups the first has bounds at first and loses them; what is left of both is the lesser.
    """
    ends = iter([[1.0, np.nan], [1.0, np.nan], [np.nan], [np.nan]])
    noises, sample = [], zoom.exceedances

    def bounds(*_):
        upper = np.array(next(ends))
        return FoundBounds(-upper, upper, np.zeros(len(upper), dtype=bool))

    def record(table, noise, *arguments):
        noises.append(noise)
        return sample(table, noise, *arguments)

    monkeypatch.setattr(zoom, "octave_bounds", bounds)
    monkeypatch.setattr(zoom, "exceedances", record)
    with permit("a test"):
        zoomed = zoomed_bounds(table_of([], []), Epsilon(Fraction(1)))
    spent = [Fraction(0), Fraction(0)]
    for histogram, noise in zip(zoomed.histograms, noises, strict=True):
        for group in histogram.groups.tolist():
            spent[group] += 1 / noise.scale
    left = [Fraction(zoomed.left(np.array([group])), PARTS) for group in range(2)]
    assert [sum(shares) for shares in zip(spent, left, strict=True)] == [1, 1]
    assert [histogram.groups.tolist() for histogram in zoomed.histograms[2:]] == [[0], [1]]
    assert Fraction(zoomed.left(np.arange(2)), PARTS) == min(left)


def copied(one, copies):
    """Return the table of so many groups like the only one."""
    group = np.repeat(np.arange(copies), len(one.bins))
    bins, rows = np.tile(one.bins, copies), np.tile(one.rows, copies)
    return BinTable(pa.table({}), copies, one.binning, group, bins, rows)


def reaches_by_the_words(counts, ends, near, width):
    """Return the bounds of one group's noisy counts as the rule's own words have it."""
    below, above = ends
    middle = len(below) - 1
    height = {i - middle: c for i, c in enumerate(counts)}

    def price(side, place, reach):
        lower, upper = below[reach[-1]], above[reach[1]]
        wide = above[place] - lower if side > 0 else upper - below[place]
        factor = max(wide / max(upper - lower, width, ZERO_BIN_WIDTH), 1)
        return (
            JOIN_HEIGHT
            + WIDTH_GROWTH * math.log(factor)
            + GAP_GROWTH * math.log(place - reach[side])
        )

    alone = {1: 0, -1: 0}
    reach, standing = dict(alone), height[0] >= CORE_HEIGHTS[1]
    for side in (1, -1):
        for size, least in CORE_HEIGHTS.items():
            windows = {}
            for first in range(1, near - size + 2):
                windows[first] = sum(height[side * k] for k in range(first, first + size))
                if standing:
                    more = price(side, first + size - 1, alone) - CORE_HEIGHTS[1]
                    windows[first] -= max(more, 0)
            best = max(windows, key=lambda f: (windows[f], -f))
            if windows[best] >= least - 1e-9:
                reach[side] = best + size - 1
                break
    seen = standing or reach != alone
    for _ in range(2):
        for side in (1, -1):
            for place in range(reach[side] + 1, middle + 1):
                if height[side * place] >= price(side, place, reach):
                    reach[side] = place
    return below[reach[-1]], above[reach[1]], seen


def test_a_core_beside_a_middle_that_stands_out_costs_what_it_widens():
    """A bin that is a core where nothing else stands out is none far from a middle that does."""
    noisy, ends = np.zeros((2, 61)), np.arange(31.0)[None].repeat(2, axis=0) * 64
    noisy[1, 30], noisy[:, 30 + 5] = 100.0, CORE_HEIGHTS[1]
    reach, seen = find_reached_bins(noisy, DiscreteLaplace(1), (-ends, ends + 1), 30, np.zeros(2))
    assert seen.all()
    assert [own.tolist() for own in reach] == [[0, 0], [5, 0]]


@given(st.data())
def test_reaches_are_those_of_the_rule_in_words(data):
    """The core of each side, then bins by height, width in units of the column, and gap."""
    sizes = distance_sizes(2**15, data.draw(st.sampled_from([2, 4])))
    width, near = 2 * len(sizes) - 1, int(np.searchsorted(sizes, CORE_LIMIT))
    tall = st.sampled_from([-3.0, -1.0, 0.0, 1.0, 3.0, 4.0, 6.0, 9.0, 14.0, 40.0, 300.0])
    few = st.dictionaries(st.integers(0, width - 1), tall, max_size=25)
    groups = data.draw(st.lists(few, min_size=1, max_size=3))
    noisy = np.zeros((len(groups), width))
    for row, own in zip(noisy, groups, strict=True):
        row[list(own)] = list(own.values())
    centre = data.draw(st.lists(st.integers(-(2**16), 2**16), min_size=3, max_size=3))
    centres = np.array(centre[: len(groups)])[:, None]
    ends = FINE.lower(centres - sizes), FINE.upper(centres + sizes)
    wide = np.array(data.draw(st.sampled_from([0.0, 2.0**-30, 2.0])))
    reach, seen = find_reached_bins(noisy, DiscreteLaplace(Fraction(1)), ends, near, wide)
    for place, row in enumerate(noisy):
        own = tuple(side[place].tolist() for side in ends)
        found = tuple(side[far[place]] for side, far in zip(own, reach, strict=True))
        assert (*found, seen[place]) == reaches_by_the_words(row, own, near, wide)


def test_heights_of_both_laws_are_as_improbable():
    """A height h is reached by noise with a probability of about exp(-h) / 2."""
    for sigma in (Fraction(1), Fraction(400)):
        noise = DiscreteGaussian(sigma**2)
        for place in (2, 4, 6):
            height = float(compute_heights(np.array([place * float(sigma)]), noise)[0])
            exact = -math.log(math.erfc((place - 0.5 / float(sigma)) / math.sqrt(2)))
            assert height == pytest.approx(exact, abs=0.05)
    laplace = compute_heights(np.array([30.0, -5.0]), DiscreteLaplace(Fraction(10)))
    assert laplace.tolist() == [3.0, -0.5]


@given(
    st.integers(-FINE.last, FINE.last), st.none() | st.integers(-100, 140), st.sampled_from([2, 4])
)
def test_every_bin_is_at_one_distance(centre, exponent, fineness):
    """Bins within each distance are within the next; the first is the centre, the last are all.

    Each holds all values that are so near, which have 22 bits, or are zero; further from zero than
    centres that are far from it, all bins that are so near.
    """
    widths = None if exponent is None else np.array([2.0**exponent])
    below, above = (own[0] for own in bins_around(FINE, np.array([centre]), widths, fineness))
    assert below[0] == centre == above[0]
    assert (below[-1], above[-1]) == (-FINE.last, FINE.last)
    assert (np.diff(below) <= 0).all()
    assert (np.diff(above) >= 0).all()
    lower, upper = FINE.lower(below), FINE.upper(above)
    unit = FINE.upper(above[:1])[0] - FINE.lower(below[:1])[0]
    sizes = distance_sizes(2**DOUBLINGS, fineness)
    far = sizes * (unit if widths is None else max(unit, SMALLEST_DISTANCE * widths[0]))
    for sign, ends, bins in ((-1, lower, below), (1, upper, above)):
        if widths is None and sign == np.sign(centre):
            assert (np.abs(bins[:-1]) == np.minimum(np.abs(centre) + sizes, FINE.last)).all()
            continue
        outer = np.minimum(sign * ends[0] + far, sign * ends[-1])
        rounding = np.maximum(2.0**-21 * np.abs(outer), ZERO_BIN_WIDTH)
        assert (sign * ends[:-1] >= outer - rounding).all()


@pytest.mark.parametrize("fineness", [2, 4, 8])
def test_bins_of_distances_are_parts_of_octaves(fineness):
    """Every power of two up to the largest distance ends a bin, and so do even parts between."""
    sizes = distance_sizes(2**DOUBLINGS, fineness)
    assert sizes[:2].tolist() == [0, 1]
    assert sizes[-1] >= 2**DOUBLINGS
    powers = 2 ** np.arange(20)
    assert set(powers) <= set(sizes)
    large = sizes[sizes >= fineness]
    assert (np.diff(large)[:-1] == 2 ** np.floor(np.log2(large[:-2])) / fineness).all()
