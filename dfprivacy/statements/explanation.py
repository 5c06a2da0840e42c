"""What a statement would do and cost: a value that prints as a plan, and holds public facts."""

from __future__ import annotations

from dataclasses import dataclass

from dfprivacy.accounting.charge import Budget
from dfprivacy.forecast.explanation import Draw, Explanation

__all__ = ["Draw", "StatementExplanation"]


@dataclass(frozen=True, repr=False, kw_only=True)
class StatementExplanation(Explanation):
    """The plan of a statement and its cost. Making one reads no row and spends nothing.

    `epsilon` and `delta` are what the whole statement costs one privacy unit, the sum over
    `draws`. `row_query` is what runs over the protected relation, `released_query` what runs over
    the released answers; `calls` pairs each dp_ call with the question that it asks. `answers`
    go by their calls; the rest is that of every `Explanation`.

    `on_connection` is what the same text costs at most where the functions of `sql_udfs.register`
    run it: each dp_ call pays there, dp_keep too, with the epsilon that the connection was
    registered with (or that of this explanation) where it names none. None for frames, for units,
    which the functions can't protect, and where DuckDB may draw a call several times: `remark` says
    what the page says of it.
    """

    relation: str
    keys: tuple[str, ...]
    selection: str
    row_query: str
    calls: tuple[tuple[str, str], ...]
    released_query: str
    target: str | None
    on_connection: Budget | None = None
    remark: str = ""

    def head(self) -> list[tuple[str, str]]:
        """Return the plan, one line a step."""
        return [
            ("protects", self.protects),
            ("relation", self.relation),
            ("rows", self.row_query),
            ("groups", f"{', '.join(self.keys)}: {self.selection}" if self.keys else "none"),
            *(("asks", f"{call} -> {question}") for call, question in self.calls),
            *(("spends", draw.text) for draw in self.draws),
            ("then", self.released_query),
            *([("into", self.target)] if self.target else []),
            ("costs", self.cost),
            *([("functions", self.remark)] if self.remark else []),
            *self.details(),
        ]

    def lines(self) -> list[str]:
        """Return the head, one line a step however long it is: SQL stays as it is."""
        return [f"{title:<9} {text}" for title, text in self.head()]
