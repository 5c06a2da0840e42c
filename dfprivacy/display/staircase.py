"""What datasets have spent over time, as a drawing of steps: inline SVG, of bounded size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dfprivacy.display.markup import Markup, element

MOST_LINES = 6
MOST_STEPS = 240

_TICKS = 4
_TOPS = (0.001, 0.01, 0.02, 0.04, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Staircase:
    """One dataset: when it was charged (seconds), and the part of its budget spent by then."""

    name: str
    times: tuple[float, ...]
    parts: tuple[float, ...]

    def thinned(self, start: float, end: float) -> Staircase:
        """Return at most `MOST_STEPS` steps: the last one of each stretch of time.

        >>> stairs = Staircase("x", tuple(range(5000)), tuple(i / 5000 for i in range(5000)))
        >>> thin = stairs.thinned(0, 4999)
        >>> len(thin.times), thin.parts[-1] == stairs.parts[-1]
        (240, True)
        """
        width = max(end - start, 1e-9) / MOST_STEPS
        last = {
            min(int((time - start) / width), MOST_STEPS - 1): place
            for place, time in enumerate(self.times)
        }
        places = sorted(last.values())
        return Staircase(
            self.name, tuple(self.times[i] for i in places), tuple(self.parts[i] for i in places)
        )


@dataclass(frozen=True)
class Frame:
    """The size of a drawing in pixels, and the stretch of time that it shows."""

    width: int
    height: int
    start: float
    end: float
    highest: float

    left, right, top, bottom = 56, 14, 10, 30

    def x(self, time: float) -> float:
        """Return where a time lies."""
        part = 0.5 if self.end <= self.start else (time - self.start) / (self.end - self.start)
        return round(self.left + part * (self.width - self.left - self.right), 1)

    def y(self, part: float) -> float:
        """Return where a part of the budget lies, from 0 to 1."""
        room = self.height - self.top - self.bottom
        return round(self.height - self.bottom - part / self.highest * room, 1)


def staircases(stairs: Sequence[Staircase], width: int, height: int, class_: str) -> Markup:
    """Return the drawing of up to `MOST_LINES` datasets."""
    times = [time for own in stairs for time in own.times]
    most = max(part for own in stairs for part in own.parts)
    frame = Frame(width, height, min(times), max(times), highest(most))
    lines = [
        element(
            "path", d=_path(own.thinned(frame.start, frame.end), frame), class_=f"line c{place}"
        )
        for place, own in enumerate(stairs[:MOST_LINES])
    ]
    return element(
        "svg", *_grid(frame), *lines, viewBox=f"0 0 {width} {height}", class_=class_, role="img",
        aria_label="Part of each budget that is spent, over time",
    )  # fmt: skip


def highest(most: float) -> float:
    """Return how far up a drawing goes, so that small parts of a budget can be seen.

    >>> highest(0.07), highest(0.9)
    (0.1, 1.0)
    """
    return next((top for top in _TOPS if most <= top), 1.0)


def _path(stairs: Staircase, frame: Frame) -> str:
    steps = [
        f"H{frame.x(time)}V{frame.y(part)}"
        for time, part in zip(stairs.times, stairs.parts, strict=True)
    ]
    return "".join([f"M{frame.x(stairs.times[0])} {frame.y(0)}", *steps, f"H{frame.x(frame.end)}"])


def _grid(frame: Frame) -> list[Markup]:
    marks = []
    for step in range(_TICKS + 1):
        part = frame.highest * step / _TICKS
        y = frame.y(part)
        marks += [
            element("path", d=f"M{frame.left} {y}H{frame.width - frame.right}", class_="grid"),
            element("text", f"{100 * part:.4g} %", x=frame.left - 6, y=y + 4, class_="end"),
        ]
    return [*marks, *_times(frame)]


def _times(frame: Frame) -> list[Markup]:
    """Return the times under the drawing: fewer where there is no room for more."""
    span = frame.end - frame.start
    form = "%Y-%m-%d" if span > 3 * 86_400 else "%m-%d %H:%M" if span > 600 else "%H:%M:%S"
    count = min(_TICKS, max(1, (frame.width - 60) // 130)) if span else 0
    places = [frame.start + span * i / count for i in range(count + 1)] if count else [frame.start]
    marks = []
    for place, time in enumerate(places):
        words = f"{datetime.fromtimestamp(math.floor(time), UTC):{form}}"
        edge = "" if not count else "start" if place == 0 else "end" if place == count else ""
        marks.append(
            element("text", words, x=frame.x(time), y=frame.height - 9, class_=edge or "middle")
        )
    return marks
