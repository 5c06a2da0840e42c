"""An interval as a small drawing: a bar from its lower to its upper end, and a dot at the value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dfprivacy.display.markup import Markup, element

WIDTH, HEIGHT = 140, 12
_EDGE = 5  # room for half a dot


@dataclass(frozen=True)
class Span:
    """The part of the number line that a drawing shows."""

    start: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float]) -> Span:
        """Return the span of all finite values.

        >>> Span.around([3.0, float("inf"), 1.0])
        Span(start=1.0, end=3.0)
        """
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        return cls(min(finite), max(finite))

    def place(self, value: float) -> float:
        """Return where a value lies, from 0 to 1; infinity lies at the edge."""
        if math.isnan(value) or self.end <= self.start:
            return 0.5
        size = self.end / 2 - self.start / 2  # halves, so that no difference overflows
        return min(max((value / 2 - self.start / 2) / size, 0.0), 1.0)


def interval_bar(value: float, ends: tuple[float, float] | None, span: Span) -> Markup:
    """Return a value, and its interval if it has one, as inline SVG in the colour of the text."""
    if not math.isfinite(value):
        return Markup("")
    middle = HEIGHT / 2
    parts = [element("circle", cx=_x(value, span), cy=middle, r=3.5, fill="currentColor")]
    if ends is not None:
        low, high = (_x(end, span) for end in ends)
        bar = element(
            "line", x1=low, x2=high, y1=middle, y2=middle, stroke="currentColor",
            stroke_width=4, stroke_opacity=0.4,
        )  # fmt: skip
        parts.insert(0, bar)
    return element("svg", *parts, width=WIDTH, height=HEIGHT, aria_hidden="true")


def _x(value: float, span: Span) -> float:
    return round(_EDGE + span.place(value) * (WIDTH - 2 * _EDGE), 1)
