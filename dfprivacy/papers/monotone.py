"""Select quantiles, and centers without bounds: Dick et al. 2023, Algorithms 5 and 4.

The lengths of quantiles, and the errata of the paper: docs/explanation/monotone.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.bin_table import BinTable, bin_table
from dfprivacy.measurement.binning import Floats, Integers, SignificantBits
from dfprivacy.measurement.exact import center_power, decimal_number, describe
from dfprivacy.noise.race import Runs
from dfprivacy.papers.subset_optimal import FAILURE, outer_bins
from dfprivacy.release.answers import Column, Counted
from dfprivacy.statistics.base import argument
from dfprivacy.statistics.bounds import POWER_DOC, Selected, SelectedPart
from dfprivacy.statistics.estimators.monotone import (
    CentreLength,
    mechanism_for,
    select_monotone,
)
from dfprivacy.statistics.estimators.quantile import (
    LARGEST_RANK,
    find_known_rows,
    outer_rows,
)
from dfprivacy.statistics.part import COUNT_SHARE, Reach, blank_small_groups, rows_reach


@dataclass(frozen=True)
class DickCenter(Selected):
    """The l_p center of a column, p > 1, within bounds found by rank.

    Source: Dick et al. 2023, Algorithm 4. `center` finds bounds with far fewer rows.
    """

    kind: ClassVar[str] = "dick_center"
    title: ClassVar[str] = "the l_p center within bounds by rank"
    example: ClassVar[str] = 'df.dp.dick_center("x", 1.5, epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    p: float = argument(POWER_DOC, sample=2)

    def __post_init__(self) -> None:
        center_power(self.p)
        super().__post_init__()

    def select(
        self,
        table: BinTable,
        counted: Counted,  # noqa: ARG002 one interface
        loss: Epsilon | Rho,
    ) -> Column:
        """Select the center of each group."""
        law = CentreLength(self.p)
        values = [
            monotone_estimate(law, *values_and_counts, loss)
            for values_and_counts in table.values_by_group()
        ]
        return np.array(values, dtype=np.float64)


@dataclass(frozen=True)
class InverseQuantile(Selected):
    """A quantile of a column, selected by inverse sensitivity from numbers of 17 significant bits.

    It is NaN in groups that are too small. Source: Dick et al. 2023, Algorithm 5 on all of the
    grid (docs/explanation/monotone.md).
    """

    kind: ClassVar[str] = "inverse_quantile"
    title: ClassVar[str] = "a quantile by inverse sensitivity"
    example: ClassVar[str] = 'df.dp.inverse_quantile("x", 0.9, epsilon=1)'

    column: Hashable = argument("The column of numbers.")
    q: float = argument("The level, between 0 and 1.", sample=0.9)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.law

    @property
    def law(self) -> QuantileLength:
        """The lengths of the quantile."""
        return QuantileLength(self.q)

    def _rows_needed(self, loss: Epsilon | Rho) -> int:
        """Return the number of rows below which a quantile is mostly noise.

        Where all rows hold one value, the nearer of both ends is min(q, 1 - q) of them away; rows
        that come or go on the other side count max(q, 1 - q).
        """
        candidates, q = 2 * SignificantBits(SelectedPart.whole_bits).last + 1, Fraction(self.law.q)
        return math.ceil(max(q, 1 - q) / min(q, 1 - q) * outer_rows(loss.selection(1), candidates))

    def reach(self, loss: Epsilon | Rho) -> Reach:
        """Return the sizes from which on the quantile is known."""
        return rows_reach(loss, self._rows_needed(loss.share(1 - COUNT_SHARE)))

    def select(self, table: BinTable, counted: Counted, loss: Epsilon | Rho) -> Column:
        """Select the quantile of each group; NaN in small ones."""
        grid: Any = table.binning
        numbers = [
            select_order_statistic(self.law, table.bins[rows], table.rows[rows], grid.last, loss)
            for rows in table.slices()
        ]
        values = grid.values(np.array(numbers, dtype=np.int64))
        return blank_small_groups(values, counted, self._rows_needed(loss))


BITS = 16
"""Significant bits of the values that the private bounds of `monotone_estimate` can take."""

_LARGEST_DENOMINATOR = 2**20


@dataclass(frozen=True)
class QuantileLength:
    """The smallest v with at least a share q of the rows up to v: 0 < q < 1, up to six places."""

    q: Fraction | float

    def __post_init__(self) -> None:
        q = decimal_number(self.q)
        if q is None or not 0 < q < 1 or q.denominator > _LARGEST_DENOMINATOR:
            raise InvalidQuestionError(
                f"q must be between 0 and 1, with at most six places, not {describe(self.q)}",
                hint="pass q=0.25; bounds('x', rank=...) reaches the ends",
            )
        object.__setattr__(self, "q", q)

    def lengths(self, values: Integers, rows: Integers, candidates: Integers) -> Integers:
        """Return the lengths; everything in units of 1 / denominator."""
        counted = np.append(np.zeros(1, np.int64), np.cumsum(rows))
        below = counted[np.searchsorted(values, candidates, side="left")]
        equal = counted[np.searchsorted(values, candidates, side="right")] - below
        part, unit = Fraction(self.q).as_integer_ratio()
        goal = part * counted[-1]
        high = _too_high(unit * below - goal, equal, part, unit - part)
        low = _too_low(goal - unit * (below + equal), equal, part, unit - part)
        return np.where(unit * below >= goal, high, np.where(low > 0, low, 0))


def _too_high(gap: Integers, equal: Integers, q: int, rest: int) -> Integers:
    """Return the lengths where a share q lies below: add at or above, or remove below."""
    if q > rest:
        return gap // q + 1
    first = np.where(gap >= q, (gap - q) // rest + 1, 0) + 1
    return np.where(equal > 0, gap // rest + 1, first)


def _too_low(gap: Integers, equal: Integers, q: int, rest: int) -> Integers:
    """Return the lengths where less than q lies up to here: remove above, or add at or below."""
    if q <= rest:
        return -(-gap // rest)
    first = np.where(gap > rest, -(-(gap - rest) // q), 0) + 1
    return np.where(gap <= 0, 0, np.where(equal > 0, -(-gap // q), first))


def monotone_estimate(
    functional: CentreLength,
    values: Floats,
    rows: Integers,
    loss: Epsilon | Rho,
) -> float:
    """Return a private center without any bounds: Dick et al., Algorithm 4.

    A quarter of the loss buys each of two bounds, of a public rank that only data of several
    thousand rows (over epsilon) leave room for. Rows beyond them are dropped, about as many on
    either side, and the center is that of the rest; the half of the loss that is left selects
    between the bounds as `select_monotone` does. Step 5 of the print is left out: it
    breaks privacy (docs/explanation/monotone.md).

    It costs `loss`; neighbors: one row added or removed.

    Examples
    --------
    >>> from dfprivacy.statistics.estimators.monotone import CentreLength
    >>> values, rows = np.arange(1000.0), np.full(1000, 20)
    >>> 470 < monotone_estimate(CentreLength(2), values, rows, Epsilon(Fraction(2))) < 530
    True
    """
    not_missing, counts = find_known_rows(values, rows)
    grid, quarter = SignificantBits(BITS), loss.share(Fraction(1, 4))
    group = np.zeros(len(not_missing), np.int64)
    table = bin_table(pa.table({}), 1, grid, group, grid.labels(not_missing), rows=counts)
    rank = find_trimmed_rank(quarter, 2 * grid.last + 1)
    (low,), (high,) = outer_bins(table, rank, quarter)
    inside = (numbers := grid.numbers(grid.labels(not_missing))) >= low
    inside &= numbers <= high
    lower, upper = grid.values(np.array([low, high])).tolist()
    half = loss.share(Fraction(1, 2))
    return select_monotone(functional, not_missing[inside], counts[inside], (lower, upper), half)


def select_order_statistic(
    functional: QuantileLength,
    numbers: Integers,
    rows: Integers,
    last: int,
    loss: Epsilon | Rho,
) -> int:
    """Return a private median or quantile among the integers -last, ..., last, without bounds.

    Algorithm 5 on all of the public grid: lengths are those of `select_monotone`, and the same for
    all candidates between two neighboring values, so that a candidate of each stretch stands for
    it. It costs `loss`; neighbors: one row added or removed.

    Examples
    --------
    >>> numbers, rows = np.array([-3, 4]), np.array([900, 200])
    >>> select_order_statistic(QuantileLength(0.5), numbers, rows, 100, Epsilon(Fraction(1)))
    -3
    """
    ends = np.concatenate([[-last - 1], numbers, [last + 1]])
    first = np.stack([ends, ends + 1], axis=1).reshape(-1)[1:-2]
    length = np.stack([np.ones_like(ends), np.diff(ends, append=last + 2) - 1], axis=1)
    length = length.reshape(-1)[1:-2]
    nonempty = np.flatnonzero(length > 0)
    lengths = functional.lengths(numbers, rows, first[nonempty])
    runs = Runs(np.zeros(1, np.int64), first[nonempty], length[nonempty], lengths)
    return int(mechanism_for(loss).select(runs)[0])


def find_trimmed_rank(quarter: Epsilon | Rho, candidates: int) -> int:
    """Return 7/4 of r = (8 / epsilon) * log(candidates / 1e-6), from public numbers alone.

    With a threshold of epsilon (a quarter of the whole, so that r is the paper's 32 log / epsilon)
    its rank errs by at most r / 4: it lies in [3 r / 2, 2 r], the band that the paper's proof asks
    for. The printed r / 4 as a target can't give it.
    """
    epsilon = quarter.selection(sensitivity=1).epsilon(sensitivity=1)
    rank = 14 * Fraction(math.log(candidates / FAILURE)) / epsilon
    return min(math.ceil(rank), LARGEST_RANK)
