"""A pair of distributions that is no harder to tell apart than any rho-zCDP release could be.

The privacy loss of the pair lies on a grid and is symmetric: what has probability q at loss -l has
probability exp(l) q at loss l. For every epsilon, its delta is at least that of every rho-zCDP
mechanism, for selections as for noise. docs/ledger.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_DOTS = 4096
_ORDERS = 2048
_INFLATION = 1 + 2.0**-30


@dataclass(frozen=True)
class LossLaw:
    """Probabilities of privacy losses: `masses` by the number of grid cells, and the infinite."""

    masses: dict[int, float]
    infinite: float


def concentrated_law(rho: float, cell: float, reach: float) -> LossLaw:
    """Return the law of a rho-zCDP release on a grid of `cell`, for losses up to `reach`.

    The deltas of `profile` at some epsilons are joined by straight lines over exp(epsilon), after
    the convex hull and the symmetry of a true profile have improved them.
    """
    stride = max(1, math.ceil(reach / cell / _DOTS))
    cells = np.arange(_DOTS + 1) * stride
    epsilons: Floats = cells * np.float64(cell)
    ratios = np.expm1(epsilons)  # exp(epsilon) - 1
    deltas = profile(rho, epsilons)
    deltas[0] = np.min((ratios + 2 * deltas) / (ratios + 2))
    corners = lower_hull(ratios, deltas)
    slopes = np.append(np.diff(deltas[corners]) / np.diff(ratios[corners]), 0.0)
    below = np.maximum(np.diff(slopes), 0.0)
    masses = {0: max(float(2 * slopes[0] + 1 - deltas[0]), 0.0)}
    for corner, mass in zip(corners[1:], below, strict=True):
        masses[-int(cells[corner])] = float(mass)
        masses[int(cells[corner])] = float(mass * (1 + ratios[corner]))
    return LossLaw(masses, float(deltas[corners[-1]]))


def profile(rho: float, epsilons: Floats) -> Floats:
    """Return, for each epsilon >= 0, a delta at which rho-zCDP is (epsilon, delta)-DP.

    The formula of Canonne, Kamath and Steinke (2020) at the best of some orders, a little inflated.
    """
    most = float(epsilons[-1])
    beyond = np.geomspace(1e-4, 1 + 2 * most / rho, _ORDERS)
    constant = beyond * (1 + beyond) * rho - beyond * np.log1p(1 / beyond) - np.log1p(beyond)
    least = np.zeros(len(epsilons))
    for slope, start in zip(beyond, constant, strict=True):
        np.minimum(least, start - slope * epsilons, out=least)
    return np.asarray(np.minimum(np.exp(least) * _INFLATION, 1.0))


def lower_hull(across: Floats, up: Floats) -> list[int]:
    """Return the corners of the lower convex hull of points sorted by `across`, first and last too.

    >>> lower_hull(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 0.9, 0.1, 0.0]))
    [0, 2, 3]
    """
    corners: list[int] = []
    for point in range(len(across)):
        while len(corners) > 1 and _above(across, up, corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    return corners


def _above(across: Floats, up: Floats, first: int, middle: int, last: int) -> bool:
    """Tell whether the middle point is on or above the line from the first to the last."""
    left = (up[middle] - up[first]) * (across[last] - across[middle])
    return bool(left >= (up[last] - up[middle]) * (across[middle] - across[first]))
