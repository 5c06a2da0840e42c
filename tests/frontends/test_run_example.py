import datetime as dt
import shutil
from pathlib import Path

import duckdb
import polars as pl
from typer.testing import CliRunner

import dfprivacy as dfp
from dfprivacy.cli import app

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
    lines = EXAMPLE.read_text().splitlines()
    commands = [line.strip("# ").split() for line in lines if line.startswith("#     dfprivacy ")]
    assert len(commands) == 2
    for _, *args in commands:
        result = CliRunner().invoke(app, args)
        assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 4
    assert dfp.Ledger("budget.db").spent("stays") == dfp.Budget(epsilon=2.5, delta=1e-7)
    assert pl.read_csv("wards.csv").height == 9
    assert pl.read_csv("costs.csv").height == 4
    assert sorted(pl.read_csv("long_stays.csv")["hospital"]) == ["North", "South", "West"]
    with duckdb.connect("released.duckdb", read_only=True) as connection:
        keys = connection.sql("SELECT diagnosis FROM diagnoses ORDER BY 1").fetchall()
    assert keys == [("flu",), ("gout",)]
