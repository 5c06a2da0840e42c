"""Private aggregates for DuckDB: `SELECT city, dp_mean(income, 0, 200000) FROM t GROUP BY city`.

`register(connection)` gives a DuckDB connection these functions:

    dp_count()                       rows; dp_count(*) is the same                   BIGINT
    dp_count(x [, epsilon])          values of x that are neither NULL nor NaN       BIGINT
    dp_sum(x [, epsilon])            sum of x, within bounds that it finds           DOUBLE
    dp_sum(x, lo, hi [, epsilon])    sum of x, each value clipped to [lo, hi]        DOUBLE
    dp_mean(...)                     mean, either way; dp_avg is the same            DOUBLE
    dp_var(...)                      population variance                             DOUBLE
    dp_stddev(...)                   its root                                        DOUBLE
    dp_median(x [, epsilon])         median                                          DOUBLE
    dp_quantile(x, q [, epsilon])    the value that a part q of the rows reach       DOUBLE
    dp_quantiles(x, qs [, epsilon])  several, for a list of numbers from 0 to 1      DOUBLE[]
    dp_bounds(x [, epsilon])         powers of two around nearly all values          STRUCT
    dp_keep(delta [, epsilon])       for HAVING: is the group large enough to show?  BOOLEAN

and, of the local model, dp_local_report, dp_local_mean and dp_local_next (see `sql_udfs.local`);
and `dp_count_interval`, `dp_sum_interval`, ... with the same arguments, which return
STRUCT(value, low, high) from one draw; quantiles and bounds have none. `lo`, `hi`, `q`, `qs`,
`epsilon` and `delta` are constants.

Privacy: neighbours differ by one row, added or removed. Every call of a function draws its own
noise and spends its own epsilon, and the costs of a query add up; dp_keep spends an epsilon too,
and its delta. What a bare connection protects, and what it does not, is in docs/sql.md.
"""

from __future__ import annotations

import duckdb

from dfprivacy.accounting.charge import float_below
from dfprivacy.accounting.ledger import Ledger
from dfprivacy.accounting.loss import positive_number
from dfprivacy.accounting.spending import account_of
from dfprivacy.errors import InvalidUnitError
from dfprivacy.terms import interval_level
from dfprivacy.unit import unit_of
from sql_udfs.checks import CHECKS, GRID
from sql_udfs.finalize import FINALIZERS
from sql_udfs.function import existing
from sql_udfs.local import register_local
from sql_udfs.macros import Defaults, create_macros
from sql_udfs.unbounded import LIST_FINALIZERS

__all__ = ["register", "register_local"]


def register(
    connection: duckdb.DuckDBPyConnection,
    *,
    epsilon: float = 1.0,
    interval: float = 0.95,
    unit: str | None = None,
    max_rows: int | None = None,
    max_groups: int | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    note: str | None = None,
) -> None:
    """Give a DuckDB connection the dp_* functions, or give it new defaults.

    With a `unit` or a `ledger` the connection is guarded: the text of every statement with dp_*
    calls is vetted by the rules of `dfp.sql`, and charged, before anything is drawn. What can't be
    vetted fails from inside the functions, and so do groups that are not sorted by all their keys
    (docs/sql.md).

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The functions are temporary and belong to this connection; a `cursor()` of it needs its
        own call. Call it outside a transaction: a rollback would take the functions with it.
    epsilon : float
        What a call spends that names no epsilon of its own; kept as a float, rounded down.
    interval : float
        The level of the intervals that dp_*_interval returns.
    unit, max_rows, max_groups
        Who is protected: all rows that share a value of column `unit`. Statements then read from
        `dp_users('table')`, which keeps max_rows * max_groups rows of each unit at most
        (max_groups is 1 unless it is given) and leaves out rows without one.
    ledger, dataset, note
        What is charged, and what for: see `dfprivacy.Ledger`.

    Raises
    ------
    InvalidLossError
        When epsilon is not a positive, finite number.
    InvalidQuestionError
        When the level does not lie between 0 and 1.
    InvalidUnitError, InvalidLedgerError
        When unit and limits, or ledger and dataset, do not go together.

    Notes
    -----
    Each dp_* call is epsilon-differentially private for adding or removing one row, on its own;
    several calls add up. The noise is the exact discrete Laplace noise of the frame API, added to
    the same integers; quantiles are selected as there. Functions without bounds keep the values
    of all groups in memory while they run, 8 bytes each; those with bounds keep sums only.

    Examples
    --------
    >>> import duckdb, sql_udfs
    >>> connection = duckdb.connect()
    >>> sql_udfs.register(connection, epsilon=0.5)
    >>> query = "SELECT dp_mean(range, 0, 1000) FROM range(1000)"
    >>> 300 < connection.execute(query).fetchone()[0] < 700
    True
    >>> query = "SELECT dp_mean(range), dp_median(range) FROM range(10000)"
    >>> all(4000 < answer < 6000 for answer in connection.execute(query).fetchone())
    True
    """
    default = float_below(positive_number("epsilon", epsilon))
    level = interval_level(interval)
    whose = unit_of(unit, max_rows, max_groups)
    account = account_of(ledger, dataset, note)
    known = existing(connection)
    for function in (*CHECKS, GRID, *FINALIZERS, *LIST_FINALIZERS):
        if function.name not in known:
            function.create(connection)
    if whose is not None or account is not None:
        raise InvalidUnitError(
            "functions on a connection protect single rows, and charge no ledger",
            hint="dfp.sql(query, con=con, unit='user_id', max_rows=5, ledger=ledger)",
        )
    create_macros(connection, Defaults(default, level))
    register_local(connection)
