"""Refuse honest mistakes in SQL, release the rest: `dfp.sql`, `dfp.explain`, `dfp.connect`.

A connection after PEP 249 never runs the text that it is given: what runs is what `dfp.sql` writes.
So whoever has only this connection reads nothing but released answers, as far as its budget goes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from itertools import islice
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeGuard

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.accounting.ledger_file import expand_home
from dfprivacy.engine.embedded import UTC, open_embedded, quote_text, set_time_zone
from dfprivacy.engine.returning import list_values, printable
from dfprivacy.engine.text_files import TextFile, is_data_name, name_table
from dfprivacy.errors import (
    EngineError,
    InvalidQuestionError,
    NotSupportedError,
    RefusedStatementError,
    UnknownArgumentError,
    UnsupportedFrameError,
    boundary,
)
from dfprivacy.frames.explanation import SIZE, no_loss_beside, read_target
from dfprivacy.frames.tables import Origin, with_origin
from dfprivacy.frames.viz.numbers import Shown
from dfprivacy.frames.viz.pictures import plot, show
from dfprivacy.release.terms import EPSILON, INTERVAL, Terms, read_unit
from dfprivacy.statements.gate import type_frame
from dfprivacy.statements.nodes import Other, Select, fold_name, parse, rebuild, text_of_query, walk
from dfprivacy.statements.rules import nearly
from dfprivacy.statements.schema import read_schema

if TYPE_CHECKING:
    from dfprivacy.statements.jobs import Job, StatementExplanation


def sql(
    query: str,
    *,
    con: duckdb.DuckDBPyConnection | None = None,
    unit: Any = None,
    max_rows: int | None = None,
    max_groups: int | None = None,
    epsilon: float = EPSILON,
    delta: float | None = None,
    keys: Any = None,
    interval: float = INTERVAL,
    population: bool = False,
    intervals: bool = False,
    ledger: Any = None,
    dataset: str | None = None,
    note: str | None = None,
    version: str | None = None,
    schema: Any = None,
    timezone: str | None = None,
    **frames: Any,
) -> Any:
    """Answer one SQL statement privately.

    The statement reads one relation: a table or view of the connection `con`, or one of the
    `frames` passed by name (pandas, polars, Arrow, a DuckDB relation, the path of a CSV or Parquet
    file). Several relations need a `schema`. Aggregates ask private questions: AVG(x) is
    dp_mean(x). docs/how-to/dfp-sql.md describes the SQL.

    Parameters
    ----------
    query : str
        One SELECT, or `CREATE [OR REPLACE] [TEMP] TABLE ... AS SELECT`.
    con : duckdb.DuckDBPyConnection
        Where the tables are. Python variables are no tables.
    unit, max_rows, max_groups
        Who is protected: the rows that share a value of column `unit` of the relation in FROM,
        which count as `max_rows` rows at most in each of `max_groups` groups at most; limits that
        are left out are found in the release, for a quarter of its loss. Without `unit`, one row.
    epsilon : float
        What the calls that name no epsilon of their own share. A call that does spends it on top.
    delta : float
        For secret group keys; `HAVING dp_keep(1e-6)` says the same.
    keys : list or mapping
        Group keys that are public: exactly these come out.
    interval : float
        The level of dp_count_interval, dp_mean_interval and so on.
    population : bool
        Whether these make room for sampling: docs/explanation/intervals.md.
    intervals : bool
        Whether each answer that has an interval is followed by its ends and its note: after `x`
        come `x_low`, `x_high` and `x_note`, which HAVING and ORDER BY can name, too. Without it
        notes are logged as warnings of the logger "dfprivacy", and `dfp.show` lists them.
    ledger, dataset, note, version
        What is charged, and what for: see `Ledger`.
    schema : Schema, mapping, or path of a YAML file
        Who is protected in several tables, how they hang together, which are public: the
        statement may then join them, group and number each unit's own rows in subqueries, and so
        on; docs/how-to/owned-rows.md. It names the unit, so that `unit` is left out.
    timezone : str
        The zone in which the statement reads times of a zone: their year, day and text, and
        literals that name none. By default the one zone that the columns of all frames declare,
        the zone of the session for `con`, else UTC.
    **frames
        Frames by the name that the statement gives them; `dfp.public(frame)` where everybody may
        know it, so that the others can be joined with it.

    Returns
    -------
    Result, or a frame of the type of the protected one
        The rows of the statement, sorted by group key unless it has an ORDER BY. `con` gives a
        `Result`, or None for CREATE TABLE; a path gives an Arrow table.

    Raises
    ------
    RefusedStatementError
        For whatever is not known to be a function of single rows below the dp_ calls, or of
        released answers above them.
    DPError
        For terms out of range, missing columns, a budget that does not suffice. Nothing of the
        data is in a message, and nothing is charged.

    Notes
    -----
    (epsilon, delta)-differentially private for adding or removing one row, or one unit: the rows
    are vetted functions of single rows of one relation, the answers those of `group_by(...).agg`,
    what follows is a function of the answers. The proof is in docs/how-to/dfp-sql.md.

    Examples
    --------
    >>> import dfprivacy as dfp, pandas as pd
    >>> flights = pd.DataFrame({"carrier": ["AA", "UA"] * 5000, "delay": [1.0, 9.0] * 5000})
    >>> query = "SELECT carrier, dp_mean(delay, 0, 60) AS delay FROM flights GROUP BY carrier"
    >>> released = dfp.sql(query, flights=flights, epsilon=1, delta=1e-6)
    >>> list(released["carrier"]), bool((released["delay"] < 12).all())
    (['AA', 'UA'], True)
    """
    with job_of_arguments(**locals()) as job:
        if con is None:
            return job.run()
        table, origin = job.release()
        return None if job.script.makes_table else Result.of(table, origin)


def explain(
    query: str,
    *,
    con: duckdb.DuckDBPyConnection | None = None,
    unit: Any = None,
    max_rows: int | None = None,
    max_groups: int | None = None,
    epsilon: float = EPSILON,
    delta: float | None = None,
    keys: Any = None,
    interval: float = INTERVAL,
    population: bool = False,
    intervals: bool = False,
    ledger: Any = None,
    dataset: str | None = None,
    note: str | None = None,
    version: str | None = None,
    schema: Any = None,
    timezone: str | None = None,
    within: Any = None,
    size: int = SIZE,
    **frames: Any,
) -> StatementExplanation:
    """Explain how `sql` would answer a statement, and its cost.

    It takes the arguments of `sql`, refuses what `sql` refuses, reads no row and spends nothing.
    `df.dp.explain` says the same of questions to a frame; docs/how-to/explain.md has what it says.

    `within` is the half-width to reach in groups of `size` rows, instead of `epsilon`, as
    `df.dp.explain` takes it: the explanation is that with the least epsilon of three digits that
    brings every answer within it. A mapping names answers by their calls. Calls that name an
    epsilon keep it.

    >>> import dfprivacy as dfp, pandas as pd
    >>> flights = pd.DataFrame({"carrier": ["AA"], "delay": [1.0]})
    >>> query = "SELECT dp_mean(delay, 0, 60), dp_median(delay, 0.5) FROM flights"
    >>> plan = dfp.explain(query, flights=flights, epsilon=1)
    >>> plan.epsilon, plan.draws[1]
    (1.5, Draw(epsilon=0.5, questions=("median('delay')",)))
    >>> query = "SELECT dp_mean(delay, 0, 60) AS delay FROM flights"
    >>> dfp.explain(query, flights=flights, within=2.0, size=1000).epsilon
    0.0671

    Raises
    ------
    DPError
        Whatever `sql` would raise before it reads a row, but for a budget that is too small: the
        explanation says so. An `InvalidLossError` when no epsilon up to 999 reaches the target.
    """
    arguments = {**locals()}
    del arguments["within"], arguments["size"]
    target = None if within is None else read_target(within, size)
    if target is not None:
        no_loss_beside(epsilon)
    with job_of_arguments(**arguments) as job:
        from dfprivacy.statements.jobs import explain_job  # noqa: PLC0415 as below

        return explain_job(job, target)


def job_of_arguments(
    query: str,
    frames: Mapping[str, Any],
    *,
    con: Any,
    unit: Any,
    max_rows: Any,
    max_groups: Any,
    keys: Any,
    intervals: bool,
    schema: Any,
    timezone: str | None,
    **named_terms: Any,
) -> AbstractContextManager[Job]:
    """Return a block with the job that arguments of `sql` describe.

    No row is read there, and nothing is spent.

    Raises
    ------
    DPError
        Whatever is wrong with them.
    """
    for name, value in {**named_terms, "unit": unit, "keys": keys, "schema": schema}.items():
        if con is None and not frames and hasattr(type(value), "columns"):
            raise RefusedStatementError(
                f"a frame can't go by the name {name!r}, which is that of a term",
                hint="pass it by another name, which the statement reads it by",
            )
    for name in ("period", "analyst"):
        if isinstance(frames.get(name), str) and "." not in frames[name]:
            raise UnknownArgumentError(
                f"a statement takes no {name}: the block that pays for it names it",
                hint=f'with dfp.spending(ledger, dataset="visits", {name}={frames[name]!r}): '
                "dfp.sql(...)",
            )
    for name, value in frames.items():  # a text may name a table or a file
        is_plain = value is None or isinstance(value, Number | Mapping)
        if isinstance(value, str):
            is_unread = fold_name(name) not in fold_name(query)
            is_plain = is_unread and not os.path.exists(value)  # noqa: PTH110 of any text
        if is_plain:
            raise _no_term(name)
    schema = None if schema is None else read_schema(schema, unit)
    column = unit if schema is None else schema.unit
    terms = Terms(unit=read_unit(column, max_rows, max_groups), **named_terms)
    from dfprivacy.statements.jobs import open_job  # noqa: PLC0415 loads when it is used

    return open_job(
        query, con, frames, terms, keys, schema=schema, intervals=intervals, timezone=timezone
    )


def _no_term(name: str) -> RefusedStatementError:
    """Return the error about a term that statements don't take."""
    hints = {
        "rho": "the calls of a statement share an epsilon; frames take rho",
        "bounds": "bounds stand in the statement: dp_mean(x, 0, 100)",
    }
    return RefusedStatementError(
        f"a statement has no term {name!r}",
        hint=hints.get(name, f"{nearly(name, TERMS)}its terms are {', '.join(sorted(TERMS))}"),
    )


