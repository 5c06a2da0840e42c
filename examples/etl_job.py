"""A nightly job: Parquet in, private statistics by hospital and ward out, as Parquet.

Run it with `python examples/etl_job.py`. The stays in it are made up, and all files go to a
temporary directory. The file is read in streams: it may be larger than memory.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dfprivacy as dfp

HOSPITALS = ["North", "South", "West"]  # public: the list is on the web
WARDS = [1, 2, 3]
DAYS = (0, 60)  # longer stays count as 60 days


def write_made_up_stays(path: Path, stays: int = 200_000) -> None:
    """Write one row a stay: hospital, ward, days, cost."""
    dice = np.random.default_rng(2026)
    days = dice.gamma(2.0, 3.0, stays)
    table = pa.table(
        {
            "hospital": dice.choice(HOSPITALS, stays),
            "ward": dice.integers(1, 4, stays),
            "days": days,
            "cost": 900 * days + dice.normal(500, 100, stays),
        }
    )
    pq.write_table(table, path)


def private_report(stays: Path) -> pa.Table:
    """Return mean and median days, and mean cost by hospital and ward, under one epsilon.

    What a stay may cost at most is not known: its bounds are found privately, ward by ward.
    """
    keys = [(hospital, ward) for hospital in HOSPITALS for ward in WARDS]
    grouped = dfp.frame(stays).group_by("hospital", "ward", keys=keys)
    return grouped.agg(
        dfp.mean("days", DAYS),
        dfp.mean("cost"),
        median=dfp.median("days"),
        epsilon=1,
    )


def private_costs(stays: Path) -> pa.Table:
    """Return how many stays there are by cost, for all hospitals together."""
    return dfp.frame(stays).histogram("cost", [0, 2_000, 5_000, 10_000, 30_000], epsilon=0.5)


def main() -> None:
    """Read, release, write, and show what was written."""
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory) / "stays.parquet", Path(directory) / "report.parquet"
        write_made_up_stays(source)
        pq.write_table(private_report(source), target)
        report, costs = pq.read_table(target), private_costs(source)
    print(f"{report.num_rows} groups, {report.num_columns} columns of keys and answers\n")
    print(
        f"{'hospital':<9} {'ward':>4} {'days':>6}  {'95% interval':<14} "
        f"{'median':>6} {'cost':>7} {'count':>7}"
    )
    for row in report.to_pylist():
        interval = f"[{row['days_low']:.2f}, {row['days_high']:.2f}]"
        print(
            f"{row['hospital']:<9} {row['ward']:>4} {row['days']:>6.2f}  {interval:<14} "
            f"{row['median']:>6.2f} {row['cost']:>7,.0f} {row['count']:>7,}"
        )
    print(f"\n{'cost of a stay':>16} {'stays':>8}")
    for row in costs.to_pylist():
        print(f"{row['lower']:>7,.0f} - {row['upper']:>6,.0f} {row['count']:>8,}")


if __name__ == "__main__":
    main()
