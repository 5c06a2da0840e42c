"""Rows become integers and bins by themselves; sums are exact, and a row moves them as declared.

References are exact fractions.
"""

import itertools
import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given

import dfprivacy as dfp
from dfprivacy.measurement.bin_table import (
    BIN_ROW_LIMIT,
    SQUARES_SLACK,
    BinTable,
    bin_table,
    in_one,
    merge_tables,
    octave_statistics,
    rebin,
    with_slack,
)
from dfprivacy.measurement.bin_table import FINE as CUT
from dfprivacy.measurement.binning import (
    SQUARE_BITS,
    VALUE_BITS,
    Edges,
    Octaves,
    SignificantBits,
    clip_values,
    round_values,
)
from dfprivacy.measurement.bounds import Bounds
from dfprivacy.measurement.grid import BITS, grid_from_lower, grid_from_zero
from dfprivacy.measurement.sums import Statistics

pytestmark = pytest.mark.usefixtures("permitted")


# The integer grid


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
    except dfp.errors.InvalidBoundsError:
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
    for candidate in grids(both):
        assert 0 < candidate.largest <= 2**BITS


@given(bounds(), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_the_grid_keeps_the_order(both, first, second):
    """A larger value never has a smaller integer."""
    for grid in grids(both):
        low, high = sorted([first, second])
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
        samples = [*values, both.lower, both.upper, grid.anchor, math.inf, -math.inf]
        integers = grid.integers(np.array(samples))
        assert integers.dtype == np.int64
        assert integers.tolist() == [grid.integer(value) for value in samples]


# What a row adds to a vector


# Bins


HOSTILE = [
    0.0, -0.0, math.inf, -math.inf, 1e300, -1e300, 5e-324, -5e-324, 2.0**-1022, 2.0**-126,
    2.0**-127, 2.0**-128, -(2.0**-127), 2.0**126, 2.0**127, 1.0, 2.0, 1.5, 2.0**53 + 2, 0.1,
    math.nextafter(1.0, 2), math.nextafter(1.0, 0), math.nextafter(2.0**126, 0), 1.7976e308,
    math.nextafter(2.0**-126, 0), math.nextafter(2.0**-127, 1), 1 + 2.0**-22, 1 + 3 * 2.0**-22,
]  # fmt: skip
values = st.one_of(
    st.sampled_from(HOSTILE), st.floats(allow_nan=False), st.floats(-100, 100),
    st.builds(math.ldexp, st.sampled_from([-1.0, 0.75, 1.0, 1.5]), st.integers(-130, 130)),
)  # fmt: skip
many = st.lists(values, min_size=1, max_size=40).map(np.array)


def numbers(binning, given_values):
    return binning.numbers(binning.labels(np.asarray(given_values, dtype=float)))


def clip(value):
    return min(max(value, -(2.0**126)), 2.0**126)


def neighbors(value, bits):
    """Return the numbers of so many significant bits on either side of a float."""
    if value == 0:
        return {Fraction(0)}
    exact = Fraction(value)
    unit = Fraction(2) ** (math.frexp(value)[1] - bits)
    return {unit * math.floor(exact / unit), unit * math.ceil(exact / unit)}


@given(values, st.sampled_from([1, 8, 16, SQUARE_BITS, VALUE_BITS]))
def test_rounding_gives_a_nearest_number_of_so_many_bits(value, bits):
    """A rounded value has so many significant bits, and none is nearer; no bit is one too many."""
    value = clip(value)
    nearest = Fraction(float(round_values(np.array([value]), bits)[0]))
    if abs(value) >= 2.0**-1000:  # below, a float has fewer bits than that itself
        candidates = neighbors(value, bits)
        assert nearest in candidates
        assert abs(nearest - Fraction(value)) == min(abs(c - Fraction(value)) for c in candidates)


@given(values, st.sampled_from([1, 2, 5, 12]), st.sampled_from([0.0, 0.0, 703.0, -0.75]))
def test_an_octave_holds_its_own_values(value, bits, center):
    """An octave holds its own values, and so does each of 2**(bits - 1) equal bins of it.

    The rounded value lies in (lower, upper] of its bin, mirrored below zero; sizes up to 2**-127
    are zero; values of one octave are one power of two wide. About a center that holds for the
    distance, and the ends of bins are moved by the center.
    """
    octaves = Octaves(bits)
    rounded_value = Fraction(float(round_values(np.array([clip(value)]), VALUE_BITS)[0]))
    if center:
        about, distance = Octaves(bits, center), float(rounded_value) - center
        number = numbers(about, [value])
        assert number == numbers(octaves, [round_values(np.array([distance]), VALUE_BITS)[0]])
        for moved, end in ((about.lower, octaves.lower), (about.upper, octaves.upper)):
            assert moved(number)[0] == center + end(number)[0]
        return
    (bin_,) = number = numbers(octaves, [value])
    lower, upper = (Fraction(float(end(number)[0])) for end in (octaves.lower, octaves.upper))
    if abs(rounded_value) <= Fraction(1, 2**127):
        assert bin_ == 0
        assert lower == upper == 0
    elif rounded_value > 0:
        assert lower < rounded_value <= upper
    else:
        assert lower <= rounded_value < upper
    if abs(bin_) > 1:
        outer, inner = max(abs(lower), abs(upper)), min(abs(lower), abs(upper))
        octave = Fraction(2) ** (math.frexp(float(inner))[1] - 1)
        assert outer - inner == octave / 2 ** (bits - 1)
        assert octaves.counts_from_center or abs(octaves.bases(number)[0]) == inner
    assert -octaves.last <= bin_ <= octaves.last


@pytest.mark.parametrize(
    "binning", [Octaves(), Octaves(3), CUT, SignificantBits(8), SignificantBits(16)], ids=str
)
@given(given_values=many)
def test_bins_are_in_the_order_of_their_values(binning, given_values):
    """A larger value is never in a lower bin, and minus a value is in minus its bin."""
    bin_numbers = numbers(binning, np.sort(given_values))
    assert (np.diff(bin_numbers) >= 0).all()
    assert np.array_equal(numbers(binning, -np.sort(given_values)), -bin_numbers)
    assert np.abs(bin_numbers).max() <= binning.last


@pytest.mark.parametrize("bits", [8, 16, VALUE_BITS])
@given(value=values)
def test_significant_bits_number_the_rounded_values_upwards(bits, value):
    """The value of a bin is what rounds to it, and neighbors in number are neighbors in value."""
    grid = SignificantBits(bits)
    number = numbers(grid, [value])
    nearest = float(round_values(np.array([clip(value)]), bits)[0])
    shown = float(grid.values(number)[0])
    assert shown == (nearest if abs(nearest) >= 2.0**-126 else 0.0)
    if abs(number[0]) < grid.last:
        further = float(grid.values(number + 1)[0])
        unit = max(abs(Fraction(shown)), abs(Fraction(further)))
        gap = Fraction(further) - Fraction(shown)
        if shown * further == 0:
            assert gap == Fraction(1, 2**126)
        else:
            assert unit / 2**bits <= gap <= unit / 2 ** (bits - 1)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12, unique=True).map(sorted),
    st.lists(values, max_size=30),
)
@example([0.0, 1.0, 2.0], [0.0, -0.0, 1.0, 2.0, math.nextafter(2, 3), -5e-324])
def test_edges_keep_their_lower_end_and_the_last_one_both(edges, rows):
    """A value's bin is the number of edges that it reaches; the uppermost edge closes its bin."""
    edges = [edge + 0.0 for edge in edges]
    bin_numbers = numbers(Edges(tuple(edges)), [*rows, *edges])
    for value, bin_ in zip([*rows, *edges], bin_numbers, strict=True):
        inside = [
            index + 1
            for index, (low, high) in enumerate(itertools.pairwise(edges))
            if low <= value < high or (value == high == edges[-1])
        ]
        expected = inside or [0 if value < edges[0] else len(edges)]
        assert [bin_] == expected


