"""Add up the exact tables of a release, write them to one Parquet file, and read them back.

Each table has row groups of its own in one schema (docs/how-to/partial.md). What the metadata say
follows from the questions and from this version's code: a reader takes only what its own code would
have written. Group keys of several files meet in one type: int64 (uint64 stays apart), float64,
large_string, microseconds, UTC, the most digits. Such a cast succeeds for every value of the
declared type, and loses no bit of any.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import types

from dfprivacy.accounting.memory import release_bytes
from dfprivacy.engine.files import put_whole
from dfprivacy.engine.keys import order_groups
from dfprivacy.engine.pandas import has_utf8
from dfprivacy.engine.run import run_guarded
from dfprivacy.errors import (
    DPError,
    InvalidQuestionError,
    StatisticsFileError,
    UnsupportedDtypeError,
)
from dfprivacy.measurement.bin_table import BinTable, merge_tables
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.exact import describe
from dfprivacy.measurement.grid import Moment
from dfprivacy.measurement.linear import Source
from dfprivacy.measurement.sums import Statistics, key_names, sum_names
from dfprivacy.release.answers import Measured
from dfprivacy.release.terms import Unit
from dfprivacy.statistics import STATISTICS, Statistic
from dfprivacy.statistics.base import plain
from dfprivacy.statistics.linear import LinearPart, MeasuredSums
from dfprivacy.statistics.part import Bins, MeasuredTable, Part
from dfprivacy.statistics.quantile import WHOLE, Kind, read_end
from dfprivacy.statistics.split import split

FORMAT = "dfprivacy exact statistics"
VERSION = 8
"""Of the file format; to be raised when the same questions would be laid out otherwise."""

ROWS = 2**22  # the rows of one row group, at most

_WARNING = (
    "SECRET: exact statistics of data, without any noise. Guard this file like the rows that it "
    "was made from. Only dfprivacy.merge makes something of it that may be published."
)
_FORMAT, _VERSION, _SECRET, _HEADER, _DIGEST, _TABLES = (
    f"dfprivacy.{name}".encode()
    for name in ("format", "version", "secret", "header", "digest", "tables")
)
_TICK = timedelta(microseconds=1)
_UNREADABLE = (pa.ArrowException, OSError, ValueError, LookupError, TypeError)
JSON = dict[str, Any]


def list_sources(parts: Sequence[Part]) -> tuple[Source, ...]:
    """Return the sources of the queries of a release, in order."""
    return tuple(dict.fromkeys(source for part in parts for source in part.sources))


def with_kinds(parts: Sequence[Part], kinds: Sequence[Kind | None]) -> list[Part]:
    """Return parts for the types of their columns: `kinds` of those with bins."""
    pairs = zip((part for part in parts if not part.sources), kinds, strict=True)
    binned = iter([part.with_kind(kind) for part, kind in pairs])
    return [part if part.sources else next(binned) for part in parts]


@dataclass(frozen=True)
class ExactTables:
    """The groups of a release, the sums of its queries and the bins of its other parts. Secret.

    `keys` has one row a group, sorted, NULL last, or as they were listed, and no columns without
    groups; `sums` are int64, one entry a group, under `sum_names`; `bins` has one table a part that
    counts by bin, and `kinds` what the columns of these parts are declared to hold.
    """

    keys: pa.Table = field(repr=False)
    sums: dict[str, Integers] = field(repr=False)
    bins: tuple[BinTable, ...] = field(repr=False)
    kinds: tuple[Kind | None, ...]

    @classmethod
    def of(cls, measured: Sequence[Measured], keys: pa.Table) -> ExactTables:
        """Return the exact tables of measured parts, with their keys in another form."""
        sums = {}
        for measurement in measured:
            if isinstance(measurement, MeasuredSums):
                table = measurement.statistics.table
                for name in sum_names(measurement.statistics.sources):
                    sums[name] = np.asarray(table.column(name).fill_null(0).to_numpy(), np.int64)
        tables = [measurement for measurement in measured if isinstance(measurement, MeasuredTable)]
        bins = tuple(measured_table.table for measured_table in tables)
        return cls(keys, sums, bins, tuple(measured_table.part.kind for measured_table in tables))

    @property
    def groups(self) -> int:
        """How many groups there are; a whole frame is one."""
        return self.keys.num_rows if self.keys.num_columns else 1

    def read_measurements(self, parts: Sequence[Part]) -> list[Measured]:
        """Return the measurements of the parts of a release, from these tables."""
        measured: list[Measured] = []
        bins = iter(self.bins)
        parts_of_kinds: list[Any] = with_kinds(parts, self.kinds)
        for part in parts_of_kinds:
            if isinstance(part, LinearPart):
                keys = zip(self.keys.column_names, self.keys.columns, strict=True)
                table = pa.table({**dict(keys), **self.sums})
                sums = Statistics(table, self.keys.num_columns, list_sources(parts))
                measured.append(MeasuredSums(part, sums.check_rows()))
            else:  # all other parts have tables
                measured.append(part.read_measurement(next(bins)))
        return measured


def add_tables(tables: Sequence[ExactTables], *, public: bool) -> ExactTables:
    """Add up tables of disjoint data, group by group: bit for bit those of one pass over all.

    Numbers that are whole in some tables alone are numbers in all.

    Groups of `public` keys, the same in all tables, stay in the order of the first one.

    Rows of one group are below 2**33 in each table, so that their sum can't wrap; sums of grid
    integers can't either unless that of the rows reaches the limit: see `read_measurements`.
    """
    first, sizes = tables[0], [exact.groups for exact in tables]
    keys = pa.concat_tables([exact.keys for exact in tables])
    keys, groups, group = order_groups(keys, first.keys if public else None)
    if not keys.column_names:
        group = np.zeros(sum(sizes), dtype=np.int64)
    places = np.split(group, np.cumsum(sizes)[:-1])
    sums = {name: np.zeros(groups, dtype=np.int64) for name in first.sums}
    for exact, groups_of_table in zip(tables, places, strict=True):
        for name, values in exact.sums.items():
            np.add.at(sums[name], groups_of_table, values)

    def renumber_groups(table: BinTable, groups_of_table: Integers) -> BinTable:
        return replace(table, keys=keys, groups=groups, group=groups_of_table[table.group])

    bins = zip(*(exact.bins for exact in tables), strict=True)
    kinds = tuple(
        kinds_of_part[0] if kinds_of_part.count(kinds_of_part[0]) == len(kinds_of_part) else None
        for kinds_of_part in zip(*(exact.kinds for exact in tables), strict=True)
    )
    merged = (
        merge_tables(list(map(renumber_groups, tables_of_part, places))) for tables_of_part in bins
    )
    return ExactTables(keys, sums, tuple(merged), kinds)


def keepable(frame: object, labels: Sequence[Hashable]) -> object:
    """Return a frame whose group keys a file can keep; text without a UTF-8 form becomes NULL."""
    if not isinstance(frame, pd.DataFrame):
        return frame
    labels_of_frame: list[Hashable] = list(frame.columns)
    columns = [label for label in labels if labels_of_frame.count(label) == 1]
    for label in columns:
        if not _declares_a_type(frame[label].dtype):
            raise UnsupportedDtypeError(
                f"group column {label!r} holds Python objects, whose type is not declared",
                hint=f'convert it first, e.g. frame.astype({{{label!r}: "string"}})',
            )
    copy = frame.copy(deep=False)
    for label in columns:
        keys = copy[label]
        if isinstance(keys.dtype, pd.CategoricalDtype):
            words = keys.dtype.categories
            is_kept = [not isinstance(word, str) or has_utf8(word) for word in words]
            if not all(is_kept):
                copy[label] = keys.where(np.array([*is_kept, True])[keys.cat.codes.to_numpy()])
        elif isinstance(keys.dtype, pd.StringDtype) and keys.dtype.storage == "python":
            copy[label] = keys.where(np.array([has_utf8(key) for key in keys.fillna("")], bool))
    return copy


def _declares_a_type(dtype: Any) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        words = pd.api.types.infer_dtype(dtype.categories, skipna=False) == "string"
        return words or _declares_a_type(dtype.categories.dtype)
    return not pd.api.types.is_object_dtype(dtype)


_Rule = tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], pa.DataType]]
_RULES: tuple[_Rule, ...] = (
    (types.is_boolean, lambda _: pa.bool_()),
    (types.is_uint64, lambda _: pa.uint64()),
    (types.is_integer, lambda _: pa.int64()),
    (types.is_floating, lambda _: pa.float64()),
    (types.is_string, lambda _: pa.large_string()),
    (types.is_large_string, lambda _: pa.large_string()),
    (types.is_binary, lambda _: pa.large_binary()),
    (types.is_large_binary, lambda _: pa.large_binary()),
    (types.is_fixed_size_binary, lambda _: pa.large_binary()),
    (types.is_date32, lambda _: pa.date32()),
    (types.is_time, lambda kind: pa.time64("ns" if kind.unit == "ns" else "us")),
    (
        lambda kind: types.is_timestamp(kind) and kind.unit != "s",  # Parquet has no seconds
        lambda kind: pa.timestamp(kind.unit, None if kind.tz is None else "UTC"),
    ),
    (types.is_duration, lambda kind: kind),
    (types.is_decimal128, lambda kind: pa.decimal128(38, kind.scale)),
)
_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def common_form(kind: pa.DataType) -> pa.DataType | None:
    """Return the type in which keys of a declared type meet others; None where they can't be kept.

    >>> common_form(pa.uint8()), common_form(pa.timestamp("ms", "Europe/Rome"))
    (DataType(int64), TimestampType(timestamp[ms, tz=UTC]))
    """
    return next((form(kind) for rule, form in _RULES if rule(kind)), None)


def declare_keys(keys: pa.Table, labels: Sequence[Hashable]) -> pa.Table:
    """Return group keys in types that a file keeps: those declared, text for categories."""
    plain = [kind.value_type if types.is_dictionary(kind) else kind for kind in keys.schema.types]
    kinds = [_kind_of_key(kind, label) for kind, label in zip(plain, labels, strict=True)]
    return in_types(in_types(keys, plain), kinds)


def _kind_of_key(kind: pa.DataType, label: Hashable) -> pa.DataType:
    if kind in _VIEWS:
        return _VIEWS[kind]
    form = common_form(kind)
    if form is None:
        hint = "group by text, whole numbers, booleans, dates or times"
        if types.is_timestamp(kind):
            hint = f'convert it first, e.g. frame[{label!r}] = frame[{label!r}].dt.as_unit("us")'
        raise UnsupportedDtypeError(
            f"group column {label!r} is declared {kind}, which a file of statistics can't keep",
            hint=hint,
        )
    return form if kind == pa.time32("s") else kind  # Parquet has no seconds


def meet(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of keys of several files: that of all, else their common form, else None."""
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    forms = {common_form(kind) for kind in kinds}
    return forms.pop() if len(forms) == 1 else None


