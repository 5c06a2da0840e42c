"""Errors of the local and the shuffle model against theory, and the speed of reports.

    python -m benchmarks.local [--quick]

Known variance: the root mean squared error over that of the formula in docs/how-to/local.md.
Unknown variance and one round: the error in units of sigma. Local, shuffle and central mean of the
same values beside each other. Vectors in the local model. Ten million reports made and added up on
one core. Prints Markdown tables, writes them to benchmarks/results/local.md, and ends with exit
code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dfprivacy as dfp
from dfprivacy.release.pipeline import permit

SIGMA = 2.0
TEN_MILLION = 10_000_000
MADE, ADDED = 5.0, 2.0
UNKNOWN = {1.0: 0.029, 0.5: 0.050}


def formula(users: int, epsilon: float, offsets: np.ndarray) -> float:
    """Return the error in units of sigma: the slope of Phi at the coarse offset, per report."""
    keep = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    errors = math.sqrt(math.pi / 2) * keep * np.exp(offsets**2 / 2) / math.sqrt(users / 2)
    return float(np.sqrt(np.mean(errors**2)))


def runs(plan: Callable[[], dfp.local.Protocol], users: int, repeats: int):
    """Return errors and coarse offsets in units of sigma, and how many intervals held."""
    random = np.random.default_rng(2026)
    errors, offsets, hits = [], [], 0
    for _ in range(repeats):
        mean = random.uniform(-300, 300)
        answer = dfp.local.simulate(plan(), random.normal(mean, SIGMA, users))
        errors.append((answer - mean) / SIGMA)
        offsets.append((answer.coarse - mean) / SIGMA)
        hits += answer.low <= mean <= answer.high
    return np.array(errors), np.array(offsets), hits / repeats


def rmse(errors: np.ndarray) -> tuple[float, float]:
    """Return the root mean square of some numbers, and its standard error relative to it."""
    squares = errors**2
    mean = squares.mean()
    return math.sqrt(mean), float(squares.std() / mean / 2 / math.sqrt(len(errors)))


def measure_known_variance(repeats: float) -> tuple[list[str], bool]:
    lines = [
        "| epsilon | users | repeats | RMSE / sigma | formula | ratio | held at 95% |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    ratios, weights = [], []
    for epsilon in (0.5, 1.0):
        for users, times in ((200_000, 1000), (1_000_000, 300), (2_000_000, 150)):
            count = max(3, int(times * repeats))
            errors, offsets, coverage = runs(
                lambda u=users, e=epsilon: dfp.local.gaussian_mean(
                    users=u, epsilon=e, sigma=SIGMA, limit=1024
                ),
                users,
                count,
            )
            mean_error, spread = rmse(errors)
            theory = formula(users, epsilon, offsets)
            ratios.append(mean_error / theory)
            weights.append(count)
            lines.append(
                f"| {epsilon} | {users:,} | {count} | {mean_error:.5f} | {theory:.5f} "
                f"| {mean_error / theory:.3f} +- {spread:.3f} | {coverage:.3f} |"
            )
    pooled = math.sqrt(np.average(np.square(ratios), weights=weights))
    error = 1 / math.sqrt(2 * sum(weights))
    lines += ["", f"All settings together: ratio {pooled:.3f} +- {error:.3f} (target: 5% of 1)."]
    return lines, abs(pooled - 1) <= 0.05


def measure_all_protocols(repeats: float) -> tuple[list[str], bool]:
    lines = [
        "| protocol | epsilon | users | repeats | RMSE / sigma | target | held at 95% |",
        "|:--|---:|---:|---:|---:|---:|---:|",
    ]
    good = True
    plans = {
        "known variance, two rounds": {"sigma": SIGMA},
        "known variance, one round": {"sigma": SIGMA, "rounds": 1},
        "unknown variance, two rounds": {"sigma_bounds": (0.5, 64.0)},
        "unknown variance, one round": {"sigma_bounds": (0.5, 64.0), "rounds": 1},
    }
    for epsilon in (1.0, 0.5):
        for name, settings in plans.items():
            count = max(3, int(80 * repeats))
            errors, _, coverage = runs(
                lambda e=epsilon, g=settings: dfp.local.gaussian_mean(
                    users=1_000_000, epsilon=e, limit=1024, **g
                ),
                1_000_000,
                count,
            )
            mean_error, spread = rmse(errors)
            limit = UNKNOWN[epsilon] if name == "unknown variance, two rounds" else None
            good &= limit is None or mean_error <= limit
            lines.append(
                f"| {name} | {epsilon} | 1,000,000 | {count} "
                f"| {mean_error:.4f} +- {spread * mean_error:.4f} "
                f"| {'' if limit is None else f'at most {limit}'} | {coverage:.3f} |"
            )
    return lines, good


@permit("a benchmark")
def models(repeats: float) -> list[str]:
    """Return the error of a mean in [0, 1] at epsilon 1 in the three models, times users."""
    lines = [
        "| users | repeats | central | shuffle | local | local / central | sqrt(users) |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    random = np.random.default_rng(7)
    for users, times in ((1_000, 300), (10_000, 200), (100_000, 60), (1_000_000, 20)):
        values = np.clip(random.normal(0.5, 0.1, users), 0, 1)
        frame, truth = pd.DataFrame({"x": values}), values.mean()
        shuffled = dfp.shuffle.mean(users=users, bounds=(0, 1), epsilon=1, delta=1e-6)
        law = dfp.local.GridLaplace(2**20, dfp.local.gaussian_mean(users=19, sigma=1).loss.pure())
        grid = np.rint(values * 2**20).astype(np.int64)
        count = max(3, int(times * repeats))
        errors = {
            "central": [
                frame.dp.mean("x", (0, 1), epsilon=1, clipping=False) - truth for _ in range(count)
            ],
            "shuffle": [dfp.shuffle.simulate(shuffled, values) - truth for _ in range(count)],
            "local": [law.privatise(grid).mean() / 2**20 - truth for _ in range(count)],
        }
        error = {name: rmse(np.array(model_errors))[0] for name, model_errors in errors.items()}
        lines.append(
            f"| {users:,} | {count} | {error['central']:.2e} | {error['shuffle']:.2e} "
            f"| {error['local']:.2e} | {error['local'] / error['central']:.0f} "
            f"| {math.sqrt(users):.0f} |"
        )
    return lines


def vectors(repeats: float) -> list[str]:
    """Return errors of Huang, Liang and Yi's mean: local model, radius 20 sqrt(d)."""
    lines = [
        "| model | users | dimensions | cost | mean of each | repeats | error | clip / sqrt(d) |",
        "|:--|---:|---:|:--|---:|---:|---:|---:|",
    ]
    random = np.random.default_rng(8)
    for size, rho, mean in ((16, 0.5, 0.0), (16, 0.5, 5.0), (16, 2.0, 5.0), (64, 2.0, 5.0)):
        count, errors, clips = max(2, int(20 * repeats)), [], []
        for _ in range(count):
            values = random.normal(mean, 1.0, (100_000, size))
            plan = dfp.local.mean_vector(
                users=100_000, dimensions=size, rho=rho, radius=20 * math.sqrt(size)
            )
            answer = dfp.local.simulate(plan, values)
            errors.append(float(np.linalg.norm(answer.mean - mean)))
            clips.append(answer.clip / math.sqrt(size))
        lines.append(
            f"| local | 100,000 | {size} | rho {rho} | {mean} | {count} | {np.mean(errors):.3f} "
            f"| {np.mean(clips):.2f} |"
        )
    for size, users in ((8, 4_000), (8, 20_000)):
        count, errors, clips = max(2, int(10 * repeats)), [], []
        plan = dfp.shuffle.mean_vector(
            users=users, dimensions=size, radius=20 * math.sqrt(size), epsilon=1, delta=1e-6
        )
        for _ in range(count):
            values = random.normal(5.0, 1.0, (users, size))
            answer = dfp.shuffle.simulate(plan, values)
            errors.append(float(np.linalg.norm(answer.mean - 5.0)))
            clips.append(answer.clip / math.sqrt(size))
        lines.append(
            f"| shuffle | {users:,} | {size} | epsilon 1, delta 1e-6 | 5.0 | {count} "
            f"| {np.mean(errors):.3f} | {np.mean(clips):.2f} |"
        )
    return lines


