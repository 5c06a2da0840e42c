"""Show and write what the command line answers: tables, files, messages, errors."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from dfprivacy.accounting.ledger_file import is_ledger
from dfprivacy.engine.files import put_whole, write_parquet
from dfprivacy.engine.returning import printable, write_csv
from dfprivacy.errors import (
    BudgetExceededError,
    DPError,
    EngineError,
    InvalidLedgerError,
    InvalidQuestionError,
    MissingBoundsError,
    MissingDeltaError,
    OutputError,
    ReleasedQueryError,
)
from dfprivacy.frames.estimates import Estimate
from dfprivacy.release.plan import NOTE

ENDS = ("low", "high")


def show_lines(console: Console, page: object) -> None:
    """Print a page of text, line by line."""
    for line in repr(page).splitlines():
        show_line(console, line)


def show_line(console: Console, text: str) -> None:
    """Print one line, as long as it is."""
    console.print(plain(text), soft_wrap=True)


def plain(text: object) -> Text:
    """Return text without markup and without control characters."""
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text)))


def write_json(table: pa.Table, path: Path) -> None:
    """Write a list of records, one a group; null for infinity and NaN."""
    records = [
        {n: None if isinstance(v, float) and not math.isfinite(v) else v for n, v in row.items()}
        for row in printable(table).to_pylist()
    ]
    text = json.dumps(records, indent=2, ensure_ascii=False, default=str)
    path.write_text(text + "\n", encoding="utf-8")


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".json": write_json,
}


def answers_table(answers: Any) -> pa.Table:
    """Return a released table, or answers by name, one row each; mixed dates are texts."""
    if isinstance(answers, pa.Table):
        return answers
    values = list(answers.values())
    columns = {"value": values} | {end: [getattr(v, end, None) for v in values] for end in ENDS}
    kind: pa.DataType = pa.float64()
    if all(isinstance(value, float) for value in values):
        for end in ENDS:
            columns[end] = [getattr(v, end) if v.has_interval else None for v in values]
    else:
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 or Estimate in kinds:
            columns = {
                name: [None if value is None else str(value) for value in column]
                for name, column in columns.items()
            }
        kind = pa.array(columns["value"]).type
    arrays = {name: pa.array(column, kind) for name, column in columns.items()}
    notes = [getattr(value, NOTE, None) for value in values]
    return pa.table({"name": list(answers), **arrays, NOTE: pa.array(notes, pa.string())})


def excel_hint(name: str) -> str:
    """Return a hint for the name of an Excel file; nothing for other names."""
    is_excel = name.lower().endswith((".xlsx", ".xls"))
    return "; spreadsheets open .csv" if is_excel else ""


def check_output(output: Path | None, source: Path) -> None:
    """Refuse an output that could not be written, or that is read or a ledger."""
    if output is None:
        return
    if output.suffix.lower() not in WRITERS:
        raise InvalidQuestionError(
            f"the output file can't end in {output.suffix!r}",
            hint=f"name a file that ends in .csv, .parquet or .json{excel_hint(str(output))}",
        )
    require_folder(output, InvalidQuestionError)
    is_read = output.exists() and source.exists() and output.samefile(source)
    if is_read or is_ledger(output):
        role = "the file that is read" if is_read else "a ledger, which nothing replaces"
        raise InvalidQuestionError(f"the output is {role}", hint="write to another file")


def require_folder(output: Path, error: type[DPError]) -> None:
    """Refuse an output whose folder is not there, by an error."""
    if not output.absolute().parent.is_dir():
        raise error(
            f"there is no directory {str(output.parent)!r} to write to", hint="create it first"
        )


def write_table(table: pa.Table, output: Path) -> None:
    """Write a released table in the format of the file's ending."""
    fill = WRITERS[output.suffix.lower()]
    put_file(output, lambda path: fill(table, path))


def put_file(output: Path, fill: Callable[[Path], object]) -> None:
    """Make a file wholly or not at all."""
    try:
        put_whole(output, fill)
    except OSError as error:
        raise OutputError(
            f"{str(output)!r} could not be written: {error.strerror or 'the system refused'}",
            hint="make room, or choose a directory in which you may write; then run again: what "
            "a job has paid for is repeated",
        ) from None


