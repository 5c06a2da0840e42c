"""Origins of released frames: their question, cost and level of intervals.

A released frame is a plain frame of the caller's type. Its origin (question, cost, level) is kept
beside a weak reference to the object, and with pandas in `DataFrame.attrs` as well. A frame is a
release only while its rows are rows of the released table, in the columns that it has.
"""

from __future__ import annotations

import json
import math
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.accounting.memory import is_remembered
from dfprivacy.engine.run import run_guarded
from dfprivacy.errors import UnsupportedFrameError
from dfprivacy.release.plan import NOTE, Plan, cost_text, read_found_bounds

Frame = TypeVar("Frame")

ADDED_UP = ("count", "sum", "histogram")  # questions whose answers about disjoint groups add up

DIFFERENCE = "difference of"
"""How answers were compared that are still in the unit of their column."""


@dataclass(frozen=True)
class Origin:
    """The question, the cost and the level of intervals behind a frame, and its key columns.

    `answers` has the columns of numbers where they follow no rule of ours, as in results of SQL,
    and `computed` those of them with NULL, which is never an answer that is missing.
    `adds_up` are the answers whose totals over groups are sums of them, `shares` those that are
    parts of a whole and are written as percentages, `amounts` those that are at least 0 but for
    noise; `independent` says that the noise of groups is independent. `totals` maps the keys of
    a total to its column; totals were `measured`, or are sums of the shown cells. `wide` holds the
    long form of a table of two group columns; `compared` says how answers were compared,
    e.g. "change of". `unit` is the protected unit with its limits, and `shown_from` the noisy count
    from which groups of secret keys appear. `notes` are lines about the answers: limits and bounds
    found, and notes without a column.
    """

    question: str
    cost: str
    level: float | None
    keys: tuple[str, ...]
    about: str = ""
    answers: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    adds_up: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()
    independent: bool = True
    totals: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    measured: bool = False
    wide: Wide | None = None
    compared: str = ""
    unit: str = ""
    shown_from: int | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: Plan, table: pa.Table) -> Origin:
        """Return the origin of the frame that a plan is released as, as this table."""
        charge, unit = plan.charge, plan.info.unit
        kinds = {name: question.kind for name, question in plan.questions.items()}
        cost = cost_text(charge.loss, float(charge.delta))
        return cls(
            charge.question,
            f"{cost}, remembered" if is_remembered(table) else cost,
            plan.level,
            plan.row_keys,
            plan.subject,
            adds_up=tuple(name for name, kind in kinds.items() if kind in ADDED_UP),
            shares=tuple(name for name, kind in kinds.items() if kind == "share"),
            amounts=list_amounts(plan.questions, table),
            independent=plan.has_independent_rows,
            unit="" if unit is None else unit.text,
            shown_from=plan.info.shown_from,
            notes=plan.list_notes(table),
        )

    @property
    def has_units(self) -> bool:
        """True if its answers are in the unit of their column, as ratios and changes are not."""
        return self.compared in {"", DIFFERENCE}

    @property
    def remarks(self) -> list[str]:
        """The notes, and the size from which groups of secret keys appear."""
        if self.shown_from is None:
            return list(self.notes)
        return [*self.notes, f"Groups with a noisy count below {self.shown_from:,} are not shown."]


def list_amounts(questions: Mapping[str, Any], table: pa.Table) -> tuple[str, ...]:
    """Return the answers that are at least 0 but for noise: counts, and sums of such values.

    `table` has the bounds that were found.
    """
    bounds_found = read_found_bounds(table)
    amounts: list[str] = []
    for name, question in questions.items():
        is_amount = question.kind == "histogram" or getattr(question, "is_whole", False)
        if question.kind == "sum":
            lowers = [lower for lower, _ in bounds_found.get(name, ())]
            lowers = lowers if question.bounds is None else [question.bounds.lower]
            is_amount = bool(lowers) and min(lowers) >= 0
        amounts += [name] if is_amount else []
    return tuple(amounts)


@dataclass(frozen=True)
class Wide:
    """The long form of a table of two group columns.

    `long` has one row a cell, in the caller's frame type; `titles` are its columns of cells and,
    with totals, those of rows, columns and all. `shown` has the texts and numbers of the wide
    frame.
    """

    long: Any
    titles: tuple[str, ...]
    public: bool
    origin: Origin
    shown: Grid | None = None

    @cached_property
    def table(self) -> pa.Table:
        """The long form as an Arrow table."""
        return run_guarded(lambda: convert_released(self.long))

    @property
    def notes(self) -> list[str]:
        """The most frequent note of the cells, in a line: the wide frame has no column of notes."""
        table = self.table
        names = {NOTE, f"{self.titles[0]}_{NOTE}"} & {*table.column_names[2:]}
        texts = [note for name in names for note in table[name].to_pylist()]
        return summarize_notes(texts, table.num_rows, "dfp.released(table).long() has other notes")


def summarize_notes(notes: Sequence[str | None], groups: int, hint: str) -> list[str]:
    """Return a line with the most frequent note of some groups; `hint` says where others are."""
    texts = [note for note in notes if note]
    lines = []
    for note, count in Counter(texts).most_common(1):
        is_about_all = count == groups or " groups" in note
        where = "" if is_about_all else f", in {count} of {groups} groups"
        lines.append(f"{note}{where}{'' if count == len(texts) else f'; {hint}'}")
    return lines


