"""Read a mean off the reports of the last round: its value, its error and its intervals."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.local.published import Answer
from dfprivacy.local.randomisers import RandomisedResponse
from dfprivacy.terms import interval_level

NORMAL = NormalDist()
REACH = 2.0
"""The located mean lies within so many standard deviations of the mean."""


@dataclass(frozen=True)
class Refined(abc.ABC):
    """An estimate of a mean, in the survey's units; the mean is known to lie within +-limit.

    `trusted` says whether the protocol, by its public number of users, can rely on the located
    mean; without it an interval is all of the range. `beta` bounds how often that step fails.
    `present` is the share of owners who have a value.
    """

    reports: int
    point: float
    limit: float
    trusted: bool
    beta: float
    present: float

    @property
    @abc.abstractmethod
    def value(self) -> float:
        """The estimate."""

    @property
    @abc.abstractmethod
    def standard_error(self) -> float:
        """Its standard deviation, over owners and noise, given the located mean."""

    @abc.abstractmethod
    def ends(self, deviations: float) -> tuple[float, float]:
        """Return the ends so many standard deviations of the reports away."""

    def interval(self, level: float) -> tuple[float, float]:
        """Return ends around the mean that hold with probability `level`; the value is between.

        Reports that lie beyond what any mean explains would leave it outside.
        """
        if not (self.trusted and self.reports):
            return -self.limit, self.limit
        outside = 1 - level
        low, high = self.ends(NORMAL.inv_cdf(1 - max(outside - self.beta, outside / 2) / 2))
        return self.within(min(low, self.value)), self.within(max(high, self.value))

    def within(self, value: float) -> float:
        """Return a value clipped to the range that is known."""
        return min(max(value, -self.limit), self.limit)


@dataclass(frozen=True)
class RefinedBySides(Refined):
    """How many owners lie above a point: with sigma known, that tells the mean.

    The share above is Phi((mean - point) / sigma); reports count `above` of them. With a lattice,
    values more than half a `spacing` off the point count for another point.
    """

    above: int
    sigma: float
    law: RandomisedResponse
    spacing: float = 0.0

    @property
    def value(self) -> float:
        """The point, shifted by the normal quantile of the share above, by 2 sigma at most."""
        return self.within(self.point + self.sigma * self._quantile)

    @property
    def _quantile(self) -> float:
        if not self.reports:
            return 0.0
        edge = NORMAL.cdf(REACH)
        return NORMAL.inv_cdf(min(max(self._share(self.above / self.reports), 1 - edge), edge))

    def _share(self, reported: float) -> float:
        """Return the share of owners above that makes for a share of reports."""
        share = (reported - float(self.law.other)) / self.law.gap
        return 0.5 + (share - 0.5) / self.present

    @property
    def standard_error(self) -> float:
        """First-order: the error of the share over the normal density at its quantile."""
        if not self.reports:
            return math.inf
        part = self.above / self.reports
        error = math.sqrt(max(part * (1 - part), 1 / self.reports) / self.reports)
        slope = NORMAL.pdf(self._quantile) * (self.law.gap * self.present)
        return self.sigma * error / slope

    def ends(self, deviations: float) -> tuple[float, float]:
        """Invert the score interval of the share of reports, with continuity correction."""
        low, high = (self._end(part) for part in wilson(self.above, self.reports, deviations))
        return low, high

    def _end(self, reported: float) -> float:
        share = self._share(reported)
        reach = self.spacing / 2 if self.spacing else 2 * self.limit
        if not 0 < share < 1:
            return self.point + math.copysign(reach, share - 0.5)
        return self.point + min(max(self.sigma * NORMAL.inv_cdf(share), -reach), reach)


@dataclass(frozen=True)
class RefinedByDistances(Refined):
    """The average of noisy distances from a point, in steps of a grid."""

    total: float
    squares: float
    step: float

    @property
    def value(self) -> float:
        """The point plus the average distance."""
        return self.within(self._middle)

    @property
    def _middle(self) -> float:
        average = self.total / self.reports / self.present if self.reports else 0.0
        return self.point + average * self.step

    @property
    def standard_error(self) -> float:
        """From the sample variance of the reports, which holds values and noise."""
        if self.reports < 2:
            return math.inf
        variance = max(self.squares / self.reports - (self.total / self.reports) ** 2, 0.0)
        return self.step * math.sqrt(variance / (self.reports - 1)) / self.present

    def ends(self, deviations: float) -> tuple[float, float]:
        """Return so many standard errors around the average, and half a step of the grid."""
        reach = deviations * self.standard_error + self.step / 2
        return self._middle - reach, self._middle + reach


def wilson(hits: int, total: int, deviations: float) -> tuple[float, float]:
    """Return the score interval of a proportion, with continuity correction (Newcombe 1998)."""
    share, z = hits / total, deviations
    scale, centre = 2 * (total + z * z), 2 * total * share + z * z

    def reach(sign: int) -> float:
        part = 4 * share * (total * (1 - share) + sign)
        return z * math.sqrt(max(0.0, z * z - sign * 2 - 1 / total + part))

    low = 0.0 if hits == 0 else max(0.0, (centre - 1 - reach(1)) / scale)
    return low, 1.0 if hits == total else min(1.0, (centre + 1 + reach(-1)) / scale)


class LocalEstimate(Answer):
    """A mean estimated from private reports: a float with an interval.

    Unlike the intervals of `.dp`, this one covers the sampling of owners as well: the mean is that
    of the distribution that values are drawn from, assumed Gaussian.

    Attributes
    ----------
    low, high : float
        Ends of the interval at the level asked for.
    std_error : float
        Standard deviation over owners and noise, given the located mean.
    coarse : float
        The located mean: the point around which the last reports were read.
    spread : float or None
        The standard deviation that round 1 has found, where sigma was not known.
    reports : int
        How many reports the last step was read from.
    epsilon, rho : float or None
        What a report cost its owner, in the terms that it was asked for.

    Examples
    --------
    >>> import dfprivacy as dfp, statistics
    >>> normal = statistics.NormalDist(3.0, 1.0)
    >>> values = [normal.inv_cdf((k + 0.5) / 50_000) for k in range(50_000)]
    >>> estimate = dfp.local.simulate(dfp.local.gaussian_mean(
    ...     users=50_000, epsilon=2, sigma=1.0, limit=64), values)
    >>> estimate.low < estimate < estimate.high and estimate.epsilon == 2
    True
    """

    low: float
    high: float
    std_error: float
    coarse: float
    spread: float | None
    reports: int
    epsilon: float | None
    rho: float | None
    _name: str
    _level: float
    _refined: Refined

    @classmethod
    def of(
        cls, name: str, refined: Refined, loss: Epsilon | Rho, level: float, spread: float | None
    ) -> Self:
        """Return what was refined as a number."""
        (low, high), cost = refined.interval(interval_level(level)), float(loss.value)
        epsilon, rho = (cost, None) if isinstance(loss, Epsilon) else (None, cost)
        return cls(
            refined.value, low=low, high=high, std_error=refined.standard_error,
            coarse=refined.point, spread=spread, reports=refined.reports, epsilon=epsilon, rho=rho,
            _name=name, _level=level, _refined=refined,
        )  # fmt: skip

    def interval(self, level: float | None = None) -> tuple[float, float]:
        """Return ends between which the mean lies with probability `level`.

        Where the public number of users is too small to locate the mean, it is the whole range in
        which the mean was declared to lie.
        """
        return self._refined.interval(self._level if level is None else interval_level(level))

    def __repr__(self) -> str:
        """Show the number, its interval and its cost on one line."""
        cost = f"rho={self.rho:.6g}" if self.epsilon is None else f"epsilon={self.epsilon:.6g}"
        ends = f"[{self.low:.6g}, {self.high:.6g}] at {self._level:.0%}"
        return f"{self._name} {float(self):.6g} {ends}, {cost} for each owner"
