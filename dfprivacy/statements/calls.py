"""Rewrite constructs by others that the rules know, and read dp_ calls: what they ask and spend.

The rules vet whatever a rewrite gives. So a wrong one can answer another question, and can't
release a row. docs/how-to/dfp-sql.md lists the rewrites of refused statements with their proofs.

Ordinary aggregates are read as the private questions that they are: AVG(x) as dp_mean(x).
Each statistic names the aggregates that it answers (`Statistic.sql_names`). FILTER (WHERE ...)
behind any call is CASE: rows that do not fulfill it have no value.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from operator import add, mul, sub, truediv
from types import MappingProxyType
from typing import Any

from dfprivacy.accounting.loss import Epsilon, positive_number
from dfprivacy.engine.embedded import open_embedded
from dfprivacy.errors import InvalidBoundsError, RefusedStatementError
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.statements.expressions import (
    AGGREGATES,
    OF_FRAMES,
    Expression,
    is_dp,
    of_frame,
    read_span,
)
from dfprivacy.statements.nodes import (
    Argument,
    Case,
    Cast,
    Constant,
    Derived,
    Distinct,
    EndOfSteps,
    Function,
    Name,
    Node,
    Operator,
    Query,
    Select,
    Star,
    Subquery,
    Table,
    arguments,
    cast_to,
    conjuncts,
    find_text,
    fold_name,
    fresh,
    literal,
    name_call,
    parse_query,
    quote_if_needed,
    rebuild,
    rebuild_part,
    refuse_node,
    text_of_query,
    walk,
)
from dfprivacy.statements.rules import nearly, refuse
from dfprivacy.statistics import STATISTICS, Median, Quantile, Statistic
from dfprivacy.statistics.forms import Form, example_calls, functions, list_forms

CLOCK: ContextVar[datetime] = ContextVar("clock")
"""The time at which a statement is planned: all of it sees the same one."""
_CLOCKS = {
    **dict.fromkeys(("today", "current_date"), "DATE"),
    **dict.fromkeys(
        ("now", "current_timestamp", "get_current_timestamp", "transaction_timestamp"),
        "TIMESTAMPTZ",
    ),
    **dict.fromkeys(("localtimestamp", "current_localtimestamp"), "TIMESTAMP"),
}
"""Names of the current date and time, and the type of each."""

_MACROS = {
    ("iff", 3): "if(a, b, c)",
    ("geomean", 1): "exp(avg(ln(a)))",
    ("width_bucket", 4): "CASE WHEN b < c THEN CASE WHEN a < b THEN 0 WHEN a >= c THEN d + 1 "
    "ELSE CAST(floor((CAST(a AS DOUBLE) - b) * d / (CAST(c AS DOUBLE) - b)) AS INTEGER) + 1 END "
    "WHEN a > b THEN 0 WHEN a <= c THEN d + 1 "
    "ELSE CAST(floor((CAST(b AS DOUBLE) - a) * d / (CAST(b AS DOUBLE) - c)) AS INTEGER) + 1 END",
    ("to_timestamp", 1): "TIMESTAMPTZ '1970-01-01 00:00:00+00' + "
    "to_microseconds(CAST(round(CAST(a AS DOUBLE) * 1000000) AS BIGINT))",
    ("to_timestamp", 2): "strptime(a, b)",
    ("to_date", 2): "CAST(strptime(a, b) AS DATE)",
    ("to_char", 2): "strftime(a, b)",
}
"""Functions, with their number of arguments, by what computes the same."""
_FORMATTED = frozenset(("to_timestamp", "to_date", "to_char"))
_FORMATS = {
    "YYYY": "%Y",
    "YY": "%y",
    "MM": "%m",
    "Mon": "%b",
    "DDD": "%j",
    "DD": "%d",
    "HH24": "%H",
    "HH12": "%I",
    "MI": "%M",
    "SS": "%S",
    "AM": "%p",
}
"""Parts of a date's format as Postgres and as DuckDB write them."""
_FORMAT = re.compile(rf"{'|'.join(_FORMATS)}|[^A-Za-z%]+")


