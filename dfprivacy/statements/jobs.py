"""A statement as a job: read and planned, then measured, charged and released once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.run import guarded
from dfprivacy.errors import RefusedStatementError
from dfprivacy.releasing import release_answers
from dfprivacy.statements.catalog import connection_source
from dfprivacy.statements.frames import FrameSource
from dfprivacy.statements.plan import Plan, check_finish, finished, plan_statement, unplanned
from dfprivacy.statements.reading import read
from dfprivacy.statements.row_by_row import fence, stored_values
from dfprivacy.statements.rows import Catalog, Reader, Relation
from dfprivacy.statements.tree import Target
from dfprivacy.terms import Terms


class Place(Catalog, Protocol):
    """Where protected rows come from, and released ones go."""

    def relation(
        self, found: Relation, names: tuple[str, ...], engine: duckdb.DuckDBPyConnection
    ) -> duckdb.DuckDBPyRelation:
        """Return the protected rows."""

    def empty(
        self, found: Relation, names: tuple[str, ...], engine: duckdb.DuckDBPyConnection
    ) -> duckdb.DuckDBPyRelation:
        """Return their columns without rows."""

    def fenced(self) -> AbstractContextManager[None]:
        """Return a block in which row queries are planned as they are written."""

    def check(self, target: Target | None, protected: Relation, empty: pa.Table) -> None:
        """Refuse a target that could not take released rows."""

    def give(self, table: pa.Table, found: Relation, target: Target | None) -> object:
        """Hand released rows over."""


@dataclass(frozen=True)
class Job:
    """A statement that has been checked and planned, its source, and the engine that runs it."""

    plan: Plan
    place: Place
    engine: duckdb.DuckDBPyConnection

    @property
    def base(self) -> Relation:
        """The protected relation."""
        return self.plan.statement.rows.base

    def checked(self) -> Job:
        """Return the job, once types and target are known to fit; no row is read."""
        try:
            found = self.place.empty(self.base, self.plan.used, self.engine)
            rows = self.plan.rows_of(stored_values(found))
        except duckdb.Error as error:
            problem = str(error).splitlines()[0]
        else:
            empty = check_finish(self.plan, rows, self.engine)
            self.place.check(self.plan.statement.target, self.base, empty)
            return self
        raise unplanned(problem)

    def run(self) -> Any:
        """Measure, charge, draw, and run the rest of the statement over what was released."""
        plan = self.plan
        found = guarded(lambda: self.place.relation(self.base, plan.used, self.engine))
        answers = release_answers(
            plan.rows_of(stored_values(found)),
            plan.by,
            plan.keys,
            plan.questions,
            plan.terms,
            own=plan.own,
        )
        table = finished(plan, answers, self.engine)
        return self.place.give(table, self.base, plan.statement.target)


@contextmanager
def job_of(
    query: str, con: object, frames: Mapping[str, object], terms: Terms, keys: object
) -> Iterator[Job]:
    """Return a statement as a job, in a block; nothing is read, nothing spent.

    Raises
    ------
    DPError
        Whatever is wrong with the statement or its terms.
    """
    if (con is None) == (not frames):
        raise RefusedStatementError(
            "a statement reads either a connection or frames that are passed by name",
            hint="dfp.sql('SELECT dp_count(*) FROM t', con=con), or "
            "dfp.sql('SELECT dp_count(*) FROM t', t=frame)",
        )
    place: Place = FrameSource(frames) if con is None else connection_source(con)
    with place.fenced(), embedded() as engine:
        fence(engine)
        reader = Reader(place, engine)
        yield Job(plan_statement(read(query, reader), terms, keys), place, engine).checked()
