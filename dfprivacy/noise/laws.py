"""Draw from a law of noise, or ask for its variance and tails: laws are frozen values.

Two are drawn from. A third, `Summed`, is that of weighted sums of such draws.

Everything is on the integers. The scale is an exact fraction, the very number that the privacy
proof uses, and every draw has exactly the stated law: no float decides a result without a proof.
`threshold` says at which noisy count a secret group may appear.
"""

from __future__ import annotations

import abc
import functools
import math
import statistics
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import InvalidLossError, InvalidQuestionError
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.samplers import sample_gaussian, sample_laplace
from dfprivacy.noise.tails import (
    gaussian_tail,
    gaussian_variance,
    laplace_tail,
    laplace_variance,
    smallest_exceedance,
)


class Noise(abc.ABC):
    """A symmetric law on the integers. Of sums only the variance and quantiles are known."""

    def sample(self, size: int, entropy: EntropySource = system_entropy) -> npt.NDArray[Any]:
        """Return `size` independent draws from the system's random bytes, or a test's own.

        They are int64, or Python integers (dtype object) once the scale exceeds 2**51. Add them to
        totals of any size in Python integers, or where int64 is known not to overflow. When the
        random source fails or returns too little (EntropyError), nothing was drawn.
        """
        raise NotImplementedError

    @property
    @abc.abstractmethod
    def variance(self) -> float:
        """Variance of one draw, rounded up."""

    def tail(self, at_least: int, terms: int = 1) -> Fraction:
        """Return an upper bound on P(Z_1 + ... + Z_terms >= at_least), up to 64 copies."""
        raise NotImplementedError

    def quantile(self, probability_outside: float, terms: int = 1) -> int:
        """Return the smallest c >= 0 with P(``|Z_1 + ... + Z_terms|`` > c) <= probability_outside.

        "Smallest" by the bound of `tail`, so that the probability is certain to be met.
        """
        return _quantile(self, probability_outside, terms)


