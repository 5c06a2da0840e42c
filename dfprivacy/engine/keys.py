"""Group by keys: give each column one form in every engine, find public keys, number the groups."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from narwhals.dtypes import DType

from dfprivacy.engine import spark
from dfprivacy.engine.adopt import UNIT, Adopted, mark_name
from dfprivacy.engine.columns import build_no_value_error, is_number, type_text
from dfprivacy.engine.key_types import unfit_key
from dfprivacy.engine.run import collect
from dfprivacy.errors import InvalidKeysError, UnsupportedDtypeError
from dfprivacy.measurement.bin_table import BinTable, add_up_bins
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.exact import exact_number
from dfprivacy.measurement.linear import WHOLE, Category
from dfprivacy.measurement.sums import Statistics, key_names
from dfprivacy.measurement.value_words import ValueWords

Listed: TypeAlias = Sequence[Sequence[object]] | pa.Table
"""Public keys: one list a group column, all of one length, or a table of their declared types."""

_NEAR = 4  # numbers so many times as many as rows lie close together
_KEY_DTYPES = (nw.String, nw.Boolean, nw.Date, nw.Datetime, nw.Duration, nw.Time, nw.Binary)


def key_expressions(adopted: Adopted) -> list[nw.Expr]:
    """Return group keys under their `names`; with a unit also marks of keys, and `UNIT` last."""
    schema, engine = adopted.lazy.collect_schema(), adopted.lazy.implementation
    keys = [
        _key_expression(name, label, schema[name], engine).alias(title)
        for title, (label, name) in zip(adopted.names, adopted.keys.items(), strict=True)
    ]
    if adopted.unit is None:
        return keys
    unit = adopted.unit
    unit_key = _key_expression(unit.name, unit.label, schema[unit.name], engine).alias(UNIT)
    return [*keys, *map(nw.col, unit.marks), unit_key]


def with_others(adopted: Adopted) -> Adopted:
    """Return a frame whose last key is missing where it is none of those listed.

    Keys are mapped before a unit's groups are chosen and its rows bounded: all others are one group
    of it.
    """
    label, name = list(adopted.keys.items())[-1]
    dtype, engine = adopted.lazy.collect_schema()[name], adopted.lazy.implementation
    title = f"{name}_or_other"
    while title in adopted.lazy.collect_schema().names():
        title = f"{title}_"
    frame = adopted.lazy.with_columns(_key_expression(name, label, dtype, engine).alias(title))
    declared = collect(frame.select(title).head(0)).schema.field(title).type
    assert adopted.listed_keys is not None  # noqa: S101 the caller has looked
    typed = _type_keys([value for value in adopted.listed_keys[-1] if value is not None], declared)
    if engine.is_polars():
        values: Any = pl.from_arrow(typed)
        is_listed = nw.from_native(
            frame.to_native().with_columns(pl.col(title).is_in(values.implode()).alias(_LISTED))
        )
    else:
        is_known = _is_in(
            (title, frame.collect_schema()[title]), list(dict.fromkeys(typed.to_pylist()))
        )
        is_listed = frame.with_columns(is_known.alias(_LISTED))
    marks = [] if adopted.unit is None else adopted.unit.marks
    mapped = [title, *(mark for mark in marks if mark == mark_name(len(adopted.keys) - 1))]
    renamed = is_listed.with_columns(
        *(nw.when(nw.col(_LISTED)).then(nw.col(value)).alias(value) for value in mapped)
    )
    return replace(adopted, lazy=renamed.drop(_LISTED), keys={**adopted.keys, label: title})


_LISTED = "is_listed"


def category_expression(adopted: Adopted, category: Category) -> nw.Expr:
    """Return the values of a column as they would be grouped by."""
    name = adopted.categories[category].name
    schema = adopted.lazy.collect_schema()
    return _key_expression(name, category.column, schema[name], adopted.lazy.implementation)


def with_categories(adopted: Adopted, categories: Mapping[str, Category]) -> nw.LazyFrame[Any]:
    """Return the frame with the values of columns as they would be grouped by, under names.

    Where there is a constant, a whole stands for it and 0 for other values.
    """
    pairs = categories.items()
    columns = (category_expression(adopted, category).alias(name) for name, category in pairs)
    frame = adopted.lazy.with_columns(*columns)
    compared = {name: category for name, category in pairs if category.constant is not None}
    if not compared:
        return frame
    declared, schema = collect(frame.select(*compared).head(0)).schema, frame.collect_schema()
    same = []
    for name, comparison in compared.items():
        constant = adopted.categories[comparison].constant
        kind = declared.field(name).type
        constant = type_constant(comparison.column, constant, kind, comparison.constant)
        is_it = _is_in((name, schema[name]), [constant])
        number = nw.when(is_it).then(nw.lit(WHOLE, nw.Int64)).otherwise(nw.lit(0, nw.Int64))
        same.append(nw.when(~nw.col(name).is_null()).then(number).alias(name))
    return frame.with_columns(*same)


def type_constant(
    label: Hashable, constant: object, declared: pa.DataType, named: object
) -> object:
    """Return a constant in the declared type of its column; refuse it as it was `named`."""
    declared = declared.value_type if pa.types.is_dictionary(declared) else declared
    with suppress(InvalidKeysError):
        return _type_keys([constant], declared).to_pylist()[0]
    raise build_no_value_error(label, declared, named)


def _key_expression(name: str, label: Hashable, dtype: DType, engine: nw.Implementation) -> nw.Expr:
    """Return a key column in the form it is grouped by.

    NULL and NaN are one group; -0.0 is 0.0; categories become their text. Keys that are equal
    must look equal too, or one row could choose how a group of others is shown: therefore no
    intervals of DuckDB, where 30 days equal a month. Nor its UHUGEINT, the largest of which come
    out of it as negative numbers, in another order than its own.
    """
    key = nw.col(name)
    if dtype.is_float():  # not key + 0.0, of which polars leaves -0.0 as it is
        kind = nw.Float32() if dtype == nw.Float16 else dtype  # DuckDB reads no half floats
        unsigned = nw.when(key == 0.0).then(nw.lit(0.0)).otherwise(key).cast(kind)
        if engine.is_ibis():  # NaN has become NULL when the table was adopted
            return unsigned
        return nw.when(is_number(key)).then(unsigned)
    if dtype == nw.Duration and engine.is_duckdb():
        raise UnsupportedDtypeError(
            f"column {label!r} is declared an interval, which can't be grouped by in DuckDB",
            hint="group by a number, e.g. epoch(column)",
        )
    if dtype == nw.UInt128 and engine.is_duckdb():
        raise UnsupportedDtypeError(
            f"column {label!r} is declared UHUGEINT, which can't be grouped by in DuckDB",
            hint="group by its text: CAST(column AS VARCHAR)",
        )
    if dtype in (nw.Int128, nw.UInt128) and engine.is_polars():
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {dtype}, which can't be grouped by in polars",
            hint=f"cast it first: pl.col({label!r}).cast(pl.Int64), or cast(pl.String)",
        )
    if dtype in (nw.Categorical, nw.Enum):
        return key.cast(nw.String)
    if dtype.is_integer() or dtype.is_decimal() or dtype in _KEY_DTYPES:
        return key
    raise UnsupportedDtypeError(
        f"column {label!r} is declared {type_text(dtype)}, which can't be grouped by",
        hint="group by text, numbers, booleans, dates or times",
    )


def align(statistics: Statistics, public_keys: Listed) -> Statistics:
    """Return exactly the groups of the public keys, as listed; an absent group is all zeros."""
    public, number = find_keys(statistics.key_table(), public_keys)
    is_listed = number >= 0
    rows = statistics.table.filter(pa.array(is_listed))
    sums = replace(statistics, table=rows).pool(number[is_listed], public.num_rows).table
    names = [*public.column_names, *sums.column_names]
    return replace(statistics, table=pa.table([*public.columns, *sums.columns], names))


def rows_of_groups(values: BinTable | ValueWords, keys: pa.Table) -> BinTable | ValueWords:
    """Return the rows of exactly the groups with these keys, in their order; none if absent."""
    if values.keys.equals(keys):
        return values
    numbers = find_keys(values.keys, keys)[1]
    if isinstance(values, ValueWords):
        return values.renumber(keys, keys.num_rows, numbers)
    group = numbers[values.group]
    is_counted = group >= 0
    bins, rows = values.bins[is_counted], values.rows[is_counted]
    moments = tuple(moment[is_counted] for moment in values.moments)
    return add_up_bins(
        BinTable(keys, keys.num_rows, values.binning, group[is_counted], bins, rows, moments)
    )


def find_keys(keys: pa.Table, public_keys: Listed) -> tuple[pa.Table, Integers]:
    """Return the public keys, distinct and as listed, and the number of each key among them.

    A key that is not one of them has -1.
    """
    names, public = keys.column_names, _type_table(public_keys, keys.schema)
    every = pa.concat_tables([public, keys])
    for index, column in enumerate(every.columns):
        if pa.types.is_floating(column.type):
            every = every.set_column(index, names[index], pc.add(column, 0.0))  # no -0.0
    _, groups, code = number_groups(every, names)
    public_codes, code = np.split(code, [public.num_rows])
    first = np.sort(np.unique(public_codes, return_index=True)[1])
    numbers = np.full(groups, -1, dtype=np.int64)
    numbers[public_codes[first]] = np.arange(len(first))
    return public.take(pa.array(first)), numbers[code]


def only_listed(frame: nw.LazyFrame[Any], public_keys: Listed) -> nw.LazyFrame[Any]:
    """Return the rows of a frame whose keys, under `key_names`, are public."""
    names = key_names(len(public_keys))
    public = _type_table(public_keys, collect(frame.select(*names).head(0)).schema)
    native: Any = frame.to_native()
    if frame.implementation.is_polars():
        keys: Any = pl.from_arrow(public)
        native = native.join(keys.lazy(), on=names, how="semi", nulls_equal=True)
    elif frame.implementation.is_spark_like():
        native = spark.filter_keys(native, public)
    else:
        rows = list(dict.fromkeys(zip(*(column.to_pylist() for column in public), strict=True)))
        schema = frame.collect_schema()
        return frame.filter(_is_one_of([(name, schema[name]) for name in names], rows))
    chosen: nw.LazyFrame[Any] = nw.from_native(native)
    return chosen


def _is_one_of(keys: Sequence[tuple[str, DType]], rows: Sequence[tuple[object, ...]]) -> nw.Expr:
    """Return whether the key columns hold one of some tuples."""
    lists = [list(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
    if len(rows) == np.prod([len(values) for values in lists]):
        return nw.all_horizontal(*map(_is_in, keys, lists), ignore_nulls=False)
    ordered = sorted(rows, key=lambda row: repr(row[0]))
    cases = [
        _is_in(keys[0], [first]) & _is_one_of(keys[1:], [row[1:] for row in values])
        for first, values in itertools.groupby(ordered, key=lambda row: row[0])
    ]
    return nw.any_horizontal(*cases, ignore_nulls=False)


def _is_in(column: tuple[str, DType], values: Sequence[object]) -> nw.Expr:
    """Return true or false, never NULL.

    Engines compare wide integers, and times by second or millisecond, with a literal in its own
    type, which has no place for the largest of them: there the literal takes the key's type.
    """
    name, dtype = column
    key = nw.col(name)
    numbers: list[Any] = [value for value in values if value is not None]
    missing = key.is_null() if len(numbers) < len(values) else nw.lit(False)  # noqa: FBT003 a literal
    if not numbers:
        return missing
    coarse = isinstance(dtype, nw.Datetime) and dtype.time_unit in {"s", "ms"}
    if coarse or dtype in (nw.Int128, nw.UInt128):
        same = (key == nw.lit(value).cast(dtype) for value in numbers)
        equal = nw.any_horizontal(*same, ignore_nulls=False)
    else:
        equal = key.is_in(numbers)
    return (~key.is_null() & equal) | missing


def _type_table(public_keys: Listed, declared: pa.Schema) -> pa.Table:
    """Return public keys as a table of the declared types of their columns.

    Raises
    ------
    InvalidKeysError
        When a key does not keep its value in that type.
    """
    if isinstance(public_keys, pa.Table):
        return public_keys.cast(declared)
    pairs = zip(declared, public_keys, strict=True)
    return pa.table({field.name: _type_keys(values, field.type) for field, values in pairs})


def _type_keys(values: Sequence[object], declared: pa.DataType) -> pa.Array:
    with suppress(pa.ArrowException, ArithmeticError, TypeError, ValueError):
        if all(_fits(value, declared) for value in values):
            return pa.array(values, type=declared, from_pandas=True)
    raise unfit_key(declared)


def _fits(value: object, declared: pa.DataType) -> bool:
    """Check that a key keeps its value in the declared type: no true for 1, no zone for none.

    Arrow reads a number as days or ticks of a date, drops the time of day of a date, and wraps
    times and differences of pandas that `datetime` can't hold.
    """
    if isinstance(value, dt.datetime) and not (
        dt.MINYEAR <= value.year <= dt.MAXYEAR
        and (not pa.types.is_date(declared) or value.time() == dt.time())
        and (not pa.types.is_timestamp(declared) or (value.tzinfo is None) == (declared.tz is None))
    ):
        return False
    if isinstance(value, dt.timedelta) and abs(value.days) > dt.timedelta.max.days:
        return False
    if isinstance(value, bool | np.bool_):
        return bool(pa.types.is_boolean(declared))
    number = exact_number(value)
    if number is None:
        return True
    is_whole = number.denominator == 1
    return is_whole if pa.types.is_integer(declared) else not pa.types.is_temporal(declared)


class NumberedGroups(NamedTuple):
    """The keys of each group, how many there are, and the group of each entry. Secret."""

    keys: pa.Table
    groups: int
    group: Integers

    def __repr__(self) -> str:
        """Show nothing of what is in it."""
        return "NumberedGroups()"


def number_groups(entries: pa.Table, names: Sequence[str]) -> NumberedGroups:
    """Return the groups of a table's entries, numbered: ascending keys, NULL last."""
    if not names:
        return NumberedGroups(pa.table({}), 1, np.zeros(entries.num_rows, dtype=np.int64))
    key_columns = entries.select(list(names))
    group, size = np.zeros(key_columns.num_rows, dtype=np.int64), 1
    for column in key_columns.columns:
        rank, more = ranks(column)
        if size * more > _NEAR * key_columns.num_rows:
            group = compress_codes(group)
            size = int(group.max(initial=-1)) + 1
        group, size = group * more + rank, size * more
    group = compress_codes(group)
    first = np.empty(int(group.max(initial=-1)) + 1, dtype=np.int64)
    first[group] = np.arange(len(group))  # whichever row: their keys are the same
    return NumberedGroups(key_columns.take(pa.array(first)), len(first), group)


