"""Chart, show and save releases: `dfp.plot`, `dfp.show` and `dfp.save_plot`. None costs anything.

They read released numbers, so that they are post-processing: no noise is drawn, nothing charged.
The columns of a released frame are recognized by their names.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.columns import MOMENTS
from dfprivacy.engine.returning import list_values
from dfprivacy.engine.run import run_guarded
from dfprivacy.errors import InvalidQuestionError, MissingColumnError, PictureError
from dfprivacy.frames.tables import (
    Grid,
    Origin,
    Wide,
    convert_released,
    find_origin,
    floats_in,
    is_number,
)
from dfprivacy.frames.vector_release import VectorEstimate
from dfprivacy.frames.viz.charts import (
    MOST_COORDINATES,
    MOST_DOTS,
    OKABE_ITO,
    WIDTH,
    Dot,
    band_panel,
    bins_panel,
    build_chart,
    describe_beyond,
    dots_panel,
    fit_domain,
    write_chart,
)
from dfprivacy.frames.viz.numbers import (
    Column,
    Readable,
    Reading,
    Shown,
    readings_chart,
    show_readings,
)
from dfprivacy.frames.viz.text import (
    MeasuredIn,
    chart_text,
    explain_intervals,
    figure,
    left_out,
    legible,
    list_unanswered,
    shorten,
    unique_texts,
    with_unit,
    writer,
)
from dfprivacy.measurement.grid import find_clock_kind
from dfprivacy.release.plan import ENDS, NOTE

__all__ = ["plot", "save_plot", "show"]

_UNSTATED = "cost unknown"

MOST_ROWS = 100
MOST_ANSWERS, MOST_PANELS = 24, 6  # most answers of each group in a table and in a chart

MOST_FACETS = 12
_HISTOGRAM = ["lower", "upper", "count", "low", "high"]


def plot(
    released: Any,
    *,
    answer: str | None = None,
    sort: str = "key",
    measured_in: MeasuredIn = None,
    public: bool = False,
) -> Any:
    """Return a chart of a release (an altair chart).

    `released` is a number, a list or a dict of numbers, a mean of vectors, or a frame: groups with
    their answers, or a histogram. Of a frame at most 40 groups are shown (12 of a histogram), in
    the order of the frame or, with `sort="value"`, the largest first, and at most 6 answers. The
    caption says how many more there are. `answer` chooses one of several answers, and names the
    answer of a frame whose column names do not tell. `measured_in` names the unit of the column for
    the axis, or is a mapping from answers to their units.

    The caption states the cost of the release. A frame must be passed as it was released, so that
    rows of protected data are never drawn by mistake. A sorted or filtered pandas frame is still a
    release. Any other frame needs `public=True`, which declares that everybody may see its numbers.
    A chart of a release costs nothing.

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
        When the frame is no release and `public` is not set, when no column is recognized as an
        answer, or when `sort` is neither "key" nor "value".
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
        return readings_chart(readings, measured_in, separate=isinstance(released, Mapping))
    origin = _require_origin(released, public=public)
    if answer is None and origin.wide is not None and origin.wide.shown is not None:
        return _chart_crosstab(origin.wide, measured_in, ())
    table = _put_ends_behind(run_guarded(lambda: convert_released(released)), origin)
    if answer is None and is_description(table):
        return show_description(origin, table).draw([])
    layout = None if answer is None else build_layout(table, origin, answer)
    return _chart_table(table, origin, measured_in, layout=layout, by_value=sort == "value")


def save_plot(chart: Any, path: str | os.PathLike[str]) -> Path:
    """Write a chart to a file that ends in .png, .svg or .html, and return its path.

    A release is written as the chart that `dfp.plot` makes of it.

    Nothing is fetched, now or when the file is opened: an HTML page holds the drawing, no script,
    and a policy under which a browser loads nothing. The file is written wholly or not at all.
    It needs vl-convert: pip install 'dfprivacy[plot]'.

    >>> import dfprivacy as dfp, polars as pl, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> count = pl.DataFrame({"delay": range(100)}).dp.count()
    >>> dfp.save_plot(count, folder.name + "/count.svg").name
    'count.svg'
    >>> folder.cleanup()
    """
    is_chart = hasattr(type(chart), "properties")
    return write_chart(chart if is_chart else plot(chart), Path(path))


