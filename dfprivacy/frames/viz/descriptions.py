"""Show a description of a frame: one row a column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dfprivacy.engine.columns import MOMENTS
from dfprivacy.errors import PictureError
from dfprivacy.frames.tables import Origin
from dfprivacy.frames.viz.charts import Dot
from dfprivacy.frames.viz.numbers import Column, Shown
from dfprivacy.frames.viz.text import (
    explain_intervals,
    figure,
    left_out,
    legible,
    shorten,
)

_ENDS = ("", "_low", "_high")
_HEAD = ["column", "type", *(f"{name}{end}" for name in ("count", "missing") for end in _ENDS)]
MOST_COLUMNS = 400
_ALWAYS = ("column", "type", "count", "missing")


def is_description(table: pa.Table) -> bool:
    """Check whether a released table describes columns."""
    return list(table.column_names[: len(_HEAD)]) == _HEAD


def show_description(origin: Origin, table: pa.Table) -> Shown:
    """Return a released description as a table without its empty columns; it has no chart."""
    rows = list(table.slice(0, MOST_COLUMNS).to_pylist())
    parts = (name.partition("% ") for name in table.column_names)
    names = dict.fromkeys(f"{level}{mark.strip()}" for level, mark, _ in parts)
    levels = [name for name in names if name.endswith("%")]
    texts = [_texts(row, levels) for row in rows]
    words = ("column", "type", "values")
    heads = [*_ALWAYS, "mean", "std", *levels, "values"]
    shown = [head for head in heads if head in _ALWAYS or any(row[head] for row in texts)]
    return Shown(
        table,
        _refuse_chart,
        [
            Column(head, [row[head] for row in texts], head not in words, wraps=head == "values")
            for head in shown
        ],
        [legible(shorten(origin.question))],
        [
            *(legible(f"{row['column']}: {row['note']}") for row in rows if row.get("note")),
            origin.cost,
            explain_intervals(origin.level, origin.question),
            *origin.remarks,
            "Quantiles are selected and have no interval.",
            *left_out(len(rows), table.num_rows, "columns"),
        ],
    )


def _refuse_chart(_: object) -> Any:
    raise PictureError("this has no chart", hint="dfp.show(released) is a table")


def _texts(row: dict[str, Any], levels: Sequence[str]) -> dict[str, str]:
    """Return the displayed texts of a described column by their heads."""
    dated = row["type"] in MOMENTS
    decimals = 0 if row["type"] == "integer" else None
    is_boolean = row["type"] == "boolean"
    quantiles = {
        name: _level(row.get(f"{name} {row['type']}" if dated else name), decimals, dated=dated)
        for name in levels
    }
    return {
        "column": legible(shorten(row["column"])),
        "type": row["type"],
        "count": _bracket_interval(row, "count"),
        "missing": _bracket_interval(row, "missing", percent=True) or "unknown",
        "mean": _bracket_interval(row, "mean", percent=is_boolean),
        "std": _bracket_interval(row, "std", percent=is_boolean),
        **quantiles,
        "values": legible(row.get("values") or ""),
    }


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _bracket_interval(row: dict[str, Any], name: str, *, percent: bool = False) -> str:
    """Return a number with its interval in brackets, or nothing if it is unknown."""
    value, low, high = (_number(row.get(key)) for key in (name, f"{name}_low", f"{name}_high"))
    dot = Dot(name, value, (low, high), percent=percent)
    shown = dot.shown if math.isfinite(dot.error) else figure(value, percent=percent)
    return "" if dot.is_unknown else f"{shown} {dot.interval if dot.is_finite else ''}".rstrip()


def _level(value: Any, decimals: int | None, *, dated: bool) -> str:
    if value is None:
        return "unknown" if dated else ""
    if dated:
        return str(value)
    return "unknown" if math.isnan(value) else figure(value, decimals)
