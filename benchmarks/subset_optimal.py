"""The mean without bounds, measured: E|error| over W_epsilon(D), beside Dick et al. and bounds.

    python -m benchmarks.subset_optimal [--quick] [--releases 400] [--draws 30] [--output DIR]

W_epsilon(D) = (sum of the t largest - sum of the t smallest) / (n - t), t = 1/epsilon rounded up,
is what an algorithm that knows D can't beat by more than a constant (Dick et al. 2023, Lemma 3.2).
Every figure comes from shipped code: one octave table, copied to many groups, gives independent
releases of the mean without bounds; `dick_bounds` and `add_noise` give the others. Prints tables,
writes subset_optimal.md, and ends with exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa

from benchmarks.octave_rule import ENOUGH, SIZES, data_sets, octaves_alone, subset_width
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.measurement.bin_table import BinTable, bin_table
from dfprivacy.measurement.binning import VALUE_BITS, Octaves, clip_values, round_values
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.sums import Statistics, key_names, sum_name
from dfprivacy.noise.additive import add_noise
from dfprivacy.papers.kulesza2023 import ShiftedMean
from dfprivacy.papers.subset_optimal import RankedMeanPart, dick_bounds
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics import LinearStatistic, Mean, octaves
from dfprivacy.statistics.linear import plan_vectors
from dfprivacy.statistics.octaves import MeasuredOctaves, OctavePart

EPSILONS = (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2))
LARGE = 10**5  # beyond it the bounds of Dick et al. are drawn for two epsilons; from it on, rarely
HEAVY = ("Pareto 1.5", "Cauchy")


@dataclass(frozen=True)
class Errors:
    """The mean and the 99th percentile of |error|, in one unit, and the standard error of the mean.

    `none` is the part of the releases that said NaN for want of bounds; the rest counts.
    """

    mean: float
    error: float
    high: float
    none: float


@dataclass(frozen=True)
class Setting:
    """One data set of one size under one epsilon; errors are in units of W, or of |value|/(n e)."""

    data: str
    rows: int
    epsilon: Fraction
    unit: float
    ours: Errors
    bounded: tuple[Errors, ...]
    dick: Errors | None

    @property
    def is_large(self) -> bool:
        return self.rows * self.epsilon >= ENOUGH


def octave_table(values: np.ndarray, copies: int) -> BinTable:
    """Return the octave table of as many groups that all hold these values."""
    octaves, rounded_values = Octaves(), round_values(clip_values(values), VALUE_BITS)
    none, ones = np.zeros(len(values), np.int64), np.ones(len(values), np.int64)
    table = bin_table(
        pa.table({}), 1, octaves, none, octaves.labels(values), rows=ones, moments=[rounded_values]
    )
    group = np.repeat(np.arange(copies), len(table.bins))
    bins, rows, sums = (np.tile(a, copies) for a in (table.bins, table.rows, table.moments[0]))
    keys = pa.table([np.arange(copies)], key_names(1))
    return BinTable(keys, copies, octaves, group, bins, rows, (sums,))


@permit("a benchmark")
def our_means(table: BinTable, epsilon: Fraction) -> np.ndarray:
    """Return one mean without bounds a group, NaN where it found none: a frame can't borrow any."""
    part, loss = OctavePart("x", {"x": Mean("x")}, grouped=False), Epsilon(epsilon)
    with mock.patch.object(octaves, "find_bounds", octaves_alone):
        answered = MeasuredOctaves(part, table).answer_apart(loss)
    value, low, *_ = answered.answers["x"][0].columns(0.95)
    return np.where(np.isfinite(low), value, np.nan)


@permit("a benchmark")
def bounded_means(
    distinct: np.ndarray, rows: np.ndarray, mean: LinearStatistic, loss: Epsilon, copies: int
) -> np.ndarray:
    """Return independent means with bounds, as a pass over so many equal groups would have them."""
    plan = plan_vectors({"x": mean}, grouped=True)
    source = plan.linears[0].source
    (q,) = source.terms
    total = int((q.of({"x": distinct}) * rows).sum())
    sums = {sum_name(0): [int(rows.sum())] * copies, sum_name(0, 1): [total] * copies}
    exact = Statistics(pa.table(sums), 0, (source,)).check_rows()
    noisy = add_noise(exact, plan.linears, plan.noises(loss))
    return plan.answers[0].estimator.value(noisy[0])


