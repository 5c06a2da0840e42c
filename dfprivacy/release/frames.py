"""Lay out what a caller gets by group: keys, answers with their intervals, the count, the cost.

A frame by group is a plain frame of the caller's own type and has no place for its cost, which is
kept beside it for as long as it lives. Only the object that a release has returned is known here:
a copy or a selection of it is another frame.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from dfprivacy.errors import InvalidQuestionError
from dfprivacy.release.answers import Answer
from dfprivacy.release.numbers import Release
from dfprivacy.release.pipeline import Answers
from dfprivacy.release.request import Request


def frame_names(
    parts: Sequence[Any], questions: Mapping[str, Any], keys: Sequence[str]
) -> list[str]:
    """Return the column names of a grouped release.

    Raises
    ------
    InvalidQuestionError
        When two columns would share a name.
    """
    names = [*keys, *_value_names(parts, questions, keys)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidQuestionError(
            f"two columns of the result would be called {twice!r}",
            hint="name the answer: .agg(delay=dfp.mean(...)) or rename the group column",
        )
    return names


def _value_names(
    parts: Sequence[Any], questions: Mapping[str, Any], keys: Sequence[str]
) -> list[str]:
    """Name answers, ends and count: a column called low, high or count keeps its own name."""
    answers = [
        item
        for question in questions
        for part in parts
        for item in part.names.get(question, {}).items()
    ]
    taken = {*keys, *(name for name, _ in answers)}
    alone = len(answers) == 1 and not taken & {"low", "high"}
    names = []
    for name, has_interval in answers:
        names.append(name)
        if has_interval:
            names += ["low", "high"] if alone else [f"{name}_low", f"{name}_high"]
    counted = "count" if "count" not in taken else "rows"
    return [*names, counted] if shows_count(parts) else names


def shows_count(parts: Sequence[Any]) -> bool:
    """Tell whether the frame needs a count column beside the answers themselves."""
    return not next(part for part in parts if part.counts).answers_count


def released_table(made: Answers, request: Request, names: Sequence[str]) -> pa.Table:
    """Return one row a kept group: the keys, then each answer, then the count where it is shown."""
    columns: list[Any] = list(made.keys.take(pa.array(made.kept)).columns)
    for own in made.answers.values():
        for answer in own:
            columns += [pa.array(column[made.kept]) for column in answer.columns(request.level)]
    if shows_count(request.parts):
        columns.append(pa.array(made.counted.column()[made.kept]))
    return pa.table(columns, names=list(names))


def answers_table(made: Answers, request: Request) -> pa.Table:
    """Return one row a kept group: the keys, then the columns of each answer under its question."""
    keys = made.keys.rename_columns([str(label) for label in request.by])
    columns = {name: keys.column(name).take(pa.array(made.kept)) for name in keys.column_names}
    for name, own in made.answers.items():
        titles = _titles(name, request.questions[name], own)
        for title, answer in zip(titles, own, strict=True):
            ends = zip(("", "_low", "_high"), answer.columns(request.level), strict=False)
            columns |= {f"{title}{end}": pa.array(values[made.kept]) for end, values in ends}
    return pa.table(columns)


def _titles(name: str, question: Any, answers: Sequence[Answer]) -> list[str]:
    if question.kind == "bounds":
        return [f"{name}_lower", f"{name}_upper"]
    if question.kind == "quantiles":
        return [f"{name}_{index}" for index in range(len(answers))]
    return [name]


def prove_way_back(
    wrap: Callable[[pa.Table], object], keys: pa.Table, names: Sequence[str], *, public: bool
) -> None:
    """Wrap a table of no row, then one of a NULL key, as a release will be wrapped.

    What can't be wrapped raises here, before it is paid for. Secret keys may be NULL whatever they
    are; public ones, which are `keys`, only where one of them is.
    """
    values = names[keys.num_columns :]
    for rows in (0, 1):
        if rows and public and not any(column.null_count for column in keys.columns):
            return
        columns = [pa.nulls(rows, field.type) for field in keys.schema]
        columns += [pa.array([0.0] * rows, pa.float64())] * len(values)
        wrap(pa.table(columns, names=list(names)))


Frame = TypeVar("Frame")


@dataclass(frozen=True)
class Origin:
    """The question, the cost and the level of intervals behind a frame, and its key columns."""

    question: str
    cost: str
    level: float | None
    keys: tuple[str, ...]
    about: str = ""

    @classmethod
    def of(cls, request: Request, *, about: object = "") -> Origin:
        """Return the origin of a request's frame; `about` names the column asked about."""
        charge = request.charge
        cost = Release(charge.loss, float(charge.delta), request.level).cost
        return cls(charge.question, cost, request.level, tuple(map(str, request.by)), str(about))


_KNOWN: dict[int, tuple[weakref.ref[Any], Origin]] = {}


def with_origin(frame: Frame, origin: Origin) -> Frame:
    """Keep the origin of a frame until the frame is gone, and return the frame as it is."""
    place = id(frame)

    def drop(gone: weakref.ref[Any]) -> None:
        if place in _KNOWN and _KNOWN[place][0] is gone:
            del _KNOWN[place]

    _KNOWN[place] = (weakref.ref(frame, drop), origin)
    return frame


def origin_of(frame: object) -> Origin | None:
    """Return the origin of a frame that a release has returned; None for any other."""
    known = _KNOWN.get(id(frame))
    return known[1] if known is not None and known[0]() is frame else None
