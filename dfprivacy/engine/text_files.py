"""Read CSV and TSV files so that each line decides about its own record alone.

A block of the file is decoded, cut into lines, repaired where a line is irregular, and parsed by
polars. DuckDB reads the resulting Arrow stream of text columns, and casts above it.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from dfprivacy.errors import UnsupportedFrameError
from dfprivacy.measurement.runs import list_distinct

PARQUET = (".parquet", ".pq")
ARCHIVES = {".gz": "gzip", ".zst": "zstd"}
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_TEXT_ENDING = re.compile(r"(\.[ct]sv)(\.\w+)?\Z", re.IGNORECASE)
FORM = ("encoding", "delimiter", "multiline")
_OTHER_SEPARATORS = ";\t|,"
_UNDECODABLE = "\ufffd"

_BLOCK_SIZE = 2**20  # bytes that are read and parsed at a time: they fit a processor's cache
_LINE_LIMIT = 2**24  # characters of a line: bounds memory, and exceeds any block
_QUOTE, _LINE_END = b'"\n'

_Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class TextFile:
    """A CSV or TSV file, or several with the same columns, with the form of their text.

    Parameters
    ----------
    path : path
        The file, whose first line holds the column names, a folder of such files, or a pattern such
        as "days/*.csv". A file may be compressed: .csv.gz or .csv.zst.
    encoding : str
        The encoding of the text, such as "latin-1", "cp1252" or "utf-16". Text that can't be
        decoded makes its field missing.
    delimiter : str, optional
        The character between two fields. Without, it is the comma of a .csv and the tab of a .tsv
        file, or the semicolon, tab or bar if the first line has these alone.
    multiline : bool
        Whether quoted fields may contain line breaks, as RFC 4180 allows. Without, a record is one
        line, and a quote that is open at its end makes the field missing.

    Raises
    ------
    UnsupportedFrameError
        When there is no such encoding, one line decides about others in it, or the delimiter is not
        one character.

    Examples
    --------
    >>> import dfprivacy as dfp
    >>> dfp.TextFile("visits.csv", encoding="latin-1")
    TextFile(path=PosixPath('visits.csv'), encoding='latin-1', delimiter=None, multiline=False)
    """

    path: Path
    encoding: str = "utf-8"
    delimiter: str | None = None
    multiline: bool = False

    def __post_init__(self) -> None:
        """Check the form; the file is not opened."""
        try:
            object.__setattr__(self, "path", Path(self.path))
        except TypeError:
            raise UnsupportedFrameError(
                "the path of a text file must be text or a path", hint='dfp.TextFile("visits.csv")'
            ) from None
        if self.path.suffix.lower() in PARQUET:
            raise UnsupportedFrameError(
                "a Parquet file has no encoding, delimiter and lines of text",
                hint="leave them out, or name a .csv or .tsv file",
            )
        if not isinstance(self.encoding, str) or not _keeps_lines(self.encoding):
            raise UnsupportedFrameError(
                f"encoding={self.encoding!r} is not an encoding of lines of text",
                hint='name one such as "utf-8", "latin-1", "cp1252" or "utf-16"',
            )
        if self.delimiter is not None and not (
            isinstance(self.delimiter, str)
            and len(self.delimiter) == 1
            and self.delimiter.isascii()
            and self.delimiter not in '"\r\n\0'
        ):
            raise UnsupportedFrameError(
                f"delimiter={self.delimiter!r} is not one ASCII character between fields",
                hint='name one such as ",", ";", "|" or "\\t"',
            )
        if not isinstance(self.multiline, bool):
            raise UnsupportedFrameError(
                "multiline must be True or False", hint='dfp.TextFile("visits.csv", multiline=True)'
            )


@cache
def _keeps_lines(encoding: str) -> bool:
    """Return whether text in an encoding is decoded line by line, whatever bytes are in a line."""
    try:
        if codecs.lookup(encoding).name in {"utf-8", "utf-16", "utf-16-le", "utf-16-be"}:
            return True
        codecs.getincrementaldecoder(encoding)
        plain = bytes(range(128)) + b"\x1b$Bab~{ab+AGE-"  # other encodings change their state here
        starts = [bytes([first]) for first in range(128, 256)]
        starts += [start + bytes([second]) for start in starts for second in range(256)]
        lines = b"".join(start + b"\nnext\n" for start in starts)
        is_ascii_kept = plain.decode(encoding) == plain.decode("ascii")
        return is_ascii_kept and lines.decode(encoding, "replace").count("\nnext\n") == len(starts)
    except (LookupError, UnicodeError, ValueError):
        return False


def is_text(source: object) -> bool:
    """Return whether rows come from CSV or TSV files, whose columns are all text."""
    if not isinstance(source, Path):
        return isinstance(source, TextFile)
    if not source.is_dir():
        return is_text_name(source)
    files = (file for file in source.rglob("*") if is_visible(file.relative_to(source)))
    kinds = (is_text_name(file) for file in files if is_data_name(file) and file.is_file())
    return next(kinds, False)


def is_text_name(path: Path | str) -> bool:
    """Return whether a name is that of a CSV or TSV file, or of an archive of one."""
    return _TEXT_ENDING.search(str(path)) is not None


def is_data_name(path: Path | str) -> bool:
    """Return whether a name is that of a text file or of a Parquet file."""
    return is_text_name(path) or str(path).lower().endswith(PARQUET)


def is_visible(file: Path) -> bool:
    """Return whether neither a file nor a folder on the way to it is one of a writer at work."""
    return not any(part.startswith((".", "_")) and "=" not in part for part in file.parts)


def name_table(path: Path) -> str:
    """Return the name of a file without its endings."""
    return _TEXT_ENDING.sub("", path.name) if is_text_name(path) else path.stem


def with_form(path: Path, form: Mapping[str, Any]) -> Path | TextFile:
    """Return a path with the form of its text, unless there is none or it names a Parquet file."""
    return TextFile(path, **form) if form and path.suffix.lower() not in PARQUET else path


def read_text(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[TextFile],
    names: Sequence[str] | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return CSV and TSV files as a relation of text columns, at least those in `names`.

    Raises
    ------
    UnsupportedFrameError
        When a first line does not hold distinct column names, those of two files differ, or an
        archive is damaged.
    """
    tables = [_read_header(file) for file in files]
    columns = tables[0].columns
    for table in tables[1:]:
        different = {*columns} ^ {*table.columns}
        if different:
            name = min(different)
            paths = [str(tables[0].file.path), str(table.file.path)]
            with_name, without = paths if name in columns else reversed(paths)
            raise UnsupportedFrameError(
                f"text files have different columns: {name!r} is in {with_name!r} and not in "
                f"{without!r}",
                hint="write the same names in all first lines, or name files that are alike by a "
                "pattern such as 'days/2025-*.csv'",
            )
    if names is None or not set(names) <= set(columns):  # whose error suggests other columns
        names = columns
    needed = [column for column in columns if column in names] or columns[:1]
    schema = pa.schema([(name, pa.large_string()) for name in needed])
    return connection.from_arrow(Stream(schema, partial(_read_tables, tables, schema)))


