"""Turn a value into an integer of a grid, the same one in every engine.

A value x is clipped to [lower, upper] and becomes floor((x - origin) / step), where step is a
power of two and origin lies half a step below the anchor: x is rounded to the nearest
anchor + q * step. Subtraction rounds the same way everywhere and multiplication by a power of two
is exact, so that q has the same bits in numpy, polars and DuckDB; and every operation is monotone,
so that q lies in [first, last] whatever x is.

An even grid has a public number of steps instead, the same for every column: its inverse step is no
power of two, and the product with it is rounded once, the same way everywhere.

Dates and times are whole numbers already, of days or of microseconds (`Clock`).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.errors import InvalidBoundsError, InvalidQuestionError
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.bounds import Bounds

BITS = 30
ROW_LIMIT = 2**33  # BITS + 33 = 63: below it an int64 sum of grid integers can't wrap
EVEN = 2.0**BITS - 2  # steps of an even grid: one more, by rounding, stays below 2**BITS
_LEAST_EXPONENT = -1022  # 2**1022 is the largest inverse step that is a normal float


@dataclass(frozen=True)
class Grid:
    """Integers for values in [lower, upper], in steps of 2**exponent, or `EVEN` ones.

    `inverse_step` is the factor from units of the column to grid integers; what lies below `origin`
    would round to a negative one. `first` is the integer of `lower` and of everything below, `last`
    that of `upper` and of everything above.
    """

    lower: float
    upper: float
    anchor: float
    exponent: int
    even: bool = False
    step: float = field(init=False, repr=False, compare=False)
    inverse_step: float = field(init=False, repr=False, compare=False)
    origin: float = field(init=False, repr=False, compare=False)
    first: int = field(init=False, repr=False, compare=False)
    last: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        step, inverse = math.ldexp(1.0, self.exponent), math.ldexp(1.0, -self.exponent)
        if self.even:
            largest = math.ldexp(1.0, -_LEAST_EXPONENT)
            inverse = min(EVEN / (self.upper - self.lower), largest)
            step = 1 / inverse
        vars(self).update(step=step, inverse_step=inverse, origin=self.anchor - step / 2)
        vars(self).update(first=self.integer(self.lower), last=self.integer(self.upper))

    @property
    def largest(self) -> int:
        """The largest absolute integer on the grid."""
        return max(abs(self.first), abs(self.last))

    def integer(self, value: float) -> int:
        """Return the integer of one value: the law that the engines follow."""
        clipped = min(max(value, self.lower), self.upper)
        return math.floor((clipped - self.origin) * self.inverse_step)

    def integers(self, values: Floats) -> Integers:
        """Return the integer of each value by the law of `integer`; no value may be NaN.

        >>> Grid(0.0, 3.0, 0.0, exponent=0).integers(np.array([-9.0, 1.4, 1.5, np.inf])).tolist()
        [0, 1, 2, 3]
        """
        clipped = np.clip(values, self.lower, self.upper)
        return np.floor((clipped - self.origin) * self.inverse_step).astype(np.int64)


@lru_cache(maxsize=256)  # public arguments only
def grid_from_lower(bounds: Bounds) -> Grid:
    """Return the grid that counts from `lower`: integers 0 to at most 2**30."""
    return Grid(bounds.lower, bounds.upper, bounds.lower, _exponent(bounds.width))


def even_grid(bounds: Bounds) -> Grid:
    """Return the grid that counts from `lower` in nearly 2**30 steps."""
    return Grid(bounds.lower, bounds.upper, bounds.lower, _exponent(bounds.width), even=True)


@lru_cache(maxsize=256)  # public arguments only
def grid_from_zero(bounds: Bounds) -> Grid:
    """Return the grid that counts from 0: the largest less the least is at most 2**30."""
    size = max(bounds.upper, 0.0) - min(bounds.lower, 0.0)
    grid = Grid(bounds.lower, bounds.upper, 0.0, _exponent(size))
    if grid.largest == 0:
        raise InvalidBoundsError("bounds around zero are too small for a sum")
    return grid


def _exponent(size: float) -> int:
    mantissa, exponent = math.frexp(size)
    ceiling = exponent - 1 if mantissa == 0.5 else exponent
    return max(ceiling - BITS, _LEAST_EXPONENT)


DATE, TIME, CLOCK, DURATION = "date", "time", "time of day", "duration"

MOST_TICKS = 2**53
"""Floats hold every whole number up to this size: 285 years of microseconds."""
_MOST_MULTIPLES = 2**40
_FINE = 2**17
"""Largest number of multiples between bounds without a step."""
_SECOND, _DAY = 10**6, 86_400 * 10**6
_EVEN_STEPS = [
    *(digit * 10**power for power in range(6) for digit in (1, 2, 5)),
    *(_SECOND * seconds for seconds in (1, 2, 5, 10, 15, 30)),
    *(60 * _SECOND * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * _SECOND * hours for hours in (1, 2, 3, 6, 12)),
    _DAY,
]
"""Parts of a day in which times are told, in microseconds."""
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 the zone is that of UTC all along
_TICK = dt.timedelta(microseconds=1)

Moment = dt.date | dt.time | dt.timedelta
"""A date (or a date with a time), a time of day or a duration."""


@dataclass(frozen=True)
class Clock:
    """Dates, times or durations as whole numbers: k is what lies k steps after an origin.

    All are ticks since 1970-01-01 in UTC, since midnight or since nothing: days for dates, else
    microseconds. A value counts as the multiple at or before it, from `least` to `most`.

    >>> weeks = find_clock(DATE, (dt.date(2013, 1, 7), dt.date(2013, 12, 31)), dt.timedelta(7))
    >>> weeks.maximum, weeks.moments(np.array([1.0, np.nan])).astype(str).tolist()
    (51, ['2013-01-14', 'NaT'])
    """

    kind: str
    origin: int
    step: int
    minimum: int
    maximum: int

    @property
    def bits(self) -> int:
        """How many significant bits tell all numbers apart."""
        return max(max(-self.minimum, self.maximum).bit_length(), 8)

    @property
    def is_even(self) -> bool:
        """True if all multiples are candidates; durations without bounds are like floats."""
        return self.minimum == 0

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last tick that count as themselves."""
        return (
            self.origin + self.minimum * self.step,
            self.origin + (self.maximum + 1) * self.step - 1,
        )

    def moments(self, numbers: Floats) -> npt.NDArray[Any]:
        """Return the datetimes or durations of numbers, NaT for NaN: datetime64 or timedelta64."""
        is_known = np.isfinite(numbers)
        ticks = self.origin + np.where(is_known, numbers, 0).astype(np.int64) * self.step
        unit = "D" if self.kind == DATE else "us"
        since = "timedelta64" if self.kind in {CLOCK, DURATION} else "datetime64"
        moments = ticks.astype(f"{since}[{unit}]")
        moments[~is_known] = np.array("NaT", dtype=moments.dtype)
        return moments


