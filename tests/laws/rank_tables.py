"""Small tables of ranks, and the loss of every candidate."""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.measurement.bin_table import bin_table

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
LEVELS = [Fraction(0), Fraction(1, 10), THIRD, HALF, Fraction(2, 3), Fraction(1)]
SURE = Epsilon(Fraction(1000))


@dataclass(frozen=True)
class Line:
    """The integers from -last to last, each its own label."""

    last: int

    def numbers(self, labels):
        return labels.astype(np.int64)


def table_of(groups, binning=Line(2)):
    """Make a table from one list of bin numbers a group."""
    group = np.repeat(np.arange(len(groups)), [len(rows) for rows in groups])
    numbers = np.array([number for rows in groups for number in rows], np.int64)
    labels = numbers.astype(float) if isinstance(binning, Line) else binning.values(numbers)
    ones = np.ones(len(numbers), np.int64)
    return bin_table(pa.table({}), len(groups), binning, group, labels, rows=ones)


def expanded(runs):
    """Return the loss of each candidate, one dictionary a group; no candidate comes twice."""
    stops = [*runs.group_starts[1:].tolist(), len(runs.first)]
    found = []
    for low, high in zip(runs.group_starts.tolist(), stops, strict=True):
        losses = {}
        for run in range(low, high):
            first = int(runs.first[run])
            for candidate in range(first, first + int(runs.length[run])):
                assert candidate not in losses
                losses[candidate] = int(runs.loss[run])
        found.append(losses)
    return found


def relative_loss(rows, candidate, q):
    a, b = q.numerator, q.denominator
    below = sum(row < candidate for row in rows)
    upto = sum(row <= candidate for row in rows)
    return max(0, b * below - a * len(rows), a * len(rows) - b * upto)


def multisets(last, most):
    for size in range(most + 1):
        yield from itertools.combinations_with_replacement(range(-last, last + 1), size)
