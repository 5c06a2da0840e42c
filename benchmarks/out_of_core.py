"""Ask every question of data larger than the memory that the engine may use.

    python -m benchmarks.out_of_core [--rows 200000000] [--groups 100000] [--memory 1GB]

Makes a folder of Parquet files (5 columns), asks each question in a fresh process, whole and by
group, and checks the answers against exact values. Records seconds, the peak resident memory of
the process (VmHWM), and the most that lay in spill files at a time. Prints a Markdown table,
writes it to benchmarks/results/out_of_core.md, and ends with exit code 1 if an answer is wrong.
The folder is removed at the end.
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
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb

BOUNDS = (0.0, 1000.0)
PIECES = 20
ASKED = {
    "count": "private.count(**terms)",
    "mean": 'private.mean("x", BOUNDS, **terms)',
    "mean, no bounds": 'private.mean("x", **terms)',
    "median": 'private.median("x", **terms)',
    "bounds": 'private.bounds("x", **terms)',
    "histogram": 'private.histogram("x", [0, 250, 500, 750, 1000], **terms)',
    "sum": 'private.sum("x", BOUNDS, **terms)',
    "var": 'private.var("x", BOUNDS, **terms)',
    "std": 'private.std("x", BOUNDS, **terms)',
    "sum, no bounds": 'private.sum("x", **terms)',
    "var, no bounds": 'private.var("x", **terms)',
    "std, no bounds": 'private.std("x", **terms)',
    "quantile": 'private.quantile("x", 0.9, **terms)',
    "quantiles": 'private.quantiles("x", [0.25, 0.5, 0.75], **terms)',
    "center": 'private.center("x", 2, BOUNDS, **terms)',
}
EXACT = {
    "count": "count(*)",
    "sum": "sum(x)", "sum, no bounds": "sum(x)",
    "mean": "avg(x)", "mean, no bounds": "avg(x)", "center": "avg(x)",
    "var": "var_pop(x)", "var, no bounds": "var_pop(x)",
    "std": "stddev_pop(x)", "std, no bounds": "stddev_pop(x)",
    "median": "500.0", "quantile": "900.0", "quantiles": "250.0", "histogram": "count(*) / 4",
}  # fmt: skip
TOLERANCE = 0.05
"""The largest median error of answers by group, relative to the exact ones."""

Found = dict[str, Any]

CHILD = """
import json, sys, time
from pathlib import Path
import dfprivacy as dfp
from benchmarks.watching import peak_mib, spilled_mib
folder, asked, grouped, memory, temporary, output = json.loads(sys.argv[1])
BOUNDS, terms = (0.0, 1000.0), {"epsilon": 1.0}
before, failed, answer = peak_mib(), None, None
with spilled_mib(temporary, every=0.05) as spilled:
    start = time.perf_counter()
    try:
        with dfp.Engine(memory=memory, threads=2, temporary=temporary):
            private = dfp.frame(folder)
            if grouped:
                private, terms = private.group_by("g"), {**terms, "delta": 1e-6}
            answer = eval(asked)
    except dfp.DPError as error:
        failed = type(error).__name__
    seconds = time.perf_counter() - start
left = [file.name for file in Path(temporary).iterdir()]
value = None
if grouped and answer is not None:
    import pyarrow.parquet
    pyarrow.parquet.write_table(answer, output)
elif answer is not None and not isinstance(answer, tuple):
    first = answer[0] if isinstance(answer, list) else answer
    value = first["count"][0].as_py() if hasattr(first, "column_names") else float(first)
print(json.dumps({"seconds": seconds, "before": before, "peak": peak_mib(), "value": value,
                  "spill": max(spilled), "left": left, "failed": failed}))
