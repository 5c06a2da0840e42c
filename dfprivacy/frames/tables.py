"""Lay out what a caller gets by group: keys, answers with their intervals, the count, the cost.

A frame by group is a plain frame of the caller's own type and has no place for its cost, which is
kept beside it for as long as it lives. What was made of it, sorted, rounded or joined, is known by
its keys and numbers: those of the last releases are kept.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.returning import values_of
from dfprivacy.errors import InvalidQuestionError, UnsupportedFrameError
from dfprivacy.frames.numbers import Release
from dfprivacy.release.answers import arrow
from dfprivacy.release.pipeline import Answers
from dfprivacy.release.request import Request
from dfprivacy.release.totals import totals

NOTE = "note"
"""The last part of the name of a column that says where an interval can't be relied on."""

ENDS = ("", "_low", "_high", f"_{NOTE}")
"""How the names of an answer's columns end."""


def frame_names(
    parts: Sequence[Any], questions: Mapping[str, Any], keys: Sequence[str]
) -> list[str]:
    """Return names of columns of a grouped release; ones called low, high or count stay so."""
    known: dict[str, list[tuple[str, bool]]] = {}
    for part in parts:
        for question, own in part.names.items():
            known.setdefault(question, []).extend(own.items())
    answers = [
        (name, has_interval, questions[question].has_note)
        for question in questions
        for name, has_interval in known.get(question, ())
    ]
    taken = {*keys, *(name for name, _, _ in answers)}
    alone = len(answers) == 1 and not taken & {"low", "high", NOTE}
    names = list(keys)
    for name, has_interval, noted in answers:
        ends = [*(["low", "high"] if has_interval else []), *([NOTE] if noted else [])]
        names += [name, *(ends if alone else [f"{name}_{end}" for end in ends])]
    if shows_count(parts):
        names.append("count" if "count" not in taken else "rows")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidQuestionError(
            f"two columns of the result would be called {twice!r}",
            hint="name the answer: .agg(delay=dfp.mean(...)) or rename the group column",
        )
    return names


def shows_count(parts: Sequence[Any]) -> bool:
    """Tell whether the frame needs a count column beside the answers themselves."""
    return not next(part for part in parts if part.counts).answers_count


def released_table(made: Answers, request: Request, names: Sequence[str]) -> pa.Table:
    """Return one row a kept group: the keys, then each answer, then the count where it is shown."""
    columns: list[Any] = list(made.keys.take(pa.array(made.kept)).columns)
    for own in made.answers.values():
        for answer in own:
            found = answer.columns(request.level)
            columns += [arrow(column[made.kept], answer.declared) for column in found]
    if shows_count(request.parts):
        columns.append(pa.array(made.counted.column()[made.kept]))
    return pa.table(columns, names=list(names))


GROUPING = "grouping"
"""The last column of totals: bit i tells that key i is NULL because it is added up."""


def answers_table(made: Answers, request: Request) -> pa.Table:
    """Return one row a kept group, of each grouping set: its keys, then all answers' columns."""
    if not request.sets:
        return _answers_table(made, request)
    tables = []
    for by in request.sets:
        found = _answers_table(totals(made, by), request)
        bits = sum(1 << index for index in range(len(request.by)) if index not in by)
        column = pa.array([bits] * found.num_rows, pa.int64())
        tables.append(found.append_column(GROUPING, column))
    return pa.concat_tables(tables)


def _answers_table(made: Answers, request: Request) -> pa.Table:
    keys = made.keys.rename_columns([str(label) for label in request.by])
    columns = {name: keys.column(name).take(pa.array(made.kept)) for name in keys.column_names}
    for name, own in made.answers.items():
        for suffix, answer in zip(request.questions[name].suffixes, own, strict=True):
            for end, values in zip(ENDS, answer.columns(request.level), strict=False):
                columns[f"{name}{suffix}{end}"] = arrow(values[made.kept], answer.declared)
    return pa.table(columns)


def prove_way_back(
    wrap: Callable[[pa.Table], object], keys: pa.Table, names: Sequence[str], *, public: bool
) -> None:
    """Wrap a table of no row, then one of a NULL key if there may be one, before it is paid for."""
    values = names[keys.num_columns :]
    for rows in (0, 1):
        if rows and public and not any(column.null_count for column in keys.columns):
            return
        nulls = [pa.nulls(rows, field.type) for field in keys.schema]
        text, number = pa.array([""] * rows, pa.string()), pa.array([0.0] * rows, pa.float64())
        noted = [name == NOTE or name.endswith(f"_{NOTE}") for name in values]
        made = [text if own else number for own in noted]
        wrap(pa.table([*nulls, *made], names=list(names)))


