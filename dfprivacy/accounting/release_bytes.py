"""A released table as bytes that hold what was released, and nothing that lies beside it.

An Arrow table can carry more than it shows: a dictionary of values that no row has, values under
NULLs, the rows around a slice, descriptions of the frame it came from. A release is rebuilt from
its own values before it is written.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def release_bytes(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream of its names, types and values alone."""
    columns = [_rebuilt(column) for column in table.columns]
    plain = pa.table(columns, names=table.column_names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue())


def released_table(content: bytes) -> pa.Table:
    """Return the table that `release_bytes` has written.

    Raises
    ------
    pyarrow.ArrowInvalid
        When the bytes are not those of a table.
    """
    with pa.ipc.open_stream(content) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


def _rebuilt(column: pa.ChunkedArray) -> pa.Array:
    """Return a column's values in new buffers: nothing under a NULL, no dictionary but its own."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = _rebuilt(column.cast(kind.value_type)).dictionary_encode()
        indices = values.indices.cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, values.dictionary, ordered=kind.ordered)
    whole = column.combine_chunks()
    present = whole.is_valid()
    places = pc.cumulative_sum(pc.cast(present, pa.int64()))
    shown = pc.if_else(present, pc.subtract(places, 1), None)
    return whole.take(pc.indices_nonzero(present)).take(shown)
