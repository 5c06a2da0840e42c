"""What a protocol of the shuffle model ends in."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from dfprivacy.shuffle.queries import Floats


class ShuffleEstimate(float):
    """A total or mean from shuffled messages: a float that knows its interval and its cost.

    Attributes
    ----------
    low, high : float
        Between them lies the answer without noise and rounding, at the level asked for.
    std_error : float
        Standard deviation of noise and rounding.
    epsilon, delta : float
        What the whole protocol cost.
    """

    low: float
    high: float
    std_error: float
    epsilon: float
    delta: float
    _made: dict[str, Any]

    def __new__(
        cls, value: float, *, half: float, std_error: float, cost: tuple[Fraction, Fraction]
    ) -> Self:
        """Keep a value with half the width of its interval and its cost."""
        estimate = super().__new__(cls, value)
        estimate.low, estimate.high, estimate.std_error = value - half, value + half, std_error
        estimate.epsilon, estimate.delta = float(cost[0]), float(cost[1])
        estimate._made = {"half": half, "std_error": std_error, "cost": cost}
        return estimate

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:
        """Return what a copy or a pickle is made from."""
        return (float(self),), self._made

    def __repr__(self) -> str:
        """Show the number, its interval and its cost on one line."""
        return (
            f"{float(self):.6g} [{self.low:.6g}, {self.high:.6g}], epsilon={self.epsilon:.6g}, "
            f"delta={self.delta:.6g}"
        )

    __str__ = float.__repr__


class ShuffleChoice(float):
    """A quantile found by noisy counts: a float that knows its cost, and has no interval."""

    epsilon: float
    delta: float
    _cost: tuple[Fraction, Fraction]

    def __new__(cls, value: float, *, cost: tuple[Fraction, Fraction]) -> Self:
        """Keep a value with its cost."""
        choice = super().__new__(cls, value)
        choice.epsilon, choice.delta = float(cost[0]), float(cost[1])
        choice._cost = cost
        return choice

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:
        """Return what a copy or a pickle is made from."""
        return (float(self),), {"cost": self._cost}

    def __repr__(self) -> str:
        """Show the number and its cost on one line."""
        return f"{float(self):.6g}, epsilon={self.epsilon:.6g}, delta={self.delta:.6g}"

    __str__ = float.__repr__


@dataclass(frozen=True)
class ShuffledVector:
    """A mean of vectors from shuffled messages.

    Attributes
    ----------
    mean : numpy.ndarray
        One number a dimension.
    std_error : float
        Standard deviation of noise and rounding in each coordinate.
    clip : float
        The distance from the centre at which vectors were clipped.
    epsilon, delta : float
        What the whole protocol cost.
    """

    mean: Floats
    std_error: float
    clip: float
    epsilon: float
    delta: float

    @property
    def error(self) -> float:
        """Expected Euclidean length of the noise."""
        return float(self.std_error * np.sqrt(len(self.mean)))
