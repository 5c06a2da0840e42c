"""`--explain`: what a call would cost and how wrong it would be, without making it."""

from __future__ import annotations

from rich.console import Console

from dfprivacy.forecast.explanation import Explanation
from dfprivacy.frontends.cli_job import Job, split_keys
from dfprivacy.frontends.cli_output import check_output, show_line


def explain(job: Job) -> None:
    """Print the explanation of a call; the file is not read, and a ledger is not charged."""
    check_output(job.output, job.file)
    rows = split_keys(job.by, job.keys) if job.keys else []
    keys = [row[0] if len(row) == 1 else row for row in rows] or None  # only their number matters
    frame = job.private.group_by(*job.by, keys=keys) if job.by else job.private
    show_explanation(job.ask(frame.explain))


def show_explanation(explanation: Explanation) -> None:
    """Print an explanation, line by line."""
    console = Console()
    for line in repr(explanation).splitlines():
        show_line(console, line)
