"""Charts as altair draws them and as files: Vega-Lite data with field names of our own.

Text from users is a title or a value, never the name of a field or a part of an expression.
"""

from __future__ import annotations

import importlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dfprivacy.errors import PictureError
from dfprivacy.viz.text import (
    MeasuredIn,
    chart_text,
    covered,
    left_out,
    rendered,
    trusted,
    unique_texts,
    with_unit,
)
from dfprivacy.whole_files import put_whole

Spec = dict[str, Any]

MOST_DOTS = 40
MOST_COORDINATES = 2000
WIDTH = 480
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that people with any colour vision can tell apart; the first two differ in grey too."""

_VIRIDIS = {"scheme": "viridis"}
_BLUE, _INK, _GREY = OKABE_ITO[0], "#1a1a1a", "#595959"
_ROW = 22  # pixels a group
_NAME = "dfprivacy"


def theme() -> Spec:
    """Return the look of our charts: no text below 11 pixels, no red against green.

    >>> theme()["axis"]["labelFontSize"]
    12
    """
    text = {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12, "titleFontSize": 12}
    return {
        "background": "white",
        "font": "Liberation Sans, Arial, Helvetica, sans-serif",
        "padding": 12,
        "view": {"stroke": None},
        "title": {
            "anchor": "start", "frame": "group", "fontSize": 15, "color": _INK, "offset": 12,
            "subtitleFontSize": 12, "subtitleColor": _GREY, "subtitlePadding": 4,
            "subtitleLineHeight": 16,
        },
        "axis": {
            **text, "titleFontWeight": "normal", "titlePadding": 8, "labelLimit": 220,
            "labelFlush": False, "labelOverlap": True, "labelSeparation": 8,
            "gridColor": "#e3e3e3", "domainColor": _GREY, "tickColor": _GREY,
        },
        "header": {**text, "labelFontWeight": "bold", "labelLimit": 200},
        "legend": {**text},
        "text": {"fontSize": 12, "color": _INK},
        "range": {"category": list(OKABE_ITO), "ramp": _VIRIDIS, "heatmap": _VIRIDIS},
    }  # fmt: skip


def chart_of(spec: Spec) -> Any:
    """Return a specification as an altair chart in our theme.

    Raises
    ------
    PictureError
        When altair is not installed.
    """
    altair = _library("altair")
    if _NAME not in altair.theme.names():
        altair.theme.register(_NAME, enable=False)(lambda: {"config": theme()})
    return altair.Chart.from_dict({**spec, "config": theme()})


def _library(name: str) -> Any:
    """Return a library of the extra `plot`."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise PictureError(
            f"charts need {name}, which is not installed", hint="pip install 'dfprivacy[plot]'"
        ) from None


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
    """Return a chart with one line for each dot: its value and the bar of its interval."""
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
    mark = {"type": "rule", "strokeWidth": 5, "opacity": 0.4, "color": _BLUE}
    return {"mark": mark, "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}}}


def _points(x: Spec) -> Spec:
    mark = {"type": "point", "filled": True, "size": 55, "opacity": 1, "color": _BLUE}
    return {"mark": mark, "encoding": {"x": {"field": "value", **x}}}


def _have_ends(dots: Sequence[Dot]) -> bool:
    return any(dot.ends is not None for dot in dots)


def _tooltip(dots: Sequence[Dot]) -> list[Spec]:
    fields = ["value", *(["low", "high"] if _have_ends(dots) else [])]
    fields += ["count"] if any(dot.count is not None for dot in dots) else []
    shown = [{"field": "label", "type": "nominal", "title": "group"}]
    return [*shown, *({"field": name, "type": "quantitative"} for name in fields)]


def bins_panel(title: str) -> Spec:
    """Return the bars of a histogram, each with the bar of its interval."""
    x: Spec = {"type": "quantitative", "title": title, "scale": {"zero": False, "nice": False}}
    y: Spec = {"type": "quantitative", "title": "noisy count (values)"}
    bar = {
        "mark": {"type": "bar", "color": _BLUE, "opacity": 0.55, "stroke": "white"},
        "encoding": {
            "x": {"field": "lower", **x}, "x2": {"field": "upper"},
            "y": {"field": "count", **y}, "y2": {"datum": 0},
        },
    }  # fmt: skip
    rule = {
        "mark": {"type": "rule", "color": _INK, "strokeWidth": 1.5},
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
        "mark": {"type": "text", "dy": -11, "fontSize": 12, "color": _INK},
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
    """Return a small panel for each group, in their order, all with the same axes."""
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
        "mark": {"type": "area", "color": _BLUE, "opacity": 0.3},
        "encoding": {"x": x, "y": {"field": "low", **y}, "y2": {"field": "high"}},
    }
    line = {
        "mark": {"type": "line", "color": _BLUE, "strokeWidth": 1.5},
        "encoding": {"x": x, "y": {"field": "value", **y}},
    }
    return {"data": {"values": drawn}, "width": 640, "height": 240, "layer": [band, line]}


def titled(spec: Spec, title: str, lines: Sequence[str]) -> Spec:
    """Return a whole chart under its title and captions."""
    text = chart_text(title) if title else ""
    return {**spec, "title": {"text": text, "subtitle": [chart_text(line) for line in lines]}}


def unique(dots: Sequence[Dot]) -> list[Dot]:
    """Return dots with distinct labels: dots with equal labels would share a line."""
    names = unique_texts([dot.label for dot in dots])
    return [replace(dot, label=name) for name, dot in zip(names, dots, strict=True)]


def vector_chart(
    dots: Sequence[Dot], name: str, cost: str, level: float | None, measured_in: MeasuredIn
) -> Any:
    """Return a chart of the coordinates of a mean: dots with bars, or a line if they are many."""
    shown, few = dots[:MOST_COORDINATES], len(dots) <= MOST_DOTS
    axis = with_unit("mean of each coordinate", measured_in)
    panel = dots_panel(unique(shown), axis, "coordinate") if few else band_panel(shown, axis)
    meaning = covered(level) if few else covered(level, "The band covers")
    lines = [cost, meaning, *left_out(len(shown), len(dots), "coordinates")]
    return chart_of(titled(panel, name, lines))


def save_plot(chart: Any, path: str | os.PathLike[str]) -> Path:
    """Write a chart to a file that ends in .png, .svg or .html, and return its path.

    Nothing is fetched, now or when the file is opened: an HTML page holds the script that draws
    it, and a policy under which a browser loads nothing. The file is written wholly or not at all.

    >>> import dfprivacy as dfp, polars as pl, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> count = pl.DataFrame({"delay": range(100)}).dp.count()
    >>> dfp.save_plot(count.plot(), folder.name + "/count.svg").name
    'count.svg'
    >>> folder.cleanup()

    Raises
    ------
    PictureError
        For another ending, a path that can't be written, or when vl-convert is not installed:
        pip install 'dfprivacy[plot]'.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in {".png", ".svg", ".html"}:
        raise PictureError(
            f"a chart can't be written to a file that ends in {target.suffix!r}",
            hint="name a file that ends in .png, .svg or .html",
        )
    spec, convert = chart.to_dict(), _library("vl_convert")
    if ending == ".png":
        return write_whole(target, bytes(convert.vegalite_to_png(spec, scale=2)))
    page = str(convert.vegalite_to_svg(spec)) if ending == ".svg" else _page(spec, convert)
    return write_whole(target, page.encode())


def _page(spec: Spec, convert: Any) -> str:
    """Return a page with a chart; no "<" of its text can be read as markup."""
    actions = {"export": True, "source": False, "compiled": False, "editor": False}
    written = json.dumps([spec, {"actions": actions}], ensure_ascii=True).replace("<", "\\u003c")
    run = f"const [spec, options] = {written}; vegaEmbed('#chart', spec, options);"
    title = spec.get("title", {})
    name = title.get("text", "chart") if isinstance(title, dict) else title
    script = trusted(f"{convert.javascript_bundle()}\n{run}")
    return rendered("chart.html", title=name, script=script)


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file wholly or not at all, and return its path.

    Raises
    ------
    PictureError
        When the operating system does not let us write there.
    """
    try:
        put_whole(path, lambda whole: whole.write_bytes(content))
    except OSError as error:
        raise PictureError(
            f"{str(path)!r} could not be written: {error.strerror}",
            hint="choose a directory in which you may write",
        ) from None
    return path