def find_clock_kind(declared: pa.DataType) -> str | None:
    """Return which clock a declared type goes by; None for what is no date or time."""
    kinds = {
        DATE: pa.types.is_date,
        TIME: pa.types.is_timestamp,
        CLOCK: pa.types.is_time,
        DURATION: pa.types.is_duration,
    }
    return next((kind for kind, is_of in kinds.items() if is_of(declared)), None)


def plain_type(kind: str, zone: str | None = None) -> pa.DataType:
    """Return the Arrow type in which Python has a kind of dates and times, in a zone if any."""
    times = {CLOCK: pa.time64("us"), DURATION: pa.duration("us"), TIME: pa.timestamp("us", zone)}
    return times.get(kind, pa.date32())


def type_moments(moments: npt.NDArray[Any], declared: pa.DataType) -> pa.Array:
    """Return dates, times or durations in a declared Arrow type; NaT is NULL."""
    if pa.types.is_date(declared):
        return pa.array(moments).cast(declared)
    unit = getattr(declared, "unit", "us")
    ticks = moments.astype(np.int64)
    if unit == "ns":  # it holds three centuries alone, and so do the rows
        ticks = np.clip(ticks, -(2**63) // 1000 + 1, (2**63 - 1) // 1000)
    micro = pa.array(ticks, mask=np.isnat(moments))
    if pa.types.is_time(declared):
        return micro.cast(pa.time64("us")).cast(declared, safe=False)
    zone = getattr(declared, "tz", None)
    plain, declared_unit = (
        (pa.duration("us"), pa.duration(unit))
        if pa.types.is_duration(declared)
        else (pa.timestamp("us", zone), pa.timestamp(unit, zone))
    )
    return micro.cast(plain).cast(declared_unit, safe=False)


_WHOLE_RANGES: dict[str, tuple[Moment, Moment]] = {
    DATE: (dt.date.min, dt.date.max),
    TIME: (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)),  # noqa: DTZ001 of UTC
    CLOCK: (dt.time.min, dt.time.max),
}
_WHOLE_STEPS = {DATE: dt.timedelta(days=1), TIME: dt.timedelta(0, 1), CLOCK: dt.timedelta(0, 1)}


