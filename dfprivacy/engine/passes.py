"""Add up exact sums in one pass of the frame's own engine.

DuckDB turns a float into an integer more slowly than it adds one up. Grid integers are whole
numbers of size at most 2**30, so that floats add them up exactly, in any order, as long as a group
has fewer than 2**23 values; the count beside each sum says whether the pass is made again with
integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
from narwhals.dtypes import DType

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.keys import align, category_expression, key_expressions
from dfprivacy.engine.run import collect, run_guarded
from dfprivacy.engine.terms import add_up, add_up_in_polars, count_distinct, distinct, with_terms
from dfprivacy.engine.units import (
    PLACE,
    UnitRows,
    add_up_units,
    collect_unit_rows,
    fetch_unit_rows,
    few_values,
    filter_known_units,
    mark_first_groups,
    scale_units,
    sum_by_unit,
    within_groups,
)
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.sums import Statistics, sum_name, sum_names

_VALUE, _ROWS, _GROUP, _ENTRY = "value", "rows", "group", "entry"

_SOURCES = 8
"""How many sources a pass of DuckDB adds up: with more it slows down, where it can read again."""
_WHOLE_FLOATS = 2**53
"""Floats hold every whole number up to this size."""


def exact_sums(adopted: Adopted, sources: Sequence[Source]) -> Statistics:
    """Return the exact sums of every group.

    Raises
    ------
    EngineError
        When the engine fails.
    TooManyRowsError
        When a group reaches the public limit of rows.
    """
    if adopted.unit is None:
        again = adopted.lazy.implementation.is_duckdb() and not adopted.reads_once
        size = _SOURCES if again and not adopted.from_files else len(sources) or 1
        parts = []
        for first in range(0, len(sources), size):
            batch, sums = sources[first : first + size], None
            if again and adopted.keys:  # by the frame and the question, whatever the rows
                sums = _sum_rows(adopted, batch, nw.Float64())
            if sums is None or sums.largest_possible() >= _WHOLE_FLOATS:
                sums = _sum_rows(adopted, batch, nw.Int64())
            parts.append(sums)
        return _join_passes(parts, sources) if len(parts) > 1 else parts[0]
    parts, others = [], []
    for source in sources:
        if not source.counts_distinct:
            others.append(source)
            continue
        unit = replace(adopted.unit, rows=source.rows or adopted.unit.rows)
        limited = replace(adopted, unit=unit)
        parts.append(_collect_sums(_count_distinct(limited, source), limited, (source,)))
    if others:
        sums = _sum_first_groups(adopted, others)
        if sums is None:
            unit, entries = adopted.unit, sum_by_unit(adopted, add_up_units(others))
            query = _add_entries(within_groups(entries, unit), unit.keys, others, unit.rows)
            sums = _collect_sums(query, adopted, others)
        parts.append(sums)
    return _join_passes(parts, sources)


def _collect_sums(
    query: nw.LazyFrame[Any], adopted: Adopted, sources: Sequence[Source]
) -> Statistics:
    """Return the sums of a query, groups in the order of their keys, NULL last."""
    names, engine, native = adopted.names, query.implementation, query.to_native()
    if names and engine.is_duckdb():  # NULL last whatever the connection's own order is
        order = [duckdb.ColumnExpression(name).asc().nulls_last() for name in names]
        query = nw.from_native(native.sort(*order))
    elif names and engine.is_polars():
        query = query.sort(*names, nulls_last=True)
    table = collect(query, adopted.connection)
    if names and (engine.is_ibis() or engine.is_spark_like()):  # which may sort in another way
        table = table.sort_by([(name, "ascending") for name in names])
    return Statistics(table, len(names), tuple(sources)).check_rows()


def _join_passes(parts: Sequence[Statistics], sources: Sequence[Source]) -> Statistics:
    """Return the sums of several passes as those of one, by the groups of that which counts them.

    A frame can have other rows in each pass: none is compared with another, as a row could show in
    whether they are alike.
    """
    counting = min(sources, key=lambda part: (bool(part.terms), bool(part.columns)))
    keys = next(part.key_table() for part in parts if counting in part.sources)
    columns = dict(zip(keys.column_names, keys.columns, strict=True))
    for other in parts:
        part = other if other.key_table().equals(keys) else align(other, keys)
        for index, source in enumerate(part.sources):
            for at in range(1 + len(source.terms)):
                name = sum_name(sources.index(source), at)
                columns[name] = part.table.column(sum_name(index, at))
    ordered = {name: columns[name] for name in (*keys.column_names, *sum_names(sources))}
    return Statistics(pa.table(ordered), parts[0].keys, tuple(sources))


def _sum_rows(adopted: Adopted, sources: Sequence[Source], numbers: DType) -> Statistics:
    """Return the sums of one pass, which adds up integers or floats."""
    terms = with_terms(adopted, sources, numbers)
    return _collect_sums(add_up(terms, adopted.names, sources, numbers), adopted, sources)


def _count_distinct(adopted: Adopted, source: Source) -> nw.LazyFrame[Any]:
    assert adopted.unit is not None  # noqa: S101 without units it is a sum among others
    unit = adopted.unit
    value = category_expression(adopted, source.categories[0]).alias(_VALUE)
    of_units = filter_known_units(adopted.lazy.select(*key_expressions(adopted), value), adopted)
    rows = nw.len().cast(nw.Int64).alias(_ROWS)
    entries = of_units.group_by(*unit.entries, _VALUE).agg(rows)
    limited = few_values(within_groups(entries, unit, _VALUE), _VALUE, _ROWS, unit)
    if limited.implementation.is_ibis():
        native: Any = limited.to_native()
        totals = (native[_ROWS].sum().fill_null(0), count_distinct(native[_VALUE]))
        named = [total.name(sum_name(0, position)) for position, total in enumerate(totals)]
        added: nw.LazyFrame[Any] = nw.from_native(native.aggregate(named, by=list(unit.keys)))
        return added
    counted = nw.col(_ROWS).sum().cast(nw.Int64)
    sums = [counted.alias(sum_name(0)), distinct(nw.col(_VALUE)).alias(sum_name(0, 1))]
    return limited.group_by(*unit.keys).agg(*sums) if unit.keys else limited.select(*sums)


def _add_entries(
    entries: nw.LazyFrame[Any], names: Sequence[str], sources: Sequence[Source], rows: int
) -> nw.LazyFrame[Any]:
    """Add up the contributions of units to each group, within their limits of rows."""
    integers = scale_units(entries, sources, rows)
    sums = [nw.col(name).sum().cast(nw.Int64) for name in sum_names(sources)]
    return integers.group_by(*names).agg(*sums) if names else integers.select(*sums)


def _sum_first_groups(adopted: Adopted, sources: Sequence[Source]) -> Statistics | None:
    """Return the sums of units from rows in memory; None where they stay in the engine.

    Sorting one word a row takes less than half the time of an engine's window over as many entries.
    """
    unit = adopted.unit
    if unit is None or unit.groups is None or not unit.keys:
        return None
    added, engine = tuple(add_up_units(sources)), adopted.lazy.implementation
    terms = filter_known_units(with_terms(adopted, added, nw.Int64()), adopted)
    rows = fetch_unit_rows(terms, adopted)
    if rows is None:
        return None
    if rows.keys.num_rows > unit.groups:
        rows = rows.filter(rows.mark_first(unit.groups))
    size = max(rows.keys.num_rows, 1)
    frame: Any = pl.DataFrame({_ENTRY: rows.units * size + rows.groups, PLACE: rows.places})
    lazy = frame.hstack(pl.from_arrow(rows.columns)).lazy()
    totals = add_up_in_polars(added, shifted=engine.is_polars())
    entries = collect(nw.from_native(lazy.group_by(_ENTRY).agg(*totals, pl.col(PLACE).min())))
    units, groups = np.divmod(entries.column(_ENTRY).to_numpy(), size)
    places, sums = entries.column(PLACE).to_numpy(), entries.drop_columns([_ENTRY, PLACE])
    table = UnitTable(adopted, UnitRows(rows.keys, units, groups, places, sums), added)
    return table.sum_within_limits(sources, unit.rows, unit.groups)


@dataclass(frozen=True, repr=False)
class UnitTable:
    """Sums of each unit in each group before limits, in memory. Secret."""

    adopted: Adopted
    rows: UnitRows
    sources: tuple[Source, ...]

    def __repr__(self) -> str:
        """Show nothing of it."""
        return "UnitTable()"

    def sum_within_limits(
        self, sources: Sequence[Source], limit: int, groups: int | None
    ) -> Statistics:
        """Return the sums of each group: a unit has at most `limit` rows in at most `groups`."""
        rows, keys = self.rows, self.adopted.names
        if groups is not None and keys:
            marks = mark_first_groups(rows.units, rows.places, rows.groups, groups)
            rows = rows.filter(marks)
        columns = {
            sum_name(index, position): rows.columns.column(name)
            for index, source in enumerate(add_up_units(sources))
            for position, name in enumerate(self.list_names(source))
        }
        names = [_GROUP] if keys else []
        frame: Any = pl.from_arrow(pa.table({**columns, _GROUP: rows.groups}))

        def add_entries() -> pa.Table:
            lazy = nw.from_native(frame.lazy())
            added = _add_entries(lazy, names, sources, limit)
            return collect(added.sort(*names) if names else added)

        sums = run_guarded(add_entries)
        if names:
            columns_of_keys = rows.keys.take(sums.column(_GROUP)).columns
            sums = pa.table([*columns_of_keys, *sums.columns[1:]], [*keys, *sum_names(sources)])
        return Statistics(sums, len(keys), tuple(sources)).check_rows()

    def list_names(self, source: Source) -> list[str]:
        """Return the columns of the rows and the terms of a source."""
        index = self.sources.index(source)
        return [sum_name(index, position) for position in range(1 + len(source.terms))]


def read_unit_table(adopted: Adopted, sources: Sequence[Source]) -> UnitTable:
    """Read the sums of each unit in each group into memory, by one pass."""
    raw = tuple(add_up_units([Source(), *sources]))
    return UnitTable(adopted, collect_unit_rows(sum_by_unit(adopted, raw), adopted), raw)
