"""Make integers private at their owner: randomized response, and noise on a grid or in a ball.

Before that, users are hashed and vectors are turned by a public rotation. A histogram is estimated
from single bits, in the Haar form of Cormode, Kulkarni and Srivastava (2019): of the coefficients
of one level, zero but for one +1 or -1, an owner reports one sign of the Hadamard transform, at a
row that a public hash names (docs/how-to/local.md).
"""

from __future__ import annotations

import decimal
import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import (
    InvalidBoundsError,
    InvalidLossError,
    InvalidProtocolError,
    UnsupportedDtypeError,
)
from dfprivacy.measurement.exact import describe
from dfprivacy.measurement.vectors import pad_size
from dfprivacy.noise.entropy import EntropySource, random_words, system_entropy
from dfprivacy.noise.laws import DiscreteGaussian, DiscreteLaplace
from dfprivacy.noise.tails import isolate_context

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

WORDS = 2**64
"""Number of equally likely values of a 64-bit word."""

MISSING = -1
"""The input of an owner who has no value: the report is uniform."""

LEAST_EPSILON, LARGEST_EPSILON = Fraction(1, 2**10), Fraction(64)

FAR = 60
"""Scales beyond the grid that no honest report reaches: its probability is below e**-59."""

WIDEST = 2**20
"""The largest radius of a ball, in steps."""

MOST_STEPS = 2**40
"""The most steps of a grid: with the least epsilon, int64 holds its noise."""

_SLACK = Fraction(1, 10**60)
"""Covers the rounding of the exponent, below 64, and of the correctly rounded exponential."""


@dataclass(frozen=True)
class Counts:
    """The reports of one part of the users by group: how many, and their sums.

    `sums` has one row a group: for randomized response one column a category, for numbers the sums
    and the sums of squares. For vectors it has two rows, sums and sums of squares by coordinate.
    """

    reports: Integers
    sums: npt.NDArray[Any]

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.reports + other.reports, self.sums + other.sums)


