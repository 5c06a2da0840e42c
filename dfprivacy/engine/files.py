"""Read CSV, TSV and Parquet files as relations whose columns no row decides.

Files that are written are there wholly or not at all.
"""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from glob import escape, glob, has_magic
from itertools import groupby
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import unquote_to_bytes

import duckdb
import polars as pl
import pyarrow as pa

from dfprivacy.accounting.ledger_file import expand_home, flush, is_ledger, sync_directory
from dfprivacy.engine.coarse_times import read_coarse_times
from dfprivacy.engine.embedded import find_space_error
from dfprivacy.engine.snapshots import Snapshot, open_table, require_no_table, table_format
from dfprivacy.engine.text_files import (
    PARQUET,
    TextFile,
    is_data_name,
    is_text,
    is_text_name,
    is_visible,
    read_text,
)
from dfprivacy.errors import DPError, MissingColumnError, UnsupportedFrameError


def quoted(name: str) -> str:
    """Return a name in double quotes, as DuckDB's SQL writes it.

    >>> print(quoted('a "b" c'))
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


def read_file(
    connection: duckdb.DuckDBPyConnection,
    path: Path | TextFile | Snapshot,
    columns: Sequence[str] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return a CSV, TSV or Parquet file as a relation, or the Parquet files of a glob or folder.

    A CSV file declares no types, and guessing them from its rows would let one row change them:
    every column is text. Of a CSV file at least the named columns are read.

    Raises
    ------
    UnsupportedFrameError
        When there is no such file, its name ends in something else, a text file has no line of
        distinct column names, Parquet files declare different columns, or it is no such file.
    """
    if isinstance(path, Snapshot):
        return connection.from_arrow(path.rows)
    try:
        return _read_file(connection, path, columns)
    except (OSError, ValueError, duckdb.Error) as error:
        name = path.path if isinstance(path, TextFile) else path
        failure: DPError = find_space_error(error) or UnsupportedFrameError(
            f"{str(name)!a} can't be opened as what its name says",
            hint="check the path, that you may read it, and that it is whole",
        )
    raise failure


def _read_file(
    connection: duckdb.DuckDBPyConnection, source: Path | TextFile, columns: Sequence[str] | None
) -> duckdb.DuckDBPyRelation:
    if isinstance(source, TextFile):
        files = _list_files(connection, source.path)
        _require_no_keys(source.path, files)
        return read_text(connection, [replace(source, path=file) for file in files], columns)
    if is_text(source):
        return _read_file(connection, TextFile(source), columns)
    if source.is_dir() or source.suffix.lower() in PARQUET:
        return _read_parquet(connection, source, columns)
    raise UnsupportedFrameError(
        f"the file name ends in {source.suffix!r}"
        if source.suffix
        else f"{source.name!r} names no kind of file",
        hint="pass a .csv, .tsv or .parquet file, or a folder of such files",
    )


def _require_no_keys(folder: Path, files: Sequence[Path]) -> None:
    """Refuse text files in directories `key=value` below a folder: only Parquet has such columns.

    The values of keys may be secret.
    """
    keys = [part for file in files if folder.is_dir() for part in _keyed(file.relative_to(folder))]
    if keys:
        raise UnsupportedFrameError(
            f"text files below {str(folder)!r} lie in directories named key=value, which are "
            "columns of Parquet files alone",
            hint="name the files by a pattern, such as 'folder/*/*.csv', without these columns",
        )


def _read_parquet(
    connection: duckdb.DuckDBPyConnection, path: Path, names: Sequence[str] | None
) -> duckdb.DuckDBPyRelation:
    """Return a Parquet file, the files that a glob names, or those below a folder as a relation.

    It has the columns of these `names` alone: others, which can fail as they are read, are not.

    Directories named `key=value` below a folder, or on the way to a file, are columns of text. A
    type guessed from their names would depend on all of them, and a name may be there because of
    one row.
    """
    files = _list_files(connection, path)
    below = [file.relative_to(path) for file in files] if path.is_dir() else []
    keys = {tuple(part.partition("=")[0] for part in _keyed(file)) for file in below}
    if len(keys) > 1:
        raise UnsupportedFrameError(
            f"the files below {str(path)!r} lie in directories of different keys",
            hint="name one part of the folder, in which all of them are alike",
        )
    has_keys = any(keys) if below else None
    schemas = _read_schemas(connection, files)
    columns = _shared_schema(schemas)
    if has_keys is not False:
        _require_no_hidden_column(columns, files)
    if all(map(is_plain, below)):
        read = partial(_read, connection, files, hive=has_keys)
    else:
        read = partial(_read_with_keys, connection, path, files, list(columns))
    rows = read()
    if names is None or not {*names} <= {*rows.columns}:  # a name that is missing is refused later
        return rows
    chosen = list(dict.fromkeys(names))
    coarse = {name for schema in schemas.values() for name, field in schema.items() if field.coarse}
    if coarse.isdisjoint(chosen):
        return read(chosen=chosen)
    return read_coarse_times(connection, files, chosen, rows, coarse)


