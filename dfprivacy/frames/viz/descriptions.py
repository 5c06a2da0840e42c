"""Show a description of a frame: one row a column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from dfprivacy.engine.columns import MOMENTS
from dfprivacy.frames.tables import Origin
from dfprivacy.frames.viz.charts import MOST_DOTS, Dot, build_chart, dots_panel
from dfprivacy.frames.viz.numbers import Column, ShownColumns
from dfprivacy.frames.viz.text import (
    chart_text,
    count_decimals,
    covered,
    figure,
    left_out,
    legible,
    shortened,
    writer,
)

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
_ALWAYS = ("column", "type", "count", "missing")


def is_description(table: pa.Table) -> bool:
    """Check whether a released table describes columns."""
    return list(table.column_names[: len(_HEAD)]) == _HEAD


@dataclass(frozen=True, repr=False)
class ShownDescription(ShownColumns):
    """A released description: text, HTML, CSV, and a chart of missing shares."""

    origin: Origin
    table: pa.Table

    @cached_property
    def rows_shown(self) -> list[dict[str, Any]]:
        """The rows of the first columns."""
        return list(self.table.slice(0, MOST_COLUMNS).to_pylist())

    @cached_property
    def levels(self) -> list[str]:
        """The released quantiles, in their order."""
        names = (name.partition("% ") for name in self.table.column_names)
        levels = (f"{level}{mark.strip()}" for level, mark, _ in names)
        return [name for name in dict.fromkeys(levels) if name.endswith("%")]

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of the table, without those that are empty."""
        texts = [self._texts(row) for row in self.rows_shown]
        heads = [*_ALWAYS, "mean", "std", *self.levels, "values"]
        shown = [head for head in heads if head in _ALWAYS or any(row[head] for row in texts)]
        words = ("column", "type", "values")
        return [
            Column(head, [row[head] for row in texts], head not in words, wraps=head == "values")
            for head in shown
        ]

    def _texts(self, row: dict[str, Any]) -> dict[str, str]:
        """Return the displayed texts of a column by their heads."""
        dated = row["type"] in MOMENTS
        mean, missing = _number(row.get("mean")), _number(row.get("missing"))
        decimals = count_decimals([mean], [_half(row, "mean")])
        decimals = 0 if row["type"] == "integer" else decimals
        levels = {
            name: _level(row.get(f"{name} {row['type']}" if dated else name), decimals, dated=dated)
            for name in self.levels
        }
        return {
            "column": legible(shortened(row["column"])),
            "type": row["type"],
            "count": f"{row['count']:,}{_ends(row, 'count', '{:,.0f}', 1)}",
            "missing": "unknown"
            if math.isnan(missing)
            else f"{100 * missing:.1f}%{_ends(row, 'missing', '{:.1f}', 100)}",
            "mean": "" if math.isnan(mean) else _with_half(row, "mean"),
            "std": "" if math.isnan(_number(row.get("std"))) else _with_half(row, "std"),
            **levels,
            "values": legible(row.get("values") or ""),
        }

    @property
    def heading(self) -> list[str]:
        """The question."""
        return [legible(shortened(self.origin.question))]

    @property
    def captions(self) -> list[str]:
        """The notes, the cost, and the meaning of intervals."""
        return [
            *(legible(f"{r['column']}: {r['note']}") for r in self.rows_shown if r.get("note")),
            self.origin.cost,
            covered(self.origin.level),
            "Quantiles are selected and have no interval.",
            *left_out(len(self.rows_shown), self.table.num_rows, "columns"),
        ]

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
        return build_chart(dots_panel(dots, "share missing", "column"), self.heading[0], captions)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _half(row: dict[str, Any], name: str) -> float:
    return _number(row.get(f"{name}_high")) / 2 - _number(row.get(f"{name}_low")) / 2


def _with_half(row: dict[str, Any], name: str) -> str:
    """Return a number with its interval; a share of booleans as a percentage."""
    value, half, percent = _number(row[name]), _half(row, name), row["type"] == "boolean"
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
