"""Exact sums by group: as integers, or in DuckDB as floats where these are exact as well.

DuckDB turns a float into an integer more slowly than it adds one up. Grid integers are whole
numbers of size at most 2**30, so that floats add them up exactly, in any order, as long as a group
has fewer than 2**23 of them: every partial sum is a whole number below 2**53. The exact number of
values stands beside each sum; where a group has more, the pass is made again with integers. Both
give the same integers; only the time differs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

import narwhals as nw

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.passes import build_pass
from dfprivacy.engine.run import run_pass
from dfprivacy.errors import EngineError
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.sums import Statistics, key_name

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
    if not _adds_floats(adopted, labels):
        return _summed(adopted, labels, sources, nw.Int64())
    quick = _summed(adopted, labels, sources, nw.Float64())
    if quick.largest_possible() < _WHOLE_FLOATS:
        return quick
    slow = _summed(adopted, labels, sources, nw.Int64())
    if not slow.counts_like(quick):
        raise EngineError(
            "the frame changed while it was read", hint="ask again, on a copy of the data"
        )
    return slow


def _adds_floats(adopted: Adopted, labels: Sequence[Hashable]) -> bool:
    """Tell whether floats may be added: by the frame and the question, whatever the rows."""
    twice = adopted.lazy.implementation.is_duckdb() and not adopted.reads_once
    return twice and adopted.unit is None and len(labels) > 0


def _summed(
    adopted: Adopted,
    labels: Sequence[Hashable],
    sources: Sequence[Source],
    numbers: nw.dtypes.DType,
) -> Statistics:
    build = partial(build_pass, labels=labels, sources=sources, numbers=numbers)
    names = [key_name(index) for index in range(len(labels))]
    return run_pass(adopted, build, names, sources)
