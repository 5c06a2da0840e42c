"""Read Parquet columns of milliseconds through Arrow, since DuckDB fails where they are far away.

DuckDB turns them into microseconds as it reads a file, and raises on a time that 64 bits can't
hold in microseconds. Here such times become the farthest ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.text_files import Stream
from dfprivacy.errors import UnsupportedDtypeError

_MICROSECONDS = {"s": 10**6, "ms": 10**3}
_FIRST, _LAST = -9_223_372_022_400_000_000, 9_223_372_036_854_000_000
"""The first microsecond that DuckDB has a date for, and one before its last, which is infinity."""


def _read_files(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a schema, which all files have, in its types."""
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=schema.names):
                columns = map(_convert_times, map(batch.column, schema.names), schema.types)
                yield pa.record_batch(list(columns), schema=schema)


def read_coarse_times(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[Path],
    names: Sequence[str],
    direct: duckdb.DuckDBPyRelation,
    coarse: Collection[str],
) -> duckdb.DuckDBPyRelation:
    """Read columns of Parquet files in the types of `direct`, those in `coarse` through Arrow.

    Raises
    ------
    UnsupportedDtypeError
        When a column has no such type in Arrow, or is no column of the files themselves.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    schema = pq.read_schema(files[0])
    declared = dict(zip(schema.names, schema.types, strict=True))
    kinds = dict(zip(direct.columns, map(str, direct.types), strict=True))
    for name in names:
        if name not in declared or pa.types.is_nested(declared[name]):
            raise _beside_coarse_times(name, kinds[name], coarse)
    types = pa.schema([(name, _read_type(declared[name])) for name in names])
    relation = connection.from_arrow(Stream(types, partial(_read_files, files, types)))
    for name, kind in zip(relation.columns, map(str, relation.types), strict=True):
        if kind != kinds[name]:
            raise _beside_coarse_times(name, kinds[name], coarse)
    return relation


def _beside_coarse_times(name: str, kind: str, coarse: Collection[str]) -> UnsupportedDtypeError:
    times = ", ".join(map(repr, sorted(coarse)))
    return UnsupportedDtypeError(
        f"column {name!r} of type {kind} can't be read with times in milliseconds, as in {times}",
        hint="write the file anew with times in microseconds, e.g. "
        "pyarrow.parquet.write_table(table, path, coerce_timestamps='us')",
    )


def _read_type(declared: pa.DataType) -> pa.DataType:
    """Return the type of a column that DuckDB reads as it reads the declared one from a file."""
    if pa.types.is_dictionary(declared):
        return _read_type(declared.value_type)
    if pa.types.is_timestamp(declared) and declared.unit in _MICROSECONDS:
        return pa.timestamp("us", declared.tz)
    if pa.types.is_duration(declared):
        return pa.int64()
    return pa.float32() if pa.types.is_float16(declared) else declared


def _convert_times(column: Any, target: pa.DataType) -> Any:
    """Return a column in another type; far times are cut off, and nothing here fails for a row."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit in _MICROSECONDS:
        scale = _MICROSECONDS[kind.unit]
        ticks = column.cast(pa.int64())
        ticks = pc.min_element_wise(ticks, _LAST // scale, skip_nulls=False)
        ticks = pc.max_element_wise(ticks, _FIRST // scale, skip_nulls=False)
        return pc.multiply(ticks, scale).cast(target)
    column = column if kind == target else column.cast(target)
    if target not in _TEXTS:
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        buffers = [text.as_buffer() for text in column]
        marked = [
            None if buffer is None else buffer.to_pybytes().decode(errors="replace")
            for buffer in buffers
        ]
        return pa.array(marked, column.type)
    return column


_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
