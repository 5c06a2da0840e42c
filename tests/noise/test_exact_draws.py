"""Every path of the samplers returns what infinitely precise arithmetic would, on the same words.

The reference is ball arithmetic (python-flint) on the uniform with all its digits. No test here
is statistical, except that the words are random: a failure is a proof.
"""

import itertools
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from dfprivacy.errors import EntropyError
from dfprivacy.noise import gaussian, laplace
from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.gaussian import (
    GaussianBlocks,
    certain_acceptances,
    exact_gaussian,
    log_odds,
    proposal_scale,
    sample_gaussian,
)
from dfprivacy.noise.laplace import (
    Geometric,
    LaplaceBlocks,
    certain_floors,
    exact_geometric,
    exact_laplace,
    low_part,
    sample_laplace,
    surely_kept,
)
from dfprivacy.noise.uniform import BITS, LazyUniform, Workspace, log_exceeds
from tests.noise.exact_references import (
    FILL,
    SCALES,
    TOP,
    WIDE,
    all_digits,
    ball,
    crafted,
    filled,
    reference_floor,
    reference_log,
)

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
    """Whatever the word, the vectorised path gives floor(-scale * ln U) of the infinite U."""
    words = crafted(scale)
    found = Geometric(scale, len(words), filled).draw(words).tolist()
    for word, magnitude in zip(words.tolist(), found, strict=True):
        assert magnitude == reference_floor(all_digits(word), scale)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_exact_path_is_the_floor_of_the_scaled_logarithm(scale):
    """The path of integers and decimals gives the same."""
    for word in crafted(scale, 50).tolist():
        assert exact_geometric(word, scale, filled) == reference_floor(all_digits(word), scale)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_certified_answers_hold_for_the_whole_cell(scale):
    """Where the filter agrees, both ends of the closed cell have that floor."""
    words = crafted(scale, 3000)
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


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_fast_path_on_many_words(scale):
    """The same floor on 200,000 random words more."""
    words = crafted(scale, 200_000)
    found = Geometric(scale, len(words), filled).draw(words).tolist()
    ctx.prec = 160
    factor = ball(scale)
    for word, magnitude in zip(words.tolist(), found, strict=True):
        value = -arb(all_digits(word, words=3)).log() * factor
        assert magnitude < value < magnitude + 1 or word == 0


@pytest.mark.parametrize("scale", WIDE, ids=str)
def test_wide_scales_split_into_an_exact_high_and_low_part(scale):
    """For 2**33 < scale <= 2**51 the draw is 2**k * floor(-scale / 2**k * ln U) + low bits."""
    words = crafted(scale / 2**20, 300)
    sampler = Geometric(scale, len(words), filled)
    bits = sampler._low_bits
    high_scale = scale / 2**bits
    assert 2**19 <= high_scale <= 2**20
    low = low_part(FILL, bits, scale, filled)
    assert low == FILL % 2**bits
    for word, magnitude in zip(words.tolist(), sampler.draw(words).tolist(), strict=True):
        assert magnitude == (reference_floor(all_digits(word), high_scale) << bits) + low


