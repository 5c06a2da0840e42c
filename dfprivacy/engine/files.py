"""Read CSV, TSV and Parquet files as relations whose columns no row decides.

Files that are written are there wholly or not at all.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from glob import escape, glob, has_magic
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

import duckdb
import pyarrow as pa

from dfprivacy.accounting.ledger_file import expand_home, flush, is_ledger, sync_directory
from dfprivacy.engine.coarse_times import read_coarse_times
from dfprivacy.engine.embedded import find_space_error, open_embedded
from dfprivacy.engine.snapshots import Snapshot, open_table, require_no_table, table_format
from dfprivacy.engine.text_files import (
    TextFile,
    is_data_name,
    is_text_name,
    is_visible,
    read_text,
)
from dfprivacy.errors import DPError, MissingColumnError, UnsupportedFrameError

T = TypeVar("T")


def quote(name: str) -> str:
    """Return a name in double quotes, as DuckDB's SQL writes it.

    >>> print(quote('a "b" c'))
    "a ""b"" c"

    Raises
    ------
    MissingColumnError
        For a name with a character NUL, at which DuckDB's text would end.
    """
    if "\0" in name:
        raise MissingColumnError(
            f"the name {name!r} has a character NUL, which SQL can't write", hint="rename it first"
        )
    return '"' + name.replace('"', '""') + '"'


def open_source(
    frame: object,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    multiline: bool = False,
) -> Any:
    """Return a frame as a release reads it: a path as a `Path`, a table's folder as a snapshot.

    A path with the form of its text is a `TextFile`.

    Raises
    ------
    UnsupportedFrameError
        When a path names a place on a network, or a table that can't be read, or the form of text
        is named for another kind of frame.
    """
    form: dict[str, Any] = {"encoding": encoding, "delimiter": delimiter, "multiline": multiline}
    form = {name: value for name, value in form.items() if value is not None and value is not False}
    if form and not isinstance(frame, str | os.PathLike):
        raise UnsupportedFrameError(
            f"{next(iter(form))}= is for the path of a text file, and this frame is none",
            hint='name the file here: dfp.frame("visits.csv", encoding="latin-1")',
        )
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    named = frame.path if isinstance(frame, TextFile) else frame
    if not isinstance(named, str | os.PathLike):
        return frame
    text = os.fsdecode(named)
    require_local(text)
    path = expand_home(Path(text))
    if isinstance(frame, TextFile):
        return replace(frame, path=path)
    return TextFile(path, **form) if form else open_table(path) or path


_REMOTE = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+:/", re.IGNORECASE)


def require_local(path: str) -> None:
    """Refuse the address of a file on a network: paths name files of this machine."""
    if not _REMOTE.match(path):
        return
    scheme = path.partition(":")[0]
    raise UnsupportedFrameError(
        f"{scheme}: is an address on a network, and paths name files of this machine",
        hint='let an engine read it that has your credentials: dfp.frame(con.sql("FROM '
        f"read_parquet('{scheme}://...')\")) after con.load_extension('httpfs'), or "
        f"dfp.frame(pl.scan_parquet('{scheme}://...')); or copy the file here",
    )


@dataclass(frozen=True)
class DataFiles:
    """The files of a path, listed once: a plan and its reading see the same ones."""

    source: Path | TextFile
    files: Sequence[Path]

    @property
    def path(self) -> Path:
        """The path that was listed."""
        return self.source.path if isinstance(self.source, TextFile) else self.source

    @property
    def is_text(self) -> bool:
        """True if the columns are read as text."""
        return isinstance(self.source, TextFile)


class RowCondition(NamedTuple):
    """A condition that fails for no row, and columns of the rows by their names in it."""

    sql: str
    columns: Mapping[str, str]


FileSource = Path | TextFile | Snapshot | DataFiles


def list_data_files(source: FileSource) -> Snapshot | DataFiles:
    """Return the files of a path; a path of text files becomes a `TextFile`.

    Raises
    ------
    UnsupportedFrameError
        When there is no such file, or its name ends in something else.
    """
    if isinstance(source, Snapshot | DataFiles):
        return source

    def list_files() -> DataFiles:
        if isinstance(source, TextFile):
            return DataFiles(source, _list_files(source.path))
        if not (source.is_dir() or is_data_name(source)):
            raise UnsupportedFrameError(
                f"the file name ends in {source.suffix!r}"
                if source.suffix
                else f"there is no folder {source.name!r}",
                hint="pass a .csv, .tsv or .parquet file, or a folder of such files",
            )
        files = _list_files(source)
        return DataFiles(TextFile(source) if is_text_name(files[0]) else source, files)

    return _open_guarded(source, list_files)


def declare_file(
    connection: duckdb.DuckDBPyConnection, source: FileSource
) -> duckdb.DuckDBPyRelation:
    """Return a relation of the columns of a source; of Parquet files the first one declares them.

    Its rows are not those of the source.
    """
    listing = list_data_files(source)
    if isinstance(listing, DataFiles) and isinstance(listing.source, Path):
        first = listing.files[:1]
        return _open_guarded(
            listing.source, lambda: _read_parquet(connection, first, _keys_of_files(listing))
        )
    return read_file(connection, listing)


class Footer(NamedTuple):
    """The columns that Parquet files declare.

    Memory surely holds all values of a file that `is_small`: its columns are read in one pass,
    instead of one pass a column. The answers are the same.
    """

    schema: pa.Schema
    is_small: bool


_FEW_VALUES = 2**22


def read_footer(source: object) -> Footer | None:
    """Return the footer of the first of Parquet files; None for other sources.

    The keys of directories are columns of text.
    """
    if not isinstance(source, DataFiles) or isinstance(source.source, TextFile):
        return None
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    with suppress(OSError, pa.ArrowException):
        footer = pq.read_metadata(source.files[0])
        schema = footer.schema.to_arrow_schema()
        for key in _open_guarded(source.source, partial(_keys_of_files, source)):
            schema = schema.append(pa.field(key, pa.string()))
        is_small = len(source.files) == 1 and footer.num_rows * footer.num_columns <= _FEW_VALUES
        return Footer(schema, is_small)
    return None


def find_durations(source: object, named: Iterable[Hashable]) -> dict[str, pa.DataType]:
    """Return the types of named columns of Parquet files that are durations.

    The engine reads them as whole numbers.
    """
    footer, names = read_footer(source), set(map(str, named))
    fields = [] if footer is None else [field for field in footer.schema if field.name in names]
    return {field.name: field.type for field in fields if pa.types.is_duration(field.type)}


def require_same_durations(source: object, types: Mapping[str, pa.DataType]) -> None:
    """Refuse Parquet files if a later file declares a duration with another unit than the first.

    Raises
    ------
    UnsupportedFrameError
        When there is such a file.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    if not types or not isinstance(source, DataFiles):
        return
    for file in source.files[1:]:
        schema = _open_guarded(file, partial(pq.read_schema, file))
        for name, kind in types.items():
            if schema.field(name).type != kind:
                raise _differ(name, (kind, source.files[0]), (schema.field(name).type, file))


