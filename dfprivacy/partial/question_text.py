"""Questions as JSON, and back: what a file of statistics says of what was asked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, get_args

from dfprivacy.errors import DPError, StatisticsFileError
from dfprivacy.exact import describe
from dfprivacy.questions import Question
from dfprivacy.rank_questions import Median
from dfprivacy.terms import Bounds
from dfprivacy.unit import Unit

_KINDS: dict[str, Any] = {kind.kind: kind for kind in (*get_args(Question), Median)}

JSON = dict[str, Any]


def questions_json(questions: Mapping[str, Question]) -> list[JSON]:
    """Return named questions as JSON, in their order.

    >>> from dfprivacy.questions import mean
    >>> questions_json({"x": mean("x", (0, 9))})[0]["bounds"]
    [0.0, 9.0]

    Raises
    ------
    StatisticsFileError
        When a column's label is neither text nor a whole number.
    """
    return [{"name": name, **_question(question)} for name, question in questions.items()]


def questions_of(written: Sequence[JSON]) -> dict[str, Question]:
    """Return the questions that `questions_json` has written.

    >>> from dfprivacy.rank_questions import quantiles
    >>> asked = {"q": quantiles("x", [0.1, 0.9])}
    >>> questions_of(questions_json(asked)) == asked
    True

    Raises
    ------
    StatisticsFileError
        When it is anything else.
    """
    named = None
    with suppress(DPError, LookupError, TypeError, ValueError, AttributeError):
        named = {str(own["name"]): _of(own) for own in written}
    if named is None or len(named) < len(written):
        raise StatisticsFileError("the questions of a file of statistics can't be read")
    return named


def _question(question: Question) -> JSON:
    given = {field.name: getattr(question, field.name) for field in fields(question)}
    label = given.pop("column")
    column = None if label is None else label_json(label)
    return {"ask": question.kind, "column": column, **{n: _plain(v) for n, v in given.items()}}


def _plain(value: Any) -> Any:
    """Return an argument of a question as JSON has it; numbers of other types as floats."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Bounds):
        return [value.lower, value.upper]
    return [_plain(each) for each in value] if isinstance(value, tuple) else float(value)


def _of(written: JSON) -> Question:
    given = {name: value for name, value in written.items() if name not in {"name", "ask"}}
    question: Question = _KINDS[written["ask"]](**given)
    if {"name": written["name"], **_question(question)} != written:
        raise StatisticsFileError("a question is not written as we write it")
    return question


def label_json(label: Hashable) -> str | int:
    """Return a column's label, which must be text or a whole number.

    Raises
    ------
    StatisticsFileError
        For any other label.
    """
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise StatisticsFileError(
            f"a column that is called by {describe(label)} can't be named in a file of statistics",
            hint="rename it to text first",
        )
    return label


def unit_json(unit: Unit | None) -> JSON | None:
    """Return a privacy unit and its limits as JSON."""
    if unit is None:
        return None
    label = label_json(unit.column)
    return {"column": label, "max_rows": unit.max_rows, "max_groups": unit.max_groups}
