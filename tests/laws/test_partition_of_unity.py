"""Partitions of unity and sensitivities, row by row, on whole grids."""

from __future__ import annotations

import operator

import hypothesis.strategies as st
import pytest
from hypothesis import given

from dfprivacy.measurement import grid
from dfprivacy.measurement.linear import Product
from dfprivacy.statistics import Count, Mean, Sum, Variance
from dfprivacy.terms import Bounds

LARGE = [
    Bounds(0, 1),
    Bounds(-60, 240),
    Bounds(100, 101),
    Bounds(-7, -3),
    Bounds(0, 3),
    Bounds(-1e300, 1e300),
    Bounds(0.1, 0.3),
    Bounds(-0.0, 5),
    Bounds(-5, 0),
]


def maker(kind, *, grouped=False, **given):
    """Return what makes the vector of a statistic of a column within bounds."""
    return lambda column, bounds: kind(column, bounds, **given).linear(grouped=grouped)


transformed_mean_query = maker(Mean)
shifted_mean_query = maker(Mean, method="shifted")
independent_mean_query = maker(Mean, method="independent")
variance_query, sum_query = maker(Variance), maker(Sum)
sum_and_count_query = maker(Sum, grouped=True)
PARTITIONS = [transformed_mean_query, variance_query]
QUERIES = [*PARTITIONS, shifted_mean_query, independent_mean_query, sum_query, sum_and_count_query]


def small_grid(monkeypatch, last):
    """Grids of few integers: the same code on a coarser step."""
    monkeypatch.setattr(grid, "BITS", last)


def moves(query, q):
    """Return what a row with the grid integer q adds to each coordinate."""
    terms = [q * q // own.divisor if isinstance(own, Product) else q for own in query.source.terms]
    return [sum(map(operator.mul, row, [1, *terms])) for row in query.matrix]


def integers(grid):
    """Every grid integer of a small grid; the ends, the middle and more of a large one."""
    if grid.last - grid.first <= 4096:
        return range(grid.first, grid.last + 1)
    steps = {0, 1, 2, 3, 1000, (grid.last - grid.first) // 2, (grid.last - grid.first) // 3}
    ends = [grid.first + s for s in steps] + [grid.last - s for s in steps]
    return [q for q in [*ends, 0] if grid.first <= q <= grid.last]


@pytest.mark.parametrize("bits", range(1, 12))
@pytest.mark.parametrize("make", PARTITIONS)
def test_a_partition_of_unity_adds_up_to_k(make, bits, monkeypatch):
    """For every integer of a grid the row's vector is non-negative and adds up to K, exactly."""
    small_grid(monkeypatch, bits)
    for both in LARGE:
        query = make("x", both)
        for q in integers(query.source.terms[0].grid):
            vector = moves(query, q)
            assert min(vector) >= 0
            assert sum(vector) == query.source.terms[0].grid.last == query.l1


@given(st.data())
def test_a_partition_of_unity_adds_up_to_k_on_large_grids(data):
    """The same for integers of a 30-bit grid."""
    query = data.draw(st.sampled_from(PARTITIONS))("x", data.draw(st.sampled_from(LARGE)))
    vector = moves(query, data.draw(st.integers(0, query.source.terms[0].grid.last)))
    assert min(vector) >= 0
    assert sum(vector) == query.l1


@pytest.mark.parametrize("bits", [1, 2, 3, 5, 8, 11, 30])
@pytest.mark.parametrize("make", QUERIES)
def test_sensitivities_are_what_a_row_can_do(make, bits, monkeypatch):
    """Sensitivities are what a row can do.

    No row moves the vector by more than L1 in the first norm or L2 in the second, and some row
    moves it by L1: the noise is enough, and not more than that.
    """
    small_grid(monkeypatch, bits)
    for both in LARGE:
        query = make("x", both)
        vectors = [moves(query, q) for q in integers(query.source.terms[0].grid)]
        first = [sum(map(abs, vector)) for vector in vectors]
        second = [sum(part * part for part in vector) for vector in vectors]
        assert max(first) == query.l1
        assert max(second) <= query.l2_squared <= query.l1**2


@given(st.data())
def test_sensitivities_hold_on_large_grids(data):
    """The same upper limits for any integer of a 30-bit grid."""
    query = data.draw(st.sampled_from(QUERIES))("x", data.draw(st.sampled_from(LARGE)))
    grid = query.source.terms[0].grid
    vector = moves(query, data.draw(st.integers(grid.first, grid.last)))
    assert sum(map(abs, vector)) <= query.l1
    assert sum(part * part for part in vector) <= query.l2_squared


@pytest.mark.parametrize(
    "make", [*PARTITIONS, shifted_mean_query, independent_mean_query, sum_and_count_query]
)
def test_a_count_is_read_off_the_vector(make):
    """The weights of the count give 1 for every row, exactly, and no row counts for more."""
    for both in LARGE:
        query = make("x", both)
        for q in integers(query.source.terms[0].grid):
            vector = moves(query, q)
            assert sum(vector[index] for index in query.count.indices) == query.count.divisor


def test_a_sum_of_both_signs_sets_a_fifth_aside():
    """The count beside a sum costs a fifth of the sensitivity; beside a sum of one sign nothing."""
    both = sum_and_count_query("x", Bounds(-5, 3))
    assert both.l1 == pytest.approx(1.25 * sum_query("x", Bounds(-5, 3)).l1)
    one = sum_and_count_query("x", Bounds(2, 3))
    assert one.l1 == sum_query("x", Bounds(2, 3)).l1
    assert sum_query("x", Bounds(2, 3)).count is None


def test_a_count_moves_by_one():
    """One row moves a count by 1."""
    query = Count("x").linear(grouped=False)
    assert (query.matrix, query.l1, query.l2_squared) == (((1,),), 1, 1)
