"""Rewrite constructs of a statement by others that the rules know, before the rules read them.

The rules vet whatever comes out. So a wrong rewrite can answer another question, and can't release
a row. docs/how-to/dfp-sql.md lists the rewrites of refused statements with their proofs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from dfprivacy.engine.embedded import embedded
from dfprivacy.statements.functions import AGGREGATES
from dfprivacy.statements.nodes import (
    Argument,
    Derived,
    Distinct,
    Function,
    Name,
    Node,
    Operator,
    Query,
    Select,
    Star,
    Subquery,
    Table,
    called,
    conjuncts,
    literal,
    rebuild,
    rebuild_part,
    text_of,
    walk,
)
from dfprivacy.statements.rules import refuse
from dfprivacy.statements.tree import folded, fresh, parse, text_of_query

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
    ("width_bucket", 4): "CASE WHEN a < b THEN 0 WHEN a >= c THEN d + 1 "
    "ELSE CAST(floor((a - b) * d / (c - b)) AS INTEGER) + 1 END",
    ("to_timestamp", 1): "TIMESTAMPTZ '1970-01-01 00:00:00+00' + "
    "to_microseconds(CAST(round(a * 1000000) AS BIGINT))",
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
        case Name(path=(name,)) if folded(name) in _CLOCKS:
            return replace(node, clock=_read_clock(_CLOCKS[folded(name)]))
        case Function(name=name, arguments=()) if name in _CLOCKS:
            result = read_template(_read_clock(_CLOCKS[name]))
        case Function() if (node.name, len(node.arguments)) in _MACROS:
            operands = node.operands
            if node.name in _FORMATTED and len(operands) == 2:
                operands = [operands[0], _with_format(operands[1])]
            template = read_template(_MACROS[node.name, len(operands)])
            result = fill_template(template, dict(zip("abcd", operands, strict=False)), node)
        case Function(distinct=True, arguments=(Argument(value=Function(name="row") as row),)):
            result = replace(node, arguments=(Argument(replace(row, name="hash")),))
        case _:
            return node
    return replace(result, alias=node.alias)


def _read_clock(sort: str) -> str:
    """Return the SQL of the time of the statement, by the time zone of the session for dates."""
    now = f"{CLOCK.get(datetime.now(UTC)):%Y-%m-%d %H:%M:%S.%f}+00"
    if sort != "TIMESTAMPTZ":
        with embedded(idle=True) as engine:
            query = f"SELECT CAST(CAST(CAST(? AS TIMESTAMPTZ) AS {sort}) AS VARCHAR)"
            ((now,),) = engine.execute(query, [now]).fetchall()
    return f"CAST('{now}' AS {sort})"


@lru_cache(64)
def read_select(sql: str) -> Select:
    """Return the tree of a SELECT of ours."""
    with embedded(idle=True) as engine:
        _, select = parse(sql, engine)
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

    `written` is the name of the CTE there, and the text of an expression that has changed. A
    recursive CTE stays in a subquery that selects all of its rows.
    """
    match node:
        case Table(path=(name,)) if folded(name) in visible:
            source: Any = visible[folded(name)]
            columns = (*node.columns, *source.columns[len(node.columns) :])
            return replace(source, alias=node.alias or name, columns=columns)
        case Query(ctes=(_, *_) as entries):
            visible = dict(visible)
            for entry in entries:
                is_recursive = getattr(entry.query, "sort", "") == "RECURSIVE_CTE_NODE"
                if is_recursive:
                    visible.pop(folded(entry.name), None)
                query = inline_ctes(entry.query, visible)
                if is_recursive:
                    entry = replace(entry, query=query)  # noqa: PLW2901 the same CTE
                    query = replace(select_all(entry.name), ctes=(entry,))
                _require_few_relations(query)
                source = select_from(query, (), "t").source
                columns = () if is_recursive else entry.columns
                visible[folded(entry.name)] = replace(source, written=entry.name, columns=columns)
            node = inline_ctes(replace(node, ctes=()), visible)
            _require_few_relations(node)
            return node
    changed = rebuild(node, lambda part: inline_ctes(part, visible))
    if changed is not node and isinstance(node, Subquery):
        return replace(changed, written=name_item(replace(node, alias="")))
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


