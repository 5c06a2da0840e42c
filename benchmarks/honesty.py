"""Count how often intervals without bounds hold the truth about the rows, or say they may not.

    python -m benchmarks.honesty [--quick] [--releases 400] [--output DIR]

Every data set is measured once and released many times, with the noise of the package. Counted are
the releases whose 95 % interval holds the mean, the sum or the standard deviation of the rows as
they are, not clipped; those with a note; the width of intervals over that of the noise alone; and
those that are absurdly wide, half their width more than WIDE standard deviations of the rows (of a
sum, of as many rows at their root mean square).
Data whose tails are light should hardly be marked. One row that is far larger than all others can't
be seen: it is shown, and counts in no verdict. Writes honesty.md, and ends with exit code 1 if less
than 93 % of the releases of a data set hold the truth or are marked, or more than 5 % of the
releases of light tails are marked.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from benchmarks.page import run
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.cli.serve import flights_file
from dfprivacy.frames.measuring import measure
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.release.pipeline import permit
from dfprivacy.release.terms import keys_of
from dfprivacy.statistics import STATISTICS
from dfprivacy.statistics.octaves import BiasAwareEstimator, MeasuredOctaves, OctavePart

LEVEL = 0.95
HELD, MARKED = 0.93, 0.05
SIZES = (200, 1000, 10**4, 10**5, 10**6)
EPSILONS = (0.1, 0.5, 1.0, 2.0)
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
FLIGHTS = {"flights by carrier": "carrier", "by month": "month", "by destination": "dest"}


@dataclass(frozen=True)
class Found:
    """Shares of releases of one data set, and the median width over that of the noise alone.

    `wide` is the share of intervals that are absurdly wide, whether marked or not.
    """

    data: str
    rows: int
    epsilon: float
    statistic: str
    held: float
    marked: float
    either: float
    width: float
    wide: float
    answered: int

    @property
    def counts(self) -> bool:
        """Tell whether there are enough rows for a verdict, and it is no row that can't be seen."""
        enough = self.rows * self.epsilon >= ENOUGH and not np.isnan(self.either)
        return enough and self.data not in HIDDEN

    @property
    def misses(self) -> bool:
        """Tell whether fewer hold or are marked than HELD, beyond what chance does once in 100."""
        wrong = round((1 - self.either) * self.answered)
        fewer = (
            math.comb(self.answered, own) * (1 - HELD) ** own * HELD ** (self.answered - own)
            for own in range(wrong)
        )
        return 1 - sum(fewer) < 0.01

    def line(self) -> str:
        """Return a line of the table."""
        shares = " | ".join(f"{100 * own:.0f}" for own in (self.held, self.marked, self.either))
        return (
            f"| {self.data} | {self.rows:,} | {self.epsilon:g} | {self.statistic} | {shares} "
            f"| {self.width:.2f} | {100 * self.wide:.1f} |"
        )


@dataclass(frozen=True)
class Data:
    """Values of some groups, or of one, and the frame that holds them."""

    groups: tuple[np.ndarray, ...]
    frame: pl.DataFrame

    def count(self, part: OctavePart) -> MeasuredOctaves:
        """Return the exact counts of a part, by group if there are several."""
        labels = ["g"] if part.grouped else []
        keys = keys_of(sorted(set(self.frame["g"])), labels) if part.grouped else None
        counts: Any = measure(self.frame, labels, keys, [part])[1][0]
        return counts


def measured(values: np.ndarray, by: np.ndarray | None = None) -> Data:
    """Return values with their frame, by group where there are groups."""
    if by is None:
        return Data((values,), pl.DataFrame({"x": values}))
    groups = tuple(values[by == name] for name in sorted(set(by.tolist())))
    return Data(groups, pl.DataFrame({"x": values, "g": by}))


def copies_of(table: BinTable, count: int) -> BinTable:
    """Return a table of so many copies of all groups, each a data set of its own."""
    groups, entries = table.groups, len(table.group)
    group = np.tile(table.group, count) + np.repeat(np.arange(count) * groups, entries)
    keys = pa.table({"key_0": np.arange(groups * count)})
    moments = tuple(np.tile(own, count) for own in table.moments)
    bins, rows = np.tile(table.bins, count), np.tile(table.rows, count)
    return BinTable(keys, groups * count, table.binning, group, bins, rows, moments)


