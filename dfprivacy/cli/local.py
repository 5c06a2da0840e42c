"""Run surveys in the local model: `dfprivacy local plan|report|aggregate|estimate`.

Reports are files of JSON lines or Parquet, aggregates are Parquet, values may also be CSV.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from glob import escape
from operator import add
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet
import typer
from rich.console import Console

from dfprivacy.cli.asking import rows_of
from dfprivacy.cli.options import options, with_options
from dfprivacy.cli.output import check_place, readable_errors, show_line, write_output
from dfprivacy.engine.adopt import Columns, adopt
from dfprivacy.engine.embedded import embedded
from dfprivacy.engine.files import quoted
from dfprivacy.engine.run import collect, guarded
from dfprivacy.errors import (
    InvalidProtocolError,
    InvalidQuestionError,
    UnsupportedFrameError,
)
from dfprivacy.local.gaussian import gaussian_mean
from dfprivacy.local.protocol import Aggregate, Journal, Protocol
from dfprivacy.local.reports import COLUMNS

_PROTOCOL = options("PROTOCOL (path): What the analyst published, a .json file.")
_OUTPUT = options("--output -o FILE (path, required): Where it goes.")

_JSON_LINES = {".jsonl", ".ndjson"}

local_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Collect reports that are private before they leave their owner.",
)


@local_app.command()
@with_options(
    own=options("--users (whole, required): How many users there are.")
    + _OUTPUT
    + options("""
        --epsilon (number, 1.0): What a report costs its owner.
        --sigma (number): The standard deviation, where it is known.
        --sigma-bounds LOW HIGH (pair): Between which it lies, where it is not.
        --limit (number): The mean lies between -limit and limit.
        --rounds (whole, 2): 2, or 1 at a larger error.
        --campaign (text): The survey's public name.
        --named (flag): Users go by name, not by an index from 0.
        """)
)
def plan(output: Path, **given: Any) -> None:
    """Plan the mean of a Gaussian, and write round 1 for everybody to read.

    [bold]Example[/bold]

    dfprivacy local plan --users 300000 --sigma-bounds 10 200 --limit 1000 -o round1.json
    """
    with readable_errors():
        _publish(gaussian_mean(**given), output)


@local_app.command()
@with_options(
    own=_PROTOCOL
    + options("""
        FILE (path): Values: .jsonl, .parquet, .csv or .tsv.
        COLUMN (text): The column of values.
        """)
    + _OUTPUT
    + options("""
        --user COLUMN (text): Who they are; rows are numbered from 0 without.
        --where CONDITION (text): Ask about the owners for whom this holds, as behind WHERE in SQL;
            the others report a missing value, so that nobody sees who they are.
        --journal FOLDER (path): Remember campaigns there, and answer each once.
        """)
)
def report(
    protocol: Path,
    file: Path,
    column: str,
    *,
    output: Path,
    user: str | None,
    where: str | None,
    journal: Path | None,
) -> None:
    """Make private reports of values, at their owner.

    [bold]Example[/bold]

    dfprivacy local report round1.json flights.parquet air_time -o reports1.jsonl --journal ours
    """
    with readable_errors():
        write = _report_writer(output)
        check_place(output, protocol, file)
        own = _protocol(protocol)
        values = _column(file, column, where, numbers=True)
        users = _users(file, user, own)
        if journal is None:
            reports = own.reports(values, users)
        else:
            reports = Journal(journal).reports(own, values, users)
        write_output(output, partial(write, reports))
        show_line(Console(), f"{reports.num_rows} reports of round {own.round} in {output}")


@local_app.command()
@with_options(own=_PROTOCOL + options("REPORTS... (paths): .jsonl or .parquet files.") + _OUTPUT)
def aggregate(protocol: Path, reports: list[Path], *, output: Path) -> None:
    """Check reports, count each user once and add them up.

    [bold]Example[/bold]

    dfprivacy local aggregate round1.json reports1.jsonl more.parquet -o sums1.parquet
    """
    with readable_errors():
        check_place(output, protocol, *reports)
        own = _protocol(protocol)
        found = own.aggregate(*(_reports(path, own) for path in reports))
        write_output(output, partial(pa.parquet.write_table, found.to_arrow()))
        show_line(Console(), f"{found.reports} reports of round {own.round} in {output}")
        for reason, count in found.rejected.items():
            if count:
                show_line(Console(), f"{count} rejected: {reason}")


@local_app.command()
@with_options(
    own=options("""
        SUMS... (paths): What aggregate has written.
        --next FILE (path): Where the next round's protocol goes.
        --interval (number, 0.95): How surely low and high enclose the mean.
        """)
)
def estimate(sums: list[Path], *, interval: float, **given: Path | None) -> None:
    """Show the answer of the last round, or write the protocol of the next one.

    [bold]Example[/bold]

    dfprivacy local estimate sums1.parquet --next round2.json
    """
    with readable_errors():
        found = reduce(add, map(_aggregate, sums))
        if given["next"] is not None:
            _publish(found.next_round(), given["next"], *sums)
            return
        own = found.protocol
        if own.round < own.rounds:
            raise InvalidProtocolError(
                f"this is round {own.round} of {own.rounds}; the last one has the answer",
                hint="publish the next round: add --next round2.json",
            )
        show_line(Console(), repr(found.estimate(interval=interval)))


def _publish(protocol: Protocol, output: Path, *sources: Path) -> None:
    check_place(output, *sources)
    write_output(output, partial(Path.write_text, data=protocol.to_json(), encoding="utf-8"))
    show_line(Console(), f"Round {protocol.round} of {protocol.rounds} in {output}")


def _protocol(path: Path) -> Protocol:
    if not path.is_file():
        raise InvalidProtocolError(
            f"there is no file {str(path)!r}", hint="write protocol.to_json() to a file"
        )
    return Protocol.from_json(path.read_text(encoding="utf-8", errors="replace"))


def _column(path: Path, column: str, where: str | None = None, *, numbers: bool) -> Any:
    """Return a column of a file as Arrow, as numbers or as it is; NULL where `where` fails."""
    if path.suffix.lower() in _JSON_LINES:
        if where is not None:
            raise InvalidQuestionError(
                "a condition needs declared columns, and lines of JSON declare none",
                hint="write the values as a .parquet or .csv file, or leave --where out",
            )
        kind = "DOUBLE" if numbers else "VARCHAR"
        return _json_lines(path, {column: kind}).column(0)
    rows = rows_of(path, where, lacking=column)
    adopted = guarded(lambda: adopt(rows, Columns((), {column: numbers}, ())))
    try:
        name = adopted.values[column]
        return guarded(lambda: collect(adopted.lazy.select(name), adopted.connection)).column(0)
    finally:
        adopted.close()


def _users(path: Path, column: str | None, protocol: Protocol) -> Any:
    """Return who the owners in a file are; None where they are numbered as they stand there."""
    if column is None:
        return None
    users, kind = _column(path, column, numbers=False), pa.int64()
    return users.cast(pa.string()) if protocol.named else guarded(lambda: users.cast(kind))


def _reports(path: Path, protocol: Protocol) -> Any:
    """Return what holds the reports in a file: its path, or a table for JSON lines."""
    if path.suffix.lower() not in _JSON_LINES:
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


def _report_writer(path: Path) -> Callable[[pa.Table, Path], object]:
    """Return what writes reports as JSON lines or Parquet, by the ending of the file's name."""
    if path.suffix.lower() in _JSON_LINES:
        return _write_lines
    if path.suffix.lower() in {".parquet", ".pq"}:
        return pa.parquet.write_table  # type: ignore[no-any-return]
    raise UnsupportedFrameError(
        f"the file name ends in {path.suffix!r}", hint="name a .jsonl or .parquet file"
    )


def _write_lines(reports: pa.Table, path: Path) -> None:
    pl.DataFrame(reports).write_ndjson(path)


def _aggregate(path: Path) -> Aggregate:
    _require(path)
    return Aggregate.from_arrow(guarded(lambda: pa.parquet.read_table(path)))
