"""Read dp_ calls: what they ask, of which expression, what they spend, and constants in them.

Ordinary aggregates are read as the private questions that they are: AVG(x) as dp_mean(x).
Each statistic names the aggregates that it answers (`Statistic.sql_names`). FILTER (WHERE ...)
behind any call is CASE: rows that do not fulfill it have no value.
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
from dfprivacy.statements.expressions import display, display_call, is_dp
from dfprivacy.statements.functions import OF_FRAMES, of_frame, span_of
from dfprivacy.statements.nodes import (
    Argument,
    Case,
    Cast,
    EndOfSteps,
    Function,
    Name,
    Node,
    Query,
    Select,
    Star,
    arguments,
    called,
    cast_to,
    literal,
    rebuild,
    rebuild_part,
    refuse_node,
    text_of,
    walk,
)
from dfprivacy.statements.relations import Expression
from dfprivacy.statements.rewrites import fill_template, read_template
from dfprivacy.statements.rules import nearly, refuse, refuse_part
from dfprivacy.statements.tree import folded
from dfprivacy.statistics import STATISTICS, Median, Quantile, Statistic
from dfprivacy.statistics.forms import Form, example_calls, forms_of, function_of, functions

_MOST_DIGITS = 400
MOST_POSITIONAL_EPSILON = 20
"""A larger epsilon may be a bound whose other end was forgotten, so a call must name it."""


def number(node: Node, what: str) -> int | float:
    """Return the number that a constant expression stands for."""
    exact = _exact(node, what)
    return int(exact) if exact.denominator == 1 else float(exact)


def whole_number(node: Node, what: str) -> int:
    """Return a number of rows, 0 or more."""
    sort, text = literal(node)
    if sort == "INTEGER" and text.isdecimal():
        return int(text)
    raise refuse("no constant", what=what)


def find_item(node: Node, items: Sequence[tuple[str, Node]]) -> Node:
    """Return the item of a SELECT list whose place a number is; of other nodes the node itself."""
    if literal(node)[0] not in {"INTEGER", "NUMERIC"}:
        return node
    number = whole_number(node, "a place in the SELECT list")
    if not 1 <= number <= len(items):
        raise refuse("a place", place=number, length=len(items))
    return items[number - 1][1]


def _exact(node: Node, what: str) -> Fraction:
    sort, text = literal(node)
    if sort in {"INTEGER", "NUMERIC"}:
        text = text.replace("_", "")
        digits, _, power = text.lower().partition("e")
        size = power.lstrip("+-")
        if len(digits) > _MOST_DIGITS or len(size) > 3 or (size and int(size) > _MOST_DIGITS):
            raise refuse("no constant", what=what)
        try:
            return Fraction(text)
        except ValueError:
            raise refuse("no constant", what=what) from None
    if not isinstance(node, Function) or node.name not in _ARITHMETIC:
        raise refuse("no constant", what=what)
    sign = node.name
    values = [_exact(item, what) for item in arguments(node)]
    if len(values) == 1 and sign in {"+", "-"}:
        values.insert(0, Fraction(0))
    if len(values) != 2 or (sign == "/" and not values[1]):
        raise refuse("no constant", what=what)
    return _ARITHMETIC[sign](*values)


_ARITHMETIC: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": truediv,
}


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
    """True if all of its expressions are `by_row`."""
    is_conditional: bool = field(default=False, compare=False)
    """FILTER, or CASE without ELSE, takes the value from some of the rows only."""


def holds_dp(node: Node) -> bool:
    """Return True if there is a dp_ call anywhere in an expression."""
    return any(map(is_dp, walk(node)))


def read_call(
    node: Function,
    written: Callable[[Node], Expression],
    bounds: Mapping[str, Bounds] = MappingProxyType({}),
) -> Call:
    """Return the question of a dp_ call; `written` writes its expressions over the rows."""
    name = node.name
    function = name.removesuffix("_interval")
    statistic = function_of(function)
    if statistic is None or (name != function and not statistic.has_interval):
        raise _unknown(name)
    arguments = _in_order(function, node)  # DuckDB's tree has dp_count() for dp_count(*)
    for item in arguments:
        if isinstance(item, Star):
            raise refuse_node(item) if item.is_columns else _wrong(function)
    form, constants, epsilon = _form(
        function, statistic, arguments, lambda node: bounds.get(written(node).sql)
    )
    if epsilon is not None:
        _require_small(epsilon, node)
    about = arguments[: len(form.columns)]
    expressions = [written(value) for value in about]
    values = tuple(expression.sql for expression in expressions)
    question: Any = form.question(constants)
    if isinstance(question, Quantile) and question.fractions[0] * 2 == 1:  # one draw with a median
        question = Median(question.column, question.bounds, question.step)
    if question.finds_bounds:
        named = zip(question.columns, values, strict=True)
        question = question.completed(
            {column: bounds[value] for column, value in named if value in bounds}
        )
    by_row = all(expression.by_row for expression in expressions)
    defaults = [value.default for value in about if isinstance(value, Case)]
    conditional = any(literal(default)[0] == "NULL_LITERAL" for default in defaults)
    return Call(question, values, epsilon, tuple(map(display, about)), by_row, conditional)


def _form(
    function: str,
    statistic: type[Statistic],
    arguments: Sequence[Node],
    bounds_of: Callable[[Node], Bounds | None],
) -> tuple[Form, dict[str, Any], Epsilon | None]:
    """Return the form of a call, its constants or known bounds, and the loss it names."""
    for form in forms_of(statistic):
        if form.about_rows:
            if not arguments:
                return form, {}, None
            continue
        first = len(form.columns)
        positional = len(arguments) - first - len(form.constants)
        if positional not in {0, 1}:
            continue
        texts = zip(form.constants, arguments[first:], strict=False)
        constants = {name: _constant(form, name, node) for name, node in texts}
        return form, constants, _read_epsilon(arguments[-1]) if positional else None
    for form in forms_of(statistic):
        positional = len(arguments) - len(form.columns)
        if set(form.constants) != {end for pair in form.ends.values() for end in pair}:
            continue
        if positional in {0, 1} and not form.about_rows:
            named = zip(form.columns, arguments, strict=False)
            bounds = {column: bounds_of(node) for column, node in named}
            pairs = {name: bounds.get(name.removesuffix("_bounds")) for name in form.ends}
            ends = {
                end: value
                for name, pair in pairs.items()
                if pair is not None
                for end, value in zip(form.ends[name], (pair.lower, pair.upper), strict=True)
            }
            loss = _read_epsilon(arguments[-1]) if positional else None
            if None not in pairs.values():
                return form, ends, loss
            if getattr(statistic, "searches", False):
                return replace(form, constants=()), {}, loss
    raise _wrong(function)


def _constant(form: Form, name: str, node: Node) -> Any:
    if form.is_list(name):
        if called(node) != "list_value" or not isinstance(node, Function):
            raise refuse("no constant", what="a list of numbers")
        return tuple(number(item, "a list of numbers") for item in arguments(node))
    span = span_of(node) if form.is_end(name) else None
    if span is not None or (form.is_end(name) and cast_to(node) in _MOMENTS):
        if not form.sample.answers_in_kind:
            raise refuse("dates as bounds", function=f"dp_{form.statistic.kind}")
        if span is not None:
            return span
        try:
            text = text_of(node.operand) if isinstance(node, Cast) else None
            return _MOMENTS[cast_to(node)].fromisoformat(text)
        except (TypeError, ValueError):
            raise refuse("no constant", what="a bound") from None
    return number(node, "a bound" if form.is_end(name) else f"the {name} of {form.statistic.kind}")


_MOMENTS: dict[str, Any] = {
    "DATE": dt.date,
    "TIMESTAMP": dt.datetime,
    "TIMESTAMP WITH TIME ZONE": dt.datetime,
    "TIMESTAMPTZ": dt.datetime,
    "TIME": dt.time,
}


def _in_order(function: str, node: Function) -> list[Node]:
    """Return the arguments of a call, those with a name in their place: dp_sum(x, epsilon := 1)."""
    parts = {"distinct": node.distinct, "filter": node.filter, "order_bys": node.orders}
    for part in filter(parts.get, parts):
        raise refuse_part(part)
    names = [folded(item.name) for item in node.arguments]
    operands = node.operands
    first = next((index for index, name in enumerate(names) if name), len(names))
    values = dict(zip(names[first:], operands[first:], strict=True))
    if not values:
        return operands
    for form in _parameters(function):
        rest = form[first:]
        if set(rest) == set(values) and len(rest) == len(names) - first:
            return [*operands[:first], *(values[name] for name in rest)]
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


def _read_epsilon(node: Node) -> Epsilon:
    return Epsilon(positive_number("epsilon", number(node, "an epsilon")))


def _require_small(epsilon: Epsilon, node: Function) -> None:
    """Refuse a large epsilon that a call has by its place and not by its name."""
    names = {folded(item.name) for item in node.arguments}
    if epsilon.value > MOST_POSITIONAL_EPSILON and "epsilon" not in names:
        amount = f"{float(epsilon.value):g}"
        raise refuse("large epsilon", function=node.name, amount=amount)


def read_keep(node: Function) -> tuple[int | float, Epsilon | None]:
    """Return the delta of dp_keep(delta), and the epsilon of dp_keep(delta, epsilon)."""
    arguments = _in_order(KEEP, node)
    if not 1 <= len(arguments) <= 2:
        raise _wrong(KEEP)
    if len(arguments) == 1:
        return number(arguments[0], "a delta"), None
    epsilon = _read_epsilon(arguments[1])
    _require_small(epsilon, node)
    return number(arguments[0], "a delta"), epsilon


def _wrong(function: str) -> RefusedStatementError:
    if function == KEEP:
        return refuse("arguments of dp_keep")
    statistic, values, advice = functions()[function], "an expression", ""
    calls = ", ".join(example_calls(function, statistic))
    if len(statistic.places()) > 1:
        answers = f", which answers {statistic.sql_names[0]}," if statistic.sql_names else ""
        function, values = f"{function}{answers}", "two expressions"
        advice = "; or bound both columns in a schema: bounds={'t.x': (0, 100), ...}"
    return refuse(
        "arguments of a dp_ call", function=function, values=values, calls=calls, known=advice
    )


def _unknown(name: str) -> RefusedStatementError:
    if name == KEEP:
        return refuse("dp_keep elsewhere")
    plain_name = name.removeprefix("dp_")
    if plain_name in OF_FRAMES:
        return refuse("dp_ call of a frame", name=name, instead=of_frame(plain_name))
    similar, all_names = nearly(name, functions(), str), ", ".join(functions())
    return refuse("no such dp_ call", name=name, near=similar, known=all_names)


def aggregates() -> Mapping[str, str]:
    """Return the kinds of statistics by the ordinary aggregates that they answer.

    >>> aggregates()["avg"], aggregates()["count_star"]
    ('mean', 'count')
    """
    named = {
        name: statistic
        for statistic in STATISTICS.values()
        for name in statistic.sql_names
        if forms_of(statistic)
    }
    counts = dict.fromkeys(("count_star", "count_if", "countif", *_ANY), "count")
    return {name: statistic.kind for name, statistic in named.items()} | counts


def private(select: Select) -> Select:
    """Return a SELECT whose aggregates are dp_ calls."""
    kinds = aggregates()

    def change(node: Any) -> Any:
        if isinstance(node, Function):
            if node.name in _ANY:
                if len(node.arguments) != 1:
                    raise refuse("arguments of an aggregate", name=node.name)
                (test,) = arguments(replace(node, filter=None))
                if node.filter is not None:
                    both = "k AND x" if node.name == "bool_or" else "NOT k OR x"
                    test = fill_template(read_template(both), {"k": node.filter, "x": test})
                answer: Node = fill_template(read_template(_ANY[node.name]), {"x": test})
                return replace(answer, alias=node.alias, written=display_call(node))
            if is_dp(node) or _name(node) in kinds:
                return _asked(node, kinds)
        return node if isinstance(node, Query) else rebuild(node, change)

    clauses = {name: getattr(select, name) for name in ("items", "modifiers", "having", "qualify")}
    return replace(select, **{name: rebuild_part(part, change) for name, part in clauses.items()})


def has_aggregates(select: Query) -> bool:
    """Return True if a SELECT has ordinary aggregates with a private form among its expressions."""
    if not isinstance(select, Select):
        return False
    kinds, parts = aggregates(), [select.items, select.having, select.qualify, select.modifiers]
    return any(_name(node) in kinds for node in walk(parts, queries=False))


def with_intervals(
    items: Sequence[tuple[str, Node]], *, notes_limits: bool
) -> list[tuple[str, Node]]:
    """Return the items of a SELECT list, each answer followed by its interval and its note.

    So is arithmetic with answers; `Statement` computes its ends.
    """
    columns: list[tuple[str, Node]] = []
    aliases: dict[str, Node] = {}
    for name, node in items:
        columns.append((name, node))
        steps = _steps(node, aliases) or []
        aliases.setdefault(folded(name), node)
        called = [functions()[step.name] for step in steps if isinstance(step, Function)]
        noted = any(hasattr(s, "clipping") or hasattr(s, "searches") for s in called)
        ends = ("low", "high", "note") if noted or notes_limits else _ENDS
        for end in ends if called else ():
            computed: Node = EndOfSteps(tuple(steps), end)
            if isinstance(node, Function) and steps == [node]:
                interval = replace(node, name=f"{node.name}_interval", alias="")
                field_ = read_template(f"f().{end}")
                computed = replace(field_, operands=(interval, field_.operands[1]))
            columns.append((f"{name}_{end}", computed))
    return columns


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
    operands = node.operands if isinstance(node, Function) else []
    inner = None
    if isinstance(node, Name):
        inner = aliases.get(folded(".".join(node.path)))
    elif isinstance(node, Cast) and cast_to(node) in _FLOATS:
        inner = node.operand
    elif name in {"round", "nullif"} and operands:
        inner = operands[0]
    if inner is not None:
        return _steps(inner, aliases)
    sides = [_steps(operand, aliases) for operand in operands]
    if name not in _ARITHMETIC or None in sides or len(sides) > 2:
        return None
    left, right = [[0.0], *sides][-2:]
    return [*(left or ()), *(right or ()), name]


_ANY = {
    "bool_or": "dp_count_interval(CASE WHEN x THEN 1 END).low > 0",
    "bool_and": "dp_count_interval(CASE WHEN NOT x THEN 1 END).low <= 0",
}
"""Conditions on some or all rows, by whether the interval of a count lies above 0."""


def _name(node: Node) -> str:
    return (
        f"{node.name}{'_distinct' if node.distinct else ''}" if isinstance(node, Function) else ""
    )


def _asked(node: Function, dp_names: Mapping[str, str]) -> Function:
    """Return an aggregate as a dp_ call, with the text by which DuckDB would name it."""
    call = node
    if not is_dp(node):
        if len(node.orders) == 1:  # quantile_cont(0.5) WITHIN GROUP (ORDER BY x)
            operands, order = node.operands, node.orders[0]
            if order.way == "DESCENDING":  # the same fraction from the other end
                operands = [fill_template(read_template("1 - x"), {"x": x}) for x in operands]
            arguments = tuple(map(Argument, [order.value, *operands]))
            call = replace(node, orders=(), arguments=arguments)
        kind = dp_names[_name(call)]
        if kind == "quantile" and call.arguments and called(call.operands[-1]) == "list_value":
            kind = "quantiles"
        call = replace(call, name=f"dp_{kind}", distinct=False, written=display_call(node))
        if node.name in {"count_if", "countif"} and len(call.arguments) == 1:
            call = replace(call, arguments=_chosen((), call.operands[0]))
    if node.filter is not None:
        arguments = _chosen(call.arguments, node.filter)
        call = replace(call, filter=None, written=display_call(node), arguments=arguments)
    return call


def _chosen(arguments: Sequence[Argument], filter_condition: Node) -> tuple[Argument, ...]:
    """Return the arguments of a call, the first one only where a condition is fulfilled."""
    first, *others = arguments or [Argument(read_template("1"))]
    case = fill_template(
        read_template("CASE WHEN k THEN x END"), {"k": filter_condition, "x": first.value}
    )
    return replace(first, value=case), *others
