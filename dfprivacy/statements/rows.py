"""Say where rows come from: one relation, through projections and conditions of single rows.

Views, CTEs and subqueries are taken apart: each of their columns is written as an expression over
the relation below, so that in the end there is one relation, a list of conditions and a list of
expressions, whatever the nesting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa

from dfprivacy.engine.embedded import UTC, in_time_zone
from dfprivacy.engine.files import quoted
from dfprivacy.errors import DPError, MissingColumnError, RefusedStatementError
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.statements.expressions import Scope, Size, condition, field_of, size_of, write
from dfprivacy.statements.gate import Source
from dfprivacy.statements.rules import (
    REFUSALS,
    Node,
    nearly,
    only,
    refuse,
    refuse_node,
    refuse_part,
)
from dfprivacy.statements.schema import Schema
from dfprivacy.statements.tree import (
    Target,
    arguments,
    called,
    folded,
    is_column,
    kind,
    literal,
    nodes,
    parse_view,
)


@dataclass(frozen=True)
class Relation:
    """What a name stands for: a table or frame with a `source`, or a view with a `definition`."""

    path: tuple[str, ...]
    columns: tuple[str, ...]
    definition: str | None = None
    source: Source | None = None

    @property
    def name(self) -> str:
        """The name as a statement would write it."""
        return ".".join(self.path)

    @property
    def table(self) -> Source:
        """The source of a table or frame: views have been taken apart where rows are read."""
        assert self.source is not None  # noqa: S101 the caller knows that it is no view
        return self.source


class Place(ABC):
    """Where the relations are that a statement names, and where a table is made of its answers."""

    @abstractmethod
    def find(self, parts: tuple[str, ...], near: Relation | None = None) -> Relation:
        """Return the relation of a name, as seen from a view if it stands in one."""

    def fenced(self) -> AbstractContextManager[None]:
        """Return a block in which rows are read as the query is written: by our own engine."""
        return nullcontext()

    def stored(
        self, relation: Relation, names: tuple[str, ...], engine: duckdb.DuckDBPyConnection
    ) -> tuple[duckdb.DuckDBPyRelation, str]:
        """Return columns of a table, and the name by which `query` reads them."""
        found = relation.table.rows(names, engine)
        name = f"rows_{uuid4().hex}"
        engine.register(name, found)  # a temporary view: it goes with the engine of the call
        return found, quoted(name)

    def lend(
        self, table: pa.Table, engine: duckdb.DuckDBPyConnection
    ) -> tuple[duckdb.DuckDBPyRelation, str]:
        """Return a table that has been released, and the name by which `query` reads it."""
        name = f"released_{uuid4().hex}"
        engine.register(name, table)
        return engine.view(name), quoted(name)

    def take_back(self) -> None:  # noqa: B027 our own engine goes with the call
        """Take back what was lent."""

    def in_time_zone(self, name: str | None) -> AbstractContextManager[None]:
        """Return a block in which times of a zone are those of a named zone, or of UTC."""
        return in_time_zone(UTC if name is None else name)

    def check_texts(self) -> None:  # noqa: B027 there are no settings elsewhere
        """Refuse settings by which texts that differ are one."""

    def query(self, sql: str, engine: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """Return a query of ours over tables under the names that `stored` gives them."""
        return engine.sql(sql)

    def check(self, target: Target, protected: Relation, empty: pa.Table) -> None:  # noqa: ARG002 none is made
        """Refuse a target that could not be made of released rows: without a connection, any."""
        raise refuse("CREATE without con")

    def make(self, target: Target, table: pa.Table) -> None:
        """Make a fresh table of released rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class Rows:
    """The rows of a FROM clause: a base relation, conditions on its rows, and visible columns.

    `columns` are pairs of a name and its SQL over the base relation; `path` qualifies them. `named`
    is the relation that the statement names, with its columns: the privacy unit is one of them.
    `text` is what the rows come from, as it is shown, and `tables` are those that they are made of.
    """

    base: Relation
    named: Relation
    named_columns: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    path: tuple[str, ...]
    text: str
    tables: tuple[Relation, ...]
    conditions: tuple[str, ...] = ()
    filtered: bool = False
    """Whether WHERE is among the rows already."""
    computes: bool = False
    """Whether anything is computed of rows that could fail for one of them."""
    copies: int = 1
    """As how many rows a row that is protected by itself counts at most."""
    single: frozenset[str] = frozenset()
    """The SQL of columns whose values belong to one unit each, by what a schema says."""
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    """What everybody knows of columns, by their SQL, by what a schema says."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """The declared types of columns that may be computed with the optimiser on."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The SQL of released numbers, by the names under which they are lent."""
    sizes: Mapping[str, Size] = field(default_factory=dict)
    """How long values of columns of the base get, where that is more than what is stored."""

    @property
    def source(self) -> Source:
        """The protected rows: views are taken apart, so that there is a table or a frame."""
        return self.base.table

    def find(self, parts: Sequence[str]) -> str | None:
        """Return the SQL of a name: a column, or a field of one; None for no column."""
        *qualifier, name = parts
        if not qualifier or qualifies(self.path, qualifier):
            sql = self.sql_of(name)
            if sql is not None or not qualifier:
                return sql
        elif (sql := self.sql_of(parts[0])) is not None:
            return _field(sql, parts[1:])
        for length in range(1, len(parts) - 1):  # a field of a column that is qualified itself
            sql = self.sql_of(parts[length])
            if sql is not None and qualifies(self.path, parts[:length]):
                return _field(sql, parts[length + 1 :])
        return None

    def sql_of(self, name: str) -> str | None:
        """Return the SQL of a visible column."""
        found = dict((folded(own), sql) for own, sql in self.columns)  # noqa: C402 names fold
        return found.get(folded(name))