def rewrite(node: Any) -> Any:
    """Return a tree that consists of constructs that the rules know."""
    node = rebuild(node, rewrite)
    match node:
        case Name(path=(name,)) if fold_name(name) in _CLOCKS:
            return replace(node, clock=_read_clock(_CLOCKS[fold_name(name)]))
        case Function(name=name, arguments=()) if name in _CLOCKS:
            result = read_template(_read_clock(_CLOCKS[name]))
        case Function() if (node.name, len(node.arguments)) in _MACROS:
            operands = node.operands
            if node.name in _FORMATTED and len(operands) == 2:
                operands = [operands[0], _with_format(operands[1])]
            values = dict(zip("abcd", operands, strict=False))
            result = fill_template(_MACROS[node.name, len(operands)], values, node)
        case Function(distinct=True, arguments=(Argument(value=Function(name="row") as row),)):
            result = replace(node, arguments=(Argument(replace(row, name="hash")),))
        case _:
            return node
    return replace(result, alias=node.alias, written=node)


def _read_clock(sort: str) -> str:
    """Return the SQL of the time of the statement, by the time zone of the session for dates."""
    now = f"{CLOCK.get(datetime.now(UTC)):%Y-%m-%d %H:%M:%S.%f}+00"
    if sort != "TIMESTAMPTZ":
        with open_embedded(idle=True) as engine:
            query = f"SELECT CAST(CAST(CAST(? AS TIMESTAMPTZ) AS {sort}) AS VARCHAR)"
            ((now,),) = engine.execute(query, [now]).fetchall()
    return f"CAST('{now}' AS {sort})"


@lru_cache(64)
def read_select(sql: str) -> Select:
    """Return the tree of a SELECT of ours."""
    with open_embedded(idle=True) as engine:
        select = parse_query(sql, engine)
    assert isinstance(select, Select)  # noqa: S101 ours
    return select


def read_template(sql: str) -> Any:
    """Return the tree of an expression of ours."""
    return read_select(f"SELECT {sql}").items[0]


def select_all(name: str) -> Select:
    """Return SELECT * FROM a table."""
    query = read_select("SELECT * FROM t")
    source: Any = query.source
    return replace(query, source=replace(source, path=(name,)))


MOST_RELATIONS = 500
"""How many relations a statement may hold, its views and CTEs taken apart."""


def inline_ctes(node: Any, visible: Mapping[str, Derived] = MappingProxyType({})) -> Any:
    """Return a tree with a subquery in the place of each name of a CTE.

    An item that has changed keeps its name. A recursive CTE stays in a subquery that selects all
    of its rows.
    """
    match node:
        case Table(path=(name,)) if fold_name(name) in visible:
            source: Any = visible[fold_name(name)]
            columns = (*node.columns, *source.columns[len(node.columns) :])
            return replace(source, alias=node.alias or name, columns=columns)
        case Query(ctes=(_, *_) as entries):
            visible = dict(visible)
            for entry in entries:
                is_recursive = getattr(entry.query, "sort", "") == "RECURSIVE_CTE_NODE"
                if is_recursive:
                    visible.pop(fold_name(entry.name), None)
                query = inline_ctes(entry.query, visible)
                if is_recursive:
                    entry = replace(entry, query=query)  # noqa: PLW2901 the same CTE
                    query = replace(select_all(entry.name), ctes=(entry,))
                _require_few_relations(query)
                source = select_from(query, (), "t").source
                columns = () if is_recursive else entry.columns
                visible[fold_name(entry.name)] = replace(source, cte=entry.name, columns=columns)
            node = inline_ctes(replace(node, ctes=()), visible)
            _require_few_relations(node)
            return node
    changed = rebuild(node, lambda part: inline_ctes(part, visible))
    if changed is not node and isinstance(node, Subquery):
        return replace(changed, written=node)
    if changed is node or not isinstance(node, Select):
        return changed
    items = [
        now if was is now or was.alias else replace(now, alias=name_item(was))
        for was, now in zip(node.items, changed.items, strict=True)
    ]
    return replace(changed, items=(*items,))


def _require_few_relations(query: Query) -> None:
    if sum(isinstance(node, Table | Derived) for node in walk(query)) > MOST_RELATIONS:
        raise refuse("too many relations")


def select_item(expression: Node) -> Select:
    """Return SELECT of one expression over nothing."""
    return replace(read_select("SELECT 1"), items=(expression,))


def fill_template(sql: str, values: Mapping[str, Node], call: Function | None = None) -> Any:
    """Return an expression of ours with nodes for its names; an average has what a call has."""

    def fill(node: Any) -> Any:
        if isinstance(node, Name):
            return values[node.path[0]]
        node = rebuild(node, fill)
        if call is None or name_call(node) != "avg":
            return node
        return replace(node, filter=call.filter, distinct=call.distinct, orders=call.orders)

    return fill(read_template(sql))


