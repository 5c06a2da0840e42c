"""Measure a table of two group columns together with its row, column and grand totals.

The cells of a table are the groups of a release, and its totals groups of these, added up after the
one pass. Totals are noisy cells added up, or measured with a part of the loss and made to agree
with the cells by weighted least squares: the choice is made by errors that are known beforehand
(docs/how-to/crosstabs.md has the formulas). With secret keys cells are missing, and totals are
measured.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.sums import Statistics
from dfprivacy.noise.additive import NoisyVector, add_noise, add_up_columns
from dfprivacy.noise.laws import KeyRule, Noise, Summed, half_width_factor
from dfprivacy.release.answers import Answered, Counted, CountPiece, Estimated, Piece
from dfprivacy.release.estimator import CountEstimator, ForecastableEstimator
from dfprivacy.release.plan import PartLimits
from dfprivacy.statistics.linear import LinearPart, MeasuredSums, Read, build_forecast
from dfprivacy.statistics.part import Circumstances, Forecast

PARTS = 20  # number of equal fractions that the privacy loss is split into
FEWEST = 16  # fewest fractions that the cells keep: totals make cells at most a quarter noisier

SECRET = (30, 10, 10, 10)
"""Fractions of the loss, in sixtieths, if keys are secret: totals get half, as cells do."""

KINDS = ("cells", "row totals", "column totals", "grand total")


class Four(NamedTuple):
    """Four values: for the cells, for row totals, for column totals and for the grand total."""

    cells: Any
    rows: Any
    columns: Any
    total: Any


def combine_variances(rows: int, columns: int, variance: Four) -> Four:
    """Return the variances of consistent cells and totals, given the measured variances.

    The least squares are solved by parts that are orthogonal: mean, rows, columns and the rest. A
    variance that is infinite is of what was not measured.

    >>> combine_variances(3, 4, Four(1.0, math.inf, math.inf, math.inf))
    Four(cells=1.0, rows=4.0, columns=3.0, total=12.0)
    """
    size = rows * columns
    mean = size / variance.cells + size**2 * (
        1 / (rows * variance.rows) + 1 / (columns * variance.columns) + 1 / variance.total
    )
    by_row = (1 - 1 / rows) / (columns / variance.cells + columns**2 / variance.rows)
    by_column = (1 - 1 / columns) / (rows / variance.cells + rows**2 / variance.columns)
    rest = variance.cells * (1 - 1 / rows) * (1 - 1 / columns)
    return Four(
        cells=1 / mean + by_row + by_column + rest,
        rows=columns**2 * (1 / mean + by_row),
        columns=rows**2 * (1 / mean + by_column),
        total=size**2 / mean,
    )


def agreeing(measured: Four, variances: Four) -> Four:
    """Return consistent cells and totals by least squares, weighted by their variances.

    Arrays of coordinates: cells by (coordinate, row, column), totals by (coordinate, row) and
    (coordinate, column), the grand total by coordinate.
    """
    cells = measured.cells
    _, rows, columns = cells.shape
    size = rows * columns
    means = (cells.mean((1, 2)), measured.rows.sum(1) / size, measured.columns.sum(1) / size)
    errors = (
        variances.cells / size,
        variances.rows / (rows * columns**2),
        variances.columns / (columns * rows**2),
        variances.total / size**2,
    )
    weights = [1 / error for error in errors]
    weighted_means = zip((*means, measured.total / size), weights, strict=True)
    mean = sum(estimate * weight for estimate, weight in weighted_means) / sum(weights)

    def move_means(totals: Floats, axis: int, count: int, variance: float) -> Floats:
        """Return how far the totals move the means of rows or columns off the mean of all."""
        cell_means = cells.mean(axis)
        of_cells, of_totals = (
            cell_means - cell_means.mean(1)[:, None],
            totals - totals.mean(1)[:, None],
        )
        weight = count * variances.cells / (count * variances.cells + variance)
        moved_: Floats = weight * (of_totals / count - of_cells)
        return moved_

    by_row = move_means(measured.rows, 2, columns, variances.rows)
    by_column = move_means(measured.columns, 1, rows, variances.columns)
    agreed = cells + (mean - means[0])[:, None, None] + by_row[:, :, None] + by_column[:, None, :]
    return Four(agreed, agreed.sum(2), agreed.sum(1), agreed.sum((1, 2)))


@cache
def public_shares(rows: int, columns: int, spread: int, *, laplace: bool) -> Four:
    """Return the fractions of the loss that minimize the errors of cells and totals.

    Least is the geometric mean of the four errors, so that to halve any of them counts alike. A
    share of 0 says that totals are cells added up. A total can hold `spread` groups of one unit,
    which under zero-concentrated privacy costs as many times as much.

    >>> public_shares(3, 16, 1, laplace=True) == Four(1, 0, 0, 0)
    True
    >>> [str(share) for share in public_shares(100, 100, 1, laplace=True)]
    ['4/5', '0', '0', '1/5']
    """

    def variance(share: int, times: int) -> float:
        if not share:
            return math.inf
        return (PARTS / share) ** 2 if laplace else times * PARTS / share

    def error(shares: Four) -> float:
        variances = Four(*(variance(share, spread if i else 1) for i, share in enumerate(shares)))
        return sum(map(math.log, combine_variances(rows, columns, variances)))

    candidates = [
        Four(PARTS - sum(totals), *totals)
        for totals in itertools.product(range(PARTS - FEWEST + 1), repeat=3)
        if sum(totals) <= PARTS - FEWEST
    ]
    best = min(candidates, key=lambda shares: (round(error(shares), 9), -shares.cells))
    return Four(*(Fraction(share, PARTS) for share in best))


@dataclass(frozen=True, kw_only=True)
class MarginsPart(LinearPart):
    """One linear question about the cells of a table, and about its totals.

    `by` are the two group columns; `size` says how many rows and columns there are, where keys are
    `public` and all combinations are listed. Noise is Laplace noise if the loss is pure
    (`laplace`), and a unit can be in so many `groups`, or cells.
    """

    by: Sequence[Hashable]
    size: tuple[int, int] | None
    public: bool
    laplace: bool
    groups: int = 1

    def within_limits(self, limits: PartLimits) -> Self:
        """Return the part for the limits of a unit."""
        return replace(super().within_limits(limits), groups=limits.contribution.groups)

    @property
    def titles(self) -> dict[str, str]:
        """The titles of cells and totals by their kind."""
        (name,) = self.questions
        row, column = map(str, self.by)
        return dict(zip(KINDS, (name, f"{row}_total", f"{column}_total", "total"), strict=True))

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """The cells' answer, then the totals'; each has an interval."""
        (name,) = self.questions
        return {name: dict.fromkeys(self.titles.values(), True)}

    @property
    def shares(self) -> Four:
        """How cells and totals share the loss."""
        if not self.public:
            return Four(*(Fraction(share, sum(SECRET)) for share in SECRET))
        if self.size is None:
            return Four(Fraction(1), *[Fraction(0)] * 3)
        return public_shares(*self.size, self.groups, laplace=self.laplace)

    def noises(self, loss: Epsilon | Rho) -> Four:
        """Return the noise of cells and totals; None of totals that are cells added up."""
        (linear,) = self.vectors.linears
        per_total = Fraction(1) if self.laplace else Fraction(1, self.groups)
        losses = [self.shares.cells, *(share * per_total for share in self.shares[1:])]
        return Four(
            *(loss.share(s).noise(linear.l1, linear.l2_squared) if s else None for s in losses)
        )

    def laws(self, noises: Four) -> Four:
        """Return the law of the noise in cells and totals as they come out; None if unknown."""
        if not self.public:
            return noises
        if self.size is None:
            return Four(noises.cells, None, None, None)
        variances = Four(*map(_variance, noises))
        summed = all(noise is None for noise in noises[1:])
        rows, columns = self.size
        many = (1, columns, rows, rows * columns) if summed else (0,) * 4
        pairs = zip(combine_variances(rows, columns, variances), many, strict=True)
        laws = [Summed(noises.cells, *variance_and_count) for variance_and_count in pairs]
        return Four(noises.cells if summed else laws[0], *laws[1:])

    def read_measurement(self, statistics: Statistics, adopted: Adopted) -> MeasuredMargins:
        """Return the sums of cells, and of the cells of each total that is measured."""
        cells = super().read_measurement(statistics, adopted).statistics
        row, column = map(_codes, cells.key_table().columns)
        numbers = (row, column, np.zeros_like(row))
        part, (rows, columns, _) = self, map(_size, numbers)
        if self.size is not None:
            part = replace(self, size=(rows, columns) if rows * columns == len(row) else None)
        shares = zip(numbers, part.shares[1:], strict=True)
        totals = [cells.pool(codes, _size(codes)) if share else None for codes, share in shares]
        return MeasuredMargins(part, cells, numbers, totals)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects cells, its divisor and number of terms."""
        return super().count_noise(loss.share(self.shares.cells))

    def draws(self) -> list[tuple[tuple[str, ...], Fraction]]:
        """Return the question of cells, and each total that is measured, with its share."""
        shares_by_title = zip(self.titles.values(), self.shares, strict=True)
        return [((title,), Fraction(share)) for title, share in shares_by_title if share]

    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:
        """Return the forecasts of cells and totals; `loss` is that of one row in one cell."""
        (read,), (linear,) = self.vectors.answers, self.vectors.linears
        question, laws = self.questions[read.name], self.laws(self.noises(loss))
        remark = describe_shares(self.shares)
        forecasts = []
        for title, law in zip(self.titles.values(), laws, strict=True):
            if law is not None:
                answer = Read(read.name, 0, choose_estimator(read.estimator, law))
                forecast = build_forecast(
                    answer, (linear, law), question, circumstances, unit=question.unit()
                )
                forecasts.append(Forecast(**{**vars(forecast), "name": title}).add_remarks(remark))
        return forecasts


