"""Answer for a whole frame with numbers that know their noise and what they cost.

A ledger keeps them as a table, and they come back from it as `Recalled`.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError, UnknownMethodError, boundary
from dfprivacy.frames.arithmetic import Range, added, divided, multiplied, negated
from dfprivacy.frames.viz.numbers import Readable, Reading
from dfprivacy.frames.viz.text import figure, shortened
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.grid import CLOCK, DATE, DURATION, TIME, Clock, plain_type
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.entropy import fresh_id
from dfprivacy.noise.laws import Noise
from dfprivacy.release.answers import Answer, Dated, Estimated, Told, arrow
from dfprivacy.release.estimator import CountEstimator, Estimator, ShareEstimator
from dfprivacy.release.request import Request
from dfprivacy.release.terms import Unit, interval_level


@dataclass(frozen=True)
class Release:
    """What every estimate of one release shares: its cost and the level of its intervals.

    `mark` tells it from all others, in copies of its numbers too, and is the same when a ledger
    recalls it; the cost alone needs none. All its `answers` together cost what it says.
    """

    loss: Epsilon | Rho
    delta: float
    level: float
    mark: str = field(default="", compare=False, repr=False)
    limits: Unit | None = field(default=None, compare=False, repr=False)
    answers: int = field(default=1, compare=False, repr=False)

    @classmethod
    def made(cls, request: Request, limits: Unit | None = None, answers: int = 1) -> Self:
        """Return what a request's release is known by, once it is paid or recalled.

        `limits` are those of a unit that it has found.
        """
        mark = fresh_id(16) if request.mark is None else request.mark.hex()
        return cls(request.charge.loss, 0.0, request.level, mark, limits, answers)

    @property
    def cost(self) -> str:
        """The loss and delta in words."""
        delta = f", delta={self.delta:.6g}" if self.delta else ""
        together = {1: "", 2: " for both"}.get(self.answers, f" for all {self.answers}")
        return f"{self.loss.measure}={float(self.loss.value):.6g}{delta}{together}"


def _operators(sign: str) -> tuple[Any, Any]:
    """Return the methods that compute with a number on the left and on the right."""
    return (
        lambda self, other: _computed(sign, self, other),
        lambda self, other: _computed(sign, other, self),
    )


@dataclass(frozen=True)
class Moments:
    """What numbers stand for that are dates or times: those of a clock, in a zone if any."""

    clock: Clock
    zone: str | None

    def value(self, number: float) -> Any:
        """Return the date, time or duration of a number; None where it is none."""
        found = self.clock.moments(np.array([number]))
        with suppress(Exception):  # Python need not know the zone, or a day so far away in it
            return arrow(found, plain_type(self.clock.kind, self.zone))[0].as_py()
        return arrow(found, plain_type(self.clock.kind, "UTC"))[0].as_py()

    def text(self, number: float) -> str:
        """Return a number as the date or time that it stands for."""
        value = self.value(number)
        return "none" if value is None else str(value)


SELECTED = "selected privately"


class Numbers(list[Any]):
    """The numbers that answer one question: a list that says once what they cost together."""

    def __repr__(self) -> str:
        """Show the numbers, then their cost."""
        shown = [own.reading() for own in self if isinstance(own, _Paid)]
        costs = {own.cost for own in shown}
        if len(costs) != 1 or len(shown) < len(self):
            return super().__repr__()
        return f"[{', '.join(replace(own, cost='').line for own in shown)}], {costs.pop()}"


class _Paid(Readable):
    """What was released, and knows what it cost."""

    _release: Release

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse what an answer does not have, with an AttributeError."""
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise UnknownMethodError(
                f"an answer has no {name!r}: questions are asked of frames",
                hint="ask the frame again, which spends again: df.dp.mean('age'); the answer has "
                ".plot(), and beside an interval .interval(0.99) and .std_error",
            )

    @property
    def epsilon(self) -> float | None:
        """What the whole call spent, where it was asked for as epsilon."""
        loss = self._release.loss
        return float(loss.value) if isinstance(loss, Epsilon) else None

    @property
    def rho(self) -> float | None:
        """What the whole call spent, where it was asked for as rho (zCDP)."""
        loss = self._release.loss
        return float(loss.value) if isinstance(loss, Rho) else None

    @property
    def limits(self) -> Unit | None:
        """The unit with the limits that the call found itself; None where it was given limits."""
        return self._release.limits