def _with_format(node: Any) -> Any:
    """Return a constant format of dates as DuckDB writes it."""
    text = find_text(node)
    if text is None or "%" in text:
        return node
    if _FORMAT.sub("", text):
        raise refuse("format of dates")
    return replace(node, text=_FORMAT.sub(lambda part: _FORMATS.get(part[0], part[0]), text))


# statements with the same answer as one that is refused

_PRESENT = "FILTER (WHERE x IS NOT NULL)"
_BY_VALUE = {
    ("mode", 1): f"arg_max(x, n) {_PRESENT}",
    ("any_value", 1): f"arg_max(x, n) {_PRESENT}",
    ("histogram", 1): f"map(list(x ORDER BY x) {_PRESENT}, list(n ORDER BY x) {_PRESENT})",
    ("approx_top_k", 2): f"list_slice(list(x ORDER BY n DESC, x) {_PRESENT}, 1, k)",
}
"""Aggregates over single values x, as functions of the released counts n of the values."""


def find_alternative(select: Query) -> Query:
    """Return a statement with the same answer as a refused one; itself if none is known."""
    if not isinstance(select, Select):
        return select
    other = _count_distinct_rows(select) or _group_by_value(select) or select
    alternative: Select = _release_correlated(other)
    return alternative


def name_item(node: Node, columns: Iterable[str] = ()) -> str:
    """Return DuckDB's name of an item of a SELECT list, a column's as `columns` have it."""
    if node.alias or not isinstance(node, Name):
        return node.alias or display(node)
    name = node.path[-1]
    return next((column for column in columns if fold_name(column) == fold_name(name)), name)


def display(node: Node) -> str:
    """Return an expression as the statement has it, in DuckDB's words."""
    if isinstance(node, Name):
        return ".".join(map(quote_if_needed, node.path))
    return _text_of_item(replace(_as_written(node), alias=""))


def _as_written(node: Any) -> Any:
    return rebuild(node, _as_written) if node.written is None else _as_written(node.written)


@lru_cache(4096)
def _text_of_item(node: Node) -> str:
    with open_embedded(idle=True) as engine:
        return text_of_query(select_item(node), engine).removeprefix("SELECT ")


def select_from(query: Query, items: Sequence[Node], name: str) -> Select:
    """Return SELECT items FROM (query) AS name."""
    outer = read_select(f"SELECT 1 FROM (SELECT 1) AS {name}")  # noqa: S608 ours
    source: Any = outer.source
    return replace(outer, items=tuple(items), source=replace(source, query=query))


def _replace_clauses(select: Select, replacements: Sequence[tuple[Node, Node]]) -> dict[str, Any]:
    """Return the clauses over groups with nodes in place of equal ones; items keep their names."""

    def change(node: Any) -> Any:
        for was, now in replacements:
            if replace(node, alias="") == replace(was, alias=""):
                return replace(now, alias=node.alias)
        return node if isinstance(node, Query) else rebuild(node, change)

    items = tuple(replace(change(item), alias=name_item(item)) for item in select.items)
    clauses = {name: getattr(select, name) for name in ("having", "modifiers")}
    return {"items": items, **{name: rebuild_part(part, change) for name, part in clauses.items()}}


def list_aggregates(tree: object) -> list[Function]:
    """Return the aggregates in a tree, outside of subqueries."""
    nodes = walk(tree, queries=False)
    return [node for node in nodes if isinstance(node, Function) and node.name in AGGREGATES]


def _is_bare(call: Function) -> bool:
    """Check for an aggregate without DISTINCT, FILTER and ORDER BY."""
    return not (call.distinct or call.filter or call.orders)


def _list_keys(select: Select) -> list[Node] | None:
    """Return the expressions of GROUP BY; None for grouping sets."""
    items = select.items
    if select.groups_all:
        return [item for item in items if not list_aggregates(item)]
    if len(select.sets) > 1:
        return None
    aliases, keys = {fold_name(item.alias): item for item in items if item.alias}, list[Node]()
    for node in select.keys:
        named = aliases.get(fold_name(node.path[-1])) if isinstance(node, Name) else None
        keys.append(named or find_item(node, [(item.alias, item) for item in items]))
    return keys


