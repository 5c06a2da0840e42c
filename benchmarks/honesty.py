"""Count how often intervals without bounds hold the truth about the rows, or say they may not.

    python -m benchmarks.honesty [--quick] [--releases 400] [--output DIR]

Samples of each law are measured once and released several times, with the noise of the package.
An answer is marked if it has a note. Counted are the unmarked answers whose 95 % interval holds the
mean, the sum or the standard deviation of the rows as they are, not clipped; the marked answers;
the width of intervals over that of the noise alone; and the intervals that are absurdly wide, half
their width more than WIDE standard deviations of the rows (of a sum, of as many rows at their root
mean square). Data whose tails are light should hardly be marked. One row that is far larger than
all others can't be seen: it is shown, and counts in no verdict. Writes honesty.md, and ends with
exit code 1 if the intervals of less than 93 % of the unmarked answers of a law, size and epsilon
hold the truth, or more than 5 % of the answers of light tails are marked.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from benchmarks.page import run
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.cli.serve import flights_file
from dfprivacy.engine.adopt import Columns
from dfprivacy.frames.measuring import measure
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.release.pipeline import permit
from dfprivacy.release.terms import read_keys
from dfprivacy.statistics import STATISTICS
from dfprivacy.statistics.octaves import BiasAwareEstimator, MeasuredOctaves, OctavePart

LEVEL = 0.95
HELD, MARKED = 0.93, 0.05
SIZES = {150: 200, 1000: 200, 10**4: 100, 10**5: 40, 10**6: 8}  # rows, and samples of so many
GROUP_SIZES, GROUPS = (150, 1000), 40
EPSILONS = (0.1, 0.5, 1.0, 2.0)
FEWEST = 20  # unmarked answers from which on there is a verdict
ENOUGH = 200  # rows times epsilon from which on there is a verdict
WIDE = 5.0
TRUTHS: dict[str, Callable[[np.ndarray], float]] = {"mean": np.mean, "sum": np.sum, "std": np.std}
LIGHT: dict[str, Callable[[Any, int], np.ndarray]] = {
    "normal(100, 15)": lambda r, n: r.normal(100, 15, n),
    "normal(0, 1)": lambda r, n: r.normal(0, 1, n),
    "years": lambda r, n: r.integers(1990, 2026, n).astype(float),
    "Kelvin": lambda r, n: r.normal(288, 12, n),
    "ages": lambda r, n: np.clip(np.round(r.gamma(4, 10, n)), 0, 105),
    "uniform to 1e6": lambda r, n: r.uniform(0, 1e6, n),
    "exponential": lambda r, n: r.exponential(1, n),
    "bimodal": lambda r, n: np.where(r.random(n) < 0.5, r.normal(-5, 1, n), r.normal(1e3, 10, n)),
    "90 % zeros": lambda r, n: np.where(r.random(n) < 0.9, 0, r.exponential(1000, n)),
}
OTHER: dict[str, Callable[[Any, int], np.ndarray]] = {
    "incomes": lambda r, n: np.round(r.lognormal(np.log(42_000), 0.55, n), -1),
    "prices in cents": lambda r, n: np.round(r.lognormal(7.5, 0.8, n)),
    "lognormal(0, 1)": lambda r, n: r.lognormal(0, 1, n),
    "lognormal(3, 2)": lambda r, n: r.lognormal(3, 2, n),
    "Pareto 1.2": lambda r, n: r.pareto(1.2, n) + 1,
    "Pareto 2": lambda r, n: r.pareto(2, n) + 1,
    "Pareto 3": lambda r, n: r.pareto(3, n) + 1,
}
HELD_OUT: dict[str, Callable[[Any, int], np.ndarray]] = {
    "Weibull .5": lambda r, n: r.weibull(0.5, n),
    "beta(.3, 3)": lambda r, n: r.beta(0.3, 3, n),
    "logistic(-20, 3)": lambda r, n: r.logistic(-20, 3, n),
    "prices of .99": lambda r, n: np.floor(r.lognormal(3, 0.8, n)) + 0.99,
    "triangular 980 to 1040": lambda r, n: r.triangular(980, 1000, 1040, n),
    "uniform(-7, 7)": lambda r, n: r.uniform(-7, 7, n),
    "chi squared(1)": lambda r, n: r.chisquare(1, n),
    "Pareto 2 of both signs": lambda r, n: r.choice([-1, 1], n) * (r.pareto(2, n) + 1),
    "-lognormal(4, 1)": lambda r, n: -r.lognormal(4, 1, n),
    "1000 + student 3": lambda r, n: 1000 + r.standard_t(3, n),
    "two points": lambda r, n: np.where(r.random(n) < 0.3, 3.0, 80.0),
    "Poisson(300)": lambda r, n: r.poisson(300, n).astype(float),
    "5 % zeros, normal(50, 5)": lambda r, n: np.where(r.random(n) < 0.05, 0, r.normal(50, 5, n)),
    "86 % 10, rest below": lambda r, n: np.where(r.random(n) < 0.86, 10.0, r.uniform(0, 10, n)),
    "70 % 20, rest above": lambda r, n: np.where(
        r.random(n) < 0.7, 20.0, 20 + r.exponential(40, n)
    ),
    "Poisson(2)": lambda r, n: r.poisson(2, n).astype(float),
}
"""Laws that no constant of the search was tuned on."""
SPIKES: dict[str, Callable[[Any, int], np.ndarray]] = {
    "13 % beside a spike": lambda r, n: np.where(r.random(n) < 0.13, 5.0, 10.0),
    "99 % 37, rest 3700": lambda r, n: np.where(r.random(n) < 0.01, 3700.0, 37.0),
    "Laplace(3, 8)": lambda r, n: r.laplace(3, 8, n),
    "gamma(.3)": lambda r, n: r.gamma(0.3, 1e5, n),
}
HIDDEN = {"one row of 1e9": lambda r, n: np.append(r.normal(0, 1, n - 1), 1e9)}
LAWS = {**LIGHT, **OTHER, **SPIKES, **HELD_OUT, **HIDDEN}
FLIGHTS = {"flights by carrier": "carrier", "by month": "month", "by destination": "dest"}


@dataclass(frozen=True)
class Shares:
    """Shares of the answers of one data set, and the median width over that of the noise alone.

    `coverage` is the share of unmarked answers whose interval holds the truth, with its standard
    `error` between samples. `wide` is the share of intervals that are absurdly wide, whether
    marked or not.
    """

    data: str
    rows: int
    epsilon: float
    statistic: str
    coverage: float
    error: float
    marked: float
    width: float
    wide: float
    unmarked: int

    @property
    def counts(self) -> bool:
        """Return whether there are enough rows for a verdict, and none that cannot be seen."""
        enough = self.rows * self.epsilon >= ENOUGH and self.unmarked >= FEWEST
        return enough and not self.data.startswith(tuple(HIDDEN))

    @property
    def misses(self) -> bool:
        """Return whether fewer answers hold than HELD, beyond what chance does once in 100."""
        error = max(self.error, math.sqrt(HELD * (1 - HELD) / self.unmarked))
        return self.coverage + 2.33 * error < HELD

    def line(self) -> str:
        """Return a line of the table."""
        return (
            f"| {self.data} | {self.rows:,} | {self.epsilon:g} | {self.statistic} "
            f"| {100 * self.coverage:.1f} ± {100 * self.error:.1f} | {self.unmarked} "
            f"| {100 * self.marked:.0f} "
            f"| {self.width:.2f} | {100 * self.wide:.1f} |"
        )


class Judged(NamedTuple):
    """Which answers hold the truth, are marked, their width over the noise, and which are wide."""

    hits: np.ndarray
    marks: np.ndarray
    widths: np.ndarray
    wide: np.ndarray


@dataclass(frozen=True)
class Data:
    """Samples, or groups of a sample, and the frame that holds them in that order."""

    parts: tuple[np.ndarray, ...]
    frame: pl.DataFrame

    @classmethod
    def of(cls, parts: Iterable[np.ndarray]) -> Data:
        """Make the frame of samples or groups."""
        parts = tuple(parts)
        numbers = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return cls(parts, pl.DataFrame({"x": np.concatenate(parts), "g": numbers}))

    def count(self, question: OctavePart) -> MeasuredOctaves:
        """Count the rows of each sample or group exactly."""
        keys = read_keys(range(len(self.parts)), ["g"])
        counts: Any = measure(self.frame, [question], Columns(["g"], keys))[1][0]
        return counts


def copy_groups(table: BinTable, count: int) -> BinTable:
    """Repeat all groups of a table so many times, each a data set by itself."""
    groups, entries = table.groups, len(table.group)
    group = np.tile(table.group, count) + np.repeat(np.arange(count) * groups, entries)
    keys = pa.table({"key_0": np.arange(groups * count)})
    moments = tuple(np.tile(moment, count) for moment in table.moments)
    bins, rows = np.tile(table.bins, count), np.tile(table.rows, count)
    return BinTable(keys, groups * count, table.binning, group, bins, rows, moments)


def judge_samples(
    data: Data, kind: str, epsilons: Sequence[float], count: int
) -> Iterator[list[Judged]]:
    """Release a statistic of each sample many times at each epsilon, and judge the answers."""
    question: Any = STATISTICS[kind]
    part = OctavePart("x", {"x": question("x")}, grouped=False)
    counts = part.read_measurement(copy_groups(data.count(part).table, count))
    for epsilon in epsilons:
        with permit("benchmarks.honesty"):
            answered = counts.answer_apart(Epsilon(Fraction(str(epsilon))))
        yield list(judge_answer(data, kind, answered.answers["x"][0]))


def judge_groups(
    data: Data, kind: str, epsilons: Sequence[float], count: int
) -> Iterator[list[Judged]]:
    """Release a statistic by group many times at each epsilon, and judge the answers."""
    question: Any = STATISTICS[kind]
    counts = data.count(OctavePart("x", {"x": question("x")}, grouped=True))
    for epsilon in epsilons:
        judged: list[Judged] = []
        for _ in range(count):
            with permit("benchmarks.honesty"):
                answered = counts.answer(Epsilon(Fraction(str(epsilon))), None)
            judged += judge_answer(data, kind, answered.answers["x"][0])
        yield judged


def judge_answer(data: Data, kind: str, answer: Any) -> Iterator[Judged]:
    """Judge the answers of one release, by sample or group. Those without bounds are left out."""
    _, low, high, notes = answer.columns(LEVEL)
    widths = np.full(len(low), np.nan)
    for piece in answer.pieces:
        if isinstance(piece.estimator, BiasAwareEstimator):
            ends = piece.estimator.estimator.interval(piece.vector, LEVEL)
            noise_width = np.where(ends[1] > ends[0], ends[1] - ends[0], np.nan)
            widths[piece.groups] = (high - low)[piece.groups] / noise_width
    marks = np.array([note is not None for note in notes])
    for index, values in enumerate(data.parts):
        rows = np.arange(index, len(low), len(data.parts))
        rows = rows[np.isfinite(low[rows])]
        truth = TRUTHS[kind](values)
        size = len(values) * np.sqrt(np.mean(values**2)) if kind == "sum" else np.std(values)
        hits = (low[rows] <= truth) & (truth <= high[rows])
        yield Judged(hits, marks[rows], widths[rows], (high - low)[rows] / 2 > WIDE * size)


def share_answers(
    name: str, rows: int, epsilon: float, kind: str, judged: Sequence[Judged]
) -> Shares:
    """Compute the shares over the answers of all samples or groups."""
    hits, marks, widths, wide = (np.concatenate(parts) for parts in zip(*judged, strict=True))
    if not len(hits):  # no release has found bounds
        return Shares(name, rows, epsilon, kind, np.nan, np.nan, np.nan, np.nan, np.nan, 0)
    clean, wrong = widths[np.isfinite(widths) & ~marks], ~hits & ~marks
    unmarked = int((~marks).sum())
    coverage = 1 - wrong.sum() / unmarked if unmarked else np.nan
    excess = [((1 - part.hits - (1 - coverage))[~part.marks]).sum() for part in judged]
    return Shares(
        name, rows, epsilon, kind, float(coverage), math.hypot(*excess) / max(unmarked, 1),
        float(marks.mean()), float(np.median(clean)) if len(clean) else np.nan,
        float(wide.mean()), unmarked,
    )  # fmt: skip


def judge_frames(sizes: Mapping[int, int], count: int) -> Iterator[Shares]:
    """Judge answers of whole frames: samples of each law and size, at each epsilon."""
    for name, draw in LAWS.items():
        for rows, samples in sizes.items():
            data = Data.of(
                draw(np.random.default_rng([18, rows, seed]), rows) for seed in range(samples)
            )
            for kind in TRUTHS:
                lines = judge_samples(data, kind, EPSILONS, max(count // samples, 1))
                for epsilon, judged in zip(EPSILONS, lines, strict=True):
                    yield share_answers(name, rows, epsilon, kind, judged)


def judge_grouped_laws(count: int) -> Iterator[Shares]:
    """Judge answers by group: groups of one law, and groups at ten levels."""
    for name, draw in LAWS.items():
        for rows in GROUP_SIZES:
            generator = np.random.default_rng([19, rows])
            parts = [draw(generator, rows) for _ in range(GROUPS)]
            spread = float(np.subtract(*np.quantile(np.concatenate(parts), [0.9, 0.1])))
            for shape, step in {"by group": 0.0, "at ten levels": 3 * spread}.items():
                data = Data.of(part + step * (index % 10) for index, part in enumerate(parts))
                for kind in TRUTHS:
                    lines = judge_groups(data, kind, EPSILONS[1:3], max(count // GROUPS, 1))
                    for epsilon, judged in zip(EPSILONS[1:3], lines, strict=True):
                        yield share_answers(f"{name}, {shape}", rows, epsilon, kind, judged)


def judge_flights(count: int) -> Iterator[Shares]:
    """Judge delays by carrier, month and destination, of 400 rows and more."""
    table = pd.read_csv(flights_file(), usecols=["dep_delay", *FLIGHTS.values()]).dropna()
    for name, key in FLIGHTS.items():
        large_groups = table[table.groupby(key)[key].transform("size") >= 400]
        data = Data.of(
            delays.to_numpy(float) for _, delays in large_groups.groupby(key)["dep_delay"]
        )
        rows = int(large_groups.groupby(key).size().median())
        for kind in TRUTHS:
            lines = judge_groups(data, kind, EPSILONS[1:], max(count // 10, 10))
            for epsilon, judged in zip(EPSILONS[1:], lines, strict=True):
                yield share_answers(name, rows, epsilon, kind, judged)


_HEAD = (
    "| data | rows | epsilon | of | unmarked held, % | unmarked | marked, % | width | wide, % |",
    "|---|---:|---:|---|---:|---:|---:|---:|---:|",
)


def list_wide_shares(lines: list[Shares]) -> str:
    """List the share of absurdly wide intervals of each statistic."""
    shares = {
        kind: np.nanmean([line.wide for line in lines if line.statistic == kind]) for kind in TRUTHS
    }
    return ", ".join(
        f"{100 * share:.2f} % of intervals of a {kind}" for kind, share in shares.items()
    )


def write_report(lines: list[Shares], releases: int) -> tuple[str, bool]:
    """Write the page, and tell whether all verdicts are kept."""
    judged = [line for line in lines if line.counts]
    missed = [line for line in judged if line.misses]
    light = [line for line in judged if line.data in LIGHT]
    marked = float(np.mean([line.marked for line in light]))
    head = [
        (
            f"Intervals at 95 % of answers without bounds, {releases} releases a line, of 8 to 200 "
            f"samples of a law or of {GROUPS} groups. Answers that found no bounds say so and are "
            f"left out. Verdicts count where rows times epsilon is {ENOUGH} and more, and allow "
            f"for chance between samples (1 line in 100). Held out of tuning: "
            f"{', '.join(HELD_OUT)}."
        ),
        "",
        (
            f"- Unmarked intervals hold the truth about the rows in {100 * HELD:.0f} % and more "
            f"in {len(judged) - len(missed)} of {len(judged)} lines; the least with 50 unmarked "
            "answers has "
            f"{100 * min(line.coverage for line in judged if line.unmarked >= 50):.0f} %."
        ),
        f"- Light tails are marked in {100 * marked:.1f} % of releases.",
        (
            f"- Width, over that of the noise alone, median over lines: light tails "
            f"{np.nanmedian([line.width for line in light]):.2f}, all "
            f"{np.nanmedian([line.width for line in judged]):.2f}."
        ),
        (
            f"- Absurdly wide, half the width more than {WIDE:g} standard deviations: "
            f"{list_wide_shares(judged)}."
        ),
        "",
        "Below, the lines that miss; then all lines at epsilon 1.",
        "",
        *_HEAD,
        *(line.line() for line in missed),
        "",
        *_HEAD,
    ]
    table_lines = [line.line() for line in lines if line.epsilon == 1]
    return "\n".join([*head, *table_lines]) + "\n", not missed and marked <= MARKED


def page(releases: int, *, quick: bool) -> tuple[str, bool]:
    """Write the page, and tell whether all verdicts are kept."""
    if quick:
        return write_report(list(judge_frames({1000: 20}, 100)), 100)
    lines = [
        *judge_frames(SIZES, releases),
        *judge_grouped_laws(releases),
        *judge_flights(releases),
    ]
    return write_report(lines, releases)


if __name__ == "__main__":
    sys.exit(run(__doc__, "honesty.md", page))
