"""The experiment behind the constants of octave bounds: share of epsilon, LEAST and GROWTH.

    python -m benchmarks.octave_rule [--quick] [--releases 400] [--output DIR]

The shipped rule reads bounds off noisy octaves; noise here is numpy's, which is quick. Every choice
of constants meets the same noise. Beside it stands a rule that also asks the more of a bin the more
octaves it lies from the bounds so far. Prints tables, writes octave_rule.md, and ends with exit
code 1 if some choice of constants is clearly better than the shipped one, on average and at worst.
"""

from __future__ import annotations

import itertools
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd

from benchmarks.page import run
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.cli.demo import flights_file
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Octaves
from dfprivacy.noise.exceedances import Exceedances, exceedances
from dfprivacy.statistics.estimators import octave_bounds as shipped
from dfprivacy.statistics.estimators.zoom import PARTS, OctaveHistogram, Zoomed

SIZES = (300, 1000, 10**4, 10**5, 10**6)
EPSILONS = (0.1, 0.5, 1.0, 2.0)
ENOUGH = 1000  # rows times epsilon from which on an error counts
SHARES = (1 / 8, 1 / 4, 3 / 8, 1 / 2)
LEASTS = (4.0, 5.0, 6.0, 8.0)
GROWTHS = (0.7, 1.0, 1.5, 2.0)
NEAR = tuple(itertools.product(LEASTS, GROWTHS, (0.0,)))
DISTANT = tuple(itertools.product((2.0, 2.5, 3.0, 4.0), (1.5, 2.0), (2.0,)))
SHIPPED = (float(shipped.SHARE), shipped.LEAST, shipped.GROWTH, 0.0)
CLEARLY = 0.95  # a choice is better if both its figures are below so much of the shipped ones
FLIGHTS = ("dep_delay", "distance", "air_time")
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

Choice = tuple[float, float, float, float]
"""Share of epsilon, LEAST, GROWTH, and DISTANCE: what the logarithm of octaves in between costs."""


def octaves_alone(table: BinTable, loss: Epsilon, *, held: bool = False) -> Zoomed:
    """Return the bounds of each group that its octaves alone tell, for 3/8 of the loss.

    With `held`, octaves that hold no row of any don't count, however tall the noise has made them.
    """
    noisy = exceedances(table, loss.share(shipped.SHARE).noise(1, 1), shipped.LEAST)
    seen = np.isin(noisy.bins, table.bins) | (not held)
    own = (noisy.group[seen], noisy.bins[seen], noisy.counts[seen])
    found = shipped.octave_bounds(Exceedances(*own, noise=noisy.noise), table.groups)
    left, none = int(PARTS * (1 - shipped.SHARE)), np.zeros(table.groups, np.int64)
    one = OctaveHistogram(np.arange(table.groups), left, table, noisy)
    unknown = np.full(table.groups, np.nan)
    return Zoomed(table, found, [one], none, none, (unknown, unknown))


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


@dataclass(frozen=True)
class Profile:
    """Rows and sums of every octave of a data set."""

    rows: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Profile:
        octaves = Octaves()
        places = octaves.numbers(octaves.labels(values)) + octaves.last
        size = 2 * octaves.last + 1
        return cls(np.bincount(places, minlength=size), np.bincount(places, values, size))

    def means(
        self, lower: np.ndarray, upper: np.ndarray, epsilon: float, random: np.random.Generator
    ) -> np.ndarray:
        """Return transformed means within bounds; numpy's Laplace noise."""
        held = np.flatnonzero(self.rows)
        numbers, rows, sums = held - Octaves().last, self.rows[held], self.sums[held]
        low, high = lower[:, None], upper[:, None]
        below = (Octaves().upper(numbers) <= low) & ((numbers != 0) | (low > 0))
        above = (Octaves().lower(numbers) >= high) & ((numbers != 0) | (high < 0))
        total = np.where(below, low * rows, np.where(above, high * rows, sums)).sum(axis=1)
        size, width = rows.sum(), upper - lower
        noise = random.laplace(size=(2, len(lower))) / epsilon
        first, second = (total - size * lower) / width, (size * upper - total) / width
        first, whole = first + noise[0], first + second + noise.sum(axis=0)
        ratio = np.divide(first, whole, out=np.full_like(whole, 0.5), where=whole > 0)
        return lower + width * np.clip(ratio, 0, 1)


