"""Count how often intervals of quantiles hold the quantile of the rows, and how wide they are.

    python -m benchmarks.honesty_quantiles [--quick] [--releases 400] [--output DIR]

The data sets of `benchmarks.honesty`, each measured once and released many times as groups. Counted
are the 95 % intervals that hold the quantile of the rows, those of which both ends are found, the
median of the rows between both, and the answers that are shown at all. Writes honesty_quantiles.md,
and ends with exit code 1 if less than 93 % of the releases of a data set hold the quantile.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import polars as pl

from benchmarks.honesty import EPSILONS, HELD, LEVEL, LIGHT, OTHER, copies_of
from benchmarks.page import run
from dfprivacy.accounting.loss import Epsilon
from dfprivacy.frames.releasing import measure
from dfprivacy.release.pipeline import permit
from dfprivacy.statistics import STATISTICS
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
                question = STATISTICS["quantile"]("x", q, ends=True)
                (part,) = split({"x": question}, grouped=True)
                _, (exact,) = measure(frame, ["g"], None, [part])
                table = copies_of(exact.table, releases)
                for epsilon in EPSILONS:
                    with permit("benchmarks.honesty_quantiles"):
                        made = part.measured(table).answer(Epsilon(Fraction(str(epsilon))), None)
                    columns = made.answers["x"][0].columns(LEVEL)
                    yield summed(f"{name} | {rows:,} | {epsilon:g} | {q}", values, q, *columns)


def summed(
    start: str, values: np.ndarray, q: float, value: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[float, str]:
    """Return the share of intervals that hold the truth, and a line."""
    ranked = np.sort(values)
    truth = ranked[math.ceil(q * len(ranked)) - 1]
    held = float(((low <= truth) & (truth <= high)).mean())
    both = np.isfinite(low) & np.isfinite(high)
    between = np.searchsorted(ranked, high[both], "right") - np.searchsorted(ranked, low[both])
    width = f"{np.median(between):,.0f}" if both.any() else ""
    shares = (held, both.mean(), np.isfinite(value).mean())
    return held, f"| {start} | {' | '.join(f'{100 * own:.0f}' for own in shares)} | {width} |"


def page(releases: int, *, quick: bool) -> tuple[str, bool]:
    """Return the page, and whether all lines hold the truth often enough."""
    releases, sizes = (100, SIZES[1:3]) if quick else (releases, SIZES)
    found = list(lines(sizes, releases))
    noise = 3 * (0.05 * 0.95 / releases) ** 0.5
    least = min(held for held, _ in found)
    head = [
        (
            f"95 % intervals of quantiles by group, {releases} releases a line; shares in per cent "
            f"of the releases. {len(found)} lines; the least holds the quantile of the rows in "
            f"{100 * least:.1f} %. Below, those at epsilon 1."
        ),
        "",
        "| data | rows | epsilon | q | held | both ends | shown | rows between |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    return "\n".join(
        [*head, *(line for _, line in found if "| 1 | 0." in line)]
    ) + "\n", least >= HELD - noise


if __name__ == "__main__":
    sys.exit(run(__doc__, "honesty_quantiles.md", page))
