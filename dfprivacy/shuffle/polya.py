"""Shares of discrete Laplace noise: one from each of n users, who together make the whole.

A Polya number of index r = 1/n and ratio a has P(k) = (1 - a)**r * a**k * r (r + 1) ... (r + k - 1)
/ k!. The sum of n of them is geometric, P(K >= k) = a**k, and the difference of two such sums is
the discrete Laplace law of scale t where a = e**(-1 / t) (Goryczka and Xiong 2015; Balle, Bell,
Gascon and Nissim 2020). The ratio is e**(-1 / t), the chance to go on: a library whose negative
binomial takes the chance of success wants 1 - a instead.

Drawn by inversion of one uniform number of 256 bits against sums of probabilities in 320-bit
integers: the law is kept up to a total variation distance of 2**-160, which delta pays for.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.noise.entropy import EntropySource, random_words, system_entropy

Integers = npt.NDArray[np.int64]

DISTANCE = Fraction(1, 2**160)
"""Total variation distance between what is drawn and the law, at most."""

_BITS = 320
_DRAWN = 256
_CONTEXT: dict[str, Any] = {
    "prec": 130, "rounding": decimal.ROUND_HALF_EVEN, "Emin": -10**9, "Emax": 10**9, "traps": []
}  # fmt: skip


@dataclass(frozen=True)
class Polya:
    """The law of one user's share: of `users`, for discrete Laplace noise of a scale.

    >>> from fractions import Fraction
    >>> shares = Polya(users=1000, scale=Fraction(20))
    >>> int(shares.sample(1000).sum()) >= 0
    True
    """

    users: int
    scale: Fraction

    @cached_property
    def ratio(self) -> int:
        """A = e**(-1 / scale), in units of 2**-320."""
        context = decimal.Context(**_CONTEXT)
        return _fixed(context.exp(_decimal(-1 / self.scale, context)))

    @cached_property
    def nothing(self) -> int:
        """P(0) = (1 - a)**(1 / users), in units of 2**-320."""
        context = decimal.Context(**_CONTEXT)
        a = context.exp(_decimal(-1 / self.scale, context))
        log = context.ln(context.subtract(decimal.Decimal(1), a))
        return _fixed(context.exp(context.divide(log, decimal.Decimal(self.users))))

    def sample(self, size: int, entropy: EntropySource = system_entropy) -> Integers:
        """Return `size` independent draws."""
        words = random_words(size, entropy)
        draws = np.zeros(size, np.int64)
        surely = np.uint64(max(0, (self.nothing >> (_BITS - 64)) - 1))
        for index in np.flatnonzero(words >= surely).tolist():
            draws[index] = self.inverted(int(words[index]), entropy)
        return draws

    def inverted(self, word: int, entropy: EntropySource) -> int:
        """Return the draw of a uniform number that begins with 64 given digits."""
        digits = word
        for more in random_words((_DRAWN - 64) // 64, entropy).tolist():
            digits = (digits << 64) | more
        uniform = digits << (_BITS - _DRAWN)
        draw, chance = 0, self.nothing
        below = chance
        while uniform >= below and chance:
            numerator = (draw * self.users + 1) * self.ratio
            chance = (chance * numerator // ((draw + 1) * self.users)) >> _BITS
            below += chance
            draw += 1
        return draw


def laplace_shares(
    users: int, scale: Fraction, size: int, entropy: EntropySource = system_entropy
) -> Integers:
    """Return `size` users' shares of discrete Laplace noise of a scale."""
    law = Polya(users, scale)
    return law.sample(size, entropy) - law.sample(size, entropy)


def _fixed(value: decimal.Decimal) -> int:
    return int(Fraction(value) * 2**_BITS)


def _decimal(value: Fraction, context: decimal.Context) -> decimal.Decimal:
    return context.divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))
