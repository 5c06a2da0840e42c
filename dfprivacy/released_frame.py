"""What a caller gets by group: keys, answers with their intervals, and the count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dfprivacy.answers import Answer, Column, Counted
from dfprivacy.errors import InvalidQuestionError
from dfprivacy.statistics import Statistic
from dfprivacy.statistics.part import Part
from dfprivacy.statistics.split import counting_part


def frame_names(
    parts: Sequence[Part], questions: Mapping[str, Statistic], keys: Sequence[str]
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


def _value_names(parts: Sequence[Part], questions: Mapping[str, Statistic]) -> list[str]:
    answers = [
        item
        for question in questions
        for part in parts
        for item in part.names.get(question, {}).items()
    ]
    alone = len(answers) == 1
    names = []
    for name, has_interval in answers:
        names.append(name)
        if has_interval:
            names += ["low", "high"] if alone else [f"{name}_low", f"{name}_high"]
    return [*names, "count"] if shows_count(parts) else names


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


def answers_table(
    keys: pa.Table,
    answers: Mapping[str, tuple[Answer, ...]],
    questions: Mapping[str, Statistic],
    kept: Column,
    *,
    level: float,
) -> pa.Table:
    """Return one row a kept group: the keys, then the columns of each answer under its question."""
    columns = {name: keys.column(name).take(pa.array(kept)) for name in keys.column_names}
    for name, own in answers.items():
        for title, answer in zip(_titles(name, questions[name]), own, strict=True):
            ends = zip(("", "_low", "_high"), answer.columns(level), strict=False)
            columns |= {f"{title}{end}": pa.array(values[kept]) for end, values in ends}
    return pa.table(columns)


def _titles(name: str, question: Statistic) -> list[str]:
    return [f"{name}{suffix}" for suffix in question.suffixes]
