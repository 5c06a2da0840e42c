"""One uniform number whose binary digits are revealed on demand, and its logarithm enclosed.

This is the exact path of every sampler: slow, free of floating point, and right whatever the
processor does. The vectorised path in `logarithm` hands over the few elements it can't certify.
"""

from __future__ import annotations

import decimal
from fractions import Fraction

from dfprivacy.errors import EntropyError
from dfprivacy.noise.entropy import EntropySource, random_words

_LEAST_BITS = 1024
"""More leading zeros than this, of probability below 2**-1024, mean a broken source."""

LARGEST_LOG = 768
"""As digits come 64 at a time, U >= 2**-1088 and -ln U < 768."""

_GUARD_DIGITS = 4
"""-ln U < 10**3, so one unit of 10**(4 - digits) covers its rounding."""


class LazyUniform:
    """A uniform number in the closed cell [mantissa, mantissa + 1] / 2**bits.

    Further digits are appended when a decision needs them; the prefix never changes.
    """

    __slots__ = ("bits", "entropy", "mantissa")

    def __init__(self, mantissa: int, bits: int, entropy: EntropySource) -> None:
        self.mantissa = mantissa
        self.bits = bits
        self.entropy = entropy

    def extend(self) -> None:
        """Append 64 fresh binary digits.

        Raises
        ------
        EntropyError
            When more than 1,024 leading digits are all zero.
        """
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
        truncated = int(logarithm.copy_abs().scaleb(digits - _GUARD_DIGITS, _context(digits)))
        cell = unit // self.mantissa + 1  # ln((m + 1) / m) <= 1 / m
        return max(0, truncated - 1 - cell), truncated + 2, unit


def floor_of_scaled_log(uniform: LazyUniform, scale: Fraction) -> int:
    """Return floor(-scale * ln U), revealing digits of U until only one integer is left."""
    while True:
        low, high, unit = uniform.negative_log()
        divisor = scale.denominator * unit
        least = scale.numerator * low // divisor
        if least == scale.numerator * high // divisor:
            return least
        uniform.extend()


def log_exceeds(uniform: LazyUniform, level: Fraction) -> bool:
    """Tell whether -ln U > level, an event of probability exp(-level), for level >= 0."""
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
    exact = decimal.Decimal(mantissa * 5**bits).scaleb(-bits, _context(bits + 1))
    return _context(digits).ln(exact)


def _context(digits: int) -> decimal.Context:
    """Return arithmetic that the caller's decimal context can't influence."""
    return decimal.Context(
        prec=digits,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=-999_999,
        Emax=999_999,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )
