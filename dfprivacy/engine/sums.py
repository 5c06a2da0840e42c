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
from narwhals.dtypes import DType

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.run import exact_table
from dfprivacy.engine.terms import sums_of, with_terms
from dfprivacy.engine.units import known_units, scaled, within_groups
from dfprivacy.errors import EngineError
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.sums import Statistics, key_name, sum_names

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
    names = [key_name(index) for index in range(len(labels))]

    def summed(numbers: DType) -> Statistics:
        build = partial(build_pass, labels=labels, sources=sources, numbers=numbers)
        table = exact_table(adopted, build, names)
        return Statistics(table, len(names), tuple(sources)).checked()

    # floats are added or not by the frame and the question, whatever the rows
    twice = adopted.lazy.implementation.is_duckdb() and not adopted.reads_once
    if not (twice and adopted.unit is None and labels):
        return summed(nw.Int64())
    quick = summed(nw.Float64())
    if quick.largest_possible() < _WHOLE_FLOATS:
        return quick
    slow = summed(nw.Int64())
    if not slow.counts_like(quick):
        raise EngineError(
            "the frame changed while it was read", hint="ask again, on a copy of the data"
        )
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
    integers, sums = with_terms(adopted, labels, sources, numbers), sums_of(sources, engine)
    names = [key_name(index) for index in range(len(labels))]
    if adopted.unit is not None:  # what each contributes to each group, within its limits
        of_units = known_units(integers, adopted)
        added = of_units.group_by(*adopted.unit.entries(names)).agg(*sums)
        integers = scaled(within_groups(added, names, adopted.unit), sources, adopted.unit.rows)
        sums = [nw.col(name).sum().cast(nw.Int64) for name in sum_names(sources)]
    if not names:
        return integers.select(*sums)
    added = integers.group_by(*names).agg(*sums)
    if engine.is_ibis() or engine.is_spark_like():  # sorted after the pass
        return added
    if not engine.is_duckdb():
        return added.sort(*names, nulls_last=True)
    native: Any = added.to_native()  # NULL last whatever the connection's own order is
    order = [duckdb.ColumnExpression(name).asc().nulls_last() for name in names]
    ascending: nw.LazyFrame[Any] = nw.from_native(native.sort(*order))
    return ascending
