"""One row moves the exact statistics by its own share, whatever else the data hold."""

import math
from collections import Counter

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import dfprivacy as dfp

ASKED = {"v": dfp.var("x", (0, 100)), "n": dfp.count()}
WIDE = 2**53 + 1


@pytest.mark.parametrize("engine_", ["pandas", "polars", "polars lazy", "arrow", "duckdb"])
def test_a_null_row_does_not_touch_large_integers(engine_, engines, exact):
    """Adding a row without a value to an integer column beyond 2**53 moves no sum (dtype trap)."""
    questions = {"v": dfp.var("i", (0, 2**53)), "n": dfp.count()}
    full = pa.table({"i": pa.array([WIDE, WIDE - 2] * 500, pa.int64())})
    more = pa.concat_tables([full, pa.table({"i": pa.array([None], pa.int64())})])
    before, after = (exact.sums(engines[engine_](t), questions)[0] for t in (full, more))
    assert after == [*before[:-1], before[-1] + 1]


def test_integers_and_their_float_twins_have_the_same_sums(exact):
    """An integer column that pandas turned to float64 gives the very same grid integers."""
    values = np.random.default_rng(0).integers(-(2**62), 2**62, 5000)
    questions = {"v": dfp.var("i", (-(2**53), 2**53)), "s": dfp.sum("i", (-5, 2**60))}
    integers, floating = (
        exact.sums(pd.DataFrame({"i": values.astype(kind)}), questions) for kind in ("i8", "f8")
    )
    assert integers == floating


@pytest.mark.parametrize("source", ["path", "relation"])
def test_one_row_of_a_parquet_file_moves_one_row_of_the_sums(source, tmp_path, exact):
    """One row of a parquet file moves one row of the sums.

    A row that widens a Parquet file's min and max moves the count of values by one, not by
    the number of NaN rows.
    """
    counts = []
    for name, values in {"d": [1.0], "neighbor": [1.0, 100.5]}.items():
        path = tmp_path / f"{name}.parquet"
        parquet.write_table(pa.table({"x": [math.nan] * 1000 + values}), path)
        frame = path if source == "path" else duckdb.connect().read_parquet(str(path))
        counts.append(exact.sums(frame, {"m": dfp.mean("x", (100, 101))})[0][0])
    assert abs(counts[0] - counts[1]) <= 1


LINES = {
    "an extra field": b"a,1,2",
    "many fields": b"a,1,2,3,4,5",
    "a comment": b"# comment",
    "an empty line": b"",
    "a missing field": b"a",
    "text": b"a,foo",
    "another separator": b"a;5",
    "not utf-8": b"\xff\xfe,5",
    "nul": b"a\x00,5",
    "the header again": b"g,x",
    "a large number": b"a,1e999",
    "hexadecimal": b"a,0x10",
    "spaces": b"a, 5 ",
    "infinity": b"a,-inf",
    "nan": b"a,nan",
    "a quoted comma": b'a,"1,5"',
    "a doubled quote": b'"a""b",5',
    "text after a quote": b'"a"b,5',
    "a quoted line break": b'"a\nb",5',
    "a carriage return": b"a,5\r",
    "a very long line": b"a" * 3_000_000 + b",5",
}


@pytest.mark.parametrize("position", [1, 1001])
def test_one_line_of_a_csv_file_moves_one_row(position, tmp_path, exact):
    """A line more, well formed or not, moves the sums of a CSV file by at most one row."""
    lines = [b"g,x", *(b"a,%d" % (i % 100) for i in range(1000))]
    path, last = tmp_path / "rows.csv", 100 * 2**23
    path.write_bytes(b"\n".join(lines) + b"\n")
    old = exact.sums(path, ASKED)[0]
    for line, text in LINES.items():
        path.write_bytes(b"\n".join([*lines[:position], text, *lines[position:]]) + b"\n")
        new = exact.sums(dfp.TextFile(path, multiline=True), ASKED)[0]
        rows, first, second, *above, everything = (b - a for a, b in zip(old, new, strict=True))
        assert 0 <= rows <= everything <= 1, line
        assert 0 <= second <= first <= last * rows, line
        assert all(count in {0, 2**20 * rows} for count in above), line


@pytest.mark.parametrize("text", ["", "g,x", "g,x\n", "g,x\na,1\n"])
def test_a_short_csv_file_is_a_file(text, tmp_path, exact):
    """A CSV file with a header and few lines, or none, gives sums; an empty one has no columns."""
    path = tmp_path / "short.csv"
    path.write_text(text)
    if not text:
        with pytest.raises(dfp.DPError):
            exact.sums(path, ASKED)
    else:
        assert exact.sums(path, ASKED)[0][-1] == text.count("a")


