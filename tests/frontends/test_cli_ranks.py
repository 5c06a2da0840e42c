import json
import re

import polars as pl
import pytest

EXACT = ["--epsilon", "1e9"]  # a selection's rank and a count are off by less than 1e-6 rows
BY = ["--by", "carrier", "--delta", "1e-6"]


def test_histogram_by_group(ask, cells):
    """A histogram by group has one row a group and bin; public keys need no delta."""
    options = ["--edge", "-50", "--edge", "0", "--edge", "50", "--by", "carrier", "--keys", "UA"]
    rows = cells(ask("histogram", "flights.csv", "delay", *options, *EXACT).output)
    assert [row[:4] for row in rows] == [["UA", "-50", "0", "1,000"], ["UA", "0", "50", "0"]]


VALUES = ["name", "value", "low", "high", "note"]
COLUMNS = [
    (["median", "delay"], VALUES),
    (["quantiles", "delay", "--q", "0.25", "--q", "0.5"], VALUES),
    (["bounds", "delay"], VALUES),
    (["histogram", "delay", "--bins", "4"], ["lower", "upper", "count", "low", "high"]),
    (["mean", "delay"], VALUES),
    (["mean", "delay", *BY], ["carrier", "delay", "low", "high", "note", "count"]),
    (["median", "delay", *BY], ["carrier", "delay", "note", "count"]),
    (
        ["quantiles", "delay", "--q", "0.25", "--q", "0.5", *BY],
        ["carrier", "delay_0.25", "delay_0.25_note", "delay_0.5", "delay_0.5_note", "count"],
    ),
    (["bounds", "delay", *BY], ["carrier", "lower", "upper", "count"]),
    (
        ["histogram", "delay", "--bins", "4", *BY],
        ["carrier", "lower", "upper", "count", "low", "high"],
    ),
]


@pytest.mark.parametrize(("question", "columns"), COLUMNS)
def test_output_file(ask, tmp_path, question, columns):
    """A file holds the released columns in place of the table, and one line says so."""
    name, column, *options = question
    ending = ("csv", "parquet", "json")[COLUMNS.index((question, columns)) % 3]
    target = tmp_path / f"out.{ending}"
    result = ask(name, "flights.parquet", column, *options, "--output", str(target))
    assert result.output.startswith("Wrote ")
    assert f" to {target}. Spent epsilon 1" in result.output
    assert result.output.count("\n") == 1
    assert list(tmp_path.iterdir()) == [target]
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "json": pl.read_json}[ending]
    assert read(target).columns == columns


@pytest.mark.parametrize("name", ["mean", "bounds", "median"])
def test_too_few_values(ask, tmp_path, name):
    """Where too few values are found, the terminal says so, and JSON has null.

    Bounds are found in an empty column with probability below 1/20 a call, and a count is large
    enough for a median with less: five calls all have answers with probability below 1e-6.
    """
    file, target = tmp_path / "few.csv", tmp_path / "out.json"
    file.write_text("delay\ntext\n\nmore text\n")
    outputs, records = [], []
    for _ in range(5):
        outputs.append(ask(name, str(file), "delay").output)
        ask(name, str(file), "delay", "--output", str(target))
        records += json.loads(target.read_text())
    assert any(" unknown" in output for output in outputs)
    assert not any(re.search(r"\b(nan|inf)\b", output) for output in outputs)
    assert any(None in record.values() for record in records)


def test_many_quantiles_are_never_cut(ask):
    """A table wider than the terminal keeps its numbers and names whole."""
    qs = [option for tenth in range(1, 10) for option in ("--q", f"0.{tenth}")]
    output = ask("quantiles", "flights.csv", "delay", *qs, *BY, *EXACT).output
    assert all(f"delay_0.{tenth}" in output for tenth in range(1, 10))
    assert "…" not in output


@pytest.mark.parametrize("column", ["low", "count", "quantile", "epsilon", "lower"])
def test_awkward_names(ask, cells, tmp_path, column):
    """A column may be called like a column of the result, or like an option."""
    file = tmp_path / "names.csv"
    pl.DataFrame({column: [3.0] * 1000, "g": ["a"] * 1000}).write_csv(file)
    for question in (["median"], ["quantiles", "--q", "0.5"], ["histogram", "--bins", "1"]):
        name, *options = question
        for extra in ([], ["--by", "g", "--keys", "a"]):
            result = ask(name, str(file), column, *options, *extra, *EXACT)
            assert result.exit_code == 0, result.output
            assert len(cells(result.output)) == 1


def test_dates_bound_dates(ask, tmp_path):
    """Bounds that are written out as dates bound dates; what is neither date nor number is told.

    A median of 366 days selects among two days alone.
    """
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 12, 31), eager=True)
    pl.DataFrame({"day": days}).write_parquet(tmp_path / "days.parquet")
    arguments = ["median", str(tmp_path / "days.parquet"), "day", "--bounds", "2024-06-01"]
    result = ask(*arguments, "2024-06-02", "--output", str(tmp_path / "out.json"))
    assert result.exit_code == 0
    [record] = json.loads((tmp_path / "out.json").read_text())
    assert record["value"][:9] == "2024-06-0"
    assert "neither a number nor a date" in ask(*arguments, "June").output
