"""Show a released number: on one line, as HTML in a notebook, and as a chart."""

from __future__ import annotations

import datetime as dt
import io
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN
from itertools import repeat, zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from dfprivacy.engine.returning import write_csv, write_texts
from dfprivacy.errors import PictureError
from dfprivacy.frames.viz.charts import (
    MOST_DOTS,
    Domain,
    Dot,
    build_chart,
    dots_panel,
    find_span,
    write_chart,
    write_whole,
)
from dfprivacy.frames.viz.text import (
    MeasuredIn,
    explain_intervals,
    left_out,
    list_unanswered,
    render,
    trust,
    with_unit,
)
from dfprivacy.release.plan import NOTE, POPULATION

_WIDTH, _EDGE = 140, 5  # pixels of an interval bar, and room for half a dot


def place_bar(dot: Dot, domain: Domain) -> list[float]:
    """Return where a value and its ends lie in a bar, in pixels. Infinity lies at the edge.

    >>> place_bar(Dot("a", 2.0, (1.0, float("inf"))), (1.0, 3.0))
    [70.0, 5.0, 135.0]
    """
    low, size = domain[0] / 2, domain[1] / 2 - domain[0] / 2  # halves: no difference overflows
    numbers = [dot.value, *(dot.ends or ())] if math.isfinite(dot.value) else []
    parts = (min(max((number / 2 - low) / size, 0.0), 1.0) if size else 0.5 for number in numbers)
    return [round(_EDGE + part * (_WIDTH - 2 * _EDGE), 1) for part in parts]


@dataclass(frozen=True)
class Reading(Dot):
    """The displayed parts of a number: its name, value, interval with its level, and cost.

    `tail` and `note` are always shown, `law` (of the noise) in HTML only. `moment` writes numbers
    that stand for dates or times.

    >>> Reading("delay", 5.25, ends=(5.0, 5.5), cost="epsilon=1", level=0.95).line
    'delay 5.25 [5.00, 5.50] at 95%, epsilon=1'
    """

    cost: str = ""
    level: float | None = None
    tail: str = ""
    law: str = ""
    note: str | None = None
    moment: Callable[[float], str] | None = None
    question: str = ""

    @property
    def interval(self) -> str:
        """The interval and its level in words. Empty without one, or if nothing is known."""
        level = "" if self.level is None else f" at {100 * self.level:.6g}%"
        of = " of the population" if POPULATION in self.question else ""
        ends = super().interval
        return f"{ends}{level}{of}" if ends else ""

    @property
    def line(self) -> str:
        """All facts but the law of the noise, on one line."""
        number = " ".join(part for part in (self.name, self.shown, self.interval) if part)
        return ", ".join(part for part in (number, self.cost, self.tail, self.note) if part)

    def write(self, number: float, rounding: str = ROUND_HALF_EVEN) -> str:
        """Return the value or an end in words; a date or time as it is."""
        return self.moment(number) if self.moment else super().write(number, rounding)

    @property
    def footnote(self) -> str:
        """The cost and the noise."""
        return ", ".join(part for part in (self.cost, self.tail, self.law, self.note) if part)

    @property
    def bar(self) -> list[float]:
        """The bar of its interval: nothing for dates, times and what has none."""
        return place_bar(self, find_span([self])) if self.ends and not self.moment else []


@dataclass(frozen=True)
class Column:
    """A column of a table: head, texts (sentences wrap), and the dots whose bars are drawn."""

    head: str
    texts: Sequence[str]
    numeric: bool = True
    dots: Sequence[Dot] = ()
    wraps: bool = False

    @property
    def bars(self) -> list[list[float]]:
        """The bars of its dots, over one part of the number line."""
        span = find_span(self.dots)
        return [place_bar(dot, span) for dot in self.dots]


