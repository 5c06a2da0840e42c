"""Estimates: the answers about a whole frame, which know their interval, noise and cost."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError, UnknownMethodError, boundary
from dfprivacy.frames.arithmetic import Expression, Range
from dfprivacy.frames.viz.numbers import Readable, Reading
from dfprivacy.frames.viz.text import figure, shorten
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.grid import CLOCK, DATE, DURATION, TIME, find_clock_kind, plain_type
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.entropy import fresh_id
from dfprivacy.noise.laws import Noise
from dfprivacy.release.answers import AnnotatedFloat, Estimated, join_notes
from dfprivacy.release.estimator import Estimator
from dfprivacy.release.pipeline import Release
from dfprivacy.release.plan import Plan, ReleaseInfo, bounds_text, list_answers, read_found_bounds
from dfprivacy.release.terms import Unit, interval_level

SELECTED = "selected privately"


@dataclass(frozen=True)
class DrawnLaw:
    """The noisy vector behind an estimate, and its estimator: intervals at every level."""

    estimator: Estimator
    vector: NoisyVector

    def range_at(self, value: float, level: float) -> Range:
        """Return the value with its interval at a level and its standard error."""
        low, high = self.estimator.interval(self.vector, level)
        error = self.estimator.standard_error(self.vector)
        return Range(value, float(low[0]), float(high[0]), float(error[0]))


@dataclass(frozen=True)
class RememberedLaw:
    """The interval that a ledger remembers, at one level."""

    low: float
    high: float
    error: float
    level: float

    def range_at(self, value: float, level: float) -> Range:
        """Return the value with the interval that was released."""
        if level != self.level:
            raise InvalidQuestionError(
                "the ledger remembers the interval at one level only",
                hint=f"ask for interval({self.level!r})",
            )
        return Range(value, self.low, self.high, self.error)


class Paid(Readable):
    """An answer that knows its release."""

    _info: ReleaseInfo
    _name: str
    _note: str | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse unknown names with an AttributeError."""
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise UnknownMethodError(
                f"an answer has no {name!r}: questions are asked of frames",
                hint="use the answer as the number that it is; it has .note and .plot(), and "
                "beside an interval .low, .high, .interval(0.99) and .std_error. A new question "
                "to the frame spends again: df.dp.mean('age')",
            )

    @property
    def info(self) -> ReleaseInfo:
        """The facts that all answers of the release share: cost, level, unit with limits."""
        return self._info

    @property
    def epsilon(self) -> float | None:
        """The epsilon of the whole call; None where the call spent a rho."""
        loss = self._info.loss
        return float(loss.value) if isinstance(loss, Epsilon) else None

    @property
    def rho(self) -> float | None:
        """The rho (zCDP) of the whole call; None where the call spent an epsilon."""
        loss = self._info.loss
        return float(loss.value) if isinstance(loss, Rho) else None

    @property
    def delta(self) -> float:
        """The delta that the call spent on secret group keys; 0 without groups."""
        return self._info.delta

    @property
    def note(self) -> str | None:
        """A warning that the interval can't be relied on, and why; None for most answers."""
        return self._note

    @property
    def limits(self) -> Unit | None:
        """The unit with limits that were found for the answer; None where limits were given."""
        limits = self._info.limits
        return limits.get(getattr(self, "_name", ""), next(iter(limits.values()), None))

    def _describe_cost(self) -> str:
        """Return the cost of the release, and the limits and bounds that it found."""
        info, bounds = self._info, self._info.bounds.get(self._name)
        texts = [info.limits_text(self._name, self._note)]
        texts += [f"bounds found: {bounds_text(bounds)}"] if bounds else []
        return ", ".join(filter(None, (info.cost, *texts)))


