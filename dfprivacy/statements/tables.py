"""Find the tables that a schema names and who owns their rows; read them through the gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import duckdb

from dfprivacy.engine.files import quoted
from dfprivacy.engine.run import guarded
from dfprivacy.errors import InvalidQuestionError, MissingColumnError
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.statements.functions import FLOATS, SINGLE, alike, both_whole, one_float
from dfprivacy.statements.gate import NO_COLUMN, reads
from dfprivacy.statements.relations import (
    OWNER,
    Bag,
    Expression,
    Leaf,
    Link,
    linked,
    single,
    stored,
)
from dfprivacy.statements.rows import Given, Place, Relation
from dfprivacy.statements.rules import nearly, refuse
from dfprivacy.statements.schema import Schema
from dfprivacy.statements.tree import folded, fresh

T = TypeVar("T")


def owner_of(column: str, kind: object) -> str:
    """Return an owner's SQL: texts compare by bytes, 0.0 is -0.0, and NaN is NaN."""
    own, base = quoted(column), str(kind).split("(")[0]
    if base in {"VARCHAR", "ENUM"}:
        return f"encode(CAST({own} AS VARCHAR))"
    if base in FLOATS:
        return one_float(column, base)
    if base in SINGLE | {"DECIMAL"}:
        return own
    raise refuse("type of a unit", base=base)


