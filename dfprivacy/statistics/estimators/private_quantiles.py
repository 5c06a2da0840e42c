"""Find private quantiles of many coordinates at once, and thresholds of norms, from counts in bins.

Coordinates are searched by noisy counts: PrivQuant of Huang, Liang and Yi 2021 (Section 3.2, with
the noisy counts of their Theorem 1). A bin scores by the rows up to it and all rows: negative below
the median, positive above. A threshold, one number, is selected by the exponential
mechanism of Smith 2011, which seldom strays among empty bins. A `Relation` says what neighboring
sets of vectors are, and what follows for sensitivities. Proofs: docs/how-to/vectors.md.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Rho
from dfprivacy.measurement.vectors import (
    CoordinateCounts,
    Floats,
    Integers,
    Rotation,
    VectorTable,
    Windows,
)
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.laws import DiscreteGaussian
from dfprivacy.noise.race import Runs
from dfprivacy.noise.selection import ExponentialMechanism


@dataclass(frozen=True)
class NoisyRows:
    """The number of rows, as known after a release: with its noise, or public. Public."""

    value: int
    noise: DiscreteGaussian | None

    @property
    def minimum(self) -> int:
        """The number by which a sum is divided: at least 1."""
        return max(self.value, 1)

    def interval(self, outside: float) -> tuple[int, int]:
        """Return numbers between which the rows lie, up to a probability."""
        half = 0 if self.noise is None else self.noise.quantile(outside)
        return max(self.value - half, 0), self.value + half


Halvings = tuple[int, ...]


@dataclass(frozen=True)
class Relation:
    """A neighbor relation on tables of vectors.

    A sum of vectors of norm at most C moves by at most `sum_factor` times C in L2 norm, and twice
    the rows up to a bin, less all rows, by `median_moves`. Rows that are no whole vectors count as
    zeros if it `keeps_incomplete`, else not at all. Where it has `secret_rows` their number is paid
    for.
    """

    sum_factor: int
    median_moves: int
    keeps_incomplete: bool
    secret_rows: bool

    def count_rows(
        self, rows: NoisyRows | None, exact: int, rho: Fraction
    ) -> tuple[NoisyRows, Fraction]:
        """Return the number of rows, free where it is public, else for `rho` (sensitivity 1)."""
        if rows is not None:
            return rows, Fraction(0)
        if not self.secret_rows:
            return NoisyRows(exact, None), Fraction(0)
        noise = Rho(rho).noise(1, 1)
        noisy = add_to(np.array([exact], np.int64), noise)
        return NoisyRows(int(noisy[0]), noise), rho

    def search(
        self, counts: Integers, values: int, rho: Fraction, *, is_public: bool = False
    ) -> Integers:
        """Return the bin of the median of each coordinate, by a binary search over noisy counts.

        A row of `counts` has the rows below, in each of 2**T bins, and above. Secret. Each of T
        steps costs rho / T for all coordinates together. If the number of `values` `is_public`, a
        neighbor has one value in another place.
        """
        times, half, moves = (1, values // 2, 1) if is_public else (2, values, self.median_moves)
        size, width = counts.shape[0], counts.shape[1] - 2
        upto = np.cumsum(counts, axis=1)
        low, every = np.zeros(size, np.int64), np.arange(size)
        if width == 1:
            return low
        step = Rho(rho).share(Fraction(1, size * (width.bit_length() - 1)))
        noise = step.noise(moves, moves**2)
        while width > 1:
            width //= 2
            scores = times * upto[every, low + width] - half  # up to bin low + width - 1
            low += np.where(add_to(scores, noise) <= 0, width, 0)
        return low

    def find_medians(
        self,
        size: int,
        bits: int,
        halvings: Halvings,
        rho: Fraction,
        rotation: Rotation | None = None,
    ) -> Generator[VectorTable, None, tuple[Floats, int]]:
        """Return the median of each coordinate, and the exact number of rows of the first pass.

        Coordinates lie between -2**bits and 2**bits. Each pass splits the bin chosen by the one
        before into 2**h bins, h in `halvings`, and costs h parts of rho. The number of rows is
        secret.
        """
        windows = Windows(np.full(size, -math.ldexp(1.0, bits)), bits + 1, 1)
        chosen, rows = np.zeros(size, np.int64), 0
        for halvings_of_pass in halvings:
            windows = windows.within(chosen, 1 << halvings_of_pass)
            table = CoordinateCounts(windows, rotation)
            yield table
            rows = rows or table.rows
            part = rho * Fraction(halvings_of_pass, sum(halvings))
            chosen = self.search(table.counts, table.rows, part)
        return windows.middles(chosen), rows

    def threshold(self, counts: Integers, rank: int, rho: Fraction) -> int:
        """Return a bin, beyond which about `rank` rows lie: the exponential mechanism over bins.

        The loss of a bin is by how many rows it misses: those beyond it that are more than `rank`,
        or those from it on that are fewer. A row moves either by 1 at most.
        """
        rows_beyond = counts.sum() - np.cumsum(counts)
        losses = np.maximum(np.maximum(rows_beyond - rank, rank - rows_beyond - counts), 0)
        candidates = np.arange(len(counts))
        runs = Runs(np.array([0]), candidates, np.ones_like(candidates), losses)
        return int(ExponentialMechanism.for_rho(rho, 1).select(runs)[0])


RELATIONS = {
    "add-remove": Relation(1, 1, keeps_incomplete=False, secret_rows=True),
    "replace": Relation(2, 2, keeps_incomplete=True, secret_rows=False),
}


SURE = 16
"""Of 2**10 bins, those whose loss times half of epsilon is beyond this are chosen together with a
probability below 2**10 exp(-16), one in 8,000."""


def margin(rho: Fraction) -> float:
    """Return by how many ranks a threshold that costs `rho` is hardly ever off."""
    return 2 * SURE / math.sqrt(8 * rho)


def rows_for_medians(size: int, halvings: int, rho: Fraction, relation: Relation) -> int:
    """Return the number of rows below which medians of `size` coordinates are mostly noise.

    Five standard deviations of the noise, in ranks, reach half of so many rows: a search asks
    thousands of counts, and one that runs off spoils the center.
    """
    return math.ceil(5 * relation.median_moves * math.sqrt(size * halvings / (2 * rho)))
