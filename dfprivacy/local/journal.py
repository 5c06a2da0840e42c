"""Remember what an owner has answered, so that no analyst gets a second report out of anybody.

Who answers in which round is fixed by the campaign's name, the shares of its parts and the user. A
journal holds on to these: one entry a campaign and round, written before a report is drawn, and a
later round must keep to the terms of the earlier ones.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from dfprivacy.errors import AlreadyReportedError, LedgerFileError
from dfprivacy.local.protocol import Protocol


class Journal:
    """A folder at the owner's that remembers campaigns, for one user or many.

    Many users all answer in one call. Privacy: with all reports made through one journal, every
    user sends at most one message a campaign (sequential interactivity), whatever the analyst
    publishes; a campaign costs each user what its protocol says, once.

    Entries are kept in `folder`, which is made if it is not there.

    >>> import dfprivacy as dfp, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> journal = dfp.local.Journal(folder.name)
    >>> protocol = dfp.local.gaussian_mean(users=1000, epsilon=2, sigma=1.0, limit=8)
    >>> reports = journal.reports(protocol, [0.5] * 1000)
    >>> journal.reports(protocol, [0.5] * 1000)
    Traceback (most recent call last):
    ...
    dfprivacy.errors.AlreadyReportedError: round 1 of this campaign was answered before
    ...
    >>> folder.cleanup()
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(self._folder) from error

    def report(self, protocol: Protocol, value: float | None, user: int | str) -> Any:
        """Return one owner's report as `Protocol.report` does, and remember that it was made.

        Raises
        ------
        AlreadyReportedError, LedgerFileError
            When this round was answered before, terms have changed, or nothing can be written.
        """
        self._enter(protocol)
        return protocol.report(value, user)

    def reports(self, protocol: Protocol, values: Any, users: Any = None) -> Any:
        """Return many owners' reports as `Protocol.reports` does: all users at once, or never."""
        self._enter(protocol)
        return protocol.reports(values, users)

    def _enter(self, protocol: Protocol) -> None:
        """Write an entry for this round, unless there is one or its terms have changed."""
        terms = {name: each for name, each in protocol.terms().items() if name != "asks"}
        terms |= {"kind": protocol.plan.kind, "rounds": protocol.rounds}
        name = hashlib.blake2b(protocol.campaign.encode(), digest_size=16).hexdigest()
        for earlier in self._folder.glob(f"{name}-*.json"):
            if json.loads(earlier.read_text(encoding="utf-8")) != terms:
                raise AlreadyReportedError(
                    "the terms of this campaign are not those of an earlier round",
                    hint="ask the analyst for the protocol that aggregate.next_round() gave",
                )
        try:
            _write(self._folder / f"{name}-{protocol.round:d}.json", terms)
        except FileExistsError:
            raise AlreadyReportedError(
                f"round {protocol.round} of this campaign was answered before",
                hint="send the reports that were made then once more; new ones would cost again",
            ) from None
        except OSError as error:
            raise _unusable(self._folder) from error


def _write(path: Path, terms: dict[str, Any]) -> None:
    """Write an entry that is whole and durable before anybody can see it."""
    draft = path.with_suffix(f".{os.getpid()}")
    with draft.open("x", encoding="utf-8") as file:
        json.dump(terms, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _unusable(folder: Path) -> LedgerFileError:
    return LedgerFileError(
        f"the journal {str(folder)!r} can't be written; no report was made",
        hint="name a folder on a local disk in which you may write",
    )