@permit("a benchmark")
def dick_means(distinct: np.ndarray, rows: np.ndarray, epsilon: Fraction, draws: int) -> np.ndarray:
    """Return means by Dick et al., Algorithm 3: each draw of the bounds with 20 of the noise."""
    means = []
    for _ in range(draws):
        bounds, left = dick_bounds(distinct, rows, Epsilon(epsilon))
        means.append(bounded_means(distinct, rows, ShiftedMean("x", bounds), left, 20))
    return np.concatenate(means)


def given_bounds(values: np.ndarray) -> list[Bounds]:
    """Return [min, max], and bounds 10 and 1000 times as wide around the same center.

    A constant has no width; its "perfect" bounds are [value / 2, 3 value / 2].
    """
    low, high = float(values.min()), float(values.max())
    center, half = (low + high) / 2, (high - low) / 2 or abs(low) / 2
    return [Bounds(center - half * factor, center + half * factor) for factor in (1, 10, 1000)]


def errors(means: np.ndarray, truth: float, unit: float, clusters: int = 0) -> Errors:
    """Summarise |error| in units; draws that share their bounds are a cluster."""
    missing = np.isnan(means)
    sizes = np.abs(means[~missing] - truth) / unit
    if not len(sizes):
        return Errors(np.nan, np.nan, np.nan, 1.0)
    ways = [sizes, sizes.reshape(clusters, -1).mean(axis=1)] if clusters else [sizes]
    error = max(float(parts.std() / math.sqrt(len(parts))) for parts in ways)
    return Errors(float(sizes.mean()), error, float(np.quantile(sizes, 0.99)), missing.mean())