def one_core() -> None:
    """Stay on one core where the system lets us say so."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def time_run(task: Callable[[], Any]) -> tuple[float, float, Any]:
    start, busy = time.perf_counter(), time.process_time()
    result = task()
    return time.perf_counter() - start, time.process_time() - busy, result


def add_vectors(protocol: dfp.local.Protocol, reports: object) -> dfp.local.Aggregate:
    aggregate = protocol.aggregate(reports)
    assert aggregate.counts
    return aggregate


def speed(rounds: int) -> tuple[list[str], bool]:
    one_core()
    values = np.random.default_rng(1).normal(50, SIGMA, TEN_MILLION)
    lines = [
        "| 10 million reports, one core | made, s | added up, s | the same, shuffled, s |",
        "|:--|---:|---:|---:|",
    ]
    order = np.random.default_rng(2).permutation(TEN_MILLION)
    good = True
    for name, arguments in {
        "digits and sides (known variance)": {"sigma": SIGMA},
        "digits and distances (unknown variance)": {"sigma_bounds": (0.5, 64.0)},
    }.items():
        plan = dfp.local.gaussian_mean(
            users=TEN_MILLION, epsilon=1, limit=1024, rounds=1, **arguments
        )
        best = [math.inf] * 3
        for _ in range(rounds):
            report_time, _, reports = time_run(lambda p=plan: p.reports(values))
            summed, _, _ = time_run(lambda p=plan, r=reports: add_vectors(p, r))
            mixed = reports.take(order).combine_chunks()
            again, _, _ = time_run(lambda p=plan, m=mixed: add_vectors(p, m))
            best = [min(pair) for pair in zip(best, (report_time, summed, again), strict=True)]
        good &= best[0] <= MADE and best[1] <= ADDED
        lines.append(f"| {name} | {best[0]:.2f} | {best[1]:.2f} | {best[2]:.2f} |")
    lines += ["", f"Targets: made in at most {MADE:g} s, added up in at most {ADDED:g} s."]
    return lines, good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a hundredth of the repeats")
    parser.add_argument("--only", choices=["known", "others", "models", "vectors", "speed"])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    repeats = 0.01 if options.quick else 1.0
    tasks: dict[str, tuple[str, Callable[[], tuple[list[str], bool]]]] = {
        "known": ("Known variance, two rounds", lambda: measure_known_variance(repeats)),
        "others": ("All four protocols", lambda: measure_all_protocols(repeats)),
        "models": ("One mean in three models", lambda: (models(repeats), True)),
        "vectors": ("Means of vectors", lambda: (vectors(repeats), True)),
        "speed": ("Speed", lambda: speed(1 if options.quick else 3)),
    }
    machine = f"Python {platform.python_version()}, numpy {np.__version__}, {os.cpu_count()} cores."
    text, good = ["# The local and the shuffle model", "", machine], True
    for name, (title, task) in tasks.items():
        if options.only in {None, name}:
            lines, met = task()
            good &= met
            text += ["", f"## {title}", "", *lines]
            print("\n".join([f"## {title}", "", *lines, ""]), flush=True)
    if options.only is None and not options.quick:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "local.md").write_text("\n".join(text) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