@dataclass(frozen=True)
class _TextTable:
    """A text file with what its first line says."""

    file: TextFile
    separator: str
    columns: Sequence[str]

    def read(self, needed: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield the columns that are needed, block by block."""
        form = _RecordForm(self.separator.encode(), len(self.columns))
        positions = [self.columns.index(name) for name in needed]
        is_header_read = False
        for records in _read_records(self.file, form):
            frame = form.parse(records, positions)
            yield frame.slice(0 if is_header_read else 1)
            is_header_read |= frame.height > 0


@dataclass(frozen=True)
class Stream:
    """Rows as an Arrow stream, which each query reads anew, in bounded memory."""

    schema: pa.Schema
    read: Callable[[], Iterator[pa.RecordBatch]]

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.read())
        return reader.__arrow_c_stream__(requested_schema)


def _read_tables(tables: Sequence[_TextTable], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for table in tables:
        for rows in table.read(schema.names):
            for batch in rows.to_arrow().to_batches():
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open the bytes of a text file, or of the archive of one."""
    with path.open("rb") as file:
        compression = ARCHIVES.get(path.suffix.lower())
        if compression is None:
            yield file
            return
        with pa.CompressedInputStream(file, compression) as unpacked:
            yield unpacked


@lru_cache(maxsize=2**16)
def _unpack(path: Path, size: int, time: int) -> None:
    """Read an archive to its end, for what its reader raises."""
    del size, time  # they tell one state of the file from another
    with _open(path) as opened:
        while opened.read(_BLOCK_SIZE):
            pass


def _read_header(file: TextFile) -> _TextTable:
    """Return a text file with its columns, and with the character between fields."""
    ending = _TEXT_ENDING.search(file.path.name)
    archive = "" if ending is None else (ending[2] or "").lower()
    if ending is None or archive not in {"", *ARCHIVES}:
        raise UnsupportedFrameError(
            f"the file name ends in {file.path.suffix!r}",
            hint="unpack the file first" if ending else "pass a .csv, .tsv or .csv.gz file",
        )
    if archive:
        # An archive is read to its end once for each state of the file.
        state = file.path.stat()
        try:
            _unpack(file.path, state.st_size, state.st_mtime_ns)
        except OSError as error:
            if error.errno is not None:  # the system refused to open or read it
                raise
            raise UnsupportedFrameError(
                f"the archive {str(file.path)!r} is cut off or damaged",
                hint="copy or pack the file again",
            ) from None
    with _open(file.path) as opened:
        start = opened.read(2)
    if start in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} and "16" not in file.encoding:
        raise UnsupportedFrameError(
            f"{str(file.path)!r} is encoded as UTF-16",
            hint=f'dfp.frame({str(file.path)!r}, encoding="utf-16"), or --encoding utf-16',
        )
    block = next(_read_blocks(file), "").lstrip("\n")
    if not file.multiline:
        block = block.partition("\n")[0] + "\n"
    default = _SEPARATORS[ending[1].lower()]
    headers = {
        separator: _split_header(block, file, separator)
        for separator in ([file.delimiter] if file.delimiter else [default, *_OTHER_SEPARATORS])
    }
    separator = max(headers, key=lambda separator: len(headers[separator]) > 1)
    return _TextTable(file, separator, _name_columns(headers[separator], file.path))


