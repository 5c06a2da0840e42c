"""Draw charts with altair, and write them to files: Vega-Lite data with field names of our own.

Text from users is a title or a value, never the name of a field or a part of an expression.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dfprivacy.engine.files import put_whole
from dfprivacy.errors import PictureError
from dfprivacy.frames.viz.text import (
    MeasuredIn,
    chart_text,
    explain_intervals,
    left_out,
    render,
    trust,
    unique_texts,
    with_unit,
    write_ends,
    writer,
)

Spec = dict[str, Any]

MOST_DOTS = 40
MOST_COORDINATES = 2000
MOST_POINTS = 120
WIDTH = 480
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colors that people with any color vision can distinguish. The first two differ in gray too."""

_BLUE, _INK, _GREY, _GRID = OKABE_ITO[0], "#1a1a1a", "#595959", "#e3e3e3"
_ROW = 22  # pixels a group


def theme() -> Spec:
    """Return the look of our charts: no text below 11 pixels, no red against green.

    >>> theme()["axis"]["labelFontSize"]
    12
    """
    text = {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12, "titleFontSize": 12}
    subtitle = {"offset": 10, "subtitleFontSize": 12, "subtitleColor": _GREY}
    subtitle |= {"subtitleLineHeight": 16}
    lines = {"gridColor": _GRID, "domainColor": _GREY, "tickColor": _GREY}
    labels = {"labelLimit": 220, "labelFlush": False, "labelOverlap": True, "labelSeparation": 8}
    return {
        "background": "white",
        "font": "Liberation Sans, Arial, Helvetica, sans-serif",
        "padding": 12,
        "view": {"stroke": None},
        "title": {"anchor": "start", "frame": "group", "fontSize": 15, "color": _INK, **subtitle},
        "axis": {**text, **lines, **labels, "titleFontWeight": "normal"},
        "header": {**text, "labelFontWeight": "bold", "labelLimit": 200},
        "legend": {**text},
        "text": {"fontSize": 12, "color": _INK},
        "range": {"category": list(OKABE_ITO)},
    }


def build_chart(panels: Sequence[Any], title: str, lines: Sequence[str], stack: str = "v") -> Any:
    """Return panels as one altair chart in our theme, under its title and captions."""
    head = {"text": chart_text(title), "subtitle": [chart_text(line) for line in lines]}
    altair = _library("altair")
    concat = altair.vconcat if stack == "v" else altair.hconcat
    spec = (panels[0] if len(panels) == 1 else concat(*panels)).to_dict()
    chart = altair.Chart.from_dict({**spec, "title": head, "config": theme()})
    kind: Any = type(chart)
    object.__setattr__(chart, "__class__", _offline(kind))  # altair's own way sets a property
    return chart


@cache
def _offline(kind: Any) -> Any:
    """Return a class of altair whose charts need no network, unless the caller chose a renderer."""

    def bundle(self: Any, *args: Any, **options: Any) -> Any:
        chosen = _library("altair").renderers.active not in {"", "default"}
        if chosen or find_spec("vl_convert") is None:
            return kind._repr_mimebundle_(self, *args, **options)
        return {"text/html": svg_html(self.to_dict()), "text/plain": f"{kind.__name__}(...)"}

    class_: Any = type(kind.__name__, (kind,), {"_repr_mimebundle_": bundle})
    return class_


_AROUND = {_INK: "currentColor", _GREY: "currentColor", _GRID: "#80808059"}
"""Colors of a chart in a page that can be light or dark."""


def svg_html(spec: Spec) -> str:
    """Return a chart as HTML without a script, in the colors of the page around it."""
    svg = str(_library("vl_convert").vegalite_to_svg({**spec, "background": "transparent"}))
    for ink, around in _AROUND.items():
        svg = svg.replace(f'"{ink}"', f'"{around}"')
    start = '<svg style="max-width:max(100%,30rem);height:auto" '
    return f'<div style="overflow-x:auto">{svg.replace("<svg ", start, 1)}</div>'


