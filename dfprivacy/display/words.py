"""What captions say, and text from users as a chart may hold it."""

from __future__ import annotations

from collections.abc import Mapping

from dfprivacy.display.markup import legible

MeasuredIn = str | Mapping[str, str] | None
"""The unit of a column, or the units of several by the names of their answers."""

_JOINER = "\N{WORD JOINER}"
_LONGEST = 100


def chart_text(text: object) -> str:
    """Return text for a chart. It can't end a script that the chart is written into.

    >>> "</script>" in chart_text("</script>")
    False
    """
    return legible(text).replace("</", f"<{_JOINER}/").replace("<!", f"<{_JOINER}!")


def with_unit(name: str, measured_in: MeasuredIn, *, answer: str | None = None) -> str:
    """Return the title of an axis: what it shows, and in which unit.

    One unit is that of every answer that is no count; a mapping has the units of answers by name.

    >>> with_unit("delay", "minutes"), with_unit("count", "minutes")
    ('delay (minutes)', 'count')
    """
    own = name if answer is None else answer
    if isinstance(measured_in, Mapping):
        unit = measured_in.get(own)
    else:
        unit = None if own == "count" else measured_in
    return chart_text(name if unit is None else f"{name} ({unit})")


def shortened(text: str) -> str:
    """Return a text of at most a hundred characters.

    >>> len(shortened("edges, " * 1000))
    100
    """
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def bars(level: float | None) -> str:
    """Return what interval bars are."""
    if level is None:
        return "bars: the intervals that were released; they cover the noise only"
    return f"bars: {_percent(level)} of the noise; not of sampling, not of what clipping did"


def _percent(level: float) -> str:
    return f"{100 * level:.4g} %"


def left_out(shown: int, rows: int, things: str, order: str = "") -> list[str]:
    """Return the line that says how many are not shown; none if all are."""
    if shown >= rows:
        return []
    verb = "is" if rows - shown == 1 else "are"
    return [f"{shown:,} of {rows:,} {things} shown{order}; {rows - shown:,} more {verb} not"]


def unknown(count: int) -> list[str]:
    """Return the line that says how many have no answer; none if all have one."""
    return [f"{count:,} unknown: too few values to tell"] if count else []