def released(data: Data, kind: str, epsilon: float, count: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield hits, marks, widths over the noise, and who is wide, for each group by release.

    Releases without bounds, which say so, are left out.
    """
    grouped = len(data.groups) > 1  # groups find bounds together: each release has all of them
    question: Any = STATISTICS[kind]
    part = OctavePart("x", {"x": question("x")}, grouped=grouped)
    counts, loss = data.count(part), Epsilon(Fraction(str(epsilon)))
    if not grouped:
        counts = part.measured(copies_of(counts.table, count))
    for _ in range(count if grouped else 1):
        with permit("benchmarks.honesty"):
            answered = counts.answer(loss, None) if grouped else counts.answer_apart(loss)
        yield from told(data, kind, answered.answers["x"][0])


def told(data: Data, kind: str, answer: Any) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield hits, marks, widths over the noise, and who is wide, of the releases of each group."""
    _, low, high, notes = answer.columns(LEVEL)
    widths = np.full(len(low), np.nan)
    for piece in answer.pieces:
        if isinstance(piece.estimator, BiasAwareEstimator):
            ends = piece.estimator.clipped.interval(piece.vector, LEVEL)
            alone = np.where(ends[1] > ends[0], ends[1] - ends[0], np.nan)
            widths[piece.groups] = (high - low)[piece.groups] / alone
    finite, marks = np.isfinite(low), np.array([note is not None for note in notes])
    for place, values in enumerate(data.groups):
        own = np.arange(place, len(low), len(data.groups))
        own = own[finite[own]]
        truth = TRUTHS[kind](values)
        size = len(values) * np.sqrt(np.mean(values**2)) if kind == "sum" else np.std(values)
        wide = (high - low)[own] / 2 > WIDE * size
        yield (low[own] <= truth) & (truth <= high[own]), marks[own], widths[own], wide


def summed(name: str, rows: int, epsilon: float, kind: str, found: list[Any]) -> Found:
    """Return the shares over all releases of all groups."""
    hits, marks, widths, wide = (np.concatenate(own) for own in zip(*found, strict=True))
    if not len(hits):  # no release has found bounds
        return Found(name, rows, epsilon, kind, np.nan, np.nan, np.nan, np.nan, np.nan, 0)
    clean = widths[np.isfinite(widths) & ~marks]
    return Found(
        name, rows, epsilon, kind, hits.mean(), marks.mean(), (hits | marks).mean(),
        float(np.median(clean)) if len(clean) else np.nan, wide.mean(), len(hits),
    )  # fmt: skip


def synthetic(sizes: tuple[int, ...], count: int) -> Iterator[Found]:
    """Yield what is found for made-up data: four samples of each law, size and epsilon."""
    for name, make in {**LIGHT, **OTHER, **SPIKES, **HELD_OUT, **HIDDEN}.items():
        for rows in sizes:
            samples = [measured(make(np.random.default_rng([18, rows, s]), rows)) for s in range(4)]
            for epsilon in EPSILONS:
                for kind in TRUTHS:
                    found = [
                        own for data in samples for own in released(data, kind, epsilon, count // 4)
                    ]
                    yield summed(name, rows, epsilon, kind, found)


def flights(count: int) -> Iterator[Found]:
    """Yield what is found for delays by carrier, month and destination, of 400 rows and more."""
    table = pd.read_csv(flights_file(), usecols=["dep_delay", *FLIGHTS.values()]).dropna()
    for name, key in FLIGHTS.items():
        held = table[table.groupby(key)[key].transform("size") >= 400]
        data = measured(held["dep_delay"].to_numpy(float), held[key].astype(str).to_numpy())
        rows = int(held.groupby(key).size().median())
        for epsilon in EPSILONS[1:]:
            for kind in TRUTHS:
                found = list(released(data, kind, epsilon, max(count // 10, 10)))
                yield summed(name, rows, epsilon, kind, found)


_HEAD = (
    "| data | rows | epsilon | of | held | marked | either | width / noise | wide |",
    "|---|---:|---:|---|---:|---:|---:|---:|---:|",
)


def shares_wide(found: list[Found]) -> str:
    """Return the share of absurdly wide intervals of each statistic, in words."""
    shares = {
        kind: np.nanmean([one.wide for one in found if one.statistic == kind]) for kind in TRUTHS
    }
    return ", ".join(f"{100 * own:.2f} % of intervals of a {kind}" for kind, own in shares.items())


def report(found: list[Found], releases: int) -> tuple[str, bool]:
    """Return the page, and whether all verdicts are kept."""
    own = [one for one in found if one.counts]
    low = [one for one in own if one.misses]
    light = [one for one in own if one.data in LIGHT]
    marked = float(np.mean([one.marked for one in light]))
    head = [
        (
            f"Intervals at 95 % of answers without bounds, {releases} releases a line; shares "
            f"in per cent of those that found bounds; others say so. Verdicts count where rows "
            f"times epsilon is {ENOUGH} and more, and allow for chance. Held out of tuning: "
            f"{', '.join(HELD_OUT)}."
        ),
        "",
        (
            f"- {len(own) - len(low)} of {len(own)} lines hold the truth about the rows, or are "
            f"marked, in {100 * HELD:.0f} % of releases; the least has "
            f"{100 * min(one.either for one in own if one.answered > releases / 20):.0f} %."
        ),
        f"- Light tails are marked in {100 * marked:.1f} % of releases.",
        (
            f"- Width over that of the noise alone, median over lines: light tails "
            f"{np.nanmedian([one.width for one in light]):.2f}, all "
            f"{np.nanmedian([one.width for one in own]):.2f}."
        ),
        (
            f"- Absurdly wide, half the width more than {WIDE:g} standard deviations: "
            f"{shares_wide(own)}."
        ),
        "",
        "Below, those that are not kept; then all lines at epsilon 1.",
        "",
        *_HEAD,
        *(one.line() for one in low),
        "",
        *_HEAD,
    ]
    listed = [one.line() for one in found if one.epsilon == 1]
    return "\n".join([*head, *listed]) + "\n", not low and marked <= MARKED


def page(releases: int, *, quick: bool) -> tuple[str, bool]:
    """Return the page, and whether all verdicts are kept."""
    releases, sizes = (100, SIZES[1:3]) if quick else (releases, SIZES)
    found = [*synthetic(sizes, releases), *([] if quick else flights(releases))]
    return report(found, releases)


if __name__ == "__main__":
    sys.exit(run(__doc__, "honesty.md", page))
