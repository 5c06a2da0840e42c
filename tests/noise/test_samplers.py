"""Samplers return what infinitely precise arithmetic would, on the same words; so their laws hold.

The reference is ball arithmetic (python-flint) on the uniform with all its digits: there a failure
is a proof. Comparisons with a law have a false-alarm rate of at most 1e-9 each.
"""

import decimal
import doctest
import importlib
import io
import itertools
import math
import os
import shutil
import struct
import subprocess
import sys
import time
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from scipy import stats

import dfprivacy as dfp
from dfprivacy.noise import samplers
from dfprivacy.noise import uniform as logarithms
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.noise.samplers import (
    GaussianOdds,
    Geometric,
    certain_acceptances,
    certain_floors,
    exact_gaussian,
    exact_geometric,
    exact_laplace,
    log_odds,
    low_part,
    proposal_center,
    proposal_scale,
    sample_gaussian,
    sample_laplace,
    surely_kept,
)
from dfprivacy.noise.uniform import (
    BITS,
    LARGEST_LOG,
    LazyUniform,
    Workspace,
    floor_of_scaled_log,
    is_certified,
    log_exceeds,
    natural_log,
    negative_log,
)
from tests.command_line import run_python
from tests.noise.exact_references import (
    FILL,
    SCALES,
    TOP,
    WIDE,
    all_digits,
    ball,
    craft,
    fill_source,
    reference_floor,
    reference_log,
)
from tests.noise.noise_laws import ALPHA, LaplaceLaw, cumulative, find_law, merge_parts

pytestmark = pytest.mark.usefixtures("permitted")


# The uniform and its logarithm


@pytest.mark.parametrize("level", [Fraction(0), Fraction(1, 2**40), Fraction(1, 3), 1, 20, 43, 60])
def test_comparisons_are_those_of_the_exact_logarithm(level):
    """log_exceeds is -ln U > level, for words next to exp(-level) and at the ends."""
    ctx.prec = 300
    edge = int(((-ball(level)).exp() * TOP).floor().unique_fmpz())
    words = {edge + offset for offset in range(-3, 4)} | {0, 1, TOP - 1, TOP - 2}
    for word in words:
        if 0 <= word < TOP:
            expected = bool(reference_log(all_digits(word)) > ball(level))
            assert log_exceeds(LazyUniform(word, BITS, fill_source), Fraction(level)) is expected


def test_extension_keeps_the_prefix():
    """Fresh digits are appended; those already seen stay."""
    uniform = LazyUniform(12345, BITS, fill_source)
    uniform.extend()
    assert uniform.mantissa >> 64 == 12345
    assert uniform.bits == BITS + 64
    assert uniform.mantissa % 2**64 == FILL


