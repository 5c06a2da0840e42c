"""One file of exact tables as it is read: its header first, its tables when they are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from dfprivacy.errors import DPError, StatisticsFileError
from dfprivacy.measurement.bin_table import BinTable
from dfprivacy.measurement.binning import Integers
from dfprivacy.measurement.sums import key_name, sum_names
from dfprivacy.partial.exact_tables import ExactTables
from dfprivacy.partial.header import Header, damaged, header_of
from dfprivacy.partial.layout import binning_of, moment_names, schema_of, sources_of
from dfprivacy.partial.ranges import is_possible
from dfprivacy.partial.written import ROWS


@dataclass(frozen=True)
class StatisticsFile:
    """A file of statistics whose header has been read. Its tables are secret."""

    path: Path
    header: Header = field(repr=False)
    key_types: tuple[pa.DataType, ...]

    def tables(self) -> ExactTables:
        """Return the exact tables.

        Raises
        ------
        StatisticsFileError
            When the file is damaged, was changed, or holds what no rows can have given.
        """
        tables = None
        with suppress(pa.ArrowException, OSError, ValueError, LookupError, TypeError):
            tables = _tables(self.header, self._read())
        if tables is None or not is_possible(tables, sources_of(self.header.parts())):
            raise _named(self.path, damaged("it is damaged, or was changed"))
        return tables

    def keys(self) -> pa.Table:
        """Return the keys of the groups alone.

        Raises
        ------
        StatisticsFileError
            When the file is damaged.
        """
        keys = None
        with suppress(pa.ArrowException, OSError, ValueError):
            keys = self._read(tables=1)[0].select(_key_names(self.header))
        if keys is None:
            raise _named(self.path, damaged("it is damaged, or was changed"))
        return keys

    def _read(self, tables: int | None = None) -> list[pa.Table]:
        """Read the first tables, or all of them, each with its own columns."""
        import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

        first, held = 0, []
        with pq.ParquetFile(self.path, page_checksum_verification=True) as file:
            columns = _columns(self.header)[:tables]
            for own, rows in zip(columns, self.header.rows, strict=False):
                after = first + _row_groups(rows)
                held.append(file.read_row_groups(list(range(first, after)), columns=own))
                first = after
        return held


def open_file(path: Path) -> StatisticsFile:
    """Return a file of statistics, its header checked.

    Raises
    ------
    StatisticsFileError
        When it can't be read, or is not what this version would have written.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    if not path.is_file():
        raise StatisticsFileError(f"there is no file {str(path)!r}", hint="check the path")
    schema, size = pa.schema([]), (0, 0)
    with suppress(pa.ArrowException, OSError, ValueError), pq.ParquetFile(path) as file:
        size = file.metadata.num_rows, file.num_row_groups
        schema = file.schema_arrow
    try:
        header = header_of(schema.metadata)
        return StatisticsFile(path, header, _key_types(header, schema, size))
    except DPError as error:
        raise _named(path, error) from None


def _key_types(header: Header, schema: pa.Schema, size: tuple[int, int]) -> tuple[pa.DataType, ...]:
    """Return the types of the keys, once the columns and tables are those of the header."""
    keys = [own for own in schema if own.name.startswith("key_")]
    names = [own.name for own in keys]
    same = [
        names == _key_names(header),
        [str(own.type) for own in keys] == header.key_types,
        schema.equals(schema_of(header.parts(), keys)),
        size == (sum(header.rows), sum(map(_row_groups, header.rows))),
    ]
    if not all(same):
        raise damaged("its tables are not those that its metadata names")
    return tuple(own.type for own in keys)


def _key_names(header: Header) -> list[str]:
    return [key_name(index) for index in range(len(header.by))]


def _row_groups(rows: int) -> int:
    return -(-rows // ROWS)


def _named(path: Path, error: DPError) -> StatisticsFileError:
    return StatisticsFileError(
        f"{str(path)!r} can't be used as a file of statistics: {error.message}", hint=error.hint
    )


def _columns(header: Header) -> list[list[str]]:
    """Return the columns of each table."""
    sums = sum_names(sources_of(header.parts()))
    bins = [moment_names(binning_of(own)[1]) for own in header.bins]
    return [
        ["group", *_key_names(header), *sums],
        *(["group", "bin", "rows", *moments] for moments in bins),
    ]


def _tables(header: Header, held: Sequence[pa.Table]) -> ExactTables:
    """Return tables as they were read; a ValueError where one is not as it was written."""
    groups, *entries = held
    size = header.rows[0]
    if not np.array_equal(_numbers(groups, "group"), np.arange(size)):
        message = "groups are numbered as they stand"
        raise ValueError(message)
    keys = groups.select(_key_names(header)) if header.by else pa.table({})
    sums = {name: _numbers(groups, name) for name in sum_names(sources_of(header.parts()))}
    bins = (
        _bin_table(keys, size, own, written)
        for own, written in zip(entries, header.bins, strict=True)
    )
    return ExactTables(keys, size, sums, tuple(bins))


def _bin_table(
    keys: pa.Table, groups: int, entries: pa.Table, written: Sequence[object]
) -> BinTable:
    binning, powers = binning_of(written)
    group, bins, rows = (_numbers(entries, name) for name in ("group", "bin", "rows"))
    moments = tuple(entries.column(name).to_numpy() for name in moment_names(powers))
    return BinTable(keys, groups, binning, group, bins, rows, moments)


def _numbers(table: pa.Table, name: str) -> Integers:
    """Return a column of whole numbers; a ValueError where one is missing."""
    column = table.column(name)
    if column.null_count:
        message = "a number is missing"
        raise ValueError(message)
    return np.asarray(column.to_numpy(), dtype=np.int64)
