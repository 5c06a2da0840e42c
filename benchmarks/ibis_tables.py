"""A mean by group of an Ibis table on DuckDB: the engine's own, and the private one.

`python -m benchmarks.ibis_tables [millions of rows]` makes a folder of 20 Parquet files with 1,000
groups, and prints seconds and ratios, the best of three.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet

import dfprivacy as dfp
from benchmarks.speed import measure_in_turn

FILES, GROUPS = 20, 1000


def written(folder, millions):
    generator = np.random.default_rng(0)
    size = millions * 1_000_000 // FILES
    for number in range(FILES):
        columns = {"g": generator.integers(0, GROUPS, size), "x": generator.normal(50, 20, size)}
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{number:02}.parquet")


def private(frame):
    grouped = dfp.frame(frame).group_by("g")
    return grouped.mean("x", bounds=(0, 100), epsilon=1, delta=1e-6)


def compare_backends(folder):
    table = ibis.duckdb.connect().read_parquet(folder / "*.parquet")
    mean = table.group_by("g").aggregate(table.x.mean().name("x"))
    yield "Ibis on DuckDB", mean.to_pyarrow, lambda: private(table)


def main(millions):
    print(f"{millions} million rows, {FILES} files, {GROUPS} groups; load {os.getloadavg()[0]:.1f}")
    print("| frame | plain mean | private mean | ratio |\n|:--|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, millions)
        for title, plain, ours in compare_backends(folder):
            first, second = (time.wall for time in measure_in_turn(plain, ours, 3))
            print(f"| {title} | {first:.2f} s | {second:.2f} s | {second / first:.1f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
