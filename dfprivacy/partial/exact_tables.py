"""All exact tables of a release together: of one file, or of several added up. Secret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from dfprivacy.engine.group_numbers import number_groups
from dfprivacy.measurement.bin_table import BinTable, merge_tables
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.sums import Statistics, sum_names
from dfprivacy.partial.layout import sources_of
from dfprivacy.statistics.linear import LinearPart, MeasuredSums
from dfprivacy.statistics.part import Measured, MeasuredTable, Part, TablePart


@dataclass(frozen=True, repr=False)
class ExactTables:
    """The groups of a release, the sums of its queries and the bins of its other parts. Secret.

    `keys` has one row a group, sorted, NULL last, and no columns without groups; `sums` are int64,
    one entry a group, under `sum_names`; `bins` has one table a part that counts by bin.
    """

    keys: pa.Table = field(repr=False)
    groups: int
    sums: dict[str, Integers] = field(repr=False)
    bins: tuple[BinTable, ...] = field(repr=False)

    def __repr__(self) -> str:
        """Show nothing that was counted."""
        return f"ExactTables(secret; {len(self.bins)} tables of bins)"


def exact_tables(measured: Sequence[Measured], keys: pa.Table) -> ExactTables:
    """Return what the parts of a release have measured, with their keys in another form."""
    sums: dict[str, Integers] = {}
    bins = [own.table.whole() for own in measured if isinstance(own, MeasuredTable)]
    groups = bins[0].groups if bins else 1
    for own in measured:
        if isinstance(own, MeasuredSums):
            sums, groups = _sums(own.statistics), own.statistics.table.num_rows
    return ExactTables(keys, groups, sums, tuple(bins))


def _sums(statistics: Statistics) -> dict[str, Integers]:
    table = statistics.table
    return {
        name: np.asarray(table.column(name).fill_null(0).to_numpy(), dtype=np.int64)
        for name in sum_names(statistics.sources)
    }


def measured_of(tables: ExactTables, parts: Sequence[Part]) -> list[Measured]:
    """Return what the parts of a release would have measured.

    Raises
    ------
    TooManyRowsError
        When a group has reached the public limit of rows.
    """
    measured: list[Measured] = []
    bins = iter(tables.bins)
    for part in parts:
        if isinstance(part, LinearPart):
            columns = dict(zip(tables.keys.column_names, tables.keys.columns, strict=True))
            table = pa.table(
                {**columns, **{name: pa.array(own) for name, own in tables.sums.items()}}
            )
            statistics = Statistics(table, tables.keys.num_columns, sources_of(parts))
            measured.append(MeasuredSums(part, statistics.checked()))
        else:
            assert isinstance(part, TablePart)  # noqa: S101 all other parts have tables
            measured.append(part.measured(next(bins)))
    return measured


def added(several: Sequence[ExactTables]) -> ExactTables:
    """Add up tables of disjoint data, group by group: bit for bit those of one pass over all.

    Rows of one group are below 2**33 in each table, so that their sum can't wrap; sums of grid
    integers can't either unless that of the rows reaches the limit, which `measured_of` looks at.

    Raises
    ------
    TooManyRowsError
        When a bin has reached the public limit of rows.
    """
    first = several[0]
    together = pa.concat_tables([own.keys for own in several])
    numbered = number_groups(together, first.keys.column_names, None)
    sizes = [own.keys.num_rows if own.keys.num_columns else 1 for own in several]
    places = np.split(_numbers(numbered.group, sizes), np.cumsum(sizes)[:-1])
    sums = {name: np.zeros(numbered.groups, dtype=np.int64) for name in first.sums}
    for own, place in zip(several, places, strict=True):
        for name, values in own.sums.items():
            np.add.at(sums[name], place, values)
    bins = [
        merge_tables(
            [
                _moved(t, place, numbered.keys, numbered.groups)
                for t, place in zip(own, places, strict=True)
            ]
        )
        for own in zip(*(own.bins for own in several), strict=True)
    ]
    return ExactTables(numbered.keys, numbered.groups, sums, tuple(bins))


def _numbers(group: Integers, sizes: Sequence[int]) -> Integers:
    """Return the group of each row of the tables; without keys all are of the one group."""
    return group if len(group) == sum(sizes) else np.zeros(sum(sizes), dtype=np.int64)


def _moved(table: BinTable, place: Integers, keys: pa.Table, groups: int) -> BinTable:
    """Return a table whose groups have the numbers `place` among other groups."""
    return replace(table, keys=keys, groups=groups, group=place[table.group])
