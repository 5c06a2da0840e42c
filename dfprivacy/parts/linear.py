"""Counts, and sums, means and variances within given bounds: one pass of linear queries."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.answers import Counted, CountPiece, Estimated, Piece, everyone
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.passes import build_pass
from dfprivacy.engine.public_keys import align
from dfprivacy.engine.run import run_pass
from dfprivacy.estimators.count import CountEstimator
from dfprivacy.mechanisms.additive import add_noise
from dfprivacy.mechanisms.keys import KeyRule
from dfprivacy.parts.part import Answered, Grouping
from dfprivacy.plan import Plan
from dfprivacy.statistics.statistics import Statistics, key_name


@dataclass(frozen=True)
class LinearPart:
    """The questions of a plan."""

    plan: Plan

    @property
    def weight(self) -> Fraction:
        """One for each query."""
        return Fraction(len(self.plan.queries))

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The columns it reads, and whether as numbers."""
        numbers: dict[Hashable, bool] = {}
        for query in self.plan.queries:
            source = query.source
            if source.column is not None:
                known = numbers.get(source.column, False)
                numbers[source.column] = known or source.grid is not None
        return numbers

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """One answer a question; each has an interval."""
        return {answer.name: {answer.name: True} for answer in self.plan.answers}

    @property
    def counts(self) -> bool:
        """Tell whether a query can count groups."""
        return any(query.count is not None for query in self.plan.queries)

    @property
    def answers_count(self) -> bool:
        """Tell whether one of the answers is the count that groups are selected by."""
        query, _ = self.plan.counting()
        return any(
            isinstance(answer.estimator, CountEstimator) and answer.query == query
            for answer in self.plan.answers
        )

    def measure(self, adopted: Adopted, grouping: Grouping) -> MeasuredSums:
        """Run the pass."""
        sources = tuple(dict.fromkeys(query.source for query in self.plan.queries))
        names = [key_name(index) for index in range(len(grouping.by))]
        build = partial(build_pass, labels=grouping.by, sources=sources)
        statistics = run_pass(adopted, build, names, sources)
        if grouping.public:
            statistics = align(statistics, adopted.listed)
        return MeasuredSums(self, statistics)


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
        """Add noise to every query's vector; each answer reads one."""
        plan = self.part.plan
        noisy = add_noise(self.statistics, plan.queries, plan.noises(loss))
        groups = noisy.vectors[0].coordinates.shape[1]
        every = everyone(groups)
        answers = {}
        for own in plan.answers:
            piece = Piece(every, own.estimator, noisy.vectors[own.query])
            answers[own.name] = (Estimated(own.name, groups, (piece,)),)
        if not self.part.counts:
            return Answered(noisy.keys, answers)
        query, weights = plan.counting()
        count = CountPiece(every, noisy.vectors[query], weights)
        return Answered(noisy.keys, answers, Counted(groups, (count,)))
