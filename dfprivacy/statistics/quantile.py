"""Answer quantiles: count values in one table, then select privately by rank.

Errors are known in ranks, not in values (`RankLaw.rank_error`). Minimum and maximum are aimed so
far inwards that the answer is among the rows, whatever they are (`RankLaw.inwards`).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.columns import MOMENTS
from dfprivacy.engine.histograms import HistogramQuery, read_values
from dfprivacy.errors import InvalidBoundsError, InvalidQuestionError
from dfprivacy.measurement.bin_table import BinTable, Magnitudes, Steps, regrid, steps_within
from dfprivacy.measurement.binning import Floats, Integers, SignificantBits
from dfprivacy.measurement.bounds import Bounds, BoundsLike, read_bounds
from dfprivacy.measurement.exact import quantile_fraction
from dfprivacy.measurement.grid import (
    CLOCK,
    DURATION,
    TIME,
    Clock,
    Moment,
    find_clock,
    find_clock_kind,
    plain_type,
)
from dfprivacy.measurement.value_words import NearCounts, ValueWords
from dfprivacy.noise.additive import NoisyVector
from dfprivacy.noise.laws import Noise
from dfprivacy.noise.selection import PermuteAndFlip, Selection
from dfprivacy.release.answers import TOO_FEW, Answer, Answered, Chosen, Dated, Estimated, Piece
from dfprivacy.release.plan import PartLimits
from dfprivacy.statistics.base import Argument, Statistic, argument
from dfprivacy.statistics.estimators.quantile import (
    EndsLaw,
    QuantileEstimator,
    RankEnds,
    RankLaw,
    find_magnitudes,
    rounds,
    select_ends,
    select_quantiles,
)
from dfprivacy.statistics.part import (
    COUNT_SHARE,
    NO_INTERVAL,
    Circumstances,
    ColumnPart,
    Forecast,
    HalfWidths,
    MeasuredTable,
    Reach,
    blank_small_groups,
    by_size,
    noisy_rows,
    rows_reach,
)

VALUE_SHARE = Fraction(1, 3)
"""Fraction of the loss that selects answers with an interval, and again their ends.

A sixth each counts rows before and after.
"""

TOGETHER = Fraction(1, 20)
"""Fraction of the loss that finds the magnitudes of the values of all groups.

The rest is shared as if it were all. Multiples of a step need no magnitudes.
"""

NOTED = 0.05
"""An answer has a note if its rank may be off by more than this part of the rows.

