"""Fit a line of several columns to noisy sums of products by least squares with a ridge.

With z_i and w the values of the explaining columns and of the explained one, each from -1 to 1
within its bounds, a row adds 1, z_i, w, z_i z_j and z_i w to one vector of m coordinates: it moves
the vector by m at most in the L1 norm and in the square of the L2 norm. Where noise could have made
the smallest eigenvalue of the covariances, a ridge is read off the noisy matrix itself. Proofs:
docs/explanation/partition-of-unity.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import InvalidBoundsError, InvalidQuestionError
from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.bounds import Bounds, BoundsLike, read_bounds
from dfprivacy.measurement.grid import Grid, even_grid
from dfprivacy.measurement.linear import ROUNDED, CountWeights, Linear, OnGrid, Source, Term
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import Noise, half_width_factor
from dfprivacy.release.estimator import ClippingBias, Ends
from dfprivacy.release.terms import find_label
from dfprivacy.statistics.base import Question, argument
from dfprivacy.statistics.covariance import PAIR_CLIPPING, ProductEstimator, require_sizes
from dfprivacy.statistics.linear import LinearStatistic

INTERCEPT = "intercept"  # name of the coefficient that is the value where all columns are 0
MOST = 20  # most explaining columns: the query has 252 coordinates then
FLOOR = 4  # the smallest eigenvalue, in standard deviations of noise times the root of the columns

_TOLD_APART = 2.0**-40
"""Fraction of the largest product below which an eigenvalue can be a rounding error of floats."""


@dataclass(frozen=True)
class Regression(Question):
    """Explain a column by several others: the line of least squares, one row a coefficient.

    By group there is one row a group, with a column for each coefficient.

    Privacy: one noisy vector of sums of products, discrete Laplace noise for `epsilon`, discrete
    Gaussian noise for `rho` (zCDP), when one row, or all rows of a unit, are added or removed. With
    p columns the noise of each sum grows with p squared under epsilon, and with p under rho, which
    suits from four columns on.

    Values are clipped to their bounds; a row that lacks one of the values is left out. Where noise
    could hide that columns vary apart from each other, the coefficients have a ridge, so that they
    are drawn to 0 instead of being any number, and their intervals are infinite. Intervals cover
    the noise, not the sampling of rows.

    >>> import dfprivacy as dfp, polars as pl
    >>> rows = [(a, b, 2 * a - b + 5) for a in range(10) for b in range(10)] * 1000
    >>> frame = pl.DataFrame(rows, schema=["a", "b", "y"], orient="row")
    >>> known = {"a": (0, 10), "b": (0, 10), "y": (-10, 40)}
    >>> frame.dp.regression("y", ["a", "b"], known, epsilon=1)["coefficient"].round(0).to_list()
    [5.0, 2.0, -1.0]
    """

    kind: ClassVar[str] = "regression"
    asked_of: ClassVar[tuple[str, ...]] = ("frame", "group")
    returns: ClassVar[str] = (
        'The caller\'s own frame type: term ("intercept", then the columns), coefficient in units '
        "of y, or of y a unit of the column, and low and high, the ends of its interval. By group: "
        "the keys, for each term a column of its name and those of its ends, and count."
    )

    y: Hashable = argument("The dependent column, of numbers.")
    xs: Sequence[Hashable] = argument(
        f"The independent columns, of numbers, {MOST} at most.", form="Sequence[Hashable]"
    )
    bounds: Mapping[Hashable, BoundsLike] | None = argument(
        "(lower, upper) of each column, from what you know and never from the data; those that the "
        "terms of the frame know are used as well, and others are found privately.",
        None,
        form="Mapping[Hashable, tuple[float, float]] | None",
    )
    clipping: bool = argument(PAIR_CLIPPING, True)  # noqa: FBT003 a default

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.bounds, Mapping | None):
            raise InvalidBoundsError(
                "the bounds of a regression are a mapping of columns",
                hint='pass bounds={"delay": (-60, 240), "distance": (0, 5000)}',
            )
        columns = self.xs if isinstance(self.xs, list | tuple) else [self.xs]
        explained, labels = self.y, tuple(map(find_label, columns))
        terms = [INTERCEPT, *map(str, labels)]
        if not 1 <= len(labels) <= MOST:
            raise InvalidQuestionError(
                f"a regression has from 1 to {MOST} columns that explain another one",
                hint='name them, e.g. regression("delay", ["distance", "hour"])',
            )
        if len({explained, *labels}) <= len(labels) or len(set(terms)) < len(terms):
            raise InvalidQuestionError(
                "a regression names a column twice, or one is called as another term is",
                hint=f"name each column once, and rename one that is called {INTERCEPT!r}",
            )
        object.__setattr__(self, "xs", labels)
        bounds_by_label = {
            find_label(column): bounds for column, bounds in (self.bounds or {}).items()
        }
        ends = {
            column: read_bounds(bounds_by_label[column])
            for column in self.columns
            if column in bounds_by_label
        }
        object.__setattr__(self, "bounds", ends)

    def __hash__(self) -> int:
        return hash((self.y, self.xs))

    def complete(self, bounds_by_column: Mapping[Hashable, object]) -> Regression:
        """Return the regression with the bounds of its columns that the terms of a frame know."""
        bounds: Any = {**bounds_by_column, **(self.bounds or {})}
        return replace(self, bounds=bounds)

    @property
    def ends(self) -> dict[Hashable, Bounds]:
        """The known bounds of its columns, the explained one first."""
        bounds = ((label, read_bounds((self.bounds or {}).get(label))) for label in self.columns)
        return {label: pair for label, pair in bounds if pair is not None}

    @property
    def finds_bounds(self) -> bool:
        """True if the bounds of a column are found first."""
        return len(self.ends) < len(self.columns)

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """The columns that it is about, the explained one first."""
        return self.y, *self.xs

    @property
    def text(self) -> str:
        """The question as it was asked, for the history of a ledger."""
        within = ", ".join(
            f"{column!r}: ({ends.lower!r}, {ends.upper!r})" for column, ends in self.ends.items()
        )
        bounds = f", bounds={{{within}}}" if within else ""
        return f"regression({self.y!r}, {list(self.xs)!r}{bounds})"

    @property
    def questions(self) -> dict[str, Coefficient]:
        """A question for each term, by its name; one vector answers them all."""
        terms = [INTERCEPT, *map(str, self.xs)]
        return {name: Coefficient(self, index) for index, name in enumerate(terms)}


@dataclass(frozen=True)
class Coefficient(LinearStatistic):
    """One coefficient of a regression: the intercept at index 0, then the slopes."""

    of: Regression
    index: int

    def __post_init__(self) -> None:
        """Refuse bounds whose units a float can't hold: what else there is has been checked."""
        if not self.finds_bounds:
            _ = self._estimator

    @property
    def searched(self) -> tuple[Hashable, ...]:
        """The columns whose bounds are found first."""
        return tuple(column for column in self.columns if column not in self.of.ends)

    @property
    def finds_bounds(self) -> bool:
        """True if the bounds of a column are found first."""
        return bool(self.searched)

    @property
    def clipped(self) -> dict[Hashable, Bounds]:
        """The bounds of columns whose clipping is counted; none if it isn't."""
        return self.of.ends if self.of.clipping else {}

    def with_ends(self, *, interval: bool) -> Coefficient:
        """Return the coefficient without a count of what is clipped where no note is shown."""
        return self if interval else replace(self, of=replace(self.of, clipping=False))

    @property
    def axes(self) -> tuple[Hashable, ...]:
        """The columns in the order of the estimator's grids."""
        return self.columns

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind of question that requests it."""
        return "regression"

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """All columns of the regression."""
        return self.of.columns

    @property
    def text(self) -> str:
        """The regression in full for its first coefficient, what it is for the others."""
        return f"slope of {self.of.xs[self.index - 1]!r}" if self.index else self.of.text

    def unit(self, *, found_bounds: bool = False) -> str:
        """Return units of y, or of y a unit of the column; `found` in widths of their bounds."""
        if found_bounds:
            return "widths of the bounds found"
        per_unit = f" a unit of {self.of.xs[self.index - 1]!r}" if self.index else ""
        return f"units of {self.of.y!r}{per_unit}"

    def percent_base(self, rows: int) -> None:
        """Return None: its half-widths are named in its own unit."""

    def complete(self, bounds_by_column: Mapping[Hashable, object]) -> Coefficient:
        """Return the coefficient with the bounds that the regression lacks."""
        return replace(self, of=self.of.complete(bounds_by_column)) if self.searched else self

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 a count comes with it
        """Return the sums of products: the same for all coefficients."""
        return products(self.of.columns, self._estimator.grids)

    def estimator(self, linear: Linear) -> CoefficientEstimator:  # noqa: ARG002 grids say all
        """Return the estimator that reads the coefficient from the sums."""
        return self._estimator

    @property
    def _estimator(self) -> CoefficientEstimator:
        return CoefficientEstimator(tuple(map(even_grid, self.of.ends.values())), self.index)


@cache
def products(columns: tuple[Hashable, ...], grids: tuple[Grid, ...]) -> Linear:
    """Return the sums of 1, z_i, w, z_i z_j and z_i w in units of 1/K; w is of the first column.

    A coordinate is K at most, and by rounding more: `ROUNDED` for each of its factors.
    """
    k = max(grid.last for grid in grids)
    on = [OnGrid(*column_and_grid) for column_and_grid in zip(columns, grids, strict=True)]
    explained, *explaining = range(len(on))
    singles = [*explaining, explained]
    pairs = [*itertools.combinations_with_replacement(explaining, 2)]
    pairs += [(column, explained) for column in explaining]
    terms: list[Term] = [*on, *(on[i] * on[j] // k for i, j in pairs)]
    matrix = np.zeros((1 + len(singles) + len(pairs), 1 + len(terms)), np.int64)
    matrix[0, 0] = k
    for row, term in enumerate(singles, 1):  # 2 q - K
        matrix[row, [0, 1 + term]] = -k, 2
    for index, (i, j) in enumerate(pairs):  # (2 q - K)(2 r - K) / K
        row = 1 + len(singles) + index
        matrix[row, [0, 1 + len(on) + index]] = k, 4
        matrix[row, 1 + i] -= 2
        matrix[row, 1 + j] -= 2
    largest = k + ROUNDED * np.abs(matrix[:, 1:]).sum(axis=1)
    return Linear(
        Source(columns, tuple(terms)),
        tuple(tuple(row) for row in matrix.tolist()),
        sum(largest.tolist()),
        sum(entry * entry for entry in largest.tolist()),
        CountWeights((0,), k),
    )


@dataclass(frozen=True)
class CoefficientEstimator(ProductEstimator):
    """A coefficient of least squares, in units of the answer.

    Parameters
    ----------
    grids : tuple of Grid
        Those of the explained column, then of those that explain it.
    place : int
        Which coefficient: 0 for the intercept.
    """

    index: int

    def __post_init__(self) -> None:
        """Refuse bounds whose units a float can't hold."""
        sizes = [*np.abs(self.direction[np.nonzero(self.direction)]), abs(self.start) or 1.0]
        require_sizes(sizes, 2.0**400)

    @property
    def size(self) -> int:
        """How many columns explain the other."""
        return len(self.grids) - 1

    @cached_property
    def direction(self) -> Floats:
        """The coefficients of 1 and z in the answer, in its units."""
        width, *widths = (self.k * grid.step for grid in self.grids)
        direction = np.zeros(1 + self.size)
        if self.index:
            direction[self.index] = width / widths[self.index - 1]
            return direction
        zeros = [
            -2 * (grid.anchor / width_) - 1
            for grid, width_ in zip(self.grids[1:], widths, strict=True)
        ]
        return np.array([1.0, *zeros]) * (width / 2)

    @cached_property
    def start(self) -> float:
        """The answer where all coefficients of 1 and z are 0."""
        return 0.0 if self.index else self.grids[0].anchor + self.k * self.grids[0].step / 2

    def value(self, vector: NoisyVector) -> Floats:
        """Return the coefficient of each group."""
        noise = self._deviation(vector.noise)
        answers = [
            np.linalg.solve(lift_products(sums, noise), with_w)
            for sums, with_w in self._sums(vector)
        ]
        return np.array([self.start + self.direction @ answer for answer in answers])

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return ends that cover the noise; infinite where it could hide that columns vary."""
        value = self.value(vector)
        ends = [self._ends(*sums, vector.noise, level) for sums in self._sums(vector)]
        low, high = np.array(ends).reshape(-1, 2).T
        return np.minimum(value, low), np.maximum(value, high)

    def widen(self, vector: NoisyVector, ends: Ends, moved: ClippingBias) -> Ends:
        """Return the interval for values that are not clipped: docs/explanation/octaves.md."""
        halves = np.array([[grid.step * self.k / 2] for grid in self.grids])
        off = np.roll((moved.below + moved.above) / halves, -1, axis=0)
        root = np.roll(np.sqrt(moved.below_squares + moved.above_squares) / halves, -1, axis=0)
        first, noise, shifts = np.zeros((1, off.shape[1])), self._deviation(vector.noise), []
        (off, off_w), (root, root_w) = (
            (np.concatenate([first, values[:-1]])[:, 0], values[-1, 0]) for values in (off, root)
        )
        products = off[:, None] + off + np.outer(root, root)
        moved_with_w = off + off_w + root * root_w
        for sums, with_w in self._sums(vector):
            inverse = np.linalg.inv(lift_products(sums, noise))
            moves = moved_with_w + products @ np.abs(inverse @ with_w)
            gain = np.abs(inverse) @ products
            if np.abs(np.linalg.eigvals(gain)).max() >= 1:
                shifts.append(math.inf)
                continue
            answer = np.linalg.solve(np.eye(len(gain)) - gain, np.abs(inverse) @ moves)
            shifts.append(np.abs(self.direction @ inverse) @ (moves + products @ answer))
        return ends[0] - np.array(shifts), ends[1] + np.array(shifts)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        noise, errors = self._deviation(vector.noise), []
        for sums, with_w in self._sums(vector):
            lifted = lift_products(sums, noise)
            answer = np.linalg.solve(lifted, with_w)
            errors.append(noise * noise_deviation(np.linalg.solve(lifted, self.direction), answer))
        return np.array(errors)

    def _sums(self, vector: NoisyVector) -> Iterator[tuple[Floats, Floats]]:
        """Yield the noisy products of (1, z) in units of rows, and of (1, z) with w, by group."""
        size = self.size
        rows, columns = np.triu_indices(size)
        for sums in vector.coordinates.astype(np.float64).T / self.k:
            products = np.empty((1 + size, 1 + size))
            products[0, :] = products[:, 0] = sums[: 1 + size]
            pairs = sums[2 + size : 2 + size + len(rows)]
            products[1 + rows, 1 + columns] = products[1 + columns, 1 + rows] = pairs
            yield products, np.append(sums[1 + size], sums[2 + size + len(rows) :])

    def _deviation(self, noise: Noise) -> float:
        return math.sqrt(noise.variance) / self.k

    def _ends(
        self, sums: Floats, with_w: Floats, noise: Noise, level: float
    ) -> tuple[float, float]:
        """Return an interval of the exact coefficient: docs/explanation/partition-of-unity.md."""
        rounded = max(sums[0, 0], 1.0) * ROUNDED * ROUNDED / self.k * (self.size + 2)
        if np.linalg.eigvalsh(sums)[0] <= rounded:
            return -math.inf, math.inf
        weights, answer = (np.linalg.solve(sums, side) for side in (self.direction, with_w))
        turned = np.linalg.solve(sums, weights) / (weights @ weights)
        allowance = self._deviation(noise) * half_width_factor(noise, 1 - level)
        closed = 1 - allowance * allowance * add_covariance(weights, turned, turned)
        if closed <= 0:
            return -math.inf, math.inf
        middle = allowance * allowance * add_covariance(weights, answer, turned) / closed
        reach = math.hypot(middle, allowance * noise_deviation(weights, answer) / math.sqrt(closed))
        estimate = self.start + self.direction @ answer + middle
        reach += float(np.linalg.norm(weights)) * math.hypot(1.0, *answer) * rounded
        return float(estimate - reach), float(estimate + reach)


def lift_products(products: Floats, noise: float) -> Floats:
    """Return the sums of products with a ridge, if the covariances need one.

    `noise` is the standard deviation of a sum. Their smallest eigenvalue is then `FLOOR` times that
    at least, and more than what floats of their size round off: they have an inverse.
    """
    lifted, size = products.copy(), len(products) - 1
    lifted[0, 0] = max(lifted[0, 0], 1.0)
    spread = lifted[1:, 1:] - np.outer(lifted[0, 1:], lifted[0, 1:]) / lifted[0, 0]
    smallest = float(np.linalg.eigvalsh(spread)[0])
    largest = max(float(np.abs(lifted).max()), float(np.abs(spread).max()))
    floor = max(FLOOR * noise * math.sqrt(size), _TOLD_APART * largest, 1e-9)
    lifted[1:, 1:] += max(floor - smallest, 0.0) * np.eye(size)
    return lifted


def noise_deviation(weights: npt.NDArray[Any], answer: npt.NDArray[Any]) -> float:
    """Return the deviation of weights (Z answer - z) for independent noise of deviation 1.

    Z is a symmetric matrix of noise, and z a vector of it.
    """
    return math.sqrt(add_covariance(weights, answer, answer) + float(weights @ weights))


def add_covariance(
    weights: npt.NDArray[Any], left: npt.NDArray[Any], right: npt.NDArray[Any]
) -> float:
    """Return the covariance of weights Z left and weights Z right for such a matrix."""
    first, second = (
        matrix + matrix.T for matrix in (np.outer(weights, left), np.outer(weights, right))
    )
    return float((first * second).sum() / 2 - np.diag(first) @ np.diag(second) / 4)