def _split_header(block: str, file: TextFile, separator: str) -> list[str]:
    form = _RecordForm(separator.encode(), sys.maxsize)
    records, _ = form.repair(block.encode("utf-8", "replace"), multiline=file.multiline)
    first = re.match(rb'(?:[^"\n]|"[^"]*+")*+', records)
    return [(field or b"").decode() for field in form.split(first[0] if first else b"")]


def _name_columns(header: Sequence[str], path: Path) -> list[str]:
    """Return the names of the columns, with DuckDB's names for those without one.

    Raises
    ------
    UnsupportedFrameError
        When the first line is a title, an instruction to Excel, or has two equal names.
    """
    first, *others = header
    file, hint = repr(str(path)), ""
    if any(_UNDECODABLE in name or "\0" in name for name in header):
        what = f"the first line of {file} is not in the encoding that was named, UTF-8 by default"
        hint = f'name another one, such as dfp.frame({file}, encoding="latin-1") or "utf-16-le"'
    elif first.lower().startswith("sep=") and not any(others):
        what = f"the first line of {file} is an instruction to Excel, 'sep='"
        hint = "remove that line, so that the column names come first"
    elif first and others and not any(others):
        what = f"the first line of {file} has one name for several columns, as a title has"
        hint = "remove the lines above the column names, or name the other columns"
    digits = len(str(len(header) - 1))
    names = [name or f"column{index:0{digits}}" for index, name in enumerate(header)]
    if not hint and (not any(header) or len({name.lower() for name in names}) < len(names)):
        what = f"the first line of {file} does not hold distinct column names"
        hint = "write one name a column in the first line, different in more than case"
    if hint:
        raise UnsupportedFrameError(what, hint=hint)
    return names


