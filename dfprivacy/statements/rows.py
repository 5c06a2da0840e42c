"""Where rows come from: one relation, seen through projections and conditions of single rows.

Views, CTEs and subqueries are taken apart: each of their columns is written as an expression over
the relation below, so that in the end there is one relation, a list of conditions and a list of
expressions, whatever the nesting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import duckdb

from dfprivacy.engine.quoting import quoted
from dfprivacy.errors import DPError, MissingColumnError, RefusedStatementError
from dfprivacy.statements.expressions import Scope, condition, field_of, write
from dfprivacy.statements.growth import check_growth
from dfprivacy.statements.names import folded
from dfprivacy.statements.refusals import CONSTRUCTS, Node, Refusal, only, refuse, refuse_node
from dfprivacy.statements.tree import called, is_column, kind, parse_view

_LONGEST = 200_000


@dataclass(frozen=True)
class Relation:
    """What a name stands for: a table or a frame; with a `definition`, a view.

    `path` is its full name, `columns` are their names in order. The columns of a file that declares
    no types are `texts`.
    """

    path: tuple[str, ...]
    columns: tuple[str, ...]
    definition: str | None = None
    texts: bool = False

    @property
    def name(self) -> str:
        """The name as a statement would write it."""
        return ".".join(self.path)


class Catalog(Protocol):
    """What knows the relations that a statement may name."""

    def find(self, parts: tuple[str, ...], near: Relation | None = None) -> Relation:
        """Return the relation of a name, as seen from a view if it stands in one."""


@dataclass(frozen=True)
class Rows:
    """The rows of a FROM clause: a base relation, conditions on its rows, and visible columns.

    `columns` are pairs of a name and its SQL over the base relation; `path` qualifies them. `named`
    is the relation that the statement names, with its columns: the privacy unit is one of them.
    """

    base: Relation
    named: Relation
    named_columns: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str], ...]
    path: tuple[str, ...]
    conditions: tuple[str, ...] = ()

    def sql_of(self, name: str) -> str | None:
        """Return the SQL of a visible column."""
        found = dict((folded(own), sql) for own, sql in self.columns)  # noqa: C402 names fold
        return found.get(folded(name))


def declared(rows: Rows, name: str) -> str:
    """Return the name of a visible column as its relation spells it."""
    return next((own for own, _ in rows.columns if folded(own) == folded(name)), name)


def qualifies(rows: Rows, parts: Sequence[str]) -> bool:
    """Tell whether parts of a name before a column mean these rows."""
    path = tuple(folded(part) for part in rows.path)
    wanted = tuple(folded(part) for part in parts)
    return bool(wanted) and path[len(path) - len(wanted) :] == wanted


def missing(rows: Rows, name: str) -> DPError:
    """Return the error for a column that is not there."""
    if f"@{folded(name)}" in CONSTRUCTS:
        return refuse(f"@{folded(name)}")
    shown = ", ".join(repr(own) for own, _ in rows.columns[:20])
    return MissingColumnError(
        f"{rows.named.name!r} has no column {name!r} here", hint=f"its columns are {shown}"
    )


@dataclass(frozen=True)
class Names:
    """What names in a SELECT stand for: columns of its rows first, then its own aliases.

    `items` are the SELECT list, by name. An item may use the aliases of those before it.
    """

    rows: Rows
    items: Sequence[tuple[str, Node]]

    def written(self, node: Node, before: int | None = None) -> str:
        """Return the SQL of an expression over the base relation."""
        return short(write(node, Scope(lambda parts: self.column(parts, before))))

    def column(self, parts: Sequence[str], before: int | None = None) -> str:
        """Return the SQL of a name, which may be an alias of the items before one."""
        *qualifier, name = parts
        if not qualifier or qualifies(self.rows, qualifier):
            sql = self.rows.sql_of(name)
            if sql is not None:
                return sql
        elif (sql := self.rows.sql_of(parts[0])) is not None:
            return _field(sql, parts[1:])
        return self._alias(name, before) if not qualifier else self._nested(parts)

    def _nested(self, parts: Sequence[str]) -> str:
        """Return a field of a column that is qualified itself."""
        for length in range(1, len(parts) - 1):
            sql = self.rows.sql_of(parts[length])
            if sql is not None and qualifies(self.rows, parts[:length]):
                return _field(sql, parts[length + 1 :])
        raise missing(self.rows, ".".join(parts))

    def _alias(self, name: str, before: int | None) -> str:
        for index, (alias, node) in enumerate(self.items[:before]):
            if folded(alias) == folded(name):
                return self.written(node, index)
        raise missing(self.rows, name)


def _field(sql: str, fields: Sequence[str]) -> str:
    for name in fields:
        sql = field_of(sql, name)
    return sql


def short(sql: str) -> str:
    """Return an expression, unless it has grown beyond all bounds.

    Raises
    ------
    RefusedStatementError
        When it is longer than 200,000 characters, or its value could be of any length.
    """
    if len(sql) > _LONGEST:
        raise RefusedStatementError(
            "an expression grows too long when its subqueries are taken apart",
            hint="prepare a table first: CREATE TABLE prepared AS SELECT ...",
        )
    check_growth(sql)
    return sql


@dataclass(frozen=True)
class Reader:
    """What a statement is read with: its catalog, and an engine of our own that parses."""

    catalog: Catalog
    engine: duckdb.DuckDBPyConnection
    used: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class _Common:
    """A CTE, with those that it can see."""

    select: Node
    sees: Mapping[str, _Common]


def read_rows(select: Node, reader: Reader) -> Rows:
    """Return the rows of the outermost SELECT: its FROM.

    Raises
    ------
    RefusedStatementError
        For more than one relation, and whatever looks beyond single rows.
    """
    return _from(select, {}, reader, None)


def _from(
    select: Node, outer: Mapping[str, _Common], reader: Reader, near: Relation | None
) -> Rows:
    sees = _commons(select, outer)
    rows = _relation(select["from_table"], sees, reader, near)
    own = [common for name, common in sees.items() if outer.get(name) is not common]
    if any(id(common.select) not in reader.used for common in own):
        raise Refusal(
            "a CTE that is not used, or used beside another",
            "a statement has one chain from its SELECT down to one relation",
            "WITH c AS (SELECT * FROM t WHERE x > 1) SELECT dp_count(*) FROM c",
        ).error()
    return rows


def _commons(select: Node, outer: Mapping[str, _Common]) -> dict[str, _Common]:
    sees = dict(outer)
    only(select["cte_map"], "map")
    for entry in select["cte_map"]["map"]:
        only(entry, "key", "value")
        common = entry["value"]
        if common.get("aliases"):
            raise refuse("column_name_alias")
        if common.get("materialized") != "CTE_MATERIALIZE_DEFAULT":
            raise refuse("materialized")
        only(common, "query_node", "materialized")
        name = folded(entry["key"])
        if name in sees:
            raise Refusal(
                "two CTEs of one name", "it must be plain which is meant", "rename one of them"
            ).error()
        sees[name] = _Common(common["query_node"], dict(sees))
    return sees


def _relation(
    node: Node, sees: Mapping[str, _Common], reader: Reader, near: Relation | None
) -> Rows:
    if kind(node) == ("", "SUBQUERY"):
        only(node, "subquery")
        only(node["subquery"], "node")
        rows = _projected(node["subquery"]["node"], sees, reader, near)
        return _called(rows, node["alias"], ())
    if kind(node) != ("", "BASE_TABLE"):
        raise refuse("unnest" if called(node.get("function")) == "unnest" else node["type"])
    only(node, "table_name", "schema_name", "catalog_name")
    parts = tuple(part for key in ("catalog_name", "schema_name") if (part := node[key]))
    parts = (*parts, node["table_name"])
    if list(parts) != node["qualified_name"]["path"]:
        raise refuse("a name with more than three parts")
    common = sees.get(folded(parts[0])) if len(parts) == 1 else None
    if common is None:
        rows = _named(reader.catalog.find(parts, near), reader)
    else:
        reader.used.add(id(common.select))
        rows = _projected(common.select, common.sees, reader, near)
    return _called(rows, node["alias"], parts if common else rows.path)


def _called(rows: Rows, alias: str, path: tuple[str, ...]) -> Rows:
    return replace(rows, path=(alias,) if alias else path)


def _named(relation: Relation, reader: Reader) -> Rows:
    """Return the rows of a table, or of a view taken apart."""
    if relation.definition is None:
        columns = tuple((name, quoted(name)) for name in relation.columns)
        return Rows(relation, relation, columns, columns, relation.path)
    try:
        rows = _viewed(relation, reader)
    except RefusedStatementError as error:
        raise RefusedStatementError(
            f"in the view {relation.name!r}: {error.message}", hint=error.hint
        ) from None
    columns = tuple(
        (name, sql) for name, (_, sql) in zip(relation.columns, rows.columns, strict=True)
    )
    return replace(rows, named=relation, named_columns=columns, columns=columns, path=relation.path)


def _viewed(view: Relation, reader: Reader) -> Rows:
    unknown = Refusal(
        "a view without a definition of its own",
        "it stands for a Python object, a file or a function, whose rows are not known",
        "pass the frame itself by name: dfp.sql('SELECT dp_count(*) FROM t', t=frame)",
    )
    if not view.definition or "_scan(" in view.definition:
        raise unknown.error()
    select = parse_view(view.definition, reader.engine)
    if select is None:
        raise unknown.error()
    rows = _projected(select, {}, reader, view)
    if len(rows.columns) != len(view.columns):
        raise unknown.error()
    return rows


def _projected(
    select: Node, sees: Mapping[str, _Common], reader: Reader, near: Relation | None
) -> Rows:
    """Return the rows of a SELECT that projects and filters row by row."""
    if kind(select) != ("", "SELECT_NODE"):
        raise refuse_node(select)
    for modifier in select["modifiers"]:
        skips = modifier["type"] == "LIMIT_MODIFIER" and not modifier["limit"]
        raise refuse("OFFSET" if skips else modifier["type"])
    only(select, "select_list", "from_table", "where_clause", "cte_map", "aggregate_handling")
    if select["aggregate_handling"] != "STANDARD_HANDLING":  # GROUP BY ALL
        raise refuse("group_expressions")
    rows = _from(select, sees, reader, near)
    items = [item for star in select["select_list"] for item in _unfolded(star, rows)]
    names = Names(rows, items)
    columns = [(name, names.written(node, index)) for index, (name, node) in enumerate(items)]
    if len({folded(name) for name, _ in columns}) < len(columns):
        raise Refusal(
            "two columns of one name in a subquery, CTE or view",
            "it must be plain which is meant",
            "rename one of them: SELECT x, y AS other FROM t",
        ).error()
    where = conditions_of(select, names)
    return replace(rows, columns=tuple(columns), conditions=(*rows.conditions, *where))


def conditions_of(select: Node, names: Names) -> tuple[str, ...]:
    """Return the WHERE of a SELECT, over the base relation; at most one condition."""
    where = select["where_clause"]
    return () if where is None else (condition(where, names.written(where)),)


def _unfolded(node: Node, rows: Rows) -> list[tuple[str, Node]]:
    """Return the items of a SELECT list in a subquery, * written out, with their names."""
    if kind(node) == ("STAR", "STAR") and not node["columns"]:
        return _starred(node, rows)
    if node["alias"]:
        return [(node["alias"], node)]
    if is_column(node):
        return [(declared(rows, node["column_names"][-1]), node)]
    return [(f"column {id(node)}", node)]


def _starred(star: Node, rows: Rows) -> list[tuple[str, Node]]:
    only(star, "relation_name", "exclude_list", "replace_list")
    owner = star["relation_name"]
    if owner and not qualifies(rows, (owner,)):
        raise missing(rows, owner)
    left_out = {folded(name) for name in star["exclude_list"]}
    for item in star["replace_list"]:
        only(item, "key", "value")
    replaced = {folded(item["key"]): item["value"] for item in star["replace_list"]}
    known = {folded(name) for name, _ in rows.columns}
    for name in [*left_out, *replaced]:
        if name not in known:
            raise missing(rows, name)
    plain = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": ""}
    return [
        (name, replaced.get(folded(name), {**plain, "column_names": [name]}))
        for name, _ in rows.columns
        if folded(name) not in left_out
    ]
