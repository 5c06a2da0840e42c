"""Read columns of pandas frames: values and group keys, typed by their declared dtype alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfprivacy.engine.key_types import key_values
from dfprivacy.engine.objects import (
    Codes,
    encode_values,
    is_missing,
    mark_bytes,
    mark_unit,
    mark_value,
    plain,
)
from dfprivacy.errors import InvalidKeysError, UnsupportedDtypeError
from dfprivacy.measurement.grid import MOST_TICKS, find_clock_kind


def require_known(label: Hashable, dtype: Any) -> None:
    """Refuse a dtype that another library defines: what its own code does could follow a row.

    So are Arrow's views, encoded runs, unions, intervals of months and longest decimals, which
    pandas can't compute with.

    Raises
    ------
    UnsupportedDtypeError
        The same on any rows.
    """
    if not isinstance(dtype, np.dtype) and type(dtype).__module__.partition(".")[0] != "pandas":
        raise UnsupportedDtypeError(
            f"column {label!r} is of dtype {type(dtype).__name__}, which another library defines",
            hint=f"convert it first: pd.to_numeric(df[{label!r}], errors='coerce') for numbers, "
            "astype(object) for keys",
        )
    kind = dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else pa.null()
    if any(tells(kind) for tells in _NOT_COMPUTED):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {dtype}, which pandas can't compute with",
            hint="hand the rows over as Arrow: dfp.frame(pa.Table.from_pandas(df))",
        )


_NOT_COMPUTED = (
    pa.types.is_string_view,
    pa.types.is_binary_view,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
    pa.types.is_run_end_encoded,
    pa.types.is_decimal256,
    pa.types.is_interval,
    pa.types.is_union,
)


def value_column(label: Hashable, series: pd.Series[Any]) -> pa.Array | pa.ChunkedArray:
    """Return a column of numbers, booleans or times as Arrow; numpy's arrays are not copied.

    Times of a zone are those of UTC without a zone.

    Raises
    ------
    UnsupportedDtypeError
        For any other declared dtype, `object` among them.
    """
    dtype: Any = series.dtype
    declared = find_moment_type(series)
    if declared is not None:
        times = pa.array(series, from_pandas=True)
        if pa.types.is_duration(declared):
            # DuckDB has no other unit of durations; those of centuries are cut off.
            per = {"s": 10**6, "ms": 10**3, "us": 1}.get(times.type.unit, 0)
            ticks = times.cast(pa.int64()).fill_null(0).to_numpy()
            largest = MOST_TICKS // per if per else 0
            ticks = np.clip(ticks, -largest, largest) * per if per else ticks // 1000
            missing = times.is_null().to_numpy(zero_copy_only=False)
            return pa.array(ticks, mask=missing).cast(pa.duration("us"))
        zoned = pa.types.is_timestamp(declared) and declared.tz
        return times.cast(pa.timestamp(declared.unit)) if zoned else times
    arrow = dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else None
    if dtype.kind not in "biuf" and not pa.types.is_decimal(arrow or pa.null()):
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {dtype}, which holds no numbers",
            hint=f"df[{label!r}].dt.to_timestamp() makes times of periods"
            if isinstance(dtype, pd.PeriodDtype)
            else f"convert it: pd.to_numeric(df[{label!r}], errors='coerce') for numbers, "
            f"pd.to_datetime(df[{label!r}], format='%Y-%m-%d', errors='coerce') for dates, where "
            "without a format the first row decides how all are read",
        )
    if isinstance(dtype, pd.SparseDtype):
        dtype = dtype.subtype
    if isinstance(dtype, np.dtype):
        is_read = dtype.kind != "f" or dtype.itemsize in {4, 8}
        numbers = np.asarray(series, dtype=dtype.newbyteorder("=") if is_read else np.float64)
        return pa.array(numbers, from_pandas=False)
    if arrow is not None and pa.types.is_float16(arrow):
        return pa.array(series).cast(pa.float32())
    return pa.array(series)


def find_moment_type(series: pd.Series[Any]) -> pa.DataType | None:
    """Return the Arrow type of a column that is declared to hold dates, times or durations."""
    dtype: Any = series.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return dtype.pyarrow_dtype if find_clock_kind(dtype.pyarrow_dtype) else None
    return pa.array(series.iloc[:0]).type if dtype.kind in "mM" else None


def answer_column(column: pa.ChunkedArray) -> pd.Series[Any]:
    """Return a released column as pandas has it: dates have no dtype there but Arrow's."""
    if pa.types.is_date(column.type) or pa.types.is_time(column.type):
        return pd.Series(column.to_pandas(types_mapper=pd.ArrowDtype))
    return pd.Series(column.to_pandas())


