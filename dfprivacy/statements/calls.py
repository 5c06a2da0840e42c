"""dp_ calls: what they ask, of which expression, and what they spend on their own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from dfprivacy.accounting.loss import Epsilon, positive_number
from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.constants import number, numbers
from dfprivacy.statements.expressions import is_dp
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusals import Node, Refusal, only, refuse_node
from dfprivacy.statements.tree import called, kind, nodes
from dfprivacy.statistics import (
    Count,
    Mean,
    Median,
    PrivateBounds,
    Quantile,
    Quantiles,
    StandardDeviation,
    Statistic,
    Sum,
    Variance,
)
from dfprivacy.terms import Bounds

_MOMENTS: dict[str, type[Sum | Mean | Variance | StandardDeviation]] = {
    "dp_sum": Sum,
    "dp_mean": Mean,
    "dp_avg": Mean,
    "dp_var": Variance,
    "dp_stddev": StandardDeviation,
}
_RANKS = ("dp_median", "dp_quantile", "dp_quantiles", "dp_bounds")
_INTERVALS = tuple(f"{name}_interval" for name in ("dp_count", *_MOMENTS))
FUNCTIONS = ("dp_count", *_MOMENTS, *_RANKS, *_INTERVALS)
KEEP = "dp_keep"

_WITH_BOUNDS = (("x",), ("x", "epsilon"), ("x", "lo", "hi"), ("x", "lo", "hi", "epsilon"))
_PARAMETERS = {
    KEEP: (("delta",), ("delta", "epsilon")),
    "dp_quantile": (("x", "q"), ("x", "q", "epsilon")),
    "dp_quantiles": (("x", "qs"), ("x", "qs", "epsilon")),
    **dict.fromkeys(_MOMENTS, _WITH_BOUNDS),
}
"""The names of the arguments, form by form, by which DuckDB's functions know them: epsilon := 1."""

_FORMS = {
    "dp_count": "dp_count(*), dp_count(x), dp_count(x, 0.5)",
    "dp_median": "dp_median(x), dp_median(x, 0.5)",
    "dp_quantile": "dp_quantile(x, 0.9), dp_quantile(x, 0.9, 0.5)",
    "dp_quantiles": "dp_quantiles(x, [0.25, 0.75]), dp_quantiles(x, [0.25, 0.75], 0.5)",
    "dp_bounds": "dp_bounds(x), dp_bounds(x, 0.5)",
}


@dataclass(frozen=True)
class Call:
    """One draw: a question about an expression, and a loss of its own, if any.

    Calls are equal when they are one draw: dp_avg is dp_mean, and an interval comes with its value.
    `value` is the SQL of the expression over the protected relation, None for rows; `shown` is the
    expression as it was written.
    """

    question: Statistic
    value: str | None
    epsilon: Epsilon | None
    shown: str = field(default="", compare=False)

    def about(self, column: Hashable) -> Statistic:
        """Return the question about a column of the vetted rows."""
        return _renamed(self.question, column)

    @property
    def needs_numbers(self) -> bool:
        """Tell whether it is about numbers, or about what is there."""
        return self.value is not None and not isinstance(self.question, Count)


def _renamed(question: Statistic, column: Hashable) -> Statistic:
    if isinstance(question, Count):
        return Count(column)
    if isinstance(question, Median):
        return Median(column)
    if isinstance(question, Quantile):
        return Quantile(column, question.q)
    if isinstance(question, Quantiles):
        return Quantiles(column, question.qs)
    if isinstance(question, PrivateBounds):
        return PrivateBounds(column)
    assert isinstance(question, Sum | Mean | Variance | StandardDeviation)  # noqa: S101 the rest
    return type(question)(column, question.bounds)


def holds_dp(node: Node) -> bool:
    """Tell whether there is a dp_ call anywhere in an expression."""
    return any(map(is_dp, nodes(node)))


def wants_interval(node: Node) -> bool:
    """Tell whether a call asks for an answer with its interval."""
    return called(node).endswith("_interval")


