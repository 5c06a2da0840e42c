"""Turn the rows of any frame into blocks of vectors: matrices, or entries of sets.

Declared types say whether columns hold vectors, and how long they are.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa

from dfprivacy.errors import InvalidQuestionError, UnsupportedDtypeError
from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.item_tables import ItemRows
from dfprivacy.measurement.rotation import padded_size
from dfprivacy.measurement.vector_grid import Floats, VectorGrid, incomplete
from dfprivacy.vectors.question import LARGEST_DIMENSION, MeanVector

_BLOCK = 2**19  # numbers a block: 4 MiB, so that the buffers of a pass stay in the cache
_CONVERTED = 2**22
_MOST_ROWS = 2**15


def block_rows(dimension: int) -> int:
    """Return how many rows a block of a matrix has: a function of the dimension."""
    return max(min(_BLOCK // padded_size(dimension), _MOST_ROWS), 1)


def converted_rows(dimension: int) -> int:
    """Return how many rows become a matrix at a time, before it is split into blocks."""
    return max(min(_CONVERTED // dimension, _MOST_ROWS), block_rows(dimension))


def dimension_of(kinds: Sequence[pa.DataType], question: MeanVector) -> int:
    """Return the public dimension of the vectors that columns of these declared types hold."""
    if question.wide:
        for label, kind in zip(question.labels, kinds, strict=True):
            _require_numbers(label, kind)
        return len(kinds)
    kind, label = kinds[0], question.columns
    if not _is_list(kind):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {kind}, which holds no vectors",
            hint='list several columns, mean_vector(["x", "y"]), or name a column of lists',
        )
    _require_numbers(label, kind.value_type)
    if question.universe is not None:
        if not pa.types.is_integer(kind.value_type):
            raise UnsupportedDtypeError(
                f"column {label!r} holds no lists of whole numbers",
                hint="number the items 0, 1, ..., universe - 1 first",
            )
        return question.universe
    declared = kind.list_size if pa.types.is_fixed_size_list(kind) else None
    return _agreed(declared, question)


def require_arrow_integers(dtypes: Sequence[pl.DataType], labels: Sequence[Hashable]) -> None:
    """Refuse polars columns and lists of 128-bit integers, which have no type in Arrow."""
    for label, dtype in zip(labels, dtypes, strict=True):
        if "Int128" in str(dtype):
            raise UnsupportedDtypeError(
                f"column {label!r} is declared {dtype}, which Arrow does not have",
                hint=f"make it narrower: pl.col({label!r}).cast(pl.Float64), lists item by item",
            )


def _agreed(declared: int | None, question: MeanVector) -> int:
    if declared is None and question.dimension is None:
        raise InvalidQuestionError(
            f"the lists of column {question.columns!r} declare no length, and it is not read off "
            "the rows",
            hint="say it: dimension=384",
        )
    if declared is not None and question.dimension not in {None, declared}:
        raise InvalidQuestionError(
            f"column {question.columns!r} declares vectors of length {declared}, not "
            f"{question.dimension}",
            hint="leave dimension out",
        )
    chosen = question.dimension if declared is None else declared
    if chosen is None or not 1 <= chosen <= LARGEST_DIMENSION:
        raise InvalidQuestionError(
            "vectors have from 1 to 2**20 coordinates", hint="ask about fewer coordinates"
        )
    return chosen


def _require_numbers(label: object, kind: pa.DataType) -> None:
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (numeric or pa.types.is_boolean(kind)):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {kind}, which holds no numbers",
            hint="convert it to an integer, float, decimal or boolean column first",
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


Entries = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]
"""Row and item of each entry of a block of sets, and which rows hold no set."""


_TILE = 256


def matrix_of_columns(columns: Sequence[pa.Array], buffers: Buffers) -> Floats:
    """Return numeric columns beside each other, one row a vector: turned tile by tile."""
    rows, size = len(columns[0]), len(columns)
    lying = buffers.floats("columns", (size, rows))
    for index, column in enumerate(columns):
        lying[index] = numbers_of(column)
    out = buffers.floats("matrix", (rows, size))
    for first in range(0, rows, _TILE):
        out[first : first + _TILE] = lying[:, first : first + _TILE].T
    return out


def numbers_of(column: pa.Array) -> Floats:
    """Return a numeric or boolean column as float64, NaN where it is NULL."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(column.type) or pa.types.is_float16(column.type):
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def matrix_of_lists(column: pa.Array, dimension: int) -> Floats:
    """Return a column of lists as a matrix; rows of another length are NaN."""
    valid = np.asarray(column.is_valid())
    items, starts = _laid_out(column)
    flat = numbers_of(items)
    fits = valid & (np.diff(starts) == dimension)
    if fits.all():
        return flat.reshape(len(column), dimension)
    matrix = np.full((len(column), dimension), np.nan)
    matrix[fits] = flat[starts[:-1][fits][:, np.newaxis] + np.arange(dimension)]
    return matrix


def _laid_out(column: pa.Array) -> tuple[pa.Array, npt.NDArray[Any]]:
    """Return what lists hold, one after the other, with where each starts, and the last ends.

    What Arrow keeps under a NULL list is among it.
    """
    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        starts = np.arange(len(column) + 1) * size
        return column.values.slice(column.offset * size, len(column) * size), starts
    offsets = np.asarray(column.offsets)
    return column.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]


