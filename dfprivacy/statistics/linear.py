"""Measure counts, and sums, means and variances within bounds: noisy vectors that questions share.

Questions about one column with the same bounds are answered by one vector: the variance brings
the mean and the count with it, the mean brings the count. What is left shares the loss evenly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.keys import align
from dfprivacy.engine.sums import exact_sums
from dfprivacy.estimators.estimator import CountEstimator, Draw, Foreseen
from dfprivacy.forecast.forecast import (
    SIZES,
    Circumstances,
    Forecast,
    Reach,
    by_size,
    halving,
    reaching,
)
from dfprivacy.measurement.linear import CountWeights, Linear
from dfprivacy.measurement.sums import Statistics
from dfprivacy.noise.additive import add_noise
from dfprivacy.noise.keys import KeyRule
from dfprivacy.noise.laws import Noise, name_of, spread_of
from dfprivacy.release.answers import Counted, CountPiece, Estimated, Piece, everyone
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.part import Answered, Grouping
from dfprivacy.terms import Bounds


class LinearStatistic(Statistic):
    """A statistic that is read off one noisy vector of exact sums."""

    has_interval: ClassVar[bool] = True
    stand_in: ClassVar[Bounds] = Bounds(0, 1)
    """Bounds in whose place those that are found come, for forecasts in widths of them."""

    @abstractmethod
    def linear(self, *, grouped: bool) -> Linear:
        """Return what a row adds, and how far it moves the sums."""

    @abstractmethod
    def estimator(self, linear: Linear) -> Foreseen:
        """Return what reads the answer off the noisy vector."""

    def carried(self, other: Statistic, linear: Linear) -> Foreseen | None:  # noqa: ARG002 none by default
        """Return what reads another question's answer off this one's vector, if it is there."""
        return None

    def unit(self, *, found: bool = False) -> str:
        """Return in what the answer is measured; `found` where its bounds are found first."""
        return "widths of the bounds found" if found else f"units of {self.column!r}"

    @property
    def finds_bounds(self) -> bool:
        """Tell whether its bounds are found first, from the octaves of the values."""
        return getattr(self, "bounds", self) is None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else to know of its half-widths."""
        return ()

    def part(self, name: str, *, grouped: bool) -> LinearPart:
        """Return the part that answers this question alone."""
        return LinearPart({name: self}, grouped)


@dataclass(frozen=True)
class Read:
    """One answer: its name, the vector that it is read off and the estimator that reads it."""

    name: str
    vector: int
    estimator: Foreseen


@dataclass(frozen=True)
class Vectors:
    """The vectors of some questions, and the answers read off them."""

    linears: tuple[Linear, ...]
    answers: tuple[Read, ...]

    def noises(self, loss: Epsilon | Rho) -> list[Noise]:
        """Return each vector's noise when all of them share the loss evenly."""
        share = loss.share(Fraction(1, len(self.linears)))
        return [share.noise(linear.l1, linear.l2_squared) for linear in self.linears]

    def counting(self) -> tuple[int, CountWeights]:
        """Return the vector that counts groups: a plain count, else the first that can."""
        able = [(i, own.count) for i, own in enumerate(self.linears) if own.count is not None]
        plain = [(i, weights) for i, weights in able if not self.linears[i].source.terms]
        return (plain or able)[0]

    @property
    def counts(self) -> bool:
        """Tell whether a vector can count groups."""
        return any(linear.count is not None for linear in self.linears)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        vector, weights = self.counting()
        return self.noises(loss)[vector], weights.divisor, len(weights.indices)


def vectors_of(questions: Mapping[str, LinearStatistic], *, grouped: bool) -> Vectors:
    """Return the vectors that answer the questions, in their order.

    Raises
    ------
    MissingBoundsError
        When a question needs bounds and has none.
    """
    own = {name: question.linear(grouped=grouped) for name, question in questions.items()}
    linears: list[Linear] = []
    answers = []
    for name, question in questions.items():
        carrier = _carrier(name, questions, own)
        linear, estimator = own[carrier], None
        if carrier != name:
            estimator = questions[carrier].carried(question, linear)
        if linear not in linears:
            linears.append(linear)
        answers.append(Read(name, linears.index(linear), estimator or question.estimator(linear)))
    return Vectors(tuple(linears), tuple(answers))


def _carrier(name: str, questions: Mapping[str, LinearStatistic], own: Mapping[str, Linear]) -> str:
    """Return the question whose vector brings this answer with it; itself where there is none."""
    for other, carrying in questions.items():
        apart = other != name and own[other] != own[name]
        if apart and carrying.carried(questions[name], own[other]) is not None:
            return _carrier(other, questions, own)
    return name


