"""A Dask frame has the exact statistics of its rows, wherever its partitions begin and end."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import dfprivacy as dfp
from dfprivacy.statistics.binning import Edges, Octaves, SignificantBits
from dfprivacy.unit import Unit

dd = pytest.importorskip("dask.dataframe")

BINNINGS = [(Octaves(), 2), (Octaves(), 1), (SignificantBits(16), 0), (Edges((-9.0, 0.0, 50.0)), 0)]
ASKED = {
    "rows": dfp.count(),
    "texts": dfp.count("g"),
    "variance": dfp.std("x", (-60.0, 61.5)),
    "total": dfp.sum("x", (-7, 100)),
    "whole": dfp.mean("i", (-9, 100)),
}
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
    assert ask.sums(frame, ASKED, by, keys) == ask.sums(table, ASKED, by, keys)


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
    generator = np.random.default_rng(1)
    size = 6_000
    x = generator.normal(40, 60, size) * 2.0 ** generator.integers(-3, 60, size)
    x[::97], x[::101], x[::103], x[::107] = np.nan, np.inf, -0.0, 5e-324
    return pa.table(
        {
            "g": generator.choice(["a", "b", "c", None], size).tolist(),
            "x": x,
            "i": generator.integers(-(2**62), 2**62, size),
            "u": generator.integers(0, 400, size),
        }
    )


@pytest.mark.parametrize("partitions", [1, 2, 30])
def test_the_number_of_partitions_does_not_matter(partitions, many, ask):
    """One partition, or more than are added up at a time: the same bits."""
    frame = dd.from_pandas(ask.pandas_of(many), npartitions=partitions, sort=False)
    assert ask.sums(frame, ASKED, ("g",)) == ask.sums(many, ASKED, ("g",))
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
        found = ask.sums(frame, ASKED, ("g",), keys, unit)
        assert found == ask.sums(many, ASKED, ("g",), keys, unit)
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


RELEASES = {
    "moments": lambda f: f.agg(
        n=dfp.count(), s=dfp.sum("x", (0, 9)), m=dfp.mean("x", (0, 9)), v=dfp.var("x", (0, 9)),
        d=dfp.std("x", (0, 9)), rho=0.5,
    ),
    "without bounds": lambda f: f.agg(m=dfp.mean("x"), s=dfp.sum("i"), d=dfp.std("x"), epsilon=2),
    "ranks": lambda f: f.agg(
        m=dfp.median("x"), q=dfp.quantile("x", 0.9), t=dfp.quantiles("i", [0.2, 0.4]), epsilon=2
    ),
    "center": lambda f: f.center("x", 2, epsilon=2),
    "bounds": lambda f: f.bounds("x", epsilon=2),
    "histogram": lambda f: f.histogram("x", bins=3, epsilon=2),
    "by group": lambda f: f.group_by("g").agg(
        n=dfp.count(), m=dfp.mean("x"), q=dfp.median("x"), epsilon=9, delta=1e-3
    ),
    "listed": lambda f: f.group_by("g", keys=["b", "zz", None]).var("x", bounds=(0, 9)),
    "histogram by group": lambda f: f.group_by("g").histogram(
        "x", bins=3, bounds=(0, 9), delta=1e-3
    ),
    "unit": lambda f: f(unit="u", max_rows=2, max_groups=3).group_by("g").mean(
        "x", bounds=(0, 9), epsilon=9, delta=1e-3
    ),
}  # fmt: skip


def shown(released):
    """Return what a release shows, from a frame of any kind."""
    released = released.compute() if hasattr(released, "compute") else released
    if isinstance(released, pd.DataFrame | pa.Table):
        table = released if isinstance(released, pa.Table) else pa.table(released)
        return {name: table[name].to_pylist() for name in table.column_names}
    values = released.values() if isinstance(released, dict) else released
    return list(map(float, values)) if isinstance(values, list | tuple) else repr(values)


@pytest.mark.parametrize("name", RELEASES)
def test_releases_are_the_same_bytes(name, many, ask):
    """With the same random bytes every question releases the same of Dask and of Arrow."""
    frame = ask.cut(ask.pandas_of(many), [0, 1500, 1500, 4000])
    found = [shown(ask.replayed(data, RELEASES[name])) for data in (frame, many)]
    assert repr(found[0]) == repr(found[1])


def test_limits_are_suggested_over_all_partitions(many, ask):
    """suggest_limits sees each unit once."""
    frame = ask.cut(ask.pandas_of(many), [1500, 4000])
    assert ask.replayed(frame, lambda f: dfp.suggest_limits(f._frame, unit="u", by="g")) == (
        ask.replayed(many, lambda f: dfp.suggest_limits(f._frame, unit="u", by="g"))
    )