def named_item(
    node: Node,
    columns: Iterable[tuple[str, object]],
    shown: Callable[[Node], str] = lambda node: f"column {id(node)}",
) -> tuple[str, Node]:
    """Return an item of a SELECT list with its name; a column's as its relation spells it."""
    if not node["alias"] and is_column(node):
        name = node["column_names"][-1]
        return next((own for own, _ in columns if folded(own) == folded(name)), name), node
    return node["alias"] or shown(node), node


def qualifies(path: Sequence[str], parts: Sequence[str]) -> bool:
    """Tell whether parts of a name before a column mean a relation of this path."""
    own, wanted = [folded(part) for part in path], [folded(part) for part in parts]
    return own[len(own) - len(wanted) :] == wanted


def missing(rows: Rows, name: str) -> DPError:
    """Return the error for a column that is not there."""
    if f"@{folded(name)}" in REFUSALS:
        return refuse(f"@{folded(name)}")
    shown = ", ".join(repr(own) for own, _ in rows.columns[:20])
    return MissingColumnError(
        f"{rows.named.name!r} has no column {name!r} here",
        hint=f"{nearly(name, [own for own, _ in rows.columns])}its columns are {shown}",
    )


@dataclass(frozen=True)
class Names:
    """What names in a SELECT stand for: columns of its rows, then aliases of the items before."""

    rows: Rows
    items: Sequence[tuple[str, Node]]

    def written(self, node: Node, before: int | None = None) -> str:
        """Return the SQL of an expression over the base relation."""
        scope = Scope(
            lambda parts: self.column(parts, before),
            lambda part: self._special(part, before),
        )
        sql = write(node, scope)
        size_of(sql, self.rows.sizes)
        return sql

    def _special(self, part: Node, before: int | None) -> str | None:
        if "given" in part:
            return self.rows.given.get(part["given"])
        if not part.get(_NUMBER):
            return None
        sql = self.column(part["column_names"], before)
        return f"TRY_CAST({sql} AS DOUBLE)" if sql in map(quoted, self.rows.base.columns) else sql

    def column(self, parts: Sequence[str], before: int | None = None) -> str:
        """Return the SQL of a name, which may be an alias of the items before one."""
        sql = self.rows.find(parts)
        if sql is not None:
            return sql
        for index, (alias, node) in enumerate(self.items[:before]):
            if [folded(alias)] == list(map(folded, parts)):
                return self.written(node, index)
        raise missing(self.rows, ".".join(parts))


def _field(sql: str, fields: Sequence[str]) -> str:
    for name in fields:
        sql = field_of(sql, name)
    return sql


@dataclass
class Given:
    """What a release takes of those before it: a table of their answers, made by a `script`.

    The table has no rows until the answers are drawn; then everybody may know it. `single` says
    that it is one value. No two rows have the `unique` columns in common; None is for unknown.
    """

    name: str
    script: Any
    table: pa.Table
    single: bool
    unique: frozenset[str] | None = None
    compute: Callable[[], pa.Table] | None = None
    """Make the table of public tables alone, which everybody may know before any release."""

    @property
    def relation(self) -> Relation:
        """The table as a relation."""
        names = tuple(self.table.column_names)
        return Relation((self.name,), names, None, Source(names, self.read, self.read))

    def read(self, names: tuple[str, ...], engine: duckdb.DuckDBPyConnection) -> Any:
        """Return some columns on an engine."""
        return engine.from_arrow(self.columns(names))

    def columns(self, names: tuple[str, ...]) -> pa.Table:
        """Return some columns."""
        if not names:
            return pa.table({"row": pa.nulls(self.table.num_rows, pa.bool_())})
        return self.table.select(list(names))

    def beside(self, rows: int) -> pa.ChunkedArray:
        """Return its one value, beside so many rows of answers."""
        value = self.table.column(0)
        return value.take(pa.array([0] * rows, pa.int64()))


