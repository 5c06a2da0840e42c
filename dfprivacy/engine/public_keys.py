"""Public keys in a pass: exactly the listed groups come out, and rows of others are left out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
from narwhals.dtypes import DType

from dfprivacy.engine.adopt import Adopted
from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.run import collect, guarded
from dfprivacy.engine.spark_terms import only_rows_of
from dfprivacy.engine.units import UNIT
from dfprivacy.errors import InvalidKeysError
from dfprivacy.exact import exact_number
from dfprivacy.measurement.sums import Statistics, key_name

Listed = Sequence[Sequence[object]]
"""Public keys: one list a group column, all of one length."""

_Key = tuple[str, DType]


def align(statistics: Statistics, listed: Listed) -> Statistics:
    """Return exactly the groups of the public keys, sorted; an absent group is all zeros.

    Raises
    ------
    InvalidKeysError
        When a key does not fit the declared dtype of its column.
    """
    table = statistics.table
    wanted, place = match(statistics.key_table(), listed)
    names = [name for name in table.column_names if name not in wanted.column_names]
    columns = {name: wanted.column(name) for name in wanted.column_names}
    for name in names:
        sums = np.zeros(wanted.num_rows, dtype=np.int64)
        np.add.at(sums, place.number, table.column(name).fill_null(0).to_numpy()[place.row])
        columns[name] = pa.array(sums)
    return Statistics(pa.table(columns), statistics.keys, statistics.sources)


class Places:
    """Which entry (`row`) of a table belongs to which public key (`number`)."""

    def __init__(self, pairs: pa.Table) -> None:
        self.number = pairs.column("number").to_numpy()
        self.row = pairs.column("row").to_numpy()


def match(keys: pa.Table, listed: Listed) -> tuple[pa.Table, Places]:
    """Return the public keys, distinct and sorted, NULL last, and the entries that belong to them.

    Raises
    ------
    InvalidKeysError
        When a key does not fit the declared dtype of its column.
    """
    names = keys.column_names
    order = ", ".join(f"{name} NULLS LAST" for name in names)
    same = " AND ".join(f"k.{name} IS NOT DISTINCT FROM e.{name}" for name in names)
    with embedded() as connection:
        connection.register("wanted", _without_times(typed_table(listed, keys.schema)))
        connection.register("e", _numbered(_without_times(keys), "row"))
        sorted_keys = f"SELECT DISTINCT * FROM wanted ORDER BY {order}"  # noqa: S608 ours
        wanted = guarded(lambda: connection.sql(sorted_keys).to_arrow_table())
        connection.register("k", _numbered(wanted, "number"))
        matched = f"SELECT number, row FROM k JOIN e ON {same}"  # noqa: S608 names are ours
        places = Places(guarded(lambda: connection.sql(matched).to_arrow_table()))
    return _with_times(wanted, keys.schema), places


def _without_times(table: pa.Table) -> pa.Table:
    """Return a table with times as the integers that they are: DuckDB would round some of them."""
    for place, field in enumerate(table.schema):
        if _is_time(field.type):
            whole = pa.int64() if field.type.bit_width == 64 else pa.int32()
            table = table.set_column(place, field.name, table.column(place).cast(whole))
    return table


def _with_times(table: pa.Table, declared: pa.Schema) -> pa.Table:
    for place, field in enumerate(declared):
        if _is_time(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type))
    return table


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _numbered(table: pa.Table, name: str) -> pa.Table:
    return table.append_column(name, pa.array(np.arange(table.num_rows, dtype=np.int64)))


def known_units(frame: nw.LazyFrame[Any], adopted: Adopted) -> nw.LazyFrame[Any]:
    """Return the rows that have a unit and, where keys are public, one of these keys.

    Raises
    ------
    InvalidKeysError
        When a key does not fit the declared dtype of its column.
    """
    of_units = frame.filter(~nw.col(UNIT).is_null())
    return only_listed(of_units, adopted.listed) if any(adopted.listed) else of_units


def only_listed(frame: nw.LazyFrame[Any], listed: Listed) -> nw.LazyFrame[Any]:
    """Return the rows of a frame whose keys, under `key_name`, are public.

    Raises
    ------
    InvalidKeysError
        When a key does not fit the declared dtype of its column.
    """
    names = [key_name(index) for index in range(len(listed))]
    declared = collect(frame.select(*names).head(0)).schema
    wanted = typed_table(listed, declared)
    native: Any = frame.to_native()
    if frame.implementation.is_polars():
        keys = pl.from_arrow(wanted).lazy()  # type: ignore[union-attr]
        joined = native.join(keys, on=names, how="semi", nulls_equal=True)
        chosen: nw.LazyFrame[Any] = nw.from_native(joined)
        return chosen
    if frame.implementation.is_spark_like():
        those: nw.LazyFrame[Any] = nw.from_native(only_rows_of(native, wanted))
        return those
    rows = list(dict.fromkeys(zip(*(column.to_pylist() for column in wanted), strict=True)))
    schema = frame.collect_schema()
    return frame.filter(_is_one_of([(name, schema[name]) for name in names], rows))


def _is_one_of(keys: Sequence[_Key], rows: Sequence[tuple[object, ...]]) -> nw.Expr:
    """Return whether the key columns hold one of some tuples."""
    lists = [list(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
    if len(rows) == np.prod([len(own) for own in lists]):
        return nw.all_horizontal(*map(_is_in, keys, lists), ignore_nulls=False)
    cases = [
        _is_in(keys[0], [first]) & _is_one_of(keys[1:], [row[1:] for row in own])
        for first, own in itertools.groupby(sorted(rows, key=_first), key=lambda row: row[0])
    ]  # fmt: skip
    return nw.any_horizontal(*cases, ignore_nulls=False)


def _first(row: tuple[object, ...]) -> str:
    return repr(row[0])


def _is_in(column: _Key, values: Sequence[object]) -> nw.Expr:
    """Return true or false, never NULL."""
    name, dtype = column
    key = nw.col(name)
    known = [value for value in values if value is not None]
    missing = key.is_null() if len(known) < len(values) else nw.lit(False)  # noqa: FBT003 a literal
    if not known:
        return missing
    return (~key.is_null() & _equals_one(key, dtype, known)) | missing


def _equals_one(key: nw.Expr, dtype: DType, known: Sequence[Any]) -> nw.Expr:
    """Return whether a key is one of some values.

    Engines compare wide integers, and times by second or millisecond, with a literal in its own
    type, which has no place for the largest of them: there the literal takes the key's type.
    """
    coarse = isinstance(dtype, nw.Datetime) and dtype.time_unit in {"s", "ms"}
    if coarse or dtype in (nw.Int128, nw.UInt128):
        return nw.any_horizontal(*(key == nw.lit(v).cast(dtype) for v in known), ignore_nulls=False)
    return key.is_in(known)


def typed_table(listed: Listed, declared: pa.Schema) -> pa.Table:
    """Return public keys as a table of the declared types of their columns.

    Raises
    ------
    InvalidKeysError
        When a key does not keep its value in that type.
    """
    return pa.table(
        {
            field.name: typed_keys(values, field.type)
            for field, values in zip(declared, listed, strict=True)
        }
    )


def typed_keys(values: Sequence[object], declared: pa.DataType) -> pa.Array:
    """Return public keys in the declared type of their column.

    Raises
    ------
    InvalidKeysError
        When a key does not keep its value in that type.
    """
    try:
        fits = all(_fits(value, declared) for value in values)
        column = pa.array(values, type=declared, from_pandas=True) if fits else None
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        column = None
    if column is None:
        raise InvalidKeysError(
            f"a public key does not fit the group column, which is declared {declared}",
            hint="list keys of the column's own type",
        )
    return column


def _fits(value: object, declared: pa.DataType) -> bool:
    """Tell whether a key keeps its value in the declared type: no true for 1, no 1 for 1.5."""
    if isinstance(value, bool | np.bool_):
        return bool(pa.types.is_boolean(declared))
    number = exact_number(value)
    return number is None or not pa.types.is_integer(declared) or number.denominator == 1
