"""Read released frames further: differences, ratios and changes of answers, with intervals.

All of it is computed from what was released, so that it costs nothing. Groups are disjoint and
their noise is independent, but for a total and its part (docs/how-to/frames.md,
docs/how-to/crosstabs.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import pyarrow as pa

from dfprivacy.engine.objects import is_missing, mark_value
from dfprivacy.engine.returning import build_frame, list_values
from dfprivacy.engine.run import run_guarded
from dfprivacy.errors import InvalidQuestionError, UnsupportedFrameError, boundary
from dfprivacy.frames.arithmetic import Range, change, difference, divide_ranges, parts_of_total
from dfprivacy.frames.crosstabs import check_shape, wide_frame
from dfprivacy.frames.tables import (
    DIFFERENCE,
    Origin,
    convert_released,
    copy_frame,
    find_origin,
    floats_in,
    with_origin,
)
from dfprivacy.frames.viz.pictures import build_layout, is_histogram
from dfprivacy.release.plan import NOTE

_UNKNOWN = Range(math.nan, -math.inf, math.inf)
TOTAL = "total"  # name of the total, as a base that is no group


@boundary
def released(frame: Any) -> Released:
    """Return a released frame with methods that compare its answers, at no cost.

    `frame` is the result of a question by group, in pandas, polars or as any other frame. A pandas
    frame may have been sorted or filtered since.

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 500, "delay": [1.0, 9.0] * 500})
    >>> often = flights.dp.group_by("carrier", keys=["AA", "UA"]).count(epsilon=1)
    >>> dfp.released(often).ratio_to("total").columns
    ['carrier', 'count', 'low', 'high']

    Raises
    ------
    InvalidQuestionError
        When it is not a release or was changed since, or has no answer with an interval.
    """
    if isinstance(frame, float | list | dict):
        raise UnsupportedFrameError(
            f"an answer of type {type(frame).__name__} is no frame, and knows its own cost",
            hint="read it off the answer: answer.epsilon, answer.low, answer.note",
        )
    origin = find_origin(frame)
    if origin is None:
        raise InvalidQuestionError(
            f"this {type(frame).__name__} is not a release, or was changed since",
            hint="pass the frame as it was released",
        )
    table = None if origin.wide else run_guarded(lambda: convert_released(frame))
    return Released(frame, table, origin)


@boundary
class Released:
    """A released frame that can be compared with itself; see `dfprivacy.released`."""

    def __init__(self, frame: Any, table: pa.Table | None, origin: Origin) -> None:
        self._frame, self._table, self._origin = frame, table, origin

    def long(self) -> Any:
        """Return the cells of a table by `crosstab` or `pivot`, one a row, with their intervals.

        With totals, the totals that a cell belongs to stand beside it. Any other frame is as it
        was.
        """
        wide = self._origin.wide
        return self._frame if wide is None else with_origin(copy_frame(wide.long), wide.origin)

    def table(self, *, rounded: str | None = None, nonnegative: bool = False) -> Any:
        """Return a table by `crosstab` or `pivot` shaped anew, at no cost.

        `rounded="integer"` and `nonnegative=True` as in `crosstab`: a choice of the reader.
        """
        wide = self._origin.wide
        if wide is None:
            raise InvalidQuestionError(
                "the frame is no table of two group columns", hint="ask .dp.crosstab(...)"
            )
        check_shape(rounded, nonnegative=nonnegative, adds_up=bool(wide.origin.adds_up))
        return wide_frame(wide, rounded=rounded is not None, nonnegative=nonnegative)

    def diff(self, base: Any = None, *, along: str | None = None) -> Any:
        """Return each answer less that of the row before, or of the group `base`.

        `along` is the key that is compared, the last one unless you name another; rows that agree
        in all other keys are compared with each other, in the order of the frame. `against` is the
        key that was subtracted. Of a first row nothing is known.
        """
        return self._compare_answers(difference, DIFFERENCE, base, along, self._origin.shares)

    def change(self, base: Any = None, *, along: str | None = None) -> Any:
        """Return how much each answer has grown since the row before, as a part of that: 0.05.

        Over time it is this period over the last that is there, whose key is `against`: a period
        that is missing is passed over. Otherwise as `diff`.
        """
        return self._compare_answers(change, "change of", base, along, None)

    def ratio_to(self, base: Any, *, along: str | None = None) -> Any:
        """Return each answer as a part of the total, or as a ratio to the group `base`.

        With `"total"`, answers that add up (counts and sums) are divided by their total over all
        rows of the frame, or over those of one key with `along`. It is the sum of the groups that
        are shown; in a table with totals that were measured it is the total. A group that is called
        "total" can't be named.
        """
        if not (isinstance(base, str) and base == TOTAL):
            group = math.nan if base is None else base  # None is the row before elsewhere
            return self._compare_answers(divide_ranges, "ratio of", group, along, ())
        answers_long = self._long()
        adds_up = [name for name in answers_long.answers if name in answers_long.origin.adds_up]
        if not adds_up:
            raise InvalidQuestionError(
                "these answers do not add up to a total",
                hint='name a group to compare with, e.g. ratio_to("AA")',
            )
        across = answers_long.keys if along is None else (answers_long.key(along),)
        parts = {name: _parts(answers_long, name, across) for name in adds_up}
        rows = range(answers_long.table.num_rows)
        return answers_long.frame_answers(parts, "part of the shown total of", rows, parts)

    def _compare_answers(
        self,
        compare: Callable[..., Range],
        text: str,
        base: Any,
        along: str | None,
        shares: Collection[str] | None,
    ) -> Any:
        """Return answers compared; `shares` are those that come out as parts, None for all."""
        answers_long = self._long()
        key = answers_long.key(along)
        before = answers_long.rows_before(key) if base is None else answers_long.of_key(key, base)
        itself = 1.0 if compare is divide_ranges else 0.0  # of an answer compared with itself
        unchanged, is_independent = Range(itself, itself, itself), answers_long.origin.independent
        compared: dict[str, list[Range]] = {name: [] for name in answers_long.answers}
        for name, ranges in answers_long.answers.items():
            for row, other in enumerate(before):
                if other is None:
                    compared[name].append(_UNKNOWN)
                elif other == row:
                    compared[name].append(unchanged)
                else:
                    compared[name].append(
                        compare(ranges[row], ranges[other], independent=is_independent)
                    )
        against = key if base is None else None
        shares = compared if shares is None else shares
        return answers_long.frame_answers(compared, text, before, shares, against)

    def _long(self) -> _Long:
        wide = self._origin.wide
        if wide is None:
            assert self._table is not None  # noqa: S101 any other frame has been read
            return _Long.of(self._frame, self._table, self._origin)
        return _Long.of(wide.long, wide.table, wide.origin)

    def __repr__(self) -> str:
        return f"Released({self._origin.question})"


@dataclass(frozen=True)
class _Long:
    """A released frame, one row a group: its keys, and each answer with the ends of intervals.

    `marks` are the values of the keys, by name; of a bin those of its upper end alone.
    """

    frame: Any
    table: pa.Table
    origin: Origin
    keys: tuple[str, ...]
    marks: Mapping[str, Sequence[Any]]
    answers: Mapping[str, Sequence[Range]]
    totals: Mapping[str, Sequence[Range]]

    @classmethod
    def of(cls, frame: Any, table: pa.Table, origin: Origin) -> _Long:
        """Return a released frame as keys, answers and ends of intervals."""
        if not {*origin.keys} <= {*table.column_names}:
            raise InvalidQuestionError(
                "the frame lacks a column of its groups",
                hint=f"pass it with {', '.join(origin.keys)}",
            )
        bins = is_histogram(table)
        layout = build_layout(table.drop(list(origin.keys)) if bins else table, origin, None)
        keys, answers = (*origin.keys, *(layout.keys if bins else ())), {}
        for name, ends in layout.answers:
            if ends is not None:
                columns = zip(*(floats_in(table, column) for column in (name, *ends)), strict=True)
                answers[name] = [Range(*ends_of_row) for ends_of_row in columns]
        totals = {n: answers.pop(n) for n in origin.totals.values() if n in answers}
        if not keys or not answers:
            raise InvalidQuestionError(
                "the frame has no groups, or no answer with an interval",
                hint="pass a count, sum, mean or the like by group",
            )
        source = frame if isinstance(frame, pd.DataFrame) else table
        compared = [name for name in keys if not (bins and name == "lower")]
        values = {name: list_values(source[name]) for name in compared}
        marks = {
            name: [None if is_missing(value) else mark_value(value) for value in column]
            for name, column in values.items()
        }
        return cls(frame, table, origin, tuple(keys), marks, answers, totals)

    def key(self, along: str | None) -> str:
        """Return the key that is compared."""
        if along is None:
            return self.keys[-1]
        if str(along) not in self.marks:
            raise InvalidQuestionError(
                f"the frame has no key {along!r}", hint=f"its keys are {', '.join(self.marks)}"
            )
        return str(along)

    def other_keys(self, across: Iterable[str]) -> list[tuple[Any, ...]]:
        """Return the other keys of each row."""
        left = [marks for name, marks in self.marks.items() if name not in across]
        return list(zip(*left, strict=True)) if left else [()] * self.table.num_rows

    def rows_before(self, key: str) -> list[int | None]:
        """Return the row before each row, among those that agree in all other keys."""
        last: dict[tuple[Any, ...], int] = {}
        rows_before: list[int | None] = []
        for row, line in enumerate(self.other_keys([key])):
            rows_before.append(last.get(line))
            last[line] = row
        return rows_before

    def of_key(self, key: str, base: Any) -> list[int | None]:
        """Return the row of the group `base` for each row, among those that agree otherwise."""
        mark = None if is_missing(base) else mark_value(base)
        places = enumerate(zip(self.other_keys([key]), self.marks[key], strict=True))
        row_of_others = {line: row for row, (line, key_mark) in places if key_mark == mark}
        if not row_of_others:
            raise InvalidQuestionError(
                f"no group of {key!r} is the one that was named",
                hint="name a key as it stands in the frame; along= chooses the column",
            )
        return [row_of_others.get(line) for line in self.other_keys([key])]

    def frame_answers(
        self,
        compared: Mapping[str, Sequence[Range]],
        text: str,
        bases: Sequence[int | None],
        shares: Collection[str],
        against: str | None = None,
    ) -> Any:
        """Return computed answers in the type of the frame, with its keys and their cost.

        `bases` are the rows that rows are compared with, `against` is the key that names them.
        """
        columns = {name: self.table[name] for name in self.keys}
        if against is not None:
            columns["against"] = self.table[against].take(pa.array(bases, pa.int64()))
        if len({*columns, *compared}) < len(self.keys) + len(compared) + (against is not None):
            raise InvalidQuestionError(
                "two columns of the result would have one name", hint="rename the group column"
            )
        alone = len(compared) == 1 and not {"low", "high"} & {*columns, *compared}
        for name, ranges in compared.items():
            low, high = ("low", "high") if alone else (f"{name}_low", f"{name}_high")
            columns[name] = pa.array([range_.value for range_ in ranges], pa.float64())
            columns[low] = pa.array([range_.low for range_ in ranges], pa.float64())
            columns[high] = pa.array([range_.high for range_ in ranges], pa.float64())
            if notes := self._join_notes(name, bases):
                columns[NOTE if alone else f"{name}_{NOTE}"] = pa.array(notes, pa.string())
        frame = self._frame_like(columns, against, bases)
        question = f"{text} {self.origin.question}"
        names = tuple(name_ for name_ in columns if name_ not in (*self.keys, "against"))
        origin = replace(
            self.origin,
            question=question,
            cost=f"{self.origin.cost}, no further cost",
            keys=self.keys,
            answers=names,
            adds_up=(),
            shares=tuple(shares),
            amounts=(),
            independent=False,
            totals={},
            measured=False,
            wide=None,
            compared=text,
        )
        return with_origin(frame, origin)

    def _join_notes(self, name: str, bases: Sequence[int | None]) -> list[str | None]:
        """Return the notes of an answer and its bases; an empty list where it has no notes."""
        left = [n for n in self.table.column_names if n not in self.keys]
        column = next((n for n in (NOTE, f"{name}_{NOTE}") if n in left), None)
        if column is None:
            return []
        notes = self.table[column].to_pylist()
        pairs = [
            (notes[row], notes[row if base is None else base]) for row, base in enumerate(bases)
        ]
        return ["; ".join(dict.fromkeys(filter(None, pair))) or None for pair in pairs]

    def _frame_like(
        self, columns: dict[str, Any], against: str | None, bases: Sequence[int | None]
    ) -> Any:
        """Return columns as a frame of the same type; in pandas keys keep their dtypes."""
        if not isinstance(self.frame, pd.DataFrame):
            return build_frame(self.frame, pa.table(columns), ())
        series = {}
        for name, column in columns.items():
            if name in self.keys:
                series[name] = self.frame[name].reset_index(drop=True)
            elif name == "against" and against is not None:
                key = self.frame[against].reset_index(drop=True)
                if pd.api.types.is_datetime64_any_dtype(key.dtype):  # which holds what is missing
                    key = key.reindex([-1 if row is None else row for row in bases])
                    series[name] = key.reset_index(drop=True)
                else:
                    keys = list_values(key)
                    earlier = [None if row is None else keys[row] for row in bases]
                    series[name] = pd.Series(earlier, dtype=object)
            else:
                series[name] = column.to_pandas()
        return pd.DataFrame(series)


def _parts(answers_long: _Long, name: str, across: Sequence[str]) -> list[Range]:
    """Return each answer as a part of its total over some keys."""
    ranges, lines = answers_long.answers[name], answers_long.other_keys(across)
    title = answers_long.origin.totals.get(
        tuple(key for key in answers_long.keys if key not in across), ""
    )
    if answers_long.origin.measured and title in answers_long.totals:
        pairs = zip(ranges, answers_long.totals[title], strict=True)
        return [
            divide_ranges(number, total, independent=answers_long.origin.independent)
            for number, total in pairs
        ]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row, line in enumerate(lines):
        groups.setdefault(line, []).append(row)
    parts: dict[int, Range] = {}
    for rows in groups.values():
        shares = parts_of_total(
            [ranges[row] for row in rows], independent=answers_long.origin.independent
        )
        parts |= zip(rows, shares, strict=True)
    return [parts[row] for row in range(len(ranges))]
