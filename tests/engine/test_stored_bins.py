"""Tables of values that are kept in files are those in memory, and go with what has made them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

import dfprivacy as dfp
from dfprivacy.engine import stored_bins
from dfprivacy.engine.bins import run_bins
from dfprivacy.engine.stored_bins import run_stored_bins
from dfprivacy.releasing import named_columns, read
from dfprivacy.statistics.quantile import value_grid

ROWS = {
    "plain": "hash(i) % 50 AS g, exp(hash(i + 1) % 1000 / 20) AS x, i % 3 AS h"
    " FROM range(20000) r(i)",
    "odd": "CASE WHEN i % 7 > 0 THEN 'kÄ' || (hash(i) % 50) END AS g,"
    " CASE i % 5 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN NULL WHEN 2 THEN -0.0 ELSE i % 4 END AS h,"
    " CASE WHEN i % 3 = 0 THEN 'nan'::DOUBLE WHEN i % 11 > 0 THEN exp(hash(i) % 1000 / 20) END AS x"
    " FROM range(20000) r(i)",
    "no row": "1 AS g, 1.0 AS x, TRUE AS h WHERE FALSE",
    "no value": "i AS g, NULL::DOUBLE AS x, i > 3 AS h FROM range(10) r(i)",
    "dates": "DATE '2020-01-01' + (i % 40)::INT AS g, i % 90 / 7 AS x, i % 2 = 0 AS h"
    " FROM range(20000) r(i)",
}


@pytest.fixture
def file(tmp_path):
    """Write the rows of a SELECT as a Parquet file; return its path."""

    def write(select):
        path = tmp_path / "rows.parquet"
        duckdb.sql(f"COPY (SELECT {select}) TO '{path}'")
        return path

    return write


def measured(path, by):
    grid = value_grid(coarse=True)
    _, found = read(
        path,
        named_columns(by, None, {"x": True}, None),
        lambda a: (run_bins(a, by, "x", grid), run_stored_bins(a, by, "x", grid)),
    )
    return found


@pytest.mark.parametrize("entries", [stored_bins.ENTRIES, 700])
@pytest.mark.parametrize("by", [["g"], ["h", "g"]])
@pytest.mark.parametrize("rows", ROWS)
def test_files_hold_what_memory_holds(rows, by, entries, file, monkeypatch):
    """Keys and their order, groups, bins and rows are the same, in one block or in many."""
    monkeypatch.setattr(stored_bins, "ENTRIES", entries)
    held, stored = measured(file(ROWS[rows]), by)
    whole = stored.whole()
    assert whole.keys.equals(held.keys)
    assert whole.groups == stored.groups == held.groups
    for name in ("group", "bins", "rows"):
        assert np.array_equal(getattr(whole, name), getattr(held, name))
    assert np.array_equal(stored.totals(), held.totals())
    many = entries < len(held.rows)
    assert len(stored.files) > 1 if many else len(stored.files) == 1
    assert all(block.groups < held.groups for block in stored.blocks()) or not many


def test_files_go_with_the_table(file, tmp_path):
    """Files lie in a folder of their own for this user alone, and go when nobody has the table."""
    (tmp_path / "temporary").mkdir()
    with dfp.Engine(temporary=str(tmp_path / "temporary")):
        _, stored = measured(file(ROWS["plain"]), ["g"])
    (folder,) = (tmp_path / "temporary").iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    assert {path.parent for path in stored.files} == {folder}
    assert "secret" in repr(stored)
    del stored
    assert list((tmp_path / "temporary").iterdir()) == []


def test_what_fails_leaves_no_file(file, tmp_path, monkeypatch):
    """Where there is no room left, nothing is charged, nothing quoted, and nothing stays."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def full(path, _):
        Path(path).write_bytes(b"half")
        raise OSError(28, "row 4711 found no room")

    monkeypatch.setattr(stored_bins.np, "save", full)
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1, delta=1e-5)
    path = file(ROWS["plain"])
    with dfp.Engine(temporary=str(temporary)), pytest.raises(dfp.EngineError) as caught:
        dfp.frame(path)(ledger=ledger, dataset="d").group_by("g").median("x", delta=1e-6)
    assert "4711" not in str(caught.value)
    assert ledger.datasets() == []
    assert list(temporary.iterdir()) == []


