"""Exact private selections a second, on one core.

Run: python benchmarks/selection.py [runs]
"""

from __future__ import annotations

import os
import sys
import time
from fractions import Fraction

import numpy as np

from dfprivacy.noise.race import Runs
from dfprivacy.noise.selection import ExponentialMechanism, PermuteAndFlip
from dfprivacy.release.pipeline import permit

ROUNDS = 5
RUNS_A_GROUP = (1, 4, 40, 4000)


def random_runs(groups, size):
    random = np.random.default_rng(0)
    total = groups * size
    length = random.integers(1, 2**40, total)
    return Runs(
        np.arange(groups) * size, np.zeros(total, int), length, random.integers(0, 9, total)
    )


def best_seconds(task):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


@permit("a benchmark")
def main():
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    print(f"numpy {np.__version__}, best of {ROUNDS} rounds of {total:,} runs")
    bytes_only = best_seconds(lambda: os.urandom(8 * total))
    print(f"{'one 64-bit word of os.urandom a run':36} {bytes_only:7.3f} s")
    for size in (*RUNS_A_GROUP, total):
        groups = max(1, total // size)
        runs = random_runs(groups, size)
        for mechanism in (ExponentialMechanism(Fraction(1, 2)), PermuteAndFlip(Fraction(1, 2))):
            mechanism.select(random_runs(1, 1))  # the self-test of the logarithm
            seconds = best_seconds(lambda law=mechanism, runs=runs: law.select(runs))
            print(
                f"{type(mechanism).__name__:22} {groups:9,} groups of {size:9,} runs"
                f" {seconds:7.3f} s {groups / seconds:12,.0f} choices/s"
                f" {groups * size / seconds / 1e6:6.1f} million runs/s"
            )


if __name__ == "__main__":
    main()
