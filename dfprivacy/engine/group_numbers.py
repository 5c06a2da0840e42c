"""Groups get numbers: the distinct keys of a pass's table in their order, or the public ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.public_keys import match
from dfprivacy.measurement.binning import Integers


@dataclass(frozen=True, repr=False)
class NumberedGroups:
    """The keys of each group, how many there are, and the group of each entry. Secret."""

    keys: pa.Table
    groups: int
    entries: pa.Table
    group: Integers


def number_groups(
    entries: pa.Table, names: Sequence[str], listed: Sequence[Sequence[object]] | None
) -> NumberedGroups:
    """Return the groups of a table's entries, numbered: ascending keys, NULL last.

    With `listed` keys, one list a key column, exactly these are the groups, and entries of others
    are left out.

    Raises
    ------
    InvalidKeysError
        When a public key does not fit the declared dtype of its column.
    """
    if not names:
        return NumberedGroups(pa.table({}), 1, entries, np.zeros(entries.num_rows, dtype=np.int64))
    if listed is not None:
        keys, places = match(entries.select(list(names)), listed)
        return NumberedGroups(keys, keys.num_rows, entries.take(places.row), places.number)
    keys, group = _distinct_groups(entries.select(list(names)))
    return NumberedGroups(keys, keys.num_rows, entries, group)


def _distinct_groups(table: pa.Table) -> tuple[pa.Table, Integers]:
    """Return the distinct keys, sorted, and the group of each row."""
    group = np.zeros(table.num_rows, dtype=np.int64)
    for column in table.columns:
        own, size = _ranks(column)
        group = _compressed(group * size + own)
    return table.take(pa.array(_first_rows(group, int(group.max(initial=-1)) + 1))), group


def _ranks(column: pa.ChunkedArray) -> tuple[Integers, int]:
    """Return the rank of each key among the distinct ones, NULL last, and their number."""
    if pa.types.is_integer(column.type) and not column.null_count and len(column):
        return _offsets(column.to_numpy())
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    order = np.asarray(pc.array_sort_indices(encoded.dictionary))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[np.asarray(encoded.indices)], len(order)


def _offsets(values: npt.NDArray[Any]) -> tuple[Integers, int]:
    """Return the rank of each integer; where they lie close together, by counting."""
    least, largest = int(values.min()), int(values.max())
    if largest - least > 4 * len(values):
        distinct, ranks = np.unique(values, return_inverse=True)
        return ranks.astype(np.int64), len(distinct)
    above = values - values.dtype.type(least)  # may wrap in a signed type; not in an unsigned one
    return above.view(f"u{values.dtype.itemsize}").astype(np.int64), largest - least + 1


def _compressed(codes: Integers) -> Integers:
    """Return the rank of each code among the distinct ones."""
    largest = int(codes.max(initial=0))
    if largest <= 4 * len(codes):
        present = np.zeros(largest + 1, dtype=bool)
        present[codes] = True
        if present.all():
            return codes
        return (np.cumsum(present) - 1)[codes]
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _first_rows(group: Integers, size: int) -> Integers:
    rows = np.empty(size, dtype=np.int64)
    rows[group[::-1]] = np.arange(len(group))[::-1]
    return rows
