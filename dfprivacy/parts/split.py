"""From questions to parts: what is measured together, and how the parts share the loss."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.parts.linear import LinearPart
from dfprivacy.parts.monotone import MonotonePart
from dfprivacy.parts.octaves import OctavePart
from dfprivacy.parts.part import Part
from dfprivacy.parts.ranks import BoundsPart, QuantilePart
from dfprivacy.parts.subset import SubsetPart
from dfprivacy.plan import plan_release
from dfprivacy.questions import BoundedQuestion, Count, Mean, MomentQuestion, Question
from dfprivacy.rank_questions import Center, PrivateBounds, Quantile, Quantiles


def split(questions: Mapping[str, Question], *, grouped: bool) -> tuple[Part, ...]:
    """Return the parts of a release; by group, one of them can count.

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
    octaves = _by_octaves(questions)
    linear: dict[str, MomentQuestion] = {}
    single: list[Part] = []
    for name, question in questions.items():
        if any(name in own for own in octaves.values()):
            continue
        if _is_linear(question):
            linear[name] = question  # type: ignore[assignment]
        else:
            single.append(_single(name, question, grouped=grouped))
    parts: list[Part] = [LinearPart(plan_release(linear, grouped=grouped))] if linear else []
    parts += [OctavePart(column, own, grouped) for column, own in octaves.items()]
    return (*parts, *single)


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


def _by_octaves(questions: Mapping[str, Question]) -> dict[Hashable, dict[str, MomentQuestion]]:
    """Return the questions whose bounds are found at octave edges, by column, with its counts."""
    found: dict[Hashable, dict[str, MomentQuestion]] = {
        question.column: {} for question in questions.values() if _finds_octaves(question)
    }
    for name, question in questions.items():
        counts = isinstance(question, Count) and question.column is not None
        if question.column in found and (_finds_octaves(question) or counts):
            found[question.column][name] = question  # type: ignore[assignment]
    return found


def _finds_octaves(question: Question) -> bool:
    if isinstance(question, Mean):
        question.check_method()
        return question.bounds is None and question.method == "transformed"
    return isinstance(question, BoundedQuestion) and question.bounds is None


def _is_linear(question: Question) -> bool:
    return isinstance(question, Count) or (
        isinstance(question, BoundedQuestion) and question.bounds is not None
    )


def _single(name: str, question: Question, *, grouped: bool) -> Part:
    if isinstance(question, PrivateBounds):
        return BoundsPart(name, question, grouped)
    if isinstance(question, Quantiles) or (
        isinstance(question, Quantile) and question.method == "selection"
    ):
        return QuantilePart(name, question, grouped)
    if isinstance(question, Mean) and question.method in {"dick", "subset"}:
        return SubsetPart(name, question, grouped)
    assert isinstance(question, Quantile | Center | Mean)  # noqa: S101 nothing else is left
    return MonotonePart(name, question, grouped)