def order_groups(keys: pa.Table, public_keys: Listed | None) -> tuple[pa.Table, int, Integers]:
    """Return keys in the order of a release, how many there are, and the number of each given one.

    Equal keys have the same number; one that is not among public keys has -1.
    """
    if not keys.column_names:
        return keys, 1, np.zeros(1, dtype=np.int64)
    if public_keys is not None:
        public, numbers = find_keys(keys, public_keys)
        return public, public.num_rows, numbers
    return number_groups(keys, keys.column_names)


def ranks(column: pa.ChunkedArray) -> tuple[Integers, int]:
    """Return numbers of keys in their order, NULL last, and one more than the largest can be."""
    if not pa.types.is_integer(column.type) or column.null_count or not len(column):
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        order = np.asarray(pc.array_sort_indices(encoded.dictionary))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return rank[np.asarray(encoded.indices)], len(order)
    values = column.to_numpy()
    smallest, largest = int(values.min()), int(values.max())
    if largest - smallest > _NEAR * len(values):
        ranks = _dense(values)
        return ranks, int(ranks.max()) + 1
    # it may wrap in a signed type, not in an unsigned one
    above = values - values.dtype.type(smallest)
    return above.view(f"u{values.dtype.itemsize}").astype(np.int64), largest - smallest + 1


def compress_codes(codes: Integers) -> Integers:
    """Return the rank of each code among the distinct ones."""
    largest = int(codes.max(initial=0))
    if largest <= _NEAR * len(codes):
        present = np.zeros(largest + 1, dtype=bool)
        present[codes] = True
        if present.all():
            return codes
        return (np.cumsum(present) - 1)[codes]
    return _dense(codes)


def _dense(values: npt.NDArray[Any]) -> Integers:
    """Return the rank of each integer among the distinct ones, found on all threads."""
    return pl.Series(values).rank("dense").to_numpy().astype(np.int64) - 1
