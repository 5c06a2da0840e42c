"""From text to a statement: vetted against what is known to be safe, or refused.

A statement is what is asked of which rows, and what is done with the answers. Nothing here looks at
data, and every text in a statement was written by this package, none by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.engine.quoting import quoted
from dfprivacy.errors import MissingColumnError, RefusedStatementError
from dfprivacy.statements.calls import (
    KEEP,
    Call,
    Written,
    holds_dp,
    read_call,
    read_keep,
    wants_interval,
    whole_number,
    written_calls,
)
from dfprivacy.statements.expressions import (
    Scope,
    condition,
    display,
    is_dp,
    write,
)
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusals import Node, Refusal, only, refuse, refuse_node
from dfprivacy.statements.rows import Names, Reader, Rows, conditions_of, declared, read_rows
from dfprivacy.statements.tree import (
    Target,
    called,
    is_column,
    kind,
    literal,
    nodes,
    parse,
    too_deep,
)

_CLAUSES = (
    "modifiers", "cte_map", "select_list", "from_table", "where_clause", "group_expressions",
    "group_sets", "aggregate_handling", "having",
)  # fmt: skip
Items = list[tuple[str, Node]]


@dataclass(frozen=True)
class Key:
    """A group key: its name in the result, and its SQL over the protected relation."""

    name: str
    sql: str


@dataclass(frozen=True)
class Output:
    """A column of the result: its name, and its SQL over the released table."""

    name: str
    sql: str


@dataclass(frozen=True)
class Released:
    """What is done with the released table, whose columns are key_0, ... and answer_0, ...

    `order` are SQL texts with their direction.
    """

    outputs: tuple[Output, ...]
    having: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    limit: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Statement:
    """One statement: rows, keys, draws, what is released of them, and where it goes.

    `calls` are the draws, by their text; the n-th of them is answer_n of the released table.
    `selection` is the epsilon of a count that does nothing but select groups, if there is one.
    `written` are the calls as they are written, None where DuckDB may draw one several times.
    """

    rows: Rows
    conditions: tuple[str, ...]
    keys: tuple[Key, ...]
    calls: tuple[tuple[str, Call], ...]
    delta: int | float | None
    selection: Epsilon | None
    written: tuple[Written, ...] | None
    released: Released
    target: Target | None = None


def read(text: object, reader: Reader) -> Statement:
    """Return a statement that has been checked whole; nothing of the data is looked at.

    Raises
    ------
    RefusedStatementError
        For anything that is not known to be safe, or that can't be read.
    MissingColumnError
        For a column that does not exist.
    """
    try:
        return _read(text, reader)
    except RecursionError:
        raise too_deep() from None


def _read(text: object, reader: Reader) -> Statement:
    target, select = parse(text, reader.engine)
    if kind(select) != ("", "SELECT_NODE"):
        raise refuse_node(select)
    only(select, *_CLAUSES)
    order, limit, offset = _modifiers(select)
    rows = read_rows(select, reader)
    items = [_item(node, rows) for node in select["select_list"]]
    names = Names(rows, items)
    keys = _keys(select, names, items)
    release = Release(names, keys, items)
    outputs = tuple(
        Output(name, release.written(node, index)) for index, (name, node) in enumerate(items)
    )
    _distinct(outputs)
    delta, selection, having = _having(select, release)
    sorts = tuple(text for item in order for text in _sorted(item, release))
    released = Released(outputs, having, sorts, limit, offset)
    _asks_something(release)
    conditions = (*rows.conditions, *conditions_of(select, names))
    calls = tuple((shown, call) for call, shown in release.calls.items())
    written = written_calls(select, items)
    return Statement(rows, conditions, keys, calls, delta, selection, written, released, target)


_IN_ORDER = ("ORDER_MODIFIER", "LIMIT_MODIFIER")


def _modifiers(select: Node) -> tuple[list[Node], int | None, int | None]:
    """Return the items of ORDER BY, and the numbers of LIMIT and OFFSET."""
    found = {modifier["type"]: modifier for modifier in select["modifiers"]}
    for name in found:
        if name not in _IN_ORDER:
            raise refuse(name)
    if [modifier["type"] for modifier in select["modifiers"]] != [
        n for n in _IN_ORDER if n in found
    ]:
        raise refuse("modifiers")
    order, limit = found.get("ORDER_MODIFIER", {}), found.get("LIMIT_MODIFIER", {})
    only(order, "orders")
    only(limit, "limit", "offset", "limit_type")
    if limit.get("limit_type", "ROW_COUNT") != "ROW_COUNT":
        raise refuse("limit_type")
    first, skipped = limit.get("limit"), limit.get("offset")
    return (
        order.get("orders", []),
        None if first is None else whole_number(first, "a LIMIT"),
        None if skipped is None else whole_number(skipped, "an OFFSET"),
    )


def _item(node: Node, rows: Rows) -> tuple[str, Node]:
    """Return an item of the SELECT list with its name, as DuckDB would name it."""
    if node["alias"]:
        return node["alias"], node
    if is_column(node):
        return declared(rows, node["column_names"][-1]), node
    return display(node), node


def _distinct(outputs: tuple[Output, ...]) -> None:
    names = [folded(output.name) for output in outputs]
    if len(set(names)) < len(names):
        twice = next(output.name for output in outputs if names.count(folded(output.name)) > 1)
        raise Refusal(
            f"two columns called {twice!r} in the result",
            "each needs a name of its own",
            "name one of them: dp_mean(x, 0, 100) AS mean_x",
        ).error()


def _keys(select: Node, names: Names, items: Items) -> tuple[Key, ...]:
    grouped, sets = select["group_expressions"], select["group_sets"]
    by_all = select["aggregate_handling"] == "FORCE_AGGREGATES"
    if not by_all and select["aggregate_handling"] != "STANDARD_HANDLING":
        raise refuse("aggregate_handling")
    if sets == [[]]:
        raise Refusal(
            "GROUP BY ()", "it names no group", "leave GROUP BY out for the whole table"
        ).error()
    if sets and (len(sets) > 1 or sorted(sets[0]) != list(range(len(grouped)))):
        raise refuse("group_sets")
    if by_all:
        grouped = [node for _, node in items if not holds_dp(node) and _names_columns(node)]
    keys: dict[str, Key] = {}
    for node in grouped:
        key = _key(node, names, items)
        keys.setdefault(key.sql, key)
    return tuple(_named_apart(list(keys.values())))


def _names_columns(node: Node) -> bool:
    return any(map(is_column, nodes(node)))


def _key(node: Node, names: Names, items: Items) -> Key:
    if literal(node)[0] in {"INTEGER", "NUMERIC"}:
        node = _ordinal(node, items)
    sql = names.written(node)
    if not _names_columns(node):
        raise Refusal(
            "GROUP BY a constant", "it makes no groups", "leave GROUP BY out for the whole table"
        ).error()
    return Key(_name_of(sql, node, names, items), sql)


def _ordinal(node: Node, items: Items) -> Node:
    place = whole_number(node, "a place in the SELECT list")
    if not 1 <= place <= len(items):
        raise Refusal(
            f"place {place} in GROUP BY or ORDER BY",
            "the SELECT list has no such place",
            f"use a number from 1 to {len(items)}, or the expression",
        ).error()
    return items[place - 1][1]


def _name_of(sql: str, node: Node, names: Names, items: Items) -> str:
    """Return the name of a key: that of its column in the result, else its own text."""
    for name, item in items:
        if not holds_dp(item) and names.written(item) == sql:
            return name
    return _item(node, names.rows)[0]


def _named_apart(keys: list[Key]) -> list[Key]:
    apart: list[Key] = []
    for key in keys:
        taken = {folded(other.name) for other in apart}
        apart.append(key if folded(key.name) not in taken else replace(key, name=f"{key.name} "))
    return apart


def _having(
    select: Node, release: Release
) -> tuple[int | float | None, Epsilon | None, tuple[str, ...]]:
    """Return the delta and epsilon of dp_keep, as far as they are there, and the rest of HAVING."""
    if select["having"] is None:
        return None, None, ()
    conditions = _conjuncts(select["having"])
    keeps = {read_keep(node) for node in conditions if called(node) == KEEP}
    if len(keeps) > 1 or (keeps and not release.keys):
        raise Refusal(
            "dp_keep twice, or without GROUP BY",
            "groups are selected once, where there are some",
            "SELECT city, dp_count(*) FROM t GROUP BY city HAVING dp_keep(1e-6)",
        ).error()
    others = [node for node in conditions if called(node) != KEEP]
    rest = tuple(condition(node, release.written(node)) for node in others)
    return *next(iter(keeps), (None, None)), rest


_DIRECTIONS = {"ORDER_DEFAULT": "ASC", "ASCENDING": "ASC", "DESCENDING": "DESC"}
_NULLS = {"ORDER_DEFAULT": "NULLS LAST", "NULLS LAST": "NULLS LAST", "NULLS FIRST": "NULLS FIRST"}


def _sorted(item: Node, release: Release) -> list[str]:
    only(item, "expression", "null_order")
    by = item["expression"]
    way, nulls = _DIRECTIONS.get(item["type"]), _NULLS.get(item["null_order"])
    if way is None or nulls is None:
        raise refuse("a direction in ORDER BY")
    direction = f"{way} {nulls}"
    if kind(by) == ("STAR", "STAR") and by["columns"]:  # ORDER BY ALL
        only(by, "columns")
        chosen = [node for _, node in release.items]
    elif literal(by)[0] in {"INTEGER", "NUMERIC"}:
        chosen = [_ordinal(by, list(release.items))]
    else:
        return [f"{release.sorted_by(by)} {direction}"]
    return [f"{release.written(node)} {direction}" for node in chosen]


def _asks_something(release: Release) -> None:
    if not release.calls:
        raise Refusal(
            "a statement without a dp_ call",
            "it would show rows or keys as they are",
            "SELECT city, dp_count(*) FROM t GROUP BY city",
        ).error()


def key_column(index: int) -> str:
    """Return the name of a key in the released table."""
    return f"key_{index}"


def answer_column(index: int) -> str:
    """Return the name of an answer in the released table, or what its columns begin with."""
    return f"answer_{index}"


def qualified(column: str) -> str:
    """Return a column of the released table, so that no name in the result stands before it."""
    return f"released.{column}"


@dataclass(frozen=True)
class Release:
    """Keys and answers, as far as a statement has named them; `calls` grows while it is read.

    `items` are the SELECT list by name; an expression may use the aliases of those before it.
    """

    names: Names
    keys: Sequence[Key]
    items: Sequence[tuple[str, Node]]
    calls: dict[Call, str] = field(default_factory=dict)

    def written(self, node: Node, before: int | None = None) -> str:
        """Return the SQL of an expression over the released table."""
        scope = Scope(lambda parts: self._column(parts, before), self._special)
        return write(node, scope)

    def sorted_by(self, node: Node) -> str:
        """Return the SQL of an item of ORDER BY: an alias goes before a key of that name."""
        if is_column(node) and len(node["column_names"]) == 1:
            only(node, "column_names")
            for index, (name, item) in enumerate(self.items):
                if folded(name) == folded(node["column_names"][0]):
                    return self.written(item, index)
        return self.written(node)

    def _special(self, node: Node) -> str | None:
        if is_dp(node):
            return self._answer(node)
        return self._key(node)

    def _key(self, node: Node) -> str | None:
        """Return the column of a key that an expression is, if it is one."""
        if not self.keys or holds_dp(node):
            return None
        try:
            sql = self.names.written(node)
        except (RefusedStatementError, MissingColumnError):
            return None
        for index, key in enumerate(self.keys):
            if key.sql == sql:
                return qualified(key_column(index))
        return None

    def _answer(self, node: Node) -> str:
        call = read_call(node, self.names.written, display)
        self.calls.setdefault(call, display(node))
        start = qualified(answer_column(list(self.calls).index(call)))
        if wants_interval(node):
            ends = f"'value': {start}, 'low': {start}_low, 'high': {start}_high"
            return f"{{{ends}}}"
        suffixes = call.question.suffixes
        if suffixes == ("",):
            return start
        if suffixes[0] == "_0":
            return f"[{', '.join(f'{start}{suffix}' for suffix in suffixes)}]"
        named = (f"'{end[1:]}': {_known(f'{start}{end}')}" for end in suffixes)
        return f"{{{', '.join(named)}}}"

    def _column(self, parts: Sequence[str], before: int | None) -> str:
        if len(parts) == 1:
            for index, (name, item) in enumerate(self.items[:before]):
                if folded(name) == folded(parts[0]):
                    return self.written(item, index)
        self.names.column(parts)
        raise Refusal(
            f"column {quoted(parts[-1])} outside a dp_ call",
            "it is not a key of GROUP BY, and rows are not shown",
            f"GROUP BY {parts[-1]}, or aggregate it: dp_mean({parts[-1]}, 0, 100)",
        ).error()


def _known(answer: str) -> str:
    """Return NULL in place of NaN, by which bounds say that too few rows stand out."""
    return f"CASE WHEN NOT isnan({answer}) THEN {answer} END"


def _conjuncts(node: Node) -> list[Node]:
    """Return the conditions that AND combines."""
    if kind(node) != ("CONJUNCTION", "CONJUNCTION_AND"):
        return [node]
    only(node, "children")
    return [each for child in node["children"] for each in _conjuncts(child)]
