"""Numbers that a caller gets for a whole frame: each knows its noise and what it cost.

A ledger keeps them as a table, and they come back from it as `Recalled`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.estimators.estimator import CountEstimator, Estimator
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import Noise
from dfprivacy.release.answers import Answer, Estimated
from dfprivacy.terms import Bounds, interval_level
from dfprivacy.viz.numbers import Readable, Reading


@dataclass(frozen=True)
class Release:
    """What every estimate of one release shares: its cost and the level of its intervals."""

    loss: Epsilon | Rho
    delta: float
    level: float

    @property
    def epsilon(self) -> float | None:
        """What the call spent, where it was asked for as epsilon."""
        return float(self.loss.value) if isinstance(self.loss, Epsilon) else None

    @property
    def rho(self) -> float | None:
        """What the call spent, where it was asked for as rho (zCDP)."""
        return float(self.loss.value) if isinstance(self.loss, Rho) else None

    @property
    def cost(self) -> str:
        """The loss and delta in words."""
        name = "epsilon" if isinstance(self.loss, Epsilon) else "rho"
        delta = f", delta={self.delta:.6g}" if self.delta else ""
        return f"{name}={float(self.loss.value):.6g}{delta}"


class _Private(Readable, float):
    """A private number that knows what it cost."""

    _name: str
    _release: Release

    @property
    def epsilon(self) -> float | None:
        """What the whole call spent, where it was asked for as epsilon."""
        return self._release.epsilon

    @property
    def rho(self) -> float | None:
        """What the whole call spent, where it was asked for as rho (zCDP)."""
        return self._release.rho

    @property
    def delta(self) -> float:
        """The delta that the call spent on secret group keys; 0 without groups."""
        return self._release.delta

    @property
    def _is_whole(self) -> bool:
        """Tell whether it counts something."""
        return False

    def __str__(self) -> str:
        """Show the number alone; a count as a whole number."""
        return str(int(self)) if self._is_whole else float.__repr__(self)

    def __format__(self, spec: str) -> str:
        """Format it as a float; a count takes `d` as well."""
        if self._is_whole and (not spec or spec.endswith("d")):
            return format(int(self), spec)
        return super().__format__(spec)


class _Ranged(_Private):
    """A private number with an interval."""

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
    def _is_whole(self) -> bool:
        return isinstance(self._estimator, CountEstimator)

    @property
    def std_error(self) -> float:
        """Standard deviation of the noise, in units of the estimate (first order for ratios)."""
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
        release = self._release
        return Reading(
            self._name, float(self), release.cost, self.interval(), release.level, law=law
        )


class Choice(_Private):
    """A private number that a selection has chosen: it knows its cost, and has no interval.

    >>> import dfprivacy as dfp, pandas as pd
    >>> median = pd.DataFrame({"x": range(1000)}).dp.median("x", epsilon=1)
    >>> 300 < median < 700 and median.epsilon == 1
    True
    """

    def __new__(cls, name: str, value: float, release: Release) -> Self:
        """Keep a chosen value with its cost."""
        choice = super().__new__(cls, value)
        choice._name, choice._release = name, release
        return choice

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return what a copy or a pickle is made from."""
        return (self._name, float(self), self._release)

    def reading(self) -> Reading:
        """Return what is shown of the number."""
        return Reading(self._name, float(self), self._release.cost, law="chosen")


class Recalled(_Ranged):
    """A private number that a ledger has remembered: its interval is the one that was released.

    It costs nothing: what it says was paid for when it was made.
    """

    _ends: tuple[float, float]
    _error: float

    def __new__(
        cls,
        name: str,
        value: float,
        ends: tuple[float, float],
        error: float,
        release: Release,
    ) -> Self:
        """Keep a value with its interval, its standard error and what it cost."""
        number = super().__new__(cls, value)
        number._name, number._ends, number._error = name, ends, error
        number._release = release
        return number

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return what a copy or a pickle is made from."""
        return (self._name, float(self), self._ends, self._error, self._release)

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Return the interval that was released.

        Raises
        ------
        InvalidQuestionError
            For another level: the noisy numbers behind it were not kept.
        """
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
        release = self._release
        return Reading(
            self._name, float(self), release.cost, self._ends, release.level, "remembered"
        )


Number = Estimate | Choice | Recalled


def number_of(answer: Answer, release: Release) -> Number:
    """Return the answer of a release without groups as a number that knows its cost."""
    if isinstance(answer, Estimated):
        piece = answer.pieces[0]
        return Estimate(answer.name, piece.estimator, piece.vector, release)
    return Choice(answer.name, float(answer.columns(release.level)[0][0]), release)


_NUMBERS = pa.schema(
    {
        "name": pa.string(),
        "value": pa.float64(),
        "low": pa.float64(),
        "high": pa.float64(),
        "std_error": pa.float64(),
        "chosen": pa.bool_(),
    }
)


def numbers_table(numbers: Mapping[str, Number]) -> pa.Table:
    """Return numbers with their intervals, one row each."""
    rows = []
    for name, number in numbers.items():
        ends = (math.nan,) * 3
        if not isinstance(number, Choice):
            ends = (number.low, number.high, number.std_error)
        values = (name, float(number), *ends, isinstance(number, Choice))
        rows.append(dict(zip(_NUMBERS.names, values, strict=True)))
    return pa.Table.from_pylist(rows, _NUMBERS)


def numbers_of(table: pa.Table, release: Release) -> dict[str, Number]:
    """Return the numbers of a table, as parts of a release with the same terms."""
    return {row["name"]: _number(row, release) for row in table.to_pylist()}


def _number(row: Mapping[str, Any], release: Release) -> Number:
    if row["chosen"]:
        return Choice(row["name"], row["value"], release)
    ends = (row["low"], row["high"])
    return Recalled(row["name"], row["value"], ends, row["std_error"], release)
