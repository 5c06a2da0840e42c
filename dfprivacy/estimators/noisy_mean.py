"""The mean of vectors from a noisy sum and a noisy count: public numbers only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.estimators.relations import NoisyRows
from dfprivacy.measurement.vector_grid import Floats
from dfprivacy.noise.laws import DiscreteGaussian


@dataclass(frozen=True)
class NoisyMean:
    """What a release of a mean of vectors has drawn. Public.

    A coordinate is (centre + sums / rows / scale) * step, where sums / rows is first brought to a
    norm of at most `threshold`. `sums` holds integers, with `noise` on each of them. Below `needed`
    rows centre and threshold may be anything, for all that is known.
    """

    centre: Floats
    scale: Floats
    step: float
    threshold: float
    sums: npt.NDArray[Any]
    noise: DiscreteGaussian
    rows: NoisyRows
    needed: int
    lowest: float
    highest: float

    def value(self) -> Floats:
        """Return the mean, in units of the columns."""
        mean = self.sums.astype(np.float64) / self.rows.least
        norm = float(np.sqrt(np.sum(mean * mean)))
        if norm > self.threshold:
            mean *= self.threshold / norm
        return self._unscaled(mean)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Return ends for each coordinate that cover what the noise has done to it.

        Each coordinate lies between its ends with probability `level`, as far as clipping goes: the
        ends are those of the clipped mean, and hold its estimate. No end is further from the centre
        than the threshold, unless there may be fewer rows than `needed`: then the ends are those of
        the universe.
        """
        share = 1 - level if self.rows.noise is None else (1 - level) / 2
        fewest, most = (max(rows, 1) for rows in self.rows.interval(share))
        if fewest < self.needed:
            size = len(self.sums)
            return np.full(size, self.lowest), np.full(size, self.highest)
        half = float(self.noise.quantile(share))
        sums = self.sums.astype(np.float64)
        low = np.minimum((sums - half) / fewest, (sums - half) / most)
        high = np.maximum((sums + half) / fewest, (sums + half) / most)
        ends = (np.clip(end, -self.threshold, self.threshold) for end in (low, high))
        below, above = (self._unscaled(end) for end in ends)
        value = self.value()  # may lie beyond, brought to the threshold by its norm
        return np.minimum(below, value), np.maximum(above, value)

    def standard_error(self) -> Floats:
        """Return the standard deviation of the noise in each coordinate, to first order."""
        deviation = math.sqrt(self.noise.variance) / self.rows.least
        return np.asarray(deviation / self.scale * self.step)

    def _unscaled(self, mean: Floats) -> Floats:
        moved = (self.centre + mean / self.scale) * self.step
        return np.asarray(np.clip(moved, self.lowest, self.highest))
