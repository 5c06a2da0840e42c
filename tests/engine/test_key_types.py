"""Types that engines lack are grouped by and counted, or refused by their declaration."""

import datetime as dt
import uuid

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import dfprivacy as dfp
from tests.frame_types import make_database, to_polars

EXACT = 1e7
SECRET = {"epsilon": EXACT, "delta": 1e-6}
IDS = [uuid.UUID(int=2**127 + number) for number in range(5)]


def _uuids():
    stored = pa.array([key.bytes for key in IDS] * 40 + [None] * 30, pa.binary(16))
    return pa.table({"u": pa.ExtensionArray.from_storage(pa.uuid(), stored)})


@pytest.fixture(params=["arrow", "parquet", "duckdb", "objects", "pandas"])
def ids(request, tmp_path):
    """Return 40 rows of each of five UUIDs, and 30 rows of none."""
    if request.param == "parquet":
        parquet.write_table(_uuids(), tmp_path / "u.parquet")
        return dfp.frame(tmp_path / "u.parquet")
    if request.param == "duckdb":
        return dfp.frame(make_database(t=_uuids()).table("t"))
    if request.param == "objects":
        return dfp.frame(pd.DataFrame({"u": pd.Series(IDS * 40 + [None] * 30, dtype=object)}))
    if request.param == "pandas":
        return dfp.frame(_uuids().to_pandas(types_mapper=pd.ArrowDtype))
    return dfp.frame(_uuids())


def test_uuids_are_keys_and_units(ids):
    """A UUID column is grouped by, counted, compared and protected in every kind of frame."""
    assert ids.nunique("u", epsilon=EXACT) == 5
    assert ids(unit="u", max_rows=50).count(epsilon=EXACT) == 200
    assert float(ids.share("u", IDS[0], epsilon=EXACT)) == pytest.approx(0.2, abs=1e-3)
    released = ids.group_by("u").count(**SECRET)
    assert sorted(to_polars(released)["count"].to_list()) == [30, *[40] * 5]
    if isinstance(released, duckdb.DuckDBPyRelation):
        assert str(released.types[0]) == "UUID"
    counts = ids.group_by("u", keys=[IDS[1], uuid.UUID(int=7), None]).count(epsilon=EXACT)
    assert to_polars(counts)["count"].to_list() == [40, 0, 30]


def test_uuids_are_keys_and_units_of_statements():
    """A statement protects, groups by and counts UUIDs, with `unit=` and with `schema=`."""
    connection = make_database(t=_uuids())
    terms = {"con": connection, "epsilon": EXACT}
    query = "SELECT dp_count(*) AS n FROM t WHERE u IS NOT NULL"
    assert dfp.sql(query, unit="u", max_rows=50, **terms).fetchall() == [(200,)]
    schema = dfp.Schema(unit="t.u")
    assert dfp.sql(query, schema=schema, max_rows=50, **terms).fetchall() == [(200,)]
    assert dfp.sql("SELECT dp_nunique(u) AS n FROM t", **terms).fetchall() == [(5,)]
    grouped = "SELECT u, dp_count(*) AS n FROM t GROUP BY u"
    assert len(dfp.sql(grouped, delta=1e-6, **terms).fetchall()) == 6
    assert dfp.sql(grouped, keys=[str(IDS[2])], **terms).fetchall()[0][1] == 40


@pytest.mark.parametrize("key", ["x", 3])
def test_keys_that_are_no_uuid_are_refused(key):
    """A public key that is no UUID is refused by the declared type of the column."""
    for frame in (dfp.frame(_uuids()), dfp.frame(make_database(t=_uuids()).table("t"))):
        with pytest.raises(dfp.errors.InvalidKeysError, match="UUID"):
            frame.group_by("u", keys=[key]).count(epsilon=EXACT)
        with pytest.raises(dfp.errors.InvalidQuestionError, match="UUID"):
            frame.share("u", key, epsilon=EXACT)


@pytest.mark.parametrize("source", ["arrow", "parquet", "duckdb"])
def test_times_of_a_zone_in_nanoseconds_are_answered(source, tmp_path):
    """Nanoseconds of a zone are grouped by and ranked as they are in a pandas frame."""
    start = pd.date_range("2024-01-01", periods=4, freq="h", tz="Europe/Berlin").as_unit("ns")
    frame = pd.DataFrame({"at": list(start) * 100}).astype({"at": start.dtype})
    table = pa.Table.from_pandas(frame)
    if source == "parquet":
        parquet.write_table(table, tmp_path / "t.parquet")
        private = dfp.frame(tmp_path / "t.parquet")
    elif source == "duckdb":
        connection = duckdb.connect()
        connection.register("handed_in", table)
        private = dfp.frame(connection.sql("FROM handed_in"))
    else:
        private = dfp.frame(table)
    assert private.nunique("at", epsilon=EXACT) == 4
    ends = abs(private.max("at", epsilon=EXACT) - start[-1])
    assert ends <= dt.timedelta(seconds=1)
    keys = to_polars(private.group_by("at").count(**SECRET))["at"].to_list()
    assert keys == list(start)
    counts = private.group_by("at", keys=[start[1], None]).count(epsilon=EXACT)
    assert to_polars(counts)["count"].to_list() == [100, 0]