So has one whose rank may be off by half of the rows beyond it.
"""


CANDIDATES_DOC = (
    "Answers lie between these bounds, (lower, upper): what you know about the subject, never what "
    "the data say. Anywhere when left out."
)
STEP_DOC = (
    "Answers are multiples of this, in units of the column, e.g. 1 for whole minutes; with bounds. "
    "A fine power of two when left out. Of dates and times it is a timedelta."
)
ENDS_DOC = (
    "Find an interval as well, which most of the loss then pays for: the answer itself is selected "
    "with a third of the loss instead of five sixths."
)


Kind = tuple[str, str | None]
"""Type of a column, integers, dates, times or durations, and its time zone."""
WHOLE: Kind = ("whole numbers", None)

Choices = Steps | Magnitudes  # candidates that answers are selected from

Candidates = BoundsLike | tuple[Moment, Moment]
"""Bounds of numbers, or a pair of dates, times or durations."""


class Ranked(Statistic):
    """Base of the statistics that are selected by rank."""

    bounds: Candidates | None
    step: float | dt.timedelta | None
    fractions: Any
    """The quantiles, exactly."""

    def _check_argument(self, argument: Argument, value: Any) -> Any:
        """Check an argument by its form; dates and times bound columns of their kind."""
        if argument.form == "bounds" and isinstance(value, tuple | list):
            value = tuple(map(_of_python, value))
        if argument.form == "bounds" and _are_moments(value):
            return tuple(value)
        if (
            argument.form == "bounds"
            and isinstance(value, tuple | list)
            and str in map(type, value)
        ):
            raise InvalidBoundsError(
                "bounds are numbers, dates or times, and these are text",
                hint="pass numbers, or bounds=(date(2013, 1, 1), date(2014, 1, 1))",
            )
        if argument.name == "step" and isinstance(_of_python(value), dt.timedelta):
            return _of_python(value)
        return super()._check_argument(argument, value)

    @property
    def of_moments(self) -> bool:
        """True if bounds or step are datetimes or durations."""
        return _are_moments(self.bounds) or isinstance(self.step, dt.timedelta)

    @property
    def value_bounds(self) -> Bounds | None:
        """The bounds of numbers, if there are some."""
        return None if self.of_moments else read_bounds(self.bounds)

    @property
    def steps(self) -> Steps | None:
        """The evenly spaced candidates: with a step, or where bounds are narrow and far from 0.

        Otherwise candidates follow the magnitudes of the values.
        """
        bounds = self.value_bounds
        if bounds is None:
            return None
        is_narrow = bounds.width <= min(abs(bounds.lower), abs(bounds.upper)) and (
            bounds.lower > 0 or bounds.upper < 0
        )
        return steps_within(bounds, self.step) if is_narrow or self.step is not None else None

    @property
    def has_note(self) -> bool:
        """True: a note tells the error of small groups, in ranks."""
        return True

    def clock(self, kind: str, zone: str | None = None) -> Clock:
        """Return the numbers that dates, times or durations are ranked as."""
        moments = isinstance(self.bounds, tuple) or self.bounds is None
        if not moments or not isinstance(self.step, dt.timedelta | None):
            raise InvalidBoundsError(
                f"a {kind} column has bounds of its own kind, and a step that is a timedelta",
                hint="pass bounds=(date(2013, 1, 1), date(2014, 1, 1)), step=timedelta(days=1)",
            )
        bounds: Any = self.bounds
        return find_clock(kind, bounds, self.step, zone)

    answers_in_kind: ClassVar[bool] = True  # dates and times have ranks

    @property
    def tells_interval(self) -> bool:
        """True if an interval is requested."""
        return bool(getattr(self, "ends", False))

    def with_ends(self, *, interval: bool) -> Self:
        """Return the same question with an interval, or without."""
        return replace(self, ends=interval) if hasattr(self, "ends") else self  # type: ignore[type-var]

    def check(self) -> None:
        """Check that bounds and step go together."""
        if self.bounds is None and self.step is not None and not self.of_moments:
            raise InvalidQuestionError(
                "a step needs bounds to lie between", hint="pass bounds=(0, 100) as well"
            )
        _ = self.value_bounds, self.steps
        if isinstance(self.bounds, tuple):
            first = self.bounds[0]
            self.clock(next(of_kind for kind, of_kind in _KINDS if isinstance(first, kind)))

    def least_rows(self, law: RankLaw, q: Fraction) -> int:
        """Return the smallest noisy count for which an answer is shown."""
        return law.least_rows(q)

    def rank_error(self, law: RankLaw, q: Fraction, rows: Integers) -> Floats:
        """Return by how many ranks an answer is ordinarily off."""
        return law.rank_error(q, rows)

    def describe_ranks(self, law: RankLaw, q: Fraction, rows: Integers) -> list[str | None]:
        """Return a note for each group whose answer may be many ranks off."""
        ranks, noted = self.rank_error(law, q, rows), min(NOTED, float(min(q, 1 - q)) / 2)
        return [
            f"rank within about {off:,.0f} of {count:,} rows" if off > noted * count else None
            for off, count in zip(ranks, rows, strict=True)
        ]

    def remarks(self, law: RankLaw) -> tuple[str, ...]:  # noqa: ARG002 one interface
        """Return remarks of a forecast."""
        return ()

    def part(self, name: str, *, grouped: bool) -> Any:
        """Return the mechanism: selection by rank."""
        return QuantilePart(name, self, grouped)


_KINDS = (
    (dt.datetime, TIME),
    (dt.date, TIME),
    (dt.time, CLOCK),
    (dt.timedelta, DURATION),
)
"""The kinds of columns that bounds are of; a date bounds dates too."""


def read_end(text: str) -> float | Moment:
    """Return a bound that is written out: a number, a date or a time.

    >>> read_end("-60"), read_end("2024-01-31")
    (-60.0, datetime.date(2024, 1, 31))
    """
    reads: Sequence[Callable[[str], float | Moment]]
    reads = (float, dt.date.fromisoformat, dt.datetime.fromisoformat)
    for read in reads:
        with suppress(ValueError):
            return read(text)
    with suppress(ValueError):
        return dt.time.fromisoformat(text)
    raise ValueError("this is neither a number nor a date or time such as 2024-01-31")


def _of_python(value: object) -> object:
    """Return a date, time or duration of numpy's as one of Python's; anything else as it is."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        plain: object = value.item()
        kind = "M8[us]" if isinstance(value, np.datetime64) else "m8[us]"
        return value.astype(kind).item() if isinstance(plain, int) else plain
    return value


