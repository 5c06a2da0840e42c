"""What exact tables can't hold, whatever the data: such a file is damaged or was tampered with.

No pass over any rows writes what is refused here, so that a file that a pass has written is never
refused, and no refusal tells one data set from its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dfprivacy.measurement.bin_table import BIN_ROW_LIMIT, BinTable
from dfprivacy.measurement.binning import Floats, Integers, Octaves
from dfprivacy.measurement.grid import ROW_LIMIT
from dfprivacy.measurement.linear import Product, Source, Term
from dfprivacy.measurement.sums import sum_name
from dfprivacy.partial.exact_tables import ExactTables


def is_possible(tables: ExactTables, sources: Sequence[Source]) -> bool:
    """Tell whether some rows could have given these tables."""
    sums = all(_sums_possible(tables.sums, index, own) for index, own in enumerate(sources))
    return sums and all(_bins_possible(table) for table in tables.bins)


def _sums_possible(sums: dict[str, Integers], index: int, source: Source) -> bool:
    rows = sums[sum_name(index)]
    if bool((rows < 0).any()) or bool((rows >= ROW_LIMIT).any()):
        return False
    terms = dict(enumerate(source.terms, start=1))
    return all(
        bool((sums[sum_name(index, place)] >= rows * term.least).all())
        and bool((sums[sum_name(index, place)] <= rows * term.most).all())
        for place, term in terms.items()
    ) and all(
        _product_possible(term, rows, {own: sums[sum_name(index, at)] for at, own in terms.items()})
        for term in terms.values()
        if isinstance(term, Product) and term.tied and {term.left, term.right} <= {*source.terms}
    )


def _product_possible(term: Product, rows: Integers, sums: dict[Term, Integers]) -> bool:
    """Tell whether no coordinate of a partition of unity is negative."""
    least, mosts = term.ends(rows, sums[term.left], sums[term.right])
    return bool((sums[term] >= least).all()) and all((sums[term] <= most).all() for most in mosts)


def _bins_possible(table: BinTable) -> bool:
    """Tell whether entries are in order, in a group and a bin, and hold what the bin can hold."""
    group, bins, rows = table.group, table.bins, table.rows
    last = table.binning.last
    if not len(group):
        return True
    after = (group[1:] > group[:-1]) | ((group[1:] == group[:-1]) & (bins[1:] > bins[:-1]))
    inside = (group >= 0) & (group < table.groups) & (bins >= -last) & (bins <= last)
    counted = (rows >= 1) & (rows < BIN_ROW_LIMIT)
    return bool(after.all() and inside.all() and counted.all()) and _moments_possible(table)


def _moments_possible(table: BinTable) -> bool:
    if not table.moments:
        return True
    assert isinstance(table.binning, Octaves)  # noqa: S101 no other bins have moments
    rows = table.rows.astype(np.float64)
    ends = [table.binning.lower(table.bins), table.binning.upper(table.bins)]
    lower, upper = np.minimum(*np.abs(ends)), np.maximum(*np.abs(ends))
    sizes = [np.where(table.bins < 0, -1, 1) * table.moments[0], *table.moments[1:]]
    powers = ((own, lower**k, upper**k) for k, own in enumerate(sizes, start=1))
    return all(_between(own, rows * low, rows * high) for own, low, high in powers)


def _between(values: Floats, low: Floats, high: Floats) -> bool:
    return bool(((values >= low) & (values <= high)).all())