def released(frame, by="g", **terms):
    table = (
        dfp.frame(frame)
        .group_by(by, **terms)
        .count(epsilon=1e12, delta=None if terms.get("keys") else 0.5)
    )
    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    if isinstance(table, pd.DataFrame | pl.DataFrame):
        return list(zip(table["g"].to_list(), table["count"].to_list(), strict=True))
    return [row[:2] for row in table.fetchall()]


def distance(left, right):
    """L1 distance of released counts, keys told apart by what they look like."""
    first, other = (Counter({repr(k): n for k, n in side}) for side in (left, right))
    return sum(abs(first[k] - other[k]) for k in first.keys() | other.keys())


def collate_column(rows):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (g VARCHAR COLLATE NOCASE)")
    connection.executemany("INSERT INTO people VALUES (?)", [[row] for row in rows])
    return connection.table("people")


ZEROS = {
    "frame": pl.DataFrame,
    "lazy frame": pl.LazyFrame,
    "short floats": lambda data: pl.DataFrame(data, {"g": pl.Float32}),
    "duckdb": lambda data: duckdb.from_arrow(pa.table(data)),
}


@pytest.mark.parametrize("keys", [None, [0.0, 1.0]])
@pytest.mark.parametrize("kind", ZEROS)
def test_one_negative_zero_does_not_name_a_group(kind, keys):
    """A row with -0.0 for its key, even the first, moves the count of 0.0 by one."""
    frames = [ZEROS[kind]({"g": [*first, *[0.0, 1.0] * 50]}) for first in ([], [-0.0])]
    assert distance(*(released(frame, keys=keys) for frame in frames)) == 1


def enumerate_column(rows):
    """Return a column of an enumeration, from a connection whose texts ignore case."""
    connection = duckdb.connect()
    connection.execute("SET default_collation = 'NOCASE'")
    connection.execute("CREATE TYPE spelling AS ENUM ('smith', 'SMITH')")
    connection.execute("CREATE TABLE people (g spelling)")
    connection.executemany("INSERT INTO people VALUES (?)", [[row] for row in rows])
    return connection.table("people")


@pytest.mark.parametrize("make", [collate_column, enumerate_column])
@pytest.mark.parametrize("keys", [None, ["smith"], ["smith", "SMITH"]])
def test_one_spelling_does_not_move_a_collated_group(make, keys):
    """Where case is ignored, a row with another spelling moves one count by one."""
    relations = [make([*first, *["smith"] * 50]) for first in ([], ["SMITH"])]
    assert distance(*(released(relation, keys=keys) for relation in relations)) <= 1


def test_intervals_of_duckdb_are_no_keys():
    """DuckDB calls 30 days and a month equal and shows the first: refused by declared type."""
    relation = duckdb.connect().sql("SELECT INTERVAL 30 DAY AS g FROM range(50)")
    with pytest.raises(dfp.UnsupportedDtypeError):
        dfp.frame(relation).group_by("g").count(epsilon=1, delta=0.5)


def test_a_connection_that_sorts_downwards_sorts_no_release():
    """Groups come in ascending order whatever the order of a caller's connection is."""
    connection = duckdb.connect()
    connection.execute("SET default_order = 'desc'")
    relation = connection.sql("SELECT i % 3 AS g, 1.0 AS x FROM range(300) r(i)")
    assert released(relation) == [(0, 100), (1, 100), (2, 100)]
    private = dfp.frame(relation).group_by("g")
    both = private.agg(n=dfp.count(), m=dfp.median("x"), epsilon=1e9, delta=0.5).fetchall()
    assert [row[0] for row in both] == [0, 1, 2]


CATEGORIES = pd.CategoricalDtype(["z", "a", "m"])


def test_the_order_of_categories_does_not_matter():
    """Categories group by their text: physical codes and levels without rows change nothing."""
    values = ["a", "m", "a", "z"] * 10
    for dtype in (CATEGORIES, pd.CategoricalDtype(["a", "m", "q", "z"])):
        frame = pd.DataFrame({"g": pd.Series(values, dtype=dtype)})
        assert released(frame) == [("a", 20), ("m", 10), ("z", 10)]
    for order in (values, values[::-1]):
        frame = pl.DataFrame({"g": pl.Series(order, dtype=pl.Categorical)})
        shown = frame.dp.group_by("g").count(epsilon=1e12, delta=0.5)
        assert shown.select("g", "count").rows() == [("a", 20), ("m", 10), ("z", 10)]
