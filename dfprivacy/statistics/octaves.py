"""Sums, means and variances without bounds: one octave table, bounds by group, then the answers.

A part of the loss pays for a noisy histogram of octaves, off which each group's bounds are read;
the rest pays for the answers within these bounds, from the same table. Proof: docs/octaves.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.bins import run_bins
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.estimators.estimator import CountEstimator, Estimator
from dfprivacy.estimators.octave_bounds import CORE, SHARE, FoundBounds, find_bounds
from dfprivacy.forecast.forecast import Circumstances, Forecast, Reach, reaching
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.measurement.octave_sums import (
    fits_octaves,
    octave_statistics,
    powers_needed,
    with_slack,
)
from dfprivacy.noise.additive import NoisyVector, add_noise
from dfprivacy.noise.keys import KeyRule
from dfprivacy.noise.laws import DiscreteLaplace, Noise
from dfprivacy.release.answers import NO_COUNT, UNKNOWN, Counted, CountPiece, Estimated, Piece
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.linear import LinearStatistic, Vectors, forecast_of, vectors_of
from dfprivacy.statistics.part import Answered, Bins, Grouping, MeasuredTable
from dfprivacy.terms import Bounds

_ANY = Bounds(-1, 1)
"""Stands for bounds where only the form of a plan matters, and where none were found."""


@dataclass(frozen=True)
class OctavePart:
    """Questions about one column, whose bounds are found first."""

    column: Hashable
    questions: Mapping[str, LinearStatistic]
    grouped: bool

    def vectors(self, bounds: Bounds) -> Vectors:
        """Return the vectors that answer the questions within bounds."""
        asked = {name: question.within(bounds) for name, question in self.questions.items()}
        vectors = vectors_of(asked, grouped=self.grouped)
        if not all(fits_octaves(linear) or not linear.source.terms for linear in vectors.linears):
            next(iter(asked.values())).required_bounds()
            raise InvalidQuestionError(
                "bounds can't be found for this question", hint="pass bounds=(0, 100)"
            )
        return replace(vectors, linears=tuple(with_slack(linear) for linear in vectors.linears))

    @cached_property
    def _form(self) -> Vectors:
        return self.vectors(_ANY)

    @property
    def weight(self) -> Fraction:
        """One for each vector that answers."""
        return Fraction(len(self._form.linears))

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The columns it reads, and whether as numbers."""
        return {self.column: True}

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """One answer a question; each has an interval."""
        return {name: {name: True} for name in self.questions}

    @property
    def counts(self) -> bool:
        """Tell whether a vector can count groups."""
        return self._form.counts

    @property
    def answers_count(self) -> bool:
        """Tell whether one of the answers is the count that groups are selected by."""
        return any(isinstance(question, Count) for question in self.questions.values())

    @property
    def moments(self) -> int:
        """How many powers of the values it adds up."""
        return max([1, *map(powers_needed, self._form.linears)])

    @property
    def tables(self) -> tuple[Bins, ...]:
        """The one way its table counts."""
        return ((Octaves(), self.moments),)

    def measured(self, table: BinTable) -> MeasuredOctaves:
        """Return what it would have measured, from its table."""
        return MeasuredOctaves(self, table)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        return self.vectors(Bounds(0, 1)).count_noise(loss.share(1 - SHARE))

    def draws(self) -> list[tuple[tuple[str, ...], Fraction]]:
        """Return all questions: bounds and answers are paid for together."""
        return [(tuple(self.questions), Fraction(1))]

    def forecasts(
        self, loss: Epsilon | Rho, asked: Mapping[str, Statistic], known: Circumstances
    ) -> list[Forecast]:
        """Return the forecast of each answer, in widths of the bounds that are found first."""
        found = bounds_reach(loss.share(SHARE).pure())
        remarks: tuple[str, ...] = (
            "sizes count the rows of one octave, in which the bounds are found",
        )
        if self.grouped:
            lend = "other groups use the middle of the bounds that are found"
            remarks = (f"bounds are found {found} in one octave", lend)
        made = []
        for name, question in self.questions.items():
            vectors = self.vectors(question.stand_in)
            answer = next(own for own in vectors.answers if own.name == name)
            noise = vectors.noises(loss.share(1 - SHARE))[answer.vector]
            linear, unit = vectors.linears[answer.vector], question.unit(found=True)
            own = forecast_of(answer, (linear, noise), asked[name], known, unit=unit)
            law = f"{own.mechanism} within bounds from a noisy histogram of octaves"
            reach = None if self.grouped else found
            made.append(replace(own.noted(*remarks), answered=reach, mechanism=law))
        return made

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredOctaves:
        """Run the pass: one GROUP BY the keys and the octave."""
        table = run_bins(
            adopted, grouping.by, self.column, Octaves(), self.moments, public=grouping.public
        )
        return MeasuredOctaves(self, table)


def bounds_reach(epsilon: Fraction) -> Reach:
    """Return how many rows one octave needs for bounds around it."""
    noise = DiscreteLaplace(1 / epsilon)
    return reaching(math.ceil(CORE * noise.scale), noise)


