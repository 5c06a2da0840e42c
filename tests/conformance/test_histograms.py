"""Every engine counts rows by group and bin to the same tables, by sorting or by group-by."""

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.frame_types import to_polars

ASKED = {
    "octaves and squares": dfp.std("x"),
    "octaves of single floats": dfp.mean("f"),
    "octaves of integers": dfp.mean("i"),
    "values": dfp.median("x"),
    "values of integers": dfp.median("i"),
}


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
def frames(engines):
    """Return the rows as frames whose values are sorted, or grouped by their engine."""
    return lambda rows: [make(rows) for name, make in engines.items() if name != "pandas"]


def in_engine(work):
    """Return the result of work on rows that stay in the embedded engine."""
    with dfp.Engine(memory="100MB"):
        return work()


@pytest.mark.parametrize("question", ASKED)
@pytest.mark.parametrize(
    "by",
    [[], ["small"], ["wide"], ["far"], ["float"], ["text"], ["small", "flag"], ["day", "text"]],
    ids=str,
)
def test_every_engine_counts_the_same_rows(table, frames, exact, by, question):
    """Tables are equal in each bit, whatever the keys are, also of no rows and in little memory."""
    for rows in (table, table.slice(0, 0)):
        law, *others = (exact.bins(frame, ASKED[question], by) for frame in frames(rows))
        assert all(law == other for other in others)
        assert in_engine(lambda r=rows: exact.bins(r, ASKED[question], by)) == law


def test_a_relation_that_runs_dry_is_read_once(table, exact):
    """A relation over a reader answers a question from one reading."""
    relation = duckdb.connect().from_arrow(table.to_reader())
    assert exact.bins(relation, dfp.std("x"), ["small"]) == exact.bins(
        table, dfp.std("x"), ["small"]
    )


@pytest.mark.slow
def test_parts_that_are_sorted_by_themselves_add_up(exact):
    """Rows beyond 2^25, which are sorted in parts, are counted as DuckDB counts them."""
    rows = duckdb.sql(
        "SELECT range % 3 AS g, (range * 7919 % 1013)::FLOAT AS x FROM range(33600000)"
    )
    law = exact.bins(rows, dfp.mean("x"), ["g"])
    assert exact.bins(rows.pl(), dfp.mean("x"), ["g"]) == law


@pytest.mark.parametrize("question", ["octaves and squares", "values of integers"])
@pytest.mark.parametrize(
    ("unit", "by", "max_rows", "max_groups"),
    [
        ("small", [], 1, None),
        ("far", ["small"], 2, 3),
        ("float", ["text"], 5, 2),
        ("text", ["flag", "float"], 2**20, 1),
        ("day", ["far", "wide"], 7, 50),
    ],
)
def test_rows_of_units_count_as_in_the_engine(
    table, exact, unit, by, max_rows, max_groups, question
):
    """The same rows of each unit count in the same groups, sorted here or by the engine's windows.

    A group may be without values. Each kind of frame has a hash of its own.
    """
    terms = {"by": by, "unit": unit, "max_rows": max_rows, "max_groups": max_groups}
    empty = table.set_column(0, "x", pa.nulls(table.num_rows, pa.float64()))
    for rows in (table, empty):
        law = in_engine(lambda r=rows: exact.bins(r, ASKED[question], **terms))
        assert exact.bins(rows, ASKED[question], **terms) == law
    frame = pl.from_arrow(table)
    law = exact.bins(frame.lazy(), ASKED[question], **terms)
    assert exact.bins(frame, ASKED[question], **terms) == law


@pytest.mark.parametrize("by", [["small"], ["text", "flag"], ["float"]])
@pytest.mark.parametrize("bits", [31, 1])
def test_sums_of_units_are_those_of_the_engine(table, exact, by, bits, monkeypatch):
    """Sums of the groups that each unit keeps are the same, sorted here or by windows.

    So they are where hashes begin alike: few bits of them are looked at.
    """
    monkeypatch.setattr("dfprivacy.engine.units._PLACE_BITS", bits)
    monkeypatch.setattr("dfprivacy.engine.units._HALF", 2 ** (63 - bits))
    questions = {"rows": dfp.count(), "total": dfp.sum("x", (-5, 20)), "v": dfp.var("x", (-5, 20))}
    for groups in (1, 2, 50):
        terms = {"unit": "day", "max_rows": 2, "max_groups": groups}
        law = in_engine(lambda terms=terms: exact.sums(table, questions, by, **terms))
        assert exact.sums(table, questions, by, **terms) == law
        if bits == 31:
            frame = pl.from_arrow(table)
            law = exact.sums(frame.lazy(), questions, by, **terms)
            assert exact.sums(frame, questions, by, **terms) == law


@pytest.mark.parametrize("unit", [{}, {"unit": "day", "max_rows": 3, "max_groups": 2}], ids=str)
@pytest.mark.parametrize(("by", "keys"), [("small", None), ("small", [3, 1, 999]), ("text", None)])
def test_every_engine_finds_the_same_bounds(table, frames, by, keys, unit, replayed):
    """Rows are counted alike about the centers that noisy bins tell, group by group and together.

    A unit's rows are chosen by each engine's own hash: they are compared within one engine. Groups
    that are not listed use up none of a unit's.
    """

    def release(frame):
        groups = dfp.frame(frame)(**unit).group_by(by, keys=keys)
        terms = {"epsilon": 30, "delta": None if keys else 0.01}
        released = to_polars(groups.agg(m=dfp.mean("i"), s=dfp.std("x"), **terms))
        return str(released.rows()).replace("nan", "None")

    law = replayed(lambda: release(table))
    others = [in_engine(lambda: replayed(lambda: release(table)))]
    others += [] if unit else [replayed(lambda f=f: release(f)) for f in frames(table)]
    assert others == [law] * len(others)