def test_nan_has_no_label():
    """NaN stays NaN in every binning, so that a bin table can leave it out."""
    for binning in (Octaves(), SignificantBits(8), Edges((0.0, 1.0))):
        assert np.isnan(binning.labels(np.array([math.nan]))).all()


# Tables of bins


FINE = SignificantBits(16)
GROUPS = 3
BINNINGS = [Octaves(), Octaves(4), SignificantBits(5), Edges((-1.0, 0.0, 2.5, 1e9))]
ROWS = st.lists(
    st.tuples(st.integers(0, GROUPS - 1), st.one_of(st.floats(-9, 9), st.floats(-1e300, 1e300)))
)


def count_rows(rows, binning, groups=GROUPS):
    """Return the table of rows, each a group and a value."""
    group = np.array([g for g, _ in rows], np.int64)
    labels = binning.labels(np.array([x for _, x in rows], np.float64))
    keys = pa.table({}) if groups == 1 else pa.table({"key_0": list("abc")})
    return bin_table(keys, groups, binning, group, labels, rows=np.ones(len(rows), np.int64))


def content(table):
    return [table.groups, table.keys.to_pydict(), *(
        column.tolist() for column in (table.group, table.bins, table.rows)
    )]  # fmt: skip


@pytest.mark.parametrize("binning", BINNINGS, ids=str)
@given(rows=ROWS)
def test_counts_by_another_binning_are_those_of_the_rounded_rows(binning, rows):
    """Binning a table anew is counting its rounded values, by group or of all groups together."""
    table = count_rows(rows, FINE)
    values = FINE.values(FINE.numbers(FINE.labels(np.array([x for _, x in rows], np.float64))))
    again = [(g, x) for (g, _), x in zip(rows, values.tolist(), strict=True)]
    assert content(rebin(table, binning)) == content(count_rows(again, binning))
    assert rebin(table, binning).binning == binning
    everyone = [(0, x) for _, x in again]
    pooled = in_one(rebin(table, binning))
    assert content(pooled) == content(count_rows(everyone, binning, groups=1))


