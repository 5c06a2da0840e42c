"""Take a statement apart: the SELECTs that ask about rows, and what is done with their answers.

A SELECT that holds a dp_ call among its own expressions is a release; it may stand in a CTE, in
FROM, in an expression or in a UNION. The rest of the statement may be any query over releases: it
runs on an engine of its own which holds the released tables and nothing else, which opens no file
and finds no Python variable. So whatever the rest is, it is a function of released answers.

Over the tables of a schema a release may stand inside of another, too. What the other one takes of
it is a query over released answers: a table that everybody may know once these are drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

import duckdb
import pyarrow as pa

from dfprivacy.engine.returning import released_rows
from dfprivacy.errors import DPError, InvalidQuestionError, RefusedStatementError
from dfprivacy.statements.alternatives import find_alternative
from dfprivacy.statements.calls import has_aggregates, holds_dp
from dfprivacy.statements.reading import Statement, qualified, statement
from dfprivacy.statements.rewrites import CLOCK, read_template, rewrite, select_all, select_item
from dfprivacy.statements.rows import Given, Reader, Relation
from dfprivacy.statements.rules import Node, refuse
from dfprivacy.statements.select import about_all
from dfprivacy.statements.tree import (
    Target,
    called,
    folded,
    is_column,
    kind,
    nodes,
    own_nodes,
    parse,
    plain,
    split_explain,
    text_of_query,
)

_TABLES = frozenset(("range", "generate_series", "unnest"))
"""Table functions that the rest of a statement may call: they read nothing."""


@dataclass(frozen=True)
class Script:
    """A whole text: its releases, what is done with them, and where that goes.

    `rest` is a query over the results of `statements`, which go by `names`, and over `public`
    tables; None where the last statement is the whole text.
    """

    statements: tuple[Statement, ...]
    names: tuple[str, ...] = ()
    rest: str | None = None
    public: tuple[tuple[str, Relation], ...] = ()
    target: Target | None = None
    explains: bool = False
    """True where the text asks for its plan in place of rows."""

    @property
    def makes_table(self) -> bool:
        """Check for a text that makes a table of released rows."""
        return self.target is not None and not self.explains

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns before the first one that is made of answers, where there is no rest."""
        made = [one.sql for one in self.statements[-1].released.outputs]
        names = [one.name for one in self.statements[-1].released.outputs]
        answered = [any(f"released.{own}_" in sql for own in ("answer", "window")) for sql in made]
        return tuple(names[: answered.index(True) if True in answered else None])

    @property
    def givens(self) -> tuple[Given, ...]:
        """What releases take of others, in the order in which it is made."""
        found = (given for one in self.statements for given in one.givens)
        return tuple({given.name: given for given in found}.values())


def read(text: object, reader: Reader) -> Script:
    """Return a text that has been checked whole; nothing of the data is looked at."""
    token = CLOCK.set(datetime.now(UTC))
    try:
        text, explains = split_explain(text)
        target, select = parse(text, reader.engine)
        script = _read_query(select, reader)
        return replace(script, target=target, explains=explains)
    except RecursionError:
        raise refuse("nested") from None
    finally:
        CLOCK.reset(token)


def _read_query(select: Node, reader: Reader) -> Script:
    """Return the releases of a statement, or those of another with the same answer."""
    tree = rewrite(select)
    try:
        return _taken_apart(tree, reader)
    except RefusedStatementError:
        alternative = find_alternative(rewrite(select))
        if alternative is not None:
            reader.givens.clear()
            with suppress(DPError):
                return _taken_apart(alternative, reader)
        raise