def measure_settings(data: tuple[str, np.ndarray], releases: int, draws: int) -> list[Setting]:
    """Measure one data set under every epsilon."""
    name, values = data
    table, truth, size = octave_table(values, releases), float(values.mean()), len(values)
    distinct, rows = np.unique(
        round_values(clip_values(values), RankedMeanPart.whole_bits), return_counts=True
    )
    settings = []
    for epsilon in EPSILONS:
        unit = subset_width(values, float(epsilon)) or abs(truth) / (size * float(epsilon))
        ours = errors(our_means(table, epsilon), truth, unit)
        bounded_estimates = [
            bounded_means(distinct, rows, Mean("x", bounds), Epsilon(epsilon), releases)
            for bounds in given_bounds(values)
        ]
        dick = None
        if size <= LARGE or len(distinct) <= LARGE or epsilon in EPSILONS[::2]:
            times = draws if len(distinct) < LARGE / 2 else max(draws // 10, 2)
            dick = errors(dick_means(distinct, rows, epsilon, times), truth, unit, times)
        bounded = tuple(errors(means, truth, unit) for means in bounded_estimates)
        settings.append(Setting(name, size, epsilon, unit, ours, bounded, dick))
    return settings


def replay(seed: int):
    """Return a source of bytes whose k-th call gives the same bytes in every run."""
    calls = itertools.count()
    return lambda size: np.random.default_rng([seed, next(calls)]).bytes(size)


def scale_alike(seeds: int) -> list[bool]:
    """Return, by seed, whether 2**20 times the data gives 2**20 times the answer exactly.

    At epsilon 1000: noise lifts empty bins, which lie elsewhere relative to the data.
    """
    matches = []
    for seed, data in itertools.product(range(seeds), data_sets((1000,))):
        answers = []
        for factor in (1.0, 2.0**20):
            table = octave_table(data[1] * factor, 1)
            with mock.patch.object(os, "urandom", replay(seed)):
                answers.append(our_means(table, Fraction(1000))[0] / factor)
        matches.append(answers[0] == answers[1] or all(map(math.isnan, answers)))
    return matches


def checks(settings: list[Setting], matches: list[bool]) -> dict[str, tuple[str, bool]]:
    """Return each target with its worst figure and whether it is met.

    A figure misses its target when it lies beyond by more than three standard errors.
    """
    large = [s for s in settings if s.is_large]
    comparable = [s for s in large if s.dick is not None]
    ratios = [s.ours.mean / s.dick.mean for s in comparable]
    behind = max(comparable, key=lambda s: min(s.ours.mean / s.dick.mean / 1.3, s.ours.mean / 1.5))
    wide = max(large, key=lambda s: s.ours.mean / s.bounded[1].mean)
    usual = [s for s in large if s.data not in (*HEAVY, "constant 3.7")]
    worst = max(usual, key=lambda s: s.ours.mean)
    median, times = float(np.median(ratios)), behind.ours.mean / behind.dick.mean
    return {
        "median of E|error| over that of Dick et al., at most 0.5": (
            f"{median:.4f}", median <= 0.5
        ),
        "nowhere both above 1.3 times Dick et al. and above 1.5 W": (
            f"{times:.2f} times, {behind.ours.mean:.2f} W ({where(behind)})",
            all(limit(s.ours, -1) <= max(1.3 * limit(s.dick, 1), 1.5) for s in comparable),
        ),
        "E|error| over that with bounds 10 times too wide, at most 1": (
            f"{wide.ours.mean / wide.bounded[1].mean:.2f} ({where(wide)})",
            all(limit(s.ours, -1) <= limit(s.bounded[1], 1) for s in large),
        ),
        "E|error| over W, except Pareto, Cauchy and the constant, at most 5": (
            f"{worst.ours.mean:.2f} ({where(worst)})", all(limit(s.ours, -1) <= 5 for s in usual)
        ),
        "releases that found bounds, all": (
            f"{1 - max(s.ours.none for s in large):.1%}", all(s.ours.none == 0 for s in large)
        ),
        "2^20 times the data, 2^20 times the answer, bit by bit, empty bins aside": (
            f"{sum(matches)} of {len(matches)}", all(matches)
        ),
    }  # fmt: skip


def limit(measured: Errors, sign: int) -> float:
    return measured.mean + 3 * sign * measured.error


def where(setting: Setting) -> str:
    return f"{setting.data}, n = {setting.rows:,}, epsilon = {float(setting.epsilon):g}"


INTRODUCTION = """\
{releases} releases a setting, {draws} draws of the bounds of Dick et al. with 20 of the noise each
({fewer} for 50,000 distinct values and more; two epsilons for a million). Errors are in units of W,
W_epsilon(D); p99 is the 99th percentile. A constant has W = 0: its unit is |value| / (n epsilon),
its "perfect" bounds are [value / 2, 3 value / 2]; otherwise they are [min, max] of the data, which
nobody knows. "no bounds": the part of the releases that said NaN; the errors are those of the rest.
Targets are for n epsilon >= 1000.
"""
TITLES = (
    *("data", "n", "epsilon", "W", "E/W", "s.e.", "p99", "no bounds"),
    *("Dick: E/W", "s.e.", "p99", "perfect: E/W", "10 times", "1000 times"),
)


def report(settings: list[Setting], targets: dict[str, tuple[str, bool]]) -> str:
    lines = ["| target | worst figure | met |", "|:--|:--|:--|"]
    for target, (figure, met) in targets.items():
        escaped = target.replace("|", "\\|")
        lines.append(f"| {escaped} | {figure} | {'yes' if met else 'NO'} |")
    lines += ["", f"| {' | '.join(TITLES)} |", f"|:--|{'---:|' * (len(TITLES) - 1)}"]
    for s in sorted(settings, key=lambda s: (s.data, s.rows, s.epsilon)):
        ours = (s.ours.mean, s.ours.error, s.ours.high, s.ours.none)
        dick = (s.dick.mean, s.dick.error, s.dick.high) if s.dick else (np.nan,) * 3
        figures = (*ours, *dick, *(bounded.mean for bounded in s.bounded))
        shown = " | ".join("" if np.isnan(figure) else f"{figure:.3g}" for figure in figures)
        lines.append(f"| {s.data} | {s.rows:,} | {float(s.epsilon):g} | {s.unit:.3g} | {shown} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a minute, to see that it runs")
    parser.add_argument("--releases", type=int, default=400)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    releases, draws = (100, 4) if options.quick else (options.releases, options.draws)
    start, sets = time.perf_counter(), data_sets((300, 10**4) if options.quick else SIZES)
    with ProcessPoolExecutor(2) as pool:
        measure = partial(measure_settings, releases=releases, draws=draws)
        parts = pool.map(measure, sorted(sets, key=lambda data: -len(data[1])))
        settings = list(itertools.chain.from_iterable(parts))
    targets = checks(settings, scale_alike(2 if options.quick else 10))
    text = INTRODUCTION.format(releases=releases, draws=draws, fewer=max(draws // 10, 2))
    text += "\n" + report(settings, targets)
    print(text, f"{time.perf_counter() - start:.0f} s", sep="\n")
    if not options.quick:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "subset_optimal.md").write_text(text)
    return 0 if all(met for _, met in targets.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
