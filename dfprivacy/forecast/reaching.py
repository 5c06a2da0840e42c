"""How many rows a group needs for its noisy count to reach a threshold, by probability."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dfprivacy.noise.laws import Noise


@dataclass(frozen=True)
class Reach:
    """The least sizes of groups, in rows as they count, that reach a noisy threshold so often.

    `rarely` is reached with probability 5 %, `half` with 50 %, `mostly` with 95 %.

    >>> from dfprivacy.noise.laws import DiscreteLaplace
    >>> reaching(30, DiscreteLaplace(Fraction(1)))
    Reach(rarely=28, half=30, mostly=32)
    """

    rarely: int
    half: int
    mostly: int

    def __str__(self) -> str:
        """Name the three sizes."""
        return (
            f"5% of the time from {self.rarely:,} rows on, half from {self.half:,}, "
            f"95% from {self.mostly:,}"
        )


def reaching(least: int, noise: Noise, divisor: int = 1, terms: int = 1) -> Reach:
    """Return the sizes at which divisor * rows + Z_1 + ... + Z_terms >= least, by probability.

    The probabilities are the exact tails of the noise that `noise/keys.py` goes by.
    """
    sizes = (
        _smallest(least, noise, divisor, terms, Fraction(percent, 100)) for percent in (5, 50, 95)
    )
    return Reach(*sizes)


def _smallest(least: int, noise: Noise, divisor: int, terms: int, chance: Fraction) -> int:
    """Return the least number of rows whose total reaches `least` with this probability."""

    def reached(rows: int) -> bool:
        return noise.tail(least - rows * divisor, terms) >= chance

    low, high = -1, 1
    while not reached(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high
