"""From questions to parts: what is measured together, and how the parts share the loss."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from fractions import Fraction

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.parts.linear import LinearPart
from dfprivacy.parts.monotone import MonotonePart
from dfprivacy.parts.octaves import OctavePart
from dfprivacy.parts.part import Part
from dfprivacy.parts.ranks import BoundsPart, QuantilePart
from dfprivacy.parts.subset import SubsetPart
from dfprivacy.plan import plan_release
from dfprivacy.questions import Count, Mean, MomentQuestion, Question
from dfprivacy.rank_questions import Center, PrivateBounds, Quantile, Quantiles


def split(questions: Mapping[str, Question], *, grouped: bool) -> tuple[Part, ...]:
    """Return the parts of a release; by group, one of them can count.

    Raises
    ------
    InvalidQuestionError
        When there is no question.
    MissingBoundsError
        When a question needs bounds and has none.
    """
    if not questions:
        raise InvalidQuestionError(
            "no question was asked", hint='ask at least one, e.g. agg(dfp.mean("x"), dfp.count())'
        )
    unbounded = _unbounded(questions)
    linear: dict[str, MomentQuestion] = {
        name: question  # type: ignore[misc]
        for name, question in questions.items()
        if _is_linear(question) and not any(name in own for own in unbounded.values())
    }
    parts: list[Part] = [OctavePart(column, own, grouped) for column, own in unbounded.items()]
    parts += [
        _single(name, question, grouped=grouped)
        for name, question in questions.items()
        if name not in linear and not any(name in own for own in unbounded.values())
    ]
    if linear:
        parts.insert(0, LinearPart(plan_release(linear, grouped=grouped)))
    return tuple(parts)


def shares(parts: tuple[Part, ...]) -> list[Fraction]:
    """Return each part's share of the loss; they add up to 1."""
    total = sum((part.weight for part in parts), start=Fraction(0))
    return [part.weight / total for part in parts]


def selections(parts: tuple[Part, ...]) -> int:
    """Return how many noisy counts select groups of secret keys; they share delta evenly.

    One selects what is shown; an octave part that counts for itself selects what it borrows from.
    """
    counting = next(part for part in parts if part.counts)
    return 1 + sum(isinstance(part, OctavePart) and part is not counting for part in parts)


def _unbounded(questions: Mapping[str, Question]) -> dict[Hashable, dict[str, MomentQuestion]]:
    """Return the questions whose bounds are found at octave edges, by column, with its counts."""
    found: dict[Hashable, dict[str, MomentQuestion]] = {}
    for question in questions.values():
        if isinstance(question, Mean):
            question.check_method()
        if _is_unbounded(question):
            found.setdefault(question.column, {})
    for name, question in questions.items():
        own = found.get(question.column)
        if own is not None and (_is_unbounded(question) or isinstance(question, Count)):
            own[name] = question  # type: ignore[assignment]
    return found


def _is_unbounded(question: Question) -> bool:
    if isinstance(question, Mean) and question.method != "transformed":
        return False
    return _is_moment(question) and getattr(question, "bounds", None) is None


def _is_moment(question: Question) -> bool:
    return not isinstance(question, Count | Quantile | Quantiles | Center | PrivateBounds)


def _is_linear(question: Question) -> bool:
    if isinstance(question, Count):
        return True
    return _is_moment(question) and getattr(question, "bounds", None) is not None


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
