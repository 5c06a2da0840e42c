"""Where rows come from: one relation, seen through projections and conditions of single rows.

Views, CTEs and subqueries are taken apart: each of their columns is written as an expression over
the relation below, so that in the end there is one relation, a list of conditions and a list of
expressions, whatever the nesting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dfprivacy.engine.files import quoted
from dfprivacy.errors import RefusedStatementError
from dfprivacy.statements.grammar import Parsed, parse
from dfprivacy.statements.names import folded
from dfprivacy.statements.operators import condition
from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.refusals import only, refuse
from dfprivacy.statements.relations import (
    Catalog,
    Names,
    Relation,
    Rows,
    declared,
    missing,
    qualifies,
)


@dataclass(frozen=True)
class Reader:
    """What a statement is read with: its catalog, and what checks that two parsers agree."""

    catalog: Catalog
    agree: Callable[[Parsed], None]
    used: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class _Common:
    """A CTE, with those that it can see."""

    select: exp.Expression
    sees: Mapping[str, _Common]


def read_rows(select: exp.Expression, reader: Reader) -> Rows:
    """Return the rows of the outermost SELECT: its FROM and WHERE.

    Raises
    ------
    RefusedStatementError
        For more than one relation, and whatever looks beyond single rows.
    """
    return _from(select, {}, reader, None)


def _from(
    select: exp.Expression,
    outer: Mapping[str, _Common],
    reader: Reader,
    near: Relation | None,
) -> Rows:
    sees = _commons(select, outer)
    clause = select.args.get("from_")
    if not isinstance(clause, exp.From):
        raise Refusal(
            "a SELECT without FROM", "there is no one to protect", "SELECT dp_count(*) FROM t"
        ).error()
    only(clause, "this")
    rows = _relation(clause.this, sees, reader, near)
    own = [common for name, common in sees.items() if outer.get(name) is not common]
    if any(id(common.select) not in reader.used for common in own):
        raise Refusal(
            "a CTE that is not used, or used beside another",
            "a statement has one chain from its SELECT down to one relation",
            "WITH c AS (SELECT * FROM t WHERE x > 1) SELECT dp_count(*) FROM c",
        ).error()
    return rows


def _commons(select: exp.Expression, outer: Mapping[str, _Common]) -> dict[str, _Common]:
    sees = dict(outer)
    clause = select.args.get("with_")
    if clause is None:
        return sees
    only(clause, "expressions")
    for common in clause.expressions:
        only(common, "this", "alias")
        only(common.args["alias"], "this")
        name = folded(common.alias)
        if name in sees:
            raise Refusal(
                "two CTEs of one name", "it must be plain which is meant", "rename one of them"
            ).error()
        sees[name] = _Common(common.this, dict(sees))
    return sees


def _relation(
    node: exp.Expression, sees: Mapping[str, _Common], reader: Reader, near: Relation | None
) -> Rows:
    if isinstance(node, exp.Subquery):
        only(node, "this", "alias")
        inside = node.this
        if isinstance(inside, exp.Subquery | exp.Table):
            rows = _relation(inside, sees, reader, near)
        else:
            rows = _projected(inside, sees, reader, near)
        return _called(rows, node.args.get("alias"), ())
    if not isinstance(node, exp.Table):
        raise refuse(type(node).__name__)
    if not isinstance(node.this, exp.Identifier):
        raise refuse("Anonymous")
    only(node, "this", "db", "catalog", "alias")
    parts = tuple(part.name for part in node.parts)
    common = sees.get(folded(parts[0])) if len(parts) == 1 else None
    if common is None:
        rows = _named(reader.catalog.find(parts, near), reader)
    else:
        reader.used.add(id(common.select))
        rows = _projected(common.select, common.sees, reader, near)
    return _called(rows, node.args.get("alias"), parts if common else rows.path)


def _called(rows: Rows, alias: exp.Expression | None, path: tuple[str, ...]) -> Rows:
    if alias is None:
        return replace(rows, path=path)
    only(alias, "this")
    if not isinstance(alias.this, exp.Identifier):
        raise refuse("alias")
    return replace(rows, path=(alias.this.name,))


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
    parsed = parse(view.definition)
    select = parsed.tree.args.get("expression")
    if not isinstance(parsed.tree, exp.Create) or not isinstance(select, exp.Expression):
        raise unknown.error()
    rows = _projected(select, {}, reader, view)
    if len(rows.columns) != len(view.columns):
        raise unknown.error()
    reader.agree(parsed)
    return rows


def _projected(
    select: exp.Expression,
    sees: Mapping[str, _Common],
    reader: Reader,
    near: Relation | None,
) -> Rows:
    """Return the rows of a SELECT that projects and filters row by row."""
    if isinstance(select, exp.Subquery):
        only(select, "this")
        return _projected(select.this, sees, reader, near)
    if not isinstance(select, exp.Select):
        raise refuse(type(select).__name__)
    only(select, "expressions", "from_", "where", "with_")
    rows = _from(select, sees, reader, near)
    items = [item for star in select.expressions for item in _unfolded(star, rows)]
    columns: list[tuple[str, str]] = []
    names = Names(rows, items)
    for index, (name, node) in enumerate(items):
        columns.append((name, names.written(node, index)))
    if len({folded(name) for name, _ in columns}) < len(columns):
        raise Refusal(
            "two columns of one name in a subquery, CTE or view",
            "it must be plain which is meant",
            "rename one of them: SELECT x, y AS other FROM t",
        ).error()
    where = conditions_of(select, names)
    return replace(rows, columns=tuple(columns), conditions=(*rows.conditions, *where))


def conditions_of(select: exp.Expression, names: Names) -> tuple[str, ...]:
    """Return the WHERE of a SELECT, over the base relation; at most one condition."""
    clause = select.args.get("where")
    if clause is None:
        return ()
    only(clause, "this")
    return (condition(clause.this, names.written(clause.this)),)


def _unfolded(node: exp.Expression, rows: Rows) -> list[tuple[str, exp.Expression]]:
    """Return the items of a SELECT list in a subquery, * written out, with their names."""
    star = node.this if isinstance(node, exp.Column) else node
    if isinstance(star, exp.Star):
        return _starred(node, star, rows)
    if isinstance(node, exp.Alias):
        only(node, "this", "alias")
        return [(node.alias, node.this)]
    if isinstance(node, exp.Column):
        return [(declared(rows, node.name), node)]
    return [(f"column {id(node)}", node)]


def _starred(node: exp.Expression, star: exp.Star, rows: Rows) -> list[tuple[str, exp.Expression]]:
    only(star, "except_", "replace")
    if isinstance(node, exp.Column):
        only(node, "this", "table")
        if not qualifies(rows, (node.table,)):
            raise missing(rows, node.table)
    left_out = {folded(item.name) for item in star.args.get("except_") or ()}
    replaced = {folded(item.alias): item.this for item in star.args.get("replace") or ()}
    known = {folded(name) for name, _ in rows.columns}
    for name in [*left_out, *replaced]:
        if name not in known:
            raise missing(rows, name)
    return [
        (name, replaced.get(folded(name), exp.column(exp.to_identifier(name, quoted=True))))
        for name, _ in rows.columns
        if folded(name) not in left_out
    ]
