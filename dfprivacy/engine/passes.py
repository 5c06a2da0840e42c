"""The one pass: every exact sum that a release needs, by group, in one lazy query."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import duckdb
import narwhals as nw
from narwhals.dtypes import DType

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.public_keys import known_units
from dfprivacy.engine.terms import sums_of, with_terms
from dfprivacy.engine.units import scaled, within_groups
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.sums import key_name, sum_names


def build_pass(
    adopted: Adopted,
    labels: Sequence[Hashable],
    sources: Sequence[Source],
    numbers: DType | None = None,
) -> nw.LazyFrame[Any]:
    """Return the lazy query of one release: key columns, then the sums of each source.

    Grid integers are added up as `numbers`, Int64 unless told; the sums are Int64 whatever it is.

    Raises
    ------
    UnsupportedDtypeError, InvalidBoundsError
        When a column's declared dtype does not allow what is asked of it.
    """
    engine = adopted.lazy.implementation
    integers = with_terms(adopted, labels, sources, numbers or nw.Int64())
    sums = sums_of(sources, engine)
    names = [key_name(index) for index in range(len(labels))]
    if adopted.unit is not None:
        integers = _by_unit(integers, adopted, names, sources, sums)
        sums = [nw.col(name).sum().cast(nw.Int64) for name in sum_names(sources)]
    if not names:
        return integers.select(*sums)
    added = integers.group_by(*names).agg(*sums)
    sorted_after = engine.is_ibis() or engine.is_spark_like()
    return added if sorted_after else _ascending(added, names)


def _ascending(frame: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return a frame sorted by some columns, NULL last, whatever a connection's own order is."""
    if not frame.implementation.is_duckdb():
        return frame.sort(*names, nulls_last=True)
    order = [duckdb.ColumnExpression(name).asc().nulls_last() for name in names]
    native: Any = frame.to_native()
    ascending: nw.LazyFrame[Any] = nw.from_native(native.sort(*order))
    return ascending


def _by_unit(
    integers: nw.LazyFrame[Any],
    adopted: Adopted,
    names: Sequence[str],
    sources: Sequence[Source],
    sums: Sequence[nw.Expr],
) -> nw.LazyFrame[Any]:
    """Return what each unit contributes to each group, within its limits."""
    assert adopted.unit is not None  # noqa: S101 the caller has looked
    of_units = known_units(integers, adopted)
    added = of_units.group_by(*adopted.unit.entries(names)).agg(*sums)
    kept = within_groups(added, names, adopted.unit)
    return scaled(kept, sources, adopted.unit.rows)
