"""Time our mean against the engine's own plain average, in turn, in one run.

    python -m benchmarks.speed [--rows 20000000] [--no-memory]

DuckDB (frame and SQL) and polars, by 1,000 groups, by 1,000,000 groups and whole-table, noise
included; then the peak memory of a 100-million-row Parquet file by 1,000 groups. Prints a Markdown
table, writes it to benchmarks/results/speed.md, and ends with exit code 1 if a target is missed.
Other libraries are timed by `python -m benchmarks`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import dfprivacy as dfp
import sql_udfs

BOUNDS = (-60.0, 240.0)
GROUPS = {"whole table": None, "1,000 groups": "g3", "1,000,000 groups": "g6"}
TARGETS = {"whole table": 4.0, "1,000 groups": 1.5, "1,000,000 groups": 2.0}
MEMORY_TARGET = 1.5


@dataclass(frozen=True)
class Row:
    """One line of the table: the plain average's time, ours, and the ratio allowed."""

    engine: str
    work: str
    plain: float
    ours: float
    target: float

    @property
    def ratio(self) -> float:
        return self.ours / self.plain

    @property
    def met(self) -> bool:
        return self.ratio <= self.target


def best_in_turn(
    plain: Callable[[], object], ours: Callable[[], object], rounds: int
) -> tuple[float, float]:
    """Return the best time of each, taken alternately."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for work, kept in zip((plain, ours), times, strict=True):
            start = time.perf_counter()
            work()
            kept.append(time.perf_counter() - start)
    return min(times[0]), min(times[1])


def make_frame(rows: int) -> pl.DataFrame:
    """Make up a table: two integer keys and a float."""
    generator = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "g3": generator.integers(0, 1_000, rows),
            "g6": generator.integers(0, 1_000_000, rows),
            "x": generator.uniform(-60, 240, rows),
        }
    )


def polars_work(
    frame: pl.DataFrame, key: str | None
) -> tuple[Callable[[], object], Callable[[], object]]:
    lazy = frame.lazy()
    if key is None:
        plain = lazy.select(pl.col("x").mean())
        return lambda: plain.collect(engine="streaming"), lambda: frame.dp.mean("x", BOUNDS)
    plain = lazy.group_by(key).agg(pl.col("x").mean())
    return (
        lambda: plain.collect(engine="streaming"),
        lambda: frame.dp.group_by(key).mean("x", BOUNDS, delta=1e-6),
    )


def duckdb_work(
    con: duckdb.DuckDBPyConnection, key: str | None
) -> tuple[Callable[[], object], Callable[[], object]]:
    if key is None:
        return (
            lambda: con.sql("SELECT avg(x) FROM t").to_arrow_table(),
            lambda: dfp.frame(con.table("t")).mean("x", BOUNDS),
        )
    return (
        lambda: con.sql(f"SELECT {key}, avg(x) FROM t GROUP BY {key}").to_arrow_table(),
        lambda: (
            dfp.frame(con.table("t")).group_by(key).mean("x", BOUNDS, delta=1e-6).to_arrow_table()
        ),
    )


def sql_work(
    con: duckdb.DuckDBPyConnection, key: str | None
) -> tuple[Callable[[], object], Callable[[], object]]:
    plain, _ = duckdb_work(con, key)
    private = "dp_mean(x, -60, 240, 1.0)"
    query = f"SELECT {private} FROM t"
    if key is not None:
        query = f"SELECT {key}, {private} FROM t GROUP BY {key} HAVING dp_keep(1e-6)"
    return plain, lambda: con.sql(query).to_arrow_table()


def time_engines(rows: int, rounds: int) -> list[Row]:
    """Time every engine and every number of groups."""
    frame = make_frame(rows)
    con = duckdb.connect()
    con.register("frame", frame)
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    sql_udfs.register(con)
    engines = {
        "polars": lambda key: polars_work(frame, key),
        "DuckDB relation": lambda key: duckdb_work(con, key),
        "DuckDB SQL": lambda key: sql_work(con, key),
    }
    result = []
    for engine, make in engines.items():
        for work, key in GROUPS.items():
            plain, ours = best_in_turn(*make(key), rounds if key != "g6" else max(3, rounds // 2))
            result.append(Row(engine, work, plain, ours, TARGETS[work]))
    con.close()
    return result


def _environment() -> dict[str, str]:
    here = str(Path(__file__).resolve().parent.parent)
    return {**os.environ, "PYTHONPATH": here}


_PEAK = """
import json, sys, time
import dfprivacy as dfp
from benchmarks.watching import peak_mib
start = time.perf_counter()
bounds = json.loads(sys.argv[2])
table = dfp.frame(sys.argv[1]).group_by("g").mean("x", bounds, delta=1e-6)
seconds = time.perf_counter() - start
print(json.dumps({"groups": table.num_rows, "seconds": seconds, "gib": peak_mib() / 2**10}))
"""


def peak_memory(rows: int, bounds: tuple[float, float] | None = BOUNDS) -> dict[str, float]:
    """Return groups, seconds and peak GiB of a release from a Parquet file, in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.parquet"
        duckdb.sql(
            f"COPY (SELECT (random() * 999)::INTEGER AS g, random() * 300 - 60 AS x "
            f"FROM range({rows})) TO '{file}' (FORMAT parquet)"
        )
        command = [sys.executable, "-c", _PEAK, str(file), json.dumps(bounds)]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=_environment()
        )
    return json.loads(done.stdout)


def report(rows: list[Row], memory: dict[str, float] | None, count: int) -> str:
    """Return the table as Markdown."""
    head = "| engine | work | plain average, s | private mean, s | ratio | target | met |"
    return "\n".join([*heading(count, head), *lines_of(rows), *memory_lines(memory)]) + "\n"


def heading(count: int, head: str) -> list[str]:
    """Return what stands above the lines of a table: rows, machine, versions, columns."""
    names = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "polars", "numpy"))
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {names}"
    return [
        f"{count:,} rows, {machine}; best of several runs, taken in turn.",
        "",
        head,
        "|:--|:--|---:|---:|---:|---:|:--|",
    ]


def lines_of(rows: list[Row]) -> list[str]:
    """Return one line a row."""
    return [
        f"| {row.engine} | {row.work} | {row.plain:.4f} | {row.ours:.4f} | {row.ratio:.2f} "
        f"| at most {row.target:g} | {'yes' if row.met else 'NO'} |"
        for row in rows
    ]


def memory_lines(memory: dict[str, float] | None) -> list[str]:
    """Return what is said of memory below a table."""
    if memory is None:
        return []
    met = "yes" if memory["gib"] <= MEMORY_TARGET else "NO"
    size = f"{memory['gib']:.2f} GiB (target: at most {MEMORY_TARGET} GiB; met: {met})"
    text = f"100 million rows of Parquet by {memory['groups']:,} groups: peak memory {size}"
    return ["", f"{text}, {memory['seconds']:.1f} s."]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    rows = time_engines(options.rows, options.rounds)
    memory = None if options.no_memory else peak_memory(100_000_000)
    text = report(rows, memory, options.rows)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "speed.md").write_text(text)
    print(text)
    good = all(row.met for row in rows)
    return 0 if good and (memory is None or memory["gib"] <= MEMORY_TARGET) else 1


if __name__ == "__main__":
    sys.exit(main())