def _group_by_value(select: Select) -> Select | None:
    """Return a SELECT of modes and the like as one over the counts of single values."""
    calls = list_aggregates((select.items, select.having or (), select.modifiers))
    keys = _list_keys(select)
    for call in calls:
        if (call.name, len(call.arguments)) not in _BY_VALUE or not _is_bare(call):
            return None
    if not calls or keys is None or select.qualify:
        return None
    value = calls[0].operands[0]
    if any(call.operands[0] != value for call in calls):
        return None
    names: list[str] = []
    for node in (*keys, value):
        names.append(fresh(name_item(node), [*names, "n"]))
    columns = [read_name(name) for name in names]
    counted = [replace(key, alias=name) for key, name in zip([*keys, value], names, strict=True)]
    inner = _group_all(select, [*counted, replace(read_template("count(*)"), alias="n")])
    replacements = list(zip(keys, columns, strict=False))
    for call in calls:
        values = {"x": columns[-1], "n": read_name("n"), "k": call.operands[-1]}
        template = _BY_VALUE[call.name, len(call.arguments)]
        replacements.append((call, fill_template(template, values)))
    clauses = _replace_clauses(select, replacements)
    sets = (tuple(range(len(keys))),) if keys else ()
    return replace(select_from(inner, (), "counts"), **clauses, keys=(*columns[:-1],), sets=sets)


def _group_all(select: Select, items: Sequence[Node]) -> Select:
    """Return a SELECT of other items, grouped by those without aggregates."""
    return replace(
        select,
        items=(*items,),
        keys=(),
        sets=(),
        modifiers=(),
        having=None,
        handling="FORCE_AGGREGATES",
        is_value=False,
    )


def read_name(*path: str) -> Name:
    """Return the node of a column."""
    name: Name = replace(read_template("x"), path=path)
    return name


def _count_distinct_rows(select: Select) -> Select | None:
    """Return count(*) over SELECT DISTINCT as the number of different values."""
    calls = list_aggregates((select.items, select.having or (), select.modifiers))
    if any(call.name != "count_star" or not _is_bare(call) for call in calls):
        return None
    match select.source:
        case Derived(query=Select(modifiers=(Distinct(targets=()),)) as inner) as source:
            rows = not (inner.is_grouped or inner.having or inner.qualify)
            is_known = rows and not list_aggregates(inner.items)
            stars = any(isinstance(item, Star) for item in inner.items)
        case _:
            return None
    if not calls or not is_known or stars or select.where or select.keys:
        return None
    names = [f"value_{index}" for index in range(len(inner.items))]
    items = (replace(item, alias=name) for item, name in zip(inner.items, names, strict=True))
    inner = replace(inner, modifiers=(), items=(*items,))
    columns = tuple(Argument(read_name(name)) for name in names)
    hashed = replace(read_template("hash(x)"), arguments=columns)
    count = fill_template("count(DISTINCT x)", {"x": hashed})
    clauses = _replace_clauses(select, [(calls[0], count)])
    return replace(select, **clauses, source=replace(source, query=inner))


def _release_correlated(node: Any) -> Any:
    """Return a tree in which correlated aggregates are taken from groups that are released."""
    node = rebuild(node, _release_correlated)
    match node:
        case Subquery(sort="SCALAR", query=Select(where=Node()) as select):
            query = _take_by_keys(select)
            return node if query is None else replace(node, query=query)
    return node


def _take_by_keys(select: Select) -> Select | None:
    """Return a scalar subquery that reads its value from groups by what it is compared with."""
    items = select.items
    counts = any(name_call(part).startswith("count") for part in walk(items))
    is_grouped = select.is_grouped or select.having or select.qualify
    if len(items) != 1 or not list_aggregates(items) or counts or is_grouped or select.modifiers:
        return None
    tables = [part for part in walk(select.source) if isinstance(part, Table)]
    inside = {fold_name(table.alias or table.name) for table in tables}
    parts = [(part, _split_equality(part, inside)) for part in conjuncts(select.where)]
    pairs = [pair for _, pair in parts if pair is not None]
    others = [part for part, pair in parts if pair is None]
    if not pairs or any(_names_others(part, inside) for part in others):
        return None
    names = [f"key_{index}" for index in range(len(pairs))]
    keys = [replace(mine, alias=name) for (mine, _), name in zip(pairs, names, strict=True)]
    groups = _group_all(select, [*keys, replace(items[0], alias="value")])
    groups = replace(groups, where=_join_conditions(others))
    sides = [{"a": read_name(n), "b": other} for (_, other), n in zip(pairs, names, strict=True)]
    equal = [fill_template("a = b", side) for side in sides]
    query = select_from(groups, [read_template("any_value(value)")], "by_keys")
    return replace(query, where=_join_conditions(equal), is_value=True)


