"""PLAN for item sets: 0/1 vectors over a public universe, never made dense.

Source: Aumueller et al. 2023, Section 7.1, binary instance: deviations from private means, no
centre. Charged as in docs/vectors.md.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dfprivacy.accounting.loss import Rho
from dfprivacy.estimators.clipped_mean import LARGEST_RANK, Passes
from dfprivacy.estimators.noisy_mean import NoisyMean
from dfprivacy.estimators.private_quantiles import Mechanics, RowsAbove
from dfprivacy.estimators.relations import NoisyRows
from dfprivacy.measurement.item_tables import ItemClippedSums, ItemCounts, ItemNormCounts
from dfprivacy.measurement.vector_grid import Floats
from dfprivacy.measurement.vector_tables import VectorTable
from dfprivacy.noise.additive import add_to
from dfprivacy.noise.laws import DiscreteGaussian

TOP = 26
"""Scaled norms are below 2**26: squares of them are exact in float64."""

NORM_HALVINGS = 16


@dataclass(frozen=True)
class ItemBudget:
    """What each part of rho pays for; they add up to one."""

    means: Fraction
    rows: Fraction
    threshold: Fraction

    @property
    def sums(self) -> Fraction:
        """What is left, for the sum."""
        return 1 - self.means - self.rows - self.threshold


def item_budget(universe: int, relation_pays_rows: Fraction) -> ItemBudget:
    """Return the paper's shares under replace; under add-remove n and the threshold get more."""
    if not relation_pays_rows:
        return ItemBudget(Fraction(1, 10), Fraction(0), Fraction(9, 10) / (universe + 1))
    return ItemBudget(Fraction(1, 10), Fraction(1, 100), Fraction(4, 100))


@dataclass(frozen=True)
class PlanItems:
    """The part of the sets that holds each item, with less noise where that is near 0 or 1.

    Of rho, a tenth pays for first means, whose deviations set the scale; under add-remove 1% for
    the number of sets, 4% for the threshold, and the rest for the sum. Without `p` all items weigh
    the same, and nothing is spent on means: the clipped mean. Privacy: rho-zCDP for the relation
    of `mechanics`.
    """

    universe: int
    rho: Fraction
    mechanics: Mechanics
    p: Fraction | None = Fraction(1)
    norm_halvings: int = NORM_HALVINGS

    def passes(self, rows: NoisyRows | None = None) -> Passes:
        """Ask for counts, norms and sums; return the mean."""
        budget = item_budget(self.universe, self.mechanics.relation.count_share)
        counts = ItemCounts(self.universe)
        yield counts
        sum_rho = self.rho * budget.sums
        if rows is None:
            cost = self.rho * budget.rows
            rows = self.mechanics.relation.noisy_rows(counts.rows, cost, self.mechanics.entropy)
        else:
            sum_rho += self.rho * budget.rows
        weights = np.ones(self.universe)
        if self.p is None:
            sum_rho += self.rho * budget.means
        else:
            means = self._first_means(counts, rows, self.rho * budget.means)
            weights = (means * (1 - means)) ** (-1 / (float(self.p) + 2))
        scale = np.floor(weights * (2.0**TOP / math.sqrt(float(np.sum(weights**2)))))
        return (yield from self._clipped(scale, rows, self.rho * budget.threshold, sum_rho))

    def _first_means(self, counts: ItemCounts, rows: NoisyRows, rho: Fraction) -> Floats:
        """Return private means, away from 0 and 1. A set moves the counts by sqrt(d) at most."""
        noise = Rho(rho).noise(self.universe, self.universe)
        noisy = add_to(counts.counts, noise, self.mechanics.entropy).astype(np.float64)
        least = min(self.universe**-0.4, 0.5)
        return np.clip(noisy / rows.least, least, 1 - least)

    def _clipped(
        self, scale: Floats, rows: NoisyRows, threshold_rho: Fraction, sum_rho: Fraction
    ) -> Generator[VectorTable, None, NoisyMean]:
        mechanics, halvings = self.mechanics, self.norm_halvings
        norms = ItemNormCounts(scale, TOP, 1 << halvings)
        yield norms
        margin = math.sqrt(math.log(halvings)) * mechanics.choose.margin(halvings, threshold_rho)
        rank = min(math.ceil(math.sqrt(rows.least) + margin), LARGEST_RANK)
        if rows.noise is None:
            rank = max(min(rank, rows.value - 1), 0)
        chosen = mechanics.bins(norms, RowsAbove(rank), threshold_rho)
        threshold = Fraction(int(chosen[0]) + 1) * Fraction(2) ** (TOP - halvings)
        sums = ItemClippedSums(scale, float(threshold))
        yield sums
        noise = DiscreteGaussian((mechanics.relation.sum_factor * threshold) ** 2 / (2 * sum_rho))
        noisy = add_to(sums.counts, noise, mechanics.entropy)
        return NoisyMean(
            np.zeros(self.universe),
            scale,
            1.0,
            float(threshold),
            noisy,
            noise,
            rows,
            2 * rank,
            0.0,
            1.0,
        )