def _chart_table(
    table: pa.Table,
    origin: Origin,
    measured_in: MeasuredIn,
    more: Sequence[str] = (),
    *,
    layout: Layout | None = None,
    by_value: bool = False,
) -> Any:
    """Return a chart of a released table, with more captions.

    It shows answers by group, or lines where the last key is a time. Of compared groups it shows
    those with a group before them.
    """
    if layout is None and is_histogram(table):
        return _chart_histogram(table, origin, measured_in, more)
    order, layout = ", the largest first" if by_value else "", layout or build_layout(table, origin)
    compared, uncompared = _split_compared(table, layout, origin)
    if compared is not None:
        table, layout, more = compared, replace(layout, keys=origin.keys), [*uncompared, *more]
    layout, answers = replace(layout, answers=layout.answers[:MOST_PANELS]), len(layout.answers)
    if by_value:
        table = table.sort_by([(layout.answers[0][0], "descending")])
    groups = _read_groups(table, layout, origin, MOST_DOTS if by_value else MOST_COORDINATES)
    series = None if by_value else groups.over_time()
    if series is None:
        groups = _read_groups(table, layout, origin, MOST_DOTS)
    panels, missing, by = [], 0, ", ".join(groups.key_names)
    out: list[str] = []
    unit = measured_in if origin.has_units else None
    for index, answer in enumerate(groups.answers):
        dots = answer.dots
        missing += 0 if answer.computed else sum(not dot.is_finite for dot in dots)
        domain = fit_domain(dots)
        title = with_unit(f"{origin.compared} {answer.name}".strip(), unit, answer=answer.name)
        out = [*out, *(line for line in describe_beyond(dots, domain) if line not in out)]
        if series is None:
            width = WIDTH if len(groups.answers) == 1 else 260
            panel = dots_panel(dots, title, by, labels=not index, domain=domain, width=width)
        else:
            lines = {
                name: [(time, dots[row]) for time, row in line] for name, line in series.items()
            }
            *of_lines, across = groups.key_names
            panel = band_panel(lines, title, across, legend=", ".join(of_lines), domain=domain)
        panels.append(panel)
    captions = [*_headings(origin), *groups.captions(table.num_rows, answers, order), *out]
    captions += [*list_unanswered(missing, origin.compared), *_note_lines(groups.answers), *more]
    names = ", ".join(answer.name for answer in groups.answers)
    names = f"{origin.compared} {names}".strip()
    stack = "h" if series is None else "v"
    return build_chart(panels, f"{names} by {by}" if by else names, captions, stack)


def show(released: Any, *, measured_in: MeasuredIn = None, public: bool = False) -> Shown:
    """Return a released answer as a table: plain text, and HTML in a notebook.

    Answers by group stand beside the bars of their intervals, over their cost. A description
    has one row a column and no chart. The first 100 groups are shown, of histograms
    bins. Arguments and errors are those of `plot`, but for a mean of vectors, which shows itself.
    No extra library is needed. The result writes itself to a file, with the cost and the date
    under it: `.save("delays.html")`, `.csv` (of all groups), `.svg` or `.png` (as a chart).
    `.to_html()` is the page as text.

    >>> import dfprivacy as dfp, polars as pl
    >>> flights = pl.DataFrame({"carrier": ["AA", "UA"] * 500, "delay": [1.0, 9.0] * 500})
    >>> delays = flights.dp.group_by("carrier", keys=["AA", "UA"]).mean("delay", bounds=(0, 60))
    >>> "epsilon=1" in repr(dfp.show(delays))
    True
    """
    readings = _readings(released)
    if readings is not None:
        return show_readings(readings, measured_in)
    origin = _require_origin(released, public=public)
    if origin.wide is not None and origin.wide.shown is not None:
        return _show_crosstab(origin, origin.wide, origin.wide.shown, measured_in)
    table = _put_ends_behind(run_guarded(lambda: convert_released(released)), origin)
    return (
        show_description(origin, table)
        if is_description(table)
        else _show_groups(table, origin, measured_in)
    )


