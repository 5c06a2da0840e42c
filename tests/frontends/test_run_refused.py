"""Runs that can't be made end before anything is spent."""

from pathlib import Path

import pytest

import dfprivacy as dfp
from tests.frontends.described_delays import DELAYS, HEAD, spent


def test_releases_that_do_not_fit_together(run):
    """A budget that does not cover the whole run refuses it with 3, before anything is spent."""
    other = DELAYS.replace("delays", "again").replace("de lays", "other").replace("240", "250")
    result = run(HEAD.replace("epsilon: 1", "epsilon: 60") + DELAYS + other)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == (
        "Error: the budget of dataset 'flights' does not cover this run: it costs epsilon 120, "
        "delta 2e-7, and what is left is epsilon 100, delta 1e-6\n"
        f"Hint: see what was charged: dfprivacy ledger show {Path('budget.db').absolute()}\n"
    )
    assert spent() == dfp.Budget(epsilon=0.0)


FAILURES = [
    ("flights.parquet", "no.parquet", "there is no file "),
    ("mean: delay", "mean: dealy", "the source of release 'delays' has no column 'dealy'"),
    ("ledger: budget.db", "ledger: no.db", "the ledger "),
    ("{file: flights.parquet}", "{table: no, database: flights.duckdb}", "there is no table 'no'"),
    ("{file: flights.parquet}", "{table: no, database: days/1.parquet}", "'"),
    ("[delays.csv,", "[no/delays.csv,", "there is no directory "),
    ("[delays.csv,", "[flights.csv,", "'flights.csv' is there already, and no run has made it"),
    ("database: out.duckdb, table: \"de lays\"", "database: flights.duckdb, table: EARLY",
     "'flights.duckdb:EARLY' is there already, and no run has made it"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), FAILURES)
def test_other_failures(run, old, new, message):
    """Sources, ledgers and outputs that can't be used end with 1, before anything is spent."""
    text = HEAD + DELAYS
    assert text.count(old) == 1
    result = run(text.replace(old, new))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {message}")
    assert "\nHint: " in result.stderr
    assert spent() == dfp.Budget(epsilon=0.0)
    assert not list(Path().glob("*.json"))


def test_a_table_is_no_word_for_a_file(run):
    """A run that has made the table `csv` of a DuckDB file `mine` has not made mine.csv."""
    Path("mine.csv").write_text("precious")
    table, file = "[{database: mine, table: csv}]", "[mine.csv]"
    for outputs, code in ((file, 1), (table, 0), (file, 1)):
        release = DELAYS[: DELAYS.index("[delays.csv")] + outputs + "\n"
        assert run(HEAD + release).exit_code == code
    assert Path("mine.csv").read_text() == "precious"


@pytest.mark.parametrize(
    "outputs",
    [
        "[{database: a, table: csv}, a.csv]",
        "[{database: a, table: b.c}, {database: a.b, table: c}]",
        '[{database: a, table: b/c}, {database: a, table: "b%2Fc"}]',
    ],
)
def test_every_output_has_its_own_note(run, outputs):
    """No two outputs are vouched for by one note, and each note lies beside its output."""
    release = DELAYS[: DELAYS.index("[delays.csv")] + outputs + "\n"
    assert run(HEAD + release).exit_code == 0
    assert len(list(Path().glob("*.provenance.json"))) == 2


def test_a_ledger_must_remember(run):
    """A ledger that keeps no releases can't be run with: a second run would pay again."""
    dfp.Ledger("short.db", epsilon=1, delta=1e-6)
    result = run((HEAD + DELAYS).replace("budget.db", "short.db"))
    assert result.exit_code == 1
    assert "remembers no releases, and a run repeats its own" in result.stderr
    assert "dfprivacy ledger create FILE --epsilon 10 --remember" in result.stderr


def test_set_takes_pairs(run):
    """--set without a name or a value, or twice the same, is a fault of the call."""
    for args in (["--set", "day"], ["--set", "=1"], ["--set", "a=1", "--set", "a=2"]):
        result = run(HEAD + DELAYS, *args)
        assert result.exit_code == 2
        assert result.stderr.splitlines()[0] == (
            "release.yml:1: --set takes NAME=VALUE, once for each name"
        )
