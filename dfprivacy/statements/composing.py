"""Take a statement apart: the SELECTs that ask about rows, and what is done with their answers.

A SELECT that holds a dp_ call among its own expressions is a release; it may stand in a CTE, in
FROM, in an expression or in a UNION. The rest of the statement may be any query over releases: it
runs on an engine of its own which holds the released tables and nothing else, which opens no file
and finds no Python variable. So whatever the rest is, it is a function of released answers.

Over the tables of a schema a release may stand inside of another, too. What the other one takes of
it is a query over released answers: a table that everybody may know once these are drawn.

Ordinary aggregates are read as the private questions that they are: AVG(x) as dp_mean(x).
Each statistic names the aggregates that it answers (`Statistic.sql_names`). FILTER (WHERE ...)
behind any call is CASE: rows that do not fulfil it have no value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.engine.returning import released_rows
from dfprivacy.errors import DPError, InvalidQuestionError
from dfprivacy.statements.calls import holds_dp
from dfprivacy.statements.expressions import condition, display, is_dp
from dfprivacy.statements.rules import Node, only, refuse
from dfprivacy.statements.tree import called, folded, is_column, kind, nodes, shown
from dfprivacy.statistics import STATISTICS
from dfprivacy.statistics.forms import forms_of

_TABLES = frozenset(("range", "generate_series", "unnest"))
"""Table functions that the rest of a statement may call: they read nothing."""


@dataclass(frozen=True)
class Composition:
    """The releases of a statement, in the order in which they are drawn, and the rest.

    There is none where a statement is about public tables alone: it is exact, and free.

    `rest` is a query over tables that go by `names`, in the order of the releases, and over public
    ones, by the names that they have there; None where the last release is the whole statement.
    """

    releases: tuple[Any, ...]
    names: tuple[str, ...] = ()
    rest: Node | None = None
    public: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Asked:
    """How a statement is taken apart: what is known of its names, and what reads its releases.

    `is_public` tells whether a name stands for a public table, wherever the table is found. `read`
    takes a SELECT that can be read by itself; `nested` says whether one may stand in another,
    `lend` makes what the other one takes of the releases so far, under a name, and is told if it is
    one value, `text` shows an expression. `aggregated` tells a SELECT with ordinary aggregates of
    its own, `about_all` whether these are about several units.
    """

    is_public: Callable[[tuple[str, ...]], bool]
    read: Callable[[Node], Any]
    lend: Callable[[str, Composition, bool], None]
    text: Callable[[Node], str]
    aggregated: Callable[[Node], bool]
    about_all: Callable[[Node], bool]
    nested: bool


def taken_apart(select: Node, asked: Asked) -> Composition:
    """Return the releases of a statement and what is done with them and with public tables."""
    for node in nodes(select):
        if kind(node) == ("SUBQUERY", "SUBQUERY"):
            node["subquery"]["node"]["inner"] = True
    made = _Taken(fresh_name(select), asked)
    try:
        rest = None if asks(select) else made.query(select, {})
    except _Unreleased:
        if holds_dp(select) and not asked.aggregated(select):
            raise refuse("rows beside answers", rows=made.rows) from None
        rest = None
    except DPError:
        if holds_dp(select):
            raise
        rest = None
    public_alone = rest is not None and not made.releases and made.tables and not holds_dp(select)
    if rest is None or not (made.releases or public_alone):
        made = _Taken(made.start, asked)
        made.release(made.below(select, {}), {})
        return Composition(tuple(made.releases), tuple(made.names))
    return made.composed(rest)


def fresh_name(select: Node) -> str:
    """Return what names of released tables begin with, so that no name in a statement is one."""
    texts = [value for node in nodes(select) for value in node.values() if isinstance(value, str)]
    keys = [node["key"] for node in nodes(select) if isinstance(node.get("key"), str)]
    start = "release"
    while any(folded(text).startswith(start) for text in (*texts, *keys)):
        start += "_"
    return start


def asks(select: Node) -> bool:
    """Tell a SELECT that holds a dp_ call among its own expressions: a release."""
    if select.get("type") != "SELECT_NODE":
        return False
    parts = ("select_list", "where_clause", "having", "qualify", "modifiers", "group_expressions")
    return any(called(node).startswith("dp_") for part in parts for node in own_nodes(select[part]))


def own_nodes(tree: object) -> Iterator[Node]:
    """Yield the nodes of an expression, without those of the queries in it."""
    if isinstance(tree, list):
        for part in tree:
            yield from own_nodes(part)
    elif isinstance(tree, dict):
        yield tree
        for name, part in tree.items():
            if name != "subquery":
                yield from own_nodes(part)


@dataclass(frozen=True)
class _Common:
    """A CTE as a statement can name it: over released tables, or over rows."""

    entry: Node
    released: bool


_Seen = Mapping[str, _Common]


class _Unreleased(Exception):  # noqa: N818 it is caught below
    """A name stands for rows."""


@dataclass
class _Taken:
    """The releases that have been found, what their names begin with, and the last name of rows.

    `lent` has the names of what releases take of others, by the query that makes it; `unreleased`
    are queries that are known to look at rows, by their identity.
    """

    start: str
    asked: Asked
    releases: list[Any] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    tables: dict[tuple[str, ...], str] = field(default_factory=dict)
    lent: dict[str, str] = field(default_factory=dict)
    unreleased: set[int] = field(default_factory=set)
    rows: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the released tables."""
        return [f"{self.start}_{index}" for index in range(len(self.releases))]

    def composed(self, rest: Node) -> Composition:
        """Return the releases so far, and a query over them."""
        used = _named(rest)
        tables = tuple((name, parts) for parts, name in self.tables.items() if name in used)
        return Composition(tuple(self.releases), tuple(self.names), rest, tables)

    def release(self, node: Node, sees: _Seen) -> Node:
        """Read a release, and return all of its table; the same text is one release."""
        alone = self._alone(node, sees)
        text = json.dumps(plain(alone))
        if text not in self.known:
            self.releases.append(self.asked.read(alone))
            self.known[text] = len(self.releases) - 1
        return _all_of(self.names[self.known[text]])

    # over answers

    def query(self, node: Node, sees: _Seen) -> Node:
        """Return a whole query over released tables."""
        if id(node) in self.unreleased:
            raise _Unreleased
        if asks(node):
            return self.release(self.below(node, sees), sees)
        before = self._state()
        try:
            return self._over_answers(node, sees)
        except _Unreleased:
            self._restore(before)
        if self.asked.nested and self.asked.aggregated(node):
            inner = self.below(node, sees)
            if self.asked.about_all(self._alone(inner, sees)):
                return self.release(inner, sees)
            self._restore(before)
        self.unreleased.add(id(node))
        raise _Unreleased

    def _state(self) -> tuple[Any, ...]:
        return (list(self.releases), dict(self.known), dict(self.tables), dict(self.lent))

    def _restore(self, state: tuple[Any, ...]) -> None:
        self.releases, self.known, self.tables, self.lent = state

    def _over_answers(self, node: Node, sees: _Seen) -> Node:
        entries = node.get("cte_map", {"map": []})["map"]
        if sees.keys() & {folded(entry["key"]) for entry in entries}:
            raise refuse("two CTEs of one name")
        sees, kept = dict(sees), []
        for entry in entries:
            common = self._common(entry, sees)
            sees[folded(entry["key"])] = common
            kept += [common.entry] if common.released else []
        inner = {name: self._part(part, sees) for name, part in node.items() if name != "cte_map"}
        return {**inner, "cte_map": {"map": kept}} if "cte_map" in node else inner

    def _common(self, entry: Node, sees: _Seen) -> _Common:
        """Return a CTE: over released tables, or over rows."""
        body, own = entry["value"]["query_node"], dict(sees)
        if body["type"] == "RECURSIVE_CTE_NODE":
            own[folded(entry["key"])] = _Common(entry, released=True)
        before = self._state()
        try:
            return _Common(_made_of(entry, self.query(body, own)), released=True)
        except _Unreleased:
            self._restore(before)
            return _Common(_made_of(entry, self.below(body, sees)), released=False)

    def _part(self, tree: object, sees: _Seen) -> object:
        """Return a part of a query, with the queries in it over released tables."""
        if isinstance(tree, list):
            return [self._part(part, sees) for part in tree]
        if not isinstance(tree, dict):
            return tree
        if "cte_map" in tree:
            return self.query(tree, sees)
        sort = tree.get("type")
        if sort == "BASE_TABLE":
            return self._table(tree, sees)
        if sort == "TABLE_FUNCTION" and called(tree["function"]) not in _TABLES:
            raise refuse("TABLE_FUNCTION")
        if sort in {"VALUE_PARAMETER", "SHOW_REF"}:
            raise refuse(str(sort))
        if kind(tree)[0] == "WINDOW" and folded(tree["function_name"]).startswith("dp_"):
            raise refuse("WINDOW")
        return {name: self._part(part, sees) for name, part in tree.items()}

    def _table(self, node: Node, sees: _Seen) -> Node:
        """Return a table that the rest of a statement may name: a released CTE, or a public one."""
        parts = (node["catalog_name"], node["schema_name"], node["table_name"])
        path = tuple(filter(None, parts))
        common = sees.get(folded(path[0])) if len(path) == 1 else None
        if common is not None and common.released:
            return node
        if common is not None or not self.asked.is_public(path):
            self.rows = ".".join(path)
            raise _Unreleased
        name = self.tables.setdefault(path, f"{self.start}_public_{len(self.tables)}")
        called_ = node["alias"] or path[-1]
        table: Node = _all_of(name)["from_table"]
        return {**node, **table, "alias": called_, "column_name_alias": node["column_name_alias"]}

    # inside of a release

    def below(self, node: Node, sees: _Seen) -> Node:
        """Return a query over rows, with tables that are lent to it in place of releases in it."""
        if not self.asked.nested:
            return node
        own, names = dict(sees), []
        for entry in node.get("cte_map", {"map": []})["map"]:
            names.append(folded(entry["key"]))
            own[names[-1]] = self._common(entry, own)
        inner = {name: self._inside(part, own) for name, part in node.items() if name != "cte_map"}
        if "cte_map" not in node:
            return inner
        used = _used(inner, own)
        kept = [self._seen(own[name], own) for name in names if name in used or
                not own[name].released]  # fmt: skip
        return {**inner, "cte_map": {**node["cte_map"], "map": kept}}

    def _inside(self, tree: object, sees: _Seen) -> object:
        if isinstance(tree, list):
            return [self._inside(part, sees) for part in tree]
        if not isinstance(tree, dict):
            return tree
        if "cte_map" in tree:
            return self.below(tree, sees)
        parts = {
            name: self._inside(part, sees) for name, part in tree.items() if name != "subquery"
        }
        if tree.get("type") != "SUBQUERY":
            return parts
        scalar = tree.get("subquery_type") == "SCALAR"
        name = self._taken_of(tree["subquery"]["node"], sees, tree if scalar else None)
        if name is None:
            return {**parts, "subquery": self._inside(tree["subquery"], sees)}
        lent = _all_of(name)
        if scalar:
            lent["select_list"] = [_any_value("value")]
            parts |= {"given": name, "written": self.asked.text(tree)}
        return {**parts, "subquery": {**tree["subquery"], "node": lent}}

    def _taken_of(self, node: Node, sees: _Seen, scalar: Node | None) -> str | None:
        """Return the name of what a query over released answers makes; None for one over rows."""
        before = self._state()
        try:
            with suppress(_Unreleased):
                rest = self.query(node, sees)
                over = {folded(n) for n in self.names} | {n for n, c in sees.items() if c.released}
                if over & _named(rest):
                    whole = rest if scalar is None else _value_of(scalar, rest)
                    return self._lent(whole, sees, single=scalar is not None)
        except DPError as error:
            if asks(node) or (holds_dp(node) and not isinstance(error, InvalidQuestionError)):
                raise
        self._restore(before)
        return None

    def _lent(self, rest: Node, sees: _Seen, *, single: bool = False) -> str:
        """Return the name of a table that is made of the releases so far."""
        used = _used(rest, sees)
        above = [own.entry for name, own in sees.items() if own.released and name in used]
        own = rest.get("cte_map", {"map": []})["map"]
        rest = {**rest, "cte_map": {"map": [*above, *own]}}
        text = json.dumps(plain(rest))
        if text not in self.lent:
            name = f"{self.start}_given_{len(self.lent)}"
            self.asked.lend(name, self.composed(rest), single)
            self.lent[text] = name
        return self.lent[text]

    def _seen(self, common: _Common, sees: _Seen) -> Node:
        """Return a CTE as a release can name it."""
        if not common.released:
            return common.entry
        whole = _all_of(common.entry["key"])
        made = _made_of(common.entry, _all_of(self._lent(whole, sees)))
        return {**made, "value": {**made["value"], "aliases": []}}

    def _alone(self, select: Node, sees: _Seen) -> Node:
        """Return a SELECT with the CTEs that it uses."""
        used = _used(select, sees)
        entries = [self._seen(own, sees) for name, own in sees.items() if name in used]
        own = select["cte_map"]
        return {**select, "cte_map": {**own, "map": [*entries, *own["map"]]}}


