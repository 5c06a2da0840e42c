"""dfprivacy on a DuckDB relation."""

import duckdb
from ours import copies, list_asks
from protocol import serve

import dfprivacy as dfp


def read(question):
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM read_parquet(?)", [question.file])
    return con


def private(con):
    return dfp.frame(con.table("t"))


def mean_by_group(con, q):
    # region: private mean by group
    grouped = dfp.frame(con.table("t")).group_by(q.key)
    mean = grouped.mean("x", bounds=(q.lower, q.upper), epsilon=q.epsilon, delta=q.delta)
    return mean.to_arrow_table()
    # endregion


if __name__ == "__main__":
    asks = list_asks(private, lambda relation: relation.to_arrow_table(), mean_by_group)
    serve(read, asks, copies, ["dfprivacy", "duckdb"])
