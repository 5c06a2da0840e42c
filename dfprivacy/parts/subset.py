"""The mean of Dick et al. 2023: bounds by rank from a value-count table, then a bounded mean.

`method="subset"` has public constants and the transformed mean of Kulesza et al.; `method="dick"`
is the paper's Algorithm 3 in its own form: printed constants, a private number of rows, Algorithm 1
inside. Proof: docs/subset-optimal.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.answers import Counted, CountPiece, Estimated, Piece
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.bins import run_bins
from dfprivacy.estimators.subset_optimal import dick_bounds, subset_bounds
from dfprivacy.estimators.threshold import values_grid
from dfprivacy.mechanisms.additive import add_noise
from dfprivacy.mechanisms.keys import KeyRule
from dfprivacy.parts.part import Answered, ColumnPart, Grouping, MeasuredTable
from dfprivacy.plan import plan_release
from dfprivacy.questions import Mean
from dfprivacy.statistics.bin_table import BinTable
from dfprivacy.statistics.binning import Floats, Integers, SignificantBits
from dfprivacy.statistics.linear_query import Source
from dfprivacy.statistics.statistics import Statistics, first_name, rows_name
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

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredValues:
        """Run the pass: one GROUP BY the keys and the rounded value."""
        grid = SignificantBits(GROUP_BITS if self.grouped else WHOLE_BITS)
        column = self.question.column
        table = run_bins(adopted, grouping.by, column, grid, public=grouping.public)
        return MeasuredValues(self, table)


@dataclass(frozen=True, repr=False)
class MeasuredValues(MeasuredTable):
    """A value-count table. Secret."""

    part: SubsetPart
    table: BinTable

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:  # noqa: ARG002 one interface
        """Find bounds, then average within them, group by group."""
        found = self._dick(loss) if self.part.question.method == "dick" else self._subset(loss)
        pieces, counts = [], []
        for group, (bounds, left, method) in enumerate(found):
            piece, count = self._mean(group, bounds, left, method)
            pieces.append(piece)
            counts.append(count)
        answer = Estimated(self.part.name, self.table.groups, tuple(pieces))
        counted = Counted(self.table.groups, tuple(counts))
        return Answered(self.keys, {answer.name: (answer,)}, counted)

    def _subset(self, loss: Epsilon | Rho) -> Iterator[tuple[Bounds, Epsilon | Rho, str]]:
        half = loss.share(Fraction(1, 2))
        for lower, upper in zip(*subset_bounds(self.table, half), strict=True):
            yield Bounds(float(lower), float(upper)), half, "transformed"

    def _dick(self, loss: Epsilon | Rho) -> Iterator[tuple[Bounds, Epsilon | Rho, str]]:
        for group in range(self.table.groups):
            values, rows = self._values(group)
            found = dick_bounds(values, rows, epsilon=loss.pure(), radius=RADIUS, gamma=GAMMA)
            yield Bounds(found.lower, found.upper), found.left, "shifted"

    def _values(self, group: int) -> tuple[Floats, Integers]:
        own = slice(*self.table.starts()[group : group + 2].tolist())
        return values_grid(self.table).values(self.table.bins[own]), self.table.rows[own]

    def _mean(
        self, group: int, bounds: Bounds, loss: Epsilon | Rho, method: str
    ) -> tuple[Piece, CountPiece]:
        name, place = self.part.name, np.array([group])
        question = Mean(self.part.question.column, bounds, method)
        plan = plan_release({name: question}, grouped=True)
        exact = _sums(*self._values(group), plan.queries[0].source)
        noisy = add_noise(exact, plan.queries, plan.noises(loss)).vectors[0]
        _, weights = plan.counting()
        return Piece(place, plan.answers[0].estimator, noisy), CountPiece(place, noisy, weights)


def _sums(values: Floats, rows: Integers, source: Source) -> Statistics:
    """Return rows and the sum of grid integers, as a pass with these bounds would have them."""
    grid = source.grid
    assert grid is not None  # noqa: S101 a mean has bounds
    first = int((grid.integers(values) * rows).sum())
    sums = {rows_name(0): [int(rows.sum())], first_name(0): [first]}
    return Statistics(pa.table(sums), 0, (source,)).checked()
