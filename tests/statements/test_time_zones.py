"""Times are read in the zone that is named or declared, or in UTC, wherever the machine is."""

import datetime as dt
import json

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.command_line import run_python

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


@pytest.mark.battery
def test_answers_do_not_depend_on_the_zone_of_the_machine(rows, tmp_path):
    """Frames, files and databases give the same years, days and keys under any TZ."""
    path, database = tmp_path / "t.parquet", tmp_path / "t.duckdb"
    rows.to_parquet(path)
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE t AS FROM '{path}'")
    answers = []
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        done = run_python("-c", ASK, path, database, QUERY, check=True, TZ=zone)
        answers.append(json.loads(done.stdout))
    years, late, days, key, berlin = answers[0][:4], *answers[0][4:]
    assert years == [[[2024, 200]]] * 2 + [[[2023, 200]]] * 2  # files don't keep the zone
    assert (late, days, berlin) == ([200], ["2024-01-01"], [2024])
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


def _arrow_dtypes(frame):
    return frame.convert_dtypes(dtype_backend="pyarrow")


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas, _arrow_dtypes])
def test_frames_are_read_in_the_zone_that_their_times_declare(rows, kind):
    """The one zone of all columns counts, unless another is named; of two zones none does."""

    def years(frame, **zone):
        return pl.DataFrame(dfp.sql(QUERY, t=kind(frame), **zone, **TERMS))["y"].to_list()

    assert years(rows) == [2024]
    assert years(rows, timezone="UTC") == [2023]
    assert years(rows.assign(other=rows["ts"].dt.tz_convert("Asia/Tokyo"))) == [2023]
    assert years(rows.assign(ts=rows["ts"].dt.tz_localize(None))) == [2024]
    if kind is not pl.DataFrame:  # polars knows named zones only
        offset = dt.timezone(dt.timedelta(hours=1))
        assert years(rows.assign(ts=rows["ts"].dt.tz_convert(offset))) == [2023]


def test_zones_that_do_not_exist_are_refused(rows):
    """A zone that DuckDB does not know is refused before a row is read."""
    connection = duckdb.connect()
    for terms in ({"t": rows}, {"con": connection}):
        with pytest.raises(dfp.errors.InvalidQuestionError, match="no time zone"):
            dfp.sql("SELECT dp_count(*) AS n FROM t", timezone="Nowhere/Land", **terms)


COMMANDS = """
import sys
from pathlib import Path
from dfprivacy.cli import main

path, database, folder = map(Path, sys.argv[1:])
where, exact = ["--where", "ts >= '2024-01-01'"], ["--epsilon", "1e6"]
berlin = ["--timezone", "Europe/Berlin"]
count = ["count", str(path), *where, *exact]
query = "SELECT dp_count(*) AS n FROM t WHERE year(ts) = 2024"
statement = ["sql", query, *exact]
calls = {
    "utc": count, "berlin": [*count, *berlin], "agg": ["agg", str(path), "--count", *where, *exact],
    "sql": [*statement, "--table", f"t={path}"],
    "sql berlin": [*statement, "--table", f"t={path}", *berlin],
    "database": [*statement, "--database", str(database)],
    "database berlin": [*statement, "--database", str(database), *berlin],
}
calls = {name: [*call, "--output", str(folder / f"{name}.csv")] for name, call in calls.items()}
calls["ledger"] = ["ledger", "create", str(folder / "l.db"), "--epsilon", "1e8", "--remember"]
calls["run"] = ["run", str(folder / "release.yml")]
for call in calls.values():
    sys.argv = ["dfprivacy", *call]
    try:
        main()
    except SystemExit as end:
        assert not end.code, call
"""
DESCRIPTION = """
budget: {{ledger: l.db, dataset: d, version: "1", epsilon: 1e6}}
releases:
  utc: {{source: {source}, {asked}, outputs: y1.csv}}
  berlin: {{source: {source}, {asked}, timezone: Europe/Berlin, outputs: y2.csv}}
  table: {{source: {table}, {asked}, outputs: y3.csv}}
  table_berlin: {{source: {table}, {asked}, timezone: Europe/Berlin, outputs: y4.csv}}
  query: {{source: {query}, outputs: y5.csv}}
  query_berlin: {{source: {query}, timezone: Europe/Berlin, outputs: y6.csv}}
"""


def read_count(path):
    """Return the count in a CSV file, which comes before the ends of its interval."""
    first, second, *_ = [*path.read_text().splitlines()[1].split(","), ""]
    return round(float(second if first in {"count", "n"} else first))


@pytest.mark.battery
def test_commands_and_descriptions_read_the_zone_that_is_named(rows, tmp_path):
    """`--where`, `sql` and releases of a file answer alike under any TZ, and by `timezone`."""
    path, database = tmp_path / "t.parquet", tmp_path / "t.duckdb"
    rows.to_parquet(path)
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE t AS FROM '{path}'")
    where = """where: "ts >= '2024-01-01'", questions: {n: {count: "*"}}"""
    query = "SELECT dp_count(*) AS n FROM t WHERE year(ts) = 2024"
    text = DESCRIPTION.format(
        asked=where, source=f"{{file: {path}}}", table=f"{{table: t, database: {database}}}",
        query=f'{{query: "{query}", tables: {{t: {path}}}}}',
    )  # fmt: skip
    named = ("berlin", "sql berlin", "database berlin", "y2", "y4", "y6")
    others = ("utc", "agg", "sql", "database", "y1", "y3", "y5")
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        folder = tmp_path / zone.replace("/", " ")
        folder.mkdir()
        (folder / "release.yml").write_text(text)
        run_python("-c", COMMANDS, path, database, folder, check=True, TZ=zone)
        counts = {name: read_count(folder / f"{name}.csv") for name in (*named, *others)}
        assert counts == {**dict.fromkeys(named, 200), **dict.fromkeys(others, 0)}


@pytest.mark.parametrize("hours", [None, 0, -7, 5.5])
def test_a_parameter_is_the_moment_that_duckdb_reads(hours):
    """A datetime with a zone is a moment, and one without has the zone of the connection."""
    zone = None if hours is None else dt.timezone(dt.timedelta(hours=hours))
    parameters = [dt.datetime(2026, 2, 1, 3, tzinfo=zone)]
    con = duckdb.connect()
    con.execute("SET TimeZone = 'Europe/Berlin'")
    con.execute(
        "CREATE TABLE t AS SELECT day, CAST(day AS TIMESTAMPTZ) AS moment FROM (SELECT "
        "TIMESTAMP '2026-01-31 00:00' + to_minutes(30 * range) AS day FROM range(120))"
    )
    private = dfp.connect(con, epsilon=1e6)
    for column in ("day", "moment"):
        query = f"SELECT count(*) FROM t WHERE {column} >= ?"
        assert (
            private.execute(query, parameters).fetchall()
            == con.execute(query, parameters).fetchall()
        )
