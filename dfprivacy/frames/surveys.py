"""Simulate protocols over a frame's column, or explain them: `df.dp.local` and `df.dp.shuffle`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import read_delta, read_loss
from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.columns import check_number_column, require_declared
from dfprivacy.engine.run import collect, run_guarded
from dfprivacy.errors import (
    InvalidLossError,
    InvalidProtocolError,
    InvalidQuestionError,
    UnknownMethodError,
    boundary,
)
from dfprivacy.frames.explanation import explain_survey
from dfprivacy.local.gaussian import LocalEstimate, gaussian_mean
from dfprivacy.local.protocol import simulate
from dfprivacy.local.reports import value_matrix
from dfprivacy.release.pipeline import charge_plan, check_charge
from dfprivacy.release.plan import Plan
from dfprivacy.release.terms import EPSILON, INTERVAL, Terms, interval_level
from dfprivacy.statistics.part import SIZES, Forecast


class FrameProtocols:
    """Protocols over a frame's column, simulated or explained; one subclass a model."""

    MECHANISM: ClassVar[str]
    UNIT: ClassVar[str]
    UNTOLD: ClassVar[str]
    REMARKS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, frame: Any, terms: Terms, *, explained: bool = False) -> None:
        self._frame, self._terms, self._explained = frame, terms, explained

    @property
    def explain(self) -> Any:
        """Explain protocols instead of running them: no data is read, nothing is spent."""
        return type(self)(self._frame, self._terms, explained=True)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse unknown names with an AttributeError that lists the model's questions."""
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            questions = [method for method in vars(type(self)) if method[0].islower()]
            raise UnknownMethodError(
                f"there is no question {name!r} in this model",
                hint=f"ask one of {', '.join(questions)}",
            )

    def __repr__(self) -> str:
        """Show the kind of frame, never what is in it."""
        kind = type(self._frame)
        return f"{type(self).__name__}({kind.__module__.split('.')[0]} {kind.__name__})"

    def _answer(
        self,
        question: str,
        column: Hashable,
        terms: Terms,
        *,
        run: Callable[..., Any],
        plan: Callable[..., Any],
        delta: Fraction = Fraction(0),
    ) -> Any:
        """Run the protocol planned for the number of users, or explain it."""
        if terms.unit is not None:
            raise InvalidQuestionError(
                "a protocol takes every row for a user, and the terms name another unit",
                hint="make one row of each unit first, or leave unit out",
            )
        if terms.population:
            raise InvalidQuestionError(
                "a protocol over a column has no interval of the population",
                hint="leave population out of the terms",
            )
        if terms.rho is not None:
            raise InvalidLossError(
                "a protocol over a column costs epsilon, and the terms name rho",
                hint="name it in the call: epsilon=1.0",
            )
        charge = Charge(read_loss(terms.epsilon), delta, f"{question}({column})")
        account, level = terms.account, interval_level(terms.interval)
        survey = Plan(charge, account, level=level)
        if self._explained:
            require_declared(self._frame, [column])
            unit = self.UNIT.format(column)
            forecast = Forecast(str(column), self.MECHANISM, charge.question, unit=unit)
            if plan(users=1000).half_width(level) is None:
                forecast = forecast.add_remarks(self.UNTOLD)
            else:
                widths: list[float | None] = []
                for users in SIZES:
                    widths.append(None)
                    with suppress(InvalidProtocolError):  # there are too many users
                        widths[-1] = plan(users=users).half_width(level)
                forecast = replace(forecast, typical=tuple(widths)).add_remarks(*self.REMARKS)
            return explain_survey(survey, forecast)

        check_charge(survey)
        adopted = run_guarded(lambda: adopt(self._frame, Columns(values={column: True})))
        try:
            name = adopted.values[column]
            check_number_column(column, adopted.lazy.collect_schema()[name])
            rows = adopted.rows().select(name)
            table = run_guarded(lambda: collect(rows, adopted.connection))
        finally:
            adopted.close()
        values = value_matrix(table.column(0), 0)
        protocol = plan(users=len(values))
        with charge_plan(survey):
            return run(protocol, values, interval=level)


