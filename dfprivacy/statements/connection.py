"""A connection after PEP 249 on which every statement is one of `dfp.sql`.

It never runs the text that it is given: what runs is what `dfp.sql` writes. So whoever has only
this connection reads nothing but released answers, as far as its budget goes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.returning import printable, values_of
from dfprivacy.errors import (
    EngineError,
    InvalidQuestionError,
    NotSupportedError,
    RefusedStatementError,
    UnsupportedFrameError,
    boundary,
)
from dfprivacy.frames.explanation import SIZE
from dfprivacy.frames.tables import Origin, with_origin
from dfprivacy.frames.viz.pictures import show
from dfprivacy.statements.catalog import typed_frame
from dfprivacy.statements.interface import asked, explain, sql
from dfprivacy.statements.tree import kind, nodes, parse, text_of_query

if TYPE_CHECKING:
    from dfprivacy.statements.jobs import StatementExplanation

_FILES = frozenset((".parquet", ".csv", ".tsv"))


def connect(database: Any = None, /, **given: Any) -> Connection:
    """Return a connection that answers SQL privately, after PEP 249.

    Parameters
    ----------
    database : path, DuckDB connection, or mapping of frames
        A DuckDB file, which is opened for reading only; a connection, which stays open and usable;
        frames by name; or the path of a Parquet or CSV file, a table by the name of the file.
    **given
        The terms of every statement, by the names that `dfp.sql` has for them: `schema`, `unit`,
        `max_rows`, `max_groups`, `epsilon`, `delta`, `keys`, `interval`, `intervals`, `ledger`,
        `dataset`, `note`, `version`. Every other name is a frame's.

    Returns
    -------
    Connection
        With `sql`, `explain`, `cursor` and `close`. pandas.read_sql takes it.

    Raises
    ------
    UnsupportedFrameError
        When the database is none of these, or is named beside frames.
    EngineError
        When a file can't be opened.

    Notes
    -----
    Every statement costs what `dfp.sql` says it costs, and is what `dfp.sql` makes of it: the same
    guarantee. `dfprivacy.dbapi` has the names that PEP 249 asks of a module.

    >>> import dfprivacy as dfp, pandas as pd
    >>> flights = pd.DataFrame({"carrier": ["AA", "UA"] * 5000, "delay": [1.0, 9.0] * 5000})
    >>> con = dfp.connect({"flights": flights}, epsilon=1, delta=1e-6)
    >>> cursor = con.cursor().execute("SELECT carrier, dp_count(*) AS n FROM flights GROUP BY 1")
    >>> [column[0] for column in cursor.description], cursor.rowcount
    (['carrier', 'n'], 2)
    >>> con.explain("SELECT dp_count(*) FROM flights").epsilon
    1.0
    """
    terms = {name: given.pop(name) for name in list(given) if name in TERMS}
    place, owned = _opened(database, given)
    return Connection(place, terms, owned=owned)


ASKED: Mapping[str, Any] = sql.__kwdefaults__ or {}
TERMS = frozenset(ASKED) - {"con"}
"""What statements can be given, by the names of `dfp.sql`."""


def _opened(
    database: Any, frames: Mapping[str, Any]
) -> tuple[dict[str, Any], duckdb.DuckDBPyConnection | None]:
    """Return what `dfp.sql` reads, and the connection that ends with ours."""
    if isinstance(database, Mapping):
        for name in database:
            if not isinstance(name, str):
                raise _no_name(f"an object of type {type(name).__name__}, and names are text")
            if name in ASKED:
                raise _no_name(f"{name!r}, which is that of a term")
        return {**database, **frames}, None
    if database is None and frames:
        return dict(frames), None
    if frames or not isinstance(database, str | Path | duckdb.DuckDBPyConnection):
        raise UnsupportedFrameError(
            "a connection is made to a DuckDB file or connection, or to frames by name",
            hint="dfp.connect('flights.duckdb', epsilon=1), dfp.connect({'flights': frame})",
        )
    if isinstance(database, duckdb.DuckDBPyConnection):
        return {"con": database}, None
    path = Path(database)
    if path.suffix.lower() in _FILES or path.is_dir():
        return {path.stem: path}, None
    with suppress(duckdb.Error):
        own = duckdb.connect(str(path), read_only=True)
        return {"con": own}, own
    raise EngineError(
        f"the database {path.name!r} can't be opened for reading",
        hint="name a DuckDB file that is there, and that no other process writes to",
    )


def _no_name(what: str) -> UnsupportedFrameError:
    return UnsupportedFrameError(
        f"a frame is given by the name {what}", hint="dfp.connect({'flights': frame})"
    )


class _Closing:
    """What is open until it is closed, at the end of its block at the latest."""

    _open = True
    _hints: ClassVar = {"connection": "dfp.connect(...)", "cursor": "con.cursor()"}

    def _require_open(self) -> None:
        if not self._open:
            what = type(self).__name__.lower()
            raise EngineError(f"the {what} is closed", hint=f"open another: {self._hints[what]}")

    def close(self) -> None:
        """End its use."""
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@boundary
class Connection(_Closing):
    """What `dfp.connect` returns. See there."""

    def __init__(
        self,
        place: Mapping[str, Any],
        terms: Mapping[str, Any],
        *,
        owned: duckdb.DuckDBPyConnection | None,
    ) -> None:
        self._place, self._terms, self._owned = dict(place), dict(terms), owned

    def sql(self, query: str, **terms: Any) -> Result:
        """Answer a statement as `dfp.sql` does; terms named here go before the connection's."""
        given = self._with(terms)
        named = {name: given.pop(name) for name in list(given) if name in ASKED}
        with asked(query, given, **{**ASKED, **named}) as job:
            table, origin = job.release()
            return with_origin(Result(pa.table({}) if job.script.target else table, origin), origin)

    def explain(
        self, query: str, *, within: Any = None, size: int = SIZE, **terms: Any
    ) -> StatementExplanation:
        """Return what a statement would do and cost; it reads no row and spends nothing.

        With `within` the loss of the connection is set aside; it does as `dfp.explain` says.
        """
        given = self._with(terms)
        if within is not None and "epsilon" not in terms:
            given.pop("epsilon", None)
        return explain(query, within=within, size=size, **given)

    def _with(self, terms: Mapping[str, Any]) -> dict[str, Any]:
        self._require_open()
        unknown = next((name for name in terms if name not in TERMS), None)
        if unknown is not None:
            raise RefusedStatementError(
                f"a statement has no term {unknown!r}",
                hint=f"its terms are {', '.join(sorted(TERMS))}",
            )
        return {**self._place, **self._terms, **terms}

    def cursor(self) -> Cursor:
        """Return a cursor of PEP 249."""
        self._require_open()
        return Cursor(self)

    def execute(self, query: str, parameters: Sequence[Any] | None = None) -> Cursor:
        """Run a statement on a cursor of its own."""
        return self.cursor().execute(query, parameters)

    def commit(self) -> None:
        """Do nothing: a release is charged when it is made."""
        self._require_open()

    def rollback(self) -> None:
        """Do nothing: no release is pending, and none can be taken back."""
        self._require_open()

    def close(self) -> None:
        """End the connection, and that to a file that it has opened."""
        super().close()
        if self._owned is not None:
            self._owned.close()