def read_file(
    connection: duckdb.DuckDBPyConnection,
    source: FileSource,
    columns: Sequence[str] | None = None,
    conditions: Sequence[RowCondition] = (),
) -> duckdb.DuckDBPyRelation:
    """Return a CSV, TSV or Parquet file as a relation, or the files of a glob or folder.

    A CSV file declares no types, and guessing them from its rows would let one row change them:
    every column is text. Of a CSV file at least the named columns are read. Parquet files in
    directories `key=value` are read if their keys fulfill the conditions on keys alone: the other
    files have no row that fulfils them.

    Raises
    ------
    UnsupportedFrameError
        When there is no such file, its name ends in something else, a text file has no line of
        distinct column names, Parquet files declare different columns, or it is no such file.
    """
    listing = list_data_files(source)
    if isinstance(listing, Snapshot):
        return connection.from_arrow(listing.rows)
    kind, files = listing.source, listing.files

    def read() -> duckdb.DuckDBPyRelation:
        if isinstance(kind, TextFile):
            # Only Parquet has columns of directories; the values of such keys may be secret.
            if kind.path.is_dir() and any(
                _list_directory_keys(file.parent.relative_to(kind.path)) for file in files
            ):
                raise UnsupportedFrameError(
                    f"text files below {str(kind.path)!r} lie in directories named key=value, "
                    "which are columns of Parquet files alone",
                    hint="name the files by a pattern, such as 'folder/*/*.csv', without these "
                    "columns",
                )
            return read_text(connection, [replace(kind, path=file) for file in files], columns)
        keys = _keys_of_files(listing)
        matching = _match_directories(connection, files, keys, conditions)
        return _read_parquet(connection, files[:1], keys, columns, matching)

    return _open_guarded(kind, read)


