"""Contributions of one privacy unit are bounded, and a function of its own rows alone.

docs/how-to/users.md proves what these tests check: the exact statistics of a table are the sum of
those of each unit by itself, and no unit moves them by more than the limits allow.
"""

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

import dfprivacy as dfp
from tests.privacy.unit_tables import FRAMES, table

QUESTIONS = {
    "n": dfp.count(),
    "c": dfp.count("x"),
    "m": dfp.mean("x", (-60, 61.5)),
    "s": dfp.sum("x", (-100, 3)),
    "t": dfp.sum("i", (2, 9)),
    "v": dfp.var("x", (0, 100)),
    "d": dfp.std("i", (-9, 9)),
}
PAIR = dfp.corr("x", "i", (-60, 61.5), (-9, 9), clipping=False)
BINS = {"octaves": dfp.std("x"), "values": dfp.median("x")}


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
    lambda rows, groups: dfp.Unit("u", rows, groups),
    st.sampled_from([1, 2, 3, 50]),
    st.sampled_from([1, 2, 10]),
)


@pytest.fixture(scope="session")
def sums(exact):
    """Return a function that adds up exact sums by group, as a mapping from keys to vectors."""

    def of(frame, unit, by=("g",), keys=None, questions=QUESTIONS):
        rows = exact.sums(frame, questions, by, keys=keys, unit=unit)
        return {tuple(row[: len(by)]): np.array(row[len(by) :]) for row in rows}

    return of


@pytest.fixture(scope="session")
def bins(exact):
    """Return rows by group and bin, with their moments where there are some, as a mapping."""

    def of(frame, unit, question, by=("g",)):
        keys, entries = exact.bins(frame, question, by, unit=unit)
        return {(keys[group], bin_index): np.array(rest) for group, bin_index, *rest in entries}

    return of


def assert_equal(left, right):
    assert left.keys() == right.keys()
    for key, vector in left.items():
        assert np.array_equal(vector, right[key]), key


def add_vectors(left, right):
    """Add up two mappings of vectors."""
    return {key: left.get(key, 0) + right.get(key, 0) for key in left.keys() | right.keys()}


def parts(data):
    """Return the rows of the first row's unit, and those of all others."""
    first_unit = data[0]["u"]
    return (
        [row for row in data if (row["u"] == first_unit) == is_first] for is_first in (True, False)
    )


@pytest.mark.parametrize("name", FRAMES)
@settings(max_examples=3)
@given(data=st.lists(ROWS, min_size=1, max_size=40), unit=UNITS, by=st.sampled_from([(), ("g",)]))
def test_sums_add_up_over_units(engines, name, data, unit, by, sums):
    """The sums of a table are those that one unit adds by itself, and those that the others add."""
    expected, first, rest = (
        sums(engines[name](table(part)), unit, by) for part in (data, *parts(data))
    )
    assert_equal(expected, add_vectors(first, rest))


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("kind", BINS)
@settings(max_examples=3)
@given(data=st.lists(ROWS, min_size=1, max_size=40), unit=UNITS, by=st.sampled_from([(), ("g",)]))
def test_bins_add_up_over_units(engines, name, kind, data, unit, by, bins):
    """Counts by bin are those that one unit has by itself, and those that the others have."""
    expected, first, rest = (
        bins(engines[name](table(part)), unit, BINS[kind], by) for part in (data, *parts(data))
    )
    assert_equal(expected, add_vectors(first, rest))


@pytest.mark.parametrize("name", FRAMES)
@settings(max_examples=4)
@given(data=st.lists(ROWS, max_size=60), unit=UNITS)
def test_one_unit_moves_sums_by_its_limits(engines, name, data, unit, sums):
    """One unit is in at most max_groups groups, and moves each sum by max_rows times a row's.

    What is added up of a value lies between 0 and the grid's last number, or, for a sum, between
    those of the bounds; a square between 0 and the value. Rows above each of the bounds are rows.
    """
    questions = {"m": dfp.mean("x", (-60, 61.5)), "v": dfp.var("x", (0, 100)), "s": QUESTIONS["s"]}
    frame = engines[name](table([dict(row, u=7) for row in data]))
    for question, statistic in questions.items():
        vectors = sums(frame, unit, questions={question: statistic})
        assert len(vectors) <= unit.max_groups
        for rows, first, *squares, above_lower, above_upper in vectors.values():
            assert 0 <= rows <= unit.max_rows
            low, high = (-100 * 2**23, 3 * 2**23) if question == "s" else (0, 2**30)
            assert rows * low <= first <= rows * high
            assert all(0 <= square <= first for square in squares)
            assert 0 <= above_upper <= above_lower <= rows * 2**20