@dataclass(frozen=True, repr=False)
class MeasuredOctaves(MeasuredTable):
    """An octave table. Secret."""

    part: OctavePart
    table: BinTable

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:
        """Find bounds, answer within them; groups without bounds borrow those of the others."""
        found, cells = self._within_found(loss)
        missing = np.flatnonzero(~found.found)
        if len(missing):
            cells.append(self._borrowed(found, cells, missing, loss.share(1 - SHARE), rule))
        return Answered(self.keys, self._answers(cells), self._counted(cells))

    def answer_apart(self, loss: Epsilon | Rho) -> Answered:
        """Find bounds, answer within them; a group without bounds has no answer.

        What is said of a group depends on its own rows alone, whichever others are shown.
        """
        _, cells = self._within_found(loss)
        return Answered(self.keys, self._answers(cells), self._counted(cells))

    def _within_found(self, loss: Epsilon | Rho) -> tuple[FoundBounds, list[Cell]]:
        """Find the bounds of each group, and answer for those groups that have some."""
        epsilon = loss.share(SHARE).pure()
        found = find_bounds(self.table, epsilon)
        rest = loss.share(1 - SHARE)
        return found, [self._cell(b, groups, rest) for b, groups in bounds_classes(found)]

    def _cell(self, bounds: Bounds | None, groups: Integers, loss: Epsilon | Rho) -> Cell:
        """Answer for groups with the same bounds; None where there are none to be had."""
        vectors = self.part.vectors(_ANY if bounds is None else bounds)
        sources = tuple(dict.fromkeys(linear.source for linear in vectors.linears))
        keys = (
            self.table.keys.take(pa.array(groups)) if self.table.keys.num_columns else pa.table({})
        )
        exact = octave_statistics(self.table, keys, groups, sources)
        noisy = add_noise(exact, vectors.linears, vectors.noises(loss))
        unknown = UnknownEstimator() if bounds is None else None
        pieces = {
            a.name: Piece(groups, _known(a.estimator, unknown), noisy.vectors[a.vector])
            for a in vectors.answers
        }
        if not self.part.counts:
            return Cell(pieces, None)
        vector, weights = vectors.counting()
        return Cell(pieces, CountPiece(groups, noisy.vectors[vector], weights))

    def _borrowed(
        self,
        found: FoundBounds,
        cells: list[Cell],
        missing: Integers,
        loss: Epsilon | Rho,
        rule: KeyRule | None,
    ) -> Cell:
        """Answer within the middle of the bounds of those groups that are shown."""
        shown = np.flatnonzero(found.found)
        counts = [cell.count for cell in cells if cell.count is not None]
        if rule is not None:
            shown = Counted(self.table.groups, tuple(counts)).kept(rule)
        return self._cell(_middle(found, shown), missing, loss)

    def _answers(self, cells: list[Cell]) -> dict[str, tuple[Estimated]]:
        return {
            name: (
                Estimated(
                    name,
                    self.table.groups,
                    tuple(cell.pieces[name] for cell in cells),
                    NO_COUNT if isinstance(question, Count) else UNKNOWN,
                ),
            )
            for name, question in self.part.questions.items()
        }

    def _counted(self, cells: list[Cell]) -> Counted | None:
        counts = tuple(cell.count for cell in cells if cell.count is not None)
        return Counted(self.table.groups, counts) if self.part.counts else None


@dataclass(frozen=True)
class Cell:
    """The answers of groups with the same bounds, and their count. Public."""

    pieces: Mapping[str, Piece]
    count: CountPiece | None


def _known(estimator: Estimator, unknown: UnknownEstimator | None) -> Estimator:
    is_count = isinstance(estimator, CountEstimator)
    return estimator if unknown is None or is_count else unknown


def bounds_classes(found: FoundBounds) -> Iterator[tuple[Bounds, Integers]]:
    """Yield each pair of bounds with the groups that have it: at most some hundred pairs."""
    groups = np.flatnonzero(found.found)
    codes = (_code(found.lower[groups]) << 12) | _code(found.upper[groups])
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for same in np.split(order, starts[1:]) if len(order) else []:
        first = groups[same[0]]
        yield Bounds(float(found.lower[first]), float(found.upper[first])), groups[same]


def _code(edges: Floats) -> Integers:
    """Return sign and exponent of powers of two and zeros."""
    return ((edges + 0.0).view(np.int64) >> 52) & 0xFFF


def _middle(found: FoundBounds, shown: Integers) -> Bounds | None:
    """Return the middle one of the lower and of the upper bounds; None without any."""
    if not len(shown):
        return None
    lower = np.sort(found.lower[shown])[(len(shown) - 1) // 2]
    upper = np.sort(found.upper[shown])[len(shown) // 2]
    if not lower < upper:
        lower, upper = found.lower[shown].min(), found.upper[shown].max()
    return Bounds(float(lower), float(upper))


@dataclass(frozen=True)
class UnknownEstimator:
    """Not a number, anywhere between minus and plus infinity."""

    def value(self, vector: NoisyVector) -> Floats:
        """Return NaN for each group."""
        return self._all(vector, np.nan)

    def interval(self, vector: NoisyVector, level: float) -> tuple[Floats, Floats]:  # noqa: ARG002 one interface
        """Return the whole line."""
        return self._all(vector, -np.inf), self._all(vector, np.inf)

    def standard_error(self, vector: NoisyVector) -> Floats:
        """Return infinity."""
        return self._all(vector, np.inf)

    @staticmethod
    def _all(vector: NoisyVector, value: float) -> Floats:
        return np.full(vector.coordinates.shape[1], value)
