"""What a caller names: a ledger's file, the datasets in it, their versions, a note."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

from dfprivacy.errors import InvalidLedgerError
from dfprivacy.exact import describe, exact_number

_LONGEST = 200  # characters of a dataset's name


def file_path(path: object) -> Path:
    """Return where a ledger's file is, from any directory.

    Raises
    ------
    InvalidLedgerError
        Unless it is text or a Path.
    """
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise InvalidLedgerError(
            f"a ledger is a file, not {describe(path)}",
            hint='name it: dfp.Ledger("budget.db", epsilon=10)',
        )
    return Path(path).absolute()


def seconds(timeout: object) -> float:
    """Return how long to wait for others.

    Raises
    ------
    InvalidLedgerError
        Unless it is a number from 0 to a million.
    """
    exact = exact_number(timeout)
    if exact is None or not 0 <= exact <= 10**6:
        raise InvalidLedgerError(
            f"timeout must be a number of seconds, not {describe(timeout)}", hint="pass timeout=5"
        )
    return float(exact)


def dataset_name(dataset: object) -> str:
    """Return the name of an account; two spellings of one text are one name.

    Raises
    ------
    InvalidLedgerError
        Unless it is a text of 1 to 200 printable characters without spaces at its ends.
    """
    name = _readable(dataset)
    if name is None:
        raise InvalidLedgerError(
            "the dataset that a ledger charges has no usable name",
            hint='name it as it is named everywhere, e.g. dataset="flights"',
        )
    return name


def version_name(version: object) -> str | None:
    """Return what the caller calls this state of the data, or None.

    Raises
    ------
    InvalidLedgerError
        Unless it is a text like the name of a dataset.
    """
    name = _readable(version)
    if name is None and version is not None:
        raise InvalidLedgerError(
            f"the version of a dataset is a short text, not {describe(version)}",
            hint='name the state of the data, e.g. version="2026-11-20"',
        )
    return name


def _readable(text: object) -> str | None:
    """Return a text in one spelling, if it can be read and typed again."""
    if isinstance(text, str) and len(text) <= _LONGEST:
        name = unicodedata.normalize("NFC", text)
        if name and name == name.strip() and name.isprintable():
            return name
    return None


def note_text(note: object) -> str | None:
    """Return a caller's note to the history.

    Raises
    ------
    InvalidLedgerError
        Unless it is a text that can be stored.
    """
    if note is None:
        return None
    if isinstance(note, str) and note == note.encode("utf-8", "replace").decode():
        return note
    raise InvalidLedgerError(
        f"a note is a text, not {describe(note)}", hint='pass note="monthly report"'
    )
