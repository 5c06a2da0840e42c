"""Release tables of two group columns, cells and totals at once, shaped as analysts read them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.accounting.loss import Epsilon
from dfprivacy.engine.objects import is_missing, mark_value
from dfprivacy.engine.returning import build_frame, list_values
from dfprivacy.errors import InvalidQuestionError, InvalidUnitError
from dfprivacy.frames.releasing import (
    By,
    FrameSource,
    log_notes,
    plan_answers,
    plan_question,
    release_frame,
    release_plan,
)
from dfprivacy.frames.tables import (
    ADDED_UP,
    Grid,
    Origin,
    Wide,
    find_origin,
    floats_in,
    with_origin,
    write_key,
)
from dfprivacy.frames.viz.text import unique_texts
from dfprivacy.measurement.bounds import BoundsLike, read_bounds
from dfprivacy.release.plan import Plan, name_columns
from dfprivacy.release.terms import PublicKeys, Terms
from dfprivacy.statistics import STATISTICS, Count, LinearStatistic, Statistic
from dfprivacy.statistics.base import Question, argument
from dfprivacy.statistics.margins import MarginsPart

ALL = "All"  # the label of the row and the column of totals, as in pandas
OTHER = "(other)"  # the label of totals less the cells that are shown

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Crosstab(Question):
    """Return a table: one row a value of `index`, one column a value of `columns`.

    Without `values` it counts rows. With a column, `aggregate` says what is asked about it (a sum
    within `bounds` unless you name e.g. "mean"); `values` may be a question as well, as in
    `dfp.quantile("delay", 0.9)`. Cells and totals are of one release.

    With `margins`, "All" has the totals of rows, of columns and of all, which are those of the
    cells: cells and totals that are measured apart are made to agree by weighted least squares, and
    where sums of noisy cells are the quieter totals they are the totals. The choice depends on the
    numbers of public keys alone; `explain` tells it.

    With `keys` exactly these cells come out. Without, values are secret: a cell comes out if its
    noisy count shows, up to `delta`, that no single row has made it. The others are missing, and
    part of the totals: with `margins` a row and a column "(other)" of counts and sums have the
    totals less the cells that are shown, so that the table adds up.

    `rounded="integer"` and `nonnegative=True` are a choice of the reader: cells of counts and sums
    become whole numbers, or none below 0, and totals the sums of these. The unbiased cells with the
    intervals of cells and totals are `dfp.released(table).long()`.

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"origin": ["JFK", "LGA"] * 500, "carrier": ["AA", "UA"] * 500})
    >>> listed = {"origin": ["JFK", "LGA"], "carrier": ["AA", "UA"]}
    >>> flights.dp.crosstab("origin", "carrier", keys=listed, margins=True).columns
    ['origin', 'AA', 'UA', 'All']
    """

    kind: ClassVar[str] = "crosstab"
    asked_of: ClassVar[tuple[str, ...]] = ("frame",)

    index: Hashable = argument("The column whose values label rows.")
    columns: Hashable = argument("The column whose values label columns.")
    values: Any = argument(
        "The column to aggregate. Rows are counted without it.", None, form="Any"
    )
    aggregate: str | None = argument(
        "sum, mean, median or the like. The sum when left out.", None, form="str | None"
    )
    bounds: BoundsLike | None = argument(
        "Values are clipped to these bounds, (lower, upper).", None
    )
    keys: Any = argument(
        "A mapping of both columns to public values, or a list of pairs.", None, form="Any"
    )
    margins: bool = argument("Add totals of rows and columns, and a grand total.", False)  # noqa: FBT003 a default
    rounded: str | None = argument(
        '"integer" for whole numbers that add up.', None, form="str | None"
    )
    nonnegative: bool = argument("Show no number below 0.", False)  # noqa: FBT003 a default

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.index == self.columns:
            raise InvalidQuestionError(
                "the rows and the columns of a table are those of two different columns",
                hint='name two, e.g. crosstab("origin", "carrier")',
            )
        kind = self.question.kind
        if len(self.question.suffixes) > 1:
            raise InvalidQuestionError(
                f"{kind} has several answers, and a cell of a table holds one",
                hint=f'ask by group: group_by("origin", "carrier").{kind}(...)',
            )
        check_shape(self.rounded, nonnegative=self.nonnegative, adds_up=kind in ADDED_UP)

    @cached_property
    def question(self) -> Statistic:
        """The question about each cell."""
        values = self.values
        return (
            values
            if isinstance(values, Statistic)
            else _question(values, self.aggregate, self.bounds)
        )

    def complete(self, bounds: Mapping[Hashable, object]) -> Self:
        """Return the table with the bounds that the terms of a frame know of its values."""
        question = self.question.complete(bounds)
        return replace(self, values=question, aggregate=None, bounds=None)

    @property
    def by(self) -> tuple[Hashable, Hashable]:
        """The two group columns."""
        return self.index, self.columns

    def plan(self, terms: Terms, keys: PublicKeys | None, name: str | None = None) -> CrosstabPlan:
        """Return the plan of the cells, one row each; `name` is that of the answer."""
        question: Any = self.question
        question.check()
        if self.margins:
            if question.finds_bounds:
                question.require_bounds()
            if not isinstance(question, LinearStatistic) or not question.adds_up:
                raise InvalidQuestionError(
                    f"totals can't be read off the cells of a table of {question.kind}",
                    hint=f"leave margins out, and ask group_by({self.index!r}) for totals",
                )
        if self.margins and hasattr(question, "clipping"):
            question = replace(question, clipping=False)  # one vector: nothing counts beside it
        named = {name or question.name: question}
        form = "table with totals" if self.margins else "frame"
        plan = CrosstabPlan.of_plan(
            plan_answers(named, terms, self.by, keys, form=form),
            rounded=self.rounded is not None,
            nonnegative=self.nonnegative,
        )
        labels = list(map(str, self.by))
        if not self.margins:
            has_notes = plan.notes_limits
            names = name_columns(
                plan.parts, plan.questions, labels, has_notes=has_notes, short=False
            )
            return replace(plan, names=names)
        if plan.search is not None:
            raise InvalidUnitError(
                "totals need limits of a unit that are named, not found from the data",
                hint='name both, e.g. unit="user", max_rows=3, max_groups=5',
            )
        (part,) = plan.parts  # a LinearPart of one vector, as the question is linear
        size, public = None if keys is None else _size(keys), keys is not None
        laplace = isinstance(plan.charge.loss, Epsilon)
        margins = MarginsPart(
            part.questions,
            part.grouped,
            part.read,
            by=self.by,
            size=size,
            public=public,
            laplace=laplace,
            groups=plan.contributions[0].groups,
            cluster=part.cluster,
        )
        names = name_columns((margins,), plan.questions, labels)
        return replace(plan, parts=(margins,), names=names)


def check_shape(rounded: str | None, *, nonnegative: bool, adds_up: bool) -> None:
    """Refuse another way to round, and a reading of cells that do not add up to totals."""
    if rounded not in {None, "integer"}:
        raise InvalidQuestionError(
            "cells are rounded to whole numbers or not at all", hint='pass rounded="integer"'
        )
    if (rounded or nonnegative) and not adds_up:
        raise InvalidQuestionError(
            "the cells of this table do not add up to its totals",
            hint="leave rounded and nonnegative out: they are for counts and sums",
        )


@dataclass(frozen=True)
class CrosstabPlan(Plan):
    """The plan of a table of two group columns: its cells, and how they are read."""

    rounded: bool = False
    nonnegative: bool = False


@release_plan.register
def release_crosstab(plan: CrosstabPlan, frame: object) -> Any:
    """Release a table of two group columns, shaped as analysts read it."""
    long = release_frame(plan, FrameSource(frame))
    part, (name, *_) = plan.parts[0], plan.questions
    titles: tuple[str, ...] = (name,)
    origin = find_origin(long) or Origin.of(plan, pa.table({}))
    if isinstance(part, MarginsPart):  # totals, and which of the cells share noise
        titles = tuple(part.titles.values())
        row, column = map(str, part.by)
        groups: list[tuple[str, ...]] = [(row,), (column,), ()]
        totals = dict(zip(groups, titles[1:], strict=True))
        measured = any(part.shares[1:])
        independent = not measured or plan.keys is None
        origin = replace(origin, independent=independent, totals=totals, measured=measured)
    wide = Wide(with_origin(long, origin), titles, plan.keys is not None, origin)
    log_notes(wide.notes)
    return wide_frame(wide, rounded=plan.rounded, nonnegative=plan.nonnegative)


def _question(values: Hashable, aggregate: str | None, bounds: BoundsLike | None) -> Statistic:
    """Return the question about each cell: counts of rows, or a statistic of one column."""
    if values is None:
        if aggregate not in {None, "count"} or bounds is not None:
            raise InvalidQuestionError(
                "a table without values counts rows",
                hint='name a column, e.g. values="delay", aggregate="mean"',
            )
        return Count()
    kind = aggregate or "sum"
    statistic = STATISTICS.get(kind)
    statistic = statistic or next(
        (candidate for candidate in STATISTICS.values() if kind in candidate.aliases), None
    )
    needed = (
        []
        if statistic is None
        else [parameter for parameter in statistic.arguments() if parameter.required]
    )
    if statistic is None or len(statistic.places()) != 1 or len(needed) > 1:
        raise InvalidQuestionError(
            "there is no such aggregate of one column",
            hint='pass e.g. aggregate="mean", or a question: values=dfp.quantile("delay", 0.9)',
        )
    checked: Any = statistic
    takes = {parameter.name for parameter in statistic.arguments()}
    number_bounds = read_bounds(bounds)
    if number_bounds is not None and "bounds" not in takes:
        raise InvalidQuestionError(f"{kind} takes no bounds", hint="leave bounds out")
    return checked(values, **({} if number_bounds is None else {"bounds": number_bounds}))  # type: ignore[no-any-return]


def _size(keys: PublicKeys) -> tuple[int, int] | None:
    """Return how many rows and columns are listed; None where a combination is missing."""
    rows, columns = (
        len({(type(key), key) for key in axis_keys}) for axis_keys in zip(*keys.rows, strict=True)
    )
    return (rows, columns) if rows * columns == len(keys.rows) else None


@dataclass(frozen=True)
class Pivot(Crosstab):
    """Return a table of a statistic of `values`, the mean unless you name another.

    It is `crosstab` with values, and takes what that takes.

    >>> import dfprivacy as dfp, pandas as pd
    >>> rows = {"city": ["Rome", "Oslo"] * 500, "year": [2023] * 1000, "spent": [8.0] * 1000}
    >>> listed = {"city": ["Rome", "Oslo"], "year": [2023]}
    >>> spent = pd.DataFrame(rows).dp.pivot("city", "year", "spent", bounds=(0, 9), keys=listed)
    >>> spent.shape, spent.index.name, spent.columns.name
    ((2, 1), 'city', 'year')
    """

    kind: ClassVar[str] = "pivot"

    values: Any = argument("A column, or a question about each cell.", form="Any")
    aggregate: str | None = argument(
        "The statistic of a column in each cell.", "mean", form="str | None"
    )


@plan_question.register
def _(question: Crosstab, _: object, terms: Terms, __: By, ___: PublicKeys | None) -> Plan:
    return question.plan(terms, terms.keys_for(question.by, question.keys))


@dataclass(frozen=True)
class Cells:
    """The numbers of a table: cells by row and column, NaN where one is missing, and totals."""

    cells: Floats
    rows: Floats | None = None
    columns: Floats | None = None
    total: float | None = None

    def read(self, *, rounded: bool, nonnegative: bool) -> Cells:
        """Return cells without noise's negative numbers, or whole ones, and totals that agree.

        The total of all cells stays as it is, up to rounding: what negative cells lose is taken
        from the others evenly. Where cells are missing each number is read by itself.
        """
        if not (rounded or nonnegative):
            return self
        if np.isnan(self.cells).any() or not self.cells.size:
            numbers: list[Any] = [self.cells, self.rows, self.columns, self.total]
            for index, number in enumerate(numbers):
                if number is not None:
                    at_least = np.maximum(number, 0) if nonnegative else number
                    numbers[index] = np.rint(at_least) if rounded else at_least
            return Cells(*numbers)
        cells = self.cells
        if nonnegative:
            cells = _nonnegative(cells)
        if rounded:
            cells = _round_cells(cells)
        if self.rows is None:
            return Cells(cells)
        return Cells(cells, cells.sum(1), cells.sum(0), float(cells.sum()))

    def with_totals(self, *, others: bool) -> Floats:
        """Return all numbers: cells, then totals less cells if `others`, then totals.

        A missing cell counts as 0, and the corner of the others balances both of its sums.
        """
        if self.rows is None or self.columns is None or self.total is None:
            return np.asarray(self.cells, dtype=float)
        right, bottom = self.rows[:, None], np.append(self.columns, self.total)[None]
        if others:
            right = np.column_stack([self.rows - np.nansum(self.cells, axis=1), right])
            below = self.columns - np.nansum(self.cells, axis=0)
            rest = self.total - self.rows.sum()
            bottom = np.vstack(
                [
                    [*below, rest - below.sum(), rest],
                    [*self.columns, self.total - self.columns.sum(), self.total],
                ]
            )
        return np.vstack([np.column_stack([self.cells, right]), bottom])


def _nonnegative(cells: Floats) -> Floats:
    """Return the nearest cells that are not below 0 and have the same total, or 0.

    >>> _nonnegative(np.array([[5.0, -1.0], [2.0, 0.0]])).tolist()
    [[4.5, 0.0], [1.5, 0.0]]
    """
    total = max(float(cells.sum()), 0.0)
    ordered = np.sort(cells, axis=None)[::-1]
    over = (np.cumsum(ordered) - total) / np.arange(1, cells.size + 1)
    positive = np.flatnonzero(ordered > over)
    less = over[positive[-1]] if len(positive) else ordered[0]
    nearest: Floats = np.maximum(cells - less, 0.0)
    return nearest


def _round_cells(cells: Floats) -> Floats:
    """Return whole cells whose total is that of all cells, rounded: the nearest are rounded up.

    >>> _round_cells(np.array([[0.4, 0.4], [0.4, 1.0]])).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    down = np.floor(cells)
    up = round(float(cells.sum() - down.sum()))
    places = np.argsort(-(cells - down), axis=None, kind="stable")[:up]
    integers = down.ravel().copy()
    integers[places] += 1
    return integers.reshape(cells.shape)