@dataclass
class Tables:
    """The tables of a schema, as one statement reads them; nothing is read until it runs."""

    schema: Schema
    place: Place
    engine: duckdb.DuckDBPyConnection
    givens: Mapping[str, Given] = field(default_factory=dict)
    known: dict[tuple[str, ...], Relation] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    twins: dict[tuple[str, tuple[str, ...]], tuple[duckdb.DuckDBPyRelation, str]] = field(
        default_factory=dict
    )
    """Columns of tables without rows, and the SQL that reads them as long as they are held."""
    plans: dict[str, duckdb.DuckDBPyRelation] = field(default_factory=dict)
    """What has been planned over no rows, by its text."""
    used: dict[str, Relation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place.check_texts()
        for name in (*self.schema.tables, *self.schema.public):
            relation = self.place.find(tuple(name.split(".")))
            if relation.definition is not None:
                raise refuse("view in a schema", name=name)
            if relation.path in self.known:
                raise refuse("table twice", name=name)
            self.known[relation.path] = relation
            self.names[folded(name)] = relation.path
        for table, column in self.schema.key_columns:
            path = self.names.get(folded(table))
            if path is None:
                raise refuse("table without a link", table=table)
            self._spelt(self.known[path], column)
        for name, given in self.givens.items():
            self.known[given.relation.path] = given.relation
            self.names[name] = given.relation.path

    def bounds(self, relation: Relation) -> dict[str, Bounds]:
        """Return what everybody knows of columns of a table, by their folded names."""
        found = self._about(relation, self.schema.bounds)
        return {name: Bounds(*ends) for name, ends in found.items()}

    def matches(self, relation: Relation) -> dict[str, int]:
        """Return the most rows with one value of columns of a table, by their folded names."""
        return self._about(relation, self.schema.matches)

    def _about(self, relation: Relation, given: Mapping[str, T]) -> dict[str, T]:
        parts = ((name.rpartition("."), own) for name, own in given.items())
        return {
            folded(column): own
            for (table, _, column), own in parts
            if self.names[folded(table)] == relation.path
        }

    @staticmethod
    def _spelt(relation: Relation, column: str) -> str:
        found = {folded(name): name for name in relation.columns}.get(folded(column))
        if found is None:
            raise MissingColumnError(
                f"{relation.name!r} has no column {column!r}, which the schema names",
                hint=f"{nearly(column, relation.columns)}its columns are "
                f"{', '.join(map(repr, relation.columns[:20]))}",
            )
        return found

    def find(self, parts: Sequence[str], near: Relation | None) -> Relation:
        """Return the table or view of a name."""
        if len(parts) == 1 and parts[0] in self.givens:
            return self.givens[parts[0]].relation
        relation = self.place.find(tuple(parts), near)
        if relation.definition is None and relation.path not in self.known:
            raise refuse("unnamed table", name=relation.name, last=relation.path[-1])
        return relation

    def bag(
        self, relation: Relation, taken: Iterable[str] = ()
    ) -> tuple[Bag, tuple[tuple[str, str], ...]]:
        """Return the rows of a table with their owners, its columns by names not yet taken."""
        name = next(own for own, path in self.names.items() if path == relation.path)
        self.used[name] = relation
        new: dict[str, str] = {}
        for own in relation.columns:
            new[own] = fresh(own, [*taken, *new.values(), OWNER])
        columns = {here: own for own, here in new.items()}
        pairs = tuple(new.items())
        kinds = relation.table.kinds
        if name not in map(folded, self.schema.tables):
            most = self.matches(relation)
            known = {here: most[folded(own)] for own, here in new.items() if folded(own) in most}
            unique = self.givens[name].unique if name in self.givens else None
            if unique is not None:
                unique = frozenset(new[column] for column in new if folded(column) in unique)
            bag = stored(name, columns, kinds=kinds)
            return replace(bag, matches=known, unique=unique), pairs
        unit = folded(self.schema.unit_table)
        if self.schema.unit is None:
            return single(name, columns), pairs
        if name == unit:
            own = self._spelt(relation, self.schema.unit_column)
            owner = new[own], owner_of(new[own], self._kind(name, own))
            bag = stored(name, columns, owner, kinds)
        else:
            link = self.schema.link_of(name)
            assert link is not None  # noqa: S101 a table with owners is the unit's or linked
            above, key = self._above(link)
            own = self._spelt(relation, link[0])
            one, two = self._check_link(name, own, link)
            target = f"{folded(link[1])}.{folded(link[2])}"
            mine = None
            if target == folded(str(self.schema.unit)):
                whole = f"TRY_CAST({quoted(new[own])} AS {two})" if both_whole(one, two) else None
                mine = owner_of(new[own], one) if str(one) == str(two) else whole
            rows = stored(name, columns, kinds=kinds)
            bag = linked(Link(rows, new[own], above, key, target, owner=mine))
        origins = {
            here: bag.origins.get(here, frozenset()) | {f"{name}.{folded(own)}"}
            for here, own in columns.items()
        }
        return replace(bag, keys=self._keys(name, relation, new), origins=origins), pairs

    def _above(self, link: tuple[str, str, str]) -> tuple[Bag, str]:
        relation = self.known[self.names[folded(link[1])]]
        above, pairs = self.bag(relation)
        return above, dict(pairs)[self._spelt(relation, link[2])]

    def _kind(self, name: str, column: str) -> Any:
        kinds = self.known[self.names[name]].table.kinds
        return self.kinds(stored(name, {"x": column}, kinds=kinds), ["x"])[0]

    def _check_link(self, name: str, own: str, link: tuple[str, str, str]) -> tuple[Any, Any]:
        above = folded(link[1])
        key = self._spelt(self.known[self.names[above]], link[2])
        one, two = self._kind(name, own), self._kind(above, key)
        if not alike(one, two):
            raise refuse(
                "types of a link", name=name, own=own, one=one, above=above, key=key, two=two
            )
        return one, two

    def _keys(self, name: str, relation: Relation, new: Mapping[str, str]) -> dict[str, str]:
        """Return the columns that belong to one owner, each with the key that it stands for."""
        keys: dict[str, str] = {}
        for child, parent in self.schema.links.items():
            for side in (child, parent):
                table, _, own = side.rpartition(".")
                if folded(table) == name:
                    keys[new[self._spelt(relation, own)]] = folded(parent)
        if self.schema.unit is not None and name == folded(self.schema.unit_table):
            keys[new[self._spelt(relation, self.schema.unit_column)]] = folded(self.schema.unit)
        return keys

    def kinds(self, bag: Bag, names: Sequence[str]) -> list[Any]:
        """Return the types of some columns: declared in a catalog, or planned over no rows."""
        declared = [bag.kinds.get(name, "") for name in names]
        if all(own.split("(")[0] in SINGLE | {"DECIMAL"} for own in declared):
            return declared
        planned = self.planned(bag, names)
        types = dict(zip(planned.columns, planned.types, strict=True))
        return [types[name] for name in names]

    def planned(self, bag: Bag, names: Sequence[str]) -> duckdb.DuckDBPyRelation:
        """Return some columns of a relation over tables without rows, which plans its text."""
        with suppress(duckdb.Error):
            text = bag.sql(names, self.twin)
            if text not in self.plans:
                self.plans[text] = self.engine.sql(text)
            return self.plans[text]
        raise InvalidQuestionError(
            "DuckDB can't plan the statement: its types or fields don't go together",
            hint="check names and types; CAST(x AS DOUBLE) turns text into numbers",
        )

    def is_released(self, bag: Bag, names: Sequence[str]) -> bool:
        """Check whether a relation holds released rows, which are not known before the charge."""
        tables = self._tables_of(bag, names).keys() & self.givens.keys()
        return any(self.givens[name].compute is None for name in tables)

    def repeats(self, bag: Bag, names: Sequence[str]) -> bool:
        """Check whether rows of a public relation repeat some columns."""
        for name in self._tables_of(bag, names).keys() & self.givens.keys():
            if (compute := self.givens[name].compute) is not None:
                self.givens[name].table = compute()
        by = ", ".join(map(quoted, names))
        known = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in names)
        rows = bag.sql(names, self.leaves(bag, names))
        sql = (
            f"SELECT count(*) FROM (SELECT {by} FROM ({rows}) AS rows WHERE {known} "  # noqa: S608
            f"GROUP BY {by} HAVING count(*) > 1) AS twice"
        )
        try:
            with self.place.fenced():
                ((repeated,),) = guarded(lambda: self.place.query(sql, self.engine).fetchall())
        finally:
            self.place.take_back()
        return bool(repeated)

    # how tables are read

    def twin(
        self, table: str, columns: Mapping[str, str], conditions: Sequence[Expression] = ()
    ) -> str:
        """Return the SELECT of a table of the declared types without rows, on the engine."""
        names = tuple(dict.fromkeys(columns.values()))
        if (table, names) not in self.twins:
            source = self.known[self.names[table]].table
            made = guarded(lambda: source.twin(names, self.engine))
            self.twins[table, names] = made, f"({made.sql_query()})"
        return _read(*self.twins[table, names], columns, conditions)

    def leaves(self, bag: Bag, names: Sequence[str]) -> Leaf:
        """Return how the rows are read that a relation is made of: every table once, and whole."""
        found = {
            table: self.place.lend(self.givens[table].columns(tuple(columns)), self.engine)
            if table in self.givens
            else self.place.stored(self.known[self.names[table]], tuple(columns), self.engine)
            for table, columns in self._tables_of(bag, names).items()
        }

        def leaf(
            table: str, columns: Mapping[str, str], conditions: Sequence[Expression] = ()
        ) -> str:
            return _read(*found[table], columns, conditions)

        return leaf

    @staticmethod
    def _tables_of(bag: Bag, names: Sequence[str]) -> dict[str, dict[str, None]]:
        """Return the tables that a relation is made of, with the columns that are read of each."""
        wanted: dict[str, dict[str, None]] = {}

        def note(
            table: str,
            columns: Mapping[str, str],
            conditions: Sequence[Expression] = (),  # noqa: ARG001 as every leaf
        ) -> str:
            wanted.setdefault(table, {}).update(dict.fromkeys(columns.values()))
            return "SELECT 1"

        bag.sql(names, note)
        return wanted

    def shown(
        self, table: str, columns: Mapping[str, str], conditions: Sequence[Expression] = ()
    ) -> str:
        """Return the SELECT as it is shown; the gate reads values as they are declared."""
        path = ".".join(map(quoted, self.known[self.names[table]].path))
        made = [f"{quoted(own)} AS {quoted(name)}" for name, own in columns.items()]
        return _where(f"SELECT {', '.join(made) or NO_COLUMN} FROM {path}", conditions)  # noqa: S608