def presence_column(series: pd.Series[Any], key: KeyColumn | None = None) -> pa.Array:
    """Return true where a column of any dtype holds a value, NULL where it is missing.

    Reading the texts of one that is a group key already would take as long again.
    """
    if pd.api.types.is_object_dtype(series.dtype):
        is_coded = key is not None and key.objects is not None
        texts = None if is_coded else key.column if key is not None else _texts(series)
        if texts is not None:
            present = texts.is_valid().to_numpy(zero_copy_only=False)
        else:
            values = series.to_numpy(dtype=object)
            present = np.fromiter((not is_missing(v) for v in values), bool, len(values))
    elif isinstance(series.dtype, pd.ArrowDtype):
        arrow: Any = pa.array(series)
        chunks = arrow.chunks if isinstance(arrow, pa.ChunkedArray) else [arrow]
        present = np.concatenate([np.empty(0, bool), *map(_find_present, chunks)])
    else:
        present = series.notna().to_numpy(dtype=bool)
        if series.dtype.kind == "f":  # some dtypes do not take NaN for a missing value
            present = ~np.isnan(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return pa.array(present, mask=None if present.all() else ~present)


def _find_present(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return where Arrow's array holds a value. NULL can be one of a dictionary's values.

    For pandas such a row is missing if another one has no place in the dictionary.
    """
    is_coded = pa.types.is_dictionary(array.type)
    values = array.dictionary if is_coded else array
    present = pc.invert(values.is_null(nan_is_null=True))
    present = present.take(array.indices).fill_null(False) if is_coded else present  # noqa: FBT003
    return np.asarray(present)


@dataclass(frozen=True)
class KeyColumn:
    """A group column as the engine sees it.

    `public_keys` are as the engine sees them. `objects` holds the values behind the
    codes of a coded column; None where the engine groups by the values themselves. `dtype` is what
    a released column gets, whatever is in it.
    """

    column: pa.Array | pa.ChunkedArray
    public_keys: Sequence[object]
    dtype: Any
    objects: Sequence[object] | None

    def marks(self, *, units: bool = False) -> pa.Array | pa.ChunkedArray:
        """Return the mark of each row's key, which depends on no other row: no codes, no text.

        Text is its UTF-8, for one text that has none turns a column of them into codes. As `units`
        equal numbers are one.
        """
        if self.objects is not None:
            marks = [mark_unit(v) if units else mark_bytes(mark_value(v)) for v in self.objects]
            return pa.array(marks, pa.binary()).take(self.column)
        if pa.types.is_string(self.column.type) or pa.types.is_large_string(self.column.type):
            return self.column.cast(pa.large_binary())
        return self.column

    def restore(self, column: pa.ChunkedArray) -> pd.Series[Any]:
        """Return released keys with the caller's own dtype."""
        dtype = _nullable_dtype(self.dtype) if column.null_count else self.dtype
        if self.objects is not None:
            codes = column.fill_null(-1).to_numpy()
            values = np.empty(len(self.objects) + 1, dtype=object)
            values[:-1], values[-1] = _in_unit(self.objects, self.dtype), None
            if isinstance(self.dtype, pd.CategoricalDtype):
                return find_categories(values[codes], self.dtype)
            return pd.Series(values[codes], dtype=object).astype(dtype)
        if pd.api.types.is_object_dtype(self.dtype):
            return pd.Series(column.to_numpy(), dtype=object)
        if isinstance(self.dtype, np.dtype):
            types = None if dtype is self.dtype else _nullable
            return pd.Series(column.to_pandas(types_mapper=types)).astype(dtype)
        if isinstance(self.dtype, pd.ArrowDtype):
            kind = self.dtype.pyarrow_dtype
            if _key_form(kind) is not None or pa.types.is_temporal(column.type):
                keys = column.cast(kind)  # Python has no place for far ones
                return pd.Series(pd.array(keys, dtype=self.dtype))
        if _is_zoned_time(self.dtype):
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))
        return pd.Series(column.to_pandas(types_mapper=_nullable)).astype(self.dtype)


