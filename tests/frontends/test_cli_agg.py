"""Several questions in one call, and counts by value, on the command line."""

import polars as pl
import pytest

import dfprivacy as dfp


def test_several_questions_share_one_epsilon(ask, folder, tmp_path):
    """One epsilon is charged, and the answers are those of `agg`, in a table or a file."""
    ledger = dfp.Ledger(tmp_path / "agg.db", epsilon=5)
    account = ("--ledger", str(tmp_path / "agg.db"), "--dataset", "d")
    call = ("agg", "flights.csv", "--count", "--mean", "delay", "--bounds", "delay=-60,240",
            "--quantile", "delay=0.9", "--epsilon", "2")  # fmt: skip
    result = ask(*call, *account)
    assert result.exit_code == 0, result.stderr
    assert "Spent epsilon 2" in result.stdout
    (line,) = ledger.history().to_dict("records")
    assert line["epsilon"] == 2
    mean = "mean('delay', bounds=(-60.0, 240.0))"
    question = f"count(), {mean}, quantile('delay', 0.9, bounds=(-60.0, 240.0))"
    assert line["question"] == question
    explained = ask("agg", "nowhere.csv", *call[2:], "--explain")
    assert question in " ".join(explained.stdout.split())
    by = ("--by", "carrier", "--keys", "AA", "--keys", "UA", "--output", str(tmp_path / "a.csv"))
    assert ask(*call, *by).exit_code == 0
    table = pl.read_csv(tmp_path / "a.csv")
    assert table["carrier"].to_list() == ["AA", "UA"]
    assert {"count", "delay_mean", "delay_quantile"} <= set(table.columns)
    none = ask("agg", "flights.csv")
    assert (none.exit_code, "no question was asked" in none.stderr) == (2, True)
    target = ask("agg", "flights.csv", "--count", "--within", "20")
    plan = dfp.frame(folder / "flights.csv").explain(dfp.count(), within=20)
    assert f"Spent epsilon {plan.epsilon:g}" in target.stdout


@pytest.mark.parametrize("kind", ["value_counts", "top"])
def test_counts_by_value(kind, ask, cells):
    """Values come with secret or with listed keys; `top` keeps k; explained, no file is read."""
    secret = ask(kind, "flights.csv", "carrier", "--delta", "1e-6")
    assert [row[0] for row in cells(secret.stdout)] == ["AA", "UA"]
    assert "Spent epsilon 1, delta 1e-6" in secret.stdout
    public = ask(kind, "flights.csv", "month", "--keys", "2", "--keys", "7")
    assert [row[0] for row in cells(public.stdout)] == ["2", "7"]
    assert "Spent epsilon 1; " in public.stdout
    if kind == "top":
        for by, rows in (([], [["AA"]]), (["--by", "month"], [["1", "AA"], ["2", "AA"]])):
            words = ("carrier", *by, "--k", "1", "--delta", "1e-6")
            shown = cells(ask("top", "flights.csv", *words).stdout)
            assert [row[: len(rows[0])] for row in shown] == rows
    explained = ask(kind, "nowhere.csv", "carrier", "--delta", "1e-6", "--explain")
    assert " by 'carrier'" in explained.stdout
    by = ask(kind, "flights.csv", "carrier", "--by", "month", "--keys", "1,AA", "--keys", "2,ZZ")
    assert [row[:2] for row in cells(by.stdout)] == [["1", "AA"], ["2", "ZZ"]]
    wrong = ask(kind, "flights.csv", "carrier", "--by", "month", "--keys", "AA")
    assert "each of --keys must have 2 parts, for month, carrier" in wrong.stderr


def test_a_single_key_with_a_comma_has_a_note(ask, caplog):
    """Of one column, the comma is part of the key: the note says how several keys are written."""
    ask("count", "flights.csv", "--by", "carrier", "--keys", "AA, UA", "--epsilon", "1")
    assert caplog.messages == ["'AA, UA' is a single key; several are written --keys AA --keys UA"]


def test_a_statement_takes_public_keys(ask, cells, tmp_path):
    """`sql --keys` shows exactly these groups, in the types of their columns, without a delta."""
    query = "SELECT carrier, month, dp_count(*) AS n FROM f GROUP BY carrier, month"
    keys = ("--keys", "UA,2", "--keys", "ZZ,1")
    result = ask("sql", query, "--table", "f=flights.parquet", *keys, "--epsilon", "1e9")
    assert cells(result.stdout) == [["UA", "2", "500"], ["ZZ", "1", "0"]]
    wrong = ask("sql", query, "--table", "f=flights.parquet", "--keys", "UA,two")
    assert (wrong.exit_code, "int64" in wrong.stderr) == (2, True)
    schema = tmp_path / "schema.yml"
    schema.write_text("unit: f.day\n")
    unit = ("--schema", str(schema), "--unit", "day")
    owned = ask("sql", query, "--table", "f=flights.parquet", *unit)
    assert (owned.exit_code, "the schema names the unit" in owned.stderr) == (2, True)


@pytest.mark.parametrize(
    "columns",
    ["month", "month, 1 AS a", "dp_count(*) > 3 AS a, month", "[dp_count(*)] AS a, month"],
)
def test_any_result_of_a_statement_is_shown(ask, columns):
    """A result without a released number is printed too, with what was spent."""
    query = f"SELECT {columns} FROM f GROUP BY month HAVING dp_count(*) > 0"
    result = ask("sql", query, "--table", "f=flights.parquet", "--delta", "1e-6")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Spent epsilon 1, delta 1e-06" in result.stdout