def wide_frame(wide: Wide, *, rounded: bool = False, nonnegative: bool = False) -> Any:
    """Return a table shaped as it is read, in the frame type of the data."""
    rows, columns = (_Axis.of(wide, axis) for axis in (0, 1))
    values = [np.asarray(floats_in(wide.table, title)) for title in wide.titles]
    numbers = np.full((len(rows.keys), len(columns.keys)), np.nan)
    numbers[rows.numbers, columns.numbers] = values[0]
    cells = Cells(numbers)
    if len(values) > 1:
        _, by_row, by_column, grand_totals = values
        grand = float(grand_totals[0]) if len(grand_totals) else math.nan
        cells = Cells(numbers, by_row[rows.first], by_column[columns.first], grand)
    kinds = [wide.table.schema.field(title).type for title in wide.titles]
    integers = rounded or not any(map(pa.types.is_floating, kinds))
    read = cells.read(rounded=rounded, nonnegative=nonnegative)
    has_totals = read.rows is not None
    hides_cells = not wide.public and wide.titles[0] in wide.origin.adds_up
    labels = ([OTHER] if hides_cells else []) + [ALL] if has_totals else []
    numbers = read.with_totals(others=hides_cells)
    numbers = np.maximum(numbers, 0.0) if nonnegative else numbers
    frame = _frame_numbers(wide, rows, columns, numbers, integers=integers, labels=labels)
    texts = ((*rows.texts, *labels), (*columns.texts, *labels))
    shown = Grid((rows.name, columns.name), *texts, numbers, len(labels))
    notes = (*wide.origin.notes, *wide.notes)
    return with_origin(frame, replace(wide.origin, notes=notes, wide=replace(wide, shown=shown)))


