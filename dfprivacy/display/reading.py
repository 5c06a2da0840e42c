"""A released number as it is shown: on one line, in a notebook, in a picture."""

from __future__ import annotations

from dataclasses import dataclass

from dfprivacy.display.interval_bar import Span, interval_bar
from dfprivacy.display.markup import Markup, element, joined


@dataclass(frozen=True)
class Reading:
    """What is shown of a number: its name, value, interval with its level, and cost.

    `tail` is said on every occasion, `law` (of the noise) where there is room.

    >>> Reading("delay", 5.25, "epsilon=1", ends=(5.0, 5.5), level=0.95).line
    'delay 5.25 [5, 5.5] at 95%, epsilon=1'
    """

    name: str
    value: float
    cost: str
    ends: tuple[float, float] | None = None
    level: float | None = None
    tail: str = ""
    law: str = ""

    @property
    def interval(self) -> str:
        """The interval and its level in words; empty without one."""
        if self.ends is None:
            return ""
        level = "" if self.level is None else f" at {self.level:.0%}"
        return f"[{self.ends[0]:.6g}, {self.ends[1]:.6g}]{level}"

    @property
    def line(self) -> str:
        """All facts but the law of the noise, on one line."""
        number = " ".join(part for part in (self.name, f"{self.value:.6g}", self.interval) if part)
        return ", ".join(part for part in (number, self.cost, self.tail) if part)

    def card(self) -> Markup:
        """Return all facts as HTML that takes the colours of the page it is in."""
        bar = Markup("")
        if self.ends is not None:
            bar = joined(" ", interval_bar(self.value, self.ends, Span.around(self.ends)))
        about = ", ".join(part for part in (self.cost, self.tail, self.law) if part)
        return element(
            "div",
            element("b", self.name), f" {self.value:.6g} ",
            element("span", self.interval, style="opacity:.75"), bar,
            Markup("<br>"), element("small", about), style="margin:.3em 0",
        )  # fmt: skip
