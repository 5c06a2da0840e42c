"""Time a private mean by group over more and more rows, and more and more groups.

    python -m benchmarks.scaling [--rows 200000000]

polars and DuckDB, noise included, beside the engine's own plain average. Prints a Markdown table
and writes it to benchmarks/results/scaling.md. Exit code 1 if the time of ours grows more than 1.5
times as fast as its rows, or its groups, or where the engine's own average grows faster, as that.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import duckdb
import polars as pl

import dfprivacy as dfp
from benchmarks.speed import measure_in_turn

BOUNDS = (-60.0, 240.0)
FASTEST_GROWTH = 1.5


@dataclass(frozen=True)
class Size:
    """Rows and groups of one measurement."""

    rows: int
    groups: int


@dataclass(frozen=True)
class Line:
    """Times of one engine, plain and private."""

    engine: str
    size: Size
    plain: float
    ours: float


def sizes(rows: int) -> list[list[Size]]:
    """Return two series: more rows by 1,000 groups, and more groups of a tenth of the rows."""
    growing = [Size(rows // 100, 1_000), Size(rows // 10, 1_000), Size(rows, 1_000)]
    groups = [Size(rows // 10, count) for count in (100_000, 1_000_000, 10_000_000)]
    return [growing, groups]


def table(con: duckdb.DuckDBPyConnection, size: Size) -> None:
    con.execute(
        f"CREATE OR REPLACE TABLE t AS SELECT (hash(i) % {size.groups})::INTEGER AS g, "
        f"(hash(i + {size.rows}) % 3000000) / 10000.0 - 60 AS x FROM range({size.rows}) r(i)"
    )


Work = tuple[Callable[[], object], Callable[[], object]]


def works(con: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, Work]]:
    relation = con.table("t")
    yield (
        "DuckDB",
        (
            lambda: con.sql("SELECT g, avg(x) FROM t GROUP BY g").to_arrow_table(),
            lambda: (
                dfp.frame(relation).group_by("g").mean("x", BOUNDS, delta=1e-6).to_arrow_table()
            ),
        ),
    )
    frame = pl.DataFrame(con.table("t").to_arrow_table())
    lazy = frame.lazy()
    plain = lazy.group_by("g").agg(pl.col("x").mean())
    yield (
        "polars",
        (
            lambda: plain.collect(engine="streaming"),
            lambda: dfp.frame(frame).group_by("g").mean("x", BOUNDS, delta=1e-6),
        ),
    )


def measure(size: Size) -> list[Line]:
    con = duckdb.connect()
    table(con, size)
    rounds = 2 if size.rows > 50_000_000 else 3
    lines = []
    for name, work in works(con):
        plain, ours = measure_in_turn(*work, rounds)
        lines.append(Line(name, size, plain.wall, ours.wall))
    return lines


def growth(smaller: Line, larger: Line) -> tuple[float, float]:
    """Return how much longer the larger takes for each row or group, ours and plain."""
    wider = max(larger.size.rows / smaller.size.rows, larger.size.groups / smaller.size.groups)
    return larger.ours / smaller.ours / wider, larger.plain / smaller.plain / wider


def report(lines: list[Line]) -> str:
    names = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "polars"))
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    head = f"{os.cpu_count()} cores, Python {platform.python_version()}, {names}; load {load}."
    columns = "| engine | rows | groups | plain average, s | private mean, s | ratio |"
    rows = [
        f"| {line.engine} | {line.size.rows:,} | {line.size.groups:,} | {line.plain:.3f} "
        f"| {line.ours:.3f} | {line.ours / line.plain:.2f} |"
        for line in lines
    ]
    return "\n".join([head, "", columns, "|:--|---:|---:|---:|---:|---:|", *rows]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000_000)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    lines: list[Line] = []
    too_fast = False
    for series in sizes(options.rows):
        measured = [measure(size) for size in series]
        for earlier, later in itertools.pairwise(measured):
            for smaller, larger in zip(earlier, later, strict=True):
                ours, plain = growth(smaller, larger)
                too_fast |= ours > FASTEST_GROWTH * max(1.0, plain)
        lines += [line for size_lines in measured for line in size_lines]
    text = report(lines)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "scaling.md").write_text(text)
    print(text)
    return int(too_fast)


if __name__ == "__main__":
    sys.exit(main())
