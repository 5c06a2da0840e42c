"""`--explain`: what a call would cost and how wrong it would be, without making it."""

from __future__ import annotations

import csv

from rich.console import Console

from dfprivacy.errors import InvalidKeysError
from dfprivacy.forecast.explanation import Explanation
from dfprivacy.frontends.cli_job import Job
from dfprivacy.frontends.cli_output import check_output, show_line


def explain(job: Job) -> None:
    """Print the explanation of a call; the file is not read, and a ledger is not charged."""
    check_output(job.output, job.file)
    if job.keys and not job.by:
        raise InvalidKeysError("--keys need a column to group by", hint="add --by COLUMN")
    frame = job.private.group_by(*job.by, keys=_keys(job)) if job.by else job.private
    show_explanation(job.ask(frame.explain))


def _keys(job: Job) -> list[object] | None:
    """Return public keys as they were typed: only their number matters here."""
    if not job.keys:
        return None
    return list(job.keys) if len(job.by) == 1 else [tuple(row) for row in csv.reader(job.keys)]


def show_explanation(explanation: Explanation) -> None:
    """Print an explanation, line by line."""
    console = Console()
    for line in repr(explanation).splitlines():
        show_line(console, line)