def test_enclosures_hold_and_shrink():
    """negative_log of a lazy uniform encloses -ln of both ends of its cell, closer each time."""
    for word in (1, 2, 12345, TOP // 3, TOP - 2, TOP - 1):
        uniform = LazyUniform(word, BITS, fill_source)
        widths = []
        for _ in range(4):
            low, high, unit = uniform.negative_log()
            ctx.prec = 600
            nearest = -arb(fmpq(uniform.mantissa + 1, 2**uniform.bits)).log()
            farthest = -arb(fmpq(uniform.mantissa, 2**uniform.bits)).log()
            assert nearest >= arb(fmpq(low, unit)) or low == 0
            assert farthest <= arb(fmpq(high, unit))
            widths.append(Fraction(high - low, unit))
            uniform.extend()
        assert widths == sorted(widths, reverse=True)
        assert widths[-1] < Fraction(1, 2**120)


def test_decimal_logarithms_are_correctly_rounded():
    """natural_log is the nearest decimal, whatever decimal context the caller has set."""
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP)):
        for word in (1, 3, 12345, TOP // 3, TOP - 1):
            logarithm = natural_log(word, BITS, 40)
            ctx.prec = 400
            error = abs(arb(fmpq(word, TOP)).log() - ball(Fraction(logarithm)))
            assert error <= ball(Fraction(10) ** (logarithm.adjusted() - 39) / 2)


def test_vectorized_enclosure_holds():
    """-ln of both ends of a cell lies within the certified error, by ball arithmetic."""
    words = craft(Fraction(10), 3000)
    work = Workspace.of(len(words))
    with np.errstate(all="ignore"):
        negative_log(words, work)
    ctx.prec = 300
    for word, value, error in zip(
        words.tolist(), work.value.tolist(), work.error.tolist(), strict=True
    ):
        if word == 0:
            assert math.isinf(value)
            assert math.isinf(error)
            continue
        for end in (word, word + 1):
            assert abs(-arb(fmpq(end, TOP)).log() - arb(value)) <= arb(error)


@pytest.mark.parametrize(
    "off", [lambda y: y * (1 + 16 * 2.0**-52), lambda y: y - 2.0**-54], ids=["far", "at one"]
)
def test_a_logarithm_that_is_off_is_noticed(monkeypatch, off):
    """The self-test fails for 16 units in the last place, and for an absolute error near 1."""
    assert is_certified()
    true_log = np.log
    monkeypatch.setattr(logarithms.np, "log", lambda x, **_: off(true_log(x)))
    assert not logarithms._log_is_accurate.__wrapped__()


def test_no_draw_exceeds_the_stated_number_of_scales():
    """The deepest uniform that is not an error stays below LARGEST_LOG, so int64 is safe."""
    words = itertools.chain([0] * 15, [1], itertools.repeat(FILL))
    deepest = LazyUniform(0, BITS, lambda size: struct.pack("=Q", next(words)))
    magnitude = floor_of_scaled_log(deepest, Fraction(2**51))
    assert 2**51 * 700 < magnitude < 2**51 * LARGEST_LOG
    assert 2 * 2**51 * LARGEST_LOG < 2**63


# Draws on chosen words


VARIANCES = [
    Fraction(1, 1000),
    Fraction(1, 4),
    Fraction(1),
    Fraction(25),
    Fraction(10**6),
    Fraction(2**40),
    Fraction(2**60 + 1, 3),
]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_fast_path_is_the_floor_of_the_scaled_logarithm(scale):
    """Whatever the word, the vectorized path gives floor(-scale * ln U) of the infinite U."""
    words = craft(scale, 500)
    magnitudes = Geometric(scale, len(words), fill_source).draw(words).tolist()
    for word, magnitude in zip(words.tolist(), magnitudes, strict=True):
        assert magnitude == reference_floor(all_digits(word), scale)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_exact_path_is_the_floor_of_the_scaled_logarithm(scale):
    """The path of integers and decimals gives the same."""
    for word in craft(scale, 20).tolist():
        assert exact_geometric(word, scale, fill_source) == reference_floor(all_digits(word), scale)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_certified_answers_hold_for_the_whole_cell(scale):
    """Where the filter agrees, both ends of the closed cell have that floor."""
    words = craft(scale, 1000)
    work = Workspace.of(len(words))
    magnitudes = np.empty(len(words), np.int64)
    certain_floors(words, scale, work, magnitudes)
    agrees = work.agrees
    assert not agrees[words == 0].any()
    ctx.prec = 300
    for word, magnitude in zip(words[agrees].tolist(), magnitudes[agrees].tolist(), strict=True):
        nearest = -arb(fmpq(word + 1, TOP)).log() * ball(scale)
        farthest = -arb(fmpq(word, TOP)).log() * ball(scale)
        assert nearest > magnitude or (word + 1 == TOP and magnitude == 0)
        assert farthest < magnitude + 1


@pytest.mark.parametrize("scale", WIDE, ids=str)
def test_wide_scales_split_into_an_exact_high_and_low_part(scale):
    """For 2**33 < scale <= 2**51 the draw is 2**k * floor(-scale / 2**k * ln U) + low bits."""
    words = craft(scale / 2**20, 300)
    sampler = Geometric(scale, len(words), fill_source)
    bits = sampler._low_bits
    high_scale = scale / 2**bits
    assert 2**19 <= high_scale <= 2**20
    low = low_part(FILL, bits, scale, fill_source)
    assert low == FILL % 2**bits
    for word, magnitude in zip(words.tolist(), sampler.draw(words).tolist(), strict=True):
        assert magnitude == (reference_floor(all_digits(word), high_scale) << bits) + low


@pytest.mark.parametrize("scale", WIDE, ids=str)
def test_surely_kept_words_are_kept(scale):
    """Below the integer threshold every low part passes, by the exact comparison."""
    bits = Geometric(scale, 1, fill_source)._low_bits
    limit = surely_kept(scale, bits)
    low = 2**bits - 1
    assert 0 < limit < 2 ** (64 - bits)
    for top in (0, 1, limit // 2, limit - 2, limit - 1):
        assert log_exceeds(LazyUniform(top, 64 - bits, fill_source), low / scale)
    assert not log_exceeds(LazyUniform(2 ** (64 - bits) - 1, 64 - bits, fill_source), low / scale)


@pytest.mark.parametrize(("scale", "bits"), [(Fraction(3), 3), (Fraction(2**40), 21)])
def test_low_parts_are_kept_by_the_exact_comparison(scale, bits):
    """A low part l is kept if and only if V < exp(-l / scale), else a new word comes."""
    for low in (1, 2, 5, 2**bits - 1):
        ctx.prec = 300
        edge = int(((-ball(low) / ball(scale)).exp() * 2 ** (64 - bits)).floor().unique_fmpz())
        for top in (0, edge - 1, edge, edge + 1, 2 ** (64 - bits) - 1):
            if not 0 <= top < 2 ** (64 - bits):
                continue
            digits = all_digits(top, 64 - bits)
            is_kept = bool(reference_log(digits) > ball(low / scale))
            low_bits = low_part(top << bits | low, bits, scale, fill_source)
            assert low_bits == (low if is_kept else FILL % 2**bits)


@pytest.mark.parametrize("centered", [True, False], ids=["about 0", "as Algorithm 3"])
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_gaussian_decisions_are_exact(variance, centered):
    """A proposal is accepted if and only if -ln V > z, with z in rational arithmetic.

    Where the floating-point filter is sure, it is right for both ends of the cell of V.
    """
    center = Fraction(0) if centered else proposal_center(variance)
    proposals, words = proposals_and_words(variance, center)
    odds = GaussianOdds(variance, center, len(words), fill_source)
    decisions = odds.decide(proposals, words)
    accepts, work = np.zeros(len(words), np.bool_), Workspace.of(len(words))
    certain_acceptances(proposals, words, variance, work, accepts, center=center)
    agrees = work.agrees
    ctx.prec = 1800
    for y, word, decision, sure, accept in zip(
        *(column.tolist() for column in (proposals, words, decisions, agrees, accepts)), strict=True
    ):
        level = ball(log_odds(y, variance, center))
        assert decision is bool(reference_log(all_digits(word)) > level)
        if sure:
            ends = {word: -arb(fmpq(word, TOP)).log(), word + 1: -arb(fmpq(word + 1, TOP)).log()}
            assert word > 0
            assert all(bool(end > level) is accept for end in ends.values())


def proposals_and_words(variance, center):
    scale = proposal_scale(variance)
    steps = {0, 1, 2, 3, *(scale * part // 4 for part in range(1, 26))}
    pairs = []
    for y in sorted(steps | {-step for step in steps}):
        ctx.prec = 300
        edge = int(((-ball(log_odds(y, variance, center))).exp() * TOP).floor().unique_fmpz())
        random = int.from_bytes(system_entropy(8), "little") >> 1
        neighbors = {edge + offset for offset in (-3, -2, -1, 0, 1, 2, 3)}
        pairs += [(y, w) for w in neighbors | {0, 1, TOP - 1, random} if 0 <= w < TOP]
    columns = np.array(pairs, dtype=np.int64)
    return columns[:, 0].copy(), columns[:, 1].copy()


def test_log_odds_follow_algorithm_3():
    """Z = (|y| - sigma**2 / t)**2 / (2 sigma**2), t = floor(sigma) + 1, in exact fractions."""
    assert proposal_scale(Fraction(1, 4)) == 1
    assert proposal_scale(Fraction(99, 4)) == 5
    assert proposal_scale(Fraction(25)) == 6
    for y, variance in ((-7, Fraction(25)), (2**60, Fraction(2**90))):
        center = variance / (math.isqrt(int(variance)) + 1)
        assert proposal_center(variance) == center
        assert log_odds(y, variance, center) == (abs(y) - center) ** 2 / (2 * variance)


@pytest.mark.parametrize(
    "draw",
    [
        *(partial(sample_laplace, scale, 400) for scale in (*SCALES, *WIDE)),
        *(partial(sample_gaussian, variance, 200) for variance in (*VARIANCES, Fraction(2**80))),
    ],
    ids=lambda draw: f"{draw.func.__name__} {draw.args[0]}",
)
def test_draws_without_the_filter_are_the_same(draw, monkeypatch):
    """Refusing the certificate changes no draw: the same bytes give the same noise."""
    source = io.BytesIO(system_entropy(200_000))
    fast = draw(source.read)
    monkeypatch.setattr(samplers, "is_certified", lambda: False)
    source.seek(0)
    assert fast.tolist() == draw(source.read).tolist()


def test_scalar_and_vector_laplace_agree():
    """The one-draw path of huge scales reads words as the vectorized path does."""
    words = system_entropy(80_000)
    first, again = io.BytesIO(words), io.BytesIO(words)
    vector = sample_laplace(Fraction(1000), 1, first.read).tolist()
    assert vector == [exact_laplace(Fraction(1000), again.read)]
    first.seek(0)
    again.seek(0)
    geometric = Geometric(Fraction(3), 64, first.read)
    draws = [exact_laplace(Fraction(3), again.read) for _ in range(30)]
    assert geometric.laplace(64).tolist()[:30] == draws


def test_zero_with_a_minus_sign_is_left_out():
    """The word of (-, 0) gives nothing; its twin with the other sign gives 0."""
    words = np.array([2**64 - 1, 2**64 - 2, 1, 0, 2**62 + 1, 2**62], dtype=np.uint64)
    source = io.BytesIO(words.tobytes() + 100 * struct.pack("=Q", FILL))
    draws = Geometric(Fraction(10), 8, source.read).laplace(len(words)).tolist()
    large = reference_floor(all_digits(0), Fraction(10))
    small = reference_floor(all_digits(2**61), Fraction(10))
    assert draws == [0, -large, large, -small, small]


def test_deep_tails_are_reached():
    """The all-zero word is extended, not replaced: draws beyond 44 scales exist."""
    tiny = Geometric(Fraction(1), 1, fill_source).draw(np.zeros(1, np.int64))
    assert tiny[0] == reference_floor(all_digits(0), Fraction(1)) > 43
    words = itertools.chain([0] * 12, itertools.repeat(FILL))
    deep = exact_geometric(0, Fraction(1), lambda size: struct.pack("=Q", next(words)))
    assert deep == math.floor((BITS + 12 * 64) * math.log(2) - math.log(FILL / 2**64))


def test_few_words_need_the_exact_path():
    """At scale 2**30 fewer than one word in 1,000 is left undecided (about 4e-5 are expected)."""
    words = (np.frombuffer(system_entropy(8 * 100_000), np.uint64) >> np.uint64(1)).view(np.int64)
    work = Workspace.of(len(words))
    certain_floors(words, Fraction(2**30), work, np.empty(len(words), np.int64))
    assert np.count_nonzero(~work.agrees) < 100


def test_stuck_sources_are_errors():
    """Nothing but zeros, or a word that is refused for ever, ends in dfp.errors.EntropyError."""
    zeros, ones = bytes, lambda size: b"\xff" * size
    for scale in (Fraction(1), Fraction(2**40), Fraction(2**60)):
        for source in (zeros, ones):
            with pytest.raises(dfp.errors.EntropyError):
                sample_laplace(scale, 5, source)
    with pytest.raises(dfp.errors.EntropyError):
        exact_gaussian(Fraction(2**130), zeros)
    with pytest.raises(dfp.errors.EntropyError):
        sample_gaussian(Fraction(2), 5, zeros)
    with pytest.raises(dfp.errors.EntropyError):
        low_part(2**64 - 1, 20, Fraction(2**40), ones)


@pytest.mark.parametrize("scale", [Fraction(1, 10**400), Fraction(1, 3), Fraction(1), Fraction(50)])
def test_one_block_of_words_is_nearly_always_enough(scale):
    """Words for the draws that are dropped are asked for at once: rarely is a second block needed.

    A block falls short beyond four standard deviations of a binomial number, below once in 30,000;
    twenty times in 200 is rarer than 1e-60.
    """
    requests = []

    def counting(size):
        requests.append(size // 8)
        return os.urandom(size)

    for _ in range(200):
        assert len(sample_laplace(scale, 2000, counting)) == 2000
    blocks = sum(words > 1 for words in requests)  # single words settle what floats leave open
    assert blocks < 220
    requests.clear()
    sample_laplace(Fraction(2**31), 2000, counting)  # (-, 0) is next to impossible
    assert requests[0] == 2000


# The law of many draws


FAST = 200_000


def chi_square_p_value(draws, law, least_expected=50):
    """Bins of nearly equal probability on each side, and zero, merged to 50 expected and more."""
    edges = sorted({1} | {max(1, math.ceil(edge)) for edge in law.bin_edges(120)})
    uppers = law.upper(np.array(edges, dtype=np.int64))
    side = uppers - np.append(uppers[1:], 0.0)
    counts, expected = [], []
    for sign in (1, -1):
        bin_counts = np.histogram(sign * draws, bins=[*map(float, edges), math.inf])[0]
        counts += bin_counts.tolist()
        expected += (side * len(draws)).tolist()
    counts.append(int((draws == 0).sum()))
    expected.append(law.zero * len(draws))
    counts, expected = merge_parts(counts, expected, least_expected)
    if len(counts) < 2:
        return 1.0
    statistic = sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True))
    return stats.chi2.sf(statistic, len(counts) - 1)


LAW_SCALES = [Fraction(1, 20), Fraction(7, 10), 1, 10, 1000, 2**20 + 1, 2**33, 2**40, 2**47]
LAW_VARIANCES = [Fraction(1, 4), 1, 25, 10**6, 2**40, 2**70 + 3]  # the last: proposals in two parts
NOISES = [DiscreteLaplace(Fraction(scale)) for scale in LAW_SCALES]
NOISES += [DiscreteGaussian(Fraction(variance)) for variance in LAW_VARIANCES]


@pytest.mark.parametrize("size", [FAST, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_draws_have_their_law(noise, size):
    """Counts in about 240 bins fit the law, and so does everything that a wrong sampler gets wrong.

    The distribution function is within 3.28 / sqrt(n) (DKW); the mean of |X| within 6.2 standard
    errors; as many draws are positive as negative; zero is not counted twice; the far tails are
    neither cut nor heavy; all residues modulo 64 come equally often once the law is wide.
    """
    draws, law = noise.sample(size), find_law(noise)
    assert chi_square_p_value(draws, law) > ALPHA
    values, counts = np.unique(draws, return_counts=True)
    heights = np.cumsum(counts) / size
    at = np.abs(heights - cumulative(law, values)).max()
    before = np.abs(heights - counts / size - cumulative(law, values - 1)).max()
    assert max(at, before) <= 3.28 / math.sqrt(size)
    if law.zero <= 1 - 1e-4:  # beyond, the tail counts say more
        spread = math.sqrt(max(0.0, law.variance - law.mean_magnitude**2))
        mean = np.abs(draws.astype(float)).mean()
        assert abs(mean - law.mean_magnitude) <= 6.2 * spread / math.sqrt(size)
    for tail_start in (1, *law.far_values()):
        above, below = int((draws >= tail_start).sum()), int((draws <= -tail_start).sum())
        assert stats.binomtest(above, max(1, above + below)).pvalue > ALPHA
    events = [((draws == 0).sum(), law.zero)]
    events += [((np.abs(draws) >= m).sum(), 2 * float(law.upper(m))) for m in law.far_values()]
    for count, probability in events:
        assert stats.binomtest(int(count), size, probability).pvalue > ALPHA
    if law.variance >= 10**5:
        seen, expected = np.bincount(draws % 64, minlength=64), size / 64
        assert stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), 63) > ALPHA
        assert np.abs(seen - expected).max() <= 7 * math.sqrt(expected)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [NOISES[2], NOISES[5], NOISES[6], NOISES[10]], ids=repr)
def test_a_scale_that_is_a_thousandth_off_would_show(noise):
    """At 2e7 draws the mean of |X| and the bins fit; a scale off by 0.1% would not."""
    size = 20_000_000
    draws = noise.sample(size)
    law = find_law(noise)
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
    draws = noise.sample(1500)
    assert draws.dtype == object
    assert all(type(draw) is int for draw in draws)
    law = find_law(noise)
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


@pytest.mark.parametrize(("scale", "bits"), [(3, 3), (40, 5)])
def test_splitting_leaves_the_geometric_law(scale, bits):
    """2**bits * High + Low is geometric also where most low parts need the exact decision."""
    size = 5_000
    geometric = Geometric(Fraction(scale), size, system_entropy)
    geometric._low_bits = bits
    geometric._high_scale = Fraction(scale) / 2**bits
    words = np.frombuffer(system_entropy(8 * size), np.uint64)
    draws = geometric.draw((words >> np.uint64(1)).view(np.int64))
    ratio = math.exp(-1 / scale)
    counts = np.bincount(draws)
    expected = size * (1 - ratio) * ratio ** np.arange(len(counts))
    rest = size * ratio ** len(counts)
    counts, expected = merge_parts([*counts.tolist(), 0], [*expected.tolist(), rest], 50)
    statistic = sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True))
    assert stats.chi2.sf(statistic, len(counts) - 1) > ALPHA


