"""What a caller gets by group: keys, answers with their intervals, and the count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.answers import Answer, Column, Counted
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.parts.part import Part
from dfprivacy.questions import Question


def answer_names(parts: Sequence[Part], questions: Mapping[str, Question]) -> dict[str, bool]:
    """Return the names of all answers in the order asked, and whether each has an interval."""
    return dict(_named(parts, questions))


def _named(parts: Sequence[Part], questions: Mapping[str, Question]) -> Iterator[tuple[str, bool]]:
    for question in questions:
        for part in parts:
            if question in part.names:
                yield question, part.names[question]
            elif getattr(part, "name", None) == question:
                yield from part.names.items()


def frame_names(
    parts: Sequence[Part], questions: Mapping[str, Question], keys: Sequence[str]
) -> list[str]:
    """Return the column names of a grouped release.

    Raises
    ------
    InvalidQuestionError
        When two columns would share a name.
    """
    names = [*keys, *_value_names(parts, questions)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidQuestionError(
            f"two columns of the result would be called {twice!r}",
            hint="name the answer: .agg(delay=dfp.mean(...)) or rename the group column",
        )
    return names


def _value_names(parts: Sequence[Part], questions: Mapping[str, Question]) -> list[str]:
    answers = answer_names(parts, questions)
    alone = len(answers) == 1
    names = []
    for name, has_interval in answers.items():
        names.append(name)
        if has_interval:
            names += ["low", "high"] if alone else [f"{name}_low", f"{name}_high"]
    return [*names, "count"] if shows_count(parts) else names


def counting_part(parts: Sequence[Part]) -> Part:
    """Return the part by whose counts groups are selected: the first that can."""
    return next(part for part in parts if part.counts)


def shows_count(parts: Sequence[Part]) -> bool:
    """Tell whether the frame needs a count column beside the answers themselves."""
    return not counting_part(parts).answers_count


def released_table(
    keys: pa.Table,
    answers: Sequence[Answer],
    count: Counted | None,
    kept: Column,
    *,
    names: Sequence[str],
    level: float,
) -> pa.Table:
    """Return one row a kept group: the keys, then each answer, then the count where it is shown."""
    columns: list[Any] = list(keys.take(pa.array(kept)).columns)
    for answer in answers:
        columns += [pa.array(column[kept]) for column in answer.columns(level)]
    if count is not None:
        columns.append(pa.array(count.column()[kept]))
    return pa.table(columns, names=list(names))


def everyone(groups: int) -> Column:
    """Return all groups."""
    return np.arange(groups, dtype=np.int64)
