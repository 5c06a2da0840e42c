"""What a statement would do and cost: a value that prints as a plan, and holds public facts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dfprivacy.accounting.charge import short


@dataclass(frozen=True)
class Draw:
    """One noisy vector or selection: its epsilon, and the questions that it answers."""

    epsilon: float
    questions: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Explanation:
    """The plan of a statement and its cost. Making one reads no row and spends nothing.

    `epsilon` and `delta` are what the whole statement costs one privacy unit, the sum over
    `draws`. `row_query` is what runs over the protected relation, `released_query` what runs over
    the released answers; `calls` pairs each dp_ call with the question that it asks.
    """

    relation: str
    protects: str
    keys: tuple[str, ...]
    selection: str
    row_query: str
    calls: tuple[tuple[str, str], ...]
    draws: tuple[Draw, ...]
    released_query: str
    target: str | None
    epsilon: float
    delta: float

    def __repr__(self) -> str:
        """Show the plan, one line a step."""
        cost = f"epsilon {short(Fraction(repr(self.epsilon)))}"
        cost += f", delta {short(Fraction(repr(self.delta)))}" if self.delta else ""
        lines = [
            ("protects", self.protects),
            ("relation", self.relation),
            ("rows", self.row_query),
            ("groups", f"{', '.join(self.keys)}: {self.selection}" if self.keys else "none"),
            *(("asks", f"{call} -> {question}") for call, question in self.calls),
            *(("draws", _drawn(draw)) for draw in self.draws),
            ("then", self.released_query),
            *([("into", self.target)] if self.target else []),
            ("costs", cost),
        ]
        return "\n".join(f"{name:<9} {text}" for name, text in lines)


def _drawn(draw: Draw) -> str:
    return f"epsilon {draw.epsilon:.6g} for {', '.join(draw.questions)}"
