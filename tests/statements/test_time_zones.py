"""Times of a zone are read in UTC, or in a zone that is named, whatever zone the machine is in."""

import json
import os
import subprocess
import sys

import duckdb
import pandas as pd
import pytest

import dfprivacy as dfp

EXACT = 1e6
QUERY = "SELECT year(ts) AS y, dp_count(*) AS n FROM t GROUP BY y"
TERMS = {"epsilon": EXACT, "delta": 1e-6}
ASK = """
import json, sys
import duckdb, pandas as pd, polars as pl, dfprivacy as dfp

path, database, query = sys.argv[1:]
frame, terms = pd.read_parquet(path), {"epsilon": 1e6, "delta": 1e-6}
found = [
    pl.DataFrame(dfp.sql(query, t=t, **terms)).rows() for t in (frame, pl.from_pandas(frame), path)
]
found.append(dfp.connect(database, **terms).sql(query).fetchall())
late = "SELECT dp_count(*) AS n FROM t WHERE ts >= '2024-01-01'"
found.append(dfp.sql(late, t=frame, epsilon=1e6)["n"].tolist())
day = "SELECT CAST(ts AS DATE)::VARCHAR AS d, dp_count(*) AS n FROM t GROUP BY d"
found.append(dfp.sql(day, t=frame, **terms)["d"].tolist())
found.append(str(dfp.frame(path).group_by("ts").count(**terms)["ts"][0]))
berlin = dfp.sql(query, t=frame, timezone="Europe/Berlin", **terms)
found.append(berlin["y"].tolist())
print(json.dumps(found))
"""


@pytest.fixture
def rows():
    """Return the last half hour of 2023 in UTC, which is 2024 in Berlin."""
    times = pd.to_datetime(["2023-12-31 23:30"] * 200).tz_localize("UTC").as_unit("us")
    return pd.DataFrame({"ts": times.tz_convert("Europe/Berlin")})


def test_answers_do_not_depend_on_the_zone_of_the_machine(rows, tmp_path):
    """Frames, files and databases give the same years, days and keys under any TZ."""
    path, database = tmp_path / "t.parquet", tmp_path / "t.duckdb"
    rows.to_parquet(path)
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE t AS FROM '{path}'")
    answers = []
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        environment = {**os.environ, "TZ": zone}
        call = [sys.executable, "-c", ASK, str(path), str(database), QUERY]
        done = subprocess.run(call, env=environment, capture_output=True, text=True, check=True)
        answers.append(json.loads(done.stdout))
    years, late, days, key, berlin = answers[0][:4], *answers[0][4:]
    assert years == [[[2023, 200]]] * 4
    assert (late, days, berlin) == ([0], ["2023-12-31"], [2024])
    assert key == "2024-01-01 00:30:00+01:00"
    assert answers[1:] == answers[:1] * 2


def test_a_connection_keeps_its_zone(rows):
    """A statement uses the zone that a connection has set; `timezone=` names another meanwhile."""
    connection = duckdb.connect()
    connection.register("handed_in", rows)
    connection.execute("CREATE TABLE t AS FROM handed_in")
    for zone, year in (("UTC", 2023), ("Asia/Tokyo", 2024)):
        connection.execute(f"SET TimeZone = '{zone}'")
        assert dfp.sql(QUERY, con=connection, **TERMS).fetchall() == [(year, 200)]
    named = dfp.sql(QUERY, con=connection, timezone="America/New_York", **TERMS)
    assert named.fetchall() == [(2023, 200)]
    zone = connection.sql("SELECT current_setting('TimeZone')").fetchall()
    assert zone == [("Asia/Tokyo",)]


def test_a_zone_is_part_of_what_is_remembered(rows, tmp_path):
    """A ledger that remembers answers does not give those of another zone."""
    ledger = dfp.Ledger(tmp_path / "l.db", epsilon=10 * EXACT, remember=True)
    terms = {"t": rows, "ledger": ledger, "dataset": "d", "version": "1", "keys": [2023, 2024]}
    years = {
        zone: dfp.sql(QUERY, epsilon=EXACT, timezone=zone, **terms)["n"].tolist()
        for zone in (None, "Europe/Berlin")
    }
    assert years == {None: [200, 0], "Europe/Berlin": [0, 200]}


def test_zones_that_do_not_exist_are_refused(rows):
    """A zone that DuckDB does not know is refused before a row is read."""
    connection = duckdb.connect()
    for terms in ({"t": rows}, {"con": connection}):
        with pytest.raises(dfp.InvalidQuestionError, match="no time zone"):
            dfp.sql("SELECT dp_count(*) AS n FROM t", timezone="Nowhere/Land", **terms)
