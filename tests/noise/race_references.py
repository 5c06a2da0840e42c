"""What the race of a selection is compared with: keys in ball arithmetic, on chosen words."""

import struct
from fractions import Fraction

import numpy as np
from flint import arb, fmpq

from dfprivacy.noise.entropy import system_entropy
from dfprivacy.noise.race import EXPONENTIAL, UNIFORM, exponential_times
from dfprivacy.noise.uniform import BITS
from tests.noise.exact_references import FILL, TOP, ball

TIMES = [EXPONENTIAL, UNIFORM]
RATE = Fraction(1, 3)


class Played:
    """Random source that gives chosen words, then one word again and again."""

    def __init__(self, words):
        self.words = [word << 1 for word in words]

    def __call__(self, size):
        count = size // 8
        given, self.words = self.words[:count], self.words[count:]
        return struct.pack(f"={count}Q", *given, *[FILL] * (count - len(given)))


def all_digits(mantissa, words=20):
    bits = BITS
    for _ in range(words):
        mantissa, bits = (mantissa << 64) | FILL, bits + 64
    return arb(fmpq(mantissa, 2**bits))


def reference_key(uniform, length, level, times):
    """Key of a run in ball arithmetic, from a uniform with all its digits."""
    x = -uniform.log() / length
    arrival = x if times in {EXPONENTIAL, exponential_times} else -(-x).expm1()
    return arrival.log() + ball(level)


def crafted_words(count):
    random = (np.frombuffer(system_entropy(8 * count), np.uint64) >> np.uint64(1)).tolist()
    ends = [0, 1, 2, 3, TOP - 1, TOP - 2, TOP - 511, TOP - 512, TOP - 513, TOP - 1025]
    return ends + [2**power + step for power in range(2, BITS) for step in (-1, 0, 1)] + random
