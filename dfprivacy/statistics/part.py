"""Define the interface of the mechanisms of a release, and the forecasts of their answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import Declared
from dfprivacy.engine.histograms import HistogramQuery, count_bins
from dfprivacy.engine.keys import rows_of_groups
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Octaves, SignificantBits
from dfprivacy.measurement.linear import CountWeights
from dfprivacy.measurement.value_words import ValueWords, build_value_table
from dfprivacy.noise.additive import NoisyVector, add_to
from dfprivacy.noise.laws import KeyRule, Noise
from dfprivacy.release.answers import Answered, Column, Counted, CountPiece, Measured
from dfprivacy.release.plan import PartLimits
from dfprivacy.release.terms import Unit

SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""The sizes of groups, in rows as they count, that half-widths are given for."""

HalfWidths = tuple[float | None, ...]

UNTOLD: HalfWidths = (None,) * len(SIZES)  # half-widths that are unknown before there is data


@dataclass(frozen=True)
class Reach:
    """The least sizes of groups, in rows as they count, that reach a noisy threshold.

    `rarely` is reached with probability 5 %, `half` with 50 %, `mostly` with 95 %. With a
    `condition` the sizes hold under it alone.

    >>> from dfprivacy.noise.laws import DiscreteLaplace
    >>> reaching(30, DiscreteLaplace(Fraction(1)))
    Reach(rarely=28, half=30, mostly=32)
    """

    rarely: int
    half: int
    mostly: int
    condition: str = field(default="", repr=False)

    def __str__(self) -> str:
        text = (
            f"with probability 5% from {self.rarely:,} rows on, 50% from {self.half:,}, "
            f"95% from {self.mostly:,}"
        )
        more = ", and from more within the limits that the release finds"
        return f"{text} {self.condition}{more}" if self.condition else text


