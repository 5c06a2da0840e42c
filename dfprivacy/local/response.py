"""Randomised response with probabilities that are multiples of 2**-64, on the safe side of epsilon.

The true category is reported with probability t / 2**64, each other one with o / 2**64. As o is
rounded up, t / o is at most e**epsilon, and the probabilities sampled are exactly those stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import InvalidLossError
from dfprivacy.exact import describe
from dfprivacy.local.exponential import exponential_below
from dfprivacy.noise.entropy import EntropySource, random_words, system_entropy

Integers = npt.NDArray[np.int64]

WORDS = 2**64
"""A 64-bit word has so many values, equally likely."""

MISSING = -1
"""The input of an owner who has no value: the report is uniform."""

LEAST_EPSILON, LARGEST_EPSILON = Fraction(1, 2**10), Fraction(64)


@dataclass(frozen=True)
class RandomisedResponse:
    """Report one of 2 or 4 categories, the true one a little more often (Warner 1965).

    Privacy: epsilon-locally differentially private for replacing the input by any other one,
    "no value" included: for every report, the probabilities under two inputs have a ratio of at
    most e**epsilon, exactly.

    Parameters
    ----------
    categories : int
        2 or 4.
    epsilon : Fraction
        From 1/1024 to 64.

    Raises
    ------
    InvalidLossError
        When epsilon lies elsewhere.

    Examples
    --------
    >>> from fractions import Fraction
    >>> law = RandomisedResponse(4, Fraction(1))
    >>> round(float(law.truth), 4), round(float(law.other), 4)
    (0.4754, 0.1749)
    >>> law.probability(report=2, given=2) / law.probability(report=2, given=0) < 2.71829
    True
    """

    categories: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        """Refuse an epsilon beyond reach."""
        checked_epsilon(self.epsilon)

    @cached_property
    def words_for_another(self) -> int:
        """How many of the 2**64 words report one given category that is not the true one."""
        return math.ceil(WORDS / (exponential_below(self.epsilon) + self.categories - 1))

    @property
    def other(self) -> Fraction:
        """The probability of one given category that is not the true one."""
        return Fraction(self.words_for_another, WORDS)

    @property
    def truth(self) -> Fraction:
        """The probability of the true category."""
        return 1 - (self.categories - 1) * self.other

    def probability(self, *, report: int, given: int) -> Fraction:
        """Return the probability of a report, given the input (`MISSING` for no value)."""
        if given == MISSING:
            return Fraction(1, self.categories)
        return self.truth if report == given else self.other

    def privatise(self, inputs: Integers, entropy: EntropySource = system_entropy) -> Integers:
        """Return one report for each input, each from a 64-bit word of its own."""
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

    def possible(self, reports: Integers) -> npt.NDArray[np.bool_]:
        """Tell which numbers are reports at all."""
        return (reports >= 0) & (reports < self.categories)

    def unbiased(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return estimates of how many owners hold each category.

        `counts` holds reports, categories along the last axis; so does the answer, whose expected
        value is the true numbers, with owners of no value in equal parts everywhere.
        """
        total = counts.sum(axis=-1, keepdims=True)
        return np.asarray((counts - total * float(self.other)) / float(self.truth - self.other))


def checked_epsilon(epsilon: Fraction) -> Fraction:
    """Return an epsilon that local randomisers can spend.

    Raises
    ------
    InvalidLossError
        When it is not between 1/1024 and 64.
    """
    if not LEAST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise InvalidLossError(
            f"a local epsilon lies between 1/1024 and 64, not at {describe(epsilon)}",
            hint="pass epsilon=1.0; below 1/1024 no number of users shows anything",
        )
    return epsilon
