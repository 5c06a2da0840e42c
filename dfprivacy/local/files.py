"""Read and write values, reports and aggregates: JSON lines and Parquet (values also CSV)."""

from __future__ import annotations

from glob import escape
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet

from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.quoting import quoted
from dfprivacy.engine.run import collect, guarded
from dfprivacy.errors import InvalidProtocolError, UnsupportedFrameError
from dfprivacy.local.protocol import Aggregate, Protocol
from dfprivacy.local.reports import COLUMNS

JSON_LINES = {".jsonl", ".ndjson"}


def read_protocol(path: Path) -> Protocol:
    """Return the protocol in a file."""
    if not path.is_file():
        raise InvalidProtocolError(
            f"there is no file {str(path)!r}", hint="write protocol.to_json() to a file"
        )
    return Protocol.from_json(path.read_text(encoding="utf-8", errors="replace"))


def read_column(path: Path, column: str, *, numbers: bool) -> Any:
    """Return a column of a file as Arrow: as numbers, or as it is."""
    if path.suffix.lower() in JSON_LINES:
        kind = "DOUBLE" if numbers else "VARCHAR"
        return _json_lines(path, {column: kind}).column(0)
    adopted = guarded(lambda: adopt(path, Columns((), {column: numbers}, ())))
    try:
        name = adopted.values[column]
        return guarded(lambda: collect(adopted.lazy.select(name), adopted.connection)).column(0)
    finally:
        adopted.close()


def read_users(path: Path, column: str | None, protocol: Protocol) -> Any:
    """Return who the owners in a file are; None where they are numbered as they stand there."""
    if column is None:
        return None
    users, kind = read_column(path, column, numbers=False), pa.int64()
    return users.cast(pa.string()) if protocol.named else guarded(lambda: users.cast(kind))


def read_reports(path: Path, protocol: Protocol) -> Any:
    """Return what holds the reports in a file: its path, or a table for JSON lines.

    Lines that are no JSON, or hold other things than reports, become malformed reports.
    """
    if path.suffix.lower() not in JSON_LINES:
        return path
    value = "BIGINT[]" if protocol.assignment.reported_width else "BIGINT"
    return _json_lines(path, {name: value if name == "value" else "BIGINT" for name in COLUMNS})


def _json_lines(path: Path, columns: dict[str, str]) -> pa.Table:
    """Read columns of declared types from JSON lines; what does not fit is NULL."""
    _require(path)
    typed = ", ".join(f"{_field(name, kind)} AS {quoted(name)}" for name, kind in columns.items())
    query = (
        f"SELECT {typed} FROM read_csv($1, columns={{'line': 'VARCHAR'}}, auto_detect=false, "  # noqa: S608 column names of the caller, quoted
        "header=false, quote='', escape='', delim='\x01', max_line_size=67108864) "
        "WHERE line IS NOT NULL"
    )
    with embedded() as connection:
        return guarded(lambda: connection.sql(query, params=[escape(str(path))]).to_arrow_table())


def _require(path: Path) -> None:
    if not path.is_file():
        raise UnsupportedFrameError(f"there is no file {str(path)!r}", hint="check the path")


def _field(name: str, kind: str) -> str:
    """Return a field of a line in SQL, NULL where a line is no JSON object that has it."""
    path = ('$."' + name.replace('"', '\\"') + '"').replace("'", "''")
    text = f"CASE WHEN json_valid(line) THEN line ->> '{path}' END"
    if kind == "VARCHAR":
        return text
    whole = f"regexp_extract({text}, '^-?[0-9]+$')" if kind == "BIGINT" else text
    return f"TRY_CAST({whole} AS {kind})"


def write_reports(reports: pa.Table, path: Path) -> None:
    """Write reports as JSON lines or Parquet, by the ending of the file's name."""
    if path.suffix.lower() in JSON_LINES:
        pl.DataFrame(reports).write_ndjson(path)
    elif path.suffix.lower() in {".parquet", ".pq"}:
        pa.parquet.write_table(reports, path)
    else:
        raise UnsupportedFrameError(
            f"the file name ends in {path.suffix!r}", hint="name a .jsonl or .parquet file"
        )


def write_aggregate(aggregate: Aggregate, path: Path) -> None:
    """Write an aggregate as Parquet."""
    pa.parquet.write_table(aggregate.to_arrow(), path)


def read_aggregate_file(path: Path) -> Aggregate:
    """Return the aggregate in a Parquet file."""
    _require(path)
    return Aggregate.from_arrow(guarded(lambda: pa.parquet.read_table(path)))