def _read(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[Path],
    *,
    hive: bool | None,
    chosen: Sequence[str] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return Parquet files with or without the keys of their directories; None asks DuckDB.

    Columns that are not `chosen` stay out of the query: even its plan looks at their values.
    """
    columns = "*" if chosen is None else ", ".join(map(quoted, chosen)) or _NO_COLUMN
    option = "" if hive is None else f", hive_partitioning = {hive}"
    query = f"SELECT {columns} FROM read_parquet($1, {_TOTAL}{option})"  # noqa: S608 names are quoted
    return connection.sql(query, params=[[escape(str(file)) for file in files]])


_TOTAL = "hive_types_autocast = false, utf8_validation = 'replace'"
"""Options of DuckDB's reader by which no value decides a type or an error."""

_NO_COLUMN = 'true AS "row"'


def _list_files(connection: duckdb.DuckDBPyConnection, path: Path) -> list[Path]:
    """Return the files that a path names, sorted; at least one, and none of a table's folder."""
    hint = "check the path; several files are named by their folder or a glob"
    if path.is_file():
        files, lack = [path], ""
    elif path.is_dir():
        files = _list_folder(path)
        lack = f"there is no .parquet, .csv or .tsv file below {str(path)!r}"
    elif has_magic(str(path)):
        rows = connection.execute("SELECT file FROM glob($1) ORDER BY file", [str(path)]).fetchall()
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
    names = [path for path in sorted(folder.rglob("*")) if is_visible(path.relative_to(folder))]
    texts = [path for path in names if is_text_name(path) and path.is_file()]
    others = [path for path in names if path.suffix.lower() in PARQUET and path.is_file()]
    if texts and others:
        raise UnsupportedFrameError(
            f"the folder {str(folder)!r} has text files such as {_shown(texts[0])} beside Parquet "
            "files",
            hint="name the files of one kind by a glob, such as 'folder/*.parquet'",
        )
    return texts or others


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


def _shared_schema(schemas: Mapping[Path, _Schema]) -> _Schema:
    """Return the columns that Parquet files declare, the same in all of them.

    The engine would cast the rows of files that declare other types.
    """
    first, *others = schemas
    columns = schemas[first]
    for file in others:
        for name in sorted({*columns, *schemas[file]}):
            kinds = [schema.get(name, _MISSING).kind for schema in (columns, schemas[file])]
            if kinds[0] != kinds[1]:
                raise UnsupportedFrameError(
                    f"Parquet files declare different columns: {name!r} is {kinds[0]} in "
                    f"{_shown(first)} and {kinds[1]} in {_shown(file)}",
                    hint="write them anew with one schema, or name those that are alike by a glob",
                )
    if len({name.lower() for name in columns}) < len(columns):
        raise UnsupportedFrameError(
            f"columns of {_shown(first)} have names that differ in nothing but case",
            hint="rename them: pyarrow.parquet.read_table(path).rename_columns([...])",
        )
    return columns


def _read_schemas(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path]
) -> dict[Path, _Schema]:
    """Return the columns of each Parquet file with their types; one query looks at all footers."""
    query = """
        SELECT file_name, name, duckdb_type, num_children, converted_type = 'TIMESTAMP_MILLIS'
            OR logical_type LIKE 'TimestampType%MILLIS=MilliSeconds%'
        FROM parquet_schema($1) ORDER BY file_name, column_id
    """
    fields = connection.execute(query, [[escape(str(file)) for file in files]]).fetchall()
    schemas: dict[Path, _Schema] = {}
    inner, column = 0, ""  # fields inside of a column that are still to come
    for text, name, kind, children, in_milliseconds in fields:
        file, coarse = Path(text), bool(in_milliseconds)
        if file not in schemas:  # this is the root
            schemas[file] = {}
        elif inner:
            inner += (children or 0) - 1
            if coarse:
                schemas[file][column] = schemas[file][column]._replace(coarse=True)
        else:
            schemas[file][name] = _Field(kind, coarse)
            inner, column = children or 0, name
    if schemas.keys() != {*files}:
        raise OSError("a file has no footer")  # which the caller's message replaces
    return {file: schemas[file] for file in files}


def _shown(file: Path) -> str:
    """Return a file's directory and name without the keys of directories, which may be secret."""
    parts = (re.sub("=.*", "=...", part, flags=re.DOTALL) for part in file.parent.parts[-2:])
    return repr(str(Path(*parts) / file.name))


def _require_no_hidden_column(columns: Collection[str], files: Sequence[Path]) -> None:
    """Refuse a column of the files that a directory `key=value` hides."""
    keys = {part.partition("=")[0].lower() for folder in {f.parent for f in files}
            for part in folder.parts if "=" in part}  # fmt: skip
    hidden = [name for name in columns if name.lower() in keys]
    if hidden:
        raise UnsupportedFrameError(
            f"the Parquet files have a column {hidden[0]!r}, and so have the names of directories",
            hint='rename one of them, or leave the directories out: dfp.frame(con.sql("FROM '
            "read_parquet('...', hive_partitioning = false)\"))",
        )


# Keys that directories are named by, `key=value`, may come from one row. DuckDB reads no folder of
# which one name holds a second `=`, a `?` or a line break, or is no UTF-8 once decoded.

