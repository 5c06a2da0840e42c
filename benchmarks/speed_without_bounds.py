"""Time what needs no bounds against the engine's own plain queries, in turn, in one run.

    python -m benchmarks.speed_without_bounds [--rows 20000000] [--no-memory]

The mean without bounds by 1,000 and by 1,000,000 groups beside plain avg, the median by 1,000
groups beside the engine's own exact median, ten quantiles beside one; then the peak memory of the
mean on a 100-million-row Parquet file by 1,000 groups. Prints a Markdown table, writes it to
benchmarks/results/speed_without_bounds.md, and ends with exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl

import dfprivacy as dfp
import sql_udfs
from benchmarks.speed import (
    MEMORY_TARGET,
    Row,
    best_in_turn,
    heading,
    lines_of,
    make_frame,
    memory_lines,
    peak_memory,
)

MEANS = {"mean, 1,000 groups": ("g3", 2.5), "mean, 1,000,000 groups": ("g6", 4.0)}
MEDIAN_TARGET = 2.0
QUANTILES_TARGET = 1.5
TEN = [index / 11 for index in range(1, 11)]

Work = Callable[[], object]


def polars_plain(frame: pl.DataFrame, key: str, statistic: pl.Expr) -> Work:
    plan = frame.lazy().group_by(key).agg(statistic)
    return lambda: plan.collect(engine="streaming")


def time_polars(frame: pl.DataFrame, rounds: int) -> list[Row]:
    x = pl.col("x")
    rows = [
        Row("polars", work, *best_in_turn(
            polars_plain(frame, key, x.mean()),
            lambda key=key: frame.dp.group_by(key).mean("x", delta=1e-6),
            rounds,
        ), target)
        for work, (key, target) in MEANS.items()
    ]  # fmt: skip
    grouped = frame.dp.group_by("g3")
    return rows + rank_rows(
        "polars",
        polars_plain(frame, "g3", x.median()),
        lambda: grouped.median("x", delta=1e-6),
        lambda: grouped.quantiles("x", TEN, delta=1e-6),
    )


def time_duckdb(con: duckdb.DuckDBPyConnection, rounds: int) -> list[Row]:
    def plain(key: str, statistic: str) -> Work:
        query = f"SELECT {key}, {statistic}(x) FROM t GROUP BY {key}"
        return lambda: con.sql(query).to_arrow_table()

    relation = dfp.frame(con.table("t"))
    rows = [
        Row("DuckDB relation", work, *best_in_turn(
            plain(key, "avg"),
            lambda key=key: relation.group_by(key).mean("x", delta=1e-6).to_arrow_table(),
            rounds,
        ), target)
        for work, (key, target) in MEANS.items()
    ]  # fmt: skip
    grouped = relation.group_by("g3")
    return rows + rank_rows(
        "DuckDB relation",
        plain("g3", "median"),
        lambda: grouped.median("x", delta=1e-6).to_arrow_table(),
        lambda: grouped.quantiles("x", TEN, delta=1e-6).to_arrow_table(),
    )


def time_sql(con: duckdb.DuckDBPyConnection, rounds: int) -> list[Row]:
    def run(statistic: str, having: str = "") -> Work:
        query = f"SELECT g3, {statistic} FROM t GROUP BY g3 {having}"
        return lambda: con.sql(query).to_arrow_table()

    keep = "HAVING dp_keep(1e-6)"
    mean = best_in_turn(run("avg(x)"), run("dp_mean(x)", keep), rounds)
    median = best_in_turn(run("median(x)"), run("dp_median(x)", keep), 3)
    return [
        Row("DuckDB SQL", "mean, 1,000 groups", *mean, MEANS["mean, 1,000 groups"][1]),
        Row("DuckDB SQL", "median, 1,000 groups, beside median", *median, MEDIAN_TARGET),
    ]


def rank_rows(engine: str, plain: Work, one: Work, ten: Work) -> list[Row]:
    return [
        Row(engine, "median, 1,000 groups, beside median", *best_in_turn(plain, one, 4),
            MEDIAN_TARGET),
        Row(engine, "ten quantiles beside one", *best_in_turn(one, ten, 3), QUANTILES_TARGET),
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    frame = make_frame(options.rows)
    con = duckdb.connect()
    con.register("frame", frame)
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    sql_udfs.register(con)
    rows = [
        *time_polars(frame, options.rounds),
        *time_duckdb(con, options.rounds),
        *time_sql(con, options.rounds),
    ]
    con.close()
    memory = None if options.no_memory else peak_memory(100_000_000, None)
    head = "| engine | work | plain query, s | ours without bounds, s | ratio | target | met |"
    lines = [*heading(options.rows, head), *lines_of(rows), *memory_lines(memory)]
    text = "\n".join(lines) + "\n"
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "speed_without_bounds.md").write_text(text)
    print(text)
    good = all(row.met for row in rows)
    return 0 if good and (memory is None or memory["gib"] <= MEMORY_TARGET) else 1


if __name__ == "__main__":
    sys.exit(main())
