"""The integer grid: how a value becomes an integer."""

from __future__ import annotations

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
from hypothesis import assume, given

import dfprivacy as dfp
from dfprivacy.measurement.grid import BITS, grid_from_lower, grid_from_zero
from dfprivacy.terms import Bounds

ENDS = st.one_of(
    st.floats(-1e6, 1e6),
    st.floats(-1e150, 1e150),
    st.integers(-(2**53), 2**53),
    st.sampled_from([0.0, -0.0, 1e-300, -1e-300, 1e300, -1e300, 5e-324, 2.0**30, 1 + 2.0**-52]),
)


@st.composite
def bounds(draw):
    low, high = sorted([float(draw(ENDS)), float(draw(ENDS))])
    assume(high - low >= 2.0**-1006 and math.isfinite(high - low))
    return Bounds(low, high)


def grids(both):
    yield grid_from_lower(both)
    try:
        yield grid_from_zero(both)
    except dfp.InvalidBoundsError:
        return


@given(bounds())
def test_a_grid_has_a_power_of_two_for_a_step(both):
    """Step and inverse step are exact powers of two, one the inverse of the other."""
    for grid in grids(both):
        assert Fraction(grid.step) * Fraction(grid.inverse_step) == 1
        assert math.frexp(grid.step)[0] == 0.5


@given(bounds())
def test_a_grid_has_thirty_bits(both):
    """A grid has thirty bits.

    Integers reach from 0 to between 2**29 and 2**30 when counted from the lower bound, unless
    the width is near the smallest floats; none exceeds 2**30.
    """
    grid = grid_from_lower(both)
    assert grid.first == 0
    assert 0 < grid.last <= 2**BITS
    if both.width > 2.0**-990:
        assert grid.last >= 2 ** (BITS - 1)
    for one in grids(both):
        assert 0 < one.largest <= 2**BITS


@given(bounds(), st.floats(allow_nan=False))
def test_every_value_lies_on_the_grid(both, value):
    """Any value, infinity too, becomes an integer between the first and the last."""
    for grid in grids(both):
        clipped = min(max(value, grid.lower), grid.upper)
        assert grid.first <= grid.integer(clipped) <= grid.last


@given(bounds(), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_the_grid_keeps_the_order(both, one, other):
    """A larger value never has a smaller integer."""
    for grid in grids(both):
        low, high = sorted([one, other])
        assert grid.integer(low) <= grid.integer(high)


@given(bounds(), st.floats(0, 1))
def test_an_integer_is_the_nearest_of_the_grid(both, part):
    """An integer is the nearest of the grid.

    The integer times the step is within a step of the value: half a step for rounding, and the
    rounding of the float subtraction.
    """
    value = min(max(both.lower + part * both.width, both.lower), both.upper)
    for grid in grids(both):
        exact = (Fraction(value) - Fraction(grid.anchor)) / Fraction(grid.step)
        assert abs(exact - grid.integer(value)) <= Fraction(3, 4)


def test_halves_round_up():
    """A value half-way between two integers takes the upper one."""
    grid = grid_from_lower(Bounds(0, 1))
    assert [grid.integer((k + 0.5) * grid.step) for k in (0, 1, 2, 7)] == [1, 2, 3, 8]
    signed = grid_from_zero(Bounds(-1, 1))
    assert [signed.integer((k + 0.5) * signed.step) for k in (-2, -1, 0)] == [-1, 0, 1]


@given(bounds(), st.lists(st.floats(allow_nan=False)))
def test_integers_are_the_integer_of_each_value(both, values):
    """An array of values, infinite ones too, has the integers that its values have one by one."""
    for grid in grids(both):
        drawn = [*values, both.lower, both.upper, grid.anchor, math.inf, -math.inf]
        found = grid.integers(np.array(drawn))
        assert found.dtype == np.int64
        assert found.tolist() == [grid.integer(value) for value in drawn]
