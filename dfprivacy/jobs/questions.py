"""Make a question of the fields that describe it: the only place that knows the kinds.

The fields of a question are the fields of its class, by their types; the first one, its column, has
the name of the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import create_model

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.jobs.fields import Fields, Group, Number, Numbers, Pair, Text
from dfprivacy.statistics import STATISTICS, Statistic
from dfprivacy.statistics.histogram import Histogram
from dfprivacy.terms import Bounds

Asked = Statistic | Histogram

_ALL_ROWS = "*"
_TYPES: Mapping[str, Any] = {
    "choice": Text,
    "number": Number,
    "whole": Number,
    "numbers": Numbers,
    "bounds": Pair,
}


def question_of(given: object, shared: Mapping[str, Bounds]) -> Asked:
    """Return the question that fields describe; `shared` has the bounds of columns.

    Raises
    ------
    InvalidQuestionError, ValidationError
        When there is no such question, or its fields are not what it takes.
    """
    fields = given if isinstance(given, dict) else {}
    kind = _kind(fields)
    found = dict(_model(kind).model_validate(fields))
    own = {name: value for name, value in found.items() if value is not None}
    column = own.pop(kind)
    if kind == "histogram":
        own = {"bounds": shared.get(column), **own}
        return _histogram(column, given=fields.get("bounds") is not None, **own)
    about = None if (kind, column) == ("count", _ALL_ROWS) else column
    make: Any = STATISTICS[kind]
    question: Statistic = make(column=about, **own).completed(shared.get(column))
    question.check()
    return question


def _kind(fields: Fields) -> str:
    """Return the question that is named; bounds are one where they name a column."""
    kinds = [name for name in fields if name in (*STATISTICS, "histogram") and name != "bounds"]
    if not kinds and isinstance(fields.get("bounds"), str):
        kinds = ["bounds"]
    if len(kinds) != 1:
        raise InvalidQuestionError(
            f"a question names one of {', '.join((*STATISTICS, 'histogram'))}, and its column",
            hint="name one of them",
        )
    return kinds[0]


@cache
def _model(kind: str) -> type[Group]:
    """Return the fields of a question."""
    fields: dict[str, Any] = {kind: (Text, ...)}
    if kind == "histogram":
        fields |= {"bins": (Number | None, None), "edges": (Numbers | None, None)}
        fields |= {"bounds": (Pair | None, None)}
        return create_model("histogram", __base__=Group, **fields)
    for each in STATISTICS[kind].arguments():
        if each.form != "column":
            own = _TYPES[each.form]
            fields[each.name] = (own, ...) if each.required else (own | None, None)
    return create_model(kind, __base__=Group, **fields)


def _histogram(
    column: str,
    *,
    given: bool,
    bins: float | None = None,
    edges: tuple[float, ...] | None = None,
    bounds: Bounds | None = None,
) -> Histogram:
    if (edges is None) == (bins is None):
        raise InvalidQuestionError("a histogram needs either bins or edges")
    return Histogram.of(column, bins if edges is None else edges, bounds, given=given)