@pytest.mark.battery
@settings(max_examples=5)
@given(data=st.lists(ROWS, max_size=60), unit=UNITS)
def test_one_unit_moves_a_vector_of_two_columns_by_its_limits(engines, data, unit, sums):
    """In the L1 norm one unit moves the sums of products by max_rows times a row's, at most.

    The sums are the same from every engine.
    """
    rows, linear = table([dict(row, u=7) for row in data]), PAIR.linear(grouped=True)
    engine_sums = [
        sums(engines[name](rows), dfp.Unit("u", unit.max_rows, 9), questions={"p": PAIR})
        for name in FRAMES
    ]
    for sums_of_engine in engine_sums[1:]:
        assert_equal(engine_sums[0], sums_of_engine)
    for totals in engine_sums[0].values():
        vector = np.array(linear.matrix, dtype=object) @ totals
        assert sum(map(abs, vector)) <= linear.l1 * unit.max_rows


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("kind", BINS)
@settings(max_examples=6)
@given(data=st.lists(ROWS, max_size=60), unit=UNITS)
def test_one_unit_has_as_many_rows_in_bins_as_count(engines, name, kind, data, unit, bins):
    """One unit's rows in a group count as min(own rows, max_rows), never as more."""
    vectors = bins(engines[name](table([dict(row, u=7) for row in data])), unit, BINS[kind])
    assert len({group for group, _ in vectors}) <= unit.max_groups
    sizes = {}
    for row in data:
        if row["x"] is not None and row["x"] == row["x"]:
            sizes[(row["g"],)] = sizes.get((row["g"],), 0) + 1
    counted = {}
    for (group, _), vector in vectors.items():
        assert vector[0] > 0
        counted[group] = counted.get(group, 0) + int(vector[0])
    assert counted == {group: min(sizes[group], unit.max_rows) for group in counted}


@pytest.mark.battery
@settings(max_examples=3)
@given(data=st.lists(ROWS, max_size=60))
def test_units_within_their_limits_count_in_full(engines, data, sums, bins):
    """Where no unit reaches a limit, all statistics are those of the rows that have a unit."""
    unit, rows_of_units = dfp.Unit("u", 60, 5), [row for row in data if row["u"] is not None]
    for name in FRAMES:
        frame, plain = engines[name](table(data)), engines[name](table(rows_of_units))
        assert_equal(sums(frame, unit), sums(plain, None))
        for question in BINS.values():
            assert_equal(bins(frame, unit, question), bins(plain, None, question))


@pytest.mark.battery
@settings(max_examples=6)
@given(data=st.lists(ROWS, max_size=60), limit=st.sampled_from([1, 2, 3]))
def test_scaled_sums_are_the_same_from_every_engine(engines, data, limit, sums):
    """Scaling down is the same arithmetic everywhere, bit by bit."""
    unit = dfp.Unit("u", limit, 5)
    polars, *others = (sums(engines[name](table(data)), unit) for name in FRAMES)
    for other in others:
        assert_equal(polars, other)


def test_a_heavy_unit_counts_as_its_average():
    """A unit of many rows counts as max_rows rows of its own mean."""
    heavy = {"u": [1] * 1000 + [2], "x": [10.0] * 500 + [20.0] * 500 + [90.0]}
    private = dfp.frame(pa.table(heavy))(unit="u", max_rows=1, epsilon=1e9)
    assert float(private.count()) == 2
    assert abs(private.mean("x", (0, 100)) - (15 + 90) / 2) < 1e-4
    assert abs(private.sum("x", (0, 100)) - (100 + 90)) < 1e-4
    assert abs(private.sum("x", (-100, 3)) - (3 + 3)) < 1e-4


