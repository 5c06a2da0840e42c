"""An error after the charge may tell something about the draw, so that it uses the charge up."""

from pathlib import Path

import duckdb
import polars as pl
import pytest

import dfprivacy as dfp
from tests.command_line import command

TEXT = """\
budget: {{ledger: budget.db, dataset: rows, version: "1", epsilon: 0.5}}
releases:
  counts:
    source: {{query: "{query}", tables: {tables}}}
    keys: [a, b]
    outputs: [counts.csv]
"""
COUNTS = "SELECT k, dp_count(*) AS n FROM t GROUP BY k"
ONE = "{t: rows.parquet}"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Write three rows in two groups, and a ledger."""
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"k": ["a", "a", "b"]}).write_parquet("rows.parquet")
    dfp.Ledger("budget.db", epsilon=10, remember=True)


def describe(query=COUNTS, tables=ONE):
    Path("release.yml").write_text(TEXT.format(query=query, tables=tables))


def attempt(tables=ONE):
    """Return how a run ended; what no command catches is raised."""
    describe(tables=tables)
    return command("run", "release.yml")


def paid_before(tables=ONE):
    """Return whether a run had nothing to pay."""
    result = attempt(tables)
    assert result.exit_code == 0, result.output
    return result.stdout.endswith("; paid before, nothing spent\n")


def charges():
    return len(dfp.Ledger("budget.db").history())


ORDERS = {
    "expression": f"{COUNTS} ORDER BY {{}}",
    "alias": "SELECT k, dp_count(*) AS n, {} AS e FROM t GROUP BY k ORDER BY e DESC, k",
    "ordinal": "SELECT k, dp_count(*) AS n, {} AS e FROM t GROUP BY k ORDER BY 3, 1",
    "all": "SELECT {} AS e, k, dp_count(*) AS n FROM t GROUP BY k ORDER BY ALL",
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("bound", ["2", "-1000"])
def test_an_order_that_fails(order, bound):
    """An expression of ORDER BY that no type holds is NULL: the answer comes, with all groups."""
    describe(ORDERS[order].format(f"CAST({bound} - dp_count(*) AS UTINYINT)"))
    done = command("run", "release.yml")
    assert (done.exit_code, done.stderr) == (0, "")
    released = pl.read_csv("counts.csv")
    assert sorted(released["k"]) == ["a", "b"]
    if bound == "-1000" and "e" in released.columns:
        assert released["e"].is_null().all()  # false alarm below 1e-200
        assert released["k"].to_list() == ["a", "b"]
    assert charges() == 1


@pytest.mark.parametrize("direction", ["", "DESC"])
def test_an_order_that_does_not_fail(direction):
    """An expression sorts by its own values; TRY changes nothing about them."""
    describe(f"{COUNTS} ORDER BY 1000 - 2 * n {direction}, k")
    assert command("run", "release.yml").exit_code == 0
    counts = pl.read_csv("counts.csv")["n"].to_list()
    assert counts == sorted(counts, reverse=not direction)


def fail(*_, **__):
    raise dfp.EngineError("a failure that a draw has caused")


class PanicError(BaseException):
    """Stands for a panic of an engine, which is no Exception."""


def panic(*_, **__):
    raise PanicError


STAGES = ["dfprivacy.frames.releasing.run_mechanisms", "dfprivacy.statements.jobs.finish_statement"]
LARGE = "dfprivacy.accounting.memory.release_bytes"


@pytest.mark.parametrize("stage", [*STAGES, LARGE])
@pytest.mark.parametrize("error", [fail, panic])
def test_an_error_uses_the_charge_up(monkeypatch, stage, error):
    """Whatever fails between the charge and what is kept, the next attempt pays anew."""
    for failed in (1, 2):
        with monkeypatch.context() as patched:
            patched.setattr(stage, error)
            if error is panic:
                with pytest.raises(PanicError):
                    attempt()
            else:
                assert attempt().exit_code == 1
        assert charges() == failed
    assert not paid_before()
    assert charges() == 3
    assert paid_before()
    assert charges() == 3


def test_a_release_that_is_too_large_is_paid(monkeypatch):
    """That a release is too large to be kept shows its size: the next attempt pays anew."""
    with monkeypatch.context() as patched:
        patched.setattr("dfprivacy.accounting.memory.MOST_BYTES", 10)
        failed = attempt()
        assert (failed.exit_code, "512 MiB" in failed.stderr) == (1, True)
    assert not paid_before()
    assert charges() == 2


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_pays_once(monkeypatch, stage, stop):
    """An interrupt after the charge leaves the claim: the next attempt is free."""

    def stop_run(*_, **__):
        raise stop

    with monkeypatch.context() as patched:
        patched.setattr(stage, stop_run)
        assert attempt().stdout == ""
    assert charges() == 1
    assert paid_before()
    assert charges() == 1


def test_an_error_before_the_draw_leaves_a_claim(monkeypatch):
    """An attempt that draws nothing uses no charge up: neither its own nor one it found."""
    with monkeypatch.context() as patched:
        patched.setattr(STAGES[0], lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert attempt().exit_code == 130
    with monkeypatch.context() as patched:
        patched.setattr("dfprivacy.frames.releasing.measure_plan", fail)
        assert attempt().exit_code == 1
    assert paid_before()
    assert charges() == 1


def test_names_go_with_their_files():
    """Which name has which file is part of a release; the order in which they stand is not."""
    pl.DataFrame({"k": ["a"]}).write_parquet("other.parquet")
    assert not paid_before("{t: rows.parquet, u: other.parquet}")
    assert paid_before("{u: other.parquet, t: rows.parquet}")
    assert not paid_before("{u: rows.parquet, t: other.parquet}")


FAILING = "SELECT (n || ' rows')::INTEGER AS n FROM (SELECT dp_count(*) AS n FROM t)"


def test_a_query_that_fails_over_answers_is_paid_once():
    """The answers are kept: each run prints the same ones, says the same and spends nothing more.

    A corrected query is another release.
    """
    text = TEXT.replace("    keys: [a, b]\n", "")
    Path("release.yml").write_text(text.format(query=FAILING, tables=ONE))
    results = [command("run", "release.yml") for _ in range(3)]
    for result in results:
        assert (result.exit_code, result.stderr) == (1, results[0].stderr)
        assert result.stdout == results[0].stdout
    assert pl.read_csv(results[0].stdout.encode()).columns == ["n"]
    assert "Could not convert string" in results[0].stderr
    assert not Path("counts.csv").exists()
    assert charges() == 1
    Path("release.yml").write_text(
        text.format(query=FAILING.replace(" || ' rows'", ""), tables=ONE)
    )
    assert command("run", "release.yml").exit_code == 0
    assert charges() == 2


def test_a_query_that_lacked_memory_runs_again_over_the_same_answers(monkeypatch):
    """A query over kept answers can be run again: that draws nothing and charges nothing."""
    describe(f"WITH c AS ({COUNTS}) SELECT k, n + 1 AS n FROM c ORDER BY k")
    read = "dfprivacy.statements.jobs.read_released_rows"

    def run_out_of_memory(relation):
        if "n + 1" in relation.sql_query() and relation.shape[0]:
            raise duckdb.OutOfMemoryException("Out of Memory")
        return relation.to_arrow_table()

    with monkeypatch.context() as patched:
        patched.setattr(read, run_out_of_memory)
        failed = command("run", "release.yml")
    assert (failed.exit_code, "Out of Memory" in failed.stderr) == (1, True)
    printed = pl.read_csv(failed.stdout.encode())
    done = command("run", "release.yml")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.endswith("; paid before, nothing spent\n")
    assert pl.read_csv("counts.csv")["n"].to_list() == [n + 1 for n in printed["n"]]
    assert charges() == 1