@dataclass(frozen=True)
class Reader:
    """What a statement is read with: its place, and an engine of our own that parses.

    `ordinary` says whether ordinary aggregates mean private ones, `intervals` whether each answer
    is followed by the ends of its interval. `planned` makes the table of a script without rows, and
    `givens` are those that releases take of others. `computed` makes that of public tables alone.
    """

    place: Place
    engine: duckdb.DuckDBPyConnection
    schema: Schema | None = None
    ordinary: bool = False
    intervals: bool = False
    planned: Callable[[Any], pa.Table] | None = None
    computed: Callable[[Any], pa.Table] | None = None
    givens: dict[str, Given] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)


CLAUSES = (
    "modifiers", "cte_map", "select_list", "from_table", "where_clause", "group_expressions",
    "group_sets", "aggregate_handling", "having", "qualify",
)  # fmt: skip
"""The parts of a SELECT that some rule knows."""


@dataclass(frozen=True)
class Common:
    """A CTE, with those that it can see."""

    select: Node
    sees: Mapping[str, Common]


def read_rows(
    select: Node,
    reader: Reader,
    outer: Mapping[str, Common] = MappingProxyType({}),
    near: Relation | None = None,
) -> Rows:
    """Return the rows of a FROM: of the outermost SELECT, or of one that sees CTEs around it."""
    sees = commons(select, outer)
    rows = _relation(select["from_table"], sees, reader, near)
    own = [common for name, common in sees.items() if outer.get(name) is not common]
    if any(id(common.select) not in reader.used for common in own):
        raise refuse("unused CTE")
    return rows


def commons(
    select: Node, outer: Mapping[str, Common], *, several: bool = False
) -> dict[str, Common]:
    """Return the CTEs that a query can see; with `several`, one name may be used twice."""
    sees, taken = dict(outer), set() if several else set(outer)
    only(select["cte_map"], "map")
    for entry in select["cte_map"]["map"]:
        only(entry, "key", "value")
        common = entry["value"]
        if common.get("aliases"):
            raise refuse("column_name_alias")
        if not several and common.get("materialized") != "CTE_MATERIALIZE_DEFAULT":
            raise refuse("materialized")
        only(common, "query_node", "materialized")
        name = folded(entry["key"])
        if name in taken:
            raise refuse("two CTEs of one name")
        taken.add(name)
        sees[name] = Common(common["query_node"], dict(sees))
    return sees


def _relation(
    node: Node, sees: Mapping[str, Common], reader: Reader, near: Relation | None
) -> Rows:
    parts, query = named_in(node, sees)
    if query is None:
        rows = _named(reader.place.find(parts, near), reader)
    else:
        reader.used.add(id(query.select))
        rows = _projected(query.select, query.sees, reader, near)
    path = rows.path if query is None else parts
    return replace(rows, path=(node["alias"],) if node["alias"] else path)


def named_in(node: Node, sees: Mapping[str, Common]) -> tuple[tuple[str, ...], Common | None]:
    """Return the parts of a name in FROM, and the query that it is: a CTE, or a subquery without.

    There is none for a table or view.
    """
    if kind(node) == ("", "SUBQUERY"):
        only(node, "subquery")
        only(node["subquery"], "node")
        return (), Common(node["subquery"]["node"], sees)
    if kind(node) != ("", "BASE_TABLE"):
        raise refuse_part("unnest" if called(node.get("function")) == "unnest" else node["type"])
    only(node, "table_name", "schema_name", "catalog_name")
    names = (node["catalog_name"], node["schema_name"], node["table_name"])
    parts = tuple(name for name in names if name)
    if list(parts) != node["qualified_name"]["path"]:
        raise refuse("a name with more than three parts")
    return parts, sees.get(folded(parts[0])) if len(parts) == 1 else None


def _named(relation: Relation, reader: Reader) -> Rows:
    if relation.definition is None:
        columns = tuple((name, quoted(name)) for name in relation.columns)
        text = ".".join(map(quoted, relation.path))
        return Rows(relation, relation, columns, columns, relation.path, text, (relation,))
    with inside(relation):
        rows = _projected(definition_of(relation, reader.engine), {}, reader, relation)
        if len(rows.columns) != len(relation.columns):
            raise refuse("view without definition")
    columns = tuple(
        (name, sql) for name, (_, sql) in zip(relation.columns, rows.columns, strict=True)
    )
    return replace(rows, named=relation, named_columns=columns, columns=columns, path=relation.path)