def test_missing_durations_of_parquet_are_no_values(tmp_path):
    """NULL durations of a Parquet file add nothing to quantiles, extremes and counts."""
    for unit in ("s", "ms", "us", "ns"):
        days = pa.array([dt.timedelta(1)] * 200 + [None] * 200, pa.duration(unit))
        parquet.write_table(pa.table({"x": days}), tmp_path / "t.parquet")
        private = dfp.frame(tmp_path / "t.parquet")
        assert private.count("x", epsilon=EXACT) == 200
        for answer in (private.quantile("x", 0.9, epsilon=EXACT), private.max("x", epsilon=EXACT)):
            assert abs(answer - dt.timedelta(1)) < dt.timedelta(seconds=2)
        released = private.group_by("x").count(**SECRET)
        assert released["x"].type == pa.duration(unit)
        with pytest.raises(dfp.UnsupportedDtypeError, match="Duration"):
            private.mean("x", (0, 9), epsilon=EXACT)


@pytest.mark.parametrize("kind", [pl.Int128, pl.UInt128])
@pytest.mark.parametrize("rows", [0, 1, 200])
def test_integers_of_128_bits_are_refused_as_keys_by_their_type(kind, rows):
    """Polars integers of 128 bits have a mean, and are refused as keys and by SQL."""
    frame = pl.DataFrame({"k": pl.Series([1] * rows, dtype=kind)})
    for question in (
        lambda: frame.dp.group_by("k").count(**SECRET),
        lambda: frame.dp.group_by("k", keys=[1]).count(epsilon=EXACT),
        lambda: frame.dp.value_counts("k", **SECRET),
        lambda: frame.dp.share("k", 1, epsilon=EXACT),
        lambda: frame.dp(unit="k", max_rows=1).count(epsilon=EXACT),
        lambda: dfp.sql("SELECT dp_mean(k, 0, 9) AS m FROM t", t=frame, epsilon=EXACT),
    ):
        with pytest.raises(dfp.UnsupportedDtypeError, match="128"):
            question()
    if rows == 200:
        assert float(frame.dp.mean("k", (0, 9), epsilon=EXACT)) == pytest.approx(1, abs=1e-3)


def test_half_floats_of_polars_are_keys():
    """Half floats are secret and public keys, and come back as half floats."""
    frame = pl.DataFrame({"k": pl.Series([1.5, 2.5] * 100, dtype=pl.Float16), "g": "a"})
    for released in (
        frame.dp.group_by("k").count(**SECRET),
        frame.dp.group_by("k", keys=[1.5, 2.5]).count(epsilon=EXACT),
    ):
        assert released["k"].dtype == pl.Float16
        assert released["count"].to_list() == [100, 100]
    assert float(frame.dp.share("k", 1.5, epsilon=EXACT)) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("kind", ["TIMETZ", "TIME_NS", "BIT"])
def test_types_without_order_are_refused_as_keys_by_name(kind):
    """The message names the declared type and the cast that makes it a key."""
    relation = duckdb.connect().sql(f"SELECT CAST(NULL AS {kind}) AS k")
    with pytest.raises(dfp.UnsupportedDtypeError, match="CAST"):
        dfp.frame(relation).group_by("k").count(**SECRET)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_far_durations_of_pandas_are_keys(unit):
    """Durations that Python has no place for are released as they are."""
    ticks = pa.array([2**62, 2**62, None] * 50, pa.int64())
    frame = pd.DataFrame({"x": pd.Series(ticks.cast(pa.duration(unit)), dtype=pd.ArrowDtype(
        pa.duration(unit)))})  # fmt: skip
    released = frame.dp.group_by("x").count(**SECRET)
    assert released["count"].tolist() == [100, 50]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
def test_far_moments_are_keys_of_statements(kind):
    """Moments that Python has no place for are ordered, compared and fetched like all others."""
    con = duckdb.connect()
    con.execute(
        f"CREATE TABLE t AS SELECT CAST(make_date(i % 3 - 1, 2, 28) AS {kind}) AS d "
        "FROM range(300) r(i)"
    )
    ordered = "SELECT d, count(*) AS n FROM t GROUP BY d HAVING d < DATE '0001-05-05' ORDER BY d"
    texts = [row[0] for row in dfp.sql(ordered, con=con, **SECRET).fetchall()]
    assert len({*map(str, texts)}) == 3
    query = "SELECT histogram(d) AS m, approx_top_k(d, 3) AS k FROM t"
    ((histogram, top),) = dfp.sql(query, con=con, **SECRET).fetchall()
    assert [*map(str, dict(histogram))] == [*map(str, texts)]
    assert {*map(str, top)} == {*map(str, texts)}
    assert [*dict(histogram).values()] == [100] * 3
