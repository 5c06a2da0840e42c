"""Chart, show and save releases: `dfp.plot`, `dfp.show` and `dfp.save_plot`. None costs anything.

They read what was released, so that they are post-processing: nothing is drawn, nothing charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dfprivacy.accounting.loss import delta_of, loss_of
from dfprivacy.engine.run import guarded
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.release.frames import Origin, origin_of
from dfprivacy.release.numbers import Release
from dfprivacy.terms import interval_level
from dfprivacy.vectors.estimate import VectorEstimate
from dfprivacy.viz.charts import MOST_DOTS, save_plot
from dfprivacy.viz.frames import (
    Layout,
    ShownFrame,
    histogram_chart,
    is_histogram,
    layout_of,
    released_arrow,
    shown_frame,
)
from dfprivacy.viz.numbers import (
    Readable,
    Reading,
    ShownNumbers,
    readings_chart,
    separate_chart,
)
from dfprivacy.viz.text import MeasuredIn

__all__ = ["plot", "save_plot", "show"]

_UNSTATED = "cost unknown: pass the frame as it was released, or pass its epsilon and delta"


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
    answer of a frame whose column names do not tell. `measured_in` names the unit of the column for
    the axis, or is a mapping from answers to their units.

    The caption says what the release cost. A frame that a question has returned is known; of a copy
    or a selection of it, say what it cost (`epsilon` or `rho`, `delta`) and the level of its
    intervals (`interval`). A private number that was released may be shown as often as you like:
    the chart costs nothing.

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
        When no column is recognised as an answer, or `sort` is neither "key" nor "value".
    MissingColumnError
        When there is no column `answer`.
    UnsupportedFrameError
        When it can't be the result of a release.
    """
    if sort not in {"key", "value"}:
        raise InvalidQuestionError(
            "groups can't be sorted like that", hint='pass sort="key" or "value"'
        )
    if isinstance(released, Readable | VectorEstimate):
        return released.plot(measured_in=measured_in)
    readings = _readings(released)
    if readings is not None:
        chart = separate_chart if isinstance(released, Mapping) else readings_chart
        return chart(readings, measured_in)
    origin = _origin(released, epsilon, rho, delta, interval)
    table = guarded(lambda: released_arrow(released))
    if answer is None and is_histogram(table):
        return histogram_chart(table, origin.about, origin.cost, origin.level, measured_in)
    shown = shown_frame(
        table, layout_of(table, _keys(released), answer), title=origin.question, cost=origin.cost,
        level=origin.level, order=sort, most=MOST_DOTS,  # type: ignore[arg-type]
    )  # fmt: skip
    return shown.plot(measured_in, ", the largest first" if sort == "value" else "")


def show(
    released: Any,
    *,
    epsilon: float | None = None,
    rho: float | None = None,
    delta: float | None = None,
    interval: float | None = None,
) -> ShownFrame | ShownNumbers:
    """Return what was released as a table: plain text, and HTML in a notebook.

    Answers by group stand beside the bars of their intervals, over what they cost. The first 100
    groups are shown. Arguments and errors are those of `plot`; no extra library is needed.

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 500, "delay": [1.0, 9.0] * 500})
    >>> delays = flights.dp.group_by("carrier", keys=["AA", "UA"]).mean("delay", bounds=(0, 60))
    >>> "epsilon=1" in repr(dfp.show(delays))
    True
    """
    readings = _readings(released)
    if readings is not None:
        return ShownNumbers(tuple(readings))
    origin = _origin(released, epsilon, rho, delta, interval)
    table = guarded(lambda: released_arrow(released))
    if is_histogram(table):
        layout = Layout(tuple(table.column_names[:-3]), (("count", ("low", "high")),))
    else:
        layout = layout_of(table, _keys(released), None)
    return shown_frame(table, layout, title=origin.question, cost=origin.cost, level=origin.level)


def _readings(released: object) -> list[Reading] | None:
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
