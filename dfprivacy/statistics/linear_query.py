"""Linear queries: integer vectors that a row adds to, and how far one row can move them.

Every statistic here is a matrix of public integers applied to three exact sums of a column's
grid integers q over the rows of a group:

    rows    the number of rows that hold a value
    first   the sum of q
    second  the sum of floor(q*q / K)

Where the rows of the matrix make a *partition of unity*, a row of data adds non-negative integers
whose total is the public constant K, so that adding or removing it moves the vector by exactly K
in the L1 norm. For the mean that is the transformed noise of Kulesza, Suresh and Wang (2023); for
the variance it is the Bernstein basis ((1-a)^2, 2a(1-a), a^2). The proofs stand in
docs/partition-of-unity.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from dfprivacy.questions import Mean
from dfprivacy.statistics.grid import Grid, grid_from_lower, grid_from_zero
from dfprivacy.terms import Bounds

Matrix = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Source:
    """What an engine has to add up for a query: a column on a grid, up to a moment.

    `column` None with `grid` None counts rows; a column without a grid counts its values.
    """

    column: Hashable
    grid: Grid | None
    moments: int


@dataclass(frozen=True)
class CountWeights:
    """How a count is read off noisy coordinates: the sum of some, divided by a constant."""

    indices: tuple[int, ...]
    divisor: int


@dataclass(frozen=True)
class LinearQuery:
    """A vector of integer sums with its sensitivities under adding or removing one row."""

    source: Source
    matrix: Matrix
    l1: int
    l2_squared: int
    count: CountWeights | None


def count_query(column: Hashable) -> LinearQuery:
    """Return the query of a count: one coordinate, moved by 1."""
    return LinearQuery(Source(column, None, 0), ((1, 0, 0),), 1, 1, CountWeights((0,), 1))


def transformed_mean_query(column: Hashable, bounds: Bounds) -> LinearQuery:
    """Return (sum of q, sum of K - q): Kulesza et al., Algorithm 3."""
    grid = grid_from_lower(bounds)
    k = grid.last
    return LinearQuery(
        Source(column, grid, 1), ((0, 1, 0), (k, -1, 0)), k, k * k, CountWeights((0, 1), k)
    )


def shifted_mean_query(column: Hashable, bounds: Bounds) -> LinearQuery:
    """Return (sum of 2q - K, K times rows): Kulesza et al., Algorithm 2, epsilon/2 each."""
    grid = grid_from_lower(bounds)
    k = grid.last
    return LinearQuery(
        Source(column, grid, 1), ((-k, 2, 0), (k, 0, 0)), 2 * k, 2 * k * k, CountWeights((1,), k)
    )


def independent_mean_query(column: Hashable, bounds: Bounds) -> LinearQuery:
    """Return (sum of x, W times rows): Kulesza et al., Algorithm 1, epsilon/2 each."""
    grid = grid_from_zero(bounds)
    w = grid.largest
    return LinearQuery(
        Source(column, grid, 1), ((0, 1, 0), (w, 0, 0)), 2 * w, 2 * w * w, CountWeights((1,), w)
    )


def variance_query(column: Hashable, bounds: Bounds) -> LinearQuery:
    """Return the sums of the Bernstein basis of degree 2 on the grid; they add up to K a row."""
    grid = grid_from_lower(bounds)
    k = grid.last
    basis = ((k, -2, 1), (0, 2, -2), (0, 0, 1))
    return LinearQuery(Source(column, grid, 2), basis, k, k * k, CountWeights((0, 1, 2), k))


def sum_query(column: Hashable, bounds: Bounds) -> LinearQuery:
    """Return the sum of x alone, moved by at most max(|lower|, |upper|)."""
    grid = grid_from_zero(bounds)
    w = grid.largest
    return LinearQuery(Source(column, grid, 1), ((0, 1, 0),), w, w * w, None)


def sum_and_count_query(column: Hashable, bounds: Bounds) -> LinearQuery:
    """Return a sum whose groups can be counted too.

    Where the bounds have one sign, (sum of |x|, sum of W - |x|) is a partition of unity and the
    count is free. Otherwise a fifth of the sensitivity is set aside for a count.
    """
    grid = grid_from_zero(bounds)
    w = grid.largest
    source = Source(column, grid, 1)
    if bounds.lower >= 0 or bounds.upper <= 0:
        sign = 1 if bounds.lower >= 0 else -1
        matrix = ((0, sign, 0), (w, -sign, 0))
        return LinearQuery(source, matrix, w, w * w, CountWeights((0, 1), w))
    aside = math.ceil(w / 4)
    matrix = ((0, 1, 0), (aside, 0, 0))
    return LinearQuery(source, matrix, w + aside, w * w + aside * aside, CountWeights((1,), aside))


_MEAN_QUERIES = {
    "transformed": transformed_mean_query,
    "shifted": shifted_mean_query,
    "independent": independent_mean_query,
}


def mean_query(question: Mean) -> LinearQuery:
    """Return the query of a mean by its method."""
    return _MEAN_QUERIES[question.method](question.column, question.required_bounds())
