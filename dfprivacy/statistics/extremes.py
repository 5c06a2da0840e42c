"""The least and the largest value as the quantiles 0 and 1: about so many rows lie beyond them.

The extreme row itself can't be shown: another one can stand in its place. A selection of level 0 or
1 is aimed so far inwards that its answer is among the rows (`RankLaw.inwards`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dfprivacy.measurement.binning import Floats
from dfprivacy.statistics.base import argument
from dfprivacy.statistics.estimators.quantile import RankLaw
from dfprivacy.statistics.quantile import Ranked


@dataclass(frozen=True)
class _Extreme(Ranked):
    """A value near one end of a column."""

    bounds: ClassVar[None] = None  # type: ignore[misc]
    step: ClassVar[None] = None  # type: ignore[misc]
    level: ClassVar[Fraction]

    column: Hashable = argument("The column of numbers.")

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """The end that it is near."""
        return (self.level,)

    def wanted(self, law: RankLaw, q: Fraction, rows: Floats) -> Floats:
        """Return the rank that is aimed at: so many rows from the end."""
        return np.where(q == 0, law.inwards, rows - law.inwards)

    def least(self, law: RankLaw, q: Fraction) -> int:  # noqa: ARG002 one interface
        """Return how many rows a group needs whose answer is nearer to its own end."""
        return 2 * law.inwards

    def remarks(self, law: RankLaw) -> tuple[str, ...]:
        """Say how many rows are beyond."""
        return (
            f"about {law.inwards:,} rows lie beyond the answer: it is never the extreme row itself",
        )


@dataclass(frozen=True)
class Min(_Extreme):
    """A value that few rows lie below: about 35 / epsilon of them, never the least row itself.

    The quantile 0 (see `quantile`), aimed so far inwards that the answer is below all rows with
    probability 1 / 200 at most, whatever they are; of whole frames 35 rows at epsilon 1, of floats
    by group 29. `explain` names the number. A whole number where the column is declared to hold
    those; not a number where there are fewer than twice as many rows. A sixth of the loss counts
    rows.
    """

    kind: ClassVar[str] = "min"
    aliases: ClassVar[tuple[str, ...]] = ("minimum",)
    sql_names: ClassVar[tuple[str, ...]] = ("min",)
    title: ClassVar[str] = "a value that few rows lie below"
    example: ClassVar[str] = 'df.dp.min("x", epsilon=1)'
    level: ClassVar[Fraction] = Fraction(0)


@dataclass(frozen=True)
class Max(_Extreme):
    """A value that few rows lie above: about 35 / epsilon of them, never the largest row itself.

    As `min`, from the other end.
    """

    kind: ClassVar[str] = "max"
    aliases: ClassVar[tuple[str, ...]] = ("maximum",)
    sql_names: ClassVar[tuple[str, ...]] = ("max",)
    title: ClassVar[str] = "a value that few rows lie above"
    example: ClassVar[str] = 'df.dp.max("x", epsilon=1)'
    level: ClassVar[Fraction] = Fraction(1)
