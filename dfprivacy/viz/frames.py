"""Show released frames as tables and charts: columns are recognised by their names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import narwhals as nw
import pandas as pd
import pyarrow as pa

from dfprivacy.errors import InvalidQuestionError, MissingColumnError, UnsupportedFrameError
from dfprivacy.viz.charts import (
    WIDTH,
    Dot,
    Spec,
    bins_panel,
    chart_of,
    dots_panel,
    faceted,
    titled,
)
from dfprivacy.viz.numbers import Span
from dfprivacy.viz.text import (
    MeasuredIn,
    chart_text,
    covered,
    left_out,
    legible,
    rendered,
    shortened,
    unanswered,
    unique_texts,
    with_unit,
)

Order = Literal["key", "value"]
Cell = tuple[float, tuple[float, float] | None]

MOST_ROWS = 100
MOST_ANSWERS = 6
"""At most this many answers of each group are shown, side by side."""
MOST_FACETS = 12

_HISTOGRAM = ["lower", "upper", "count", "low", "high"]


def released_arrow(frame: object) -> pa.Table:
    """Return a released frame as an Arrow table; an engine's own errors are the caller's to guard.

    Raises
    ------
    UnsupportedFrameError
        When it is no frame.
    """
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pd.DataFrame):
        return pa.Table.from_pandas(frame, preserve_index=False)
    native: Any = nw.from_native(frame, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        return native.collect(backend="pyarrow").to_arrow()
    if isinstance(native, nw.DataFrame):
        return native.to_arrow()
    raise UnsupportedFrameError(
        f"a {type(frame).__name__} can't be shown",
        hint="pass what a question has returned: a number, a list of them, or a frame",
    )


def is_histogram(table: pa.Table) -> bool:
    """Tell whether a released table has the columns of a histogram."""
    return list(table.column_names[-5:]) == _HISTOGRAM


@dataclass(frozen=True)
class Layout:
    """Which columns are keys, which are answers (with the columns of their ends), and the count."""

    keys: tuple[str, ...]
    answers: tuple[tuple[str, tuple[str, str] | None], ...]
    count: str | None = None


def layout_of(table: pa.Table, keys: Sequence[str] | None, answer: str | None) -> Layout:
    """Return which column is what; `keys` where they are known, `answer` where it was named.

    Raises
    ------
    InvalidQuestionError
        When no answer can be recognised by its name.
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
            "a frame with a vector for each group can't be shown",
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
    places = [place for place, name in enumerate(names) if answer == name or _ends_of(name, names)]
    if not places:
        raise _no_answer()
    return min(places)


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
        "no column of the frame is recognised as an answer",
        hint='name it, e.g. dfp.plot(frame, answer="delay"), or pass the frame as it was released',
    )