@dataclass(frozen=True)
class RandomizedResponse:
    """Report one of 2 or 4 categories, the true one a little more often (Warner 1965).

    Privacy: epsilon-locally differentially private for replacing the input by any other one,
    "no value" included: for every report, the probabilities under two inputs have a ratio of at
    most e**epsilon, exactly. Probabilities are multiples of 2**-64. As that of another category is
    rounded up, the ratio stays on the safe side.

    `categories` are 2 or 4, and epsilon lies between 1/1024 and 64.

    >>> from fractions import Fraction
    >>> law = RandomizedResponse(4, Fraction(1))
    >>> round(float(law.truth), 4), round(float(law.lie), 4)
    (0.4754, 0.1749)
    >>> law.probability(report=2, category=2) / law.probability(report=2, category=0) < 2.71829
    True
    """

    categories: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        """Refuse numbers of categories that the sampler does not have: it masks one or two bits."""
        check_epsilon(self.epsilon)
        if type(self.categories) is not int or self.categories not in {2, 4}:
            raise InvalidProtocolError(
                f"randomized response has 2 or 4 categories, not {describe(self.categories)}",
                hint="pass RandomizedResponse(4, epsilon), and leave categories unused",
            )

    @cached_property
    def words_for_another(self) -> int:
        """How many of the 2**64 words report one given category that is not the true one."""
        return math.ceil(WORDS / (exponential_below(self.epsilon) + self.categories - 1))

    @property
    def lie(self) -> Fraction:
        """The probability of one given category that is not the true one."""
        return Fraction(self.words_for_another, WORDS)

    @property
    def truth(self) -> Fraction:
        """The probability of the true category."""
        return 1 - (self.categories - 1) * self.lie

    @property
    def gap(self) -> float:
        """How much likelier the true category is than another one."""
        return float(self.truth - self.lie)

    def probability(self, *, report: int, category: int) -> Fraction:
        """Return the probability of a report, for a category (`MISSING` for no value)."""
        if category == MISSING:
            return Fraction(1, self.categories)
        return self.truth if report == category else self.lie

    def privatise(self, inputs: Integers, entropy: EntropySource = system_entropy) -> Integers:
        """Return one report for each input, each from a 64-bit word of its own."""
        inputs = whole_inputs(inputs, 1)
        words = random_words(len(inputs), entropy)
        reports = inputs.copy()
        for index in range(1, self.categories):  # so many words further on: index categories on
            reports += words < np.uint64(index * self.words_for_another)
        reports &= self.categories - 1
        absent = inputs == MISSING
        if absent.any():
            bits = np.uint64(65 - self.categories.bit_length())
            reports[absent] = (words[absent] >> bits).astype(np.int64)
        return reports

    def possible(self, reports: Integers) -> Mask:
        """Return a mask of numbers that can be reports."""
        return (reports >= 0) & (reports < self.categories)

    def add_reports(self, values: Integers, group: npt.NDArray[Any], groups: int) -> Counts:
        """Count reports by category in each of `groups` groups. `group` has the group of each."""
        cells = np.bincount(group * self.categories + values, minlength=groups * self.categories)
        sums = cells.reshape(groups, self.categories)
        return Counts(sums.sum(axis=1), sums)

    def unbias(self, counts: npt.NDArray[Any]) -> Floats:
        """Return estimates of how many owners hold each category.

        `counts` holds reports, categories along the last axis. So does the answer, whose expected
        value is the true numbers, with owners of no value in equal parts everywhere.
        """
        total = counts.sum(axis=-1, keepdims=True)
        return np.asarray((counts - total * float(self.lie)) / self.gap)


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
        check_epsilon(self.epsilon)
        if type(self.steps) is not int or not 1 <= self.steps <= MOST_STEPS:
            raise InvalidBoundsError(
                f"a grid has a whole number of steps from 1 to 2**40, not {describe(self.steps)}",
                hint="count in larger steps: GridLaplace(2**20, epsilon)",
            )

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """The noise on every report."""
        return DiscreteLaplace(Fraction(self.steps) / self.epsilon)

    @property
    def middle(self) -> int:
        """The input of an owner without a value."""
        return self.steps // 2

    def privatise(self, inputs: Integers, entropy: EntropySource = system_entropy) -> Integers:
        """Return one report for each input. Inputs are clipped to the grid first."""
        clipped = np.clip(whole_inputs(inputs, 1), 0, self.steps)
        noise: Integers = self.noise.sample(len(clipped), entropy)
        return np.add(clipped, noise, out=noise)

    def possible(self, reports: Integers) -> Mask:
        """Return a mask of numbers that an honest owner can send, but for e**-59."""
        reach = int(FAR * self.noise.scale)
        return (reports >= -reach) & (reports <= self.steps + reach)

    def add_reports(self, values: Integers, group: npt.NDArray[Any], groups: int) -> Counts:
        """Add up distances from the middle of the grid, and their squares, by group."""
        away = (values - self.middle).astype(np.float64)
        sums = [
            np.bincount(group, weights=weights, minlength=groups) for weights in (away, away * away)
        ]
        return Counts(np.bincount(group, minlength=groups), np.stack(sums, axis=1))


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
        if not isinstance(self.rho, Fraction) or self.rho <= 0:
            raise InvalidLossError(
                f"rho is a fraction above 0, not {describe(self.rho)}",
                hint="pass rho=Fraction(1, 2)",
            )

    @cached_property
    def noise(self) -> DiscreteGaussian:
        """The noise on every coordinate of a report."""
        return DiscreteGaussian(Fraction((2 * self.radius) ** 2) / (2 * self.rho))

    def privatise(self, inputs: Integers, entropy: EntropySource = system_entropy) -> Integers:
        """Return one report for each row. A row outside the ball would count as 0.

        Coordinates are looked at first, so that no product or sum leaves 64 bits.
        """
        rows = whole_inputs(inputs, 2)
        noise: Integers = self.noise.sample(rows.size, entropy).reshape(rows.shape)
        is_near = ((rows >= -self.radius) & (rows <= self.radius)).all(axis=1, keepdims=True)
        short = np.where(is_near, rows, 0)
        inside = (short * short).sum(axis=1, keepdims=True) <= self.radius**2
        return np.asarray(noise + np.where(inside, short, 0))

    def possible(self, reports: Integers) -> Mask:
        """Return a mask of rows that an honest owner can send, but for e**-59."""
        reach = self.radius + 12 * (int(self.noise.sigma_squared**0.5) + 1)
        return np.asarray(((reports >= -reach) & (reports <= reach)).all(axis=1))

    def add_reports(self, values: Integers, group: npt.NDArray[Any], groups: int) -> Counts:  # noqa: ARG002 one interface
        """Add up coordinates and their squares: vectors are in one group."""
        floats = values.astype(np.float64)
        sums = np.stack([floats.sum(axis=0), (floats**2).sum(axis=0)])
        return Counts(np.array([len(values)]), sums)


