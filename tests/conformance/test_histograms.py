"""Every engine counts rows by group and bin to the same tables, by sorting or by group-by."""

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from dfprivacy.engine import histograms, run, units
from dfprivacy.engine.adopt import Columns
from dfprivacy.engine.histograms import HistogramQuery, count_bins, count_values
from dfprivacy.frames.measuring import read
from dfprivacy.measurement import bin_table
from dfprivacy.measurement.bin_table import FINE, in_one
from dfprivacy.measurement.binning import Edges, Octaves, SignificantBits
from dfprivacy.release.terms import keys_of

QUERIES = [
    HistogramQuery(column, *query)
    for column in ("x", "f", "i")
    for query in [
        (Octaves(), 0), (Octaves(), 2), (Octaves(3), 1), (FINE, 2), (Edges((-1.0, 0.5, 9.0)), 0),
        (SignificantBits(8), 0), (SignificantBits(16), 0), (SignificantBits(22), 0),
    ]
]  # fmt: skip


@pytest.fixture(scope="module")
def table():
    """Make up rows of all magnitudes: next to edges, infinite, subnormal, NaN and NULL."""
    generator = np.random.default_rng(3)
    size = 3_000
    x = generator.normal(0, 1, size) * 2.0 ** generator.integers(-140, 140, size)
    exponents, digits = generator.integers(-130, 130, 800), generator.integers(-4, 5, 800)
    x[:800] = 2.0**exponents * (1 + digits * 2.0**-23)
    special = (np.nan, np.inf, 0.0, -0.0, -np.inf, 5e-324, 2.0**-127, -(2.0**-126), 1e308)
    for index, value in enumerate(special):
        x[index :: 97 + index] = value
    extremes = np.array([-(2**63), 2**63 - 1, 0, 7])
    return pa.table({
        "x": pa.array(x, mask=generator.random(size) < 0.05),
        "f": x.clip(-3e38, 3e38).astype(np.float32),
        "i": generator.integers(-(2**62), 2**62, size),
        "small": pa.array(generator.integers(0, 60, size), mask=generator.random(size) < 0.1),
        "wide": generator.integers(-300_000_000, 300_000_000, size).astype(np.int32),
        "far": extremes[generator.integers(0, 4, size)],
        "float": np.array([0.0, -0.0, 1.5, np.nan])[generator.integers(0, 4, size)],
        "text": pa.array(["é", "a", "", "Z", "aa"]).take(
            pa.array(generator.integers(0, 5, size), mask=generator.random(size) < 0.1)),
        "flag": pa.array(generator.random(size) < 0.5, mask=generator.random(size) < 0.1),
        "day": pa.array(generator.integers(-9, 9, size).astype(np.int32)).cast(pa.date32()),
    })  # fmt: skip


@pytest.fixture
def frames(table, tmp_path):
    """Return the rows as frames whose values are sorted, or grouped by their engine."""

    def make(rows):
        connection = duckdb.connect()
        connection.register("arrow", rows)
        connection.execute("CREATE TABLE t AS SELECT * FROM arrow")
        pq.write_table(rows, tmp_path / "rows.parquet")
        eager = pl.from_arrow(rows)
        relation = connection.table("t")
        return [
            eager,
            eager.lazy(),
            relation,
            rows,
            relation.select("*"),
            tmp_path / "rows.parquet",
        ]

    return make


def counts(frame, by, queries, keys=None, unit=None):
    """Return every number of the tables of a frame, and the keys."""
    public = keys_of(keys, by) if by else None
    columns = Columns(by, public, unit, {query.column: True for query in queries})
    tables = read(frame, columns, lambda adopted: count_bins(adopted, queries))[1]
    return [
        (
            list(map(str, table.keys.to_pylist())), table.groups,
            *(column.tobytes() for column in (table.group, table.bins, table.rows)),
            *(column.tobytes() for column in table.moments),
        )
        for table in tables
    ]  # fmt: skip