def _taken_apart(select: Node, reader: Reader) -> Script:
    """Return the releases of a statement and what is done with them and with public tables."""
    for node in nodes(select):
        if kind(node) == ("SUBQUERY", "SUBQUERY"):
            node["subquery"]["node"]["inner"] = True
    made = _Taken(fresh_name(select), reader)
    try:
        rest = None if asks(select) else made.query(select, {})
    except _Unreleased:
        if holds_dp(select) and not has_aggregates(select):
            raise refuse("rows beside answers", rows=made.rows) from None
        rest = None
    except DPError:
        if holds_dp(select):
            raise
        rest = None
    if made.counts_groups:
        raise refuse("count of released groups")
    public_alone = rest is not None and not made.releases and not holds_dp(select)
    if rest is None or not (made.releases or public_alone):
        made = _Taken(made.start, reader)
        made.release(made.below(select, {}), {})
        return Script(tuple(made.releases), tuple(made.names))
    if reader.intervals:
        columns = [[own.name for own in one.released.outputs] for one in made.releases]
        rest = with_ends(rest, dict(zip(made.names, columns, strict=True)))
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
    reader: Reader
    releases: list[Statement] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    tables: dict[tuple[str, ...], str] = field(default_factory=dict)
    lent: dict[str, str] = field(default_factory=dict)
    unreleased: set[int] = field(default_factory=set)
    rows: str = ""
    ordinary: set[str] = field(default_factory=set)
    """Names of released tables by secret keys that no dp_ call asks for."""
    counts_groups: bool = False
    """A query counts the rows of one of these."""

    @property
    def names(self) -> list[str]:
        """The names of the released tables."""
        return [f"{self.start}_{index}" for index in range(len(self.releases))]

    @cached_property
    def public(self) -> set[tuple[str, ...]]:
        """The very tables that the schema declares public, wherever they are found."""
        names = self.reader.schema.public if self.reader.schema else ()
        found = {own: self.reader.place.find(tuple(own.split("."))) for own in names}
        for name, relation in found.items():
            if relation.definition is not None:
                raise refuse("view in a schema", name=name)
        return {relation.path for relation in found.values()}

    def is_public(self, path: tuple[str, ...]) -> bool:
        """Tell whether a name stands for a public table."""
        return bool(self.public) and self.reader.place.find(path).path in self.public

    def composed(self, rest: Node) -> Script:
        """Return the releases so far, and a query over them."""
        used, find = _named(rest), self.reader.place.find
        tables = tuple((name, find(own)) for own, name in self.tables.items() if name in used)
        text = text_of_query(rest, self.reader.engine)
        return Script(tuple(self.releases), tuple(self.names), text, tables)

    def release(self, node: Node, sees: _Seen) -> Node:
        """Read a release, and return all of its table; the same text is one release."""
        alone = self._alone(node, sees)
        text = json.dumps(plain(alone))
        if text not in self.known:
            self.releases.append(statement(alone, self.reader))
            self.known[text] = len(self.releases) - 1
        return select_all(self.names[self.known[text]])

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
        by_all = node.get("aggregate_handling") == "FORCE_AGGREGATES"
        if has_aggregates(node) or node.get("group_expressions") or by_all:
            inner = self.below(node, sees)
            if about_all(self._alone(inner, sees), self.reader):
                released = self.release(inner, sees)
                if (by_all or node["group_expressions"]) and not self.reader.has_public_keys:
                    self.ordinary.add(released["from_table"]["table_name"])
                return released
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
        if _counts_rows(inner) and _source_of(inner, sees) & self.ordinary:
            self.counts_groups = True
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
        if sort == "SHOW_REF":
            return self._described(tree)
        if sort == "VALUE_PARAMETER":
            raise refuse(str(sort))
        if kind(tree)[0] == "WINDOW" and folded(tree["function_name"]).startswith("dp_"):
            raise refuse("WINDOW")
        return {name: self._part(part, sees) for name, part in tree.items()}

    def _table(self, node: Node, sees: _Seen) -> Node:
        """Return a table that the rest of a statement may name: a released CTE, or a public one."""
        parts = (node["catalog_name"], node["schema_name"], node["table_name"])
        path = tuple(filter(None, parts))
        if tuple(map(folded, path)) in _CATALOG:
            return {**self._catalog(path[1]), "alias": node["alias"] or path[1]}
        common = sees.get(folded(path[0])) if len(path) == 1 else None
        if common is not None and common.released:
            return node
        if common is not None or not self.is_public(path):
            self.rows = ".".join(path)
            raise _Unreleased
        name = self.tables.setdefault(path, f"{self.start}_public_{len(self.tables)}")
        called_ = node["alias"] or path[-1]
        table: Node = select_all(name)["from_table"]
        return {**node, **table, "alias": called_, "column_name_alias": node["column_name_alias"]}

    def _described(self, node: Node) -> Node:
        """Return SHOW TABLES, or DESCRIBE of a table, as a table of constants."""
        if node["show_type"] == "SHOW_SPECIAL" and node["table_name"] == '"tables"':
            return self._catalog("names")
        table = (node.get("query") or {}).get("from_table") or {}
        if node["show_type"] != "DESCRIBE" or table.get("type") != "BASE_TABLE":
            raise refuse("SHOW_REF")
        names = (table["catalog_name"], table["schema_name"], table["table_name"])
        path = self.reader.place.find(tuple(filter(None, names))).path
        rows = [
            (c, t, "YES", None, None, None)
            for table_path, c, t in self._columns()
            if table_path == path
        ]
        return self._constants(rows, "column_name, column_type, null, key, default, extra")

    def _tables(self) -> list[Relation]:
        """Return the tables that a statement may name."""
        schema, place = self.reader.schema, self.reader.place
        names = [tuple(n.split(".")) for n in (*schema.tables, *schema.public)] if schema else None
        return [place.find(name) for name in (place.names() if names is None else names)]

    def _columns(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """Yield the declared columns of these tables with their types; those of views have none."""
        for relation in self._tables():
            kinds: Sequence[object] = [""] * len(relation.columns)
            if relation.source is not None:
                declared = [relation.source.kinds.get(name) for name in relation.columns]
                twin = relation.source.twin
                kinds = (
                    declared if all(declared) else twin(relation.columns, self.reader.engine).types
                )
            for name, kind_ in zip(relation.columns, kinds, strict=True):
                yield relation.path, name, str(kind_)

    def _catalog(self, name: str) -> Node:
        """Return a table of the catalog as constants: names and declared types alone."""
        tables = self._tables()
        if name == "names":
            return self._constants(sorted((table.path[-1],) for table in tables), "name")
        start = "table_catalog, table_schema, table_name"
        if folded(name) == "tables":
            kinds = {True: "BASE TABLE", False: "VIEW"}
            rows = [(*_full(table.path), kinds[table.definition is None]) for table in tables]
            return self._constants(rows, f"{start}, table_type")
        rows = [(*_full(path), name, kind_) for path, name, kind_ in self._columns()]
        return self._constants(rows, f"{start}, column_name, data_type")

    def _constants(self, rows: Sequence[Sequence[str | None]], columns: str) -> Node:
        values = [", ".join(map(_constant, row)) for row in rows]
        tuples = ", ".join(f"({value})" for value in values)
        names = columns.replace("null", '"null"').replace("default", '"default"')
        nothing = ", ".join("CAST(NULL AS VARCHAR)" for _ in names.split(","))
        body = f"VALUES {tuples}" if rows else f"SELECT {nothing} WHERE false"
        _, select = parse(f"SELECT * FROM ({body}) AS catalog({names})", self.reader.engine)  # noqa: S608 constants
        table: Node = select["from_table"]
        return table

    # inside of a release

    def below(self, node: Node, sees: _Seen) -> Node:
        """Return a query over rows, with tables that are lent to it in place of releases in it."""
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
        lent = select_all(name)
        if scalar:
            lent["select_list"] = [read_template("any_value(value)")]
            text = text_of_query(select_item(tree), self.reader.engine)
            parts |= {"given": name, "written": text.removeprefix("SELECT ")}
        return {**parts, "subquery": {**tree["subquery"], "node": lent}}

    def _taken_of(self, node: Node, sees: _Seen, scalar: Node | None) -> str | None:
        """Return the name of what a query over released answers makes; None for one over rows."""
        before = self._state()
        try:
            with suppress(_Unreleased):
                rest = self.query(node, sees)
                over = {folded(n) for n in self.names} | {n for n, c in sees.items() if c.released}
                if over & _named(rest):
                    if scalar is None:
                        return self._lent(rest, sees)
                    inner = {**scalar["subquery"], "node": rest}  # one row, its value is `value`
                    whole = select_item({**scalar, "alias": "value", "subquery": inner})
                    return self._lent(whole, sees, single=True)
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
            script, planned = self.composed(rest), self.reader.planned
            computed = self.reader.computed
            assert planned is not None  # noqa: S101 whoever reads plans
            assert computed is not None  # noqa: S101 as above
            releases = zip(self.names, map(unique_outputs, self.releases), strict=True)
            unique = unique_columns(rest, {folded(release): names for release, names in releases})
            compute = None if script.statements else partial(computed, script)
            self.reader.givens[name] = Given(name, script, planned(script), single, unique, compute)
            self.lent[text] = name
        return self.lent[text]

    def _seen(self, common: _Common, sees: _Seen) -> Node:
        """Return a CTE as a release can name it."""
        if not common.released:
            return common.entry
        whole = select_all(common.entry["key"])
        made = _made_of(common.entry, select_all(self._lent(whole, sees)))
        return {**made, "value": {**made["value"], "aliases": []}}

    def _alone(self, select: Node, sees: _Seen) -> Node:
        """Return a SELECT with the CTEs that it uses."""
        used = _used(select, sees)
        entries = [self._seen(own, sees) for name, own in sees.items() if name in used]
        own = select["cte_map"]
        return {**select, "cte_map": {**own, "map": [*entries, *own["map"]]}}


def _counts_rows(select: Node) -> bool:
    """Check for a SELECT that counts all rows of its FROM."""
    if kind(select) != ("", "SELECT_NODE") or select["group_expressions"]:
        return False
    return any(
        called(node) in {"count", "count_star"} and not node["distinct"]
        for node in own_nodes(select["select_list"])
    )


def _source_of(select: Node, sees: _Seen) -> set[str]:
    """Return the name of the one table that a query projects and filters, if there is one."""
    source = select.get("from_table") or {}
    if source.get("type") == "SUBQUERY":
        return _source_of(source["subquery"]["node"], sees)
    if source.get("type") != "BASE_TABLE":
        return set()
    name = folded(source["table_name"])
    if name in sees:
        return _source_of(sees[name].entry["value"]["query_node"], {})
    return {name}


_CATALOG = {("information_schema", "tables"), ("information_schema", "columns")}


def _full(path: tuple[str, ...]) -> tuple[str, ...]:
    return (*("memory", "main", "")[: 3 - len(path)], *path) if len(path) < 3 else path


def _constant(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


Unique = frozenset[str] | None
"""Folded names of columns that no two rows have in common; None where none are known."""


def unique_outputs(release: Statement) -> Unique:
    """Return the columns of a release that hold all of its keys."""
    places = {qualified(f"key_{place}"): place for place in range(len(release.keys))}
    outputs = {
        places[output.sql]: folded(output.name)
        for output in release.released.outputs
        if output.sql in places
    }
    complete = len(outputs) == len(places) and not release.sets
    return frozenset(outputs.values()) if complete else None


def unique_columns(query: Node, visible: Mapping[str, Unique]) -> Unique:
    """Return the unique columns of a query that takes rows of one table, groups or filters them.

    `visible` has those of the tables that it can name, by their folded names.
    """
    if kind(query) != ("", "SELECT_NODE"):
        return None
    tables = dict(visible)
    for entry in query["cte_map"]["map"]:
        common = entry["value"]
        unique = None if common.get("aliases") else unique_columns(common["query_node"], tables)
        tables[folded(entry["key"])] = unique
    source = query["from_table"]
    if source.get("column_name_alias") or any(
        called(node) in _ROW_MAKERS for node in nodes(query["select_list"])
    ):
        return None
    unique = None
    if source["type"] == "BASE_TABLE":
        unique = tables.get(folded(source["table_name"]))
    elif source["type"] == "SUBQUERY":
        unique = unique_columns(source["subquery"]["node"], tables)
    if query["group_expressions"]:
        if len(query["group_sets"]) != 1 or not all(map(is_column, query["group_expressions"])):
            return None
        unique = frozenset(folded(key["column_names"][-1]) for key in query["group_expressions"])
    return _selected_names(query["select_list"], unique)


_ROW_MAKERS = frozenset(("unnest", "generate_subscripts"))
"""Functions that make several rows of one in a SELECT list."""


def _selected_names(items: Sequence[Node], unique: Unique) -> Unique:
    """Return unique columns by their names in a SELECT list; None where it lacks one of them."""
    names = {
        folded(item["column_names"][-1]): folded(item["alias"] or item["column_names"][-1])
        for item in items
        if is_column(item)
    }
    if unique is not None and any(
        item == select_all("")["select_list"][0] for item in map(plain, items)
    ):
        names = {name: name for name in unique} | names
    if unique is None or not unique <= names.keys():
        return None
    return frozenset(names[name] for name in unique)


def _made_of(entry: Node, query: Node) -> Node:
    return {**entry, "value": {**entry["value"], "query_node": query}}


def _named(tree: object) -> set[str]:
    return {folded(node["table_name"]) for node in nodes(tree) if node.get("type") == "BASE_TABLE"}


def _used(tree: object, sees: _Seen) -> set[str]:
    """Return the names of the CTEs that a query uses, those that they use among them."""
    found = _named(tree) & sees.keys()
    for name in list(found):
        others = {other: common for other, common in sees.items() if other != name}
        found |= _used(sees[name].entry["value"]["query_node"], others)
    return found


def run_rest(
    text: str, names: Sequence[str], tables: Sequence[pa.Table], engine: duckdb.DuckDBPyConnection
) -> pa.Table:
    """Return what a query makes of released tables."""
    for name, table in zip(names, tables, strict=True):
        engine.register(name, table)
    return released_rows(engine.sql(text))


def with_ends(rest: Node, columns: Mapping[str, Sequence[str]]) -> Node:
    """Return a query over answers with the ends and notes of those in its SELECT list.

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
        ends = list(_ENDS[1:])
        if any(folded(f"{column}_note") in has for name, has in tables if name in found):
            ends.append("_note")
        named = [f"{own['alias'] or column}{end}" for end in ends]
        if len(found) == 1 and not taken & set(map(folded, named)):
            taken |= set(map(folded, named))
            added += [
                {**own, "column_names": [found[0], f"{column}{end}"], "alias": name}
                for end, name in zip(ends, named, strict=True)
            ]
    return {**rest, "select_list": [*items, *added]}


_ENDS = ("", "_low", "_high")


def _columns_of(query: Node, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the columns of a query that is all of a released table; none of any other."""
    table = query.get("from_table") or {}
    name = table.get("table_name", "")
    return known.get(folded(name), frozenset()) if query == select_all(name) else frozenset()


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
