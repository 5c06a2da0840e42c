"""Run the local model in DuckDB: reports at their owner, sums of reports at the analyst.

    dp_local_report(x, user, protocol)      a report, or NULL for a user who is not asked   STRUCT
    dp_local_next(report, protocol)         aggregate: the protocol of the next round       VARCHAR
    dp_local_mean(report, protocol)         aggregate: the answer of the last round         DOUBLE
    dp_local_mean_interval(...)             the same with its 95% interval                  STRUCT

`protocol` is the JSON that `Protocol.to_json` returns, a constant; `report` is what
dp_local_report has returned.
"""

from __future__ import annotations

from functools import lru_cache

import duckdb
import numpy as np
import pyarrow as pa

from dfprivacy.errors import InvalidProtocolError
from dfprivacy.local import Aggregate, Protocol
from dfprivacy.local.reports import COLUMNS, report_table, user_numbers, value_matrix
from dfprivacy.local.rounds import NOBODY
from dfprivacy.noise.entropy import system_entropy
from sql_udfs.function import Column, Function, existing

_REPORT = 'STRUCT(protocol BIGINT, "user" BIGINT, "group" BIGINT, "value" BIGINT)'
_INTERVAL = 'STRUCT("value" DOUBLE, low DOUBLE, high DOUBLE)'


_protocol = lru_cache(maxsize=64)(Protocol.from_json)


def _constant(column: Column) -> Protocol:
    """Return the protocol that is the same in every row of a chunk."""
    texts = column.unique().to_pylist()
    if len(texts) != 1 or texts[0] is None:
        raise InvalidProtocolError(
            "the protocol must be one constant text",
            hint="write it as a parameter: dp_local_report(x, user, ?)",
        )
    protocol = _protocol(texts[0])
    if protocol.assignment.width:
        raise InvalidProtocolError(
            "protocols of vectors have no SQL functions", hint="use dfp.local in Python"
        )
    return protocol


def _report(values: Column, users: Column, protocols: Column) -> pa.Array:
    """Return one report a row, NULL for users who are not asked in this round.

    Users come as text: where they have indexes, what is none is refused with them.
    """
    own = _constant(protocols).assignment
    if not own.named:
        try:
            users = users.cast(pa.int64()).fill_null(-1)
        except pa.ArrowInvalid:
            users = np.array([-1])
    numbers = user_numbers(own, users, len(values))
    made = report_table(own, value_matrix(values, 0), numbers, system_entropy)
    asked = own.groups(numbers) != NOBODY
    rows = np.where(asked, np.cumsum(asked) - 1, 0)
    columns = [made.column(name).combine_chunks() for name in COLUMNS]
    structs = pa.StructArray.from_arrays(columns, names=list(COLUMNS))
    return structs.take(pa.array(rows, mask=~asked))


def _aggregates(reports: Column, protocols: Column) -> list[Aggregate]:
    """Return the aggregate of each group's list of reports, without users who were not asked."""
    own = _constant(protocols)
    lists = reports.combine_chunks() if isinstance(reports, pa.ChunkedArray) else reports
    rows = (lists[row].values for row in range(len(lists)))
    none = pa.table({name: pa.array([], pa.int64()) for name in COLUMNS})
    return [
        own.aggregate(
            pa.table(dict(zip(COLUMNS, each.drop_null().flatten(), strict=True))) if each else none
        )
        for each in rows
    ]


def _mean(reports: Column, protocols: Column) -> pa.Array:
    return pa.array([float(each.estimate()) for each in _aggregates(reports, protocols)])


def _mean_interval(reports: Column, protocols: Column) -> pa.Array:
    found = [each.estimate() for each in _aggregates(reports, protocols)]
    kind = pa.struct([(name, pa.float64()) for name in ("value", "low", "high")])
    return pa.array([{"value": float(e), "low": e.low, "high": e.high} for e in found], kind)


def _next(reports: Column, protocols: Column) -> pa.Array:
    return pa.array([a.next_round().to_json() for a in _aggregates(reports, protocols)])


_LISTED = (f"{_REPORT}[]", "VARCHAR")

LOCAL_FUNCTIONS = (
    Function(
        "dfprivacy_local_report",
        _report,
        ("DOUBLE", "VARCHAR", "VARCHAR"),
        _REPORT,
        "the owner's own report",
    ),
    Function("dfprivacy_local_mean", _mean, _LISTED, "DOUBLE"),
    Function("dfprivacy_local_mean_interval", _mean_interval, _LISTED, _INTERVAL),
    Function("dfprivacy_local_next", _next, _LISTED, "VARCHAR"),
)


def register_local(connection: duckdb.DuckDBPyConnection) -> None:
    """Give a DuckDB connection the functions of the local model; `register` does it too.

    An owner's database needs nothing else: what leaves it is private already, epsilon as the
    protocol says, for replacing the value of a user. Each user is to be reported once: a query
    that runs twice draws twice, and costs twice.

    >>> import duckdb, sql_udfs, dfprivacy as dfp
    >>> connection = duckdb.connect()
    >>> sql_udfs.register_local(connection)
    >>> plan = dfp.local.gaussian_mean(users=1000, epsilon=2, sigma=1.0, limit=8, rounds=1)
    >>> query = "SELECT dp_local_report(x, user, $p) FROM (SELECT 0.5 AS x, range AS user"
    >>> query += " FROM range(1000))"
    >>> len(connection.execute(query, {"p": plan.to_json()}).fetchall())
    1000
    """
    known = existing(connection)
    for function in LOCAL_FUNCTIONS:
        if function.name not in known:
            function.create(connection)
    connection.execute(
        "CREATE OR REPLACE TEMP MACRO dp_local_report(x, user_, protocol) AS "
        "dfprivacy_local_report(TRY_CAST(x AS DOUBLE), CAST(user_ AS VARCHAR), protocol)"
    )
    for name in ("mean", "mean_interval", "next"):
        connection.execute(
            f"CREATE OR REPLACE TEMP MACRO dp_local_{name}(report, protocol) AS "
            f"dfprivacy_local_{name}(list(report), any_value(protocol))"
        )
