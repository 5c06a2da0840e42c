"""Linear queries: what a row adds, and that sensitivities are never understated."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfprivacy.questions import Mean
from dfprivacy.statistics.grid import Grid
from dfprivacy.statistics.linear_query import (
    count_query,
    mean_query,
    sum_and_count_query,
    sum_query,
    transformed_mean_query,
    variance_query,
)
from dfprivacy.statistics.statistics import Statistics
from dfprivacy.terms import Bounds

BOUNDS = [(0, 1), (-60, 240), (100, 101), (-5, 3), (-7, -2), (0, 1e-300), (-1e300, 1e300), (-1, 0)]


def contribution(query, q):
    """Return the integer vector that one row with grid integer q adds to a query."""
    grid = query.source.grid
    table = {"rows_0": [1]}
    if grid is not None:
        table["first_0"] = [q]
    if query.source.moments == 2:
        table["second_0"] = [q * q // grid.last]
    return Statistics(pa.table(table), 0, (query.source,)).coordinates(query)[:, 0].tolist()


@st.composite
def bounds_and_integer(draw):
    lower, upper = sorted(draw(st.tuples(*[st.floats(-1e9, 1e9)] * 2)))
    bounds = Bounds(lower, max(upper, lower + 1e-3))
    grid = transformed_mean_query("x", bounds).source.grid
    return bounds, draw(st.integers(0, grid.last) | st.sampled_from([0, 1, grid.last]))


@given(bounds_and_integer())
def test_mean_is_a_partition_of_unity(case):
    """(q, K - q) is non-negative and adds up to K for every integer of every grid."""
    bounds, q = case
    query = transformed_mean_query("x", bounds)
    vector = contribution(query, q)
    assert min(vector) >= 0
    assert sum(vector) == query.l1 == query.source.grid.last
    assert query.l2_squared >= sum(v * v for v in vector)


@given(bounds_and_integer())
def test_bernstein_basis_is_a_partition_of_unity(case):
    """The three Bernstein integers are non-negative, add up to K, and give q back exactly."""
    bounds, q = case
    query = variance_query("x", bounds)
    b0, b1, b2 = contribution(query, q)
    assert min(b0, b1, b2) >= 0
    assert b0 + b1 + b2 == query.l1
    assert b1 + 2 * b2 == 2 * q


@pytest.mark.parametrize("k", [1, 2, 3, 7, 64, 1000])
def test_bernstein_basis_on_every_integer_of_small_grids(k):
    """The identity holds for every q of a grid, and each coordinate is its polynomial rounded."""
    for q in range(k + 1):
        second = q * q // k
        b0, b1, b2 = k - 2 * q + second, 2 * (q - second), second
        assert min(b0, b1, b2) >= 0
        assert b0 + b1 + b2 == k
        exact = [Fraction((k - q) ** 2, k), Fraction(2 * q * (k - q), k), Fraction(q * q, k)]
        assert all(abs(b - e) <= 2 for b, e in zip((b0, b1, b2), exact, strict=True))


@pytest.mark.parametrize("pair", BOUNDS, ids=str)
@pytest.mark.parametrize(
    "make",
    [
        sum_query,
        sum_and_count_query,
        transformed_mean_query,
        lambda c, b: mean_query(Mean(c, b, "shifted")),
        lambda c, b: mean_query(Mean(c, b, "independent")),
        variance_query,
    ],
)
def test_no_row_moves_more_than_the_sensitivity(make, pair):
    """No row's vector exceeds the L1 and L2 sensitivities, and some row reaches the L1 one."""
    bounds = Bounds(*pair)
    query = make("x", bounds)
    grid = query.source.grid
    values = np.linspace(0, 1, 33) * bounds.width + bounds.lower
    vectors = [contribution(query, grid.integer(v)) for v in values]
    sizes = [sum(map(abs, v)) for v in vectors]
    assert max(sizes) == query.l1
    assert max(sum(c * c for c in v) for v in vectors) <= query.l2_squared


@pytest.mark.parametrize("pair", BOUNDS, ids=str)
def test_sum_sensitivity_is_the_larger_end_never_the_width(pair):
    """A sum's sensitivity is max(|lower|, |upper|) in units of the column, within a grid step."""
    bounds = Bounds(*pair)
    query = sum_query("x", bounds)
    largest = max(abs(bounds.lower), abs(bounds.upper))
    assert query.l1 * query.source.grid.step == pytest.approx(largest, rel=1e-8)


@pytest.mark.parametrize("pair", BOUNDS, ids=str)
def test_every_grouped_query_counts_its_rows(pair):
    """The coordinates that count get the same total, the divisor, from every row."""
    bounds = Bounds(*pair)
    for query in (
        count_query("x"),
        transformed_mean_query("x", bounds),
        variance_query("x", bounds),
        sum_and_count_query("x", bounds),
    ):
        grid = query.source.grid
        for q in (grid.first, grid.last) if grid else (0,):
            vector = contribution(query, q)
            assert sum(vector[i] for i in query.count.indices) == query.count.divisor


@pytest.mark.parametrize("pair", BOUNDS, ids=str)
def test_grid_integers_stay_on_the_grid(pair):
    """Whatever the value, its integer lies in [first, last], at most 2**30 in size."""
    for grid in (
        transformed_mean_query("x", Bounds(*pair)).source.grid,
        sum_query("x", Bounds(*pair)).source.grid,
    ):
        assert isinstance(grid, Grid)
        assert grid.largest <= 2**30
        for value in (-np.inf, np.inf, -1e308, 1e308, 0.0, -0.0, 5e-324, *pair):
            assert grid.first <= grid.integer(value) <= grid.last
