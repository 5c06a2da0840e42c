"""DuckDB without privacy: what an answer costs at least."""

import duckdb
import pyarrow as pa  # noqa: F401  # what answers are, imported before the clock starts
from protocol import serve

CALLS = {"count": "count(*)", "sum": "sum(x)", "mean": "avg(x)", "median": "median(x)"}


def read(question):
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM read_parquet(?)", [question.file])
    return con


def answer(work):
    def ask(con, question):
        key = question.key
        query = f"SELECT {CALLS[work]} FROM t"
        if key:
            query = f"SELECT {key}, {CALLS[work]} FROM t GROUP BY {key}"
        return con.sql(query).to_arrow_table()

    return ask


if __name__ == "__main__":
    serve(read, {work: answer(work) for work in CALLS}, None, ["duckdb"])