"""


def make_folder(folder: Path, rows: int, groups: int) -> None:
    """Write the rows in pieces: g, two values and two more columns, from a hash of the row."""
    with duckdb.connect(config={"memory_limit": "2GB", "threads": 2}) as connection:
        connection.execute("SET preserve_insertion_order = false")
        step = -(-rows // PIECES)
        for piece in range(PIECES):
            first, last = piece * step, min((piece + 1) * step, rows)
            connection.execute(
                f"COPY (SELECT (hash(i) % {groups})::INTEGER AS g, "
                f"(hash(i + 1) % 1000000000) / 1e6 AS x, (hash(i + 2) % 1000000) / 1e3 AS y, "
                f"(hash(i + 3) % 100)::INTEGER AS z, (i % 1000)::INTEGER AS t "
                f"FROM range({first}, {last}) r(i)) TO '{folder}/{piece:03}.parquet'"
            )


def measure(folder: Path, work: Path, name: str, memory: str, *, grouped: bool) -> Found:
    """Ask one question in a fresh process."""
    temporary = work / "spill"
    temporary.mkdir(exist_ok=True)
    output = work / "answer.parquet"
    output.unlink(missing_ok=True)
    arguments = json.dumps([str(folder), ASKED[name], grouped, memory, str(temporary), str(output)])
    here = str(Path(__file__).resolve().parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, arguments],
        check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": here},
    )  # fmt: skip
    return json.loads(done.stdout)


def find_error(name: str, measurement: Found, work: Path, *, grouped: bool) -> float | None:
    """Return the relative error of an answer, the median one of answers by group."""
    if name not in EXACT or measurement["failed"]:
        return None
    if not grouped:
        query = f"SELECT {find_name(name)} FROM '{work}/whole.parquet'"
        ((exact,),) = duckdb.sql(query).fetchall()
        return (
            None if measurement["value"] is None else abs(float(measurement["value"]) / exact - 1)
        )
    column = "count" if name in {"count", "histogram"} else "x"
    names = duckdb.sql(f"FROM '{work}/answer.parquet'").columns
    column = next(c for c in names if c.startswith(column))
    ((error,),) = duckdb.sql(
        f'SELECT median(abs(a."{column}" / e."{find_name(name)}" - 1)) '
        f"FROM '{work}/answer.parquet' a JOIN '{work}/grouped.parquet' e USING (g)"
    ).fetchall()
    return float(error)


def find_name(name: str) -> str:
    return "v_" + "".join(c if c.isalpha() else "_" for c in name)


def write_exact(folder: Path, work: Path) -> None:
    """Write exact values, whole and by group."""
    chosen = ", ".join(f"({sql})::DOUBLE AS {find_name(name)}" for name, sql in EXACT.items())
    with duckdb.connect(config={"threads": 2}) as connection:
        rows = f"FROM '{folder}/*.parquet'"
        connection.execute(f"COPY (SELECT {chosen} {rows}) TO '{work}/whole.parquet'")
        connection.execute(
            f"COPY (SELECT g, {chosen} {rows} GROUP BY g) TO '{work}/grouped.parquet'"
        )


def find_line(name: str, by: str, measurement: Found, error: float | None) -> str:
    remark = measurement["failed"] or ("" if error is None else f"{error:.1e}")
    return (
        f"| {name} | {by} | {measurement['seconds']:.1f} | {measurement['before']:.0f} "
        f"| {measurement['peak']:.0f} | {measurement['spill']:.0f} | {remark} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000_000)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--only", nargs="*", default=list(ASKED), choices=list(ASKED))
    parser.add_argument("--minutes", type=float, default=15, help="begin nothing new after these")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    start, good = time.perf_counter(), True
    with tempfile.TemporaryDirectory() as work_name:
        work = Path(work_name)
        folder = work / "rows"
        folder.mkdir()
        make_folder(folder, options.rows, options.groups)
        write_exact(folder, work)
        lines = heading(options, sum(file.stat().st_size for file in folder.iterdir()))
        for name in options.only:
            for grouped in (False, True):
                if time.perf_counter() - start > options.minutes * 60:
                    continue
                measurement = measure(folder, work, name, options.memory, grouped=grouped)
                error = find_error(name, measurement, work, grouped=grouped)
                good &= not measurement["left"] and (error is None or error < TOLERANCE)
                by = f"{options.groups:,} groups" if grouped else "whole"
                lines.append(find_line(name, by, measurement, error))
                print(lines[-1], flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "out_of_core.md").write_text("\n".join(lines) + "\n")
    return 0 if good else 1


def heading(options: argparse.Namespace, size: int) -> list[str]:
    """Return the lines above the table."""
    names = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "numpy", "pyarrow"))
    load = os.getloadavg()[0]
    return [
        f"{options.rows:,} rows, 5 columns, {size / 1e9:.1f} GB of Parquet in {PIECES} files.",
        f"memory={options.memory!r}, threads=2; {os.cpu_count()} cores, load {load:.1f} at first.",
        f"Python {platform.python_version()}, {names}; each line a fresh process.",
        "",
        "| question | of | seconds | MiB at the start | peak MiB | spilled MiB | error |",
        "|:--|:--|---:|---:|---:|---:|---:|",
    ]


if __name__ == "__main__":
    sys.exit(main())
