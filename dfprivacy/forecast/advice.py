"""What to change so that an answer errs half as much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.unit import Unit


class Asked(Protocol):
    """A question that knows what changes of its own halve its error."""

    @property
    def halve(self) -> tuple[str, ...]:
        """The changes."""


@dataclass(frozen=True)
class Circumstances:
    """What a forecast depends on besides its part: public facts.

    `loss` is the whole loss of the call, `draws` how many draws share it; `integers` holds the
    columns that are declared to hold integers.
    """

    level: float
    loss: Epsilon | Rho
    unit: Unit | None
    grouped: bool
    draws: int
    integers: frozenset[object] = frozenset()


def halving(question: Asked, circumstances: Circumstances) -> tuple[str, ...]:
    """Return changes each of which halves the error, to first order."""
    return (
        halving_loss(circumstances.loss), *question.halve,
        *_limits(circumstances), *_alone(circumstances),
    )  # fmt: skip


def halving_loss(loss: Epsilon | Rho) -> str:
    """Return the loss that halves an error."""
    return "2 x epsilon" if isinstance(loss, Epsilon) else "4 x rho"


def _limits(circumstances: Circumstances) -> list[str]:
    unit = circumstances.unit
    if unit is None or (unit.max_rows == 1 and not circumstances.grouped):
        return []
    if isinstance(circumstances.loss, Epsilon):
        return ["half of max_rows x groups of a unit"]
    return ["half of max_rows, or a quarter of a unit's groups"]


def _alone(circumstances: Circumstances) -> list[str]:
    """Say how many draws share the loss: asked alone, an answer gets all of it."""
    needed = 2 if isinstance(circumstances.loss, Epsilon) else 4
    return ["ask it alone"] if circumstances.draws >= needed else []
