"""The database of a call may serve the next one, of which it knows nothing."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from tests.engine.conftest import TABLE, count_during, failing

FRAME = pd.DataFrame({"g": [1, 2, 3] * 50, "x": [0.5] * 150})


def mean(frame=FRAME):
    return dfp.frame(frame).group_by("g", keys=[1, 2, 3]).mean("x", (0, 1), epsilon=1e9)


def state(database):
    """Return the names that a database knows, and its settings."""
    query = "SELECT view_name FROM duckdb_views() WHERE NOT internal"
    query += " UNION ALL SELECT table_name FROM duckdb_tables() WHERE NOT internal"
    query += " UNION ALL SELECT function_name FROM duckdb_functions() WHERE NOT internal"
    settings = "SELECT name, value FROM duckdb_settings() WHERE name <> 'temp_directory'"
    cursor = database.cursor()
    return cursor.execute(query).fetchall(), cursor.execute(settings).fetchall()


def read_setting(database, name):
    """Return a setting of a database."""
    (value,) = database.cursor().execute(f"SELECT current_setting('{name}')").fetchone()
    return value


@pytest.fixture
def patient(monkeypatch):
    """Keep databases however busy the machine is."""
    monkeypatch.setattr("dfprivacy.engine.embedded._BRIEF", 1e9)


@pytest.mark.usefixtures("patient")
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
    count_during(lambda: count_during(dfp.frame(TABLE).count))
    assert len(opened) == 3
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: mean()["x"].round(3).tolist(), range(16)))
    assert answers == [answers[0]] * 16


@pytest.mark.usefixtures("patient")
def test_a_call_leaves_no_settings_and_no_names(opened):
    """Whatever was asked, a database is afterwards as it was opened, but for its place on disk."""
    dfp.frame(TABLE).count()
    before = state(duckdb.connect(config=dict(opened[0][1])))
    opened.pop()
    assert before[0] == []
    mean()
    dfp.frame(FRAME).group_by("g").median("x", delta=1e-6)
    dfp.frame(FRAME).mean("x")
    dfp.sql("SELECT g, dp_mean(x, 0, 1) AS m FROM t GROUP BY g", t=FRAME, delta=1e-6)
    dfp.sql("SELECT dp_count(*) FROM t", t=FRAME, schema=dfp.Schema(unit="t.g"), max_rows=1)
    assert all(state(database) == before for database, _ in opened)


@pytest.mark.usefixtures("patient")
def test_a_statement_leaves_nothing_to_the_next(opened):
    """Answers are computed with where those of no other statement are, nor its settings."""
    text = "SELECT g, m, lag(m) OVER (ORDER BY g) AS before FROM ({})"
    text = text.format("SELECT g, dp_mean(x, 0, 1) AS m FROM t GROUP BY g")
    for _ in range(3):
        assert len(dfp.sql(text, t=FRAME, delta=1e-6)) == 3
    locked = [entry for entry in opened if read_setting(entry[0], "lock_configuration")]
    assert len(locked) == 1
    with pytest.raises(dfp.errors.InvalidQuestionError):
        dfp.sql(text.replace("lag(m)", "no_such(m)"), t=FRAME, delta=1e-6)
    with pytest.raises(duckdb.ConnectionException):  # it has failed, and is not used again
        locked[0][0].cursor()
    dfp.sql(text, t=FRAME, delta=1e-6)
    database, config = opened[-1]
    assert config == locked[0][1]
    fresh = duckdb.connect(config=dict(config))
    fresh.execute("SET GLOBAL TimeZone = 'UTC'; SET lock_configuration = true")
    assert state(database) == state(fresh)


@pytest.mark.usefixtures("patient")
def test_what_failed_or_had_limits_is_not_used_again(opened):
    """A database ends with a call that fails, and with one that an Engine limits."""
    count = dfp.frame(TABLE).count
    count()
    failing()
    count()
    with dfp.Engine(threads=1):
        count()
    assert [config.get("threads") for _, config in opened] == [None, None, 1]
    count()
    assert len(opened) == 3


def test_what_takes_long_is_not_held(opened):
    """A database that was used for long, which keeps memory, is closed."""
    for number in range(2):
        count_during(lambda: time.sleep(0.3))
        assert len(opened) == number + 1


@pytest.mark.usefixtures("patient")
def test_a_place_is_that_of_the_call(opened, tmp_path):
    """Each call writes temporary files where its own Engine says, quotes in the name and all."""
    for name in ("one", "it's"):
        folder, seen = tmp_path / name, []
        folder.mkdir()
        with dfp.Engine(temporary=folder):
            count_during(lambda folder=folder, seen=seen: seen.extend(folder.iterdir()))
        assert len(seen) == 1
        assert list(folder.iterdir()) == []
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


@pytest.mark.usefixtures("patient")
def test_only_safe_optimizers_stay_on(opened):
    """While rows are read, all optimizers that DuckDB lists are off but the safe ones.

    They are on again when the call ends.
    """
    optimizers = {name for (name,) in duckdb.sql("SELECT name FROM duckdb_optimizers()").fetchall()}
    states = []

    def read_settings():
        names = ("disabled_optimizers", "enable_optimizer")
        states.extend(read_setting(database, name) for database, _ in opened for name in names)

    def batches():
        read_settings()
        yield from TABLE.to_batches()

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    dfp.sql("SELECT dp_count(*) AS n FROM t WHERE x > 0", t=reader, epsilon=1)
    read_settings()
    off, *others = states
    assert optimizers - set(off.split(",")) == {"unused_columns", "cte_inlining"}
    assert others == [True, "", True]


def test_a_statement_reads_the_columns_that_it_names(tmp_path):
    """A damaged column of a Parquet file stops no statement that does not name it."""
    path = tmp_path / "rows.parquet"
    rows = pa.table({"x": np.arange(100_000.0), "damaged": np.arange(100_000.0) + 0.5})
    pq.write_table(rows, path, compression="none", use_dictionary=False)
    column = pq.read_metadata(path).row_group(0).column(1)
    content = bytearray(path.read_bytes())
    start = column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    for text in ("SELECT dp_count(*) AS n FROM t", "SELECT dp_count(*) AS n FROM t WHERE x >= 0"):
        assert dfp.sql(text, t=path, epsilon=1e12)["n"].to_pylist() == [100_000]