def in_types(keys: pa.Table, kinds: Sequence[pa.DataType]) -> pa.Table:
    """Return keys in other types; no key stands in the way of that."""
    schema = pa.schema(list(zip(keys.column_names, kinds, strict=True)))
    return run_guarded(lambda: keys.cast(schema))


@dataclass(frozen=True)
class Header:
    """Public facts of a file, and the number of rows of each of its tables.

    `ids` are random numbers, one for each pass over rows that it holds; `keys` is "none" without
    groups, "public" or "secret"; `bins` says how each part counts by bin, and `kinds` what its
    column is declared to hold where that matters.
    """

    ids: tuple[str, ...]
    questions: Mapping[str, Statistic]
    by: tuple[Hashable, ...]
    keys: str
    unit: Unit | None
    key_types: tuple[pa.DataType, ...] = ()
    bins: tuple[Bins, ...] = ()
    kinds: tuple[Kind | None, ...] = ()
    rows: tuple[int, ...] = field(default=(), repr=False)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the release."""
        return split(self.questions, grouped=bool(self.by), unit=self.unit)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sums of the queries."""
        return list_sources(self.parts)

    @property
    def moments(self) -> tuple[Kind | None, ...]:
        """The ranked type of each part, whether numbers are integers or not."""
        return tuple(None if kind == WHOLE else kind for kind in self.kinds)

    def json(self) -> JSON:
        """Return the header as it is written; labels must be text or whole numbers."""
        unit = None
        if self.unit is not None:
            unit = {**asdict(self.unit), "column": _label(self.unit.column)}
        return {
            "ids": list(self.ids),
            "questions": [_question(name, question) for name, question in self.questions.items()],
            "by": list(map(_label, self.by)),
            "keys": self.keys,
            "unit": unit,
            "key_types": list(map(str, self.key_types)),
            "sums": list(map(repr, self.sources)),
            "bins": list(map(repr, self.bins)),
            "kinds": [None if kind is None else list(kind) for kind in self.kinds],
            "rows": list(self.rows),
        }

    def tables(self) -> list[pa.Schema]:
        """Return the columns of each table."""
        keys = zip(key_names(len(self.key_types)), self.key_types, strict=True)
        sums = [(name, pa.int64()) for name in sum_names(self.sources)]
        bins = [(name, pa.int64()) for name in ("group", "bin", "rows")]
        moments = ([(f"moment_{k + 1}", pa.float64()) for k in range(n)] for _, n in self.bins)
        groups = pa.schema([("group", pa.int64()), *keys, *sums])
        return [groups, *(pa.schema([*bins, *names]) for names in moments)]

    def schema(self) -> pa.Schema:
        """Return the columns of the file."""
        return pa.unify_schemas(self.tables())