def fill_template(node: Any, values: Mapping[str, Node], call: Function | None = None) -> Any:
    """Return a template with arguments in it; its aggregate takes the FILTER of the call."""
    if isinstance(node, Name):
        return values[node.path[0]]
    node = rebuild(node, lambda part: fill_template(part, values, call))
    if call is None or called(node) != "avg":
        return node
    return replace(node, filter=call.filter, distinct=call.distinct, orders=call.orders)


def _with_format(node: Any) -> Any:
    """Return a constant format of dates as DuckDB writes it."""
    text = text_of(node)
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


def find_alternative(select: Query) -> Query | None:
    """Return a statement with the same answer as a refused one, or None."""
    if not isinstance(select, Select):
        return None
    other = _count_distinct_rows(select) or _group_by_value(select) or select
    other = _release_correlated(other)
    return None if other == select else other


def name_item(node: Node) -> str:
    """Return the name that DuckDB gives an item of a SELECT list."""
    if node.alias:
        return node.alias
    if isinstance(node, Name):
        return node.path[-1]
    with embedded(idle=True) as engine:
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
    """Return the expressions of GROUP BY; None for grouping sets and wrong places."""
    items = select.items
    if select.groups_all:
        return [item for item in items if not list_aggregates(item)]
    if len(select.sets) > 1:
        return None
    aliases = {folded(item.alias): item for item in items if item.alias}
    keys = []
    for node in select.keys:
        text = literal(node)[1]
        if text and not (text.isdecimal() and 1 <= int(text) <= len(items)):
            return None
        by_name = folded(node.path[-1]) if isinstance(node, Name) else ""
        keys.append(items[int(text) - 1] if text else aliases.get(by_name, node))
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
        template = read_template(_BY_VALUE[call.name, len(call.arguments)])
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
    hashed = replace(
        read_template("hash(x)"), arguments=tuple(Argument(read_name(n)) for n in names)
    )
    count = fill_template(read_template("count(DISTINCT x)"), {"x": hashed})
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
    counts = any(called(part).startswith("count") for part in walk(items))
    is_grouped = select.is_grouped or select.having or select.qualify
    if len(items) != 1 or not list_aggregates(items) or counts or is_grouped or select.modifiers:
        return None
    tables = [part for part in walk(select.source) if isinstance(part, Table)]
    inside = {folded(table.alias or table.name) for table in tables}
    parts = [(part, _split_equality(part, inside)) for part in conjuncts(select.where)]
    pairs = [pair for _, pair in parts if pair is not None]
    others = [part for part, pair in parts if pair is None]
    if not pairs or any(_names_others(part, inside) for part in others):
        return None
    names = [f"key_{index}" for index in range(len(pairs))]
    keys = [replace(mine, alias=name) for (mine, _), name in zip(pairs, names, strict=True)]
    groups = _group_all(select, [*keys, replace(items[0], alias="value")])
    groups = replace(groups, where=_join_conditions(others))
    equal = [
        fill_template(read_template("a = b"), {"a": read_name(name), "b": other})
        for (_, other), name in zip(pairs, names, strict=True)
    ]
    query = select_from(groups, [read_template("any_value(value)")], "by_keys")
    return replace(query, where=_join_conditions(equal), is_value=True)


def _names_others(node: Node, inside: set[str]) -> bool:
    """Check for a qualified column of a table that a subquery does not name."""
    columns = [part.path for part in walk(node) if isinstance(part, Name)]
    return any(len(path) > 1 and folded(path[-2]) not in inside for path in columns)


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
