from pathlib import Path

import duckdb
import pytest

import dfprivacy as dfp
from dfprivacy.jobs.checks import read_description
from dfprivacy.jobs.faults import Faults
from dfprivacy.jobs.parameters import TYPES, Parameter, in_sql

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


@pytest.fixture
def read(tmp_path):
    """Read the description with other parameters; return its one release."""
    (tmp_path / "release.yml").write_text(TEXT)
    return lambda **given: read_description(tmp_path / "release.yml", GOOD | given).releases[0]


def test_values_stand_where_they_are_named(read, tmp_path):
    """A value is put into texts, a text that is all parameter has its type; names stay."""
    release = read()
    assert release.source.path == tmp_path / "days" / "2024-01-31.csv"
    assert release.budget.dataset == "of north"
    assert (release.budget.epsilon, release.unit.max_rows) == (0.25, 3)
    assert release.questions == {"${name}": dfp.mean("north_${name}")}
    assert release.outputs[0].text == "north-2024-01-31.csv"


def test_a_value_adds_no_field(tmp_path):
    """What would be YAML in a file is text in a value: quotes, commas and braces too."""
    text = TEXT.replace("${name}.db", "budget.db").replace("${name}-$", "$")
    (tmp_path / "release.yml").write_text(text)
    value = 'a", epsilon: 9}, by: "b'
    (release,) = read_description(tmp_path / "release.yml", GOOD | {"name": value}).releases
    assert release.budget.dataset == f"of {value}"
    assert (release.budget.epsilon, release.by) == (0.25, ())


WRONG = {
    "day": ["", "31.01.2024", "2024-1-31", "2024-02-30", "2024-01-31; DROP", "20240131"],
    "share": ["", "one", "1/2", "nan", "inf", "1e", "0x1", "1 ", "1_0"],
    "rows": ["", "1.5", "1e3", "9" * 30, " 1"],
    "name": ["", " ", "a\nb", "\x1b[31m", "x" * 201],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in WRONG.items() for v in vs])
def test_a_value_of_another_type(read, name, value):
    """A value that is not of its type is refused and not shown; the example is of the type."""
    with pytest.raises(dfp.InvalidDescriptionError) as caught:
        read(**{name: value})
    kind = {"name": "text", "day": "date", "share": "number", "rows": "integer"}[name]
    where, _, what = caught.value.message.partition(":1: ")
    assert where.endswith("release.yml")
    assert what.startswith(f"--set {name}: the value is no {kind} such as ")
    assert len(value.strip()) < 4 or value not in what
    assert TYPES[kind](what.rpartition(" ")[2]) is not None


@pytest.mark.parametrize("value", ["../north", "/etc/x", "a\\b", "*", "a?", "[a]", "..", "~root"])
def test_a_value_in_a_path(read, value):
    """A value in a path is a part of one name: it leaves no folder and is no pattern."""
    with pytest.raises(dfp.InvalidDescriptionError) as caught:
        read(name=value)
    lines = caught.value.message.splitlines()
    assert len(lines) == 2  # the ledger, the output
    assert all(line.endswith("the value can't be part of a file's name") for line in lines)


def test_parameters_that_do_not_fit(read, tmp_path):
    """A parameter is declared and set: one that is only one of both is a fault."""
    with pytest.raises(dfp.InvalidDescriptionError, match="--set dya: no such parameter"):
        read(dya="2024-01-31")
    with pytest.raises(dfp.InvalidDescriptionError, match="day is not set; add --set day=2024-"):
        read_description(tmp_path / "release.yml", {**GOOD, "day": None})


def sql(query, **values):
    faults = Faults(Path("release.yml"))
    parameters = {name: Parameter(str(value), value) for name, value in values.items()}
    return in_sql(query, parameters, faults, 1), [what for _, what in faults.found]


HOSTILE = ["x' OR '1'='1", "';--", '"', "\\", "$$", "/*", "*/", "--", "''", "a'b''c", "${day}"]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_in_a_query_is_one_literal(value):
    """Whatever a value holds, DuckDB reads it back as the same text, and nothing else."""
    query, faults = sql("SELECT ${day} AS a, 'kept' AS b", day=value)
    assert faults == []
    assert duckdb.sql(query).fetchall() == [(value, "kept")]


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
def test_a_place_inside_quotes(query):
    """A place inside quotes, a comment or a longer word is refused, and nothing is put there."""
    given, faults = sql(query, day="x")
    assert len(faults) == 1
    assert "${day} stands inside quotes, a comment or a name" in faults[0]
    assert given == query


def test_numbers_in_a_query():
    """A number is a number, and a minus sign before it never makes a comment."""
    query, _ = sql("SELECT 3 -${n} AS a, ${n}::BIGINT AS b", n=-5)
    assert duckdb.sql(query).fetchall() == [(8, -5)]


def test_types_have_their_values():
    """A date and a text stay text; numbers are those of Python."""
    assert TYPES["date"]("2024-01-31") == "2024-01-31"
    assert TYPES["integer"]("-7") == -7
    assert TYPES["number"]("-1.5e-3") == -0.0015
    assert TYPES["text"]("Übersee") == "Übersee"