@boundary
class LocalMethods(FrameProtocols):
    """Protocols of the local model over a frame's column: every row is one owner.

    Privacy: for replacing the value of a row, epsilon, and that of each report on its own. The
    number of rows is public here, unlike everywhere else in `.dp`. `explain` gives half-widths of
    the interval, which covers the sampling of owners too, when the mean is located.

    >>> import dfprivacy as dfp, pandas as pd
    >>> frame = pd.DataFrame({"minutes": [150.0]})
    >>> plan = frame.dp.local.explain.gaussian_mean("minutes", epsilon=2, sigma=20, limit=1000)
    >>> [round(half, 2) for half in plan.answers[0].typical[-2:]]
    [0.29, 0.09]
    """

    MECHANISM = "randomized response of each owner"
    UNIT = "units of {!r}, sampling of owners included"
    UNTOLD = "pass sigma= and rounds=2 to forecast the error before there are reports"

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
        terms = self._terms.update(epsilon=epsilon, interval=interval)
        arguments: dict[str, Any] = {
            "sigma": sigma,
            "sigma_bounds": sigma_bounds,
            "limit": limit,
            "rounds": rounds,
            "epsilon": terms.epsilon,
            "campaign": "explained" if self._explained else None,
        }
        plan, question = partial(gaussian_mean, **arguments), "local.gaussian_mean"
        answer: LocalEstimate = self._answer(question, column, terms, run=simulate, plan=plan)
        return answer


@boundary
class ShuffleMethods(FrameProtocols):
    """Protocols of the shuffle model over a frame's column: every row is one user.

    Privacy: (epsilon, delta) for replacing the value of a row. The number of rows is public here,
    unlike everywhere else in `.dp`. Half-widths of `explain` are those of the answer, for
    all data: noise and the rounding at users.

    >>> import dfprivacy as dfp, pandas as pd
    >>> frame = pd.DataFrame({"x": [1.0, 3.0]})
    >>> plan = frame.dp.shuffle.explain.mean("x", (0, 10), epsilon=1, delta=1e-6)
    >>> [round(half, 2) for half in plan.answers[0].typical[2:4]]
    [0.05, 0.01]
    """

    MECHANISM = "noise at the users, shuffled: discrete Laplace in all"
    UNIT = "units of {!r}"
    UNTOLD = "users are counted in rounds, so no half-width is known before there is data"
    REMARKS = ("sizes count users",)

    def sum(
        self,
        column: Hashable,
        bounds: tuple[float, float],
        *,
        epsilon: float = EPSILON,
        delta: float | None = None,
        interval: float = INTERVAL,
    ) -> Any:
        """Simulate a sum in the shuffle model: see `dfp.shuffle.total`.

        >>> import dfprivacy as dfp, pandas as pd
        >>> frame = pd.DataFrame({"x": [1.0, 3.0] * 5000})
        >>> abs(frame.dp.shuffle.sum("x", (0, 10), epsilon=1, delta=1e-6) - 20_000) < 1000
        True
        """
        terms = self._terms.update(epsilon=epsilon, delta=delta, interval=interval)
        return self._shuffle_reports("sum", column, terms, bounds=bounds)

    def mean(
        self,
        column: Hashable,
        bounds: tuple[float, float],
        *,
        epsilon: float = EPSILON,
        delta: float | None = None,
        interval: float = INTERVAL,
    ) -> Any:
        """Simulate a mean in the shuffle model: see `dfp.shuffle.mean`."""
        terms = self._terms.update(epsilon=epsilon, delta=delta, interval=interval)
        return self._shuffle_reports("mean", column, terms, bounds=bounds)

    def quantile(
        self,
        column: Hashable,
        q: float,
        bounds: tuple[float, float],
        *,
        epsilon: float = EPSILON,
        delta: float | None = None,
        resolution: int = 12,
    ) -> Any:
        """Simulate a quantile in the shuffle model: see `dfp.shuffle.quantile`."""
        terms = self._terms.update(epsilon=epsilon, delta=delta)
        arguments = {"q": q, "bounds": bounds, "resolution": resolution}
        return self._shuffle_reports("quantile", column, terms, **arguments)

    def _shuffle_reports(self, name: str, column: Hashable, terms: Terms, **arguments: Any) -> Any:
        from dfprivacy import shuffle  # noqa: PLC0415 on first use

        planner: Any = shuffle.total if name == "sum" else getattr(shuffle, name)
        plan = partial(planner, epsilon=terms.epsilon, delta=terms.delta, **arguments)
        delta = read_delta(terms.delta) or Fraction(0)
        return self._answer(
            f"shuffle.{name}", column, terms, run=shuffle.simulate, plan=plan, delta=delta
        )
