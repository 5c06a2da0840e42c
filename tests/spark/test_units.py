"""What a unit contributes in Spark: a function of its own rows, at most what its limits allow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.engine.bins import run_bins
from dfprivacy.measurement.binning import Octaves
from dfprivacy.releasing import measure, named_columns, read
from dfprivacy.statistics.linear import LinearPart
from dfprivacy.unit import Unit

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

QUESTIONS = {
    "n": dfp.count(),
    "m": dfp.mean("x", (-60, 61.5)),
    "s": dfp.sum("x", (-100, 3)),
    "v": dfp.var("x", (0, 100)),
    "i": dfp.var("i", (-9, 9)),
}
PART = LinearPart(QUESTIONS, grouped=True)
PLAN = PART.vectors
LIMITS = Unit("u", 2, 2)


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


def sums(handed_in, unit=LIMITS):
    """Return the coordinates of every query by group."""
    (measured,) = measure(handed_in, ("g",), None, [PART], unit=unit)[1]
    vectors = np.concatenate([measured.statistics.coordinates(q) for q in PLAN.linears])
    keys = [row["key_0"] for row in measured.keys.to_pylist()]
    return {key: vectors[:, place] for place, key in enumerate(keys)}


def bins(handed_in, unit=LIMITS):
    """Return rows and moments by group and bin."""
    _, found = read(
        handed_in,
        named_columns(("g",), None, {"x": True}, unit),
        lambda a: run_bins(a, ("g",), "x", Octaves(), 2),
    )
    keys = [row["key_0"] for row in found.keys.to_pylist()]
    entries = zip(found.group, found.bins, found.rows, *found.moments, strict=True)
    return {(keys[group], int(own)): np.array(rest) for group, own, *rest in entries}


def shown(found):
    return {key: vector.tolist() for key, vector in found.items()}


@pytest.mark.parametrize("measured", [sums, bins])
def test_a_table_is_the_sum_of_its_units(measured, table, frame):
    """Without one unit's rows a table has less by what the unit has alone, and by nothing else."""
    units = np.array(table["u"].fill_null(-1))
    without, alone = table.filter(units != 3), table.filter(units == 3)
    whole, less, own = (measured(frame(part)) for part in (table, without, alone))
    for key in whole.keys() | less.keys() | own.keys():
        assert np.array_equal(whole.get(key, 0), less.get(key, 0) + own.get(key, 0)), key


def test_one_unit_moves_sums_by_its_limits(table, frame):
    """A unit is in two groups at most, and moves each query by two times what a row moves it."""
    own = sums(frame(table.filter(np.array(table["u"].fill_null(-1)) == 3)))
    assert 0 < len(own) <= 2
    sizes = np.concatenate([[query.l1] * len(query.matrix) for query in PLAN.linears])
    for vector in own.values():
        assert (np.abs(vector) <= 2 * sizes).all()


def test_one_unit_has_as_many_rows_in_bins_as_count(table, frame):
    """Of a unit's rows in a group two at most are in bins."""
    own = bins(frame(table.filter(np.array(table["u"].fill_null(-1)) == 3)))
    groups = {group for group, _ in own}
    assert 0 < len(groups) <= 2
    for group in groups:
        assert sum(rows[0] for (other, _), rows in own.items() if other == group) <= 2


@pytest.mark.parametrize("measured", [sums, bins])
def test_within_the_limits_units_are_those_of_duckdb(measured, table, frame, relation):
    """Where no unit is in too many groups, sums of users have the same bits as DuckDB's."""
    unit = Unit("u", 50, 10)
    assert shown(measured(frame(table), unit)) == shown(measured(relation(table), unit))


def test_scaled_sums_are_those_of_duckdb(table, frame, relation):
    """Units of too many rows are scaled down to the same integers."""
    unit = Unit("u", 3, 10)
    assert shown(sums(frame(table), unit)) == shown(sums(relation(table), unit))