def _variance(noise: Noise | None) -> float:
    """Return the variance of what was measured, infinite if nothing was; never 0, to divide by."""
    return math.inf if noise is None else max(noise.variance, 1e-12)


def describe_shares(shares: Four) -> str:
    """Describe how totals are measured.

    >>> describe_shares(Four(Fraction(1), 0, 0, 0))
    'totals are sums of cells: that is quieter than to measure them'
    """
    parts = [
        f"{kind} with {100 * float(share):.3g} %"
        for kind, share in zip(KINDS, shares, strict=True)
        if share
    ]
    if len(parts) == 1:
        return "totals are sums of cells: that is quieter than to measure them"
    return f"measured: {', '.join(parts)} of the loss"


@dataclass(frozen=True)
class PlainCount(CountEstimator):
    """A count that is not rounded, so that cells add up to their totals."""

    def value(self, vector: NoisyVector) -> Any:
        """Return the count of each group."""
        return vector.total(self.weights.indices).astype(np.float64) / self.weights.divisor

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:
        """Return the interval of the law of the noise; counts are whole, and so are its ends."""
        half = self._half(vector.noise, level)
        value = self.value(vector)
        low, high = np.ceil(value - half), np.floor(value + half)
        return np.minimum(low, value), np.maximum(high, value)

    def _half(self, noise: Noise, level: float) -> float:
        factor, terms = half_width_factor(noise, 1 - level), len(self.weights.indices)
        return factor * math.sqrt(terms * noise.variance) / self.weights.divisor


