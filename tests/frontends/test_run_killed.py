import json
import os
import time
from pathlib import Path

import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import command, run_python

pytestmark = pytest.mark.slow

TEXT = """\
source: {file: rows.parquet}
budget: {ledger: budget.db, dataset: rows, version: "1", epsilon: 0.5}
releases:
  groups:
    by: key
    budget: {delta: 1e-7}
    questions: {x: {mean: x, bounds: [0, 9]}}
    outputs: [groups.csv, groups.parquet]
  bins:
    questions: {x: {histogram: x, bins: 3, bounds: [0, 9]}}
    outputs: [{database: out.duckdb, table: bins}]
  all:
    source: {query: "SELECT dp_count(*) AS n FROM rows", tables: {rows: rows.parquet}}
    outputs: [all.csv]
"""
RELEASES = 3


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write a description of three releases, its rows and its ledger."""
    monkeypatch.chdir(tmp_path)
    rows = pl.DataFrame({"key": ["a", "b"] * 500, "x": [float(i % 10) for i in range(1000)]})
    rows.write_parquet("rows.parquet")
    dfp.Ledger("budget.db", epsilon=10, delta=1e-6, remember=True)
    Path("release.yml").write_text(TEXT)
    return tmp_path


def run():
    """Run the description; return, for each release, whether it was paid for before."""
    done = command("run", "release.yml")
    assert done.exit_code == 0, done.output
    return ["paid before" in line for line in done.stdout.splitlines() if "spent" in line]


def files():
    return {p.name: p.read_bytes() for p in Path().iterdir() if p.suffix in {".csv", ".parquet"}}


class StoppedError(KeyboardInterrupt):
    """Stands for an interrupt, or the end of a process: nothing is done about it."""


def stop_at(owner, name, count, monkeypatch):
    """Run until a function of the system is called for the given time."""
    left, true = [count], getattr(owner, name)

    def count_rows(*arguments, **named):
        left[0] -= 1
        if left[0] == 0:
            raise StoppedError
        return true(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, count_rows)
        return command("run", "release.yml")


PLACES = [
    *((os, "urandom", count) for count in (1, 2, 3)),
    *((os, "fsync", count) for count in (1, 2)),
    *((os, "replace", count) for count in (1, 2, 3)),
    *((pl.DataFrame, "write_csv", count) for count in (1, 2)),
]


@pytest.mark.parametrize(("owner", "name", "count"), PLACES)
def test_stopped_on_the_way(folder, monkeypatch, owner, name, count):
    """A run that Ctrl-C stops before a draw, a write or a file is finished by the next one.

    It ends with one line. Every release is charged once, and what came out before stays as it was.
    """
    stopped = stop_at(owner, name, count, monkeypatch)
    assert (stopped.exit_code, stopped.stderr) == (130, "Interrupted. Charges in a ledger stay.\n")
    first, ledger = files(), dfp.Ledger("budget.db")
    run()
    assert {file_name: files()[file_name] for file_name in first} == first
    assert ledger.spent("rows") == dfp.Budget(epsilon=1.5, delta=1e-7)
    assert len(ledger.history()) == RELEASES
    assert ledger.stored("rows") == RELEASES
    assert run() == [True] * RELEASES


def seconds_of_a_run():
    start = time.monotonic()
    run()
    return time.monotonic() - start


def test_killed_at_random_moments(folder):
    """Killed at random moments a run is finished by the next ones, at the price of exactly one.

    An output that was there once is never replaced by another answer. The first kills come within
    the time that a run takes, so that they find it running whatever the machine.
    """
    here = Path(__file__).with_name("killed_runs.py")
    run_python(here, 9, 1, check=True)
    assert run()
    limit = 3 * min(seconds_of_a_run() for _ in range(3))
    total = {"killed": 0, "ended": 0}
    for attempt in range(3):
        for path in Path().glob("*.*"):
            if path.name not in {"release.yml", "rows.parquet"} and path.is_file():
                path.unlink()
        ledger = dfp.Ledger("budget.db", epsilon=10, delta=1e-6, remember=True)
        seen = {}
        for seconds in (limit / 3, limit):
            done = run_python(here, seconds, 4, check=True)
            total = {name: total[name] + n for name, n in json.loads(done.stdout).items()}
            assert all(files()[name] == content for name, content in seen.items())
            seen = files()
            assert ledger.spent("rows").epsilon <= 1.5
        run()
        assert all(files()[name] == content for name, content in seen.items()), attempt
        assert ledger.spent("rows") == dfp.Budget(epsilon=1.5, delta=1e-7)
        assert len(ledger.history()) == RELEASES
    assert total["killed"] >= 5
