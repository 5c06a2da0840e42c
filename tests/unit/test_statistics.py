"""Exact statistics: merging, checking, and what they refuse."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from dfprivacy.plan import plan_release

import dfprivacy as dfp
from dfprivacy.measurement.sums import Statistics, merge

QUERY = plan_release({"v": dfp.var("x", (0, 1))}, grouped=True).queries[0]
LAST = QUERY.source.grid.last


def statistics(rows, first, second, keys=None):
    columns = {} if keys is None else {"key_0": pa.array(keys, pa.string())}
    sums = {"rows_0": rows, "first_0": first, "second_0": second}
    columns |= {name: pa.array(values, pa.int64()) for name, values in sums.items()}
    return Statistics(pa.table(columns), 0 if keys is None else 1, (QUERY.source,))


def test_coordinates_are_the_matrix_times_the_sums():
    """The vector of a query is its matrix times (rows, sum of q, sum of q*q//K), exactly."""
    rows, first, second = (
        [5, 0, 2**33 - 1],
        [LAST, 0, LAST * (2**33 - 1)],
        [9, 0, LAST * (2**33 - 1)],
    )
    found = statistics(rows, first, second, ["a", "b", "c"]).coordinates(QUERY)
    for column, sums in enumerate(zip(rows, first, second, strict=True)):
        exact = [sum(a * b for a, b in zip(row, sums, strict=True)) for row in QUERY.matrix]
        assert [int(v) for v in found[:, column]] == exact


def test_an_empty_group_is_all_zeros():
    """Missing sums, as some engines give them for no rows, count as zero."""
    table = pa.table({n: pa.array([None], pa.int64()) for n in ("rows_0", "first_0", "second_0")})
    assert not Statistics(table, 0, (QUERY.source,)).coordinates(QUERY).any()


@pytest.mark.parametrize(
    ("rows", "first"),
    [(2**33, 0), (2**40, 5), (3, 3 * 2**30 + 1), (1, -(2**31)), (2**33, 2**63 - 1)],
)
def test_groups_beyond_the_limit_are_refused(rows, first):
    """2**33 rows or more, or sums that cannot be sums of so many rows, are TooManyRowsError."""
    with pytest.raises(dfp.TooManyRowsError):
        statistics([1, rows], [0, first], [0, 0], ["a", "b"]).checked()


def test_groups_below_the_limit_pass():
    """One row less than the limit, all at the upper end, is fine."""
    full = statistics([2**33 - 1], [LAST * (2**33 - 1)], [LAST * (2**33 - 1)])
    assert full.checked() is full


def test_merging_adds_group_by_group():
    """Equal keys, NULL too, are added; others are kept; the result is sorted."""
    one = statistics([1, 2], [10, 20], [1, 2], ["b", None])
    other = statistics([4, 8, 16], [40, 80, 160], [4, 8, 16], ["a", "b", None])
    merged = merge([one, other]).table.to_pydict()
    assert merged["key_0"] == ["a", "b", None]
    assert merged["rows_0"] == [4, 9, 18]
    assert merged["first_0"] == [40, 90, 180]


def test_statistics_of_other_questions_do_not_merge():
    """Parts must answer the same questions."""
    count = plan_release({"n": dfp.count()}, grouped=True).queries[0]
    other = Statistics(pa.table({"rows_0": pa.array([1])}), 0, (count.source,))
    with pytest.raises(ValueError, match="different questions"):
        merge([statistics([1], [1], [1]), other])


def test_statistics_hold_integers():
    """Coordinates are 64-bit integers, whatever the table holds."""
    assert statistics([1], [2], [3]).coordinates(QUERY).dtype == np.int64
