"""What one privacy unit contributes is bounded, and a function of its own rows alone.

docs/users.md proves what these tests check: the exact statistics of a table are the sum of those
of each unit by itself, and no unit moves them by more than the limits allow.
"""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from dfprivacy.engine.bins import run_bins
from dfprivacy.measurement.binning import Edges, Octaves, SignificantBits
from dfprivacy.measurement.sums import Statistics
from dfprivacy.releasing import measure, named_columns, read
from dfprivacy.statistics.linear import LinearPart
from dfprivacy.terms import keys_of
from dfprivacy.unit import Unit
from tests.privacy.unit_tables import FRAMES, table

QUESTIONS = {
    "n": dfp.count(),
    "c": dfp.count("x"),
    "m": dfp.mean("x", (-60, 61.5)),
    "i": dfp.mean("i", (-9, 9), method="independent"),
    "h": dfp.mean("i", (-9, 9), method="shifted"),
    "s": dfp.sum("x", (-100, 3)),
    "t": dfp.sum("i", (2, 9)),
    "v": dfp.var("x", (0, 100)),
    "d": dfp.std("i", (-9, 9)),
}
BINNINGS = {"octaves": Octaves(), "values": SignificantBits(8), "edges": Edges((-9.0, 0.0, 50.0))}
PART = LinearPart(QUESTIONS, grouped=True)
PLAN = PART.vectors


def rows(floats, integers):
    """Return rows of few units and few groups, so that limits are often reached."""
    return st.fixed_dictionaries(
        {
            "u": st.sampled_from([None, 1, 2, 3, 40]),
            "g": st.sampled_from([None, "", "a", "b", "c"]),
            "x": floats,
            "i": integers,
        }
    )


ODD = st.sampled_from([None, float("nan"), float("inf"), -1e300])
ROWS = rows(ODD | st.floats(-120, 120), st.none() | st.integers(-12, 12))
UNITS = st.builds(
    lambda rows, groups: Unit("u", rows, groups),
    st.sampled_from([1, 2, 3, 50]),
    st.sampled_from([1, 2, 10]),
)


def of(rows, unit):
    return [row for row in rows if row["u"] == unit]


def sums(frame, unit, by=("g",), keys=None):
    """Return the coordinates of every query by group, as a mapping."""
    public = keys_of(keys, by) if by else None
    (measured,) = measure(frame, by, public, [PART], unit=unit)[1]
    statistics: Statistics = measured.statistics
    found = [tuple(row.values()) for row in measured.keys.to_pylist()] if by else [()]
    vectors = np.concatenate([statistics.coordinates(query) for query in PLAN.linears])
    return {key: vectors[:, place] for place, key in enumerate(found)}


def bins(frame, unit, binning, by=("g",)):
    """Return rows by group and bin, with their moments where there are some, as a mapping."""
    moments = 2 if isinstance(binning, Octaves) else 0
    _, found = read(
        frame,
        named_columns(by, None, {"x": True}, unit),
        lambda a: run_bins(a, by, "x", binning, moments),
    )
    keys = [tuple(row.values()) for row in found.keys.to_pylist()] if by else [()]
    entries = zip(found.group, found.bins, found.rows, *found.moments, strict=True)
    return {(keys[group], int(own)): np.array(rest) for group, own, *rest in entries}


def added(parts):
    """Add up mappings of vectors."""
    total = {}
    for part in parts:
        for key, vector in part.items():
            total[key] = total.get(key, 0) + vector
    return total


def same(left, right):
    assert left.keys() == right.keys()
    for key, vector in left.items():
        assert np.array_equal(vector, right[key]), key


