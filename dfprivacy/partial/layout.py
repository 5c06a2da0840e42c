"""What the exact tables of a release look like: the sums of its queries, the bins of its parts.

It follows from the questions and from this version's code. A file says what it holds, and a reader
takes it only if that is what its own code would have made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pyarrow as pa

from dfprivacy.measurement.binning import Binning, Octaves, SignificantBits
from dfprivacy.measurement.linear import Above, OnGrid, Product, Source, Term
from dfprivacy.measurement.sums import sum_names
from dfprivacy.statistics.linear import LinearPart
from dfprivacy.statistics.part import Bins, Part


def sources_of(parts: Sequence[Part]) -> tuple[Source, ...]:
    """Return what the queries of a release add up, in order."""
    vectors = [part.vectors for part in parts if isinstance(part, LinearPart)]
    return tuple(dict.fromkeys(linear.source for own in vectors for linear in own.linears))


def binned(parts: Sequence[Part]) -> list[Any]:
    """Return the parts that count by bin, each from a table of its own."""
    return [part for part in parts if not isinstance(part, LinearPart)]


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
    apart = [way for part in binned(parts) for way in part.tables]
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


def source_json(source: Source, label_json: Callable[[Hashable], str | int]) -> list[Any]:
    """Return a source as JSON: its columns and its terms."""
    columns = [label_json(column) for column in source.columns]
    return [columns, *(_term_json(term, label_json) for term in source.terms)]


def _term_json(term: Term, label_json: Callable[[Hashable], str | int]) -> list[Any]:
    if isinstance(term, Product):
        factors = [_term_json(own, label_json) for own in (term.left, term.right)]
        return ["product", *factors, term.divisor]
    if isinstance(term, OnGrid):
        grid = term.grid
        return ["grid", label_json(term.column), grid.lower, grid.upper, grid.anchor, grid.exponent]
    assert isinstance(term, Above)  # noqa: S101 there are no other terms
    return ["above", label_json(term.column), term.threshold]
