"""dp_ calls: what they ask, of which expression, and what they spend on their own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dfprivacy.accounting.loss import Epsilon, positive_number
from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.constants import number, numbers
from dfprivacy.statements.expressions import is_dp
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusals import Node, Refusal, only, refuse_node
from dfprivacy.statements.tree import called, kind, nodes
from dfprivacy.statistics import Median, Quantile, Statistic
from dfprivacy.statistics.forms import ENDS, Form, example_calls, forms_of, functions, part_of

KEEP = "dp_keep"

_KEEP_FORMS = (("delta",), ("delta", "epsilon"))


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
        return self.question if self.value is None else self.question.about(column)

    @property
    def needs_numbers(self) -> bool:
        """Tell whether it is about numbers, or about what is there."""
        return self.value is not None and any(part_of(self.question).columns.values())


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
    function = name.removesuffix("_interval")
    statistic = functions().get(function)
    if statistic is None or (name != function and not statistic.has_interval):
        raise _unknown(name)
    given = _in_order(function, node)  # DuckDB's tree has dp_count() for dp_count(*)
    stars = [item for item in given if kind(item) == ("STAR", "STAR")]
    if stars and stars[0]["columns"]:
        raise refuse_node(stars[0])
    if stars:
        raise _wrong(function)
    form, constants, own = _form(function, statistic, given)
    question = _simplest(form.question(constants))
    if form.about_rows:
        return Call(question, None, None)
    return Call(question, written(given[0]), own, shown(given[0]))


def _form(
    function: str, statistic: type[Statistic], given: Sequence[Node]
) -> tuple[Form, dict[str, Any], Epsilon | None]:
    """Return the form of a call, its constants, and the loss that it names."""
    for form in forms_of(statistic):
        if form.about_rows:
            if not given:
                return form, {}, None
            continue
        apart = len(given) - 1 - len(form.constants)
        if apart not in {0, 1}:
            continue
        texts = zip(form.constants, given[1:], strict=False)
        constants = {name: _constant(form, name, node) for name, node in texts}
        own = _own(given[-1]) if apart else None
        return form, constants, own
    raise _wrong(function)


def _constant(form: Form, name: str, node: Node) -> Any:
    if form.is_list(name):
        return tuple(numbers(node, "a list of numbers"))
    return number(node, "a bound" if name in ENDS else f"the {name} of {form.statistic.kind}")


def _simplest(question: Statistic) -> Statistic:
    """Return a quantile 1/2 as the median that it is: both are one draw."""
    half = isinstance(question, Quantile) and question.fractions[0] * 2 == 1
    return Median(question.column, question.method) if half else question  # type: ignore[attr-defined]


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
    for form in _parameters(function):
        rest = form[first:]
        if set(rest) == set(values) and len(rest) == len(names) - first:
            return [*given[:first], *(values[name] for name in rest)]
    raise _wrong(function)


def _parameters(function: str) -> Sequence[tuple[str, ...]]:
    """Return the names of the arguments of each form, with and without an epsilon."""
    if function == KEEP:
        return _KEEP_FORMS
    forms = [form for form in forms_of(functions()[function]) if not form.about_rows]
    without = [("x", *form.constants) for form in forms]
    return [*without, *((*form, "epsilon") for form in without)]


def _own(node: Node) -> Epsilon:
    return Epsilon(positive_number("epsilon", number(node, "an epsilon")))


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
    return number(given[0], "a delta"), _own(given[1]) if len(given) > 1 else None


def _wrong(function: str) -> RefusedStatementError:
    if function == KEEP:
        return Refusal(
            "dp_keep with these arguments",
            "it takes a delta, and an epsilon where a count of its own selects the groups",
            "write dp_keep(1e-6) or dp_keep(1e-6, 0.5)",
        ).error()
    return Refusal(
        f"{function} with these arguments",
        "it takes an expression, then constants",
        f"write one of {', '.join(example_calls(function, functions()[function]))}",
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
        f"use one of {', '.join(functions())}",
    ).error()
