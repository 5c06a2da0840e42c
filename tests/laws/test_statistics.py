"""Exact statistics: merging, checking, and what they refuse."""

from __future__ import annotations

import pyarrow as pa
import pytest

import dfprivacy as dfp
from dfprivacy.measurement.sums import Statistics
from dfprivacy.statistics.linear import vectors_of

QUERY = vectors_of({"v": dfp.var("x", (0, 1))}, grouped=True).linears[0]
LAST = QUERY.source.terms[0].most


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
    found = statistics(rows, first, second, ["a", "b", "c"]).coordinates(QUERY)
    for column, sums in enumerate(zip(rows, first, second, strict=True)):
        exact = [sum(a * b for a, b in zip(row, sums, strict=True)) for row in QUERY.matrix]
        assert [int(v) for v in found[:, column]] == exact


@pytest.mark.parametrize(
    ("rows", "first"),
    [(2**33, 0), (2**40, 5), (3, 3 * 2**30 + 1), (1, -(2**31)), (2**33, 2**63 - 1)],
)
def test_groups_beyond_the_limit_are_refused(rows, first):
    """2**33 rows or more, or sums that cannot be sums of so many rows, are TooManyRowsError."""
    with pytest.raises(dfp.TooManyRowsError):
        statistics([1, rows], [0, first], [0, 0], ["a", "b"]).checked()
