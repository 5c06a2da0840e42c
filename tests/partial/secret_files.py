"""Parts of secret files, rewritten as somebody might by hand, and refused."""

import hashlib

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfprivacy as dfp
from dfprivacy.accounting.memory import release_bytes

SECRET = "47110815"
FRAME = pl.DataFrame(
    {
        "g": ["a", f"key {SECRET}", "b", None] * 30,
        "x": [1.0, float(SECRET), -3.5, None] * 30,
        "u": list(range(120)),
    }
)
ASKED = {"m": dfp.mean("x", (0, 5000)), "v": dfp.var("x"), "q": dfp.median("x")}


def require_refusal(paths, *words, **terms):
    """Merge, and return the message of the error, which says these words and no secret."""
    with pytest.raises(dfp.errors.StatisticsFileError) as caught:
        dfp.merge(paths, delta=1e-3, **terms)
    message = str(caught.value)
    assert [word for word in words if word not in message] == []
    assert SECRET not in message
    assert caught.value.__cause__ is None
    return message


def rewritten(path, target, metadata=None, change=None):
    """Write a file anew with other metadata or other tables, as somebody might by hand.

    The digest of the tables is written anew too, so that what is refused is refused for itself.
    """
    parts, digest = [], hashlib.sha256()
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        for index in range(file.num_row_groups):
            table = file.read_row_group(index)
            names = [name for name in schema.names if table[name].null_count < table.num_rows]
            columns = {n: table.column(n).to_numpy(zero_copy_only=False) for n in schema.names}
            if change is not None:
                change(index, columns)
            arrays = [pa.array(columns[f.name], f.type, from_pandas=True) for f in schema]
            parts.append(pa.table(arrays, schema=schema))
            content = release_bytes(parts[-1].select(names).replace_schema_metadata())
            digest.update(b"%d:" % len(content) + content)
    digests = {b"dfprivacy.tables": digest.hexdigest().encode()}
    merged_metadata = {**schema.metadata, **digests, **(metadata or {})}
    with pq.ParquetWriter(target, schema.with_metadata(merged_metadata)) as writer:
        for part in parts:
            writer.write_table(part.cast(schema.with_metadata(merged_metadata)))
    return target


def lab_merge(path):
    return dfp.merge(path, delta=0.2)
