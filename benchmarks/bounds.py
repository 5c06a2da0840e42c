"""Means without bounds beside other ways to find them: a mean of a whole frame, by data set.

    python -m benchmarks.bounds [--quick] [--releases 150] [--output DIR]

Errors are root mean squares over releases, in units of W_epsilon(D), the error that no private
algorithm beats by more than a constant. Beside the mean that is released stand octaves alone,
`subset_mean`, `center` and `dick_mean` of this package, and two made up here with numpy's noise:
bounds by private quantiles .01 and .99 on a known range of 1e7 (2e9 where values are
larger), and CoinPress in one dimension, which is told that range and the data's own deviation.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from benchmarks.honesty import copy_groups
from benchmarks.octave_rule import octaves_alone, subset_width
from benchmarks.page import run
from benchmarks.subset_optimal import dick_means
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.measurement.bin_table import FINE, BinTable, bin_table
from dfprivacy.measurement.binning import (
    VALUE_BITS,
    Octaves,
    SignificantBits,
    clip_values,
    round_values,
)
from dfprivacy.papers import SubsetMean
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics import Center, Mean, octaves
from dfprivacy.statistics.octaves import MeasuredOctaves, OctavePart

Make = Callable[[np.random.Generator, int], np.ndarray]
SETS: dict[str, Make] = {
    "normal(100, 15)": lambda r, n: r.normal(100, 15, n),
    "years": lambda r, n: r.integers(1990, 2026, n).astype(float),
    "kelvin": lambda r, n: r.normal(288, 12, n),
    "lognormal(0, 1)": lambda r, n: r.lognormal(0, 1, n),
    "lognormal(3, 2)": lambda r, n: r.lognormal(3, 2, n),
    "Pareto 1.5": lambda r, n: r.pareto(1.5, n) + 1,
    "uniform(0, 1e6)": lambda r, n: r.uniform(0, 1e6, n),
    "90 % zeros, exp(1000)": lambda r, n: np.where(r.random(n) < 0.9, 0, r.exponential(1000, n)),
    "bimodal": lambda r, n: np.where(r.random(n) < 0.5, r.normal(-5, 1, n), r.normal(1000, 10, n)),
    "normal(0, 1)": lambda r, n: r.normal(0, 1, n),
    "ages": lambda r, n: np.clip(np.round(r.gamma(4, 10, n)), 0, 105),
    "timestamps": lambda r, n: 1.7e9 + r.uniform(0, 86400 * 30, n),
    "exp(1)": lambda r, n: r.exponential(1, n),
    "50 + student 3": lambda r, n: 50 + r.standard_t(3, n),
    "delays": lambda r, n: np.round(
        r.normal(-3, 6, n) + np.where(r.random(n) < 0.3, r.exponential(40, n), 0)
    ),
    "salaries": lambda r, n: np.round(r.lognormal(np.log(42000), 0.55, n), -1),
    "normal, one 1e9": lambda r, n: np.append(r.normal(size=n - 1), 1e9),
    "celsius": lambda r, n: r.normal(15, 8, n),
    "birth years": lambda r, n: 2025 - np.clip(np.round(r.gamma(4, 10, n)), 0, 105),
    "pressure": lambda r, n: r.normal(1013, 8, n),
    "latitudes": lambda r, n: r.uniform(47, 55, n),
    "1000 + exp(50)": lambda r, n: 1000 + r.exponential(50, n),
}
CONSTANT = 7.3
SIZES = (1000, 10**4, 10**5)
EPSILONS = (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2))
ENOUGH = 1000  # rows times epsilon from which on an error counts
OTHERS = ("octaves alone", "subset", "inverse", "dick", "quantiles", "CoinPress")


def build_table(values: np.ndarray, binning: Octaves | SignificantBits, copies: int) -> BinTable:
    """Return the table that one pass over so many equal groups would make."""
    none, ones = np.zeros(len(values), np.int64), np.ones(len(values), np.int64)
    rounded_values, labels = round_values(clip_values(values), VALUE_BITS), binning.labels(values)
    if isinstance(binning, SignificantBits):
        return copy_groups(bin_table(pa.table({}), 1, binning, none, labels, rows=ones), copies)
    excess = rounded_values - binning.bases(binning.numbers(labels))
    table = bin_table(pa.table({}), 1, binning, none, labels, rows=ones, moments=[excess])
    return copy_groups(table, copies)


@permit("a benchmark")
def octave_means(values: np.ndarray, epsilon: Fraction, copies: int, *, zoom: bool) -> np.ndarray:
    """Return means without bounds, each as that of a whole frame, or off octaves alone."""
    part = OctavePart("x", {"x": Mean("x")}, grouped=False)
    measured = MeasuredOctaves(part, build_table(values, FINE, copies))
    with nullcontext() if zoom else mock.patch.object(octaves, "find_bounds", octaves_alone):
        return measured.answer_apart(Epsilon(epsilon)).answers["x"][0].columns(0.95)[0]


@permit("a benchmark")
def other_means(values: np.ndarray, epsilon: Fraction, copies: int, mean: Any) -> np.ndarray:
    """Return means by another statistic of this package."""
    part = mean.part("x", grouped=False)
    table = build_table(values, part.binning(), copies)
    return (
        part.read_measurement(table).answer(Epsilon(epsilon), None).answers["x"][0].columns(0.95)[0]
    )


def mean_within(
    values: np.ndarray, low: np.ndarray, high: np.ndarray, epsilon: float, r
) -> np.ndarray:
    """Return transformed means within bounds, one a pair."""
    sums, n = np.concatenate([[0], np.cumsum(values)]), len(values)
    below, upto = np.searchsorted(values, low), np.searchsorted(values, high, "right")
    total = sums[upto] - sums[below] + low * below + high * (n - upto)
    noise = r.laplace(size=(2, len(low))) / epsilon
    first, second = (total - n * low) / (high - low), (n * high - total) / (high - low)
    first, count = first + noise[0], first + second + noise.sum(axis=0)
    ratio = np.divide(first, count, out=np.full_like(count, 0.5), where=count > 0)
    return low + (high - low) * np.clip(ratio, 0, 1)


def find_range(values: np.ndarray) -> float:
    """Return the range that the data are told to lie in, either side of zero."""
    return 1e7 if np.abs(values).max() <= 1e7 else 2e9


def quantile_means(values: np.ndarray, epsilon: float, copies: int, r) -> np.ndarray:
    """Return means within private quantiles, which cost .15 of epsilon each."""
    n, reach = len(values), find_range(values)
    edges = np.concatenate([[-reach], values, [reach]])
    spread = np.maximum(np.diff(edges), reach * 1e-13)  # ties are a little apart
    ends = []
    for q in (0.01, 0.99):
        rate = 0.15 * epsilon / (2 * max(q, 1 - q))
        log = np.log(spread) - rate * np.abs(np.arange(n + 1) - q * n)
        weights = np.cumsum(np.exp(log - log.max()))
        indices = np.searchsorted(weights, r.random(copies) * weights[-1]).clip(0, n)
        ends.append(edges[indices] + r.random(copies) * spread[indices])
    low, high = np.sort(ends, axis=0)
    return mean_within(values, low, np.maximum(high, low + reach * 1e-13), 0.7 * epsilon, r)


def coinpress_means(values: np.ndarray, epsilon: float, copies: int, r) -> np.ndarray:
    """Return means by CoinPress (Biswas et al. 2020) with Laplace noise, sigma and range known."""
    n, reach = len(values), find_range(values)
    sigma = max(float(values.std()), 1e-6)
    rows = np.maximum(n + r.laplace(size=copies) / (0.05 * epsilon), 1)
    center, radius = np.zeros(copies), np.full(copies, reach)
    wide = 0.8 * sigma * math.sqrt(2 * math.log(2 * max(n, 10) / 0.05))
    sums = np.concatenate([[0], np.cumsum(values)])
    for share in (0.05, 0.05, 0.1, 0.75):
        half = radius + wide
        low, high = center - half, center + half
        below, upto = np.searchsorted(values, low), np.searchsorted(values, high, "right")
        total = sums[upto] - sums[below] + low * below + high * (n - upto) - n * center
        noise = r.laplace(size=copies) * half / (share * epsilon)
        radius = np.minimum(
            radius, (2 * sigma / np.sqrt(rows) + 8 * half / (share * epsilon * rows))
        )
        center = np.clip(center + (total + noise) / rows, low, high)
    return center


@dataclass(frozen=True)
class Setting:
    """One data set of one size under one epsilon: errors in units of W."""

    data: str
    rows: int
    epsilon: Fraction
    ours: float
    others: tuple[float, ...]

    @property
    def is_large(self) -> bool:
        return self.rows * self.epsilon >= ENOUGH

    @property
    def ratio(self) -> float:
        return self.ours / min(self.others)


def error(means: np.ndarray, truth: float, unit: float) -> float:
    """Return the root mean square; infinity where more than a tenth are no answers."""
    answers = means[~np.isnan(means)]
    if len(answers) < 0.9 * len(means):
        return math.inf
    return float(np.sqrt(np.mean((answers - truth) ** 2))) / unit


def measure_settings(data: tuple[str, int], releases: int) -> list[Setting]:
    """Measure one data set under every epsilon."""
    (name, size), settings = data, []
    values = np.sort(SETS[name](np.random.default_rng([7, size, len(name)]), size))
    truth = float(values.mean())
    distinct, rows = np.unique(round_values(clip_values(values), VALUE_BITS), return_counts=True)
    for epsilon in EPSILONS:
        unit, r = subset_width(values, float(epsilon)), np.random.default_rng([5, size])
        estimates = [
            octave_means(values, epsilon, releases, zoom=True),
            octave_means(values, epsilon, releases, zoom=False),
            other_means(values, epsilon, releases, SubsetMean("x")),
            other_means(values, epsilon, max(releases // 5, 20), Center("x", 2)),
            dick_means(distinct, rows, epsilon, 3),
            quantile_means(values, float(epsilon), releases, r),
            coinpress_means(values, float(epsilon), releases, r),
        ]
        ours, *others = (error(means, truth, unit) for means in estimates)
        settings.append(Setting(name, size, epsilon, ours, tuple(others)))
    return settings


def constants(releases: int) -> list[float]:
    """Return errors of means of a constant, in 2**-20 of it times 100 / (rows * epsilon)."""
    errors = []
    for size, epsilon in itertools.product(SIZES, EPSILONS):
        if size * epsilon >= ENOUGH:
            means = octave_means(np.full(size, CONSTANT), epsilon, releases, zoom=True)
            unit = CONSTANT * 2.0**-20 * 100 / (size * float(epsilon))
            errors.append(error(means, CONSTANT, unit))
    return errors


def checks(settings: list[Setting], constant: list[float]) -> dict[str, tuple[str, bool]]:
    """Return each target with its figure and whether it is met."""
    large = [s for s in settings if s.is_large]
    ratios = np.array([s.ratio for s in large])
    worst = max(large, key=lambda s: s.ratio)
    before = np.array([s.ours / s.others[0] for s in large])
    tails = ("Pareto 1.5", "normal, one 1e9")
    over = max((s for s in large if s.data not in tails), key=lambda s: s.ours)
    mean, old = (float(np.exp(np.log(sample).mean())) for sample in (ratios, before))
    return {
        "over the best of the others, geometric mean, at most 0.8": (f"{mean:.2f}", mean <= 0.8),
        "the same at most 1.2 in nine settings of ten": (
            f"{np.mean(ratios <= 1.2):.0%}", bool(np.mean(ratios <= 1.2) >= 0.9)
        ),
        "the same at most 2 in every setting": (
            f"{worst.ratio:.2f} ({where(worst)})", worst.ratio <= 2
        ),
        "over octaves alone, geometric mean, at most 0.45": (f"{old:.2f}", old <= 0.45),
        "over W, heavy tails aside, at most 2": (
            f"{over.ours:.2f} ({where(over)})", over.ours <= 2
        ),
        "a constant, in 2^-20 of it times 100 / (n epsilon), at most 1": (
            f"{max(constant):.2g}", max(constant) <= 1
        ),
    }  # fmt: skip


def where(setting: Setting) -> str:
    return f"{setting.data}, n = {setting.rows:,}, epsilon = {float(setting.epsilon):g}"


def report(settings: list[Setting], targets: dict[str, tuple[str, bool]]) -> str:
    lines = ["| target, for n epsilon of 1,000 and more | figure | met |", "|:--|:--|:--|"]
    lines += [
        f"| {name} | {figure} | {'yes' if met else 'NO'} |"
        for name, (figure, met) in targets.items()
    ]
    titles = ("data", "n", "epsilon", "released", *OTHERS)
    lines += ["", f"| {' | '.join(titles)} |", f"|:--|{'---:|' * (len(titles) - 1)}"]
    for s in sorted(settings, key=lambda s: (s.data, s.rows, s.epsilon)):
        shown = " | ".join(
            "none" if math.isinf(ratio) else f"{ratio:.3g}" for ratio in (s.ours, *s.others)
        )
        lines.append(f"| {s.data} | {s.rows:,} | {float(s.epsilon):g} | {shown} |")
    return "\n".join(lines) + "\n"


def page(releases: int, *, quick: bool) -> tuple[str, bool]:
    """Return the page, and whether all targets are met."""
    releases, sizes = (40, SIZES[:1]) if quick else (releases, SIZES)
    with ProcessPoolExecutor(2) as pool:
        parts = pool.map(
            partial(measure_settings, releases=releases), itertools.product(SETS, sizes)
        )
        settings = list(itertools.chain.from_iterable(parts))
    targets = checks(settings, constants(releases))
    text = (
        f"{releases} releases a setting (a fifth by inverse sensitivity, 60 by Dick et al.); "
        "errors are root mean squares in units of W_epsilon(D).\n\n"
    )
    return text + report(settings, targets), all(met for _, met in targets.values())


if __name__ == "__main__":
    sys.exit(run(__doc__, "bounds.md", page, releases=150))