def test_every_block_is_answered(file, monkeypatch):
    """Groups of one value each have that value as their median, in whatever block they are."""
    monkeypatch.setattr(stored_bins, "ENTRIES", 7)
    path = file("i % 30 AS g, (2 + i % 30)::DOUBLE AS x FROM range(30000) r(i)")
    asked = dfp.frame(path).group_by("g")
    for question in ({"q": 0.5}, {"q": 0.3}):
        found = asked.quantile("x", **question, epsilon=200, delta=1e-6).to_pydict()
        assert found["g"] == list(range(30))
        (name,) = set(found) - {"g", "count", "count_low", "count_high"}
        assert found[name] == [2.0 + g for g in range(30)]
    several = asked.quantiles("x", [0.2, 0.8], epsilon=400, delta=1e-6)
    assert several.num_rows == 30
    columns = [name for name in several.column_names if "0." in name]
    assert len(columns) == 2
    assert all(several[name].to_pylist() == [2.0 + g for g in range(30)] for name in columns)


ASKED = {
    "center": lambda asked, terms: asked.center("x", 1.5, (0, 64), **terms),
    "center without bounds": lambda asked, terms: asked.center("x", 2, **terms),
    "center after Dick": lambda asked, terms: asked.center("x", 2, method="dick", **terms),
    "inverse median": lambda asked, terms: asked.median("x", method="inverse", **terms),
    "inverse mean": lambda asked, terms: asked.mean("x", method="inverse", **terms),
    "subset mean": lambda asked, terms: asked.mean("x", method="subset", **terms),
    "mean after Dick": lambda asked, terms: asked.mean("x", method="dick", **terms),
    "bounds by rank": lambda asked, terms: asked.bounds("x", rank=3, **terms),
}


@pytest.mark.parametrize("name", ASKED)
def test_every_question_about_values_reads_files(name, file, monkeypatch):
    """Each group of one value each has it as its answer, though blocks hold a few groups."""
    blocks, stored = [], stored_bins.StoredBins

    def counted(*arguments):
        table = stored(*arguments)
        blocks.append(len(table.files))
        return table

    monkeypatch.setattr(stored_bins, "ENTRIES", 7)
    monkeypatch.setattr(stored_bins, "StoredBins", counted)
    path = file("i % 30 AS g, (2 + i % 30)::DOUBLE AS x FROM range(30000) r(i)")
    found = ASKED[name](dfp.frame(path).group_by("g"), {"epsilon": 200, "delta": 1e-6})
    assert blocks[0] > 4
    assert found["g"].to_pylist() == list(range(30))
    known = {"g", "count", "count_low", "count_high", "x_low", "x_high"}
    columns = [name for name in found.column_names if name not in known]
    assert columns
    for column in columns:
        assert found[column].to_pylist() == pytest.approx([2.0 + g for g in range(30)], abs=0.05)


@pytest.mark.parametrize("place", ["engine.interrupt._wait", "engine.stored_bins.remove_with"])
def test_an_interrupt_leaves_no_file(place, file, spills, tmp_path, monkeypatch):
    """Ctrl-C during the pass, or right after it, costs nothing and leaves no file."""

    def stop(*_):
        raise KeyboardInterrupt

    path = file(ROWS["plain"])
    monkeypatch.setattr(f"dfprivacy.{place}", stop)
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=1, delta=1e-5)
    with pytest.raises(KeyboardInterrupt):
        dfp.frame(path)(ledger=ledger, dataset="d").group_by("g").median("x", delta=1e-6)
    assert ledger.datasets() == []
    assert list(spills.iterdir()) == []
