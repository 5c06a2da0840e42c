"""Counts by group and bin of files: sorted by the engine, and kept in files of a call's own.

By group a table of values may be far larger than memory. The engine sorts it within its limit, and
what comes out is written in blocks of whole groups, to be read again block by block.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.bins import bins_query, tabulated
from dfprivacy.engine.group_numbers import number_groups
from dfprivacy.engine.interrupt import interruptible
from dfprivacy.engine.private_folders import private_folder, remove_folders, remove_with
from dfprivacy.engine.run import guarded
from dfprivacy.measurement.binning import SignificantBits
from dfprivacy.measurement.stored_bins import StoredBins
from dfprivacy.measurement.sums import key_name

ENTRIES = 2**18
"""How many entries a block has, about: one group is never cut."""


def run_stored_bins(
    adopted: Adopted, labels: Sequence[Hashable], column: Hashable, binning: SignificantBits
) -> StoredBins:
    """Count the rows of each group of files by value; the files go with the result.

    Raises
    ------
    UnsupportedDtypeError
        When the column's declared dtype does not allow it.
    EngineError
        When the engine fails, or there is no room; the message says nothing of the data.
    TooManyRowsError
        When a value of a group reaches the public limit of rows.
    """
    names = [key_name(index) for index in range(len(labels))]
    query = guarded(
        lambda: bins_query(adopted, labels, column, binning, 0).sort(*names, nulls_last=True)
    )
    connection, native = adopted.connection, query.to_native()
    assert connection is not None  # noqa: S101 files are read by an embedded one
    folder = private_folder()
    try:
        stored = guarded(
            lambda: interruptible(lambda: _stored(native, names, binning, folder), connection)
        )
        remove_with(stored, folder)
    except BaseException:
        remove_folders(folder)
        raise
    return stored


def _stored(
    native: Any, names: Sequence[str], binning: SignificantBits, folder: Path
) -> StoredBins:
    """Write the blocks of a query's result, which is sorted by the columns `names`."""
    keys, rows = [], []
    files: list[Path] = []
    for entries in _whole_groups(native.to_arrow_reader(ENTRIES), names):
        table = tabulated(entries, names, None, binning, 0)
        keys.append(table.keys)
        rows.append(table.totals())
        files.append(folder / f"{len(files)}.npy")
        np.save(files[-1], np.stack([table.group, table.bins, table.rows]))
    sizes = tuple(len(own) for own in rows)
    return StoredBins(pa.concat_tables(keys), binning, np.concatenate(rows), tuple(files), sizes)


def _whole_groups(batches: pa.RecordBatchReader, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the sorted entries again, cut between groups; one table without entries for none."""
    held, some = batches.schema.empty_table(), False
    for batch in batches:
        held = pa.concat_tables([held, pa.Table.from_batches([batch])])
        if held.num_rows < ENTRIES:
            continue
        group = number_groups(held, names, None).group
        cut = int(np.argmax(group == group[-1]))
        if cut:
            yield held.slice(0, cut)
            held, some = held.slice(cut), True
    if held.num_rows or not some:
        yield held
