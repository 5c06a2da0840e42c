"""Columns of a pandas frame as Arrow, typed by their declared dtype and never by their rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dfprivacy.errors import UnsupportedDtypeError


def value_column(label: Hashable, series: pd.Series[Any]) -> pa.Array | pa.ChunkedArray:
    """Return a numeric or boolean column as Arrow; float and integer arrays are not copied.

    Raises
    ------
    UnsupportedDtypeError
        For any other declared dtype, `object` among them.
    """
    if not pd.api.types.is_numeric_dtype(series.dtype) and not _is_arrow_decimal(series.dtype):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {series.dtype}, which has no mean or sum",
            hint=f"declare it, e.g. df[{label!r}].astype(float)",
        )
    if isinstance(series.dtype, np.dtype):
        return pa.array(series.to_numpy(), from_pandas=False)
    return pa.array(series)


def presence_column(series: pd.Series[Any]) -> pa.Array:
    """Return true where a column of any dtype holds a value, NULL where it is missing."""
    present = series.notna().to_numpy(dtype=bool)
    return pa.array(present, mask=~present)


def _is_arrow_decimal(dtype: object) -> bool:
    return isinstance(dtype, pd.ArrowDtype) and pa.types.is_decimal(dtype.pyarrow_dtype)


@dataclass(frozen=True)
class KeyColumn:
    """A group column on its way to the engine and back.

    `objects` holds the values behind the codes of an object or categorical column, sorted; None
    where the engine groups by the values themselves.
    """

    column: pa.Array | pa.ChunkedArray
    dtype: Any
    objects: Sequence[object] | None

    def encode(self, values: Sequence[object]) -> Sequence[object]:
        """Return public keys as the engine sees them."""
        if self.objects is None:
            return values
        codes = {_mark(value): code for code, value in enumerate(self.objects)}
        return [None if _missing(value) else codes[_mark(value)] for value in values]

    def restore(self, column: pa.ChunkedArray) -> pd.Series[Any]:
        """Return released keys with the caller's own dtype."""
        if self.objects is not None:
            values = [None if code is None else self.objects[code] for code in column.to_pylist()]
            declared = getattr(self.dtype, "categories", pd.Index([], dtype=object)).dtype
            return pd.Series(values, dtype=object).astype(declared)
        series: pd.Series[Any] = column.to_pandas()
        if column.null_count and getattr(self.dtype, "kind", "O") in "iub":
            return series.astype(pd.array([], dtype=self.dtype).astype("Int64").dtype)
        return series.astype(self.dtype)


def key_column(series: pd.Series[Any], listed: Sequence[object]) -> KeyColumn:
    """Return a group column for the engine; `listed` are the public keys it must know.

    Objects and categories become ranks among the sorted values of the column and the list, so
    that the order of groups does not depend on the order of rows.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        known = list(dtype.categories)
        return _coded(series.cat.codes.to_numpy(), known, dtype, listed)
    if pd.api.types.is_object_dtype(dtype):
        codes, known = _factorized(series)
        return _coded(codes, known, dtype, listed)
    return KeyColumn(pa.array(series, from_pandas=True), dtype, None)


def _factorized(series: pd.Series[Any]) -> tuple[np.ndarray[Any, Any], list[object]]:
    """Return codes and distinct values; equal values of different types stay apart."""
    try:
        codes, known = pd.factorize(series, use_na_sentinel=True)
    except TypeError:
        hashable = series.map(lambda value: value if _hashable(value) else None)
        codes, known = pd.factorize(hashable, use_na_sentinel=True)
    if all(isinstance(value, str) for value in known):
        return np.asarray(codes), list(known)
    marks: dict[object, int] = {}
    values: list[object] = []
    own = np.empty(len(series), dtype=np.int64)
    for row, value in enumerate(series):
        if _missing(value) or not _hashable(value):
            own[row] = -1
            continue
        code = marks.setdefault(_mark(value), len(marks))
        if code == len(values):
            values.append(value)
        own[row] = code
    return own, values


def _coded(
    codes: np.ndarray[Any, Any], known: Sequence[object], dtype: object, listed: Sequence[object]
) -> KeyColumn:
    marks = {_mark(value) for value in known}
    extra = [v for v in listed if not _missing(v) and _hashable(v) and _mark(v) not in marks]
    everything = [*known, *extra]
    order = sorted(range(len(everything)), key=lambda code: _sort_key(everything[code]))
    rank = np.empty(len(everything) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranks = rank[codes]
    objects = [everything[code] for code in order]
    return KeyColumn(pa.array(ranks, mask=np.asarray(codes) < 0), dtype, objects)


def _sort_key(value: object) -> tuple[str, Any]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, str) or number:
        return ("number" if number else "str", value)
    return (type(value).__name__, repr(value))


def _mark(value: object) -> tuple[type, object]:
    return (type(value), value)


def _missing(value: object) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or value != value  # noqa: PLR0124 NaN


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
