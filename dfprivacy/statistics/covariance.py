"""Read covariances, correlations and straight lines off noisy sums of products of two bases.

With a and b the values of two columns as parts of their bounds, the products of the Bernstein
polynomials of a with those of b add up to 1: one vector holds the number of rows, means, variances
and the covariance for one epsilon. A polynomial f of a and b that they span has weights w with
sum(f) = w.S for the exact sums S. All answers are theta = (u.S) / (v.S), where u and v hold means
read off the same sums; intervals are Fieller's. Proofs: docs/explanation/partition-of-unity.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dfprivacy.errors import InvalidBoundsError
from dfprivacy.measurement.binning import Floats
from dfprivacy.measurement.bounds import BoundsLike
from dfprivacy.measurement.grid import Grid, even_grid
from dfprivacy.measurement.linear import ROUNDED, Linear, OnGrid
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import bound_sum
from dfprivacy.release.estimator import ClippingBias, Ends, ForecastableEstimator
from dfprivacy.statistics.base import Statistic, argument
from dfprivacy.statistics.linear import CLIPPING_DOC, LinearStatistic

Polynomial = npt.NDArray[np.float64]  # coefficients of a^i b^j by place (i, j), then by group

_BASES = {1: ((1, -1), (0, 1)), 2: ((1, -2, 1), (0, 2, -2), (0, 0, 1))}
"""The Bernstein polynomials of a degree: the factors of 1, a and a^2."""

_POWERS = {1: np.array([[1, 0], [1, 1]]), 2: np.array([[1, 0, 0], [1, 0.5, 0], [1, 1, 1]])}
"""Coefficients of 1, a and a^2 as sums of Bernstein polynomials: a = b1 / 2 + b2."""


class PairStatistic(LinearStatistic):
    """A statistic of two columns within bounds; a row that lacks one of the values is left out."""

    degrees: ClassVar[tuple[int, int]]
    """The degrees of its basis in the x and in the y column."""

    reader: ClassVar[type[PairEstimator]]
    """Estimator that reads a basis of these degrees, or of higher ones."""

    x: Hashable
    y: Hashable

    searches: ClassVar[bool] = True
    """True if bounds that are left out are found."""

    def percent_base(self, rows: int) -> None:
        """Return None: its half-widths are named in its own unit."""

    @property
    def axes(self) -> tuple[Hashable, Hashable]:
        """The x and the y column."""
        return self.x, self.y

    @property
    def searched(self) -> tuple[Hashable, ...]:
        """The columns whose bounds are found first."""
        pairs = self.bounds_arguments().items() if self.searches else ()
        missing = (getattr(self, name) for name, a in pairs if getattr(self, a.name) is None)
        return tuple(dict.fromkeys(missing))

    @property
    def finds_bounds(self) -> bool:
        """True if the bounds of a column are found first."""
        return bool(self.searched)

    @property
    def grids(self) -> tuple[Grid, Grid]:
        """The grids of the x and of the y column."""
        return (
            even_grid(self.require_bounds("x_bounds", self.x)),
            even_grid(self.require_bounds("y_bounds", self.y)),
        )

    def linear(self, *, grouped: bool) -> Linear:  # noqa: ARG002 a count comes with it
        """Return the products of both bases in units of 1/K: near a partition of unity."""
        k = max(grid.last for grid in self.grids)
        on_grids = map(OnGrid, (self.x, self.y), self.grids)
        a, b = (  # the powers of each column as integers from 0 to k
            [None, *(q, q * q // k)[:degree]]
            for q, degree in zip(on_grids, self.degrees, strict=True)
        )
        terms = [term for term in (*a, *b) if term is not None]
        places: dict[tuple[int, int], int] = {(0, 0): 0}
        places |= {(i, 0): i for i in range(1, len(a))}
        places |= {(0, j): len(a) - 1 + j for j in range(1, len(b))}
        for i, left in enumerate(a):
            for j, right in enumerate(b):
                if left is not None and right is not None:
                    terms.append(left * right // k)
                    places[i, j] = len(terms)
        matrix = []
        for left_basis in _BASES[self.degrees[0]]:
            for right_basis in _BASES[self.degrees[1]]:
                row = [0] * (1 + len(terms))
                for (i, j), index in places.items():
                    row[index] = left_basis[i] * right_basis[j] * (k if index == 0 else 1)
                matrix.append(tuple(row))
        return Linear.near_unity(tuple(terms), tuple(matrix), k)

    def estimator(self, linear: Linear) -> PairEstimator:  # noqa: ARG002 it is made of them all
        """Return the estimator that reads the answer from this basis."""
        return self.reader(self.grids, self.degrees)

    def estimator_for(self, other: Statistic, linear: Linear) -> ForecastableEstimator | None:  # noqa: ARG002 the degrees say all
        """Return another answer about the same columns that a basis of no higher degree has."""
        if not isinstance(other, PairStatistic):
            return None
        same = (self.x, self.y, self.grids) == (other.x, other.y, other.grids)
        lower = all(low <= high for low, high in zip(other.degrees, self.degrees, strict=True))
        return other.reader(self.grids, self.degrees) if same and lower else None


@dataclass(frozen=True)
class Moments:
    """Noisy moments of a and b by group: rows, means, variances (perhaps NaN), covariance."""

    rows: Floats
    mean_x: Floats
    mean_y: Floats
    var_x: Floats
    var_y: Floats
    covariance: Floats

    @property
    def off_x(self) -> Polynomial:
        """The polynomial a - mean."""
        return np.stack([-self.mean_x, np.ones_like(self.rows), np.zeros_like(self.rows)])

    @property
    def off_y(self) -> Polynomial:
        """The polynomial b - mean."""
        return np.stack([-self.mean_y, np.ones_like(self.rows), np.zeros_like(self.rows)])

    @property
    def constant(self) -> Polynomial:
        """The polynomial 1."""
        zero = np.zeros_like(self.rows)
        return np.stack([zero + 1, zero, zero])


def square_polynomial(linear: Polynomial) -> Polynomial:
    """Return the square of a polynomial of one column and degree 1."""
    return np.stack([linear[0] ** 2, 2 * linear[0] * linear[1], linear[1] ** 2])


def product(of_x: Polynomial, of_y: Polynomial) -> Polynomial:
    """Return the product of a polynomial of a and one of b."""
    return of_x[:, None, :] * of_y[None, :, :]


@dataclass(frozen=True)
class Ratio:
    """An answer as theta = E[above] / E[below], for polynomials that hold noisy means.

    `drift` is how far E[above] - theta E[below] moves for errors of the means, to second order.
    """

    above: Polynomial
    below: Polynomial
    drift: Callable[[Floats, Floats, Floats], Floats]


def require_sizes(sizes: Iterable[float], limit: float) -> None:
    """Require that no size is above `limit` or below its inverse."""
    if not all(1 / limit <= size <= limit for size in sizes):
        raise InvalidBoundsError(
            "the distances between the bounds are too large or too small for this answer",
            hint="rescale the columns",
        )


@dataclass(frozen=True)
class ProductEstimator(ForecastableEstimator):
    """Estimator that reads noisy sums of products of columns, each on its grid."""

    grids: tuple[Grid, ...]

    @cached_property
    def k(self) -> int:
        """The product 1 in units of the sums."""
        return max(grid.last for grid in self.grids)

    def scale(self, spread: float, unit: str) -> tuple[float, str]:  # noqa: ARG002 one law for all
        """Return the scale on the sums of products, to each of which a row adds 1 at most."""
        return spread / self.k, "rows, on the sums of products"


@dataclass(frozen=True)
class PairEstimator(ProductEstimator):
    """A ratio of noisy moments of two columns, on `grids`, of bases of these `degrees`."""

    grids: tuple[Grid, Grid]
    degrees: tuple[int, int]

    smallest: ClassVar[float] = -math.inf
    largest: ClassVar[float] = math.inf
    """Limits of theta."""

    spans: ClassVar[tuple[bool, bool]] = (False, False)
    """Requirement that the variance of x, or of y, is above 0."""

    powers: ClassVar[tuple[int, int]] = (0, 0)
    """The powers of the widths of x and of y in the unit of the answer: -1, 0 or 1."""

    def __post_init__(self) -> None:
        """Refuse bounds whose units a float can't hold."""
        require_sizes([self.unit], 2.0**1000)

    @property
    def widths(self) -> tuple[float, float]:
        """The distances a = 1 and b = 1 in units of the columns."""
        x, y = (self.k * grid.step for grid in self.grids)
        return x, y

    @property
    def unit(self) -> float:
        """The distance theta = 1 in units of the answer."""
        scales = list(zip(self.widths, self.powers, strict=True))
        above, below = (math.prod(w for w, power in scales if power == sign) for sign in (1, -1))
        return above / below

    @property
    def start(self) -> float:
        """The value theta = 0 in units of the answer."""
        return 0.0

    roots: ClassVar[tuple[float, float]] = (0.0, 0.0)
    """The powers of the variances of a and of b that theta divides the covariance by."""

    def widen(self, vector: NoisyVector, ends: Ends, moved: ClippingBias) -> Ends:
        """Return the interval of values that are not clipped.

        Theta is a covariance over roots of variances. Clipping moved the covariance, and lowered
        each variance. Ends have noise of their own: their doubts add up by squares
        (docs/explanation/octaves.md).
        """
        low, high = ((end - self.start) / self.unit for end in ends)
        off, shrink = self._clipping_moves(self.moments(vector), moved)
        low, high = low - off, high + off
        low, high = low * np.where(low > 0, shrink, 1.0), high * np.where(high < 0, shrink, 1.0)
        return (
            self._units(np.clip(low, self.smallest, self.largest)),
            self._units(np.clip(high, self.smallest, self.largest)),
        )

    def _clipping_moves(self, moments: Moments, moved: ClippingBias) -> tuple[Floats, Floats]:
        """Return by how much clipping moved theta, and the least factor of its divisor."""
        distances, squares, added = self._distances(moments, moved)
        (x, y), root = np.stack([moments.mean_x, moments.mean_y]), np.sqrt(squares[0] * squares[1])
        off_x, off_y = distances[0] * np.maximum(y, 1 - y), distances[1] * np.maximum(x, 1 - x)
        off, factor = np.sqrt(off_x**2 + off_y**2 + root**2), np.zeros_like(moments.rows)
        variances = [
            np.where(variance > 0, variance, np.nan) for variance in (moments.var_x, moments.var_y)
        ]
        for power, variance, more in zip(self.roots, variances, added, strict=True):
            if power:
                off, factor = (
                    off / variance**power,
                    np.hypot(factor, power * np.log1p(more / variance)),
                )
        return np.nan_to_num(off, nan=np.inf), np.nan_to_num(np.exp(-factor))

    def _distances(self, moments: Moments, moved: ClippingBias) -> list[Floats]:
        """Return mean distances and squares of rows outside, and the variances that they add."""
        widths, means = np.array(self.widths)[:, None], np.stack([moments.mean_x, moments.mean_y])
        below, above = (
            side / widths / np.maximum(moments.rows, 1.0) for side in (moved.below, moved.above)
        )
        squares = (moved.below_squares + moved.above_squares) / widths**2
        squares = squares / np.maximum(moments.rows, 1.0)
        added = 2 * np.hypot(means * below, (1 - means) * above) + squares
        return [np.hypot(below, above), squares, added]

    @abstractmethod
    def ratio(self, moments: Moments) -> Ratio:
        """Return the answer as a ratio."""

    def value(self, vector: NoisyVector) -> Floats:
        """Return the answer of each group; NaN where noise leaves a slope without a direction."""
        return self._units(self._theta(vector)[0])

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return Fieller's interval; all that can be where it is open.

        Nine tenths of the error probability go to the weights at hand, one tenth to the means that
        they hold.
        """
        low, high = self.theta_interval(vector, level)
        return self._units(low), self._units(high)

    def theta_interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the theta for which u.S - theta v.S is within its noise and its drift."""
        moments, outside = self.moments(vector), 1 - level
        theta, ratio, (u, v), (above, below) = self._theta(vector)
        spread, drift_spread = (bound_sum(vector.noise, share * outside) for share in (0.9, 0.1))
        rows = np.where(moments.rows > 0, moments.rows, 1.0)
        off_x, off_y = (
            drift_spread * np.linalg.norm(self._weights(polynomial), axis=0) / (self.k * rows)
            for polynomial in (
                product(moments.off_x, moments.constant),
                product(moments.constant, moments.off_y),
            )
        )
        mean_drift = ratio.drift(off_x, off_y, np.abs(np.nan_to_num(theta)))
        drift = self.k * rows * (mean_drift + ROUNDED / self.k)
        a = below**2 - spread**2 * (v * v).sum(axis=0)
        closed = (a > 0) & (below > 0) & self._spread_out(moments, spread)
        ends = []
        for sign, blank in ((-1, self.smallest), (1, self.largest)):
            off = above + sign * drift
            half_b = off * below - spread**2 * (u * v).sum(axis=0)
            c = off**2 - spread**2 * (u * u).sum(axis=0)
            root = np.sqrt(np.maximum(half_b**2 - a * c, 0))
            end = np.full_like(below, blank)
            ends.append(np.divide(half_b + sign * root, a, out=end, where=closed))
        low, high = ends
        return np.clip(low, self.smallest, self.largest), np.clip(high, self.smallest, self.largest)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise."""
        theta, _, (u, v), (_, below) = self._theta(vector)
        noise = math.sqrt(vector.noise.variance) * np.linalg.norm(u - theta * v, axis=0)
        widest = (self.largest - self.smallest) / 2
        error = np.divide(noise, below, out=np.full_like(below, widest), where=below > 0)
        return np.asarray(np.fmin(error, widest) * self.unit)

    def moments(self, vector: NoisyVector) -> Moments:
        """Return the noisy moments."""
        sums = vector.coordinates.astype(np.float64) / self.k
        rows = sums.sum(axis=0)
        safe = np.where(rows > 0, rows, 1.0)

        def mean(i: int, j: int) -> Floats:
            if i > self.degrees[0] or j > self.degrees[1]:
                return np.full_like(rows, math.nan)
            x, y = (_POWERS[degree] for degree in self.degrees)
            weights = np.outer(x[:, i], y[:, j]).reshape(-1, 1)
            return np.asarray((weights * sums).sum(axis=0) / safe)

        x, y = np.clip(mean(1, 0), 0, 1), np.clip(mean(0, 1), 0, 1)
        return Moments(rows, x, y, mean(2, 0) - x * x, mean(0, 2) - y * y, mean(1, 1) - x * y)

    def _theta(
        self, vector: NoisyVector
    ) -> tuple[Floats, Ratio, Sequence[Floats], Sequence[Floats]]:
        """Return theta, the ratio that it is, the weights above and below, and their sums."""
        moments = self.moments(vector)
        ratio = self.ratio(moments)
        weights = [self._weights(polynomial) for polynomial in (ratio.above, ratio.below)]
        sums = vector.coordinates.astype(np.float64)
        above, below = ((weight * sums).sum(axis=0) for weight in weights)
        is_known = (below > 0) & self._spread_out(moments, math.sqrt(vector.noise.variance))
        middle = (self.smallest + self.largest) / 2
        blank = middle if math.isfinite(middle) else math.nan  # theta has no limits
        theta = np.divide(above, below, out=np.full_like(below, blank), where=is_known)
        return np.clip(theta, self.smallest, self.largest), ratio, weights, (above, below)

    def _weights(self, polynomial: Polynomial) -> Floats:
        """Return the weights of each coordinate that add up to a polynomial."""
        x, y = (_POWERS[degree] for degree in self.degrees)
        factors = polynomial[: x.shape[1], : y.shape[1]]
        weights = np.einsum("ik,jl,klg->ijg", x, y, factors)
        return np.asarray(weights.reshape(len(x) * len(y), factors.shape[2]))

    def _spread_out(self, moments: Moments, spread: float) -> npt.NDArray[np.bool_]:
        """Return a mask of groups whose required variances are above their noise."""
        is_positive = moments.rows > 0
        squares = (
            product(square_polynomial(moments.off_x), moments.constant),
            product(moments.constant, square_polynomial(moments.off_y)),
        )
        for needed, square, variance in zip(
            self.spans, squares, (moments.var_x, moments.var_y), strict=True
        ):
            if needed:
                noise = spread * np.linalg.norm(self._weights(square), axis=0)
                is_positive &= variance * moments.rows * self.k > noise
        return is_positive

    def _units(self, theta: Floats) -> Floats:
        return np.asarray(self.start + self.unit * theta)


GIVEN_BOUNDS = (
    "Values of the {} column are clipped to these bounds, (lower, upper). Choose them from what "
    "you know about the subject, never from the data."
)
PAIR_BOUNDS = f"{GIVEN_BOUNDS} Found privately when left out."
"""Documentation of the bounds of a statistic of two columns."""

PAIR_CLIPPING = f"{CLIPPING_DOC} Nothing is spent where bounds are found."


@dataclass(frozen=True)
class CovarianceEstimator(PairEstimator):
    """The covariance: E[(a - mean)(b - mean)] over 1."""

    smallest: ClassVar[float] = -0.25
    largest: ClassVar[float] = 0.25
    powers: ClassVar[tuple[int, int]] = (1, 1)

    def ratio(self, moments: Moments) -> Ratio:
        """Return the mean product over 1."""
        above = product(moments.off_x, moments.off_y)
        return Ratio(above, product(moments.constant, moments.constant), lambda x, y, _: x * y)


@dataclass(frozen=True)
class CorrelationEstimator(PairEstimator):
    """The correlation: E[(a - mean)(b - mean)] over both deviations."""

    smallest: ClassVar[float] = -1.0
    largest: ClassVar[float] = 1.0
    spans: ClassVar[tuple[bool, bool]] = (True, True)
    roots: ClassVar[tuple[float, float]] = (0.5, 0.5)

    def ratio(self, moments: Moments) -> Ratio:
        """Return the mean product over half of (h (a - mean)^2 + (b - mean)^2 / h).

        With h = sd(b) / sd(a) the second is the product of the deviations, and does not move with
        h to first order.
        """
        is_known = (moments.var_x > 0) & (moments.var_y > 0)
        square = np.divide(
            moments.var_y, moments.var_x, out=np.ones_like(moments.rows), where=is_known
        )
        h = np.sqrt(square)
        below = h * product(square_polynomial(moments.off_x), moments.constant)
        below = (below + product(moments.constant, square_polynomial(moments.off_y)) / h) / 2

        def drift(x: Floats, y: Floats, theta: Floats) -> Floats:
            return np.asarray(x * y + theta / 2 * (h * x * x + y * y / h))

        return Ratio(product(moments.off_x, moments.off_y), below, drift)


@dataclass(frozen=True)
class _Pair(PairStatistic):
    """Two columns of which neither explains the other; a row that lacks a value is left out."""

    x: Hashable = argument("A column of numbers.")
    y: Hashable = argument("Another column of numbers.")
    x_bounds: BoundsLike | None = argument(PAIR_BOUNDS.format("first"), None)
    y_bounds: BoundsLike | None = argument(PAIR_BOUNDS.format("second"), None)
    clipping: bool = argument(PAIR_CLIPPING, True)  # noqa: FBT003 a default


@dataclass(frozen=True)
class Covariance(_Pair):
    """The population covariance of two columns, each value clipped to its bounds.

    From noisy sums of (1-a)(1-b), (1-a)b, a(1-b) and ab, where a and b are the values on a scale
    from 0 to 1 between their bounds. A row that lacks one of the values is left out.
    """

    kind: ClassVar[str] = "cov"
    aliases: ClassVar[tuple[str, ...]] = ("covariance", "covar_pop", "covar")
    sql_aliases: ClassVar[tuple[str, ...]] = ("covar_pop",)
    sql_names: ClassVar[tuple[str, ...]] = ("covar_pop", "covar_samp")
    title: ClassVar[str] = "the population covariance"
    example: ClassVar[str] = 'df.dp.cov("x", "y", (0, 100), (0, 10), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (1, 1)
    units: ClassVar[str] = "units of {x!r} times units of {y!r}"
    reader: ClassVar[type[PairEstimator]] = CovarianceEstimator


@dataclass(frozen=True)
class Correlation(_Pair):
    """Pearson's correlation of two columns, each value clipped to its bounds; from -1 to 1.

    From noisy sums of nine products of Bernstein polynomials. A row that lacks one of the values
    is left out.
    """

    kind: ClassVar[str] = "corr"
    aliases: ClassVar[tuple[str, ...]] = ("correlation", "pearson", "corrcoef")
    sql_names: ClassVar[tuple[str, ...]] = ("corr",)
    title: ClassVar[str] = "the correlation"
    example: ClassVar[str] = 'df.dp.corr("x", "y", (0, 100), (0, 10), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (2, 2)
    units: ClassVar[str] = "points of correlation, which lies from -1 to 1"
    reader: ClassVar[type[PairEstimator]] = CorrelationEstimator


@dataclass(frozen=True)
class SumsEstimator(PairEstimator):
    """The sum of x over the sum of y, each in parts of the largest size of its column."""

    @cached_property
    def sizes(self) -> tuple[float, float]:
        """The largest sizes of x and of y."""
        x, y = (max(abs(grid.lower), abs(grid.upper)) for grid in self.grids)
        return x, y

    @property
    def unit(self) -> float:
        """The largest size of x over that of y."""
        return self.sizes[0] / self.sizes[1]

    @cached_property
    def lines(self) -> list[tuple[float, float]]:
        """Factors of 1 and a in parts of x, then of 1 and b in parts of y."""
        columns = zip(self.grids, self.widths, self.sizes, strict=True)
        return [(grid.anchor / size, width / size) for grid, width, size in columns]

    @cached_property
    def possible(self) -> tuple[float, float]:
        """The least and the largest ratio that the bounds allow, in parts of the largest sizes."""
        (x, x_width), (y, y_width) = self.lines
        if y < 0 < y + y_width:
            return -math.inf, math.inf
        below = np.copysign([y, y + y_width], y + y_width / 2)  # a zero has the other end's sign
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.divide.outer([x, x + x_width], below)
        return float(np.nanmin(ratios)), float(np.nanmax(ratios))

    @property
    def smallest(self) -> float:  # type: ignore[override]
        """The least ratio that the bounds allow."""
        return self.possible[0]

    @property
    def largest(self) -> float:  # type: ignore[override]
        """The largest ratio that the bounds allow."""
        return self.possible[1]

    def ratio(self, moments: Moments) -> Ratio:
        """Return the mean of x over that of y, both negated if the latter is negative."""
        (x, x_width), (y, y_width) = self.lines
        sign = np.where(y + y_width * moments.mean_y < 0, -1.0, 1.0)
        nothing = np.zeros_like(sign)
        above = product(np.stack([sign * x, sign * x_width, nothing]), moments.constant)
        below = product(moments.constant, np.stack([sign * y, sign * y_width, nothing]))

        def drift(off_x: Floats, off_y: Floats, theta: Floats) -> Floats:  # noqa: ARG001 no means
            return np.asarray((x_width + theta * y_width) * ROUNDED / self.k)

        return Ratio(above, below, drift)

    def widen(self, vector: NoisyVector, ends: Ends, moved: ClippingBias) -> Ends:
        """Return the interval of values that are not clipped: each sum can move by its own rows.

        It is everything where the sum below may then be 0.
        """
        moments, sizes = self.moments(vector), np.array(self.sizes)[:, None]
        lower, upper = (
            side / sizes / np.maximum(moments.rows, 1.0) for side in (moved.below, moved.above)
        )
        start, width = self.lines[1]
        mean_y = start + width * moments.mean_y
        lower, upper = np.where(mean_y < 0, [upper, lower], [lower, upper]) / np.abs(mean_y)
        low, high = (end / self.unit for end in ends)
        low, high = low - lower[0], high + upper[0]
        smallest, largest = 1 - lower[1], 1 + upper[1]
        low, high = (
            low / np.where(low < 0, smallest, largest),
            high / np.where(high > 0, smallest, largest),
        )
        is_open = ~(smallest > 0)
        return (
            self._units(np.where(is_open, -np.inf, low)),
            self._units(np.where(is_open, np.inf, high)),
        )


@dataclass(frozen=True)
class RatioOfSums(_Pair):
    """The sum of one column over the sum of another, each value clipped to its bounds.

    From the noisy sums of the covariance. A row that lacks one of the values is left out. NaN or
    with an infinite interval where the sum below may be 0.
    """

    kind: ClassVar[str] = "ratio"
    aliases: ClassVar[tuple[str, ...]] = ("quotient", "weighted_mean", "weighted_average")
    title: ClassVar[str] = "the ratio of two sums"
    example: ClassVar[str] = 'df.dp.ratio("x", "y", (0, 100), (0, 10), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (1, 1)
    units: ClassVar[str] = "units of {x!r} a unit of {y!r}"
    reader: ClassVar[type[PairEstimator]] = SumsEstimator


@dataclass(frozen=True)
class SlopeEstimator(PairEstimator):
    """The slope: E[(a - mean)(b - mean)] over E[(a - mean)^2]."""

    spans: ClassVar[tuple[bool, bool]] = (True, False)
    powers: ClassVar[tuple[int, int]] = (-1, 1)
    roots: ClassVar[tuple[float, float]] = (1.0, 0.0)

    def ratio(self, moments: Moments) -> Ratio:
        """Return the mean product over the mean square."""

        def drift(x: Floats, y: Floats, theta: Floats) -> Floats:
            return np.asarray(x * (y + theta * x))

        below = product(square_polynomial(moments.off_x), moments.constant)
        return Ratio(product(moments.off_x, moments.off_y), below, drift)


@dataclass(frozen=True)
class InterceptEstimator(PairEstimator):
    """The line at the a that stands for x = 0, in parts of the bounds of y."""

    spans: ClassVar[tuple[bool, bool]] = (True, False)
    powers: ClassVar[tuple[int, int]] = (0, 1)
    roots: ClassVar[tuple[float, float]] = (1.0, 0.0)

    @property
    def start(self) -> float:
        """The lower bound of the explained column."""
        return self.grids[1].anchor

    def widen(self, vector: NoisyVector, ends: Ends, moved: ClippingBias) -> Ends:
        """Return the interval for values that are not clipped: both means and the slope move."""
        moments = self.moments(vector)
        off, shrink = self._clipping_moves(moments, moved)
        distances, _, _ = self._distances(moments, moved)
        slope = np.abs(moments.covariance / np.where(moments.var_x > 0, moments.var_x, np.nan))
        lever = np.abs(self.grids[0].anchor / self.widths[0] + moments.mean_x)
        turned = off + (slope + off) * (1 - shrink)
        shift = distances[1] + (slope + off) * distances[0] + turned * lever
        shift = np.nan_to_num(shift, nan=np.inf) * self.unit
        return ends[0] - shift, ends[1] + shift

    def ratio(self, moments: Moments) -> Ratio:
        """Return E[w (b - slope (a - zero))] over E[w].

        With w = variance + (zero - mean)(a - mean), residuals have no mean whatever the slope is,
        to first order.
        """
        zero = -self.grids[0].anchor / self.widths[0]
        is_known = moments.var_x > 0
        slope = np.divide(
            moments.covariance, moments.var_x, out=np.zeros_like(moments.rows), where=is_known
        )
        lever = zero - moments.mean_x
        nothing = np.zeros_like(moments.rows)
        first = moments.var_x - lever * moments.mean_x
        weight = np.stack([first, lever, nothing])
        along = slope * np.stack([first * zero, lever * zero - first, -lever])
        second = np.stack([nothing, nothing + 1, nothing])
        above = product(weight, second) + product(along, moments.constant)

        def drift(x: Floats, y: Floats, theta: Floats) -> Floats:  # noqa: ARG001 one signature
            return np.asarray((np.abs(lever) + x) * x * (y + np.abs(slope) * x))

        return Ratio(above, product(weight, moments.constant), drift)


@dataclass(frozen=True)
class RSquaredEstimator(CorrelationEstimator):
    """The square of the correlation."""

    def value(self, vector: NoisyVector) -> Floats:
        """Return the square of the correlation."""
        return np.asarray(super().value(vector) ** 2)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the squares that the correlation's interval holds."""
        low, high = super().interval(vector, level)
        ends = low**2, high**2
        return np.where(low * high > 0, np.minimum(*ends), 0.0), np.maximum(*ends)

    def widen(self, vector: NoisyVector, ends: Ends, moved: ClippingBias) -> Ends:
        """Return the interval of values that are not clipped, whichever sign it has."""
        low, high = super().widen(vector, (np.sqrt(ends[0]), np.sqrt(ends[1])), moved)
        return np.maximum(low, 0.0) ** 2, high**2

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return the first-order standard deviation of the noise, at least that at 0."""
        error, off = super().standard_error(vector), np.abs(super().value(vector))
        return np.asarray(np.minimum(np.maximum(2 * off * error, error**2), 1.0))

    def half_widths(self, expected: NoisyVector, level: float) -> Floats:
        """Return half-widths for independent rows, of a correlation of about 1 / sqrt(n)."""
        half = CorrelationEstimator(self.grids, self.degrees).half_widths(expected, level)
        rows = self.moments(expected).rows
        return np.minimum(half**2 + 4 * half / np.sqrt(rows), 1.0)


@dataclass(frozen=True)
class _Line(PairStatistic):
    """A line y = intercept + slope x by least squares; a row that lacks a value is left out."""

    y: Hashable = argument("The dependent column, of numbers.")
    x: Hashable = argument("The independent column, of numbers.")
    y_bounds: BoundsLike | None = argument(PAIR_BOUNDS.format("dependent"), None)
    x_bounds: BoundsLike | None = argument(PAIR_BOUNDS.format("independent"), None)
    clipping: bool = argument(PAIR_CLIPPING, True)  # noqa: FBT003 a default


@dataclass(frozen=True)
class Slope(_Line):
    """The slope of the line of least squares of y on x, each value clipped to its bounds.

    From noisy sums of six products of Bernstein polynomials. A row that lacks one of the values is
    left out. NaN where noise hides that x varies.
    """

    kind: ClassVar[str] = "slope"
    aliases: ClassVar[tuple[str, ...]] = ("regression", "regr_slope", "linregress", "ols")
    sql_aliases: ClassVar[tuple[str, ...]] = ("regr_slope",)
    sql_names: ClassVar[tuple[str, ...]] = ("regr_slope",)
    title: ClassVar[str] = "the slope of y on x"
    example: ClassVar[str] = 'df.dp.slope("y", "x", (0, 10), (0, 100), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (2, 1)
    units: ClassVar[str] = "units of {y!r} a unit of {x!r}"
    reader: ClassVar[type[PairEstimator]] = SlopeEstimator


@dataclass(frozen=True)
class Intercept(_Line):
    """Where the line of least squares of y on x is at x = 0, each value clipped to its bounds.

    From the vector of the slope, with which it shares its noise. NaN where noise hides that x
    varies.
    """

    kind: ClassVar[str] = "intercept"
    aliases: ClassVar[tuple[str, ...]] = ("regr_intercept",)
    sql_aliases: ClassVar[tuple[str, ...]] = ("regr_intercept",)
    sql_names: ClassVar[tuple[str, ...]] = ("regr_intercept",)
    title: ClassVar[str] = "the intercept of y on x"
    example: ClassVar[str] = 'df.dp.intercept("y", "x", (0, 10), (0, 100), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (2, 1)
    units: ClassVar[str] = "units of {y!r}"
    reader: ClassVar[type[PairEstimator]] = InterceptEstimator


@dataclass(frozen=True)
class RSquared(_Line):
    """The part of the variance of y that a line through x explains, from 0 to 1.

    The square of the correlation, from the same vector; slope and intercept come with it.
    """

    kind: ClassVar[str] = "r_squared"
    aliases: ClassVar[tuple[str, ...]] = ("r2", "regr_r2", "rsquared", "r2_score")
    sql_aliases: ClassVar[tuple[str, ...]] = ("regr_r2",)
    sql_names: ClassVar[tuple[str, ...]] = ("regr_r2",)
    title: ClassVar[str] = "R squared of y on x"
    example: ClassVar[str] = 'df.dp.r_squared("y", "x", (0, 10), (0, 100), epsilon=1)'
    degrees: ClassVar[tuple[int, int]] = (2, 2)
    units: ClassVar[str] = "parts of the variance, from 0 to 1"
    reader: ClassVar[type[PairEstimator]] = RSquaredEstimator