@pytest.mark.parametrize("scale", WIDE, ids=str)
def test_surely_kept_words_are_kept(scale):
    """Below the integer threshold every low part passes, by the exact comparison."""
    bits = Geometric(scale, 1, filled)._low_bits
    limit = surely_kept(scale, bits)
    low = 2**bits - 1
    assert 0 < limit < 2 ** (64 - bits)
    for top in (0, 1, limit // 2, limit - 2, limit - 1):
        assert log_exceeds(LazyUniform(top, 64 - bits, filled), low / scale)
    assert not log_exceeds(LazyUniform(2 ** (64 - bits) - 1, 64 - bits, filled), low / scale)


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
            kept = bool(reference_log(digits) > ball(low / scale))
            found = low_part(top << bits | low, bits, scale, filled)
            assert found == (low if kept else FILL % 2**bits)


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_gaussian_decisions_are_exact(variance):
    """A proposal is accepted if and only if -ln V > z, with z in rational arithmetic.

    Where the floating-point filter is sure, it is right for both ends of the cell of V.
    """
    proposals, words = proposals_and_words(variance)
    blocks = GaussianBlocks(variance, filled)
    blocks._work = Workspace.of(len(words))
    decisions = blocks.accepted(proposals, words)
    accepts = np.zeros(len(words), np.bool_)
    certain_acceptances(proposals, words, variance, blocks._work, accepts)
    agrees = blocks._work.agrees
    ctx.prec = 1800
    for y, word, decision, sure, accept in zip(
        *(column.tolist() for column in (proposals, words, decisions, agrees, accepts)), strict=True
    ):
        level = ball(log_odds(y, variance))
        assert decision is bool(reference_log(all_digits(word)) > level)
        if sure:
            ends = {word: -arb(fmpq(word, TOP)).log(), word + 1: -arb(fmpq(word + 1, TOP)).log()}
            assert word > 0
            assert all(bool(end > level) is accept for end in ends.values())


def proposals_and_words(variance):
    scale = proposal_scale(variance)
    steps = {0, 1, 2, 3, *(scale * part // 4 for part in range(1, 26))}
    pairs = []
    for y in sorted(steps | {-step for step in steps}):
        ctx.prec = 300
        edge = int(((-ball(log_odds(y, variance))).exp() * TOP).floor().unique_fmpz())
        random = int.from_bytes(system_entropy(8), "little") >> 1
        near = {edge + offset for offset in (-3, -2, -1, 0, 1, 2, 3)}
        pairs += [(y, w) for w in near | {0, 1, TOP - 1, random} if 0 <= w < TOP]
    columns = np.array(pairs, dtype=np.int64)
    return columns[:, 0].copy(), columns[:, 1].copy()


def test_log_odds_follow_algorithm_3():
    """Z = (|y| - sigma**2 / t)**2 / (2 sigma**2), t = floor(sigma) + 1, in exact fractions."""
    assert proposal_scale(Fraction(1, 4)) == 1
    assert proposal_scale(Fraction(99, 4)) == 5
    assert proposal_scale(Fraction(25)) == 6
    assert log_odds(-7, Fraction(25)) == (7 - Fraction(25, 6)) ** 2 / 50
    assert log_odds(2**60, Fraction(2**90)) == (2**60 - Fraction(2**90, 2**45 + 1)) ** 2 / 2**91


class Recorded:
    """Random source that can be played again."""

    def __init__(self, length):
        self.data = system_entropy(length)
        self.used = 0

    def __call__(self, size):
        self.used += size
        assert self.used <= len(self.data)
        return self.data[self.used - size : self.used]

    def again(self):
        copy = Recorded(0)
        copy.data = self.data
        return copy


@pytest.mark.parametrize("scale", [*SCALES, *WIDE], ids=str)
def test_laplace_without_the_filter_is_the_same(scale, monkeypatch):
    """Refusing the certificate changes no draw: the same bytes give the same noise."""
    source = Recorded(200_000)
    fast = sample_laplace(scale, 1000, source)
    monkeypatch.setattr(laplace, "certified", lambda: False)
    slow = sample_laplace(scale, 1000, source.again())
    assert fast.tolist() == slow.tolist()


@pytest.mark.parametrize("variance", [*VARIANCES, Fraction(2**80)], ids=str)
def test_gaussian_without_the_filter_is_the_same(variance, monkeypatch):
    """Refusing the certificate changes no draw: the same bytes give the same noise."""
    source = Recorded(200_000)
    fast = sample_gaussian(variance, 500, source)
    monkeypatch.setattr(laplace, "certified", lambda: False)
    monkeypatch.setattr(gaussian, "certified", lambda: False)
    slow = sample_gaussian(variance, 500, source.again())
    assert fast.tolist() == slow.tolist()


def test_scalar_and_vector_laplace_agree():
    """The one-draw path of huge scales reads words as the vectorised path does."""
    source = Recorded(80_000)
    vector = sample_laplace(Fraction(1000), 1, source).tolist()
    assert vector == [exact_laplace(Fraction(1000), source.again())]
    source = Recorded(80_000)
    blocks = LaplaceBlocks(Fraction(3), 64, source)
    copy = source.again()
    draws = [exact_laplace(Fraction(3), copy) for _ in range(30)]
    assert blocks.draw(64).tolist()[:30] == draws


def test_zero_with_a_minus_sign_is_left_out():
    """The word of (-, 0) gives nothing; its twin with the other sign gives 0."""
    words = np.array([2**64 - 1, 2**64 - 2, 1, 0, 2**62 + 1, 2**62], dtype=np.uint64)
    draws = LaplaceBlocks(Fraction(10), 8, filled).signed(words).tolist()
    far = reference_floor(all_digits(0), Fraction(10))
    near = reference_floor(all_digits(2**61), Fraction(10))
    assert draws == [0, -far, far, -near, near]


def test_deep_tails_are_reached():
    """The all-zero word is extended, not replaced: draws beyond 44 scales exist."""
    tiny = Geometric(Fraction(1), 1, filled).draw(np.zeros(1, np.int64))
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
    """Nothing but zeros, or a word that is refused for ever, ends in EntropyError."""
    zeros, ones = bytes, lambda size: b"\xff" * size
    for scale in (Fraction(1), Fraction(2**40), Fraction(2**60)):
        for source in (zeros, ones):
            with pytest.raises(EntropyError):
                sample_laplace(scale, 5, source)
    with pytest.raises(EntropyError):
        exact_gaussian(Fraction(2**130), zeros)
    with pytest.raises(EntropyError):
        sample_gaussian(Fraction(2), 5, zeros)
    with pytest.raises(EntropyError):
        low_part(2**64 - 1, 20, Fraction(2**40), ones)
