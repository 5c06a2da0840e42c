"""Measure the parts of a plan over a frame: exact and secret statistics, one pass a part."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import singledispatch
from typing import Any, TypeGuard, TypeVar

import pyarrow as pa

from dfprivacy.engine.adopt import Adopted, Columns, adopt, rereadable
from dfprivacy.engine.histograms import count_bins
from dfprivacy.engine.keys import with_others
from dfprivacy.engine.passes import UnitTable, exact_sums
from dfprivacy.engine.run import reading_files, run_guarded
from dfprivacy.release.answers import Measured
from dfprivacy.release.plan import Plan, index_of_counting_part
from dfprivacy.statistics.linear import LinearPart
from dfprivacy.statistics.part import Part

T = TypeVar("T")


@singledispatch
def measure_plan(
    frame: object, plan: Plan, table: UnitTable | None = None
) -> tuple[Adopted, list[Measured]]:
    """Run the exact passes of a plan; sums of units come from their table if it has been read.

    Frames of statistics register their own way.
    """
    grouped = Columns(plan.by, plan.keys, plan.unit)
    if table is None:
        return measure(frame, plan.parts, grouped)
    return _measure_from_table(frame, table, plan, grouped)


def measure(
    frame: object, parts: Sequence[Part], grouped: Columns
) -> tuple[Adopted, list[Measured]]:
    """Run the exact passes; `grouped` says how, without the columns that the parts read."""
    values: dict[Hashable, bool] = {}
    sources = [source for part in parts for source in part.sources]
    categories = dict.fromkeys(category for source in sources for category in source.categories)
    for part in parts:
        for column, numbers in part.columns.items():
            values[column] = values.get(column, False) or numbers
    several_of_units = grouped.unit is not None and len(sources) > 1
    has_passes = several_of_units and any(source.counts_distinct for source in sources)
    if isinstance(frame, pa.RecordBatchReader) and len(parts) == 1 and not has_passes:
        parts = [part.in_one_pass() for part in parts]
    if len(parts) > 1 or has_passes or any(part.reads_again for part in parts):
        frame = run_guarded(lambda: rereadable(frame))
    columns = replace(grouped, values=values, categories=tuple(categories))
    adopted, measured = read(frame, columns, lambda opened: _run_passes(parts, opened))

    def measure_again(part: Any) -> Any:
        """Measure another part of the same frame, which an answer asks for while it draws."""
        query = part.query
        if query is not None and (counted := adopted.counted.get(query.column)) is not None:
            return part.read_measurement(run_guarded(lambda: counted.count(query)))
        return measure(frame, [part], grouped)[1][0]

    for index, part in enumerate(parts):
        if part.reads_again:
            again: Any = measured[index]
            measured[index] = replace(again, again=measure_again)
    is_several = grouped.keys and len(parts) > 1
    return adopted, _in_same_groups(measured, parts) if is_several else measured


def _in_same_groups(measured: list[Measured], parts: Sequence[Part]) -> list[Measured]:
    """Return measurements of the groups that the counting part saw: a pass may see others."""
    keys = measured[index_of_counting_part(parts)].keys
    return [exact.of_groups(keys) for exact in measured]


def _measure_from_table(
    frame: object, table: UnitTable, plan: Plan, grouped: Columns
) -> tuple[Adopted, list[Measured]]:
    """Add up sums within limits; parts that count values by bin read the frame by themselves."""
    unit, adopted, statistics = grouped.unit, table.adopted, None
    assert unit is not None  # noqa: S101 there is a table of it
    linear = [part for part in plan.parts if sums_from_table(part)]
    sources = tuple(dict.fromkeys(source for part in linear for source in part.sources))
    measured: list[Measured] = []
    if sources:
        statistics = table.sum_within_limits(sources, unit.max_rows, unit.max_groups)
    for part, contribution in zip(plan.parts, plan.contributions, strict=True):
        if statistics is not None and sums_from_table(part):
            measured.append(part.read_measurement(statistics, adopted))
            continue
        within = replace(grouped, unit=replace(unit, max_rows=contribution.rows))
        adopted, statistics_of_part = measure(frame, [part], within)
        measured += statistics_of_part
    return adopted, _in_same_groups(measured, plan.parts) if grouped.keys else measured


def sums_from_table(part: object) -> TypeGuard[LinearPart]:
    """Check whether a part adds up sums of units; different values are no sums."""
    return isinstance(part, LinearPart) and not any(s.counts_distinct for s in part.sources)


def _run_passes(parts: Sequence[Any], adopted: Adopted) -> list[Measured]:
    """Measure parts: one pass for all sums, one for all octaves, one for each other part."""
    queries = [part.query for part in parts if part.query]
    sources = dict.fromkeys(source for part in parts for source in part.sources)
    if queries:
        tables = iter(count_bins(adopted, queries))
    if sources:
        statistics = exact_sums(adopted, tuple(sources))
    measured: list[Measured] = []
    for part in parts:
        if part.query:
            measured.append(part.read_measurement(next(tables)))
        elif part.sources:
            measured.append(part.read_measurement(statistics, adopted))
        else:
            measured.append(part.measure(adopted))
    return measured


def read(frame: object, columns: Columns, measure_: Callable[[Adopted], T]) -> tuple[Adopted, T]:
    """Adopt a frame, measure it, and give up what the call opened."""
    adopted = run_guarded(lambda: adopt(frame, columns))

    def measure_opened() -> tuple[Adopted, T]:
        has_others = columns.public is not None and columns.public.others
        opened = with_others(adopted) if has_others else adopted
        return opened, measure_(opened)

    try:
        with nullcontext() if adopted.path is None else reading_files([adopted.path]):
            return run_guarded(measure_opened)
    finally:
        adopted.close()