def _are_moments(value: object) -> bool:
    """Check for a pair of dates, times or durations."""
    pair = isinstance(value, tuple | list) and len(value) == 2
    return pair and all(isinstance(end, Moment) for end in value)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Median(Ranked):
    """The median of a column: its quantile 1/2 (see `quantile`)."""

    kind: ClassVar[str] = "median"
    sql_names: ClassVar[tuple[str, ...]] = ("median",)
    has_interval: ClassVar[bool] = True
    title: ClassVar[str] = "the median"
    example: ClassVar[str] = 'df.dp.median("x", epsilon=1)'

    column: Hashable = argument("The column of numbers, dates or times.")
    bounds: Candidates | None = argument(CANDIDATES_DOC, None)
    step: float | dt.timedelta | None = argument(STEP_DOC, None, sample=1)
    ends: bool = argument(ENDS_DOC, False)  # noqa: FBT003 a default

    q: ClassVar[float] = 0.5
    fractions = (Fraction(1, 2),)


@dataclass(frozen=True)
class Quantile(Ranked):
    """A quantile of a column: the least value that a part `q` of the rows do not exceed.

    It is selected from the numbers of 17 significant bits; no bounds are needed, and the number of
    rows that its rank is of is noisy. A twentieth of the loss tells which sizes the values of all
    groups have; an answer 256 times as large or as small as these is NaN. With `bounds` it lies
    between them, with a `step` as well it is a multiple of it. It is a whole number where the
    column is declared to hold those.

    A `note` says by how many ranks an answer is off, if that is more than a twentieth of the rows
    or half of those beyond it. An answer is NaN where its rank would be unknown: `explain` names
    how many rows it takes. Quantiles of one column in one release never cross.

    With `ends` it has an interval, which holds the quantile of these rows whatever they are; an end
    is infinite (a bound, where bounds are given) where few rows lie beyond it or a noisy count does
    not confirm it.
    Source: Smith 2011, with intervals of ranks (docs/explanation/quantiles.md).
    """

    kind: ClassVar[str] = "quantile"
    aliases: ClassVar[tuple[str, ...]] = ("percentile",)
    sql_names: ClassVar[tuple[str, ...]] = (
        "quantile",
        "quantile_cont",
        "quantile_disc",
        "approx_quantile",
    )
    has_interval: ClassVar[bool] = True
    title: ClassVar[str] = "a quantile"
    example: ClassVar[str] = 'df.dp.quantile("x", 0.9, epsilon=1)'

    column: Hashable = argument("The column of numbers, dates or times.")
    q: float = argument(
        "The level, from 0 to 1. One value in ten exceeds the quantile 0.9.", sample=0.9
    )
    bounds: Candidates | None = argument(CANDIDATES_DOC, None)
    step: float | dt.timedelta | None = argument(STEP_DOC, None, sample=1)
    ends: bool = argument(ENDS_DOC, False)  # noqa: FBT003 a default

    def __post_init__(self) -> None:
        quantile_fraction(self.q)
        super().__post_init__()

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """The one quantile, exactly."""
        return (quantile_fraction(self.q),)