@dataclass(frozen=True)
class LinearPart:
    """Some questions that are answered by linear vectors: one pass, one noise a vector."""

    questions: Mapping[str, LinearStatistic]
    grouped: bool

    @cached_property
    def vectors(self) -> Vectors:
        """The vectors that the questions share."""
        return vectors_of(self.questions, grouped=self.grouped)

    @property
    def weight(self) -> Fraction:
        """One for each vector."""
        return Fraction(len(self.vectors.linears))

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The columns it reads, and whether as numbers."""
        numbers: dict[Hashable, bool] = {}
        for linear in self.vectors.linears:
            for column in linear.source.columns:
                known = numbers.get(column, False)
                numbers[column] = known or column in linear.source.numbers
        return numbers

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """One answer a question; each has an interval."""
        return {name: {name: True} for name in self.questions}

    @property
    def counts(self) -> bool:
        """Tell whether a vector can count groups."""
        return self.vectors.counts

    @property
    def answers_count(self) -> bool:
        """Tell whether one of the answers is the count that groups are selected by."""
        vector, _ = self.vectors.counting()
        return any(
            isinstance(answer.estimator, CountEstimator) and answer.vector == vector
            for answer in self.vectors.answers
        )

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredSums:
        """Run the pass."""
        sources = tuple(dict.fromkeys(linear.source for linear in self.vectors.linears))
        statistics = exact_sums(adopted, grouping.by, sources)
        if grouping.public:
            statistics = align(statistics, adopted.listed)
        return MeasuredSums(self, statistics)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""
        return self.vectors.count_noise(loss)

    def draws(self) -> list[tuple[tuple[str, ...], Fraction]]:
        """Return the questions that each noisy vector answers, and its part of the loss."""
        vectors = self.vectors
        each = Fraction(1, len(vectors.linears))
        return [
            (tuple(own.name for own in vectors.answers if own.vector == index), each)
            for index in range(len(vectors.linears))
        ]

    def forecasts(
        self, loss: Epsilon | Rho, asked: Mapping[str, Statistic], known: Circumstances
    ) -> list[Forecast]:
        """Return the forecast of each answer; `loss` is that of one row."""
        vectors = self.vectors
        noises = vectors.noises(loss)
        return [
            forecast_of(
                own, (vectors.linears[own.vector], noises[own.vector]), asked[own.name], known,
                unit=self.questions[own.name].unit(),
            )
            for own in vectors.answers
        ]  # fmt: skip


def forecast_of(
    answer: Read, drawn: tuple[Linear, Noise], asked: Statistic, known: Circumstances, *, unit: str
) -> Forecast:
    """Return what is known beforehand of an answer read off a noisy vector."""
    linear, noise = drawn
    widths = answer.estimator.half_widths(Draw(linear, noise, known.level), _SIZES)
    scale, of = answer.estimator.scale(spread_of(noise), unit)
    return Forecast(
        name=answer.name,
        question=asked.text,
        mechanism=name_of(noise),
        scale=scale,
        scale_unit=of,
        unit=unit,
        certain=by_size(widths.certain),
        ordinary=by_size(widths.ordinary),
        halve=halving(asked, known),
        remarks=getattr(asked, "remarks", ()),
    )


_SIZES = np.array(SIZES, dtype=np.float64)


@dataclass(frozen=True)
class MeasuredSums:
    """Exact sums by group. Secret."""

    part: LinearPart
    statistics: Statistics

    @property
    def keys(self) -> pa.Table:
        """The keys of the groups, sorted."""
        return self.statistics.key_table()

    def answer(self, loss: Epsilon | Rho, rule: KeyRule | None) -> Answered:  # noqa: ARG002 one interface
        """Add noise to every vector; each answer reads one."""
        vectors = self.part.vectors
        noisy = add_noise(self.statistics, vectors.linears, vectors.noises(loss))
        groups = noisy.vectors[0].coordinates.shape[1]
        every = everyone(groups)
        answers = {}
        for own in vectors.answers:
            piece = Piece(every, own.estimator, noisy.vectors[own.vector])
            answers[own.name] = (Estimated(own.name, groups, (piece,)),)
        if not vectors.counts:
            return Answered(noisy.keys, answers)
        vector, weights = vectors.counting()
        count = CountPiece(every, noisy.vectors[vector], weights)
        return Answered(noisy.keys, answers, Counted(groups, (count,)))


def shown_from(count_noise: tuple[Noise, int, int], rule: KeyRule) -> Reach:
    """Return the sizes from which on groups of secret keys are shown."""
    noise, divisor, terms = count_noise
    return reaching(rule.least(noise, divisor, terms), noise, divisor, terms)
