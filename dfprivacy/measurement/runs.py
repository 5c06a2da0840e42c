"""Find runs: adjacent rows with equal labels.

Every function takes columns of labels, all of the same length, and answers for no rows at all:
there are no runs then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[Any]


def mark_starts(*columns: Labels) -> npt.NDArray[np.bool_]:
    """Mark the first row of each run."""
    marks = np.ones(len(columns[0]), dtype=bool)
    np.not_equal(columns[0][1:], columns[0][:-1], out=marks[1:])
    for labels in columns[1:]:
        marks[1:] |= labels[1:] != labels[:-1]
    return marks


def run_starts(*columns: Labels) -> npt.NDArray[np.int64]:
    """Return the first row of each run."""
    return np.flatnonzero(mark_starts(*columns))


def list_distinct(labels: Labels) -> Labels:
    """Return the different labels, sorted: np.unique hashes integers, in 60 times the time."""
    ordered = np.sort(labels, kind="stable")
    return ordered[run_starts(ordered)]


def run_slices(*columns: Labels) -> Iterator[slice]:
    """Yield the rows of each run."""
    starts = run_starts(*columns).tolist()
    return map(slice, starts, [*starts[1:], len(columns[0])])


Places = npt.NDArray[np.int64]


def bisect_slices(
    read: Callable[[Places], Labels], targets: Labels, first: Places, stop: Places
) -> Places:
    """Return where each target belongs in its slice of an ascending column that `read` reads."""
    low, high = first, stop
    while (is_open := low < high).any():
        middle = (low + high) // 2
        right = is_open & (read(middle) < targets)
        low, high = np.where(right, middle + 1, low), np.where(is_open & ~right, middle, high)
    return low
