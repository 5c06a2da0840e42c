"""Hold exact statistics, secret and mergeable: one Arrow table with one row a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dfprivacy.errors import TooManyRowsError
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.grid import ROW_LIMIT
from dfprivacy.measurement.linear import Linear, Source


def key_names(keys: int) -> list[str]:
    """Return the names of the columns that hold group keys."""
    return [f"key_{index}" for index in range(keys)]


def sum_name(index: int, position: int = 0) -> str:
    """Name a column of sums: of the rows of the index-th source, or of its `position`-th term."""
    return f"sum_{index}_{position}"


def sum_names(sources: Sequence[Source]) -> list[str]:
    """Name all columns of sums, source by source: the rows, then the terms."""
    return [
        sum_name(index, position)
        for index, source in enumerate(sources)
        for position in range(1 + len(source.terms))
    ]


@dataclass(frozen=True, repr=False)
class Statistics:
    """Exact sums of a data set, int64, one row a group behind its `keys` columns. Secret."""

    table: pa.Table = field(repr=False)
    keys: int
    sources: tuple[Source, ...]

    def __repr__(self) -> str:
        """Show names and types, never a number."""
        columns = ", ".join(f"{column.name}: {column.type}" for column in self.table.schema)
        return f"Statistics(secret; {columns})"

    def coordinates(self, linear: Linear) -> Integers:
        """Return the exact vector: one row a coordinate, one column a group."""
        index = self.sources.index(linear.source)
        positions = range(1 + len(linear.source.terms))
        bases = [self._column(sum_name(index, position)) for position in positions]
        return np.asarray(np.array(linear.matrix, dtype=np.int64) @ np.stack(bases))

    def key_table(self) -> pa.Table:
        """Return the key columns alone."""
        return self.table.select(key_names(self.keys))

    def check_rows(self) -> Statistics:
        """Return these statistics if no group has 2**33 rows: int64 sums may have wrapped then."""
        for index, source in enumerate(self.sources):
            rows = self._column(sum_name(index))
            wrapped = any(
                bool((np.abs(self._column(sum_name(index, position))) > term.largest * rows).any())
                for position, term in enumerate(source.terms, start=1)
            )
            if wrapped or bool((rows >= ROW_LIMIT).any()):
                raise TooManyRowsError(
                    "a group reaches 2**33 rows, the public limit of one release",
                    hint="split the data into parts and release each",
                )
        return self

    def largest_possible(self) -> int:
        """Return a size that no partial sum of any group can have exceeded."""
        sizes = [
            max(max(term.largest, term.maximum - term.minimum) for term in source.terms)
            * int(self._column(sum_name(index)).max())
            for index, source in enumerate(self.sources)
            if source.terms and self.table.num_rows
        ]
        return int(max(sizes, default=0))

    def pool(self, numbers: Integers, groups: int) -> Statistics:
        """Return the sums of groups of groups: `numbers` has that of each, from 0 on."""
        columns = {}
        for name in sum_names(self.sources):
            columns[name] = np.zeros(groups, dtype=np.int64)
            np.add.at(columns[name], numbers, self._column(name))
        return Statistics(pa.table(columns), 0, self.sources).check_rows()

    def _column(self, name: str) -> Integers:
        column = self.table.column(name)
        filled = column.fill_null(0) if column.null_count else column
        return np.asarray(filled.to_numpy(), dtype=np.int64)


def merge(parts: Sequence[Statistics]) -> Statistics:
    """Add up statistics of disjoint parts by group: bit for bit those of one pass over all rows."""
    first = parts[0]
    if any(part.sources != first.sources or part.keys != first.keys for part in parts):
        raise ValueError("statistics of different questions can't be merged")
    names = [name for name in first.table.column_names if not name.startswith("key_")]
    keys = key_names(first.keys)
    table = pa.concat_tables([part.table for part in parts])
    merged = table.group_by(keys).aggregate([(name, "sum") for name in names])
    merged = merged.rename_columns([*keys, *names])
    if keys:
        merged = merged.sort_by([(key, "ascending") for key in keys])
    return Statistics(merged, first.keys, first.sources)
