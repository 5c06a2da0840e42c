"""Read columns of pandas frames: values and group keys, typed by their declared dtype alone.

Python objects as group keys become their canonical form, each by itself. Equal objects can look
different (1, 1.0 and True; Decimal("1.0") and Decimal("1.00")). If the first one met stood for all,
one row could choose how the group of the others is shown. So an object is grouped by its kind and
its own appearance, never by comparison with others.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from dfprivacy.errors import InvalidKeysError, UnsupportedDtypeError

Codes = npt.NDArray[np.int64]
Mark = tuple[str, Any]

_LEVELS = 4  # of objects within objects that are looked at beyond their `repr`
_SILENCE = threading.RLock()


@contextmanager
def unheard() -> Iterator[None]:
    """Let no warning be heard, nor made an error, while objects are looked at: it tells of a row.

    Filters of warnings are those of the whole process; one thread at a time changes them here.
    """
    with _SILENCE, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def is_missing(value: object) -> bool:
    """Tell None, NaN, NaT, NA and signalling NaN."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 only NaN differs from itself
    except Exception:  # noqa: BLE001 an object may raise what it likes; a signalling NaN does
        return isinstance(value, numbers.Number) or "NaN" in type(value).__name__ or _is_snan(value)


def _is_snan(value: object) -> bool:
    check = getattr(value, "is_snan", None)
    return bool(check()) if callable(check) else False


@unheard()
def coded_objects(
    series: pd.Series[Any], listed: Sequence[object]
) -> tuple[Codes, list[object], list[int | None]]:
    """Return each row's code (-1 for missing), the objects coded, the listed keys' codes.

    The objects are those of the column and the public keys together, sorted by kind and value, so
    that the order of groups does not depend on the order of rows.
    """
    codes, objects = distinct_objects(series)
    marks = [mark_of(value) for value in objects]
    wanted = [None if is_missing(value) else mark_of(value) for value in listed]
    known = {mark: _shown(mark, value) for mark, value in zip(marks, objects, strict=True)}
    for mark, value in zip(wanted, listed, strict=True):
        if mark is not None:
            known.setdefault(mark, _shown(mark, value))
    rank = {mark: code for code, mark in enumerate(sorted(known))}
    ranks = np.array([*(rank[mark] for mark in marks), -1], dtype=np.int64)
    listed_codes = [None if mark is None else rank[mark] for mark in wanted]
    return ranks[codes], [known[mark] for mark in sorted(known)], listed_codes


@unheard()
def distinct_objects(series: pd.Series[Any]) -> tuple[Codes, list[object]]:
    """Return codes and objects of a column of objects; several objects may have the same mark."""
    if pd.api.types.infer_dtype(series, skipna=True) == "string":
        try:
            return _distinct_texts(series)
        except UnicodeError:  # text without a UTF-8 form
            return _distinct_marks(series)
    return _distinct_marks(series)


def _distinct_marks(series: pd.Series[Any]) -> tuple[Codes, list[object]]:
    first: dict[Mark, int] = {}
    found: list[object] = []
    own = np.full(len(series), -1, dtype=np.int64)
    for row, value in enumerate(series):
        if not is_missing(value):
            own[row] = first.setdefault(mark_of(value), len(first))
            if own[row] == len(found):
                found.append(value)
    return own, found


def _distinct_texts(series: pd.Series[Any]) -> tuple[Codes, list[object]]:
    """Return codes and texts as Arrow tells them apart; pandas takes a surrogate for its `repr`."""
    texts = np.empty(len(series), dtype=object)
    texts[:] = [_plain_text(value) for value in series]
    encoded = cast("Any", pa.array(texts, pa.large_string())).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.asarray(codes, dtype=np.int64), encoded.dictionary.to_pylist()


def _plain_text(value: object) -> str | None:
    return str.__str__(value) if isinstance(value, str) else None


def mark_of(value: object) -> Mark:
    """Return a sortable, hashable form of one object: its kind, then its value or appearance.

    The appearance is the `repr` and what a `repr` leaves out: see `_not_in_repr`.
    """
    if isinstance(value, str):
        return ("str", str.__str__(value))
    if isinstance(value, bool | np.bool_):
        return ("bool", bool(value))
    if isinstance(value, int | np.integer):
        return ("int", int(value))
    if isinstance(value, float | np.floating):
        return ("float", float(value) + 0.0)
    return _look(_plain(value), _LEVELS)


def _look(value: object, levels: int) -> Mark:
    """Return the kind and the appearance of an object, without calling equal ones the same."""
    shown = (_tried(lambda: value), _tried(lambda: _not_in_repr(value, levels)))
    return (_class_name(value), shown)