def definition_of(view: Relation, engine: duckdb.DuckDBPyConnection) -> Node:
    """Return the tree of the query that a view stands for."""
    text = view.definition
    select = parse_view(text, engine) if text and "_scan(" not in text else None
    if select is None:
        raise refuse("view without definition")
    return select


@contextmanager
def inside(view: Relation) -> Iterator[None]:
    """Say of refusals in a block that they are about what stands in a view."""
    try:
        yield
    except RefusedStatementError as error:
        raise RefusedStatementError(
            f"in the view {view.name!r}: {error.message}", hint=error.hint
        ) from None


def _projected(
    select: Node, sees: Mapping[str, Common], reader: Reader, near: Relation | None
) -> Rows:
    """Return the rows of a SELECT that projects and filters row by row."""
    if kind(select) != ("", "SELECT_NODE"):
        raise refuse_node(select)
    for modifier in select["modifiers"]:
        skips = modifier["type"] == "LIMIT_MODIFIER" and not modifier["limit"]
        raise refuse_part("OFFSET" if skips else modifier["type"])
    only(select, "select_list", "from_table", "where_clause", "cte_map", "aggregate_handling")
    if select["aggregate_handling"] != "STANDARD_HANDLING":  # GROUP BY ALL
        raise refuse("group_expressions")
    rows = read_rows(select, reader, sees, near)
    items = [item for star in select["select_list"] for item in _unfolded(star, rows)]
    names = Names(rows, items)
    columns = [(name, names.written(node, index)) for index, (name, node) in enumerate(items)]
    require_apart(columns)
    where = conditions_of(select, names)
    return replace(rows, columns=tuple(columns), conditions=(*rows.conditions, *where))


def require_apart(columns: Sequence[tuple[str, object]]) -> None:
    """Refuse columns of a subquery, CTE or view of which two have one name."""
    if len({folded(name) for name, _ in columns}) < len(columns):
        raise refuse("two columns in a subquery")


def conditions_of(select: Node, names: Names) -> tuple[str, ...]:
    """Return the WHERE of a SELECT, over the base relation; at most one condition."""
    where, source = select["where_clause"], names.rows.base.source
    if where is None:
        return ()
    for node in nodes(where) if source is not None and source.texts else ():
        beside = _compared(node)
        if any(literal(own)[0] in {"INTEGER", "NUMERIC"} for own in beside):
            for own in filter(is_column, beside):
                own[_NUMBER] = True
    return (condition(where, names.written(where)),)


_NUMBER = "read as a number"


def _compared(node: Node) -> list[Node]:
    """Return what a node compares, or computes with; nothing for other nodes."""
    if kind(node)[0] == "COMPARISON":
        return [node["left"], node["right"]]
    if kind(node)[0] == "BETWEEN":
        return [node["input"], node["lower"], node["upper"]]
    if kind(node)[1] in {"COMPARE_IN", "COMPARE_NOT_IN"}:
        return list(node["children"])
    return arguments(node) if called(node) in {"+", "-", "*", "/", "%", "//"} else []


def _unfolded(node: Node, rows: Rows) -> list[tuple[str, Node]]:
    """Return the items of a SELECT list in a subquery, * written out, with their names."""
    if kind(node) == ("STAR", "STAR") and not node["columns"]:
        owner = node["relation_name"]
        if owner and not qualifies(rows.path, (owner,)):
            raise missing(rows, owner)
        seen = [(name, [name]) for name, _ in rows.columns]
        return starred(node, seen, lambda name: missing(rows, name))
    return [named_item(node, rows.columns)]


def starred(
    star: Node, seen: Sequence[tuple[str, list[str]]], absent: Callable[[str], Exception]
) -> list[tuple[str, Node]]:
    """Return the items that * stands for; `seen` are columns with the parts of their full names."""
    only(star, "relation_name", "exclude_list", "replace_list")
    left_out = {folded(name) for name in star["exclude_list"]}
    for item in star["replace_list"]:
        only(item, "key", "value")
    replaced = {folded(item["key"]): item["value"] for item in star["replace_list"]}
    known = {folded(name) for name, _ in seen}
    for name in [*left_out, *replaced]:
        if name not in known:
            raise absent(name)
    plain = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": ""}
    return [
        (name, replaced.get(folded(name), {**plain, "column_names": parts}))
        for name, parts in seen
        if folded(name) not in left_out
    ]
