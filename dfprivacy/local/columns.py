"""What owners hand in, as arrays: values as floats with NaN for missing ones, users as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from dfprivacy.errors import InvalidProtocolError, UnsupportedDtypeError
from dfprivacy.local.asks import Floats
from dfprivacy.local.sheet import Sheet
from dfprivacy.local.users import Integers, number_of_name


def value_matrix(values: Any, width: int) -> Floats:
    """Return values as floats: one a row, or `width` a row where that is not 0.

    NULL, NaN, and vectors of another length or with a missing coordinate are NaN.

    Raises
    ------
    UnsupportedDtypeError
        When the declared type holds no numbers, or no vectors where they are needed.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        if values.ndim == (2 if width else 1) and (not width or values.shape[1] == width):
            return values.astype(np.float64, copy=False)
        raise _no_numbers(f"an array of {values.ndim} dimensions", width)
    column = arrow_column(values)
    return _vectors(column, width) if width else _numbers(column)


def arrow_column(values: Any) -> pa.Array:
    """Return a column of any kind as one Arrow array."""
    column = values.to_arrow() if hasattr(values, "to_arrow") else values
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        try:
            column = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            column = None
    if column is None:
        raise _no_numbers("a column of mixed types", 0)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _numbers(column: pa.Array) -> Floats:
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or _other_number(kind)):
        raise _no_numbers(f"a column of type {kind}", 0)
    floats = column.cast(pa.float64(), safe=False)
    return floats.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # NULL is NaN


def _other_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) or pa.types.is_null(kind))


def _vectors(column: pa.Array, width: int) -> Floats:
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or _fixed(kind)):
        raise _no_numbers(f"a column of type {kind}", width)
    matrix = np.full((len(column), width), np.nan)
    lengths = pa.compute.fill_null(pa.compute.list_value_length(column), -1).to_numpy()
    whole = np.flatnonzero(lengths == width)
    matrix[whole] = _numbers(column.take(pa.array(whole)).flatten()).reshape(-1, width)
    matrix[np.isnan(matrix).any(axis=1)] = np.nan
    return matrix


def _fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _no_numbers(what: str, width: int) -> UnsupportedDtypeError:
    wanted = f"vectors of {width} numbers" if width else "numbers"
    return UnsupportedDtypeError(
        f"{what} holds no {wanted}",
        hint=f"pass {wanted}, e.g. a numpy array of floats",
    )


def user_numbers(sheet: Sheet, users: Any, rows: int) -> Integers:
    """Return the number under which each user reports.

    Raises
    ------
    InvalidProtocolError
        When users are not as many as values, or not those of the protocol.
    """
    if users is None and not sheet.named:
        numbers = np.arange(rows)
    elif sheet.named:
        numbers = _named(users, sheet.campaign)
    else:
        numbers = _indexed(users)
    if len(numbers) != rows or numbers.dtype.kind not in "iu" or not _known(sheet, numbers):
        wanted = "names" if sheet.named else f"different indexes from 0 to {sheet.users - 1}"
        raise InvalidProtocolError(
            f"the users of this protocol are {wanted}, one for each value",
            hint="pass them beside the values, or plan with as many users as there are",
        )
    return numbers.astype(np.int64, copy=False)


def _indexed(users: Any) -> Any:
    array = users if isinstance(users, np.ndarray) else arrow_column(users)
    return array.to_numpy(zero_copy_only=False) if isinstance(array, pa.Array) else array


def _named(users: Any, campaign: str) -> Integers:
    names: Iterable[Any] = [] if users is None else arrow_column(users).to_pylist()
    if any(not isinstance(name, str | bytes) for name in names):
        return np.empty(0, np.int64)
    return np.array([number_of_name(name, campaign) for name in names], dtype=np.int64)


def _known(sheet: Sheet, numbers: Any) -> bool:
    if sheet.named or not len(numbers):
        return True
    return bool(numbers.min() >= 0) and bool(numbers.max() < sheet.users)
