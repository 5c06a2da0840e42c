"""Blocks of a pass over vectors, made of Arrow columns or of parts of a pandas frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dfprivacy.engine.vector_batches import (
    Entries,
    entries_of_lists,
    entries_of_matrix,
    entries_of_objects,
    matrix_of_columns,
    matrix_of_lists,
    matrix_of_objects,
)
from dfprivacy.engine.vector_dtypes import block_rows, dimension_of
from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.vector_grid import Floats
from dfprivacy.vector_question import MeanVector


@dataclass(frozen=True)
class Block:
    """Some rows of a pass: a matrix or the entries of sets, with the keys of each row. Secret."""

    rows: int
    matrix: Floats | None
    entries: Entries | None
    keys: pa.Table


def split(block: Block, dimension: int) -> Iterator[Block]:
    """Yield a block of a matrix in parts that fit the cache; one of sets as it is."""
    if block.matrix is None:
        yield block
        return
    step = block_rows(dimension)
    for first in range(0, block.rows, step):
        part = block.matrix[first : first + step]
        yield Block(len(part), part, None, block.keys.slice(first, step))


def arrow_block(
    batch: pa.RecordBatch,
    values: Sequence[str],
    question: MeanVector,
    dimension: int,
    buffers: Buffers,
) -> Block:
    """Return the block of a batch: first the keys, then the columns `values` of the vectors."""
    names, first = batch.schema.names, batch.num_columns - len(values)
    keys = pa.table({name: batch.column(index) for index, name in enumerate(names[:first])})
    columns = batch.columns[first:]
    if question.universe is not None:
        return Block(batch.num_rows, None, entries_of_lists(columns[0], dimension), keys)
    if question.wide:
        matrix = matrix_of_columns(columns, buffers)
    else:
        matrix = matrix_of_lists(columns[0], dimension)
    return block_of_matrix(matrix, question, keys)


def block_of_matrix(matrix: Floats, question: MeanVector, keys: pa.Table) -> Block:
    """Return a matrix as a block; where vectors are sets, as entries."""
    if question.binary:
        return Block(len(matrix), None, entries_of_matrix(matrix), keys)
    return Block(len(matrix), matrix, None, keys)


def pandas_converter(
    frame: pd.DataFrame, question: MeanVector
) -> tuple[int, Callable[[pd.DataFrame, pa.Table], Block]]:
    """Return the dimension of a pandas frame's vectors, and what turns its rows into a block."""
    if question.wide:
        kinds = [_pandas_type(frame.iloc[:, i].dtype) for i in range(frame.shape[1])]
        dimension = dimension_of(kinds, question)
        return dimension, lambda part, keys: block_of_matrix(_plain(part), question, keys)
    column = frame.columns[0]
    if frame[column].dtype == object:
        dimension = dimension_of([pa.list_(pa.int64())], question)
        return dimension, lambda part, keys: _object_block(part[column], question, dimension, keys)
    kind = _pandas_type(frame[column].dtype)
    dimension = dimension_of([kind], question)

    def convert(part: pd.DataFrame, keys: pa.Table) -> Block:
        array: Any = pa.array(part[column])
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        batch = pa.record_batch({"vector": array})
        block = arrow_block(batch, ["vector"], question, dimension, Buffers())
        return Block(block.rows, block.matrix, block.entries, keys)

    return dimension, convert


def _plain(part: pd.DataFrame) -> Floats:
    if all(isinstance(dtype, np.dtype) for dtype in part.dtypes):
        return np.ascontiguousarray(part.to_numpy(np.float64))
    return np.ascontiguousarray(part.to_numpy(np.float64, na_value=np.nan))


def _object_block(
    part: pd.Series[Any], question: MeanVector, dimension: int, keys: pa.Table
) -> Block:
    values = part.to_numpy()
    if question.universe is not None:
        return Block(len(values), None, entries_of_objects(values, dimension), keys)
    return block_of_matrix(matrix_of_objects(values, dimension), question, keys)


def _pandas_type(dtype: Any) -> pa.DataType:
    if isinstance(dtype, pd.ArrowDtype):
        return dtype.pyarrow_dtype
    plain = getattr(dtype, "numpy_dtype", dtype)
    if isinstance(plain, np.dtype) and plain.kind in "biuf":
        return pa.from_numpy_dtype(plain)
    return pa.string()
