"""Exact tables of partitions are added up: whole numbers and exact floats, in any order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def added_up(tables: Sequence[pa.Table], by: Sequence[str]) -> pa.Table:
    """Return one table with the sums of several, by the columns `by`, ascending, NULL last.

    All other columns are sums of disjoint rows: counts, sums of grid integers, or sums of rounded
    values that floats hold exactly. The result is that of one pass over all rows, bit for bit.
    """
    whole = pa.concat_tables(tables)
    sums = [name for name in whole.column_names if name not in by]
    added = whole.group_by(list(by), use_threads=False).aggregate([(name, "sum") for name in sums])
    added = added.rename_columns([*by, *sums] if by else sums)
    added = added.select(whole.column_names).cast(whole.schema)
    return added.sort_by([(name, "ascending") for name in by]) if by else added