def connect(database: Any = None, /, **arguments: Any) -> Connection:
    """Return a connection that answers SQL privately, after PEP 249.

    Parameters
    ----------
    database : path, DuckDB connection, or mapping of frames
        A DuckDB file, which is opened for reading only; a connection, which stays open and usable;
        frames by name; or the path of a Parquet or CSV file, a table by the name of the file.
    **given
        The terms of every statement, by the names of the arguments of `dfp.sql`. Every other name
        is a frame's.

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
    terms = {name: arguments.pop(name) for name in list(arguments) if name in TERMS}
    source, owned = _open_frames(database, arguments)
    return Connection(source, terms, owned=owned)


ASKED: Mapping[str, Any] = sql.__kwdefaults__ or {}
TERMS = frozenset(ASKED) - {"con"}
"""Arguments that statements take, by the names of `dfp.sql`."""


def _open_frames(
    database: Any, frames: Mapping[str, Any]
) -> tuple[dict[str, Any], duckdb.DuckDBPyConnection | None]:
    """Return the frames that `dfp.sql` reads, and the connection to close with ours."""
    if isinstance(database, Mapping):
        for name in database:
            if not isinstance(name, str) or name in ASKED:
                shown = f"{name!r}, which is that of a term"
                if not isinstance(name, str):
                    shown = f"an object of type {type(name).__name__}, and names are text"
                raise UnsupportedFrameError(
                    f"a frame is given by the name {shown}", hint="dfp.connect({'flights': frame})"
                )
        return {**database, **frames}, None
    if database is None and frames:
        return dict(frames), None
    if isinstance(database, TextFile) and not frames:
        return {name_table(database.path): database}, None
    if frames or not isinstance(database, str | Path | duckdb.DuckDBPyConnection):
        raise UnsupportedFrameError(
            "a connection is made to a DuckDB file or connection, or to frames by name",
            hint="dfp.connect('flights.duckdb', epsilon=1), dfp.connect({'flights': frame})",
        )
    if isinstance(database, duckdb.DuckDBPyConnection):
        return {"con": database}, None
    path = expand_home(Path(database))
    if is_data_name(path) or path.is_dir():
        return {name_table(path): database}, None
    with suppress(duckdb.Error):
        connection = duckdb.connect(str(path), read_only=True)
        set_time_zone(connection, UTC)
        return {"con": connection}, connection
    raise EngineError(
        f"the database {path.name!r} can't be opened for reading",
        hint="name a DuckDB file that is there, and that no other process writes to",
    )


class _Closing:
    """A resource that is closed at the end of its block at the latest."""

    _open = True
    _maker = "dfp.connect(...)"

    def _require_open(self) -> None:
        if not self._open:
            name = type(self).__name__.lower()
            raise EngineError(f"the {name} is closed", hint=f"open another: {self._maker}")

    def close(self) -> None:
        """End its use."""
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@boundary
class Connection(_Closing):
    """The connection that `dfp.connect` returns."""

    def __init__(
        self,
        source: Mapping[str, Any],
        terms: Mapping[str, Any],
        *,
        owned: duckdb.DuckDBPyConnection | None,
    ) -> None:
        self._place, self._terms, self._owned = dict(source), dict(terms), owned

    def sql(self, query: str, **terms: Any) -> Result:
        """Answer a statement as `dfp.sql` does; terms named here go before the connection's."""
        arguments = self._with(terms)
        named = {name: arguments.pop(name) for name in list(arguments) if name in ASKED}
        with job_of_arguments(query, arguments, **{**ASKED, **named}) as job:
            table, origin = job.release()
            return Result.of(pa.table({}) if job.script.makes_table else table, origin)

    def explain(
        self, query: str, *, within: Any = None, size: int = SIZE, **terms: Any
    ) -> StatementExplanation:
        """Explain a statement and its cost; no row is read, nothing is spent.

        With `within` the loss of the connection is set aside; it does as `dfp.explain` says.
        """
        arguments = self._with(terms)
        if within is not None and "epsilon" not in terms:
            arguments.pop("epsilon", None)
        return explain(query, within=within, size=size, **arguments)

    def _with(self, terms: Mapping[str, Any]) -> dict[str, Any]:
        self._require_open()
        for name in terms:
            if name not in TERMS:
                raise _no_term(name)
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
    with open_embedded() as engine:
        target, tree = parse(query, engine, parameters=True)
        if target is not None:
            raise _wrong_parameters("it makes a table")
        places = {dict(n.parts)["identifier"] for n in walk(tree) if _is_parameter(n)}
        if places != {str(index + 1) for index in range(len(parameters))}:
            raise _wrong_parameters(f"{len(parameters)} are given for {len(places)} places")

        def change(node: Any) -> Any:
            if not _is_parameter(node):
                return rebuild(node, change)
            text = _literal(parameters[int(dict(node.parts)["identifier"]) - 1])
            _, select = parse(f"SELECT {text}", engine)
            assert isinstance(select, Select)  # noqa: S101 ours
            return replace(select.items[0], alias=node.alias)

        return text_of_query(change(tree), engine)