@dataclass(frozen=True)
class Series:
    """One answer for every group that is shown: values, with intervals where there are any."""

    name: str
    cells: tuple[Cell, ...]

    @property
    def has_ends(self) -> bool:
        """Tell whether there are intervals."""
        return any(ends is not None for _, ends in self.cells)

    def columns(self) -> Iterator[Column]:
        """Yield the column of values, and that of intervals with their bars."""
        values = ["unknown" if math.isnan(v) else f"{v:.6g}" for v, _ in self.cells]
        yield Column(self.name, values)
        if self.has_ends:
            texts = [f"[{e[0]:.6g}, {e[1]:.6g}]" if e else "" for _, e in self.cells]
            yield Column("interval", texts, drawn=self.cells)


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, its texts, and the intervals that are drawn beside them."""

    head: str
    texts: Sequence[str]
    numeric: bool = True
    drawn: Sequence[Cell] = ()

    @cached_property
    def span(self) -> Span:
        """The part of the number line that its bars show."""
        return Span.around(one for value, ends in self.drawn for one in (value, *(ends or ())))


@dataclass(frozen=True, repr=False)
class ShownFrame:
    """The first groups of a released frame as a table, out of `groups` that there are.

    `keys` has the texts of each group's keys under `key_names`; `counts` the noisy count of each
    group, or None where the frame has none. `answers` are the first of `all_answers`.
    """

    title: str
    key_names: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    answers: tuple[Series, ...]
    counts: tuple[int | None, ...]
    groups: int
    all_answers: int
    cost: str
    level: float | None

    def __repr__(self) -> str:
        """Show the groups as a table, under what was asked and over what it cost."""
        padded = []
        for column in self.columns:
            texts = [column.head, *column.texts]
            width = max(map(len, texts))
            padded.append([t.rjust(width) if column.numeric else t.ljust(width) for t in texts])
        lines = ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]
        return "\n".join([*self.heading, *lines, *self.captions])

    def _repr_html_(self) -> str:
        return rendered("frame.html", view=self)

    @property
    def columns(self) -> list[Column]:
        """The columns of the table."""
        made = [
            Column(name, [own[place] for own in self.keys], numeric=False)
            for place, name in enumerate(self.key_names)
        ]
        made += [column for answer in self.answers for column in answer.columns()]
        if any(count is not None for count in self.counts):
            texts = ["" if count is None else f"{count:,}" for count in self.counts]
            made.append(Column("count", texts))
        return made

    @property
    def rows(self) -> list[list[tuple[Column, str, Cell | None]]]:
        """The cells of each group: column, text, and the interval to draw."""
        columns = self.columns
        return [
            [(one, one.texts[i], one.drawn[i] if one.drawn else None) for one in columns]
            for i in range(len(self.keys))
        ]

    @property
    def heading(self) -> list[str]:
        """What was asked."""
        return [legible(shortened(self.title))] if self.title else []

    @property
    def captions(self) -> list[str]:
        """What it cost, what the bars mean, and what is left out."""
        return [self.cost, *self._bars(), *left_out(len(self.keys), self.groups, "groups"),
                *self._answers_left_out()]  # fmt: skip

    def _bars(self) -> list[str]:
        return [covered(self.level)] if any(own.has_ends for own in self.answers) else []

    def _answers_left_out(self) -> list[str]:
        return left_out(len(self.answers), self.all_answers, "answers")

    def plot(self, measured_in: MeasuredIn, order: str) -> Any:
        """Return a chart of the answers of each group; several answers stand side by side."""
        panels, missing, by = [], 0, ", ".join(self.key_names)
        labels = [chart_text(own) for own in unique_texts([", ".join(own) for own in self.keys])]
        for index, answer in enumerate(self.answers):
            dots = [
                Dot(label, *cell, count=count)
                for label, cell, count in zip(labels, answer.cells, self.counts, strict=True)
            ]
            missing += sum(not dot.known for dot in dots)
            panel = dots_panel(dots, with_unit(answer.name, measured_in), by, labels=not index)
            panels.append({**panel, "width": WIDTH if len(self.answers) == 1 else 260})
        lines = [
            *self.heading, self.cost, *self._bars(),
            *left_out(len(labels), self.groups, "groups", order), *self._answers_left_out(),
            *unanswered(missing),
        ]  # fmt: skip
        spec: Spec = panels[0] if len(panels) == 1 else {"hconcat": panels}
        names = ", ".join(answer.name for answer in self.answers)
        return chart_of(titled(spec, f"{names} by {by}" if by else names, lines))


def shown_frame(
    table: pa.Table,
    layout: Layout,
    *,
    title: str,
    cost: str,
    level: float | None,
    order: Order = "key",
    most: int = MOST_ROWS,
) -> ShownFrame:
    """Return the first `most` groups of a released table, in its own order or the largest first."""
    if order == "value":
        table = table.sort_by([(layout.answers[0][0], "descending")])
    shown = table.slice(0, most)
    counts = [None] * shown.num_rows if layout.count is None else shown[layout.count].to_pylist()
    return ShownFrame(
        title=title,
        key_names=tuple(map(legible, layout.keys)),
        keys=_key_rows(shown, layout.keys),
        answers=tuple(_series(shown, *answer) for answer in layout.answers[:MOST_ANSWERS]),
        counts=tuple(counts),
        groups=table.num_rows,
        all_answers=len(layout.answers),
        cost=cost,
        level=level,
    )


def _key_rows(table: pa.Table, keys: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the keys of each row as texts; NULL for none."""
    columns = [[_key_text(key) for key in table[name].to_pylist()] for name in keys]
    return tuple(zip(*columns, strict=True)) if columns else ((),) * table.num_rows


def _key_text(key: object) -> str:
    if key is None:
        return "NULL"
    return f"{key:.12g}" if isinstance(key, float) else legible(key)


def _series(table: pa.Table, name: str, ends: tuple[str, str] | None) -> Series:
    values = _numbers(table, name)
    both = None if ends is None else zip(*(_numbers(table, end) for end in ends), strict=True)
    return Series(legible(name), tuple(zip(values, both or [None] * len(values), strict=True)))


def _numbers(table: pa.Table, name: str) -> list[float]:
    """Return a column as floats, NaN for NULL."""
    return [math.nan if value is None else float(value) for value in table[name].to_pylist()]


def histogram_chart(
    table: pa.Table, about: str, cost: str, level: float | None, measured_in: MeasuredIn
) -> Any:
    """Return the bars of a histogram of the column `about`, with a panel for each group."""
    keys = table.column_names[:-5]
    names = _key_rows(table, keys)
    rows = list(dict.fromkeys(names))
    labels = unique_texts([chart_text(", ".join(own)) for own in rows])
    groups = dict(zip(rows[:MOST_FACETS], labels, strict=False))
    columns = [_numbers(table, name) for name in _HISTOGRAM]
    bins: list[dict[str, Any]] = [
        {**dict(zip(_HISTOGRAM, row, strict=True)), "group": groups[own]}
        for own, row in zip(names, zip(*columns, strict=True), strict=True)
        if own in groups
    ]
    known = [
        {**one, "middle": one["lower"] / 2 + one["upper"] / 2}
        for one in bins
        if math.isfinite(one["lower"]) and math.isfinite(one["upper"])
    ]
    panel = bins_panel(with_unit(about or "value", measured_in))
    spec: Spec = faceted(panel, list(groups.values())) if keys else panel
    if not keys:
        spec |= {"width": WIDTH, "height": 240}
    spec |= {"data": {"values": known}}
    lines = [
        cost, covered(level), *left_out(len(groups), len(rows), "groups"),
        *unanswered(len(bins) - len(known)),
    ]  # fmt: skip
    title = f"histogram of {about}" if about else "histogram"
    by = ", ".join(map(legible, keys))
    return chart_of(titled(spec, f"{title} by {by}" if keys else title, lines))