def _label(label: Hashable) -> str | int:
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise StatisticsFileError(
            f"a column that is called by {describe(label)} can't be named in a file of statistics",
            hint="rename it to text first",
        )
    return label


def _question(name: str, question: Statistic) -> JSON:
    if not question.adds_up:
        raise InvalidQuestionError(
            f"{question.title} does not follow from that of each file: a value may be in many "
            "files, and a file holds counts, not values",
            hint=f"ask it of all rows at once: dfp.frame(path).{question.kind}(...)",
        )
    if question.finds_bounds and len(question.columns) > 1:  # in a second pass over the rows
        question.require_bounds()
    arguments = {
        argument.name: getattr(question, argument.name) for argument in question.arguments()
    }
    if any(
        argument.form == "value" and not isinstance(arguments[argument.name], str | int | float)
        for argument in question.arguments()
    ):
        raise StatisticsFileError(
            "a constant that is no text, number or boolean can't be named in a file of statistics",
            hint="compare with text: a column of it, made beforehand",
        )
    for column_argument in question.places():
        arguments[column_argument] = (
            None if arguments[column_argument] is None else _label(arguments[column_argument])
        )
    json_arguments = {argument: _plain(value) for argument, value in arguments.items()}
    return {"name": name, "ask": question.kind, **json_arguments}