def _is_parameter(node: object) -> TypeGuard[Other]:
    return isinstance(node, Other) and node.sort == "VALUE_PARAMETER"


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "true", False: "false"}[value]
    if isinstance(value, int | np.integer) or (isinstance(value, Decimal) and value.is_finite()):
        with suppress(ValueError):  # Python writes no more than some thousand digits
            return str(value if isinstance(value, Decimal) else int(value))
    if isinstance(value, float | np.floating) and math.isfinite(value):
        return repr(float(value))
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, date):
        sort = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
        zone = "TZ" if isinstance(value, datetime) and value.tzinfo else ""
        return f"CAST('{value.isoformat()}' AS {sort}{zone})"
    raise _wrong_parameters("one of them is no number, text, boolean, date, None or list of these")


def _wrong_parameters(why: str) -> RefusedStatementError:
    return RefusedStatementError(
        f"parameters can't be put into the statement: {why}",
        hint='execute("SELECT dp_count(*) FROM flights WHERE delay > ?", [30])',
    )


@boundary
@dataclass(frozen=True, repr=False)
class Result:
    """The released rows of a statement, with the methods of a DuckDB relation that convert them.

    Its frames know their cost: `dfp.show`, `dfp.plot` and `dfp.released` take them. CREATE TABLE
    on a `dfp.connect` gives a result without columns.
    """

    table: pa.Table
    origin: Origin

    @classmethod
    def of(cls, table: pa.Table, origin: Origin) -> Result:
        """Return released rows with their origin."""
        return with_origin(cls(table, origin), origin)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    @property
    def types(self) -> list[Any]:
        """The SQL types of the columns, which follow from declared types."""
        with open_embedded(idle=True) as engine:
            return list(engine.from_arrow(self.table).types)

    def arrow(self) -> pa.Table:
        """Return an Arrow table."""
        return with_origin(self.table.slice(0), self.origin)

    def df(self) -> pd.DataFrame:
        """Return a pandas frame, whose dtypes follow from declared types."""
        return with_origin(type_frame(self.table), self.origin)

    def pl(self) -> pl.DataFrame:
        """Return a polars frame."""
        return with_origin(pl.DataFrame(self.table), self.origin)

    def show(self, **terms: Any) -> Shown:
        """Return the rows as a table of text or HTML: `dfp.show`."""
        return show(self, **terms)

    def plot(self, **terms: Any) -> Any:
        """Return the rows as a chart: `dfp.plot`."""
        return plot(self, **terms)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows as tuples."""
        return list(self)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last."""
        return next(self.remaining, None)

    @cached_property
    def remaining(self) -> Iterator[tuple[Any, ...]]:
        """The rows that have not been fetched one by one."""
        return iter(self)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*(list_values(column) for column in self.table.columns), strict=True)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows over to any library of frames."""
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        lines = [repr(pl.DataFrame(printable(self.table))), self.origin.cost, *self.origin.notes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        with suppress(Exception):
            return str(show(self)._repr_html_())
        return str(pl.DataFrame(printable(self.table))._repr_html_())


@boundary
class Cursor(_Closing):
    """A cursor of PEP 249: one statement at a time, and its rows."""

    arraysize = 1
    _maker = "con.cursor()"

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._result: Result | None = None

    def execute(self, operation: str, parameters: Sequence[Any] | None = None) -> Self:
        """Run one statement of `dfp.sql`; `parameters` are constants in the places of its `?`.

        More or fewer parameters than places, and what is no plain constant, are refused.
        """
        self._require_open()
        self._result = None
        is_empty = isinstance(parameters, Sized) and not len(parameters)
        if parameters is not None and not is_empty:
            operation = with_constants(operation, parameters)
        relation = self.connection.sql(operation)
        if relation.columns:
            self._result = relation
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
        return [(field.name, field.type, *[None] * 5) for field in self._result.table.schema]

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement has; -1 before there is one."""
        return -1 if self._result is None else len(self._result)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None."""
        return self._require_result().fetchone()

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next rows: so many, a whole number from 0 on, or `arraysize`."""
        count = self.arraysize if size is None else size
        if not isinstance(count, int) or not 0 <= count < 2**31:
            raise InvalidQuestionError(
                "the number of rows to fetch is no whole number from 0 on",
                hint="cursor.fetchmany(100); fetchall() returns all that are left",
            )
        return list(islice(self._require_result().remaining, count))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows that are left."""
        return list(self._require_result().remaining)

    def arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        return self._require_result().arrow()

    def df(self) -> pd.DataFrame:
        """Return all rows as a pandas frame."""
        return self._require_result().df()

    def pl(self) -> pl.DataFrame:
        """Return all rows as a polars frame."""
        return self._require_result().pl()

    def _require_result(self) -> Result:
        self._require_open()
        if self._result is None:
            raise RefusedStatementError(
                "there are no rows to fetch", hint="execute a SELECT with dp_ calls first"
            )
        return self._result

    def close(self) -> None:
        """Drop the rows; the cursor can't be used any more."""
        super().close()
        self._result = None

    def setinputsizes(self, sizes: object) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._require_result().remaining