@boundary
class Estimate(Paid, AnnotatedFloat):
    """A private number: a float that knows its interval, its note and its cost.

    `+ - * /` with numbers and other estimates give estimates that cost nothing. Their interval is
    that of numbers with independent noise where they come from different releases, and holds for
    any dependence where they come from one. A number minus itself is 0 with an interval around it.

    A number that was selected (a quantile) has no interval: `low` and `high` are NaN.

    >>> import dfprivacy as dfp, pandas as pd
    >>> months = [pd.DataFrame({"x": range(top)}) for top in (1000, 800)]
    >>> before, after = (month.dp.mean("x", bounds=(0, 1000), epsilon=1) for month in months)
    >>> before.low < before < before.high, before.epsilon
    (True, 1.0)
    >>> change = (after - before) / before
    >>> change.low < change < change.high < 0
    True
    """

    _law: DrawnLaw | RememberedLaw | Expression | None = None
    _kind: str = ""
    __array_priority__ = -1.0  # numpy's numbers leave operations to estimates, arrays don't

    @property
    def epsilon(self) -> float | None:
        """The epsilon of the whole call; 0 for a computed number, None where it spent a rho."""
        return 0.0 if isinstance(self._law, Expression) else super().epsilon

    @property
    def rho(self) -> float | None:
        """The rho of the whole call; 0 for a computed number, None where it spent an epsilon."""
        return 0.0 if isinstance(self._law, Expression) else super().rho

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Return ends that hold the answer about these rows with probability `level`.

        It covers the noise and, where bounds were found, also their clipping, or `note` says that
        it may not. Where bounds were given it holds the answer about the clipped values. It covers
        sampling error where the population was asked for (docs/explanation/intervals.md). `level`
        lies between 0 and 1. Both ends are NaN for a number that was selected.
        """
        ends = self.range_at(self._info.level if level is None else interval_level(level))
        return ends.low, ends.high

    def range_at(self, level: float) -> Range:
        """Return the number with its interval at a level and its standard error."""
        if self._law is None:
            return Range(float(self), math.nan, math.nan, math.nan)
        return self._law.range_at(float(self), level)

    @property
    def has_interval(self) -> bool:
        """True for a number with an interval; a number that was selected has none."""
        return self._law is not None

    @property
    def low(self) -> float:
        """Lower end of the interval at the level asked for; NaN without one."""
        return self.interval()[0]

    @property
    def high(self) -> float:
        """Upper end of the interval at the level asked for."""
        return self.interval()[1]

    @property
    def std_error(self) -> float:
        """Standard deviation of the noise, in units of the estimate (first order for ratios).

        Not a number for a quantile: the error of a selection depends on the rows.
        """
        return self.range_at(self._info.level).error

    @property
    def bounds(self) -> Bounds | None:
        """The bounds that values were clipped to, given or found; None for a count."""
        grid = getattr(getattr(self._law, "estimator", None), "grid", None)
        return None if grid is None else Bounds(grid.lower, grid.upper)

    @property
    def mechanism(self) -> Noise | None:
        """The noise on each integer coordinate behind the estimate; None where none is known."""
        return self._law.vector.noise if isinstance(self._law, DrawnLaw) else None

    def __str__(self) -> str:
        """Show the number alone; a count as a whole number, a share as a percentage."""
        if self._kind == "share":
            return figure(self, percent=True)
        return str(int(self)) if self._kind == "count" else float.__repr__(self)

    def __format__(self, spec: str) -> str:
        """Format it as a float; a count takes `d` as well."""
        if self._kind == "count" and (not spec or spec.endswith("d")):
            return format(int(self), spec)
        return super().__format__(spec)

    def reading(self) -> Reading:
        """Return the texts of its repr and its page."""
        info, law = self._info, self._law
        cost = "no further cost" if isinstance(law, Expression) else self._describe_cost()
        reading = Reading(
            self._name, float(self), cost=cost, note=self._note, question=info.question
        )
        if law is None:
            return replace(reading, law=SELECTED)
        is_sum = self._kind == "sum" and self.bounds is not None and self.bounds.lower >= 0
        shown = replace(
            reading,
            ends=self.interval(),
            level=info.level,
            percent=self._kind == "share",
            amount=is_sum or self._kind == "count",
        )
        if isinstance(law, DrawnLaw):
            noise = "Laplace" if isinstance(info.loss, Epsilon) else "Gaussian"
            noise = f"discrete {noise} noise, standard error {self.std_error:.3g}"
            return replace(shown, law=SELECTED if math.isnan(self.std_error) else noise)
        return replace(shown, tail="remembered" if isinstance(law, RememberedLaw) else "")

    @property
    def steps(self) -> tuple[Any, ...]:
        """The steps of its computation; itself for a released number."""
        return self._law.steps if isinstance(self._law, Expression) else (self,)

    def may_share_noise_with(self, other: Estimate) -> bool:
        """Check whether both may have noise in common: recalled ones, and those of one release."""
        both = isinstance(self._law, DrawnLaw) and isinstance(other._law, DrawnLaw)
        return not both or self._info.mark == other._info.mark

    def __add__(self, other: Any) -> Any:
        return _compute("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _compute("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return _compute("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _compute("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return _compute("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _compute("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _compute("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _compute("/", other, self)

    def __neg__(self) -> Any:
        return _compute("-", 0.0, self)


def _compute(sign: str, left: Any, right: Any) -> Any:
    """Return a computed number; a plain float where a number has no interval."""
    sides = (left, right)
    if not all(isinstance(side, Real) for side in sides):
        return NotImplemented
    operands = (step for side in sides for step in getattr(side, "steps", (float(side),)))
    law = Expression((*operands, sign))
    value = law.value(*map(float, sides))
    estimates = [step for step in law.steps if isinstance(step, Estimate)]
    if any(estimate._law is None for estimate in estimates):  # noqa: SLF001 of this module
        return value
    names = (getattr(side, "_name", None) or f"{float(side):g}" for side in sides)
    notes = dict.fromkeys(estimate.note for estimate in estimates if estimate.note)
    return Estimate(
        value,
        _name=shorten(f"({f' {sign} '.join(names)})"),
        _info=estimates[0].info,
        _law=law,
        _note="; ".join(notes) or None,
    )


class EstimateList(list[Any]):
    """Estimates that answer one question, whose repr shows their joint cost once."""

    def __repr__(self) -> str:
        """Show the numbers, then their cost."""
        readings = [answer.reading() for answer in self if isinstance(answer, Paid)]
        costs = {reading.cost for reading in readings}
        if len(costs) != 1 or len(readings) < len(self):
            return super().__repr__()
        lines = ", ".join(replace(reading, cost="").line for reading in readings)
        return f"[{lines}], {costs.pop()}"


class _PrivateMoment(Paid):
    """A private date or time; the result of a computation with it is a plain one."""

    _ends: tuple[Any, Any]
    _plain: ClassVar[Any]

    def __new__(cls, *parts: Any, **named: Any) -> Any:
        """Return a plain one: a result of a computation is no release."""
        return cls._plain(*parts, **named)

    @classmethod
    def of(cls, value: Any, facts: Mapping[str, Any]) -> Self:
        """Return a date or time with the facts of its release."""
        moment: Self = cls._plain.__new__(cls, *value.__reduce_ex__(4)[1])
        vars(moment).update(facts)
        return moment

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        plain = self._plain(*self._plain.__reduce_ex__(self, 4)[1])
        return (_private_moment, (plain, dict(vars(self))))

    @property
    def low(self) -> Any:
        """The lower end of the interval; None without one."""
        return self._ends[0]

    @property
    def high(self) -> Any:
        """The upper end of the interval; None without one."""
        return self._ends[1]

    def reading(self) -> Reading:
        """Return the texts of its repr and its page."""
        ends: Any = None if self._ends == (None, None) else self._ends
        level = None if ends is None else self._info.level
        value = self._plain(*self._plain.__reduce_ex__(self, 4)[1])
        facts: Any = {"level": level, "law": SELECTED, "note": self._note, "moment": str}
        return Reading(self._name, value, ends, cost=self._describe_cost(), **facts)


_MOMENTS: Mapping[type, Any] = {
    plain: type(name, (_PrivateMoment, plain), {"__doc__": _PrivateMoment.__doc__, "_plain": plain})
    for plain, name in (
        (dt.date, "PrivateDate"),
        (dt.datetime, "PrivateDateTime"),
        (dt.time, "PrivateTime"),
        (dt.timedelta, "PrivateDuration"),
    )
}
_PLAIN = {DATE: dt.date, TIME: dt.datetime, CLOCK: dt.time, DURATION: dt.timedelta}


def _private_moment(value: Any, facts: Mapping[str, Any]) -> Any:
    return _MOMENTS[type(value)].of(value, facts)


def _moment(column: pa.ChunkedArray) -> Any:
    """Return the date, time or duration of a column of one row; None where it is missing."""
    kind = str(find_clock_kind(column.type))
    with suppress(Exception):  # Python need not know the zone, or a day so far away in it
        zone = getattr(column.type, "tz", None)
        return column.cast(plain_type(kind, zone), safe=False)[0].as_py()
    return column.cast(plain_type(kind, "UTC"), safe=False)[0].as_py()


def name_estimates(released: Release, plan: Plan) -> dict[str, Any]:
    """Return the answers about a whole frame, by name: estimates, or dates and times."""
    answers = list_answers(plan.parts, plan.questions)
    mark = fresh_id(16) if plan.mark is None else plan.mark.hex()
    info = released.info
    questions = {name: question for question, name, _ in answers if question in info.limits}
    limits = {name: info.limits[question] for name, question in questions.items()}
    shares = {name: info.shares[question] for name, question in questions.items()}
    of_questions = read_found_bounds(released.table)
    bounds = {name: of_questions.get(question, ()) for question, name, _ in answers}
    info = replace(
        info, answers=len(answers), mark=mark, limits=limits, shares=shares, bounds=bounds
    )
    columns = iter(released.table.columns)
    drawn_answers = {} if released.answers is None else released.answers.answers
    laws = {
        answer.name: DrawnLaw(answer.pieces[0].estimator, answer.pieces[0].vector)
        for answers_of_question in drawn_answers.values()
        for answer in answers_of_question
        if isinstance(answer, Estimated)
    }
    estimates: dict[str, Any] = {}
    for question, name, has_interval in answers:
        noted = plan.questions[question].has_note or plan.notes_limits
        value = next(columns)
        low, high = (next(columns) for _ in range(2)) if has_interval else (None, None)
        note = next(columns)[0].as_py() if noted else None
        if not plan.notes_limits:
            note = join_notes((note, info.notes.get(question)))
        error = next(columns)[0].as_py() if has_interval else None
        facts: dict[str, Any] = {"_name": name, "_info": info, "_note": note}
        if find_clock_kind(value.type):
            moment, ends = _moment(value), [end and _moment(end) for end in (low, high)]
            facts["_ends"] = tuple(ends)
            estimates[name] = None if moment is None else _private_moment(moment, facts)
            continue
        law: Any = laws.get(name)
        if law is None and low is not None and high is not None:
            law = RememberedLaw(low[0].as_py(), high[0].as_py(), float(error or 0), info.level)
        kind = plan.questions[question].kind if has_interval else ""
        kind = "count" if plan.questions[question].is_whole and has_interval else kind
        estimates[name] = Estimate(float(value[0].as_py()), _law=law, _kind=kind, **facts)
    return estimates