def _read_blocks(file: TextFile) -> Iterator[str]:
    """Return blocks of complete lines, which end in a line feed.

    A line that exceeds the limit is cut there. The mark makes the field that was cut missing.
    """
    decoder = codecs.getincrementaldecoder(file.encoding)("replace")
    lines = io.IncrementalNewlineDecoder(decoder, translate=True)
    rest, is_first, is_last = "", True, False
    with _open(file.path) as opened:
        while not is_last:
            data = opened.read(_BLOCK_SIZE)
            is_last = not data
            text = rest + lines.decode(data, final=is_last) + "\n" * is_last
            if is_first:
                text = text.removeprefix("\ufeff")
            first_end, end = text.find("\n"), text.rfind("\n") + 1
            rest = text[end : end + _LINE_LIMIT + 1]
            block = text[:end]
            if first_end > _LINE_LIMIT:
                block = block[:_LINE_LIMIT] + _UNDECODABLE + block[first_end:]
            is_first = is_first and not text
            if block:
                yield block


def _read_records(file: TextFile, form: _RecordForm) -> Iterator[bytes]:
    """Return blocks of regular records: no field has a line break or quote that is not quoted."""
    rest = b""
    for text in _read_blocks(file):
        block = rest + text.encode("utf-8", "replace")
        records, rest = form.repair(block, multiline=file.multiline)
        yield records
    if rest:
        yield form.repair(rest, multiline=False)[0]


