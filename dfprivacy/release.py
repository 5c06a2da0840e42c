"""What a caller gets: numbers that know their noise, and frames of them."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.estimators.count import CountEstimator
from dfprivacy.estimators.estimator import Estimator
from dfprivacy.mechanisms.additive import NoisyStatistics, NoisyVector
from dfprivacy.mechanisms.noise import Noise
from dfprivacy.plan import Plan
from dfprivacy.terms import interval_level


@dataclass(frozen=True)
class Release:
    """What every estimate of one release shares: its cost and the level of its intervals."""

    loss: Epsilon | Rho
    delta: float
    level: float


class Estimate(float):
    """A private number: a float that knows its interval, its noise and what it cost.

    It holds public facts only: the noisy integers it was computed from and the law of the noise.

    >>> import dfprivacy as dfp, pandas as pd
    >>> frame = pd.DataFrame({"x": range(100)})
    >>> estimate = frame.dp.mean("x", bounds=(0, 100), epsilon=1)
    >>> 0 <= estimate <= 100 and estimate.low <= estimate <= estimate.high
    True
    """

    _name: str
    _estimator: Estimator
    _vector: NoisyVector
    _release: Release

    def __new__(
        cls, name: str, estimator: Estimator, vector: NoisyVector, release: Release
    ) -> Self:
        """Read the estimate of the only group of a noisy vector."""
        estimate = super().__new__(cls, estimator.value(vector)[0])
        estimate._name, estimate._estimator = name, estimator
        estimate._vector, estimate._release = vector, release
        return estimate

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return what a copy or a pickle is made from: noisy numbers and public facts."""
        return (self._name, self._estimator, self._vector, self._release)

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Return ends between which the noise-free answer lies with probability `level`.

        The interval covers the noise only: not sampling error, and not what clipping to the
        bounds has done to the data.

        Raises
        ------
        InvalidQuestionError
            When `level` does not lie between 0 and 1.
        """
        chosen = self._release.level if level is None else interval_level(level)
        low, high = self._estimator.interval(self._vector, chosen)
        return float(low[0]), float(high[0])

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
        """Standard deviation of the noise, in units of the estimate (first order for ratios)."""
        return float(self._estimator.standard_error(self._vector)[0])

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
    def delta(self) -> float:
        """The delta that the call spent on secret group keys; 0 without groups."""
        return self._release.delta

    @property
    def mechanism(self) -> Noise:
        """The noise on each integer coordinate behind the estimate."""
        return self._vector.noise

    def __repr__(self) -> str:
        """Show the number, its interval and its cost on one line."""
        low, high = self.interval()
        return (
            f"{self._name} {float(self):.6g} [{low:.6g}, {high:.6g}] at {self._release.level:.0%}, "
            f"{self._cost()}"
        )

    __str__ = float.__repr__

    def _repr_html_(self) -> str:
        low, high = self.interval()
        name = html.escape(self._name)
        return (
            f"<div><b>{name}</b> {float(self):.6g} "
            f"<span style='color:#555'>[{low:.6g}, {high:.6g}] at {self._release.level:.0%}"
            f"</span><br><small>{html.escape(self._cost())}, {self._law()}</small></div>"
        )

    def _cost(self) -> str:
        loss = self._release.loss
        name = "epsilon" if isinstance(loss, Epsilon) else "rho"
        delta = f", delta={self.delta:.6g}" if self.delta else ""
        return f"{name}={float(loss.value):.6g}{delta}"

    def _law(self) -> str:
        law = "Laplace" if isinstance(self._release.loss, Epsilon) else "Gaussian"
        return f"discrete {law} noise, standard error {self.std_error:.3g}"


def estimates(plan: Plan, noisy: NoisyStatistics, release: Release) -> dict[str, Estimate]:
    """Return the estimates of a release without groups, by name."""
    return {
        answer.name: Estimate(answer.name, answer.estimator, noisy.vectors[answer.query], release)
        for answer in plan.answers
    }


def frame_names(plan: Plan, keys: list[str]) -> list[str]:
    """Return the column names of a grouped release.

    Raises
    ------
    InvalidQuestionError
        When two columns would share a name.
    """
    names = [*keys, *_value_names(plan)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidQuestionError(
            f"two columns of the result would be called {twice!r}",
            hint="name the answer: .agg(delay=dfp.mean(...)) or rename the group column",
        )
    return names


def _value_names(plan: Plan) -> list[str]:
    if len(plan.answers) == 1:
        names = [plan.answers[0].name, "low", "high"]
    else:
        names = [f"{answer.name}{end}" for answer in plan.answers for end in ("", "_low", "_high")]
    return [*names, "count"] if _shows_count(plan) else names


def _shows_count(plan: Plan) -> bool:
    """Tell whether the frame needs a count column beside the answers themselves."""
    query, _ = plan.counting()
    return not any(
        isinstance(answer.estimator, CountEstimator) and answer.query == query
        for answer in plan.answers
    )


def released_table(
    plan: Plan, noisy: NoisyStatistics, names: list[str], release: Release
) -> pa.Table:
    """Return one row a group: the keys, then each answer with its interval, then the count."""
    columns: list[Any] = list(noisy.keys.columns)
    for answer in plan.answers:
        vector = noisy.vectors[answer.query]
        low, high = answer.estimator.interval(vector, release.level)
        columns += [answer.estimator.value(vector), low, high]
    if _shows_count(plan):
        query, weights = plan.counting()
        columns.append(CountEstimator(weights).value(noisy.vectors[query]))
    return pa.table([_arrow(column) for column in columns], names=names)


def _arrow(column: Any) -> pa.Array | pa.ChunkedArray:
    return pa.array(column) if isinstance(column, np.ndarray) else column
