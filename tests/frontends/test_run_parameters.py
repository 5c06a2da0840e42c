"""Parameters of a description are set by --set and stand for values, never for YAML or SQL."""

import json
from pathlib import Path

import polars as pl
import pytest

import dfprivacy as dfp

TEXT = """\
parameters: {name: text, day: date, share: number, rows: integer}
source: {file: "days/${day}.csv"}
budget: {ledger: "${name}.db", dataset: "of ${name}", version: "${day}", epsilon: "${share}"}
releases:
  delays:
    unit: {column: user, max_rows: "${rows}"}
    questions:
      "${name}": {mean: "${name}_$${name}"}
    outputs: ["${name}-${day}.csv"]
"""
GOOD = {"name": "north", "day": "2024-01-31", "share": "0.25", "rows": "3"}


def options(**values):
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


def list_faults(result):
    """Return the faults of a description that is refused, without the hint."""
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.splitlines()[:-1]


def test_values_stand_where_they_are_named(run):
    """A value is put into texts, a text that is all parameter has its type; names stay."""
    flights = pl.read_csv("flights.csv").rename({"delay": "north_${name}"})
    flights.write_csv("days/2024-01-31.csv")
    ledger = dfp.Ledger("north.db", epsilon=10, remember=True)
    assert run(TEXT, *options(**GOOD)).exit_code == 0
    assert ledger.spent("of north").epsilon == 0.25
    note = json.loads(Path("north-2024-01-31.csv.provenance.json").read_text())
    assert note["asked"]["questions"] == {"${name}": "mean('north_${name}')"}
    assert note["asked"]["unit"] == "unit='user', max_rows=3"
    assert (note["version"], note["parameters"]) == ("2024-01-31", GOOD)


def test_a_value_adds_no_field(run):
    """A value that would be YAML in a file is text: quotes, commas and braces too."""
    text = TEXT.replace("${name}.db", "budget.db").replace("${name}-$", "$")
    value = 'a", epsilon: 9}, by: "b'
    explained = run(
        text.replace("days/${day}", "flights").replace("${name}_$${name}", "delay"),
        *options(**GOOD | {"name": value}),
        "--explain",
    )
    assert explained.stdout.startswith(f"delays: epsilon 0.25 of of {value} in budget.db\n")


WRONG = {
    "day": ["", "31.01.2024", "2024-1-31", "2024-02-30", "2024-01-31; DROP", "20240131"],
    "share": ["", "one", "1/2", "nan", "inf", "1e", "0x1", "1 ", "1_0"],
    "rows": ["", "1.5", "1e3", "9" * 30, " 1"],
    "name": ["", " ", "a\nb", "\x1b[31m", "x" * 201],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in WRONG.items() for v in vs])
def test_a_value_of_another_type(run, name, value):
    """A value that is not of its type is refused and not shown; the example is of the type."""
    (fault,) = list_faults(run(TEXT, *options(**GOOD | {name: value}), "--check"))
    kind = {"name": "text", "day": "date", "share": "number", "rows": "integer"}[name]
    start = f"release.yml:1: --set {name}: the value is no {kind} such as "
    assert fault.startswith(start)
    assert len(value.strip()) < 4 or value not in fault
    for right in (fault.removeprefix(start), {"share": "1.5e-3", "name": "Süd"}.get(name, "")):
        assert not right or run(TEXT, *options(**GOOD | {name: right}), "--check").exit_code == 0


@pytest.mark.parametrize("value", ["../north", "/etc/x", "a\\b", "*", "a?", "[a]", "..", "~root"])
def test_a_value_in_a_path(run, value):
    """A value in a path is a part of one name: it leaves no folder and is no pattern."""
    faults = list_faults(run(TEXT, *options(**GOOD | {"name": value}), "--check"))
    assert len(faults) == 2  # the ledger, the output
    assert all(line.endswith("the value can't be part of a file's name") for line in faults)


def test_parameters_that_do_not_fit(run):
    """A parameter that is set and not declared is a fault, as one that is declared and not set."""
    (fault,) = list_faults(run(TEXT, *options(**GOOD, dya="2024-01-31"), "--check"))
    assert fault == "release.yml:1: --set dya: no such parameter is declared"


QUERY = """\
parameters: {{day: {kind}}}
budget: {{ledger: budget.db, dataset: flights, version: "1", epsilon: 50}}
releases:
  counts:
    source: {{query: {query}, tables: {{t: t.parquet}}}}
    outputs: [counts.csv]
"""


def describe_rows(query, kind="text"):
    return QUERY.format(query=json.dumps(query), kind=kind)


HOSTILE = ["x' OR '1'='1", "';--", '"', "\\", "$$", "/*", "*/", "--", "''", "a'b''c", "${day}"]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_in_a_query_is_one_literal(run, value):
    """Whatever a value holds, DuckDB reads it back as the same text, and nothing else."""
    pl.DataFrame({"k": [value] * 100 + ["kept"] * 50}).write_parquet("t.parquet")
    query = "SELECT dp_count(*) AS n FROM t WHERE k = ${day} OR k = 'none'"
    result = run(describe_rows(query), *options(day=value))
    assert result.exit_code == 0, result.output
    assert pl.read_csv("counts.csv")["n"][0] == pytest.approx(100, abs=2)  # below 1e-40


@pytest.mark.parametrize(
    "query",
    [
        "SELECT '${day}'",
        "SELECT 'it''s ${day}'",
        'SELECT "${day}"',
        "SELECT 1 -- ${day}",
        "SELECT 1 /* ${day} */",
        "SELECT $$ ${day} $$",
        "SELECT x${day}",
        "SELECT ${day}x",
        "SELECT ${day} || '${day}'",
        "SELECT E'\\' ${day}'",
        "SELECT 'open ${day}",
    ],
)
def test_a_place_inside_quotes(run, query):
    """A place inside quotes, a comment or a longer word is refused, and nothing is put there."""
    (fault,) = list_faults(run(describe_rows(query), *options(day="x"), "--check"))
    assert fault == (
        "release.yml:5: ${day} stands inside quotes, a comment or a name: write it bare, as in "
        "day = ${day}"
    )


def test_numbers_in_a_query(run):
    """A number is a number, and a minus sign before it never makes a comment."""
    pl.DataFrame({"k": [8] * 100 + [-2] * 50}).write_parquet("t.parquet")
    query = "SELECT dp_count(*) AS n FROM t WHERE k = 3 -${day}"
    assert run(describe_rows(query, "integer"), *options(day="-5")).exit_code == 0
    assert pl.read_csv("counts.csv")["n"][0] == pytest.approx(100, abs=2)  # below 1e-40