# Exact sums


QUERY = dfp.var("x", (0, 1)).linear(grouped=True)
LAST = QUERY.source.terms[0].grid.last


def statistics(rows, first, second, keys=None):
    columns = {} if keys is None else {"key_0": pa.array(keys, pa.string())}
    sums = {"sum_0_0": rows, "sum_0_1": first, "sum_0_2": second}
    columns |= {name: pa.array(values, pa.int64()) for name, values in sums.items()}
    return Statistics(pa.table(columns), 0 if keys is None else 1, (QUERY.source,))


def test_coordinates_are_the_matrix_times_the_sums():
    """The vector of a query is its matrix times (rows, sum of q, sum of q*q//K), exactly."""
    rows, first, second = (
        [5, 0, 2**33 - 1],
        [LAST, 0, LAST * (2**33 - 1)],
        [9, 0, LAST * (2**33 - 1)],
    )
    coordinates = statistics(rows, first, second, ["a", "b", "c"]).coordinates(QUERY)
    for column, sums in enumerate(zip(rows, first, second, strict=True)):
        exact = [sum(a * b for a, b in zip(row, sums, strict=True)) for row in QUERY.matrix]
        assert [int(v) for v in coordinates[:, column]] == exact


@pytest.mark.parametrize(
    ("rows", "first"),
    [(2**33, 0), (2**40, 5), (3, 3 * 2**30 + 1), (1, -(2**31)), (2**33, 2**63 - 1)],
)
def test_groups_beyond_the_limit_are_refused(rows, first):
    """2**33 rows or more, or sums that cannot be sums of so many rows, are TooManyRowsError."""
    with pytest.raises(dfp.errors.TooManyRowsError):
        statistics([1, rows], [0, first], [0, 0], ["a", "b"]).check_rows()


# Sums from a table of octaves