def print_answers(error: ReleasedQueryError) -> NoReturn:
    """Print the answers over which a query has failed, and raise its error without them."""
    for table in error.released:
        write_csv(table, sys.stdout)
    hint = "the answers are paid for, and printed as CSV"
    raise ReleasedQueryError(error.message, hint=hint) from None


def show_error(console: Console, message: str, hint: str | None) -> None:
    """Print what happened and what to do."""
    console.print(Text("Error: ", style="bold red") + plain(message), soft_wrap=True)
    if hint is not None:
        console.print(Text("Hint: ", style="bold") + plain(hint), soft_wrap=True)


INTERRUPTED, INTERRUPTED_CODE = "Interrupted. Charges in a ledger stay.", 130

_HINTS: dict[type[DPError], str] = {
    MissingBoundsError: "add bounds that you know without looking at the data, e.g. --bounds 0 "
    "100, of two columns --x-bounds 0 100 --y-bounds 0 100",
    BudgetExceededError: "ask for no more than what is left: dfprivacy ledger show FILE",
    MissingDeltaError: "add --delta 1e-6, or list keys that are public anyway: --keys AA --keys UA",
    InvalidLedgerError: "name the ledger and the dataset: --ledger budget.db --dataset flights",
    EngineError: "check that it is a whole CSV, TSV or Parquet file, with column names, and that "
    "--memory suffices",
}
_ARGUMENT = re.compile(
    r"\b(bounds|epsilon|rho|delta|interval|p|rank|bins|within|size|value|unit|periods?|analyst|"
    r"max_rows|max_groups)=(\([^)]*\)|\{[^}]*\}|[^\s,;)]*)"
)
_SPELLINGS = (  # the library's words, as they are spelled on the command line
    (r"schema=dfp\.Schema\(.*", "--schema FILE, a YAML file of unit, links and public tables"),
    (r"that Ledger\(path, epsilon=\.\.\.\) made", "that dfprivacy ledger create has made"),
    (r"\bLedger\(path, epsilon=10\)", "dfprivacy ledger create FILE --epsilon 10"),
    (r"ledger\.announce\('(.+?)'(, periods=\"month\")?\)", r"dfprivacy ledger announce FILE \1"),
    (r"ledger\.allow\(.*?\)", "dfprivacy ledger allow FILE DATASET ann --epsilon 1"),
    (r"dfp\.Engine\(.*?\)", "--memory 4GB --threads 2 --temporary /large/disk"),
    (r'e\.g\. agg\(dfp\.mean\("x"\), dfp\.count\(\)\)', "e.g. --count --mean delay"),
    (r"edges such as \[0, 10, 100\]", "--edge 0 --edge 10 --edge 100"),
    (r"\[0\.25, 0\.5, 0\.75\]", "--q 0.25 --q 0.5 --q 0.75"),
    (r'group_by\("(\w+)", "(\w+)"\)', r"--by \1 --by \2"),
    (r"group_by\(\.\.\., keys=\[\.\.\.\]\)", "--keys AA --keys UA"),
    (r"leave bounds out", "leave --bounds out"),
    (r"or keep a ledger in rho: .*", "or charge a ledger made with --rho"),
    (r"pass 0\.5 for the median, 0\.9 for", "pass --q 0.5 for the median, --q 0.9 for"),
    (r"list keys that can be read", "give --keys that can be read"),
    (
        r"name the answers that matter: within=\{.*\}",
        "name one that matters, --within NAME=2%, or --epsilon",
    ),
    (r", or (pay for limits|find max_rows first): .*", ""),  # a call of the library
    (r"\bmax_(rows|groups)\b(?!=)", r"--max-\1"),
)


def find_hint(error: DPError) -> str | None:
    """Return the hint of an error in the words of the command line."""
    hint = _HINTS.get(type(error), error.hint)
    if hint is None:
        return None
    for library, here in _SPELLINGS:
        hint = re.sub(library, here, hint)
    return _ARGUMENT.sub(
        lambda part: f"--{part[1].replace('_', '-')} {part[2].translate(_PYTHON_SIGNS)}", hint
    )


_PYTHON_SIGNS = str.maketrans("", "", "\"'(){},")
