"""Add up exact sums by group in one pass: integers, or in DuckDB floats where these are exact.

DuckDB turns a float into an integer more slowly than it adds one up. Grid integers are whole
numbers of size at most 2**30, so that floats add them up exactly, in any order, as long as a group
has fewer than 2**23 of them: every partial sum is a whole number below 2**53. The exact number of
values stands beside each sum; where a group has more, the pass is made again with integers. Both
give the same integers; only the time differs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import duckdb
import narwhals as nw
import pyarrow as pa
from narwhals.dtypes import DType

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.keys import key_expressions, told_expression
from dfprivacy.engine.run import exact_table
from dfprivacy.engine.terms import distinct, sums_of, unshifted, with_terms
from dfprivacy.engine.units import entries_of_units, few_values, known_units, scaled, within_groups
from dfprivacy.errors import EngineError
from dfprivacy.measurement.linear import Distinct, Source, Told
from dfprivacy.measurement.sums import Statistics, key_name, sum_name, sum_names

_VALUE, _ROWS = "value", "rows"

_SOURCES = 8
"""How many sources a pass of DuckDB adds up: with more it slows down, where it can read again."""
_WHOLE_FLOATS = 2**53
"""Floats hold every whole number up to this size."""


def exact_sums(
    adopted: Adopted, labels: Sequence[Hashable], sources: Sequence[Source]
) -> Statistics:
    """Return the exact sums of every group.

    Raises
    ------
    EngineError
        When the engine fails, or the frame changes between two passes.
    TooManyRowsError
        When a group reaches the public limit of rows.
    """
    if adopted.unit is None:
        again = adopted.lazy.implementation.is_duckdb() and not adopted.reads_once
        size = _SOURCES if again and not adopted.from_files else len(sources) or 1
        several = [
            _together(adopted, labels, sources[first : first + size], again=again)
            for first in range(0, len(sources), size)
        ]
        return _joined(several, sources) if len(several) > 1 else several[0]
    apart = [own for own in sources if any(isinstance(term, Distinct) for term in own.terms)]
    others = [own for own in sources if own not in apart]
    tables = [_distinct_of_units(adopted, labels, source) for source in apart]
    if others:
        tables.append(_together(adopted, labels, others, again=False))
    return _joined(tables, sources)


def _joined(several: Sequence[Statistics], sources: Sequence[Source]) -> Statistics:
    """Return the sums of several passes over the same groups as those of one."""
    keys = several[0].key_table()
    columns = dict(zip(keys.column_names, keys.columns, strict=True))
    for own in several:
        if not own.key_table().equals(keys):
            raise _changed()
        for place, source in enumerate(own.sources):
            for at in range(1 + len(source.terms)):
                name = sum_name(sources.index(source), at)
                columns[name] = own.table.column(sum_name(place, at))
    ordered = {name: columns[name] for name in (*keys.column_names, *sum_names(sources))}
    return Statistics(pa.table(ordered), several[0].keys, tuple(sources))


def _changed() -> EngineError:
    return EngineError(
        "the frame changed while it was read", hint="ask again, on a copy of the data"
    )


def _distinct_of_units(adopted: Adopted, labels: Sequence[Hashable], source: Source) -> Statistics:
    """Count the values of a column, of which each unit has at most so many in each group."""
    names = [key_name(index) for index in range(len(labels))]
    build = partial(_build_distinct, labels=labels, told=source.told[0])
    return Statistics(exact_table(adopted, build, names), len(names), (source,)).checked()


def _build_distinct(
    adopted: Adopted, *, labels: Sequence[Hashable], told: Told
) -> nw.LazyFrame[Any]:
    assert adopted.unit is not None  # noqa: S101 without units it is a sum among others
    names, unit = [key_name(index) for index in range(len(labels))], adopted.unit
    value = told_expression(adopted, told).alias(_VALUE)
    of_units = known_units(adopted.lazy.select(*key_expressions(adopted, labels), value), adopted)
    rows = nw.len().cast(nw.Int64).alias(_ROWS)
    entries = of_units.group_by(*unit.entries(names), _VALUE).agg(rows)
    few = few_values(within_groups(entries, names, unit, _VALUE), names, _VALUE, _ROWS, unit)
    counted = nw.col(_ROWS).sum().cast(nw.Int64)
    sums = [counted.alias(sum_name(0)), distinct(nw.col(_VALUE)).alias(sum_name(0, 1))]
    return _ascending(few.group_by(*names).agg(*sums) if names else few.select(*sums), names)


def _together(
    adopted: Adopted, labels: Sequence[Hashable], sources: Sequence[Source], *, again: bool
) -> Statistics:
    """Return the sums of one pass, or of two where DuckDB can read `again`.

    Floats are added or not by the frame and the question, whatever the rows.
    """
    names = [key_name(index) for index in range(len(labels))]

    def summed(numbers: DType) -> Statistics:
        build = partial(build_pass, labels=labels, sources=sources, numbers=numbers)
        table = exact_table(adopted, build, names)
        return Statistics(table, len(names), tuple(sources)).checked()

    if not (again and labels):
        return summed(nw.Int64())
    quick = summed(nw.Float64())
    if quick.largest_possible() < _WHOLE_FLOATS:
        return quick
    slow = summed(nw.Int64())
    if not slow.counts_like(quick):
        raise _changed()
    return slow


def build_pass(
    adopted: Adopted, labels: Sequence[Hashable], sources: Sequence[Source], numbers: DType
) -> nw.LazyFrame[Any]:
    """Return the lazy query of one release: key columns, then the sums of each source.

    Grid integers are added up as `numbers`; the sums are Int64 whatever it is.

    Raises
    ------
    UnsupportedDtypeError, InvalidBoundsError
        When a column's declared dtype does not allow what is asked of it.
    """
    engine = adopted.lazy.implementation
    integers, sums = (
        with_terms(adopted, labels, sources, numbers),
        sums_of(sources, engine, units=adopted.unit is not None),
    )
    names = [key_name(index) for index in range(len(labels))]
    if adopted.unit is not None:  # what each contributes to each group, within its limits
        of_units = known_units(integers, adopted)
        added = entries_of_units(of_units, names, adopted.unit, sums, in_memory=adopted.in_memory)
        integers = scaled(added, sources, adopted.unit.rows)
        sums = [nw.col(name).sum().cast(nw.Int64) for name in sum_names(sources)]
    added = integers.group_by(*names).agg(*sums) if names else integers.select(*sums)
    if adopted.unit is None:
        added = unshifted(added, sources, numbers)
    return _ascending(added, names)


def _ascending(added: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return groups in the order of their keys, NULL last, where the engine can sort them so."""
    engine = added.implementation
    if not names:
        return added
    if engine.is_ibis() or engine.is_spark_like():  # sorted after the pass
        return added
    if not engine.is_duckdb():
        return added.sort(*names, nulls_last=True)
    native: Any = added.to_native()  # NULL last whatever the connection's own order is
    order = [duckdb.ColumnExpression(name).asc().nulls_last() for name in names]
    ascending: nw.LazyFrame[Any] = nw.from_native(native.sort(*order))
    return ascending
