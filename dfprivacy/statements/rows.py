"""Read the protected rows of a release: what its FROM and WHERE leave, with their owners."""

from __future__ import annotations

from dataclasses import replace

from dfprivacy.engine.files import quote
from dfprivacy.errors import DPError
from dfprivacy.statements.calls import holds_dp
from dfprivacy.statements.expressions import is_dp
from dfprivacy.statements.gate import Reader
from dfprivacy.statements.names import Scope
from dfprivacy.statements.nodes import Query, Select, Subquery, walk
from dfprivacy.statements.rules import refuse
from dfprivacy.statements.select import Compiler
from dfprivacy.statements.tables import Tables


def read_rows(select: Select, reader: Reader) -> tuple[Scope, Compiler]:
    """Return the rows of the outermost SELECT, its FROM and WHERE, and what has read them."""
    compiler = Compiler(list_tables(reader))
    items = [(item.alias, item) for item in select.items if item.alias]
    compiler.outermost = select.source
    scope, _ = compiler.from_where(select, items)
    if not scope.bag.owned:
        are_answers = any(value.script.statements for value in reader.givens.values())
        raise refuse("answers alone" if are_answers else "public tables alone")
    # released numbers that calls and keys name are joined: one row of each
    constant_items = [item for item in select.items if not holds_dp(item)]
    parts = [constant_items, select.keys, *(node for node in walk(select) if is_dp(node))]
    subqueries = [node for node in walk(parts) if isinstance(node, Subquery)]
    names = dict.fromkeys(node.released for node in subqueries if node.released)
    tables, constants = compiler.tables, dict[str, str]()
    for name in names:
        value, ((_, column),) = tables.bag(tables.find([name], None))
        row = Scope(replace(value, unique=frozenset()), ())
        scope = replace(scope, bag=compiler.join(scope, row, "INNER", []))
        constants[name] = quote(column)
    return replace(scope, constants=constants), compiler


def list_tables(reader: Reader) -> Tables:
    """Return the tables that a statement can name."""
    unit = None if reader.unit is None else str(reader.unit.column)
    return Tables(reader.schema, reader.source, reader.engine, reader.givens, unit)


def about_all(select: Query, reader: Reader) -> bool:
    """Check whether the aggregates of a SELECT are about several units, so that it is a release.

    Raises
    ------
    DPError
        If the rows of its FROM and WHERE can't be read.
    """
    compiler = Compiler(list_tables(reader))
    try:
        compiler.query(select)
    except DPError:
        if not any(node is select for node in compiler.about_all):
            raise
        return True
    return False