@pytest.mark.parametrize("name", FRAMES)
@settings(max_examples=20)
@given(data=st.lists(ROWS, max_size=40), unit=UNITS, by=st.sampled_from([(), ("g",)]))
def test_sums_add_up_over_units(engines, name, data, unit, by):
    """What is added up for a table is the sum of what each unit adds by itself."""
    apart = [sums(engines[name](table(of(data, u))), unit, by) for u in {r["u"] for r in data}]
    whole = sums(engines[name](table(data)), unit, by)
    if by:
        same(whole, added(apart))
    else:
        same(whole, added([*apart, sums(engines[name](table([])), unit, by)]))


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("kind", BINNINGS)
@settings(max_examples=12)
@given(data=st.lists(ROWS, max_size=40), unit=UNITS, by=st.sampled_from([(), ("g",)]))
def test_bins_add_up_over_units(engines, name, kind, data, unit, by):
    """What is counted by bin is the sum of what each unit has counted by itself."""
    make, binning = engines[name], BINNINGS[kind]
    apart = [bins(make(table(of(data, u))), unit, binning, by) for u in {r["u"] for r in data}]
    same(bins(make(table(data)), unit, binning, by), added(apart))


@pytest.mark.parametrize("name", FRAMES)
@settings(max_examples=20)
@given(data=st.lists(ROWS, max_size=60), unit=UNITS)
def test_one_unit_moves_sums_by_its_limits(engines, name, data, unit):
    """One unit is in at most max_groups groups, and moves each query by max_rows times a row's."""
    own = sums(engines[name](table([dict(row, u=7) for row in data])), unit)
    assert len(own) <= unit.max_groups
    for vector in own.values():
        start = 0
        for query in PLAN.linears:
            moved = np.abs(vector[start : start + len(query.matrix)]).astype(object)
            start += len(query.matrix)
            assert moved.sum() <= unit.max_rows * query.l1
            assert (moved**2).sum() <= unit.max_rows**2 * query.l2_squared


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("kind", BINNINGS)
@settings(max_examples=12)
@given(data=st.lists(ROWS, max_size=60), unit=UNITS)
def test_one_unit_has_as_many_rows_in_bins_as_count(engines, name, kind, data, unit):
    """One unit's rows in a group count as min(own rows, max_rows), never as more."""
    own = bins(engines[name](table([dict(row, u=7) for row in data])), unit, BINNINGS[kind])
    assert len({group for group, _ in own}) <= unit.max_groups
    held = {}
    for row in data:
        if row["x"] is not None and row["x"] == row["x"]:
            held[(row["g"],)] = held.get((row["g"],), 0) + 1
    counted = {}
    for (group, _), vector in own.items():
        assert vector[0] > 0
        counted[group] = counted.get(group, 0) + int(vector[0])
    assert counted == {group: min(held[group], unit.max_rows) for group in counted}


@settings(max_examples=20)
@given(data=st.lists(ROWS, max_size=60))
def test_units_within_their_limits_count_in_full(engines, data):
    """Where no unit reaches a limit, all statistics are those of the rows that have a unit."""
    unit, known = Unit("u", 60, 5), [row for row in data if row["u"] is not None]
    for name in FRAMES:
        frame, plain = engines[name](table(data)), engines[name](table(known))
        same(sums(frame, unit), sums(plain, None))
        for binning in BINNINGS.values():
            same(bins(frame, unit, binning), bins(plain, None, binning))


@settings(max_examples=20)
@given(data=st.lists(ROWS, max_size=60), limit=st.sampled_from([1, 2, 3]))
def test_scaled_sums_are_the_same_from_every_engine(engines, data, limit):
    """Scaling down is the same arithmetic everywhere, bit by bit."""
    polars, *others = (sums(engines[name](table(data)), Unit("u", limit, 5)) for name in FRAMES)
    for other in others:
        same(polars, other)


def test_a_heavy_unit_counts_as_its_average():
    """A unit of many rows counts as max_rows rows of its own mean."""
    heavy = {"u": [1] * 1000 + [2], "x": [10.0] * 500 + [20.0] * 500 + [90.0]}
    private = dfp.frame(pa.table(heavy))(unit="u", max_rows=1, epsilon=1e9)
    assert float(private.count()) == 2
    assert abs(private.mean("x", (0, 100)) - (15 + 90) / 2) < 1e-4
    assert abs(private.sum("x", (0, 100)) - (15 + 90)) < 1e-4


