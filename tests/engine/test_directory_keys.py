"""Keys in the names of directories are text, whatever is in them."""

from __future__ import annotations

import duckdb
import pytest

import dfprivacy as dfp

ODD = {
    "k=?": "?",
    "k=a?b": "a?b",
    "k=a=b": "a=b",
    "k=\n": "\n",
    "k=a\\b": "a\\b",
    "k=%FF": "\ufffd",
    "k=%3F?": "??",
}
PLAIN = ("k=1", "k=%41", "k=%zz", "k=", "k=__HIVE_DEFAULT_PARTITION__", "k=NULL", "k=null", "k=a'b")


@pytest.mark.parametrize("name", ODD)
def test_a_directory_of_any_name_is_a_group(name, write):
    """A name that DuckDB takes for none is a key of text, and other groups are as without it."""
    folder = write("k=1/a.parquet", x=[1.0] * 5)
    before = dfp.frame(folder).group_by("k", keys=["1"]).count(epsilon=1e12)
    write(f"{name}/a.parquet", x=[1.0] * 3)
    after = dfp.frame(folder).group_by("k", keys=["1", ODD[name]]).count(epsilon=1e12)
    assert before["count"].to_pylist() == [5]
    assert dict(zip(*(after[c].to_pylist() for c in ("k", "count")), strict=True)) == {
        "1": 5,
        ODD[name]: 3,
    }
    assert before.schema == after.schema


def released(folder, by):
    """Return the groups of a folder with what they hold, as nearly no noise shows it."""
    grouped = dfp.frame(folder).group_by(by)
    found = grouped.agg(n=dfp.count(), s=dfp.sum("x", (0, 9)), epsilon=2**60, delta=0.5)
    return {row[by]: (row["n"], round(row["s"], 3)) for row in found.to_pylist()}


@pytest.mark.parametrize("below", ["{}", "{}/B=2/a=%20", "l=4/{}"])
def test_plain_names_are_the_same_in_both_ways(below, write):
    """Keys and what they hold are DuckDB's own where it takes all names, and where it does not."""
    for index, name in enumerate(PLAIN):
        folder = write(f"{below.format(name)}/a.parquet", z=[0] * 3, x=[float(index)] * 3)
    options = "hive_partitioning = true, hive_types_autocast = false"
    query = f"SELECT k, count(*), sum(x) FROM read_parquet('{folder}/**', {options}) GROUP BY 1"
    wanted = {key: tuple(rest) for key, *rest in duckdb.sql(query).fetchall()}
    by_duckdb = released(folder, "k")
    assert by_duckdb == wanted
    write(f"{below.format('k=?')}/a.parquet", z=[0] * 3, x=[9.0] * 3)
    with_an_odd_one = released(folder, "k")
    assert {key: with_an_odd_one[key] for key in by_duckdb} == by_duckdb
    assert len(with_an_odd_one) == len(by_duckdb) + 1


@pytest.mark.parametrize("key", ["k", "K"])
@pytest.mark.parametrize("value", ["2", "?"])
@pytest.mark.parametrize("named", ["", "*/*.parquet", "{}/a.parquet"])
def test_a_key_never_hides_a_column(key, value, named, write):
    """A column of the files that a directory is named by is refused, also where case differs."""
    folder = write(f"{key}={value}/a.parquet", k=[1] * 3, x=[1.0] * 3)
    path = folder / named.format(f"{key}={value}")
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="have a column 'k', and so have"):
        dfp.frame(path).count()
    with pytest.raises(dfp.errors.UnsupportedFrameError, match="have a column 'k', and so have"):
        dfp.sql("SELECT dp_count(*) FROM t", t=path)


def test_many_odd_directories(write):
    """Hundreds of names that DuckDB takes for none are read in one pass."""
    for index in range(300):
        folder = write(f"k={index}=/a.parquet", x=[1.0] * 2)
    assert float(dfp.frame(folder).count(epsilon=1e12)) == 600
