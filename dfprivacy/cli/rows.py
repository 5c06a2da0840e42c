"""Open the rows of a source, and read public keys in the types that its columns declare."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa

from dfprivacy.cli.sources import Source
from dfprivacy.engine.embedded import (
    Setting,
    embedded,
    engine_options,
    find_space_error,
    limits_of,
    private_folder,
    remove_folders,
    restrict_optimizer,
    session_zone,
    set_time_zone,
)
from dfprivacy.engine.files import declare_file, open_source
from dfprivacy.engine.run import guarded
from dfprivacy.engine.snapshots import Snapshot
from dfprivacy.engine.text_files import TextFile
from dfprivacy.errors import InvalidKeysError, MissingColumnError, UnsupportedFrameError
from dfprivacy.release.terms import PublicKeys, keys_of

Rows = Path | TextFile | Snapshot | duckdb.DuckDBPyRelation

_READ_ONLY: dict[str, Setting] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


@contextmanager
def open_database(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB file for reading, within the limits of the engine."""
    connection, space_error = None, None
    folder = private_folder()
    config = _READ_ONLY | limits_of(engine_options()) | {"temp_directory": str(folder)}
    try:
        if path.is_file():
            try:
                connection = duckdb.connect(str(path), read_only=True, config=config)
            except duckdb.Error as error:
                space_error = find_space_error(error)
        if space_error is not None:
            raise space_error
        if connection is None:
            raise UnsupportedFrameError(
                f"{str(path)!r} is not a DuckDB file that can be opened for reading",
                hint="check the path, and that no other process holds it open for writing",
            )
        set_time_zone(connection, session_zone())
        with connection:
            yield connection
    finally:
        remove_folders(folder)


@contextmanager
def open_rows(source: Source, where: str | None = None) -> Iterator[Any]:
    """Open the rows of a source, or those for which a condition holds.

    The connection of a table has the safe optimizers alone where there is a condition.
    """
    from dfprivacy.statements.jobs import filtered  # noqa: PLC0415 on first use

    with ExitStack() as stack:
        rows: Rows | None = None
        if source.table is None or source.database is None:
            rows = open_source(source.rows, **source.text_form)
        else:
            connection = stack.enter_context(open_database(source.database.path))
            if where is not None:
                restrict_optimizer(connection)
            with suppress(duckdb.Error):
                rows = connection.table(source.table)
            if rows is None:
                raise MissingColumnError(
                    f"there is no table {source.table!r} in {str(source.database.path)!r}",
                    hint="name a table or view of the file, with its schema where it is not main",
                )
        yield rows if where is None else filtered(rows, where)


def column_types(source: Source) -> dict[str, pa.DataType]:
    """Return the declared types of the columns of a source; no row is read."""
    with open_rows(source) as rows:
        schema = guarded(lambda: _declared(rows))
    return dict(zip(schema.names, schema.types, strict=True))


def _declared(rows: Rows) -> pa.Schema:
    if isinstance(rows, Snapshot):
        return rows.rows.limit(0).collect().to_arrow().schema
    if isinstance(rows, duckdb.DuckDBPyRelation):
        return rows.limit(0).to_arrow_table().schema
    with embedded() as connection:
        return _declared(declare_file(connection, rows))


@dataclass(frozen=True)
class TypedKeys:
    """Public keys as they are written; `columns` names theirs where they are listed by column."""

    rows: tuple[tuple[object, ...], ...]
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, keys: Any, by: Sequence[str]) -> Self | None:
        """Return keys of a list, of a list of lists for several columns, or of lists by column."""
        if keys is None or isinstance(keys, cls):
            return keys
        columns: tuple[str, ...] = ()
        rows: list[tuple[Any, ...]]
        if isinstance(keys, dict) and keys:
            if by and set(keys) != set(by):
                raise ValueError(f"these are lists for {', '.join(keys)}, not for each of by")
            columns = tuple(by or keys)
            rows = list(itertools.product(*(as_list(keys[column]) for column in columns)))
        else:
            rows = [tuple(as_list(key)) for key in as_list(keys)]
        is_nested = len(by) == 1 and any(len(row) != 1 for row in rows)
        plain = str | int | float | bool | None
        if is_nested or not all(isinstance(part, plain) for row in rows for part in row):
            raise ValueError("a key is a text, a number, or a list of one for each column of by")
        width = len(by) or max(map(len, rows), default=1)  # a query has the columns
        parts = [row[0] if len(row) == 1 else row for row in rows]
        public = keys_of(parts, by or [None] * width)
        return None if public is None else cls(public.rows, columns)

    def typed(self, types: Mapping[str, pa.DataType], by: Sequence[str]) -> PublicKeys:
        """Return the keys of some columns in the types that these declare."""
        columns = zip(by, zip(*self.rows, strict=True), strict=True)
        text = pa.string()
        typed = [typed_column(name, values, types.get(name, text)) for name, values in columns]
        return PublicKeys(tuple(zip(*typed, strict=True)))

    def for_query(self, types: Mapping[str, pa.DataType], by: Sequence[str] = ()) -> Any:
        """Return keys as callers list them, in the types of their columns, all of a query's."""
        rows: Sequence[tuple[object, ...]] = self.rows
        names = {name.casefold(): name for name in types}
        columns = [names.get(name.casefold(), name) for name in self.columns] or by or [*types]
        if types:
            rows = self.typed(types, columns).rows
        if self.columns:
            lists = (list(dict.fromkeys(values)) for values in zip(*rows, strict=True))
            return dict(zip(self.columns, lists, strict=True))
        return [row[0] if len(row) == 1 else row for row in rows]


def as_list(value: object) -> list[Any]:
    """Return a list; any other value is a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def typed_column(name: str, keys: Sequence[object], declared: pa.DataType) -> list[object]:
    """Return the keys of one column in the type that it declares.

    A text is read as that type. A number or a boolean has to be of its kind: a number that stands
    for a text has lost its leading zeros.
    """
    if pa.types.is_dictionary(declared):
        declared = declared.value_type
    for key in keys:
        require_kind(name, key, declared)
    texts = []
    for key in keys:
        if isinstance(key, float) and key.is_integer() and pa.types.is_integer(declared):
            key = int(key)  # noqa: PLW2901 Arrow reads no 1.0 as an integer
        text = str(key).lower() if isinstance(key, bool) else str(key)
        texts.append(None if key is None else text)
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return list(pa.array(texts, pa.string()).cast(declared).to_pylist())
    raise InvalidKeysError(
        f"a key does not fit column {name!r}, which is declared {declared}",
        hint=f"list keys that can be read as {declared}",
    )


def require_kind(name: str, key: object, declared: pa.DataType) -> None:
    """Refuse a number or a boolean as a key of a column of another kind."""
    if not isinstance(key, bool | int | float):
        return
    is_boolean = isinstance(key, bool)
    kinds = ("boolean",) if is_boolean else ("integer", "floating", "decimal")
    if not any(getattr(pa.types, f"is_{kind}")(declared) for kind in kinds):
        is_text = pa.types.is_string(declared) or pa.types.is_large_string(declared)
        raise InvalidKeysError(
            f"{key} is {'a boolean' if is_boolean else 'a number'}, and column {name!r} is "
            f"declared {declared}",
            hint=f"quote it: '{key}'" if is_text else f"list keys that can be read as {declared}",
        )