@dataclass(frozen=True)
class _RecordForm:
    """The separator of fields and the number of columns, which records are read by.

    A field that begins with a quote ends at the next quote that is not doubled, and keeps the text
    behind it. In other fields a quote is a character. A quote that is open at the end of the record
    makes the field missing. Fields beyond the last column are ignored.
    """

    separator: bytes
    width: int

    def parse(self, records: bytes, positions: Sequence[int]) -> pl.DataFrame:
        """Return the columns at some positions of regular records, empty fields as missing."""
        names = [f"c{index}" for index in range(self.width)]
        header = self.separator.decode().join(names).encode() + b"\n"
        frame = pl.read_csv(
            header + records,
            separator=self.separator.decode(),
            schema=dict.fromkeys(names, pl.String),
            columns=[names[position] for position in positions],
            null_values="",
            missing_columns="insert",
            truncate_ragged_lines=True,
        )
        if records.isascii() or _UNDECODABLE.encode() not in records:
            return frame
        is_lost = pl.all().str.contains(_UNDECODABLE, literal=True)
        return frame.select(pl.when(~is_lost).then(pl.all()))

    def repair(self, block: bytes, *, multiline: bool) -> tuple[bytes, bytes]:
        """Return the regular records of a block, and the start of a record that it does not end."""
        ends, irregular, quoted = self._find_irregular(block)
        pieces: list[bytes] = []
        done = 0
        for number in irregular.tolist():
            start = int(ends[number - 1]) + 1 if number else 0
            if start < done:  # inside of a record of several lines
                continue
            end = int(ends[number])
            if multiline and self._open_end.fullmatch(block, start, end):
                later = self._find_end(block, start, ends, quoted[quoted > number])
                if later is None:
                    return b"".join([*pieces, block[done:start]]), block[start:]
                end = later
            pieces += [block[done:start], self._rewrite(block[start:end])]
            done = end + 1
        return b"".join([*pieces, block[done:]]), b""

    def _find_irregular(self, block: bytes) -> tuple[_Integers, _Integers, _Integers]:
        """Return the ends of lines, numbers of blank and irregular lines, and of lines with quotes.

        In a regular line, quotes open behind a separator and close before one, or are doubled.
        """
        symbols = np.frombuffer(block, np.uint8)
        is_end = symbols == _LINE_END
        if b'"' not in block:
            ends, counts, quotes = np.flatnonzero(is_end), np.zeros(0, int), np.zeros(0, int)
        else:
            marks = np.flatnonzero(is_end | (symbols == _QUOTE))
            is_quote = symbols[marks] == _QUOTE
            ends, quotes = marks[~is_quote], marks[is_quote]
            counts = np.diff(np.cumsum(is_quote, dtype=np.int32)[~is_quote], prepend=0)
        is_odd = counts % 2 == 1
        if is_odd.any():
            quotes = quotes[~np.repeat(is_odd, counts)]
        is_border = np.zeros(256, bool)
        is_border[[_QUOTE, _LINE_END, self.separator[0]]] = True
        openings, closings = quotes[::2], quotes[1::2]
        wrong_openings = openings[~is_border[symbols[openings - 1]]]
        wrong_closings = closings[~is_border[symbols[closings + 1]]]
        wrong = np.searchsorted(ends, np.concatenate((wrong_openings, wrong_closings)))
        blank = np.flatnonzero(np.diff(ends, prepend=-1) == 1)
        irregular = list_distinct(np.concatenate((wrong, blank, np.flatnonzero(is_odd))))
        return ends, irregular, np.flatnonzero(counts)

    def _find_end(self, block: bytes, start: int, ends: _Integers, later: _Integers) -> int | None:
        """Return the end of a record that is open after its first line; None if it is not here.

        A record that exceeds the limit of a line ends with the line that exceeds it.
        """
        forced = int(np.searchsorted(ends, start + _LINE_LIMIT))
        for number in later[later < forced].tolist():
            line = block[int(ends[number - 1]) + 1 : int(ends[number])]
            if not self._open_end.fullmatch(b'"' + line):
                return int(ends[number])
        return int(ends[forced]) if forced < len(ends) else None

    def _rewrite(self, record: bytes) -> bytes:
        """Return a record with all fields in quotes; nothing for a blank line."""
        if not record:
            return b""
        fields = [
            b"" if field is None else b'"%b"' % field.replace(b'"', b'""')
            for field in self.split(record)
        ]
        return self.separator.join(fields) + b"\n"

    def split(self, record: bytes) -> list[bytes | None]:
        """Return the fields of a record; None for a quote that is open at its end."""
        fields: list[bytes | None] = []
        start = 0
        while start <= len(record) and len(fields) < self.width:
            match = self._field.match(record, start)
            assert match is not None  # noqa: S101 the pattern matches an empty field too
            quoted, tail, is_open, plain = match.groups()
            if is_open is not None:
                fields.append(None)
            else:
                fields.append(plain if quoted is None else quoted.replace(b'""', b'"') + tail)
            start = match.end() + 1
        return fields

    @cached_property
    def _field(self) -> re.Pattern[bytes]:
        plain = rb"[^%b]*+" % re.escape(self.separator)
        return re.compile(
            rb'"([^"]*+(?:""[^"]*+)*+)"(' + plain + rb')|("[\s\S]*+)|(' + plain + rb")"
        )

    @cached_property
    def _open_end(self) -> re.Pattern[bytes]:
        """The pattern of a record that ends inside of quotes."""
        separator = re.escape(self.separator)
        quoted = rb'"[^"]*+(?:""[^"]*+)*+'
        closed = rb'(?:%b"[^%b]*+|[^"%b][^%b]*+|)%b' % (quoted, *[separator] * 4)
        return re.compile(rb"(?:%b)*+%b" % (closed, quoted))


def number_in_text(text: str) -> str:
    """Return SQL for the number in an expression of text: 1 for true, 0 for false, or NULL."""
    return f"coalesce(TRY_CAST({text} AS DOUBLE), CASE lower({text}) {_TRUTHS})"


def reads_numbers(sql: str) -> bool:
    """Return whether SQL has numbers in text."""
    return _TRUTHS in sql


_TRUTHS = "WHEN 'true' THEN 1 WHEN 'false' THEN 0 END"
LEFT_OUT = (
    "texts of a file that are no numbers are left out, as '3,5', '1,200' and dates are; SQL "
    "converts them: CAST(replace(x, ',', '.') AS DOUBLE), CAST(x AS DATE)"
)
"""The note of numbers that are read from text. It is the same for all rows."""