@dataclass(frozen=True, repr=False)
class Shown:
    """The display of a release as text and HTML. It writes itself to files.

    It consists of `readings`, or of a table of `columns` under its heading and over its captions.
    `written` is the table for .csv files. `draw` returns the chart with more captions.
    """

    written: pa.Table
    draw: Callable[[Sequence[str]], Any]
    columns: Sequence[Column] = ()
    heading: Sequence[str] = ()
    captions: Sequence[str] = ()
    readings: Sequence[Reading] = ()

    def __repr__(self) -> str:
        padded = []
        for column in self.columns:
            texts = [column.head, *column.texts]
            width = max(map(len, texts))
            padded.append([t.rjust(width) if column.numeric else t.ljust(width) for t in texts])
        lines = [reading.line for reading in self.readings]
        lines += ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]
        return "\n".join([*self.heading, *lines, *self.captions])

    def _repr_html_(self) -> str:
        if self.readings:
            return render("cards.html", readings=self.readings)
        cells = (
            zip_longest(repeat(column, len(column.texts)), column.texts, column.bars)
            for column in self.columns
        )
        return render("frame.html", view=self, rows=zip(*cells, strict=True))

    def _sheet(self, ending: str) -> bytes:
        """Return the numbers as a file of this ending, which reads back as they are."""
        sink = io.BytesIO()
        if ending == ".csv":
            write_csv(self.written, sink)
            return sink.getvalue()
        if ending == ".parquet":
            import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

            pq.write_table(self.written, sink)
            return sink.getvalue()
        frame = write_texts(self.written).to_pandas()
        zoned = frame.select_dtypes("datetimetz").columns  # Excel has no zones
        try:
            frame.astype(dict.fromkeys(zoned, str)).to_excel(sink, index=False)
        except ImportError:
            raise PictureError(
                "an Excel file needs openpyxl, which is not installed",
                hint="pip install 'dfprivacy[plot]'",
            ) from None
        return sink.getvalue()

    def to_html(self) -> str:
        """Return it as a page of its own, which loads nothing: the cost and today's date below."""
        body = trust(self._repr_html_())
        return render("page.html", title="Private release", body=body, footer=_written())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file, and return its path: .html, .csv, .parquet, .xlsx, .png or .svg.

        A page and the caption of a chart have the cost and the date of writing; .csv, .parquet and
        .xlsx have the numbers and notes alone. The file is written wholly or not at all. Charts
        (.png, .svg) and .xlsx need the extra `plot`.
        """
        target = Path(path)
        ending = target.suffix.lower()
        if ending == ".html":
            return write_whole(target, self.to_html().encode())
        if ending in {".csv", ".parquet", ".xlsx"}:
            return write_whole(target, self._sheet(ending))
        if ending in {".png", ".svg"}:
            return write_chart(self.draw([_written()]), target)
        raise PictureError(
            f"a release can't be written to a file that ends in {target.suffix!r}",
            hint="name a file that ends in .html, .csv, .parquet, .xlsx, .png or .svg",
        )


def _written() -> str:
    return f"Written on {dt.datetime.now(dt.UTC).date().isoformat()}."


def show_readings(readings: Sequence[Reading], measured_in: MeasuredIn) -> Shown:
    """Return released numbers, one under the other; .csv has name, value, low, high and note."""
    are_plain, rows = not any(reading.moment for reading in readings), []
    for reading in readings:
        numbers = [reading.value, *(reading.ends or (None, None))]
        if not are_plain:
            write = reading.moment or str
            numbers = [None if number is None else write(number) for number in numbers]
        rows.append((reading.name, *numbers, reading.note))
    names = ("name", "value", "low", "high", NOTE)
    return Shown(
        pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))),
        lambda more: readings_chart(readings, measured_in, more, separate=True),
        readings=tuple(readings),
    )


def readings_chart(
    readings: Sequence[Reading],
    measured_in: MeasuredIn,
    more: Sequence[str] = (),
    *,
    separate: bool = False,
) -> Any:
    """Return a chart of numbers of one column on one axis, or of several with an axis each."""
    if any(reading.moment for reading in readings):
        raise PictureError(
            "a single date or time has no chart", hint="dfp.show(answer), or str(answer)"
        )
    shown = readings[:MOST_DOTS]
    name = shown[0].name
    costs = dict.fromkeys(", ".join(p for p in (r.cost, r.tail) if p) for r in shown)
    bars = {explain_intervals(r.level, r.question) for r in shown if r.ends is not None}
    lines = [*costs, *sorted(bars), *(f"{r.name}: {r.note}" for r in shown if r.note)]
    lines += left_out(len(shown), len(readings), "numbers")
    lines += [*list_unanswered(sum(not reading.is_finite for reading in shown)), *more]
    alone = len(shown) == 1 and not separate
    axis = with_unit(name if alone else "value", measured_in, answer=name)
    parts = [(shown, axis)]
    if separate:
        parts = [([reading], with_unit(reading.name, measured_in)) for reading in shown]
    has_labels = not alone and not separate
    panels = [dots_panel(d, title, "", labels=has_labels, texts=True) for d, title in parts]
    return build_chart(panels, name if alone else "released numbers", lines)


class Readable:
    """A number that is shown as a reading."""

    def reading(self) -> Reading:
        """Return the displayed parts of the number."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.reading().line

    def _repr_html_(self) -> str:
        return render("cards.html", readings=[self.reading()])

    def plot(self, *, measured_in: MeasuredIn = None) -> Any:
        """Return a chart of the number and its interval (an altair chart).

        `measured_in` names the unit of the column for the axis, e.g. `"minutes"`. It costs
        nothing: the chart shows released numbers. It needs altair: pip install 'dfprivacy[plot]'.
        """
        return readings_chart([self.reading()], measured_in)
