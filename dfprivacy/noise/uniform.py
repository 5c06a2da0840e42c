"""Enclose the logarithms of uniform numbers: one by one to any precision, and blocks in floats.

`LazyUniform`, whose binary digits are revealed on demand, is the exact path of every sampler: slow,
free of floating point, and right on any processor. The vectorized path hands over the
few elements it can't certify.

`negative_log` encloses -ln U for whole blocks. Whoever uses it keeps only the answers that are
the same all over the enclosure and sends the rest down the exact path. Two things are
assumed of the processor, and both are checked: that it rounds to nearest (every call), and that
`numpy.log` is off by at most 64 units in the last place (once a process, at 2,000 points with a
limit of 8, numpy promises 4).
"""

from __future__ import annotations

import decimal
import functools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import EntropyError
from dfprivacy.noise.entropy import EntropySource, random_words
from dfprivacy.noise.tails import isolate_context

_LEAST_BITS = 1024
"""More leading zeros than this, of probability below 2**-1024, mean a broken source."""

LARGEST_LOG = 768
"""As digits come 64 at a time, U >= 2**-1088 and -ln U < 768."""

_GUARD_DIGITS = 4
"""-ln U < 10**3, so one unit of 10**(4 - digits) covers its rounding."""


class LazyUniform:
    """A uniform number in [mantissa, mantissa + 1] / 2**bits, to which digits are appended."""

    __slots__ = ("bits", "entropy", "mantissa")

    def __init__(self, mantissa: int, bits: int, entropy: EntropySource) -> None:
        self.mantissa = mantissa
        self.bits = bits
        self.entropy = entropy

    def extend(self) -> None:
        """Append 64 fresh binary digits."""
        word = int(random_words(1, self.entropy)[0])
        self.mantissa = (self.mantissa << 64) | word
        self.bits += 64
        if self.mantissa == 0 and self.bits > _LEAST_BITS:
            raise EntropyError("the random source returned nothing but zeros")

    def negative_log(self) -> tuple[int, int, int]:
        """Enclose -ln U: integers low, high and unit with low <= -ln U * unit <= high."""
        while self.mantissa == 0:
            self.extend()
        digits = self.bits * 302 // 1000 + 16
        unit = 10 ** (digits - _GUARD_DIGITS)
        logarithm = natural_log(self.mantissa, self.bits, digits)
        truncated = int(
            logarithm.copy_abs().scaleb(digits - _GUARD_DIGITS, isolate_context(digits))
        )
        cell = unit // self.mantissa + 1  # ln((m + 1) / m) <= 1 / m
        return max(0, truncated - 1 - cell), truncated + 2, unit


def floor_of_scaled_log(uniform: LazyUniform, scale: Fraction) -> int:
    """Return floor(-scale * ln U), revealing digits of U until only one integer is left."""
    while True:
        low, high, unit = uniform.negative_log()
        divisor = scale.denominator * unit
        floor = scale.numerator * low // divisor
        if floor == scale.numerator * high // divisor:
            return floor
        uniform.extend()


def log_exceeds(uniform: LazyUniform, level: Fraction) -> bool:
    """Check whether -ln U > level, an event of probability exp(-level), for level >= 0."""
    while True:
        low, high, unit = uniform.negative_log()
        scaled = level.numerator * unit
        if low * level.denominator >= scaled:
            return True
        if high * level.denominator <= scaled:
            return False
        uniform.extend()


def natural_log(mantissa: int, bits: int, digits: int) -> decimal.Decimal:
    """Return ln(mantissa / 2**bits) for mantissa > 0, correctly rounded to `digits` digits."""
    exact = decimal.Decimal(mantissa * 5**bits).scaleb(-bits, isolate_context(bits + 1))
    return isolate_context(digits).ln(exact)


BITS = 63
"""Binary digits of U that one word gives. The last bit of the word is left for a sign."""

_ULP = 2.0**-52
_LOG_ULPS = 64
_TESTED_ULPS = 8
_SLACK = 1.0 + 2.0**-20  # covers the rounding of the error terms themselves
_CONVERSION = _ULP * _SLACK  # int64 to float64 moves ln m by at most 2**-52
_RELATIVE = _LOG_ULPS * _ULP * _SLACK

_one = 1.0
_tiny = 2.0**-60


@dataclass(frozen=True)
class Workspace:
    """Buffers of one call. They never outlive it."""

    value: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]
    spare: npt.NDArray[np.float64]
    agrees: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, size: int) -> Workspace:
        """Return buffers for blocks of at most `size` words."""
        return cls(np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.bool_))

    def first(self, size: int) -> Workspace:
        """Return the same buffers, cut to `size`."""
        return Workspace(
            self.value[:size], self.error[:size], self.spare[:size], self.agrees[:size]
        )


def negative_log(mantissas: npt.NDArray[np.int64], work: Workspace) -> None:
    """Enclose -ln U, U anywhere in the closed cell [m, m + 1] / 2**63, for 0 <= m < 2**63.

    Afterwards -ln U lies within work.error of work.value. For m = 0 both are infinite.
    Call it under ``numpy.errstate(all="ignore")`` and only while `is_certified` holds.
    """
    value, error, spare = work.value, work.error, work.spare
    np.copyto(value, mantissas)
    np.divide(_SLACK, value, out=error)  # the cell: ln((m + 1) / m) <= 1 / m
    np.multiply(value, 2.0**-BITS, out=value)
    np.log(value, out=value)
    np.negative(value, out=value)
    np.multiply(value, _RELATIVE, out=spare)
    np.add(error, spare, out=error)
    np.add(error, _CONVERSION, out=error)


def is_certified() -> bool:
    """Check whether the enclosure of `negative_log` holds on this machine."""
    rounds_to_nearest = _one + _tiny == _one and _one - _tiny == _one
    return rounds_to_nearest and _log_is_accurate()


@functools.cache
def _log_is_accurate() -> bool:
    """Compare numpy.log with exact logarithms, on arrays like those of the samplers."""
    # Every octave, its ends, near 2**63.
    points = {2**power for power in range(BITS + 1)}
    points |= {2**power - 2 ** max(0, power - 53) for power in range(2, BITS + 1)}
    points |= {2**power + 2 ** max(0, power - 52) for power in range(2, BITS)}
    points |= {2**BITS - 2**power for power in range(BITS - 53, BITS)}
    for index in range(1, 1741):
        spread = (0x9E3779B97F4A7C15 * index) % 2**52 + 2**52
        power = index % (BITS - 1)
        points.add(spread << (power - 52) if power >= 52 else spread >> (52 - power))
    mantissas = sorted(points)
    logarithms = np.log(np.array(mantissas, dtype=np.float64) * 2.0**-BITS)
    return all(map(_close, mantissas, logarithms.tolist()))


def _close(mantissa: int, computed: float) -> bool:
    """Check whether `computed` is within 8 units in the last place of ln(mantissa / 2**63)."""
    numerator, denominator = computed.as_integer_ratio()
    exact, unit = natural_log(mantissa, BITS, 25).as_integer_ratio()
    difference = abs(numerator * unit - exact * denominator)
    return difference * 2**52 <= _TESTED_ULPS * abs(exact) * denominator
