"""Candidates as runs of neighbours with equal loss: what a selection chooses from. Secret."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.measurement.binning import Integers
from dfprivacy.noise.race import LARGEST_LENGTH, group_sizes

LARGEST_LOSS = 2**53
"""Losses are below it, so that float64 holds their differences."""

BLOCK = 2**14
"""Runs a block, unless one group has more: its buffers stay in the processor's cache."""


@dataclass(frozen=True, eq=False, repr=False)
class Runs:
    """The candidates of many groups, as runs of neighbours with equal loss. Secret.

    What a group may choose from, the union of its runs, has to be public and the same on
    neighbouring data; where its runs begin and end, and their losses, may depend on the data.

    Parameters
    ----------
    group_starts : numpy.ndarray
        int64, one a group: where its runs begin in the other three arrays. Ascending from 0, so
        that every group has a run.
    first : numpy.ndarray
        int64, one a run: its first candidate.
    length : numpy.ndarray
        int64, one a run: how many candidates it has, from 1 to 2**62 - 1.
    loss : numpy.ndarray
        int64, one a run: the loss of each of its candidates, from 0 to 2**53 - 1.

    Raises
    ------
    InvalidQuestionError
        When the arrays are not of this form. The message is the same for all of them.

    Examples
    --------
    >>> import numpy as np
    >>> Runs(np.array([0]), np.array([0, 10]), np.array([10, 5]), np.array([3, 0]))
    Runs(secret)
    """

    group_starts: Integers
    first: Integers
    length: Integers
    loss: Integers

    def __post_init__(self) -> None:
        """Refuse arrays that are not runs, without a word about their values."""
        if not (_are_columns(self) and _are_groups(self) and _are_in_range(self)):
            raise InvalidQuestionError(
                "these arrays are not runs of candidates",
                hint="Pass four int64 arrays as the docstring of Runs describes them.",
            )

    def __repr__(self) -> str:
        """Show nothing: even the number of runs is secret."""
        return "Runs(secret)"


def blocks(starts: Integers, total: int) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of whole groups, as slices of the groups and of their runs."""
    if not total:
        return
    wanted = np.arange(0, total, BLOCK)
    cuts = np.unique(np.searchsorted(starts, wanted, side="right") - 1).tolist()
    edges = starts[cuts].tolist()
    for low, high, left, right in zip(
        cuts, [*cuts[1:], len(starts)], edges, [*edges[1:], total], strict=True
    ):
        yield slice(low, high), slice(left, right)


def _are_columns(runs: Runs) -> bool:
    arrays = (runs.group_starts, runs.first, runs.length, runs.loss)
    return all(
        isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype == np.int64
        for array in arrays
    ) and len(runs.first) == len(runs.length) == len(runs.loss)


def _are_groups(runs: Runs) -> bool:
    starts, total = runs.group_starts, len(runs.first)
    if not len(starts):
        return total == 0
    return bool(starts[0] == 0 and group_sizes(starts, total).min() > 0)


def _are_in_range(runs: Runs) -> bool:
    if not len(runs.first):
        return True
    largest = np.iinfo(np.int64).max
    return bool(
        runs.length.min() >= 1
        and runs.length.max() < LARGEST_LENGTH
        and runs.loss.min() >= 0
        and runs.loss.max() < LARGEST_LOSS
        and (runs.first <= largest - (runs.length - 1)).all()
    )
