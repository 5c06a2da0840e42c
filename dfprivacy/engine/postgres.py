"""Read Ibis tables on PostgreSQL, whose functions raise where those of other engines answer.

Columns are read in forms that fail for no row, and rows come back as whole numbers, floats by their
bits and texts by their bytes: no setting of a connection, no driver and no date that Python lacks
decides about them. The types that have such forms are a closed list, by what the server declares.
docs/how-to/ibis.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from dfprivacy.engine.columns import no_numbers
from dfprivacy.engine.files import quote
from dfprivacy.errors import UnsupportedDtypeError, UnsupportedFrameError

_OLDEST = 140_000
"""Of older servers, seconds since 1970 are floats, which far times don't fit."""
_MOST_DIGITS = 38
"""The digits of the decimals of Arrow."""
_BATCH_ROWS = 2**16
_MOMENTS = (1082, 1083, 1114, 1184, 1186)


class Form(NamedTuple):
    """The SQL that a column is read by, and its Ibis type."""

    sql: str
    kind: Any


class Declared(NamedTuple):
    """The number, the name and the digits of a column's type, as the server declares them."""

    number: int
    name: str
    is_enum: bool
    precision: int | None
    scale: int | None


def is_postgres(frame: Any) -> bool:
    """Return True for an Ibis table on PostgreSQL."""
    return bool(frame.get_backend().name == "postgres")


def find_declared_types(frame: Any) -> dict[Hashable, Declared]:
    """Ask the server what the columns of a table are declared as; it reads no row for that."""
    connection = frame.get_backend().con
    with connection.cursor() as cursor, connection.transaction():
        query = f"SELECT * FROM ({frame.get_backend().compile(frame)}) AS t LIMIT 0"  # noqa: S608
        cursor.execute(query, prepare=False)
        columns = cursor.description
        cursor.execute(
            "SELECT oid, pg_catalog.format_type(oid, NULL), typtype = 'e' "
            "FROM pg_catalog.pg_type WHERE oid = ANY(%s)",
            [[column.type_code for column in columns]],
        )
        types = {number: (name, is_enum) for number, name, is_enum in cursor.fetchall()}
    return {
        column.name: Declared(
            column.type_code, *types[column.type_code], column.precision, column.scale
        )
        for column in columns
    }


def check_server(backend: Any) -> None:
    """Refuse a server whose texts may be no UTF-8, or that is too old, by what it says of itself.

    Raises
    ------
    UnsupportedFrameError
        When it is.
    """
    server = backend.con.info
    if server.server_version < _OLDEST or server.parameter_status("server_encoding") != "UTF8":
        raise UnsupportedFrameError(
            "the table is on a PostgreSQL server before version 14, or in a database that is not "
            "encoded in UTF-8, where one row may make a query fail",
            hint="read the table with DuckDB, ibis.duckdb.connect().read_postgres, or from a "
            "Parquet file",
        )


def find_key_form(label: Hashable, declared: Declared) -> Form:
    """Return the form in which a column is grouped by: different values stay different.

    Texts are compared by their bytes. NaN is NULL, times after the year 294246 are infinity, 24:00
    is the last microsecond of the day, and the padding of char(n) is left out.

    Raises
    ------
    UnsupportedDtypeError
        When its declared type has none.
    """
    column = quote(str(label))
    number = f"CASE WHEN {column} <> 'NaN' THEN {column} END"
    text = Form(f'{column}::text COLLATE "C"', "string")
    late = f"CASE WHEN {column} < '294247-01-01' THEN {column} WHEN {column} IS NOT NULL THEN"
    forms = {
        16: Form(column, "boolean"),
        17: Form(column, "binary"),
        20: Form(column, "int64"),
        21: Form(column, "int16"),
        23: Form(column, "int32"),
        25: text,
        700: Form(number, "float32"),
        701: Form(number, "float64"),
        1042: text,
        1043: text,
        1082: Form(column, "date"),
        1083: Form(_clip(column, None, "'23:59:59.999999'"), "time"),
        1114: Form(f"{late} timestamp 'infinity' END", "timestamp(6)"),
        1184: Form(f"{late} timestamptz 'infinity' END", "timestamp('UTC', 6)"),
        2950: text,
    }
    form = text if declared.is_enum else forms.get(declared.number)
    digits, scale = declared.precision or 0, declared.scale or 0
    if declared.number == 1700 and 0 <= scale <= digits and 0 < digits <= _MOST_DIGITS:
        form = Form(number, f"decimal({digits}, {scale})")
    if form is None:
        raise UnsupportedDtypeError(
            f"column {label!r} is declared {declared.name}, which can't be told apart on "
            "PostgreSQL",
            hint=f"cast it in a view, as {column}::text, or numbers as {column}::numeric(38, 9)",
        )
    return form


