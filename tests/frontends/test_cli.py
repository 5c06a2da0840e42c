"""Every command prints or writes the released rows, and what they cost."""

import duckdb
import polars as pl
import pytest

from tests.command_line import command
from tests.command_line import read_cells as cells

EXACT = ["--epsilon", "1e9"]  # noise below 1e-6 rows: an answer shows the truth
BOUNDS = ["--bounds", "-60", "240"]


@pytest.mark.parametrize("file", ["flights.csv", "flights.tsv", "flights.parquet"])
def test_formats_agree(ask, file):
    """Every format gives the truth, up to the noise, and one row a group sorted by key."""
    result = ask("mean", file, "delay", "--by", "carrier", "--delta", "1e-6", *BOUNDS, *EXACT)
    (aa, *numbers, aa_count), (ua, *others, ua_count) = cells(result.output)
    assert (aa, aa_count, ua, ua_count) == ("AA", "2,000", "UA", "1,000")
    assert [*map(float, numbers), *map(float, others)] == pytest.approx([10] * 3 + [-40] * 3)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--delta", "1e-6"], "Spent epsilon 1, delta 1e-6;"),
        (["--delta", "1e-6", "--epsilon", "0.5"], "Spent epsilon 0.5, delta 1e-6;"),
        (["--delta", "1e-6", "--rho", "0.1"], "Spent rho 0.1, delta 1e-6;"),
        (["--delta", "1e-6", "--keys", "AA"], "Spent epsilon 1;"),
    ],
)
def test_spent_line(ask, options, line):
    """The last line says what was spent: delta only for secret keys."""
    last = ask("count", "flights.csv", "--by", "carrier", *options).output.splitlines()[-1]
    assert last.startswith(line)
    assert last.endswith("; neighbors: add/remove a row")


@pytest.mark.parametrize(
    ("column", "keys", "shown"),
    [
        ("carrier", ["UA", "ZZ"], ["UA", "ZZ"]),
        ("month", ["2", "12"], ["2", "12"]),
        ("day", ["2013-01-02", "1999-12-31"], ["2013-01-02", "1999-12-31"]),
    ],
)
def test_public_keys(ask, column, keys, shown):
    """Exactly the keys listed come out, in the type that the column declares, without a delta."""
    options = [option for key in keys for option in ("--keys", key)]
    result = ask("count", "flights.parquet", "--by", column, *options, *EXACT)
    assert [row[0] for row in cells(result.output)] == shown
    assert {row[1] for row in cells(result.output)} <= {"0", "1,000", "1,500"}


def test_keys_are_shown_as_they_are(ask, tmp_path):
    """A key is neither markup nor a terminal command."""
    file = tmp_path / "keys.csv"
    file.write_text("key\n" + "[bold]x[/bold]\n" * 50 + "\x1b[31mred\n" * 50)
    output = ask("count", str(file), "--by", "key", "--delta", "1e-6").output
    assert {row[0] for row in cells(output)} == {"[bold]x[/bold]", "\ufffd[31mred"}


def test_many_groups(ask, tmp_path):
    """The terminal shows the first 100 groups and says how many there are."""
    file = tmp_path / "many.parquet"
    pl.DataFrame({"key": list(range(1000)) * 100}).write_parquet(file)
    output = ask("count", str(file), "--by", "key", "--delta", "1e-6", *EXACT).output
    assert len(cells(output)) == 100
    assert "Shows 100 of 1,000 groups." in output


def test_version(ask):
    """--version names the package."""
    result = ask("--version")
    assert result.exit_code == 0
    assert result.output.startswith("dfprivacy ")


def test_describe_prints_or_writes_one_row_a_column(ask, tmp_path):
    """Columns of Parquet have their types, those of text files what the options say."""
    terms = ["--delta", "1e-6", "--epsilon", "1e6"]
    result = ask("describe", "flights.parquet", *terms, "--bounds", "delay=-60,240")
    assert result.exit_code == 0, result.output
    assert "Spent" not in result.output
    assert "epsilon=1e+06, delta=1e-06" in result.output
    lines = {line.split()[0]: line.split() for line in result.output.splitlines() if line.split()}
    assert lines["delay"][1] in {"number", "integer"}
    assert lines["carrier"][:3] == ["carrier", "text", "3,000"]
    assert "0%" in lines["carrier"]
    target = tmp_path / "out.parquet"
    ask("describe", "flights.csv", "delay", "carrier", "--number", "delay", "--exclude", "carrier",
        "--output", str(target), "--epsilon", "1e6")  # fmt: skip
    (row,) = pl.read_parquet(target).to_dicts()
    assert (row["column"], row["type"], row["count"]) == ("delay", "number", 3000)


def test_regression_prints_or_writes_one_row_a_coefficient(ask, tmp_path):
    """Of several columns; bounds that are left out are found."""
    arguments = ["flights.csv", "delay", "month", "--bounds", "month=0,13"]
    result = ask("regression", *arguments, "--bounds", "delay=-60,240", "--epsilon", "1e6")
    assert [row[0] for row in cells(result.output)] == ["intercept", "month"]
    assert result.output.splitlines()[-1].startswith("Spent epsilon 1000000; ")
    target = tmp_path / "out.csv"
    ask(
        "regression", *arguments, "--bounds", "delay=-60,240", "--rho", "1", "--output", str(target)
    )
    assert pl.read_csv(target).columns == ["term", "coefficient", "low", "high", "note"]
    explained = ask("regression", *arguments, "--bounds", "delay=-60,240", "--explain").output
    assert "costs     epsilon 1" in explained
    output = ask("regression", *arguments, "--epsilon", "1e6").output
    assert [row[0] for row in cells(output)] == ["intercept", "month"]


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_moments_that_python_has_no_place_for_are_written(tmp_path, monkeypatch, ending):
    """A release by them is paid for, and has to reach its file."""
    monkeypatch.chdir(tmp_path)
    query = "SELECT DATE '12000-01-01' AS day, i % 7 AS x FROM range(1000) r(i)"
    duckdb.sql(query).write_parquet("rows.parquet")
    words = ["rows.parquet", "x", "--by", "day", "--bounds", "0", "7", "--delta", "1e-4"]
    result = command("mean", *words, "--epsilon", "1", "--output", f"out.{ending}")
    assert result.exit_code == 0, result.output
    assert (tmp_path / f"out.{ending}").stat().st_size
