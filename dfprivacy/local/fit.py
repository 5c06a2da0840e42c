"""From the coarse step to the Gaussian that explains all digits best: a finer start, for free.

Weighted least squares over mean and standard deviation between what reports show of the digits and
what a Gaussian would, with a share of owners without a value, who show all digits alike. It looks
at reports alone, and only near the coarse step: where that is right, this is nearer.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from dfprivacy.local.coarse import LEAST_PRESENT, Digits, Floats

_CERTAIN = 3.0
"""An absence of owners' values counts from so many standard deviations on."""

_FLAT = 8.0
"""Digits of units this much smaller than sigma are equally common, up to e**-300."""


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian, and the share of owners who have a value at all."""

    mean: float
    spread: float
    present: float = 1.0


def fitted(digits: Digits, start: Gaussian, *, spreads: Floats) -> Gaussian:
    """Return the best Gaussian near a start, its spread among those given.

    Four passes of a grid around the best so far, each about five times finer.
    """
    best, reach = start, 2.0 * start.spread
    for _ in range(4):
        means = best.mean + reach * np.linspace(-1, 1, 21)
        best = min(
            (_best_mean(digits, means, spread) for spread in spreads.tolist()),
            key=lambda candidate: candidate[0],
        )[1]
        reach /= 5
        spreads = best.spread * (spreads / best.spread) ** 0.25
    return _with_absence(digits, best)


def _best_mean(digits: Digits, means: Floats, spread: float) -> tuple[float, Gaussian]:
    """Return what the best mean for a spread leaves unexplained, and its Gaussian."""
    length, along = _products(digits, means, spread)
    present = np.clip(along / length, LEAST_PRESENT, 1.0)
    misfit = present * (present * length - 2 * along)
    index = int(np.argmin(misfit))
    return float(misfit[index]), Gaussian(float(means[index]), spread)


def _products(digits: Digits, means: Floats, spread: float) -> tuple[Floats, Floats]:
    """Return the weighted squares of expected shares, and their products with the shares shown."""
    expected = expected_shares(digits, means, spread) - 0.25
    weighted = expected * digits.reports[:, np.newaxis]
    length = (weighted * expected).sum(axis=(1, 2))
    return np.maximum(length, 1e-300), (weighted * (digits.shares - 0.25)).sum(axis=(1, 2))


def _with_absence(digits: Digits, found: Gaussian) -> Gaussian:
    """Return a Gaussian with the share of owners who have a value, if some clearly have none."""
    length, along = (float(each[0]) for each in _products(
        digits, np.array([found.mean]), found.spread))  # fmt: skip
    present = min(max(along / length, LEAST_PRESENT), 1.0)
    clear = 1 - present > _CERTAIN * digits.noise / math.sqrt(length)
    return replace(found, present=present) if clear else found


def expected_shares(digits: Digits, means: Floats, spread: float) -> Floats:
    """Return the shares of the four digits under Gaussians: by mean, level and digit."""
    units = np.ldexp(1.0, digits.low + np.arange(len(digits.shares))).tolist()
    return np.stack([_shares(means / unit, spread / unit) for unit in units], axis=1)


def _shares(means: Floats, spread: float) -> Floats:
    """Return the shares of floor(x) mod 4, one row a mean."""
    if spread > _FLAT:
        return np.full((len(means), 4), 0.25)
    first = 4 * math.floor((means[0] - 8 * spread) / 4)
    periods = math.ceil((means[-1] + 8 * spread - first) / 4)
    ends = first + np.arange(4 * periods + 1)
    points, values = _normal_table()
    below = np.interp((ends - means[:, np.newaxis]) / spread, points, values)
    shares: Floats = np.diff(below).reshape(len(means), periods, 4).sum(axis=1)
    return shares


@functools.cache
def _normal_table() -> tuple[Floats, Floats]:
    points = np.linspace(-9, 9, 4501)
    return points, np.array([NormalDist().cdf(point) for point in points.tolist()])
