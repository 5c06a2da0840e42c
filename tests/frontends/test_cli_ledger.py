import re
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.command_line import command

ROOT = Path(__file__).parents[2]
BOUNDS = ["--bounds", "0", "60"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command line beside a file of 500 flights, at 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    flights = pl.DataFrame({"carrier": ["AA", "UA"] * 250, "delay": [1.0, 9.0] * 250})
    flights.write_csv("flights.csv")
    flights.write_parquet("flights.parquet")
    return command


@pytest.fixture
def ledger(run):
    """Make a ledger from the command line."""
    result = run("ledger", "create", "budget.db", "--epsilon", "10", "--delta", "1e-6")
    assert result.output == "Made budget.db: epsilon 10, delta 1e-6 for each dataset\n"
    return ["--ledger", "budget.db", "--dataset", "flights"]


def test_show(run, ledger):
    """A ledger is shown by dataset, with its history, at 80 columns."""
    assert run("ledger", "show", "budget.db").output == (
        "budget.db: epsilon 10, delta 1e-6 for each dataset\nNothing has been spent.\n"
    )
    run("mean", "flights.csv", "delay", *BOUNDS, "--epsilon", "0.1", *ledger)
    run("count", "flights.csv", "--ledger", "budget.db", "--dataset", "[bold]")
    output = run("ledger", "show", "budget.db").output
    rows = [[c.strip() for c in line.strip("│").split("│")] for line in output.splitlines()]
    assert ["flights", "0.1", "9.9", "0", "1e-6"] in rows
    assert ["[bold]", "1", "9", "0", "1e-6"] in rows
    assert any("mean('delay'" in line for line in output.splitlines())
    assert max(map(len, output.splitlines())) <= 80


def test_report(run, ledger):
    """A ledger is written as a page; what is no page is refused."""
    run("count", "flights.csv", *ledger)
    result = run("ledger", "report", "budget.db", "-o", "page.html")
    size = Path("page.html").stat().st_size
    assert (result.exit_code, result.output) == (0, f"Wrote page.html: {size:,} bytes\n")
    assert "Privacy ledger budget.db" in Path("page.html").read_text(encoding="utf-8")
    refused = run("ledger", "report", "budget.db", "-o", "budget.db")
    assert refused.exit_code == 2
    assert refused.stderr == (
        "Error: a report can't be written to 'budget.db'\n"
        "Hint: name a file of its own that ends in .html\n"
    )


def test_show_in_rho(run):
    """A ledger in rho shows what was asked and what it cost."""
    run("ledger", "create", "r.db", "--rho", "1")
    run("count", "flights.csv", "--epsilon", "0.1", "--ledger", "r.db", "--dataset", "d")
    run("count", "flights.csv", "--rho", "0.25", "--ledger", "r.db", "--dataset", "d")
    output = run("ledger", "show", "r.db").output
    assert re.search(r"0\.255\s*│ 0\.745", output)
    assert "0.005" in output


def test_charges_without_a_note(ledger):
    """A charge that has no note has an empty cell, and a table without notes no column of them."""
    budget = dfp.Ledger("budget.db")
    for note in (None, "weekly"):
        pl.DataFrame({"x": [1.0]}).dp(ledger=budget, dataset="d", note=note).count(epsilon=0.1)
        output = command("ledger", "show", "budget.db").output
        assert "nan" not in output
        assert ("note" in output, "weekly" in output) == (note is not None, note is not None)


def test_a_ledger_that_remembers(run):
    """It says so when it is made and shown, and how many releases of each dataset it keeps."""
    result = run("ledger", "create", "m.db", "--epsilon", "10", "--remember")
    assert result.output == "Made m.db: epsilon 10 for each dataset, releases are remembered\n"
    run("count", "flights.csv", "--ledger", "m.db", "--dataset", "flights")
    memory = dfp.Ledger("m.db")
    for number in range(3):
        memory.store("flights", bytes([number]) * 32, pa.table({"count": [number]}))
    output = run("ledger", "show", "m.db").output
    assert output.startswith("m.db: epsilon 10 for each dataset, releases are remembered\n")
    rows = [[c.strip() for c in line.strip("│").split("│")] for line in output.splitlines()]
    assert ["flights", "1", "9", "0", "0", "3"] in rows
    assert max(map(len, output.splitlines())) <= 80


def test_a_spent_budget(run, ledger):
    """A call that does not fit writes nothing, anywhere."""
    result = run("count", "flights.csv", "--epsilon", "11", "--output", "out.csv", *ledger)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: the budget of dataset 'flights' does not cover this release: it costs epsilon 11, "
        "and what is left is epsilon 10, delta 1e-6\n"
        "Hint: ask for no more than what is left: dfprivacy ledger show FILE\n"
    )
    assert not Path("out.csv").exists()
    assert len(dfp.Ledger("budget.db").history()) == 0


