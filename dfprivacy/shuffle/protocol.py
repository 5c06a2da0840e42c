"""Run a protocol of the shuffle model: messages of users, and what their totals show."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import pyarrow as pa

from dfprivacy.errors import InvalidProtocolError
from dfprivacy.exact import describe
from dfprivacy.local import published
from dfprivacy.local.published import MOST_USERS, Published, is_whole
from dfprivacy.local.randomisers import Floats, Integers, checked_epsilon
from dfprivacy.local.reports import value_matrix
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.release.permit import permit
from dfprivacy.shuffle.sums import Sums, shared, shuffle
from dfprivacy.terms import INTERVAL, interval_level


class Plan(published.Plan):
    """What an analyst's method has to say about each round."""

    kinds: ClassVar[dict[str, type[Any]]] = {}

    @property
    def width(self) -> int:
        """How many numbers a value has, where it is a vector; 0 for a plain number."""
        return 0

    @property
    @abc.abstractmethod
    def weights(self) -> tuple[tuple[Fraction, int], ...]:
        """Which part of the loss each sum of a round gets, and how many sums; by round."""

    def precision(self, round_: int) -> int:  # noqa: ARG002 one interface
        """Return the largest integer that a user adds to a sum: 1 where users are counted."""
        return 1

    @abc.abstractmethod
    def encode(self, values: Floats, round_: int, entropy: EntropySource) -> Integers:
        """Return each user's integers, one column a sum; NaN is a value that is missing."""

    @abc.abstractmethod
    def estimate(self, protocol: Protocol, level: float) -> Any:
        """Return the answer, after the last round."""


@dataclass(frozen=True)
class Protocol(Published):
    """One round of a protocol in the shuffle model; frozen, and JSON both ways.

    Privacy: what the analyser sees in all rounds together, the shuffled messages of all users, is
    (epsilon, delta)-differentially private for replacing one user's value by any other one, as
    long as the shuffler is trusted and all users follow the protocol. Users who leave out their
    noise take their share of it away; messages alone, unshuffled, hide nothing. Public: this
    protocol, the number of users.

    Attributes
    ----------
    users : int
        How many users there are, all of whom answer every round.
    epsilon, delta : Fraction
        What all rounds together cost.
    plan : Plan
        The analyst's method and what it has found so far.
    round : int
        Which round this is, from 1; one more than `rounds` when all is done.

    Examples
    --------
    >>> import dfprivacy as dfp
    >>> protocol = dfp.shuffle.total(users=1000, bounds=(0, 10), epsilon=1, delta=1e-6)
    >>> messages = dfp.shuffle.shuffle(protocol.messages([4.0] * 1000))
    >>> 3500 < protocol.analyse(messages).estimate() < 4500
    True
    """

    FORMAT = "dfprivacy shuffle 1"
    users: int
    epsilon: Fraction
    delta: Fraction
    plan: Plan
    round: int = 1

    def __post_init__(self) -> None:
        """Refuse users and rounds that there are not: a round would be paid as another one."""
        if not is_whole(self.users, 1, MOST_USERS) or not is_whole(self.round, 1, self.rounds + 1):
            raise InvalidProtocolError(
                f"there is no round {describe(self.round)} of {self.rounds}, or no such users",
                hint="take the next round from protocol.analyse(shuffled)",
            )

    def checked(self) -> Self:
        """Refuse a loss beyond reach, and sums that are too large or have too few users."""
        checked_epsilon(self.epsilon)
        for round_ in range(1, self.rounds + 1):
            self.sums_of(round_).checked()
        return self

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.plan.weights)

    @property
    def finished(self) -> bool:
        """Whether all rounds are done."""
        return self.round > self.rounds

    def sums_of(self, round_: int) -> Sums:
        """Return the sums of a round, with the share of epsilon and delta that each may spend."""
        weights = self.plan.weights
        share = shared(self.epsilon, self.delta, self.users, weights)[round_ - 1]
        return Sums(self.users, weights[round_ - 1][1], self.plan.precision(round_), share)

    @permit("the users' own messages")
    def messages(self, values: Any, *, entropy: EntropySource = system_entropy) -> pa.Table:
        """Return the messages of some users: the randomiser, at each of them.

        Parameters
        ----------
        values : array, column or list
            One number a user (vectors: one row a user). NULL and NaN are missing.

        Returns
        -------
        pyarrow.Table
            Columns query and word. Hand it to the shuffler: unshuffled it protects nobody.
        """
        self._open()
        floats = value_matrix(values, self.plan.width)
        integers = self.plan.encode(floats, self.round, entropy)
        return self.sums_of(self.round).randomise(integers, entropy)

    def analyse(self, messages: pa.Table) -> Protocol:
        """Return the protocol of the next round: the analyser, with the messages of all users."""
        self._open()
        totals = self.sums_of(self.round).analyse(messages)
        return replace(self, plan=self.plan.after(self, totals), round=self.round + 1)

    def estimate(self, *, interval: float = 0.95) -> Any:
        """Return the answer, when all rounds are done."""
        if not self.finished:
            raise InvalidProtocolError(
                f"round {self.round} of {self.rounds} has not been analysed",
                hint="collect its messages: protocol = protocol.analyse(shuffled)",
            )
        return self.plan.estimate(self, interval_level(interval))

    def _open(self) -> None:
        if self.finished:
            raise InvalidProtocolError(
                "all rounds are done", hint="read the answer: protocol.estimate()"
            )

    def terms(self) -> dict[str, Any]:
        """Return what is published beside the round and the plan."""
        return {"users": self.users, "epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """Return the protocol of a JSON object, checked as a new one is."""
        plan = Plan.from_json(given["plan"])
        cost = Fraction(given["epsilon"]), Fraction(given["delta"])
        return cls(given["users"], *cost, plan, given["round"]).checked()


def simulate(
    protocol: Protocol,
    values: Any,
    *,
    interval: float = INTERVAL,
    entropy: EntropySource = system_entropy,
) -> Any:
    """Run all rounds of a protocol over a column of values: randomisers, shuffler, analyser."""
    while not protocol.finished:
        messages = protocol.messages(values, entropy=entropy)
        protocol = protocol.analyse(shuffle(messages, entropy=entropy))
    return protocol.estimate(interval=interval)