_MIDNIGHT = " 00:00:00"


@dataclass(frozen=True)
class _Axis:
    """The `keys` of rows or columns, the number of each cell's key, and the first cell of each."""

    name: str
    numbers: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    keys: Sequence[Any]

    @classmethod
    def of(cls, wide: Wide, axis: int) -> _Axis:
        """Return the keys of a column of cells: rows as they come, columns sorted if secret."""
        long, table = wide.long, wide.table
        name = table.column_names[axis]
        values = list_values((long if isinstance(long, pd.DataFrame) else table)[name])
        marks = [None if is_missing(key) else mark_value(key) for key in values]
        codes: dict[Any, int] = {}
        for row, mark in enumerate(marks):
            codes.setdefault(mark, row)
        first = np.fromiter(codes.values(), np.int64, len(codes))
        if axis and not wide.public:
            first = first[_order(long, name, first, [values[row] for row in first])]
        number = {marks[row]: index for index, row in enumerate(first)}
        numbers = np.fromiter((number[mark] for mark in marks), np.int64, len(marks))
        return cls(name, numbers, first, [values[row] for row in first])

    @property
    def texts(self) -> list[str | None]:
        """The keys as texts, None for one that is missing."""
        return [
            None if is_missing(key) else write_key(key).removesuffix(_MIDNIGHT) for key in self.keys
        ]

    @property
    def names(self) -> list[str]:
        """The keys as names of columns."""
        return ["NULL" if text is None else text for text in self.texts]


