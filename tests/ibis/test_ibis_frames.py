"""Ibis tables have their own backends, collations, failures, and results that are numbers."""

import contextlib
import datetime as dt
import sqlite3

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.ibis.conftest import IBIS_WARNINGS

ibis = pytest.importorskip("ibis")

pytestmark = [pytest.mark.slow, IBIS_WARNINGS]


@pytest.fixture
def connection():
    """Return an Ibis connection to DuckDB with a table of two groups, in other spellings too."""
    database = ibis.duckdb.connect()
    database.con.execute(
        "CREATE TABLE t AS SELECT CASE WHEN i % 2 = 0 THEN 'a' ELSE 'A' END COLLATE NOCASE AS g, "
        "i AS u, i::DOUBLE AS x, i::VARCHAR AS s, to_days(30) AS d FROM range(200) r(i)"
    )
    return database


def group_frame(table, by="g"):
    """Return the groups and how many rows each has, as nearly no noise shows it."""
    released = dfp.frame(table).group_by(by).count(epsilon=1e6, delta=0.5).to_pyarrow()
    return dict(zip(released[by].to_pylist(), released["count"].to_pylist(), strict=True))


def test_text_is_grouped_by_what_is_written(connection):
    """A collation of a column or of a connection makes no two keys one."""
    connection.con.execute("SET default_collation = 'NOCASE'")
    assert group_frame(connection.table("t")) == {"A": 100, "a": 100}


def test_the_tables_own_query_comes_first(connection):
    """Filters, new columns and joins of Ibis tables are part of what is asked about."""
    table = connection.table("t")
    assert group_frame(table.filter(table.x < 50).mutate(g=table.u % 2)) == {0: 25, 1: 25}
    names = ibis.memtable(pa.table({"u": range(100), "n": ["x", "y"] * 50}))
    assert group_frame(table.join(names, "u"), "n") == {"x": 50, "y": 50}


def test_default_limits_of_ibis_cut_nothing(connection, monkeypatch):
    """The limit on the rows that Ibis shows is no limit on the rows that are counted."""
    monkeypatch.setattr(ibis.options.sql, "default_limit", 10)
    assert group_frame(connection.table("t")) == {"A": 100, "a": 100}
    lists = ibis.polars.connect({"t": pl.DataFrame({"g": ["a"] * 100})}).table("t")
    assert group_frame(lists) == {"a": 100}


def test_a_result_holds_numbers_and_draws_nothing(connection, monkeypatch):
    """A released Ibis table is the same however often it is executed, also without its source."""
    released = dfp.frame(connection.table("t")).group_by("g").mean("x", bounds=(0, 200), delta=0.1)
    assert isinstance(released, ibis.Table)
    monkeypatch.setattr("os.urandom", None)
    first = released.to_pyarrow()
    connection.con.execute("DROP TABLE t")
    assert released.to_pyarrow().equals(first)
    assert released.mutate(y=1).drop("y").to_pyarrow().equals(first)


def test_failures_of_a_query_are_withheld(connection):
    """A row that can't be cast fails with a message that says nothing of it."""
    connection.con.execute("INSERT INTO t (s) VALUES ('secret 4711')")
    table = connection.table("t")
    with pytest.raises(dfp.EngineError) as caught:
        dfp.frame(table.mutate(x=table.s.cast("float64"))).mean("x", bounds=(0, 1))
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


REFUSED = [
    (dfp.MissingColumnError, lambda f: f.count("y")),
    (dfp.UnsupportedDtypeError, lambda f: f.mean("s", bounds=(0, 1))),
    (dfp.UnsupportedDtypeError, lambda f: f.group_by("d").count(delta=0.1)),
    (dfp.errors.InvalidKeysError, lambda f: f.group_by("u", keys=["a"]).count()),
]


