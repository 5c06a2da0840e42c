import os
import shutil
import sys
from pathlib import Path

import polars as pl
import pytest

import dfprivacy as dfp

RECIPES = Path(__file__).parents[2] / "examples" / "schedulers"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Copy the recipes beside a day of flights and a ledger, with `dfprivacy` on the path."""
    recipes = tmp_path / "recipes"
    shutil.copytree(RECIPES, recipes)
    flights = pl.DataFrame({"carrier": ["AA", "UA"] * 500, "delay": [10.0, -20.0] * 500})
    flights.write_parquet(recipes / "flights-2024-01-31.parquet")
    dfp.Ledger(recipes / "budget.db", epsilon=1, remember=True)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(recipes)
    monkeypatch.syspath_prepend(str(recipes))
    return recipes
