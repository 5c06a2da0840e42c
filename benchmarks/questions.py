"""Measure the questions that analysts ask next: error beside other forms, coverage, and time.

    python -m benchmarks.questions [--rows 20000000] [--rounds 400] [--only nunique]

Errors and coverage are of many releases of one table like nycflights13 (336,776 flights of 4,043
aeroplanes to 105 places, a tenth of the places missing). Other libraries' forms are simulated by
the noise that they document, at the same loss. Times are of processor time over the engine's own
aggregate, best of several runs in turn. A question adds a function to `ACCURACY` or `TIMES`.
Writes benchmarks/results/questions.md; ends with exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl

import dfprivacy as dfp
from benchmarks.speed import measure_in_turn
from dfprivacy.accounting.composition import rho_within

RESULTS = Path(__file__).parent / "results" / "questions.md"
EPSILONS = (0.5, 1.0)
FLIGHTS, PLANES, PLACES = 336_776, 4_043, 105
NUNIQUE = 2.0
"""How much longer than the engine's own aggregate it may take; a share has no target."""
DESCRIBE = 3.0
"""How much longer than the engine's own aggregates of all columns, in one pass, it may take."""

CORR = 3.0
"""How much longer than the engine's own correlation it may take."""

CROSSTAB = 1.5
"""How much longer than the engine's own group-by a table with its totals may take."""

Timed = tuple[str, str, Callable[[], object], Callable[[], object], float | None]


@dataclass(frozen=True)
class Accuracy:
    """The root mean squared error of one question in one form, and how often intervals hold."""

    question: str
    form: str
    epsilon: float
    error: float
    coverage: float | None = None
    endless: float | None = None  # intervals without ends: noise could hide that columns vary

    def line(self) -> str:
        """Return a row of the table."""
        coverage, endless = (
            "" if part is None else f"{100 * part:.1f} %" for part in (self.coverage, self.endless)
        )
        cells = (
            self.question,
            self.form,
            f"{self.epsilon:g}",
            f"{self.error:.3g}",
            coverage,
            endless,
        )
        return f"| {' | '.join(cells)} |"


@dataclass(frozen=True)
class Timing:
    """One question over the engine's own aggregate."""

    question: str
    engine: str
    plain: float
    ours: float
    target: float | None

    @property
    def met(self) -> bool:
        """Return whether it is quick enough."""
        return self.target is None or self.ours <= self.target * self.plain

    def line(self) -> str:
        """Return a row of the table."""
        ratio, verdict = self.ours / self.plain, "yes" if self.met else "NO"
        target, verdict = ("", "") if self.target is None else (f"{self.target:g}", verdict)
        cells = (f"{self.plain:.3f}", f"{self.ours:.3f}", f"{ratio:.2f}", target, verdict)
        return f"| {self.question} | {self.engine} | {' | '.join(cells)} |"


def flights(seed: int = 13) -> pl.DataFrame:
    """Return a table like nycflights13: few planes fly most, and some places are missing."""
    draws = np.random.default_rng(seed)
    weights = draws.pareto(1.2, PLANES) + 0.05
    planes = np.concatenate([
        np.arange(PLANES), draws.choice(PLANES, FLIGHTS - PLANES, p=weights / weights.sum())
    ])  # fmt: skip
    places = draws.zipf(1.3, FLIGHTS) % PLACES
    frame = pl.DataFrame({"plane": planes, "place": places, "late": draws.random(FLIGHTS) < 0.23})
    missing = draws.random(FLIGHTS) < 0.1
    return frame.with_columns(place=pl.when(pl.Series(~missing)).then("place"))


def _ours(
    question: str, ask: Callable[[float], dfp.Estimate], truth: float, rounds: int
) -> Iterator[Accuracy]:
    for epsilon in EPSILONS:
        estimates = [ask(epsilon) for _ in range(rounds)]
        error = np.sqrt(np.mean([(estimate - truth) ** 2 for estimate in estimates]))
        coverage = np.mean([estimate.low <= truth <= estimate.high for estimate in estimates])
        yield Accuracy(question, "dfprivacy", epsilon, float(error), float(coverage))


def _simulate_case(
    question: str, form: str, draw: Callable[[float], np.ndarray], truth: float
) -> Iterator[Accuracy]:
    for epsilon in EPSILONS:
        error = np.sqrt(np.mean((draw(epsilon) - truth) ** 2))
        yield Accuracy(question, form, epsilon, float(error))


def nunique_accuracy(rounds: int) -> Iterator[Accuracy]:
    """Different values, beside an exact count with Laplace noise; and with users of many rows."""
    frame, draws = flights(), np.random.default_rng(1)
    question = "nunique(plane)"
    yield from _ours(
        question, lambda e: dfp.frame(frame).nunique("plane", epsilon=e), PLANES, rounds
    )
    form = "OpenDP: count_distinct and Laplace 1/epsilon"
    yield from _simulate_case(
        question, form, lambda e: np.round(PLANES + draws.laplace(0, 1 / e, 100_000)), PLANES
    )
    for rows in (1, 2, 5):
        private = dfp.frame(frame)(unit="plane", max_rows=rows)
        places = frame["place"].n_unique() - 1
        count = float(private.nunique("place", epsilon=1e9))
        form = f"dfprivacy, unit=plane, max_rows={rows}: {count:.0f} of {places} places count"
        for accuracy in _ours(
            "nunique(place)",
            lambda e, p=private: p.nunique("place", epsilon=e),
            places,
            rounds // 4,
        ):
            yield Accuracy(accuracy.question, form, accuracy.epsilon, accuracy.error)
        units = _ours(
            f"nunique(plane), unit=plane, max_rows={rows}",
            lambda e, p=private: p.nunique("plane", epsilon=e), PLANES, rounds // 4,
        )  # fmt: skip
        if rows == 5:
            yield from units


def share_accuracy(rounds: int) -> Iterator[Accuracy]:
    """Ask for a share, beside two counts with half of epsilon each, and a mean of known n."""
    frame, draws = flights().head(1000), np.random.default_rng(2)
    truth, rows = float(frame["late"].mean()), frame.height
    question = "share(late), 1,000 rows"
    yield from _ours(question, lambda e: dfp.frame(frame).share("late", epsilon=e), truth, rounds)

    def two_counts(epsilon: float) -> np.ndarray:
        late, every = draws.laplace(0, 2 / epsilon, (2, 100_000))
        return np.clip((truth * rows + late) / (rows + every), 0, 1)

    yield from _simulate_case(question, "OpenDP: two counts, epsilon/2 each", two_counts, truth)
    form = "diffprivlib: mean of bounds (0, 1); it takes the number of rows for public"
    yield from _simulate_case(
        question, form, lambda e: truth + draws.laplace(0, 1 / (e * rows), 100_000), truth
    )


def crosstab_accuracy(rounds: int) -> Iterator[Accuracy]:
    """Ask for a table of 4 by 105 public cells with its totals, beside noise on each cell alone.

    A contingency table of OpenDP with public keys has noise of scale 1/epsilon on each cell; its
    totals are sums of those. Errors are over all cells, or totals, of each release.
    """
    draws = np.random.default_rng(6)
    frame = flights().drop_nulls("place")
    frame = frame.with_columns(season=pl.Series(draws.integers(0, 4, frame.height)))
    keys = {"season": list(range(4)), "place": list(range(PLACES))}
    shape = (4, PLACES)
    truth = np.zeros(shape)
    np.add.at(truth, (frame["season"].to_numpy(), frame["place"].to_numpy()), 1)
    kinds = ("cells", "totals by season", "totals by place")
    for epsilon in EPSILONS:
        measures = {name: ([], []) for name in kinds}
        for _ in range(max(rounds // 4, 4)):
            table = dfp.frame(frame).crosstab(
                "season", "place", keys=keys, margins=True, epsilon=epsilon
            )
            long = dfp.released(table).long()
            names = [
                column for column in long.columns[2:] if not column.endswith(("_low", "_high"))
            ]
            exact = (truth, truth.sum(1, keepdims=True), truth.sum(0, keepdims=True))
            for kind, name, totals in zip(kinds, names, exact, strict=False):
                expected = np.broadcast_to(totals, shape).ravel()
                value, low, high = (
                    long[f"{name}{end}"].to_numpy() for end in ("", "_low", "_high")
                )
                measures[kind][0].append(np.mean((value - expected) ** 2))
                measures[kind][1].append(np.mean((low <= expected) & (expected <= high)))
        noise = np.round(draws.laplace(0, 1 / epsilon, (1000, *shape)))
        sums = {"cells": noise, "totals by season": noise.sum(2), "totals by place": noise.sum(1)}
        for kind, (errors, coverages) in measures.items():
            question, error = f"crosstab, 4 by 105: {kind}", float(np.sqrt(np.mean(errors)))
            yield Accuracy(
                question, "dfprivacy, margins", epsilon, error, float(np.mean(coverages))
            )
            other = float(np.sqrt(np.mean(sums[kind] ** 2)))
            yield Accuracy(question, "OpenDP: contingency table, sums of cells", epsilon, other)


def regression_accuracy(rounds: int) -> Iterator[Accuracy]:
    """Explain one column by several, beside AdaSSP (Wang 2018) at the same epsilon and delta.

    Synthetic rows within (-1, 1): columns of deviation 1/3 with correlations of 0.3 explain another
    one. Errors are those of all slopes. AdaSSP is simulated with a third of the rho that epsilon
    and delta allow for each of its three draws, which is less noise than the paper's own constants
    give; so are plain noisy sufficient statistics, with half of it each and no ridge. With rho, our
    noise is Gaussian as well; with epsilon it needs no delta.
    """
    draws = np.random.default_rng(20)
    for p, rows in itertools.product((2, 4, 8), (1_000, 10_000, 100_000)):
        shared, separate = draws.normal(size=(rows, 1)), draws.normal(size=(rows, p))
        x = np.clip(0.2 + (math.sqrt(0.3) * shared + math.sqrt(0.7) * separate) / 3, -1, 1)
        slopes = np.where(np.arange(p) % 2, -0.3, 0.6) / math.sqrt(p)
        y = np.clip(0.1 + x @ slopes + draws.normal(0, 0.2, rows), -1, 1)
        design = np.column_stack([np.ones(rows), x])
        truth = np.linalg.lstsq(design, y, rcond=None)[0][1:]
        names = [f"x{index}" for index in range(p)]
        frame = pl.DataFrame({"y": y, **dict(zip(names, x.T, strict=True))})
        private = dfp.frame(frame)(bounds=dict.fromkeys(["y", *names], (-1, 1)))
        question = f"regression, {p} columns, {rows:,} rows"
        for epsilon in EPSILONS:
            rho = float(rho_within(Fraction(epsilon), Fraction(1, 10**6)))
            for form, loss in (
                ("dfprivacy, epsilon alone", {"epsilon": epsilon}),
                ("dfprivacy, rho of epsilon and delta=1e-6", {"rho": rho}),
            ):
                releases = [private.regression("y", names, **loss)[1:] for _ in range(rounds // 4)]
                off = [release["coefficient"].to_numpy() - truth for release in releases]
                is_covered = [
                    (release["low"].to_numpy() <= truth) & (truth <= release["high"].to_numpy())
                    for release in releases
                ]
                error = float(np.sqrt(np.mean(np.square(off))))
                endless = float(
                    np.mean([np.isinf(release["low"].to_numpy()) for release in releases])
                )
                yield Accuracy(question, form, epsilon, error, float(np.mean(is_covered)), endless)
            for form, ridge in (("AdaSSP, delta=1e-6", True), ("noisy sums, delta=1e-6", False)):
                off = [sufficient(design, y, rho, draws, ridge) - truth for _ in range(rounds)]
                yield Accuracy(question, form, epsilon, float(np.sqrt(np.mean(np.square(off)))))


def sufficient(
    design: np.ndarray,
    y: np.ndarray,
    rho: float,
    draws: np.random.Generator,
    ridge: bool,  # noqa: FBT001 a form of two
) -> np.ndarray:
    """Return slopes by noisy sufficient statistics: with the ridge of AdaSSP, or with none."""
    size = design.shape[1]
    sigma = math.sqrt((3 if ridge else 2) / (2 * rho))  # of a sum of sensitivity 1
    noise = np.triu(draws.normal(0, sigma * size, (size, size)))
    noise += np.triu(noise, 1).T
    exact, lifted = design.T @ design, 0.0
    if ridge:
        margin = size * sigma * 4.1  # by which a draw is off with probability delta / 6, upwards
        smallest = np.linalg.eigvalsh(exact)[0] + draws.normal(0, sigma * size) - margin
        wide = sigma * size * math.sqrt(size * math.log(2 * size**2 / 0.05))
        lifted = max(0.0, wide - max(smallest, 0.0))
    sums = design.T @ y + draws.normal(0, sigma * math.sqrt(size), size)
    return np.linalg.solve(exact + noise + lifted * np.eye(size), sums)[1:]


def describe_accuracy(rounds: int) -> Iterator[Accuracy]:
    """Describe ten columns of 100,000 rows with bounds 10 deviations wide, for one epsilon.

    Beside it, each of eight figures of each column (number, mean, deviation, five quantiles) is a
    release of its own with an equal share: a noisy sum about the middle of the bounds over a noisy
    number for the mean, and our own median. Errors are in deviations of the column.
    """
    draws, columns, size = np.random.default_rng(9), 10, 100_000
    values = draws.normal(20, 1, (size, columns))
    names = [f"c{index}" for index in range(columns)]
    frame = pl.DataFrame(dict(zip(names, values.T, strict=True)))
    bounds = dict.fromkeys(names, (15, 25))
    private = dfp.frame(frame)(bounds=bounds)
    exact = {"mean": values.mean(0), "std": values.std(0), "50%": np.median(values, axis=0)}
    words = {"mean": "means", "std": "deviations", "50%": "medians"}
    for epsilon in EPSILONS:
        releases = [private.describe(epsilon=epsilon) for _ in range(max(rounds // 4, 4))]
        for name, truth in exact.items():
            off = np.array([release[name].to_numpy() for release in releases]) - truth
            ends = (
                [release[f"{name}_{end}"].to_numpy() for release in releases]
                for end in ("low", "high")
            )
            coverage = None
            if name != "50%":
                low, high = map(np.array, ends)
                coverage = float(np.mean((low <= truth) & (truth <= high)))
            question = f"describe, 10 columns: {words[name]}"
            error = float(np.sqrt((off**2).mean()))
            yield Accuracy(question, "dfprivacy", epsilon, error, coverage)
            share = epsilon / (8 * columns)
            if name == "mean":
                sums, rows = draws.laplace(0, (5 / share * 2, 1 / share * 2), (10_000, 2)).T
                other = sums / (size + rows)
                form = "each figure by itself: noisy centered sum over noisy number"
                yield Accuracy(question, form, epsilon, float(np.sqrt((other**2).mean())))
            if name == "50%":
                other = [
                    float(dfp.frame(frame).median("c0", epsilon=share)) for _ in range(rounds // 4)
                ]
                error = float(np.sqrt(np.mean((np.array(other) - truth[0]) ** 2)))
                yield Accuracy(question, "each figure by itself: dfprivacy", epsilon, error)


def nunique_times(rows: int) -> Iterator[Timed]:
    """Different integers, of 100,000 and of about as many as rows, in each engine."""
    draws = np.random.default_rng(3)
    for name, values in (("100,000", 100_000), ("nearly all", 2**40)):
        x = draws.integers(0, values, rows)
        frame, question = pl.DataFrame({"x": x}), f"nunique, {name} different"
        yield (
            question,
            "polars",
            lambda f=frame: f.lazy().select(pl.col("x").n_unique()).collect(engine="streaming"),
            lambda f=frame: f.dp.nunique("x"),
            NUNIQUE,
        )
        pandas = pd.DataFrame({"x": x}, copy=False)
        yield (
            question,
            "pandas",
            lambda f=pandas: f["x"].nunique(),
            lambda f=pandas: f.dp.nunique("x"),
            NUNIQUE,
        )
        con = duckdb.connect()
        con.execute("CREATE TABLE t AS SELECT x FROM frame")
        yield (
            question, "DuckDB", lambda c=con: c.sql("SELECT count(DISTINCT x) FROM t").fetchall(),
            lambda c=con: dfp.frame(c.table("t")).nunique("x"), NUNIQUE,
        )  # fmt: skip
        con.close()


def share_times(rows: int) -> Iterator[Timed]:
    """Time the share of one integer of a hundred, over the mean of the comparison."""
    x = np.random.default_rng(4).integers(0, 100, rows)
    frame = pl.DataFrame({"x": x})
    yield (
        "share(x, 3)",
        "polars",
        lambda: frame.lazy().select((pl.col("x") == 3).mean()).collect(engine="streaming"),
        lambda: dfp.frame(frame).share("x", 3),
        None,
    )
    pandas = pd.DataFrame({"x": x}, copy=False)
    yield (
        "share(x, 3)",
        "pandas",
        lambda: pandas["x"].eq(3).mean(),
        lambda: pandas.dp.share("x", 3),
        None,
    )
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT x FROM frame")
    yield (
        "share(x, 3)", "DuckDB", lambda: con.sql("SELECT avg((x = 3)::INT) FROM t").fetchall(),
        lambda: dfp.frame(con.table("t")).share("x", 3), None,
    )  # fmt: skip
    con.close()


def crosstab_times(rows: int) -> Iterator[Timed]:
    """Count the cells of 4 by 105 public keys with totals, over the engine's own group-by."""
    draws = np.random.default_rng(7)
    columns = {"a": draws.integers(0, 4, rows), "b": draws.integers(0, PLACES, rows)}
    keys = {"a": list(range(4)), "b": list(range(PLACES))}
    frame, pandas = pl.DataFrame(columns), pd.DataFrame(columns, copy=False)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    plain = {
        "polars": lambda: frame.lazy().group_by("a", "b").agg(pl.len()).collect(engine="streaming"),
        "pandas": lambda: pandas.groupby(["a", "b"]).size(),
        "DuckDB": lambda: con.sql("SELECT a, b, count(*) FROM t GROUP BY a, b").fetchall(),
    }
    frames = {"polars": frame, "pandas": pandas, "DuckDB": con.table("t")}
    for engine, work in plain.items():
        private = dfp.frame(frames[engine])
        yield (
            "crosstab, 4 by 105, with totals", engine, work,
            lambda p=private: p.crosstab("a", "b", keys=keys, margins=True), CROSSTAB,
        )  # fmt: skip
    con.close()


def corr_times(rows: int) -> Iterator[Timed]:
    """Correlate two columns of floats, over the engine's own correlation."""
    draws = np.random.default_rng(8)
    x = draws.normal(100, 15, rows)
    columns = {"x": x, "y": x / 2 + draws.normal(0, 10, rows)}
    frame, pandas = pl.DataFrame(columns), pd.DataFrame(columns, copy=False)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    plain = {
        "polars": lambda: frame.lazy().select(pl.corr("x", "y")).collect(engine="streaming"),
        "pandas": lambda: pandas["x"].corr(pandas["y"]),
        "DuckDB": lambda: con.sql("SELECT corr(x, y) FROM t").fetchall(),
    }
    frames = {"polars": frame, "pandas": pandas, "DuckDB": con.table("t")}
    for engine, work in plain.items():
        private = dfp.frame(frames[engine])
        yield (
            "corr", engine, work,
            lambda p=private: p.corr("x", "y", (0, 200), (0, 200)), CORR,
        )  # fmt: skip
    con.close()


DESCRIBED = (0.05, 0.25, 0.5, 0.75, 0.95)


def describe_times(rows: int) -> Iterator[Timed]:
    """Describe 50 columns of a twentieth of the rows, over the same aggregates in one pass.

    These are counts, means, deviations and five exact quantiles of each column.
    """
    draws = np.random.default_rng(5)
    columns = {f"c{i}": draws.normal(100, 15, rows // 20) for i in range(25)}
    columns |= {f"c{i}": draws.integers(0, 1000, rows // 20) for i in range(25, 50)}
    frame, within = pl.DataFrame(columns), dict.fromkeys(columns, (0, 1000))
    expressions = [
        expression.name.suffix(f"_{index}")
        for x in map(pl.col, columns)
        for index, expression in enumerate(
            [x.count(), x.mean(), x.std(), *map(x.quantile, DESCRIBED)]
        )
    ]
    plain = {"polars": lambda: frame.lazy().select(expressions).collect(engine="streaming")}
    pandas = pd.DataFrame(columns, copy=False)
    plain["pandas"] = lambda: pandas.describe(percentiles=DESCRIBED)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    aggregates = "count(#), avg(#), stddev(#), quantile_cont(#, [0.05, 0.25, 0.5, 0.75, 0.95])"
    query = ", ".join(aggregates.replace("#", name) for name in columns)
    plain["DuckDB"] = lambda: con.sql(f"SELECT {query} FROM t").fetchall()
    frames = {"polars": frame, "pandas": pandas, "DuckDB": con.table("t")}
    for engine, work in plain.items():
        private = dfp.frame(frames[engine])
        question, target = f"describe, 50 columns, {rows // 20:,} rows", DESCRIBE
        yield question, engine, work, lambda p=private: p.describe(rho=0.5), target
        bounded = private(bounds=within)
        question = f"{question}, bounds given"
        yield question, engine, work, lambda p=bounded: p.describe(rho=0.5), target
    con.close()


ACCURACY = {
    "nunique": nunique_accuracy,
    "share": share_accuracy,
    "crosstab": crosstab_accuracy,
    "regression": regression_accuracy,
    "describe": describe_accuracy,
}
"""Each yields errors beside other forms, and coverage, from so many releases."""

TIMES = {
    "nunique": nunique_times,
    "share": share_times,
    "crosstab": crosstab_times,
    "corr": corr_times,
    "describe": describe_times,
}
"""Each yields question, engine, its own work, ours and the ratio allowed, for so many rows."""


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    lines = ["# Questions (`python -m benchmarks.questions`)", "", "## Error and coverage", ""]
    lines += [
        f"Root mean squared errors; coverage of 95 % intervals over {options.rounds} releases,",
        "a quarter of these for tables, descriptions, regressions and with units. Where noise",
        "could hide that columns vary apart, an interval of a regression has no ends: last column.",
        "",
    ]
    lines += ["| question | form | epsilon | error | coverage | no ends |"]
    lines += ["|:--|:--|--:|--:|--:|--:|"]
    for name, measured in ACCURACY.items():
        if options.only in name:
            lines += [accuracy.line() for accuracy in measured(options.rounds)]
    lines += ["", f"## Time, {options.rows:,} rows", "", "Seconds of processor time.", ""]
    lines += [
        "| question | engine | its own | ours | ratio | at most | met |",
        "|:--|:--|--:|--:|--:|--:|:--|",
    ]
    met = True
    for name, timed in TIMES.items():
        for question, engine, plain, ours, target in (
            timed(options.rows) if options.only in name else ()
        ):
            plain_time, our_time = measure_in_turn(plain, ours, 3)
            timing = Timing(question, engine, plain_time.cpu, our_time.cpu, target)
            lines.append(timing.line())
            met &= timing.met
    text = "\n".join(lines) + "\n"
    print(text)
    if not options.only:
        RESULTS.write_text(text, encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
