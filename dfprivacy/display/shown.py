"""Releases as tables to be looked at: the same facts as plain text and as HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dfprivacy.display.interval_bar import Span, interval_bar
from dfprivacy.display.markup import Markup, element, joined, legible
from dfprivacy.display.reading import Reading
from dfprivacy.display.view import Cell, Series, View
from dfprivacy.display.words import bars, left_out, shortened

_LINE = "border-bottom:1px solid rgba(128,128,128,.4);padding:.2em .7em;"
_TEXT, _NUMBER = f"{_LINE}text-align:left", f"{_LINE}text-align:right"


@dataclass(frozen=True, repr=False)
class ShownNumbers:
    """Released numbers, one under the other."""

    readings: tuple[Reading, ...]

    def __repr__(self) -> str:
        """Show one line a number."""
        return "\n".join(reading.line for reading in self.readings)

    def _repr_html_(self) -> str:
        return element("div", *(reading.card() for reading in self.readings))


@dataclass(frozen=True, repr=False)
class ShownFrame:
    """The groups of a released frame, with the bars of their intervals and what they cost."""

    view: View

    def __repr__(self) -> str:
        """Show the groups as a table, under what was asked and over what it cost."""
        rows = [_heads(self.view), *_rows(self.view)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        left = len(self.view.key_names)
        lines = [_line(row, widths, left) for row in rows]
        return "\n".join([*_title(self.view), *lines, *_captions(self.view)])

    def _repr_html_(self) -> str:
        view = self.view
        keys = len(view.key_names)
        head = [
            element("th", name, scope="col", style=_TEXT if place < keys else _NUMBER)
            for place, name in enumerate(_heads(view))
        ]
        spans = [_span(answer) for answer in view.answers]
        body = [_html_row(view, place, row, spans) for place, row in enumerate(_rows(view))]
        return element(
            "div",
            *(element("div", element("b", line)) for line in _title(view)),
            element(
                "table", element("thead", element("tr", *head)), element("tbody", *body),
                style="border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.4em 0",
            ),
            *(element("div", element("small", line)) for line in _captions(view)),
        )  # fmt: skip


def _title(view: View) -> list[str]:
    return [legible(shortened(view.title))] if view.title else []


def _captions(view: View) -> list[str]:
    ends = [bars(view.level)] if any(answer.has_ends for answer in view.answers) else []
    return [view.cost, *ends, *left_out(len(view.keys), view.groups, "groups"), *view.left_out]


def _heads(view: View) -> list[str]:
    answers = [name for own in view.answers for name in _answer_heads(own)]
    return [*view.key_names, *answers, *(["count"] if view.shows_counts else [])]


def _answer_heads(answer: Series) -> list[str]:
    return [answer.name, "interval"] if answer.has_ends else [answer.name]


def _rows(view: View) -> list[list[str]]:
    rows = []
    for place, keys in enumerate(view.keys):
        row = [*keys]
        for answer in view.answers:
            row += _cell_texts(answer, answer.cells[place])
        count = view.counts[place]
        rows.append([*row, "" if count is None else f"{count:,}"] if view.shows_counts else row)
    return rows


def _cell_texts(answer: Series, cell: Cell) -> list[str]:
    value, ends = cell
    text = "unknown" if math.isnan(value) else f"{value:.6g}"
    if not answer.has_ends:
        return [text]
    return [text, "" if ends is None else f"[{ends[0]:.6g}, {ends[1]:.6g}]"]


def _line(row: Sequence[str], widths: Sequence[int], left: int) -> str:
    cells = [
        text.ljust(width) if place < left else text.rjust(width)
        for place, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def _span(answer: Series) -> Span:
    ends = [end for _, own in answer.cells for end in own or ()]
    return Span.around([*(value for value, _ in answer.cells), *ends])


def _html_row(view: View, place: int, texts: Sequence[str], spans: Sequence[Span]) -> Markup:
    """Return a row; the drawing of an interval stands beside its ends."""
    keys = len(view.key_names)
    cells = [element("td", text, style=_TEXT) for text in texts[:keys]]
    rest = iter(texts[keys:])
    for answer, span in zip(view.answers, spans, strict=True):
        cells.append(element("td", next(rest), style=_NUMBER))
        if answer.has_ends:
            drawing = interval_bar(*answer.cells[place], span)
            cells.append(element("td", joined(next(rest), " ", drawing), style=_NUMBER))
    cells += [element("td", text, style=_NUMBER) for text in rest]
    return element("tr", *cells)