def _show_groups(table: pa.Table, origin: Origin, measured_in: MeasuredIn) -> Shown:
    """Return the first groups, or bins, of a released table; dates have no bars."""
    if is_histogram(table):
        layout = Layout(tuple(table.column_names[:-3]), (("count", ("low", "high")),))
    else:
        try:
            layout = build_layout(table, origin)
            dated = [field.name for field in table.schema if find_clock_kind(field.type)]
            layout = replace(layout, keys=tuple(dict.fromkeys([*layout.keys, *dated])))
        except InvalidQuestionError:  # a release needs no answer
            if not origin.question:
                raise
            layout = Layout(tuple(table.column_names), ())
    groups = _read_groups(table, layout, origin, MOST_ROWS)
    columns = [
        Column(name, [row[index] for row in groups.keys], numeric=False)
        for index, name in enumerate(groups.key_names)
    ]
    for answer in groups.answers:
        columns += answer.columns(measured_in if origin.has_units else None)
    if layout.count:
        counts = table[layout.count].slice(0, MOST_ROWS).to_pylist()
        columns.append(Column("count", ["" if n is None else f"{n:,}" for n in counts]))
    notes = [
        f"{answer.name}: {legible(note)}"
        for answer in groups.answers
        for note in answer.repeated_notes
        if ": " in note
    ]
    compared, first = _split_compared(table, layout, origin)
    answered = groups if compared is None else _read_groups(compared, layout, origin, MOST_ROWS)
    unknown = sum(answer.unanswered for answer in answered.answers)
    captions = [*groups.captions(table.num_rows, len(layout.answers)), *first]
    return Shown(
        table,
        lambda more: _chart_table(table, origin, measured_in, more),
        columns,
        _headings(origin),
        [*captions, *list_unanswered(unknown, origin.compared), *notes],
    )


def _split_compared(
    table: pa.Table, layout: Layout, origin: Origin
) -> tuple[pa.Table | None, list[str]]:
    """Return the groups that are compared with one before them, and a line about the others."""
    if layout.keys != (*origin.keys, "against"):
        return None, []
    first = table.filter(pc.is_null(table["against"]))
    names = "; ".join(", ".join(keys) for keys in _key_rows(first, origin.keys))
    lines = [shorten(f"Nothing to compare with: {names}")] if first.num_rows else []
    return table.filter(pc.is_valid(table["against"])), lines


def _headings(origin: Origin) -> list[str]:
    """Return the question of a release, if it is known."""
    return [legible(shorten(origin.question))] if origin.question else []


def _readings(released: object) -> list[Reading] | None:
    """Return the readings of an answer or of several, without missing ones; None for a frame."""
    if isinstance(released, Readable):
        return [released.reading()]
    values = released.values() if isinstance(released, Mapping) else released
    if isinstance(released, list | tuple | Mapping):
        answers = [value for value in values if value is not None]  # type: ignore[attr-defined]
        if answers and all(isinstance(answer, Readable) for answer in answers):
            return [answer.reading() for answer in answers]
    return None


def _require_origin(frame: object, *, public: bool) -> Origin:
    """Return the origin of a released frame, or an empty one for a frame declared public."""
    if frame is None or (isinstance(frame, list) and all(answer is None for answer in frame)):
        raise InvalidQuestionError(
            "there is no answer to show: too few rows for the loss that was spent",
            hint="ask with a larger epsilon, or of more rows",
        )
    origin = find_origin(frame)
    if origin is None and not public:
        raise InvalidQuestionError(
            f"this {type(frame).__name__} is not a release, or was changed since",
            hint="pass the frame as it was released, or public=True if everybody may see its rows",
        )
    return origin or Origin("", _UNSTATED, None, ())


def is_histogram(table: pa.Table) -> bool:
    """Check whether a released table has the columns of a histogram."""
    return list(table.column_names[-5:]) == _HISTOGRAM


@dataclass(frozen=True)
class Layout:
    """The columns that are keys, the columns of answers with their ends, and the count."""

    keys: tuple[str, ...]
    answers: tuple[tuple[str, tuple[str, str] | None], ...]
    count: str | None = None