def _class_name(value: object) -> str:
    return f"{type(value).__qualname__} of {type(value).__module__}"


def _tried(look: Callable[[], object]) -> str:
    try:
        return repr(look())
    except Exception:  # noqa: BLE001 an object may raise what it likes
        return ""


def _plain(value: object) -> object:
    """Return a UUID without its origin, a time or difference of pandas in microseconds.

    Or in nanoseconds if it has some; a fold is that of its instant.
    """
    if type(value) is UUID:
        return UUID(int=value.int)
    try:
        if isinstance(value, pd.Timestamp):
            own = _own_fold(value) if value.fold else value
            return own.as_unit("ns" if value.nanosecond else "us")
        if isinstance(value, pd.Timedelta):
            return value.as_unit("ns" if value.nanoseconds else "us")
    except (OverflowError, ValueError):  # too large for them: in the unit it has
        return value
    return value


def _own_fold(value: pd.Timestamp) -> pd.Timestamp:
    """Return a time with the fold that follows from its instant."""
    plain = pd.Timestamp(value.to_datetime64())
    zone = value.tzinfo
    return plain if zone is None else plain.tz_localize("UTC").tz_convert(zone)


def _not_in_repr(value: Any, levels: int) -> list[object]:
    """Return units, time zones, dtypes, and the elements, which a `repr` may leave out."""
    if isinstance(value, dt.datetime | dt.time | dt.timedelta):
        zone, fold = getattr(value, "tzinfo", None), getattr(value, "fold", 0)
        return [getattr(value, "unit", None), fold, _class_name(zone), repr(zone)]
    dtype = str(getattr(value, "dtype", ""))
    return [dtype, *(_look(own, levels - 1) for own in _elements(value) if levels)]


def _elements(value: Any) -> list[Any]:
    if isinstance(value, tuple | list | set | frozenset):
        return list(value)
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, pd.Interval):
        return [value.left, value.right]
    if isinstance(value, pd.Series | pd.DataFrame):
        return [value.attrs, *value.axes, value.to_numpy()]
    if isinstance(value, np.ma.MaskedArray):
        return [np.ma.getdata(value), np.ma.getmaskarray(value)]
    return _fields(value) or _listed(value)


def _fields(value: Any) -> list[Any]:
    """Return what else there is of patterns, UUIDs and offsets."""
    if isinstance(value, re.Pattern):
        return [value.pattern, value.flags]
    if isinstance(value, UUID):
        return [value.is_safe]
    if isinstance(value, pd.offsets.BaseOffset):
        return [getattr(value, own, None) for own in ("normalize", "holidays", "weekmask")]
    return []


def _listed(value: Any) -> list[Any]:
    if not callable(getattr(value, "tolist", None)):
        return []
    held = value.tolist()
    return [getattr(value, "shape", None), *(held if isinstance(held, list | tuple) else [])]


def mark_bytes(mark: Mark) -> bytes:
    """Return a mark as bytes, different ones for different marks; those of text are its UTF-8.

    What is no text starts with a byte that no text has.
    """
    kind, form = mark
    if kind == "str":
        return str(form).encode("utf-8", "surrogatepass")
    return b"\xff" + repr(mark).encode("utf-8", "surrogatepass")


def _shown(mark: Mark, value: object) -> object:
    """Return what stands for a mark in a result: plain text, numbers and times, else the object.

    An array is a copy, for a view shows the layout and the other elements of what it is a view of.
    """
    kind, form = mark
    if kind in {"str", "bool", "int", "float"}:
        return form
    return value.copy(order="C") if type(value) is np.ndarray else _plain(value)


def value_column(label: Hashable, series: pd.Series[Any]) -> pa.Array | pa.ChunkedArray:
    """Return a numeric or boolean column as Arrow; float and integer arrays are not copied.

    Raises
    ------
    UnsupportedDtypeError
        For any other declared dtype, `object` among them.
    """
    dtype: Any = series.dtype
    if dtype.kind not in "biuf" and not _is_arrow_decimal(dtype):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {dtype}, which holds no numbers",
            hint=f"declare it, e.g. df[{label!r}].astype(float)",
        )
    if isinstance(dtype, pd.SparseDtype):
        dtype = dtype.subtype
    if isinstance(dtype, np.dtype):
        with np.errstate(all="ignore"):  # each value by itself: a warning would tell of a row
            return pa.array(np.asarray(series, dtype=_read_dtype(dtype)), from_pandas=False)
    if isinstance(dtype, pd.ArrowDtype) and pa.types.is_float16(dtype.pyarrow_dtype):
        return pa.array(series).cast(pa.float32())
    return pa.array(series)


