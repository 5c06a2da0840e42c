"""The mean of Dick et al. 2023: bounds by rank from a value-count table, then a bounded mean.

`method="subset"` has public constants and the transformed mean of Kulesza et al.; `method="dick"`
is the paper's Algorithm 3 in its own form: printed constants, a private number of rows, Algorithm 1
inside. Proof: docs/subset-optimal.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.estimators.subset_optimal import dick_bounds, subset_bounds
from dfprivacy.forecast.forecast import Circumstances, Forecast
from dfprivacy.measurement.bin_table import BinTable, Held
from dfprivacy.measurement.binning import Floats, Integers, SignificantBits
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.sums import Statistics, sum_name
from dfprivacy.noise.additive import add_noise
from dfprivacy.noise.keys import KeyRule
from dfprivacy.noise.laws import Noise
from dfprivacy.release.answers import Counted, CountPiece, Estimated, Piece
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.linear import Vectors, forecast_of, vectors_of
from dfprivacy.statistics.mean import Mean
from dfprivacy.statistics.part import Answered, Bins, ColumnPart, Grouping, MeasuredTable
from dfprivacy.terms import Bounds

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
