"""The types that a frame declares are read without a row, and a release follows them."""

import datetime as dt

import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.command_line import command

TABLE = pa.table({"g": ["a", None], "i": [1, 2], "x": [1.0, 2.0], "b": [True, False]})


def describe_types(frame):
    """Return the types that a description names."""
    described = dfp.frame(frame).describe(["i", "x", "b"], epsilon=1)
    described = described.collect() if isinstance(described, pl.LazyFrame) else described
    described = pl.DataFrame(described)
    return dict(zip(described["column"], described["type"], strict=True))


TYPES = {"i": "integer", "x": "number", "b": "boolean"}


def test_declared_integers_are_told_from_floats(engine):
    """Of every frame, integers, floats and booleans are described as what they are."""
    assert describe_types(engine(TABLE)) == TYPES


@pytest.mark.parametrize("name", ["a.parquet", "a.pq", "a.PARQUET"])
def test_a_parquet_file_is_known_by_its_footer(name, write):
    """Whatever of its names a Parquet file has, its columns are known, and others are refused."""
    path = write(name, g=["a"], i=[1], x=[1.0], b=[True]) / name
    assert describe_types(path) == TYPES
    with pytest.raises(dfp.MissingColumnError, match="'y'"):
        dfp.frame(path).explain.median("y", epsilon=1)


STAY = pl.Series([dt.timedelta(hours=4)] * 2_000, dtype=pl.Duration("ms"))


def test_files_of_a_folder_are_read_by_the_types_of_each(write):
    """A file, its folder and its pattern hold the same booleans and durations, in SQL too.

    No bounds of booleans are looked for, and no duration is a number of milliseconds.
    """
    folder = write("a.parquet", paid=[True, False] * 1_000, stay=STAY)
    for source in (folder / "a.parquet", folder, folder / "*.parquet"):
        frame = dfp.frame(source)
        assert "bounds found" not in repr(frame.mean("paid", epsilon=1))
        assert abs(frame.median("stay", epsilon=1) - STAY[0]) < dt.timedelta(minutes=1)
        assert frame.mode("stay", epsilon=1, delta=1e-6)["stay"].to_pylist() == [STAY[0]]
        for line in (["mean", "paid"], ["mean", "paid", "--where", "stay > INTERVAL 1 HOUR"]):
            name, *words = line
            assert "[0.4" in (result := command(name, str(source), *words)).stdout, result
            assert "bounds found" not in result.stdout
        for statement in ("SELECT dp_mean(stay) FROM f", "SELECT dp_sum(stay, 0, 9) FROM f"):
            with pytest.raises(dfp.errors.UnsupportedDtypeError, match="Duration"):
                dfp.sql(statement, f=source)
        kind = dfp.sql("SELECT dp_median(stay) FROM f", f=source).schema.types[0]
        assert pa.types.is_duration(kind)


def test_durations_of_two_units_are_refused(write):
    """Files that declare one duration in two units can't be added up."""
    write("a.parquet", stay=STAY, x=[1] * 2_000)
    folder = write("b.parquet", stay=STAY.cast(pl.Duration("us")), x=[1] * 2_000)
    for ask in (
        lambda: dfp.frame(folder).median("stay"),
        lambda: dfp.frame(folder).nunique("stay"),
        lambda: dfp.sql("SELECT dp_median(stay) FROM f", f=folder),
        lambda: dfp.sql("SELECT dp_count(*) FROM f WHERE stay > INTERVAL 1 HOUR", f=folder),
    ):
        with pytest.raises(dfp.errors.UnsupportedFrameError, match="'stay' is duration"):
            ask()
    assert dfp.frame(folder).median("x") == 1