def entries_of_lists(column: pa.Array, universe: int) -> Entries:
    """Return the entries of a column of lists of items; what is not in the universe is left out."""
    missing = ~np.asarray(column.is_valid())
    items, starts = _laid_out(column)
    row = np.repeat(np.arange(len(column)), np.diff(starts))
    given = np.asarray(items.is_valid())
    row, item = row[given], items.drop_null().to_numpy(zero_copy_only=False)
    known = (item >= 0) & (item < universe) & ~missing[row]
    return _distinct(row[known], item[known].astype(np.int64), universe, missing)


def entries_of_matrix(matrix: Floats) -> Entries:
    """Return the entries of 0/1 vectors: coordinates above one half."""
    missing = np.asarray(np.isnan(matrix).any(axis=1))
    row, item = np.nonzero((matrix > 0.5) & ~missing[:, np.newaxis])
    return row, item, missing


def matrix_of_objects(values: npt.NDArray[Any], dimension: int) -> Floats:
    """Return Python objects as a matrix; what is not a vector of that length is NaN."""
    matrix = np.full((len(values), dimension), np.nan)
    for index, value in enumerate(values):
        vector = _vector(value)
        if vector is not None and len(vector) == dimension:
            matrix[index] = vector
    return matrix


def entries_of_objects(values: npt.NDArray[Any], universe: int) -> Entries:
    """Return the entries of Python objects; what is no list of whole numbers is no set."""
    vectors = [_vector(value) for value in values]
    missing = np.array([vector is None for vector in vectors], dtype=bool)
    held = [np.empty(0) if vector is None else vector for vector in vectors]
    row = np.repeat(np.arange(len(held)), [len(vector) for vector in held])
    numbers = np.concatenate(held) if held else np.empty(0)
    known = (numbers >= 0) & (numbers < universe) & (np.floor(numbers) == numbers)
    return _distinct(row[known], numbers[known].astype(np.int64), universe, missing)


def _vector(value: Any) -> Floats | None:
    """Return an object as a vector; None for whatever is none, without a word about it."""
    if not isinstance(value, np.ndarray | list | tuple):
        return None
    try:
        vector = np.asarray(value)
        if vector.dtype == object:
            vector = np.array([_number(each) for each in vector.tolist()])
    except Exception:  # noqa: BLE001 a row's own object may raise anything
        return None
    if vector.ndim != 1 or vector.dtype.kind not in "biuf":
        return None
    with np.errstate(all="ignore"):
        return vector.astype(np.float64)


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, numbers.Real | Decimal):
        raise TypeError(type(value))
    return float(value)


def _distinct(
    row: npt.NDArray[np.int64],
    item: npt.NDArray[np.int64],
    universe: int,
    missing: npt.NDArray[np.bool_],
) -> Entries:
    """Drop items that a set names twice."""
    codes = row * universe + item
    if len(codes) and (codes[1:] <= codes[:-1]).any():
        codes = np.unique(codes)
        row, item = np.divmod(codes, universe)
    return row, item, missing


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


Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class PreparedRows:
    """Rows for a table, and which rows of their block they are (None: all of them). Secret."""

    rows: Any
    kept: npt.NDArray[np.bool_] | None

    def labels(self, labels: Integers) -> Integers:
        """Return the labels of these rows, given those of the block."""
        return labels if self.kept is None else labels[self.kept]


def prepared(
    block: Block, grid: VectorGrid | None, buffers: Buffers, *, keeps_incomplete: bool
) -> PreparedRows:
    """Return a block's rows on the grid; incomplete ones are zero, or left out."""
    if block.matrix is None:
        assert block.entries is not None  # noqa: S101 a block is one or the other
        return _prepared_items(block.rows, block.entries, keeps_incomplete=keeps_incomplete)
    assert grid is not None  # noqa: S101 matrices come with a grid
    whole = grid.integers(block.matrix, buffers.floats("integers", block.matrix.shape))
    bad = incomplete(whole)
    if not bad.any():
        return PreparedRows(whole, None)
    if keeps_incomplete:
        whole[bad] = 0.0
        return PreparedRows(whole, None)
    return PreparedRows(whole[~bad], ~bad)


def _prepared_items(rows: int, entries: Entries, *, keeps_incomplete: bool) -> PreparedRows:
    row, item, missing = entries
    if keeps_incomplete or not missing.any():
        return PreparedRows(ItemRows(rows, row, item), None)
    places = np.cumsum(~missing) - 1
    return PreparedRows(ItemRows(int(rows - missing.sum()), places[row], item), ~missing)


def by_group(rows: Any, labels: Integers) -> Iterator[tuple[int, Any]]:
    """Yield each label of a block with its rows; -1 labels nothing."""
    order = np.argsort(labels, kind="stable")
    found, starts = np.unique(labels[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    for label, start, end in zip(found.tolist(), starts, ends, strict=True):
        if label >= 0:
            yield label, _taken(rows, order[start:end])


def _taken(rows: Any, chosen: Integers) -> Any:
    if not isinstance(rows, ItemRows):
        return rows[chosen]
    place = np.full(rows.rows, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    own = place[rows.row]
    return ItemRows(len(chosen), own[own >= 0], rows.item[own >= 0])
