"""Who comes first when floating point can't tell: arrival times enclosed to any precision.

A run of w candidates that begins with a uniform U has x = -ln(U) / w; its first candidate arrives
at x (`exponential_times`) or at 1 - exp(-x) (`uniform_times`), and the run whose
ln(arrival) + level is least wins. Everything here is a pair of decimals, a lower and an upper end,
each rounded away from the other. Digits of U are appended until one run is left; none is redrawn.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dfprivacy.noise.geometric import stuck
from dfprivacy.noise.uniform import LazyUniform

Ends = tuple[decimal.Decimal, decimal.Decimal]

_MOST_BITS = 2048
"""Two runs that so many digits can't tell apart, of probability below 2**-1000, mean a broken
source."""

_SPARE_DIGITS = 60
"""Beyond the digits of U: 1 - exp(-x) is rounded at 10**-60 cells, x moves by 10**-19 and more."""

_ONE = decimal.Decimal(1)


@dataclass(frozen=True)
class Rounding:
    """Decimal arithmetic of one precision that rounds down, or up, as the caller chooses."""

    down: decimal.Context
    up: decimal.Context

    @classmethod
    def to(cls, digits: int) -> Rounding:
        """Return arithmetic of so many digits, independent of the caller's decimal context."""
        return cls(_context(digits, decimal.ROUND_FLOOR), _context(digits, decimal.ROUND_CEILING))

    def quotient(self, low: int, high: int, divisor: int) -> Ends:
        """Enclose [low, high] / divisor."""
        exact = decimal.Decimal(divisor)
        return (
            self.down.divide(decimal.Decimal(low), exact),
            self.up.divide(decimal.Decimal(high), exact),
        )

    def log(self, ends: Ends) -> Ends:
        """Enclose ln: decimal's is correctly rounded, so that its neighbours enclose it."""
        return (
            self.down.next_minus(self.down.ln(ends[0])),
            self.up.next_plus(self.up.ln(ends[1])),
        )

    def exp_of_minus(self, ends: Ends) -> Ends:
        """Enclose exp(-x), which falls with x."""
        return (
            self.down.next_minus(self.down.exp(ends[1].copy_negate())),
            self.up.next_plus(self.up.exp(ends[0].copy_negate())),
        )


ArrivalTimes = Callable[[Ends, Rounding], Ends]


def exponential_times(ends: Ends, rounding: Rounding) -> Ends:  # noqa: ARG001 one signature for both
    """Return x itself: the first of w exponential times is -ln(U) / w."""
    return ends


def uniform_times(ends: Ends, rounding: Rounding) -> Ends:
    """Enclose 1 - exp(-x): the first of w uniform times is 1 - U**(1 / w)."""
    low, high = rounding.exp_of_minus(ends)
    return rounding.down.subtract(_ONE, high), rounding.up.subtract(_ONE, low)


@dataclass(frozen=True)
class Entrant:
    """One run in the race: its uniform, its number of candidates, and rate * loss."""

    uniform: LazyUniform
    length: int
    level: Fraction

    def key(self, times: ArrivalTimes) -> Ends:
        """Enclose ln(arrival) + level by the digits of U that are known."""
        low, high, unit = self.uniform.negative_log()
        while low == 0:
            self.extend()
            low, high, unit = self.uniform.negative_log()
        rounding = Rounding.to(self.uniform.bits * 302 // 1000 + _SPARE_DIGITS)
        arrival = times(rounding.quotient(low, high, unit * self.length), rounding)
        log = rounding.log(arrival)
        numerator, denominator = self.level.as_integer_ratio()
        level = rounding.quotient(numerator, numerator, denominator)
        return rounding.down.add(log[0], level[0]), rounding.up.add(log[1], level[1])

    def extend(self) -> None:
        """Append 64 digits to the uniform.

        Raises
        ------
        EntropyError
            When the source is broken: more than 2,048 digits do not decide.
        """
        if self.uniform.bits >= _MOST_BITS:
            raise stuck()
        self.uniform.extend()


def first(entrants: Sequence[Entrant], times: ArrivalTimes) -> int:
    """Return the index of the entrant with the least key, exactly.

    Raises
    ------
    EntropyError
        When the random source fails, or repeats itself.
    """
    rivals = list(range(len(entrants)))
    while len(rivals) > 1:
        keys = [entrants[index].key(times) for index in rivals]
        latest = min(high for _, high in keys)
        rivals = [index for index, (low, _) in zip(rivals, keys, strict=True) if low <= latest]
        if len(rivals) > 1:
            for index in rivals:
                entrants[index].extend()
    return rivals[0]


def _context(digits: int, rounding: str) -> decimal.Context:
    return decimal.Context(
        prec=digits,
        rounding=rounding,
        Emin=-999_999,
        Emax=999_999,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )
