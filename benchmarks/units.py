"""Whole units instead of rows: weighting against sampling, and what bounding users costs.

    python -m benchmarks.units

Accuracy: mean arrival delay by carrier of 336,776 flights (`pip install 'dfprivacy[demo]'`), with
one aeroplane (tailnum) as the unit. Weighting, which the library does, is compared with sampling
rows at the same limits and the same noise. Errors are root mean squares over carriers and
repetitions: against the mean of all rows, and against what both ways expect (each unit's rows
weighted). Time: a mean by 1,000 groups of 5 million rows, over the same mean for single rows.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

import dfprivacy as dfp
from dfprivacy.cli.demo import flights_file

OUTPUT = Path(__file__).parent / "results" / "units.md"
BOUNDS = (-60, 180)
KEYS = ["9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN"]
REPETITIONS = 200


def planes() -> pl.DataFrame:
    columns = ["tailnum", "carrier", "arr_delay"]
    flights = pl.from_pandas(pd.read_csv(flights_file(), usecols=columns))
    frame = flights.drop_nulls().filter(pl.col("carrier").is_in(KEYS))
    return frame.with_columns(pl.col("arr_delay").clip(*BOUNDS))


def weighted_means(frame: pl.DataFrame, rows: int) -> np.ndarray:
    share = (rows / pl.len().over("tailnum", "carrier")).clip(0, 1)
    weighted = frame.with_columns(share.alias("w")).group_by("carrier").agg(
        (pl.col("w") * pl.col("arr_delay")).sum() / pl.col("w").sum()
    )  # fmt: skip
    return weighted.sort("carrier")["w"].to_numpy()


def released(frame: pl.DataFrame, rows: int, epsilon: float) -> np.ndarray:
    private = frame.dp(unit="tailnum", max_rows=rows, max_groups=1, epsilon=epsilon)
    return private.group_by("carrier", keys=KEYS).mean("arr_delay", BOUNDS)["arr_delay"].to_numpy()


def sampled(frame: pl.DataFrame, rows: int, rng: np.random.Generator) -> pl.DataFrame:
    shuffled = frame[rng.permutation(len(frame))]
    return shuffled.filter(pl.int_range(pl.len()).over("tailnum", "carrier") < rows)


def accuracy() -> list[str]:
    frame, rng = planes(), np.random.default_rng(0)
    true = frame.group_by("carrier").agg(pl.col("arr_delay").mean()).sort("carrier")
    everyone = true["arr_delay"].to_numpy()
    header = ["epsilon", "max_rows", "weighting: error", "sampling: error"]
    header += ["weighting: off what it expects", "sampling: off what it expects"]
    lines = [f"| {' | '.join(header)} |", "|--:|--:|--:|--:|--:|--:|"]
    for epsilon in (1.0, 8.0):
        for rows in (1, 5, 20, 100):
            expected = weighted_means(frame, rows)
            pairs = [
                (released(frame, rows, epsilon), released(sampled(frame, rows, rng), rows, epsilon))
                for _ in range(REPETITIONS)
            ]
            ours, theirs = (np.stack(column) for column in zip(*pairs, strict=True))
            errors = [
                float(np.sqrt(np.mean((answers - target) ** 2)))
                for target in (everyone, expected)
                for answers in (ours, theirs)
            ]
            lines.append(
                f"| {epsilon:g} | {rows} | " + " | ".join(f"{e:.3f}" for e in errors) + " |"
            )
    return lines


def suggested() -> list[str]:
    """Compare limits found for a question with the best of those tried out, in root mean squares.

    The question spends epsilon, finding limits a tenth of it.
    """
    frame = planes()
    lines = [
        "| question | epsilon | best | found | stay within 95 % | error: best | found | 95 % |"
    ]
    lines.append("|:--|--:|--:|--:|--:|--:|--:|--:|")
    true = frame.group_by("carrier").agg(
        mean=pl.col("arr_delay").mean(), sum=pl.col("arr_delay").sum(), count=pl.len()
    ).sort("carrier")  # fmt: skip
    asks = {"mean": dfp.mean("arr_delay", BOUNDS), "sum": dfp.sum("arr_delay", BOUNDS)}
    for name, question in {**asks, "count": dfp.count()}.items():
        truth = true[name].to_numpy()
        for epsilon in (1.0, 8.0):

            def error(unit: dfp.Unit, asked=question, truth=truth, epsilon=epsilon) -> float:
                grouped = frame.dp(unit=unit, epsilon=epsilon).group_by("carrier", keys=KEYS)
                squares = [(grouped.agg(a=asked)["a"].to_numpy() - truth) ** 2 for _ in range(10)]
                return float(np.sqrt(np.mean(squares)))

            facts = {"unit": "tailnum", "by": "carrier", "epsilon": epsilon / 10}
            tried = [dfp.Unit("tailnum", rows, 1) for rows in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
            errors = [error(unit) for unit in tried]
            ours = [
                dfp.suggest_limits(frame, question=question, spending=epsilon, **facts)
                for _ in range(10)
            ]
            theirs = [dfp.suggest_limits(frame, **facts) for _ in range(10)]
            middle = [int(np.median([own.max_rows for own in each])) for each in (ours, theirs)]
            found = [np.median([error(own) for own in each]) for each in (ours, theirs)]
            best = tried[int(np.argmin(errors))].max_rows
            lines.append(
                f"| {name} | {epsilon:g} | {best} | {middle[0]} | {middle[1]} | {min(errors):.4g} "
                f"| {found[0]:.4g} | {found[1]:.4g} |"
            )
    return lines


def seconds(work, repetitions: int = 5) -> float:
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def speed(rows: int = 5_000_000) -> list[str]:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "u": rng.integers(0, rows // 10, rows),
            "g": rng.integers(0, 1000, rows),
            "x": rng.normal(0, 1, rows),
        }
    )
    table, keys = frame.to_arrow(), {"g": list(range(1000))}
    lines = ["| engine | rows, s | users, s | users / rows |", "|:--|--:|--:|--:|"]
    for name, data in (("polars", frame), ("DuckDB on Arrow", table)):
        plain = dfp.frame(data)(keys=keys)
        users = plain(unit="u", max_rows=2, max_groups=5)
        one, two = (
            seconds(lambda p=p: p.group_by("g").mean("x", (-5, 5))) for p in (plain, users)
        )  # fmt: skip
        lines.append(f"| {name} | {one:.2f} | {two:.2f} | {two / one:.1f} |")
    return lines


def main() -> None:
    title = "# Units of several rows (`python -m benchmarks.units`)"
    report = [
        title,
        "",
        "## Weighting against sampling",
        "",
        *accuracy(),
        "",
        "## Limits found for a question",
        "",
        *suggested(),
        "",
        "## Time",
        "",
        *speed(),
    ]
    OUTPUT.write_text("\n".join(report) + "\n")
    print(OUTPUT.read_text())


if __name__ == "__main__":
    main()
