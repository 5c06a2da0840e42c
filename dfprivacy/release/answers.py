"""Answers by group, before they become numbers or frames. Public: noise is in them already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.linear import CountWeights
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import KeyRule
from dfprivacy.release.estimator import CountEstimator, Estimator

Column = npt.NDArray[Any]


def everyone(groups: int) -> Integers:
    """Return the numbers of all groups."""
    return np.arange(groups, dtype=np.int64)


class Answer(Protocol):
    """One named answer for every group of a release."""

    @property
    def name(self) -> str:
        """What the answer is called."""

    def columns(self, level: float) -> list[Column]:
        """Return value, low and high of each group; the value alone where there is no interval.

        A note of each group comes last where the question has some: see `Piece`.
        """


@dataclass(frozen=True)
class Piece:
    """The estimates of some groups: their numbers, and the noisy vector they are read off.

    `notes` says of each group where its interval can't be relied on; None where it always can.
    """

    groups: Integers
    estimator: Estimator
    vector: NoisyVector
    notes: Sequence[str] | None = None


UNKNOWN = (np.nan, -np.inf, np.inf)
"""Value, low and high where there is no answer."""

NO_COUNT = (np.int64(0), -np.inf, np.inf)
"""The same for a count, which is an integer."""


@dataclass(frozen=True)
class Estimated:
    """An answer read off noisy sums; a group that is in no piece has `blank`, of the same dtype.

    `has_notes` tells whether each group has a note.
    """

    name: str
    groups: int
    pieces: tuple[Piece, ...]
    blank: tuple[Any, Any, Any] = UNKNOWN
    has_notes: bool = False

    def columns(self, level: float) -> list[Column]:
        """Return value, low and high of each group, and its note where it has notes."""
        parts = [
            (piece.groups, (piece.estimator.value(piece.vector),
                            *piece.estimator.interval(piece.vector, level)))
            for piece in self.pieces
        ]  # fmt: skip
        made = [
            _scattered(
                [(groups, own[index]) for groups, own in parts], self.groups, self.blank[index]
            )
            for index in range(3)
        ]
        return [*made, self._notes()] if self.has_notes else made

    def _notes(self) -> Column:
        """Return the note of each group, empty for most."""
        notes = np.full(self.groups, "", dtype=object)
        for piece in self.pieces:
            if piece.notes is not None:
                notes[piece.groups] = piece.notes
        return notes


def _scattered(parts: Sequence[tuple[Integers, Column]], groups: int, blank: Any) -> Column:
    if len(parts) == 1 and len(parts[0][0]) == groups:
        return parts[0][1]
    column = np.full(groups, blank)
    for places, values in parts:
        column[places] = values
    return column


@dataclass(frozen=True)
class Chosen:
    """An answer that a selection has chosen: it has no interval."""

    name: str
    values: Column

    def columns(self, level: float) -> list[Column]:  # noqa: ARG002 one interface for all answers
        """Return the value of each group."""
        return [self.values]


@dataclass(frozen=True)
class CountPiece:
    """The noisy counts of some groups."""

    groups: Integers
    vector: NoisyVector
    weights: CountWeights

    def kept(self, rule: KeyRule) -> Integers:
        """Return the groups whose noisy count shows that more than one unit may be behind them.

        A group that one unit alone has made stays with probability at most delta, by the exact
        tail of the noise (docs/keys.md).
        """
        terms = len(self.weights.indices)
        least = rule.least(self.vector.noise, self.weights.divisor, terms)
        return self.groups[np.flatnonzero(self.vector.total(self.weights.indices) >= least)]


@dataclass(frozen=True)
class Counted:
    """The noisy count of every group, which decides what a release with secret keys shows."""

    groups: int
    pieces: tuple[CountPiece, ...]

    def kept(self, rule: KeyRule) -> Integers:
        """Return the groups that may be shown, ascending."""
        found = [piece.kept(rule) for piece in self.pieces]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    def column(self) -> Column:
        """Return the count of each group; 0 for a group that was not counted."""
        column = np.zeros(self.groups, dtype=np.int64)
        for piece in self.pieces:
            column[piece.groups] = CountEstimator(piece.weights).value(piece.vector)
        return column
