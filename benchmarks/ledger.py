"""Time what a ledger adds to a release, in one run, beside what one flush of the disk costs.

    python -m benchmarks.ledger [--directory .] [--rounds 60]

Prints a Markdown table and ends with exit code 1 if the target is missed. A flush waits for the
disk, and on a busy machine for the processor: works take turns, and what the ledger adds is the
median of the differences between releases with and without one that followed each other.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import pyarrow as pa

import dfprivacy as dfp
from dfprivacy.accounting.charge import Charge
from dfprivacy.accounting.loss import read_loss
from dfprivacy.accounting.spending import name_account

TARGET = 5.0  # milliseconds
ADDED = "the ledger adds"


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def flush(descriptor: int) -> None:
    """Write a page and wait until it is on the disk."""
    os.pwrite(descriptor, os.urandom(4096), 0)
    os.fsync(descriptor)


def works(directory: Path, descriptor: int) -> dict[str, Callable[[], object]]:
    """Return the work that is timed, by name."""
    frame: Any = pd.DataFrame({"x": range(1000)})
    ledger = dfp.Ledger(directory / "budget.db", epsilon=1000, remember=True)
    charged = frame.dp(ledger=ledger, dataset="benchmark")
    ledger_account, charge = (
        name_account(ledger, "benchmark", version="1"),
        Charge(read_loss(0.01), question="q"),
    )
    groups = pa.table({"key": range(1000), "mean": [0.5] * 1000, "count": range(1000)})
    marks = (ledger_account.fingerprint(str(number), {}) for number in count())
    kept_mark = ledger_account.fingerprint("kept", {})
    ledger_account.pay(charge)
    ledger_account.remember(kept_mark, groups)
    return {
        "a release": lambda: frame.dp.count(epsilon=0.01),
        "a release with a ledger": lambda: charged.count(epsilon=0.01),
        "of that: look at what is left": lambda: ledger_account.check(charge),
        "of that: charge": lambda: ledger_account.pay(charge),
        "keep a release of 1,000 groups": lambda: ledger_account.remember(next(marks), groups),
        "repeat it": lambda: ledger_account.recall(kept_mark),
        "one flush of a page": lambda: flush(descriptor),
    }


def measure(directory: Path, rounds: int) -> dict[str, float]:
    """Return the median time of each kind of work, and of what the ledger adds."""
    descriptor = os.open(directory / "flushed", os.O_CREAT | os.O_RDWR)
    timed = works(directory, descriptor)
    times: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, work in timed.items():
            times[name].append(milliseconds(work))
    os.close(descriptor)
    pairs = zip(times["a release with a ledger"], times["a release"], strict=True)
    times[ADDED] = [with_it - without for with_it, without in pairs]
    return {name: median(durations) for name, durations in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", default=tempfile.gettempdir())
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        medians = measure(Path(directory), options.rounds)
    print("| work | median |\n|---|---:|")
    for name, value in medians.items():
        print(f"| {name} | {value:.2f} ms |")
    met = medians[ADDED] <= TARGET
    print(f"\nTarget: at most {TARGET:.0f} ms added on a local disk: {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
