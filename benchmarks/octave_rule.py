"""Compare the constants of the search for bounds with alternatives, on means of whole frames.

    python -m benchmarks.octave_rule [--quick] [--releases 60] [--output DIR]

Each row changes one constant of `BoundsPolicy`. Its figures are root mean square errors over those
of the released policy: the geometric mean over data sets, sizes and losses, and the largest. Writes
octave_rule.md, and ends with exit code 1 if a change is clearly better in both.
"""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.page import run
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.cli.serve import flights_file
from dfprivacy.measurement.bin_table import FINE, BinTable, bin_table
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics.estimators.bounds_search import (
    LOOK_SHARE,
    POLICY,
    UNITS,
    BoundsPolicy,
    FoundBounds,
    find_bounds,
    find_dyadic_bounds,
)

SIZES = (300, 1000, 10**4, 10**5, 10**6)
EPSILONS = (0.1, 1.0)
ENOUGH = 1000  # rows times epsilon from which on an error counts
CLEARLY = 0.95  # a change is better if both its figures are below so much
FLIGHTS = ("dep_delay", "distance", "air_time")
CHANGES = {
    "enough": (30.0, 120.0),
    "far_fraction": (0.8, 0.9),
    "far_size": (120.0, 500.0),
    "center": (20.0, 80.0),
    "zoom": (0.2, 0.36),
    "doubt": (10.0, 40.0),
    "finer": (6_000.0, 24_000.0),
    "absurd": (1e-5, 1e-7),
    "join": (1.5, 2.5),
    "doubling": (2.5, 3.5),
}
SYNTHETIC = {
    "normal": lambda r, n: r.normal(size=n),
    "normal(100, 15)": lambda r, n: r.normal(100, 15, n),
    "log-normal": lambda r, n: r.lognormal(size=n),
    "Pareto 1.5": lambda r, n: r.pareto(1.5, n) + 1,
    "Cauchy": lambda r, n: np.clip(r.standard_cauchy(n), -1e9, 1e9),
    "uniform": lambda r, n: r.uniform(size=n),
    "exponential": lambda r, n: r.exponential(size=n),
    "constant 3.7": lambda _, n: np.full(n, 3.7),
    "{0, 1}": lambda r, n: r.integers(0, 2, n).astype(float),
    "normal, one 1e9": lambda r, n: np.append(r.normal(size=n - 1), 1e9),
}


def octaves_alone(table: BinTable, loss: Epsilon) -> FoundBounds:
    """Return the bounds of each group that one look at octaves shows, for 3/8 of the loss."""
    bounds = find_dyadic_bounds(table, loss.share(LOOK_SHARE))
    return replace(bounds, left=np.full(table.groups, int(UNITS * (1 - LOOK_SHARE))))


def flights(name: str) -> np.ndarray:
    """Return a column of the flights, no NaN."""
    column = pd.read_csv(flights_file(), usecols=[name])[name]
    return column.dropna().to_numpy(dtype=float)


def data_sets(sizes: tuple[int, ...]) -> list[tuple[str, np.ndarray]]:
    """Return every data set by name and size; samples are fixed."""
    sets = [
        (name, make(np.random.default_rng([2023, n]), n))
        for n, (name, make) in itertools.product(sizes, SYNTHETIC.items())
    ]
    for name in FLIGHTS:
        column = flights(name)
        for n in sizes:
            if n < len(column):
                sample = np.random.default_rng([2013, n]).choice(column, n, replace=False)
                sets.append((name, sample))
        sets += [(name, column)] if sizes[-1] > len(column) else []
    return sets


def subset_width(values: np.ndarray, epsilon: float) -> float:
    """Return W_epsilon(D)."""
    outer, ascending = math.ceil(1 / epsilon), np.sort(values)
    return float(ascending[-outer:].sum() - ascending[:outer].sum()) / (len(values) - outer)


def errors(values: np.ndarray, epsilon: float, policy: BoundsPolicy, releases: int) -> float:
    """Return the root mean square error of means within bounds that a policy finds."""
    none, ones = np.zeros(len(values), np.int64), np.ones(len(values), np.int64)
    table = bin_table(pa.table({}), 1, FINE, none, FINE.labels(values), rows=ones)
    random, truth, deviations = np.random.default_rng(5), float(values.mean()), []
    for _ in range(releases):
        bounds = find_bounds(table, Epsilon(Fraction(str(epsilon))), policy)
        low, high = float(bounds.lower[0]), float(bounds.upper[0])
        if math.isnan(low):
            continue
        part = (np.clip(values, low, high) - low).sum() / (high - low)
        up, down = random.laplace(size=2) / (epsilon * bounds.left[0] / UNITS)
        ratio = np.clip((part + up) / max(len(values) + up + down, 1), 0, 1)
        deviations.append(low + (high - low) * ratio - truth)
    return (
        float(np.sqrt(np.mean(np.square(deviations))))
        if len(deviations) > releases / 2
        else math.nan
    )


def page(releases: int, *, quick: bool) -> tuple[str, bool]:
    """Return the page, and whether no change is clearly better."""
    sizes = SIZES[1:2] if quick else SIZES[1:4]
    sets = [pair for pair in data_sets(sizes) if "constant" not in pair[0]][: 3 if quick else None]
    settings = [
        (sample, e)
        for (_, sample), e in itertools.product(sets, EPSILONS)
        if len(sample) * e >= 900
    ]
    lines, better = ["| constant | value | geometric mean | worst |", "|:--|--:|--:|--:|"], False
    with permit("a benchmark"):
        ours = np.array([errors(*setting, POLICY, releases) for setting in settings])
        for name, values in itertools.islice(CHANGES.items(), 2 if quick else None):
            for value in values:
                policy = replace(POLICY, **{name: value})  # type: ignore[arg-type]
                theirs = np.array([errors(*setting, policy, releases) for setting in settings])
                ratios = (theirs / ours)[np.isfinite(theirs / ours)]
                mean, worst = float(np.exp(np.log(ratios).mean())), float(ratios.max())
                better |= mean < CLEARLY and worst < CLEARLY
                lines.append(f"| {name} | {value:g} | {mean:.3f} | {worst:.2f} |")
    return "\n".join(lines) + "\n", not better


if __name__ == "__main__":
    sys.exit(run(__doc__, "octave_rule.md", page, releases=60))