def read_call(
    node: Node,
    written: Callable[[Node], str],
    shown: Callable[[Node], str],
) -> Call:
    """Return what a dp_ call asks; `written` gives the SQL of its expression, `shown` its text.

    Raises
    ------
    RefusedStatementError
        For an unknown function, a wrong number of arguments, or one that is no constant.
    InvalidBoundsError, InvalidQuestionError, InvalidLossError
        For constants out of range.
    """
    name = called(node)
    if name not in FUNCTIONS:
        raise _unknown(name)
    function = name.removesuffix("_interval")
    given = _in_order(function, node)  # DuckDB's tree has dp_count() for dp_count(*)
    stars = [item for item in given if kind(item) == ("STAR", "STAR")]
    if stars and stars[0]["columns"]:
        raise refuse_node(stars[0])
    if stars or (not given and function != "dp_count"):
        raise _wrong(function)
    if not given:
        return Call(Count(), None, None)
    question, own = _question(function, given[1:])
    return Call(question, written(given[0]), own, shown(given[0]))


def _in_order(function: str, node: Node) -> list[Node]:
    """Return the arguments of a call, those with a name in their place: dp_sum(x, epsilon := 1)."""
    only(node, "function_name", "arguments")
    for item in node["arguments"]:
        only(item, "name", "expression")
    names = [folded(item["name"]) for item in node["arguments"]]
    given = [item["expression"] for item in node["arguments"]]
    first = next((place for place, name in enumerate(names) if name), len(names))
    values = dict(zip(names[first:], given[first:], strict=True))
    if not values:
        return given
    for form in _PARAMETERS.get(function, [("x",), ("x", "epsilon")]):
        rest = form[first:]
        if set(rest) == set(values) and len(rest) == len(names) - first:
            return [*given[:first], *(values[name] for name in rest)]
    raise _wrong(function)


Asked = tuple[Statistic, Epsilon | None]


def _question(function: str, constants: Sequence[Node]) -> Asked:
    """Return the question that constants ask, and the loss that they name."""
    if function == "dp_count":
        return Count("x"), _own(function, constants)
    if function in _MOMENTS:
        return _moment(function, constants)
    return _rank(function, constants)


def _moment(function: str, constants: Sequence[Node]) -> Asked:
    bounds = None
    if len(constants) >= 2:
        bounds = Bounds(*(number(end, "a bound") for end in constants[:2]))
        constants = constants[2:]
    return _MOMENTS[function]("x", bounds), _own(function, constants)


def _rank(function: str, constants: Sequence[Node]) -> Asked:
    if function == "dp_bounds":
        return PrivateBounds("x"), _own(function, constants)
    if function == "dp_median":
        return Median("x"), _own(function, constants)
    if not constants:
        raise _wrong(function)
    own = _own(function, constants[1:])
    if function == "dp_quantiles":
        return Quantiles("x", tuple(numbers(constants[0], "a list of quantiles"))), own
    q = number(constants[0], "a quantile")
    return (Median("x") if q == 0.5 else Quantile("x", q)), own


def _own(function: str, constants: Sequence[Node]) -> Epsilon | None:
    if len(constants) > 1:
        raise _wrong(function)
    if not constants:
        return None
    return Epsilon(positive_number("epsilon", number(constants[0], "an epsilon")))


def read_keep(node: Node) -> tuple[int | float, Epsilon | None]:
    """Return the delta of dp_keep(delta), and the epsilon of dp_keep(delta, epsilon).

    Raises
    ------
    RefusedStatementError
        For other arguments than one or two constants.
    """
    given = _in_order(KEEP, node)
    if not 1 <= len(given) <= 2:
        raise _wrong(KEEP)
    return number(given[0], "a delta"), _own(KEEP, given[1:])


def _wrong(function: str) -> RefusedStatementError:
    if function == KEEP:
        return Refusal(
            "dp_keep with these arguments",
            "it takes a delta, and an epsilon where a count of its own selects the groups",
            "write dp_keep(1e-6) or dp_keep(1e-6, 0.5)",
        ).error()
    moments = (
        f"{function}(x), {function}(x, 0.5), {function}(x, 0, 100), {function}(x, 0, 100, 0.5)"
    )
    return Refusal(
        f"{function} with these arguments",
        "it takes an expression, then constants",
        f"write one of {_FORMS.get(function, moments)}",
    ).error()


def _unknown(name: str) -> RefusedStatementError:
    if name == KEEP:
        return Refusal(
            "dp_keep outside HAVING, or inside an expression",
            "it selects groups before anything else is looked at",
            "GROUP BY city HAVING dp_keep(1e-6) AND dp_count(*) > 100",
        ).error()
    return Refusal(
        f"{name}(...)",
        "there is no such function",
        f"use one of {', '.join((*FUNCTIONS[:6], *_RANKS))}",
    ).error()
