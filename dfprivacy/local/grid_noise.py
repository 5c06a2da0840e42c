"""Integers of a bounded grid plus discrete noise: what an owner reports of a number or a vector."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import InvalidBoundsError
from dfprivacy.exact import describe
from dfprivacy.local.response import Integers, checked_epsilon
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace

FAR = 60
"""No honest report lies so many scales beyond the grid: its probability is below e**-59."""

WIDEST = 2**20
"""The largest radius of a ball, in steps."""


@dataclass(frozen=True)
class GridLaplace:
    """An integer from 0 to `steps`, plus discrete Laplace noise of scale steps / epsilon.

    Privacy: epsilon-locally differentially private for replacing the integer by any other one of
    the grid: two inputs differ by at most `steps`, and a shift by one changes the probability of a
    report by a factor of at most e**(epsilon / steps).

    >>> from fractions import Fraction
    >>> GridLaplace(1024, Fraction(1, 2)).noise
    DiscreteLaplace(scale=Fraction(2048, 1))
    """

    steps: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        """Refuse an epsilon beyond reach."""
        checked_epsilon(self.epsilon)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """The noise on every report."""
        return DiscreteLaplace(Fraction(self.steps) / self.epsilon)

    @property
    def middle(self) -> int:
        """What an owner without a value puts in."""
        return self.steps // 2

    def privatise(self, inputs: Integers, entropy: EntropySource = system_entropy) -> Integers:
        """Return one report for each input; inputs are clipped to the grid first."""
        kept = np.minimum(np.maximum(inputs, 0), self.steps)
        drawn: Integers = self.noise.sample(len(kept), entropy)
        return np.add(kept, drawn, out=drawn)

    def possible(self, reports: Integers) -> npt.NDArray[np.bool_]:
        """Tell which numbers an honest owner could have sent, but for e**-59."""
        reach = int(FAR * self.noise.scale)
        return (reports >= -reach) & (reports <= self.steps + reach)


@dataclass(frozen=True)
class BallGaussian:
    """An integer vector of Euclidean norm at most `radius`, plus discrete Gaussian noise.

    Privacy: rho-zCDP in the local model, for replacing the vector by any other one of the ball.
    Two of them are at most 2 radius apart, and every coordinate gets independent noise of variance
    (2 radius)**2 / (2 rho) (Canonne, Kamath and Steinke 2020, Theorem 4).

    >>> from fractions import Fraction
    >>> BallGaussian(4, Fraction(1, 2)).noise
    DiscreteGaussian(sigma_squared=Fraction(64, 1))
    """

    radius: int
    rho: Fraction

    def __post_init__(self) -> None:
        """Refuse a radius whose squares could leave 64 bits in a sum of 2**15 of them."""
        if type(self.radius) is not int or not 1 <= self.radius <= WIDEST:
            raise InvalidBoundsError(
                f"a ball has a whole radius from 1 to 2**20, not {describe(self.radius)}",
                hint="count in larger steps: BallGaussian(radius=2**20, rho=rho)",
            )

    @cached_property
    def noise(self) -> DiscreteGaussian:
        """The noise on every coordinate of a report."""
        return DiscreteGaussian(Fraction((2 * self.radius) ** 2) / (2 * self.rho))

    def privatise(self, inputs: Integers, entropy: EntropySource = system_entropy) -> Integers:
        """Return one report for each row; rows outside the ball, of which there are none, are 0."""
        drawn: Integers = self.noise.sample(inputs.size, entropy).reshape(inputs.shape)
        return np.asarray(drawn + self._kept(inputs))

    def _kept(self, inputs: Integers) -> Integers:
        """Return the rows of the ball, and 0 for others: no product or sum leaves 64 bits."""
        near = ((inputs >= -self.radius) & (inputs <= self.radius)).all(axis=1, keepdims=True)
        short = np.where(near, inputs, 0)
        inside = (short * short).sum(axis=1, keepdims=True) <= self.radius**2
        return np.where(inside, short, 0)

    def possible(self, reports: Integers) -> npt.NDArray[np.bool_]:
        """Tell which rows an honest owner could have sent, but for e**-59."""
        reach = self.radius + 12 * (int(self.noise.sigma_squared**0.5) + 1)
        return np.asarray((np.abs(reports) <= reach).all(axis=1))
