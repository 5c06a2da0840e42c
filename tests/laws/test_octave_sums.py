"""Sums from an octave table against brute force in exact fractions; what one row can move."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings

import dfprivacy as dfp
from dfprivacy.errors import TooManyRowsError
from dfprivacy.measurement.bin_table import BIN_ROW_LIMIT, BinTable, bin_table, merge_tables
from dfprivacy.measurement.binning import SQUARE_BITS, VALUE_BITS, Octaves, clipped, rounded
from dfprivacy.measurement.octave_sums import SQUARES_SLACK, octave_statistics, with_slack
from dfprivacy.statistics.linear import vectors_of
from dfprivacy.terms import Bounds

OCTAVES = Octaves()
FEW = BIN_ROW_LIMIT - 1


def kept(values):
    """Return values as the table knows them: 22 bits, nothing below the least octave."""
    found = rounded(clipped(np.asarray(values, dtype=float)), VALUE_BITS)
    return np.where(np.abs(found) <= 2.0**-127, 0.0, found)


def table_of(values, times=1):
    """Return the octave table of values, each `times` times, added up without any rounding."""
    own, labels = kept(values), OCTAVES.labels(np.asarray(values, dtype=float))
    squares = rounded(own * own, SQUARE_BITS)
    sums = {}
    for label, value, square in zip(labels + 0.0, own, squares, strict=True):
        row = sums.setdefault(float(label), [0, Fraction(0), Fraction(0)])
        row[0] += times
        row[1] += times * Fraction(float(value))
        row[2] += times * Fraction(float(square))
    exact = [[float(row[m]) for row in sums.values()] for m in (1, 2)]
    for floats, m in zip(exact, (1, 2), strict=True):
        assert [Fraction(f) for f in floats] == [row[m] for row in sums.values()]
    return bin_table(
        pa.table({}), 1, OCTAVES, np.zeros(len(sums), dtype=np.int64), np.array(list(sums)),
        rows=np.array([row[0] for row in sums.values()], dtype=np.int64),
        moments=[np.array(e) for e in exact],
    )  # fmt: skip


def query_of(question):
    (query,) = vectors_of({"answer": question}, grouped=True).linears
    return query


def sums(table, query):
    """Return the exact vector, and the sums behind it."""
    found = octave_statistics(table, pa.table({}), np.zeros(1, dtype=np.int64), (query.source,))
    return [int(v) for v in found.coordinates(query)[:, 0]], [
        int(found.table.column(index)[0].as_py()) for index in range(found.table.num_columns)
    ]


@st.composite
def octave_bounds(draw):
    """Bounds as the rule gives them: octave edges, none much nearer to zero than they are wide."""
    exponent = draw(st.integers(-106, 125))
    near = exponent - draw(st.integers(0, 19))
    narrow = exponent - draw(st.integers(1, 18))
    one, two, less = 2.0**exponent, 2.0**near, 2.0**narrow
    pairs = [(0, one), (-one, 0), (-one, two), (-two, one), (less, one), (-one, -less)]
    return Bounds(*draw(st.sampled_from(pairs)))


@st.composite
def cases(draw, most=25):
    """Bounds, and values inside, beyond, at the edges and near them."""
    bounds = draw(octave_bounds())
    inside = st.floats(bounds.lower, bounds.upper)
    near = st.builds(
        lambda edge, steps: edge * (1 + steps * 2.0**-22),
        st.sampled_from([bounds.lower, bounds.upper]), st.integers(-9, 9),
    )  # fmt: skip
    hostile = st.sampled_from([0.0, -0.0, 1e300, -1e300, 5e-324, bounds.lower, bounds.upper])
    return bounds, draw(st.lists(st.one_of(inside, near, hostile), max_size=most))


def units(bounds, grid, value):
    """Return a kept value's exact place on the grid, in [0, K]."""
    inside = min(max(Fraction(float(value)), Fraction(bounds.lower)), Fraction(bounds.upper))
    return (inside - Fraction(bounds.lower)) * Fraction(2) ** -grid.exponent


