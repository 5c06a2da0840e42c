"""Show a description of a frame: one row a column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from dfprivacy.engine.columns import MOMENTS
from dfprivacy.frames.tables import Origin
from dfprivacy.frames.viz.numbers import Column, ShownColumns
from dfprivacy.frames.viz.text import (
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
    """A released description: text, HTML and CSV."""

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
        mean, low, high = (_number(row.get(key)) for key in ("mean", "mean_low", "mean_high"))
        decimals = count_decimals([mean], [high / 2 - low / 2])
        decimals = 0 if row["type"] == "integer" else decimals
        levels = {
            name: _level(row.get(f"{name} {row['type']}" if dated else name), decimals, dated=dated)
            for name in self.levels
        }
        return {
            "column": legible(shortened(row["column"])),
            "type": row["type"],
            "count": _bracketed(row, "count"),
            "missing": _bracketed(row, "missing", percent=True) or "unknown",
            "mean": _bracketed(row, "mean", percent=row["type"] == "boolean"),
            "std": _bracketed(row, "std", percent=row["type"] == "boolean"),
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


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _bracketed(row: dict[str, Any], name: str, *, percent: bool = False) -> str:
    """Return a number with its interval in brackets, or nothing if it is unknown."""
    value, low, high = (_number(row.get(key)) for key in (name, f"{name}_low", f"{name}_high"))
    half = high / 2 - low / 2
    if math.isnan(value) or not math.isfinite(half):
        return "" if math.isnan(value) else figure(value, percent=percent)
    written = writer([value], [half], percent=percent)
    return f"{written(value)} [{written(low)}, {written(high)}]"


def _level(value: Any, decimals: int | None, *, dated: bool) -> str:
    if value is None:
        return "unknown" if dated else ""
    if dated:
        return str(value)
    return "unknown" if math.isnan(value) else figure(value, decimals)