Frame = TypeVar("Frame")

ADDED_UP = ("count", "sum", "histogram")
"""Questions whose answers about disjoint groups add up."""


@dataclass(frozen=True)
class Origin:
    """The question, the cost and the level of intervals behind a frame, and its key columns.

    `answers` has the columns of numbers where they follow no rule of ours, as in results of SQL.
    `adds_up` are the answers whose totals over groups are sums of them, `shares` those that are
    parts of a whole and are written as percentages; `apart` says that the noise
    of groups is independent. `totals` are columns of totals by the keys that they are for, which
    were `measured` or are sums of what is shown. `wide` is what a table of two group columns was
    shaped of; `compared` says how answers were compared, e.g. "change of".
    """

    question: str
    cost: str
    level: float | None
    keys: tuple[str, ...]
    about: str = ""
    answers: tuple[str, ...] = ()
    adds_up: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    apart: bool = True
    totals: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    measured: bool = False
    wide: Wide | None = None
    compared: str = ""

    @classmethod
    def of(cls, request: Request, *, about: object = "") -> Origin:
        """Return the origin of a request's frame; `about` names the column asked about."""
        charge = request.charge
        cost = Release(charge.loss, float(charge.delta), request.level).cost
        kinds = {name: own.kind for name, own in request.questions.items()}
        return cls(
            charge.question, cost, request.level, tuple(map(str, request.by)), str(about),
            adds_up=tuple(name for name, kind in kinds.items() if kind in ADDED_UP),
            shares=tuple(name for name, kind in kinds.items() if kind == "share"),
        )  # fmt: skip

    def beside(self, other: Origin) -> Origin:
        """Return the origin of what was made of two releases."""
        alike = self.level == other.level
        joined = ((self.question, other.question), (self.cost, other.cost))
        question, cost = ("; ".join(filter(None, both)) for both in joined)
        level = self.level if alike else None
        return Origin(
            question, cost, level, self.keys, "",
            answers=(*self.answers, *other.answers), adds_up=(*self.adds_up, *other.adds_up),
            shares=(*self.shares, *other.shares),
        )  # fmt: skip


@dataclass(frozen=True)
class Wide:
    """What a table of two group columns was shaped of.

    `long` has one row a cell, in the caller's frame type; `titles` are its columns of cells and,
    with totals, those of rows, columns and all. `shown` is what the frame shows that it was shaped
    into.
    """

    long: Any
    titles: tuple[str, ...]
    public: bool
    origin: Origin
    shown: Grid | None = None


@dataclass(frozen=True)
class Grid:
    """The texts of rows and columns, the numbers in them, and whether the last are totals."""

    about: tuple[str, str]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    numbers: Any
    totals: bool


_Kept = tuple[Origin, pa.Table | None]
_KNOWN: dict[int, tuple[weakref.ref[Any], _Kept]] = {}
_RECENT: deque[_Kept] = deque(maxlen=64)
_MOST_ROWS = 5000


def with_origin(frame: Frame, origin: Origin) -> Frame:
    """Keep the origin of a frame until the frame is gone, and return the frame as it is."""
    place = id(frame)
    kept = (origin, None if origin.wide is not None else _content(frame))
    _KNOWN[place] = (weakref.ref(frame, lambda _: _KNOWN.pop(place, None)), kept)
    if kept[1] is not None:
        _RECENT.append(kept)
    return frame


def _content(frame: object) -> pa.Table | None:
    """Return a copy of a released frame, which could be written to; None for long or lazy ones."""
    if isinstance(frame, pd.DataFrame | pl.DataFrame | pa.Table) and len(frame) <= _MOST_ROWS:
        with suppress(Exception):  # released keys may be anything
            return released_arrow(frame).take(pa.array(range(len(frame)), pa.int64()))
    return None


def origin_of(frame: object, table: pa.Table | None = None) -> Origin | None:
    """Return the origin of a frame that is a release, or was made of some; None for any other.

    `table` is the frame, where it may be one of the latter. It was made of a release if it has its
    keys and some of its answers, row by row, perhaps rounded: sorted, filtered or joined with
    others. None where it can't be told which release it was.
    """
    known = _KNOWN.get(id(frame))
    if known is not None and known[0]() is frame:
        return known[1][0]
    if table is None:
        return None
    found: list[_Match] = []
    for origin, released in [*(kept for _, kept in list(_KNOWN.values())), *_RECENT]:
        with suppress(Exception):
            match = None if released is None else _match(table, origin, released)
            if match is not None and match not in found:
                found.append(match)
    needed = [own for own in found if not any(own.beside(other) for other in found)]
    answers = [name for own in needed for name in own.answers]
    numbers = {name for name in table.column_names if is_number(table, name)}
    told = {name for own in needed for name in (*own.told, *own.origin.keys)}
    if not needed or len(set(answers)) < len(answers) or not numbers <= told:
        return None
    return reduce(Origin.beside, (own.origin for own in needed))