def with_constants(query: str, parameters: Sequence[Any]) -> str:
    """Return a query with constants in the places of its parameters, as DuckDB writes it."""
    if isinstance(parameters, str | bytes | Mapping) or not isinstance(parameters, Sequence):
        raise _wrong_parameters("they are no list or tuple")
    with embedded() as engine:
        target, tree = parse(query, engine, parameters=True)
        if target is not None:
            raise _wrong_parameters("it makes a table")
        own = [node for node in nodes(tree) if kind(node) == ("PARAMETER", "VALUE_PARAMETER")]
        places = {node["identifier"] for node in own}
        if places != {str(place + 1) for place in range(len(parameters))}:
            raise _wrong_parameters(f"{len(parameters)} are given for {len(places)} places")
        for node in own:
            value = parameters[int(node["identifier"]) - 1]
            _, constant = parse(f"SELECT {_literal(value)}", engine)
            node.clear()
            node.update(constant["select_list"][0])
        return text_of_query(tree, engine)


def _literal(value: Any) -> str:
    """Return a constant as SQL."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "true", False: "false"}[value]
    if isinstance(value, int | np.integer):
        with suppress(ValueError):  # Python writes no more than some thousand digits
            return str(int(value))
    if isinstance(value, float | np.floating) and math.isfinite(value):
        return repr(float(value))
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, date):
        sort = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
        return f"CAST('{value.isoformat()}' AS {sort})"
    raise _wrong_parameters("one of them is no number, text, boolean, date or None")


def _wrong_parameters(why: str) -> RefusedStatementError:
    return RefusedStatementError(
        f"parameters can't be put into the statement: {why}",
        hint='execute("SELECT dp_count(*) FROM flights WHERE delay > ?", [30])',
    )


@boundary
@dataclass(frozen=True, repr=False)
class Result:
    """What a statement has released: rows, as any frame you like; CREATE TABLE has no columns."""

    table: pa.Table
    origin: Origin

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    def arrow(self) -> pa.Table:
        """Return an Arrow table."""
        return with_origin(self.table.slice(0), self.origin)

    def df(self) -> pd.DataFrame:
        """Return a pandas frame, whose dtypes follow from declared types."""
        return with_origin(typed_frame(self.table), self.origin)

    def pl(self) -> pl.DataFrame:
        """Return a polars frame."""
        return with_origin(pl.DataFrame(self.table), self.origin)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples."""
        return list(zip(*(values_of(column) for column in self.table.columns), strict=True))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows over to any library of frames."""
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        return repr(pl.DataFrame(printable(self.table)))

    def _repr_html_(self) -> str:
        with suppress(Exception):
            return str(show(self)._repr_html_())
        return str(pl.DataFrame(printable(self.table))._repr_html_())


@boundary
class Cursor(_Closing):
    """A cursor of PEP 249: one statement at a time, and its rows."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._result: Result | None = None
        self._rows: Iterator[tuple[Any, ...]] = iter(())

    def execute(self, operation: str, parameters: Sequence[Any] | None = None) -> Self:
        """Run one statement of `dfp.sql`; `parameters` are constants in the places of its `?`.

        More or fewer parameters than places, and what is no plain constant, are refused.
        """
        self._require_open()
        self._result, self._rows = None, iter(())
        is_empty = isinstance(parameters, Sized) and not len(parameters)
        if parameters is not None and not is_empty:
            operation = with_constants(operation, parameters)
        made = self.connection.sql(operation)
        if made.columns:
            self._result, self._rows = made, iter(made.fetchall())
        return self

    def executemany(self, operation: str, parameters: Sequence[Any]) -> None:  # noqa: ARG002 as PEP 249 has it
        """Raise a `NotSupportedError`: every statement is one release."""
        raise NotSupportedError(
            "executemany would make many releases", hint="execute each statement by itself"
        )

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """One tuple a column, as PEP 249 has it: its name, its type, and five times None."""
        if self._result is None:
            return None
        return [(own.name, own.type, *[None] * 5) for own in self._result.table.schema]

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement has; -1 before there is one."""
        return -1 if self._result is None else len(self._result)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None."""
        return next(self._fetched(), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next rows: so many, a whole number from 0 on, or `arraysize`."""
        wanted = self.arraysize if size is None else size
        if not isinstance(wanted, int) or not 0 <= wanted < 2**31:
            raise InvalidQuestionError(
                "the number of rows to fetch is no whole number from 0 on",
                hint="cursor.fetchmany(100); fetchall() returns all that are left",
            )
        return list(islice(self._fetched(), wanted))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows that are left."""
        return list(self._fetched())

    def arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        return self._made().arrow()

    def df(self) -> pd.DataFrame:
        """Return all rows as a pandas frame."""
        return self._made().df()

    def pl(self) -> pl.DataFrame:
        """Return all rows as a polars frame."""
        return self._made().pl()

    def _made(self) -> Result:
        self._require_open()
        if self._result is None:
            raise RefusedStatementError(
                "there are no rows to fetch", hint="execute a SELECT with dp_ calls first"
            )
        return self._result

    def _fetched(self) -> Iterator[tuple[Any, ...]]:
        self._made()
        return self._rows

    def close(self) -> None:
        """Drop the rows; the cursor can't be used any more."""
        super().close()
        self._result, self._rows = None, iter(())

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._fetched()