OCTAVES = Octaves()
FEW = BIN_ROW_LIMIT - 1


def list_stored_values(values):
    """Return values as the table knows them: 22 bits, nothing below the least octave."""
    rounded_values = round_values(clip_values(np.asarray(values, dtype=float)), VALUE_BITS)
    return np.where(np.abs(rounded_values) <= 2.0**-127, 0.0, rounded_values)


def excesses(values, binning):
    """Return the excesses of values over the bases of their bins, as the table knows them."""
    labels = binning.labels(np.asarray(values, dtype=float))
    if binning.center:
        return np.where(
            labels == 0, 0.0, list_stored_values(list_stored_values(values) - binning.center)
        )
    return list_stored_values(values) - binning.bases(binning.numbers(labels))


def values_in_table(values, binning):
    """Return the values as the table knows them: the base of their bin and the excess, exactly."""
    bases = binning.bases(binning.numbers(binning.labels(np.asarray(values, dtype=float))))
    pairs = zip(bases, excesses(values, binning), strict=True)
    return [Fraction(float(base)) + Fraction(float(excess)) for base, excess in pairs]


def octave_table(values, times=1, binning=OCTAVES):
    """Return the octave table of values, each `times` times, added up without any rounding."""
    labels = binning.labels(np.asarray(values, dtype=float))
    excess = excesses(values, binning)
    squares = round_values(excess * excess, SQUARE_BITS)
    sums = {}
    for label, value, square in zip(labels + 0.0, excess, squares, strict=True):
        row = sums.setdefault(float(label), [0, Fraction(0), Fraction(0)])
        row[0] += times
        row[1] += times * Fraction(float(value))
        row[2] += times * Fraction(float(square))
    exact = [[float(row[m]) for row in sums.values()] for m in (1, 2)]
    for floats, m in zip(exact, (1, 2), strict=True):
        assert [Fraction(f) for f in floats] == [row[m] for row in sums.values()]
    return bin_table(
        pa.table({}), 1, binning, np.zeros(len(sums), dtype=np.int64), np.array(list(sums)),
        rows=np.array([row[0] for row in sums.values()], dtype=np.int64),
        moments=[np.array(e) for e in exact],
    )  # fmt: skip


def sums(table, query):
    """Return the exact vector, and the sums behind it."""
    octave_sums = octave_statistics(table, np.zeros(1, dtype=np.int64), (query.source,))
    return [int(v) for v in octave_sums.coordinates(query)[:, 0]], [
        int(octave_sums.table.column(index)[0].as_py())
        for index in range(octave_sums.table.num_columns)
    ]


@st.composite
def octave_bounds(draw):
    """Bounds as the rule gives them: octave edges, none much nearer to zero than they are wide."""
    exponent = draw(st.integers(-106, 125))
    inner_exponent = exponent - draw(st.integers(0, 19))
    narrow = exponent - draw(st.integers(1, 18))
    end, inner_end, width = 2.0**exponent, 2.0**inner_exponent, 2.0**narrow
    pairs = [
        (0, end),
        (-end, 0),
        (-end, inner_end),
        (-inner_end, end),
        (width, end),
        (-end, -width),
    ]
    return Bounds(*draw(st.sampled_from(pairs)))


@st.composite
def far_bounds(draw):
    """Bounds at ends of fine bins, far from zero for their width or not, and their mirror images.

    None is nearer to zero than 2**-16 of the width.
    """
    first = draw(st.integers(CUT.bits << 11, CUT.last - 2**12))
    bins = draw(st.one_of(st.integers(0, 60), st.integers(0, 2**12), st.integers(0, 2**15)))
    numbers = np.array([first, min(first + bins, CUT.last)])
    lower, upper = float(CUT.lower(numbers)[0]), float(CUT.upper(numbers)[1])
    return Bounds(*draw(st.sampled_from([(lower, upper), (-upper, -lower), (-lower, upper)])))