@dataclass(frozen=True)
class Quantiles(Ranked):
    """Several quantiles of a column under one loss, in the order asked.

    The middle one is selected first, then those among the rows below and above it: k quantiles cost
    log2(k) shares of the loss, and none crosses another (docs/explanation/quantiles.md).
    """

    kind: ClassVar[str] = "quantiles"
    answers_one: ClassVar[bool] = False
    title: ClassVar[str] = "several quantiles"
    example: ClassVar[str] = 'df.dp.quantiles("x", [0.25, 0.5, 0.75], epsilon=1)'

    column: Hashable = argument("The column of numbers, dates or times.")
    qs: Sequence[float] = argument("Quantiles, from 0 to 1.", sample=(0.25, 0.5, 0.75))
    bounds: Candidates | None = argument(CANDIDATES_DOC, None)
    step: float | dt.timedelta | None = argument(STEP_DOC, None, sample=1)

    def __post_init__(self) -> None:
        if isinstance(self.qs, np.ndarray) and self.qs.ndim == 1:
            object.__setattr__(self, "qs", self.qs.tolist())
        if isinstance(self.qs, str) or not isinstance(self.qs, Sequence) or not len(self.qs):
            raise InvalidQuestionError(
                "quantiles come as a list of at least one number from 0 to 1",
                hint="pass e.g. [0.25, 0.5, 0.75]",
            )
        object.__setattr__(self, "qs", tuple(self.qs))
        super().__post_init__()
        if len(set(self.fractions)) < len(self.qs):
            raise InvalidQuestionError(
                "a quantile is asked for twice", hint="list each number once"
            )

    @property
    def fractions(self) -> tuple[Fraction, ...]:
        """The quantiles, exactly."""
        return tuple(quantile_fraction(q) for q in self.qs)

    def titles(self, name: str) -> tuple[str, ...]:
        """Return a title for each quantile."""
        return tuple(f"{name}_{q}" for q in self.qs)

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Their places in the list."""
        return tuple(f"_{index}" for index in range(len(self.qs)))

    def gather(self, numbers: Sequence[Any]) -> list[Any]:
        """Return a list."""
        return list(numbers)


@dataclass(frozen=True)
class QuantilePart(ColumnPart):
    """Questions about quantiles of one column: `question`, and others `also`.

    All distinct levels are one list, selected in rounds. Of dates and times,
    `clock` has their numbers and `declared` their type. A unit is in at most so many `groups`.
    """

    question: Ranked
    also: tuple[tuple[str, Ranked], ...] = ()
    integers: bool = False
    clock: Clock | None = None
    declared: pa.DataType | None = None
    groups: int = 1

    def within_limits(self, limits: PartLimits) -> Self:
        """Return the part for the limits of a unit."""
        return replace(self, groups=limits.contribution.groups)

    def measure(self, adopted: Adopted) -> MeasuredTable:
        """Run the pass, once it is known from what is declared which numbers are ranked."""
        column = self.question.column
        part = self.of_kind(adopted.moments(column))
        if part.clock is not None:
            adopted = adopted.number_times(column, part.clock)
        part = replace(part, integers=adopted.holds_integers(column))
        limit = part.clock.maximum if part.clock is not None and part.clock.is_even else None
        query = HistogramQuery(column, part.binning(), limit=limit)
        return MeasuredTable(part, read_values(adopted, query))

    def of_kind(self, declared: pa.DataType | None) -> QuantilePart:
        """Return the part for a column that is declared to hold dates or times, or numbers."""
        kind, zone = (
            None if declared is None else find_clock_kind(declared),
            getattr(declared, "tz", None),
        )
        clock = self._find_clock(kind, zone)
        ends = self.question.bounds if isinstance(self.question.bounds, tuple) else ()
        if kind == TIME and zone is None and any(getattr(end, "tzinfo", None) for end in ends):
            raise InvalidBoundsError(
                f"column {self.question.column!r} has no time zone, and its bounds have one",
                hint="leave tzinfo out of the bounds, or give the column a zone",
            )
        integers = self.integers or clock is not None
        return replace(self, declared=declared, clock=clock, integers=integers)

    @property
    def kind(self) -> Kind | None:
        """The type of its column; None for numbers that can be fractions."""
        if self.declared is None:
            return WHOLE if self.integers else None
        return str(find_clock_kind(self.declared)), getattr(self.declared, "tz", None)

    def with_kind(self, kind: Kind | None) -> QuantilePart:
        """Return the part for a column of this kind."""
        if kind is None or kind == WHOLE:
            return replace(self.of_kind(None), integers=kind == WHOLE)
        return self.of_kind(plain_type(*kind))

    def _find_clock(self, kind: str | None, zone: str | None = None) -> Clock | None:
        """Return the clock of a kind of column; None for numbers, which have no bounds of dates."""
        if kind is None and self.question.of_moments:
            raise InvalidBoundsError(
                f"column {self.question.column!r} holds no dates or times",
                hint="pass bounds and step as numbers, e.g. bounds=(0, 100)",
            )
        return None if kind is None else self.question.clock(kind, zone)

    @property
    def steps(self) -> Steps | None:
        """The multiples that can be answers, where those are not all of a wide grid."""
        if self.clock is None:
            return self.question.steps
        return Steps(Fraction(1), 0, self.clock.maximum) if self.clock.is_even else None

    @property
    def answer_share(self) -> Fraction:
        """The share of the loss that is left where all groups together tell sizes first."""
        return 1 - TOGETHER if self.steps is None else Fraction(1)

    def count_noise(self, loss: Epsilon | Rho) -> tuple[Noise, int, int]:
        """Return the noise of the count that a part of what is left pays for."""
        return super().count_noise(loss.share(self.answer_share))

    @property
    def questions(self) -> Mapping[str, Ranked]:
        """All questions by their names."""
        return {self.name: self.question, **dict(self.also)}

    @property
    def answer_key(self) -> Hashable:
        """Key of the questions that are answered together."""
        question = self.question
        return (question.column, question.bounds, question.step, question.tells_interval)

    def binning(self) -> SignificantBits:
        """Return how its table counts a column: as finely as the steps, where there are some."""
        steps = self.steps
        if steps is not None:
            return SignificantBits(steps.bits if self.clock is None else self.clock.bits)
        return SignificantBits(self.whole_bits)

    def candidates(self) -> int:
        """Return from how many values it selects."""
        steps = self.steps
        if steps is not None:
            return steps.maximum - steps.first + 1
        return super().candidates()

    @property
    def weight(self) -> Fraction:
        """One for each question."""
        return Fraction(len(self.questions))

    @property
    def levels(self) -> tuple[Fraction, ...]:
        """The levels of all questions, in their order."""
        return tuple(q for question in self.questions.values() for q in question.fractions)

    def law(self, loss: Epsilon | Rho, candidates: int, *, knows_sizes: bool = False) -> RankLaw:
        """Return how levels are selected; `loss` is that of one row.

        Few candidates are far from all rows where sizes are known, or where bounds are narrow.
        """
        fraction = VALUE_SHARE if self.question.tells_interval else 1 - COUNT_SHARE
        is_narrow = self.steps is not None and self.question.bounds is not None
        is_near, levels = knows_sizes or is_narrow, len(set(self.levels))
        return _law(loss.share(self.answer_share), candidates, levels, fraction, is_near=is_near)

    def ends_law(self, loss: Epsilon | Rho) -> EndsLaw:
        """Return how the ends of intervals are selected and counted."""
        loss, levels = loss.share(self.answer_share), len(set(self.levels))
        fraction = (1 - VALUE_SHARE - 2 * COUNT_SHARE) / rounds(2 * levels)
        return EndsLaw(loss.share(fraction), loss.share(COUNT_SHARE).noise(1, 1), levels)

    def forecasts(self, loss: Epsilon | Rho, circumstances: Circumstances) -> list[Forecast]:
        """Return the forecast of each quantile, in ranks; `loss` is that of one row."""
        kind = circumstances.declared.get(self.question.column)
        clock = None if kind is None else self._find_clock(kind if kind in MOMENTS else None)
        part = replace(self, clock=clock)
        law = part.law(loss, part.candidates())
        forecasts = []
        for name, question in self.questions.items():
            for title, q in zip(self.names[name], question.fractions, strict=True):
                threshold = question.least_rows(law, q)
                answered = rows_reach(loss.share(part.answer_share), threshold)
                ranks = question.rank_error(law, q, circumstances.each_size.astype(np.int64))
                half_widths = rank_half_widths(ranks, answered, circumstances)
                about = part.describe_ends(loss, q) if question.tells_interval else NO_INTERVAL
                remark = f"not a number where the noisy count of rows is below {threshold:,}"
                forecast = Forecast(
                    title,
                    f"{name_selection(law.selection)} of a bin by its ranks",
                    unit=RANKS,
                    typical=half_widths,
                    rows=circumstances.sizes,
                    answered=answered,
                    remarks=(about, *question.remarks(law), remark),
                )
                forecasts.append(forecast.add_remarks(*_levels_near(forecast, float(q))))
        return forecasts

    def describe_ends(self, loss: Epsilon | Rho, q: Fraction) -> str:
        """Describe the distance in rank of the ends of an interval, and where it is open."""
        law, index = self.ends_law(loss), sorted(set(self.levels)).index(q)
        down, up = (law.aim_distance(q, index, side) for side in (-1, 1))
        return (
            f"the ends of its interval are {down:,} ranks below and {up:,} above it, "
            f"open within {law.reach:,} rows of either end"
        )

    def draw_answer(self, measured: MeasuredTable, loss: Epsilon | Rho) -> Answered:
        """Count, select every quantile, and the ends of its interval, and count again."""
        values = measured.values
        counted = noisy_rows(values, loss.share(self.answer_share * COUNT_SHARE))
        rows, grid = counted.column(), self._grid(values, loss)
        knows_sizes = isinstance(grid, Magnitudes) and grid.starts is not None
        law = self.law(loss, grid.maximum - grid.first + 1, knows_sizes=knows_sizes)
        ends = None
        if isinstance(values, ValueWords) and values.has_large_groups:
            counts: BinTable | NearCounts = NearCounts(values, grid)
        else:
            counts = regrid(measured.table, grid)
        numbers = select_quantiles(counts, self.levels, rows, law)
        if self.question.tells_interval:
            levels = sorted(set(self.levels))
            ends = select_ends(counts, levels, rows, self.ends_law(loss))
        answers_in_order = iter(self._round_integers(grid.values(numbers)))

        def answer(title: str, question: Ranked, q: Fraction) -> Answer:
            shown = blank_small_groups(next(answers_in_order), counted, question.least_rows(law, q))
            texts = zip(question.describe_ranks(law, q, rows), np.isnan(shown), strict=True)
            notes = [TOO_FEW if is_blank else text for text, is_blank in texts]
            chosen = Chosen(title, shown, notes)
            quantile = self._between(chosen, q, grid, ends) if ends else chosen
            return quantile if self.clock is None else Dated(quantile, self.clock, self.declared)

        answers = {
            name: tuple(
                answer(title, question, q)
                for title, q in zip(self.names[name], question.fractions, strict=True)
            )
            for name, question in self.questions.items()
        }
        return Answered(measured.keys, answers, counted)

    def _grid(self, table: BinTable | ValueWords, loss: Epsilon | Rho) -> Choices:
        """Return the candidates: steps, or the magnitudes that all groups together show."""
        if self.steps is not None:
            return self.steps
        assert isinstance(table.binning, SignificantBits)  # noqa: S101 the part has chosen it
        noise = loss.pool(self.groups).share(TOGETHER).noise(1, 1)
        bounds = self.question.value_bounds
        return find_magnitudes(table, noise, integers=self.integers, bounds=bounds)

    def _between(
        self,
        chosen: Chosen,
        q: Fraction,
        grid: Choices,
        ends_and_noise: tuple[Sequence[RankEnds], NoisyVector],
    ) -> Estimated:
        """Return the chosen answer with its interval, whose ends are values."""
        levels, vector = ends_and_noise
        ends = levels[sorted(set(self.levels)).index(q)]
        open_ends, bounds = (-math.inf, math.inf), self.question.value_bounds
        if isinstance(grid, Steps) and self.question.bounds is not None:
            low, high = grid.values(np.array([grid.first, grid.maximum]))
            open_ends = low, high
        elif bounds is not None:
            open_ends = bounds.lower, bounds.upper
        low, high = _find_interval_ends(ends, grid, integers=self.integers)
        estimator = QuantileEstimator(q, chosen.values, low, high, ends, open_ends)
        groups = len(chosen.values)
        piece = Piece(np.arange(groups), estimator, vector, chosen.notes)
        return Estimated(chosen.name, groups, (piece,), has_notes=True)

    def _round_integers(self, values: Floats) -> Floats:
        """Return whole numbers for a column of integers: they are as near in rank, or nearer."""
        if not self.integers or self.steps is not None:
            return values
        levels = np.array(self.levels, dtype=np.float64)[:, None]
        outwards = np.where(levels == 1, np.ceil(values), np.rint(values))
        return np.where(levels == 0, np.floor(values), outwards) + 0.0


@lru_cache(maxsize=64)
def _law(
    loss: Epsilon | Rho, candidates: int, levels: int, fraction: Fraction, *, is_near: bool
) -> RankLaw:
    """Return the law of levels that are selected with a fraction of the loss, made once."""
    noise = loss.share(COUNT_SHARE).noise(1, 1)
    return RankLaw(loss.share(fraction / rounds(levels)), noise, candidates, levels, is_near)


def _find_interval_ends(ends: RankEnds, grid: Choices, *, integers: bool) -> tuple[Floats, Floats]:
    """Return the ends of an interval as values, half a bin outwards, or whole steps."""
    if isinstance(grid, Steps):
        return grid.values(ends.low), grid.values(ends.high)
    (below, _), (_, above), bins = grid.find_bins(ends.low), grid.find_bins(ends.high), grid.bins
    low, high = (
        (bins.values(numbers) + bins.values(np.clip(numbers + side, -bins.last, bins.last))) / 2
        for numbers, side in ((below, -1), (above, 1))
    )
    if grid.bounds is not None:
        limits = grid.bounds.lower, grid.bounds.upper
        low, high = np.clip(low, *limits), np.clip(high, *limits)
    return (np.ceil(low) + 0.0, np.floor(high) + 0.0) if integers else (low, high)


RANKS = "ranks of rows"


def _levels_near(forecast: Forecast, q: float) -> list[str]:
    """Describe the rank error as a range of quantile levels."""
    for size, ranks in zip(forecast.rows, forecast.typical, strict=True):
        if ranks is not None and ranks < size / 4:
            low, high = max(q - ranks / size, 0), min(q + ranks / size, 1)
            return [f"in {size:,} rows, the half-width spans the quantiles {low:.3g} to {high:.3g}"]
    return []


def name_selection(law: Selection) -> str:
    """Return the name of a selection."""
    return "permute-and-flip" if isinstance(law, PermuteAndFlip) else "the exponential mechanism"


def rank_half_widths(ranks: Floats, answered: Reach, circumstances: Circumstances) -> HalfWidths:
    """Return errors in ranks for the sizes that mostly get an answer, at most the size."""
    rows = circumstances.each_size
    return by_size(np.where(answered.half <= rows, np.minimum(ranks, rows), np.nan))


@dataclass(frozen=True)
class _Extreme(Ranked):
    """A value near one end of a column."""

    bounds: ClassVar[None] = None  # type: ignore[misc]
    step: ClassVar[None] = None  # type: ignore[misc]
    side: ClassVar[str]
    """Where the rows are that the answer leaves out."""

    column: Hashable = argument("The column of numbers, dates or times.")

    def rank_error(self, law: RankLaw, q: Fraction, rows: Integers) -> Floats:  # noqa: ARG002
        """Return by how many ranks an answer is off the one that it is aimed at."""
        return np.full(len(rows), float(law.ordinary))

    def describe_ranks(self, law: RankLaw, q: Fraction, rows: Integers) -> list[str | None]:  # noqa: ARG002 one interface
        """Return a note on the rows beyond the answer of each group."""
        return [f"about {law.inwards:,} rows lie {self.side}"] * len(rows)

    def least_rows(self, law: RankLaw, q: Fraction) -> int:  # noqa: ARG002 one interface
        """Return how many rows a group needs whose answer is nearer to its own end."""
        return 2 * law.inwards

    def remarks(self, law: RankLaw) -> tuple[str, ...]:
        """Return remarks on the rows between the answer and the end."""
        return (
            f"about {law.inwards:,} rows lie beyond the answer: it is never the extreme row itself",
        )


@dataclass(frozen=True)
class Min(_Extreme):
    """A value that about 38 / epsilon rows are below; the true minimum is never released.

    The quantile 0 (see `quantile`), aimed so far inwards that the answer is below all rows with
    probability 1 / 200 at most, whatever they are. `explain` names the number. A whole number where
    the column is declared to hold those; not a number where there are fewer than twice as many
    rows. A sixth of the loss counts rows.
    """

    kind: ClassVar[str] = "min"
    aliases: ClassVar[tuple[str, ...]] = ("minimum",)
    sql_names: ClassVar[tuple[str, ...]] = ("min",)
    title: ClassVar[str] = "a value that few rows lie below"
    example: ClassVar[str] = 'df.dp.min("x", epsilon=1)'
    side = "below"
    fractions = (Fraction(0),)


@dataclass(frozen=True)
class Max(_Extreme):
    """A value that about 38 / epsilon rows are above; the true maximum is never released.

    As `min`, from the other end.
    """

    kind: ClassVar[str] = "max"
    aliases: ClassVar[tuple[str, ...]] = ("maximum",)
    sql_names: ClassVar[tuple[str, ...]] = ("max",)
    title: ClassVar[str] = "a value that few rows lie above"
    example: ClassVar[str] = 'df.dp.max("x", epsilon=1)'
    side = "above"
    fractions = (Fraction(1),)
