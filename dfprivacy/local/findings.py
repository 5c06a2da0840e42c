"""What the last round has found: a value, its standard error and its intervals, from reports."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from statistics import NormalDist

from dfprivacy.local.response import RandomisedResponse

NORMAL = NormalDist()
REACH = 2.0
"""The coarse mean lies within so many standard deviations of the mean."""


@dataclass(frozen=True)
class Finding(abc.ABC):
    """An estimate of a mean, in the survey's units; the mean is known to lie within +-limit.

    `trusted` says whether the protocol, by its public number of users, can rely on the coarse
    step; without it an interval is all of the range. `beta` bounds how often that step fails.
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
        """Its standard deviation, over owners and noise, given the coarse step."""

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
class SideFinding(Finding):
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
        share = (reported - float(self.law.other)) / float(self.law.truth - self.law.other)
        return 0.5 + (share - 0.5) / self.present

    @property
    def standard_error(self) -> float:
        """First-order: the error of the share over the normal density at its quantile."""
        if not self.reports:
            return math.inf
        part = self.above / self.reports
        error = math.sqrt(max(part * (1 - part), 1 / self.reports) / self.reports)
        gap = float(self.law.truth - self.law.other) * self.present
        slope = NORMAL.pdf(self._quantile) * gap
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
class MeanFinding(Finding):
    """The average of noisy distances from a point, on a grid of a width in so many steps."""

    total: float
    squares: float
    width: float
    steps: int

    @property
    def value(self) -> float:
        """The point plus the average distance."""
        return self.within(self.point + self._average * self._step)

    @property
    def _step(self) -> float:
        return self.width / self.steps

    @property
    def _average(self) -> float:
        return self.total / self.reports / self.present if self.reports else 0.0

    @property
    def standard_error(self) -> float:
        """From the sample variance of the reports, which holds values and noise."""
        if self.reports < 2:
            return math.inf
        variance = max(self.squares / self.reports - (self.total / self.reports) ** 2, 0.0)
        return self._step * math.sqrt(variance / (self.reports - 1)) / self.present

    def ends(self, deviations: float) -> tuple[float, float]:
        """Return so many standard errors around the average, and half a step of the grid."""
        reach = deviations * self.standard_error + self._step / 2
        middle = self.point + self._average * self._step
        return middle - reach, middle + reach


def wilson(hits: int, total: int, deviations: float) -> tuple[float, float]:
    """Return the score interval of a proportion, with continuity correction (Newcombe 1998)."""
    share, z = hits / total, deviations
    scale = 2 * (total + z * z)
    low = z * math.sqrt(z * z - 2 - 1 / total + 4 * share * (total * (1 - share) + 1))
    high = z * math.sqrt(max(0.0, z * z + 2 - 1 / total + 4 * share * (total * (1 - share) - 1)))
    centre = 2 * total * share + z * z
    return (
        0.0 if hits == 0 else max(0.0, (centre - 1 - low) / scale),
        1.0 if hits == total else min(1.0, (centre + 1 + high) / scale),
    )
