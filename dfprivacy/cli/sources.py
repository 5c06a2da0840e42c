"""Where rows come from: files and tables as job files and commands name them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

from dfprivacy.accounting.ledger_file import expand_home
from dfprivacy.engine.files import require_local
from dfprivacy.engine.snapshots import table_format
from dfprivacy.engine.text_files import ARCHIVES, FORM, TextFile, is_text_name, with_form
from dfprivacy.errors import DPError, UnsupportedFrameError
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
    "file", "folder", "folder hive", "table database", "query database", "query tables",
)  # fmt: skip
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