def _names_others(node: Node, inside: set[str]) -> bool:
    """Check for a qualified column of a table that a subquery does not name."""
    columns = [part.path for part in walk(node) if isinstance(part, Name)]
    return any(len(path) > 1 and fold_name(path[-2]) not in inside for path in columns)


def _split_equality(node: Node, inside: set[str]) -> tuple[Node, Name] | None:
    """Return the sides of an equality with a column around the subquery, which comes second."""
    sides = node.operands if isinstance(node, Operator) and node.sort == "COMPARE_EQUAL" else ()
    for mine, other in (sides, sides[::-1]) if sides else ():
        is_outer = _names_others(other, inside) and not _names_others(mine, inside)
        if isinstance(other, Name) and is_outer:
            return mine, other
    return None


def _join_conditions(conditions: Sequence[Node]) -> Node | None:
    if len(conditions) < 2:
        return next(iter(conditions), None)
    joint: Operator = replace(read_template("a AND b"), operands=(*conditions,))
    return joint


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
        digits, _, power = text.replace("_", "").lower().partition("e")
        size = power.lstrip("+-")
        is_short = len(digits) <= _MOST_DIGITS and len(size) <= 3
        if is_short and int(size or 0) <= _MOST_DIGITS:
            with suppress(ValueError):
                return Fraction(text.replace("_", ""))
    elif isinstance(node, Function) and node.name in _ARITHMETIC:
        values = [_exact(item, what) for item in arguments(node)]
        if len(values) == 1 and node.name in {"+", "-"}:
            values.insert(0, Fraction(0))
        if len(values) == 2 and (node.name != "/" or values[1]):
            return _ARITHMETIC[node.name](*values)
    raise refuse("no constant", what=what)


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
    choices: frozenset[str] = field(default=frozenset(), compare=False)
    """The SQL of what its expressions choose from, NULL aside."""


def holds_dp(node: Node) -> bool:
    """Return True if there is a dp_ call anywhere in an expression."""
    return any(map(is_dp, walk(node)))


def read_call(
    node: Function,
    written: Callable[[Node], Expression],
    bounds: Mapping[str, Bounds],
    range_of: Callable[[Node], Bounds | None],
) -> Call:
    """Return the question of a dp_ call; `written` writes its expressions over the rows.

    `bounds` are known ones by SQL, and `range_of` are those of expressions that hold every value.
    """
    name = node.name
    function = name.removesuffix("_interval")
    statistic = functions().get(function)
    if statistic is None or (name != function and not statistic.has_interval):
        raise _unknown(name)
    for item in node.operands:  # DuckDB's tree has dp_count() for dp_count(*)
        if isinstance(item, Star):
            raise refuse_node(item) if item.is_columns else _wrong(function)
    form, constants, about, epsilon = _read_form(
        function, node, lambda node: bounds.get(written(node).sql)
    )
    expressions = [written(value) for value in about]
    values = tuple(expression.sql for expression in expressions)
    question: Any = form.question(constants)
    if isinstance(question, Quantile) and question.fractions[0] * 2 == 1:  # one draw with a median
        question = Median(question.column, question.bounds, question.step)
    if question.finds_bounds:
        named = zip(question.columns, values, strict=True)
        question = question.complete(
            {column: bounds[value] for column, value in named if value in bounds}
        )
    if question.finds_bounds:
        by_choice = [bounds_of_choices(node, range_of) for node in about]
        if all(by_choice):  # they hold every value: none is clipped
            question = question.complete(dict(zip(question.columns, by_choice, strict=True)))
            question = replace(question, clipping=False)
    by_row = all(expression.by_row for expression in expressions)
    choices = [choice for value in about for choice in _list_choices(value)]
    present = [choice for choice in choices if literal(choice)[0] != "NULL_LITERAL"]
    conditional = len(present) < len(choices)
    chosen = frozenset(written(choice).sql for choice in present)
    return Call(question, values, epsilon, tuple(map(display, about)), by_row, conditional, chosen)


