"""Keys in the names of directories are text, whatever is in them."""

from __future__ import annotations

import pytest

import dfprivacy as dfp
from dfprivacy.engine import files
from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.files import read_file

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


def read(folder):
    with embedded() as connection:
        found = read_file(connection, folder)
        rows = sorted(found.fetchall(), key=repr)
        return found.columns, [str(kind) for kind in found.types], rows


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


@pytest.mark.parametrize(
    "below", ["{}", "{}/B=2/a=%20", "{}/plain/K=3", "X={}", "l=4/{}"], ids=lambda text: text
)
def test_plain_names_are_the_same_in_both_ways(below, write, monkeypatch):
    """Columns, their order, types and values are DuckDB's own where it takes all names."""
    for index, name in enumerate(PLAIN):
        folder = write(f"{below.format(name)}/a.parquet", z=[0], x=[float(index)])
    by_duckdb = read(folder)
    monkeypatch.setattr(files, "is_plain", lambda file: False)
    assert read(folder) == by_duckdb


def test_a_key_in_the_place_of_a_column(write, monkeypatch):
    """A key counts where files have a column of its name too, in both ways."""
    folder = write("K=2/a.parquet", k=[1], x=[1.0])
    by_duckdb = read(folder)
    monkeypatch.setattr(files, "is_plain", lambda file: False)
    assert read(folder) == by_duckdb


def test_many_odd_directories(write):
    """Hundreds of names that DuckDB takes for none are read in one pass."""
    for index in range(300):
        folder = write(f"k={index}=/a.parquet", x=[1.0] * 2)
    assert float(dfp.frame(folder).count(epsilon=1e12)) == 600
