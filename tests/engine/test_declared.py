"""What a frame declares is known without a row, and is what a release goes by."""

import pyarrow as pa
import pytest

import dfprivacy as dfp

TABLE = pa.table({"g": ["a", None], "i": [1, 2], "x": [1.0, 2.0], "b": [True, False]})


def halves(frame):
    """Return the error of medians by group: integers are ranked on a finer grid than floats."""
    explain = dfp.frame(frame).group_by("g").explain
    found = (explain.median(name, epsilon=1, delta=1e-6).answers[0] for name in "ixb")
    return [own.answered.half for own in found]


def test_declared_integers_are_told_from_floats(engine):
    """Of every frame, integers and booleans are declared to be whole numbers, floats are not."""
    whole, real, flag = halves(engine(TABLE))
    assert real < whole == flag


@pytest.mark.parametrize("name", ["a.parquet", "a.pq", "a.PARQUET"])
def test_a_parquet_file_is_known_by_its_footer(name, write):
    """Whatever of its names a Parquet file has, its columns are known, and others are refused."""
    path = write(name, g=["a"], i=[1], x=[1.0], b=[True]) / name
    whole, real, flag = halves(path)
    assert real < whole == flag
    with pytest.raises(dfp.MissingColumnError, match="'y'"):
        dfp.frame(path).explain.median("y", epsilon=1)
