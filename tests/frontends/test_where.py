"""`--where` and `where:` ask about the rows for which a vetted condition holds."""

import json
from pathlib import Path

import polars as pl
import pytest

import dfprivacy as dfp
from tests.frontends.described_delays import HEAD, spent

EXACT = ["--epsilon", "1000000"]


def first_row(path):
    """Return the first record of an answer that was written."""
    return json.loads(Path(path).read_text())[0]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("delay > 0", 2000), ("delay > 0 AND month = 1", 1000), ("carrier = 'UA'", 1000),
        ("delay BETWEEN -50 AND 0", 1000), ("month IN (2, 3)", 1500), ("day < '2013-01-02'", 1500),
        ("delay / 2 < 0 -- early", 1000), ("length(carrier) = 3", 0), ("NULL", 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("file", ["flights.csv", "flights.parquet"])
def test_rows_for_which_it_holds(ask, tmp_path, file, where, rows):
    """The answer is about these rows, and no others, whether columns are text or have types."""
    target = tmp_path / "count.json"
    result = ask("count", file, "--where", where, *EXACT, "--output", str(target))
    assert (result.exit_code, first_row(target)["value"]) == (0, rows)


COMMANDS = {
    "mean": ["delay", "--bounds", "-60", "240"],
    "median": ["delay"],
    "histogram": ["delay", "--edge", "-60", "--edge", "0", "--edge", "60"],
    "crosstab": ["carrier", "month", "--delta", "1e-6", "--margins"],
    "top": ["carrier", "--delta", "1e-6"],
    "agg": ["--count", "--mean", "delay", "--bounds", "delay=-60,240"],
    "describe": ["--delta", "1e-6"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_question_takes_one(ask, command, monkeypatch, tmp_path):
    """Each command that asks rows takes a condition, and refuses one that looks at several."""
    file = str(Path("flights.parquet").absolute())
    monkeypatch.chdir(tmp_path)
    arguments = [command, file, *COMMANDS[command], *EXACT]
    result = ask(*arguments, "--where", "carrier = 'AA' AND count(*) > 1")
    assert result.exit_code == 2
    assert "count(...): it is as exact as the rows it aggregates" in result.stderr
    assert "UA" not in ask(*arguments, "--where", "carrier = 'AA'").stdout


@pytest.mark.parametrize(
    "where",
    [
        "true) GROUP BY ALL HAVING (true", "true) LIMIT (1", "true) ORDER BY (dp_count(*))",
        "true) UNION ALL SELECT dp_count(*) FROM rows WHERE (true", "month > (SELECT 1)",
        "random() < 0.5", "row_number() OVER () < 9", "dp_count(*) > 1", "nothing = 1", "delay >",
        "error('a row')", "day + delay", "true); DROP TABLE rows; --", "",
    ],
)  # fmt: skip
def test_more_than_a_condition_is_refused(ask, where):
    """A text that is no function of one row is refused before a row is read, by --explain too."""
    for more in ([], ["--explain"]):
        result = ask("count", "flights.parquet", "--where", where, *more)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("Error: ")
        assert "the statement can't be read" not in result.stderr  # nobody wrote one


HOSTILE = ["x", "", "1e999", "-", "99999999999999999999", "nan", "0", "18.5", "\u20ac", "0x1F"]


@pytest.mark.parametrize(
    "where",
    [
        "age >= 18", "CAST(age AS INTEGER) > 17", "1 / CAST(age AS INTEGER) < 1", "age % 2 = 0",
        "CAST(age AS DATE) > DATE '2020-01-01'", "age * 1000000000000 > 0", "CAST(age AS BOOLEAN)",
    ],
)  # fmt: skip
def test_no_row_decides_an_error(ask, tmp_path, where):
    """A value that does not convert leaves its row out: neighbours end alike and look alike."""
    ages = ["17", "40", "21"] * 50
    seen = set()
    for value in [None, *HOSTILE]:
        rows = ages if value is None else [*ages, value]
        pl.DataFrame({"age": rows, "x": ["1"] * len(rows)}).write_csv(tmp_path / "ages.csv")
        target = tmp_path / "mean.json"
        result = ask(
            "mean", str(tmp_path / "ages.csv"), "x", "--bounds", "0", "1", "--where", where,
            *EXACT, "--output", str(target),
        )  # fmt: skip
        answer = first_row(target)
        kinds = [(name, type(field).__name__) for name, field in answer.items() if name != "note"]
        seen.add((result.exit_code, result.stderr, "note" in answer, *kinds))
    assert len(seen) == 1
    assert seen.pop()[:3] == (0, "", True)


WHERE = """\
  early:
    where: delay < 0 AND carrier = ${carrier}
    questions: {n: {count: "*"}}
    budget: {epsilon: 50}
    outputs: [early.csv]
"""


@pytest.mark.parametrize(
    "source",
    ["{file: flights.csv}", "{folder: days}", "{table: flights, database: flights.duckdb}"],
)
def test_a_described_release_has_a_condition(run, source):
    """A release is about the rows of its condition, says so, and is another one without it."""
    head = HEAD.replace("{file: flights.parquet}", source)
    text = "parameters: {carrier: text}\n" + head + WHERE
    assert run(text, "--set", "carrier=UA").exit_code == 0
    assert abs(pl.read_csv("early.csv")["value"][0] - 1000) < 5
    assert spent().epsilon == 50
    note = json.loads(Path("early.csv.provenance.json").read_text())
    assert note["asked"]["where"] == "delay < 0 AND carrier = 'UA'"
    assert run(text, "--set", "carrier=AA").exit_code == 0
    assert abs(pl.read_csv("early.csv")["value"][0]) < 5
    assert dfp.Ledger("budget.db").spent("flights").epsilon == 100


def test_faults_of_a_described_condition(run):
    """A condition is checked before the first charge, and stands in no query."""
    wrong = run(HEAD + WHERE.replace("${carrier}", "max(carrier)"))
    assert wrong.exit_code == 1
    assert "max(...)" in wrong.stderr
    query = "source: {query: SELECT dp_count(*) AS n FROM f, tables: {f: flights.parquet}}\n"
    query = "parameters: {carrier: text}\n" + query
    result = run(
        HEAD.replace("source: {file: flights.parquet}\n", query) + WHERE,
        "--check",
        "--set",
        "carrier=AA",
    )
    assert "where: a query can't have this field: write it in the SQL" in result.stderr
    assert spent().epsilon == 0
