"""Questions as JSON, and back: what a file of statistics says of what was asked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from dfprivacy.errors import DPError, StatisticsFileError
from dfprivacy.exact import describe
from dfprivacy.statistics import STATISTICS, Statistic
from dfprivacy.statistics.base import plain
from dfprivacy.unit import Unit

JSON = dict[str, Any]


def questions_json(questions: Mapping[str, Statistic]) -> list[JSON]:
    """Return named questions as JSON, in their order.

    >>> from dfprivacy.statistics import Mean
    >>> questions_json({"x": Mean("x", (0, 9))})[0]["bounds"]
    [0.0, 9.0]

    Raises
    ------
    StatisticsFileError
        When a column's label is neither text nor a whole number.
    """
    return [{"name": name, **_question(question)} for name, question in questions.items()]


def questions_of(written: Sequence[JSON]) -> dict[str, Statistic]:
    """Return the questions that `questions_json` has written.

    >>> from dfprivacy.statistics import Quantiles
    >>> asked = {"q": Quantiles("x", [0.1, 0.9])}
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


def _question(question: Statistic) -> JSON:
    given = {field.name: getattr(question, field.name) for field in fields(question)}  # type: ignore[arg-type]
    label = given.pop("column")
    column = None if label is None else label_json(label)
    return {"ask": question.kind, "column": column, **{n: plain(v) for n, v in given.items()}}


def _of(written: JSON) -> Statistic:
    given = {name: value for name, value in written.items() if name not in {"name", "ask"}}
    question: Statistic = STATISTICS[written["ask"]](**given)
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
