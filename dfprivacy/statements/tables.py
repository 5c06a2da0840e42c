"""Find the tables that a schema names and who owns their rows; read them through the gate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from dfprivacy.engine.files import RowCondition, quote
from dfprivacy.engine.run import run_guarded
from dfprivacy.errors import DPError, InvalidQuestionError, MissingColumnError
from dfprivacy.statements.expressions import (
    FLOATS,
    SINGLE,
    WHOLE,
    Expression,
    are_comparable,
    find_base_type,
    one_float,
)
from dfprivacy.statements.gate import NO_COLUMN, TEXT, Given, Place, Relation, fit_values, reads
from dfprivacy.statements.nodes import fold_name, fresh
from dfprivacy.statements.relations import (
    OWNER,
    Bag,
    Leaf,
    Link,
    StoredRead,
    filter_relation,
    link_table,
    own_rows_by,
    stored,
)
from dfprivacy.statements.rules import nearly, refuse
from dfprivacy.statements.schema import Schema


def write_owner(column: str, kind: str) -> str:
    """Return an owner's SQL: texts compare by bytes, 0.0 is -0.0, and NaN is NaN."""
    column_text, base = quote(column), find_base_type(kind)
    if base in {"VARCHAR", "ENUM"}:
        return f"encode(CAST({column_text} AS VARCHAR))"
    if base in FLOATS:
        return one_float(column, base)
    if base in SINGLE | {"DECIMAL"}:
        return column_text
    raise refuse("type of a unit", base=base)


WHY: Mapping[type[Exception], str] = {
    duckdb.BinderException: "its types or fields don't go together",
    duckdb.CatalogException: "there is no such function for these types",
    duckdb.ConversionException: "a constant in it does not fit its type",
    duckdb.OutOfRangeException: "a constant in it is out of range",
}


_OF_TIMES = re.compile("date|time|interval|year|month|week|day|hour|minute|epoch", re.IGNORECASE)
"""Parts of the names of functions and types of dates and times."""


def build_unplanned_error(
    text: str, sql: str, types: Mapping[str, object], error: type[Exception]
) -> InvalidQuestionError:
    """Return the error for an expression that DuckDB can't plan, in words that are not DuckDB's.

    `types` are those of the columns that its SQL may name.
    """
    names = [name for name in types if quote(name) in sql]
    kinds = [find_base_type(str(types[name])) for name in names]
    declared = ", ".join(f"{name} is {kind}" for name, kind in zip(names, kinds, strict=True))
    shown = f"{text}{f' ({declared})' if declared else ''}: " if text else ""
    texts = [name for name, kind in zip(names, kinds, strict=True) if kind == "VARCHAR"]
    numbers = re.findall(r"\b[0-9][0-9.e]*", re.sub(r"'[^']*'|\"[^\"]*\"", "", text))
    is_whole = texts and numbers and all(map(str.isdecimal, numbers))
    column = next((name if name.isidentifier() else quote(name) for name in texts), "x")
    functions = re.sub(r"'[^']*'|\"[^\"]*\"(?!\()", "", sql)  # no constants, and no columns
    if texts and _OF_TIMES.search(functions):
        cast = f"CAST({column} AS TIMESTAMP) turns text into times"
    else:
        cast = f"CAST({column} AS {'INTEGER' if is_whole else 'DOUBLE'}) turns text into numbers"
    return InvalidQuestionError(
        f"DuckDB can't plan the statement: {shown}{WHY.get(error, 'a type in it has no place')}",
        hint=f"check names and types; {cast}",
    )


