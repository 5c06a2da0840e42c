"""Measure the cost of adding up files of statistics: many groups in several files.

    python -m benchmarks.partial [GROUPS] [FILES]

Each file has two rows a group, in any order. Seconds are of the wall clock and of the processor:
they differ where the machine does other things too. The table goes to benchmarks/results.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dfprivacy as dfp

OUTPUT = Path(__file__).parent / "results" / "partial.md"
ASKED = {"mean": {"x": dfp.mean("x", (0, 100))}}
KEYS = {"integers": pa.int64(), "text": pa.string()}


def rows(groups: int, seed: int, kind: pa.DataType) -> pa.Table:
    dice = np.random.default_rng(seed)
    keys = pa.array(dice.permutation(np.repeat(np.arange(groups), 2))).cast(kind)
    return pa.table({"g": keys, "x": dice.uniform(0, 100, 2 * groups)})


def time_run(call: Callable[[], Any]) -> tuple[Any, str]:
    wall, processor = time.perf_counter(), time.process_time()
    result = call()
    return result, f"{time.perf_counter() - wall:.1f} | {time.process_time() - processor:.1f}"


def measure_rows(title: str, kind: str, groups: int, files: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        paths, writing = [Path(folder) / f"{index}.parquet" for index in range(files)], ""
        for index, path in enumerate(paths):
            table = rows(groups, index, KEYS[kind])
            _, writing = time_run(
                lambda t=table, p=path: dfp.statistics(t, p, **ASKED[title], by="g")
            )
        size = sum(path.stat().st_size for path in paths) / files / 2**20
        _, merging = time_run(lambda: dfp.merge(paths, epsilon=1, delta=1e-6))
    line = f"| {title} | {kind} | {writing} | {size:.0f} | {merging} |"
    print(line, flush=True)
    return line


def main(groups: int = 10**6, files: int = 10) -> None:
    load = os.getloadavg()[0]
    lines = [measure_rows(title, kind, groups, files) for title in ASKED for kind in KEYS]
    about = (
        f"`python -m benchmarks.partial {groups} {files}`: {files} files of {groups:,} groups "
        f"with two rows each; {os.cpu_count()} cores, load average {load:.1f} at the start."
    )
    text = "\n".join(
        [
            "# Adding up files of statistics",
            "",
            about,
            "",
            "| questions | keys | file, s | processor, s | MiB a file | merge, s | processor, s |",
            "|:--|:--|--:|--:|--:|--:|--:|",
            *lines,
            "",
        ]
    )
    OUTPUT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
