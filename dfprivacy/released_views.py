"""Released frames as views: keys, answers and counts are recognised by the names of columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.display.markup import legible
from dfprivacy.display.panels import Bin
from dfprivacy.display.view import Cell, Series, View, unique_texts
from dfprivacy.display.words import chart_text
from dfprivacy.engine.returning import frame_table
from dfprivacy.engine.run import guarded
from dfprivacy.errors import InvalidQuestionError, MissingColumnError, UnsupportedFrameError
from dfprivacy.release.frames import Origin

Order = Literal["key", "value"]

MOST_ANSWERS = 6
"""So many answers of each group are shown: side by side there is no room for more."""

_HISTOGRAM = ["lower", "upper", "count", "low", "high"]
_OWN = (pa.Table, pd.DataFrame, pl.DataFrame, pl.LazyFrame, duckdb.DuckDBPyRelation)


@dataclass(frozen=True)
class Layout:
    """Which columns are keys, which are answers (with the columns of their ends), and the count."""

    keys: tuple[str, ...]
    answers: tuple[tuple[str, tuple[str, str] | None], ...]
    count: str | None = None


def released_arrow(frame: object) -> pa.Table:
    """Return a released frame as an Arrow table.

    Raises
    ------
    UnsupportedFrameError
        When it is no frame.
    """
    if isinstance(frame, _OWN):
        return guarded(lambda: frame_table(frame))
    native = nw.from_native(frame, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        return guarded(lambda: native.collect(backend="pyarrow").to_arrow())
    if isinstance(native, nw.DataFrame):
        return guarded(native.to_arrow)
    raise UnsupportedFrameError(
        f"a {type(frame).__name__} has no picture",
        hint="pass what a question has returned: a number, a list of them, or a frame",
    )


def is_histogram(table: pa.Table) -> bool:
    """Tell whether a released table has the columns of a histogram."""
    return list(table.column_names[-5:]) == _HISTOGRAM


def layout_of(table: pa.Table, keys: Sequence[str] | None, answer: str | None) -> Layout:
    """Return which column is what; `keys` where they are known, `answer` where it was named.

    Raises
    ------
    InvalidQuestionError
        When no answer can be told by its name.
    MissingColumnError
        When there is no column `answer`.
    """
    names = table.column_names
    if answer is not None and answer not in names:
        raise MissingColumnError(
            f"the frame has no column {answer!r}", hint="name the column of an answer"
        )
    first = _first_answer(names, answer) if keys is None else len(keys)
    ends = {name: _ends_of(name, names) for name in names[first:]}
    taken = {end for own in ends.values() if own is not None for end in own}
    found = [name for name in names[first:] if name not in taken and _is_number(table, name)]
    plain = "count" in found and ends["count"] is None and len(found) > 1
    answers = [name for name in found if not (plain and name == "count")]
    chosen = [name for name in answers if answer in (None, name)] or [answer or ""]
    if any(pa.types.is_nested(table.schema.field(name).type) for name in names[first:]):
        raise InvalidQuestionError(
            "a frame with a vector for each group has no picture",
            hint='ask about columns by name: mean_vector(["x", "y"], ...)',
        )
    if not found or not all(_is_number(table, name) for name in chosen):
        raise _no_answer()
    return Layout(
        tuple(names[:first]),
        tuple((name, ends.get(name)) for name in chosen),
        "count" if plain else None,
    )


def _first_answer(names: Sequence[str], answer: str | None) -> int:
    with_ends = [place for place, name in enumerate(names) if _ends_of(name, names)]
    named = [] if answer is None else [names.index(answer)]
    if not with_ends + named:
        raise _no_answer()
    return min(with_ends + named)


def _ends_of(name: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of an answer's interval, which stand right behind it."""
    behind = list(names[names.index(name) + 1 :][:2])
    for ends in (("low", "high"), (f"{name}_low", f"{name}_high")):
        if behind == list(ends):
            return ends
    return None


def _is_number(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type if name in table.column_names else pa.null()
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _no_answer() -> InvalidQuestionError:
    return InvalidQuestionError(
        "no column of the frame is known as an answer",
        hint='name it, e.g. dfp.plot(frame, answer="delay"), or pass the frame as it was released',
    )


def view_of(
    table: pa.Table, layout: Layout, origin: Origin, *, order: Order = "key", most: int
) -> View:
    """Return the first `most` groups of a released table, in its own order or the largest first."""
    answers = layout.answers[:MOST_ANSWERS]
    if order == "value":
        table = table.sort_by([(layout.answers[0][0], "descending")])
    shown = table.slice(0, most)
    counts = [None] * shown.num_rows if layout.count is None else shown[layout.count].to_pylist()
    return View(
        title=origin.question,
        key_names=tuple(map(legible, layout.keys)),
        keys=key_rows(shown, layout.keys),
        answers=tuple(_series(shown, name, ends) for name, ends in answers),
        counts=tuple(counts),
        groups=table.num_rows,
        all_answers=len(layout.answers),
        cost=origin.cost,
        level=origin.level,
    )


def key_rows(table: pa.Table, keys: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the keys of each row as texts; NULL for none."""
    columns = [[_key_text(key) for key in table[name].to_pylist()] for name in keys]
    return tuple(zip(*columns, strict=True)) if columns else ((),) * table.num_rows


def _key_text(key: object) -> str:
    if key is None:
        return "NULL"
    return f"{key:.12g}" if isinstance(key, float) else legible(key)


def _series(table: pa.Table, name: str, ends: tuple[str, str] | None) -> Series:
    values = numbers(table, name)
    if ends is None:
        cells: list[Cell] = [(value, None) for value in values]
    else:
        low, high = (numbers(table, end) for end in ends)
        cells = [(v, (a, b)) for v, a, b in zip(values, low, high, strict=True)]
    return Series(legible(name), tuple(cells))


def numbers(table: pa.Table, name: str) -> list[float]:
    """Return a column as floats, NaN for NULL."""
    return [math.nan if value is None else float(value) for value in table[name].to_pylist()]


def histogram_bins(table: pa.Table, keys: Sequence[str], most: int) -> tuple[list[Bin], int]:
    """Return the bins of the first `most` groups of a histogram, and how many groups there are."""
    names = key_rows(table, keys)
    rows = list(dict.fromkeys(names))
    labels = unique_texts([chart_text(", ".join(own)) for own in rows])
    groups = dict(zip(rows, labels, strict=True))
    shown = set(list(groups)[:most])
    lower, upper, count, low, high = (numbers(table, name) for name in _HISTOGRAM)
    bins = [
        Bin(groups[own], lower[i], upper[i], count[i], (low[i], high[i]))
        for i, own in enumerate(names)
        if own in shown
    ]
    return bins, len(groups)


def named_groups(bins: Sequence[Bin]) -> list[str]:
    """Return the groups of bins, each once, in their order."""
    return list(dict.fromkeys(one.group for one in bins))
