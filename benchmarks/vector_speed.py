"""How long means of vectors take, in how much memory, on data of MNIST's and Kosarak's size."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dfprivacy as dfp

DRAWS = np.random.default_rng(5)


def seconds(work) -> tuple[float, float]:
    """Return how long work takes by the wall, and in seconds of processors."""
    wall, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - busy


def mnist_size() -> tuple[list[str], bool]:
    x = DRAWS.random((70_000, 784))
    names = [f"x{index}" for index in range(784)]
    vectors = pl.DataFrame({"v": pl.Series(x, dtype=pl.Array(pl.Float64, 784))})
    frames = {
        "Arrow FixedSizeList": (pa.table({"v": vectors.to_arrow().column("v")}), "v"),
        "polars Array": (vectors, "v"),
        "polars, 784 columns": (pl.DataFrame(x, schema=names), names),
    }
    lines, ratios = [], []
    for name, (frame, columns) in frames.items():
        private = dfp.frame(frame)
        sorts, times = [], []
        for _ in range(4):
            sorts.append(seconds(lambda: np.sort(x, axis=0)))
            times.append(seconds(lambda: private.mean_vector(columns, rho=0.5, radius=28)))  # noqa: B023
        (wall, busy), (sort, sorting) = np.min(times, axis=0), np.min(sorts, axis=0)
        ratios.append(wall / sort)
        ratio_text = f"{wall / sort:.2f} np.sort ({busy / sorting:.2f} in processor time)"
        lines.append(f"|70,000 x 784, recentered, {name}|{wall:.2f}|{ratio_text}|")
    return lines, ratios[0] <= 1.5


PARQUET = """
import sys, time
from pathlib import Path
import dfprivacy as dfp
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("VmHWM"))
frame = dfp.frame(sys.argv[1])
before = peak()
start = time.perf_counter()
frame.mean_vector([f"x{i}" for i in range(128)], rho=0.5, radius=50)
print(time.perf_counter() - start, peak(), before)
"""


def parquet() -> tuple[list[str], bool]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.parquet"
        schema = pa.schema([(f"x{i}", pa.float64()) for i in range(128)])
        with pq.ParquetWriter(path, schema) as writer:
            for _ in range(50):
                block = DRAWS.normal(size=(20_000, 128))
                writer.write_table(pa.table(list(block.T), schema=schema))
        command = [sys.executable, "-c", PARQUET, str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    took, peak, before = map(float, done.stdout.split())
    line = f"|1,000,000 x 128 from Parquet, recentered|{took:.2f}|peak {peak / 2**20:.2f} GiB"
    return [f"{line}, {before / 2**20:.2f} GiB before|"], peak < 2**20


def kosarak_size() -> tuple[list[str], bool]:
    users, items, lines, good = 75_462, 27_983, [], True
    for entries in (600_000, 4_000_000):
        weights = 1 / np.arange(1, items + 1) ** 0.9
        item = DRAWS.choice(items, entries, p=weights / weights.sum())
        row = np.sort(DRAWS.integers(0, users, entries))
        offsets = np.searchsorted(row, np.arange(users + 1)).astype(np.int32)
        sets = pa.ListArray.from_arrays(pa.array(offsets), pa.array(item))
        table = pa.table({"basket": sets})
        took, _ = seconds(lambda: dfp.frame(table).mean_vector("basket", rho=0.25, universe=items))  # noqa: B023
        good &= took <= 12
        lines.append(f"|{users:,} sets of {items:,} items, {entries:,} entries, plan|{took:.2f}||")
    return lines, good


def speed(output: Path) -> bool:
    parts = [mnist_size(), kosarak_size(), parquet()]
    lines = [line for part, _ in parts for line in part]
    load = f"Load of the machine's {os.cpu_count()} cores at the end: {os.getloadavg()[0]:.1f}."
    table = "\n".join(["|what|seconds|beside|", "|:--|--:|--:|", *lines])
    text = f"# Speed of means of vectors\n\n{table}\n\n{load}\n"
    print(text)
    (output / "vectors_speed.md").write_text(text)
    return all(good for _, good in parts)