@lru_cache(maxsize=256)
def reaching(threshold: int, noise: Noise, divisor: int = 1, terms: int = 1) -> Reach:
    """Return the sizes at which divisor * rows + Z_1 + ... + Z_terms >= threshold."""

    def smallest(chance: Fraction) -> int:
        def is_reached(rows: int) -> bool:
            return noise.tail(threshold - rows * divisor, terms) >= chance

        high = 1
        while not is_reached(high):
            high *= 2
        return bisect_left(range(high), True, high // 2, key=is_reached)  # noqa: FBT003 looked for

    rarely, half, mostly = (smallest(Fraction(percent, 100)) for percent in (5, 50, 95))
    return Reach(rarely, half, mostly)


@dataclass(frozen=True)
class Forecast:
    """Forecast of one answer from public facts: its noise and its half-widths.

    `mechanism` says in words what makes it private; `scale`, in `scale_unit`, is that of discrete
    Laplace noise on the sums behind it, or the standard deviation of discrete Gaussian noise. For
    each of `rows`, the sizes of groups in rows as they count, `typical` half-widths in `unit` are
    distances from the answer without noise that hold with probability `level` for expected data:
    values in the middle of the bounds or spread evenly over them; None if unknown. `whole` is what
    100 % of one is: the rows, the width of the bounds. `answered` are sizes from which on there is
    an answer, where small groups get none; `remarks` are what else to know. `open_limits` are those
    of a unit that the release finds: units and sizes then name the limits that they hold for.
    `bounds_from` is the size from which on bounds are mostly found.
    """

    name: str
    mechanism: str
    question: str = ""
    scale: float | None = None
    scale_unit: str = ""
    unit: str = ""
    rows: tuple[int, ...] = SIZES
    typical: HalfWidths = UNTOLD
    answered: Reach | None = None
    remarks: tuple[str, ...] = ()
    percent_base: HalfWidths = UNTOLD
    open_limits: tuple[str, ...] = ()
    bounds_from: int = 0

    @property
    def is_known(self) -> bool:
        """True if a half-width is known beforehand."""
        return any(half is not None for half in self.typical)

    def with_sizes(self, sizes: tuple[int, ...], percent_base: HalfWidths) -> Forecast:
        """Return the forecast with the sizes that it was made for, and what 100 % is for each."""
        half_widths = (None,) * len(sizes) if self.typical is UNTOLD else self.typical
        return replace(self, rows=sizes, typical=half_widths, percent_base=percent_base)

    def with_open_limits(self, limits: tuple[str, ...]) -> Forecast:
        """Return the forecast as one for limits of 1, where the release finds these limits."""
        if not limits:
            return self
        condition, answered = name_condition(limits), self.answered
        return replace(
            self,
            scale_unit=f"{self.scale_unit} {condition}" if self.scale_unit else "",
            unit=f"{self.unit} {condition}" if self.unit else "",
            answered=answered and replace(answered, condition=condition),
            open_limits=limits,
        ).add_remarks(
            f"the release finds {' and '.join(limits)}: noise, half-widths and the rows that "
            "groups need grow with them, about in proportion; name limits to know these figures"
        )

    def add_remarks(self, *remarks: str) -> Forecast:
        """Return the forecast with further remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))


def name_condition(limits: tuple[str, ...]) -> str:
    """Return the condition that limits are 1.

    >>> name_condition(("max_rows", "max_groups"))
    'if max_rows=1 and max_groups=1'
    """
    return f"if {' and '.join(f'{limit}=1' for limit in limits)}"


def by_size(values: Iterable[float]) -> HalfWidths:
    """Return half-widths as plain floats, None for NaN."""
    return tuple(None if math.isnan(value) else float(value) for value in values)


@dataclass(frozen=True)
class Circumstances:
    """Public facts that a forecast depends on besides its mechanism.

    `declared` says what columns are declared to hold, as far as that is known; `sizes` are the
    groups that half-widths are for.
    """

    level: float
    unit: Unit | None
    declared: Declared = field(default_factory=dict)
    sizes: tuple[int, ...] = SIZES

    @property
    def each_size(self) -> npt.NDArray[np.float64]:
        """The sizes as numbers to compute with."""
        return np.array(self.sizes, dtype=np.float64)


class Part(ABC):
    """Some questions of a release, answered from one pass."""

    questions: Any
    """Its questions by their names."""

    sources: Any = ()
    """The sums that it is measured by, which an engine adds up with those of other parts."""
    query: Any = None
    """The bins that it is measured by, if an engine counts them with those of other parts."""
    reads_again: Any = False
    """True if an answer has to know something of the rows before they are measured again."""
    kind: Any = None
    """The declared type of its column, if it matters."""
    counts_units: Any = False
    """True if it counts units, whose limit is one row."""
    counts: Any = True
    """True if it can count groups."""
    answers_count: Any = False
    """True if one of its answers is the count that selects groups."""
    weight: Any = Fraction(1)
    """Its share of the loss, relative to other parts."""

    def in_one_pass(self) -> Part:
        """Return the part for rows that can't be read again, if there is one."""
        return self

    def with_kind(self, kind: Any) -> Part:  # noqa: ARG002 most parts read numbers
        """Return the part for a column of this kind."""
        return self

    @property
    @abstractmethod
    def columns(self) -> Mapping[Hashable, bool]:
        """The columns it reads, and whether as numbers."""

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """The answers to each question: their names, and whether each has an interval."""
        return {name: {name: True} for name in self.questions}

    @abstractmethod
    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that selects groups, its divisor and number of terms."""

    def least_count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the least that this noise can be."""
        return self.count_noise(loss)

    def draws(self) -> list[tuple[tuple[str, ...], Fraction]]:
        """Return the questions that each draw answers, and its part of the part's loss."""
        return [(tuple(self.questions), Fraction(1))]

    def within_limits(self, limits: PartLimits) -> Self:  # noqa: ARG002 some parts read none
        """Return the part for the limits of a unit."""
        return self

    @abstractmethod
    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:
        """Return the forecast of each answer; `loss` is that of one row."""


Bins = tuple[Octaves | SignificantBits, int]
"""A binning, and how many powers of the values each bin adds up."""


@dataclass(frozen=True)
class ColumnPart(Part):
    """One question about the values of one column, answered from a table of bins.

    Values are rounded to `whole_bits` significant bits, a public grid: to one part in 2**17.
    """

    name: str
    question: Any
    grouped: bool

    whole_bits: ClassVar[int] = 17

    @property
    def questions(self) -> Mapping[str, Any]:
        """All questions by their names."""
        return {self.name: self.question}

    @property
    def columns(self) -> Mapping[Hashable, bool]:
        """The column that the question is about."""
        return {self.question.column: True}

    @property
    def names(self) -> Mapping[str, Mapping[str, bool]]:
        """The answers of each question."""
        return {
            name: dict.fromkeys(question.titles(name), question.tells_interval)
            for name, question in self.questions.items()
        }

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that a part of the loss pays for."""
        return loss.share(COUNT_SHARE).noise(1, 1), 1, 1

    def binning(self) -> Octaves | SignificantBits:
        """Return how its table counts a column."""
        return SignificantBits(self.whole_bits)

    def candidates(self) -> int:
        """Return from how many values it selects."""
        return 2 * self.binning().last + 1

    @property
    def tables(self) -> tuple[Bins, ...]:
        """How its table can count."""
        return ((self.binning(), 0),)

    def measure(self, adopted: Adopted) -> MeasuredTable:
        """Run the pass that counts each group's rows by bin."""
        (table,) = count_bins(adopted, [HistogramQuery(self.question.column, self.binning())])
        return self.read_measurement(table)

    def read_measurement(self, table: BinTable) -> MeasuredTable:
        """Return the measurement that this table is."""
        return MeasuredTable(self, table)

    @abstractmethod
    def draw_answer(self, measured: MeasuredTable, loss: Epsilon | Rho) -> Answered:
        """Draw the noise that pays for the loss of one row, and answer."""


@dataclass(frozen=True, repr=False)
class MeasuredTable(Measured):
    """A table of bins by group, or the values that it counts. Secret."""

    part: Any
    values: BinTable | ValueWords

    @cached_property
    def table(self) -> BinTable:
        """The rows of each group and bin."""
        return build_value_table(self.values)

    @property
    def keys(self) -> pa.Table:
        """The keys of the groups, sorted, or as listed."""
        return self.values.keys

    def of_groups(self, keys: pa.Table) -> Self:
        """Return the counts of exactly the groups with these keys."""
        return replace(self, values=rows_of_groups(self.values, keys))

    def answer(
        self,
        loss: Epsilon | Rho,
        rule: KeyRule | None,  # noqa: ARG002 one interface
    ) -> Answered:
        """Answer as the part does: each group by itself, whichever others are shown."""
        answered: Answered = self.part.draw_answer(self, loss)
        return answered


COUNT_SHARE = Fraction(1, 6)  # fraction of the loss that counts the rows of each group


def noisy_rows(table: BinTable | ValueWords, loss: Epsilon | Rho) -> Counted:
    """Return the noisy number of rows of each group: sensitivity 1."""
    noise = loss.noise(1, 1)
    vector = NoisyVector(add_to(table.totals()[None, :], noise), noise)
    piece = CountPiece(np.arange(table.groups), vector, CountWeights((0,), 1))
    return Counted(table.groups, (piece,))


def blank_small_groups(values: Column, counted: Counted, threshold: int) -> Column:
    """Return values, not a number where a group's noisy count is below `threshold`."""
    return np.where(counted.column() < threshold, np.nan, values)


NO_INTERVAL = "the answer is selected and has no interval"


def rows_reach(loss: Epsilon | Rho, threshold: int) -> Reach:
    """Return the sizes whose noisy count, a sixth of the loss, reaches what an answer needs."""
    return reaching(threshold, loss.share(COUNT_SHARE).noise(1, 1))
