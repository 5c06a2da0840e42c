"""Keys and constants of a job have the types of their columns, or are refused with their line."""

import csv
import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from tests.frontends.described_delays import spent

CODES = ["01234", "007", "0.10", "True", "1e3", "yes"]
QUOTED = ", ".join(f"'{code}'" for code in CODES)
FILE = "{file: codes.parquet}"
QUERY = (
    '{query: "SELECT code, number, dp_count(*) AS rows FROM t GROUP BY code, number", '
    "tables: {t: codes.parquet}}"
)
COUNT = 'questions: {rows: {count: "*"}}'


@pytest.fixture
def job(run):
    """Run a release of 100 rows for each of six codes, after one that could be charged."""
    days = [dt.date(2024, 1, 31), dt.date(2024, 2, 1)] * 300
    numbers = [1, 2, 3] * 200
    rows = {"code": CODES * 100, "day": days, "number": numbers, "flag": [True, False] * 300}
    pl.DataFrame(rows).write_parquet("codes.parquet")

    def run_release(source, *lines, **parameters):
        body = "".join(f"    {line}\n" for line in lines)
        first = f"  first: {{{COUNT}, source: {FILE}, outputs: [first.csv]}}\n"
        head = 'budget: {ledger: budget.db, dataset: flights, version: "1", epsilon: 40}\n'
        kinds = {name: kind for name, (kind, _) in parameters.items()}
        declared = f"parameters: {kinds}\n".replace("'", "") if kinds else ""
        text = (
            f"{head}{declared}releases:\n{first}  r:\n    source: {source}\n{body}"
            "    outputs: [out.csv]\n"
        )
        values = (f"--set={name}={value}" for name, (_, value) in parameters.items())
        return run(text, *values), text

    return run_release


def find_line(text, part):
    return text[: text.index(part)].count("\n") + 1


def test_keys_of_one_group_column_have_one_part(job):
    """Keys of a query that have more parts are refused with their line, and nothing is charged."""
    query = QUERY.replace("code, number", "code")
    result, text = job(query, "keys: [[a, 1], [b, 1]]")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"release.yml:{find_line(text, 'keys:')}: releases.r.keys: ")
    assert "as many parts as there are group columns: code" in result.stderr
    assert spent().epsilon == 0


@pytest.mark.parametrize("code", ["01234", "007", "0.10", "True", "1e3"])
@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (FILE, ("by: code", "keys: [KEY]", COUNT)),
        (FILE, ("by: code", "keys: KEY", COUNT)),
        (FILE, ("by: code", "keys:", "- yes", "- KEY", COUNT)),
        (FILE, ("by: [number, code]", "keys: [[1, KEY]]", COUNT)),
        (FILE, ("by: [number, code]", "keys: {number: [1], code: [KEY]}", "margins: true", COUNT)),
        (FILE, ("keys: [KEY]", "questions: {n: {value_counts: code}}")),
        (FILE, ("questions: {n: {share: code, value: KEY}}",)),
        (QUERY, ("keys: [[KEY, 1]]",)),
        (QUERY, ("keys: {number: [1], Code: [KEY]}",)),
    ],
)
def test_numbers_and_booleans_for_text_are_refused(job, source, lines, code):
    """A key that YAML reads as a number or boolean is refused for text, with a line, uncharged."""
    result, text = job(source, *(line.replace("KEY", code) for line in lines))
    assert result.exit_code == 2
    kind = "boolean" if code == "True" else "number"
    (message, hint) = result.stderr.splitlines()
    field = "keys:" if "keys:" in text else "questions: {n:"
    assert message.startswith(f"release.yml:{find_line(text, field)}: releases.r.")
    assert f" is a {kind}, and column 'code' is declared string; quote it: " in message
    assert hint.startswith("Hint: ")
    assert spent().epsilon == 0


@pytest.mark.parametrize(
    ("column", "keys", "counts"),
    [
        ("number", "[1, '2', 3.0]", {"1": 200, "2": 200, "3": 200}),
        ("day", "[2024-01-31, '2024-02-01']", {"2024-01-31": 300, "2024-02-01": 300}),
        ("flag", "[true, 'false']", {"true": 300, "false": 300}),
        ("number", "[1, true]", None),
        ("number", "[1, 1.5]", None),
        ("number", "[1, 2024-01-31]", None),
        ("day", "[2024-01-31, 20240201]", None),
        ("day", "[19753]", None),
        ("flag", "[true, 0]", None),
        ("code", f"[{QUOTED}]", dict.fromkeys(CODES, 100)),
    ],
)
@pytest.mark.parametrize("form", ["groups", "values", "query"])
def test_keys_are_of_the_type_of_their_column(job, column, keys, counts, form):
    """Keys of questions and of queries are read in the type of their column, or refused alike."""
    query = f'{{query: "SELECT {column}, dp_count(*) AS rows FROM t GROUP BY 1", '
    query += "tables: {t: codes.parquet}}"
    lines = {
        "groups": (f"by: {column}", COUNT),
        "values": (f"questions: {{rows: {{value_counts: {column}}}}}",),
        "query": (),
    }[form]
    result, text = job(query if form == "query" else FILE, f"keys: {keys}", *lines)
    if counts is None:
        assert result.exit_code == 2
        start = f"release.yml:{find_line(text, 'keys:')}: releases.r.keys"
        assert all(line.startswith(start) for line in result.stderr.splitlines()[:-1])
        assert spent().epsilon == 0
        return
    assert result.exit_code == 0
    with Path("out.csv").open(newline="") as file:
        rows = {row[column]: float(row["rows"]) for row in csv.DictReader(file)}
    assert rows == {key: pytest.approx(count, abs=2) for key, count in counts.items()}


def test_keys_by_column_of_a_query_go_by_their_names(job):
    """Keys that are listed by column belong to these columns, in whatever order they stand."""
    source = QUERY.replace("number", "flag::VARCHAR AS other", 1).replace("code, number", "1, 2")
    result, _ = job(source, "keys: {other: ['true', 'True'], code: ['01234', 'True']}")
    assert result.exit_code == 0
    rows = pl.read_csv("out.csv", infer_schema=False)["code", "other", "rows"].rows()
    counts = {(code, other): float(count) for code, other, count in rows}
    assert counts == {
        ("01234", "true"): pytest.approx(100, abs=2),
        ("01234", "True"): pytest.approx(0, abs=2),
        ("True", "true"): pytest.approx(0, abs=2),
        ("True", "True"): pytest.approx(0, abs=2),
    }


@pytest.mark.parametrize(("kind", "code"), [("integer", 2), ("number", 2), ("text", 0)])
def test_parameters_as_keys(job, kind, code):
    """A parameter that is declared a number is no key of text. One that is text is unchanged."""
    result, _ = job(FILE, "by: code", "keys: ['${code}']", COUNT, code=(kind, "007"))
    assert result.exit_code == code
    assert code == 0 or "quote it" in result.stderr
