"""Read dp_ calls: what they ask, of which expression, what they spend, and constants in them.

Ordinary aggregates are read as the private questions that they are: AVG(x) as dp_mean(x).
Each statistic names the aggregates that it answers (`Statistic.sql_names`). FILTER (WHERE ...)
behind any call is CASE: rows that do not fulfil it have no value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import add, mul, sub, truediv
from types import MappingProxyType
from typing import Any

from dfprivacy.accounting.loss import Epsilon, positive_number
from dfprivacy.errors import RefusedStatementError
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.statements.expressions import condition, display, is_dp
from dfprivacy.statements.functions import OF_FRAMES, of_frame, span_of
from dfprivacy.statements.relations import Expression
from dfprivacy.statements.rewrites import fill_template, read_template
from dfprivacy.statements.rules import Node, nearly, only, refuse, refuse_node
from dfprivacy.statements.tree import (
    arguments,
    called,
    cast_to,
    folded,
    is_column,
    kind,
    literal,
    nodes,
    own_nodes,
    shown,
    text_of,
)
from dfprivacy.statistics import STATISTICS, Median, Quantile, Statistic
from dfprivacy.statistics.forms import (
    Form,
    example_calls,
    forms_of,
    function_of,
    functions,
    part_of,
)

_MOST_DIGITS = 400
MOST_POSITIONAL_EPSILON = 20
"""A larger epsilon may be a bound whose other end was forgotten, so a call must name it."""


def number(node: Node, what: str) -> int | float:
    """Return the number that a constant expression stands for."""
    exact = _exact(node, what)
    return int(exact) if exact.denominator == 1 else float(exact)


def numbers(node: Node, what: str) -> list[int | float]:
    """Return the numbers of a list in brackets."""
    if called(node) != "list_value":
        raise refuse("no constant", what=what)
    return [number(item, what) for item in arguments(node)]


def whole_number(node: Node, what: str) -> int:
    """Return a number of rows, 0 or more."""
    sort, text = literal(node)
    if sort == "INTEGER" and text.isdecimal():
        return int(text)
    raise refuse("no constant", what=what)


def _exact(node: Node, what: str) -> Fraction:
    sort, text = literal(node)
    if sort in {"INTEGER", "NUMERIC"}:
        return _fraction(text.replace("_", ""), what)
    sign = called(node)
    if sign not in _ARITHMETIC:
        raise refuse("no constant", what=what)
    given = [_exact(item, what) for item in arguments(node)]
    if len(given) == 1 and sign in {"+", "-"}:
        given.insert(0, Fraction(0))
    if len(given) != 2 or (sign == "/" and not given[1]):
        raise refuse("no constant", what=what)
    return _ARITHMETIC[sign](*given)


_ARITHMETIC: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": add, "-": sub, "*": mul, "/": truediv
}  # fmt: skip


def _fraction(text: str, what: str) -> Fraction:
    digits, _, power = text.lower().partition("e")
    size = power.lstrip("+-")
    if len(digits) > _MOST_DIGITS or len(size) > 3 or (size and int(size) > _MOST_DIGITS):
        raise refuse("no constant", what=what)
    try:
        return Fraction(text)
    except ValueError:
        raise refuse("no constant", what=what) from None


KEEP = "dp_keep"

_KEEP_FORMS = (("delta",), ("delta", "epsilon"))


@dataclass(frozen=True)
class Call:
    """One draw: a question about an expression, and a loss of its own, if any.

    Calls are equal when they are one draw: dp_avg is dp_mean, and an interval comes with its value.
    `values` are the SQL of its expressions over the protected relation, none for rows; `shown` are
    the expressions as they were written.
    """

    question: Statistic
    values: tuple[str, ...]
    epsilon: Epsilon | None
    shown: tuple[str, ...] = field(default=(), compare=False)
    by_row: bool = field(default=False, compare=False)
    """Whether all of its expressions are `by_row`."""
    is_conditional: bool = field(default=False, compare=False)
    """FILTER, or CASE without ELSE, takes the value from some of the rows only."""

    @property
    def needs_numbers(self) -> bool:
        """Tell whether it is about numbers, or about what is there."""
        finds = self.question.finds_bounds
        return bool(self.values) and (finds or any(part_of(self.question).columns.values()))


def holds_dp(node: Node) -> bool:
    """Tell whether there is a dp_ call anywhere in an expression."""
    return any(map(is_dp, nodes(node)))


def wants_interval(node: Node) -> bool:
    """Tell whether a call asks for an answer with its interval."""
    return called(node).endswith("_interval")


def read_call(
    node: Node,
    written: Callable[[Node], Expression],
    bounds: Mapping[str, Bounds] = MappingProxyType({}),
) -> Call:
    """Return what a dp_ call asks; `written` writes its expressions over the rows."""
    name = called(node)
    function = name.removesuffix("_interval")
    statistic = function_of(function)
    if statistic is None or (name != function and not statistic.has_interval):
        raise _unknown(name)
    given = _in_order(function, node)  # DuckDB's tree has dp_count() for dp_count(*)
    stars = [item for item in given if kind(item) == ("STAR", "STAR")]
    if stars and stars[0]["columns"]:
        raise refuse_node(stars[0])
    if stars:
        raise _wrong(function)
    form, constants, own = _form(
        function, statistic, given, lambda node: bounds.get(written(node).sql)
    )
    if own is not None:
        _require_small(own, node)
    about = given[: len(form.columns)]
    expressions = [written(value) for value in about]
    values = tuple(expression.sql for expression in expressions)
    question: Any = _simplest(form.question(constants))
    if question.finds_bounds:
        named = zip(question.columns, values, strict=True)
        question = question.completed(
            {column: bounds[value] for column, value in named if value in bounds}
        )
    by_row = all(expression.by_row for expression in expressions)
    conditional = any(map(_lacks_else, about))
    return Call(question, values, own, tuple(map(display, about)), by_row, conditional)


def _lacks_else(node: Node) -> bool:
    return kind(node) == ("CASE", "CASE_EXPR") and literal(node["else_expr"])[0] == "NULL_LITERAL"


def _form(
    function: str,
    statistic: type[Statistic],
    given: Sequence[Node],
    known: Callable[[Node], Bounds | None],
) -> tuple[Form, dict[str, Any], Epsilon | None]:
    """Return the form of a call, its constants or known bounds, and the loss it names."""
    for form in forms_of(statistic):
        if form.about_rows:
            if not given:
                return form, {}, None
            continue
        first = len(form.columns)
        apart = len(given) - first - len(form.constants)
        if apart not in {0, 1}:
            continue
        texts = zip(form.constants, given[first:], strict=False)
        constants = {name: _constant(form, name, node) for name, node in texts}
        own = _own(given[-1]) if apart else None
        return form, constants, own
    for form in forms_of(statistic):
        apart = len(given) - len(form.columns)
        if set(form.constants) != {end for pair in form.ends.values() for end in pair}:
            continue
        if apart in {0, 1} and not form.about_rows:
            ends = _known_ends(form, [known(node) for node in given[: len(form.columns)]])
            loss = _own(given[-1]) if apart else None
            if ends is not None:
                return form, ends, loss
            if getattr(statistic, "searches", False):
                return replace(form, constants=()), {}, loss
    raise _wrong(function)


def _known_ends(form: Form, bounds: Sequence[Bounds | None]) -> dict[str, float] | None:
    """Return the ends of the bounds of a form by their names; None where some are not known."""
    found: dict[str, float] = {}
    own = dict(zip(form.columns, bounds, strict=True))
    for name, (low, high) in form.ends.items():
        pair = own.get(name.removesuffix("_bounds"))
        if pair is None:
            return None
        found |= {low: pair.lower, high: pair.upper}
    return found


def _constant(form: Form, name: str, node: Node) -> Any:
    if form.is_list(name):
        return tuple(numbers(node, "a list of numbers"))
    span = span_of(node) if form.is_end(name) else None
    if span is not None or (form.is_end(name) and cast_to(node) in _MOMENTS):
        if not form.sample.answers_in_kind:
            raise refuse("dates as bounds", function=f"dp_{form.statistic.kind}")
        return _moment(node) if span is None else span
    return number(node, "a bound" if form.is_end(name) else f"the {name} of {form.statistic.kind}")


_MOMENTS: dict[str, Any] = {
    "DATE": dt.date,
    "TIMESTAMP": dt.datetime,
    "TIMESTAMP WITH TIME ZONE": dt.datetime,
    "TIMESTAMPTZ": dt.datetime,
    "TIME": dt.time,
}


def _moment(node: Node) -> dt.date | dt.time:
    """Return the constant date or time of DATE '2013-01-01'."""
    try:
        moment: dt.date | dt.time = _MOMENTS[cast_to(node)].fromisoformat(text_of(node["child"]))
    except (TypeError, ValueError):
        raise refuse("no constant", what="a bound") from None
    return moment


def _simplest(question: Statistic) -> Statistic:
    """Return a quantile 1/2 as the median that it is: both are one draw."""
    if isinstance(question, Quantile) and question.fractions[0] * 2 == 1:
        return Median(question.column, question.bounds, question.step, question.method)
    return question


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
    """Return the names of the arguments of each form, with and without an epsilon.

    Bounds that a schema knows may be left out beside an epsilon.
    """
    if function == KEEP:
        return _KEEP_FORMS
    forms = [form for form in forms_of(functions()[function]) if not form.about_rows]
    without = [(*form.columns, *form.constants) for form in forms]
    with_known_bounds = [form.columns for form in forms]
    return [*without, *((*form, "epsilon") for form in [*without, *with_known_bounds])]


def _own(node: Node) -> Epsilon:
    return Epsilon(positive_number("epsilon", number(node, "an epsilon")))


def _require_small(epsilon: Epsilon, node: Node) -> None:
    """Refuse a large epsilon that a call has by its place and not by its name."""
    names = {folded(item["name"]) for item in node["arguments"]}
    if epsilon.value > MOST_POSITIONAL_EPSILON and "epsilon" not in names:
        amount = f"{float(epsilon.value):g}"
        raise refuse("large epsilon", function=called(node), amount=amount)


def read_keep(node: Node) -> tuple[int | float, Epsilon | None]:
    """Return the delta of dp_keep(delta), and the epsilon of dp_keep(delta, epsilon)."""
    given = _in_order(KEEP, node)
    if not 1 <= len(given) <= 2:
        raise _wrong(KEEP)
    if len(given) == 1:
        return number(given[0], "a delta"), None
    epsilon = _own(given[1])
    _require_small(epsilon, node)
    return number(given[0], "a delta"), epsilon


def _wrong(function: str) -> RefusedStatementError:
    if function == KEEP:
        return refuse("arguments of dp_keep")
    own, values, known = functions()[function], "an expression", ""
    calls = ", ".join(example_calls(function, own))
    if len(own.places()) > 1:
        answers = f", which answers {own.sql_names[0]}," if own.sql_names else ""
        function, values = f"{function}{answers}", "two expressions"
        known = "; or bound both columns in a schema: bounds={'t.x': (0, 100), ...}"
    return refuse(
        "arguments of a dp_ call", function=function, values=values, calls=calls, known=known
    )


def _unknown(name: str) -> RefusedStatementError:
    if name == KEEP:
        return refuse("dp_keep elsewhere")
    asked = name.removeprefix("dp_")
    if asked in OF_FRAMES:
        return refuse("dp_ call of a frame", name=name, instead=of_frame(asked))
    near, known = nearly(name, functions(), str), ", ".join(functions())
    return refuse("no such dp_ call", name=name, near=near, known=known)


_CLAUSES = ("select_list", "having", "qualify", "modifiers")


def aggregates() -> Mapping[str, str]:
    """Return the kinds of statistics by the ordinary aggregates that they answer.

    >>> aggregates()["avg"], aggregates()["count_star"]
    ('mean', 'count')
    """
    named = {name: own for own in STATISTICS.values() for name in own.sql_names if forms_of(own)}
    counts = dict.fromkeys(("count_star", "count_if", "countif", *_ANY), "count")
    return {name: own.kind for name, own in named.items()} | counts


def private(select: Node) -> Node:
    """Return a SELECT whose aggregates are dp_ calls."""
    known = aggregates()
    return {
        name: _within(part, known) if name in _CLAUSES else part for name, part in select.items()
    }


def has_aggregates(select: Node) -> bool:
    """Tell a SELECT that has ordinary aggregates with a private form among its own expressions."""
    known = aggregates()
    return kind(select) == ("", "SELECT_NODE") and any(
        _name(node) in known for part in _CLAUSES for node in own_nodes(select[part])
    )


def with_intervals(items: Sequence[tuple[str, Node]]) -> list[tuple[str, Node]]:
    """Return the items of a SELECT list, each answer followed by its interval and its note.

    So is arithmetic with answers; `Release` computes its ends.
    """
    found: list[tuple[str, Node]] = []
    aliases: dict[str, Node] = {}
    for name, node in items:
        found.append((name, node))
        steps = _steps(node, aliases) or []
        aliases.setdefault(folded(name), node)
        asked = [functions()[called(step)] for step in steps if isinstance(step, dict)]
        noted = any(hasattr(s, "clipping") or hasattr(s, "searches") for s in asked)
        ends = ("low", "high", "note") if noted else _ENDS
        for end in ends if asked else ():
            of_steps = {"class": "COMPUTED", "type": "END", "alias": "", "steps": steps, "end": end}
            found.append((f"{name}_{end}", _end_of(node, end) if steps == [node] else of_steps))
    return found


_ENDS = ("low", "high")
_FLOATS = frozenset(("DOUBLE", "FLOAT", "REAL", "DECIMAL", "NUMERIC"))


def _steps(node: Node, aliases: Mapping[str, Node]) -> list[Any] | None:
    """Return arithmetic with calls that have intervals, each sign behind its two operands.

    Rounding and NULLIF are passed over. None for any other expression.
    """
    name = called(node)
    statistic = functions().get(name)
    if statistic is not None:
        return [node] if statistic.has_interval and statistic.answers_one else None
    if literal(node)[0] in {"INTEGER", "NUMERIC"}:
        return [float(number(node, "a number"))]
    operands = [item["expression"] for item in node["arguments"]] if name else []
    inner = None
    if is_column(node):
        inner = aliases.get(folded(".".join(node["column_names"])))
    elif cast_to(node) in _FLOATS:
        inner = node["child"]
    elif name in {"round", "nullif"} and operands:
        inner = operands[0]
    if inner is not None:
        return _steps(inner, aliases)
    sides = [_steps(operand, aliases) for operand in operands]
    if name not in _ARITHMETIC or None in sides or len(sides) > 2:
        return None
    left, right = [[0.0], *sides][-2:]
    return [*(left or ()), *(right or ()), name]


def _within(tree: Any, known: Mapping[str, str]) -> Any:
    if isinstance(tree, list):
        return [_within(part, known) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if called(tree) in _ANY:
        return _any(tree)
    if is_dp(tree) or _name(tree) in known:
        return _asked(tree, known)
    return {
        name: part if name == "subquery" else _within(part, known) for name, part in tree.items()
    }


_ANY = {
    "bool_or": "dp_count_interval(CASE WHEN x THEN 1 END).low > 0",
    "bool_and": "dp_count_interval(CASE WHEN NOT x THEN 1 END).low <= 0",
}
"""Conditions on some or all rows, by whether the interval of a count lies above 0."""


def _any(node: Node) -> Node:
    if len(node["arguments"]) != 1:
        raise refuse("arguments of an aggregate", name=called(node))
    only(node, "function_name", "arguments", "filter")
    test = node["arguments"][0]["expression"]
    if node["filter"] is not None:
        both = "k AND x" if called(node) == "bool_or" else "NOT k OR x"
        test = fill_template(read_template(both), {"k": node["filter"], "x": test})
    answer = fill_template(read_template(_ANY[called(node)]), {"x": test})
    return {**answer, "alias": node["alias"], "written": _text(node)}


def _name(node: Node) -> str:
    name = called(node)
    return f"{name}_distinct" if name and node["distinct"] else name


def _asked(node: Node, known: Mapping[str, str]) -> Node:
    """Return an aggregate as a dp_ call, with the text by which DuckDB would name it."""
    kept, own = node["filter"], dict(node)
    if not is_dp(node):
        own = _unordered(own)
        own |= {"function_name": f"dp_{_kind(own, known)}", "distinct": False}
        own["written"] = _text(node)
        if called(node) in {"count_if", "countif"} and len(own["arguments"]) == 1:
            own["arguments"] = _chosen([], own["arguments"][0]["expression"])
    if kept is not None:
        own |= {"filter": None, "written": _text(node)}
        own["arguments"] = _chosen(own["arguments"], kept)
    return own


def _kind(node: Node, known: Mapping[str, str]) -> str:
    """Return the kind of the statistic that answers an aggregate; several fractions are a list."""
    found = known[_name(node)]
    last = node["arguments"][-1]["expression"] if node["arguments"] else None
    return "quantiles" if found == "quantile" and called(last) == "list_value" else found


def _unordered(node: Node) -> Node:
    """Return quantile_cont(0.5) WITHIN GROUP (ORDER BY x) as quantile_cont(x, 0.5)."""
    orders = node["order_bys"]["orders"]
    if len(orders) != 1:
        return node
    only(orders[0], "expression", "null_order")
    first = {"name": "", "expression": orders[0]["expression"]}
    empty = {"type": "ORDER_MODIFIER", "orders": []}
    operands = node["arguments"]
    if orders[0]["type"] == "DESCENDING":  # the same fraction from the other end
        rest = read_template("1 - x")
        operands = [
            {**item, "expression": fill_template(rest, {"x": item["expression"]})}
            for item in operands
        ]
    return {**node, "order_bys": empty, "arguments": [first, *operands]}


def _chosen(given: Sequence[Node], kept: Node) -> list[Node]:
    """Return the arguments of a call, the first one only where a condition is fulfilled."""
    first, *others = given or [{"name": "", "expression": read_template("1")}]
    values = {"k": kept, "x": first["expression"]}
    case = fill_template(read_template("CASE WHEN k THEN x END"), values)
    return [{**first, "expression": case}, *others]


def _end_of(call: Node, end: str) -> Node:
    """Return one end of the interval of a call."""
    interval = {**call, "function_name": f"{called(call)}_interval", "alias": ""}
    field_ = read_template(f"f().{end}")
    return {**field_, "children": [interval, field_["children"][1]]}


def _text(node: Node) -> str:
    """Return a call as DuckDB would name its column."""
    stars = [item for item in node["arguments"] if kind(item["expression"]) == ("STAR", "STAR")]
    given = [display(item["expression"]) for item in node["arguments"] if item not in stars]
    orders = node["order_bys"]["orders"]
    ordered = f" ORDER BY {display(orders[0]['expression'])}" if orders else ""
    where = node["filter"]
    kept = "" if where is None else f" FILTER (WHERE {condition(where, display(where))})"
    distinct = "DISTINCT " if node["distinct"] else ""
    return f"{shown(called(node))}({distinct}{', '.join(given)}{ordered}){kept}"
