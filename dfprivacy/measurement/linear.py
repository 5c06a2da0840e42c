"""Define the integers that a row adds to a vector of exact sums, and their limits.

A row that holds a value in every column of a `Linear` adds a matrix of public integers, times the
vector (1, term, term, ...); a row without a value in one of them adds nothing. A term is an integer
made of the row alone:

    OnGrid(column, grid)          the value, clipped and rounded to a grid of integers
    Above(column, threshold, n)   n, 1 by default, where the value exceeds a public number, else 0
    Product(a, b, divisor)        the whole number of times that a divisor is in a times b
    Equal(column, constant)       a public whole where the value is a public constant, else 0
    Distinct(column)              1 where the value is met for the first time: see there

Engines add the terms up (`dfprivacy.engine.terms` writes them in each engine's own language), and
`Term.of` is the law they follow. Where the rows of the matrix make a *partition of unity*, a row
adds non-negative integers whose total is the public constant K, so that adding or removing it
moves the vector by exactly K in the L1 norm. For the mean that is the transformed noise of Kulesza,
Suresh and Wang (2023); for the variance the Bernstein basis ((1-a)^2, 2a(1-a), a^2). The proofs
stand in docs/explanation/partition-of-unity.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.grid import Grid


@dataclass(frozen=True)
class Category:
    """A categorical column, or a `constant` of it that is distinguished from all others."""

    column: Hashable
    constant: Any = None
    kind: str = ""


class Term(ABC):
    """An integer that a row adds: a function of the row's own values."""

    minimum: Any = 0
    """The smallest integer that a row can add."""
    maximum: Any = 1
    """The largest integer that a row can add."""
    categories: Any = ()
    """The columns of any type whose values are told apart, instead of read as numbers."""

    @property
    @abstractmethod
    def columns(self) -> tuple[Hashable, ...]:
        """The columns whose values it is made of."""

    @abstractmethod
    def of(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return the integer of each row: the law that the engines follow; no value is NaN."""

    @property
    def leaves(self) -> tuple[Term, ...]:
        """The terms over single columns that it is made of: itself, if it is no product."""
        return (self,)

    @property
    def largest(self) -> int:
        """The largest size of what a row can add."""
        return int(max(abs(self.minimum), abs(self.maximum)))

    @property
    def expected(self) -> Fraction:
        """The mean of the integers that rows add, if values are spread evenly."""
        return Fraction(self.minimum + self.maximum, 2)

    def __mul__(self, other: Term) -> Product:
        """Return the product of two terms, to be divided by a constant: a * b // k."""
        return Product(self, other, 1)


@dataclass(frozen=True)
class ColumnTerm(Term):
    """An integer that the value of one column adds."""

    column: Hashable

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """The one column."""
        return (self.column,)


@dataclass(frozen=True)
class OnGrid(ColumnTerm):
    """The value of a column, clipped to the bounds of a grid and rounded to its integers."""

    grid: Grid

    @property
    def minimum(self) -> int:
        """The integer of the lower bound."""
        return self.grid.first

    @property
    def maximum(self) -> int:
        """The integer of the upper bound."""
        return self.grid.last

    def of(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return the integers of the grid."""
        return self.grid.integers(values[self.column])


@dataclass(frozen=True)
class Above(ColumnTerm):
    """`weight` where the value of a column exceeds a public threshold, else 0."""

    threshold: float
    weight: int = 1

    @property
    def maximum(self) -> int:
        """The integer that such a row adds."""
        return self.weight

    def of(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return the integers."""
        return self.weight * (values[self.column] > self.threshold).astype(np.int64)


WHOLE = 2**20
"""Integer that a row adds if it counts in fractions: a unit of many rows counts as one."""


@dataclass(frozen=True)
class Equal(ColumnTerm):
    """`WHOLE` where the value of a column is a public constant of its own type, else 0.

    Constants of different kinds are different: True is not 1. A whole of many steps leaves a place
    for a part of a row, which is what a row of a unit counts as that has many.
    """

    constant: Any
    kind: str

    maximum = WHOLE

    @property
    def categories(self) -> tuple[Category, ...]:
        """The column, of any type, and the constant."""
        return (Category(self.column, self.constant, self.kind),)

    def of(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return wholes and zeros."""
        same = values[self.column] == self.constant
        return np.where(same, np.int64(WHOLE), np.int64(0))


@dataclass(frozen=True)
class Distinct(ColumnTerm):
    """The different values of a column: not a sum over rows, but moved like one of ones and zeros.

    A row adds 1 where no other row holds its value, and 0 otherwise; NULL and NaN are no values.
    Counts of disjoint rows do not add up.
    """

    @property
    def categories(self) -> tuple[Category, ...]:
        """The column, of any type."""
        return (Category(self.column),)

    def of(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return ones: the most that each row can add."""
        return np.ones(len(values[self.column]), np.int64)


@dataclass(frozen=True)
class Product(Term):
    """The whole number of times that `divisor` is in the product of two terms.

    The product is never negative: engines round the quotient of a negative number differently.
    """

    left: Term
    right: Term
    divisor: int

    def __post_init__(self) -> None:
        """Refuse products that can be negative or too large for 63 bits."""
        if self.left != self.right and min(self.left.minimum, self.right.minimum) < 0:
            raise ValueError("a product of terms must not be negative")
        if self.left.largest * self.right.largest >= 2**62 or self.divisor < 1:
            raise ValueError(
                "a product of terms must fit 62 bits, and its divisor must be positive"
            )

    def __floordiv__(self, divisor: int) -> Product:
        """Return the product divided by a constant and rounded down."""
        return Product(self.left, self.right, divisor)

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """The columns of both factors."""
        return tuple(dict.fromkeys(self.left.columns + self.right.columns))

    @property
    def leaves(self) -> tuple[Term, ...]:
        """The terms over single columns that it is made of: those of both factors."""
        return self.left.leaves + self.right.leaves

    @property
    def minimum(self) -> int:
        """Nothing, or the product of the least factors."""
        return int(max(self.left.minimum, 0) * max(self.right.minimum, 0) // self.divisor)

    @property
    def maximum(self) -> int:
        """The product of the largest factors."""
        return self.left.largest * self.right.largest // self.divisor

    @property
    def expected(self) -> Fraction:
        """The mean of the products of independent values, or of the squares of one."""
        width = self.left.maximum - self.left.minimum if self.left == self.right else 0
        return (self.left.expected * self.right.expected + Fraction(width**2, 12)) / self.divisor

    @property
    def tied(self) -> bool:
        """True if sums of the product are limited by those of its factors.

        For factors a of [0, d] and b of [0, r d], both (d - a)(r d - b) and a(r d - b) are never
        negative: the quotient by d lies between b + r a - r d and both b and r a.
        """
        return self.left.minimum == 0 == self.right.minimum and self._ratio is not None

    @property
    def _ratio(self) -> int | None:
        left, right = self.left.maximum, self.right.maximum
        return right // self.divisor if left == self.divisor and not right % left else None

    def ends(self, rows: Any, left: Any, right: Any) -> tuple[Any, list[Any]]:
        """Return the least and the most sum of products that sums of their factors allow."""
        ratio = self._ratio or 0
        mosts = [right] if self.left == self.right else [right, ratio * left]
        return right + ratio * left - ratio * self.divisor * rows, mosts

    def of(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return the quotients."""
        return self.left.of(values) * self.right.of(values) // self.divisor


@dataclass(frozen=True)
class Source:
    """The sums of an engine: the rows that hold a value in each of `columns`, and their terms.

    Without columns all rows count. With `totals`, what a unit's values on a grid add up to is
    clipped to what the rows that count of it can add; else it is scaled down, as its rows are.
    `rows` is the limit of a unit's rows in a group, 0 for that of the release.
    """

    columns: tuple[Hashable, ...] = ()
    terms: tuple[Term, ...] = ()
    totals: bool = field(default=False, repr=False)
    rows: int = field(default=0, repr=False)

    @property
    def numbers(self) -> frozenset[Hashable]:
        """The columns that must hold numbers; of the others it only counts what is there."""
        return frozenset(
            column for term in self.terms for column in term.columns if not term.categories
        )

    @property
    def categories(self) -> tuple[Category, ...]:
        """The categorical columns."""
        return tuple(dict.fromkeys(column for term in self.terms for column in term.categories))

    @cached_property
    def leaves(self) -> tuple[Term, ...]:
        """The distinct terms over single columns that its terms are made of."""
        return tuple(dict.fromkeys(leaf for term in self.terms for leaf in term.leaves))

    @cached_property
    def factors(self) -> frozenset[Term]:
        """The terms over single columns that products are made of."""
        products = (term for term in self.terms if isinstance(term, Product))
        return frozenset(leaf for term in products for leaf in term.leaves)

    @property
    def counts_distinct(self) -> bool:
        """True if a term counts distinct values."""
        return any(isinstance(term, Distinct) for term in self.terms)


@dataclass(frozen=True)
class CountWeights:
    """How a count is read off noisy coordinates: the sum of some, divided by a constant."""

    indices: tuple[int, ...]
    divisor: int


@dataclass(frozen=True)
class Linear:
    """A vector of integer sums, and how far adding or removing one row can move it.

    Attributes
    ----------
    source : Source
        What is added up: (1, term, term, ...).
    matrix : tuple of tuple of int
        One row a coordinate: the factors of 1 and of each term.
    l1, l2_squared : int
        The most that one row moves the vector, in the L1 norm and in the square of the L2 norm.
    count : CountWeights or None
        How the number of rows is read off the vector, where it can be.
    """

    source: Source
    matrix: tuple[tuple[int, ...], ...]
    l1: int
    l2_squared: int
    count: CountWeights | None = None

    @classmethod
    def unity(cls, terms: tuple[Term, ...], matrix: tuple[tuple[int, ...], ...], k: int) -> Linear:
        """Return a partition of unity: coordinates that are never negative and add up to `k`.

        A row moves it by `k` in both norms at most, and all coordinates together count rows.
        """
        columns = tuple(dict.fromkeys(column for term in terms for column in term.columns))
        weights = CountWeights(tuple(range(len(matrix))), k)
        return cls(Source(columns, terms), matrix, k, k * k, weights)

    @classmethod
    def near_unity(
        cls, terms: tuple[Term, ...], matrix: tuple[tuple[int, ...], ...], k: int
    ) -> Linear:
        """Return a partition of unity of terms that are rounded apart: products of products.

        Without rounding no coordinate would be negative; their total is `k` in any case. A term is
        off by less than `ROUNDED` a row, also where sums of a unit's rows are scaled down and tied,
        so that the coordinates are off by `ROUNDED` times all factors at most. Proof:
        docs/explanation/partition-of-unity.md.
        """
        exact = cls.unity(terms, matrix, k)
        slack = ROUNDED * sum(abs(factor) for row in matrix for factor in row[1:])
        return replace(exact, l1=k + slack, l2_squared=(k + slack) ** 2)

    def expect(self, rows: Floats) -> Floats:
        """Return the expected sums of `rows` rows, whose values are independent and uniform."""
        added = [Fraction(1), *(term.expected for term in self.source.terms)]
        pairs = (zip(row, added, strict=True) for row in self.matrix)
        return np.outer([float(sum(factor * term for factor, term in row)) for row in pairs], rows)

    def apply(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return the integers that each row adds: one row a coordinate, one column a row."""
        terms = [term.of(values) for term in self.source.terms]
        size = len(next(iter(values.values())))
        return np.array(self.matrix, dtype=np.int64) @ np.stack([np.ones(size, np.int64), *terms])


ROUNDED = 8
"""Limit of the rounding errors of one row's terms of `Linear.near_unity`, each."""

ROWS = Linear(Source(), ((1,),), 1, 1, CountWeights((0,), 1))
"""The number of all rows: one coordinate, which a row moves by 1."""