def key_column(series: pd.Series[Any], public_keys: Sequence[object]) -> KeyColumn:
    """Return a group column for the engine; it must know `public_keys`.

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
    if isinstance(dtype, pd.StringDtype):
        for key in public_keys:
            if not _is_text_key(key):
                raise _unfit(dtype, "'a'")
    if isinstance(dtype, pd.StringDtype) or (
        pd.api.types.is_object_dtype(dtype) and all(map(_is_text_key, public_keys))
    ):
        texts = _texts(series)
        keys_as_text = [None if is_missing(key) else str.__str__(key) for key in public_keys]
        if texts is not None:
            return KeyColumn(texts, keys_as_text, dtype, None)
        return _encode_column(series, public_keys)
    if _is_zoned_time(dtype):
        times: Any = pa.array(series, from_pandas=True)
        public = key_values(
            [None if is_missing(key) else key for key in public_keys], "TIMESTAMPTZ_NS"
        )
        return KeyColumn(times.cast(pa.timestamp(times.type.unit)), public, dtype, None)
    form = _key_form(dtype.pyarrow_dtype) if isinstance(dtype, pd.ArrowDtype) else None
    if form is not None:
        values: Any = pa.array(series, from_pandas=True)
        if pa.types.is_fixed_size_binary(form):
            texts = key_values([None if is_missing(key) else key for key in public_keys], "UUID")
            public = [None if text is None else UUID(text).bytes for text in texts]
        else:
            keys = pd.Series(read_own_keys(public_keys, dtype), dtype=dtype)
            public = pa.array(keys, from_pandas=True).cast(form).to_pylist()
        return KeyColumn(values.cast(form), public, dtype, None)
    if _goes_as_it_is(dtype):
        return KeyColumn(pa.array(series, from_pandas=True), public_keys, dtype, None)
    return _encode_column(series, read_own_keys(public_keys, dtype))


def _key_form(kind: pa.DataType) -> pa.DataType | None:
    """Return the Arrow type by which DuckDB groups a type that it lacks or shortens."""
    if kind == pa.uuid():
        return pa.binary(16)
    if pa.types.is_time32(kind):
        return pa.int32()
    is_fine_time = pa.types.is_time64(kind) and kind.unit == "ns"
    return pa.int64() if is_fine_time or pa.types.is_duration(kind) else None


def mark_values(series: pd.Series[Any], *, units: bool) -> pa.Array | pa.ChunkedArray:
    """Return codes that are equal where values are; of units, marks that hold for any column."""
    if units:
        return key_column(series, []).marks(units=True)
    if isinstance(series.dtype, pd.CategoricalDtype):  # whose values differ
        codes = series.cat.codes.to_numpy()
        return pa.array(codes, mask=codes < 0)
    return key_column(series, []).column


def find_categories(values: Sequence[object], declared: pd.CategoricalDtype) -> pd.Series[Any]:
    """Return released keys as categories of the declared dtype, of which it has these alone.

    The order is the declared one of ordered categories; else, and where a public key is none of
    them, that of the values: which other categories there are shows in nothing.
    """
    shown = {mark_value(value): value for value in values if not is_missing(value)}
    places = {
        mark_value(value): position for position, value in enumerate(_objects(declared.categories))
    }
    if declared.ordered and shown.keys() <= places.keys():
        marks = sorted(shown, key=places.__getitem__)
    else:
        marks = sorted(shown)
    plain_ = pd.Index(pd.Series([shown[mark] for mark in marks], dtype=object), dtype=object)
    with suppress(Exception):  # what these keys are is public
        typed = plain_.astype(declared.categories.dtype)
        plain_ = typed if list(map(mark_value, _objects(typed))) == marks else plain_
    position = {mark: code for code, mark in enumerate(marks)}
    codes = [position.get(mark_value(value), -1) for value in values]
    dtype: Any = pd.CategoricalDtype(plain_, ordered=declared.ordered)
    return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype))


def _texts(series: pd.Series[Any]) -> pa.Array | pa.ChunkedArray | None:
    """Return a column of text as Arrow; None if some of it is no text or has no UTF-8 form.

    A column of objects may turn from text into codes by one row. Both have the same groups in the
    same order.
    """
    if pd.api.types.is_object_dtype(series.dtype):
        objects = series.to_numpy(dtype=object)
        if pd.api.types.infer_dtype(objects, skipna=True) not in {"string", "empty"}:
            return None
    try:
        return pa.array(series, pa.large_string(), from_pandas=True)
    except (UnicodeError, pa.ArrowException):
        return None


def has_utf8(text: str) -> bool:
    """Return True if a text has a UTF-8 form: one with a lone surrogate has none."""
    try:
        text.encode()
    except UnicodeError:
        return False
    return True


def _is_text_key(key: object) -> bool:
    return is_missing(key) or (isinstance(key, str) and has_utf8(str.__str__(key)))


def read_own_keys(public_keys: Sequence[object], dtype: Any) -> list[object]:
    """Return public keys as a declared dtype, or that of its categories, holds them.

    Objects, and categories that are text, are what they are.

    Raises
    ------
    InvalidKeysError
        When a key does not keep its value in that dtype.
    """
    declared = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    if pd.api.types.is_object_dtype(declared) or isinstance(declared, pd.StringDtype):
        present = [plain(value) for value in public_keys if not is_missing(value)]
        objects = {value.mark: value.shown for value in present if value is not None}
        if None in present:
            raise InvalidKeysError(
                "a public key is an object of a class that can't be grouped by",
                hint="list texts, numbers, dates, times or tuples of them",
            )
        if declared is not dtype and len({*objects.values()}) < len(objects):
            raise InvalidKeysError(
                "two public keys of different types are equal, and categories are not",
                hint="list one of them, or group by the column as objects: astype(object)",
            )
        return list(public_keys)
    return [None if is_missing(value) else _read_own_key(value, declared) for value in public_keys]


def _read_own_key(value: object, dtype: Any) -> object:
    with suppress(Exception):  # what has no place in the dtype, for whatever reason
        column: pd.Series[Any] = pd.Series(pd.array([value], dtype=dtype))
        key: object = column.astype(object).iloc[0]
        # True is not 1, and floats may be rounded
        same = isinstance(key, bool | np.bool_) == isinstance(value, bool | np.bool_)
        is_float = isinstance(key, float | np.floating) and isinstance(value, float)
        if same and (bool(key == value) or is_float):
            return key
    raise _unfit(dtype, "pd.Timedelta(days=1)")


def _unfit(dtype: Any, example: str) -> InvalidKeysError:
    return InvalidKeysError(
        f"a public key does not fit the group column, which is declared {dtype}",
        hint=f"list keys of the column's own type, e.g. {example}",
    )


def _is_zoned_time(dtype: Any) -> bool:
    """Return True for zoned times in another unit than microseconds."""
    if isinstance(dtype, pd.ArrowDtype):
        kind = dtype.pyarrow_dtype
        return pa.types.is_timestamp(kind) and bool(kind.tz) and kind.unit != "us"
    return isinstance(dtype, pd.DatetimeTZDtype) and dtype.unit != "us"


def _goes_as_it_is(dtype: Any) -> bool:
    if isinstance(dtype, pd.ArrowDtype):
        return not pa.types.is_float16(dtype.pyarrow_dtype)
    if isinstance(dtype, np.dtype):
        is_plain = dtype.isnative and (dtype.kind != "f" or dtype.itemsize in {4, 8})
        return is_plain and dtype.kind in "biufM"
    plain = isinstance(dtype, pd.DatetimeTZDtype) or hasattr(dtype, "numpy_dtype")
    return plain and dtype.kind in "biufM"


def _in_unit(objects: Sequence[Any], dtype: Any) -> Sequence[object]:
    """Return differences in the unit of their dtype: of several, pandas takes the finest."""
    if isinstance(dtype, np.dtype) and dtype.kind == "m":
        return [moment.as_unit(np.datetime_data(dtype)[0]) for moment in objects]
    return objects


def _encode_column(series: pd.Series[Any], public_keys: Sequence[object]) -> KeyColumn:
    """Return a column as ranks among its values and the listed ones."""
    dtype = series.dtype
    places, values = _distinct(series)
    ordered = isinstance(dtype, pd.CategoricalDtype) and bool(dtype.ordered)
    codes, objects, public_codes = encode_values(values, public_keys, ordered=ordered)
    ranks = np.append(codes, -1)[places]
    return KeyColumn(pa.array(ranks, mask=ranks < 0), public_codes, dtype, objects)


def _distinct(series: pd.Series[Any]) -> tuple[Codes, npt.NDArray[Any]]:
    """Return the place of each row's value among some objects, -1 for missing, and the objects.

    Where a dtype's values are numbers below, equal rows share an object.
    """
    dtype, array = series.dtype, series.array
    if isinstance(dtype, pd.CategoricalDtype):
        return np.asarray(series.cat.codes, dtype=np.int64), _objects(dtype.categories)
    if isinstance(dtype, pd.IntervalDtype):
        ends: Any = array
        left, right = (pd.factorize(end)[0].astype(np.int64) for end in (ends.left, ends.right))
        pairs = np.where(left < 0, -1, left * (right.max(initial=0) + 1) + right)
        _, first, places = np.unique(pairs, return_index=True, return_inverse=True)
        return np.asarray(places, dtype=np.int64), _objects(array[first])
    if isinstance(dtype, pd.PeriodDtype) or (isinstance(dtype, np.dtype) and dtype.kind == "m"):
        codes, distinct = pd.factorize(array)
        return codes.astype(np.int64), _objects(distinct)
    return np.arange(len(series), dtype=np.int64), series.to_numpy(dtype=object)


def _objects(values: Any) -> npt.NDArray[Any]:
    """Return the values of an index or array as objects."""
    return pd.Series(values).astype(object).to_numpy(dtype=object)


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
    plain_dtype = dtype.subtype if isinstance(dtype, pd.SparseDtype) else dtype
    if isinstance(plain_dtype, np.dtype) and plain_dtype.kind in "iub":
        return NULLABLE[pa.from_numpy_dtype(plain_dtype.newbyteorder("="))]
    return dtype
