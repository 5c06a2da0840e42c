"""Tables whose rows have a unit, a group, a float and an integer."""

import pyarrow as pa

FRAMES = ["pandas", "polars", "duckdb"]
SCHEMA = pa.schema({"u": pa.int64(), "g": pa.string(), "x": pa.float64(), "i": pa.int64()})


def table(rows):
    return pa.Table.from_pylist(list(rows), SCHEMA)
