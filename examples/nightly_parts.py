"""A job a night: each adds the statistics of its day to a folder; a report adds up a week.

Run it with `python examples/nightly_parts.py`. The visits in it are made up, and all files go to a
temporary directory. Each night reads the rows of its day only. The files of statistics are exact,
hence as secret as the rows; the report is private, and charged to a ledger once.
"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import dfprivacy as dfp

CLINICS = ["North", "South", "West"]  # public: the list is on the web
NIGHTS = [f"2026-03-0{day}" for day in range(1, 8)]


def made_up_visits(night: str) -> pl.DataFrame:
    """Return the visits of a day. A visitor's number is new each day."""
    dice = np.random.default_rng(int(night[-1]))
    size = 5_000
    return pl.DataFrame(
        {
            "visitor": [f"{night} {number}" for number in dice.integers(0, 4_000, size)],
            "clinic": dice.choice(CLINICS, size),
            "minutes": dice.gamma(2.0, 20.0, size),
        }
    )


def tonight(night: str, folder: Path) -> Path:
    """Write the exact statistics of one day: a secret file, which costs nothing."""
    return dfp.statistics(
        made_up_visits(night),
        folder / f"{night}.parquet",
        dfp.mean("minutes", (0, 240)),
        median=dfp.median("minutes"),
        by="clinic",
        keys=CLINICS,
        unit="visitor",
        max_rows=2,
    )


def main() -> None:
    """Run seven nights, then report on them."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        parts = [tonight(night, folder) for night in NIGHTS]
        size = sum(part.stat().st_size for part in parts)
        print(f"{len(parts)} nights, {size / 1024:.0f} KiB of secret statistics\n")

        ledger = dfp.Ledger(folder / "budget.db", epsilon=3, remember=True)
        account = {"ledger": ledger, "dataset": "visits", "version": "2026 week 10"}
        # Visitors' numbers are new each day, so that no unit is in two files: a promise.
        week = dfp.merge(parts, epsilon=1, parts_per_unit=1, **account)
        print("a week:", ", ".join(week.column_names))
        for row in week.to_pylist():
            print(
                f"  {row['clinic']:<6} {row['minutes']:>6.1f} minutes on average, "
                f"{row['median']:>5.1f} the median of about {row['count']:,} visits"
            )

        again = dfp.merge(reversed(parts), epsilon=1, parts_per_unit=1, **account)
        print("\nremembered:", again.equals(week), "- what is left:", ledger.remaining("visits"))
        print(ledger.history("visits")["question"].iloc[0].split("; ")[-1])


if __name__ == "__main__":
    main()
