"""A unit contributes in Spark by its own rows alone, at most what its limits allow."""

import numpy as np
import pyarrow as pa
import pytest

import dfprivacy as dfp

pytestmark = pytest.mark.slow

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

QUESTIONS = {
    "n": dfp.count(),
    "m": dfp.mean("x", (-60, 61.5)),
    "s": dfp.sum("x", (-100, 3)),
    "v": dfp.var("x", (0, 100)),
    "i": dfp.var("i", (-9, 9)),
}
LIMITS = dfp.Unit("u", 2, 2)


@pytest.fixture(scope="module")
def table():
    """Rows of few units in few groups, so that limits are often exceeded."""
    generator = np.random.default_rng(4)
    x = generator.normal(0, 60, 400)
    x[::9], x[::11] = np.nan, np.inf
    return pa.table(
        {
            "u": pa.array([None, 1, 2, 3, 40, 41, 42, 43] * 50, pa.int64()),
            "g": generator.choice([None, "", "a", "b", "c"], 400).tolist(),
            "x": x,
            "i": generator.integers(-12, 12, 400),
        }
    )


@pytest.fixture(scope="module")
def sums(exact):
    """Return a function that adds up sums by group."""

    def of(handed_in, unit=LIMITS, questions=QUESTIONS):
        rows = exact.sums(handed_in, questions, ["g"], unit=unit)
        return {key: np.array(vector) for key, *vector in rows}

    return of


@pytest.fixture(scope="module")
def bins(exact):
    """Return rows and moments by group and bin."""

    def of(handed_in, unit=LIMITS):
        keys, entries = exact.bins(handed_in, dfp.std("x"), ["g"], unit=unit)
        return {(keys[group], bin_number): np.array(rest) for group, bin_number, *rest in entries}

    return of


@pytest.fixture(params=["sums", "bins"])
def measured(request):
    """Measure sums, then bins."""
    return request.getfixturevalue(request.param)


def shown(vectors):
    return {key: vector.tolist() for key, vector in vectors.items()}


def test_a_table_is_the_sum_of_its_units(measured, table, frame):
    """Without one unit's rows a table has less by what the unit has alone, and by nothing else."""
    units = np.array(table["u"].fill_null(-1))
    without, alone = table.filter(units != 3), table.filter(units == 3)
    table_sums, sums_without, unit_sums = (
        measured(frame(part)) for part in (table, without, alone)
    )
    for key in table_sums.keys() | sums_without.keys() | unit_sums.keys():
        assert np.array_equal(
            table_sums.get(key, 0), sums_without.get(key, 0) + unit_sums.get(key, 0)
        ), key


def test_one_unit_moves_sums_by_its_limits(table, frame, sums):
    """A unit is in two groups at most, and moves each sum by two times what a row moves it."""
    alone = frame(table.filter(np.array(table["u"].fill_null(-1)) == 3))
    questions = {"m": QUESTIONS["m"], "v": QUESTIONS["v"], "s": QUESTIONS["s"]}
    for name, question in questions.items():
        unit_sums = sums(alone, questions={name: question})
        assert 0 < len(unit_sums) <= 2
        low, high = (-100 * 2**23, 3 * 2**23) if name == "s" else (0, 2**30)
        for rows, first, *squares, above_lower, above_upper in unit_sums.values():
            assert 0 <= rows <= 2
            assert rows * low <= first <= rows * high
            assert all(0 <= square <= first for square in squares)
            assert 0 <= above_upper <= above_lower <= rows * 2**20


def test_one_unit_has_as_many_rows_in_bins_as_count(table, frame, bins):
    """Of a unit's rows in a group two at most are in bins."""
    entries = bins(frame(table.filter(np.array(table["u"].fill_null(-1)) == 3)))
    groups = {group for group, _ in entries}
    assert 0 < len(groups) <= 2
    for group in groups:
        assert sum(rows[0] for (other, _), rows in entries.items() if other == group) <= 2


def test_within_the_limits_units_are_those_of_duckdb(measured, table, frame, relation):
    """Where no unit is in too many groups, sums of users have the same bits as DuckDB's."""
    unit = dfp.Unit("u", 50, 10)
    assert shown(measured(frame(table), unit)) == shown(measured(relation(table), unit))


def test_scaled_sums_are_those_of_duckdb(table, frame, relation, sums):
    """Units of too many rows are scaled down to the same integers."""
    unit = dfp.Unit("u", 3, 10)
    assert shown(sums(frame(table), unit)) == shown(sums(relation(table), unit))
