"""Time our mean of a Spark frame against Spark's own average, in turn, in one run.

    python -m benchmarks.spark [--rows 20000000] [--rounds 3]

A cached frame and a Parquet file; whole table, 1,000 groups and 1,000,000 groups; both sides end
with an Arrow table on the driver. Prints a Markdown table, writes it to
benchmarks/results/spark.md, and ends with exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import dfprivacy as dfp
from benchmarks.speed import BOUNDS, GROUPS, Row, heading, measure_in_turn

TARGET = 1.5
HEAD = "| frame | work | plain average, s | private mean, s | ratio | target | met |"
Work = Callable[[], object]


def session(threads: int) -> SparkSession:
    """Start a local session."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(threads),
        "spark.driver.memory": "6g",
    }
    builder = SparkSession.builder.master(f"local[{threads}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    return started


def works(frame: Any, key: str | None) -> tuple[Work, Work]:
    """Return the plain average and the private mean."""
    private = dfp.frame(frame)
    if key is None:
        return (
            lambda: frame.selectExpr("avg(x)").toArrow(),
            lambda: private.mean("x", BOUNDS),
        )
    return (
        lambda: frame.groupBy(key).agg({"x": "avg"}).toArrow(),
        lambda: private.group_by(key).mean("x", BOUNDS, delta=1e-6).toArrow(),
    )


def measure(rows: int, rounds: int, folder: str) -> list[Row]:
    """Time both frames and every number of groups."""
    spark = session(os.cpu_count() or 1)
    path = f"{folder}/rows"
    table = spark.range(rows).selectExpr(
        "CAST(rand(1) * 1000 AS BIGINT) AS g3",
        "CAST(rand(2) * 1000000 AS BIGINT) AS g6",
        "rand(3) * 300 - 60 AS x",
    )
    table.write.parquet(path)
    cached = spark.read.parquet(path).cache()
    cached.count()
    frames = {"cached": cached, "Parquet": spark.read.parquet(path)}
    result = []
    for name, frame in frames.items():
        if name == "Parquet":
            cached.unpersist(blocking=True)
        for work, key in GROUPS.items():
            plain, ours = measure_in_turn(*works(frame, key), rounds if key == "g6" else 3 * rounds)
            result.append(Row(name, work, plain, ours, TARGET))
    spark.stop()
    return result


def write_line(row: Row) -> str:
    """Write a line of the table, in wall clock: Spark's CPU time is not of this process."""
    met = "yes" if row.wall_ratio <= row.target else "NO"
    return (
        f"| {row.engine} | {row.work} | {row.plain.wall:.4f} | {row.ours.wall:.4f} "
        f"| {row.wall_ratio:.2f} | at most {row.target:g} | {met} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options.rows, options.rounds, folder)
    load = f"PySpark {version('pyspark')}; load average at the end {os.getloadavg()[0]:.1f}."
    text = "\n".join([*heading(options.rows, HEAD), *map(write_line, rows), "", load]) + "\n"
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "spark.md").write_text(text)
    print(text)
    return 0 if all(row.wall_ratio <= row.target for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