def _plain(value: Any) -> Any:
    """Return an argument as JSON; dates, times and durations are marked as `moments`."""
    values = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(entry, Moment) for entry in values):
        return plain(value)
    texts = [
        entry // _TICK if isinstance(entry, timedelta) else entry.isoformat() for entry in values
    ]
    return {"moments": texts if isinstance(value, tuple) else texts[0]}


def _read_question(written: JSON) -> tuple[str, Statistic]:
    """Return a question and its name, from what `_question` has written."""
    arguments = {name: item for name, item in written.items() if name not in {"name", "ask"}}
    for name, item in arguments.items():
        if isinstance(item, dict):  # dates, times or durations, as `_plain` has written them
            texts = item["moments"]
            entries = texts if isinstance(texts, list) else [texts]
            moments = tuple(e * _TICK if isinstance(e, int) else read_end(e) for e in entries)
            arguments[name] = moments if isinstance(texts, list) else moments[0]
    return written["name"], STATISTICS[written["ask"]](**arguments)


def check_target(path: Path) -> None:
    """Refuse a path that can't become a file, before anything is read."""
    if os.path.lexists(path):
        raise _name_taken_error(path)
    if not path.absolute().parent.is_dir():
        raise StatisticsFileError(
            f"there is no directory {str(path.parent)!r} to write to", hint="create it first"
        )


def _name_taken_error(path: Path) -> StatisticsFileError:
    return StatisticsFileError(
        f"there is a file {str(path)!r} already", hint="name a new file, e.g. with the date"
    )


def write_file(path: Path, header: Header, tables: ExactTables) -> None:
    """Write a file that only its owner can read, wholly or not at all, and never over another."""
    complete_header = replace(
        header,
        questions=dict(map(_read_question, header.json()["questions"])),
        key_types=tuple(tables.keys.schema.types),
        bins=tuple((table.binning, len(table.moments)) for table in tables.bins),  # type: ignore[misc]
        kinds=tables.kinds,
        rows=(tables.groups, *(len(table.rows) for table in tables.bins)),
    )
    try:
        put_whole(path, lambda file: _fill(file, complete_header, tables), is_new=True)
    except FileExistsError:
        raise _name_taken_error(path) from None
    except OSError as error:
        raise StatisticsFileError(
            f"{str(path)!r} could not be written: {error.strerror}",
            hint="choose a directory on a local disk in which you may write",
        ) from None