def _read_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which the engine reads one of numbers: its own, or 64-bit floats."""
    if dtype.kind == "f" and dtype.itemsize not in {4, 8}:
        return np.dtype(np.float64)
    return dtype.newbyteorder("=")


@unheard()
def presence_column(series: pd.Series[Any]) -> pa.Array:
    """Return true where a column of any dtype holds a value, NULL where it is missing."""
    if pd.api.types.is_object_dtype(series.dtype):
        present = np.fromiter((not is_missing(v) for v in series), dtype=bool, count=len(series))
    else:
        present = series.notna().to_numpy(dtype=bool)
        if series.dtype.kind == "f":  # some dtypes do not take NaN for a missing value
            present = ~np.isnan(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return pa.array(present, mask=~present)


def _is_arrow_decimal(dtype: object) -> bool:
    return isinstance(dtype, pd.ArrowDtype) and pa.types.is_decimal(dtype.pyarrow_dtype)


@dataclass(frozen=True)
class KeyColumn:
    """A group column as the engine sees it.

    `listed` has the public keys as the engine sees them. `objects` holds the values behind the
    codes of a coded column; None where the engine groups by the values themselves. `dtype` is what
    a released column gets, whatever is in it.
    """

    column: pa.Array | pa.ChunkedArray
    listed: Sequence[object]
    dtype: Any
    objects: Sequence[object] | None

    @unheard()
    def marks(self) -> pa.Array | pa.ChunkedArray:
        """Return what stands for each row's key whatever else is in the column: no codes, no text.

        Text is its UTF-8, for one text that has none turns a column of them into codes.
        """
        if self.objects is not None:
            marks = [mark_bytes(mark_of(value)) for value in self.objects]
            return pa.array(marks, pa.binary()).take(self.column)
        if pa.types.is_string(self.column.type) or pa.types.is_large_string(self.column.type):
            return self.column.cast(pa.large_binary())
        return self.column

    def restore(self, column: pa.ChunkedArray) -> pd.Series[Any]:
        """Return released keys with the caller's own dtype."""
        if self.objects is not None:
            codes = column.fill_null(-1).to_numpy()
            values = np.empty(len(self.objects) + 1, dtype=object)
            values[:-1], values[-1] = _in_unit(self.objects, self.dtype), None
            dtype = _nullable_dtype(self.dtype) if column.null_count else self.dtype
            return pd.Series(values[codes], dtype=object).astype(dtype)
        if isinstance(self.dtype, np.dtype):
            return _numpy_keys(column, self.dtype)
        if _is_zoned_time(self.dtype):
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))
        return pd.Series(column.to_pandas(types_mapper=_nullable)).astype(self.dtype)