@dataclass(frozen=True)
class DiscreteLaplace(Noise):
    """P(x) = (1 - a) / (1 + a) * a ** ``|x|`` with a = exp(-1 / scale), on all integers.

    Added to integer sums that one unit (added or removed) moves by at most D in L1 norm, one
    independent draw for each sum, it makes them epsilon-differentially private with
    epsilon = D / scale (Ghosh, Roughgarden and Sundararajan 2009). Sampled as in Canonne, Kamath
    and Steinke 2020, Algorithm 2, with an exact inversion for the magnitude. `scale` is in units of
    the integer grid, from 2**-500 to 2**500.

    >>> from fractions import Fraction
    >>> noise = DiscreteLaplace(Fraction(3, 2))
    >>> noise
    DiscreteLaplace(scale=Fraction(3, 2))
    >>> noise.sample(5).dtype
    dtype('int64')
    >>> noise.quantile(0.05)
    4
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", exact_parameter("scale", self.scale, 500))

    def sample(self, size: int, entropy: EntropySource = system_entropy) -> npt.NDArray[Any]:
        """Return `size` independent draws: see `Noise.sample`."""
        return sample_laplace(self.scale, size, entropy)

    @property
    def variance(self) -> float:
        """2 a / (1 - a)**2, rounded up."""
        return laplace_variance(self.scale)

    def tail(self, at_least: int, terms: int = 1) -> Fraction:
        """Return P(Z_1 + ... + Z_terms >= at_least), rounded up by less than 10**-38 of it."""
        return laplace_tail(self.scale, at_least, terms)


@dataclass(frozen=True)
class DiscreteGaussian(Noise):
    """P(x) proportional to exp(-x**2 / (2 * sigma_squared)), on all integers.

    Added to integer sums that one unit (added or removed) moves by at most D in L2 norm, one
    independent draw for each sum, it makes them rho-zero-concentrated differentially private with
    rho = D**2 / (2 * sigma_squared). Law, proof and sampler: Canonne, Kamath and Steinke 2020.
    The sampler is their Algorithm 3. `sigma_squared` is in squared units of the integer grid, from
    2**-1000 to 2**1000.

    >>> from fractions import Fraction
    >>> noise = DiscreteGaussian(Fraction(100))
    >>> noise
    DiscreteGaussian(sigma_squared=Fraction(100, 1))
    >>> noise.sample(5).shape
    (5,)
    >>> noise.quantile(0.05)
    20
    """

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        value = exact_parameter("sigma_squared", self.sigma_squared, 1000)
        object.__setattr__(self, "sigma_squared", value)

    def sample(self, size: int, entropy: EntropySource = system_entropy) -> npt.NDArray[Any]:
        """Return `size` independent draws: see `Noise.sample`."""
        return sample_gaussian(self.sigma_squared, size, entropy)

    @property
    def variance(self) -> float:
        """Variance of one draw, rounded up. At most sigma_squared, which it nears from 1 on."""
        return gaussian_variance(self.sigma_squared)

    def tail(self, at_least: int, terms: int = 1) -> Fraction:
        """Return a bound on P(Z_1 + ... + Z_terms >= at_least): see `gaussian_tail`."""
        return gaussian_tail(self.sigma_squared, at_least, terms)


@dataclass(frozen=True)
class Summed(Noise):
    """The law of a weighted sum of independent draws of one family, which are drawn one by one.

    `noise` is the family, whose scales may differ. `many` says how many draws of this very law are
    added up, 0 for any other weights.

    >>> one = DiscreteGaussian(Fraction(100))
    >>> Summed(one, 4 * one.variance, many=4).quantile(0.05)
    41
    """

    noise: Noise
    total_variance: float
    many: int = 0

    @property
    def variance(self) -> float:
        """The variance of the sum."""
        return self.total_variance

    def quantile(self, probability_outside: float, terms: int = 1) -> int:
        """Return a whole number that a sum stays within, the smallest of three equal draws."""
        if 0 < self.many * terms <= 3:
            return self.noise.quantile(probability_outside, self.many * terms)
        factor = half_width_factor(self, probability_outside)
        return math.ceil(factor * math.sqrt(terms * self.variance)) + (self.many > 0)


def is_laplace(noise: Noise) -> bool:
    """Check whether noise is Laplace noise, or made of it."""
    return isinstance(noise.noise if isinstance(noise, Summed) else noise, DiscreteLaplace)


def half_width_factor(noise: Noise, outside: float) -> float:
    """Return how many standard deviations a weighted sum of draws may be off.

    The sum is larger, in absolute value, with probability at most `outside`. For Gaussian noise
    the answer is the normal quantile. For Laplace noise a sum lies between one Laplace variable
    and a normal one, and the larger of the two quantiles covers both
    (tests/noise/test_tails.py checks it over all weights by the closed form).
    """
    normal = statistics.NormalDist().inv_cdf(1 - outside / 2)
    return max(normal, math.log(1 / outside) / math.sqrt(2)) if is_laplace(noise) else normal


def bound_sum(noise: Noise, outside: float) -> float:
    """Return a bound of a weighted sum of draws with weights of unit length.

    It is larger with probability at most `outside`. One more makes up for noise in whole numbers.
    """
    return half_width_factor(noise, outside) * math.sqrt(noise.variance) + 1


@functools.lru_cache(maxsize=256)  # public arguments only
def _quantile(noise: Noise, probability_outside: float, terms: int) -> int:
    if not 0 < probability_outside < 1:
        raise InvalidQuestionError(
            "the probability outside must be strictly between 0 and 1", hint="Use 0.05."
        )
    one_side = Fraction(probability_outside) / 2
    return smallest_exceedance(lambda excess: noise.tail(excess, terms), one_side) - 1


def exact_parameter(name: str, value: object, largest_power: int) -> Fraction:
    """Return a fraction or an integer as it is, if it is within reach. Refuse anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise InvalidLossError(
            f"{name} must be a fractions.Fraction or an int, not {type(value).__name__}",
            hint=f"Use {name}=Fraction(1, 2).",
        )
    if not Fraction(1, 2**largest_power) <= value <= 2**largest_power:
        raise InvalidLossError(
            f"{name} must be positive, from 2**-{largest_power} to 2**{largest_power}",
            hint=f"Use {name}=Fraction(1, 2).",
        )
    return Fraction(value)


def name_law(noise: Noise) -> str:
    """Return the name of a law."""
    return "discrete Laplace" if is_laplace(noise) else "discrete Gaussian"


def find_scale(noise: Noise) -> float:
    """Return the scale of Laplace noise, or the standard deviation of Gaussian noise."""
    if isinstance(noise, DiscreteLaplace):
        return float(noise.scale)
    if isinstance(noise, Summed):
        return math.sqrt(noise.variance / (2 if is_laplace(noise) else 1))
    assert isinstance(noise, DiscreteGaussian)  # noqa: S101 there are two laws to draw from
    return math.sqrt(noise.sigma_squared)


def compute_heights(counts: npt.NDArray[np.float64], noise: Noise) -> npt.NDArray[np.float64]:
    """Return noisy counts in units of noise: an empty count reaches h with a chance of e^-h / 2."""
    spread = find_scale(noise)
    if is_laplace(noise):
        return np.asarray(counts / spread)
    z = (counts - 0.5) / spread
    tail = np.log((np.maximum(z, 0) + np.sqrt(z * z + 8 / math.pi)) / math.sqrt(8 / math.pi))
    return np.where(z > 0, z * z / 2 + tail, z)


_LEAST_DELTA = Fraction(1, 2**1074)


@dataclass(frozen=True)
class KeyRule:
    """When a secret group is shown: one that a unit alone has made, with probability <= `delta`.

    `delta` is for one group and one selection. `rows` is how many rows a unit can have in a group.
    """

    delta: Fraction
    rows: int = 1

    def threshold(self, noise: Noise, divisor: int, terms: int) -> int:
        """Return the noisy total, in units of 1/divisor rows, from which on a group is shown."""
        return threshold(noise, self.rows * divisor, terms, self.delta)


