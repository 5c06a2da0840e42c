"""The mean of Dick et al. 2023: bounds by rank from a value-count table, then a bounded mean.

`method="subset"` has public constants and the transformed mean of Kulesza et al.; `method="dick"`
is the paper's Algorithm 3 in its own form: printed constants, a private number of rows, Algorithm 1
inside. Proof: docs/subset-optimal.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.answers import Counted, CountPiece, Estimated, Piece
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.bins import run_bins
from dfprivacy.estimators.subset_optimal import dick_bounds, subset_bounds
from dfprivacy.mechanisms.additive import add_noise
from dfprivacy.parts.part import Answered, Grouping
from dfprivacy.plan import plan_release
from dfprivacy.questions import Mean
from dfprivacy.statistics.bin_table import BinTable
from dfprivacy.statistics.binning import SignificantBits
from dfprivacy.statistics.linear_query import Source
from dfprivacy.statistics.statistics import Statistics, first_name, rows_name
from dfprivacy.terms import Bounds

Integers = npt.NDArray[np.int64]

WHOLE_BITS = 22
GROUP_BITS = 12

RADIUS = 1e9
GAMMA = 1e-3
"""What `method="dick"` takes for granted, in units of the column: sizes are at most RADIUS, and an
error of GAMMA / (epsilon * rows) is of no interest."""


@dataclass(frozen=True)
class SubsetPart:
    """A mean whose bounds are found by rank."""

    name: str
    question: Mean
    grouped: bool

    weight = Fraction(1)
    counts = True
    answers_count = False

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The column that is averaged."""
        return {self.question.column: True}

    @property
    def names(self) -> Mapping[str, bool]:
        """The one answer; it has an interval."""
        return {self.name: True}

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredValues:
        """Run the pass: one GROUP BY the keys and the rounded value."""
        grid = SignificantBits(GROUP_BITS if self.grouped else WHOLE_BITS)
        column = self.question.column
        table = run_bins(adopted, grouping.by, column, grid, public=grouping.public)
        return MeasuredValues(self, table, grid)


@dataclass(frozen=True, repr=False)
class MeasuredValues:
    """A value-count table. Secret."""

    part: SubsetPart
    table: BinTable
    grid: SignificantBits

    @property
    def keys(self) -> pa.Table:
        """The keys of the groups, sorted."""
        return self.table.keys

    def answer(self, loss: Epsilon | Rho, delta: Fraction | None) -> Answered:  # noqa: ARG002 one interface
        """Find bounds, then average within them, group by group."""
        found = self._dick(loss) if self.part.question.method == "dick" else self._subset(loss)
        pieces, counts = [], []
        for group, (bounds, left, method) in enumerate(found):
            piece, count = self._mean(group, bounds, left, method)
            pieces.append(piece)
            counts.append(count)
        answer = Estimated(self.part.name, self.table.groups, tuple(pieces))
        return Answered(self.keys, (answer,), Counted(self.table.groups, tuple(counts)))

    def _subset(self, loss: Epsilon | Rho) -> Iterator[tuple[Bounds, Epsilon | Rho, str]]:
        half = loss.share(Fraction(1, 2))
        for lower, upper in zip(*subset_bounds(self.table, half), strict=True):
            yield Bounds(float(lower), float(upper)), half, "transformed"

    def _dick(self, loss: Epsilon | Rho) -> Iterator[tuple[Bounds, Epsilon | Rho, str]]:
        for group in range(self.table.groups):
            values, rows = self._values(group)
            found = dick_bounds(values, rows, epsilon=loss.pure(), radius=RADIUS, gamma=GAMMA)
            yield Bounds(found.lower, found.upper), found.left, "shifted"

    def _values(self, group: int) -> tuple[npt.NDArray[np.float64], Integers]:
        own = slice(*self.table.starts()[group : group + 2].tolist())
        return self.grid.values(self.table.bins[own]), self.table.rows[own]

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


def _sums(values: npt.NDArray[np.float64], rows: Integers, source: Source) -> Statistics:
    """Return rows and the sum of grid integers, as a pass with these bounds would have them."""
    grid = source.grid
    assert grid is not None  # noqa: S101 a mean has bounds
    clipped = np.clip(values, grid.lower, grid.upper)
    integers = np.floor((clipped - grid.origin) * grid.inverse_step).astype(np.int64)
    sums = {rows_name(0): [int(rows.sum())], first_name(0): [int((integers * rows).sum())]}
    return Statistics(pa.table(sums), 0, (source,)).checked()
