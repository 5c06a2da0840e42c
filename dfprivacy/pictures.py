"""`dfp.plot`, `dfp.show` and `dfp.save_plot`: releases as pictures and tables. None costs anything.

They read what was released, so that they are post-processing: nothing is drawn, nothing charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dfprivacy.accounting.loss import delta_of, loss_of
from dfprivacy.display.figures import (
    MOST_DOTS,
    MOST_FACETS,
    groups_figure,
    histogram_figure,
    readings_figure,
    separate_figure,
)
from dfprivacy.display.readable import Readable
from dfprivacy.display.reading import Reading
from dfprivacy.display.saving import save_plot
from dfprivacy.display.shown import ShownFrame, ShownNumbers
from dfprivacy.display.words import MeasuredIn
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.release.frames import Origin, origin_of
from dfprivacy.release.numbers import Release
from dfprivacy.released_views import (
    Layout,
    histogram_bins,
    is_histogram,
    layout_of,
    named_groups,
    released_arrow,
    view_of,
)
from dfprivacy.terms import interval_level
from dfprivacy.vectors.estimate import VectorEstimate

__all__ = ["plot", "save_plot", "show"]

MOST_ROWS = 100
_UNSTATED = "cost not stated: plot the frame as it was released, or name epsilon and delta"


def plot(
    released: Any,
    *,
    answer: str | None = None,
    sort: str = "key",
    measured_in: MeasuredIn = None,
    epsilon: float | None = None,
    rho: float | None = None,
    delta: float | None = None,
    interval: float | None = None,
) -> Any:
    """Return a chart of what was released (an altair chart).

    `released` is a number, a list or a dict of numbers, a mean of vectors, or a frame: groups with
    their answers, or a histogram. Of a frame at most 40 groups are shown (12 of a histogram), in
    the order of the frame or, with `sort="value"`, the largest first, and at most 6 answers; the
    caption says how many more there are. `answer` chooses one of several answers, and names the
    answer of a frame whose columns do not tell. `measured_in` names the unit of the column for the
    axis, or is a mapping from answers to their units.

    The caption says what the release cost. A frame that a question has returned is known; of a copy
    or a selection of it, say what it cost (`epsilon` or `rho`, `delta`) and the level of its
    intervals (`interval`). A private number that was released may be shown as often as you like:
    the picture costs nothing.

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 500, "delay": [1.0, 9.0] * 500})
    >>> delays = flights.dp.group_by("carrier", keys=["AA", "UA"]).mean("delay", bounds=(0, 60))
    >>> chart = dfp.plot(delays, measured_in="minutes")
    >>> chart.to_dict()["title"]["subtitle"][1]
    'epsilon=1'

    Raises
    ------
    PictureError
        When altair is not installed: pip install 'dfprivacy[plot]'.
    InvalidQuestionError
        When no column is known as an answer, or `sort` is no such order.
    MissingColumnError
        When there is no column `answer`.
    UnsupportedFrameError
        When it is nothing that was released.
    """
    if sort not in {"key", "value"}:
        raise InvalidQuestionError("groups have no such order", hint='pass sort="key" or "value"')
    if isinstance(released, Readable | VectorEstimate):
        return released.plot(measured_in=measured_in)
    readings = readings_of(released)
    if readings is not None:
        figure = separate_figure if isinstance(released, Mapping) else readings_figure
        return figure(readings, measured_in)
    origin = _origin(released, epsilon, rho, delta, interval)
    table = released_arrow(released)
    if answer is None and is_histogram(table):
        return _histogram(table, origin, measured_in)
    layout = layout_of(table, _keys(released), answer)
    view = view_of(table, layout, origin, order=sort, most=MOST_DOTS)  # type: ignore[arg-type]
    order = ", the largest first" if sort == "value" else ""
    return groups_figure(view, measured_in, order)


def show(
    released: Any,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    delta: float | None = None,
    interval: float | None = None,
) -> ShownFrame | ShownNumbers:
    """Return what was released as a table to look at: plain text, and HTML in a notebook.

    Answers by group stand beside the bars of their intervals, over what they cost. The first 100
    groups are shown. Arguments and errors are those of `plot`; nothing need be installed.

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 500, "delay": [1.0, 9.0] * 500})
    >>> delays = flights.dp.group_by("carrier", keys=["AA", "UA"]).mean("delay", bounds=(0, 60))
    >>> "epsilon=1" in repr(dfp.show(delays))
    True
    """
    readings = readings_of(released)
    if readings is not None:
        return ShownNumbers(tuple(readings))
    origin = _origin(released, epsilon, rho, delta, interval)
    table = released_arrow(released)
    if is_histogram(table):
        layout = Layout(tuple(table.column_names[:-3]), (("count", ("low", "high")),))
    else:
        layout = layout_of(table, _keys(released), None)
    return ShownFrame(view_of(table, layout, origin, most=MOST_ROWS))


def readings_of(released: object) -> list[Reading] | None:
    """Return what is shown of one number or several; None for anything else."""
    if isinstance(released, Readable):
        return [released.reading()]
    several = released.values() if isinstance(released, Mapping) else released
    if isinstance(released, list | tuple | Mapping):
        numbers = [one for one in several if isinstance(one, Readable)]  # type: ignore[attr-defined]
        if numbers and len(numbers) == len(released):
            return [one.reading() for one in numbers]
    return None


def _keys(released: object) -> tuple[str, ...] | None:
    origin = origin_of(released)
    return None if origin is None else origin.keys


def _origin(released: object, epsilon: Any, rho: Any, delta: Any, interval: Any) -> Origin:
    """Return the origin of a frame: known, or as the caller says."""
    known = origin_of(released) or Origin("", _UNSTATED, None, ())
    if epsilon is not None or rho is not None:
        loss = Release(loss_of(epsilon, rho), float(delta_of(delta) or 0), 0)
        known = replace(known, cost=loss.cost)
    return known if interval is None else replace(known, level=interval_level(interval))


def _histogram(table: Any, origin: Origin, measured_in: MeasuredIn) -> Any:
    keys = table.column_names[:-5]
    bins, groups = histogram_bins(table, keys, MOST_FACETS)
    layout = Layout(tuple(keys), (("count", ("low", "high")),))
    view = replace(view_of(table, layout, origin, most=0), groups=groups, title=origin.about)
    return histogram_figure(bins, view, measured_in, named_groups(bins))
