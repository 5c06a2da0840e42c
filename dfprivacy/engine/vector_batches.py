"""Arrow columns become blocks of vectors: matrices of float64, or the entries of item sets.

Each row becomes what it becomes by itself. A row that is no whole vector (missing, of another
length, or with a missing number) becomes NaN; what that means is the neighbour relation's matter.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfprivacy.measurement.buffers import Buffers
from dfprivacy.measurement.vector_grid import Floats

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
