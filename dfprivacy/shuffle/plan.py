"""What an analyst's method has to say about each round in the shuffle model."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dfprivacy.noise.entropy import EntropySource
from dfprivacy.shuffle.queries import Floats, Integers

if TYPE_CHECKING:
    from dfprivacy.shuffle.protocol import Protocol


class Plan(abc.ABC):
    """A method and what it has found so far: public, frozen, and JSON both ways."""

    kind: ClassVar[str]

    @property
    def width(self) -> int:
        """How many numbers a value has, where it is a vector; 0 for a plain number."""
        return 0

    @property
    @abc.abstractmethod
    def weights(self) -> tuple[tuple[Fraction, int], ...]:
        """Which part of the loss each sum of a round gets, and how many sums; by round."""

    @abc.abstractmethod
    def precision(self, round_: int) -> int:
        """Return the largest integer that a user adds to a sum."""

    @abc.abstractmethod
    def encode(self, values: Floats, round_: int, entropy: EntropySource) -> Integers:
        """Return each user's integers, one column a sum; NaN is a value that is missing."""

    @abc.abstractmethod
    def after(self, totals: Sequence[int], protocol: Protocol) -> Self:
        """Return the plan with what a round's noisy totals have shown."""

    @abc.abstractmethod
    def estimate(self, protocol: Protocol, level: float) -> Any:
        """Return the answer, after the last round."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON can hold it."""
        own = asdict(self)  # type: ignore[call-overload]  # every plan is a dataclass
        listed = {n: list(v) if isinstance(v, tuple) else v for n, v in own.items()}
        return {"kind": self.kind, **listed}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the plan that `to_json` has written."""
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        return cls(**{n: _frozen(given[n]) for n in names})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
