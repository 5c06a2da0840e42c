"""Where rows come from: files and tables as job files and commands name them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, dataclass_transform

import duckdb
import pyarrow as pa

from dfprivacy.accounting.ledger_file import expand_home
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
from dfprivacy.engine.files import declare_file, open_source, require_local
from dfprivacy.engine.run import guarded
from dfprivacy.engine.snapshots import Snapshot, table_format
from dfprivacy.engine.text_files import ARCHIVES, FORM, TextFile, is_text_name, with_form
from dfprivacy.errors import DPError, InvalidKeysError, MissingColumnError, UnsupportedFrameError
from dfprivacy.release.terms import PublicKeys, keys_of
from dfprivacy.statements.schema import Schema, schema_of

T = TypeVar("T")

Plain = str | int | float | bool | None
TABLE_ENDINGS = (".csv", ".parquet")
_TEXT_ENDINGS = (".csv", ".tsv")
_ENDINGS = (
    *(*_TEXT_ENDINGS, ".parquet", ".pq"),
    *(f"{text}{archive}" for text in _TEXT_ENDINGS for archive in ARCHIVES),
)
_SOURCES = (
    "file",
    "folder",
    "folder hive",
    "table database",
    "query database",
    "query tables",
)
DATABASE_MARK = " in "
"""The word between a table and its database in the text of a source."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def spec(kind: type[T]) -> type[T]:
    """Make a frozen dataclass whose unknown fields pydantic refuses."""
    kind.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(kind)


@dataclass(frozen=True)
class Read:
    """Let pydantic read a field by a function of its value and of the job file's folder."""

    function: Callable[[Any, Path], Any]

    def __get_pydantic_core_schema__(self, *_: Any) -> Any:
        """Return the schema of the function."""
        from pydantic_core import core_schema  # noqa: PLC0415 loads pydantic

        def read(value: Any, info: Any) -> Any:
            try:
                return self.function(value, info.context)
            except DPError as error:
                failure = ValueError(error.message)
                failure.__notes__ = [*getattr(error, "__notes__", ())]
                raise failure from None

        return core_schema.with_info_plain_validator_function(read)


def read_as(kind: Any, value: Any, folder: Path) -> Any:
    """Return a value of a job file as a type, exactly as it is written: nothing is converted.

    Raises
    ------
    pydantic.ValidationError
        With all faults of the value, and the way to each.
    """
    return _adapter(kind).validate_json(json.dumps(value), strict=True, context=folder)


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 loads pydantic

    return TypeAdapter(kind)


@contextmanager
def checking(*fields: str) -> Iterator[None]:
    """Note the field that an error of this block is about."""
    try:
        yield
    except (DPError, ValueError) as error:
        for name in fields:
            error.add_note(name)
        raise


@dataclass(frozen=True)
class File:
    """A file or folder as it was named, and its path."""

    text: str
    path: Path


def resolve_file(text: Any, folder: Path) -> File:
    """Return a local file, whose path counts from the folder of the job file."""
    text = read_as(str, text, folder)
    require_local(text)
    return File(text, folder / expand_home(Path(text)))


def _require_ending(text: str) -> None:
    """Refuse a name of a file of rows that does not tell its format."""
    if not text.lower().endswith(_ENDINGS):
        raise ValueError(f"the name does not end in one of {', '.join(_ENDINGS)}")


def _rows_file_of(text: Any, folder: Path) -> File:
    """Return a file of rows, or a pattern of files in one folder."""
    file = resolve_file(text, folder)
    _require_ending(file.text)
    if has_magic(str(Path(file.text).parent)):
        raise ValueError("a pattern names files of one folder, as in days/*.parquet")
    return file


def _table_file_of(text: Any, folder: Path) -> File:
    """Return a file or folder that a query reads under a name."""
    file = resolve_file(text, folder)
    if Path(file.text).suffix:  # others are folders
        _require_ending(file.text)
    return file


JobFile = Annotated[File, Read(resolve_file)]
RowsFile = Annotated[File, Read(_rows_file_of)]
TableFile = Annotated[File, Read(_table_file_of)]


@spec
class Source:
    """Where rows come from: files, a table of a DuckDB file, or a query over either."""

    file: RowsFile | None = None
    folder: JobFile | None = None
    hive: bool = False
    table: str | None = None
    query: str | None = None
    database: JobFile | None = None
    tables: dict[str, TableFile] | None = None
    encoding: str | None = None
    delimiter: str | None = None
    multiline: bool = False
    schema: dict[str, Any] | JobFile | None = None

    def __post_init__(self) -> None:
        names = {name for form in _SOURCES for name in form.split() if getattr(self, name)}
        if names not in [set(form.split()) for form in _SOURCES]:
            forms = "; ".join(form.replace(" ", ", ") for form in _SOURCES)
            raise ValueError(f"the fields are one of: {forms}")
        if self.schema is not None and self.query is None:
            raise ValueError("a schema says who owns the rows of a query, and there is none")
        with checking("schema"):
            _ = self.owners
        with checking("encoding"):
            files = [file.path for file in (self.file, *(self.tables or {}).values()) if file]
            sources = [with_form(path, self.text_form) for path in files if self.text_form]
            if self.text_form and not any(isinstance(source, TextFile) for source in sources):
                raise UnsupportedFrameError(
                    f"{next(iter(self.text_form))} is for CSV and TSV files, and none is named",
                    hint="leave it out, or name a text file",
                )

    @cached_property
    def owners(self) -> Schema | None:
        """The schema that says whose the rows of a query are."""
        if self.schema is None:
            return None
        return schema_of(self.schema.path if isinstance(self.schema, File) else self.schema)

    @property
    def text_form(self) -> dict[str, Any]:
        """The form of text files that fields name."""
        named = {name: getattr(self, name) for name in FORM}
        return {name: value for name, value in named.items() if value not in (None, False)}

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """The names of a query's files with their paths as they were written, sorted by name."""
        return tuple((name, file.text) for name, file in sorted((self.tables or {}).items()))

    @property
    def text(self) -> str:
        """The source as it was written."""
        if self.table is not None and self.database is not None:
            return f"{self.table}{DATABASE_MARK}{self.database.text}"
        file = self.file or self.folder or self.database
        return ", ".join(path for _, path in self.files) if file is None else file.text

    @property
    def rows(self) -> Path | None:
        """The file, pattern or folder of files that is read; None for queries and databases."""
        if self.file is not None or self.folder is None:
            return None if self.file is None else self.file.path
        folder = self.folder.path
        has_texts = folder.is_dir() and any(map(is_text_name, folder.iterdir()))
        is_read_whole = self.hive or has_texts or table_format(folder) is not None
        return folder if is_read_whole else folder / "*.parquet"

    @property
    def paths(self) -> list[Path]:
        """Everything that is read; the files of a folder are a pattern."""
        files = (self.database, *(self.tables or {}).values())
        paths = [self.rows, *(file.path for file in files if file is not None)]
        return [path for path in paths if path is not None]


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