@st.composite
def bins_about_a_center(draw):
    """Quarters of octaves about the end of a fine bin, and bounds at ends of theirs."""
    number = draw(st.integers(CUT.last // 5, CUT.last // 5 * 4))
    center = float(CUT.lower(np.array([number]))[0]) * draw(st.sampled_from([-1, 1]))
    binning = Octaves(3, center)
    size = math.frexp(center)[1] + 126
    ends = st.integers(-15, 20).map(lambda doublings: (size + doublings) * 4)
    numbers = [draw(ends) * draw(st.sampled_from([-1, 1])) + draw(st.integers(0, 3)) for _ in "ab"]
    ends = binning.lower(np.array([min(numbers), max(numbers) + 1]))
    ends[np.abs(ends) < np.ptp(ends) / 2**15] = 0.0
    assume(ends[0] < ends[1])
    return binning, Bounds(*map(float, ends))


@st.composite
def octave_cases(draw, max_size=25, *, squares=False):
    """Bounds, bins, and values inside, beyond, at the ends and near them."""
    binning = draw(st.sampled_from([OCTAVES, CUT, CUT, *[None] * (0 if squares else 2)]))
    fine = binning == CUT and draw(st.booleans())
    if binning is None:
        binning, bounds = draw(bins_about_a_center())
    else:
        bounds = draw(far_bounds() if fine else octave_bounds())
    inside = st.floats(bounds.lower, bounds.upper)
    near_ends = st.builds(
        lambda edge, steps: edge * (1 + steps * 2.0**-22),
        st.sampled_from([bounds.lower, bounds.upper]), st.integers(-9, 9),
    )  # fmt: skip
    hostile = st.sampled_from([0.0, -0.0, 1e300, -1e300, 5e-324, bounds.lower, bounds.upper])
    values = draw(st.lists(st.one_of(inside, near_ends, hostile), max_size=max_size))
    return bounds, values, binning


def units(bounds, grid, value):
    """Return a kept value's exact place on the grid, in [0, K]."""
    inside = min(max(value, Fraction(bounds.lower)), Fraction(bounds.upper))
    return (inside - Fraction(bounds.lower)) * Fraction(2) ** -grid.exponent


@given(octave_cases())
def test_first_moments_are_those_of_the_values(case):
    """The sum of grid integers is the values' own sum, short of one step for each bin at most.

    Values beyond the bounds count as the bounds, exactly; rows are counted exactly.
    """
    bounds, values, binning = case
    query = dfp.mean("x", bounds).linear(grouped=True)
    grid = query.source.terms[0].grid
    _, (rows, first) = sums(octave_table(values, 1, binning), query)
    exact = sum(
        (units(bounds, grid, value) for value in values_in_table(values, binning)),
        start=Fraction(0),
    )
    used = len(np.unique(binning.labels(np.asarray(values, dtype=float))))
    assert rows == len(values)
    assert 0 <= exact - first < max(used, 1)


@given(octave_cases(), st.data())
def test_a_row_moves_the_mean_by_exactly_k(case, data):
    """A row adds an integer of [0, K] to the one sum and the rest of K to the other."""
    bounds, values, binning = case
    assume(values)
    out = data.draw(st.integers(0, len(values) - 1))
    times = data.draw(st.sampled_from([1, 1, 1000, (FEW - 1) // len(values)]))
    query = dfp.mean("x", bounds).linear(grouped=True)
    k = query.source.terms[0].grid.last
    without = merge_tables([octave_table(values, times, binning)])
    with_it = merge_tables([without, octave_table([values[out]], 1, binning)])
    before, after = sums(without, query)[0], sums(with_it, query)[0]
    moved = [b - a for a, b in zip(before, after, strict=True)]
    assert min(moved) >= 0
    assert sum(moved) == k == with_slack(query).l1


@given(octave_cases(), st.data())
def test_a_row_moves_a_sum_by_at_most_its_sensitivity(case, data):
    """A row moves a sum, and the count beside it, by at most the declared L1 and L2 norms."""
    bounds, values, binning = case
    assume(values)
    out = data.draw(st.integers(0, len(values) - 1))
    query = dfp.sum("x", bounds).linear(grouped=True)
    before = sums(octave_table(values[:out] + values[out + 1 :], 1, binning), query)[0]
    moved = [
        b - a for a, b in zip(before, sums(octave_table(values, 1, binning), query)[0], strict=True)
    ]
    assert sum(map(abs, moved)) <= with_slack(query).l1 == query.l1
    assert sum(m * m for m in moved) <= query.l2_squared


@given(octave_cases(squares=True), st.data())
@example((Bounds(1, 2), [1 + 2.0**-21] * 3 + [2.0], OCTAVES), None)
def test_a_row_moves_the_bernstein_sums_by_little_more_than_k(case, data):
    """A row moves the Bernstein sums by little more than K.

    By at most K + SQUARES_SLACK in L1 norm, in tables of up to 2**31 rows in one octave, and
    their total by exactly K.
    """
    bounds, values, binning = case
    assume(values)
    added = values[data.draw(st.integers(0, len(values) - 1)) if data else -1]
    times = data.draw(st.sampled_from([1, 3, (FEW - 1) // len(values)])) if data else 10**8
    query = dfp.var("x", bounds).linear(grouped=True)
    without = octave_table(values, times, binning)
    before = sums(without, query)[0]
    after = sums(merge_tables([without, octave_table([added], 1, binning)]), query)[0]
    moved = [b - a for a, b in zip(before, after, strict=True)]
    assert sum(moved) == query.source.terms[0].grid.last
    norm = sum(map(abs, moved))
    assert norm <= with_slack(query).l1 == query.l1 + SQUARES_SLACK
    assert norm * norm <= with_slack(query).l2_squared


@given(octave_cases(squares=True), st.sampled_from([1, 10, 10**6, 85_000_000]))
def test_second_moments_are_near_those_of_the_values(case, times):
    """Second moments are near those of the values.

    The computed sum of an octave is within 1,537 of the exact sum with rounded squares, and that
    within 2,048 a row of the exact one; the sum of a finer bin is within 3,329 of the exact one,
    which needs no rounding. It stays between 0 and K a row.
    """
    bounds, values, binning = case
    query = dfp.var("x", bounds).linear(grouped=True)
    grid, table = query.source.terms[0].grid, octave_table(values, times, binning)
    second = sums(table, query)[1][2]
    known_values, excess = values_in_table(values, binning), excesses(values, binning)
    inside = [bounds.lower <= value <= bounds.upper and value != 0 for value in known_values]
    step = Fraction(2) ** grid.exponent
    scale = 1 / (step * step * grid.last)
    bases = binning.bases(binning.numbers(binning.labels(np.asarray(values, dtype=float))))
    with_rounded, exact = Fraction(0), Fraction(0)
    for value, base, distance, is_inside in zip(known_values, bases, excess, inside, strict=True):
        position = units(bounds, grid, value)
        exact += times * position * position / grid.last
        offset = Fraction(float(base)) - Fraction(bounds.lower)
        square = Fraction(float(round_values(np.array([distance * distance]), SQUARE_BITS)[0]))
        term = square + 2 * offset * Fraction(float(distance)) + offset * offset
        single = term * scale if is_inside else position * position / grid.last
        assert 0 <= single <= grid.last
        with_rounded += times * single
    fine = binning == CUT
    assert abs(second - with_rounded) <= (3_329 if fine else 1_537) * max(len(table.rows), 1)
    assert abs(with_rounded - exact) <= (0 if fine else 2_048 * times * len(values))
    assert 0 <= second <= grid.last * times * len(values)


@pytest.mark.parametrize("exponent", [-127, -1, 0, 77, 125])
@pytest.mark.parametrize("index", [0, 1000, 2047])
def test_sums_of_a_fine_bin_are_exact_up_to_the_limit(exponent, index):
    """The largest excess and its square, as often as the limit allows, beside the least once.

    An excess is a multiple of 2**(e - 21) up to 2**(e - 11): its square has 20 bits.
    """
    base = 2.0**exponent * (1 + index / 2048)
    ends = [base + 2.0 ** (exponent - 21), base + 2.0 ** (exponent - 11)]
    numbers = CUT.numbers(CUT.labels(np.array([*ends, base])))
    assert numbers[0] == numbers[1] == numbers[2] + 1
    assert CUT.bases(numbers)[0] == base
    for power in (1, 2):
        smallest, largest = ((end - base) ** power for end in ends)
        assert round_values(np.array([largest]), SQUARE_BITS)[0] == largest
        exact = Fraction(smallest) + (FEW - 1) * Fraction(largest)
        assert Fraction(float(exact)) == exact


@pytest.mark.parametrize("exponent", [-127, -1, 0, 77, 125])
def test_sums_of_an_octave_are_exact_up_to_the_limit(exponent):
    """Sums of an octave are exact up to the limit.

    The largest value as often as the limit allows, beside the smallest once, adds up without
    rounding: nothing depends on the order of rows. One row more is refused. With squares of 22
    bits that would fail.
    """
    smallest, largest = 2.0**exponent * (1 + 2.0**-21), 2.0 ** (exponent + 1)
    square = float(round_values(np.array([smallest * smallest]), SQUARE_BITS)[0])
    finest = 2.0 ** (2 * exponent) * (1 + 2.0 ** (1 - SQUARE_BITS))
    assert square <= finest
    for low, high in ((smallest, largest), (finest, largest * largest)):
        exact = Fraction(low) + (FEW - 1) * Fraction(high)
        assert Fraction(float(exact)) == exact
    finer = Fraction(2) ** (2 * exponent) * (1 + Fraction(1, 2**21))
    inexact = finer + (FEW - 1) * Fraction(largest * largest)
    assert Fraction(float(inexact)) != inexact
    rows = np.array([FEW + 1], dtype=np.int64)
    with pytest.raises(dfp.errors.TooManyRowsError):
        BinTable(pa.table({}), 1, OCTAVES, rows * 0, rows * 0, rows).check_rows()


@given(octave_cases(), st.data())
def test_merged_parts_are_the_whole_table(case, data):
    """Tables of any split of the rows add up to the table of all rows, bit for bit."""
    _, values, binning = case
    cut = data.draw(st.integers(0, len(values)))
    table = octave_table(values, 1, binning)
    parts = [octave_table(part, 1, binning) for part in (values[:cut], values[cut:])]
    merged = merge_tables(parts)
    for name in ("group", "bins", "rows"):
        assert np.array_equal(getattr(table, name), getattr(merged, name))
    for expected, moments in zip(table.moments, merged.moments, strict=True):
        assert np.array_equal(expected, moments)


@pytest.mark.parametrize("batch_size", [1, 3, 2**13])
def test_groups_are_added_up_apart(batch_size, monkeypatch):
    """Each group has the sums of its own table, whatever groups are asked for, however many."""
    monkeypatch.setattr("dfprivacy.measurement.bin_table._SUMMED", batch_size)
    parts = [[1.0, 3.0], [], [2.0, -7.5, 1e9], [4.0]]
    tables = [octave_table(part) for part in parts]
    joined = BinTable(
        pa.table({"key_0": list("abcd")}), 4, OCTAVES,
        np.concatenate([np.full(len(t.rows), i) for i, t in enumerate(tables)]),
        *(np.concatenate([getattr(t, name) for t in tables]) for name in ("bins", "rows")),
        moments=tuple(np.concatenate([t.moments[m] for t in tables]) for m in (0, 1)),
    )  # fmt: skip
    query = dfp.var("x", (-8, 4)).linear(grouped=True)
    for indices in ([0, 1, 2, 3], [1], [0, 2], [3], []):
        groups = np.array(indices, dtype=np.int64)
        coordinates = octave_statistics(joined, groups, (query.source,)).coordinates(query)
        assert coordinates.T.tolist() == [sums(tables[index], query)[0] for index in indices]