@pytest.mark.parametrize(("error", "ask_for"), REFUSED)
def test_what_is_declared_is_refused_by_name(error, ask_for, connection, tmp_path):
    """Columns, dtypes, bounds and keys that do not fit are refused, and cost nothing."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=5, delta=0.5)
    with pytest.raises(error, match="Hint"):
        ask_for(dfp.frame(connection.table("t"))(ledger=ledger, dataset="d"))
    assert ledger.remaining("d").epsilon == 5


def test_tables_of_no_backend_are_refused():
    """An unbound table has no rows."""
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="no backend"):
        dfp.frame(ibis.table({"x": "float64"}, name="t")).count(epsilon=1)


@pytest.mark.parametrize("name", ["sqlite", "mysql", "bigquery", "unheard of"])
def test_only_tested_backends_are_asked(name, monkeypatch, tmp_path):
    """Where one row may decide how others are shown, or about failure, nothing is charged."""
    table = ibis.polars.connect({"t": pl.DataFrame({"k": [2**53 + 1] * 9})}).table("t")
    if name == "sqlite":
        with contextlib.closing(sqlite3.connect(tmp_path / "t.db")) as stored, stored:
            stored.execute("CREATE TABLE t (k INTEGER)")
            stored.executemany("INSERT INTO t VALUES (?)", [(1,), ("abc",), (2**53 + 1,), (None,)])
        table = ibis.sqlite.connect(tmp_path / "t.db").table("t")
    else:
        monkeypatch.setattr(type(table.get_backend()), "name", name)
    paid = []
    monkeypatch.setattr("dfprivacy.accounting.spending.NoAccount.pay", paid.append)
    for ask_for in (
        lambda f: f.group_by("k").count(delta=0.1),
        lambda f: f.sum("k", bounds=(0, 1)),
        lambda f: f.count("no such column"),
        lambda f: f.mean_vector(["k"], radius=1, rho=1),
    ):
        with pytest.raises(dfp.errors.UnsupportedFrameError, match=f"{name}(?s:.*)DuckDB"):
            ask_for(dfp.frame(table))
    assert paid == []


def test_simulations_read_ibis_tables(connection):
    """The local and the shuffle model simulate over a column of an Ibis table."""
    frame = dfp.frame(connection.table("t"))
    assert float(frame.shuffle.sum("x", (0, 200), epsilon=5, delta=1e-3)) > 0


def test_a_ledger_remembers_ibis_tables(connection, tmp_path):
    """A remembered release comes back as an Ibis table with the same numbers."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10, delta=0.5, remember=True)
    private = dfp.frame(connection.table("t"))(ledger=ledger, dataset="d", version="1", delta=0.01)
    tables = [private.group_by("g").mean("x", bounds=(0, 200)).to_pyarrow() for _ in range(2)]
    assert tables[0].equals(tables[1])
    assert ledger.remaining("d").epsilon == 9


@pytest.mark.parametrize("table", [pa.table({"x": pa.array([], pa.float64())}), None])
def test_empty_tables_count_nothing(table, connection, exact):
    """No rows: no value, no group; a count without columns counts rows."""
    empty = connection.table("t").limit(0) if table is None else ibis.memtable(table)
    assert exact.sums(empty, {"n": dfp.count(), "m": dfp.mean("x", (0, 1))}) == [[0] * 5]
    assert exact.sums(connection.table("t"), {"n": dfp.count()}) == [[200]]
    assert exact.sums(empty, {"n": dfp.count()}, ("x",)) == []


def test_numbers_come_back_in_ibis_types(connection):
    """Columns have the types of the keys, then 64-bit floats, a note and integers."""
    table = connection.table("t").mutate(k=ibis.literal(pd.Timestamp("2020-01-01")))
    released = dfp.frame(table).group_by("k").mean("x", bounds=(0, 200), delta=0.1)
    kinds = [str(kind) for kind in released.schema().values()]
    assert kinds[0].startswith("timestamp")
    assert kinds[1:] == ["float64", "float64", "float64", "string", "int64"]


def test_dates_are_ranked_where_the_backend_is_duckdb(connection):
    """A median in the column's own type; elsewhere the refusal names what answers."""
    connection.con.execute(
        "CREATE TABLE days AS SELECT DATE '2013-01-01' + (i % 365)::INTEGER AS day "
        "FROM range(9125) r(i)"
    )
    median = dfp.frame(connection.table("days")).median("day", epsilon=1e7)
    assert median == dt.date(2013, 7, 2)
    days = pl.DataFrame({"day": [dt.date(2013, 1, 1)]})
    there = ibis.polars.connect({"t": days}).table("t")
    with pytest.raises(dfp.UnsupportedDtypeError, match="Parquet file"):
        dfp.frame(there).median("day", epsilon=1)
