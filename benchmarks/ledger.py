"""Time what a ledger adds to a release, in one run, beside what one flush of the disk costs.

    python -m benchmarks.ledger [--directory .] [--rounds 60]

Prints a Markdown table and ends with exit code 1 if the target is missed. A flush waits for the
disk, and on a busy machine for the processor: the figures are medians of turns taken alternately.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pandas as pd

import dfprivacy as dfp

TARGET = 5.0  # milliseconds


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def flush(descriptor: int) -> None:
    """Write a page and wait until it is on the disk."""
    os.pwrite(descriptor, os.urandom(4096), 0)
    os.fsync(descriptor)


def measure(directory: Path, rounds: int) -> dict[str, float]:
    """Return the median time of each kind of work."""
    frame = pd.DataFrame({"x": range(1000)})
    ledger = dfp.Ledger(directory / "budget.db", epsilon=1000)
    charged = frame.dp(ledger=ledger, dataset="benchmark")
    descriptor = os.open(directory / "flushed", os.O_CREAT | os.O_RDWR)
    works: dict[str, Callable[[], object]] = {
        "a release": lambda: frame.dp.count(epsilon=0.01),
        "a release with a ledger": lambda: charged.count(epsilon=0.01),
        "one flush of a page": lambda: flush(descriptor),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(milliseconds(work))
    os.close(descriptor)
    return {name: median(found) for name, found in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", default=tempfile.gettempdir())
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        found = measure(Path(directory), options.rounds)
    added = found["a release with a ledger"] - found["a release"]
    print("| work | median |\n|---|---:|")
    for name, value in [*found.items(), ("the ledger adds", added)]:
        print(f"| {name} | {value:.2f} ms |")
    met = added <= TARGET
    print(f"\nTarget: at most {TARGET:.0f} ms added on a local disk: {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
