"""Exact tables of item sets: 0/1 vectors over a public universe, by their ones alone."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.vector_grid import Floats
from dfprivacy.measurement.vector_tables import (
    Integers,
    VectorTable,
    norm_slots,
    shrinking,
)


@dataclass(frozen=True, repr=False)
class ItemRows:
    """A block of item sets: `item` of each entry and the `row` it is in, no pair twice. Secret."""

    rows: int
    row: Integers
    item: Integers

    def __len__(self) -> int:
        """Return how many sets there are, empty ones too."""
        return self.rows


class ItemTable(VectorTable):
    """What one pass over item sets adds up."""

    def _add(self, rows: Any, buffers: Buffers) -> None:  # noqa: ARG002 one interface
        self._add_items(rows)

    @abstractmethod
    def _add_items(self, rows: ItemRows) -> None:
        """Add a block of sets."""


class ItemCounts(ItemTable):
    """How many sets hold each item."""

    def __init__(self, universe: int) -> None:
        super().__init__()
        self.counts = np.zeros(universe, np.int64)

    def _add_items(self, rows: ItemRows) -> None:
        self.counts += np.bincount(rows.item, minlength=len(self.counts))


class ItemNormCounts(ItemTable):
    """How many sets have a norm in each of `bins` equal bins of [0, 2**top).

    An item weighs `scale`, a whole number; squares of all items together stay below 2**53, so that
    squared norms are exact.
    """

    def __init__(self, scale: Floats, top: int, bins: int) -> None:
        super().__init__()
        self._squares = scale**2
        self._scale = bins * 2.0**-top
        self.counts = np.zeros((1, bins + 2), np.int64)

    def _add_items(self, rows: ItemRows) -> None:
        squared = added_up(rows.row, self._squares[rows.item], rows.rows)
        np.add.at(self.counts[0], norm_slots(squared, self._scale, self.counts.shape[1]), 1)


class ItemClippedSums(ItemTable):
    """The sum of scaled sets, each shortened to `threshold`: its L2 sensitivity."""

    def __init__(self, scale: Floats, threshold: float) -> None:
        super().__init__()
        self._own = scale
        self._threshold = threshold
        self.counts = np.zeros(len(scale), np.int64)

    def _add_items(self, rows: ItemRows) -> None:
        values = self._own[rows.item]
        squared = added_up(rows.row, values**2, rows.rows)
        long = squared > self._threshold**2
        factors = np.ones(rows.rows)
        factors[long] = shrinking(squared[long], self._threshold)[:, 0]
        values = np.trunc(values * factors[rows.row])
        self.counts += added_up(rows.item, values, len(self.counts)).astype(np.int64)


def added_up(places: Integers, values: Floats, size: int) -> Floats:
    """Return the sum of whole numbers at each place; float64 even where there are none."""
    return np.bincount(places, values, minlength=size).astype(np.float64, copy=False)
