"""Methods that benchmarks/vectors.py compares: our estimators, CoinPress, and drawn data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dfprivacy.measurement.vectors import Buffers, ItemRows, vector_grid
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics.estimators.vector_means import (
    RELATIONS,
    ClippedMean,
    NoisyMean,
    Passes,
    PlanItems,
    PlanMean,
    RecenteredMean,
    ShiftedMean,
)

BLOCK_NUMBERS = 2**19
DATA = np.random.default_rng(20210607)  # data only: noise comes from the package
Method = Callable[[np.ndarray, float, Fraction], np.ndarray]


@permit("a benchmark")
def run_dense(passes: Passes, blocks: Callable[[], Iterator[np.ndarray]]) -> NoisyMean:
    buffers = Buffers()
    try:
        table = next(passes)
        while True:
            for block in blocks():
                table.add(block, buffers)
            table = next(passes)
    except StopIteration as done:
        return done.value


def find_mean(make: Callable[..., Any], x: np.ndarray, radius: float) -> NoisyMean:
    """Run an estimator over a matrix, block by block."""
    grid = vector_grid(x.shape[1], radius)
    rows = max(BLOCK_NUMBERS // x.shape[1], 1)

    def blocks() -> Iterator[np.ndarray]:
        for first in range(0, len(x), rows):
            part = x[first : first + rows]
            yield grid.integers(part, np.empty(part.shape))

    return run_dense(make(grid).passes(), blocks)


def method(estimator: Callable[..., object], neighbors: str) -> Method:
    how = RELATIONS[neighbors]
    return lambda x, radius, rho: find_mean(lambda g: estimator(g, rho, how), x, radius).value()


def find_shifted_mean(neighbors: str, halvings: int | None = None) -> Method:
    """Return the shifted mean; with `halvings`, the settings of the authors' code."""
    how = RELATIONS[neighbors]

    def run(x: np.ndarray, radius: float, rho: Fraction) -> np.ndarray:
        def make(grid):
            if halvings is None:
                return ShiftedMean(grid, rho, how)
            return ShiftedMean(grid, rho, how, (halvings,), reach=2)

        return find_mean(make, x, radius).value()

    return run


def plan(neighbors: str, deviations: str = "gaussian") -> Callable[..., NoisyMean]:
    how = RELATIONS[neighbors]
    return lambda x, radius, rho: find_mean(
        lambda g: PlanMean(g, rho, how, deviations=deviations), x, radius
    )


def plan_items(x: np.ndarray, rho: Fraction, neighbors: str) -> NoisyMean:
    row, item = np.nonzero(x)
    block = ItemRows(len(x), row, item)
    return run_dense(
        PlanItems(x.shape[1], rho, RELATIONS[neighbors]).passes(), lambda: iter([block])
    )


def coinpress(x: np.ndarray, radius: float, rho: Fraction, steps: int) -> np.ndarray:
    """Iterate a confidence ball, as Biswas, Dong, Kamath and Ullman 2020 do for covariance I.

    Replace relation. rho/4 is shared by all steps but the last, which has 3 rho/4. Floating-point
    noise of numpy: a baseline, not a mechanism.
    """
    n, d = x.shape
    spread = math.sqrt(d + 2 * math.sqrt(d * math.log(100)) + 2 * math.log(100))
    center, r = np.zeros(d), radius
    first = [rho / (4 * (steps - 1)) for _ in range(steps - 1)]
    shares = [*first, rho * Fraction(3, 4) if first else rho]
    for share in shares:
        limit = min(math.sqrt(r * r + 6 * r + spread**2), r + spread)
        y = x - center
        y *= np.minimum(1.0, limit / np.maximum(np.linalg.norm(y, axis=1), 1e-300))[:, None]
        deviation = 2 * limit / (n * math.sqrt(2 * float(share)))
        center = center + y.mean(axis=0) + deviation * DATA.normal(size=d)
        r = spread * math.sqrt(1 / n + deviation**2)
    return center


def trim_mean(values: list[float]) -> float:
    """Return the mean without the tenth at either end, as Huang et al. report it."""
    ordered = np.sort(values)
    cut = len(ordered) // 10
    return float(np.mean(ordered[cut : len(ordered) - cut]))


@dataclass(frozen=True)
class Gaussian:
    """Rows of N(mu, diag(sigma^2))."""

    n: int
    mu: float
    sigma: np.ndarray

    def draw(self) -> np.ndarray:
        return self.mu + self.sigma * DATA.normal(size=(self.n, len(self.sigma)))


HUANG: dict[str, Method] = {
    "non-private": lambda x, _radius, _rho: x.mean(axis=0),
    **{
        f"CoinPress t={t}": (lambda x, radius, rho, t=t: coinpress(x, radius, rho, t))
        for t in (2, 3, 4, 10)
    },
    "clipped, replace": method(ClippedMean, "replace"),
    "shifted, replace, T=10": find_shifted_mean("replace", 10),
    "shifted, replace": find_shifted_mean("replace"),
    "shifted, add-remove": find_shifted_mean("add-remove"),
    "recentered, replace": method(RecenteredMean, "replace"),
    "recentered, add-remove": method(RecenteredMean, "add-remove"),
}


def errors(
    data: Gaussian, radius: float, rho: Fraction, trials: int, methods: dict[str, Method]
) -> dict[str, float]:
    """Return the trimmed mean of the l2 error of each method, on the same draws.

    Beside it, of ours, in how many runs the error was over three times its median.
    """
    distances: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(trials):
        x = data.draw()
        for name, method in methods.items():
            distances[name].append(float(np.linalg.norm(method(x, radius, rho) - data.mu)))
    means = {name: trim_mean(values) for name, values in distances.items()}
    for name in methods:
        if name.startswith("recentered"):
            off = np.array(distances[name]) > 3 * np.median(distances[name])
            means[f"{name}: astray"] = float(off.sum())
    return means
