"""Names and types that an engine would take for others."""

import datetime as dt

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import dfprivacy as dfp

EXACT = 1e12  # an epsilon at which noise is zero
CASES = pa.table({"x": [1.0] * 9, "X": [2.0] * 9, "X_1": [3.0] * 9})


@pytest.mark.parametrize(("name", "mean"), [("x", 1), ("X", 2), ("X_1", 3)])
def test_names_that_differ_in_case_are_told_apart(name, mean):
    """The column that is named is asked, though DuckDB gives such columns other names."""
    frame = dfp.frame(CASES)
    assert frame.mean(name, (0, 9), epsilon=EXACT) == pytest.approx(mean)
    counts = frame.group_by(name).count(epsilon=EXACT, delta=0.5)
    assert counts[name].to_pylist() == [mean]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_whose_names_differ_in_case_are_refused(ending, tmp_path):
    """A file with such names is refused by its header, whichever column is asked for."""
    path = tmp_path / f"cases.{ending}"
    if ending == "csv":
        path.write_text("x,X\n1,2\n")
    else:
        parquet.write_table(CASES, path)
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="case"):
        dfp.frame(path).count("x", epsilon=1)
    parquet.write_table(pa.table({"x": [1.0], "x_1": [2.0]}), tmp_path / "plain.parquet")
    assert dfp.frame(tmp_path / "plain.parquet").mean("x_1", (0, 9), epsilon=EXACT) == (
        pytest.approx(2)
    )


@pytest.mark.parametrize("name", ["*", "^x$", "^.*$"])
def test_patterns_are_no_names(name):
    """A name that polars would take for several columns, or for another one, is refused."""
    for make in (pl.DataFrame, pl.LazyFrame):
        frame = dfp.frame(make({"x": [5.0] * 9, name: [1.0] * 9}))
        assert frame.mean("x", (0, 9), epsilon=EXACT) == pytest.approx(5)
        with pytest.raises(dfp.errors.UnsupportedFrameError, match="pattern"):
            frame.mean(name, (0, 9), epsilon=1)
        with pytest.raises(dfp.errors.UnsupportedFrameError, match="pattern"):
            frame.group_by(name).count(epsilon=1, delta=1e-6)