def find_clock(
    kind: str,
    bounds: Sequence[Moment] | None,
    step: dt.timedelta | None,
    zone: str | None = None,
) -> Clock:
    """Return the clock of a kind of column, between bounds and in steps that a caller has named.

    Bounds that name no time zone are in the `zone` of the column.

    Without bounds it goes from the year 1 to 9999, or round the day, in days or seconds; durations
    are then counted in microseconds. Without a step, bounds have about 2**17 steps at most.
    """
    if bounds is None and kind == DURATION:
        if step is not None:
            raise InvalidQuestionError(
                "a step needs bounds to lie between",
                hint="pass bounds=(timedelta(0), timedelta(hours=5)) as well",
            )
        return Clock(kind, 0, 1, -MOST_TICKS, MOST_TICKS)
    zone = None if bounds is None else zone
    lower, upper = (_ticks(end, kind, zone) for end in bounds or _WHOLE_RANGES[kind])
    if lower > upper:
        raise InvalidBoundsError("bounds must be ordered", hint="pass (earlier, later)")
    width = upper - lower
    if bounds is None or step is not None or kind == DATE:
        size = _count_step_ticks(kind, step)
    else:  # the finest part of a day that leaves few multiples
        size = next((ticks for ticks in _EVEN_STEPS if width // ticks <= _FINE), _DAY)
    largest = width // size
    if largest > _MOST_MULTIPLES:
        raise InvalidQuestionError(
            "the step is too small for these bounds", hint="pass a larger one, or leave it out"
        )
    return Clock(kind, lower, size, 0, largest)


def _count_step_ticks(kind: str, step: dt.timedelta | None) -> int:
    """Return a step in ticks."""
    size_given = _WHOLE_STEPS[kind] if step is None else step
    size, rest = divmod(size_given // _TICK, _DAY if kind == DATE else 1)
    if rest or size <= 0 or not isinstance(size_given, dt.timedelta):
        raise InvalidQuestionError(
            "a step of dates is a number of whole days"
            if kind == DATE
            else "a step of times must be a positive duration",
            hint="pass step=datetime.timedelta(days=7)",
        )
    return size


def _ticks(end: Moment, kind: str, zone: str | None) -> int:
    """Return a bound in the ticks of a kind of column."""
    if kind == CLOCK and isinstance(end, dt.time) and end.tzinfo is None:
        since = dt.datetime.combine(_EPOCH, end) - _EPOCH
    elif kind == DURATION and isinstance(end, dt.timedelta):
        since = end
    elif kind in {DATE, TIME} and isinstance(end, dt.date):
        at = end if isinstance(end, dt.datetime) else dt.datetime.combine(end, dt.time())
        if at.tzinfo is None and zone is not None:
            ambiguous: Any = {"ambiguous": "earliest", "nonexistent": "earliest"}
            return int(
                pc.assume_timezone(pa.scalar(at), zone, **ambiguous).cast(pa.int64()).as_py()
            )
        at = at if at.tzinfo is None else at.astimezone(dt.UTC).replace(tzinfo=None)
        since = at - _EPOCH
    else:
        example = {
            CLOCK: "(time(8), time(20))",
            DURATION: "(timedelta(0), timedelta(hours=5))",
        }.get(kind, "(date(2013, 1, 1), date(2014, 1, 1))")
        raise InvalidBoundsError(
            f"bounds of a {kind} column must be of its own kind", hint=f"pass bounds={example}"
        )
    ticks = since // _TICK
    return ticks // _DAY if kind == DATE else ticks
