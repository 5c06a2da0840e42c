"""Order, chunks, threads and settings of an engine change no exact sum."""

from __future__ import annotations

import os
import subprocess
import sys

import duckdb
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from dfprivacy.measurement.sums import merge
from tests.conformance.asked_sums import questions, sums


@pytest.fixture(scope="module")
def many():
    generator = np.random.default_rng(1)
    size = 20_000
    x = generator.normal(40, 60, size)
    x[::97] = np.nan
    x[::101] = np.inf
    return pa.table(
        {
            "g": generator.choice(["a", "b", "c", None], size).tolist(),
            "x": x,
            "i": generator.integers(-(2**62), 2**62, size),
            "h": generator.integers(0, 3, size),
        }
    )


@pytest.mark.parametrize("by", [[], ["g"], ["h", "g"]])
def test_order_chunks_and_slices_do_not_matter(by, many, way, exact):
    """Permuted, re-chunked, sliced and concatenated rows give the same table, bit for bit."""
    asked = questions(0, 100)
    expected = exact(way(many), asked, by).table
    permuted = many.take(np.random.default_rng(2).permutation(len(many)))
    turned = many.take(np.arange(len(many))[::-1])
    pieces = [many.slice(start, 37) for start in range(0, len(many), 37)]
    padded = pa.concat_tables([many.slice(0, 17), many]).slice(17)
    for other in (permuted, turned, pa.concat_tables(pieces), padded):
        assert exact(way(other), asked, by).table.equals(expected)


@pytest.mark.parametrize("offset", [0, 1, 7, 8, 9, 17])
def test_a_slice_counts_its_own_rows_only(offset, many, engines, exact):
    """Arrays that start in the middle of a buffer are read from their own start."""
    part = many.slice(offset, 64)
    copied = pa.Table.from_pylist(part.to_pylist(), schema=part.schema)
    asked = questions(-50, 50)
    expected = sums(exact(copied, asked, ["g"]))
    for name, convert in engines.items():
        assert sums(exact(convert(part), asked, ["g"])) == expected, name


@settings(max_examples=10)
@given(data=st.data())
def test_merged_parts_are_the_whole(data, way, exact, rows, table_of):
    """Statistics of any split of the rows add up to those of one pass."""
    drawn = data.draw(st.lists(rows, min_size=1, max_size=20))
    cut = data.draw(st.integers(0, len(drawn)))
    asked, by = questions(-60, 60), data.draw(st.sampled_from([[], ["g"], ["g", "h"]]))
    whole = exact(way(table_of(drawn)), asked, by)
    parts = [exact(way(table_of(part)), asked, by) for part in (drawn[:cut], drawn[cut:])]
    assert sums(merge(parts)) == sums(whole)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_duckdb_threads_do_not_matter(threads, many, exact):
    """DuckDB adds up the same integers on any number of threads."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    connection.register("many", many)
    found = exact(connection.table("many"), questions(0, 100), ["g"]).table
    assert found.equals(exact(many, questions(0, 100), ["g"]).table)


SETTINGS = [
    "integer_division = true",
    "ieee_floating_point_ops = false",
    "default_null_order = 'nulls_first'",
    "preserve_insertion_order = false",
    "produce_arrow_string_view = true",
    "arrow_large_buffer_size = true",
    "python_enable_replacements = false",
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_the_callers_connection_do_not_matter(setting, many, exact):
    """What a caller has set on the DuckDB connection changes no exact statistic."""
    connection = duckdb.connect()
    connection.register("many", many)
    connection.execute(f"SET {setting}")
    found = sums(exact(connection.table("many"), questions(0, 100), ["g"]))
    assert found == sums(exact(many, questions(0, 100), ["g"]))


POLARS_THREADS = """
import numpy as np, polars as pl, dfprivacy as dfp
from dfprivacy.releasing import measure
from dfprivacy.statistics.linear import LinearPart
generator = np.random.default_rng(7)
frame = pl.DataFrame({"g": generator.integers(0, 9, 50_000), "x": generator.normal(0, 1, 50_000)})
part = LinearPart({"v": dfp.var("x", (-1, 1)), "s": dfp.sum("x", (-1, 1))}, grouped=True)
print(measure(frame, ("g",), None, [part])[1][0].statistics.table.to_pydict())
"""


def test_polars_threads_do_not_matter():
    """Polars adds up the same integers with one thread and with four."""
    printed = {
        subprocess.run(
            [sys.executable, "-c", POLARS_THREADS],
            env={**os.environ, "POLARS_MAX_THREADS": threads},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for threads in ("1", "4")
    }
    assert len(printed) == 1
    assert "sum_0_1" in printed.pop()


def test_a_csv_file_gives_the_integers_of_its_numbers(tmp_path, many, exact):
    """Numbers written as text are read back to the same integers."""
    path = tmp_path / "many.csv"
    text = [
        f"{g or ''},{x!r},{h}"
        for g, x, h in zip(*(many[c].to_pylist() for c in "gxh"), strict=True)
    ]
    path.write_text("\n".join(["g,x,h", *text]) + "\n")
    asked = {"v": dfp.var("x", (0, 100)), "s": dfp.sum("h", (0, 2)), "n": dfp.count()}
    assert sums(exact(path, asked, ["g"])) == sums(exact(many, asked, ["g"]))
