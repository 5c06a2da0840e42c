"""An Ibis table has the exact statistics of its rows, on DuckDB and through Ibis' own SQL."""

import importlib

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dfprivacy as dfp
from tests.conformance.frame_releases import (
    RELEASES,
    SUMS,
    many_rows,
    of_units,
    shown,
)
from tests.ibis.conftest import IBIS_WARNINGS

ibis = pytest.importorskip("ibis")
ibis_frames = importlib.import_module("dfprivacy.engine.ibis")

pytestmark = [pytest.mark.slow, IBIS_WARNINGS]


def on_duckdb(table):
    connection = ibis.duckdb.connect()
    connection.con.register("handed_in", table)
    connection.con.execute("CREATE TABLE stored AS FROM handed_in")
    return connection.table("stored")


def go_through_ibis(monkeypatch):
    """Run the pass as Ibis' own SQL on DuckDB too."""
    monkeypatch.setattr(ibis_frames, "duckdb_relation", lambda frame, _: frame)
    monkeypatch.setattr(
        ibis_frames, "adopt", lambda f, c: ibis_frames.adopt_through_ibis(f, c, f.get_backend())
    )


NAMES = ["duckdb", "duckdb through Ibis", "polars", "postgres"]
POSTGRES = {"string": "text", "large_string": "text", "int64": "bigint", "double": "float8"}


@pytest.fixture(params=NAMES)
def make(request, monkeypatch):
    """One kind of Ibis table after the other, as a function from an Arrow table."""
    if request.param == "duckdb through Ibis":
        go_through_ibis(monkeypatch)
    return {
        "duckdb": on_duckdb,
        "duckdb through Ibis": on_duckdb,
        "polars": lambda table: ibis.polars.connect({"t": pl.DataFrame(table)}).table("t"),
        "postgres": lambda table: request.getfixturevalue("make_postgres_table")(
            {field.name: POSTGRES[str(field.type)] for field in table.schema},
            [column.to_pylist() for column in table.columns],
        ),
    }[request.param]


@pytest.fixture(scope="module")
def hostile():
    """600 rows of texts, numbers and NULLs that engines disagree on."""
    generator = np.random.default_rng(5)
    texts = [None, "", "a", "A", "b ", "\u00e9", "NaN", "null"]
    floats = [None, 0.0, -0.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 61.5, 0.1, -6.9]
    floats += [-5e-324, 1e-200, -1e-200, 1e-170, -1e-40, 2.3e-308]
    integers = [None, 0, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 7, -9]
    pick = lambda values: [values[k] for k in generator.integers(0, len(values), 600)]  # noqa: E731
    kinds = [("g", pa.string()), ("h", pa.int64()), ("x", pa.float64()), ("i", pa.int64())]
    columns = [pick(texts), pick([None, -1, 2**62]), pick(floats), pick(integers)]
    return pa.table(columns, schema=pa.schema(kinds))


@pytest.mark.parametrize(
    ("by", "keys"), [((), None), (("h", "g"), None), (("g",), ["a", "zz", None])]
)
def test_sums_are_those_of_the_rows(by, keys, hostile, make, exact):
    """Sums of NULL, NaN, infinite and huge values, by keys with NULL, are those of the Arrow table.

    Text that differs in case is different.
    """
    assert exact.sums(make(hostile), SUMS, by, keys=keys) == exact.sums(
        hostile, SUMS, by, keys=keys
    )


@pytest.mark.parametrize("column", ["x", "i", "g"])
def test_different_values_are_those_of_the_rows(column, hostile, make):
    """NULL is no value on any backend, of a whole table and by group, in groups of NULL alone."""
    keys, rows = [-1, 2**62, None, 0], pl.DataFrame(hostile)
    alone = pl.col("h").is_null() & pl.col(column).is_not_null()
    for part in (rows, rows.filter(~alone)):
        table = dfp.frame(make(part.to_arrow()))
        assert table.nunique(column, epsilon=1e9) == part.dp.nunique(column, epsilon=1e9)
        counts = table.group_by("h", keys=keys).nunique(column, epsilon=1e9).to_pyarrow()
        same = part.dp.group_by("h", keys=keys).nunique(column, epsilon=1e9)
        assert counts[column].to_pylist() == same[column].to_list()


@pytest.mark.parametrize("statistic", [dfp.std, dfp.mean, dfp.median])
def test_bins_are_those_of_the_rows(statistic, hostile, make, exact):
    """Bins and the sums of what they hold are those of the Arrow table, bit for bit."""
    for column, keys in (("x", None), ("i", ["a", "zz", None])):
        expected = exact.bins(hostile, statistic(column), "g", keys=keys)
        assert exact.bins(make(hostile), statistic(column), "g", keys=keys) == expected


