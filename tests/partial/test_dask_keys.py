"""Group columns of Dask frames in files: the keys themselves, or a refusal by declared dtype."""

import pandas as pd
import pytest

import dfprivacy as dfp

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")

ROWS = ["a", "c"] * 500


def in_dask(column, partitions=2):
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_pandas(pd.DataFrame({"k": column}), npartitions=partitions)


def made(frame, path):
    return dfp.statistics(frame, path, dfp.count(), by="k")


CODED = {
    "objects": lambda own: in_dask(pd.Series(own, dtype=object)),
    "categories": lambda own: in_dask(pd.Series(own, dtype="category")),
    "unknown categories": lambda own: in_dask(pd.Series(own).astype("string")).astype("category"),
    "durations": lambda own: in_dask(pd.to_timedelta([ord(key) for key in own], unit="s")),
    "periods": lambda own: in_dask(pd.PeriodIndex.from_ordinals([*map(ord, own)], freq="D")),
}


@pytest.mark.parametrize("column", CODED)
def test_ranks_never_reach_a_file(tmp_path, column):
    """Keys that go by rank are refused as declared: one more row with a new key changes nothing."""
    said = set()
    for own in (ROWS, [*ROWS, "b"]):
        with pytest.raises(
            dfp.UnsupportedDtypeError, match="of a Dask frame is declared"
        ) as caught:
            made(CODED[column](own), tmp_path / "x.parquet")
        said.add(str(caught.value))
    assert len(said) == 1
    assert "frame.astype({'k': \"string\"})" in said.pop()
    assert list(tmp_path.iterdir()) == []


def test_the_hint_works(tmp_path):
    """Objects and categories that are declared to be text are the keys themselves."""
    for number, column in enumerate(("objects", "categories", "unknown categories")):
        frame = CODED[column]([*ROWS, *["b"] * 300]).astype({"k": "string"})
        made(frame, tmp_path / f"{number}.parquet")
    table = dfp.merge(f"{tmp_path}/*.parquet", epsilon=100, delta=0.01)
    assert table.column("k").to_pylist() == ["a", "b", "c"]


DECLARED = {
    "text": pd.Series(ROWS, dtype="string"),
    "integers": pd.Series([3, 1] * 500),
    "nullable": pd.Series([3, None] * 500, dtype="Int8"),
    "floats": pd.Series([0.5, -2.0] * 500),
    "booleans": pd.Series([False, True] * 500),
    "moments": pd.Series(pd.to_datetime(["2026-01-02", "1900-01-01"] * 500).as_unit("ms")),
}


@pytest.mark.parametrize("column", DECLARED)
def test_declared_keys_are_those_of_pandas(tmp_path, column):
    """A Dask frame and the pandas frame that it was made of give files that meet."""
    series = DECLARED[column]
    made(in_dask(series), tmp_path / "dask.parquet")
    made(series.to_frame("k"), tmp_path / "pandas.parquet")
    table = dfp.merge(f"{tmp_path}/*.parquet", epsilon=100, delta=0.01)
    alone = dfp.merge(tmp_path / "pandas.parquet", epsilon=100, delta=0.01)
    assert table.column("k").to_pylist() == alone.column("k").to_pylist()
    assert all(abs(own - 1000) < 9 for own in table.column("count").to_pylist())


def test_units_are_not_kept(tmp_path):
    """Categories may be units: a file keeps none, and each has its limit over all partitions."""
    frame = in_dask(pd.Series(ROWS, dtype="category")).rename(columns={"k": "u"})
    path = dfp.statistics(frame, tmp_path / "u.parquet", n=dfp.count(), unit="u", max_rows=5)
    assert abs(dfp.merge(path, epsilon=100)["n"] - 10) < 9