@dataclass
class Tables:
    """The tables of a schema, as one statement reads them; nothing is read until it runs."""

    schema: Schema | None
    source: Place
    engine: duckdb.DuckDBPyConnection
    givens: Mapping[str, Given] = field(default_factory=dict)
    unit_column: str | None = None
    """The column of the unit's table that names the unit; None where each row is protected."""
    lone: Relation | None = None
    """The one table or view of a statement without a schema, once it has been named."""
    relations: dict[str, Relation] = field(default_factory=dict)
    """The tables that can be read, by their folded names."""
    twins: dict[tuple[str, tuple[str, ...]], tuple[duckdb.DuckDBPyRelation, str]] = field(
        default_factory=dict
    )
    """Columns of tables without rows, and the SQL that reads them as long as they are held."""
    plans: dict[str, duckdb.DuckDBPyRelation] = field(default_factory=dict)
    """Relations planned over no rows, by their text."""
    used: dict[str, Relation] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    """Notes on how values are compared, whatever the rows."""
    names: dict[str, int] = field(default_factory=lambda: {fold_name(OWNER): 1})
    """Folded names of all columns of the statement, each with the last number put behind it."""

    def __post_init__(self) -> None:
        if self.schema is not None:
            self.unit_column = self.schema.unit_column if self.schema.unit else None
            for name in (*self.schema.tables, *self.schema.public):
                relation = self.source.find(tuple(name.split(".")))
                if relation.definition is not None:
                    raise refuse("view in a schema", name=name)
                if self._name(relation) is not None:
                    raise refuse("table twice", name=name)
                self.relations[fold_name(name)] = relation
            links, ends = self.schema.links, (*self.schema.bounds, *self.schema.matches)
            unit = () if self.schema.unit is None else (self.schema.unit,)
            for name in (*unit, *links, *links.values(), *ends):
                table, _, column = name.rpartition(".")
                if fold_name(table) not in self.relations:
                    raise refuse("table without a link", table=table)
                self._spelt(self.relations[fold_name(table)], column)
        for name, derived in self.givens.items():
            self.relations[name] = derived.relation

    def take_name(self, name: str) -> str:
        """Return a name for a column of the statement that no other column has."""
        new, folded = name, fold_name(name)
        while fold_name(new) in self.names:
            self.names[folded] += 1
            new = f"{name}_{self.names[folded]}"
        self.names[fold_name(new)] = 1
        return new

    def _name(self, relation: Relation) -> str | None:
        """Return the name of a table, if it can be read."""
        names = (name for name, other in self.relations.items() if other.path == relation.path)
        return next(names, None)

    def facts(self, relation: Relation, kind: str) -> dict[str, Any]:
        """Return the bounds or matches that a schema declares of a table, by folded columns."""
        facts = {} if self.schema is None else getattr(self.schema, kind)
        parts = ((name.rpartition("."), fact) for name, fact in facts.items())
        return {
            fold_name(column): fact
            for (table, _, column), fact in parts
            if self.relations[fold_name(table)].path == relation.path
        }

    def _spelt(self, relation: Relation, column: str) -> str:
        spelling = {fold_name(name): name for name in relation.columns}.get(fold_name(column))
        if spelling is None:
            role = "to be the privacy unit" if self.schema is None else "which the schema names"
            raise MissingColumnError(
                f"{relation.name!r} has no column {column!r}, {role}",
                hint=f"{nearly(column, relation.columns)}its columns are "
                f"{', '.join(map(repr, relation.columns[:20]))}",
            )
        if "\0" in spelling:
            raise refuse("NUL")
        return spelling

    def find(self, parts: Sequence[str], view: Relation | None) -> Relation:
        """Return the table or view of a name."""
        if len(parts) == 1 and parts[0] in self.givens:
            return self.givens[parts[0]].relation
        relation = self.source.find(tuple(parts), view)
        if self.schema is None:
            # The column of the unit may be one of a view. Where rows are protected, those of the
            # table below it are.
            if relation.definition is None or self.unit_column is not None:
                if self.lone is None:
                    self.lone = relation
                    self.relations[fold_name(".".join(map(quote, relation.path)))] = relation
                elif relation.path != self.lone.path:
                    raise refuse("second table", first=self.lone.path[-1], second=relation.path[-1])
        elif relation.definition is None and self._name(relation) is None:
            raise refuse("unnamed table", name=relation.name, last=relation.path[-1])
        return relation

    def own_view(self, view: Relation, bag: Bag, names: Mapping[str, str]) -> Bag:
        """Return the rows of a view, of which each belongs to the unit that a column names."""
        column = names[self._spelt(view, str(self.unit_column))]
        bag = own_rows_by(bag, column, write_owner(column, self.find_type(bag, column)))
        facts = {name: replace(fact, key=None) for name, fact in bag.facts.items()}
        return replace(bag, facts=facts | {column: replace(facts[column], key=self.unit_key)})

    @property
    def protected(self) -> Relation:
        """The table of the unit, or of the rows that are protected by themselves."""
        if self.schema is not None:
            return self.relations[fold_name(self.schema.unit_table)]
        return next(self.used[name] for name in self.used if name not in self.givens)

    @property
    def unit_key(self) -> str:
        """The name of the unit's column, as columns with the same values are known by."""
        return fold_name(str(self.schema.unit)) if self.schema is not None else "unit"

    def bag(
        self, relation: Relation, *, is_above: bool = False
    ) -> tuple[Bag, tuple[tuple[str, str], ...]]:
        """Return the rows of a table with their owners, and its columns with their new names.

        Those of a table that `is_above` a link are named by themselves: none is in the statement.
        """
        name = str(self._name(relation))
        self.used[name] = relation
        new: dict[str, str] = {}
        for column in relation.columns:
            others = [OWNER, *relation.columns] if fold_name(column) == OWNER else []
            new[column] = fresh(column, others) if is_above else self.take_name(column)
        columns = {here: column for column, here in new.items()}
        pairs, kinds = tuple(new.items()), relation.table.kinds
        schema = self.schema
        owned = name not in self.givens if schema is None else name in map(fold_name, schema.tables)
        if not owned:
            declared = self.facts(relation, "matches")
            unique = self.givens[name].unique if name in self.givens else None
            if unique is not None:
                unique = frozenset(new[column] for column in new if fold_name(column) in unique)
            bag = stored(name, columns, kinds=kinds)
            facts = {
                here: replace(bag.facts[here], matches=declared.get(fold_name(source_column)))
                for here, source_column in columns.items()
            }
            return replace(bag, facts=facts, unique=unique), pairs
        if self.unit_column is None:
            return replace(stored(name, columns, ("", "true"), kinds), single=True), pairs
        has_unit = schema is None or name == fold_name(schema.unit_table)
        ends = []  # of links: the table, the column, and the key that the column stands for
        for child, up in schema.links.items() if schema else ():
            for end in (child, up):
                table, _, column = fold_name(end).rpartition(".")
                ends.append((table, column, fold_name(up)))
        column, target = next(((c, key) for t, c, key in ends[::2] if t == name), ("", ""))
        source_column = self._spelt(relation, column or self.unit_column)
        unit, rows = new[source_column], stored(name, columns, kinds=kinds)
        kind = self.find_type(rows, unit)
        if has_unit:
            bag = stored(name, columns, (unit, write_owner(unit, kind)), kinds)
        else:
            path, _, key = target.rpartition(".")
            above, above_columns = self.bag(self.relations[path], is_above=True)
            key = self._spelt(self.relations[path], key)
            above_key = dict(above_columns)[key]
            above_kind = self.find_type(above, above_key)
            if not are_comparable(kind, above_kind):
                words = {"name": name, "own": source_column, "one": kind}
                raise refuse("types of a link", **words, above=path, key=key, two=above_kind)
            owner = None
            if target == self.unit_key and kind == above_kind:
                owner = write_owner(unit, kind)
            elif target == self.unit_key and {*map(find_base_type, (kind, above_kind))} <= WHOLE:
                owner = f"TRY_CAST({quote(unit)} AS {above_kind})"
            bag = link_table(Link(rows, unit, above, above_key, target, owner=owner))
        keys = {new[self._spelt(relation, c)]: key for t, c, key in ends if t == name}
        keys |= {unit: self.unit_key} if has_unit else {}
        facts = {}
        for here, source_column in columns.items():
            origins = bag.facts[here].origins | {f"{name}.{fold_name(source_column)}"}
            facts[here] = replace(bag.facts[here], key=keys.get(here), origins=origins)
        return replace(bag, facts=facts), pairs

    def kinds(self, bag: Bag, names: Sequence[str]) -> dict[str, str]:
        """Return the types of some columns: declared in a catalog, or planned over no rows."""
        declared = {name: bag.kind(name).replace(TEXT, "VARCHAR") for name in names}
        if all(find_base_type(kind) in SINGLE | {"DECIMAL"} for kind in declared.values()):
            return declared
        planned = self.plan_columns(bag, names)
        types = dict(zip(planned.columns, map(str, planned.types), strict=True))
        return {name: types[name] for name in names}

    def find_type(self, bag: Bag, name: str) -> str:
        """Return the type of a column."""
        return self.kinds(bag, [name])[name]

    def find_kind(self, bag: Bag, expression: Expression) -> str:
        """Return the type of an expression over the rows of a relation; "" where none is known."""
        names = [name for name in bag.columns if name in expression.uses]
        with suppress(DPError, duckdb.Error):
            return str(self.plan_columns(bag, names).project(expression.sql).types[0])
        return ""

    def plan_columns(self, bag: Bag, names: Sequence[str]) -> duckdb.DuckDBPyRelation:
        """Return some columns of a relation over tables without rows, which plans its text.

        An error names the first condition that DuckDB can't plan.
        """
        with suppress(duckdb.Error):
            text = bag.sql(names, self.twin)
            if text not in self.plans:
                self.plans[text] = self.engine.sql(text)
            return self.plans[text]
        read = bag.text
        for condition in read.conditions if isinstance(read, StoredRead) else ():
            assert isinstance(read, StoredRead)  # noqa: S101 it has conditions
            unfiltered = replace(bag, text=replace(read, conditions=()))
            try:
                self.engine.sql(filter_relation(unfiltered, [condition]).sql([], self.twin))
            except duckdb.Error as error:
                types = self.kinds(unfiltered, [*condition.uses])
                raise build_unplanned_error(
                    condition.sql, condition.sql, types, type(error)
                ) from None
        raise build_unplanned_error("", "", {}, duckdb.BinderException)

    def is_released(self, bag: Bag, names: Sequence[str]) -> bool:
        """Check whether a relation holds released rows, which are not known before the charge."""
        tables = self._find_reads(bag, names)[0].keys() & self.givens.keys()
        return any(self.givens[name].compute is None for name in tables)

    def repeats(self, bag: Bag, names: Sequence[str]) -> bool:
        """Check whether rows of a public relation repeat some columns."""
        by = ", ".join(map(quote, names))
        present = " AND ".join(f"{quote(name)} IS NOT NULL" for name in names)
        twice = f"WHERE {present} GROUP BY {by} HAVING count(*) > 1 LIMIT 1"
        return bool(self._public_rows(bag, names, f"SELECT {by}", twice))

    def list_different_rows(self, bag: Bag, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the different rows of a public relation, in their order."""
        return self._public_rows(bag, names, "SELECT DISTINCT *", "ORDER BY ALL")

    def _public_rows(
        self, bag: Bag, names: Sequence[str], select: str, rest: str
    ) -> list[tuple[Any, ...]]:
        """Read a query over a public relation; what that takes of others is computed first."""
        for name in self._find_reads(bag, names)[0].keys() & self.givens.keys():
            if (compute := self.givens[name].compute) is not None:
                self.givens[name].table = compute()
        try:
            sql = f"{select} FROM ({bag.sql(names, self.leaves(bag, names))}) AS rows {rest}"
            with self.source.fence():
                return run_guarded(lambda: self.source.query(sql, self.engine).fetchall())
        finally:
            self.source.take_back()

    # how tables are read

    def twin(self, read: StoredRead) -> str:
        """Return the SELECT of a table of the declared types without rows, on the engine."""
        table, names = read.table, tuple(dict.fromkeys(read.columns.values()))
        if (table, names) not in self.twins:
            source = self.relations[table].table
            rows = run_guarded(lambda: source.twin(names, self.engine))
            self.twins[table, names] = rows, f"({rows.sql_query()})"
        return _select(read, *self.twins[table, names])

    def leaves(self, bag: Bag, names: Sequence[str]) -> Leaf:
        """Return how the rows are read that a relation is made of: every table once.

        Conditions on all reads of a table go to its source, which can leave out files by them.
        """
        sources: dict[str, tuple[duckdb.DuckDBPyRelation, str]] = {}
        columns_by_table, reads_found = self._find_reads(bag, names)
        for table, columns in columns_by_table.items():
            if table in self.givens:
                rows = fit_values(self.givens[table].table, columns)
                sources[table] = self.source.lend(rows, self.engine)
                continue
            first, *others = (read for read in reads_found if read.table == table)
            conditions = [
                RowCondition(rule.tried, {name: first.columns[name] for name in rule.uses})
                for rule in (() if others else first.conditions)
            ]
            relation = self.relations[table]
            sources[table] = self.source.stored(relation, columns, self.engine, conditions)
        return lambda read: _select(read, *sources[read.table])

    @staticmethod
    def _find_reads(
        bag: Bag, names: Sequence[str]
    ) -> tuple[dict[str, tuple[str, ...]], list[StoredRead]]:
        """Return the columns that a relation reads of each table, and all of its reads."""
        reads: list[StoredRead] = []

        def note(read: StoredRead) -> str:
            reads.append(read)
            return "SELECT 1"

        bag.sql(names, note)
        columns: dict[str, tuple[str, ...]] = {}
        for read in reads:
            before = columns.get(read.table, ())
            columns[read.table] = tuple(dict.fromkeys((*before, *read.columns.values())))
        return columns, reads

    def display_select(self, read: StoredRead) -> str:
        """Return the SELECT as it is shown; the gate reads values as they are declared."""
        source = ".".join(map(quote, self.relations[read.table].path))
        if any(column != name for name, column in read.columns.items()):
            columns = [f"{quote(was)} AS {quote(name)}" for name, was in read.columns.items()]
            source = f"(SELECT {', '.join(columns)} FROM {source}) AS stored"  # noqa: S608
        return read.select_from(source, [condition.tried for condition in read.conditions])


def _select(read: StoredRead, source: duckdb.DuckDBPyRelation, table: str) -> str:
    """Return the SELECT of columns through the gate, conditions that need none first."""
    kinds = dict(zip(source.columns, source.types, strict=True))
    types = [kinds[column] for column in read.columns.values()]
    gate = reads(list(read.columns), types)
    plain = {name for name, sql in gate.items() if sql == quote(name)}
    first = [rule for rule in read.conditions if rule.kind or rule.uses <= plain]
    columns = [
        f"{quote(column)}{' COLLATE C' if str(kinds[column]) == 'VARCHAR' else ''} AS {quote(name)}"
        for name, column in read.columns.items()
    ]
    below = f"(SELECT {', '.join(columns) or NO_COLUMN} FROM {table}) AS stored"  # noqa: S608 ours
    where = [condition.tried for condition in first]
    if len(plain) == len(gate):
        return read.select_from(below, where)
    gated = ", ".join(f"{sql} AS {quote(name)}" for name, sql in gate.items())
    filters = f" WHERE {' AND '.join(where)}" if where else ""
    others = [condition.tried for condition in read.conditions if condition not in first]
    return read.select_from(f"(SELECT {gated} FROM {below}{filters}) AS gated", others)  # noqa: S608 ours
