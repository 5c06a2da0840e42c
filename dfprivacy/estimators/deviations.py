"""Private standard deviations of coordinates: for Gaussian data, and for any with four moments.

Source: Aumueller et al. 2023, Section 7.1 and Appendix D (Algorithm 2). Their groups of rows break
when a row is added, as all later rows move on; the add-remove forms here are distances to the
centre (Gaussian) and buckets drawn at random (generic). Proofs: docs/vectors.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction

from dfprivacy.estimators.private_quantiles import MEDIAN, Mechanics, PublicTotal
from dfprivacy.estimators.relations import NoisyRows
from dfprivacy.measurement.spread_tables import (
    BucketSpreads,
    Distances,
    PairDistances,
    distance_of,
)
from dfprivacy.measurement.vector_grid import Floats, VectorGrid
from dfprivacy.measurement.vector_tables import Integers, VectorTable
from dfprivacy.noise.coins import random_labels

Deviations = Generator[VectorTable, None, Floats]

NORMAL_MEDIAN = statistics.NormalDist().inv_cdf(0.75)
"""The median of |x| for a standard normal x, 0.6745."""

PAIRS = 2
"""Pairs of rows behind one value of the generic estimator: the constant k of the paper."""

ROWS_A_BUCKET = 4
MOST_BUCKETS = 4096
MOST_SUMS = 2**24
"""Buckets times dimension: a quarter of a GiB of sums and squares."""


@dataclass(frozen=True)
class Spread:
    """Where spreads are measured: the grid, the private centre, and the number of rows so far."""

    grid: VectorGrid
    centre: Floats
    rows: NoisyRows

    @property
    def bits(self) -> int:
        """Distances are below 2**bits."""
        return self.grid.bits + 2


def gaussian_deviations(spread: Spread, rho: Fraction, mechanics: Mechanics) -> Deviations:
    """Return sigma_j by the median of |x_j - centre_j|: 0.6745 sigma_j for normal data.

    Under the replace relation, by the median of |x_j - x'_j| over pairs of rows, as in the paper.
    """
    if spread.rows.noise is None:
        pairs = PairDistances(spread.grid.dimension, spread.bits, 1)
        yield pairs
        chosen = _of_groups(pairs.counts, pairs.groups, rho, mechanics)
        return distance_of(chosen) / (2**0.5 * NORMAL_MEDIAN)
    table = Distances(spread.centre, spread.bits)
    yield table
    return distance_of(mechanics.bins(table, MEDIAN, rho)) / NORMAL_MEDIAN


def generic_deviations(spread: Spread, rho: Fraction, mechanics: Mechanics) -> Deviations:
    """Return sigma_j up to a constant factor, for any data with a bounded fourth moment.

    The median over groups of the sample deviation of a few rows; no factor corrects it for a law.
    Under add-remove each row draws its bucket, independently of all others, and the number of
    buckets follows from the noisy number of rows; under replace groups are consecutive rows.
    """
    if spread.rows.noise is None:
        pairs = PairDistances(spread.grid.dimension, spread.bits, PAIRS)
        yield pairs
        return distance_of(_of_groups(pairs.counts, pairs.groups, rho, mechanics)) / 2**0.5
    most = min(MOST_BUCKETS, max(MOST_SUMS // spread.grid.dimension, 1))
    buckets = min(max(spread.rows.value // ROWS_A_BUCKET, 1), most)
    table = BucketSpreads(
        spread.centre, buckets, spread.bits,
        lambda size: random_labels(size, buckets, mechanics.entropy),
    )  # fmt: skip
    yield table
    return distance_of(_of_groups(table.distances(), buckets, rho, mechanics))


def _of_groups(counts: Integers, groups: int, rho: Fraction, mechanics: Mechanics) -> Integers:
    return mechanics.choose.bins(
        counts,
        groups,
        target=PublicTotal(groups),
        relation=mechanics.relation,
        rho=rho,
        entropy=mechanics.entropy,
    )
