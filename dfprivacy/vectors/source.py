"""Any frame as a source of vectors that can be read again: one pass after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.engine.adopt import Adopted, Columns, Wrap, adopt
from dfprivacy.engine.columns import key_expression
from dfprivacy.engine.run import collect, guarded
from dfprivacy.errors import UnsupportedFrameError
from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.sums import key_name
from dfprivacy.vectors.blocks import (
    Block,
    arrow_block,
    converted_rows,
    dimension_of,
    pandas_converter,
    require_arrow_integers,
    split,
)
from dfprivacy.vectors.question import MeanVector

_FETCHED = 2**13  # rows that DuckDB hands over at a time


@dataclass(frozen=True)
class VectorSource:
    """A frame as passes over blocks of vectors of a public dimension.

    `keys` is the declared schema of the group columns; `listed` has the public keys as the engine
    sees them.
    """

    dimension: int
    keys: pa.Schema
    read: Callable[[], Iterator[Block]]
    listed: Sequence[Sequence[object]]
    wrap: Wrap
    close: Callable[[], None]


def open_source(frame: object, question: MeanVector, columns: Columns) -> VectorSource:
    """Return a frame as a source of vectors; `columns` has the group columns and their keys.

    Raises
    ------
    UnsupportedFrameError
        When the object can't be read, or can be read only once.
    MissingColumnError
        When a column does not exist.
    UnsupportedDtypeError
        When a column's declared dtype holds no vectors.
    InvalidQuestionError
        When lists declare no length and none was named.
    """
    return guarded(lambda: _open(frame, question, columns))


@singledispatch
def _open(frame: object, question: MeanVector, columns: Columns) -> VectorSource:
    adopted = adopt(frame, columns)
    try:
        return _adopted_source(adopted, question, columns)
    except BaseException:
        adopted.close()
        raise


@_open.register
def _(frame: pa.RecordBatchReader, question: MeanVector, columns: Columns) -> VectorSource:  # noqa: ARG001 one signature
    raise UnsupportedFrameError(
        "a record batch reader can be read once, and a mean of vectors reads several times",
        hint="pass reader.read_all(), or the file or relation behind it",
    )


@_open.register
def _(frame: pa.Table, question: MeanVector, columns: Columns) -> VectorSource:
    if columns.keys:
        return _open.dispatch(object)(frame, question, columns)
    adopt(frame, columns).close()  # its checks of the columns
    chosen = frame.select([str(label) for label in question.labels])
    return _arrow_source(chosen, question, lambda table: table)


@_open.register
def _(frame: pl.DataFrame, question: MeanVector, columns: Columns) -> VectorSource:
    if columns.keys:
        return _open.dispatch(object)(frame, question, columns)
    wrap, chosen = adopt(frame, columns).wrap, frame.select(list(question.labels))
    require_arrow_integers(chosen.dtypes, question.labels)
    return _arrow_source(chosen.to_arrow(), question, wrap)


@_open.register
def _(frame: pd.DataFrame, question: MeanVector, columns: Columns) -> VectorSource:
    none = Columns((), dict.fromkeys(question.labels, False), ())
    adopt(frame.iloc[:0], none).close()  # its checks of the columns
    keyed = adopt(frame, Columns(columns.keys, {}, columns.listed))
    try:
        keys = collect(keyed.lazy.select(*_keys(keyed, columns))) if columns.keys else None
    finally:
        keyed.close()
    labels = list(question.labels)
    dimension, convert = pandas_converter(frame.iloc[:0][labels], question)
    step = converted_rows(dimension)

    def read() -> Iterator[Block]:
        for first in range(0, len(frame), step):
            part = frame.iloc[first : first + step][labels]
            own = pa.table({}) if keys is None else keys.slice(first, step)
            yield from split(convert(part, own), dimension)

    schema = pa.schema([]) if keys is None else keys.schema
    return VectorSource(
        dimension, schema, lambda: _guarded(read()), keyed.listed, keyed.wrap, keyed.close
    )


def _keys(adopted: Adopted, columns: Columns) -> list[Any]:
    schema, engine = adopted.lazy.collect_schema(), adopted.lazy.implementation
    return [
        key_expression(name, label, schema[name], engine).alias(key_name(index))
        for index, (label, name) in enumerate(zip(columns.keys, adopted.keys, strict=True))
    ]


def _adopted_source(adopted: Adopted, question: MeanVector, columns: Columns) -> VectorSource:
    names = [adopted.values[label] for label in question.labels]
    values = [f"vector_{index}" for index in range(len(names))]
    native: Any = (
        adopted.rows()
        .select(
            *_keys(adopted, columns),
            *(nw.col(n).alias(v) for n, v in zip(names, values, strict=True)),
        )
        .to_native()
    )
    if isinstance(native, pl.LazyFrame):
        declared = native.collect_schema()
        require_arrow_integers([declared[value] for value in values], question.labels)
    schema = _schema(native)
    dimension = dimension_of([schema.field(v).type for v in values], question)
    step = converted_rows(dimension)

    def read() -> Iterator[Block]:
        buffers = Buffers()
        for batch in _batches(native):
            for first in range(0, batch.num_rows, step):
                part = batch.slice(first, step)
                yield from split(arrow_block(part, values, question, dimension, buffers), dimension)

    keys = pa.schema([field for field in schema if field.name not in values])
    return VectorSource(
        dimension, keys, lambda: _guarded(read()), adopted.listed, adopted.wrap, adopted.close
    )


def _schema(native: Any) -> pa.Schema:
    """Return the declared Arrow schema of a lazy frame, without reading a row."""
    if isinstance(native, pl.LazyFrame):
        return pl.DataFrame(schema=native.collect_schema()).to_arrow().schema
    if not isinstance(native, duckdb.DuckDBPyRelation):
        return native.schema().to_pyarrow()  # an Ibis table
    return native.limit(0).to_arrow_table().schema


def _batches(native: Any) -> Iterator[pa.RecordBatch]:
    """Run a lazy frame once more, and yield its batches as they come."""
    if isinstance(native, pl.LazyFrame):
        for frame in native.collect_batches(engine="streaming"):
            yield from frame.to_arrow().to_batches()
        return
    if not isinstance(native, duckdb.DuckDBPyRelation):
        yield from native.to_pyarrow_batches(chunk_size=_FETCHED)  # an Ibis table
        return
    yield from native.project("*").to_arrow_reader(_FETCHED)


def _arrow_source(table: pa.Table, question: MeanVector, wrap: Wrap) -> VectorSource:
    dimension = dimension_of([field.type for field in table.schema], question)
    step, names = converted_rows(dimension), table.column_names

    def read() -> Iterator[Block]:
        buffers = Buffers()
        for batch in table.to_batches(max_chunksize=step):
            yield from split(arrow_block(batch, names, question, dimension, buffers), dimension)

    return VectorSource(dimension, pa.schema([]), lambda: _guarded(read()), (), wrap, lambda: None)


def _guarded(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield blocks, with what an engine says on failure withheld."""
    while (block := guarded(lambda: next(blocks, None))) is not None:
        yield block