def test_rows_are_thinned_out_evenly():
    """Of a unit's rows in order, evenly spaced ones count: the quarters of 0..99 hold one each."""
    data = {"u": [5] * 100, "x": [float(x) for x in range(100)]}
    for name in ("duckdb", "polars"):
        frame = pa.table(data) if name == "duckdb" else pl.DataFrame(data)
        edges = Edges((0.0, 25.0, 50.0, 75.0, 100.0))
        assert [v[0] for _, v in sorted(bins(frame, Unit("u", 4), edges, ()).items())] == [1] * 4


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize(
    "keys", [["a", "b"], ["b", None], [("a", 1), ("b", 2), (None, 1)], [("a", 1), ("a", 2)]]
)
def test_groups_that_are_not_listed_use_up_no_limit(engines, name, keys):
    """Rows of other keys are dropped first, then a unit's groups are limited."""
    data = [
        {"u": unit, "g": group, "x": 1.0, "i": i}
        for unit in range(20)
        for group in ("a", "b", "c", "", None)
        for i in (1, 2)
    ]
    by = ("g", "i") if isinstance(keys[0], tuple) else ("g",)
    per_group = 1 if len(by) == 2 else 2
    found = sums(engines[name](table(data)), Unit("u", 2, 1), by, keys)
    assert sum(int(vector[0]) for vector in found.values()) == 20 * per_group
    assert set(found) == {key if len(by) == 2 else (key,) for key in keys}


def test_a_unit_in_fewer_listed_groups_is_in_no_more():
    """With fewer public keys than max_groups the noise is for as many groups as are listed."""
    frame = dfp.frame(pa.table({"u": [1, 2], "g": ["a", "b"], "x": [1.0, 2.0]}))
    private = frame(unit="u", max_rows=2, max_groups=9)
    wide = private.group_by("g", keys=list("abcdefghi")).count(epsilon=1)
    narrow = private.group_by("g", keys=["a", "b"]).count(epsilon=1)
    width = [np.ptp([t["low"][0].as_py(), t["high"][0].as_py()]) for t in (wide, narrow)]
    assert width[0] > 4 * width[1]


def test_noise_is_scaled_to_the_limits():
    """The scale of the noise is rows times that for one row; rho takes the square."""
    private = dfp.frame(pa.table({"u": [1], "x": [1.0]}))
    one, five = (private(unit="u", max_rows=rows) for rows in (1, 5))
    assert five.count(epsilon=1).mechanism.scale == 5 * one.count(epsilon=1).mechanism.scale == 5
    variances = [p.count(rho=0.5).mechanism.sigma_squared for p in (one, five)]
    assert variances == [1, 25]


def test_the_charge_and_the_history_name_the_unit(tmp_path):
    """A release for units costs what was asked, and the history says who was protected."""
    ledger = dfp.Ledger(tmp_path / "b.db", epsilon=3, delta=1e-5)
    data = pa.table({"u": [1], "g": ["a"], "x": [1.0]})
    limits = {"unit": "u", "max_rows": 3, "max_groups": 2}
    private = dfp.frame(data)(**limits, ledger=ledger, dataset="d", delta=1e-6)
    private.group_by("g").mean("x", (0, 9))
    dfp.suggest_limits(data, unit="u", by="g", ledger=ledger, dataset="d")
    assert ledger.spent("d") == dfp.Budget(epsilon=2.0, delta=1e-6)
    first, second = ledger.history()["question"]
    assert first.endswith("by 'g'; unit='u', max_rows=3, max_groups=2")
    assert second == "suggest_limits(unit='u', share=0.95) by 'g'"
