"""A protocol of the shuffle model as data: what the analyst publishes to all users."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import pyarrow as pa

from dfprivacy.errors import InvalidProtocolError
from dfprivacy.exact import describe
from dfprivacy.local.columns import value_matrix
from dfprivacy.local.plain import is_whole, read_whole
from dfprivacy.local.response import checked_epsilon
from dfprivacy.local.users import MOST_USERS
from dfprivacy.noise.entropy import EntropySource, system_entropy
from dfprivacy.shuffle.budget import shared
from dfprivacy.shuffle.plan import Plan
from dfprivacy.shuffle.quantiles import Quantile
from dfprivacy.shuffle.queries import Sums
from dfprivacy.shuffle.totals import Total
from dfprivacy.shuffle.vectors import Vectors
from dfprivacy.terms import interval_level

FORMAT = "dfprivacy shuffle 1"
PLANS: dict[str, type[Plan]] = {plan.kind: plan for plan in (Total, Quantile, Vectors)}


@dataclass(frozen=True)
class Protocol:
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
        """Return the protocol of the next round: the analyser, after the shuffler.

        Raises
        ------
        InvalidProtocolError
            When the messages are not those of all users.
        """
        self._open()
        totals = self.sums_of(self.round).analyse(messages)
        return replace(self, plan=self.plan.after(totals, self), round=self.round + 1)

    def estimate(self, *, interval: float = 0.95) -> Any:
        """Return the answer, when all rounds are done.

        Raises
        ------
        InvalidProtocolError
            When rounds are left.
        """
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

    def to_json(self) -> str:
        """Return the protocol as JSON: what the analyst publishes."""
        written = {
            "format": FORMAT,
            "users": self.users,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "round": self.round,
            "plan": self.plan.to_json(),
        }
        return json.dumps(written, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the protocol that `to_json` has written.

        Raises
        ------
        InvalidProtocolError
            When the text is no protocol.
        """
        return read_whole(text, cls._read)

    @classmethod
    def _read(cls, given: Mapping[str, Any]) -> Self:
        if given["format"] != FORMAT:
            raise ValueError(given["format"])
        plan = PLANS[given["plan"]["kind"]].from_json(given["plan"])
        cost = Fraction(given["epsilon"]), Fraction(given["delta"])
        return cls(given["users"], *cost, plan, given["round"]).checked()