@settings(max_examples=100)
@given(cases())
def test_first_moments_are_those_of_the_values(case):
    """The sum of grid integers is the values' own sum, short of one step for each octave at most.

    Values beyond the bounds count as the bounds, exactly; rows are counted exactly.
    """
    bounds, values = case
    query = query_of(dfp.mean("x", bounds))
    grid = query.source.terms[0].grid
    _, (rows, first) = sums(table_of(values), query)
    exact = sum((units(bounds, grid, value) for value in kept(values)), start=Fraction(0))
    used = len(np.unique(OCTAVES.labels(np.asarray(values, dtype=float))))
    assert rows == len(values)
    assert 0 <= exact - first < max(used, 1)


@settings(max_examples=150)
@given(cases(), st.data())
def test_a_row_moves_the_mean_by_exactly_k(case, data):
    """A row adds an integer of [0, K] to the one sum and the rest of K to the other."""
    bounds, values = case
    assume(values)
    out = data.draw(st.integers(0, len(values) - 1))
    times = data.draw(st.sampled_from([1, 1, 1000, (FEW - 1) // len(values)]))
    query = query_of(dfp.mean("x", bounds))
    k = query.source.terms[0].grid.last
    without = merge_tables([table_of(values, times)])
    with_it = merge_tables([without, table_of([values[out]])])
    before, after = sums(without, query)[0], sums(with_it, query)[0]
    moved = [b - a for a, b in zip(before, after, strict=True)]
    assert min(moved) >= 0
    assert sum(moved) == k == with_slack(query).l1


@settings(max_examples=100)
@given(cases(), st.data())
def test_a_row_moves_a_sum_by_at_most_its_sensitivity(case, data):
    """A row moves a sum, and the count beside it, by at most the declared L1 and L2 norms."""
    bounds, values = case
    assume(values)
    out = data.draw(st.integers(0, len(values) - 1))
    query = query_of(dfp.sum("x", bounds))
    before = sums(table_of(values[:out] + values[out + 1 :]), query)[0]
    moved = [b - a for a, b in zip(before, sums(table_of(values), query)[0], strict=True)]
    assert sum(map(abs, moved)) <= with_slack(query).l1 == query.l1
    assert sum(m * m for m in moved) <= query.l2_squared


@settings(max_examples=150)
@given(cases(), st.data())
@example((Bounds(1, 2), [1 + 2.0**-21] * 3 + [2.0]), None)
def test_a_row_moves_the_bernstein_sums_by_little_more_than_k(case, data):
    """A row moves the Bernstein sums by little more than K.

    By at most K + SQUARES_SLACK in L1 norm, in tables of up to 2**31 rows in one octave, and
    their total by exactly K.
    """
    bounds, values = case
    assume(values)
    added = values[data.draw(st.integers(0, len(values) - 1)) if data else -1]
    times = data.draw(st.sampled_from([1, 3, (FEW - 1) // len(values)])) if data else 10**8
    query = query_of(dfp.var("x", bounds))
    without = table_of(values, times)
    before = sums(without, query)[0]
    after = sums(merge_tables([without, table_of([added])]), query)[0]
    moved = [b - a for a, b in zip(before, after, strict=True)]
    assert sum(moved) == query.source.terms[0].grid.last
    norm = sum(map(abs, moved))
    assert norm <= with_slack(query).l1 == query.l1 + SQUARES_SLACK
    assert norm * norm <= with_slack(query).l2_squared


@settings(max_examples=150)
@given(cases(), st.sampled_from([1, 10, 10**6, 85_000_000]))
def test_second_moments_are_near_those_of_the_values(case, times):
    """Second moments are near those of the values.

    The computed sum of an octave is within 1,537 of the exact sum with rounded squares, and that
    within 2,048 a row of the exact one; it stays between 0 and K a row.
    """
    bounds, values = case
    query = query_of(dfp.var("x", bounds))
    grid, table = query.source.terms[0].grid, table_of(values, times)
    second = sums(table, query)[1][2]
    own = kept(values)
    inside = (own >= bounds.lower) & (own <= bounds.upper)
    step = Fraction(2) ** grid.exponent
    scale = 1 / (step * step * grid.last)
    squares = rounded(own * own, SQUARE_BITS)
    low = Fraction(bounds.lower)
    with_rounded, exact = Fraction(0), Fraction(0)
    for value, square, is_inside in zip(own, squares, inside, strict=True):
        place = units(bounds, grid, value)
        exact += times * place * place / grid.last
        term = Fraction(float(square)) - 2 * low * Fraction(float(value)) + low * low
        single = term * scale if is_inside and value != 0 else place * place / grid.last
        assert 0 <= single <= grid.last
        with_rounded += times * single
    assert abs(second - with_rounded) <= 1_537 * max(len(table.rows), 1)
    assert abs(with_rounded - exact) <= 2_048 * times * len(values)
    assert 0 <= second <= grid.last * times * len(values)


@pytest.mark.parametrize("exponent", [-127, -1, 0, 77, 125])
def test_sums_of_an_octave_are_exact_up_to_the_limit(exponent):
    """Sums of an octave are exact up to the limit.

    The largest value as often as the limit allows, beside the smallest once, adds up without
    rounding: nothing depends on the order of rows. One row more is refused. With squares of 22
    bits that would fail.
    """
    least, most = 2.0**exponent * (1 + 2.0**-21), 2.0 ** (exponent + 1)
    square = float(rounded(np.array([least * least]), SQUARE_BITS)[0])
    finest = 2.0 ** (2 * exponent) * (1 + 2.0 ** (1 - SQUARE_BITS))
    assert square <= finest
    for low, high in ((least, most), (finest, most * most)):
        exact = Fraction(low) + (FEW - 1) * Fraction(high)
        assert Fraction(float(exact)) == exact
    finer = Fraction(2) ** (2 * exponent) * (1 + Fraction(1, 2**21))
    inexact = finer + (FEW - 1) * Fraction(most * most)
    assert Fraction(float(inexact)) != inexact
    rows = np.array([FEW + 1], dtype=np.int64)
    with pytest.raises(TooManyRowsError):
        BinTable(pa.table({}), 1, OCTAVES, rows * 0, rows * 0, rows).checked()


@given(cases(), st.data())
def test_merged_parts_are_the_whole_table(case, data):
    """Tables of any split of the rows add up to the table of all rows, bit for bit."""
    _, values = case
    cut = data.draw(st.integers(0, len(values)))
    whole = table_of(values)
    merged = merge_tables([table_of(values[:cut]), table_of(values[cut:])])
    for name in ("group", "bins", "rows"):
        assert np.array_equal(getattr(whole, name), getattr(merged, name))
    for one, other in zip(whole.moments, merged.moments, strict=True):
        assert np.array_equal(one, other)


def test_groups_are_added_up_apart():
    """Each group has the sums of its own table, whatever groups are asked for."""
    parts = [[1.0, 3.0], [], [2.0, -7.5, 1e9], [4.0]]
    tables = [table_of(part) for part in parts]
    joined = BinTable(
        pa.table({"key_0": list("abcd")}), 4, OCTAVES,
        np.concatenate([np.full(len(t.rows), i) for i, t in enumerate(tables)]),
        *(np.concatenate([getattr(t, name) for t in tables]) for name in ("bins", "rows")),
        moments=tuple(np.concatenate([t.moments[m] for t in tables]) for m in (0, 1)),
    )  # fmt: skip
    query = query_of(dfp.var("x", (-8, 4)))
    for wanted in ([0, 1, 2, 3], [1], [0, 2], [3], []):
        groups = np.array(wanted, dtype=np.int64)
        keys = joined.keys.take(pa.array(groups))
        found = octave_statistics(joined, keys, groups, (query.source,)).coordinates(query)
        assert found.T.tolist() == [sums(tables[index], query)[0] for index in wanted]
