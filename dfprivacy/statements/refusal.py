"""A refusal: it names a construct, says why and shows a rewrite."""

from __future__ import annotations

from dataclasses import dataclass

from dfprivacy.errors import RefusedStatementError


@dataclass(frozen=True)
class Refusal:
    """A construct in the caller's words, why it is refused, and what to write in its place."""

    construct: str
    why: str
    rewrite: str

    def error(self) -> RefusedStatementError:
        """Return the error to raise."""
        return RefusedStatementError(f"{self.construct}: {self.why}", hint=self.rewrite)