def find_value_form(label: Hashable, declared: Declared, kind: Any, *, numbers: bool) -> Form:
    """Return the form of a column of numbers, or of one whose presence alone counts.

    Numerics are rounded as their text would be, the smallest to 0. Dates and times go as their own
    Ibis type `kind`: who ranks them is told that this needs DuckDB.

    Raises
    ------
    UnsupportedDtypeError
        When its declared type holds no numbers, and they are needed.
    """
    column = quote(str(label))
    double = f"CASE WHEN {column} <> 'NaN' THEN {column}::double precision END"
    largest = "1.7976931348623157e308"
    number = f"CASE WHEN abs({column}) < 1e-300 THEN 0 ELSE {column} END"
    clipped = f"{_clip(number, f'-{largest}', largest)}::double precision"
    forms = {
        16: Form(f"{column}::integer::bigint", "int64"),
        20: Form(column, "int64"),
        21: Form(f"{column}::bigint", "int64"),
        23: Form(f"{column}::bigint", "int64"),
        700: Form(double, "float64"),
        701: Form(double, "float64"),
        1700: Form(f"CASE WHEN {column} <> 'NaN' THEN {clipped} END", "float64"),
    }
    if declared.number in forms:
        return forms[declared.number]
    if not numbers:
        return Form(f"CASE WHEN {column} IS NOT NULL THEN ''::bytea END", "binary")
    if declared.number in _MOMENTS:
        return Form(column, kind)
    raise no_numbers(label, declared.name)


def _clip(value: str, lower: object, upper: object) -> str:
    """Return SQL of a value within two ends: NULL stays NULL, which `least` would pass over."""
    below = "" if lower is None else f"WHEN {value} < {lower} THEN {lower} "
    return f"(CASE {below}WHEN {value} > {upper} THEN {upper} ELSE {value} END)"


class Fetched(NamedTuple):
    """How a result is fetched: its SQL, as what Arrow type, and what that stands for."""

    sql: str
    kind: pa.DataType
    declared: pa.DataType


def find_schema(frame: Any) -> pa.Schema:
    """Return the Arrow types of the rows that `read_batches` yields."""
    fetched = (_find_fetched(name, kind).declared for name, kind in frame.schema().items())
    return pa.schema(list(zip(frame.columns, fetched, strict=True)))


def _find_fetched(name: str, kind: Any) -> Fetched:
    """Return how a result of an Ibis type is fetched: every value of it fits, infinite ones too."""
    column, declared = quote(name), kind.to_pyarrow()
    text, epoch = f"convert_to({column}::text, 'UTF8')", f"extract(epoch FROM {column})"
    if kind.is_string() or kind.is_decimal():
        return Fetched(text, pa.binary(), declared)
    if kind.is_date():
        days = _clip(f"{epoch} / 86400", -(2**31) + 1, 2**31 - 1)
        return Fetched(f"{days}::integer", pa.int32(), pa.date32())
    if kind.is_time() or kind.is_timestamp():
        ticks = _clip(f"{epoch} * 1000000", -(2**63) + 1, 2**63 - 1)
        is_time = kind.is_time()
        return Fetched(f"{ticks}::bigint", pa.int64(), pa.time64("us") if is_time else declared)
    names = {"int16": "smallint", "int32": "integer", "float32": "real"}
    names |= {"float64": "double precision", "boolean": "boolean", "binary": "bytea"}
    title = str(kind.copy(nullable=True))
    if title in names:
        return Fetched(f"{column}::{names[title]}", declared, declared)
    if kind.is_integer():  # sums of 64-bit integers are numerics in PostgreSQL
        return Fetched(f"{column}::bigint", pa.int64(), pa.int64())
    raise no_numbers(name, kind)


def read_batches(frame: Any, cursor: str = "") -> Iterator[pa.RecordBatch]:
    """Run the query of a table of forms, and yield its rows; with a `cursor` a part at a time."""
    backend = frame.get_backend()
    fetched = [_find_fetched(name, kind) for name, kind in frame.schema().items()]
    columns = ", ".join(column.sql for column in fetched)
    query = f"SELECT {columns} FROM ({backend.compile(frame)}) AS t"  # noqa: S608 ours
    with backend.con.transaction(), backend.con.cursor(cursor, binary=True) as rows:
        rows.execute(query, **({} if cursor else {"prepare": False}))
        while part := rows.fetchmany(_BATCH_ROWS):
            values = zip(*part, strict=True)
            arrays = [_build_column(*pair) for pair in zip(values, fetched, strict=True)]
            yield pa.record_batch(arrays, find_schema(frame))


def _build_column(values: Sequence[Any], fetched: Fetched) -> pa.Array:
    if pa.types.is_decimal(fetched.declared):
        numbers = (None if value is None else Decimal(value.decode()) for value in values)
        return pa.array(numbers, fetched.declared)
    return pa.array(values, fetched.kind).cast(fetched.declared)
