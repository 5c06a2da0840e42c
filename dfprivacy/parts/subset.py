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
from dfprivacy.estimators.subset_optimal import dick_bounds, subset_bounds
from dfprivacy.mechanisms.additive import add_noise
from dfprivacy.mechanisms.keys import KeyRule
from dfprivacy.parts.part import Answered, ColumnPart, Grouping, MeasuredTable
from dfprivacy.plan import plan_release
from dfprivacy.questions import Mean
from dfprivacy.statistics.bin_table import BinTable, Held
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
        """Count the rows of each group by value."""
        grid = SignificantBits(GROUP_BITS if self.grouped else WHOLE_BITS)
        return MeasuredValues(self, self.value_table(adopted, grouping, grid))


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
        plan = plan_release({name: question}, grouped=True)
        exact = _sums(*held, plan.queries[0].source)
        noisy = add_noise(exact, plan.queries, plan.noises(loss)).vectors[0]
        _, weights = plan.counting()
        return Piece(place, plan.answers[0].estimator, noisy), CountPiece(place, noisy, weights)


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
    grid = source.grid
    assert grid is not None  # noqa: S101 a mean has bounds
    first = int((grid.integers(values) * rows).sum())
    sums = {rows_name(0): [int(rows.sum())], first_name(0): [first]}
    return Statistics(pa.table(sums), 0, (source,)).checked()