def test_documented_commands_run(run):
    """The commands on the page run as they stand, one after the other."""
    lines = (ROOT / "docs" / "how-to" / "ledger.md").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line.startswith("dfprivacy ")]
    assert len(commands) >= 3
    for line in commands:
        result = run(*line.split()[1:])
        assert result.exit_code == 0, result.output


def test_statement(run, ledger):
    """A statement has the parameters, units and releases of a dataset, and fields to fill in."""
    run("count", "flights.csv", *ledger)
    run("count", "flights.csv", "--unit", "carrier", "--max-rows", "2", *ledger)
    text = run("ledger", "statement", "budget.db", "flights").output
    assert "Privacy budget that the ledger enforces: epsilon 10, delta 1e-6" in text
    assert "Spent so far: epsilon 2 in 2 releases" in text
    assert "Units of the charges: one row (1); 'carrier', max_rows=2 (1)" in text
    assert "- 1 x count()\n" in text
    assert text.count("[") >= 10
    assert "$" not in text
    run("ledger", "statement", "budget.db", "flights", "-o", "flights.md")
    assert Path("flights.md").read_text(encoding="utf-8") == text
    wrong = run("ledger", "statement", "budget.db", "fligths")
    assert wrong.stderr.startswith("Error: dataset 'fligths' was never charged, only: flights\n")
    run("ledger", "create", "rho.db", "--rho", "1")
    run("count", "flights.csv", "--ledger", "rho.db", "--dataset", "flights")
    assert "zero-concentrated" in run("ledger", "statement", "rho.db", "flights").output


def test_accounts(run):
    """Datasets are announced, parts are given; a call names its period and its analyst."""
    account = ["--ledger", "office.db", "--dataset"]
    result = run("ledger", "create", "office.db", "--epsilon", "10", "--strict")
    assert result.output.endswith("for each dataset, none but announced datasets\n")
    wrong = run("count", "flights.csv", *account, "flights")
    assert "Hint: open its account: dfprivacy ledger announce FILE flights" in wrong.stderr
    run("ledger", "announce", "office.db", "flights")
    run("ledger", "announce", "office.db", "visits", "--periods", "month")
    run("ledger", "allow", "office.db", "flights", "ann", "--epsilon", "3")
    wrong = run("count", "flights.csv", *account, "flights")
    assert "name who asks, --analyst ann" in wrong.stderr
    wrong = run("count", "flights.csv", *account, "visits", "--period", "2024")
    assert "name it, --period 2024-01" in wrong.stderr
    output = run("count", "flights.csv", *account, "flights", "--analyst", "ann").output
    assert "Left for flights and ann in office.db: epsilon 2" in output
    output = run("count", "flights.csv", *account, "visits", "--period", "2024-01").output
    assert "Left for visits [2024-01] in office.db: epsilon 9" in output
    shown = run("ledger", "show", "office.db").output
    assert "Announced: flights" in shown
    assert "unit-period" in shown
    assert [word for word in ("ann", "visits [2024-01]", "Analysts") if word not in shown] == []
