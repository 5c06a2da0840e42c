"""Relations, the columns of the rows taken from them, and what a name in a SELECT stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from dfprivacy.errors import MissingColumnError, RefusedStatementError
from dfprivacy.statements.expressions import Scope, write
from dfprivacy.statements.growth import check_growth
from dfprivacy.statements.names import folded

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


def missing(rows: Rows, name: str) -> MissingColumnError:
    """Return the error for a column that is not there."""
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
    items: Sequence[tuple[str, exp.Expression]]

    def written(self, node: exp.Expression, before: int | None = None) -> str:
        """Return the SQL of an expression over the base relation."""
        return short(write(node, Scope(lambda column: self._column(column, before))))

    def _column(self, column: exp.Column, before: int | None) -> str:
        parts = [part.name for part in column.parts]
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
        literal = name.replace("'", "''")
        sql = f"struct_extract({sql}, '{literal}')"
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