def key_column(series: pd.Series[Any], listed: Sequence[object]) -> KeyColumn:
    """Return a group column for the engine; `listed` are the public keys it must know.

    Numbers, dates and text go as they are; objects, categories, durations, periods and numbers
    that the engine can't read as ranks among their sorted values. Times of a zone that are not in
    microseconds, the only unit that DuckDB has for them, go as those of UTC without a zone.

    Raises
    ------
    InvalidKeysError
        When a public key is no text in a column of text, or no value of what goes as ranks, by its
        declared dtype.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        categories: pd.Series[Any] = dtype.categories.to_series()
        wanted = own_keys(listed, dtype)
        return _coded(series.astype(object), wanted, _nullable_dtype(categories.dtype))
    if isinstance(dtype, pd.StringDtype):
        return _text_column(series, [_own_text(value, dtype) for value in listed])
    if _is_zoned_time(dtype):
        times: Any = pa.array(series, from_pandas=True)
        return KeyColumn(times.cast(pa.timestamp(times.type.unit)), listed, dtype, None)
    if _goes_as_it_is(dtype):
        return KeyColumn(pa.array(series, from_pandas=True), listed, dtype, None)
    return _coded(series.astype(object), own_keys(listed, dtype), dtype)


def _text_column(series: pd.Series[Any], listed: Sequence[object]) -> KeyColumn:
    """Return text as it is, or coded if some of it has no UTF-8 form; both take the same keys."""
    try:
        return KeyColumn(pa.array(series, from_pandas=True), listed, series.dtype, None)
    except UnicodeError:
        return _coded(series.astype(object), listed, series.dtype)


def has_utf8(text: str) -> bool:
    """Tell whether a text has a UTF-8 form: one with a lone surrogate has none."""
    try:
        text.encode()
    except UnicodeError:
        return False
    return True


def own_keys(listed: Sequence[object], dtype: Any) -> list[object]:
    """Return public keys as a declared dtype, or that of its categories, holds them.

    Objects, and categories that are text, are what they are.

    Raises
    ------
    InvalidKeysError
        When a key does not keep its value in that dtype.
    """
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if pd.api.types.is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype):
        return list(listed)
    return [None if is_missing(value) else _own_key(value, dtype) for value in listed]


def _own_key(value: object, dtype: Any) -> object:
    try:
        column: pd.Series[Any] = pd.Series(pd.array([value], dtype=dtype))
        own: object = column.astype(object).iloc[0]
        fits = _keeps_its_value(own, value)
    except Exception:  # noqa: BLE001 what has no place in the dtype, for whatever reason
        fits = False
    if not fits:
        raise _unfit(dtype, "pd.Timedelta(days=1)")
    return own


def _own_text(value: object, dtype: Any) -> str | None:
    """Return a public key of a column of text, whatever text its rows are."""
    if is_missing(value):
        return None
    text = str.__str__(value) if isinstance(value, str) else None
    if text is None or not has_utf8(text):
        raise _unfit(dtype, "'a'")
    return text


def _unfit(dtype: Any, example: str) -> InvalidKeysError:
    return InvalidKeysError(
        f"a public key does not fit the group column, which is declared {dtype}",
        hint=f"list keys of the column's own type, e.g. {example}",
    )


def _keeps_its_value(own: object, value: object) -> bool:
    """Tell whether a key is the same one in its dtype: no true for 1; floats may be rounded."""
    if isinstance(own, bool | np.bool_) != isinstance(value, bool | np.bool_):
        return False
    rounded = isinstance(own, float | np.floating) and isinstance(value, float)
    return bool(own == value) or rounded


def _is_zoned_time(dtype: Any) -> bool:
    """Tell times of a zone in another unit than microseconds."""
    if isinstance(dtype, pd.ArrowDtype):
        kind = dtype.pyarrow_dtype
        return pa.types.is_timestamp(kind) and bool(kind.tz) and kind.unit != "us"
    return isinstance(dtype, pd.DatetimeTZDtype) and dtype.unit != "us"


def _goes_as_it_is(dtype: Any) -> bool:
    if isinstance(dtype, pd.ArrowDtype):
        kind = dtype.pyarrow_dtype
        apart = (pa.types.is_duration, pa.types.is_time32, pa.types.is_float16)
        return not any(is_apart(kind) for is_apart in apart)
    if isinstance(dtype, np.dtype):
        known = dtype.isnative and (dtype.kind != "f" or dtype.itemsize in {4, 8})
        return known and dtype.kind in "biufM"
    plain = isinstance(dtype, pd.DatetimeTZDtype) or hasattr(dtype, "numpy_dtype")
    return plain and dtype.kind in "biufM"


def _in_unit(objects: Sequence[Any], dtype: Any) -> Sequence[object]:
    """Return differences in the unit of their dtype: of several, pandas takes the finest."""
    if isinstance(dtype, np.dtype) and dtype.kind == "m":
        return [own.as_unit(np.datetime_data(dtype)[0]) for own in objects]
    return objects


def _coded(series: pd.Series[Any], listed: Sequence[object], dtype: Any) -> KeyColumn:
    codes, objects, wanted = coded_objects(series, listed)
    return KeyColumn(pa.array(codes, mask=codes < 0), wanted, dtype, objects)


def _numpy_keys(column: pa.ChunkedArray, dtype: np.dtype[Any]) -> pd.Series[Any]:
    """Return keys of a numpy dtype; a public NULL among integers needs their nullable dtype."""
    if column.null_count and dtype.kind in "iub":
        return pd.Series(column.to_pandas(types_mapper=_nullable)).astype(_nullable_dtype(dtype))
    return pd.Series(column.to_pandas()).astype(dtype)


NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}
"""Integers and booleans: the pandas dtypes in which NULL changes nothing."""


def _nullable(kind: pa.DataType) -> Any:
    """Return the pandas dtype that holds an Arrow type and NULL without loss."""
    return NULLABLE.get(kind, pd.ArrowDtype(kind) if pa.types.is_decimal(kind) else None)


def _nullable_dtype(dtype: Any) -> Any:
    """Return the nullable twin of a numpy integer or boolean dtype; any other dtype itself.

    Intervals of integers have those of floats.
    """
    if isinstance(dtype, pd.IntervalDtype) and getattr(dtype.subtype, "kind", "") in "iu":
        return pd.IntervalDtype("float64", dtype.closed)
    own = dtype.subtype if isinstance(dtype, pd.SparseDtype) else dtype
    if isinstance(own, np.dtype) and own.kind in "iub":
        return NULLABLE[pa.from_numpy_dtype(own.newbyteorder("="))]
    return dtype
