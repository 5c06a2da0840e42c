"""The mean of Dick et al. 2023: bounds by rank from a value-count table, then a bounded mean.

A mean of values clipped to two private thresholds errs by about as much as removing 1/epsilon rows
can move it: Dick et al., Algorithm 3. `dick_bounds` is their form for one group, with constants
that follow a noisy count; `subset_bounds` has public constants and takes many groups at once. The
mean itself is then a mean with these bounds.

`method="subset"` has public constants and the transformed mean of Kulesza et al.; `method="dick"`
is the paper's Algorithm 3 in its own form: printed constants, a private number of rows, Algorithm 1
inside. Proof: docs/subset-optimal.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho, positive_number
from dfprivacy.engine.adopt import Adopted
from dfprivacy.estimators.threshold import (
    LARGEST_RANK,
    SIDES,
    known_rows,
    positive_float,
    select_thresholds,
    values_grid,
    window_threshold,
)
from dfprivacy.forecast.forecast import Circumstances, Forecast
from dfprivacy.measurement.bin_table import BinTable, Held
from dfprivacy.measurement.binning import Floats, Integers, SignificantBits
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.sums import Statistics, sum_name
from dfprivacy.noise.additive import add_noise, add_to
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.noise.keys import KeyRule
from dfprivacy.noise.laws import DiscreteLaplace, Noise
from dfprivacy.release.answers import Counted, CountPiece, Estimated, Piece
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.linear import Vectors, forecast_of, vectors_of
from dfprivacy.statistics.mean import Mean
from dfprivacy.statistics.part import Answered, Bins, ColumnPart, Grouping, MeasuredTable
from dfprivacy.terms import Bounds

SIZE_SHARE = Fraction(1, 10)
"""The part of epsilon that `dick_bounds` spends on the noisy count; three equal parts remain."""

FAILURE = 1e-6
"""Probability that a threshold, or the lower limit of a count, is further off than stated."""

_LEAST_WIDTH = 2.0**-1000


@dataclass(frozen=True)
class DickBounds:
    """Two private thresholds in units of the column, lower < upper, and what they cost. Public.

    `spent` and `left` add up to the epsilon that was given: a mean with these bounds may cost
    `left`.
    """

    lower: float
    upper: float
    spent: Epsilon
    left: Epsilon


def dick_bounds(
    values: Floats,
    rows: Integers,
    *,
    epsilon: Fraction | float,
    radius: float,
    gamma: float,
    entropy: EntropySource = system_entropy,
) -> DickBounds:
    """Return the thresholds of Dick et al., Algorithm 3, with a private number of rows.

    A tenth of epsilon buys a count that exceeds the number of rows with probability below 1e-6
    only, and stands for it in the printed constants; each threshold costs 3/10 and as much is
    left. Where the count is too small for the ranks, the bounds are (-radius, radius) and 9/10 are
    left. All of it with a mean is epsilon-DP; neighbours: one row added or removed.

    Parameters
    ----------
    values : numpy.ndarray
        float64, in units of the column; NaN holds no value, others are clipped.
    rows : numpy.ndarray
        int64, how many rows have each value.
    epsilon : Fraction or float
        The loss of bounds and mean together.
    radius : float
        Public: values lie in [-radius, radius], in units of the column.
    gamma : float
        Public: an error of gamma / (epsilon * rows) is of no interest, in units of the column.
    entropy : callable
        Source of random bytes.

    Raises
    ------
    InvalidBoundsError, InvalidLossError, InvalidQuestionError, TooManyRowsError
        As for `window_threshold`.

    Examples
    --------
    >>> values, rows = np.array([3.0, 5.0, 9e5]), np.array([4000, 4000, 1])
    >>> bounds = dick_bounds(values, rows, epsilon=2, radius=1e6, gamma=0.01)
    >>> 2.9 < bounds.lower < 3.1 and 4.9 < bounds.upper < 5.1
    True
    >>> bounds.spent, bounds.left
    (Epsilon(value=Fraction(7, 5)), Epsilon(value=Fraction(3, 5)))
    """
    whole, public = Epsilon(positive_number("epsilon", epsilon)), Bounds(-radius, radius)
    gamma = positive_float("gamma", gamma)
    known, counts = known_rows(values, rows)
    least = least_rows(int(counts.sum()), whole.share(SIZE_SHARE), entropy)
    step = whole.share((1 - SIZE_SHARE) / 3)
    rank = printed_rank(step, public.upper, gamma, least)
    if 2 * rank > least:
        left = whole.share(1 - SIZE_SHARE)
        return DickBounds(public.lower, public.upper, whole.share(SIZE_SHARE), left)
    alpha = max(gamma / least, _LEAST_WIDTH)
    ends = [
        window_threshold(
            known, counts, rank, lower=public.lower, upper=public.upper, alpha=alpha,
            epsilon=step.value, side=side, entropy=entropy,
        )
        for side in SIDES
    ]  # fmt: skip
    lower, upper = _widened(min(ends), max(ends), alpha)
    return DickBounds(lower, upper, whole.share(1 - (1 - SIZE_SHARE) / 3), step)


def least_rows(rows: int, loss: Epsilon, entropy: EntropySource = system_entropy) -> int:
    """Return a noisy count, at least 1, that exceeds the rows with probability below 1e-6."""
    noise = DiscreteLaplace(1 / loss.value)
    noisy = int(add_to(np.array([rows], np.int64), noise, entropy)[0])
    return max(1, noisy - noise.quantile(2 * FAILURE))


def printed_rank(loss: Epsilon, radius: float, gamma: float, rows: int) -> int:
    """Return Algorithm 3's t = 1/epsilon + beta, rounded up, from public or noisy numbers.

    With alpha = gamma / rows and zeta = alpha / (radius * rows * epsilon), beta is
    (2 / epsilon) * log(2 * radius / (alpha * zeta)).
    """
    epsilon = float(loss.value)
    logarithm = math.log(2 * epsilon) + 3 * math.log(rows)
    logarithm += 2 * (math.log(radius) - math.log(gamma))
    return _rank(loss.value, max(logarithm, 0.0))


def subset_bounds(
    table: BinTable, loss: Epsilon | Rho, entropy: EntropySource = system_entropy
) -> tuple[Floats, Floats]:
    """Return thresholds below and above all but few rows of each group, lower < upper.

    Algorithm 3 of Dick et al. with public constants alone: each threshold costs half of the loss
    and has the rank t = ceil(1/epsilon + (2/epsilon) * log(m / 1e-6)), epsilon that of one
    threshold, m the number of bins. A threshold's rank is between 1/epsilon and 2 t, except with
    probability 1e-6, in a group of t rows or more. Where both coincide they move apart by one bin.

    All groups together cost `loss`; neighbours: one row added or removed.

    Parameters
    ----------
    table : BinTable
        Rows by group and bin of `SignificantBits`. Groups may be empty.
    loss : Epsilon or Rho
        What the bounds may cost.
    entropy : callable
        Source of random bytes.

    Returns
    -------
    tuple of numpy.ndarray
        float64, one a group, in units of the column.

    Raises
    ------
    InvalidQuestionError
        When the binning is another.
    """
    grid, half = values_grid(table), loss.share(Fraction(1, 2))
    rank = public_rank(half, 2 * grid.last + 1)
    low, high = (select_thresholds(table, rank, half, side, entropy=entropy) for side in SIDES)
    low, high = np.minimum(low, high), np.maximum(low, high)
    equal = low == high
    low, high = np.maximum(low - equal, -grid.last), np.minimum(high + equal, grid.last)
    return grid.values(low), grid.values(high)


def public_rank(loss: Epsilon | Rho, candidates: int) -> int:
    """Return the rank that a selection of this loss can tell from 1/epsilon: `subset_bounds`."""
    return _rank(
        loss.selection(sensitivity=1).epsilon(sensitivity=1), math.log(candidates / FAILURE)
    )


def _rank(epsilon: Fraction, logarithm: float) -> int:
    return min(math.ceil((1 + 2 * Fraction(logarithm)) / epsilon), LARGEST_RANK)


def _widened(lower: float, upper: float, least: float) -> tuple[float, float]:
    if upper - lower >= _LEAST_WIDTH:
        return lower, upper
    return lower - max(least, math.ulp(lower)), upper + max(least, math.ulp(upper))


WHOLE_BITS = 22
GROUP_BITS = 12

RADIUS = 1e9
GAMMA = 1e-3
"""What `method="dick"` takes for granted, in units of the column: sizes are at most RADIUS, and an
error of GAMMA / (epsilon * rows) is of no interest."""


@dataclass(frozen=True)
class SubsetPart(ColumnPart):
    """A mean whose bounds are found by rank."""

    question: Mean

    has_interval: ClassVar[bool] = True

    @property
    def grid(self) -> SignificantBits:
        """The public grid that values are rounded to: coarser by group."""
        return SignificantBits(GROUP_BITS if self.grouped else WHOLE_BITS)

    @property
    def tables(self) -> tuple[Bins, ...]:
        """The one way its table counts."""
        return ((self.grid, 0),)

    def measured(self, table: BinTable) -> MeasuredValues:
        """Return what it would have measured, from its table."""
        return MeasuredValues(self, table)

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredValues:
        """Count the rows of each group by value."""
        return MeasuredValues(self, self.value_table(adopted, grouping, self.grid))

    def vectors(self, loss: Epsilon | Rho) -> tuple[Vectors, Epsilon | Rho]:
        """Return the vector of the mean within bounds 0 and 1, and the loss that is left for it.

        The method "dick" has 3/10 of a pure epsilon left where it finds bounds.
        """
        dick = self.question.method == "dick"
        left = Epsilon(loss.pure() * Fraction(3, 10)) if dick else loss.share(Fraction(1, 2))
        mean = Mean(self.question.column, Bounds(0, 1), "shifted" if dick else "transformed")
        return vectors_of({self.name: mean}, grouped=True), left

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        vectors, left = self.vectors(loss)
        return vectors.count_noise(left)

    def forecasts(
        self, loss: Epsilon | Rho, asked: Mapping[str, Statistic], known: Circumstances
    ) -> list[Forecast]:
        """Return the forecast of a mean within bounds by rank, in widths of them."""
        vectors, left = self.vectors(loss)
        (answer,), (linear,), (noise,) = vectors.answers, vectors.linears, vectors.noises(left)
        unit = "widths of the bounds found"
        made = forecast_of(answer, (linear, noise), asked[self.name], known, unit=unit)
        made = replace(made, mechanism=f"{made.mechanism} within bounds from private selections")
        if self.question.method != "dick":
            return [made]
        taken = (
            f"absolute values are taken to be at most {RADIUS:g}, and errors below "
            f"{GAMMA:g}/(epsilon n) are ignored"
        )
        small = "groups too small to find bounds in are averaged within that whole range"
        return [made.noted(taken, small)]


Found = tuple[Bounds, Epsilon | Rho, str]
"""The bounds of a group, the loss that is left for its mean, and the method of that."""


@dataclass(frozen=True, repr=False)
class MeasuredValues(MeasuredTable):
    """A value-count table, in memory or in files. Secret."""

    part: SubsetPart

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:  # noqa: ARG002 one interface
        """Find bounds, then average within them, group by group."""
        find = _dick if self.part.question.method == "dick" else _subset
        pieces: list[Piece] = []
        counts: list[CountPiece] = []
        for block in self.table.blocks():
            for held, found in zip(block.held(), find(block, loss), strict=True):
                piece, count = self._mean(len(pieces), held, found)
                pieces.append(piece)
                counts.append(count)
        answer = Estimated(self.part.name, self.table.groups, tuple(pieces))
        counted = Counted(self.table.groups, tuple(counts))
        return Answered(self.keys, {answer.name: (answer,)}, counted)

    def _mean(self, group: int, held: Held, found: Found) -> tuple[Piece, CountPiece]:
        bounds, loss, method = found
        name, place = self.part.name, np.array([group])
        question = Mean(self.part.question.column, bounds, method)
        vectors = vectors_of({name: question}, grouped=True)
        exact = _sums(*held, vectors.linears[0].source)
        noisy = add_noise(exact, vectors.linears, vectors.noises(loss)).vectors[0]
        _, weights = vectors.counting()
        return Piece(place, vectors.answers[0].estimator, noisy), CountPiece(place, noisy, weights)


def _subset(table: BinTable, loss: Epsilon | Rho) -> Iterator[Found]:
    half = loss.share(Fraction(1, 2))
    for lower, upper in zip(*subset_bounds(table, half), strict=True):
        yield Bounds(float(lower), float(upper)), half, "transformed"


def _dick(table: BinTable, loss: Epsilon | Rho) -> Iterator[Found]:
    for values, rows in table.held():
        found = dick_bounds(values, rows, epsilon=loss.pure(), radius=RADIUS, gamma=GAMMA)
        yield Bounds(found.lower, found.upper), found.left, "shifted"


def _sums(values: Floats, rows: Integers, source: Source) -> Statistics:
    """Return rows and the sum of grid integers, as a pass with these bounds would have them."""
    (q,) = source.terms
    first = int((q.of(dict.fromkeys(q.columns, values)) * rows).sum())
    sums = {sum_name(0): [int(rows.sum())], sum_name(0, 1): [first]}
    return Statistics(pa.table(sums), 0, (source,)).checked()
