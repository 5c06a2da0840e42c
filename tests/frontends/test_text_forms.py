"""The encoding, delimiter and line breaks of a text file can be named wherever a file is."""

import json
from pathlib import Path

import duckdb
import pytest
import yaml

import dfprivacy as dfp
from tests.command_line import command

EXACT = 1e6  # an epsilon at which the noise of a count is below half a row but for 1e-100000
FORM = {"encoding": "latin-1", "delimiter": ":", "multiline": True}
OPTIONS = ["--encoding", "latin-1", "--delimiter", ":", "--multiline"]
ROWS = 'city:spent\n"Orléans":"1\n"\nOslo:3\n'
EXPECTED = {"Orléans": 1000, "Oslo": 1000}


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """Write a file of 1000 rows a city, which the defaults read otherwise."""
    monkeypatch.chdir(tmp_path)
    header, *lines = ROWS.splitlines(keepends=True)
    Path("visits.csv").write_bytes((header + "".join(lines) * 1000).encode("latin-1"))
    return "visits.csv"


def count_groups(table, name="count"):
    """Return the released count of each city."""
    return dict(zip(table["city"].to_pylist(), table[name].to_pylist(), strict=True))


def merge_parts(rows):
    """Return the count of each city by way of a file of statistics."""
    path = dfp.statistics(rows, "part.parquet", n=dfp.count(), by="city")
    return count_groups(dfp.merge([path], epsilon=EXACT, delta=1e-6), "n")


SQL = "SELECT city, dp_count(*) AS n FROM t GROUP BY city"
PYTHON = {
    "frame": lambda path: count_groups(
        dfp.frame(path, **FORM).group_by("city").count(epsilon=EXACT, delta=1e-6)
    ),
    "text file": lambda path: count_groups(
        dfp.frame(dfp.TextFile(path, **FORM)).group_by("city").count(epsilon=EXACT, delta=1e-6)
    ),
    "sql": lambda path: count_groups(
        dfp.sql(SQL, t=dfp.TextFile(path, **FORM), epsilon=EXACT, delta=1e-6), "n"
    ),
    "connect": lambda path: count_groups(
        dfp.connect({"t": dfp.TextFile(path, **FORM)}, epsilon=EXACT, delta=1e-6).sql(SQL).arrow(),
        "n",
    ),
    "statistics": lambda path: merge_parts(dfp.TextFile(path, **FORM)),
}


@pytest.mark.parametrize("ask", PYTHON.values(), ids=PYTHON)
def test_python_reads_the_form_that_is_named(ask, visits):
    """A frame, a statement and a file of statistics read the groups that the form declares."""
    assert ask(visits) == EXPECTED


def test_describe_reads_the_form_that_is_named(visits):
    """A description counts the rows and values that the form declares."""
    frame = dfp.frame(visits, **FORM)(bounds={"spent": (0, 10)})
    description = frame.describe(numbers=["spent"], epsilon=EXACT, delta=1e-6)
    page = repr(dfp.show(description))
    assert "Orléans" in page
    assert "spent" in page


EXACT_OPTIONS = ["--epsilon", str(EXACT), "--delta", "1e-6", "--output", "counts.json"]
COMMANDS = {
    "count": (["count", "visits.csv", "--by", "city"], "count"),
    "keys": (
        ["count", "visits.csv", "--by", "city", "--keys", "Orléans", "--keys", "Oslo"],
        "count",
    ),
    "agg": (["agg", "visits.csv", "--count", "--by", "city"], "count"),
    "top": (["top", "visits.csv", "city"], "count"),
    "where": (["count", "visits.csv", "--by", "city", "--where", "spent > 0"], "count"),
    "sql": (["sql", SQL, "--table", "t=visits.csv"], "n"),
}


@pytest.mark.parametrize(("words", "name"), COMMANDS.values(), ids=COMMANDS)
def test_commands_read_the_form_that_is_named(words, name, visits):
    """Every command that reads a file has the options of its text."""
    result = command(*words, *EXACT_OPTIONS, *OPTIONS)
    assert result.exit_code == 0, result.output
    rows = json.loads(Path("counts.json").read_text())
    assert {row["city"]: row[name] for row in rows} == EXPECTED


