"""The types of frames that releases take and give back, for tests of all of them."""

import duckdb
import pandas as pd
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


def make_database(**tables) -> duckdb.DuckDBPyConnection:
    """Return a database in memory that stores tables under their names."""
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register("handed_in", table)
        connection.execute(f"CREATE TABLE {name} AS FROM handed_in")
    connection.unregister("handed_in")
    return connection


def to_arrow(released) -> pa.Table:
    """Return a released frame of any type as an Arrow table."""
    if isinstance(released, duckdb.DuckDBPyRelation):
        return released.to_arrow_table()
    if isinstance(released, pd.DataFrame):
        return pa.Table.from_pandas(released, preserve_index=False)
    released = released.collect() if isinstance(released, pl.LazyFrame) else released
    return released.to_arrow() if isinstance(released, pl.DataFrame) else released


def to_polars(released) -> pl.DataFrame:
    """Return a released frame of any type as one of polars."""
    if isinstance(released, duckdb.DuckDBPyRelation):
        return released.pl()
    return released.collect() if isinstance(released, pl.LazyFrame) else pl.DataFrame(released)
