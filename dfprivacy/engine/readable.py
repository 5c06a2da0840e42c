"""What is not there, or an engine would take for something else: refused by names and types."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from pathlib import Path

import pyarrow as pa

from dfprivacy.errors import MissingColumnError, UnsupportedDtypeError, UnsupportedFrameError

_RENAMED = re.compile(r"(.+)_[0-9]+\Z", re.DOTALL)


def require_columns(named: Sequence[Hashable], present: Sequence[Hashable]) -> None:
    """Refuse a column that is not there, or that is there twice.

    Raises
    ------
    MissingColumnError
        By the names alone.
    """
    for name in named:
        if present.count(name) == 0:
            raise MissingColumnError(
                f"the frame has no column {name!r}",
                hint=f"its columns are {', '.join(map(repr, present[:20]))}",
            )
        if present.count(name) > 1:
            raise MissingColumnError(
                f"the frame has several columns {name!r}", hint="rename them so that one is meant"
            )


def require_plain_names(named: Sequence[Hashable]) -> None:
    """Refuse names that polars takes for a pattern: ^...$ for all columns that match, * for all.

    Raises
    ------
    UnsupportedFrameError
        By the name alone.
    """
    for name in map(str, named):
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise UnsupportedFrameError(
                f"polars takes the column name {name!r} for a pattern",
                hint=f"frame.rename({{{name!r}: 'plain'}})",
            )


def require_held_times(schema: pa.Schema, named: Sequence[Hashable]) -> None:
    """Refuse times that DuckDB turns into microseconds, in which the farthest have no place.

    Raises
    ------
    UnsupportedDtypeError
        By the declared type alone.
    """
    for field in schema:
        kind = field.type
        scaled = pa.types.is_duration(kind) or (pa.types.is_timestamp(kind) and kind.tz)
        if field.name in named and scaled and kind.unit in {"s", "ms"}:
            raise UnsupportedDtypeError(
                f"column {field.name!r} is declared {kind}, and the engine counts microseconds, of "
                "which a far time has too many",
                hint="cast it to microseconds first, e.g. pyarrow.timestamp('us', 'UTC')",
            )


def require_names_apart(columns: Sequence[str], file: Path) -> None:
    """Refuse a Parquet file with names that differ in case alone: DuckDB gives them others.

    Raises
    ------
    UnsupportedFrameError
        By the names alone.
    """
    lower = {name.lower() for name in columns}
    if not any(found[1].lower() in lower for found in map(_RENAMED.match, columns) if found):
        return
    import pyarrow.parquet as pq  # noqa: PLC0415 it loads network code: on first use

    names = [name.lower() for name in pq.read_schema(file).names]
    if len(set(names)) < len(names):
        raise UnsupportedFrameError(
            f"columns of {file.name!r} have names that differ in nothing but case",
            hint="rename them: pyarrow.parquet.read_table(path).rename_columns([...])",
        )