@pytest.mark.parametrize("name", FRAMES)
@settings(max_examples=6)
@given(data=st.lists(ROWS, max_size=60), unit=UNITS)
def test_a_sum_has_the_totals_of_units_clipped_to_what_their_rows_can_add(
    engines, name, data, unit, sums
):
    """Each adds the nearest number to its own total that max_rows rows can add: never more.

    A mean of the same column and bounds beside it, which scales rows down, changes nothing.
    """
    questions = {"t": dfp.sum("i", (0, 9)), "m": dfp.mean("i", (0, 9))}
    vectors = sums(engines[name](table(data)), dfp.Unit("u", unit.max_rows), (), None, questions)
    totals = {row["u"]: 0 for row in data if row["u"] is not None}
    for row in data:
        if row["u"] is not None and row["i"] is not None:
            totals[row["u"]] += min(max(row["i"], 0), 9)
    expected = sum(min(total, 9 * unit.max_rows) for total in totals.values())
    assert all(vector[1] == expected * 2**26 for vector in vectors.values())


def test_rows_are_thinned_out_evenly():
    """Of a unit's rows in order, evenly spaced ones count: the quarters of 0..99 hold one each."""
    data = {"u": [5] * 100, "x": [float(x) for x in range(100)]}
    for frame in (pa.table(data), pl.DataFrame(data)):
        private = dfp.frame(frame)(unit="u", max_rows=4)
        histogram = private.histogram("x", [0, 25, 50, 75, 100], epsilon=2**60)
        assert pl.DataFrame(histogram)["count"].to_list() == [1] * 4


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize(
    "keys", [["a", "b"], ["b", None], [("a", 1), ("b", 2), (None, 1)], [("a", 1), ("a", 2)]]
)
def test_groups_that_are_not_listed_use_up_no_limit(engines, name, keys, sums):
    """Rows of other keys are dropped first, then a unit's groups are limited."""
    data = [
        {"u": unit, "g": group, "x": 1.0, "i": i}
        for unit in range(20)
        for group in ("a", "b", "c", "", None)
        for i in (1, 2)
    ]
    by = ("g", "i") if isinstance(keys[0], tuple) else ("g",)
    per_group = 1 if len(by) == 2 else 2
    vectors = sums(engines[name](table(data)), dfp.Unit("u", 2, 1), by, keys)
    assert sum(int(vector[0]) for vector in vectors.values()) == 20 * per_group
    assert set(vectors) == {key if len(by) == 2 else (key,) for key in keys}


def test_a_unit_in_fewer_listed_groups_is_in_no_more():
    """With fewer public keys than max_groups the noise is for as many groups as are listed."""
    frame = dfp.frame(pa.table({"u": [1, 2], "g": ["a", "b"], "x": [1.0, 2.0]}))
    private = frame(unit="u", max_rows=2, max_groups=9)
    wide = private.group_by("g", keys=list("abcdefghi")).sum("x", (-1, 1), epsilon=1)
    narrow = private.group_by("g", keys=["a", "b"]).sum("x", (-1, 1), epsilon=1)
    width = [np.ptp([t["low"][0].as_py(), t["high"][0].as_py()]) for t in (wide, narrow)]
    assert width[0] > 4 * width[1]


def test_noise_is_scaled_to_the_limits():
    """The scale of the noise is rows times that for one row; rho takes the square."""
    private = dfp.frame(pa.table({"u": [1], "x": [1.0]}))
    one_row, five = (private(unit="u", max_rows=rows) for rows in (1, 5))
    assert (
        five.count(epsilon=1).mechanism.scale == 5 * one_row.count(epsilon=1).mechanism.scale == 5
    )
    variances = [p.count(rho=0.5).mechanism.sigma_squared for p in (one_row, five)]
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
    assert second == "suggest_limits(unit='u', question=count()) by 'g'"


def test_groups_that_the_number_of_units_shows_have_all_answers():
    """A noisier count beside it has a value and an interval in each group that is shown."""
    rows = pl.DataFrame({"u": np.arange(20_000) % 4000, "g": np.arange(20_000) % 5})
    private = rows.dp(unit="u", max_rows=30, max_groups=5, epsilon=1, delta=1e-6)
    table = private.group_by("g").agg(n=dfp.count(), units=dfp.nunique("u"))
    assert len(table) == 5
    assert np.isfinite(table["n_low"].to_numpy()).all()
    assert table["n"].min() > 0
