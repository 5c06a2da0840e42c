"""Data that change under an old version give the old answer, and a warning on stderr."""

import json
import os
import shutil
import stat
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

import dfprivacy as dfp
from tests.frontends.described_delays import HEAD, spent

WARNING = "Warning: total: data changed under version 1: the remembered answer is returned\n"
TOTAL = '  total: {{questions: {{n: {{count: "*"}}}}, outputs: [{output}]}}\n'
QUERY = "  total: {outputs: [total.csv]}\n"
SOURCES = {
    "Parquet": "{file: flights.parquet}",
    "CSV": "{file: flights.csv}",
    "pattern": "{file: days/*.parquet}",
    "folder": "{folder: days}",
    "hive": "{folder: days, hive: true}",
    "table": "{table: flights, database: flights.duckdb}",
    "query": "{query: 'SELECT dp_count(*) AS n FROM flights', database: flights.duckdb}",
    "query of files": "{query: 'SELECT dp_count(*) AS n FROM t', tables: {t: days}}",
}


def describe(source, output="total.csv"):
    releases = QUERY if "query" in source else TOTAL.format(output=output)
    return HEAD.replace("{file: flights.parquet}", source) + releases


def change(source):
    """Add a row to the data of a source."""
    if "duckdb" in source:
        with duckdb.connect("flights.duckdb") as connection:
            connection.execute("INSERT INTO flights FROM flights LIMIT 1")
    elif "csv" in source:
        with Path("flights.csv").open("a") as file:
            file.write("AA,1,1,10.0\n")
    else:
        first = Path("days/1.parquet" if "days" in source else "flights.parquet")
        rows = pl.read_parquet(first)
        pl.concat([rows, rows[:1]]).write_parquet(first)


@pytest.mark.parametrize("kind", SOURCES)
def test_changed_data(run, kind):
    """Changed files give one warning a release, the old bytes and code 0, and cost nothing."""
    text = describe(SOURCES[kind])
    first = run(text)
    assert (first.exit_code, first.stderr) == (0, "")
    released = {path: path.read_bytes() for path in Path().glob("total.csv*")}
    assert run(text).stderr == ""
    change(SOURCES[kind])
    for arguments in ((), ("--quiet",)):
        again = run(text, *arguments)
        assert (again.exit_code, again.stderr) == (0, WARNING)
        assert again.stdout == first.stdout[:0] or again.stdout.endswith("nothing spent\n")
        assert {path: path.read_bytes() for path in Path().glob("total.csv*")} == released
    assert spent().epsilon == 1
    changed_version = run(text.replace('version: "1"', 'version: "2"'))
    assert (changed_version.exit_code, changed_version.stderr) == (0, "")


@pytest.mark.parametrize("change", ["time", "new file", "lost file"])
def test_metadata_alone(run, change):
    """A time that differs by a nanosecond counts, and so does the list of files."""
    text = describe(SOURCES["folder"])
    assert run(text).stderr == ""
    file = Path("days/2.parquet")
    if change == "time":
        now = file.stat().st_mtime_ns
        os.utime(file, ns=(now, now + 1))
    elif change == "new file":
        shutil.copy2(file, "days/3.parquet")
    else:
        file.unlink()
    assert run(text).stderr == WARNING


def test_files_that_are_not_read(run):
    """Files beside the source, and of writers at work, do not count."""
    text = describe(SOURCES["hive"])
    assert run(text).stderr == ""
    Path("days/_temporary.parquet").write_text("")
    Path("days/read.me").write_text("")
    assert run(text).stderr == ""


@pytest.mark.parametrize("is_refused", [False, True])
def test_no_note(run, is_refused):
    """An answer that was remembered without a digest gives no warning, and gets none later.

    A place that takes no notes costs warnings, and no release.
    """
    notes, text = Path("budget.db-sources"), describe(SOURCES["Parquet"])
    if is_refused:
        notes.mkdir()
    assert run(text).stderr == ""
    if not is_refused:
        notes.unlink()
    change(SOURCES["Parquet"])
    for _ in range(2):
        result = run(text)
        assert (result.exit_code, result.stderr) == (0, "")


def test_forgotten_answers(run):
    """A release that is charged anew is compared with the files of its newest charge."""
    text = describe(SOURCES["Parquet"])
    assert run(text).stderr == ""
    change(SOURCES["Parquet"])
    dfp.Ledger("budget.db").forget()
    assert run(text).stderr == ""
    assert run(text).stderr == ""
    assert spent().epsilon == 2


def test_output_in_the_source(run):
    """A run that writes a table to the database that it reads gives no warning about that."""
    text = describe(SOURCES["table"], output="{database: flights.duckdb, table: total}")
    for _ in range(3):
        result = run(text)
        assert (result.exit_code, result.stderr) == (0, "")


def test_warning_in_the_log(run):
    """The JSON log has the warning as an event of the release."""
    text = describe(SOURCES["Parquet"])
    run(text)
    change(SOURCES["Parquet"])
    lines = [json.loads(line) for line in run(text, "--log-format=json").stderr.splitlines()]
    (warning,) = [line for line in lines if line["event"] == "warning"]
    assert warning["release"] == "total"
    assert f"Warning: total: {warning['message']}\n" == WARNING


@pytest.mark.skipif(sys.platform == "win32", reason="has no such modes")
def test_digests_are_private(run):
    """Digests of the files are for the owner alone, and the ledger does not depend on them."""
    assert run(describe(SOURCES["Parquet"])).exit_code == 0
    notes = Path("budget.db-sources")
    assert stat.S_IMODE(notes.stat().st_mode) == 0o600
    digest = notes.read_text().split()[1]
    assert digest.encode() not in Path("budget.db").read_bytes()