def _order(long: Any, name: str, first: Any, keys: Sequence[Any]) -> Any:
    """Return the order of released keys: as their column sorts, missing ones last."""
    if isinstance(long, pd.DataFrame):
        with suppress(Exception):  # objects of several kinds
            column = long[name].iloc[first].reset_index(drop=True)
            return column.sort_values(na_position="last", kind="stable").index.to_numpy()
    elif isinstance(long, pl.DataFrame | pl.LazyFrame):
        return long.lazy().collect()[name][first.tolist()].arg_sort(nulls_last=True).to_numpy()
    missing = np.array([is_missing(key) for key in keys], dtype=bool)
    there = np.flatnonzero(~missing).tolist()
    try:
        order = sorted(there, key=keys.__getitem__)
    except TypeError:
        order = sorted(there, key=lambda row: mark_value(keys[row]))
    return np.array([*order, *np.flatnonzero(missing)], np.int64)


def _frame_numbers(
    wide: Wide, rows: _Axis, columns: _Axis, numbers: Floats, *, integers: bool, labels: list[str]
) -> Any:
    """Return numbers as a frame of the caller's type: public keys' counts are integers.

    `labels` name the totals at the end of both axes.
    """
    every = integers and wide.public
    if isinstance(wide.long, pd.DataFrame):
        long = wide.long
        axes = [_labels(long[part.name], part.first) for part in (rows, columns)]
        if labels:
            axes = [
                pd.Index([*list_values(pd.Series(axis)), *labels], name=axis.name, dtype=object)
                for axis in axes
            ]
        return pd.DataFrame(numbers.astype(np.int64) if every else numbers, *axes)
    if labels:  # keys are text where totals follow
        keys = pa.array([*rows.names, *labels], pa.string())
    else:
        keys = wide.table.column(rows.name).take(pa.array(rows.first))
        if pa.types.is_dictionary(keys.type):
            keys = keys.cast(keys.type.value_type)
    first, *names = unique_texts([rows.name, *labels, *columns.names])
    names = [first, *names[len(labels) :], *names[: len(labels)]]
    kind = pa.int64() if integers else pa.float64()
    cells = [pa.array(part, from_pandas=True).cast(kind) for part in numbers.T]  # NULL for NaN
    return build_frame(wide.long, pa.table([keys, *cells], names=names), ())


def _labels(keys: pd.Series[Any], places: npt.NDArray[np.int64]) -> Any:
    """Return some keys as labels; of objects where pandas has no labels of their dtype."""
    if isinstance(keys.dtype, np.dtype):
        keys = keys.astype(keys.dtype.newbyteorder("="))
    chosen = keys.iloc[places]
    with suppress(NotImplementedError):
        return pd.Index(chosen, name=keys.name)
    return pd.Index(chosen.astype(object), name=keys.name)
