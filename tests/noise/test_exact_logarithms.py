"""Logarithms of uniforms are those of infinite precision: enclosures, extensions, comparisons.

The reference is ball arithmetic (python-flint) on the uniform with all its digits. No test here
is statistical, except that the words are random: a failure is a proof.
"""

import decimal
import itertools
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from dfprivacy.noise import uniform as logarithms
from dfprivacy.noise.uniform import (
    BITS,
    LARGEST_LOG,
    LazyUniform,
    Workspace,
    certified,
    floor_of_scaled_log,
    log_exceeds,
    natural_log,
    negative_log,
)
from tests.noise.exact_references import (
    FILL,
    TOP,
    all_digits,
    ball,
    crafted,
    filled,
    reference_log,
)


@pytest.mark.parametrize("level", [Fraction(0), Fraction(1, 2**40), Fraction(1, 3), 1, 20, 43, 60])
def test_comparisons_are_those_of_the_exact_logarithm(level):
    """log_exceeds is -ln U > level, for words next to exp(-level) and at the ends."""
    ctx.prec = 300
    edge = int(((-ball(level)).exp() * TOP).floor().unique_fmpz())
    words = {edge + offset for offset in range(-3, 4)} | {0, 1, TOP - 1, TOP - 2}
    for word in words:
        if 0 <= word < TOP:
            expected = bool(reference_log(all_digits(word)) > ball(level))
            assert log_exceeds(LazyUniform(word, BITS, filled), Fraction(level)) is expected


def test_extension_keeps_the_prefix():
    """Fresh digits are appended; those already seen stay."""
    uniform = LazyUniform(12345, BITS, filled)
    uniform.extend()
    assert uniform.mantissa >> 64 == 12345
    assert uniform.bits == BITS + 64
    assert uniform.mantissa % 2**64 == FILL


def test_enclosures_hold_and_shrink():
    """negative_log of a lazy uniform encloses -ln of both ends of its cell, closer each time."""
    for word in (1, 2, 12345, TOP // 3, TOP - 2, TOP - 1):
        uniform = LazyUniform(word, BITS, filled)
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
            found = natural_log(word, BITS, 40)
            ctx.prec = 400
            error = abs(arb(fmpq(word, TOP)).log() - ball(Fraction(found)))
            assert error <= ball(Fraction(10) ** (found.adjusted() - 39) / 2)


def test_vectorised_enclosure_holds():
    """-ln of both ends of a cell lies within the certified error, by ball arithmetic."""
    words = crafted(Fraction(10), 3000)
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


def test_a_logarithm_that_is_off_is_noticed(monkeypatch):
    """The self-test fails for a numpy.log that is wrong by 16 units in the last place."""
    assert certified()
    true_log = np.log
    monkeypatch.setattr(logarithms.np, "log", lambda x, **_: true_log(x) * (1 + 16 * 2.0**-52))
    assert not logarithms._log_is_accurate.__wrapped__()


def test_a_logarithm_that_is_off_at_one_is_noticed(monkeypatch):
    """The self-test fails for a logarithm with an absolute error near 1."""
    true_log = np.log
    monkeypatch.setattr(logarithms.np, "log", lambda x, **_: true_log(x) - 2.0**-54)
    assert not logarithms._log_is_accurate.__wrapped__()


def test_no_draw_exceeds_the_stated_number_of_scales():
    """The deepest uniform that is not an error stays below LARGEST_LOG, so int64 is safe."""
    words = itertools.chain([0] * 15, [1], itertools.repeat(FILL))
    deepest = LazyUniform(0, BITS, lambda size: struct.pack("=Q", next(words)))
    magnitude = floor_of_scaled_log(deepest, Fraction(2**51))
    assert 2**51 * 700 < magnitude < 2**51 * LARGEST_LOG
    assert 2 * 2**51 * LARGEST_LOG < 2**63
