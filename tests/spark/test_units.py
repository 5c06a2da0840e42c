"""A unit contributes in Spark by its own rows alone, at most what its limits allow."""

import numpy as np
import pyarrow as pa
import pytest

import dfprivacy as dfp
from tests.replayed_draws import replay

pytestmark = pytest.mark.slow

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

QUESTIONS = {
    "n": dfp.count(),
    "m": dfp.mean("x", (-60, 61.5)),
    "s": dfp.sum("x", (-100, 3)),
    "v": dfp.var("x", (0, 100)),
    "i": dfp.var("i", (-9, 9)),
}


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


@pytest.mark.parametrize("questions", [QUESTIONS, {"d": dfp.std("x"), "q": dfp.median("x")}])
def test_a_unit_costs_no_more_than_is_charged(questions, table, frame):
    """A unit beyond all limits costs at most epsilon, and nothing but draws shows it."""

    def ask(rows):
        private = dfp.frame(frame(rows))(unit="u", max_rows=2, max_groups=2)
        groups = private.group_by("g", keys=[None, "", "a", "b", "c"])
        return groups.agg(**questions, epsilon=1).collect()

    units = np.array(table["u"].fill_null(-1))
    for unit in (3, 40):
        answer, again, tape = replay(ask, table, table.filter(units != unit))
        assert repr(answer) == repr(again)
        assert 0 < tape.loss.epsilon <= 1


@pytest.mark.parametrize("limits", [(50, 10), (3, 10)])
def test_sums_and_bins_of_units_are_those_of_duckdb(limits, table, frame, relation, exact):
    """Where no unit is in too many groups, statistics of units have the same bits as DuckDB's."""
    unit = dfp.Unit("u", *limits)
    sums = (exact.sums(make(table), QUESTIONS, ["g"], unit=unit) for make in (frame, relation))
    assert next(sums) == next(sums)
    if limits == (50, 10):
        bins = (
            exact.bins(make(table), dfp.std("x"), ["g"], unit=unit) for make in (frame, relation)
        )
        assert next(bins) == next(bins)
