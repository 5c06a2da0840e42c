"""Say what a row adds to a vector of exact sums: a small language of integers, and its limits.

A row that holds a value in every column of a `Linear` adds a matrix of public integers, times the
vector (1, term, term, ...); a row without a value in one of them adds nothing. A term is an integer
made of the row alone:

    OnGrid(column, grid)          the value, clipped and rounded to a grid of integers
    Above(column, threshold)      1 where the value exceeds a public number, else 0
    Product(a, b, divisor)        the whole number of times that a divisor is in a times b

Engines add the terms up (`dfprivacy.engine.terms` writes them in each engine's own language), and
`Term.of` is the law they follow. Where the rows of the matrix make a *partition of unity*, a row
adds non-negative integers whose total is the public constant K, so that adding or removing it
moves the vector by exactly K in the L1 norm. For the mean that is the transformed noise of Kulesza,
Suresh and Wang (2023); for the variance the Bernstein basis ((1-a)^2, 2a(1-a), a^2). The proofs
stand in docs/partition-of-unity.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dfprivacy.measurement.binning import Floats, Integers
from dfprivacy.measurement.grid import Grid


class Term(ABC):
    """An integer that a row adds: a function of the row's own values."""

    @property
    @abstractmethod
    def columns(self) -> tuple[Hashable, ...]:
        """The columns whose values it is made of."""

    @property
    @abstractmethod
    def least(self) -> int:
        """The smallest integer that a row can add."""

    @property
    @abstractmethod
    def most(self) -> int:
        """The largest integer that a row can add."""

    @abstractmethod
    def of(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return the integer of each row: the law that the engines follow; no value is NaN."""

    @property
    def largest(self) -> int:
        """The largest size of what a row can add."""
        return max(abs(self.least), abs(self.most))

    def __mul__(self, other: Term) -> Product:
        """Return the product of two terms, to be divided by a constant: a * b // k."""
        return Product(self, other, 1)


@dataclass(frozen=True)
class OnGrid(Term):
    """The value of a column, clipped to the bounds of a grid and rounded to its integers."""

    column: Hashable
    grid: Grid

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """The one column."""
        return (self.column,)

    @property
    def least(self) -> int:
        """The integer of the lower bound."""
        return self.grid.first

    @property
    def most(self) -> int:
        """The integer of the upper bound."""
        return self.grid.last

    def of(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return the integers of the grid."""
        return self.grid.integers(values[self.column])


@dataclass(frozen=True)
class Above(Term):
    """1 where the value of a column exceeds a public threshold, else 0."""

    column: Hashable
    threshold: float

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """The one column."""
        return (self.column,)

    @property
    def least(self) -> int:
        """Nothing."""
        return 0

    @property
    def most(self) -> int:
        """One."""
        return 1

    def of(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return ones and zeros."""
        return (values[self.column] > self.threshold).astype(np.int64)


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
        if self.left != self.right and min(self.left.least, self.right.least) < 0:
            message = "a product of terms must not be negative"
            raise ValueError(message)
        if self.left.largest * self.right.largest >= 2**62 or self.divisor < 1:
            message = "a product of terms must fit 62 bits, and its divisor must be positive"
            raise ValueError(message)

    def __floordiv__(self, divisor: int) -> Product:
        """Return the product divided by a constant and rounded down."""
        return Product(self.left, self.right, divisor)

    @property
    def columns(self) -> tuple[Hashable, ...]:
        """The columns of both factors."""
        return tuple(dict.fromkeys(self.left.columns + self.right.columns))

    @property
    def least(self) -> int:
        """Nothing, or the product of the least factors."""
        return max(self.left.least, 0) * max(self.right.least, 0) // self.divisor

    @property
    def most(self) -> int:
        """The product of the largest factors."""
        return self.left.largest * self.right.largest // self.divisor

    @property
    def tied(self) -> bool:
        """Tell whether sums of the product are tied to those of its factors.

        For factors a of [0, d] and b of [0, r d], both (d - a)(r d - b) and a(r d - b) are never
        negative: the quotient by d lies between b + r a - r d and both b and r a.
        """
        return self.left.least == 0 == self.right.least and self._ratio is not None

    @property
    def _ratio(self) -> int | None:
        left, right = self.left.most, self.right.most
        return right // self.divisor if left == self.divisor and not right % left else None

    def ends(self, rows: Any, left: Any, right: Any) -> tuple[Any, list[Any]]:
        """Return the least sum of the products that sums of their factors allow, and the most.

        The sums are arrays or an engine's expressions.
        """
        ratio = self._ratio or 0
        mosts = [right] if self.left == self.right else [right, ratio * left]
        return right + ratio * left - ratio * self.divisor * rows, mosts

    def of(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return the quotients."""
        return self.left.of(values) * self.right.of(values) // self.divisor


@dataclass(frozen=True)
class Source:
    """What an engine adds up: the rows that hold a value in each of `columns`, and their terms.

    Without columns all rows count.
    """

    columns: tuple[Hashable, ...] = ()
    terms: tuple[Term, ...] = ()

    @property
    def numbers(self) -> frozenset[Hashable]:
        """The columns that must hold numbers; of the others it only counts what is there."""
        return frozenset(column for term in self.terms for column in term.columns)


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

    def moved(self, values: Mapping[Hashable, Floats]) -> Integers:
        """Return what each row adds to each coordinate: one row a coordinate, one column a row."""
        terms = [term.of(values) for term in self.source.terms]
        size = len(next(iter(values.values())))
        return np.array(self.matrix, dtype=np.int64) @ np.stack([np.ones(size, np.int64), *terms])


ROWS = Linear(Source(), ((1,),), 1, 1, CountWeights((0,), 1))
"""The number of all rows: one coordinate, which a row moves by 1."""