def choose_estimator(estimator: ForecastableEstimator, law: Noise) -> ForecastableEstimator:
    """Return the estimator for sums with noise of this distribution."""
    if isinstance(estimator, CountEstimator) and isinstance(law, Summed) and not law.many:
        return PlainCount(estimator.weights)
    return estimator


@dataclass(frozen=True)
class MeasuredMargins(MeasuredSums):
    """Exact sums of cells and totals, and the numbers of the totals of each cell. Secret."""

    part: MarginsPart
    numbers: tuple[Integers, ...]
    totals: Sequence[Statistics | None]

    def answer(
        self,
        loss: Epsilon | Rho,
        rule: KeyRule | None,  # noqa: ARG002 one interface
    ) -> Answered:
        """Add noise to cells and totals, make them agree, and read the answers off both."""
        vectors, noises = self.part.vectors, self.part.noises(loss)
        (linear,), (read,) = vectors.linears, vectors.answers
        noisy = add_noise(self.statistics, [linear], [noises.cells])[0]
        totals = [
            None if exact is None else add_noise(exact, [linear], [noise])[0]
            for exact, noise in zip(self.totals, noises[1:], strict=True)
        ]
        groups = noisy.coordinates.shape[1]
        pieces = [
            Piece(np.arange(groups), choose_estimator(read.estimator, vector.noise), vector)
            for vector in self._read(noisy, totals)
        ]
        titles = self.part.titles.values()
        answers = [Estimated(n, groups, (piece,)) for n, piece in zip(titles, pieces, strict=True)]
        answered = Answered(self.keys, {read.name: tuple(answers)})
        if vectors.counting is None:
            return answered
        count = CountPiece(np.arange(groups), noisy, vectors.counting[1])
        return replace(answered, counted=Counted(groups, (count,)))

    def _read(self, cells: NoisyVector, totals: Sequence[NoisyVector | None]) -> list[NoisyVector]:
        """Return the vectors of cells and totals, each with one column per cell."""
        if not self.part.public:
            indexes: tuple[Any, ...] = (slice(None), *self.numbers)
            pairs = zip((cells, *totals), indexes, strict=True)
            return [
                NoisyVector(vector.coordinates[:, at], vector.noise)
                for vector, at in pairs
                if vector
            ]
        if all(total is None for total in totals):
            return [cells, *(_sum_cells(cells, number) for number in self.numbers)]
        assert self.part.size is not None  # noqa: S101 only whole tables measure totals
        rows, columns = self.part.size
        laws = self.part.laws(Four(cells.noise, *(total and total.noise for total in totals)))
        size = cells.coordinates.shape[0]
        shapes = [(size, rows), (size, columns), (size,)]
        arrays = [
            np.zeros(shape) if total is None else total.coordinates.astype(float).reshape(shape)
            for total, shape in zip(totals, shapes, strict=True)
        ]
        cell = self.numbers[0] * columns + self.numbers[1]
        table = np.empty((size, rows * columns))
        table[:, cell] = cells.coordinates.astype(np.float64)
        noises = [None if vector is None else vector.noise for vector in (cells, *totals)]
        measured = Four(table.reshape(size, rows, columns), *arrays)
        agreed = agreeing(measured, Four(*map(_variance, noises)))
        row, column, grand = self.numbers
        read = [
            agreed.cells.reshape(size, rows * columns)[:, cell],
            agreed.rows[:, row],
            agreed.columns[:, column],
            agreed.total[:, None][:, grand],
        ]
        return [NoisyVector(coordinates, law) for coordinates, law in zip(read, laws, strict=True)]


def _size(numbers: Integers) -> int:
    """Return how many groups there are, numbered from 0 on."""
    return int(numbers.max(initial=-1)) + 1


def _codes(column: pa.ChunkedArray) -> Integers:
    """Return the number of each key among those of its column, NULL one of them."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _sum_cells(cells: NoisyVector, numbers: Integers) -> NoisyVector:
    """Return the sums of noisy cells as a vector, with the law of the most cells."""
    total = add_up_columns(cells.coordinates, numbers, _size(numbers))
    largest = int(np.bincount(numbers).max(initial=1))
    return NoisyVector(
        total[:, numbers], Summed(cells.noise, largest * cells.noise.variance, largest)
    )
