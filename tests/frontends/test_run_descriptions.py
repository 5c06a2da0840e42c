from pathlib import Path

import pytest
from typer.testing import CliRunner

from dfprivacy.frontends.cli import app
from dfprivacy.jobs.checks import read_description

GOOD = """\
source: {file: flights.csv}
budget: {ledger: budget.db, dataset: flights, version: "1", epsilon: 1}
releases:
  delays:
    questions:
      delay: {mean: delay, bounds: [-60, 240]}
    outputs: [delays.csv]
"""


def other(old, new):
    """Return the good description with something else in one place."""
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


WRONG = (Path(__file__).parent / "wrong_descriptions.txt").read_text(encoding="utf-8")
"""Sections of a name, a description, and what is said about it."""


def cases():
    for section in WRONG.split("=== ")[1:]:
        name, _, rest = section.partition("\n")
        text, _, messages = rest.rpartition("---\n")
        yield pytest.param(text, messages.splitlines(), id=name)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in an empty folder: a description is checked without data and without a ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def check(text, name="release.yml"):
    Path(name).write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, ["run", "--check", name])


def test_there_are_many_faults_to_make():
    """There are at least 25 wrong descriptions, each with its full messages."""
    assert len(list(cases())) >= 25
    assert all(case.values[1] for case in cases())


@pytest.mark.parametrize(("text", "messages"), list(cases()))
def test_faults(folder, text, messages):
    """A wrong description ends with exit code 2 and one line a fault, and nothing else happens."""
    result = check(text)
    assert (result.exit_code, result.stdout) == (2, "")
    *lines, hint = result.stderr.splitlines()
    assert lines == messages
    assert hint.startswith("Hint: docs/etl.md")
    assert [path.name for path in folder.iterdir()] == ["release.yml"]


def test_a_good_one(folder):
    """A description without faults is said to have none; it needs neither data nor a ledger."""
    result = check(GOOD)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "release.yml: no faults; releases: delays\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: \xff", "release.yml:1: this is not UTF-8 text"),
        (
            b"a: \x00",
            "release.yml:1: this is not YAML: it holds a character that YAML does not allow",
        ),
        (b"#" * (2**20 + 1), "release.yml:1: a description has at most 1 MiB"),
    ],
)
def test_no_text(folder, content, message):
    """What is no text of a sensible size is refused as a whole."""
    (folder / "release.yml").write_bytes(content)
    result = CliRunner().invoke(app, ["run", "--check", "release.yml"])
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, message)


def test_no_file(folder):
    """A file that is missing, or of another kind, is a description with one fault."""
    result = CliRunner().invoke(app, ["run", "no.yml"])
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        2,
        "no.yml:1: the file can't be read: No such file or directory",
    )
    result = check("{}", "release.json")
    assert result.stderr.splitlines()[0] == (
        "release.json:1: a description is a .yml or .yaml file"
    )


def test_words_are_what_they_seem(folder):
    """NO is a country, 1e-6 a number and a date a text, as in YAML 1.2."""
    text = other("    outputs:", "    by: country\n    keys: [NO, on, 2024-01-31]\n    outputs:")
    (folder / "release.yml").write_text(text)
    (release,) = read_description("release.yml").releases
    assert release.keys.rows == (("NO",), ("on",), ("2024-01-31",))
    (folder / "release.yml").write_text(other("epsilon: 1}", "epsilon: 1e-3}"))
    (release,) = read_description("release.yml").releases
    assert release.budget.epsilon == 0.001


QUERY = """\
budget: {ledger: budget.db, dataset: flights, version: "1", epsilon: 1}
releases:
  counts:
    source: {query: "SELECT k, m, dp_count(*) AS n FROM t GROUP BY k, m", tables: {t: t.csv}}
    keys: [[AA, 1], [UA, 2], [AA, 1]]
    outputs: [counts.csv]
"""


def test_keys_of_several_columns(folder):
    """Keys of several columns have a part for each, whether `by` or a query names the columns."""
    lists = "    by: [k, m]\n    keys: {m: [1], k: [AA, UA]}\n    outputs:"
    for text, keys in (
        (QUERY, (("AA", 1), ("UA", 2))),
        (other("    outputs:", lists), (("AA", 1), ("UA", 1))),
    ):
        (folder / "release.yml").write_text(text)
        (release,) = read_description("release.yml").releases
        assert release.keys.rows == keys
