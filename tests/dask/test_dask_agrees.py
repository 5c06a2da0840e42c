"""A Dask frame has the exact statistics of its rows, wherever its partitions begin and end."""

from __future__ import annotations

import hypothesis.strategies as st
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp
from dfprivacy.measurement.binning import Octaves, SignificantBits
from dfprivacy.unit import Unit
from tests.conformance.frame_releases import (
    BINNINGS,
    RELEASES,
    SUMS,
    many_rows,
    of_units,
    shown,
)

dd = pytest.importorskip("dask.dataframe")

few = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


@few
@given(data=st.data())
def test_sums_are_those_of_the_whole(data, ask, rows, table_of):
    """Sums of NULL, NaN, infinite and huge values, by keys with NULL, are those of the Arrow table.

    Partitions may be empty.
    """
    table = table_of(data.draw(st.lists(rows, max_size=20)))
    places = data.draw(st.lists(st.integers(0, len(table)), max_size=3))
    by = data.draw(st.sampled_from([(), ("g",), ("h", "g")]))
    keys = data.draw(st.sampled_from([None, ["a", "zz", None]])) if by == ("g",) else None
    frame = ask.cut(ask.pandas_of(table), places)
    assert ask.sums(frame, SUMS, by, keys) == ask.sums(table, SUMS, by, keys)


@few
@given(data=st.data())
def test_bins_are_those_of_the_whole(data, ask, rows, table_of):
    """Bins and the sums of what they hold are those of the Arrow table, bit for bit."""
    table = table_of(data.draw(st.lists(rows, max_size=20)))
    places = data.draw(st.lists(st.integers(0, len(table)), max_size=3))
    binning, moments = data.draw(st.sampled_from(BINNINGS))
    by = data.draw(st.sampled_from([(), ("g",)]))
    keys = data.draw(st.sampled_from([None, ["a", "zz", None]])) if by else None
    column = data.draw(st.sampled_from(["x", "i"]))
    frame = ask.cut(ask.pandas_of(table), places)
    expected = ask.bins(table, binning, moments, by, keys, column=column)
    assert ask.bins(frame, binning, moments, by, keys, column=column) == expected


@pytest.fixture(scope="module")
def many():
    return many_rows()


@pytest.mark.parametrize("partitions", [1, 2, 30])
def test_the_number_of_partitions_does_not_matter(partitions, many, ask):
    """One partition, or more than are added up at a time: the same bits."""
    frame = dd.from_pandas(ask.pandas_of(many), npartitions=partitions, sort=False)
    assert ask.sums(frame, SUMS, ("g",)) == ask.sums(many, SUMS, ("g",))
    expected = ask.bins(many, Octaves(), 2, ("g",))
    assert ask.bins(frame, Octaves(), 2, ("g",)) == expected


UNITS = [Unit("u", 3, 2), Unit("u", 1, 1), Unit("u", 500, 4)]


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_limits_of_a_unit_hold_over_all_partitions(unit, many, ask):
    """A unit with rows in every partition counts as it does in one frame, for sums and bins.

    The limits are often reached: a unit has 15 rows in 4 groups.
    """
    frame = dd.from_pandas(ask.pandas_of(many), npartitions=4, sort=False)
    for keys in (None, ["a", None]):
        found = ask.sums(frame, SUMS, ("g",), keys, unit)
        assert found == ask.sums(many, SUMS, ("g",), keys, unit)
    expected = ask.bins(many, SignificantBits(8), 0, ("g",), unit=unit)
    assert ask.bins(frame, SignificantBits(8), 0, ("g",), unit=unit) == expected


ONE = {
    "floats": [0.0, -0.0, 0.0, -0.0],
    "float32": pd.array([0.0, -0.0, 0.0, -0.0], dtype="Float32"),
    "texts": ["a", "a", "a", "a"],
    "categories": pd.Categorical(["a", "a", "a", "a"]),
    "times": pd.to_datetime(["2020-01-01"] * 4),
    "zones": pd.to_datetime(["2020-01-01"] * 4, utc=True),
    "differences": pd.to_timedelta([5] * 4, unit="D"),
    "booleans": pd.array([True] * 4, dtype="boolean"),
    "bytes": pd.array([b"\xff"] * 4, dtype=pd.ArrowDtype(pa.binary())),
    "decimals": pd.array([1] * 4, dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
}


@pytest.mark.parametrize("kind", ONE)
def test_one_unit_is_one_unit_in_every_partition(kind, ask):
    """A unit of any dtype, -0.0 and 0.0 among them, moves a count by its limit and no more."""
    frame = pd.DataFrame({"u": ONE[kind], "x": 1.0})
    parts = ask.in_partitions([frame.iloc[[row]] for row in range(4)])
    assert ask.sums(parts, {"n": dfp.count()}, unit=Unit("u", 1)) == [[1]]


RANKED = {
    "categories": lambda days: pd.Categorical([f"k{day}" for day in days]),
    "differences": lambda days: pd.to_timedelta(days, unit="D"),
    "periods": lambda days: pd.PeriodIndex.from_ordinals(days, freq="D"),
}


@pytest.mark.parametrize("kind", RANKED)
def test_a_unit_with_another_key_moves_no_group_of_others(kind, ask):
    """Which group a unit counts in does not follow from the ranks of the keys of others."""
    days = [1, *[3, 5] * 80]
    units = [0, *(unit for unit in range(1, 81) for _ in range(2))]
    found = []
    for start in (0, 1):
        frame = pd.DataFrame({"u": units[start:], "g": RANKED[kind](days[start:])})
        parts = ask.cut(frame, [50, 90])
        found.append(ask.sums(parts, {"n": dfp.count()}, ("g",), unit=Unit("u", 1, 1)))
    assert [row[1:] for row in found[0][1:]] == [row[1:] for row in found[1]]
    assert found[0][0][1:] == [1]


OWN = RELEASES | {"unit": of_units(3)}


@pytest.mark.parametrize("name", OWN)
def test_releases_are_the_same_bytes(name, many, ask):
    """With the same random bytes every question releases the same of Dask and of Arrow."""
    frame = ask.cut(ask.pandas_of(many), [0, 1500, 1500, 4000])
    found = [shown(ask.replayed(data, OWN[name])) for data in (frame, many)]
    assert repr(found[0]) == repr(found[1])


def test_limits_are_suggested_over_all_partitions(many, ask):
    """suggest_limits sees each unit once."""
    frame = ask.cut(ask.pandas_of(many), [1500, 4000])
    assert ask.replayed(frame, lambda f: dfp.suggest_limits(f._frame, unit="u", by="g")) == (
        ask.replayed(many, lambda f: dfp.suggest_limits(f._frame, unit="u", by="g"))
    )
