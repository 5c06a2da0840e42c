"""Clipping without branches gives the integers of the grid, in DuckDB as anywhere."""

import contextlib

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
import sql_udfs
from dfprivacy.statistics import Bounds, grid_from_lower, grid_from_zero

BOUNDS = [
    (0.0, 200.0), (-60.0, 240.0), (-1.0, 1e9), (-3.0, -1.0), (1e16, 1e16 + 2), (5.0, 5.1),
    (1e-300, 3e-300), (-1e300, 1e300), (-1e-302, 1e-302), (0.1, 0.1 + 1e-12),
]  # fmt: skip
SETTINGS = ["SELECT 1", "SET ieee_floating_point_ops = false", "PRAGMA disable_optimizer"]
QUESTIONS = {"mean": dfp.mean, "total": dfp.sum, "spread": dfp.var}


def hard_values(lower, upper):
    """Return values of all magnitudes, next to bounds, infinite and subnormal."""
    generator = np.random.default_rng(1)
    size = max(abs(lower), abs(upper))
    with np.errstate(over="ignore"):
        ends = np.array([lower, upper, 0.0, -0.0, np.inf, -np.inf, 1.79e308, -1.79e308, 5e-324])
        neighbors = [np.nextafter(ends, side) for side in (np.inf, -np.inf)]
        sizes = generator.normal(0, 1, 300) * 10.0 ** generator.integers(-320, 308, 300)
        around = lower + (upper / 2 - lower / 2) * generator.uniform(-1, 3, 300)
        return np.concatenate([
            ends, *neighbors, around, sizes,
            size * 2.0 ** generator.integers(0, 60, 100),
        ])  # fmt: skip


def by_law(values, grid):
    """Return rows and sums of the grid's own integers."""
    present = values[~np.isnan(values)]
    return len(present), int(grid.integers(present).sum())


def grids(bounds):
    """Return the grids of a mean and of a sum, by the questions that use them."""
    grid_by_question = {"mean": grid_from_lower(Bounds(*bounds))}
    with contextlib.suppress(dfp.errors.InvalidBoundsError):
        grid_by_question["total"] = grid_from_zero(Bounds(*bounds))
    return grid_by_question


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_each_row_has_the_integer_of_the_grid(exact, bounds, setting):
    """Rows by themselves, each a group: bit for bit the law, and nothing fails, in any setting."""
    values = hard_values(*bounds)
    con = duckdb.connect()
    con.execute(setting).fetchall()
    con.register("arrow", pa.table({"i": np.arange(len(values)), "x": values}))
    con.execute("CREATE TABLE t AS SELECT * FROM arrow")
    for name, grid in grids(bounds).items():
        for by in (["i"], []):
            table = exact.table(con.table("t"), {name: QUESTIONS[name]("x", bounds)}, by=by)
            sums = table.column("sum_0_1").to_pylist()
            integers = grid.integers(values)
            assert sums == (integers.tolist() if by else [int(integers.sum())])


@pytest.fixture(scope="module")
def registered():
    """Return a connection with the dp_* functions."""
    con = duckdb.connect()
    sql_udfs.register(con, max_epsilon=1e12)
    return con


@pytest.mark.parametrize("shift", [0.0, 1e6, -1e6, 1e30, -1e30])
@pytest.mark.parametrize("bounds", [(0.0, 200.0), (200.0, 300.0), (-300.0, -200.0), (0.0, 1e-9)])
def test_statistics_of_files_that_hide_nan(exact, registered, tmp_path, bounds, shift):
    """DuckDB knows a column by minimum and maximum, which leave NaN out; NaN is no row still."""
    values = np.arange(20_000) % 100.0 + shift
    values[7::1000], values[3] = np.nan, np.inf if shift > 0 else values[3]
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"g": np.zeros(len(values), np.int64), "x": values}), file)
    con = registered
    for name, grid in grids(bounds).items():
        rows, total = by_law(values, grid)
        keys = [[], ["g"]] if shift >= 0 else [["g"], []]
        for frame, by in zip((str(file), con.read_parquet(str(file))), keys, strict=True):
            table = exact.table(frame, {name: QUESTIONS[name]("x", bounds)}, by=by)
            sums = table.column("sum_0_0").to_pylist(), table.column("sum_0_1").to_pylist()
            assert sums == ([rows], [total])
    lower, upper = bounds
    count = con.sql(f"SELECT dp_sum(x, {lower}, {upper}, 1e12) FROM '{file}'").fetchall()[0][0]
    clipped = np.clip(values[~np.isnan(values)], lower, upper)
    assert count == pytest.approx(clipped.sum(), rel=1e-6, abs=1e-6)
