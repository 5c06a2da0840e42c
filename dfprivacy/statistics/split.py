"""Decide what is measured together, and how the parts of a release share the loss."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from functools import partial

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.statistics.base import Statistic
from dfprivacy.statistics.count import Count
from dfprivacy.statistics.linear import LinearPart, LinearStatistic
from dfprivacy.statistics.octaves import OctavePart
from dfprivacy.statistics.part import Part
from dfprivacy.statistics.population import not_sampled, population_vectors
from dfprivacy.statistics.quantile import QuantilePart


def split(
    questions: Mapping[str, Statistic], *, grouped: bool, cluster: int = 0
) -> tuple[Part, ...]:
    """Return the parts of a release; by group, one of them can count.

    With a `cluster`, the most rows of a unit in a group, intervals are of the population.

    Questions within bounds share one pass; those about one column whose bounds are found share an
    octave table, with the counts of that column; quantiles of one column share a table of its
    values, and are answered in order; every other question is measured by itself.

    Raises
    ------
    InvalidQuestionError
        When there is no question, or the method of one does not go with its bounds.
    MissingBoundsError
        When a question needs bounds and has none.
    """
    if not questions:
        raise InvalidQuestionError(
            "no question was asked", hint='ask at least one, e.g. agg(dfp.mean("x"), dfp.count())'
        )
    linear: dict[str, LinearStatistic] = {}
    octaves: dict[Hashable, dict[str, LinearStatistic]] = {}
    ranks: dict[Hashable, QuantilePart] = {}
    single: list[Part] = []
    for question in questions.values():
        question.check()
        if question.finds_bounds:
            octaves[question.column] = {}
    for name, question in questions.items():
        if question.finds_bounds or (isinstance(question, Count) and question.column in octaves):
            octaves[question.column][name] = question  # type: ignore[assignment]
            continue
        part = question.part(name, grouped=grouped)
        if isinstance(part, LinearPart):
            linear[name] = question  # type: ignore[assignment]
        elif cluster and question.tells_interval:
            raise not_sampled(question)
        elif isinstance(part, QuantilePart):
            first = ranks.get(part.asks_of)
            ranks[part.asks_of] = first.joined(part) if first else part
        else:
            single.append(part)
    read = partial(population_vectors, cluster=cluster) if cluster else None
    parts: list[Part] = [LinearPart(linear, grouped, read)] if linear else []
    parts += [OctavePart(column, own, grouped, read) for column, own in octaves.items()]
    found: tuple[Part, ...] = (*parts, *ranks.values(), *single)
    assert all(part.weight for part in found)  # noqa: S101 plans each part: bounds are looked at
    if grouped and not any(part.counts for part in found):
        raise InvalidQuestionError(
            "none of these questions can count groups", hint="ask for dfp.count() as well"
        )
    return found


def shares(parts: Sequence[Part]) -> list[Fraction]:
    """Return each part's share of the loss; they add up to 1."""
    total = sum((part.weight for part in parts), start=Fraction(0))
    return [part.weight / total for part in parts]


def counting_part(parts: Sequence[Part]) -> Part:
    """Return the part by whose counts groups are selected: the first that can."""
    return next(part for part in parts if part.counts)


def selections(parts: Sequence[Part]) -> int:
    """Return how many noisy counts select groups of secret keys; they share delta evenly.

    One selects what is shown; an octave part that counts for itself selects what it borrows from.
    """
    counting = counting_part(parts)
    return 1 + sum(isinstance(part, OctavePart) and part is not counting for part in parts)
