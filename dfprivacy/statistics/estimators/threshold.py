"""Find a value of about a given rank privately, from below or from above.

The rank is public and the loss of a candidate is its distance to that rank. Candidates are the bins
of a table of values, for many groups at once: Dick et al. 2023, Corollary 3.8. Proofs:
docs/explanation/subset-optimal.md.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidQuestionError, TooManyRowsError
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, Integers, SignificantBits
from dfprivacy.measurement.grid import ROW_LIMIT
from dfprivacy.noise.race import Runs
from dfprivacy.statistics.estimators.quantile import build_runs, points, rank_rows

Side = Literal["lower", "upper"]
SIDES: tuple[Side, Side] = ("lower", "upper")

LARGEST_RANK = 2**52


def select_thresholds(
    table: BinTable,
    rank: int,
    loss: Epsilon | Rho,
    side: Side = "lower",
) -> Integers:
    """Return the number of a bin of about this rank for each group.

    With F(c) the rows of a group up to bin c and F<(c) those below it, the loss of c is
    max(0, F<(c) - rank, rank - F(c)); from above, the same of the mirrored table. With
    probability at least 1 - zeta a group's loss is at most (2 / epsilon) * log(m / zeta), m the
    number of candidates. Dick et al., Corollary 3.8, in its discrete form. The choices of all
    groups together cost `loss`; neighbors: one row added or removed.
    """
    runs = threshold_runs(table, rank, side)
    return loss.selection(sensitivity=1).select(runs)


def threshold_runs(table: BinTable, rank: int, side: Side) -> Runs:
    """Return all bins of the grid as candidates of each group, ranks from either end. Secret."""
    values_grid(table)
    ranked = rank_rows(table)
    values, below, upto, starts = points(ranked, ranked.first, ranked.stop)
    tails = np.append(starts, len(values))[1:] - 1
    aims = ranked.totals() - rank if side == "upper" else np.full(table.groups, rank)
    aims_of_points = np.repeat(aims, tails + 1 - starts)
    losses = [rank_losses(below, upto, aims_of_points), rank_losses(upto, upto, aims_of_points)]
    return build_runs(values, starts, tails, np.stack(losses, axis=1))


def rank_losses(below: Integers, upto: Integers, rank: int | Integers) -> Integers:
    """Return how far a rank is from (below, upto]; one row moves it by at most 1."""
    return np.asarray(np.maximum(0, np.maximum(below - rank, rank - upto)), np.int64)


def find_known_rows(values: Floats, rows: Integers) -> tuple[Floats, Integers]:
    """Return the values that are no NaN, with their rows."""
    not_missing = ~np.isnan(values)
    if np.sum(rows, dtype=np.float64) >= ROW_LIMIT:
        raise TooManyRowsError("2**33 rows, the public limit", hint="Split the data into parts.")
    return np.asarray(values[not_missing], np.float64), np.asarray(rows[not_missing], np.int64)


def values_grid(table: BinTable) -> SignificantBits:
    """Return the binning of a table whose bins are values."""
    if isinstance(table.binning, SignificantBits):
        return table.binning
    raise InvalidQuestionError("thresholds need a table of values", hint="Use SignificantBits(16).")