def test_a_tab_is_typed_as_a_backslash_and_a_letter(visits):
    """The delimiter tab can be typed in a shell."""
    Path("visits.csv").write_text("city\tspent,all\n" + "Oslo\t1,2\n" * 1000)
    result = command("count", visits, "--by", "city", *EXACT_OPTIONS, "--delimiter", "\\t")
    assert result.exit_code == 0, result.output
    assert json.loads(Path("counts.json").read_text())[0]["city"] == "Oslo"


def describe_release(source, name, **fields):
    """Return a description of the count of each city."""
    release = {"source": source, **fields, "outputs": f"{name}.csv"}
    budget = {"ledger": "budget.db", "dataset": "visits", "version": "1"}
    budget |= {"epsilon": EXACT, "delta": 1e-6}
    return yaml.safe_dump({"budget": budget, "releases": {name: release}}, allow_unicode=True)


QUESTIONS = {"by": "city", "questions": {"n": {"count": "*"}}}


@pytest.fixture
def run(visits):
    """Run a description beside a ledger of plenty."""
    dfp.Ledger("budget.db", epsilon=1e9, delta=0.1, remember=True)

    def run_text(text):
        Path("release.yml").write_text(text)
        return command("run", "release.yml")

    return run_text


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ({"file": "visits.csv", **FORM}, QUESTIONS),
        ({"query": SQL, "tables": {"t": "visits.csv"}, **FORM}, {}),
    ],
)
def test_a_description_names_the_form(source, fields, run):
    """A release reads the form that its source names, and its provenance says so."""
    result = run(describe_release(source, "counts", **fields))
    assert result.exit_code == 0, result.output
    rows = duckdb.sql("SELECT city, n FROM 'counts.csv'").fetchall()
    assert dict(rows) == EXPECTED
    note = json.loads(Path("counts.csv.provenance.json").read_text())
    assert {name: note["asked"][name] for name in FORM} == FORM


def test_another_form_is_another_release(run):
    """A release with another form of the same file is made and paid for anew."""
    plain = {"file": "visits.csv", "delimiter": ":"}
    assert run(describe_release(plain, "counts", **QUESTIONS)).exit_code == 0
    again = run(describe_release(plain, "counts", **QUESTIONS))
    other = run(describe_release({**plain, "encoding": "cp1252"}, "other", **QUESTIONS))
    assert "paid before" in again.stdout
    assert "paid before" not in other.stdout


@pytest.mark.parametrize(
    "source",
    [
        {"file": "visits.csv", "encoding": "utf-7"},
        {"file": "visits.csv", "delimiter": "::"},
        {"file": "visits.csv", "delimiter": 8},
        {"file": "visits.csv", "multiline": "perhaps"},
        {"file": "visits.parquet", "encoding": "latin-1"},
        {"folder": "visits", "encoding": "latin-1"},
        {"table": "t", "database": "visits.duckdb", "multiline": True},
    ],
)
def test_descriptions_refuse_forms_of_other_sources(source, run):
    """A form that is none, and a form beside no text file, is a fault with a line."""
    result = run(describe_release(source, "counts", **QUESTIONS))
    assert (result.exit_code, "release.yml:" in result.output) == (2, True)


@pytest.mark.parametrize("form", [{name: value} for name, value in FORM.items()])
def test_frames_that_are_no_text_files_refuse_a_form(form, visits):
    """A form of text beside a table, a Parquet file or a `TextFile` is refused."""
    for frame in (duckdb.sql("SELECT 1 AS x"), "visits.parquet", dfp.TextFile(visits)):
        with pytest.raises(dfp.errors.UnsupportedFrameError) as caught:
            dfp.frame(frame, **form)
        assert "Hint" in str(caught.value)


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_truth_values_of_text_files_are_numbers(suffix, tmp_path):
    """The words true and false, in any case, are 1 and 0; yes, t and other text are missing."""
    path, mark = tmp_path / f"rows.{suffix}", {"csv": ",", "tsv": "\t"}[suffix]
    words = ["True", "false", "TRUE", "true", "yes", "t", "", "1"] * 500
    path.write_text(f"k{mark}b\n" + "".join(f"1{mark}{word}\n" for word in words))
    mean = dfp.frame(path).mean("b", epsilon=1e6)
    assert mean == pytest.approx(4 / 5, abs=0.001)
    answer = dfp.sql("SELECT dp_mean(b) AS b FROM t", t=path, epsilon=1e6)
    assert answer["b"][0].as_py() == pytest.approx(4 / 5, abs=0.001)