_NOT_IN_NAMES = re.compile(r"[=?\n\\]")
_NO_KEY = "__HIVE_DEFAULT_PARTITION__"

_Keys = tuple[tuple[str, str | None], ...]


def is_plain(file: Path) -> bool:
    """Tell whether DuckDB takes the keys of a file for what they are."""
    return all(map(_is_plain, _keyed(file)))


def _keyed(file: Path) -> list[str]:
    """Return the names of a file's directories that are keys, from the outermost on."""
    return [part for part in file.parent.parts if "=" in part]


def _is_plain(part: str) -> bool:
    raw = part.partition("=")[2]
    return not _NOT_IN_NAMES.search(raw) and "\ufffd" not in _decoded(raw)


def _decoded(raw: str) -> str:
    return unquote_to_bytes(raw.encode(errors="surrogateescape")).decode(errors="replace")


def _keys_of(folder: Path, file: Path) -> _Keys:
    """Return names and values of the keys of a file below a folder, and of the way to the folder.

    They are sorted by name and are what DuckDB takes plain ones for: of several of one name the
    outermost counts, of names that differ in case the first. Bytes that are no UTF-8 become U+FFFD.
    """
    above = [part for part in folder.parts if "=" in part and _is_plain(part)]
    values: dict[str, str | None] = {}
    for part in (*above, *_keyed(file.relative_to(folder))):
        name, _, raw = part.partition("=")
        values.setdefault(name, None if raw == _NO_KEY else _decoded(raw))
    apart: dict[str, str] = {}
    for name in sorted(filter(None, values)):
        apart.setdefault(name.lower(), name)
    return tuple((name, values[name]) for name in apart.values())


def _read_with_keys(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    files: Sequence[Path],
    columns: Sequence[str],
    *,
    chosen: Sequence[str] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return a folder's files, with keys that Python reads where DuckDB takes names for none."""
    keys_of = {file: _keys_of(folder, file) for file in files}
    if chosen is None:
        chosen = [*columns, *(name for name, _ in keys_of[files[0]])]
    plain = [file for file in files if is_plain(file.relative_to(folder))]
    odd = sorted({*files} - {*plain}, key=lambda file: repr(keys_of[file]))
    parts = [
        _read_alike(connection, chosen, keys, [escape(str(file)) for file in same])
        for keys, same in groupby(odd, key=lambda file: keys_of[file])
    ]
    if plain:
        parts.append(_read(connection, plain, hive=True, chosen=chosen))
    return _united(parts)


def _united(parts: Sequence[duckdb.DuckDBPyRelation]) -> duckdb.DuckDBPyRelation:
    """Return the rows of all parts, by halves: each step plans anew what is below it."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _united(parts[:half]).union(_united(parts[half:]))


def _read_alike(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[str], keys: _Keys, files: list[str]
) -> duckdb.DuckDBPyRelation:
    """Return files of the same keys as rows of the same columns in the same order."""
    used = [(name, value) for name, value in keys if name in columns]
    constants = {name: f"${index}::VARCHAR" for index, (name, _) in enumerate(used, 2)}
    names = ((name, quoted(name)) for name in columns)
    chosen = ", ".join(f"{constants.get(name, column)} AS {column}" for name, column in names)
    options = f"hive_partitioning = false, {_TOTAL}"
    query = f"SELECT {chosen or _NO_COLUMN} FROM read_parquet($1, {options})"  # noqa: S608 names are quoted
    return connection.sql(query, params=[files, *(value for _, value in used)])


def put_whole(path: Path, fill: Callable[[Path], object]) -> None:
    """Make a file beside its place, and move it there once it is on the disk.

    Raises
    ------
    OSError
        When a ledger is there, or the operating system does not let us write; what was there stays.
    """
    if is_ledger(path):
        raise FileExistsError(errno.EEXIST, "it is a ledger, which nothing replaces")
    folder = path.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".dfprivacy-", dir=folder) as directory:
        whole = Path(directory) / path.name
        fill(whole)
        with whole.open("rb+") as file:
            flush(file.fileno())
        whole.replace(path)


def put_new(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Make a file that only its owner can read, durable before it is seen, and never over another.

    Raises
    ------
    FileExistsError
        When something is there already; it stays.
    OSError
        When the operating system does not let us write there.
    """
    folder = path.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".dfprivacy-", dir=folder) as directory:
        whole = Path(directory) / path.name
        descriptor = os.open(whole, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            fill(file)
            file.flush()
            flush(file.fileno())
        os.link(whole, path)
    sync_directory(folder)


def write_csv(table: pa.Table, path: Path) -> None:
    """Write one line a group under a line of names; lists and structs are JSON."""
    for place, own in enumerate(table.schema):
        if pa.types.is_nested(own.type):
            texts = [json.dumps(value, default=str) for value in table[place].to_pylist()]
            table = table.set_column(place, own.name, pa.array(texts, pa.string()))
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 a table never becomes a Series
    frame.write_csv(path)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write one row a group, keys in the type of their column."""
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    pq.write_table(table, path)
