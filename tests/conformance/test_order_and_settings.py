"""Order, chunks, threads and settings of an engine change no exact sum."""

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dfprivacy as dfp
from tests.command_line import run_python
from tests.conformance.asked_sums import questions
from tests.conformance.frame_releases import many_rows


@pytest.fixture(scope="module")
def many_values():
    rows = many_rows()
    return rows.append_column("h", pa.array(np.arange(len(rows)) % 3))


@pytest.mark.parametrize("by", [[], ["h", "g"]])
def test_order_chunks_and_slices_do_not_matter(by, many_values, way, exact):
    """Permuted, re-chunked, sliced and concatenated rows give the same tables, bit for bit."""
    statistics = questions(0, 100)
    expected = exact.sums(way(many_values), statistics, by)
    permuted = many_values.take(np.random.default_rng(2).permutation(len(many_values)))
    turned = many_values.take(np.arange(len(many_values))[::-1])
    pieces = [many_values.slice(start, 37) for start in range(0, len(many_values), 37)]
    padded = pa.concat_tables([many_values.slice(0, 17), many_values]).slice(17)
    bins = exact.bins(way(many_values), dfp.std("x"), by)
    for other in (permuted, turned, pa.concat_tables(pieces), padded):
        assert exact.sums(way(other), statistics, by) == expected
        assert exact.bins(way(other), dfp.std("x"), by) == bins


@pytest.mark.parametrize("offset", [1, 8, 17])
def test_a_slice_counts_its_own_rows_only(offset, many_values, engines, exact):
    """Arrays that start in the middle of a buffer are read from their own start."""
    part = many_values.slice(offset, 64)
    copied = pa.Table.from_pylist(part.to_pylist(), schema=part.schema)
    statistics = questions(-50, 50)
    expected = exact.sums(copied, statistics, ["g"])
    for name, convert in engines.items():
        assert exact.sums(convert(part), statistics, ["g"]) == expected, name


@pytest.mark.parametrize("threads", [1, 4])
def test_duckdb_threads_do_not_matter(threads, many_values, exact):
    """DuckDB adds up the same integers, and the same floats of bins, on any number of threads."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    connection.register("many", many_values)
    for ask, about in ((exact.sums, questions(0, 100)), (exact.bins, dfp.std("x"))):
        assert ask(connection.table("many"), about, ["g"]) == ask(many_values, about, ["g"])


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
def test_settings_of_the_callers_connection_do_not_matter(setting, many_values, exact):
    """Settings of the caller's DuckDB connection change no exact statistic."""
    connection = duckdb.connect()
    connection.register("many", many_values)
    connection.execute(f"SET {setting}")
    sums = exact.sums(connection.table("many"), questions(0, 100), ["g"])
    assert sums == exact.sums(many_values, questions(0, 100), ["g"])


POLARS_THREADS = """
import sys, numpy as np, polars as pl, dfprivacy as dfp
generator = np.random.default_rng(7)
frame = pl.DataFrame({"g": generator.integers(0, 9, 50_000), "x": generator.normal(0, 1, 50_000)})
asked = {"v": dfp.var("x", (-1, 1)), "s": dfp.sum("x", (-1, 1)), "m": dfp.mean("x")}
dfp.statistics(frame, sys.argv[1], by="g", **asked)
"""


@pytest.mark.slow
def test_polars_threads_do_not_matter(tmp_path):
    """Polars adds up the same integers and floats, with one thread and with four."""
    tables = []
    for threads in ("1", "4"):
        path = tmp_path / threads
        run_python("-c", POLARS_THREADS, path, check=True, POLARS_MAX_THREADS=threads)
        tables.append(pyarrow.parquet.read_table(path).replace_schema_metadata())
    assert len(tables[0]) > 9
    assert tables[0].equals(tables[1])


def test_a_csv_file_gives_the_integers_of_its_numbers(tmp_path, many_values, exact):
    """Numbers written as text are read back to the same integers."""
    path = tmp_path / "many.csv"
    text = [
        f"{g or ''},{x!r},{h}"
        for g, x, h in zip(*(many_values[c].to_pylist() for c in "gxh"), strict=True)
    ]
    path.write_text("\n".join(["g,x,h", *text]) + "\n")
    statistics = {"v": dfp.var("x", (0, 100)), "s": dfp.sum("h", (0, 2)), "n": dfp.count()}
    assert exact.sums(path, statistics, ["g"]) == exact.sums(many_values, statistics, ["g"])
