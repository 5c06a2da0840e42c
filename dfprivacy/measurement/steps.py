"""Multiples of a step between bounds: a grid for selections where a caller knows what can be.

A value counts as the nearest multiple of the step, and as the outermost one beyond the bounds: a
function of its own row. What a selection chooses from is as public as the bounds and the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dfprivacy.accounting.exact import decimal_number
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.bin_table import BinTable, added_up
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.release.terms import Bounds

_MOST = 2**40
_FINE = 2**16
"""So many steps, or twice as many, are between bounds where no step is named."""


@dataclass(frozen=True)
class Steps:
    """The multiples `first` to `most` of a step, in units of the column.

    >>> whole = steps_within(Bounds(0, 60), 1)
    >>> whole.values(whole.numbers(np.array([-3.0, 7.4, 99.0]))).tolist()
    [0.0, 7.0, 60.0]
    """

    step: Fraction
    first: int
    most: int

    @property
    def last(self) -> int:
        """The largest size of a number: what a bin table packs by."""
        return max(abs(self.first), abs(self.most))

    @property
    def bits(self) -> int:
        """How many significant bits tell neighbouring multiples apart: 8 to 22."""
        return min(max(math.ceil(math.log2(max(self.last, 1))) + 2, 8), 22)

    def numbers(self, values: Floats) -> Integers:
        """Return the number of the nearest multiple of each value."""
        nearest = np.rint(values / float(self.step))
        return np.clip(nearest, self.first, self.most).astype(np.int64)

    def values(self, numbers: Integers) -> Floats:
        """Return the multiples with these numbers: decimals as they are written."""
        if self.step.numerator == 1:
            return np.asarray(numbers / float(self.step.denominator))
        return np.asarray(numbers * float(self.step))


def steps_within(bounds: Bounds, step: object = None) -> Steps:
    """Return the multiples of a step between bounds; without one, of a fine power of two.

    Raises
    ------
    InvalidQuestionError
        When the step is no positive number, or no or too many multiples lie between the bounds.
    """
    if step is None:
        exponent = math.ceil(math.log2(bounds.width / _FINE))
        size = Fraction(2) ** exponent
    else:
        exact = decimal_number(step)
        if exact is None or exact <= 0:
            raise InvalidQuestionError("a step must be a positive number", hint="pass step=1")
        size = exact
    first = math.ceil(Fraction(bounds.lower) / size)
    most = math.floor(Fraction(bounds.upper) / size)
    if first > most:
        raise InvalidQuestionError(
            "no multiple of the step lies between the bounds", hint="pass a smaller step"
        )
    if max(abs(first), abs(most)) > _MOST:
        raise InvalidQuestionError(
            "the step is too small for these bounds", hint="pass a larger one, or leave it out"
        )
    return Steps(size, first, most)


def on_steps(table: BinTable, steps: Steps) -> BinTable:
    """Return the counts of a value-count table by the multiples of a step."""
    numbers = steps.numbers(table.values())
    grid: Any = steps  # numbered as bins are, and known by its last one
    return added_up(replace(table, binning=grid, bins=numbers))