# Random bytes that fail


HUGE = [DiscreteLaplace(Fraction(2**50)), DiscreteGaussian(Fraction(2**100))]


def failing(size):
    raise OSError("no entropy")


@pytest.mark.parametrize("noise", [*HUGE, DiscreteLaplace(Fraction(2**60))], ids=repr)
def test_failing_systems_give_no_noise(noise, monkeypatch):
    """When a source fails or gives too few bytes, a draw is an EntropyError, never a number."""
    with pytest.raises(dfp.errors.EntropyError):
        noise.sample(3, lambda size: system_entropy(size)[:-1])
    monkeypatch.setattr(os, "urandom", failing)
    with pytest.raises(dfp.errors.EntropyError):
        noise.sample(3)


def test_failing_late_gives_no_noise():
    """A source that fails in the middle of an array, or in an extension, gives no array at all."""
    for good in range(1, 6):
        calls = iter(range(good))

        def source(size, calls=calls):
            if next(calls, None) is None:
                raise dfp.errors.EntropyError("no more")
            return system_entropy(size)

        with pytest.raises(dfp.errors.EntropyError):
            DiscreteGaussian(Fraction(10)).sample(200_000, source)


def test_every_call_asks_anew():
    """Each sample call draws all its bytes itself: nothing is left over for the next."""
    requests = []

    def source(size):
        requests.append(size)
        return system_entropy(size)

    noise = DiscreteLaplace(Fraction(2**20))
    for _ in range(3):
        requests.clear()
        noise.sample(1, source)
        assert sum(requests) >= 8
        requests.clear()
        noise.sample(50_000, source)
        assert sum(requests) >= 8 * 50_000