def _fill(file: Path, header: Header, tables: ExactTables) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    groups = [np.arange(tables.groups), *tables.keys.columns, *tables.sums.values()]
    bins = ([table.group, table.bins, table.rows, *table.moments] for table in tables.bins)
    written = [
        pa.table(columns, schema=names)
        for names, columns in zip(header.tables(), [groups, *bins], strict=True)
    ]
    text = json.dumps(header.json(), sort_keys=True, separators=(",", ":")).encode()
    metadata = {
        _FORMAT: FORMAT.encode(),
        _VERSION: str(VERSION).encode(),
        _SECRET: _WARNING.encode(),
        _HEADER: text,
        _DIGEST: hashlib.sha256(text).hexdigest().encode(),
        _TABLES: digest_tables(written),
    }
    schema = header.schema().with_metadata(metadata)
    with pq.ParquetWriter(
        file, schema, compression="zstd", write_statistics=False, write_page_checksum=True
    ) as writer:
        for table in written:
            rows = table.num_rows
            columns = [
                table[field.name]
                if field.name in table.schema.names
                else pa.nulls(rows, field.type)
                for field in schema
            ]
            if rows:
                writer.write_table(pa.table(columns, schema=schema), row_group_size=ROWS)


def digest_tables(tables: Iterable[pa.Table]) -> bytes:
    """Return the SHA-256 of tables, each as an Arrow stream of its names, types and values."""
    digest = hashlib.sha256()
    for table in tables:
        content = release_bytes(table)
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest().encode()


@dataclass(frozen=True)
class StatisticsFile:
    """A file of statistics whose header has been read. Its tables are secret."""

    path: Path
    header: Header = field(repr=False)

    def tables(self) -> ExactTables:
        """Return the exact tables as they were written."""
        tables = None
        digest, read_tables = self._read(self.header.tables())
        with suppress(*_UNREADABLE):
            if digest_tables(read_tables) == digest:
                tables = _exact(self.header, *read_tables)
        if tables is None:
            raise _unusable(self.path, _damage_error())
        return tables

    def keys(self) -> pa.Table:
        """Return the keys of the groups alone."""
        names = key_names(len(self.header.by))
        _, (table,) = self._read([pa.schema([(name, pa.null()) for name in names])])
        return table

    def _read(self, tables: Sequence[pa.Schema]) -> tuple[bytes, list[pa.Table]]:
        """Return the digest of all tables as it was written, and columns of the first tables.

        A file is refused whose header has changed since it was opened.
        """
        digest = b""
        read_tables: list[pa.Table] = []
        first = 0
        with _open_once(self.path) as (file, header):
            if header != self.header:
                raise _unusable(self.path, _damage_error("it was replaced while it was read"))
            with suppress(*_UNREADABLE):
                digest = file.schema_arrow.metadata[_TABLES]
                for table_schema, rows in zip(tables, header.rows, strict=False):
                    groups = list(range(first, first + _row_groups(rows)))
                    table = file.read_row_groups(groups, columns=table_schema.names)
                    read_tables.append(table.select(table_schema.names).replace_schema_metadata())
                    first += len(groups)
        if len(read_tables) < len(tables):
            raise _unusable(self.path, _damage_error())
        return digest, read_tables


def open_file(path: Path) -> StatisticsFile:
    """Return a file of statistics, if its header is what this version would have written."""
    with _open_once(path) as (_, header):
        return StatisticsFile(path, header)


@contextmanager
def _open_once(path: Path) -> Iterator[tuple[Any, Header]]:
    """Open a file and read its header, so that what is read next is from the same file."""
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    if not path.is_file():
        raise StatisticsFileError(f"there is no file {str(path)!r}", hint="check the path")
    file = None
    with suppress(*_UNREADABLE):
        file = pq.ParquetFile(path, page_checksum_verification=True)
    try:
        try:
            header = _header(file)
        except DPError as error:
            raise _unusable(path, error) from None
        yield file, header
    finally:
        if file is not None:
            file.close()