def _library(name: str) -> Any:
    """Return a library of the extra `plot`."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise PictureError(
            f"charts need {name}, which is not installed", hint="pip install 'dfprivacy[plot]'"
        ) from None


Domain = tuple[float, float]  # the ends of a part of the number line


@dataclass(frozen=True)
class Dot:
    """One value, with its interval and the count behind it where they are known.

    A `percent` is written as one. An `amount` is at least 0 but for noise.
    """

    name: str
    value: float
    ends: Domain | None = None
    count: int | None = None
    percent: bool = False
    amount: bool = False

    @property
    def is_finite(self) -> bool:
        """True if the value and its ends are finite."""
        return all(map(math.isfinite, (self.value, *(self.ends or ()))))

    @property
    def error(self) -> float:
        """Half the width of its interval. 0 without one."""
        return 0.0 if self.ends is None else self.ends[1] / 2 - self.ends[0] / 2

    @property
    def is_unknown(self) -> bool:
        """True if the value is no number."""
        return isinstance(self.value, float) and math.isnan(self.value)

    def write(self, number: float, rounding: str = ROUND_HALF_EVEN) -> str:
        """Return the value or an end in words, with the digits that the noise leaves.

        Where one end is near and the other far away, they tell the near one, or a hundredth.
        """
        low, high = self.ends or (self.value, self.value)
        nearest, size, error = min(self.value - low, high - self.value), abs(self.value), self.error
        if 0 < 2 * nearest < size:
            error = min(error, max(10 * nearest, size / 5))
        numbers = [self.value, *(self.ends or ())]
        return writer(numbers, [error], percent=self.percent)(number, rounding=rounding)

    @property
    def shown(self) -> str:
        """The value in words; unknown if it is no number."""
        return "unknown" if self.is_unknown else self.write(self.value)

    @property
    def interval(self) -> str:
        """The interval in words, rounded outwards. Empty without one, or if nothing is known."""
        if self.ends is None or (self.is_unknown and not any(map(math.isfinite, self.ends))):
            return ""
        return f"[{', '.join(write_ends(self.ends, self.write))}]"


def find_span(dots: Iterable[Dot]) -> Domain:
    """Return the part of the number line that has all finite numbers of dots.

    >>> find_span([Dot("a", 3.0), Dot("b", 2.0, (1.0, float("inf")))])
    (1.0, 3.0)
    """
    numbers = [number for dot in dots for number in (dot.value, *(dot.ends or ()))]
    finite = [number for number in numbers if math.isfinite(number)] or [0.0]
    return min(finite), max(finite)


def fit_domain(dots: Sequence[Dot]) -> Domain | None:
    """Return the part of the axis to draw if the noise of few dots would stretch the axis.

    Those are dots of many times the usual noise. None where all fit.

    >>> usual = [Dot("a", 1.0, (0.5, 1.5)), Dot("b", 2.0, (1.5, 2.5)), Dot("c", 3.0, (2.5, 3.5))]
    >>> fit_domain(usual), fit_domain([*usual, Dot("tiny", 5.0, (-400.0, 400.0))])
    (None, (0.35, 3.65))
    """
    finite = [dot for dot in dots if dot.is_finite]
    errors = sorted(dot.error for dot in finite)
    if not errors or not errors[len(errors) // 2]:
        return None
    usual = find_span(dot for dot in finite if dot.error <= _UNUSUAL * errors[len(errors) // 2])
    every = find_span(finite)
    if every[1] - every[0] <= _STRETCHED * (usual[1] - usual[0]):
        return None
    room = (usual[1] - usual[0]) / 20
    low = usual[0] - room
    return min(low, 0.0) if _are_compared_amounts(finite) else low, usual[1] + room


_UNUSUAL, _STRETCHED, _NAMED = 8, 2, 3


def describe_beyond(dots: Sequence[Dot], domain: Domain | None) -> list[str]:
    """Return the line that names the dots that reach beyond the axis. No line if none does."""
    if domain is None:
        return []
    spans = [(chart_text(dot.name), find_span([dot])) for dot in dots if dot.is_finite]
    out = [name for name, (low, high) in spans if low < domain[0] or high > domain[1]]
    names = ", ".join(out) if len(out) <= _NAMED else f"{len(out):,} of {len(dots):,}"
    return [f"Beyond the axis, because the noise is far larger: {names}."]


def records(dots: Sequence[Dot], domain: Domain | None = None) -> list[dict[str, Any]]:
    """Return the rows of data behind dots, numbers in words among them."""
    errors = [dot.error for dot in dots]
    written = writer([dot.value for dot in dots], errors, percent=_are_shares(dots))
    rows = []
    for dot in dots:
        record: dict[str, Any] = {"label": chart_text(dot.name), "value": dot.value}
        record["shape"] = "circle"
        if domain is not None and not domain[0] <= dot.value <= domain[1]:
            record["shape"] = "triangle-left" if dot.value < domain[0] else "triangle-right"
        record["written"] = written(dot.value)
        if dot.ends is not None:
            record |= {"low": dot.ends[0], "high": dot.ends[1]}
            record["interval"] = " to ".join(write_ends(dot.ends, written))
        rows.append(record if dot.count is None else {**record, "count": dot.count})
    return rows


def _are_shares(dots: Sequence[Dot]) -> bool:
    return bool(dots) and all(dot.percent for dot in dots)


def _are_compared_amounts(dots: Sequence[Dot]) -> bool:
    return len(dots) > 1 and all(dot.amount for dot in dots)


def _scale(dots: Sequence[Dot], domain: Domain | None) -> Spec:
    """Return the scale of an axis: that of several amounts starts at 0, as they are compared."""
    if domain is None and _are_compared_amounts(dots):
        return {"zero": True, "nice": True}
    if domain is None:
        return {"zero": False, "nice": True, "padding": 6}
    return {"zero": False, "nice": False, "domain": list(domain), "clamp": True}


def dots_panel(
    dots: Sequence[Dot],
    title: str,
    rows: str,
    *,
    labels: bool = True,
    texts: bool = False,
    domain: Domain | None = None,
    width: int = WIDTH,
) -> Any:
    """Return a chart with one line for each dot: its value, its interval, perhaps its text."""
    alt = _library("altair")
    names = unique_texts([chart_text(dot.name) for dot in dots])  # dots of one would share a line
    dots = [replace(dot, name=name) for name, dot in zip(names, dots, strict=True)]
    finite = [dot for dot in dots if dot.is_finite]
    axis: Spec = {"tickCount": 7} | ({"format": "~%"} if _are_shares(dots) else {})
    if texts and len(finite) == 1 and not _have_ends(finite):  # no scale
        axis = {"labels": False, "ticks": False, "grid": False}
    x = {"title": title, "axis": axis, "scale": _scale(finite, domain)}
    y = alt.Y("label:N", sort=None, title=chart_text(rows) if rows and labels else None)
    y = y.scale(domain=names).axis(
        grid=False, ticks=False, domain=False, labels=labels, labelPadding=10
    )
    base = alt.Chart(alt.Data(values=records(finite, domain)))
    base = base.encode(y, alt.X("value:Q", **x), tooltip=_tooltip(finite))
    points = base.mark_point(filled=True, size=55, opacity=1, color=_BLUE)
    layers = [points.encode(alt.Shape("shape:N", scale=None))]
    if _have_ends(finite):
        bars = base.mark_rule(strokeWidth=5, opacity=0.4, color=_BLUE)
        layers.insert(0, bars.encode(alt.X("low:Q", **x), alt.X2("high:Q")))
    if texts:
        layers.append(base.mark_text(dy=-11, fontSize=12, color=_INK).encode(text="written:N"))
    step = 2 * _ROW - 8 if texts else _ROW
    return alt.layer(*layers).properties(width=width, height=alt.Step(step))


def _have_ends(dots: Sequence[Dot]) -> bool:
    return any(dot.ends is not None for dot in dots)


def _tooltip(dots: Sequence[Dot], *, first: str = "group") -> list[Any]:
    alt = _library("altair")
    fields = {"label": first, "written": "value"}
    fields |= {"interval": "interval"} if _have_ends(dots) else {}
    shown = [alt.Tooltip(f"{field}:N", title=title) for field, title in fields.items()]
    has_counts = any(dot.count is not None for dot in dots)
    return [*shown, alt.Tooltip("count:Q", format=",")] if has_counts else shown


def bins_panel(values: Sequence[Spec], title: str, groups: Sequence[str]) -> Any:
    """Return the bars of a histogram with their intervals, in a small panel for each group.

    The area of a bar is its count: bars of unequal width are as high as their count by width.
    """
    alt = _library("altair")
    widths = [bar["upper"] - bar["lower"] for bar in values]
    heights = ("count", "low", "high")
    is_even = not widths or math.isclose(min(widths), max(widths), rel_tol=1e-6)
    values = [
        {**bar, **{f"{end}_height": bar[end] / (1 if is_even else width) for end in heights}}
        for bar, width in zip(values, widths, strict=True)
    ]
    x = {"title": title, "scale": {"zero": False, "nice": False}}
    by_width = "" if is_even else " / width of bin"
    y = {"title": f"noisy count (values){by_width}", "scale": {"nice": False}}
    tooltip = [f"{name}:Q" for name in ("lower", "upper", "count", "low", "high")]
    base = alt.Chart().encode(tooltip=tooltip)
    bars = base.mark_bar(color=_BLUE, opacity=0.55, stroke=_BLUE, strokeWidth=0.5).encode(
        alt.X("lower:Q", **x), alt.X2("upper:Q"), alt.Y("count_height:Q", **y), alt.Y2Datum(0)
    )
    rules = base.mark_rule(color=_INK, strokeWidth=1.5).encode(
        alt.X("middle:Q", **x), alt.Y("low_height:Q", **y), alt.Y2("high_height:Q")
    )
    panel = alt.layer(bars, rules, data=alt.Data(values=list(values)))
    if not groups:
        return panel.properties(width=WIDTH, height=240)
    facet = alt.Facet("group:N", sort=list(groups), header=alt.Header(title=None))
    return panel.properties(width=190, height=130).facet(facet, columns=3)


Line = Sequence[tuple[float | str, Dot]]
"""Dots in their order behind their places on an axis: numbers, or times as ISO 8601 texts."""


def band_panel(
    lines: Mapping[str, Line],
    title: str,
    across: str,
    *,
    legend: str = "",
    domain: Domain | None = None,
) -> Any:
    """Return ordered values as lines with bands. Few places of a line have a dot each.

    `legend` is the title of the names of several lines.
    """
    alt = _library("altair")
    dots = [dot for line in lines.values() for _, dot in line]
    values = [
        {**record, "place": position, "line": name}
        for name, line in lines.items()
        for record, (position, dot) in zip(records([dot for _, dot in line]), line, strict=True)
        if dot.is_finite
    ]
    places = sorted({position for line in lines.values() for position, _ in line})
    timed = any(isinstance(position, str) for position in places)
    x = alt.X(f"place:{'T' if timed else 'Q'}", title=chart_text(across))
    ticks: Spec = {"tickMinStep": 1}
    if timed:
        ticks = {"tickCount": 8}
    elif len(places) <= MOST_DOTS:
        ticks = {"values": places, "format": "~g"}
    x = x.scale(type="utc") if timed else x.scale(nice=False, zero=False)
    x = x.axis(**ticks, grid=False)
    y = {
        "title": title,
        "scale": _scale(dots, domain),
        "axis": {"format": "~%"} if _are_shares(dots) else {},
    }
    color = alt.ColorValue(_BLUE)
    if len(lines) > 1:
        color = alt.Color("line:N", title=chart_text(legend), sort=list(lines))
        color = color.legend(symbolOpacity=1)
    base = alt.Chart(alt.Data(values=values)).encode(x, color)
    longest = max(map(len, lines.values()))
    has_points = longest <= (MOST_POINTS if timed else MOST_DOTS)
    points = alt.OverlayMarkDef(size=22) if has_points else False
    line = base.mark_line(strokeWidth=1.5, point=points)
    layers = [line.encode(alt.Y("value:Q", **y), tooltip=_tooltip(dots, first=across))]
    if _have_ends(dots):
        band = base.mark_area(opacity=0.25).encode(alt.Y("low:Q", **y), alt.Y2("high:Q"))
        layers.insert(0, band)
    return alt.layer(*layers).properties(width=640, height=240)


def vector_chart(
    dots: Sequence[Dot], name: str, cost: str, level: float | None, measured_in: MeasuredIn
) -> Any:
    """Return a chart of the coordinates of a mean: dots with bars, or a line if they are many."""
    shown, is_short = dots[:MOST_COORDINATES], len(dots) <= MOST_DOTS
    axis = with_unit("mean of each coordinate", measured_in)
    panel = (
        dots_panel(shown, axis, "coordinate")
        if is_short
        else band_panel({name: list(enumerate(shown))}, axis, "coordinate")
    )
    lines = [cost, explain_intervals(level), *left_out(len(shown), len(dots), "coordinates")]
    return build_chart([panel], name, lines)


def write_chart(chart: Any, target: Path) -> Path:
    """Write a chart to a file that ends in .png, .svg or .html, and return its path."""
    ending = target.suffix.lower()
    if ending not in {".png", ".svg", ".html"}:
        raise PictureError(
            f"a chart can't be written to a file that ends in {target.suffix!r}",
            hint="name a file that ends in .png, .svg or .html",
        )
    spec, convert = chart.to_dict(), _library("vl_convert")
    if ending == ".png":
        return write_whole(target, bytes(convert.vegalite_to_png(spec, scale=2)))
    if ending == ".svg":
        return write_whole(target, str(convert.vegalite_to_svg(spec)).encode())
    title = spec.get("title", {})
    name = title.get("text", "chart") if isinstance(title, dict) else title
    page = render("page.html", title=name, body=trust(svg_html(spec)), footer="")
    return write_whole(target, page.encode())


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file wholly or not at all, and return its path."""
    try:
        put_whole(path, lambda temporary: temporary.write_bytes(content))
    except OSError as error:
        raise PictureError(
            f"{str(path)!r} could not be written: {error.strerror}",
            hint="choose a directory in which you may write",
        ) from None
    return path