class _Private(_Paid, Told):
    """A private number that knows what it cost."""

    _name: str
    moments: Moments | None = None
    """What it stands for, where that is a date or time."""

    @property
    def delta(self) -> float:
        """The delta that the call spent on secret group keys; 0 without groups."""
        return self._release.delta

    @property
    def _is_whole(self) -> bool:
        """Tell whether it counts something."""
        return False

    @property
    def _is_share(self) -> bool:
        """Tell whether it is a part of a whole."""
        return False

    def __str__(self) -> str:
        """Show the number alone; a count as a whole number, a share as a percentage."""
        if self._is_share:
            return figure(self, percent=True)
        return str(int(self)) if self._is_whole else float.__repr__(self)

    def __format__(self, spec: str) -> str:
        """Format it as a float; a count takes `d` as well."""
        if self._is_whole and (not spec or spec.endswith("d")):
            return format(int(self), spec)
        return super().__format__(spec)

    def reading(self) -> Reading:
        """Return what is shown of the number."""
        moment = None if self.moments is None else self.moments.text
        return Reading(self._name, float(self), self._release.cost, moment=moment)


class _Ranged(_Private):
    """A private number with an interval, which it keeps under + - * and /."""

    _note: str | None = None
    __array_priority__ = -1.0  # numbers of numpy leave operations to us, arrays don't

    @property
    def note(self) -> str | None:
        """Where the interval can't be relied on, and why; None for most numbers."""
        return self._note or None  # older versions kept an empty text

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Return the ends of the interval."""
        raise NotImplementedError

    @property
    def low(self) -> float:
        """Lower end of the interval at the level asked for."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """Upper end of the interval at the level asked for."""
        return self.interval()[1]

    @property
    def std_error(self) -> float:
        """Standard deviation of the noise."""
        raise NotImplementedError

    @property
    def steps(self) -> tuple[Any, ...]:
        """What it is made of: itself, unless it was computed."""
        return (self,)

    def may_share_noise_with(self, other: _Ranged) -> bool:
        """Tell whether another released number may share its noise: that of one release may."""
        known = isinstance(self, Estimate) and isinstance(other, Estimate)
        return not known or self._release.mark == other._release.mark

    def range_at(self, level: float) -> Range:
        """Return the number with its interval at a level and its standard error."""
        return Range(float(self), *self.interval(level), self.std_error)

    def reading(self) -> Reading:
        """Return what is shown of the number."""
        ends, level = self.interval(), self._release.level
        known = super().reading()
        return replace(known, ends=ends, level=level, note=self.note, percent=self._is_share)

    __add__, __radd__ = _operators("+")
    __sub__, __rsub__ = _operators("-")
    __mul__, __rmul__ = _operators("*")
    __truediv__, __rtruediv__ = _operators("/")

    def __neg__(self) -> Any:
        return _computed("-", 0.0, self)


@boundary
class Computed(_Ranged):
    """A number computed from released ones by + - * and /: it has an interval and costs nothing.

    Its interval is that of numbers with independent noise where they come from different releases,
    and holds for any dependence where they come from one. A number minus itself is 0 with an
    interval around it: that both are one and the same is not taken into account.

    >>> import dfprivacy as dfp, pandas as pd
    >>> months = [pd.DataFrame({"x": range(top)}) for top in (1000, 800)]
    >>> before, after = (month.dp.mean("x", bounds=(0, 1000), epsilon=1) for month in months)
    >>> change = (after - before) / before
    >>> change.low < change < change.high < 0
    True
    """

    _steps: tuple[Any, ...]

    epsilon = rho = delta = 0.0
    """Nothing: what it is made of was paid for."""

    @property
    def steps(self) -> tuple[Any, ...]:
        """Released numbers and constants, each operation behind its two: any depth is one list."""
        return self._steps

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Return ends between which the number without noise lies with probability `level`."""
        found = self.range_at(self._release.level if level is None else interval_level(level))
        return found.low, found.high

    @property
    def std_error(self) -> float:
        """Standard deviation of the noise, to first order."""
        return self.range_at(self._release.level).error

    def range_at(self, level: float) -> Range:
        """Return the number with its interval at a level, step by step."""
        found: list[tuple[Range, list[_Ranged]]] = []
        for step in self._steps:
            if isinstance(step, str):
                (right, own), (left, others) = found.pop(), found.pop()
                apart = not any(a.may_share_noise_with(b) for a in own for b in others)
                found.append((_OPERATIONS[step](left, right, apart=apart), others + own))
            elif isinstance(step, _Ranged):
                found.append((step.range_at(level), [step]))
            else:
                found.append((Range(step, step, step), []))
        return found[0][0]

    def reading(self) -> Reading:
        """Return what is shown of the number."""
        return replace(super().reading(), cost="no further cost")


_OPERATIONS: Mapping[str, Callable[..., Range]] = {
    "+": added,
    "-": lambda one, other, *, apart: added(one, negated(other), apart=apart),
    "*": multiplied,
    "/": divided,
}