Law = RandomizedResponse | GridLaplace | BallGaussian


def whole_inputs(inputs: Any, dimensions: int) -> Integers:
    """Return inputs as int64, in which no step of a randomizer wraps. Refuse others by their type.

    Fractions would go through a noise of whole numbers as they are.
    """
    kinds = {np.dtype(kind) for kind in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4")}
    if not isinstance(inputs, np.ndarray) or inputs.dtype not in kinds:
        raise UnsupportedDtypeError(
            "inputs of a randomizer come as a numpy array of whole numbers",
            hint="pass np.asarray(values, dtype=np.int64)",
        )
    if inputs.ndim != dimensions:
        raise InvalidProtocolError(
            f"inputs of this randomizer are an array of {dimensions} dimensions, not {inputs.ndim}",
            hint="numbers come as a row, vectors as the rows of a table",
        )
    return np.asarray(inputs, dtype=np.int64)


def check_epsilon(epsilon: Fraction) -> Fraction:
    """Return an epsilon that local randomizers can spend."""
    if not (isinstance(epsilon, Fraction) and LEAST_EPSILON <= epsilon <= LARGEST_EPSILON):
        raise InvalidLossError(
            f"a local epsilon lies between 1/1024 and 64, not at {describe(epsilon)}",
            hint="pass epsilon=1.0; below 1/1024 no number of users shows anything",
        )
    return epsilon


def exponential_below(exponent: Fraction) -> Fraction:
    """Return a rational number at most e**exponent and within 10**-60 of it, relatively."""
    return _exponential(exponent) * (1 - _SLACK)


def exponential_above(exponent: Fraction) -> Fraction:
    """Return a rational number at least e**exponent and within 10**-60 of it, relatively."""
    return _exponential(exponent) * (1 + _SLACK)


def _exponential(exponent: Fraction) -> Fraction:
    context = isolate_context(90)
    numerator, denominator = map(decimal.Decimal, exponent.as_integer_ratio())
    return Fraction(context.exp(context.divide(numerator, denominator)))


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def campaign_salt(campaign: str) -> np.uint64:
    """Return the number that makes the groups of one campaign unlike those of another."""
    digest = hashlib.blake2b(campaign.encode(), digest_size=8, person=b"dfp.local").digest()
    return np.uint64(int.from_bytes(digest, "big"))


def hash_numbers(users: Integers, salt: np.uint64) -> Words:
    """Return a well-mixed word for each user number, by a bijection of words (SplitMix64)."""
    words = users.view(np.uint64) * _GOLDEN
    words += salt
    spare = np.right_shift(words, np.uint64(30))
    for factor, shift in ((_FIRST, 27), (_SECOND, 31)):
        words ^= spare
        words *= factor
        np.right_shift(words, np.uint64(shift), out=spare)
    words ^= spare
    return words


def _signs(campaign: str, dimensions: int) -> Floats:
    """Return public random signs, the same for everybody in a campaign."""
    words = hash_numbers(np.arange(dimensions), campaign_salt("signs of " + campaign))
    return 1.0 - 2.0 * (words >> np.uint64(63)).astype(np.float64)


def rotate(vectors: Floats, campaign: str) -> Floats:
    """Return each row with signs changed, zero-padded and transformed. Missing is 0."""
    rows, dimensions = vectors.shape
    size = pad_size(dimensions)
    wide = np.zeros((rows, size))
    wide[:, :dimensions] = np.nan_to_num(vectors)
    wide *= _signs(campaign, size)
    return np.asarray(hadamard(wide) / np.sqrt(size))


def unrotate(vector: Floats, campaign: str, dimensions: int) -> Floats:
    """Return the vector that `rotate` has turned into this one."""
    size = len(vector)
    back = hadamard(vector[np.newaxis].copy())[0] / np.sqrt(size)
    back *= _signs(campaign, size)
    return np.asarray(back[:dimensions])


def hadamard(rows: Floats) -> Floats:
    """Transform each row by the Walsh-Hadamard matrix, in place, in n log n steps.

    >>> hadamard(np.array([[1.0, 2.0, 3.0, 4.0]])).tolist()
    [[10.0, -2.0, -4.0, 0.0]]
    """
    count, size = rows.shape
    half = 1
    while half < size:
        pairs = rows.reshape(count, size // (2 * half), 2, half)
        first = pairs[:, :, 0].copy()
        pairs[:, :, 0] += pairs[:, :, 1]
        np.subtract(first, pairs[:, :, 1], out=pairs[:, :, 1])
        half *= 2
    return rows


@dataclass(frozen=True)
class HaarTree:
    """Levels and rows of a tree. Groups run over level and row, lowest level first."""

    height: int

    @property
    def rows(self) -> int:
        """Rows of the largest Hadamard matrix, that of the lowest level."""
        return 1 << (self.height - 1)

    @property
    def groups(self) -> int:
        """How many groups there are: each level has `rows` of them."""
        return self.height * self.rows

    def sides(self, parts: Floats, groups: Integers) -> Integers:
        """Return 0 or 1 for the sign, + or -, that each owner's group asks for."""
        last = 2**self.height - 1
        clipped = np.clip(np.floor(np.nan_to_num(parts) * (last + 1)), 0, last)
        leaves = np.asarray(clipped, dtype=np.int64)
        level = groups // self.rows
        rows = (groups % self.rows) & ((self.rows >> level) - 1)
        odd = np.bitwise_count((leaves >> (level + 1)) & rows).astype(np.int64) & 1
        return np.asarray(odd ^ ((leaves >> level) & 1))

    def shares(self, counts: npt.NDArray[Any], law: RandomizedResponse) -> Floats:
        """Return the estimated share of each leaf. `counts` has one row a group, by report."""
        by_level = counts.reshape(self.height, self.rows, 2)
        shares = np.ones(1)
        for level in range(self.height - 1, -1, -1):
            counts_of_level = by_level[level]
            plus, minus = law.unbias(
                counts_of_level.reshape(2**level, self.rows >> level, 2).sum(axis=0)
            ).T
            lefts = hadamard((plus - minus)[np.newaxis].copy())[0] / max(
                float(counts_of_level.sum()), 1.0
            )
            halves = (shares + lefts) / 2  # `lefts` is left less right share of every node
            shares = np.stack([halves, shares - halves], axis=1).reshape(-1)
        return shares

    def error(self, owners: float, law: RandomizedResponse) -> float:
        """Return about the standard deviation of the share of owners below a leaf.

        A coefficient of a level with owners / height reports counts with a weight from 0 to 1/2 in
        such a share, 1/12 in the mean square.
        """
        return self.height / law.gap / math.sqrt(12 * max(owners, 1.0))


def find_quantile(shares: Floats, q: float) -> float:
    """Return where a share q of the owners lies below, by the nearest non-decreasing shares."""
    below = np.clip(increasing(np.cumsum(shares)), 0.0, 1.0)
    leaf = min(int(np.searchsorted(below, q)), len(below) - 1)
    start = float(below[leaf - 1]) if leaf else 0.0
    step = float(below[leaf]) - start
    inside = min(max((q - start) / step, 0.0), 1.0) if step > 0 else 0.5
    return (leaf + inside) / len(below)


def increasing(values: Floats) -> Floats:
    """Return the non-decreasing numbers nearest to some in squares: pool adjacent violators.

    >>> increasing(np.array([1.0, 3.0, 2.0, 4.0])).tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        mean, size = value, 1
        while means and means[-1] > mean:
            last, many = means.pop(), sizes.pop()
            mean, size = (mean * size + last * many) / (size + many), size + many
        means.append(mean)
        sizes.append(size)
    return np.repeat(means, sizes)
