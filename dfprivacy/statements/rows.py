"""Define how a statement is read: where its tables are, and which answers releases read."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa

from dfprivacy.engine.embedded import UTC, in_time_zone
from dfprivacy.engine.files import RowCondition, quoted
from dfprivacy.statements.gate import Source
from dfprivacy.statements.rules import refuse
from dfprivacy.statements.schema import Schema
from dfprivacy.statements.tree import Target

_NUMBERS = itertools.count()  # of tables that are read: nothing random is drawn before a charge


@dataclass(frozen=True)
class Relation:
    """A named table or frame with a `source`, or a view with a `definition`."""

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

    @abstractmethod
    def names(self) -> list[tuple[str, ...]]:
        """Return the names of all relations."""

    def fenced(self) -> AbstractContextManager[None]:
        """Return a block in which rows are read as the query is written: by our own engine."""
        return nullcontext()

    def stored(
        self,
        relation: Relation,
        names: tuple[str, ...],
        engine: duckdb.DuckDBPyConnection,
        conditions: Sequence[RowCondition] = (),
    ) -> tuple[duckdb.DuckDBPyRelation, str]:
        """Return columns of a table, and the name by which `query` reads them.

        Rows for which a condition is not true may be missing.
        """
        result = relation.table.rows(names, engine, conditions)
        name = f"rows_read_{next(_NUMBERS)}"
        engine.register(name, result)  # a temporary view: it goes with the engine of the call
        return result, quoted(name)

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


@dataclass
class Given:
    """A table of answers of earlier releases that a release reads, made by a `script`.

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

    def read(self, names: tuple[str, ...], engine: duckdb.DuckDBPyConnection, *_: object) -> Any:
        """Return some columns on an engine."""
        return engine.from_arrow(self.columns(names))

    def columns(self, names: tuple[str, ...]) -> pa.Table:
        """Return some columns."""
        if not names:
            return pa.table({"row": pa.nulls(self.table.num_rows, pa.bool_())})
        return self.table.select(list(names))


@dataclass(frozen=True)
class Reader:
    """The settings of one reading: where tables are, and an embedded engine that parses.

    `unit` is the column that names the unit of a lone table, without a schema. `intervals` says
    whether each answer is followed by the ends of its interval. `planned` makes the table of a
    script without rows, and `givens` are those that releases take of others. `computed` makes that
    of public tables alone.
    """

    place: Place
    engine: duckdb.DuckDBPyConnection
    schema: Schema | None = None
    unit: str | None = None
    intervals: bool = False
    has_public_keys: bool = False
    planned: Callable[[Any], pa.Table] | None = None
    computed: Callable[[Any, pa.Schema], pa.Table] | None = None
    givens: dict[str, Given] = field(default_factory=dict)