@dataclass(frozen=True)
class Grid:
    """The keys of rows and columns as texts, their numbers, and how many of the last are totals.

    A key that is missing is None.
    """

    about: tuple[str, str]
    rows: tuple[str | None, ...]
    columns: tuple[str | None, ...]
    numbers: Any
    totals: int


_ORIGINS: dict[int, tuple[weakref.ref[Any], Origin, Any]] = {}
_ATTRIBUTE = "dfprivacy"
"""The key under which a pandas frame carries its origin, as JSON, in `DataFrame.attrs`."""

_HASHED_ROWS = 5000  # a longer pandas frame is a release only as the object that was returned

_CHANGEABLE = pd.DataFrame | pl.DataFrame
"""Frames that can be changed in place."""


def with_origin(frame: Frame, origin: Origin) -> Frame:
    """Attach the origin of a released frame to it, and return the frame.

    The origin lives as long as the frame, with a copy of a frame that can be changed. A pandas
    frame carries it in `attrs` as well, with a hash of each cell, so that a sorted or filtered copy
    is still known as a release.
    """
    address = id(frame)
    reference = weakref.ref(frame, lambda _: _ORIGINS.pop(address, None))
    released = copy_frame(frame) if isinstance(frame, _CHANGEABLE) else None
    _ORIGINS[address] = (reference, origin, released)
    if isinstance(frame, pd.DataFrame) and origin.wide is None and len(frame) <= _HASHED_ROWS:
        with suppress(Exception):  # released keys may be anything
            fields = {**asdict(origin), "totals": list(origin.totals.items())}
            attribute = {"origin": fields, "columns": _hash_cells(frame)}
            frame.attrs[_ATTRIBUTE] = json.dumps(attribute)
    return frame


def copy_frame(frame: Any) -> Any:
    """Return a frame that changes of this one do not reach; cells are copied where they must be."""
    if isinstance(frame, pd.DataFrame):
        return frame.copy(deep=pd.__version__ < "3")  # which copies on the first change
    return frame.clone() if isinstance(frame, pl.DataFrame) else frame


def find_origin(frame: object) -> Origin | None:
    """Return the origin of a frame as it was released, or None for any other frame.

    Rows and columns of a pandas frame may have been selected and sorted since. A changed cell or a
    column more makes it another frame.
    """
    entry = _ORIGINS.get(id(frame))
    if entry is not None and entry[0]() is frame:
        _, origin, released = entry
        with suppress(Exception):  # released keys may be anything
            if not isinstance(frame, _CHANGEABLE) or frame.equals(released):
                return origin
    if not isinstance(frame, pd.DataFrame) or _ATTRIBUTE not in frame.attrs:
        return None
    with suppress(Exception):  # anybody can write attributes, and columns of any kind
        attribute, hashes = json.loads(frame.attrs[_ATTRIBUTE]), _hash_cells(frame)
        kinds, cells = zip(*hashes.values(), strict=True)
        columns = [attribute["columns"][name] for name in hashes]
        released_kinds, released_cells = zip(*columns, strict=True)
        rows, released_rows = (Counter(zip(*c, strict=True)) for c in (cells, released_cells))
        if rows <= released_rows and kinds == released_kinds and frame.columns.is_unique:
            fields = attribute["origin"]
            names = {
                name: tuple(fields[name])
                for name in ("keys", "answers", "computed", "adds_up", "shares", "amounts", "notes")
            }
            totals = {tuple(keys): column for keys, column in fields["totals"]}
            return Origin(**{**fields, **names, "totals": totals})
    return None


def _hash_cells(frame: pd.DataFrame) -> dict[str, tuple[str, list[int]]]:
    """Return the type of each column by its name, and a hash of each cell."""
    hashes = pd.util.hash_pandas_object
    return {
        repr(name): (str(column.dtype), hashes(column, index=False).tolist())
        for name, column in frame.items()
    }


def is_number(table: pa.Table, name: str) -> bool:
    """Return True if a table has a column of numbers of this name."""
    kind = table.schema.field(name).type if name in table.column_names else pa.null()
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def floats_in(table: pa.Table, name: str) -> list[float]:
    """Return a column as floats, NaN for NULL."""
    return [math.nan if value is None else float(value) for value in table[name].to_pylist()]


def _is_arrow(column: pd.Series[Any]) -> bool:
    """Return True if Arrow takes a column: dates among objects, and nothing of pandas alone."""
    if column.dtype.kind == "O" and not pd.api.types.is_numeric_dtype(column):
        return pd.api.types.infer_dtype(column, skipna=True) == "date"
    with suppress(Exception):  # its numbers may be too long, its text none
        return bool(pa.array(column, from_pandas=True) is not None)
    return False


def write_key(key: object) -> str:
    """Return a released key as text; pandas has none for times of a zone that are far away."""
    with suppress(ValueError, OverflowError, NotImplementedError):
        return str(key).encode("utf-8", "replace").decode()
    return f"{getattr(key, 'asm8', type(key).__name__)}"


def convert_released(frame: object) -> pa.Table:
    """Return a released frame as an Arrow table; guarding the engine's errors is the caller's."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pd.DataFrame):
        texts = {
            name: frame[name].astype(object).map(write_key, na_action="ignore").astype(object)
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