def _read(
    found: duckdb.DuckDBPyRelation,
    table: str,
    columns: Mapping[str, str],
    conditions: Sequence[Expression],
) -> str:
    """Return the SELECT of columns through the gate, conditions that need none first."""
    kinds = dict(zip(found.columns, found.types, strict=True))
    read = dict(zip(columns, reads(list(columns), [kinds[own] for own in columns.values()]),
                    strict=True))  # fmt: skip
    plain = {name for name, sql in read.items() if sql == quoted(name)}
    first = [own for own in conditions if own.sure or own.uses <= plain]
    made = [
        f"{quoted(own)}{' COLLATE C' if str(kinds[own]) == 'VARCHAR' else ''} AS {quoted(name)}"
        for name, own in columns.items()
    ]
    below = _where(f"SELECT {', '.join(made) or NO_COLUMN} FROM {table}", first)  # noqa: S608 ours
    if len(plain) == len(read):
        return below
    gated = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in read.items())
    others = [own for own in conditions if own not in first]
    return _where(f"SELECT {gated} FROM ({below}) AS stored", others)  # noqa: S608 ours


def _where(select: str, conditions: Sequence[Expression]) -> str:
    if not conditions:
        return select
    where = " AND ".join(own.tried for own in conditions)
    return f"SELECT * FROM ({select}) AS every WHERE {where}"  # noqa: S608 ours
