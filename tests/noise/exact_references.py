"""References of exact draws: ball arithmetic on all digits of a uniform, crafted words."""

import os
import struct
from fractions import Fraction

import numpy as np
from flint import arb, ctx, fmpq

BITS = 63
"""Random bits of a word that become a uniform; the last one is a sign, or is not used."""

SCALES = [
    Fraction(1, 10**6),
    Fraction(1, 20),
    Fraction(1, 3),
    Fraction(7, 10),
    Fraction(1),
    Fraction(1000),
    Fraction(10**9 + 7, 3),
    Fraction(2**30),
    Fraction(2**33),
]
WIDE = [Fraction(2**33) + Fraction(1, 3), Fraction(2**40), Fraction(2**51)]
TOP = 2**BITS
FILL = 0x6A09E667F3BCC908


def fill_source(size):
    """Random source that gives one word again and again, so that the reference knows all digits."""
    return struct.pack("=Q", FILL) * (size // 8)


def all_digits(mantissa, bits=BITS, words=20):
    for _ in range(words):
        mantissa, bits = (mantissa << 64) | FILL, bits + 64
    return fmpq(mantissa, 2**bits)


def ball(number):
    number = Fraction(number)
    return arb(fmpq(number.numerator, number.denominator))


def reference_log(uniform):
    ctx.prec = 1800
    return -arb(uniform).log()


def reference_floor(uniform, scale):
    return int((reference_log(uniform) * ball(scale)).floor().unique_fmpz())


def boundary_words(scale):
    """Words within 3 of exp(-k / scale) * 2**63, for k across the law."""
    ctx.prec = 300
    largest_step = max(1, int(40 * scale))
    steps = sorted(
        {1, 2, 3, 5, 8, 40, largest_step, *(largest_step * part // 37 for part in range(1, 37))}
    )
    words = set()
    for k in steps:
        word = int(((-ball(k) / ball(scale)).exp() * TOP).floor().unique_fmpz())
        words |= {word + offset for offset in range(-3, 4)}
    return words


def end_words():
    ends = {0, 1, 2, 3, TOP - 1, TOP - 2, TOP - 511, TOP - 512, TOP - 513, TOP - 1024, TOP - 1025}
    powers = {2**power + offset for power in range(BITS) for offset in (-1, 0, 1)}
    return ends | powers


def craft(scale, count=1000):
    words = np.frombuffer(os.urandom(8 * count), np.uint64) >> np.uint64(1)
    candidates = boundary_words(scale) | end_words() | set(words.tolist())
    return np.array(sorted(word for word in candidates if 0 <= word < TOP), dtype=np.int64)
