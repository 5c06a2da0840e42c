import datetime as dt
import shutil
from pathlib import Path

import duckdb
import polars as pl

import dfprivacy as dfp
from tests.command_line import command

EXAMPLE = Path(__file__).parents[2] / "examples" / "release.yml"
ROWS = 30_000


def made_up_stays():
    return pl.DataFrame(
        {
            "patient": [i % 20_000 for i in range(ROWS)],
            "hospital": [["North", "South", "West"][i % 3] for i in range(ROWS)],
            "ward": [1 + i // 7 % 3 for i in range(ROWS)],
            "diagnosis": ["rare" if i == 0 else "flu" if i % 5 else "gout" for i in range(ROWS)],
            "days": [float(i % 14) for i in range(ROWS)],
            "cost": [900.0 * (i % 14) for i in range(ROWS)],
            "admitted": [dt.date(2024, 1, 1 + i % 28) for i in range(ROWS)],
        }
    )


def test_the_example_runs_as_it_says(tmp_path, monkeypatch):
    """The two commands at its top make all its releases; a rare diagnosis stays secret."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(EXAMPLE, "release.yml")
    made_up_stays().write_parquet("stays.parquet")
    Path("hospitals.csv").write_text("hospital,region\nNorth,east\nSouth,east\nWest,west\n")
    lines = EXAMPLE.read_text().splitlines()
    commands = [line.strip("# ").split() for line in lines if line.startswith("#     dfprivacy ")]
    assert len(commands) == 2
    for _, *args in commands:
        result = command(*args)
        assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 5
    assert dfp.Ledger("budget.db").spent("stays") == dfp.Budget(epsilon=3.0, delta=1e-7)
    assert pl.read_csv("wards.csv").height == 9
    assert pl.read_csv("costs.csv").height == 4
    assert sorted(pl.read_csv("long_stays.csv")["hospital"]) == ["North", "South", "West"]
    first = pl.read_csv("first_stays.csv")
    assert first.columns == [
        "region", "days", "days_low", "days_high", "days_note",
        "patients", "patients_low", "patients_high",
    ]  # fmt: skip
    assert sorted(first["region"]) == ["east", "west"]
    with duckdb.connect("released.duckdb", read_only=True) as connection:
        keys = connection.sql("SELECT diagnosis FROM diagnoses ORDER BY 1").fetchall()
    assert keys == [("flu",), ("gout",)]
