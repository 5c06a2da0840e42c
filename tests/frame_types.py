"""The types of frames that releases take and give back, for tests of all of them."""

import duckdb
import polars as pl
import pyarrow as pa

FRAME_TYPES = {
    "polars": pl.from_arrow,
    "lazy": lambda table: pl.from_arrow(table).lazy(),
    "pandas": pa.Table.to_pandas,
    "arrow": lambda table: table,
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
}
"""Functions that make a frame of an Arrow table."""


def to_polars(released) -> pl.DataFrame:
    """Return a released frame of any type as one of polars."""
    if isinstance(released, duckdb.DuckDBPyRelation):
        return released.pl()
    return released.collect() if isinstance(released, pl.LazyFrame) else pl.DataFrame(released)
