"""What a statement would do and cost: a value that prints as a plan, and holds public facts."""

from __future__ import annotations

from dataclasses import dataclass

from dfprivacy.forecast.explanation import Draw, Explanation

__all__ = ["Draw", "StatementExplanation"]


@dataclass(frozen=True, repr=False, kw_only=True)
class StatementExplanation(Explanation):
    """The plan of a statement and its cost. Making one reads no row and spends nothing.

    `epsilon` and `delta` are what the whole statement costs one privacy unit, the sum over
    `draws`. `row_query` is what runs over the protected relation, `released_query` what runs over
    the released answers; `calls` pairs each dp_ call with the question that it asks. `answers`
    go by their calls; the rest is that of every `Explanation`.
    """

    relation: str
    keys: tuple[str, ...]
    selection: str
    row_query: str
    calls: tuple[tuple[str, str], ...]
    released_query: str
    target: str | None

    def head(self) -> list[tuple[str, str]]:
        """Return the plan, one line a step."""
        return [
            ("protects", self.protects),
            ("relation", self.relation),
            ("rows", self.row_query),
            ("groups", f"{', '.join(self.keys)}: {self.selection}" if self.keys else "none"),
            *(("asks", f"{call} -> {question}") for call, question in self.calls),
            *(("draws", draw.text) for draw in self.draws),
            ("then", self.released_query),
            *([("into", self.target)] if self.target else []),
            ("costs", self.cost),
            *self.details(),
        ]

    def lines(self) -> list[str]:
        """Return the head, one line a step however long it is: SQL stays as it is."""
        return [f"{title:<9} {text}" for title, text in self.head()]
