"""The questions of a description, as the values that the library asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.histogram import Histogram
from dfprivacy.jobs.faults import Faults
from dfprivacy.jobs.fields import Fields
from dfprivacy.jobs.marked import Marked
from dfprivacy.statistics import (
    Center,
    Count,
    Mean,
    Median,
    Quantile,
    Quantiles,
    StandardDeviation,
    Statistic,
    Sum,
    Variance,
)
from dfprivacy.terms import Bounds, bounds_of

Asked = Statistic | Histogram
_ALL_ROWS = "*"
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "count": (),
    "sum": ("bounds",),
    "mean": ("bounds", "method"),
    "var": ("bounds",),
    "std": ("bounds",),
    "median": ("method",),
    "quantile": ("q", "method"),
    "quantiles": ("qs",),
    "center": ("p", "bounds", "method"),
    "histogram": ("bins", "edges", "bounds"),
}
_REQUIRED = {"quantile": ("q",), "quantiles": ("qs",), "center": ("p",)}


def questions_of(
    node: Marked, where: str, shared: Mapping[str, Bounds], faults: Faults
) -> dict[str, Asked]:
    """Return the questions by name; `shared` has bounds of columns for those that name none."""
    if not node.fields:
        faults.add(node.line, f"{where}: this is {node.kind}, not questions by name")
    found = {
        name: _question(item, f"{where}: {name}", shared, faults)
        for name, item in node.fields.items()
    }
    questions = {name: asked for name, asked in found.items() if asked is not None}
    if len(found) > 1 and any(isinstance(asked, Histogram) for asked in questions.values()):
        faults.add(node.line, f"{where}: a histogram is a release of its own")
    return questions


def _question(
    node: Marked, where: str, shared: Mapping[str, Bounds], faults: Faults
) -> Asked | None:
    kinds = [name for name in node.fields if name in _FIELDS]
    if len(kinds) != 1:
        known = ", ".join(_FIELDS)
        faults.add(node.line, f"{where}: a question names one of {known}, and its column")
        return None
    kind = kinds[0]
    fields = Fields(node, where, faults, (kind, *_FIELDS[kind]))
    column = fields.text(kind)
    complete = fields.require(kind, *_REQUIRED.get(kind, ()))
    if column is None or not complete:
        return None
    before = len(faults.found)
    given = bounds_in(fields, "bounds")
    bounds = shared.get(column) if given is None else given
    asked = faults.attempt(node.line, where, lambda: _made(kind, column, bounds, fields))
    return asked if len(faults.found) == before else None


def bounds_in(fields: Fields, name: str) -> Bounds | None:
    """Return the bounds in a field, if there are any."""
    numbers = fields.numbers(name)
    if numbers is None:
        return None
    return fields.faults.attempt(
        fields.line_of(name), f"{fields.where}: {name}", lambda: bounds_of(list(numbers))
    )


def _made(kind: str, column: str, bounds: Bounds | None, fields: Fields) -> Asked:
    """Return a question, as its own class checks it."""
    method = fields.text("method")
    chosen: dict[str, Any] = {} if method is None else {"method": method}
    makers: Mapping[str, Callable[[], Asked]] = {
        "count": lambda: Count(None if column == _ALL_ROWS else column),
        "sum": lambda: Sum(column, bounds),
        "mean": lambda: _checked(Mean(column, bounds, **chosen)),
        "var": lambda: Variance(column, bounds),
        "std": lambda: StandardDeviation(column, bounds),
        "median": lambda: Median(column, **chosen),
        "quantile": lambda: Quantile(column, _number(fields, "q"), **chosen),
        "quantiles": lambda: Quantiles(column, fields.numbers("qs") or ()),
        "center": lambda: Center(column, _number(fields, "p"), bounds, **chosen),
        "histogram": lambda: _histogram(column, bounds, fields),
    }
    return makers[kind]()


def _checked(mean: Mean) -> Mean:
    mean.check()
    return mean


def _number(fields: Fields, name: str) -> float:
    number = fields.number(name)
    return 0.5 if number is None else number


def _histogram(column: str, bounds: Bounds | None, fields: Fields) -> Histogram:
    edges, bins = fields.get("edges"), fields.number("bins")
    if (edges is None) == (fields.get("bins") is None):
        raise InvalidQuestionError("a histogram needs either bins or edges")
    if edges is None:
        return Histogram.of(column, 1 if bins is None else bins, bounds)
    given = fields.get("bounds") is not None
    return Histogram.of(column, fields.numbers("edges") or (0.0, 1.0), bounds, given=given)
