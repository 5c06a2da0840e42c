"""Report the progress of a run: sentences for people, or one JSON object per line on stderr.

Privacy: a log line holds the description, costs, times, released row counts and published errors.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from rich.console import Console

from dfprivacy.cli.output import show_error, show_line


class LogFormat(StrEnum):
    """Format of the messages of a run."""

    TEXT = "text"
    JSON = "json"


@dataclass
class RunLog:
    """Messages of one run, with the name and the start of the release that is being made.

    Programs read the log where it `is_json`.
    """

    is_json: bool
    release: str | None = None
    start: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """The duration of the current release so far, or that of the run before the first."""
        return round(time.monotonic() - self.start, 3)

    def write_event(self, event: str, **fields: Any) -> None:
        """Write one JSON object with the time in UTC and the name of the release."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "event": event, "release": self.release, **fields}
        sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()

    def warn(self, message: str) -> None:
        """Write a warning."""
        if self.is_json:
            self.write_event("warning", message=message)
        else:
            show_line(Console(stderr=True), f"Warning: {self.release}: {message}")

    def report_error(self, error: BaseException, hint: str | None, exit_code: int) -> None:
        """Write a published error and its remedy."""
        message, name = getattr(error, "message", str(error)), type(error).__name__
        if self.is_json:
            fields: Any = {"error": name, "message": message, "hint": hint, "exit_code": exit_code}
            self.write_event("error", seconds=self.seconds, **fields)
        else:
            show_error(Console(stderr=True), message, hint)
