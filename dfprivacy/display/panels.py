"""Charts as Vega-Lite spells them: plain data, with field names of our own.

Text from users is a title or a value, never the name of a field or a part of an expression.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dfprivacy.display.theme import BLUE, INK, WIDTH
from dfprivacy.display.words import chart_text

Spec = dict[str, Any]

_ROW = 22  # pixels a group


@dataclass(frozen=True)
class Dot:
    """One value in a chart, with its interval and the count behind it where they are known."""

    label: str
    value: float
    ends: tuple[float, float] | None = None
    count: int | None = None

    @property
    def known(self) -> bool:
        """Tell whether there is anything to draw."""
        return all(map(math.isfinite, (self.value, *(self.ends or ()))))

    def record(self) -> dict[str, Any]:
        """Return the row of data behind the dot."""
        record: dict[str, Any] = {"label": self.label, "value": self.value}
        if self.ends is not None:
            record |= {"low": self.ends[0], "high": self.ends[1]}
        return record if self.count is None else {**record, "count": self.count}


def dots_panel(dots: Sequence[Dot], title: str, rows: str, *, labels: bool = True) -> Spec:
    """Return a chart with one line a dot: its value and the bar of its interval."""
    drawn = [dot for dot in dots if dot.known]
    axis: Spec = {"grid": False, "ticks": False, "domain": False, "labels": labels}
    y: Spec = {
        "field": "label", "type": "nominal", "sort": None, "axis": axis,
        "title": chart_text(rows) if rows and labels else None,
        "scale": {"domain": [dot.label for dot in dots]},
    }  # fmt: skip
    x: Spec = {"type": "quantitative", "title": title, "axis": {"tickCount": 7}}
    x["scale"] = {"zero": False, "nice": True, "padding": 6}
    return {
        "data": {"values": [dot.record() for dot in drawn]},
        "width": WIDTH,
        "height": {"step": _ROW},
        "encoding": {"y": y, "tooltip": _tooltip(drawn)},
        "layer": [_bars(x), _points(x)] if _have_ends(drawn) else [_points(x)],
    }


def _bars(x: Spec) -> Spec:
    mark = {"type": "rule", "strokeWidth": 5, "opacity": 0.4, "color": BLUE}
    return {"mark": mark, "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}}}


def _points(x: Spec) -> Spec:
    mark = {"type": "point", "filled": True, "size": 55, "opacity": 1, "color": BLUE}
    return {"mark": mark, "encoding": {"x": {"field": "value", **x}}}


def _have_ends(dots: Sequence[Dot]) -> bool:
    return any(dot.ends is not None for dot in dots)


def _tooltip(dots: Sequence[Dot]) -> list[Spec]:
    fields = ["value", *(["low", "high"] if _have_ends(dots) else [])]
    fields += ["count"] if any(dot.count is not None for dot in dots) else []
    shown = [{"field": "label", "type": "nominal", "title": "group"}]
    return [*shown, *({"field": name, "type": "quantitative"} for name in fields)]


@dataclass(frozen=True)
class Bin:
    """A bin of a histogram: its edges, its noisy count, and the interval of that."""

    group: str
    lower: float
    upper: float
    count: float
    ends: tuple[float, float]

    @property
    def known(self) -> bool:
        """Tell whether its edges could be found."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)

    def record(self) -> dict[str, Any]:
        """Return the row of data behind the bar."""
        middle = self.lower / 2 + self.upper / 2
        return {
            "group": self.group, "lower": self.lower, "upper": self.upper, "middle": middle,
            "count": self.count, "low": self.ends[0], "high": self.ends[1],
        }  # fmt: skip


def bins_panel(title: str) -> Spec:
    """Return the bars of a histogram, each with the bar of its interval."""
    x: Spec = {"type": "quantitative", "title": title, "scale": {"zero": False, "nice": False}}
    y: Spec = {"type": "quantitative", "title": "noisy count (values)"}
    bar = {
        "mark": {"type": "bar", "color": BLUE, "opacity": 0.55, "stroke": "white"},
        "encoding": {
            "x": {"field": "lower", **x}, "x2": {"field": "upper"},
            "y": {"field": "count", **y}, "y2": {"datum": 0},
        },
    }  # fmt: skip
    rule = {
        "mark": {"type": "rule", "color": INK, "strokeWidth": 1.5},
        "encoding": {
            "x": {"field": "middle", **x}, "y": {"field": "low", **y}, "y2": {"field": "high"},
        },
    }  # fmt: skip
    fields = ("lower", "upper", "count", "low", "high")
    tooltip = [{"field": name, "type": "quantitative"} for name in fields]
    return {"encoding": {"tooltip": tooltip}, "layer": [bar, rule]}


def labelled(panel: Spec) -> Spec:
    """Return a chart of dots with each value written over its dot."""
    text = {
        "mark": {"type": "text", "dy": -11, "fontSize": 12, "color": INK},
        "encoding": {
            "x": panel["layer"][-1]["encoding"]["x"],
            "text": {"field": "value", "type": "quantitative", "format": ".5~g"},
        },
    }
    layers = panel["layer"]
    if len(panel["data"]["values"]) == len(layers) == 1:  # one value and no interval: no scale
        axis = {"labels": False, "ticks": False, "grid": False}
        layers[0]["encoding"]["x"]["axis"] = axis
    return {**panel, "height": {"step": 2 * _ROW - 8}, "layer": [*layers, text]}


def faceted(panel: Spec, groups: Sequence[str]) -> Spec:
    """Return one small panel a group, in their order, all with the same axes."""
    header = {"title": None}
    facet = {"field": "group", "type": "nominal", "sort": list(groups), "header": header}
    return {"facet": facet, "columns": 3, "spec": {**panel, "width": 190, "height": 130}}


def band_panel(dots: Sequence[Dot], title: str) -> Spec:
    """Return many values in their order as a line, with the band of their intervals."""
    drawn = [{**dot.record(), "place": place} for place, dot in enumerate(dots) if dot.known]
    x: Spec = {"field": "place", "type": "quantitative", "title": "coordinate"}
    x["scale"] = {"nice": False, "zero": False}
    y: Spec = {"type": "quantitative", "title": title, "scale": {"zero": False}}
    band = {
        "mark": {"type": "area", "color": BLUE, "opacity": 0.3},
        "encoding": {"x": x, "y": {"field": "low", **y}, "y2": {"field": "high"}},
    }
    line = {
        "mark": {"type": "line", "color": BLUE, "strokeWidth": 1.5},
        "encoding": {"x": x, "y": {"field": "value", **y}},
    }
    return {"data": {"values": drawn}, "width": 640, "height": 240, "layer": [band, line]}


def titled(spec: Spec, title: str, lines: Sequence[str]) -> Spec:
    """Return a whole chart under its title and captions."""
    text = chart_text(title) if title else ""
    return {**spec, "title": {"text": text, "subtitle": [chart_text(line) for line in lines]}}