def _computed(sign: str, left: Any, right: Any) -> Any:
    """Return a computed number; a plain float where one has no interval."""
    sides = (left, right)
    if not all(isinstance(own, Real) for own in sides):
        return NotImplemented
    plain = (Range(float(own), float(own), float(own)) for own in sides)
    value = _OPERATIONS[sign](*plain, apart=True).value
    if any(isinstance(own, Choice) for own in sides):
        return value
    names = (getattr(own, "_name", None) or f"{float(own):g}" for own in sides)
    steps = (own.steps if isinstance(own, _Ranged) else (float(own),) for own in sides)
    made = (*itertools.chain.from_iterable(steps), sign)
    known = [own for own in made if isinstance(own, _Ranged)]
    return Computed(
        value, _name=shortened(f"({f' {sign} '.join(names)})"), _steps=made,
        _release=known[0]._release,  # noqa: SLF001 a number of this module
        _note="; ".join(dict.fromkeys(own.note for own in known if own.note)) or None,
    )  # fmt: skip


@boundary
class Estimate(_Ranged):
    """A private number: a float that knows its interval, its noise and what it cost.

    It holds public facts only: the noisy integers it was computed from and the law of the noise.

    >>> import dfprivacy as dfp, pandas as pd
    >>> frame = pd.DataFrame({"x": range(100)})
    >>> estimate = frame.dp.mean("x", bounds=(0, 100), epsilon=1)
    >>> 0 <= estimate <= 100 and estimate.low <= estimate <= estimate.high
    True
    """

    _estimator: Estimator
    _vector: NoisyVector

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Return ends between which the answer about these rows lies with probability `level`.

        It covers the noise, and where bounds were found also what they have clipped, or `note`
        says that it may not. Where bounds were given it holds the answer about the clipped values.
        It covers sampling error where `interval="population"` asked for it
        (docs/explanation/intervals.md). `level` lies between 0 and 1.
        """
        chosen = self._release.level if level is None else interval_level(level)
        low, high = self._estimator.interval(self._vector, chosen)
        return float(low[0]), float(high[0])

    @property
    def _is_whole(self) -> bool:
        return isinstance(self._estimator, CountEstimator)

    @property
    def _is_share(self) -> bool:
        return isinstance(self._estimator, ShareEstimator)

    @property
    def std_error(self) -> float:
        """Standard deviation of the noise, in units of the estimate (first order for ratios).

        Not a number for a quantile: how far a selection is off depends on the rows.
        """
        return float(self._estimator.standard_error(self._vector)[0])

    @property
    def bounds(self) -> Bounds | None:
        """The bounds that values were clipped to, given or found privately; None for a count."""
        grid = getattr(self._estimator, "grid", None)
        return None if grid is None else Bounds(grid.lower, grid.upper)

    @property
    def mechanism(self) -> Noise:
        """The noise on each integer coordinate behind the estimate."""
        return self._vector.noise

    def reading(self) -> Reading:
        """Return what is shown of the number."""
        law = "Laplace" if isinstance(self._release.loss, Epsilon) else "Gaussian"
        law = f"discrete {law} noise, standard error {self.std_error:.3g}"
        return replace(super().reading(), law=SELECTED if math.isnan(self.std_error) else law)


@boundary
class Choice(_Private):
    """A private number that a selection has chosen: it knows its cost, and has no interval.

    >>> import dfprivacy as dfp, pandas as pd
    >>> median = pd.DataFrame({"x": range(1000)}).dp.median("x", epsilon=1)
    >>> 300 < median < 700 and median.epsilon == 1
    True
    """

    def reading(self) -> Reading:
        """Return what is shown of the number."""
        return replace(super().reading(), law=SELECTED)


@boundary
class Recalled(_Ranged):
    """A private number that a ledger has remembered: it was paid for, with its interval, before."""

    _ends: tuple[float, float]
    _error: float

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Return the interval that was released: what other levels need was not kept."""
        if level is not None and interval_level(level) != self._release.level:
            raise InvalidQuestionError(
                "the ledger remembers the interval at one level only",
                hint=f"ask for interval({self._release.level!r})",
            )
        return self._ends

    @property
    def _is_whole(self) -> bool:
        return all(end.is_integer() for end in (float(self), *self._ends))

    @property
    def std_error(self) -> float:
        """Standard deviation of the noise, in units of the estimate (first order for ratios)."""
        return self._error

    def reading(self) -> Reading:
        """Return what is shown of the number."""
        return replace(super().reading(), tail="remembered")


