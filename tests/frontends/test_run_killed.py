import json
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import dfprivacy as dfp
from dfprivacy.cli import app
from dfprivacy.cli.output import INTERRUPTED
from dfprivacy.jobs import running
from dfprivacy.jobs.description import read_description

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
    return list(running.run_releases(read_description("release.yml")))


def files():
    return {p.name: p.read_bytes() for p in Path().iterdir() if p.suffix in {".csv", ".parquet"}}


class StoppedError(KeyboardInterrupt):
    """Stands for an interrupt, or the end of a process: nothing is done about it."""


def stop(*_, **__):
    raise StoppedError


STAGES = ["made", "keep", "paid", "write_note", "write"]


@pytest.mark.parametrize("stage", STAGES)
def test_stopped_on_the_way(folder, monkeypatch, stage):
    """A run that stops before any stage of its second release is finished by the next one.

    Every release is charged once, and what came out before the stop stays as it was.
    """
    steps = running.run_releases(read_description("release.yml"))
    next(steps)
    first = files()
    with monkeypatch.context() as patched:
        owner = running.IdempotentLedger if stage in {"keep", "paid"} else running
        patched.setattr(owner, stage, stop)
        with pytest.raises(StoppedError):
            next(steps)
    assert [done.paid_before for done in run()] == [True, stage != "made", False]
    assert {name: files()[name] for name in first} == first
    assert dfp.Ledger("budget.db").spent("rows") == dfp.Budget(epsilon=1.5, delta=1e-7)
    assert len(dfp.Ledger("budget.db").history()) == RELEASES
    assert dfp.Ledger("budget.db").stored("rows") == RELEASES


def test_stopped_between_charge_and_draw(folder, monkeypatch):
    """A run that stops right after its charge leaves a claim: the next one draws for nothing."""
    kept = dfp.Ledger("budget.db")
    with monkeypatch.context() as patched:
        patched.setattr("dfprivacy.releasing.answered", stop)
        with pytest.raises(StoppedError):
            run()
    assert kept.spent("rows").epsilon == 0.5
    assert not list(Path().glob("*.csv"))
    assert [done.paid_before for done in run()] == [True, False, False]
    assert kept.spent("rows").epsilon == 1.5


def test_interrupted_on_the_command_line(folder, monkeypatch):
    """Ctrl-C ends a run with one line and exit code 130; the same command finishes it."""
    with monkeypatch.context() as patched:
        patched.setattr("dfprivacy.releasing.answered", stop)
        stopped = CliRunner().invoke(app, ["run", "release.yml"])
    assert (stopped.exit_code, stopped.stdout, stopped.stderr) == (130, "", f"{INTERRUPTED}\n")
    assert CliRunner().invoke(app, ["run", "release.yml"]).exit_code == 0
    assert dfp.Ledger("budget.db").spent("rows").epsilon == 1.5


def seconds_of_a_run():
    start = time.monotonic()
    run()
    return time.monotonic() - start


@pytest.mark.slow
def test_killed_at_random_moments(folder):
    """Killed at random moments a run is finished by the next ones, at the price of exactly one.

    An output that was there once is never replaced by another answer. The first kills come within
    the time that a run takes, so that they find it running whatever the machine.
    """
    here = Path(__file__).with_name("killed_runs.py")
    subprocess.run([sys.executable, str(here), "9", "1"], check=True, capture_output=True)
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
            done = subprocess.run(
                [sys.executable, str(here), str(seconds), "4"],
                check=True,
                capture_output=True,
                text=True,
            )
            total = {name: total[name] + n for name, n in json.loads(done.stdout).items()}
            assert all(files()[name] == content for name, content in seen.items())
            seen = files()
            assert ledger.spent("rows").epsilon <= 1.5
        run()
        assert all(files()[name] == content for name, content in seen.items()), attempt
        assert ledger.spent("rows") == dfp.Budget(epsilon=1.5, delta=1e-7)
        assert len(ledger.history()) == RELEASES
    assert total["killed"] >= 5
