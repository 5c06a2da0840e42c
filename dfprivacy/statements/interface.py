"""`dfp.sql` and `dfp.explain`: SQL in which an honest mistake is refused, not released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb

from dfprivacy.errors import RefusedStatementError, UnknownArgumentError
from dfprivacy.frames.explanation import SIZE, no_loss_beside, target_of
from dfprivacy.release.terms import EPSILON, INTERVAL, Terms, unit_of
from dfprivacy.statements.schema import schema_of, unit_in

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
    interval: float | str = INTERVAL,
    intervals: bool = False,
    ledger: Any = None,
    dataset: str | None = None,
    note: str | None = None,
    version: str | None = None,
    schema: Any = None,
    **frames: Any,
) -> Any:
    """Answer one SQL statement privately.

    The statement reads one relation: a table or view of the connection `con`, or one of the
    `frames` passed by name (pandas, polars, Arrow, a DuckDB relation, the path of a CSV or Parquet
    file). Views, CTEs and subqueries in FROM may project and filter row by row. It is DuckDB's
    SQL with dp_count, dp_sum, dp_mean (dp_avg), dp_var, dp_stddev, dp_median, dp_quantile,
    dp_quantiles, dp_center and dp_bounds as its aggregates. docs/dfp-sql.md has the whole of it.

    Parameters
    ----------
    query : str
        One SELECT, or `CREATE [OR REPLACE] [TEMP] TABLE ... AS SELECT`.
    con : duckdb.DuckDBPyConnection
        Where the tables are. Python variables are no tables.
    unit, max_rows, max_groups
        Who is protected: the rows that share a value of column `unit` of the relation in FROM,
        which count as `max_rows` rows at most in each of `max_groups` groups at most; limits that
        are left out are found in the release, for an eighth of its loss. Without `unit`, one row.
    epsilon : float
        What the calls that name no epsilon of their own share. A call that does spends it on top.
    delta : float
        For secret group keys; `HAVING dp_keep(1e-6)` says the same.
    keys : list or mapping
        Group keys that are public: exactly these come out.
    interval : float
        The level of dp_count_interval, dp_mean_interval and so on.
    intervals : bool
        Whether each answer that has an interval is followed by its ends: after `x` come `x_low`
        and `x_high`, which HAVING and ORDER BY can name, too.
    ledger, dataset, note, version
        What is charged, and what for: see `Ledger`.
    schema : Schema, mapping, or path of a YAML file
        Who is protected in several tables, how they hang together, which are public: the
        statement may then join them, group and number each unit's own rows in subqueries, and so
        on; docs/owned-rows.md. It names the unit, so that `unit` is left out.
    **frames
        Frames by the name that the statement gives them; `dfp.public(frame)` where everybody may
        know it, so that the others can be joined with it.

    Returns
    -------
    DuckDBPyRelation, or a frame of the type of the protected one
        The rows of the statement, sorted by group key unless it has an ORDER BY; None for CREATE
        TABLE, which needs `con`. A path gives an Arrow table.

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
    what follows is a function of the answers. The proof is in docs/dfp-sql.md.

    Examples
    --------
    >>> import dfprivacy as dfp, pandas as pd
    >>> flights = pd.DataFrame({"carrier": ["AA", "UA"] * 5000, "delay": [1.0, 9.0] * 5000})
    >>> query = "SELECT carrier, dp_mean(delay, 0, 60) AS delay FROM flights GROUP BY carrier"
    >>> released = dfp.sql(query, flights=flights, epsilon=1, delta=1e-6)
    >>> list(released["carrier"]), bool((released["delay"] < 12).all())
    (['AA', 'UA'], True)
    """
    with asked(**locals()) as job:
        return job.run()


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
    interval: float | str = INTERVAL,
    intervals: bool = False,
    ledger: Any = None,
    dataset: str | None = None,
    note: str | None = None,
    version: str | None = None,
    schema: Any = None,
    within: Any = None,
    size: int = SIZE,
    **frames: Any,
) -> StatementExplanation:
    """Return what `sql` would do with a statement, and what it would cost.

    It takes the arguments of `sql`, refuses what `sql` refuses, reads no row and spends nothing.
    With `con`, `on_connection` is what the same text costs with the functions that
    `sql_udfs.register` gives a connection, where each dp_ call pays by itself.
    `df.dp.explain` says the same of questions to a frame; docs/explain.md has what it says.

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
    0.0899

    Raises
    ------
    DPError
        Whatever `sql` would raise before it reads a row, but for a budget that is too small: the
        explanation says so. An `InvalidLossError` when no epsilon up to 999 reaches the target.
    """
    given = {**locals()}
    del given["within"], given["size"]
    target = None if within is None else target_of(within, size)
    if target is not None:
        no_loss_beside(epsilon)
    with asked(**given) as job:
        from dfprivacy.statements.jobs import explanation_of  # noqa: PLC0415 as below

        return explanation_of(job, target)


@contextmanager
def asked(
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
    **given: Any,
) -> Iterator[Job]:
    """Return what the arguments of `sql` ask for as a job; nothing is read, nothing spent.

    Raises
    ------
    DPError
        Whatever is wrong with them.
    """
    for name, value in {**given, "unit": unit, "keys": keys, "schema": schema}.items():
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
    schema = None if schema is None else schema_of(schema)
    terms = Terms(unit=unit_of(unit_in(schema, unit), max_rows, max_groups), **given)
    from dfprivacy.statements.jobs import job_of  # noqa: PLC0415 loads when it is used

    with job_of(query, con, frames, terms, keys, schema=schema, intervals=intervals) as job:
        yield job
