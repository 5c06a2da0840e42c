"""The database of an embedded connection may serve the next call, of which it knows nothing."""

import os
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.engine import embedded

FRAME = pd.DataFrame({"g": [1, 2, 3] * 50, "x": [0.5] * 150})


@pytest.fixture(autouse=True)
def opened(monkeypatch):
    """Return what is opened from now on; no database is held yet."""
    found, connect = [], duckdb.connect
    monkeypatch.setattr(embedded, "_HELD", {})

    def watched(*given, **named):
        found.append(connect(*given, **named))
        return found[-1]

    monkeypatch.setattr(duckdb, "connect", watched)
    return found


def mean(frame=FRAME):
    return dfp.frame(frame).group_by("g", keys=[1, 2, 3]).mean("x", (0, 1), epsilon=1e9)


def test_brief_calls_share_databases(opened, spills):
    """Calls one after the other open no database again, and leave no folder between them."""
    first = mean()
    number = len(opened)
    assert number
    for _ in range(5):
        assert mean()["x"].round(3).equals(first["x"].round(3))
        assert list(spills.iterdir()) == []
    assert len(opened) == number


def test_calls_at_the_same_time_share_none(opened):
    """A database that a call uses is used by no other one."""
    with embedded.embedded() as one, embedded.embedded() as other:
        one.execute("CREATE TABLE t AS SELECT 1 AS x")
        with pytest.raises(duckdb.CatalogException):
            other.execute("FROM t")
    assert len(opened) == 2
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: mean()["x"].round(3).tolist(), range(16)))
    assert found == [found[0]] * 16


def test_a_call_finds_no_settings_and_no_names_of_another(opened):
    """What a call sets, registers or names is gone with its connection."""
    ask = "SELECT current_setting('enable_optimizer')"
    with embedded.embedded() as connection:
        before = connection.execute(ask).fetchall()
        connection.execute("PRAGMA disable_optimizer")
        connection.register("released", pa.table({"x": [1]}))
        connection.execute("CREATE TEMP TABLE temporary AS SELECT 1")
    with embedded.embedded() as connection:
        assert connection.execute(ask).fetchall() == before
        for name in ("released", "temporary"):
            with pytest.raises(duckdb.CatalogException):
                connection.execute(f"FROM {name}")
    assert len(opened) == 1


def test_what_failed_or_had_limits_is_not_used_again(opened):
    """A database ends with a call that fails, and with one that an Engine limits."""
    with pytest.raises(ZeroDivisionError), embedded.embedded():
        raise ZeroDivisionError
    with dfp.Engine(threads=1), embedded.embedded() as connection:
        assert connection.execute("SELECT current_setting('threads')").fetchall() == [(1,)]
    with embedded.embedded():
        assert len(opened) == 3


def test_what_takes_long_is_not_held(opened, monkeypatch):
    """A database that was used for long, which keeps memory, is closed."""
    monkeypatch.setattr(embedded, "_BRIEF", 0.0)
    mean()
    number = len(opened)
    mean()
    assert len(opened) == 2 * number


def test_what_has_spilled_is_not_used_again(opened, spills):
    """A database that has written temporary files is closed: its folder goes with the call."""
    with embedded.embedded() as connection:
        connection.execute("SET memory_limit = '60MB'")
        connection.execute("SET threads = 1")
        rows = "SELECT DISTINCT i::VARCHAR || 'abcdefghijk' FROM range(2000000) r(i)"
        connection.execute(f"SELECT count(*) FROM ({rows})").fetchall()
        assert any(spills.rglob("duckdb_temp*"))
    assert list(spills.iterdir()) == []
    with embedded.embedded() as connection:
        connection.execute("SELECT 1")
    assert len(opened) == 2


def test_a_place_is_that_of_the_call(opened, tmp_path):
    """Each call writes temporary files where its own Engine says, quotes in the name and all."""
    for name in ("one", "it's"):
        (tmp_path / name).mkdir()
        with dfp.Engine(temporary=tmp_path / name), embedded.embedded() as connection:
            ((place,),) = connection.execute("SELECT current_setting('temp_directory')").fetchall()
            assert place.startswith(str(tmp_path / name))
    assert len(opened) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_databases_of_its_own():
    """Parent and child release after a fork, whatever was held before it."""
    for _ in range(3):
        mean()
        child = os.fork()
        if child == 0:
            mean()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    mean()
