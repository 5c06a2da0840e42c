"""Reports of any frame, relation or file, as arrays, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute

from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.run import collect, guarded
from dfprivacy.errors import UnsupportedDtypeError
from dfprivacy.local.report_table import COLUMNS
from dfprivacy.local.users import Integers

ROWS = 2**20


@dataclass(frozen=True)
class Batch:
    """Reports without NULLs, column by column, and how many others there were."""

    protocols: Integers
    users: Integers
    groups: Integers
    values: Integers
    malformed: int

    def rows(self, block: slice) -> Batch:
        """Return some of the reports."""
        return Batch(
            self.protocols[block], self.users[block], self.groups[block], self.values[block], 0
        )


def report_batches(source: Any, width: int) -> Iterator[Batch]:
    """Read reports once, `ROWS` at a time.

    Raises
    ------
    UnsupportedDtypeError
        When a column is declared to hold something else than integers (lists of them for
        vectors).
    MissingColumnError, UnsupportedFrameError, EngineError
        When the source has no such columns, is no frame, or can't be read.
    """
    for batch in _record_batches(source):
        for name in COLUMNS:
            _check(name, batch.schema.field(name).type, width if name == "value" else 0)
        yield _batch(batch, width)


def _record_batches(source: Any) -> Iterator[pa.RecordBatch]:
    """Yield the four columns of a source; Arrow is read as it is."""
    if isinstance(source, pd.DataFrame) and set(COLUMNS) <= set(source.columns):
        frame = source[list(COLUMNS)]
        source = guarded(lambda: pa.Table.from_pandas(frame, preserve_index=False))
    if isinstance(source, pa.Table) and set(COLUMNS) <= set(source.column_names):
        yield from source.select(COLUMNS).to_batches(max_chunksize=ROWS)
        return
    wanted = Columns((), dict.fromkeys(COLUMNS, False), ())
    adopted = guarded(lambda: adopt(source, wanted))
    try:
        names = [adopted.values[name] for name in COLUMNS]
        lazy = adopted.rows().select(*names)
        if lazy.implementation.is_duckdb():
            reader = guarded(lambda: pa.RecordBatchReader.from_stream(lazy.to_native()))
            batches: Iterator[pa.RecordBatch] = iter(reader)
        else:
            batches = iter(guarded(lambda: collect(lazy)).to_batches(max_chunksize=ROWS))
        for batch in iter(lambda: guarded(lambda: next(batches, None)), None):
            yield batch.rename_columns(list(COLUMNS))
    finally:
        adopted.close()


def _check(name: str, kind: pa.DataType, width: int) -> None:
    held = kind.value_type if width and hasattr(kind, "value_type") else kind
    if not pa.types.is_integer(held) or (width and held is kind):
        wanted = "lists of integers" if width else "integers"
        raise UnsupportedDtypeError(
            f"column {name!r} of the reports is declared {kind}, not {wanted}",
            hint="keep reports as Parquet or Arrow: text formats lose their types",
        )


def _batch(batch: pa.RecordBatch, width: int) -> Batch:
    whole = batch
    if any(column.null_count for column in batch.columns):
        whole = batch.filter(_whole(batch))
    values = whole.column("value")
    if width:
        lengths = pa.compute.list_value_length(values).to_numpy(zero_copy_only=False)
        if len(lengths) and not (lengths == width).all():
            whole = whole.filter(pa.array(lengths == width))
            values = whole.column("value")
        array = values.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    else:
        array = _integers(values)
    protocols, users, groups = (_integers(whole.column(name)) for name in COLUMNS[:3])
    return Batch(protocols, users, groups, array, batch.num_rows - whole.num_rows)


def _whole(batch: pa.RecordBatch) -> pa.Array:
    valid = [np.asarray(column.is_valid()) for column in batch.columns]
    return pa.array(np.logical_and.reduce(valid))


def _integers(column: pa.Array) -> Integers:
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)
