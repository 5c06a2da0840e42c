"""Bounds: the public interval that the values of a column are clipped to."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass

from dfprivacy.errors import InvalidBoundsError, boundary
from dfprivacy.measurement.exact import describe, exact_number

_LITERALS = "two numbers that you know without looking at the data, e.g. bounds=(0, 100)"


@boundary
@dataclass(frozen=True)
class Bounds:
    """The interval that values are clipped to; known beforehand, never read off the data.

    >>> Bounds(0, 100)
    Bounds(lower=0.0, upper=100.0)

    Raises
    ------
    InvalidBoundsError
        Unless both are finite real numbers, lower < upper, and upper - lower is finite and not
        below 2**-1006.
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        for name, end in (("lower", self.lower), ("upper", self.upper)):
            exact = exact_number(end)
            if exact is None or abs(exact) > 2**1023:
                raise InvalidBoundsError(
                    f"a bound must be a finite number of size at most 2**1023, not {describe(end)}",
                    hint=OF_MOMENTS if isinstance(end, dt.date | dt.time) else f"pass {_LITERALS}",
                )
            object.__setattr__(self, name, float(exact))
        width = self.upper - self.lower
        if not self.lower < self.upper:
            raise InvalidBoundsError(
                f"bounds must be ordered: {self.lower!r} is not below {self.upper!r}",
                hint=f"pass (lower, upper): {_LITERALS}",
            )
        if not math.isfinite(width) or width < 2.0**-1006:
            raise InvalidBoundsError(
                "the distance between the bounds is too large or too small for a 64-bit float",
                hint="rescale the column, e.g. to thousands or to thousandths",
            )

    @property
    def width(self) -> float:
        """The distance between the bounds, in units of the column."""
        return self.upper - self.lower


OF_MOMENTS = (
    "of dates and times ask the median, a quantile, min or max; or turn them into numbers, such as "
    "days since a date or the seconds of a duration, first"
)
"""The hint where numbers are needed and the column holds dates or times."""

BoundsLike = Bounds | tuple[float, float]
"""Bounds, or the pair of numbers that they are made of."""


def read_bounds(value: object) -> Bounds | None:
    """Check bounds that a caller passes as a pair, as `Bounds` or as None."""
    if value is None or isinstance(value, Bounds):
        return value
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidBoundsError(
            f"bounds must be a pair of numbers, not {describe(value)}", hint=f"pass {_LITERALS}"
        )
    return Bounds(*value)