def noisy_heights(
    profile: Profile, epsilon: float, releases: int, random: np.random.Generator
) -> np.ndarray:
    """Return noisy counts in units of the noise's scale, one row a release."""
    return profile.rows * epsilon + random.laplace(size=(releases, len(profile.rows)))


def shipped_bounds(heights: np.ndarray, least: float, growth: float) -> shipped.FoundBounds:
    """Return the bounds that the shipped rule reads off, with other constants."""
    group, place = np.nonzero(heights >= least)
    noisy = Exceedances(group, place - Octaves().last, heights[group, place])
    with mock.patch.object(shipped, "LEAST", least):
        return shipped.octave_bounds(noisy, len(heights), shipped.Joining(least, growth))


def distant_bounds(
    heights: np.ndarray, least: float, growth: float, distance: float
) -> shipped.FoundBounds:
    """Return bounds by the shipped walk, where a farther bin has to be taller to join.

    It joins from least + growth * log2(width with it / width without it) + distance * log(octaves)
    on, octaves between its size and that of the outer end of the bounds so far: 1 at least, and 1
    for the bin of zero.
    """
    octaves, everyone = Octaves(), np.arange(len(heights))
    group, place = np.nonzero(heights >= least)
    tall, numbers = heights[group, place], place - octaves.last
    lower, upper, size = octaves.lower(numbers), octaves.upper(numbers), np.abs(numbers)
    starts = np.searchsorted(group, np.arange(len(heights) + 1))
    core = np.where(np.arange(heights.shape[1]) == octaves.last, -np.inf, heights).argmax(axis=1)
    found = heights[everyone, core] >= shipped.CORE
    width = heights.shape[1]
    low = np.searchsorted(group * width + place, everyone * width + core)
    high = low.copy()
    for moving, step in ((high, 1), (low, -1)) * 2:
        active = np.flatnonzero(found)
        next_ = moving[active] + step
        while len(active):
            inside = (next_ >= starts[active]) & (next_ < starts[active + 1])
            active, next_ = active[inside], next_[inside]
            bottom, top = lower[low[active]], upper[high[active]]
            wider = np.maximum(upper[next_], top) - np.minimum(lower[next_], bottom)
            outer = np.maximum(size[low[active]], size[high[active]])
            between = np.where(numbers[next_] == 0, 1, np.maximum(np.abs(size[next_] - outer), 1))
            asked = least + growth * np.log2(wider / (top - bottom)) + distance * np.log(between)
            joins = tall[next_] >= asked
            moving[active[joins]] = next_[joins]
            next_ = next_ + step
    low, high = (np.minimum(ends, len(place) - 1) for ends in (low, high))
    ends = np.where(found, lower[low], np.nan), np.where(found, upper[high], np.nan)
    return shipped.FoundBounds(*ends, zeros=~found)


