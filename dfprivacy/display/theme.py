"""How charts look: readable in print and by the colour-blind, no text below 11 points."""

from __future__ import annotations

from typing import Any

NAME = "dfprivacy"

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colours that all kinds of colour vision tell apart, and a grey printer too for the first two."""

VIRIDIS = {"scheme": "viridis"}
BLUE, INK, GREY = OKABE_ITO[0], "#1a1a1a", "#595959"
WIDTH = 480


def theme() -> dict[str, Any]:
    """Return the configuration of a chart, as Vega-Lite spells it.

    >>> theme()["axis"]["labelFontSize"]
    12
    """
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12}
    return {
        "background": "white",
        "font": "Liberation Sans, Arial, Helvetica, sans-serif",
        "padding": 12,
        "view": {"stroke": None},
        "title": {
            "anchor": "start", "frame": "group", "fontSize": 15, "color": INK, "offset": 12,
            "subtitleFontSize": 12, "subtitleColor": GREY, "subtitlePadding": 4,
            "subtitleLineHeight": 16,
        },
        "axis": {
            **text, "titleFontWeight": "normal", "titlePadding": 8, "labelLimit": 220,
            "labelFlush": False, "labelOverlap": True, "labelSeparation": 8,
            "gridColor": "#e3e3e3", "domainColor": GREY, "tickColor": GREY,
        },
        "header": {**text, "labelFontWeight": "bold", "labelLimit": 200},
        "legend": {**text},
        "text": {"fontSize": 12, "color": INK},
        "range": {"category": list(OKABE_ITO), "ramp": VIRIDIS, "heatmap": VIRIDIS},
    }  # fmt: skip
