"""Sums of reports by group: all that an estimator needs, of a size that users do not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dfprivacy.local.distinct import Distinct
from dfprivacy.local.grid_noise import GridLaplace
from dfprivacy.local.response import RandomisedResponse
from dfprivacy.local.sheet import Part, Sheet
from dfprivacy.local.users import Integers

BLOCK = 2**16


@dataclass(frozen=True)
class Tally:
    """The reports of one part, by group.

    `reports` counts them. `counts` has one row a group: for randomised response one column a
    category, for numbers the sums and the sums of squares, in steps from the middle of the grid.
    For vectors it has two rows, the sums and the sums of squares by coordinate.
    """

    reports: Integers
    counts: npt.NDArray[Any]

    def __add__(self, other: Tally) -> Tally:
        """Return both together."""
        return Tally(self.reports + other.reports, self.counts + other.counts)


def tallies(sheet: Sheet, distinct: Distinct) -> tuple[Tally, ...]:
    """Return one tally for each part of a round."""
    return tuple(_tally(part, distinct, whole=len(sheet.parts) == 1) for part in sheet.parts)


def _tally(part: Part, distinct: Distinct, *, whole: bool) -> Tally:
    counted = _counting(part)
    total = counted(np.empty(0, np.int64), distinct.values[:0])
    for start in range(0, len(distinct.groups), BLOCK):
        block = slice(start, start + BLOCK)
        own, values = distinct.groups[block] - np.int32(part.first), distinct.values[block]
        if not whole:
            mine = (own >= 0) & (own < part.ask.groups)
            own, values = own[mine], values[mine]
        total = total + counted(own, values)
    return total


def _counting(part: Part) -> Callable[[Integers, Integers], Tally]:
    """Return what counts one block of reports, their groups numbered from 0."""
    if isinstance(part.law, RandomisedResponse):
        return partial(_categories, part.ask.groups, part.law.categories)
    if isinstance(part.law, GridLaplace):
        return partial(_sums, part.ask.groups, part.law.middle)
    return _vector_sums


def _categories(groups: int, categories: int, own: Integers, values: Integers) -> Tally:
    cells = np.bincount(own * categories + values, minlength=groups * categories)
    counts = cells.reshape(groups, categories)
    return Tally(counts.sum(axis=1), counts)


def _sums(groups: int, middle: int, own: Integers, values: Integers) -> Tally:
    away = (values - middle).astype(np.float64)
    sums = [np.bincount(own, weights=each, minlength=groups) for each in (away, away * away)]
    return Tally(np.bincount(own, minlength=groups), np.stack(sums, axis=1))


def _vector_sums(own: Integers, values: Integers) -> Tally:
    floats = values.astype(np.float64)
    return Tally(np.array([len(own)]), np.stack([floats.sum(axis=0), (floats**2).sum(axis=0)]))
