"""Whole charts: a panel under a title that says what it cost and what its bars mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dfprivacy.display.chart import chart_of
from dfprivacy.display.panels import (
    Bin,
    Dot,
    Spec,
    band_panel,
    bins_panel,
    dots_panel,
    faceted,
    labelled,
    titled,
)
from dfprivacy.display.reading import Reading
from dfprivacy.display.theme import WIDTH
from dfprivacy.display.view import View, unique_texts
from dfprivacy.display.words import (
    MeasuredIn,
    bars,
    chart_text,
    left_out,
    shortened,
    unknown,
    with_unit,
)

MOST_DOTS = 40
MOST_FACETS = 12
MOST_COORDINATES = 2000


def readings_figure(readings: Sequence[Reading], measured_in: MeasuredIn) -> Any:
    """Return numbers of one column under each other, on one axis."""
    shown = readings[:MOST_DOTS]
    dots = [Dot(chart_text(r.name), r.value, r.ends) for r in shown]
    alone = len(dots) == 1
    title = shown[0].name if alone else "released numbers"
    axis = with_unit(shown[0].name if alone else "value", measured_in, answer=shown[0].name)
    panel = labelled(dots_panel(unique(dots), axis, "", labels=not alone))
    lines = [*_cost_lines(shown), *left_out(len(shown), len(readings), "numbers"), *_unknown(dots)]
    return chart_of(titled(panel, title, lines))


def separate_figure(readings: Sequence[Reading], measured_in: MeasuredIn) -> Any:
    """Return numbers of different columns or kinds under each other, each on its own axis."""
    shown = readings[:MOST_DOTS]
    panels = [
        labelled(dots_panel([Dot(chart_text(r.name), r.value, r.ends)],
                            with_unit(r.name, measured_in), "", labels=False))
        for r in shown
    ]  # fmt: skip
    lines = [*_cost_lines(shown), *left_out(len(shown), len(readings), "numbers")]
    return chart_of(titled({"vconcat": panels}, "released numbers", lines))


def _cost_lines(readings: Sequence[Reading]) -> list[str]:
    """Return the charges, each once, and what the bars mean."""
    costs = list(dict.fromkeys(", ".join(p for p in (r.cost, r.tail) if p) for r in readings))
    levels = {r.level for r in readings if r.ends is not None}
    return [*costs, *(bars(level) for level in sorted(levels, key=str))]


def _unknown(dots: Sequence[Dot]) -> list[str]:
    return unknown(sum(not dot.known for dot in dots))


def groups_figure(view: View, measured_in: MeasuredIn, order: str) -> Any:
    """Return the answers of each group; several answers stand side by side."""
    panels, missing = [], 0
    labels = [chart_text(label) for label in view.labels]
    for index, answer in enumerate(view.answers):
        dots = [
            Dot(label, *cell, count=count)
            for label, cell, count in zip(labels, answer.cells, view.counts, strict=True)
        ]
        missing += sum(not dot.known for dot in dots)
        axis = with_unit(answer.name, measured_in)
        panel = dots_panel(dots, axis, view.keys_title, labels=not index)
        panels.append({**panel, "width": WIDTH if len(view.answers) == 1 else 260})
    spec: Spec = panels[0] if len(panels) == 1 else {"hconcat": panels}
    ends = any(answer.has_ends for answer in view.answers)
    lines = [
        *_asked(view), view.cost, *([bars(view.level)] if ends else []),
        *left_out(len(labels), view.groups, "groups", order), *view.left_out,
        *unknown(missing),
    ]  # fmt: skip
    return chart_of(titled(spec, _title(view), lines))


def _asked(view: View) -> list[str]:
    return [shortened(view.title)] if view.title else []


def _title(view: View) -> str:
    names = ", ".join(answer.name for answer in view.answers)
    return f"{names} by {view.keys_title}" if view.keys_title else names


def histogram_figure(
    bins: Sequence[Bin], view: View, measured_in: MeasuredIn, groups: Sequence[str]
) -> Any:
    """Return the bars of a histogram, whole or one panel a group."""
    known, keys = [one for one in bins if one.known], bool(view.keys_title)
    panel = bins_panel(with_unit(view.title or "value", measured_in))
    spec: Spec = faceted(panel, groups) if keys else panel
    if not keys:
        spec |= {"width": WIDTH, "height": 240}
    spec |= {"data": {"values": [one.record() for one in known]}}
    lines = [
        view.cost, bars(view.level), *left_out(len(groups), view.groups, "groups"),
        *unknown(len(bins) - len(known)),
    ]  # fmt: skip
    title = f"histogram of {view.title}" if view.title else "histogram"
    return chart_of(titled(spec, f"{title} by {view.keys_title}" if keys else title, lines))


@dataclass(frozen=True)
class Caption:
    """What stands over a chart: its title, its cost and the level of its intervals."""

    title: str
    cost: str
    level: float | None


def vector_figure(dots: Sequence[Dot], caption: Caption, measured_in: MeasuredIn) -> Any:
    """Return the coordinates of a mean of vectors: dots with bars, or a line if they are many."""
    shown = dots[:MOST_COORDINATES]
    axis = with_unit("mean of each coordinate", measured_in)
    few = len(dots) <= MOST_DOTS
    panel = dots_panel(unique(shown), axis, "coordinate") if few else band_panel(shown, axis)
    meaning = bars(caption.level) if few else bars(caption.level).replace("bars", "band", 1)
    lines = [caption.cost, meaning, *left_out(len(shown), len(dots), "coordinates")]
    return chart_of(titled(panel, caption.title, lines))


def unique(dots: Sequence[Dot]) -> list[Dot]:
    """Return dots of which no two share a label, and with it a line."""
    names = unique_texts([dot.label for dot in dots])
    return [
        Dot(name, dot.value, dot.ends, dot.count) for name, dot in zip(names, dots, strict=True)
    ]