@pytest.mark.parametrize("kind", [pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC")])
@pytest.mark.parametrize("last_tick", [0, 2**44])
def test_times_that_the_engine_can_not_hold_are_refused_by_type(kind, last_tick):
    """The type decides, with or without a far time among the rows; microseconds are fine."""
    times = pa.array([0] * 9 + [last_tick]).cast(kind)
    table = pa.table({"t": times, "d": times.cast(pa.int64()).cast(pa.duration(kind.unit))})
    for ask in (
        lambda: dfp.frame(table).group_by("t").count(epsilon=1, delta=1e-6),
        lambda: dfp.frame(table)(unit="t", max_rows=1).count(epsilon=1),
        lambda: dfp.frame(table).count("d", epsilon=1),
    ):
        with pytest.raises(dfp.UnsupportedDtypeError, match="microseconds"):
            ask()
    fine = table.slice(0, 9).set_column(0, "t", times[:9].cast(pa.timestamp("us", "UTC")))
    assert dfp.frame(fine).group_by("t").count(epsilon=EXACT, delta=0.5)["count"][0].as_py() == 9


NEAR = {
    "time": (pl.Time, 10**12, dt.time(0, 16, 40)),
    "zone": (pl.Datetime("ns", "UTC"), 10**18, dt.datetime(2001, 9, 9, 1, 46, 40, tzinfo=dt.UTC)),
    "plain": (pl.Datetime("ns"), 10**18, dt.datetime.fromisoformat("2001-09-09 01:46:40")),
    "difference": (pl.Duration("ns"), 10**12, dt.timedelta(seconds=1000)),
}


@pytest.mark.parametrize("kind", NEAR)
def test_a_public_key_is_no_nanosecond_off(kind):
    """A row less than a microsecond away from a public key is in another group."""
    dtype, value, key = NEAR[kind]
    for rows, count in (([1] * 50, 0), ([*[1] * 50, 0], 1), ([*[0] * 50, 1], 50)):
        column = pl.Series([value + row for row in rows], dtype=pl.Int64).cast(dtype)
        groups = dfp.frame(pl.DataFrame({"g": column})).group_by("g", keys=[key])
        assert groups.count(epsilon=EXACT)["count"].to_list() == [count]


def far_times(unit, more):
    times = pa.array([0] * 50 + [2**44] * more).cast(pa.timestamp(unit))
    return pa.table({"g": times, "u": list(range(50 + more))})


def far_numbers(more):
    query = (
        "SELECT 0::HUGEINT AS g, i AS u FROM range(50) r(i) UNION ALL SELECT {}, 77 FROM range({})"
    )
    return duckdb.connect().sql(query.format(2**127 - 1, more))


EPOCH = dt.datetime.fromisoformat("1970-01-01")
FAR = {
    "seconds": (EPOCH, lambda more: far_times("s", more)),
    "milliseconds": (EPOCH, lambda more: far_times("ms", more)),
    "relation": (EPOCH, lambda more: duckdb.from_arrow(far_times("s", more))),
    "wide integers": (0, far_numbers),
}


@pytest.mark.parametrize("kind", FAR)
def test_a_far_key_fails_no_public_one(kind):
    """With a unit, rows of listed keys are found beside any value that their type holds."""
    key, make = FAR[kind]
    for more in (0, 1):
        frame = dfp.frame(make(more))(unit="u", max_rows=1)
        counts = frame.group_by("g", keys=[key]).count(epsilon=EXACT)
        columns = counts if isinstance(counts, pa.Table) else counts.to_arrow_table()
        assert columns["count"].to_pylist() == [50]


def test_a_dask_frame_is_refused_with_the_way_round():
    """A frame in partitions is no frame here; the hint says what to make of it."""
    lazy = type("DataFrame", (), {"__module__": "dask.dataframe.dask_expr"})()
    with pytest.raises(
        dfp.errors.UnsupportedFrameError, match="type DataFrame is not a frame"
    ) as caught:
        dfp.frame(lazy).count(epsilon=1)
    assert "compute()" in str(caught.value)
    assert "Parquet" in str(caught.value)


HALVES = [pa.float16(), pa.list_(pa.float16()), pa.struct({"x": pa.float16()})]


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("rows", [[], [None]])
@pytest.mark.parametrize("read", [pa.Table.to_reader, lambda table: table])
def test_types_that_the_engine_does_not_read(kind, rows, read):
    """A table of half floats is refused by what it declares, whichever column is asked for."""
    table = pa.table({"x": pa.array(rows, kind), "y": pa.array(rows, pa.int8())})
    with pytest.raises(dfp.UnsupportedDtypeError, match=r"column .x. is declared .*halffloat"):
        dfp.frame(read(table)).count("y", epsilon=1)


@pytest.mark.parametrize("name", ["empty.parquet", "text.parquet", "x" * 300 + ".csv", "a\0b.csv"])
def test_files_that_are_none(name, tmp_path, monkeypatch):
    """A file that can't be opened as its name says is refused by its name, before any charge."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "text.parquet").write_text("no footer")
    with pytest.raises(dfp.errors.UnsupportedFrameError):
        dfp.frame(name).count(epsilon=1)
    with pytest.raises(dfp.errors.UnsupportedFrameError):
        dfp.sql("SELECT dp_count(*) FROM t", t=name)


@pytest.mark.parametrize("optimiser", ["enable", "disable"])
def test_columns_that_nobody_names_are_not_computed(optimiser):
    """A column that is computed when it is read ends no question that does not name it."""
    con = duckdb.connect()
    con.execute("CREATE TABLE t (k VARCHAR, x DOUBLE, whole INTEGER AS (CAST(k AS INTEGER)))")
    con.execute("INSERT INTO t (k, x) SELECT '1', 1 FROM range(9)")
    con.execute("UPDATE t SET k = 'no number'")
    con.execute(f"PRAGMA {optimiser}_optimizer")
    rows = dfp.frame(con.table("t"))
    assert rows.count(epsilon=EXACT) == rows.count("k", epsilon=EXACT) == 9
    assert rows(unit="k", max_rows=9).sum("x", (0, 1), epsilon=EXACT) == pytest.approx(9)
