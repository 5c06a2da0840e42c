"""What a protocol ends in: a number that knows its interval and what it cost each owner."""

from __future__ import annotations

from typing import Any, Self

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.local.findings import Finding
from dfprivacy.terms import interval_level


class LocalEstimate(float):
    """A mean estimated from private reports: a float with an interval.

    Unlike the intervals of `.dp`, this one covers the sampling of owners as well: the mean is that
    of the distribution that values are drawn from, assumed Gaussian.

    >>> import dfprivacy as dfp, statistics
    >>> normal = statistics.NormalDist(3.0, 1.0)
    >>> values = [normal.inv_cdf((k + 0.5) / 50_000) for k in range(50_000)]
    >>> estimate = dfp.local.simulate(dfp.local.gaussian_mean(
    ...     users=50_000, epsilon=2, sigma=1.0, limit=64), values)
    >>> estimate.low < estimate < estimate.high and estimate.epsilon == 2
    True
    """

    _name: str
    _finding: Finding
    _loss: Epsilon | Rho
    _level: float
    _spread: float | None

    def __new__(
        cls, name: str, finding: Finding, loss: Epsilon | Rho, level: float, spread: float | None
    ) -> Self:
        """Keep what was found, and read its value."""
        estimate = super().__new__(cls, finding.value)
        estimate._name, estimate._finding, estimate._loss = name, finding, loss
        estimate._level, estimate._spread = interval_level(level), spread
        return estimate

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return what a copy or a pickle is made from."""
        return (self._name, self._finding, self._loss, self._level, self._spread)

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Return ends between which the mean lies with probability `level`.

        Where the public number of users is too small for the protocol's coarse step, it is the
        whole range in which the mean was declared to lie.
        """
        return self._finding.interval(self._level if level is None else interval_level(level))

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
        """Standard deviation over owners and noise, given the coarse step."""
        return self._finding.standard_error

    @property
    def coarse(self) -> float:
        """The point around which the last reports were read."""
        return self._finding.point

    @property
    def spread(self) -> float | None:
        """The standard deviation that round 1 has found, where sigma was not known."""
        return self._spread

    @property
    def reports(self) -> int:
        """How many reports the last step was read from."""
        return self._finding.reports

    @property
    def epsilon(self) -> float | None:
        """What a report cost its owner, where it was asked for as epsilon."""
        return float(self._loss.value) if isinstance(self._loss, Epsilon) else None

    @property
    def rho(self) -> float | None:
        """What a report cost its owner, where it was asked for as rho (zCDP)."""
        return float(self._loss.value) if isinstance(self._loss, Rho) else None

    def __repr__(self) -> str:
        """Show the number, its interval and its cost on one line."""
        (low, high), cost = self.interval(), float(self._loss.value)
        measure = "epsilon" if isinstance(self._loss, Epsilon) else "rho"
        return (
            f"{self._name} {float(self):.6g} [{low:.6g}, {high:.6g}] at {self._level:.0%}, "
            f"{measure}={cost:.6g} for each owner"
        )

    __str__ = float.__repr__