def plain(tree: Any) -> Any:
    """Return a tree without the places of its nodes in the text."""
    if isinstance(tree, list):
        return [plain(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    return {name: plain(part) for name, part in tree.items() if "location" not in name}


def _made_of(entry: Node, query: Node) -> Node:
    """Return the entry of a CTE with another query."""
    return {**entry, "value": {**entry["value"], "query_node": query}}


def _named(tree: object) -> set[str]:
    """Return the names of the tables that a query names."""
    return {folded(node["table_name"]) for node in nodes(tree) if node.get("type") == "BASE_TABLE"}


def _used(tree: object, sees: _Seen) -> set[str]:
    """Return the names of the CTEs that a query uses, those that they use among them."""
    found = _named(tree) & sees.keys()
    for name in list(found):
        others = {other: common for other, common in sees.items() if other != name}
        found |= _used(sees[name].entry["value"]["query_node"], others)
    return found


def _value_of(scalar: Node, query: Node) -> Node:
    """Return SELECT of a scalar subquery that is another query: one row, whose value is `value`."""
    subquery = {**scalar["subquery"], "node": query}
    return selected({**scalar, "alias": "value", "subquery": subquery})


def selected(expression: Node) -> Node:
    """Return SELECT of one expression over nothing."""
    empty: Node = {"type": "EMPTY", "alias": "", "sample": None}
    return {**_all_of(""), "select_list": [expression], "from_table": empty}


def _any_value(name: str) -> Node:
    """Return any_value(column)."""
    column: Node = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "",
                    "column_names": [name]}  # fmt: skip
    return {"class": "FUNCTION", "type": "FUNCTION", "alias": "", "function_name": "any_value",
            "schema": "", "filter": None, "order_bys": {"type": "ORDER_MODIFIER", "orders": []},
            "distinct": False, "is_operator": False, "export_state": False, "catalog": "",
            "arguments": [{"name": "", "expression": column}],
            "qualified_name": {"path": ["any_value"]}}  # fmt: skip


def _all_of(name: str) -> Node:
    """Return SELECT * FROM a table."""
    star = {"class": "STAR", "type": "STAR", "alias": "", "relation_name": "", "exclude_list": [],
            "replace_list": [], "columns": False, "expr": None, "qualified_exclude_list": [],
            "rename_list": []}  # fmt: skip
    table: Node = {"type": "BASE_TABLE", "alias": "", "sample": None, "schema_name": "",
             "table_name": name, "column_name_alias": [], "catalog_name": "", "at_clause": None,
             "qualified_name": {"path": [name]}}  # fmt: skip
    return {"type": "SELECT_NODE", "modifiers": [], "cte_map": {"map": []}, "select_list": [star],
            "from_table": table, "where_clause": None, "group_expressions": [], "group_sets": [],
            "aggregate_handling": "STANDARD_HANDLING", "having": None, "sample": None,
            "qualify": None}  # fmt: skip


def text_of_rest(rest: Node, engine: duckdb.DuckDBPyConnection) -> str:
    """Return a query as DuckDB writes it, from its tree."""
    tree = json.dumps({"error": False, "statements": [{"node": rest, "named_param_map": []}]})
    try:
        ((text,),) = engine.execute("SELECT json_deserialize_sql(?::JSON)", [tree]).fetchall()
    except duckdb.Error:
        raise refuse("the statement") from None
    return str(text)


def run_rest(
    text: str, names: Sequence[str], tables: Sequence[pa.Table], engine: duckdb.DuckDBPyConnection
) -> pa.Table:
    """Return what a query makes of released tables."""
    for name, table in zip(names, tables, strict=True):
        engine.register(name, table)
    return released_rows(engine.sql(text))


_CLAUSES = ("select_list", "having", "qualify", "modifiers")


def aggregates() -> Mapping[str, str]:
    """Return the kinds of statistics by the ordinary aggregates that they answer.

    >>> aggregates()["avg"], aggregates()["count_star"]
    ('mean', 'count')
    """
    named = {name: own for own in STATISTICS.values() for name in own.sql_names if forms_of(own)}
    counts = dict.fromkeys(("count_star", "count_if", "countif"), "count")
    return {name: own.kind for name, own in named.items()} | counts


def private(select: Node, *, ordinary: bool) -> Node:
    """Return a SELECT whose aggregates are dp_ calls; ordinary ones where they mean these."""
    known = aggregates() if ordinary else {}
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
    """Return the items of a SELECT list, each answer followed by the ends of its interval."""
    found: list[tuple[str, Node]] = []
    kinds = {f"dp_{name}": own for own in STATISTICS.values()
             for name in (own.kind, *own.sql_aliases)}  # fmt: skip
    for name, node in items:
        found.append((name, node))
        own = kinds.get(called(node))
        if own is not None and own.has_interval:
            found += [(f"{name}_{end}", _end_of(node, end)) for end in ("low", "high")]
    return found


def with_ends(rest: Node, columns: Mapping[str, Sequence[str]]) -> Node:
    """Return a query over answers with the ends of those that are columns of its SELECT list.

    `columns` are those of the released tables. The ends come last, so that a place in ORDER BY
    stands for what it stood for. Groups, DISTINCT and unions make rows that have no ends.
    """
    if kind(rest) != ("", "SELECT_NODE"):
        return rest
    grouped = rest["group_expressions"] or rest["aggregate_handling"] != "STANDARD_HANDLING"
    distinct = any(own["type"] == "DISTINCT_MODIFIER" for own in rest["modifiers"])
    items = rest["select_list"]
    if grouped or distinct or any(kind(own) == ("STAR", "STAR") for own in items):
        return rest
    known = {folded(name): frozenset(map(folded, own)) for name, own in columns.items()}
    for entry in rest["cte_map"]["map"]:
        made = {} if entry["value"]["aliases"] else entry["value"]["query_node"]
        known[folded(entry["key"])] = _columns_of(made, known)
    tables = [*_tables_in(rest["from_table"], known)]
    taken = {folded(own["alias"] or own.get("column_names", [""])[-1]) for own in items}
    added: list[Node] = []
    for own in filter(is_column, items):
        *of, column = own["column_names"]
        found = [
            name
            for name, has in tables
            if {folded(f"{column}{end}") for end in _ENDS} <= has and of in ([], [name])
        ]
        named = [f"{own['alias'] or column}{end}" for end in _ENDS[1:]]
        if len(found) == 1 and not taken & set(map(folded, named)):
            taken |= set(map(folded, named))
            added += [
                {**own, "column_names": [found[0], f"{column}{end}"], "alias": name}
                for end, name in zip(_ENDS[1:], named, strict=True)
            ]
    return {**rest, "select_list": [*items, *added]}


_ENDS = ("", "_low", "_high")


def _columns_of(query: Node, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the columns of a query that is all of a released table; none of any other."""
    table = query.get("from_table") or {}
    name = table.get("table_name", "")
    return known.get(folded(name), frozenset()) if query == _all_of(name) else frozenset()


def _tables_in(
    node: Node, known: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the names of released tables in a FROM, each with its columns."""
    if kind(node) == ("", "JOIN"):
        yield from _tables_in(node["left"], known)
        if node["join_type"] not in {"SEMI", "ANTI"}:
            yield from _tables_in(node["right"], known)
    elif node.get("type") == "SUBQUERY":
        yield node["alias"], _columns_of(node["subquery"]["node"], known)
    elif node.get("type") == "BASE_TABLE" and not node["column_name_alias"]:
        name = node["table_name"]
        yield node["alias"] or name, known.get(folded(name), frozenset())


def _within(tree: Any, known: Mapping[str, str]) -> Any:
    if isinstance(tree, list):
        return [_within(part, known) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if is_dp(tree) or _name(tree) in known:
        return _asked(tree, known)
    return {
        name: part if name == "subquery" else _within(part, known) for name, part in tree.items()
    }


def _name(node: Node) -> str:
    name = called(node)
    return f"{name}_distinct" if name and node["distinct"] else name


def _asked(node: Node, known: Mapping[str, str]) -> Node:
    """Return an aggregate as a dp_ call, with the text by which DuckDB would name it."""
    kept, own = node["filter"], dict(node)
    if not is_dp(node):
        own = _unordered(own)
        own |= {"function_name": f"dp_{_kind(own, known)}", "distinct": False}
        own["written"] = _text(node, display)
        if called(node) in {"count_if", "countif"} and len(own["arguments"]) == 1:
            own["arguments"] = _chosen([], own["arguments"][0]["expression"])
    if kept is not None:
        own |= {"filter": None, "written": _text(node, display)}
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
    if len(orders) != 1 or orders[0]["type"] == "DESCENDING":
        return node
    only(orders[0], "expression", "null_order")
    first = {"name": "", "expression": orders[0]["expression"]}
    empty = {"type": "ORDER_MODIFIER", "orders": []}
    return {**node, "order_bys": empty, "arguments": [first, *node["arguments"]]}


def _chosen(given: Sequence[Node], kept: Node) -> list[Node]:
    """Return the arguments of a call, the first one only where a condition is fulfilled."""
    row = {"name": "", "expression": _constant("INTEGER", "1")}
    first, *others = given or [row]
    check = {"when_expr": kept, "then_expr": first["expression"]}
    case = {"class": "CASE", "type": "CASE_EXPR", "alias": "", "case_checks": [check],
            "else_expr": _constant("NULL_LITERAL", "")}  # fmt: skip
    return [{**first, "expression": case}, *others]


def _constant(sort: str, text: str) -> Node:
    literal = {"kind": sort, "text": text} if text else {"kind": sort}
    return {"class": "CONSTANT", "type": "VALUE_CONSTANT", "alias": "", "literal": literal}


def _end_of(call: Node, end: str) -> Node:
    """Return one end of the interval of a call."""
    name = called(call)
    interval = {**call, "function_name": f"{name}_interval", "alias": ""}
    return {"class": "OPERATOR", "type": "STRUCT_EXTRACT", "alias": "",
            "children": [interval, _constant("STRING", end)]}  # fmt: skip


def _text(node: Node, written: Callable[[Node], str]) -> str:
    """Return a call as DuckDB would name its column."""
    stars = [item for item in node["arguments"] if kind(item["expression"]) == ("STAR", "STAR")]
    given = [written(item["expression"]) for item in node["arguments"] if item not in stars]
    orders = node["order_bys"]["orders"]
    ordered = f" ORDER BY {written(orders[0]['expression'])}" if orders else ""
    where = node["filter"]
    kept = "" if where is None else f" FILTER (WHERE {condition(where, written(where))})"
    distinct = "DISTINCT " if node["distinct"] else ""
    return f"{shown(called(node))}({distinct}{', '.join(given)}{ordered}){kept}"