def _header(file: Any) -> Header:
    """Return the header of a Parquet file, if it is of this version and goes with its tables."""
    schema, size = pa.schema([]), (0, 0)
    if file is not None:
        with suppress(*_UNREADABLE):
            schema, size = file.schema_arrow, (file.metadata.num_rows, file.num_row_groups)
    metadata = schema.metadata or {}
    if metadata.get(_FORMAT) != FORMAT.encode():
        raise StatisticsFileError(
            "it holds no statistics of ours", hint="make it with dfp.statistics(frame, path, ...)"
        )
    if metadata.get(_VERSION) != str(VERSION).encode():
        raise StatisticsFileError(
            f"its version of the format is not {VERSION}, which this version of dfprivacy reads",
            hint="update dfprivacy, here if the file is newer: pip install -U dfprivacy",
        )
    text = metadata.get(_HEADER, b"")
    if hashlib.sha256(text).hexdigest().encode() != metadata.get(_DIGEST):
        raise _damage_error("its metadata was changed")
    header = None
    with suppress(DPError, AttributeError, RecursionError, *_UNREADABLE):
        header = _parse_header(json.loads(text), {field_.name: field_.type for field_ in schema})
    if header is None:
        raise _damage_error("its metadata does not fit together")
    expected = sum(header.rows), sum(map(_row_groups, header.rows))
    if not schema.equals(header.schema()) or size != expected:
        raise _damage_error("its tables are not those that its metadata names")
    return header


def _row_groups(rows: int) -> int:
    return -(-rows // ROWS)


def _parse_header(written: JSON, kinds: Mapping[str, pa.DataType]) -> Header | None:
    """Return a header; None where this version would not have written it so."""
    unit, by, rows = written["unit"], tuple(written["by"]), tuple(written["rows"])
    header = Header(
        tuple(written["ids"]),
        dict(map(_read_question, written["questions"])),
        by,
        written["keys"],
        None if unit is None else Unit(**unit),
        tuple(kinds[name] for name in key_names(len(by))),
        rows=rows,
    )
    known_parts = with_kinds(header.parts, [kind and tuple(kind) for kind in written["kinds"]])
    table_parts: list[Any] = [part for part in known_parts if not isinstance(part, LinearPart)]
    ways = [{repr(way): way for way in part.tables} for part in table_parts]
    bins = tuple(
        ways_of_part[way_written]
        for ways_of_part, way_written in zip(ways, written["bins"], strict=True)
    )
    header = replace(header, bins=bins, kinds=tuple(part.kind for part in table_parts))
    same = [
        header.json() == written,
        len(rows) == 1 + len(bins) and all(type(count) is int and count >= 0 for count in rows),
        header.keys in (("public", "secret") if by else ("none",)),
        len(set(by)) == len(by) and (by != () or rows[0] == 1),
        0 < len(header.ids) == len(set(header.ids)) and set(map(len, header.ids)) == {32},
    ]
    return header if all(same) else None


def _exact(header: Header, groups: pa.Table, *bins: pa.Table) -> ExactTables:
    """Return tables as they were read; a ValueError where one is not as it was written."""
    if not np.array_equal(_numbers(groups, "group"), np.arange(groups.num_rows)):
        raise ValueError("groups are numbered as they stand")
    keys = groups.select(key_names(len(header.by)))
    keys = keys if header.by else pa.table({})
    sums = {name: _numbers(groups, name) for name in sum_names(header.sources)}
    bin_tables = []
    for (binning, _), bin_columns in zip(header.bins, bins, strict=True):
        group, number, rows = (_numbers(bin_columns, name) for name in ("group", "bin", "rows"))
        moments = tuple(column.to_numpy() for column in bin_columns.columns[3:])
        bin_tables.append(BinTable(keys, groups.num_rows, binning, group, number, rows, moments))
    return ExactTables(keys, sums, tuple(bin_tables), header.kinds)


def _numbers(table: pa.Table, name: str) -> Integers:
    """Return a column of whole numbers; a ValueError where one is missing."""
    column = table.column(name)
    if column.null_count:
        raise ValueError("a number is missing")
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _damage_error(what: str = "it is damaged, or was changed") -> StatisticsFileError:
    return StatisticsFileError(what, hint="make it anew: dfp.statistics(frame, path, ...)")


def _unusable(path: Path, error: DPError) -> StatisticsFileError:
    return StatisticsFileError(
        f"{str(path)!r} can't be used as a file of statistics: {error.message}", hint=error.hint
    )
