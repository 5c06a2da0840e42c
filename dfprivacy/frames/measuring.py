"""Measure the parts of a plan over a frame: exact and secret statistics, one pass a part."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any, TypeGuard, TypeVar

import pyarrow as pa

from dfprivacy.engine.adopt import Adopted, Columns, adopt, rereadable
from dfprivacy.engine.histograms import count_bins
from dfprivacy.engine.keys import with_others
from dfprivacy.engine.passes import UnitTable, exact_sums
from dfprivacy.engine.run import guarded, reading_files
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Octaves
from dfprivacy.release.answers import Measured
from dfprivacy.release.plan import Plan, index_of_counting_part
from dfprivacy.release.terms import PublicKeys, Unit
from dfprivacy.statistics.linear import LinearPart, MeasuredSums
from dfprivacy.statistics.octaves import (
    MeasuredOctaves,
    OctavePart,
    in_fine_bins,
)
from dfprivacy.statistics.part import Grouping, Part
from dfprivacy.statistics.products import MeasuredProducts, ProductPart

T = TypeVar("T")


@singledispatch
def measure_plan(
    frame: object, plan: Plan, table: UnitTable | None = None
) -> tuple[Adopted, list[Measured]]:
    """Run the exact passes of a plan; frames of statistics register their own way."""
    limits = () if table is None else plan.limits
    return measure(
        frame, plan.by, plan.keys, plan.parts, unit=plan.unit, table=table, limits=limits
    )


def measure(
    frame: object,
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    parts: Sequence[Part],
    *,
    unit: Unit | None = None,
    table: UnitTable | None = None,
    limits: Sequence[int] = (),
) -> tuple[Adopted, list[Measured]]:
    """Run the exact passes; sums of units come from their table if it has been read."""
    if table is not None:
        return _measure_from_table(table, frame, (by, keys), parts, (unit, limits))
    values: dict[Hashable, bool] = {}
    linear = [part for part in parts if isinstance(part, LinearPart)]
    categorical = dict.fromkeys(column for part in linear for column in part.categories)
    for part in parts:
        for column, numbers in part.columns.items():
            values[column] = values.get(column, False) or numbers
    grouping = Grouping(by, public=keys is not None)
    has_passes = unit is not None and any(
        len(part.sources) > 1 and not sums_from_table(part) for part in linear
    )
    if len(parts) > 1 or has_passes or any(isinstance(part, ProductPart) for part in parts):
        frame = guarded(lambda: rereadable(frame))
    if isinstance(frame, pa.RecordBatchReader):
        parts = in_fine_bins(parts)
    adopted, measured = read(
        frame,
        replace(named_columns(by, keys, values, unit), categories=tuple(categorical)),
        lambda a: _run_passes(parts, a, grouping),
    )
    if by and len(parts) > 1:  # a frame can have other rows in each pass
        groups = measured[index_of_counting_part(parts)].keys
        measured = [part.of_groups(groups) for part in measured]

    def recount(part: OctavePart, bins: Octaves, pooled: bool) -> BinTable:  # noqa: FBT001 one interface
        """Count the groups again in other bins, or the rows of all groups together."""
        other = replace(part, bins=bins, pooled=pooled)
        _, (octaves,) = measure(frame, by, keys, [other], unit=unit)
        assert isinstance(octaves, MeasuredOctaves)  # noqa: S101 what the part measures
        return octaves.table

    def add_up(part: LinearPart) -> MeasuredSums:
        """Add up sums within bounds that have been found."""
        _, (sums,) = measure(frame, by, keys, [part], unit=unit)
        assert isinstance(sums, MeasuredSums)  # noqa: S101 what the part measures
        return sums

    for index, exact in enumerate(measured):
        if isinstance(exact, MeasuredOctaves) and exact.part.grouped and not exact.part.bins:
            measured[index] = replace(exact, recount=partial(recount, exact.part))
        if isinstance(exact, MeasuredProducts):
            measured[index] = replace(exact, add_up=add_up)
    return adopted, measured


def _measure_from_table(
    table: UnitTable,
    frame: object,
    grouped: tuple[Sequence[Hashable], PublicKeys | None],
    parts: Sequence[Part],
    limited: tuple[Unit | None, Sequence[int]],
) -> tuple[Adopted, list[Measured]]:
    """Add up sums within limits; parts that count values by bin read the frame by themselves."""
    by, keys = grouped
    unit, limits = limited
    assert unit is not None  # noqa: S101 there is a table of it
    grouping, adopted = Grouping(by, public=keys is not None), table.adopted
    linear = [part for part in parts if sums_from_table(part)]
    sources = tuple(dict.fromkeys(source for part in linear for source in part.sources))
    measured: list[Measured] = []
    statistics = None
    if sources:
        statistics = table.sum_within_limits(sources, unit.max_rows, unit.max_groups)
    for part, rows in zip(parts, limits, strict=True):
        if statistics is not None and sums_from_table(part):
            measured.append(part.measured(statistics, adopted, grouping))
            continue
        within = replace(unit, max_rows=rows)
        adopted, statistics_of_part = measure(frame, by, keys, [part], unit=within)
        measured += statistics_of_part
    if by and len(parts) > 1:
        groups = measured[index_of_counting_part(parts)].keys
        measured = [part.of_groups(groups) for part in measured]
    return adopted, measured


def sums_from_table(part: object) -> TypeGuard[LinearPart]:
    """Check whether a part adds up sums of units; different values are no sums."""
    return isinstance(part, LinearPart) and not any(s.counts_distinct for s in part.sources)


def _run_passes(parts: Sequence[Any], adopted: Adopted, grouping: Grouping) -> list[Measured]:
    """Measure parts: one pass for all sums, one for all octaves, one for each other part."""
    queries = [part.query for part in parts if isinstance(part, OctavePart)]
    sources = [s for part in parts if isinstance(part, LinearPart) for s in part.sources]
    if queries:
        tables = iter(count_bins(adopted, grouping.by, queries, public=grouping.public))
    if sources:
        statistics = exact_sums(adopted, grouping.by, tuple(dict.fromkeys(sources)))
    measured: list[Measured] = []
    for part in parts:
        if isinstance(part, OctavePart):
            measured.append(part.measured(next(tables)))
        elif isinstance(part, LinearPart):
            measured.append(part.measured(statistics, adopted, grouping))
        else:
            measured.append(part.measure(adopted, grouping))
    return measured


def named_columns(
    by: Sequence[Hashable],
    keys: PublicKeys | None,
    values: Mapping[Hashable, bool],
    unit: Unit | None,
) -> Columns:
    """Return the columns of a release, with its public keys column by column."""
    rows = () if keys is None else keys.rows
    public_keys = [[row[index] for row in rows] for index in range(len(by))]
    return Columns(by, values, public_keys, unit, others=keys is not None and keys.others)


def read(frame: object, columns: Columns, measure_: Callable[[Adopted], T]) -> tuple[Adopted, T]:
    """Adopt a frame, measure it, and give up what the call opened."""
    adopted = guarded(lambda: adopt(frame, columns))
    try:
        if columns.others:
            opened = adopted
            adopted = guarded(lambda: with_others(opened, columns.keys[-1]))
        if adopted.path is None:
            return adopted, measure_(adopted)
        with reading_files([adopted.path]):
            return adopted, measure_(adopted)
    finally:
        adopted.close()
