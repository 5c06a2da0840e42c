"""What an analyst's method has to say about each round."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dfprivacy.errors import InvalidProtocolError
from dfprivacy.local.asks import Ask

if TYPE_CHECKING:
    from dfprivacy.local.aggregate import Aggregate
    from dfprivacy.local.protocol import Protocol


class Plan(abc.ABC):
    """A method and what it has found so far: public, frozen, and JSON both ways."""

    kind: ClassVar[str]
    rounds: int

    @property
    @abc.abstractmethod
    def limit(self) -> float:
        """Values are clipped to -limit and limit at their owner's."""

    @abc.abstractmethod
    def asks(self, round_: int) -> tuple[Ask, ...]:
        """Return what the users of a round are asked."""

    @abc.abstractmethod
    def after(self, protocol: Protocol, aggregate: Aggregate) -> Self:
        """Return the plan with what the reports of a round have shown."""

    @abc.abstractmethod
    def estimate(self, protocol: Protocol, aggregate: Aggregate, interval: float) -> Any:
        """Return the answer, given the reports of the last round."""

    def spread_of(self, protocol: Protocol, aggregate: Aggregate) -> float:  # noqa: ARG002 one interface
        """Return the standard deviation that the reports show, where the method looks for one."""
        raise InvalidProtocolError(
            "this protocol does not look for a standard deviation",
            hint="plan one that does: dfp.local.gaussian_mean(users=..., epsilon=...)",
        )

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON can hold it."""

    @classmethod
    @abc.abstractmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the plan that `to_json` has written."""