@pytest.fixture(scope="module")
def many_values():
    return many_rows()


def test_floats_are_grouped_by_value(many_values, make, exact):
    """-0.0 is 0.0, NaN is NULL, in keys."""
    assert exact.sums(make(many_values), SUMS, ("f",)) == exact.sums(many_values, SUMS, ("f",))


def test_many_squares_are_divided_exactly(make, exact):
    """Second moments near the ends of the grid are whole quotients, not rounded floats."""
    x = 100 - np.arange(4000) * 2.0**-24
    table = pa.table({"x": np.concatenate([x, np.arange(0, 100, 0.37)])})
    questions = {"v": dfp.var("x", (0, 100))}
    for first in range(0, 4000, 1000):
        part = table.slice(first, 1000)
        assert exact.sums(make(part), questions) == exact.sums(part, questions)


@pytest.mark.parametrize("unit", [dfp.Unit("u", 3, 4), dfp.Unit("u", 1, 4)], ids=str)
def test_limits_of_a_unit_are_those_of_other_engines(unit, many_values, make, exact, request):
    """A unit's sums count up to its limits; a backend without hashes or windows refuses by name."""
    kind = request.node.callspec.params["make"]
    if kind == "polars":
        with pytest.raises(dfp.errors.UnsupportedFrameError, match="polars has no"):
            exact.sums(make(many_values), SUMS, "g", unit=unit)
        return
    sums = exact.sums(make(many_values), SUMS, "g", unit=unit)
    assert sums == exact.sums(many_values, SUMS, "g", unit=unit)


@pytest.mark.parametrize("limits", [(1, 1), (2, 3)])
def test_no_unit_counts_beyond_its_limits(limits, many_values, make, exact, request):
    """Whichever groups and rows of a unit a backend takes, they are no more than its limits."""
    if request.node.callspec.params["make"] == "polars":
        pytest.skip("refused, as the test before this one shows")
    most_rows, most_groups = limits
    single_unit = many_values.slice(0, 300).set_column(3, "u", pa.array([7] * 300))
    unit = dfp.Unit("u", most_rows, most_groups)
    sums = exact.sums(make(single_unit), {"n": dfp.count()}, "g", unit=unit)
    assert [rows for _, rows in sums] == [most_rows] * most_groups
    _, entries = exact.bins(make(single_unit), dfp.median("x"), "g", unit=unit)
    assert sum(rows for _, _, rows in entries) <= most_rows * most_groups


NAN = [([float("nan")] * 3 + [1.0], (0, 100)), ([float("nan")] * 3 + [-5.0], (-7, -3))]


@pytest.mark.parametrize(("column", "bounds"), NAN)
@pytest.mark.parametrize("through", [False, True])
def test_nan_in_parquet_is_no_value(column, bounds, through, exact, tmp_path, monkeypatch):
    """A file's minimum and maximum, which leave NaN out, decide about no row."""
    pyarrow.parquet.write_table(pa.table({"x": column}), tmp_path / "x.parquet")
    table = ibis.duckdb.connect().read_parquet(tmp_path / "x.parquet")
    if through:
        go_through_ibis(monkeypatch)
    assert exact.sums(table, {"v": dfp.var("x", bounds)})[0][0] == 1
    assert sum(entry[2] for entry in exact.bins(table, dfp.mean("x"))[1]) == 1
    assert [n for _, n in exact.sums(table, {"n": dfp.count()}, ("x",))] == [1, 3]


OWN = RELEASES | {
    "unit": of_units(4),
    "vectors": lambda f: f.mean_vector(["x", "i"], radius=100, rho=1),
}


@pytest.mark.parametrize("name", OWN)
def test_releases_are_the_same_bytes(name, many_values, make, replayed, request):
    """With the same random bytes every question releases the same of Ibis and of Arrow."""
    kind = request.node.callspec.params["make"]
    if name == "unit" and kind == "polars":
        pytest.skip("refused, as another test shows")
    if name == "vectors" and kind == "duckdb through Ibis":
        pytest.skip("Ibis 12 reads batches by a method that DuckDB 2 has no more; we go past it")
    releases = [
        shown(replayed(lambda d=data: OWN[name](dfp.frame(d))))
        for data in (make(many_values), many_values)
    ]
    assert repr(releases[0]) == repr(releases[1])