Number = Estimate | Choice | Recalled
"""What a question about a whole frame is answered with, for annotations: a float in any case."""


class _Moment(_Paid):
    """A private date or time; what is computed from it is a plain one."""

    _number: Number
    _plain: ClassVar[Any]

    def __new__(cls, *parts: Any, **named: Any) -> Any:
        """Return a plain one: what is computed from a release is none."""
        return cls._plain(*parts, **named)

    @classmethod
    def of(cls, value: Any, number: Number) -> Self:
        """Return a date or time with the number behind it."""
        moment: Self = cls._plain.__new__(cls, *value.__reduce_ex__(4)[1])
        moment._number, moment._release = number, number._release  # noqa: SLF001 of this module
        return moment

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return (moment_of, (self._number,))

    @property
    def low(self) -> Any:
        """The lower end of the interval; None without one."""
        return self.interval()[0]

    @property
    def high(self) -> Any:
        """The upper end of the interval; None without one."""
        return self.interval()[1]

    def interval(self, level: float | None = None) -> tuple[Any, Any]:
        """Return the ends of the interval, None where there is none."""
        number = self._number
        if isinstance(number, Choice) or number.moments is None:
            return None, None
        low, high = map(number.moments.value, number.interval(level))
        return low, high

    def reading(self) -> Reading:
        """Return what is shown of it."""
        return self._number.reading()


_MOMENTS: Mapping[str, Any] = {
    kind: type(name, (_Moment, plain), {"__doc__": _Moment.__doc__, "_plain": plain})
    for kind, name, plain in (
        (DATE, "PrivateDate", dt.date), (TIME, "PrivateDateTime", dt.datetime),
        (CLOCK, "PrivateTime", dt.time), (DURATION, "PrivateDuration", dt.timedelta),
    )
}  # fmt: skip


def moment_of(number: Number) -> Any:
    """Return a number as it is handed over: as the date or time that it stands for."""
    if number.moments is None:
        return number
    value = number.moments.value(number)
    return None if value is None else _MOMENTS[number.moments.clock.kind].of(value, number)


def number_of(answer: Answer, release: Release) -> Number:
    """Return the answer of a release without groups as a number that knows its cost."""
    if isinstance(answer, Dated):
        number = number_of(answer.number, release)
        number.moments = Moments(answer.clock, getattr(answer.declared, "tz", None))
        return number
    if isinstance(answer, Estimated):
        piece = answer.pieces[0]
        note = None if piece.notes is None else piece.notes[0]
        return Estimate(
            piece.estimator.value(piece.vector)[0], _name=answer.name, _release=release,
            _estimator=piece.estimator, _vector=piece.vector, _note=note,
        )  # fmt: skip
    value = float(answer.columns(release.level)[0][0])
    return Choice(value, _name=answer.name, _release=release)


_NUMBERS = pa.schema(
    {
        "name": pa.string(),
        "value": pa.float64(),
        "low": pa.float64(),
        "high": pa.float64(),
        "std_error": pa.float64(),
        "chosen": pa.bool_(),
        "note": pa.string(),
        "moments": pa.string(),
        "zone": pa.string(),
        "origin": pa.int64(),
        "step": pa.int64(),
    }
)


def numbers_table(numbers: Mapping[str, Number]) -> pa.Table:
    """Return numbers with their intervals, one row each; what those of dates stand for as well."""
    rows = []
    for name, number in numbers.items():
        ends, note = (math.nan,) * 3, None
        if not isinstance(number, Choice):
            ends, note = (number.low, number.high, number.std_error), number.note
        known = number.moments
        told: tuple[Any, ...] = (None,) * 4
        if known is not None:
            told = (known.clock.kind, known.zone, known.clock.origin, known.clock.step)
        values = (name, float(number), *ends, isinstance(number, Choice), note, *told)
        rows.append(dict(zip(_NUMBERS.names, values, strict=True)))
    return pa.Table.from_pylist(rows, _NUMBERS)


def numbers_of(table: pa.Table, release: Release) -> dict[str, Number]:
    """Return the numbers of a table, as parts of a release with the same terms."""
    return {row["name"]: _number(row, release) for row in table.to_pylist()}


def _number(row: Mapping[str, Any], release: Release) -> Number:
    number: Number
    if row["chosen"]:
        number = Choice(row["value"], _name=row["name"], _release=release)
    else:
        number = Recalled(
            row["value"], _name=row["name"], _release=release, _note=row["note"],
            _ends=(row["low"], row["high"]), _error=row["std_error"],
        )  # fmt: skip
    if row["moments"] is not None:
        clock = Clock(row["moments"], row["origin"], row["step"], 0, 0)
        number.moments = Moments(clock, row["zone"])
    return number
