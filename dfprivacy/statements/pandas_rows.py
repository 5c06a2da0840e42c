"""Columns of a pandas frame as SQL sees them, typed by their declared dtype, never by rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dfprivacy.engine.pandas import NULLABLE, is_missing
from dfprivacy.errors import MissingColumnError, UnsupportedDtypeError


def arrow_columns(frame: pd.DataFrame, names: tuple[str, ...]) -> pa.Table:
    """Return some columns of a frame as Arrow.

    Missing values, NaN among them, are NULL, as in DuckDB's own view of a frame. A column of
    objects is text: each object as its own text, whatever the others are.

    Raises
    ------
    UnsupportedDtypeError
        For a dtype that SQL has no type for.
    MissingColumnError
        When a name stands for several columns.
    """
    if not names:
        return pa.table({"row": pa.nulls(len(frame), pa.bool_())})
    return pa.table({name: _arrow(name, _series(frame, name)) for name in names})


def _series(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    found = frame[name]
    if not isinstance(found, pd.Series):
        raise MissingColumnError(
            f"the frame has several columns {name!r}", hint="rename them so that one is meant"
        )
    return found


def _arrow(name: str, series: pd.Series[Any]) -> Any:
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        values = _arrow(name, pd.Series(dtype.categories))
        codes = series.cat.codes.to_numpy()
        return values.take(pa.array(codes.astype(np.int64), mask=codes < 0))
    if pd.api.types.is_object_dtype(dtype):
        return _texts(series)
    if _goes_as_it_is(dtype):
        try:
            return _plain(series)
        except UnicodeError:  # text without a UTF-8 form
            return _texts(series)
    raise UnsupportedDtypeError(
        f"column {name!r} is declared {dtype}, which SQL has no type for",
        hint=f"convert it first, e.g. df[{name!r}].astype(str)",
    )


def _goes_as_it_is(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biufMm"
    known = isinstance(dtype, pd.DatetimeTZDtype | pd.StringDtype | pd.ArrowDtype)
    return known or hasattr(dtype, "numpy_dtype")


def _plain(series: pd.Series[Any]) -> Any:
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize not in (4, 8):
        series = series.astype(np.float64)
    return pa.array(series, from_pandas=True)


def _texts(series: pd.Series[Any]) -> pa.Array:
    return pa.array([_text(value) for value in series], type=pa.string())


def _text(value: object) -> str | None:
    """Return the text of one object, or None for what is missing or has none."""
    if not isinstance(value, str) and is_missing(value):
        return None
    try:
        text = str.__str__(value) if isinstance(value, str) else str(value)
    except Exception:  # noqa: BLE001 an object may raise what it likes
        return None
    return text.encode("utf-8", "replace").decode("utf-8")


def typed_frame(table: pa.Table) -> pd.DataFrame:
    """Return released rows as a pandas frame whose dtypes depend on declared types alone."""
    frame = table.to_pandas(types_mapper=NULLABLE.get)
    assert isinstance(frame, pd.DataFrame)  # noqa: S101 a table never becomes a Series
    return frame
