"""Attack releases as an observer would, and measure the advantage beside its bound.

python -m benchmarks.attacks

An attacker sees one release and guesses which of two neighboring tables it came from. Half of the
releases choose the guess, the other half measure it. The advantage is the rate of right guesses of
one table minus that of wrong guesses of the other. No attack on an (epsilon, delta) release has
more than (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import polars as pl

import dfprivacy as dfp

RESULT = Path(__file__).parent / "results" / "attacks.md"
COPIES = 20_000
Columns = Mapping[str, list[float]]
Ask = Callable[[pl.DataFrame], np.ndarray]


def copy_rows(columns: Columns) -> pl.DataFrame:
    """Return a table of so many groups that hold the same rows."""
    rows = len(next(iter(columns.values())))
    groups = np.repeat(np.arange(COPIES), rows)
    values = {name: np.tile(np.array(column), COPIES) for name, column in columns.items()}
    return pl.DataFrame({"g": groups, **values})


def ask_mean(frame: pl.DataFrame) -> np.ndarray:
    """Return means times counts, which undo the division."""
    means = by_group(frame).mean("x", (0, 100), epsilon=1)
    return (means["x"] * means["count"]).to_numpy()


def ask_digits(frame: pl.DataFrame) -> np.ndarray:
    """Return the last bits of sums, in which noise of floats would show the exact value."""
    sums = by_group(frame).sum("x", (0, 1), epsilon=1)["x"].to_numpy()
    return np.frexp(sums)[0] * 2.0**53 % 1024


def by_group(frame: pl.DataFrame) -> dfp.frames.private.PrivateGroupBy:
    """Group by the copies, which everybody may know."""
    return dfp.frame(frame).group_by("g", keys=range(COPIES))


def find_advantage(left: np.ndarray, right: np.ndarray) -> float:
    """Choose a threshold on one half of the releases, and measure it on the other half."""
    half = COPIES // 2
    points = np.unique(np.concatenate([left[:half], right[:half]]))
    chosen = points[:: max(1, len(points) // 2000)]
    gains = [np.mean(left[:half] >= t) - np.mean(right[:half] >= t) for t in chosen]
    best = int(np.argmax(np.abs(gains)))
    gain = np.mean(left[half:] >= chosen[best]) - np.mean(right[half:] >= chosen[best])
    return float(gain * np.sign(gains[best]))


ATTACKS: dict[str, tuple[Ask, Columns, Columns, float]] = {
    "count of 10 rows, with and without one": (
        lambda frame: by_group(frame).count(epsilon=1)["count"].to_numpy(),
        {"x": [1.0] * 10},
        {"x": [1.0] * 9},
        1,
    ),
    "sum, with and without a row of 1e300": (ask_mean, {"x": [5.0, 1e300]}, {"x": [5.0]}, 1),
    "last bits of a sum, with and without 0.1": (ask_digits, {"x": [0.3, 0.1]}, {"x": [0.3]}, 1),
    "median of 300 rows, with and without one": (
        lambda frame: by_group(frame).median("x", (0, 100), epsilon=1)["x"].fill_nan(-1).to_numpy(),
        {"x": [float(i % 100) for i in range(300)]},
        {"x": [float(i % 100) for i in range(299)]},
        1,
    ),
}


def attack_units() -> float:
    """Attack one person with 3 rows in each table."""
    answers = []
    for rows in (3, 0):
        persons = [float(i) for i in range(5)] + [9.0] * rows
        frame = copy_rows({"u": persons}).with_columns(u=pl.col("u") + 10.0 * pl.col("g"))
        private = dfp.frame(frame)(unit="u", max_rows=3, max_groups=1)
        counts = private.group_by("g", keys=range(COPIES)).count(epsilon=1)
        answers.append(counts["count"].to_numpy())
    return find_advantage(*answers)


def attack_keys() -> float:
    """Return how often a group of one row is shown at delta 1/1000."""
    frame = pl.DataFrame({"g": np.arange(10 * COPIES)})
    shown = dfp.frame(frame).group_by("g").count(epsilon=1, delta=1e-3)
    return len(shown) / (10 * COPIES)


def attack_budget() -> tuple[float, int]:
    """Ask the same count until a ledger of epsilon 1 refuses, and average the answers."""
    answers: list[list[float]] = [[], []]
    question_count = 0
    with tempfile.TemporaryDirectory() as folder:
        for side, rows in enumerate((10, 9)):
            for number in range(400):
                ledger = dfp.Ledger(f"{folder}/{side}{number}.db", epsilon=1)
                private = dfp.frame(pl.DataFrame({"x": [1.0] * rows}))(ledger=ledger, dataset="d")
                noisy = []
                try:
                    while True:
                        noisy.append(float(private.count(epsilon=0.25)))
                except dfp.BudgetExceededError:
                    question_count = len(noisy)
                answers[side].append(float(np.mean(noisy)))
    left, right = map(np.array, answers)
    return float(np.mean(left >= 9.5) - np.mean(right >= 9.5)), question_count


def main() -> int:
    """Run every attack and write the table."""
    bound = (math.e - 1) / (math.e + 1)
    title = (
        "`python -m benchmarks.attacks`: epsilon 1. The advantage of an attacker who knows all "
        f"other rows, from {COPIES:,} releases a side (standard error below 0.01), beside the "
        "largest that epsilon allows."
    )
    lines = [
        title,
        "",
        "| attack | advantage | bound |",
        "|:--|--:|--:|",
    ]
    met = True
    for name, (ask, left, right, epsilon) in ATTACKS.items():
        limit = math.tanh(epsilon / 2)
        advantage = find_advantage(ask(copy_rows(left)), ask(copy_rows(right)))
        met &= advantage < limit + 0.04
        lines.append(f"| {name} | {advantage:.2f} | {limit:.2f} |")
    advantage = attack_units()
    met &= advantage < bound + 0.04
    lines.append(f"| count, with and without a person of 3 rows | {advantage:.2f} | {bound:.2f} |")
    share = attack_keys()
    met &= share < 1.3e-3
    lines.append(f"| the key of a group of one row, delta 0.001 | {share:.4f} | 0.0010 |")
    advantage, question_count = attack_budget()
    met &= advantage < bound + 0.2
    lines.append(
        f"| average of {question_count} counts until a ledger of epsilon 1 refuses (400 a side) | "
        f"{advantage:.2f} | {bound:.2f} |"
    )
    text = "\n".join(lines) + "\n"
    RESULT.write_text(text)
    print(text)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
