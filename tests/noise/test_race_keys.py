"""Keys of a race enclose those of ball arithmetic, in floats and in integers."""

import itertools
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from dfprivacy.noise.race import (
    Entrant,
    certain_keys,
    exponential_times,
    first,
    log_uniform_ratio,
    uniform_times,
)
from dfprivacy.noise.uniform import BITS, LazyUniform, Workspace
from tests.noise.exact_references import TOP, ball
from tests.noise.race_references import RATE, TIMES, Played, crafted_words, reference_key

EXACT_TIMES = [exponential_times, uniform_times]


@pytest.mark.parametrize("times", TIMES, ids=["exponential", "uniform"])
def test_certified_keys_hold_for_the_whole_cell(times):
    """Keys at both ends of the cell of U lie within the error; m = 0 is never decided."""
    words = np.array(crafted_words(1000))
    random = np.random.default_rng()
    lengths = (2 ** random.uniform(0, 61.99, len(words))).astype(np.int64)
    lengths[::3] = random.integers(1, 4, len(lengths[::3]))
    gaps = random.integers(0, 200, len(words))
    gaps[::5] = random.integers(0, 2**53, len(gaps[::5]))
    work = Workspace.of(len(words))
    with np.errstate(all="ignore"):
        certain_keys(words, lengths, gaps * float(RATE), times, work)
    ctx.prec = 300
    shift = 56 * arb(2).log()
    decided = 0
    for word, length, gap, value, error in zip(
        *(a.tolist() for a in (words, lengths, gaps, work.value, work.error)), strict=True
    ):
        if not math.isfinite(error):
            assert word == 0 or word > TOP - 2**13
            continue
        decided += 1
        limit = 1e-6 + gap * 1e-12 if 2**20 < word < TOP - 2**30 else 1.1 + gap * 1e-12
        assert 0 < error < limit
        for end in (word, word + 1):
            if end < TOP:
                key = reference_key(arb(fmpq(end, TOP)), length, RATE * gap, times) + shift
                assert abs(key - arb(value)) <= arb(error)
            else:
                assert math.isinf(error)
    assert decided > 1000


def test_ratio_of_uniform_times():
    """ln((1 - exp(-x)) / x) is off by less than 2**-41 for x from 2**-120 to 44."""
    points = np.concatenate([2.0 ** np.linspace(-120, 5.4, 4001), np.linspace(1e-9, 43.9, 3001)])
    ctx.prec = 400
    for x, found in zip(points.tolist(), log_uniform_ratio(points).tolist(), strict=True):
        assert abs((-(-arb(x)).expm1() / arb(x)).log() - arb(found)) < arb(2) ** -41


@pytest.mark.parametrize("times", EXACT_TIMES)
def test_exact_keys_hold_and_shrink(times):
    """Keys of the exact path enclose both ends of the cell, closer with every extension."""
    for word, length, level in itertools.product(
        (1, 12345, TOP // 3, TOP - 2), (1, 3, 10**9, 2**62 - 1), (Fraction(0), Fraction(10**9, 7))
    ):
        entrant = Entrant(LazyUniform(word, BITS, Played([])), length, level)
        widths = []
        for _ in range(3):
            low, high = map(Fraction, entrant.key(times))
            ctx.prec = 700
            bits, mantissa = entrant.uniform.bits, entrant.uniform.mantissa
            ends = [arb(fmpq(mantissa + step, 2**bits)) for step in (0, 1)]
            keys = [reference_key(end, length, level, times) for end in ends]
            assert ball(low) < keys[1] < keys[0] < ball(high)
            widths.append(high - low)
            entrant.extend()
        assert widths == sorted(widths, reverse=True)
        assert widths[-1] < Fraction(1, 2**100)


@pytest.mark.parametrize("times", EXACT_TIMES)
def test_exact_path_appends_digits_until_it_is_sure(times):
    """Equal words are told apart by the digits that follow; those seen before stay."""
    words = iter([5, 5, 900, 8])

    def source(size):
        return struct.pack("=Q", next(words))

    entrants = [Entrant(LazyUniform(TOP // 2, BITS, source), 7, Fraction(1)) for _ in range(2)]
    assert first(entrants, times) == 0
    assert [entrant.uniform.bits for entrant in entrants] == [BITS + 128] * 2
    assert all(entrant.uniform.mantissa >> 128 == TOP // 2 for entrant in entrants)
