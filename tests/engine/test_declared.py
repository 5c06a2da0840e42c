"""The types that a frame declares are read without a row, and a release follows them."""

import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp

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