# Another processor, another rounding mode


COMPARE = """
from fractions import Fraction
import numpy as np
from dfprivacy.noise import race, samplers, uniform
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.noise.race import Runs
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip
from tests.numbered_bytes import NumberedBytes

spread = np.arange(900)
runs = Runs(spread[::3], spread, 1 + spread**6, spread * 7919 % 60)

def all_draws():
    values = []
    for scale in (Fraction(7, 10), Fraction(1000), Fraction(2**30), Fraction(2**45)):
        values += DiscreteLaplace(scale).sample(800, NumberedBytes()).tolist()
    for variance in (Fraction(1, 4), Fraction(10**6), Fraction(2**80)):
        values += DiscreteGaussian(variance).sample(300, NumberedBytes()).tolist()
    for law in (ExponentialMechanism(Fraction(1, 3)), PermuteAndFlip(Fraction(1, 3))):
        values += law.select(runs, NumberedBytes()).tolist()
    return values
"""
BOTH_PATHS = """
fast = all_draws()
samplers.certified = race.certified = lambda: False
assert fast == all_draws()
"""
ROUNDING = """
import ctypes, ctypes.util
expected = all_draws()
assert uniform.is_certified()
libm = ctypes.CDLL(ctypes.util.find_library("m"))
for mode in (0x400, 0x800, 0xC00):
    assert libm.fesetround(mode) == 0
    try:
        certified, found = uniform.is_certified(), all_draws()
    finally:
        libm.fesetround(0)
    assert not certified
    assert found == expected
assert uniform.is_certified()
"""
FLUSHING = """
import ctypes, sys
ctypes.CDLL(sys.argv[1]).flush()
import numpy as np
assert np.array([5e-324])[0] * 1.0 == 0.0, "denormals are still there"
"""
FLUSH_C = """
#include <xmmintrin.h>
#include <pmmintrin.h>
void flush(void) { _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
                   _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON); }
"""