@pytest.mark.parametrize(
    "by",
    [[], ["small"], ["wide"], ["far"], ["float"], ["text"], ["small", "flag"], ["day", "text"]],
    ids=str,
)
def test_every_engine_counts_the_same_rows(table, frames, by):
    """Tables are equal bit for bit, whatever the keys are, also of no rows and of one."""
    law, *others = frames(table)
    assert all(counts(law, by, QUERIES) == counts(frame, by, QUERIES) for frame in others)
    for rows in (0, 1):
        law, *others = frames(table.slice(1, rows))
        assert all(
            counts(law, by, QUERIES[::5]) == counts(other, by, QUERIES[::5]) for other in others
        )


def test_public_keys(table, frames):
    """Exactly the listed groups come out, absent ones empty."""
    for by, keys in (("small", [3, 1, 999]), ("small", [None, 5]), ("text", ["Z", None, "none"])):
        law, *others = (counts(frame, [by], QUERIES[:6], keys) for frame in frames(table))
        assert [groups for _, groups, *_ in law] == [len(keys)] * 6
        assert all(law == other for other in others)


@pytest.mark.parametrize("rows", [1, 700])
def test_parts_that_are_sorted_by_themselves_add_up(table, frames, rows, monkeypatch):
    """Rows that are counted and sorted in parts are counted as those that are read at once."""
    queries = QUERIES[:8]
    law = [counts(table, by, queries) for by in ([], ["small"], ["text", "flag"])]
    monkeypatch.setattr(bin_table, "_CHUNK", rows)
    monkeypatch.setattr(histograms, "_SORTED_ROWS", rows)
    monkeypatch.setattr(histograms, "_BATCH_ROWS", max(rows // 3, 1))
    some = frames(table)[:4] if rows > 1 else []
    for frame in some:
        assert law == [counts(frame, by, queries) for by in ([], ["small"], ["text", "flag"])]


def test_a_memory_limit_changes_no_count(table):
    """Under a limit the engine counts values by its own group-by."""
    law = counts(table, ["small"], QUERIES)
    with dfp.Engine(memory="100MB"):
        assert counts(table, ["small"], QUERIES) == law


def test_a_relation_that_runs_dry_is_read_once(table):
    """A relation over a reader answers every query from one reading."""
    law = counts(table, ["small"], QUERIES)
    relation = duckdb.connect().from_arrow(table.to_reader())
    assert counts(relation, ["small"], QUERIES) == law


def test_values_in_memory_are_counted_as_columns_are(table):
    """Lists of values, numbered by their group, give the tables of a column."""
    group = np.asarray(table["small"].fill_null(60))
    values = table["x"].combine_chunks()
    for query in QUERIES[:4] + QUERIES[5:8]:
        counted = count_values(group, values, query, 61)
        (law,) = counts(table, ["small"], [query])
        actual = (
            counted.groups,
            *(column.tobytes() for column in (counted.group, counted.bins, counted.rows)),
        )
        assert (*actual, *(column.tobytes() for column in counted.moments)) == law[1:]


LIMITS = [(1, 1), (2, 3), (5, 2), (2**20, 1), (7, 50)]
UNIT_KEYS = [[], ["small"], ["text"], ["flag", "float"], ["far", "wide"]]


def in_engine(work):
    """Return the result of work on rows that stay in the embedded engine."""
    with dfp.Engine(memory="100MB"):
        return work()


@pytest.mark.parametrize("unit", ["small", "far", "float", "text", "day"])
@pytest.mark.parametrize(("kind", "bits"), [("polars", 31), ("arrow", 31), ("arrow", 1)])
def test_rows_of_units_count_as_in_the_engine(table, unit, kind, bits, monkeypatch):
    """The same rows of each unit count in the same groups, sorted here or by the engine's windows.

    So do those of hashes that begin alike: few bits of them are looked at.
    """
    monkeypatch.setattr(units, "_PLACE_BITS", bits)
    monkeypatch.setattr(units, "_HALF", 2 ** (63 - bits))
    for index, by in enumerate(UNIT_KEYS):
        limits = dfp.Unit(unit, *LIMITS[index])
        queries = QUERIES[index::7]
        if kind == "polars":
            frame = pl.from_arrow(table)
            law = counts(frame.lazy(), by, queries, unit=limits)
        else:
            frame = table
            law = in_engine(lambda by=by, q=queries, u=limits: counts(table, by, q, unit=u))
        assert counts(frame, by, queries, unit=limits) == law


@pytest.mark.parametrize("by", [["small"], ["text", "flag"], ["float"]])
@pytest.mark.parametrize("bits", [31, 1])
def test_sums_of_units_are_those_of_the_engine(table, exact, by, bits, monkeypatch):
    """Sums of the groups that each unit keeps are the same, sorted here or by windows."""
    monkeypatch.setattr(units, "_PLACE_BITS", bits)
    monkeypatch.setattr(units, "_HALF", 2 ** (63 - bits))
    statistics = {
        "rows": dfp.count(),
        "total": dfp.sum("x", (-5, 20)),
        "spread": dfp.var("x", (-5, 20)),
    }
    for groups in (1, 2, 50):
        terms = {"unit": "day", "max_rows": 2, "max_groups": groups}
        law = in_engine(lambda terms=terms: exact.sums(table, statistics, by, **terms))
        assert exact.sums(table, statistics, by, **terms) == law
        if bits == 31:
            frame = pl.from_arrow(table)
            law = exact.sums(frame.lazy(), statistics, by, **terms)
            assert exact.sums(frame, statistics, by, **terms) == law


def test_listed_keys_and_empty_groups_of_units(table):
    """Groups that are not listed use up none of a unit's; a group may be without values."""
    empty = table.set_column(0, "x", pa.nulls(table.num_rows, pa.float64()))
    for rows in (table, empty, table.slice(0, 0), table.slice(0, 1)):
        for keys in ([3, 9, 999], None):
            limits = dfp.Unit("day", 3, 2)
            law = in_engine(
                lambda r=rows, k=keys, u=limits: counts(r, ["small"], QUERIES[:6], k, u)
            )
            assert counts(rows, ["small"], QUERIES[:6], keys, limits) == law


def test_too_many_rows_of_units_stay_in_the_engine(table, monkeypatch):
    """Rows that would take too much memory are counted by the engine, to the same tables."""
    limits = dfp.Unit("small", 2, 2)
    law = counts(table, ["text"], QUERIES[::5], unit=limits)
    monkeypatch.setattr(run, "_FETCHED_BYTES", 1000)
    assert counts(table, ["text"], QUERIES[::5], unit=limits) == law


ABOUT = [
    HistogramQuery("x", Octaves(3, 5.0), 1),
    HistogramQuery("x", Octaves(1, -0.75), 2),
    HistogramQuery("i", Octaves(3, 2.0**40), 1),
    HistogramQuery("x", FINE, 0, pooled=True),
]
OF_UNITS = [None, dfp.Unit("day", 3, 2)]


@pytest.mark.parametrize("unit", OF_UNITS, ids=["rows", "units"])
@pytest.mark.parametrize(("by", "keys"), [("small", None), ("small", [3, 1, 999]), ("text", None)])
def test_every_engine_counts_the_same_rows_about_a_center(table, frames, by, keys, unit):
    """Tables of distances from a center are equal bit for bit, and those of all groups pooled.

    A unit's rows are chosen by each engine's own hash: they are compared within one engine.
    """
    if unit is None:
        law, *others = (counts(frame, [by], ABOUT, keys) for frame in frames(table))
        assert all(law == other for other in others)
        return
    law = in_engine(lambda: counts(table, [by], ABOUT, keys, unit))
    assert counts(table, [by], ABOUT, keys, unit) == law


@pytest.mark.parametrize("unit", OF_UNITS, ids=["rows", "units"])
@pytest.mark.parametrize("keys", [None, [3, 1, 999]])
def test_pooled_counts_are_those_of_all_groups(table, keys, unit):
    """Pooled, the rows of the listed groups, or of all, count once, and within the same limits."""
    query = HistogramQuery("x", FINE)
    columns = Columns(["small"], keys and keys_of(keys, ["small"]), unit, {"x": True})
    for frame in (table, pl.from_arrow(table), duckdb.from_arrow(table)):
        queries = [query, query._replace(pooled=True)]
        _, (by_group, pooled) = read(frame, columns, lambda a, q=queries: count_bins(a, q))
        total = in_one(by_group)
        assert pooled.groups == 1
        assert np.array_equal(total.bins, pooled.bins)
        assert np.array_equal(total.rows, pooled.rows)