@lru_cache(maxsize=256)  # public arguments only
def threshold(noise: Noise, contribution: int, terms: int, delta: Fraction) -> int:
    """Return the smallest T with P(contribution + Z_1 + ... + Z_terms >= T) <= delta.

    Releasing a group if and only if its noisy total is at least T (>=, not >) makes a group that
    consists of one unit's contribution alone appear with probability at most delta: releasing the
    keys is then (0, delta)-differentially private for one unit in one group, added or removed. A
    unit in several groups needs its delta divided by their number first. `contribution` is the most
    that one unit adds to the total of a group, in grid units as T. The tail of `noise` at
    T - contribution is a certified bound, for up to 64 `terms`.

    Korolova et al. 2009 and Wilson et al. 2020 introduced thresholds. The proof for >= and for
    several noise terms is in docs/explanation/sampling.md.

    >>> from fractions import Fraction
    >>> from dfprivacy.noise.laws import DiscreteLaplace
    >>> threshold(DiscreteLaplace(Fraction(1)), 1, 1, Fraction(1, 10**6))
    15
    """
    if not _LEAST_DELTA <= delta < 1:
        raise InvalidLossError(
            "delta must be at least 2**-1074 and less than 1", hint="Use delta=1e-6."
        )
    exact = Fraction(delta)
    return contribution + smallest_exceedance(lambda excess: noise.tail(excess, terms), exact)


SPARED = Fraction(1, 20)
"""Fraction of the outside probability by which intervals far above a threshold shrink."""

_LEAST_OUTSIDE = 2.0**-40
_HIDDEN = Fraction(1, 2**72)
"""Nothing is promised of groups that are shown with a smaller probability."""


@lru_cache(maxsize=4096)  # public arguments only
def reach_down(noise: Noise, terms: int, threshold: int, excess: int, outside: float) -> int | None:
    """Return how far below a noisy total that is shown the true one may lie.

    The total of a group is shown from `threshold` on. This one exceeds that by `excess`. With h the
    answer, true totals further down show so large a total, among all that are shown, with
    probability at most outside / 2: the tail at h + 1 over that at h + 1 - excess, which falls in
    h as the laws are log-concave. None where totals down to 0 do, or to far below the threshold,
    where a group is hardly ever shown (docs/explanation/intervals.md).
    """
    one_side = Fraction(outside) / 2
    hidden = smallest_exceedance(lambda excess: noise.tail(excess, terms), _HIDDEN) - 1
    lowest = excess + min(threshold, hidden)

    def likelihood_ratio(distance: int) -> Fraction:
        return noise.tail(distance, terms) / noise.tail(distance - excess, terms)

    if likelihood_ratio(lowest) > one_side:
        return None
    return smallest_exceedance(lambda h: likelihood_ratio(min(h, lowest)), one_side) - 1


@lru_cache(maxsize=256)  # public arguments only
def bound_outside_selected(
    noise: Noise, terms: int, threshold: int, outside: float
) -> tuple[int, float, float]:
    """Return two outside probabilities for answers that share noise with the total that shows them.

    The first number is an excess over `threshold`. Groups that are nearer to it have an interval at
    the first probability, others at the second. If all groups were shown, intervals would miss with
    these probabilities. Among the shown groups of one size, a fraction of at most `outside` then
    miss (docs/explanation/intervals.md).
    """

    def tail(distance: int) -> Fraction:
        return noise.tail(distance, terms)

    wide = Fraction(outside) * (1 - SPARED)
    outside_near = Fraction(outside) * SPARED * tail(threshold)
    sure = 1 - smallest_exceedance(tail, SPARED / 2)  # groups from least - sure on are shown
    excess_far = smallest_exceedance(tail, wide * tail(sure)) - sure
    return excess_far, max(float(outside_near), _LEAST_OUTSIDE), float(wide)


_NORMAL_FROM = 64
"""Terms beyond which a sum of Laplace variables is taken for a normal one."""


@lru_cache(maxsize=4096)  # public arguments only
def exact_height(terms: int, probability: float, *, laplace: bool) -> float:
    """Return the height that a sum of noisy empty counts exceeds with this probability."""
    if not laplace or terms > _NORMAL_FROM:
        return -math.sqrt(terms * (1 + laplace)) * statistics.NormalDist().inv_cdf(probability)
    low, high = 0.0, 8.0 * (terms - math.log(probability))
    while high - low > 1e-6:
        middle = (low + high) / 2
        is_frequent = _tail_of_laplace_sum(terms, middle) > probability
        low, high = (middle, high) if is_frequent else (low, middle)
    return high


def _tail_of_laplace_sum(terms: int, height: float) -> float:
    """Return the probability that a sum of standard Laplace variables exceeds a height."""
    sums = np.cumsum([height**i / math.factorial(i) for i in range(terms)])
    probability = 0.0
    for index in range(terms):
        weight = math.comb(terms - 1 + index, index) / 2.0 ** (terms + index)
        probability += weight * float(sums[terms - 1 - index])
    return probability * math.exp(-height)
