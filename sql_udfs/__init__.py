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
    dp_center(x, p [, lo, hi] [, epsilon])  the c with the least sum of |x - c|^p    DOUBLE
    dp_bounds(x [, epsilon])         powers of two around nearly all values          STRUCT
    dp_keep(delta [, epsilon])       for HAVING: is the group large enough to show?  BOOLEAN
    dp_epsilon()                     what a call spends that names no epsilon        DOUBLE

and, of the local model, dp_local_report, dp_local_mean and dp_local_next (see `sql_udfs.local`);
and `dp_count_interval`, `dp_sum_interval`, ... with the same arguments, which return
STRUCT(value, low, high) from one draw; quantiles and bounds have none. `lo`, `hi`, `q`, `qs`,
`epsilon` and `delta` are constants.

Privacy: neighbours differ by one row, added or removed. Every call of a function draws its own
noise and spends its own epsilon, and the costs of a query add up; dp_keep spends an epsilon too,
and its delta. What the functions protect, and what they do not, is in docs/sql.md.
"""

from __future__ import annotations

import duckdb

from dfprivacy.accounting.charge import float_below
from dfprivacy.accounting.loss import positive_number
from dfprivacy.errors import UnknownArgumentError
from dfprivacy.statements.catalog import DEFAULT_EPSILON
from dfprivacy.terms import interval_level
from sql_udfs.checks import CHECK, CONSTANT
from sql_udfs.finalize import finalizers
from sql_udfs.function import existing
from sql_udfs.local import register_local
from sql_udfs.macros import Defaults, create_macros

__all__ = ["register", "register_local"]

_OF_STATEMENTS = (
    "ledger", "dataset", "note", "version", "unit", "max_rows", "max_groups", "delta", "keys",
)  # fmt: skip


def register(
    connection: duckdb.DuckDBPyConnection,
    *,
    epsilon: float = 1.0,
    interval: float = 0.95,
    **others: object,
) -> None:
    """Give a DuckDB connection the dp_* functions, or give it new defaults.

    The functions see neither the statement around them nor a ledger: `dfp.sql(..., con=con)` checks
    a statement, charges a ledger and protects units. `dfp.explain(text, con=con).on_connection`
    says what a statement costs with the functions.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The functions are temporary and belong to this connection; a `cursor()` of it needs its
        own call. Call it outside a transaction: a rollback would take the functions with it.
    epsilon : float
        What a call spends that names no epsilon of its own; kept as a float, rounded down.
    interval : float
        The level of the intervals that dp_*_interval returns.

    Raises
    ------
    InvalidLossError
        When epsilon is not a positive, finite number.
    InvalidQuestionError
        When the level does not lie between 0 and 1.
    UnknownArgumentError
        For `ledger`, `unit` and any other argument.

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
    if others:
        raise _unknown(next(iter(others)))
    known = existing(connection)
    for function in (CHECK, CONSTANT, *finalizers()):
        if function.name not in known:
            function.create(connection)
    create_macros(connection, Defaults(default, level))
    connection.execute(
        f"CREATE OR REPLACE TEMP MACRO {DEFAULT_EPSILON}() AS CAST('{default!r}' AS DOUBLE)"
    )
    register_local(connection)


def _unknown(name: str) -> UnknownArgumentError:
    """Return the error for an argument that only `dfp.sql` takes, or nobody."""
    if name in _OF_STATEMENTS:
        return UnknownArgumentError(
            f"register takes no {name}: a function in SQL can't see the statement that calls it",
            hint="dfp.sql('SELECT dp_count(*) FROM flights', con=con, ledger=ledger, "
            "dataset='flights') checks the whole statement and charges it; unit= and max_rows= "
            "protect users there",
        )
    return UnknownArgumentError(
        f"register takes no {name!r}",
        hint="sql_udfs.register(con, epsilon=1.0, interval=0.95)",
    )
