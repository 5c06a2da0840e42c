"""Typed errors as messages on stderr, in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from dfprivacy.errors import (
    BudgetExceededError,
    DPError,
    EngineError,
    InvalidLedgerError,
    MissingBoundsError,
    MissingDeltaError,
)
from dfprivacy.frontends.cli_output import show_error, show_line

INTERRUPTED = "Interrupted; what a ledger shows as charged stays charged"

_HINTS: dict[type[DPError], str] = {
    MissingBoundsError: "add bounds that you know without looking at the data, e.g. --bounds 0 "
    "100, or choose a method that finds them: transformed, subset, dick, inverse",
    BudgetExceededError: "ask for no more than what is left: dfprivacy ledger show FILE",
    MissingDeltaError: "add --delta 1e-6, or list keys that are public anyway: --keys AA --keys UA",
    InvalidLedgerError: "name the ledger and the dataset: --ledger budget.db --dataset flights",
    EngineError: "check that it is a whole CSV, TSV or Parquet file, with column names, and that "
    "--memory suffices",
}
_SPELLINGS = (  # the library's words, as they are spelled on the command line
    (r"that Ledger\(path, epsilon=\.\.\.\) made", "that dfprivacy ledger create has made"),
    (r"Ledger\(path, epsilon=10\)", "dfprivacy ledger create FILE --epsilon 10"),
    (r"or keep a ledger in rho: .*", "or charge a ledger made with --rho"),
    (r"edges such as \[0, 10, 100\]", "--edge 0 --edge 10 --edge 100"),
    (r"\[0\.25, 0\.5, 0\.75\]", "--q 0.25 --q 0.5 --q 0.75"),
    (r"pass 0\.5 for the median, 0\.9 for", "pass --q 0.5 for the median, --q 0.9 for"),
    (r"leave bounds out", "leave --bounds out"),
    (r"\bbounds=\((.+?), (.+?)\)", r"--bounds \1 \2"),
    (r"\b(epsilon|rho|delta|interval|p|rank|bins)=", r"--\1 "),
    (r'group_by\("(\w+)", "(\w+)"\)', r"--by \1 --by \2"),
    (r"name the answer: .* or rename", "rename"),
    (
        r"dfp\.Engine\(.*\)",
        "--memory 1GB --threads 2 --temporary DIR",
    ),
    (
        r"dfp\.suggest_limits\(df, unit='user_id', by='city'\)",
        "dfprivacy limits FILE --unit user_id",
    ),
    (r"\bmax_(rows|groups)=", r"--max-\1 "),
    (r"\bmax_(rows|groups)\b", r"--max-\1"),
    (r'\bunit="(\w+)"', r"--unit \1"),
    (r"group_by\(\.\.\., keys=\[\.\.\.\]\)", "--keys AA --keys UA"),
    (r"pass \(lower, upper\): ", "lower, then upper: "),
    (r"list keys that can be read", "give --keys that can be read"),
)


@contextmanager
def readable_errors() -> Iterator[None]:
    """Turn a typed error into a message on stderr and exit code 2, Ctrl-C into a line and 130."""
    try:
        yield
    except DPError as error:
        show_error(Console(stderr=True), error.message, hint_of(error))
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        show_line(Console(stderr=True), INTERRUPTED)
        raise typer.Exit(130) from None


def hint_of(error: DPError) -> str | None:
    """Return what to do, in the words of the command line."""
    hint = _HINTS.get(type(error), error.hint)
    for library, here in _SPELLINGS if hint else ():
        hint = re.sub(library, here, hint or "")
    return hint