class _Match(NamedTuple):
    """A release that a table has: its answers, and all of its numbers, ends and counts too."""

    origin: Origin
    answers: frozenset[str]
    told: frozenset[str]

    def beside(self, other: _Match) -> bool:
        """Tell whether the answers stand in a larger release already, as a count beside a mean."""
        return self.answers <= other.told and not other.answers <= self.told


def _match(table: pa.Table, origin: Origin, released: pa.Table) -> _Match | None:
    """Return what a table has of a release, row by row; None where some row differs."""
    keys = [name for name in released.column_names if name in origin.keys]
    places = {own: row for row, own in enumerate(_texts(released, keys))} if keys else {}
    named = [name for name in released.column_names if name not in keys]
    ends = {"low", "high", *(f"{name}_{end}" for name in named for end in ("low", "high"))}
    beside = {named[-1]} if not origin.answers and named[-1:] in (["count"], ["rows"]) else set()
    held = [name for name in named if name in table.column_names and is_number(released, name)]
    answers = frozenset(held) - ends - beside
    several = len(places) < released.num_rows  # rows of one key: a histogram's
    if several or not answers or not set(keys) <= set(table.column_names):
        return None
    rows = np.array([places.get(own, -1) for own in _texts(table, keys)])
    first = np.flatnonzero(rows >= 0)
    told = frozenset(
        name
        for name in held
        if _agree(_taken(table, name, first), _taken(released, name, rows[first]))
    )
    return _Match(origin, answers, told) if len(first) and answers <= told else None


def is_number(table: pa.Table, name: str) -> bool:
    """Tell whether a table has a column of numbers of this name."""
    kind = table.schema.field(name).type if name in table.column_names else pa.null()
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _texts(table: pa.Table, names: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(*(map(str, values_of(table[name])) for name in names), strict=True))


def floats_in(table: pa.Table, name: str) -> list[float]:
    """Return a column as floats, NaN for NULL."""
    return [math.nan if one is None else float(one) for one in table[name].to_pylist()]


def _taken(table: pa.Table, name: str, rows: Any) -> Any:
    return np.array(floats_in(table, name))[rows]


def _agree(shown: Any, released: Any) -> bool:
    """Tell whether numbers are released ones, as they are or all rounded to some decimals."""
    if np.array_equal(shown, released, equal_nan=True):
        return True
    return any(
        np.allclose(shown, np.round(released, places), rtol=1e-15, atol=0, equal_nan=True)
        for places in range(-6, 13)
    )


def _is_arrow(column: pd.Series[Any]) -> bool:
    """Tell whether Arrow takes a column: dates among objects, and nothing of pandas alone."""
    if column.dtype.kind == "O" and not pd.api.types.is_numeric_dtype(column):
        return pd.api.types.infer_dtype(column, skipna=True) == "date"
    with suppress(Exception):  # its numbers may be too long, its text none
        return bool(pa.array(column, from_pandas=True) is not None)
    return False


def text_of(key: object) -> str:
    """Return a released key as text; pandas has none for times of a zone that are far away."""
    with suppress(ValueError, OverflowError, NotImplementedError):
        return str(key).encode("utf-8", "replace").decode()
    return f"{getattr(key, 'asm8', type(key).__name__)}"


def released_arrow(frame: object) -> pa.Table:
    """Return a released frame as an Arrow table; guarding the engine's errors is the caller's."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pd.DataFrame):
        texts = {
            name: frame[name].astype(object).map(text_of, na_action="ignore").astype(object)
            for name in frame.columns
            if not _is_arrow(frame[name])
        }
        return pa.Table.from_pandas(frame.assign(**texts), preserve_index=False)
    native: Any = nw.from_native(frame, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        return native.collect(backend="pyarrow").to_arrow()
    if isinstance(native, nw.DataFrame):
        return native.to_arrow()
    if hasattr(native, "__arrow_c_stream__") and not isinstance(native, pd.Series | pl.Series):
        return pa.table(native)
    raise UnsupportedFrameError(
        f"an object of type {type(frame).__name__} can't be shown",
        hint="pass what a question has returned: a number, a list of them, or a frame",
    )
