"""dfprivacy's SQL: one statement over a DuckDB connection, which is one release."""

import duckdb
from ours import copies
from protocol import serve

import dfprivacy as dfp


def read(question):
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM read_parquet(?)", [question.file])
    return con


def call(work, q):
    return {
        "count": "dp_count(*)",
        "sum": f"dp_sum(x, {q.lower}, {q.upper})",
        "mean": f"dp_mean(x, {q.lower}, {q.upper})",
        "median": "dp_median(x)",
    }[work]


def answer(work):
    def ask(con, q):
        if work == "mean" and q.key:
            return mean_by_group(con, q)
        query = f"SELECT {call(work, q)} AS answer FROM t"
        if q.key:
            query = f"SELECT {q.key}, {call(work, q)} AS answer FROM t GROUP BY {q.key}"
        delta = q.delta if q.key else None
        return dfp.sql(query, con=con, epsilon=q.epsilon, delta=delta).arrow()

    return ask


def mean_by_group(con, q):
    # region: private mean by group
    query = f"SELECT {q.key}, dp_mean(x, {q.lower}, {q.upper}) AS mean FROM t GROUP BY {q.key}"
    return dfp.sql(query, con=con, epsilon=q.epsilon, delta=q.delta).arrow()
    # endregion


if __name__ == "__main__":
    asks = {work: answer(work) for work in ("count", "sum", "mean", "median")}
    serve(read, asks, copies, ["dfprivacy", "duckdb"])