_WHOLE = frozenset(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"))

_WITHIN = frozenset(("min", "max", "any_value", "first", "last", "avg", "mean", "median", "mode"))
"""The aggregates whose values lie within the range of what they aggregate."""


def bounds_of_choices(node: Node, range_of: Callable[[Node], Bounds | None]) -> Bounds | None:
    """Return the bounds of a choice among constants and what has a range; None for the rest.

    An aggregate of such a choice can have them too.
    """
    numbers: set[int | float] = set()
    waiting, rounds = [node], False
    while waiting:
        choice, *others = _list_choices(waiting.pop())
        waiting += others
        if isinstance(choice, Cast) and cast_to(choice) in _WHOLE | _FLOATS:
            rounds |= cast_to(choice) != "DOUBLE"
            waiting.append(choice.operand)
        elif name_call(choice) in _WITHIN and isinstance(choice, Function):
            if len(choice.operands) != 1:  # MAX(x, 3) is a list
                return None
            waiting += choice.operands
        elif literal(choice)[0] in {"INTEGER", "NUMERIC"} or name_call(choice) == "-":
            with suppress(RefusedStatementError):
                numbers.add(number(choice, "a bound"))
                continue
            return None
        elif literal(choice)[0] != "NULL_LITERAL":
            bounds = range_of(choice)
            if bounds is None:
                return None
            ends = (bounds.lower, bounds.upper)
            numbers |= {int(end) if end.is_integer() else end for end in ends}
    if not numbers or (rounds and any(isinstance(value, float) for value in numbers)):
        return None
    if len(numbers) == 1:
        numbers |= {0} if numbers != {0} else {1}
    with suppress(InvalidBoundsError):
        return Bounds(min(numbers), max(numbers))
    return None


def _list_choices(node: Node) -> list[Node]:
    """Return the results of CASE and IF; any other expression is its own."""
    results: list[Node] = [node]
    if isinstance(node, Case):
        results = [*(branch.then for branch in node.branches), node.default]
    elif name_call(node) == "if" and isinstance(node, Function) and len(node.operands) == 3:
        results = node.operands[1:]
    return results if results == [node] else [c for part in results for c in _list_choices(part)]


def _read_form(
    function: str, node: Function, bounds_of: Callable[[Node], Bounds | None]
) -> tuple[Form, dict[str, Any], list[Node], Epsilon | None]:
    """Return the form of a call, its constants or known bounds, its expressions and its loss."""
    statistic = functions()[function]
    forms = [form for form in list_forms(statistic) if not form.about_rows]
    if len(forms) < len(list_forms(statistic)) and not (node.arguments or node.orders):
        return list_forms(statistic)[0], {}, [], None
    candidates = [(form, (*form.columns, *form.constants)) for form in forms]
    candidates += [  # of bounds that a schema knows, or that are found
        (form, form.columns)
        for form in forms
        if form.ends and set(form.constants) == {end for pair in form.ends.values() for end in pair}
    ]
    for form, parameters in candidates:
        for values in _bind(node, [parameters, (*parameters, "epsilon")]):
            constants: dict[str, Any] = {}
            if {*form.constants} <= values.keys():
                constants = {name: _constant(form, name, values[name]) for name in form.constants}
            else:
                for name, ends in form.ends.items():
                    column = values.get(name.removesuffix("_bounds"))
                    if column is not None and (pair := bounds_of(column)) is not None:
                        constants |= zip(ends, (pair.lower, pair.upper), strict=True)
                if len(constants) < len(form.constants):
                    if not getattr(statistic, "searches", False):
                        continue
                    form, constants = replace(form, constants=()), {}  # noqa: PLW2901 without
            about = [values[column] for column in form.columns]
            epsilon = _read_epsilon(node, values["epsilon"]) if "epsilon" in values else None
            return form, constants, about, epsilon
    raise _wrong(function)


def _constant(form: Form, name: str, node: Node) -> Any:
    if form.is_list(name):
        if name_call(node) != "list_value" or not isinstance(node, Function):
            raise refuse("no constant", what="a list of numbers")
        return tuple(number(item, "a list of numbers") for item in arguments(node))
    span = None if isinstance(node, Constant) or not form.is_end(name) else read_span(node)
    if span is not None or (form.is_end(name) and cast_to(node) in _MOMENTS):
        if not form.sample.answers_in_kind:
            raise refuse("dates as bounds", function=f"dp_{form.statistic.kind}")
        if span is not None:
            return span
        try:
            text = find_text(node.operand) if isinstance(node, Cast) else None
            return _MOMENTS[cast_to(node)].fromisoformat(text)
        except (TypeError, ValueError):
            raise refuse("no constant", what="a bound") from None
    return number(node, "a bound" if form.is_end(name) else f"the {name} of {form.statistic.kind}")


_MOMENTS: dict[str, Any] = {
    "DATE": dt.date,
    "TIMESTAMP": dt.datetime,
    "TIMESTAMPTZ": dt.datetime,
    "TIME": dt.time,
}


def _bind(node: Function, forms: Iterable[tuple[str, ...]]) -> Iterator[dict[str, Node]]:
    """Yield the arguments of a call by the names of each form that it fits: f(x, epsilon := 1)."""
    arguments(replace(node, arguments=()))
    names = [fold_name(item.name) for item in node.arguments]
    first = next((index for index, name in enumerate(names) if name), len(names))
    for form in forms:
        labels = [*form[:first], *names[first:]]
        if len(form) == len(names) and {*labels} == {*form}:
            yield dict(zip(labels, node.operands, strict=True))


def _read_epsilon(call: Function, value: Node) -> Epsilon:
    """Return the epsilon that a call names; a large one has to go by its name."""
    epsilon = Epsilon(positive_number("epsilon", number(value, "an epsilon")))
    is_named = any(fold_name(argument.name) == "epsilon" for argument in call.arguments)
    if epsilon.value > MOST_POSITIONAL_EPSILON and not is_named:
        amount = f"{float(epsilon.value):g}"
        raise refuse("large epsilon", function=call.name, amount=amount)
    return epsilon


def read_keep(node: Function) -> tuple[int | float, Epsilon | None]:
    """Return the delta of dp_keep(delta), and the epsilon of dp_keep(delta, epsilon)."""
    values = next(_bind(node, _KEEP_FORMS), None)
    if values is None:
        raise refuse("arguments of dp_keep")
    epsilon = _read_epsilon(node, values["epsilon"]) if "epsilon" in values else None
    return number(values["delta"], "a delta"), epsilon


def _wrong(function: str) -> RefusedStatementError:
    statistic, values, advice = functions()[function], "an expression", ""
    calls = ", ".join(example_calls(function, statistic))
    if len(places := statistic.places()) > 1:
        answers = f", which answers {statistic.sql_names[0]}," if statistic.sql_names else ""
        advice = f", or without bounds, which are found then: {function}({', '.join(places)})"
        advice += "; a schema bounds single columns: rows='t', bounds={'t.x': (0, 100)}"
        function, values = f"{function}{answers}", "two expressions"
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
    asking = [statistic for statistic in STATISTICS.values() if list_forms(statistic)]
    counts = dict.fromkeys(("count_star", "count_if", "countif", *_ANY), "count")
    return {name: statistic.kind for statistic in asking for name in statistic.sql_names} | counts


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
                    test = fill_template(both, {"k": node.filter, "x": test})
                answer: Node = fill_template(_ANY[node.name], {"x": test})
                return replace(answer, alias=node.alias, written=node)
            if is_dp(node) or _name(node) in kinds:
                return _build_call(node, kinds)
        return node if isinstance(node, Query) else rebuild(node, change)

    clauses = {name: getattr(select, name) for name in ("items", "modifiers", "having", "qualify")}
    return replace(select, **{name: rebuild_part(part, change) for name, part in clauses.items()})


def has_aggregates(select: Query) -> bool:
    """Check for ordinary aggregates among the expressions of a SELECT."""
    if not isinstance(select, Select):
        return False
    parts = [select.items, select.having, select.qualify, select.modifiers]
    return bool(list_aggregates(parts))


def with_intervals(
    items: Sequence[tuple[str, Node]], *, notes_limits: bool
) -> list[tuple[str, Node]]:
    """Return the items of a SELECT list, each answer followed by its interval and its note.

    So is arithmetic with answers; `Statement` computes its ends.
    """
    columns: list[tuple[str, Node]] = []
    aliases: dict[str, list[Any]] = {}
    for name, node in items:
        columns.append((name, node))
        steps = _steps(node, aliases) or []
        aliases.setdefault(fold_name(name), steps)
        called = [functions()[step.name] for step in steps if isinstance(step, Function)]
        noted = any(hasattr(s, at) for s in called for at in ("clipping", "searches", "ends"))
        ends = ("low", "high", "note") if noted or notes_limits else _ENDS
        for end in ends if called else ():
            computed: Node = EndOfSteps(tuple(steps), end)
            if end in _ENDS:
                computed = _round_end(node, computed)
            if isinstance(node, Function) and steps == [node]:
                interval = replace(node, name=f"{node.name}_interval", alias="")
                field_ = read_template(f"f().{end}")
                computed = replace(field_, operands=(interval, field_.operands[1]))
            columns.append((f"{name}_{end}", computed))
    return columns


def _round_end(node: Node, end: Node) -> Node:
    """Return an end of an interval, rounded as the answer is where the type has room for it."""
    if isinstance(node, Cast):
        end = _round_end(node.operand, end)
        parts = {"x": replace(node, operand=end, tries=True), "y": end}
        end = fill_template("coalesce(x, y)", parts)
    elif isinstance(node, Function) and node.name == "round":
        first, *others = node.arguments
        rounded = replace(first, value=_round_end(first.value, end))
        end = replace(node, arguments=(rounded, *others))
    return end


_ENDS = ("low", "high")
_MOST_STEPS = 10_000
"""How many steps arithmetic with answers may have; longer texts of answers are refused."""
_FLOATS = frozenset(("DOUBLE", "FLOAT", "DECIMAL"))


def _steps(node: Node, aliases: Mapping[str, list[Any]]) -> list[Any] | None:
    """Return arithmetic with calls that have intervals, each sign behind its two operands.

    Rounding, NULLIF and COALESCE are passed over: `_round_end` rounds ends. None for any other.
    """
    name = name_call(node)
    statistic = functions().get(name)
    if statistic is not None:
        return [node] if statistic.has_interval and statistic.answers_one else None
    if literal(node)[0] in {"INTEGER", "NUMERIC"}:
        return [float(number(node, "a number"))]
    operands = node.operands if isinstance(node, Function) else []
    inner = None
    if isinstance(node, Name):
        return aliases.get(fold_name(".".join(node.path))) or None
    if isinstance(node, Cast) and cast_to(node) in _WHOLE | _FLOATS:
        inner = node.operand
    elif name in {"round", "nullif", "ifnull"} and operands:
        inner = operands[0]
    elif isinstance(node, Operator) and node.sort == "OPERATOR_COALESCE":
        inner = node.operands[0]
    if inner is not None:
        return _steps(inner, aliases)
    sides = [_steps(operand, aliases) for operand in operands]
    if name not in _ARITHMETIC or None in sides or len(sides) > 2:
        return None
    left, right = [[0.0], *sides][-2:]
    steps = [*(left or ()), *(right or ()), name]
    return steps if len(steps) <= _MOST_STEPS else None


_ANY = {
    "bool_or": "dp_count_interval(CASE WHEN x THEN 1 END).low > 0",
    "bool_and": "dp_count_interval(CASE WHEN NOT x THEN 1 END).low <= 0",
}
"""Conditions on some or all rows, by whether the interval of a count lies above 0."""


def _name(node: Node) -> str:
    distinct = "_distinct" if isinstance(node, Function) and node.distinct else ""
    return f"{name_call(node)}{distinct}"


def _build_call(node: Function, dp_names: Mapping[str, str]) -> Function:
    """Return an aggregate as a dp_ call, and what is written in its place."""
    call = node
    if not is_dp(node):
        if len(node.orders) == 1:  # quantile_cont(0.5) WITHIN GROUP (ORDER BY x)
            operands, order = node.operands, node.orders[0]
            if order.way == "DESCENDING":  # the same fraction from the other end
                operands = [fill_template("1 - x", {"x": x}) for x in operands]
            arguments = tuple(map(Argument, [order.value, *operands]))
            call = replace(node, orders=(), arguments=arguments)
        kind = dp_names[_name(call)]
        if kind == "quantile" and call.arguments and name_call(call.operands[-1]) == "list_value":
            kind = "quantiles"
        call = replace(call, name=f"dp_{kind}", distinct=False, written=node)
        if node.name in {"count_if", "countif"} and len(call.arguments) == 1:
            call = replace(call, arguments=_chosen((), call.operands[0]))
    if node.filter is not None:
        arguments = _chosen(call.arguments, node.filter)
        call = replace(call, filter=None, written=node, arguments=arguments)
    return call


def _chosen(arguments: Sequence[Argument], filter_condition: Node) -> tuple[Argument, ...]:
    """Return the arguments of a call, the first one only where a condition is fulfilled."""
    first, *others = arguments or [Argument(read_template("1"))]
    parts = {"k": filter_condition, "x": first.value}
    case = fill_template("CASE WHEN k THEN x END", parts)
    return replace(first, value=case), *others
