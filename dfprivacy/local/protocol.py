"""A protocol as data: what the analyst publishes, and all that an owner needs to answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from dfprivacy.accounting.loss import Epsilon, Rho
from dfprivacy.errors import InvalidProtocolError
from dfprivacy.exact import describe
from dfprivacy.local.aggregate import Aggregate, read_aggregate
from dfprivacy.local.asks import Ask
from dfprivacy.local.kinds import PLANS
from dfprivacy.local.owner import report_one, report_table
from dfprivacy.local.plain import is_whole, read_whole
from dfprivacy.local.plan import Plan
from dfprivacy.local.sheet import Part, Sheet
from dfprivacy.local.users import MOST_USERS, part_edges
from dfprivacy.noise.entropy import EntropySource, system_entropy

FORMAT = "dfprivacy local 1"


@dataclass(frozen=True)
class Protocol:
    """One round of a survey in the local model; frozen, and JSON both ways.

    Privacy: `report` is private before it leaves its owner, for replacing the owner's value by any
    other one: pure with `loss` epsilon, zero-concentrated with `loss` rho. Every user belongs to
    one part of the users, by a public hash, and every part is asked in one round: nobody sends two
    messages (sequential interactivity). What is public: this protocol, the number of users, who
    reports in which round and group.

    Attributes
    ----------
    campaign : str
        The survey's public name. Who is in which part follows from it and the user.
    loss : Epsilon or Rho
        What a report costs its owner.
    users : int
        How many users there are: public.
    shares : tuple of Fraction
        The parts of the users, over all rounds.
    plan : Plan
        The analyst's method: what was found so far, and how the answer is read off.
    named : bool
        Whether users go by name (text) instead of an index from 0 to users - 1.
    round : int
        Which round this is, from 1.

    Examples
    --------
    >>> import dfprivacy as dfp
    >>> protocol = dfp.local.gaussian_mean(users=100_000, epsilon=1, sigma=2.0, limit=1000)
    >>> protocol.round, protocol.rounds
    (1, 2)
    >>> dfp.local.Protocol.from_json(protocol.to_json()) == protocol
    True
    >>> one = protocol.report(3.5, user=17)  # None for owners who answer in the next round
    >>> one is None or one["user"] == 17
    True
    """

    campaign: str
    loss: Epsilon | Rho
    users: int
    shares: tuple[Fraction, ...]
    plan: Plan
    named: bool = False
    round: int = 1

    def __post_init__(self) -> None:
        """Refuse rounds that there are not and parts that overlap: users would be asked again.

        So would they if one round had two spellings in JSON, as 1, 1.0 and true are.
        """
        if not is_whole(self.users, 1, MOST_USERS) or type(self.named) is not bool:
            raise InvalidProtocolError(
                "users are counted in whole numbers, and have names or have none",
                hint="plan with users=1000, named=False",
            )
        if sum(self.shares) != 1 or min(self.shares) < 0:
            raise InvalidProtocolError(
                "the parts of the users do not make a whole", hint="plan with dfp.local"
            )
        if not is_whole(self.round, 1, self.plan.rounds):
            raise InvalidProtocolError(
                f"there is no round {describe(self.round)} of {self.plan.rounds}",
                hint="take the next round from aggregate.next_round()",
            )

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return self.plan.rounds

    @cached_property
    def asks(self) -> tuple[Ask, ...]:
        """What the users of this round are asked."""
        return self.plan.asks(self.round)

    @cached_property
    def fingerprint(self) -> int:
        """A 63-bit number that every report of this round carries."""
        digest = hashlib.blake2b(self.to_json().encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1

    @cached_property
    def sheet(self) -> Sheet:
        """What the owner's and the analyst's side both go by."""
        edges, parts, first = [0, *part_edges(self.shares)], [], 0
        for ask in self.asks:
            low, high = edges[ask.part], edges[ask.part + 1]
            parts.append(Part(ask, ask.law(self.loss), low, high, first))
            first += ask.groups
        return Sheet(
            self.campaign, self.fingerprint, self.users, self.named, self.plan.limit, tuple(parts)
        )

    def report(
        self, value: float | None, user: int | str, *, entropy: EntropySource = system_entropy
    ) -> dict[str, Any] | None:
        """Return one owner's report; None where the user is not asked in this round.

        Parameters
        ----------
        value : float or None
            In units of the survey. Beyond the declared limit it is clipped; None and NaN make a
            report that carries nothing, and looks like any other.
        user : int or str
            Who reports. It decides on the group, and is sent along.

        Raises
        ------
        InvalidProtocolError
            When the user is no index below `users`, or no name where names are asked for.
        """
        return report_one(self.sheet, value, user, entropy)

    def reports(
        self, values: Any, users: Any = None, *, entropy: EntropySource = system_entropy
    ) -> Any:
        """Return the reports of many owners as an Arrow table: see `report`.

        `values` has one number an owner (NULL and NaN are missing), `users` who they are; without
        it they are 0, 1, 2, ... The table has the columns protocol, user, group and value, and one
        row for each user that is asked in this round.
        """
        return report_table(self.sheet, values, users, entropy)

    def aggregate(self, *reports: Any) -> Aggregate:
        """Add up reports of this round: see `Aggregate`.

        Each of `reports` is a frame, relation, reader, or the path of a Parquet file with the
        columns protocol, user, group and value. What is no report of this round is left out and
        counted in `Aggregate.rejected`.
        """
        return read_aggregate(self, reports)

    def next_round(self, aggregate: Aggregate) -> Protocol:
        """Return the protocol of the next round, given the reports of this one.

        Raises
        ------
        InvalidProtocolError
            When this is the last round, or the reports are those of another protocol.
        """
        self.check_own(aggregate)
        if self.round == self.rounds:
            raise InvalidProtocolError(
                f"round {self.round} of {self.rounds} is the last one",
                hint="read the answer: aggregate.estimate()",
            )
        return replace(self, plan=self.plan.after(self, aggregate), round=self.round + 1)

    def estimate(self, aggregate: Aggregate, *, interval: float = 0.95) -> Any:
        """Return the answer of the last round with its interval: see `LocalEstimate`.

        Raises
        ------
        InvalidProtocolError
            When another round follows, or the reports are those of another protocol.
        """
        self.check_own(aggregate)
        if self.round < self.rounds:
            raise InvalidProtocolError(
                f"this is round {self.round} of {self.rounds}; the last one has the answer",
                hint="publish the next one: protocol = aggregate.next_round()",
            )
        return self.plan.estimate(self, aggregate, interval)

    def check_own(self, aggregate: Aggregate) -> None:
        """Refuse an aggregate of another protocol or round."""
        if aggregate.protocol.fingerprint != self.fingerprint:
            raise InvalidProtocolError(
                "these reports answer another protocol, or another round of it",
                hint="aggregate the reports of this round: protocol.aggregate(reports)",
            )

    def to_json(self) -> str:
        """Return the protocol as JSON: what the analyst publishes. The same text every time."""
        loss = "epsilon" if isinstance(self.loss, Epsilon) else "rho"
        written = {
            "format": FORMAT,
            "campaign": self.campaign,
            loss: str(self.loss.value),
            "users": self.users,
            "named": self.named,
            "shares": [str(share) for share in self.shares],
            "round": self.round,
            "asks": [ask.to_json() for ask in self.asks],
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
        plan, loss = given["plan"], Epsilon if "epsilon" in given else Rho
        protocol = cls(
            campaign=given["campaign"],
            loss=loss(Fraction(given["epsilon" if loss is Epsilon else "rho"])),
            users=given["users"],
            shares=tuple(Fraction(share) for share in given["shares"]),
            plan=PLANS[plan["kind"]].from_json(plan),
            named=given["named"],
            round=given["round"],
        )
        _ = protocol.sheet  # refuses parts that can't be asked
        return protocol
