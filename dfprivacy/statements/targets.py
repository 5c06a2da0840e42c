"""CREATE TABLE ... AS SELECT and INSERT INTO ... SELECT: where released rows go."""

from __future__ import annotations

from sqlglot import exp

from dfprivacy.statements.refusal import Refusal
from dfprivacy.statements.refusals import only, refuse, refused_statement
from dfprivacy.statements.statement import Target


def target_of(tree: exp.Expression) -> tuple[Target | None, exp.Expression]:
    """Return where the rows of a statement go, and its SELECT.

    Raises
    ------
    RefusedStatementError
        For any other statement, and for clauses that are not known.
    """
    if isinstance(tree, exp.Select):
        return None, tree
    if isinstance(tree, exp.Create):
        return _created(tree), _select(tree)
    if isinstance(tree, exp.Insert):
        return _inserted(tree), _select(tree)
    if isinstance(tree, exp.SetOperation):
        raise refuse(type(tree).__name__)
    raise refused_statement(type(tree).__name__)


def _select(tree: exp.Expression) -> exp.Expression:
    select = tree.args.get("expression")
    while isinstance(select, exp.Subquery):  # parentheses, as dbt writes them
        only(select, "this")
        select = select.this
    if isinstance(select, exp.SetOperation):
        raise refuse(type(select).__name__)
    if not isinstance(select, exp.Select):
        raise refused_statement(f"{tree.key} without a plain SELECT")
    return select


def _created(tree: exp.Create) -> Target:
    only(tree, "this", "kind", "replace", "expression", "properties", "exists")
    if str(tree.args.get("kind")).upper() != "TABLE":
        raise refused_statement(f"create {tree.args.get('kind')}")
    if tree.args.get("exists"):
        raise Refusal(
            "IF NOT EXISTS",
            "whether something is released should not depend on what is there",
            "CREATE OR REPLACE TABLE released AS SELECT dp_count(*) AS n FROM t",
        ).error()
    properties = tree.args.get("properties")
    found = properties.expressions if properties else []
    if any(not isinstance(item, exp.TemporaryProperty) for item in found):
        raise refuse("properties")
    replaces = bool(tree.args.get("replace"))
    return Target(_path(tree.this), creates=True, replaces=replaces, temporary=bool(found))


def _inserted(tree: exp.Insert) -> Target:
    only(tree, "this", "expression")
    table, columns = tree.this, ()
    if isinstance(table, exp.Schema):
        only(table, "this", "expressions")
        if any(not isinstance(item, exp.Identifier) for item in table.expressions):
            raise refuse("columns")
        table, columns = table.this, tuple(item.name for item in table.expressions)
    return Target(_path(table), creates=False, columns=columns)


def _path(table: exp.Expression) -> tuple[str, ...]:
    if not isinstance(table, exp.Table):
        raise refuse(type(table).__name__)
    only(table, "this", "db", "catalog")
    if any(not isinstance(part, exp.Identifier) for part in table.parts):
        raise refuse("Anonymous")
    return tuple(part.name for part in table.parts)
