"""What the exact tables of a release look like: the sums of its queries, the bins of its parts.

It follows from the questions and from this version's code. A file says what it holds, and a reader
takes it only if that is what its own code would have made.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import pyarrow as pa

from dfprivacy.parts import monotone, ranks, subset
from dfprivacy.parts.linear import LinearPart
from dfprivacy.parts.monotone import MeasuredProperty, MonotonePart
from dfprivacy.parts.octaves import MeasuredOctaves, OctavePart
from dfprivacy.parts.part import Measured, Part
from dfprivacy.parts.ranks import BoundsPart, MeasuredBounds, MeasuredRanks, QuantilePart
from dfprivacy.parts.subset import MeasuredValues, SubsetPart
from dfprivacy.statistics.bin_table import BinTable
from dfprivacy.statistics.binning import Binning, Octaves, SignificantBits
from dfprivacy.statistics.linear_query import Source
from dfprivacy.statistics.statistics import first_name, rows_name, second_name

Bins = tuple[Octaves | SignificantBits, int]
"""A binning, and how many powers of the values each bin adds up."""


def sources_of(parts: Sequence[Part]) -> tuple[Source, ...]:
    """Return what the queries of a release add up, in order."""
    plans = [part.plan for part in parts if isinstance(part, LinearPart)]
    return tuple(dict.fromkeys(query.source for plan in plans for query in plan.queries))


def sum_names(sources: Sequence[Source]) -> list[str]:
    """Return the names of all sums."""
    return [
        name(index)
        for index, source in enumerate(sources)
        for name in (rows_name, first_name, second_name)[: 1 + source.moments]
    ]


def binned(parts: Sequence[Part]) -> list[Part]:
    """Return the parts that count by bin, each from a table of its own."""
    return [part for part in parts if not isinstance(part, LinearPart)]


@singledispatch
def bins_of(part: Part) -> tuple[Bins, ...]:
    """Return how the table of a part can count: by the declared type of its column, two ways."""
    raise NotImplementedError(type(part).__name__)


@bins_of.register
def _(part: OctavePart) -> tuple[Bins, ...]:
    return ((Octaves(), part.moments),)


@bins_of.register
def _(part: QuantilePart) -> tuple[Bins, ...]:
    return _ranked(grouped=part.grouped)


@bins_of.register
def _(part: BoundsPart) -> tuple[Bins, ...]:
    return ((Octaves(), 0),) if part.question.rank is None else _ranked(grouped=part.grouped)


@bins_of.register
def _(part: MonotonePart) -> tuple[Bins, ...]:
    return ((SignificantBits(monotone.GROUP_BITS if part.grouped else monotone.WHOLE_BITS), 0),)


@bins_of.register
def _(part: SubsetPart) -> tuple[Bins, ...]:
    return ((SignificantBits(subset.GROUP_BITS if part.grouped else subset.WHOLE_BITS), 0),)


def _ranked(*, grouped: bool) -> tuple[Bins, ...]:
    grids = (ranks.value_grid(coarse=coarse) for coarse in ((False, True) if grouped else (False,)))
    return tuple((grid, 0) for grid in grids)


_MEASURED: dict[type[Part], Any] = {
    OctavePart: MeasuredOctaves,
    QuantilePart: MeasuredRanks,
    BoundsPart: MeasuredBounds,
    MonotonePart: MeasuredProperty,
    SubsetPart: MeasuredValues,
}


def measured_bins(part: Part, table: BinTable) -> Measured:
    """Return what a part would have measured, from its table."""
    measured: Measured = _MEASURED[type(part)](part, table)
    return measured


def bins_json(bins: tuple[Binning, int]) -> list[Any]:
    """Return a binning, with the number of powers that it adds up, as JSON."""
    binning, moments = bins
    if isinstance(binning, SignificantBits):
        return ["significant bits", binning.bits, moments]
    assert isinstance(binning, Octaves)  # noqa: S101 parts have no other bins
    return ["octaves", moments]


def binning_of(written: Sequence[Any]) -> Bins:
    """Return the binning that `bins_json` has written, with its number of powers."""
    kind, *numbers = written
    return (
        (Octaves(), numbers[0]) if kind == "octaves" else (SignificantBits(numbers[0]), numbers[1])
    )


def schema_of(parts: Sequence[Part], keys: Sequence[pa.Field]) -> pa.Schema:
    """Return the columns of a file: those of the groups, then those of the bins."""
    apart = [way for part in binned(parts) for way in bins_of(part)]
    integers = [*sum_names(sources_of(parts)), *(("bin", "rows") if apart else ())]
    return pa.schema(
        [
            ("group", pa.int64()),
            *keys,
            *((name, pa.int64()) for name in integers),
            *((name, pa.float64()) for name in moment_names(max((n for _, n in apart), default=0))),
        ]
    )


def moment_names(moments: int) -> list[str]:
    """Return the names of the columns that hold powers of values."""
    return [f"moment_{power}" for power in range(1, moments + 1)]
