"""Hold the exact tables of a release, secret; add them up; tell which no rows can have given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from dfprivacy.engine.keys import number_groups
from dfprivacy.measurement.bin_table import BIN_ROW_LIMIT, BinTable, merge_tables
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.measurement.grid import ROW_LIMIT
from dfprivacy.measurement.linear import Product, Source, Term
from dfprivacy.measurement.sums import Statistics, sum_name, sum_names
from dfprivacy.statistics.linear import LinearPart, MeasuredSums
from dfprivacy.statistics.part import Measured, MeasuredTable, Part, TablePart


def sources_of(parts: Sequence[Part]) -> tuple[Source, ...]:
    """Return what the queries of a release add up, in order."""
    vectors = [part.vectors for part in parts if isinstance(part, LinearPart)]
    return tuple(dict.fromkeys(linear.source for own in vectors for linear in own.linears))


@dataclass(frozen=True)
class ExactTables:
    """The groups of a release, the sums of its queries and the bins of its other parts. Secret.

    `keys` has one row a group, sorted, NULL last, and no columns without groups; `sums` are int64,
    one entry a group, under `sum_names`; `bins` has one table a part that counts by bin.
    """

    keys: pa.Table = field(repr=False)
    sums: dict[str, Integers] = field(repr=False)
    bins: tuple[BinTable, ...] = field(repr=False)

    @classmethod
    def of(cls, measured: Sequence[Measured], keys: pa.Table) -> ExactTables:
        """Return what the parts of a release have measured, with their keys in another form."""
        sums = {}
        for own in measured:
            if isinstance(own, MeasuredSums):
                table = own.statistics.table
                for name in sum_names(own.statistics.sources):
                    sums[name] = np.asarray(table.column(name).fill_null(0).to_numpy(), np.int64)
        bins = (own.table.whole() for own in measured if isinstance(own, MeasuredTable))
        return cls(keys, sums, tuple(bins))

    @property
    def groups(self) -> int:
        """How many groups there are; a whole frame is one."""
        return self.keys.num_rows if self.keys.num_columns else 1

    def measured(self, parts: Sequence[Part]) -> list[Measured]:
        """Return what the parts of a release would have measured."""
        measured: list[Measured] = []
        bins = iter(self.bins)
        for part in parts:
            if isinstance(part, LinearPart):
                keys = zip(self.keys.column_names, self.keys.columns, strict=True)
                table = pa.table({**dict(keys), **self.sums})
                sums = Statistics(table, self.keys.num_columns, sources_of(parts))
                measured.append(MeasuredSums(part, sums.checked()))
            else:
                assert isinstance(part, TablePart)  # noqa: S101 all other parts have tables
                measured.append(part.measured(next(bins)))
        return measured


def added(several: Sequence[ExactTables]) -> ExactTables:
    """Add up tables of disjoint data, group by group: bit for bit those of one pass over all.

    Rows of one group are below 2**33 in each table, so that their sum can't wrap; sums of grid
    integers can't either unless that of the rows reaches the limit, which `measured` looks at.
    """
    first, sizes = several[0], [own.groups for own in several]
    names = first.keys.column_names
    numbered = number_groups(pa.concat_tables([own.keys for own in several]), names, None)
    group = numbered.group if names else np.zeros(sum(sizes), dtype=np.int64)
    places = np.split(group, np.cumsum(sizes)[:-1])
    sums = {name: np.zeros(numbered.groups, dtype=np.int64) for name in first.sums}
    for own, place in zip(several, places, strict=True):
        for name, values in own.sums.items():
            np.add.at(sums[name], place, values)

    def moved(table: BinTable, place: Integers) -> BinTable:
        keys, groups = numbered.keys, numbered.groups
        return replace(table, keys=keys, groups=groups, group=place[table.group])

    bins = zip(*(own.bins for own in several), strict=True)
    together = (merge_tables(list(map(moved, own, places))) for own in bins)
    return ExactTables(numbered.keys, sums, tuple(together))


def is_possible(tables: ExactTables, sources: Sequence[Source]) -> bool:
    """Tell whether some rows could have given these tables.

    No pass over any rows writes what is refused here, so that a file that a pass has written is
    never refused, and no refusal tells one data set from its neighbour.
    """
    sums = all(_sums_possible(tables.sums, index, own) for index, own in enumerate(sources))
    return sums and all(map(_bins_possible, tables.bins))


def _sums_possible(sums: dict[str, Integers], index: int, source: Source) -> bool:
    rows = sums[sum_name(index)]
    own = {term: sums[sum_name(index, at)] for at, term in enumerate(source.terms, start=1)}
    return (
        _between(rows, 0, ROW_LIMIT - 1)
        and all(_between(own[term], rows * term.least, rows * term.most) for term in own)
        and all(_product_possible(term, rows, own) for term in own if isinstance(term, Product))
    )


def _product_possible(term: Product, rows: Integers, sums: dict[Term, Integers]) -> bool:
    """Tell whether no coordinate of a partition of unity is negative."""
    if not term.tied or not {term.left, term.right} <= sums.keys():
        return True
    least, mosts = term.ends(rows, sums[term.left], sums[term.right])
    return all(_between(sums[term], least, most) for most in mosts)


def _bins_possible(table: BinTable) -> bool:
    """Tell whether entries are in order, in a group and a bin, and hold what the bin can hold."""
    group, bins, last = table.group, table.bins, table.binning.last
    after = (group[1:] > group[:-1]) | ((group[1:] == group[:-1]) & (bins[1:] > bins[:-1]))
    return (
        bool(after.all())
        and _between(group, 0, table.groups - 1)
        and _between(bins, -last, last)
        and _between(table.rows, 1, BIN_ROW_LIMIT - 1)
        and _moments_possible(table)
    )


def _moments_possible(table: BinTable) -> bool:
    if not table.moments:
        return True
    assert isinstance(table.binning, Octaves)  # noqa: S101 no other bins have moments
    rows = table.rows.astype(np.float64)
    ends = [table.binning.lower(table.bins), table.binning.upper(table.bins)]
    lower, upper = np.minimum(*np.abs(ends)), np.maximum(*np.abs(ends))
    sizes = [np.where(table.bins < 0, -1, 1) * table.moments[0], *table.moments[1:]]
    return all(
        _between(own, rows * lower**k, rows * upper**k) for k, own in enumerate(sizes, start=1)
    )


def _between(
    values: Integers | Floats, least: Integers | Floats | int, most: Integers | Floats | int
) -> bool:
    return bool(((values >= least) & (values <= most)).all())