def measured(
    data: tuple[str, np.ndarray], releases: int
) -> list[tuple[str, Choice, float, float, int]]:
    """Return E|error| / W, its 99th percentile and how many found no bounds, by choice."""
    name, values = data
    profile, truth, found = Profile.of(values), values.mean(), []
    for epsilon in EPSILONS:
        if len(values) * epsilon < ENOUGH:
            continue
        unit = subset_width(values, epsilon)
        for share in SHARES:
            random = np.random.default_rng([len(values), int(10 * epsilon)])
            heights = noisy_heights(profile, epsilon * share, releases, random)
            for least, growth, distance in (*NEAR, *DISTANT):
                if distance:
                    bounds = distant_bounds(heights, least, growth, distance)
                else:
                    bounds = shipped_bounds(heights, least, growth)
                lower, upper = bounds.lower[bounds.found], bounds.upper[bounds.found]
                same = np.random.default_rng([len(values), int(10 * epsilon), 1])
                means = profile.means(lower, upper, epsilon * (1 - share), same)
                sizes = np.abs(means - truth) / unit
                high = float(np.quantile(sizes, 0.99))
                missing = int(np.sum(~bounds.found))
                found.append(
                    (name, (share, least, growth, distance), float(sizes.mean()), high, missing)
                )
    return found


def summary(found: list[tuple[str, Choice, float, float, int]]) -> pd.DataFrame:
    """Return geometric mean and worst of both figures, by choice."""
    columns = ["data", "choice", "error", "p99", "none"]
    by_choice = pd.DataFrame(found, columns=columns).groupby("choice")
    return pd.DataFrame(
        {
            "E/W": np.exp(by_choice["error"].apply(lambda errors: np.log(errors).mean())),
            "worst E/W": by_choice["error"].max(),
            "p99/W": np.exp(by_choice["p99"].apply(lambda errors: np.log(errors).mean())),
            "worst p99/W": by_choice["p99"].max(),
            "no bounds": by_choice["none"].sum(),
        }
    )


def better(table: pd.DataFrame) -> pd.DataFrame:
    """Return the choices that are clearly better than the shipped one, on average and at worst."""
    own = table.loc[[SHIPPED]].iloc[0]
    means, worst = (table[name] < CLEARLY * own[name] for name in ("E/W", "worst E/W"))
    near = table.index.map(lambda choice: choice[3] == 0)
    return table[means & worst & near]


def report(table: pd.DataFrame, releases: int, settings: int) -> str:
    own = table.loc[[SHIPPED]].iloc[0]
    distant = table[table.index.map(lambda choice: choice[3] > 0)]
    best = (distant["E/W"] / own["E/W"] * distant["worst E/W"] / own["worst E/W"]).idxmin()
    lines = [
        f"{releases} releases for each of {settings} data sets, sizes and epsilons (n epsilon >= "
        f"{ENOUGH}, no constant data); geometric means over these, and the worst. Shipped: share "
        "{:g}, LEAST {:g}, GROWTH {:g}, in bold. DISTANCE 0 is the shipped rule; other values are "
        "the rule of `distant_bounds`, with DISTANCE times the logarithm of the octaves between a "
        "bin and the bounds so far.".format(*SHIPPED),
        "",
        (
            f"Choices of constants with both E/W figures below {CLEARLY} of the shipped ones: "
            f"{len(better(table))}. Best of the other rule, by the product of both: share, LEAST, "
            f"GROWTH, DISTANCE = {best}."
        ),
        "",
        f"| share | LEAST | GROWTH | DISTANCE | {' | '.join(table.columns)} |",
        "|---:" * (4 + len(table.columns)) + "|",
    ]
    for choice, figures in table.iterrows():
        mark = "**" if choice == SHIPPED else ""
        cells = [f"{mark}{figure:.4g}{mark}" for figure in (*choice, *figures)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page(releases: int, *, quick: bool) -> tuple[str, bool]:
    """Return the page, and whether no choice of constants is clearly better."""
    releases, sizes = (100, SIZES[1:3]) if quick else (releases, SIZES)
    sets = [data for data in data_sets(sizes) if not data[0].startswith("constant")]
    with ProcessPoolExecutor(2) as pool:
        found = list(itertools.chain(*pool.map(partial(measured, releases=releases), sets)))
    table = summary(found)
    return report(table, releases, len(found) // len(table)), not len(better(table))


if __name__ == "__main__":
    sys.exit(run(__doc__, "octave_rule.md", page))
