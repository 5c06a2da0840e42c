"""Show a description of a frame: one row a column, its distribution drawn beside its numbers."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from dfprivacy.engine.columns import MOMENTS
from dfprivacy.frames.tables import Origin
from dfprivacy.frames.viz.charts import MOST_DOTS, Dot, build_chart, dots_panel
from dfprivacy.frames.viz.numbers import Shown
from dfprivacy.frames.viz.text import (
    chart_text,
    count_decimals,
    covered,
    figure,
    left_out,
    legible,
    rendered,
    shortened,
    writer,
)
from dfprivacy.measurement.grid import Moment

_HEAD = [
    "column",
    "type",
    "count",
    "count_low",
    "count_high",
    "missing",
    "missing_low",
    "missing_high",
]
MOST_COLUMNS = 400
WIDTH, _EDGE = 200, 4  # pixels of a distribution, and room at its ends


def is_description(table: pa.Table) -> bool:
    """Check whether a released table describes columns."""
    return list(table.column_names[: len(_HEAD)]) == _HEAD


@dataclass(frozen=True)
class Told:
    """The displayed texts of a column, and the positions of its quantiles."""

    name: str
    kind: str
    count: str
    missing: str
    missing_share: float
    mean: str
    std: str
    levels: tuple[str, ...]
    places: tuple[float, ...]
    center: float
    share: float
    values: str
    note: str

    @property
    def spread(self) -> tuple[float, ...]:
        """Where quantiles lie, in pixels. Nothing where they are unknown or all alike."""
        if not self.places or not all(map(math.isfinite, self.places)):
            return ()
        return tuple(map(self.x, self.places))

    def x(self, value: float) -> float:
        """Return where a value lies, in pixels."""
        low, high = self.places[0], self.places[-1]
        part = 0.5 if not low < high else (value / 2 - low / 2) / (high / 2 - low / 2)
        return round(_EDGE + min(max(part, 0.0), 1.0) * (WIDTH - 2 * _EDGE), 1)


@dataclass(frozen=True, repr=False)
class ShownDescription(Shown):
    """A released description: text, HTML, CSV, and a chart of missing shares."""

    origin: Origin
    table: pa.Table

    @cached_property
    def levels(self) -> list[str]:
        """The quantiles that are told, in their order."""
        names = (name.partition("% ") for name in self.table.column_names)
        levels = (f"{level}{mark.strip()}" for level, mark, _ in names)
        return [name for name in dict.fromkeys(levels) if name.endswith("%")]

    @property
    def marks(self) -> list[str]:
        """The quantiles that are written under a distribution: the first, the middle, the last."""
        places = (0, len(self.levels) // 2, len(self.levels) - 1)
        return list(dict.fromkeys(self.levels[index] for index in places)) if self.levels else []

    @cached_property
    def told(self) -> list[Told]:
        """The displayed texts of each column."""
        return [self._told(row) for row in self.table.slice(0, MOST_COLUMNS).to_pylist()]

    def _told(self, row: dict[str, Any]) -> Told:
        dated = row["type"] in MOMENTS
        quantiles = [row.get(f"{name} {row['type']}" if dated else name) for name in self.levels]
        mean, boolean = _number(row.get("mean")), row["type"] == "boolean"
        missing, count, top = (
            _number(row.get(field_name)) for field_name in ("missing", "count", "top_count")
        )
        top_share = min(max(top / count, 0.0), 1.0) if count > 0 else math.nan
        decimals = count_decimals([mean], [_half(row, "mean")])
        decimals = 0 if row["type"] == "integer" else decimals
        return Told(
            name=legible(shortened(row["column"])),
            kind=row["type"],
            count=f"{row['count']:,}{_ends(row, 'count', '{:,.0f}', 1)}",
            missing="unknown"
            if math.isnan(missing)
            else f"{100 * missing:.1f}%{_ends(row, 'missing', '{:.1f}', 100)}",
            missing_share=missing,
            mean="" if math.isnan(mean) else _with_half(row, "mean", percent=boolean),
            std="" if math.isnan(_number(row.get("std"))) else _with_half(row, "std"),
            levels=tuple(_level(field_name, decimals, dated=dated) for field_name in quantiles),
            places=tuple(
                _place(field_name) if dated else _number(field_name) for field_name in quantiles
            ),
            center=math.nan if boolean else mean,
            share=mean if boolean else top_share,
            values=legible(row.get("values") or ""),
            note=legible(row.get("note") or ""),
        )

    @property
    def heading(self) -> str:
        """The question."""
        return legible(shortened(self.origin.question))

    @property
    def captions(self) -> list[str]:
        """The cost, and the meaning of intervals."""
        return [
            self.origin.cost,
            covered(self.origin.level, "Brackets"),
            "Quantiles are selected and have no interval.",
            *left_out(len(self.told), self.table.num_rows, "columns"),
        ]

    def __repr__(self) -> str:
        heads = ["column", "type", "count", "missing", "mean", "std", *self.levels, "values"]
        rows = [
            [
                column.name,
                column.kind,
                column.count,
                column.missing,
                column.mean,
                column.std,
                *column.levels,
                column.values,
            ]
            for column in self.told
        ]
        shown = [
            index
            for index, head in enumerate(heads)
            if index < 4 or any(row[index] for row in rows)
        ]
        lines = [[row[index] for index in shown] for row in [heads, *rows]]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        left = {0, 1, len(heads) - 1}
        texts = [
            "  ".join(
                text.ljust(width) if index in left else text.rjust(width)
                for text, width, index in zip(line, widths, shown, strict=True)
            ).rstrip()
            for line in lines
        ]
        notes = [f"{column.name}: {column.note}" for column in self.told if column.note]
        return "\n".join([self.heading, *texts, *notes, *self.captions])

    def _repr_html_(self) -> str:
        return rendered("description.html", view=self, width=WIDTH)

    @property
    def written(self) -> pa.Table:
        """The whole description."""
        return self.table

    def chart(self, more: Sequence[str]) -> Any:
        """Return a chart of the share that is missing of each column, with more captions."""
        rows = self.table.slice(0, MOST_DOTS).to_pylist()
        dots = [
            Dot(
                chart_text(row["column"]),
                _number(row["missing"]),
                (_number(row["missing_low"]), _number(row["missing_high"])),
                percent=True,
            )
            for row in rows
        ]
        captions = [
            self.origin.cost,
            covered(self.origin.level),
            *left_out(len(rows), self.table.num_rows, "columns"),
            *more,
        ]
        return build_chart(dots_panel(dots, "share missing", "column"), self.heading, captions)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _half(row: dict[str, Any], name: str) -> float:
    return _number(row.get(f"{name}_high")) / 2 - _number(row.get(f"{name}_low")) / 2


def _with_half(row: dict[str, Any], name: str, *, percent: bool = False) -> str:
    """Return a number with its interval."""
    value, half = _number(row[name]), _half(row, name)
    if not math.isfinite(half):
        return figure(value, percent=percent)
    written = writer([value], [half], percent=percent)
    low, high = (written(_number(row[f"{name}_{end}"])) for end in ("low", "high"))
    return f"{written(value)} [{low}, {high}]"


def _ends(row: dict[str, Any], name: str, form: str, factor: float) -> str:
    """Return the interval of a count or a share, in brackets; nothing if it is unknown."""
    ends = [factor * _number(row.get(f"{name}_{end}")) for end in ("low", "high")]
    return f" [{', '.join(map(form.format, ends))}]" if all(map(math.isfinite, ends)) else ""


def _level(value: Any, decimals: int | None, *, dated: bool) -> str:
    if value is None:
        return "unknown" if dated else ""
    if dated:
        return str(value)
    return "unknown" if math.isnan(value) else figure(value, decimals)


def _place(value: Moment | None) -> float:
    """Return where a date or time lies among others of its kind, in days."""
    if value is None:
        return math.nan
    if isinstance(value, dt.time):
        value = dt.datetime.combine(dt.date.min, value)
    if isinstance(value, dt.datetime):
        return value.toordinal() + (value - value.replace(hour=0, minute=0, second=0)) / _DAY
    return value.toordinal() if isinstance(value, dt.date) else value / _DAY


_DAY = dt.timedelta(days=1)