def build_layout(table: pa.Table, origin: Origin, answer: str | None = None) -> Layout:
    """Return the layout of a table. `answer` is the requested answer."""
    names = table.column_names
    if answer is not None and answer not in names:
        raise MissingColumnError(
            f"the frame has no column {answer!r}", hint="name the column of an answer"
        )
    is_sql = bool(origin.answers) and answer is None  # whose columns are in any order
    first, ends = len(origin.keys), {name: _find_interval_columns(name, names) for name in names}
    if not first or names[:first] != list(origin.keys):
        answers = (index for index, name in enumerate(names) if name == answer or ends[name])
        first = next(answers, len(names))
    candidates = [name for name in names if name in origin.answers] if is_sql else names[first:]
    if any(pa.types.is_nested(table.schema.field(name).type) for name in candidates):
        raise InvalidQuestionError(
            "a frame with a vector for each group can't be shown",
            hint='ask about columns by name: mean_vector(["x", "y"], ...)',
        )
    behind = {end for name in candidates for end in ends[name] or ()}
    empty = {
        name
        for name in {NOTE, *(f"{name}_{NOTE}" for name in names)} & {*names}
        if table[name].null_count == table.num_rows
    }
    numbers = [name for name in candidates if name not in behind | empty and is_number(table, name)]
    has_count = "count" in numbers and ends["count"] is None and len(numbers) > 1
    named = [name for name in numbers if not (has_count and name == "count")]
    chosen = [name for name in named if answer in (None, name)] or [answer or ""]
    if not numbers or not all(is_number(table, name) for name in chosen):
        raise InvalidQuestionError(
            "no column of the frame is recognized as an answer",
            hint='name the column: dfp.plot(frame, answer="delay")',
        )
    notes = {note for name in numbers for note in _note_column(names, name, ends[name])}
    remaining = [name for name in names if name not in {*numbers, *behind, *notes}]
    return Layout(
        tuple(remaining if is_sql else names[:first]),
        tuple((name, ends[name]) for name in chosen),
        "count" if has_count else None,
    )


def _note_column(names: Sequence[str], name: str, ends: tuple[str, str] | None) -> list[str]:
    """Return the column of an answer's notes, which is behind the answer and its interval."""
    after = names[names.index(name) + 1 + len(ends or ()) :][:1]
    return [note for note in after if note in {NOTE, f"{name}_{NOTE}"}]