def _open_guarded(source: Path | TextFile, work: Callable[[], T]) -> T:
    """Return the result of `work`, without the text of an engine or the system if it fails."""
    try:
        return work()
    except (OSError, ValueError, duckdb.Error) as error:
        name = source.path if isinstance(source, TextFile) else source
        failure: DPError = find_space_error(error) or UnsupportedFrameError(
            f"{str(name)!a} can't be opened as what its name says",
            hint="check the path, that you may read it, and that it is whole",
        )
    raise failure


def _read_parquet(
    connection: duckdb.DuckDBPyConnection,
    first: Sequence[Path],
    keys: Collection[str],
    names: Sequence[str] | None = None,
    files: Sequence[Path] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return Parquet files, or no rows of the `first` one, as a relation.

    It has the columns of these `names` alone: others, which can fail as they are read, are not.
    The `keys` of directories are columns of text. A type guessed from the names of directories
    would depend on all of them.
    """
    read = partial(_read, connection, files or first, hive=bool(keys), empty=not files)
    schemas = _read_schemas(connection, list(dict.fromkeys([*first, *(files or ())])))
    # The engine would cast the rows of files that declare other types.
    earliest, *others = schemas
    columns = schemas[earliest]
    for file in others:
        for name in sorted({*columns, *schemas[file]}):
            kinds = [schema.get(name, _MISSING).kind for schema in (columns, schemas[file])]
            if kinds[0] != kinds[1]:
                raise _differ(name, (kinds[0], earliest), (kinds[1], file))
    if len({name.lower() for name in columns}) < len(columns):
        raise UnsupportedFrameError(
            f"columns of {_name_file(earliest)} have names that differ in nothing but case",
            hint="rename them: pyarrow.parquet.read_table(path).rename_columns([...])",
        )
    hidden = [name for name in columns if name.lower() in {key.lower() for key in keys}]
    if hidden:
        raise UnsupportedFrameError(
            f"the Parquet files have a column {hidden[0]!r}, and so have the names of directories",
            hint='rename one of them, or leave the directories out: dfp.frame(con.sql("FROM '
            "read_parquet('...', hive_partitioning = false)\"))",
        )
    if names is None or not {*names} <= {*columns, *keys}:  # whose error suggests other columns
        return read()
    chosen = list(dict.fromkeys(names))
    coarse = {name for schema in schemas.values() for name, field in schema.items() if field.coarse}
    if not files or coarse.isdisjoint(chosen):
        return read(chosen=chosen)
    return read_coarse_times(connection, files, chosen, read(), coarse)


def _differ(name: str, *types: tuple[object, Path]) -> UnsupportedFrameError:
    """Return the error for a column that two Parquet files declare with different types."""
    places = (f"{kind} in {_name_file(file)}" for kind, file in types)
    return UnsupportedFrameError(
        f"Parquet files declare different columns: {name!r} is {' and '.join(places)}",
        hint="write them anew with one schema, or name those that are alike by a glob",
    )


def _read(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[Path],
    *,
    hive: bool,
    empty: bool,
    chosen: Sequence[str] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return Parquet files with or without the keys of their directories, or `empty` of rows.

    Columns that are not `chosen` stay out of the query: even its plan looks at their values.
    """
    columns = "*" if chosen is None else ", ".join(map(quote, chosen)) or _NO_COLUMN
    options = f"hive_partitioning = {hive}, {_TOTAL}"
    query = f"SELECT {columns} FROM read_parquet($1, {options})"  # noqa: S608 names are quoted
    query += " LIMIT 0" if empty else ""
    return connection.sql(query, params=[[escape(str(file)) for file in files]])


_TOTAL = "hive_types_autocast = false, utf8_validation = 'replace'"
"""Options of DuckDB's reader by which no value decides a type or an error."""

_NO_COLUMN = 'true AS "row"'


def _list_files(path: Path) -> list[Path]:
    """Return the files that a path names, sorted; at least one, and none of a table's folder."""
    hint = "check the path; several files are named by their folder or a glob"
    if path.is_file():
        files, lack = [path], ""
    elif path.is_dir():
        files = _list_folder(path)
        lack = f"there is no .parquet, .csv or .tsv file below {str(path)!r}"
    elif has_magic(str(path)):
        with open_embedded(idle=True) as connection:
            rows = connection.execute("FROM glob($1) ORDER BY file", [str(path)]).fetchall()
        files = [Path(file) for (file,) in rows]
        lack = f"no file is named by {str(path)!r}"
    else:
        files, lack = [], f"there is no file {str(path)!r}"
        hint = "check the path" if is_text_name(path) else hint
    if not files:
        raise UnsupportedFrameError(lack, hint=hint)
    require_no_table(files)
    return files


def _list_folder(folder: Path) -> list[Path]:
    """Return the files below a folder, sorted, which are all Parquet files or all text files.

    Files of writers at work are left out, whose own name or that of a folder begins with . or _.
    """
    texts, others, folders = list[str](), list[str](), [str(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.startswith((".", "_")) and "=" not in entry.name:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif is_data_name(entry.name) and entry.is_file():
                    (texts if is_text_name(entry.name) else others).append(entry.path)
    if texts and others:
        raise UnsupportedFrameError(
            f"the folder {str(folder)!r} has text files such as {_name_file(Path(min(texts)))} "
            "beside Parquet files",
            hint="name the files of one kind by a glob, such as 'folder/*.parquet'",
        )
    return [*map(Path, sorted(texts or others))]


def list_source_files(path: Path) -> list[Path]:
    """Return the files that a path names as a source, without a look into them.

    A DuckDB file has its log of newer changes beside it.
    """
    if not path.is_dir():
        is_pattern = not path.exists()
        names = glob(str(path)) if is_pattern else [str(path), f"{path}.wal"]  # noqa: PTH207 it has a root
        files = [*map(Path, names)]
    else:
        files = [*path.rglob("*")]
        if table_format(path) is None:
            files = [file for file in files if is_visible(file.relative_to(path))]
            files = [file for file in files if is_data_name(file)]
    return sorted(file for file in files if file.is_file())


class _Field(NamedTuple):
    """The type of a column as DuckDB reads it; a `coarse` one holds times in milliseconds."""

    kind: str
    coarse: bool


_Schema = dict[str, _Field]
"""The columns of a file with their types."""

_MISSING = _Field("missing", coarse=False)


def _read_schemas(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path]
) -> dict[Path, _Schema]:
    """Return the different schemas of Parquet files, by the first file of each.

    One query looks at all footers.
    """
    query = """
        SELECT min(file_name), count(*)::BIGINT, fields FROM (
            SELECT file_name, list([name, duckdb_type, num_children::VARCHAR, coarse::VARCHAR]
                ORDER BY column_id) AS fields
            FROM (SELECT *, coalesce(converted_type = 'TIMESTAMP_MILLIS' OR logical_type
                LIKE 'TimestampType%MILLIS=MilliSeconds%', false) AS coarse
                FROM parquet_schema($1))
            GROUP BY file_name)
        GROUP BY fields ORDER BY 1
    """
    rows = connection.execute(query, [[escape(str(file)) for file in files]]).fetchall()
    if sum(count for _, count, _ in rows) != len(files):
        raise OSError("a file has no footer")  # which the caller's message replaces
    return {Path(file): _read_schema(fields) for file, _, fields in rows}


def _read_schema(fields: Sequence[Sequence[str]]) -> _Schema:
    """Return the columns of a footer, whose fields are in depth-first order below a root."""
    schema: _Schema = {}
    inner, column = 0, ""  # fields inside of a column that are still to come
    for name, kind, children, coarse in fields[1:]:
        is_inner = inner > 0
        inner += int(children or 0) - is_inner
        column = column if is_inner else name
        field = schema[column] if is_inner else _Field(kind, coarse=False)
        schema[column] = field._replace(coarse=field.coarse or coarse == "true")
    return schema


def _name_file(file: Path) -> str:
    """Return a file's directory and name without the keys of directories, which may be secret."""
    parts = (re.sub("=.*", "=...", part, flags=re.DOTALL) for part in file.parent.parts[-2:])
    return repr(str(Path(*parts) / file.name))


_NOT_IN_NAMES = re.compile(r"[=?\n\\]")
_NO_KEY = "__HIVE_DEFAULT_PARTITION__"


def _keys_of_files(listing: DataFiles) -> list[str]:
    """Return the keys of the directories of Parquet files: none if a path has no common ones.

    Raises
    ------
    UnsupportedFrameError
        When the directories below a folder have different keys, or a name that DuckDB takes for no
        key: one with a second =, a ?, a line break, or bytes that are no UTF-8 once decoded.
    """
    root, folders = str(listing.source), dict.fromkeys(file.parent for file in listing.files)
    is_folder = Path(root).is_dir()
    parts = [
        _list_directory_keys(Path(str(folder)[len(root) :]) if is_folder else folder)
        for folder in folders
    ]
    if is_folder and not all(map(_is_plain, chain.from_iterable(parts))):
        raise UnsupportedFrameError(
            f"a directory below {root!r} has a name key=value with a character that has to be "
            "encoded in it",
            hint="rename it, such as city=a%3Fb for the value 'a?b'",
        )
    names = {tuple(part.partition("=")[0] for part in keyed) for keyed in parts}
    if len(names) == 1:
        return [*_read_keys(next(iter(folders)))] if any(names) else []
    if is_folder:
        raise UnsupportedFrameError(
            f"the files below {root!r} lie in directories of different keys",
            hint="name one part of the folder, in which all of them are alike",
        )
    return []


def _list_directory_keys(folder: Path) -> list[str]:
    """Return the names of directories that are keys, from the outermost on."""
    return [part for part in folder.parts if "=" in part]


def _is_plain(part: str) -> bool:
    raw = part.partition("=")[2]
    return not _NOT_IN_NAMES.search(raw) and "\ufffd" not in _decode_name(raw)


def _decode_name(raw: str) -> str:
    return unquote_to_bytes(raw.encode(errors="surrogateescape")).decode(errors="replace")


def _read_keys(folder: Path) -> dict[str, str | None]:
    """Return names and values of the keys on the way to a folder.

    They are those that DuckDB reads: of several of one name the outermost counts, of names that
    differ in case the first.
    """
    values: dict[str, str | None] = {}
    for name, _, raw in (
        part.partition("=") for part in _list_directory_keys(folder) if _is_plain(part)
    ):
        values.setdefault(name, None if raw == _NO_KEY else _decode_name(raw))
    names: dict[str, str] = {}
    for name in sorted(filter(None, values)):
        names.setdefault(name.lower(), name)
    return {name: values[name] for name in names.values()}


def _match_directories(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[Path],
    keys: Sequence[str],
    conditions: Sequence[RowCondition],
) -> Sequence[Path]:
    """Return the files in directories that fulfill the conditions which name their keys alone.

    Each condition is computed once a directory. No row and no file counts in it.
    """
    names = {key.lower(): key for key in keys}
    about = [
        c for c in conditions if c.columns and {*map(str.lower, c.columns.values())} <= {*names}
    ]
    if not about:
        return files
    folders = list(dict.fromkeys(file.parent for file in files))
    rows = [_read_keys(folder) for folder in folders]
    columns = {key: pa.array([row[key] for row in rows], pa.string()) for key in keys}
    table = pa.table({**columns, _FOLDER: pa.array(range(len(folders)))})
    chosen = {new: names[column.lower()] for c in about for new, column in c.columns.items()}
    texts = (f"{quote(key)} COLLATE C AS {quote(new)}" for new, key in chosen.items())
    relation = connection.from_arrow(table).project(", ".join([quote(_FOLDER), *texts]))
    matching = relation.filter(" AND ".join(condition.sql for condition in about))
    chosen_folders = {folders[number] for number, *_ in matching.fetchall()}
    return [file for file in files if file.parent in chosen_folders]


_FOLDER = "="  # no key has this name


def put_whole(path: Path, fill: Callable[[Path], object], *, is_new: bool = False) -> None:
    """Make a file beside its place, and move it there once it is on the disk.

    One that `is_new` can be read by its owner alone, and is never put over another.

    Raises
    ------
    FileExistsError
        When a ledger is there, or something where the file is to be new; it stays.
    OSError
        When the operating system does not let us write; what was there stays.
    """
    if not is_new and is_ledger(path):
        raise FileExistsError(errno.EEXIST, "it is a ledger, which nothing replaces")
    folder = path.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".dfprivacy-", dir=folder) as directory:
        temporary = Path(directory) / path.name
        if is_new:
            temporary.touch(0o600, exist_ok=False)
        fill(temporary)
        with temporary.open("rb+") as file:
            flush(file.fileno())
        if not is_new:
            temporary.replace(path)
            return
        os.link(temporary, path)
    sync_directory(folder)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write one row a group, keys in the type of their column."""
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    pq.write_table(table, path)
