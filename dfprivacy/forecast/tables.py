"""Explanations as tables of HTML, for notebooks; every text is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from dfprivacy.forecast.forecast import Forecast, number
from dfprivacy.forecast.pages import facts


def table_of(head: Sequence[tuple[str, str]], answers: Sequence[Forecast], level: float) -> str:
    """Return titled rows, then a table for each answer."""
    return f"<div>{_rows(head)}{''.join(_answer(answer, level) for answer in answers)}</div>"


def _answer(answer: Forecast, level: float) -> str:
    title = f"<p><b>{html.escape(answer.name)}</b> {html.escape(answer.question)}</p>"
    return title + _rows(facts(answer, level)) + (_widths(answer) if answer.told else "")


def _rows(titled: Iterable[tuple[str, str]]) -> str:
    rows = (
        f"<tr><th style='text-align:left'>{html.escape(title)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for title, text in titled
    )
    return f"<table>{''.join(rows)}</table>"


def _widths(answer: Forecast) -> str:
    columns = zip(answer.rows, answer.certain, answer.ordinary, strict=True)
    rows = (
        f"<tr><td>{size:,}</td><td>{number(certain)}</td><td>{number(ordinary)}</td></tr>"
        for size, certain, ordinary in columns
    )
    titles = "<tr><th>rows</th><th>at most</th><th>ordinary</th></tr>"
    return f"<table>{titles}{''.join(rows)}</table>"