def _find_interval_columns(name: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of an answer's interval, which stand right behind it."""
    behind = list(names[names.index(name) + 1 :][:2])
    for ends in (("low", "high"), (f"{name}_low", f"{name}_high")):
        if behind == list(ends):
            return ends
    return None


def _put_ends_behind(table: pa.Table, origin: Origin) -> pa.Table:
    """Return a released table in which ends and notes stand behind the answers of a statement."""
    ends_of = {
        name: [end for part in ENDS[1:] if (end := f"{name}{part}") in table.column_names]
        for name in origin.answers
    }
    moved = {end for ends in ends_of.values() for end in ends}
    names = [name for name in table.column_names if name not in moved]
    return table.select([end for name in names for end in (name, *ends_of.get(name, ()))])


@dataclass(frozen=True)
class Series:
    """One answer for every group that is shown: values, with intervals where there are any."""

    name: str
    dots: tuple[Dot, ...]
    notes: tuple[str, ...] = ()
    computed: bool = False

    @property
    def has_ends(self) -> bool:
        """True if there are intervals."""
        return any(dot.ends is not None for dot in self.dots)

    @property
    def unanswered(self) -> int:
        """The number of groups whose answer is missing; NULL of an expression is none."""
        return 0 if self.computed else sum(dot.is_unknown for dot in self.dots)

    @property
    def repeated_notes(self) -> list[str]:
        """The notes of several groups, which a table shows in full once."""
        counts = Counter(self.notes)
        return [note for note, count in counts.items() if note and count > 1]

    def columns(self, measured_in: MeasuredIn) -> Iterator[Column]:
        """Yield the column of values, and that of intervals with their bars."""
        yield Column(with_unit(self.name, measured_in), [dot.shown for dot in self.dots])
        if self.has_ends:
            yield Column("interval", [dot.interval for dot in self.dots], dots=self.dots)
        if any(self.notes):
            notes = [
                legible(note.partition(": ")[0] if note in self.repeated_notes else note)
                for note in self.notes
            ]
            yield Column(NOTE, notes, numeric=False, wraps=True)


@dataclass(frozen=True)
class Groups:
    """The first groups of a released table: texts of keys, and answers."""

    origin: Origin
    key_names: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    answers: tuple[Series, ...]

    def captions(self, groups: int, answers: int, order: str = "") -> list[str]:
        """Return the cost, the meaning of the bars, and how many parts are left out."""
        has_bars = any(answer.has_ends for answer in self.answers)
        return [
            self.origin.cost,
            *([explain_intervals(self.origin.level, self.origin.question)] if has_bars else []),
            *self.origin.remarks,
            *left_out(len(self.keys), groups, "groups", order),
            *left_out(len(self.answers), answers, "answers"),
        ]

    def over_time(self) -> dict[str, list[tuple[float | str, int]]] | None:
        """Return times and rows of each line over the last key, a time. None if it isn't one."""
        lines: dict[str, list[tuple[float | str, int]]] = {}
        gaps, has_numbers = 0, bool(self.key_names) and is_period(self.key_names[-1])
        for row, (*line, key) in enumerate(self.keys if self.key_names else ()):
            is_number = has_numbers and re.fullmatch(r"-?\d{1,9}", key)
            time = float(key) if is_number else parse_time(key)
            if time is None:
                gaps += 1
            else:
                lines.setdefault(chart_text(", ".join(line)), []).append((time, row))
        has_line = any(len(line) >= _FEWEST_TIMES for line in lines.values())
        return lines if has_line and gaps <= len(lines) <= len(OKABE_ITO) else None


def _show_crosstab(origin: Origin, wide: Wide, grid: Grid, measured_in: MeasuredIn) -> Shown:
    """Return a table of two group columns, with the totals that it has, as it is read."""
    percent = wide.titles[0] in origin.shares
    table = wide.table
    row, column = grid.about
    kinds = ("cells", f"totals by {row}", f"totals by {column}", "the grand total")
    layout = Layout(
        (), tuple((n, _find_interval_columns(n, table.column_names)) for n in wide.titles)
    )
    answers, widths = _read_groups(table, layout, origin, table.num_rows).answers, list[str]()
    for kind, answer in zip(kinds, answers, strict=False):
        if halves := [dot.error for dot in answer.dots if dot.ends and math.isfinite(dot.error)]:
            written = [
                writer([e], [e], percent=percent)(e, rounding=ROUND_CEILING)
                for e in (min(halves), max(halves))
            ]  # in two digits each
            widths.append(f"{kind} {' to '.join(dict.fromkeys(written))}")
    shown, errors = grid.numbers[:MOST_ROWS], [dot.error for dot in answers[0].dots]
    write_cell = writer(shown.ravel().tolist(), errors, percent=percent)
    rows, heads = _label_axis(grid.rows, grid.totals), _label_axis(grid.columns, grid.totals)
    columns = [Column(legible(row), rows[:MOST_ROWS], numeric=False)]
    for head, numbers in list(zip(heads, shown.T, strict=True))[:MOST_ROWS]:
        texts = ["" if math.isnan(number) else write_cell(number) for number in numbers]
        columns.append(Column(head, texts))
    level = "" if origin.level is None else f" at {100 * origin.level:.4g} %"
    lines = [f"Intervals{level} reach so far to either side: {', '.join(widths)}."]
    lines = lines if widths else []
    if origin.measured and not wide.public:
        lines.append("Totals were measured: cells that are not shown are part of them.")
    names = [["NULL" if key is None else key for key in keys] for keys in (grid.rows, grid.columns)]
    return Shown(
        pa.table(
            [pa.array(names[0]), *map(pa.array, grid.numbers.T)],
            names=unique_texts([row, *names[1]]),
        ),
        lambda more: _chart_crosstab(wide, measured_in, more),
        columns,
        _headings(origin),
        [
            origin.cost,
            *lines,
            *origin.remarks,
            *left_out(len(shown), len(grid.rows), "rows"),
            *left_out(len(columns) - 1, len(grid.columns), "columns"),
        ],
    )


def _label_axis(keys: Sequence[str | None], totals: int) -> list[str]:
    """Return keys and the names of totals behind them as texts; quotes tell them apart."""
    groups, names = keys[: len(keys) - totals], keys[len(keys) - totals :]
    texts = [f"'{key}'" if key in names else _key_text(key) for key in groups]
    return [*texts, *map(_key_text, names)]


def _chart_crosstab(wide: Wide, measured_in: MeasuredIn, more: Sequence[str]) -> Any:
    """Return a chart of the cells of a table, one after the other."""
    table = wide.table
    layout = build_layout(table, wide.origin, wide.titles[0])
    cells = replace(layout, keys=layout.keys[:2])
    return _chart_table(table, wide.origin, measured_in, more, layout=cells)


_FEWEST_TIMES = 3
_PERIODS = frozenset(("year", "quarter", "month", "week", "day", "hour"))


def is_period(name: str) -> bool:
    """Check whether whole numbers under a name are times in their order.

    >>> is_period("week"), is_period("Dep Hour"), is_period("weekday")
    (True, True, False)
    """
    return re.split(r"[^a-z]+", name.lower())[-1] in _PERIODS


_TIME = re.compile(
    r"(\d{4})-(\d\d)(-\d\d)?([ T]\d\d:\d\d(:\d\d(\.\d+)?)?([+-]\d\d:\d\d|Z)?)?(/.*)?"
    r"|(\d{4})Q([1-4])"
)


def parse_time(key: str) -> str | None:
    """Return the time that a key's text is, as ISO 8601 text. None if it is none.

    >>> parse_time("2024-05"), parse_time("2024-01-01/2024-01-07")
    ('2024-05-01T00:00:00', '2024-01-01T00:00:00')
    >>> parse_time("2024Q2"), parse_time("AA")
    ('2024-04-01T00:00:00', None)
    """
    match = _TIME.fullmatch(key)
    if match is None:
        return None
    if match[9]:
        return f"{match[9]}-{3 * int(match[10]) - 2:02}-01T00:00:00"
    day, clock = match[3] or "-01", (match[4] or " 00:00:00")[1:]
    return f"{match[1]}-{match[2]}{day}T{clock}"


def _note_lines(answers: Sequence[Series]) -> list[str]:
    """Return one line a note, with the groups that it is about."""
    groups: dict[str, list[str]] = {}
    for answer in answers:
        for dot, note in zip(answer.dots, answer.notes, strict=False):
            if note:
                groups.setdefault(note, []).append(chart_text(dot.name))
    dots = sum(len(answer.dots) for answer in answers)
    return [
        shorten(f"{note}: {', '.join(names)}" if len(names) < dots else note)
        for note, names in groups.items()
    ]


def _read_groups(table: pa.Table, layout: Layout, origin: Origin, limit: int) -> Groups:
    """Return the first `limit` groups of a released table, with the first answers."""
    shown = table.slice(0, limit)
    keys, answers = _key_rows(shown, layout.keys), []
    groups = unique_texts([", ".join(row_keys) for row_keys in keys])
    counts = shown[layout.count].to_pylist() if layout.count else [None] * shown.num_rows
    for name, ends in layout.answers[:MOST_ANSWERS]:
        values = floats_in(shown, name)
        pairs: Any = [None] * len(values)
        if ends is not None:
            pairs = zip(*(floats_in(shown, end) for end in ends), strict=True)
        kinds = [[name in names] * len(values) for names in (origin.shares, origin.amounts)]
        dots = tuple(map(Dot, groups, values, pairs, counts, *kinds))
        notes: tuple[str, ...] = ()
        for note in _note_column(table.column_names, name, ends):
            if not is_number(table, note):
                notes = tuple("" if text is None else str(text) for text in shown[note].to_pylist())
        answers.append(Series(legible(name), dots, notes, name in origin.computed))
    return Groups(origin, tuple(map(legible, layout.keys)), keys, tuple(answers))


def _key_rows(table: pa.Table, keys: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the keys of each row as texts. NULL for none."""
    columns = [[_key_text(key) for key in list_values(table[name])] for name in keys]
    return tuple(zip(*columns, strict=True)) if columns else ((),) * table.num_rows


def _key_text(key: object) -> str:
    """Return a key as text. Quotes tell texts from NULL, from none and from those without space."""
    if key is None:
        return "NULL"
    if isinstance(key, str) and (key in {"", "NULL"} or key != key.strip()):
        return f"'{legible(key)}'"
    if isinstance(key, dt.datetime) and key.time() == dt.time():
        key = key.date() if key.tzinfo is None else key
    return f"{key:.12g}" if isinstance(key, float) else legible(key)


def _chart_histogram(
    table: pa.Table, origin: Origin, measured_in: MeasuredIn, more: Sequence[str]
) -> Any:
    """Return the bars of a histogram, with a panel for each group."""
    keys, about = table.column_names[:-5], origin.about
    names = _key_rows(table, keys)
    rows = list(dict.fromkeys(names))
    labels = unique_texts([chart_text(", ".join(row)) for row in rows])
    groups = dict(zip(rows[:MOST_FACETS], labels, strict=False))
    columns, finite, infinite = [floats_in(table, name) for name in _HISTOGRAM], [], 0
    for row_keys, row in zip(names, zip(*columns, strict=True), strict=True):
        if row_keys in groups and all(map(math.isfinite, row[:2])):
            values = dict(zip(_HISTOGRAM, row, strict=True))
            middle = values["lower"] / 2 + values["upper"] / 2
            finite.append({**values, "middle": middle, "group": groups[row_keys]})
        elif row_keys in groups:
            infinite += 1
    axis = with_unit(about or "value", measured_in)
    panel = bins_panel(finite, axis, list(groups.values()) if keys else [])
    lines = [
        origin.cost,
        explain_intervals(origin.level, origin.question),
        *left_out(len(groups), len(rows), "groups"),
        *list_unanswered(infinite),
        *more,
    ]
    title = f"histogram of {about}" if about else "histogram"
    by = ", ".join(map(legible, keys))
    return build_chart([panel], f"{title} by {by}" if keys else title, lines)


_ENDS = ("", "_low", "_high")
_HEAD = ["column", "type", *(f"{name}{end}" for name in ("count", "missing") for end in _ENDS)]
MOST_COLUMNS = 400
_ALWAYS = ("column", "type", "count", "missing")


def is_description(table: pa.Table) -> bool:
    """Check whether a released table describes columns."""
    return list(table.column_names[: len(_HEAD)]) == _HEAD


def show_description(origin: Origin, table: pa.Table) -> Shown:
    """Return a released description as a table without its empty columns; it has no chart."""
    rows = list(table.slice(0, MOST_COLUMNS).to_pylist())
    parts = (name.partition("% ") for name in table.column_names)
    names = dict.fromkeys(f"{level}{mark.strip()}" for level, mark, _ in parts)
    levels = [name for name in names if name.endswith("%")]
    texts = [_texts(row, levels) for row in rows]
    words = ("column", "type", "values")
    heads = [*_ALWAYS, "mean", "std", *levels, "values"]
    shown = [head for head in heads if head in _ALWAYS or any(row[head] for row in texts)]
    return Shown(
        table,
        _refuse_chart,
        [
            Column(head, [row[head] for row in texts], head not in words, wraps=head == "values")
            for head in shown
        ],
        [legible(shorten(origin.question))],
        [
            *(legible(f"{row['column']}: {row['note']}") for row in rows if row.get("note")),
            origin.cost,
            explain_intervals(origin.level, origin.question),
            *origin.remarks,
            "Quantiles are selected and have no interval.",
            *left_out(len(rows), table.num_rows, "columns"),
        ],
    )


def _refuse_chart(_: object) -> Any:
    raise PictureError("this has no chart", hint="dfp.show(released) is a table")


def _texts(row: dict[str, Any], levels: Sequence[str]) -> dict[str, str]:
    """Return the displayed texts of a described column by their heads."""
    dated = row["type"] in MOMENTS
    decimals = 0 if row["type"] == "integer" else None
    is_boolean = row["type"] == "boolean"
    quantiles = {
        name: _level(row.get(f"{name} {row['type']}" if dated else name), decimals, dated=dated)
        for name in levels
    }
    return {
        "column": legible(shorten(row["column"])),
        "type": row["type"],
        "count": _bracket_interval(row, "count"),
        "missing": _bracket_interval(row, "missing", percent=True) or "unknown",
        "mean": _bracket_interval(row, "mean", percent=is_boolean),
        "std": _bracket_interval(row, "std", percent=is_boolean),
        **quantiles,
        "values": legible(row.get("values") or ""),
    }


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _bracket_interval(row: dict[str, Any], name: str, *, percent: bool = False) -> str:
    """Return a number with its interval in brackets, or nothing if it is unknown."""
    value, low, high = (_number(row.get(key)) for key in (name, f"{name}_low", f"{name}_high"))
    dot = Dot(name, value, (low, high), percent=percent)
    shown = dot.shown if math.isfinite(dot.error) else figure(value, percent=percent)
    return "" if dot.is_unknown else f"{shown} {dot.interval if dot.is_finite else ''}".rstrip()


def _level(value: Any, decimals: int | None, *, dated: bool) -> str:
    if value is None:
        return "unknown" if dated else ""
    if dated:
        return str(value)
    return "unknown" if math.isnan(value) else figure(value, decimals)
