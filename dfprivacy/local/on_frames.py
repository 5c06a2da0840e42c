"""Simulate protocols over a frame's column, or explain them: `df.dp.local` and `df.dp.shuffle`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import loss_of
from dfprivacy.accounting.spending import account_of
from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.columns import check_number_column
from dfprivacy.engine.declared import integer_columns
from dfprivacy.engine.run import collect, guarded
from dfprivacy.errors import InvalidLossError, InvalidQuestionError
from dfprivacy.forecast.forecast import Forecast
from dfprivacy.forecast.surveys import by_users, explain_survey
from dfprivacy.local.estimates import LocalEstimate
from dfprivacy.local.gaussian import gaussian_mean
from dfprivacy.local.protocol import simulate
from dfprivacy.local.published import Published
from dfprivacy.local.randomisers import Floats
from dfprivacy.local.reports import value_matrix
from dfprivacy.release.pipeline import paid
from dfprivacy.release.request import Request
from dfprivacy.terms import EPSILON, INTERVAL, Terms, interval_level

Measured = TypeVar("Measured")
Planner = Callable[..., Published]
"""From the number of users, epsilon and more arguments to a protocol."""


class FrameProtocols:
    """Protocols over a frame's column, simulated or explained; one subclass a model."""

    MODEL: ClassVar[str]
    MECHANISM: ClassVar[str]
    UNIT: ClassVar[str]
    UNTOLD: ClassVar[str]
    CERTAIN: ClassVar[bool]
    _simulate: Callable[..., Any]

    def __init__(self, frame: Any, terms: Terms, *, explained: bool = False) -> None:
        self._frame, self._terms, self._explained = frame, terms, explained

    @property
    def explain(self) -> Any:
        """Explain protocols instead of running them: no data is read, nothing is spent."""
        return type(self)(self._frame, self._terms, explained=True)

    def __repr__(self) -> str:
        """Show the kind of frame, never what is in it."""
        kind = type(self._frame)
        return f"{type(self).__name__}({kind.__module__.split('.')[0]} {kind.__name__})"

    def _answer(
        self, name: str, column: Hashable, terms: Terms, planner: Planner, given: dict[str, Any]
    ) -> Any:
        """Return what a protocol ends in, or its explanation."""
        charge = self._charge(f"{self.MODEL}.{name}({column})", terms)
        account = account_of(terms.ledger, terms.dataset, terms.note)
        level = interval_level(terms.interval)

        def plan(users: int) -> Published:
            return planner(users=users, epsilon=terms.epsilon, **given)

        def measured() -> tuple[Published, Floats]:
            values = column_values(self._frame, column)
            return plan(len(values)), values

        if self._explained:
            integer_columns(self._frame, [column])
            unit = self.UNIT.format(column)
            made = Forecast(str(column), charge.question, self.MECHANISM, unit=unit)
            return explain_survey(charge, self._forecast(made, plan, level), level, account)
        _, answer = paid(
            Request(charge, account), measured, lambda own: self._simulate(*own, interval=level)
        )
        return answer

    def _charge(self, question: str, terms: Terms) -> Charge:
        """Return the charge of a protocol; refuse terms that it can't keep."""
        if terms.unit is not None:
            raise InvalidQuestionError(
                "a protocol takes every row for a user, and the terms name another unit",
                hint="make one row of each unit first, or leave unit out",
            )
        if terms.rho is not None:
            raise InvalidLossError(
                "a protocol over a column costs epsilon, and the terms name rho",
                hint="name it in the call: epsilon=1.0",
            )
        return Charge(loss_of(terms.epsilon), self._delta(terms), question)

    def _delta(self, terms: Terms) -> Fraction:  # noqa: ARG002 one interface
        return Fraction(0)

    def _forecast(self, made: Forecast, plan: Callable[[int], Published], level: float) -> Forecast:
        """Return half-widths by number of users, where they are known without data."""
        if plan(1000).half_width(level) is None:
            return made.noted(self.UNTOLD)
        widths = by_users(lambda users: plan(users).half_width(level))
        if self.CERTAIN:
            return made.measured(widths).noted("rows are users")
        return made.measured(made.certain, widths)


def column_values(frame: Any, column: Hashable) -> Floats:
    """Return a column of numbers as floats, NaN where a value is missing."""
    adopted = guarded(lambda: adopt(frame, Columns((), {column: True}, ())))
    try:
        name = adopted.values[column]
        check_number_column(column, adopted.lazy.collect_schema()[name])
        rows = adopted.rows().select(name)
        table = guarded(lambda: collect(rows, adopted.connection))
    finally:
        adopted.close()
    return value_matrix(table.column(0), 0)


class LocalMethods(FrameProtocols):
    """Protocols of the local model over a frame's column: every row is one owner.

    Privacy: for replacing the value of a row, epsilon, and that of each report on its own. The
    number of rows is public here, unlike everywhere else in `.dp`. `explain` gives half-widths of
    the interval, which covers the sampling of owners too, when the mean is located: `ordinary`.

    >>> import dfprivacy as dfp, pandas as pd
    >>> frame = pd.DataFrame({"minutes": [150.0]})
    >>> plan = frame.dp.local.explain.gaussian_mean("minutes", epsilon=2, sigma=20, limit=1000)
    >>> [round(half, 2) for half in plan.answers[0].ordinary[-2:]]
    [0.29, 0.09]
    """

    MODEL = "local"
    MECHANISM = "randomised response of each owner"
    UNIT = "units of {!r}, sampling of owners included"
    CERTAIN = False
    _simulate = staticmethod(simulate)
    UNTOLD = "name sigma= and rounds=2 to learn the error before there are reports"

    def gaussian_mean(
        self,
        column: Hashable,
        *,
        epsilon: float = EPSILON,
        sigma: float | None = None,
        sigma_bounds: tuple[float, float] | None = None,
        limit: float | None = None,
        rounds: int = 2,
        interval: float = INTERVAL,
    ) -> LocalEstimate:
        """Simulate the mean of a Gaussian in the local model: see `dfp.local.gaussian_mean`.

        >>> import dfprivacy as dfp, pandas as pd, statistics
        >>> normal = statistics.NormalDist(150, 20)
        >>> minutes = [normal.inv_cdf((k + 0.5) / 40_000) for k in range(40_000)]
        >>> frame = pd.DataFrame({"minutes": minutes})
        >>> mean = frame.dp.local.gaussian_mean("minutes", epsilon=2, sigma=20, limit=1000)
        >>> abs(mean - 150) < 10 and mean.epsilon == 2
        True
        """
        terms = self._terms.updated(epsilon=epsilon, interval=interval)
        given = {
            "sigma": sigma, "sigma_bounds": sigma_bounds, "limit": limit, "rounds": rounds,
            "campaign": "explained" if self._explained else None,
        }  # fmt: skip
        answer: LocalEstimate = self._answer("gaussian_mean", column, terms, gaussian_mean, given)
        return answer