@pytest.mark.battery
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine != "x86_64",
    reason="numbers of the rounding modes are those of Linux on x86-64",
)
def test_other_rounding_modes_change_no_draw():
    """Rounding down, up or to zero is noticed at every call; noise and choices stay."""
    run(COMPARE + ROUNDING)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("gcc") is None or os.uname().machine != "x86_64",
    reason="needs a C compiler for x86-64",
)
def test_flushed_denormals_change_no_draw(tmp_path):
    """A library built with -ffast-math that flushes denormals leaves both paths alike."""
    source, library = tmp_path / "flush.c", tmp_path / "flush.so"
    source.write_text(FLUSH_C)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    run(COMPARE + FLUSHING + BOTH_PATHS, str(library))


@pytest.mark.slow
@pytest.mark.parametrize(
    "features", ["AVX512_SKX X86_V4", "AVX512_SKX AVX512F AVX2 FMA3 X86_V4 X86_V3"]
)
def test_other_processors_change_no_draw(features):
    """Without the wide instructions numpy.log differs; fast and exact path agree all the same."""
    run(
        "import warnings; warnings.simplefilter('ignore')\n" + COMPARE + BOTH_PATHS,
        NPY_DISABLE_CPU_FEATURES=features,
    )


@pytest.mark.slow
def test_time_says_nothing_about_the_draw():
    """Rank correlation of |noise| with the time of its draw is below 0.03 (8 standard errors)."""
    noise = DiscreteLaplace(Fraction(1000))
    size = 70_000
    draws, times = np.empty(size), np.empty(size)
    for index in range(size):
        start = time.perf_counter_ns()
        draw = noise.sample(1)
        times[index] = time.perf_counter_ns() - start
        draws[index] = abs(int(draw[0]))
    assert abs(stats.spearmanr(draws, times).statistic) < 0.03


def run(script, *arguments, **environment):
    run_python("-c", script, *arguments, check=True, **environment)


DRAWING = {
    "dfprivacy.noise": ["laws", "race", "selection"],
    "dfprivacy.papers": ["monotone", "subset_optimal"],
    "dfprivacy.statistics.estimators": ["monotone", "bounds_search"],
}


def test_examples_that_draw_outside_of_a_release_run():
    """Every example in a docstring of what draws gives what it says."""
    for name in (f"{room}.{module}" for room, modules in DRAWING.items() for module in modules):
        result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
        assert result.failed == 0
        assert result.attempted > 0
